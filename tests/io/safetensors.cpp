// safetensors: what is read, what is refused, and that files written twice are equal.
#include "../file_contents.hpp"
#include "../skipped.hpp"

#include <doctest/doctest.h>
#include <graft/core/file.hpp>
#include <graft/io/safetensors.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

std::string with_header(const std::string& json, std::size_t data = 0) {
    std::string out(8, '\0');
    const std::uint64_t length = json.size();
    std::memcpy(&out[0], &length, 8);
    return out + json + std::string(data, '\1');
}

// The name of the error, "" where the file is read.
std::string verdict(const std::string& file) {
    auto read = graft::read_safetensors(file.data(), file.size(), "f", {}, nullptr);
    return read.ok() ? "" : graft::text(read.error().code());
}

std::string entry(const std::string& name, const std::string& rest) { return "\"" + name + "\":{" + rest + "}"; }

}  // namespace

TEST_CASE("Tensors and metadata come back as they were written, in bytes that do not depend on their order") {
    const float weights[] = {1, -2, 3, 4, 5, 6};
    const std::uint8_t flags[] = {1, 0, 1};
    const graft::named_tensors tensors{{"flags", graft::tensor::from(flags, {3}).value()},
                                       {"layer.weight", graft::tensor::from(weights, {2, 3}).value()},
                                       {"empty", graft::tensor::make(graft::dtype::float64, {0, 4}).value()},
                                       {"scalar", graft::tensor::scalar(std::int64_t(-7)).value()}};
    std::vector<std::uint8_t> bytes, again;
    REQUIRE(graft::write_safetensors(tensors, {{"step", "12"}, {"\xc3\xa9\n", "x"}}, bytes).ok());
    REQUIRE(graft::write_safetensors({tensors[3], tensors[2], tensors[1], tensors[0]}, {{"step", "12"}, {"\xc3\xa9\n", "x"}}, again).ok());
    CHECK(bytes == again);
    auto read = graft::read_safetensors(bytes.data(), bytes.size(), "f", {}, nullptr);
    REQUIRE(read.ok());
    CHECK(read->tensors.size() == 4);
    CHECK(*read->find_metadata("step") == "12");
    CHECK(*read->find_metadata("\xc3\xa9\n") == "x");
    for (const auto& t : tensors) {
        const graft::safetensors_entry* e = read->find(t.first);
        REQUIRE(e);
        auto loaded = read->load(*e);
        REQUIRE(loaded.ok());
        CHECK(loaded->type() == t.second.type());
        CHECK(loaded->shape() == t.second.shape());
        CHECK(std::memcmp(loaded->raw(), t.second.raw(), t.second.bytes()) == 0);
    }
    CHECK((read->tensors[0].data - bytes.data()) % 64 == 0);
    std::vector<std::uint8_t> none;
    CHECK(!graft::write_safetensors({tensors[0], tensors[0]}, {}, none).ok());
    CHECK(!graft::write_safetensors({{"x", graft::tensor()}}, {}, none).ok());
    const graft::status reserved = graft::write_safetensors({{"__metadata__", tensors[0].second}}, {}, none);
    REQUIRE(!reserved.ok());
    CHECK(std::string(reserved.error().what()) == "graph.duplicate: tensor '__metadata__': the name is given twice, or not to be used");
    // A file of them has the same bytes.
    const std::string path = "graft_test.safetensors";
    REQUIRE(graft::write_safetensors_file(tensors, {{"step", "12"}, {"\xc3\xa9\n", "x"}}, path).ok());
    CHECK(file_contents(path) == std::string(bytes.begin(), bytes.end()));
    std::remove(path.c_str());
}

