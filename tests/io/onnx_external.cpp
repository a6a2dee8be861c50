// External data: where a model may point, and where not.
#include "wire_model.hpp"

#include <doctest/doctest.h>
#include <graft/io/onnx_external.hpp>
#include <graft/io/onnx_read.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>

#if !defined(_WIN32)
#include <sys/stat.h>
#include <unistd.h>

using namespace wire_model;

namespace {

struct model_folder {
    std::string path;
    model_folder() {
        char name[] = "/tmp/graft_external_XXXXXX";
        path = ::mkdtemp(name);
        ::mkdir((path + "/in").c_str(), 0700);
        ::mkdir((path + "/in/sub").c_str(), 0700);
        put("/secret");
        put("/in/w.bin");
        put("/in/sub/w.bin");
        put("/in/hard");
        put("/in/w");
        CHECK(::link((path + "/in/hard").c_str(), (path + "/in/hard2").c_str()) == 0);
        CHECK(::symlink("w.bin", (path + "/in/soft").c_str()) == 0);
        CHECK(::symlink("sub", (path + "/in/softsub").c_str()) == 0);
        CHECK(::symlink("../secret", (path + "/in/out").c_str()) == 0);
        CHECK(::mkfifo((path + "/in/pipe").c_str(), 0600) == 0);
    }
    ~model_folder() {
        for (const char* file : {"/secret", "/in/w.bin", "/in/w", "/in/sub/w.bin", "/in/hard", "/in/hard2", "/in/soft", "/in/softsub", "/in/out", "/in/pipe"})
            ::unlink((path + file).c_str());
        for (const char* sub : {"/in/sub", "/in", ""}) ::rmdir((path + sub).c_str());
    }
    void put(const char* file) const {
        std::FILE* f = std::fopen((path + file).c_str(), "wb");
        std::fputs("0123456789abcdef", f);
        std::fclose(f);
    }
};

std::string opened(const model_folder& f, const std::string& location) {
    auto file = graft::open_external(f.path + "/in", location, 1000);
    return file.ok() ? "" : graft::text(file.error().code());
}

message entry(const std::string& key, const std::string& value) { return message().text(schema::entry::key, key).text(schema::entry::value, value); }

std::string read(const model_folder& f, std::initializer_list<message> entries, const std::string& directory = "/in", bool also_raw = false) {
    using t = schema::tensor;
    message w = message().integer(t::dims, 2).integer(t::data_type, 1).text(t::name, "w").integer(t::data_location, 1);
    for (const message& e : entries) w.part(t::external_data, e);
    if (also_raw) w.text(t::raw_data, "12345678");
    const message m = wire_model::model(relu_graph().part(schema::graph::initializer, w));
    auto g = graft::read_onnx(m.data.data(), m.data.size(), "m", directory.empty() ? "" : f.path + directory, {}, nullptr);
    if (!g.ok()) return graft::text(g.error().code());
    return std::string(reinterpret_cast<const char*>(g->values[1].constant.raw()), 8);
}

}  // namespace

TEST_CASE("Only regular files below the model's folder are opened, and no link is followed") {
    const model_folder f;
    CHECK(opened(f, "w.bin") == "");
    CHECK(opened(f, "w") == "");
    CHECK(opened(f, "sub/w.bin") == "");
    CHECK(opened(f, "./sub//w.bin") == "");
    for (const char* bad : {"", "/etc/passwd", "../secret", "sub/../../secret", "sub/../w.bin", "..", "sub\\w.bin", "C:w.bin", "soft", "softsub/w.bin", "out",
                            "hard", "hard2", "pipe", "sub", "sub/", "w.bin/x"})
        CHECK_MESSAGE(opened(f, bad) == "external.path", bad);
    CHECK(opened(f, std::string("w.bin\0x", 7)) == "external.path");
    CHECK(opened(f, std::string(5000, 'a')) == "external.path");
    CHECK(opened(f, "absent") == "file.open");
    const auto nowhere = graft::open_external(f.path + "/nowhere", "w.bin", 1000);
    REQUIRE(!nowhere.ok());
    CHECK(nowhere.error().code() == graft::errc::file_open);
    CHECK(nowhere.error().where() == f.path + "/nowhere");
    CHECK(nowhere.error().detail() == "No such file or directory");
    CHECK(graft::open_external(f.path + "/in", "w.bin", 15).error().code() == graft::errc::model_too_large);
}

TEST_CASE("Ranges of external data are plain numbers inside the file") {
    const model_folder f;
    const message at = entry("location", "w.bin");
    CHECK(read(f, {at, entry("offset", "2"), entry("length", "8"), entry("checksum", "x")}) == "23456789");
    CHECK(read(f, {at}) == "01234567");
    CHECK(read(f, {at, entry("offset", "8")}) == "89abcdef");
    for (const char* offset : {"9", "17", "-1", "+1", " 1", "1 ", "0x1", "1e0", "", "99999999999999999999", "9223372036854775807"})
        CHECK_MESSAGE(read(f, {at, entry("offset", offset)}) == "external.range", offset);
    CHECK(read(f, {at, entry("length", "17")}) == "external.range");
    for (const char* length : {"-1", "8 ", "0x8", "", "9223372036854775808"}) CHECK_MESSAGE(read(f, {at, entry("length", length)}) == "external.range", length);
    CHECK(read(f, {at, entry("length", "9223372036854775807"), entry("offset", "1")}) == "external.range");
    CHECK(read(f, {at, entry("length", "7")}) == "tensor.bytes");
    CHECK(read(f, {at, entry("offset", "1"), entry("offset", "2")}) == "external.range");
    CHECK(read(f, {entry("offset", "0")}) == "external.path");
    CHECK(read(f, {at}, "") == "external.path");
    CHECK(read(f, {at}, "/in", true) == "tensor.bytes");
}
#endif
