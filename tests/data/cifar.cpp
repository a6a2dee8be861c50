#include "made_dataset.hpp"
#include "pictures.hpp"
#include "../skipped.hpp"

#include <graft/data/dataset.hpp>

#include <doctest/doctest.h>

#include <cstring>

using namespace graft;

namespace {
std::string code(const std::string& path) { return code_of(open_dataset(path)); }
std::string fine_record(int coarse, int fine, int level) {
    return std::string{static_cast<char>(coarse), static_cast<char>(fine)} + std::string(3072, static_cast<char>(level));
}
} // namespace

TEST_CASE("CIFAR-10 records are label, then red, green and blue planes") {
    made_folder folder;
    std::string record(1, '\3');
    for (int i = 0; i < 3072; ++i) record += static_cast<char>(i / 1024 * 50 + i % 7);
    const dataset all = open_dataset(folder.put("one.bin", cifar_record(9, 1) + record)).value();
    REQUIRE(all.size() == 2);
    CHECK(all.label(0) == 9);
    CHECK(all.label(1) == 3);
    CHECK(all.classes().size() == 10);
    CHECK(all.classes()[3] == "cat");
    CHECK(all.name(1) == folder.path + "/one.bin[1]");
    const image seen = all.read(1).value();
    REQUIRE(seen.height == 32);
    REQUIRE(seen.width == 32);
    for (int i = 0; i < 1024; ++i)
        for (int c = 0; c < 3; ++c) CHECK(seen.data()[i * 3 + c] == static_cast<std::uint8_t>(record[static_cast<std::size_t>(1 + c * 1024 + i)]));
}

TEST_CASE("data_batch_* is learnt from, test_batch scores, and batches.meta.txt has the names") {
    made_folder folder;
    folder.put("data_batch_2.bin", cifar_record(1, 2) + cifar_record(0, 3));
    folder.put("data_batch_1.bin", cifar_record(2, 1));
    folder.put("test_batch.bin", cifar_record(1, 4));
    folder.put("batches.meta.txt", "ant\r\nbee\nwasp\n\n");
    folder.put("readme.html", "x");
    const auto splits = open_splits(folder.path);
    REQUIRE(splits.ok());
    const dataset_splits& s = splits.value();
    CHECK(s.training.classes() == std::vector<std::string>{"ant", "bee", "wasp"});
    REQUIRE(s.training.size() == 3);
    CHECK(s.training.name(1) == folder.path + "/data_batch_2.bin[0]");
    CHECK(s.training.label(0) == 2);
    CHECK(s.validation.size() == 1);
    CHECK(s.validation.read(0).value().data()[0] == 4);
    folder.put("test_batch.bin", cifar_record(3, 4));
    CHECK(code(folder.path) == "data.label_range");
    for (const char* names : {"", "one\n"}) {
        folder.put("batches.meta.txt", names);
        CHECK(code(folder.path) == "data.format");
    }
}

TEST_CASE("CIFAR-100 takes the fine label") {
    made_folder folder;
    folder.put("train.bin", fine_record(4, 99, 1) + fine_record(200, 0, 2));
    folder.put("test.bin", fine_record(1, 50, 3));
    const auto splits = open_splits(folder.path);
    REQUIRE(splits.ok());
    CHECK(splits.value().training.label(0) == 99);
    CHECK(splits.value().training.read(1).value().data()[0] == 2);
    CHECK(splits.value().validation.label(0) == 50);
    CHECK(splits.value().training.classes()[99] == "99");
    folder.put("test.bin", fine_record(1, 100, 3));
    CHECK(code(folder.path) == "data.label_range");
    folder.put("test.bin", cifar_record(1, 3));
    CHECK(code(folder.path) == "data.class_mismatch");
}

TEST_CASE("sizes that are no whole records, and labels outside of the classes, are refused") {
    made_folder folder;
    const std::string good = cifar_record(3, 0) + cifar_record(0, 0);
    CHECK(code(folder.put("good.bin", good)) == "ok");
    CHECK(code(folder.put("short.bin", good.substr(1))) == "data.format");
    CHECK(code(folder.put("long.bin", good + "x")) == "data.format");
    CHECK(code(folder.put("tiny.bin", "x")) == "data.format");
    CHECK(code(folder.put("none.bin", "")) == "data.format");
    const auto bad = open_dataset(folder.put("label.bin", good + cifar_record(255, 0)));
    CHECK(code_of(bad) == "data.label_range");
    CHECK(contains(bad.error().detail(), "record 2 has label 255"));
    dataset_options options;
    options.limits.memory_bytes = 6145;
    CHECK(code_of(open_dataset(folder.path + "/good.bin", options)) == "memory.budget");
    options.limits.memory_bytes = 6146;
    CHECK(code_of(open_dataset(folder.path + "/good.bin", options)) == "ok");
}

TEST_CASE("a damaged file of several is refused by its name") {
    made_folder folder;
    folder.put("data_batch_1.bin", cifar_record(3, 0));
    folder.put("data_batch_2.bin", "junk");
    const auto opened = open_splits(folder.path);
    REQUIRE(!opened.ok());
    CHECK(opened.error().code() == errc::data_format);
    CHECK(opened.error().where() == folder.path + "/data_batch_2.bin");
}

TEST_CASE("packed CIFAR files are unpacked, to the size that they claim") {
    // 6146 times the byte 7, by Python's gzip.
    const std::string packed = from_base64("H4sIAAAAAAACA+3BMQ0AAADDoLP+Hc/HAhQAAAAAAPBnwBQhOwIYAAA=");
    made_folder folder;
    const std::string one = folder.put("x.bin.gz", packed);
    const dataset all = open_dataset(one).value();
    CHECK(all.size() == 2);
    CHECK(all.label(1) == 7);
    CHECK(all.read(1).value().data()[3071] == 7);
    std::string lies = packed; // the last four bytes are its claim
    for (int claim : {1, 3073, 6147}) {
        lies[lies.size() - 4] = static_cast<char>(claim & 255);
        lies[lies.size() - 3] = static_cast<char>(claim >> 8);
        CHECK(code(folder.put("y.bin.gz", lies)) == "data.format");
    }
    lies[lies.size() - 1] = '\x7f'; // two GiB out of sixty bytes
    CHECK(code(folder.put("y.bin.gz", lies)) == "data.format");
}

TEST_CASE("the CIFAR-10 files in the pack are read as they are known") {
    const char* named = std::getenv("GRAFT_SHARED");
    const std::string folder = std::string(named ? named : GRAFT_SOURCE_DIR "/../shared") + "/pack/data/cifar10";
    if (!std::filesystem::exists(folder)) {
        say_skipped("no CIFAR-10 in " + folder);
        return;
    }
    const dataset_splits cifar = open_splits(folder).value();
    CHECK(cifar.training.class_counts() == std::vector<std::int64_t>(10, 500));
    CHECK(cifar.validation.class_counts() == std::vector<std::int64_t>(10, 200));
    CHECK(cifar.training.classes()[9] == "truck");
}
