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

} // namespace

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

TEST_CASE("Faults of the wire format are named") {
    CHECK(fault_of({}) == "");
    CHECK(fault_of({0x08}) == "model.truncated");
    CHECK(fault_of({0x0a, 5, 1}) == "model.truncated");
    CHECK(fault_of({0x0d, 1, 2}) == "model.truncated");
    CHECK(fault_of({0x00, 1}) == "model.malformed"); // field 0
    CHECK(fault_of({0x0e, 1}) == "model.malformed"); // wire type 6
    CHECK(fault_of({0x0f, 1}) == "model.malformed"); // wire type 7
    CHECK(fault_of({0x0c}) == "model.malformed");    // a group ends
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