TEST_CASE("Headers that lie are refused") {
    const std::string shape = "\"shape\":[2]", type = "\"dtype\":\"U8\"", offsets = "\"data_offsets\":[0,2]";
    const std::string whole = type + "," + shape + "," + offsets;
    CHECK(verdict(with_header("{" + entry("a", whole) + "}", 2)) == "");
    CHECK(verdict(with_header("{" + entry("a", whole + ",\"more\":{\"x\":[1,{}]}") + "}", 2)) == "");
    CHECK(verdict(with_header("{}  ")) == "");
    const std::string malformed = "safetensors.malformed";
    CHECK(verdict("1234567") == malformed);
    CHECK(verdict(with_header("")) == malformed);
    CHECK(verdict(with_header(" {}")) == malformed);
    CHECK(verdict(with_header("{}", 1)) == malformed);
    CHECK(verdict(with_header("{" + entry("a", whole) + "}", 1)) == malformed);
    CHECK(verdict(with_header("{" + entry("a", whole) + "}", 3)) == malformed);
    CHECK(verdict(with_header("{" + entry("a", type + "," + shape) + "}")) == malformed);
    CHECK(verdict(with_header("{" + entry("a", whole + "," + type) + "}", 2)) == malformed);
    CHECK(verdict(with_header("{" + entry("a", whole) + "," + entry("b", whole) + "}", 2)) == malformed);
    CHECK(verdict(with_header("{" + entry("a", whole) + "," + entry("b", type + "," + shape + ",\"data_offsets\":[3,5]") + "}", 5)) == malformed);
    CHECK(verdict(with_header("{\"a\":1}")) == malformed);
    CHECK(verdict(with_header("{\"__metadata__\":{\"a\":1}}")) == malformed);
    CHECK(verdict(with_header("{\"__metadata__\":{},\"__metadata__\":{}}")) == malformed);
    CHECK(verdict(with_header("{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}")) == malformed);
    CHECK(verdict(with_header("{" + entry("a", type + ",\"shape\":[2.0]," + offsets) + "}", 2)) == malformed);
    CHECK(verdict(with_header("{" + entry("a", type + ",\"shape\":[2e0]," + offsets) + "}", 2)) == malformed);
    CHECK(verdict(with_header("{" + entry("a", type + ",\"shape\":[-2]," + offsets) + "}", 2)) == malformed);
    CHECK(verdict(with_header("{" + entry("a", type + ",\"shape\":[3]," + offsets) + "}", 2)) == "tensor.bytes");
    CHECK(verdict(with_header("{" + entry("a", type + ",\"shape\":[4294967296,4294967296,4294967296]," + offsets) + "}", 2)) == "tensor.overflow");
    // Elements of four bits: two are a byte, and one alone is none.
    CHECK(verdict(with_header("{" + entry("a", "\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]") + "}", 1)) == "");
    CHECK(verdict(with_header("{" + entry("a", "\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[0,0]") + "}")) == "tensor.bytes");
    CHECK(verdict(with_header("{" + entry("a", "\"dtype\":8," + shape + "," + offsets) + "}", 2)) == "tensor.dtype");
    CHECK(verdict(with_header("{" + entry("a", "\"dtype\":\"Q8\"," + shape + "," + offsets) + "}", 2)) == "tensor.dtype");
    CHECK(verdict(with_header("{" + entry("a", type + ",\"shape\":[0],\"data_offsets\":[0,0]") + "," + entry("a", whole) + "}", 2)) == "graph.duplicate");
    CHECK(verdict(with_header("{\"a\"}")) == "json.malformed");
    std::string longer = with_header("{}");
    longer[7] = 127;
    CHECK(verdict(longer) == malformed);
}

TEST_CASE("The recorded hostile safetensors get the verdicts that are written beside them") {
    const char* shared = std::getenv("GRAFT_SHARED");
    const std::string folder = std::string(shared ? shared : "../shared") + "/pack/hostile/safetensors/";
    std::FILE* list = std::fopen((folder + "expected.tsv").c_str(), "rb");
    if (!list) {
        say_skipped("no hostile safetensors (GRAFT_SHARED is not set)");
        return;
    }
    char line[1000];
    int files = 0;
    while (std::fgets(line, sizeof line, list)) {
        const std::string text = line;
        const std::size_t tab = text.find('\t'), end = text.find('\t', tab + 1);
        const std::string name = text.substr(0, tab), wanted = text.substr(tab + 1, end - tab - 1);
        const bool accepted = graft::read_safetensors_file(folder + name).ok();
        CHECK_MESSAGE((wanted == "bounded" || accepted == (wanted == "accept")), name);
        ++files;
    }
    std::fclose(list);
    CHECK(files > 0);
}
