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
}  // namespace

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

TEST_CASE("a file that lies there packed too is read once, from the plain one") {
    // 6146 times the byte 7, by Python's gzip.
    const std::string packed = from_base64("H4sIAAAAAAACA+3BMQ0AAADDoLP+Hc/HAhQAAAAAAPBnwBQhOwIYAAA=");
    made_folder folder;
    folder.put("data_batch_1.bin", cifar_record(4, 1));
    folder.put("data_batch_1.bin.gz", packed);
    folder.put("data_batch_2.bin.gz", packed);
    folder.make("data_batch_2.bin");  // no file: nothing to read instead
    for (const char* other : {"x", "a.gz", ".bin", ".gz", ".bin.gz"}) folder.put(other, "no record");
    const dataset all = open_dataset(folder.path).value();
    REQUIRE(all.size() == 3);
    CHECK(all.label(0) == 4);
    CHECK(all.label(1) == 7);
    CHECK(all.name(2) == folder.path + "/data_batch_2.bin.gz[1]");
    made_folder none;
    for (const char* other : {"x", "a.gz", ".bin", ".gz", ".bin.gz"}) none.put(other, "no record");
    CHECK(code(none.path) == "data.no_classes");
}

TEST_CASE("a label byte tells 256 classes apart, and a list of more is refused") {
    made_folder folder;
    folder.put("data_batch_1.bin", cifar_record(255, 1));
    std::string names;
    for (int i = 0; i < 256; ++i) names += "class " + std::to_string(i) + "\n";
    folder.put("batches.meta.txt", names);
    CHECK(open_dataset(folder.path).value().classes()[255] == "class 255");
    folder.put("batches.meta.txt", names + "one more\n");
    const auto opened = open_dataset(folder.path);
    REQUIRE(!opened.ok());
    CHECK(opened.error().code() == errc::data_format);
    CHECK(opened.error().where() == folder.path + "/batches.meta.txt");
    CHECK(opened.error().detail() == "257 names of classes; a label byte tells 2 to 256 apart");
}

TEST_CASE("a size that both kinds of records have is told by the labels") {
    made_folder folder;
    const auto file_of = [&](int fine) {
        std::string bytes;
        for (int i = 0; i < 3073; ++i) bytes += fine_record(2, i == 1 ? fine : i % 100, 50);
        return folder.put("train.bin", bytes);
    };
    // As CIFAR-10's records the second begins within the first one's pixels: label 50.
    const dataset hundred = open_dataset(file_of(99)).value();
    CHECK(hundred.size() == 3073);
    CHECK(hundred.classes().size() == 100);
    CHECK(hundred.label(1) == 99);
    CHECK(hundred.label(3072) == 72);
    const auto neither = open_dataset(file_of(100));
    REQUIRE(!neither.ok());
    CHECK(neither.error().code() == errc::data_label_range);
    CHECK(neither.error().detail() == "record 1 has label 100; there are 100 classes");
    std::string ten;
    for (int i = 0; i < 3074; ++i) ten += cifar_record(i % 10, 50);
    const dataset tens = open_dataset(folder.put("data_batch_1.bin", ten)).value();
    CHECK(tens.size() == 3074);
    CHECK(tens.label(3073) == 3);
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
    std::string lies = packed;  // the last four bytes are its claim
    for (int claim : {1, 3073, 6147}) {
        lies[lies.size() - 4] = static_cast<char>(claim & 255);
        lies[lies.size() - 3] = static_cast<char>(claim >> 8);
        CHECK(code(folder.put("y.bin.gz", lies)) == "data.format");
    }
    lies[lies.size() - 1] = '\x7f';  // two GiB out of sixty bytes
    CHECK(code(folder.put("y.bin.gz", lies)) == "data.format");
    const auto told = [&](const std::string& bytes, std::int64_t most = 1 << 20) {
        dataset_options options;
        options.limits.memory_bytes = most;
        const auto opened = open_dataset(folder.put("z.bin.gz", bytes), options);
        return opened.ok() ? std::string("ok") : opened.error().what();
    };
    const std::string where = folder.path + "/z.bin.gz: ";
    CHECK(told(packed) == "ok");
    CHECK(told(packed, 6145) == "memory.budget: " + where + "6146 bytes unpacked; the limit is 6145");
    std::string damaged = packed;
    damaged[10] = '\x07';  // a block of the kind that does not exist
    CHECK(told(damaged) == "data.format: " + where + "the gzip stream is damaged");
    // The first byte alone does not make a file packed: it is a coarse label here.
    CHECK(open_dataset(folder.put("w.bin", fine_record(31, 5, 9))).value().label(0) == 5);
}

TEST_CASE("stored blocks of any length are unpacked, and never past the size that is claimed") {
    // Python's zlib makes such of what does not shrink: blocks of 65535 bytes at most.
    const auto little = [](std::size_t n, int bytes) {
        std::string s;
        for (int i = 0; i < bytes; ++i) s += static_cast<char>(n >> (8 * i));
        return s;
    };
    const auto block = [&](const std::string& bytes, bool last) {
        return std::string(1, last ? '\1' : '\0') + little(bytes.size(), 2) + little(~bytes.size(), 2) + bytes;
    };
    std::string records;
    for (int i = 0; i < 64; ++i) records += cifar_record(i % 10, i);
    REQUIRE(records.size() == 196672);
    const std::string head("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
    const std::string blocks =
        block(records.substr(0, 65535), false) + block(records.substr(65535, 65535), false) + block(records.substr(131070, 65535), false);
    const std::string whole = head + blocks + block(records.substr(196605), true) + little(crc_of(records.data(), records.size()), 4);
    made_folder folder;
    const auto told = [&](const std::string& bytes) {
        const auto opened = open_dataset(folder.put("x.bin.gz", bytes));
        return opened.ok() ? std::string("ok") : opened.error().what();
    };
    const dataset all = open_dataset(folder.put("y.bin.gz", whole + little(records.size(), 4))).value();
    REQUIRE(all.size() == 64);
    CHECK(all.label(63) == 3);
    CHECK(all.read(63).value().data()[3071] == 63);
    const std::string error = "data.format: " + folder.path + "/x.bin.gz: ";
    // Claimed are fewer bytes than the first two blocks have, which is seen when the third comes.
    CHECK(told(whole + little(3073, 4)) == error + "more bytes are packed than the 3073 expected");
    // Cut behind a block, and within one: too much before the end, and too little.
    CHECK(told(head + blocks + little(0, 4) + little(3073, 4)) == error + "more bytes are packed than the 3073 expected");
    CHECK(told(head + blocks + little(0, 4) + little(records.size(), 4)) == error + "the gzip stream ends after 196605 of 196672 bytes");
    const std::string small = block(cifar_record(1, 1) + "more", false);
    CHECK(told(head + small + little(0, 4) + little(3073, 4)) == error + "more bytes are packed than the 3073 expected");
    CHECK(told(head + small.substr(0, 100) + little(0, 4) + little(3073, 4)) == error + "the gzip stream ends after 95 of 3073 bytes");
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
