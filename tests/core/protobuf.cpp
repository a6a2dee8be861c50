// The wire reader and writer.
#include <doctest/doctest.h>
#include <graft/core/protobuf.hpp>

#include <initializer_list>

namespace {

using bytes = std::vector<std::uint8_t>;

// Reads all fields and tells the fault, "" where there is none.
std::string fault_of(const bytes& data, int nesting = 64) {
    graft::wire_source source;
    source.bytes = {data.data(), data.size()};
    source.name = "f";
    source.nesting = nesting;
    graft::wire_reader r(source, source.bytes);
    while (r.next()) {
    }
    const graft::status s = r.finish();
    return s.ok() ? "" : graft::text(s.error().code());
}

}  // namespace

TEST_CASE("Fields that are written are read back") {
    bytes data;
    graft::wire_writer w(data);
    w.integer(1, -5);
    w.real(2, 1.5f);
    const std::size_t mark = w.begin(3);
    w.text(1, std::string(300, 'a'));
    w.end(mark);
    w.text(4, "");
    graft::wire_source source;
    source.bytes = {data.data(), data.size()};
    graft::wire_reader r(source, source.bytes);
    std::int64_t integer = 0;
    float real = 0;
    std::string text;
    graft::wire_bytes part;
    REQUIRE(r.next());
    CHECK((r.field() == 1 && r.integer(integer) && integer == -5));
    REQUIRE(r.next());
    CHECK((r.field() == 2 && r.real(real) && real == 1.5f));
    REQUIRE(r.next());
    CHECK((r.field() == 3 && r.bytes(part) && part.size == 303));
    graft::wire_reader inner(source, part);
    REQUIRE(inner.next());
    CHECK((inner.text(text) && text == std::string(300, 'a')));
    REQUIRE(r.next());
    CHECK((r.field() == 4 && r.text(text) && text.empty()));
    CHECK(!r.next());
    CHECK(r.finish().ok());
}

TEST_CASE("Numbers in a list are read packed and one by one, mixed") {
    const bytes data{0x08, 5, 0x0a, 3, 1, 0x80, 1, 0x08, 7};
    graft::wire_source source;
    source.bytes = {data.data(), data.size()};
    graft::wire_reader r(source, source.bytes);
    std::vector<std::int64_t> list;
    std::int64_t count = 0;
    while (r.next()) {
        CHECK(r.add(list));
        CHECK(r.count(0, count));
    }
    CHECK(r.finish().ok());
    CHECK(list == std::vector<std::int64_t>{5, 1, 128, 7});
    CHECK(count == 4);
}

TEST_CASE("A list of floats may be packed, one by one, and empty") {
    const bytes data{0x0d, 0, 0, 0x80, 0x3f, 0x0a, 0, 0x0a, 8, 0, 0, 0, 0x40, 0, 0, 0x40, 0x40};
    graft::wire_source source;
    source.bytes = {data.data(), data.size()};
    graft::wire_reader r(source, source.bytes);
    std::vector<float> list;
    while (r.next()) CHECK(r.add(list));
    CHECK(r.finish().ok());
    CHECK(list == std::vector<float>{1, 2, 3});
}

TEST_CASE("The first fault is the one that is told, with the byte at which its field begins") {
    const bytes data{0x08, 5, 0x10, 6};
    graft::wire_source source;
    source.bytes = {data.data(), data.size()};
    source.name = "f";
    for (const int fields : {0, 1, 2}) {
        graft::wire_reader r(source, source.bytes);
        for (int i = 0; i < fields; ++i) REQUIRE(r.next());
        CHECK(!r.fault("the first"));
        CHECK(!r.fault("the second"));
        CHECK(!r.next());
        const std::string offset = fields == 2 ? "2" : "0";
        REQUIRE(!r.finish().ok());
        CHECK(std::string(r.finish().error().what()) == "model.malformed: f: the first, in the field at byte " + offset);
    }
}

TEST_CASE("Faults of the wire format are named") {
    CHECK(fault_of({}) == "");
    CHECK(fault_of({0x08}) == "model.truncated");
    CHECK(fault_of({0x0a, 5, 1}) == "model.truncated");
    CHECK(fault_of({0x0d, 1, 2}) == "model.truncated");
    CHECK(fault_of({0x00, 1}) == "model.malformed");  // field 0
    CHECK(fault_of({0x0e, 1}) == "model.malformed");  // wire type 6
    CHECK(fault_of({0x0f, 1}) == "model.malformed");  // wire type 7
    CHECK(fault_of({0x0c}) == "model.malformed");     // a group ends
    CHECK(fault_of({0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}) == "model.malformed");
    CHECK(fault_of({0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}) == "");
    CHECK(fault_of({0x0a, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}) == "model.truncated");
}

