// Event files: their framing and messages read back here; scripts/check_tensorboard.py has TensorBoard itself read them.
#include <doctest/doctest.h>
#include <graft/core/protobuf.hpp>
#include <graft/train/crc32c.hpp>
#include <graft/train/tensorboard.hpp>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

struct record {
    std::vector<std::uint8_t> bytes;
};

std::uint32_t masked(const void* p, std::size_t n) {
    const std::uint32_t crc = graft::crc32c(0, p, n);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

std::vector<record> records_of(const std::string& path) {
    std::vector<record> out;
    std::FILE* f = std::fopen(path.c_str(), "rb");
    REQUIRE(f);
    std::uint64_t size = 0;
    while (std::fread(&size, 8, 1, f) == 1) {
        std::uint32_t crc = 0;
        REQUIRE(std::fread(&crc, 4, 1, f) == 1);
        CHECK(crc == masked(&size, 8));
        REQUIRE(size < 10000);
        record r;
        r.bytes.resize(static_cast<std::size_t>(size));
        REQUIRE(std::fread(r.bytes.data(), 1, r.bytes.size(), f) == r.bytes.size());
        REQUIRE(std::fread(&crc, 4, 1, f) == 1);
        CHECK(crc == masked(r.bytes.data(), r.bytes.size()));
        out.push_back(r);
    }
    std::fclose(f);
    return out;
}

// The fields of a message as text, numbers of field and value; messages that are named in `nested` are opened.
std::string fields(graft::wire_bytes part, const std::string& nested) {
    const graft::wire_source source{part, "event"};
    graft::wire_reader r(source, part);
    std::string out;
    while (r.next()) {
        out += std::to_string(r.field()) + ":";
        if (r.type() == 0) out += std::to_string(static_cast<std::int64_t>(r.number()));
        if (r.type() == 1 || r.type() == 5) {
            double wide = 0;
            float narrow = 0;
            std::memcpy(r.type() == 1 ? static_cast<void*>(&wide) : &narrow, r.view().data, r.view().size);
            out += std::to_string(r.type() == 1 ? wide : static_cast<double>(narrow));
        }
        const char field = static_cast<char>('0' + r.field());
        if (r.type() == 2 && !nested.empty() && nested[0] == field)
            out += "{" + fields(r.view(), nested.substr(1)) + "}";
        else if (r.type() == 2)
            out += "'" + r.view().string() + "'";
        out += " ";
    }
    CHECK(r.finish().ok());
    if (!out.empty()) out.pop_back();
    return out;
}

std::string fields(const record& r, const std::string& nested) { return fields({r.bytes.data(), r.bytes.size()}, nested); }

}  // namespace

TEST_CASE("An event file has TensorFlow's records and messages") {
    graft::event_writer w = graft::event_writer::open(".", 1700000000.5).value();
    CHECK(w.path() == "./events.out.tfevents.1700000000.graft");
    REQUIRE(w.scalar("loss/train", 3, 0.25, 1700000001).ok());
    REQUIRE(w.picture("wrong", 4, "PNG", 2, 5, 3, 1700000002).ok());
    const auto all = records_of(w.path());  // before it is closed: each is flushed
    REQUIRE(all.size() == 3);
    CHECK(fields(all[0], "") == "1:1700000000.500000 3:'brain.Event:2'");
    CHECK(fields(all[1], "51") == "1:1700000001.000000 2:3 5:{1:{1:'loss/train' 2:0.250000}}");
    CHECK(fields(all[2], "514") == "1:1700000002.000000 2:4 5:{1:{1:'wrong' 4:{1:2 2:5 3:3 4:'PNG'}}}");

    // Every file that TensorFlow writes begins with 18 00 00 00 00 00 00 00 a3 7f 4b 22.
    CHECK(all[0].bytes.size() == 24);
    CHECK(masked("\x18\0\0\0\0\0\0\0", 8) == 0x224b7fa3u);

    graft::event_writer resumed = graft::event_writer::open(".", 1700000000.9, 120).value();
    CHECK(resumed.path() == "./events.out.tfevents.1700000000.graft.001");
    const auto again = records_of(resumed.path());
    REQUIRE(again.size() == 2);
    CHECK(fields(again[1], "7") == "1:1700000000.900000 2:120 7:{1:1}");
    const std::string first = w.path(), second = resumed.path();
    CHECK(w.close().ok());
    CHECK(!w.scalar("x", 1, 1, 1).ok());
    CHECK(resumed.close().ok());
    std::remove(first.c_str());
    std::remove(second.c_str());
}

TEST_CASE("An event file that cannot be made is an error") {
    auto w = graft::event_writer::open("absent_folder", 1);
    REQUIRE(!w.ok());
    CHECK(w.error().code() == graft::errc::file_write);
}