TEST_CASE("Groups of unknown fields are skipped, to the limit of their nesting") {
    CHECK(fault_of({0x0b, 0x10, 1, 0x0c, 0x08, 1}) == "");
    CHECK(fault_of({0x0b, 0x13, 0x14, 0x0c}) == "");
    CHECK(fault_of({0x0b, 0x14}) == "model.malformed");
    CHECK(fault_of({0x0b, 0x10, 1}) == "model.truncated");
    CHECK(fault_of({0x0b, 0x13, 0x14, 0x0c}, 1) == "model.too_deep");
    CHECK(fault_of(bytes(1000000, 0x0b)) == "model.too_deep");
}

TEST_CASE("A field that is longer than what is left is a fault, by one byte or by all, in the file's last part or before") {
    const auto bytes_left = [](std::size_t claimed, std::size_t there) {
        bytes data{0x0a, static_cast<std::uint8_t>(claimed)};
        data.resize(2 + there, 7);
        return fault_of(data);
    };
    for (std::size_t there = 0; there < 100; ++there) {
        CHECK(bytes_left(there, there) == "");
        CHECK(bytes_left(there + 1, there) == "model.truncated");
    }
    for (const std::size_t there : {0, 1, 3, 7}) {
        bytes eight{0x09}, four{0x0d};
        eight.resize(1 + there, 1), four.resize(1 + there, 1);
        CHECK(fault_of(eight) == "model.truncated");
        if (there < 4) CHECK(fault_of(four) == "model.truncated");
    }
    // Within a part that ends before the file does it is malformed, unless it would go past the file as well.
    const bytes file{0x0a, 3, 0x0a, 2, 1, 9, 9};
    graft::wire_source source;
    source.bytes = {file.data(), file.size()};
    source.name = "f";
    graft::wire_reader part(source, {file.data() + 2, 3});
    CHECK(!part.next());
    CHECK(graft::text(part.finish().error().code()) == std::string("model.malformed"));
    for (const std::initializer_list<std::uint8_t> bad : {std::initializer_list<std::uint8_t>{0x0a, 0x80},
                                                          {0x80},
                                                          {0x00, 1},
                                                          {0x80, 0x80, 0x80, 0x80, 0x80, 0x01},
                                                          {0x0b, 0x0a, 9, 0x0c},
                                                          {0x0b, 0x00},
                                                          {0x0b, 0x80},
                                                          {0x0b, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 0x0c},
                                                          {0x0b}})
        CHECK(fault_of(bytes(bad)) != "");
    CHECK(fault_of({0x0b, 0x11, 1, 2, 3, 4, 5, 6, 7, 8, 0x1d, 1, 2, 3, 4, 0x0c}) == "");
    graft::wire_reader group(source, {file.data(), 0});
    CHECK(!group.next());
    CHECK(group.finish().ok());
}

TEST_CASE("A field that is read as another kind than it is, is a fault") {
    const bytes all{0x08, 5, 0x15, 0, 0, 0x80, 0x3f, 0x1a, 8, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0x21, 1, 2, 3, 4, 5, 6, 7, 8};
    graft::wire_source source;
    source.bytes = {all.data(), all.size()};
    source.name = "f";
    for (int field = 1; field <= 4; ++field)
        for (int kind = 0; kind < 8; ++kind) {
            graft::wire_reader r(source, source.bytes);
            while (r.next() && static_cast<int>(r.field()) != field) {
            }
            std::int64_t integer = 0, elements = 0;
            float real = 0;
            graft::wire_bytes part;
            std::string text;
            std::vector<std::int64_t> integers;
            std::vector<float> reals;
            std::vector<graft::wire_bytes> parts;
            CAPTURE(field);
            CAPTURE(kind);
            const bool read = kind == 0   ? r.integer(integer)
                              : kind == 1 ? r.real(real)
                              : kind == 2 ? r.bytes(part)
                              : kind == 3 ? r.text(text)
                              : kind == 4 ? r.add(parts)
                              : kind == 5 ? r.add(integers)
                              : kind == 6 ? r.add(reals)
                                          : r.count(8, elements);
            const bool wanted[4][8] = {{true, false, false, false, false, true, false, false},
                                       {false, true, false, false, false, false, true, false},
                                       {false, false, true, true, true, true, true, true},
                                       {false, false, false, false, false, false, false, true}};
            CHECK(read == wanted[field - 1][kind]);
            while (r.next()) {
            }
            CHECK(r.finish().ok() == read);
            if (read && kind == 6) CHECK(reals == (field == 2 ? std::vector<float>{1} : std::vector<float>{1, 2}));
            if (read && kind == 7) CHECK(elements == 1);
        }
    // Packed numbers of which the last is cut, or too long.
    for (const bytes& packed :
         {bytes{0x0a, 2, 1, 0x80}, bytes{0x0a, 11, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}, bytes{0x0a, 5, 1, 2, 3, 4, 5}}) {
        source.bytes = {packed.data(), packed.size()};
        graft::wire_reader r(source, source.bytes);
        REQUIRE(r.next());
        std::vector<std::int64_t> integers;
        std::vector<float> reals;
        CHECK_FALSE((packed[1] == 5 ? r.add(reals) : r.add(integers)));
    }
}
