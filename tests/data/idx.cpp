#include "dataset_golden.hpp"
#include "made_dataset.hpp"
#include "pictures.hpp"
#include "../skipped.hpp"

#include <graft/data/dataset.hpp>

#include <doctest/doctest.h>

using namespace graft;

namespace {

using names = std::vector<std::string>;

std::string code(const made_folder& folder) { return code_of(open_dataset(folder.path)); }

// The code that a pair ends with when its pictures' file is this, beside labels 0 and 1.
std::string code_of_images(const std::string& bytes, const char* name = "train-images-idx3-ubyte") {
    made_folder folder;
    folder.put("train-labels-idx1-ubyte", idx_labels(std::string("\0\1", 2)));
    folder.put(name, bytes);
    return code(folder);
}
std::string code_of_labels(const std::string& bytes) {
    made_folder folder;
    folder.put("train-images-idx3-ubyte", idx_images(2, 1, 1, "ab"));
    folder.put("train-labels-idx1-ubyte", bytes);
    return code(folder);
}

// gzip without compression: stored blocks, so that the tests can lie in every place.
std::string stored_gzip(const std::string& bytes, std::uint32_t claimed, std::uint32_t crc) {
    std::string out("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
    const auto little = [&out](std::uint32_t n, int count) {
        for (int i = 0; i < count; ++i) out += static_cast<char>(n >> (8 * i));
    };
    out += '\1';
    little(static_cast<std::uint32_t>(bytes.size()), 2);
    little(~static_cast<std::uint32_t>(bytes.size()), 2);
    out += bytes;
    little(crc, 4);
    little(claimed, 4);
    return out;
}
std::string stored_gzip(const std::string& bytes) { return stored_gzip(bytes, static_cast<std::uint32_t>(bytes.size()), crc_of(bytes.data(), bytes.size())); }

}  // namespace

TEST_CASE("a gzipped IDX pair has torchvision's pixels and labels") {
    made_folder folder;
    folder.put("train-images-idx3-ubyte.gz", from_base64(golden_idx_images));
    folder.put("train-labels-idx1-ubyte.gz", from_base64(golden_idx_labels));
    const dataset all = open_dataset(folder.path).value();
    REQUIRE(all.size() == 5);
    CHECK(all.classes() == names{"0", "1", "2"});
    CHECK(all.name(3) == folder.path + "/train-images-idx3-ubyte.gz[3]");
    for (std::int64_t i = 0; i < 5; ++i) {
        CHECK(all.label(i) == golden_idx_classes[i]);
        const sample_bytes raw = all.fetch(i).value();
        CHECK(raw.height == 3);
        CHECK(raw.width == 4);
        CHECK(raw.channels == 1);
        REQUIRE(raw.size == 12);
        const image seen = all.read(i).value(), gray = to_gray(seen).value();
        CHECK(seen.channels == 3);
        for (std::int64_t k = 0; k < 12; ++k) {
            CHECK(raw.data[k] == golden_idx_pixels[i * 12 + k]);
            CHECK(gray.data()[k] == raw.data[k]);  // gray pictures come back from RGB as they were
        }
    }
}

TEST_CASE("train-* is learnt from and t10k-* scores") {
    made_folder folder;
    put_idx(folder, "train", std::string("\0\1\2\0\1\2", 6));
    put_idx(folder, "t10k", std::string("\2\0", 2));
    const auto splits = open_splits(folder.path);
    REQUIRE(splits.ok());
    CHECK(splits.value().validation_given);
    CHECK(splits.value().training.size() == 6);
    REQUIRE(splits.value().validation.size() == 2);
    CHECK(splits.value().validation.label(0) == 2);
    CHECK(splits.value().validation.read(1).value().data()[0] == 1);
    CHECK(open_dataset(folder.path).value().size() == 8);
    // Exactly the file named, by either of its two.
    for (const char* file : {"/t10k-images-idx3-ubyte", "/t10k-labels-idx1-ubyte"}) {
        dataset_options options;
        options.allow_empty = true;
        const dataset test = open_dataset(folder.path + file, options).value();
        CHECK(test.size() == 2);
        CHECK(test.classes() == names{"0", "1", "2"});
    }
}

TEST_CASE("the names that other sets use are known") {
    for (const char* part : {"emnist-letters-train", "ok", "train", "my_train_", ""}) {
        made_folder folder;
        put_idx(folder, part, std::string("\0\1", 2));
        CHECK(open_splits(folder.path).value().training.size() == 2);
    }
    // Without a stem, or with other signs behind it.
    made_folder bare, scored;
    for (const bool images : {true, false}) {
        const std::string bytes = images ? idx_images(2, 1, 1, "ab") : idx_labels(std::string("\0\1", 2));
        bare.put(images ? "images-idx3-ubyte" : "labels-idx1-ubyte", bytes);
        scored.put(images ? "mine_val_images-idx3-ubyte" : "mine_val_labels-idx1-ubyte", bytes);
        scored.put(images ? "train.images-idx3-ubyte" : "train.labels-idx1-ubyte", bytes);
    }
    CHECK(open_splits(bare.path).value().training.size() == 2);
    CHECK(open_splits(scored.path).value().validation.name(0) == scored.path + "/mine_val_images-idx3-ubyte[0]");
    // Names that only end so are none of a pair.
    for (const char* name : {"idx3-ubyte", "train-images_idx3-ubyte", "train-pictures-idx3-ubyte"}) {
        CAPTURE(name);
        made_folder odd;
        const auto opened = open_dataset(odd.put(name, idx_images(2, 1, 1, "ab")));
        REQUIRE(!opened.ok());
        CHECK(opened.error().detail() == "an IDX file needs its partner: call them X-images-idx3-ubyte and X-labels-idx1-ubyte");
        CHECK(code(odd) == "data.no_classes");
    }
    made_folder dotted;
    dotted.put("train-images.idx3-ubyte", idx_images(2, 1, 1, "ab"));
    dotted.put("train-labels.idx1-ubyte", idx_labels(std::string("\0\1", 2)));
    CHECK(code(dotted) == "ok");
    // One packed, one not; and the plain one where both are there.
    made_folder mixed;
    put_idx(mixed, "train", std::string("\0\1", 2));
    mixed.put("train-labels-idx1-ubyte.gz", "no gzip");
    CHECK(code(mixed) == "ok");
    std::remove((mixed.path + "/train-labels-idx1-ubyte").c_str());
    mixed.put("train-labels-idx1-ubyte.gz", stored_gzip(idx_labels(std::string("\0\1", 2))));
    CHECK(code(mixed) == "ok");
}

TEST_CASE("a header that is wrong is data.format") {
    const std::string good = idx_images(2, 1, 1, "ab");
    CHECK(code_of_images(good) == "ok");
    for (std::size_t n = 0; n < good.size(); ++n) CHECK(code_of_images(good.substr(0, n)) == "data.format");
    CHECK(code_of_images(good + "c") == "data.format");
    for (const auto& change : {std::make_pair(0, 1), std::make_pair(1, 1), std::make_pair(2, 9), std::make_pair(2, 0x15), std::make_pair(3, 1),
                               std::make_pair(3, 4), std::make_pair(3, 0), std::make_pair(3, 255)}) {
        std::string bad = good;
        bad[static_cast<std::size_t>(change.first)] = static_cast<char>(change.second);
        CHECK(code_of_images(bad) == "data.format");
    }
    const std::string labels = idx_labels(std::string("\0\1", 2));
    for (std::size_t n = 0; n < labels.size(); ++n) CHECK(code_of_labels(labels.substr(0, n)) == "data.format");
    CHECK(code_of_labels(labels + "c") == "data.format");
    CHECK(code_of_labels(good) == "data.format");
}

TEST_CASE("sizes that wrap or that no picture has are data.format before anything is allocated") {
    const auto sized = [](std::uint32_t n, std::uint32_t h, std::uint32_t w) { return idx_images(n, h, w, "ab"); };
    CHECK(code_of_images(sized(2, 0, 1)) == "data.format");
    CHECK(code_of_images(sized(2, 1, 0)) == "data.format");
    CHECK(code_of_images(sized(2, 0xffffffffu, 0xffffffffu)) == "data.format");
    CHECK(code_of_images(sized(2, 0x80000000u, 2)) == "data.format");
    CHECK(code_of_images(sized(2, 16384, 16384)) == "data.format");
    CHECK(code_of_images(sized(0xffffffffu, 4096, 4096)) == "data.count_mismatch");
    CHECK(code_of_images(sized(0, 1, 1)) == "data.count_mismatch");
    made_folder both;
    both.put("train-images-idx3-ubyte", idx_images(0xffffffffu, 4096, 4096, ""));
    both.put("train-labels-idx1-ubyte", big_endian(0x801) + big_endian(0xffffffffu));
    CHECK(code(both) == "data.format");
    made_folder empty;
    empty.put("train-images-idx3-ubyte", idx_images(0, 1, 1, ""));
    empty.put("train-labels-idx1-ubyte", idx_labels(""));
    CHECK(code(empty) == "data.format");
}

TEST_CASE("counts that differ, labels out of range, gaps, and partners that are missing have codes of their own") {
    CHECK(code_of_images(idx_images(3, 1, 1, "abc")) == "data.count_mismatch");
    made_folder range;
    put_idx(range, "train", std::string("\0\1\2", 3));
    put_idx(range, "t10k", std::string("\0\3", 2));
    CHECK(code(range) == "data.label_range");
    CHECK(contains(open_dataset(range.path).error().where(), "t10k-labels"));
    made_folder gap;
    put_idx(gap, "train", std::string("\0\3\1", 3));
    CHECK(code(gap) == "data.empty_class");
    CHECK(contains(open_dataset(gap.path).error().detail(), "no picture has 2"));
    dataset_options options;
    options.allow_empty = true;
    CHECK(open_dataset(gap.path, options).value().classes().size() == 4);
    made_folder one;
    put_idx(one, "train", std::string("\0\0", 2));
    CHECK(code_of(open_splits(one.path)) == "data.no_classes");
    made_folder alone, orphan, twins, test_only;
    alone.put("train-images-idx3-ubyte", idx_images(2, 1, 1, "ab"));
    CHECK(code(alone) == "data.open");
    CHECK(contains(open_dataset(alone.path).error().where(), "train-labels-idx1-ubyte"));
    orphan.put("train-labels-idx1-ubyte", idx_labels("ab"));
    CHECK(code(orphan) == "data.open");
    put_idx(twins, "train", std::string("\0\1", 2));
    put_idx(twins, "other-train", std::string("\0\1", 2));
    CHECK(code(twins) == "data.format");
    made_folder both;
    put_idx(both, "train", std::string("\0\1", 2));
    both.put("train-images.idx3-ubyte", idx_images(2, 1, 1, "ab"));
    both.put("train-labels.idx1-ubyte", idx_labels(std::string("\0\1", 2)));
    REQUIRE(code(both) == "data.format");
    CHECK(open_dataset(both.path).error().where() == both.path + "/train-images.idx3-ubyte");
    CHECK(open_dataset(both.path).error().detail() == "a second pair beside train-images-idx3-ubyte; name one of the files to say which is meant");
    put_idx(test_only, "t10k", std::string("\0\1", 2));
    CHECK(code(test_only) == "ok");
    CHECK(code_of(open_splits(test_only.path)) == "data.no_classes");
    // IDX by content, but with names that leave the partner open.
    made_folder named;
    const auto opened = open_dataset(named.put("digits.dat", idx_images(2, 1, 1, "ab")));
    CHECK(code_of(opened) == "data.format");
    CHECK(contains(opened.error().detail(), "X-images-idx3-ubyte"));
}

TEST_CASE("gzip that is cut, damaged, too long, too short or lies is data.format") {
    const std::string plain = idx_images(2, 1, 1, "ab"), packed = stored_gzip(plain);
    const auto pack = [](const std::string& bytes) { return code_of_images(bytes, "train-images-idx3-ubyte.gz"); };
    CHECK(pack(packed) == "ok");
    for (std::size_t n = 0; n < packed.size(); ++n) CHECK(pack(packed.substr(0, n)) == "data.format");
    for (std::size_t i = 0; i < packed.size(); ++i) {
        std::string bad = packed;
        bad[i] = static_cast<char>(bad[i] ^ 0x80);
        const bool free = i >= 4 && i <= 10;   // time, system, and the bits that fill up a stored block's first byte
        const bool count = i >= 19 && i < 23;  // is compared before anything is unpacked
        CHECK(pack(bad) == std::string(free ? "ok" : count ? "data.count_mismatch" : "data.format"));
    }
    CHECK(pack(packed + packed) == "data.format");
    CHECK(pack(packed + "x") == "data.format");
    CHECK(pack(stored_gzip(plain + "c")) == "data.format");
    CHECK(pack(stored_gzip(plain.substr(0, 17))) == "data.format");
    CHECK(pack(stored_gzip(plain, 19, crc_of(plain.data(), plain.size()))) == "data.format");
    CHECK(pack(stored_gzip(plain, 18, 0)) == "data.format");
    for (std::size_t n = 0; n < 40; ++n) CHECK(pack(from_base64(golden_idx_images).substr(0, n)) == "data.format");
}

TEST_CASE("a gzip bomb is refused by its claim, and never unpacks past it") {
    // 4 GiB of pictures in a few bytes.
    const std::string header = idx_images(2, 16384, 4096, ""), bomb = stored_gzip(header);
    made_folder folder;
    folder.put("train-images-idx3-ubyte.gz", bomb);
    folder.put("train-labels-idx1-ubyte", idx_labels(std::string("\0\1", 2)));
    const auto opened = open_dataset(folder.path);
    REQUIRE(!opened.ok());
    CHECK(opened.error().code() == errc::data_format);
    CHECK(contains(opened.error().detail(), "claim to hold 134217744"));
    // What the caller allows counts too.
    made_folder small;
    put_idx(small, "train", std::string("\0\1\0\1\0\1", 6));
    dataset_options options;
    options.limits.memory_bytes = 20;
    CHECK(code_of(open_dataset(small.path, options)) == "memory.budget");
}

TEST_CASE("a damaged part is refused, whichever it is") {
    for (const char* broken : {"train", "t10k"}) {
        made_folder folder;
        put_idx(folder, "train", std::string("\0\1", 2));
        put_idx(folder, "t10k", std::string("\0\1", 2));
        folder.put(std::string(broken) + "-images-idx3-ubyte", "junk");
        CHECK(code_of(open_splits(folder.path)) == "data.format");
    }
}

TEST_CASE("MNIST is read as it is known") {
    const char* named = std::getenv("GRAFT_SHARED");
    const std::string folder = std::string(named ? named : GRAFT_SOURCE_DIR "/../shared") + "/pack/data/mnist";
    if (!std::filesystem::exists(folder)) {
        say_skipped("no MNIST in " + folder);
        return;
    }
    const dataset_splits mnist = open_splits(folder).value();
    REQUIRE(mnist.training.size() == 60000);
    REQUIRE(mnist.validation.size() == 10000);
    const int first[] = {5, 0, 4, 1, 9}, first_test[] = {7, 2, 1, 0, 4};
    for (int i = 0; i < 5; ++i) {
        CHECK(mnist.training.label(i) == first[i]);
        CHECK(mnist.validation.label(i) == first_test[i]);
    }
    CHECK(mnist.training.class_counts() == std::vector<std::int64_t>{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949});
    double sum = 0;
    for (std::int64_t i = 0; i < 60000; ++i) {
        const sample_bytes raw = mnist.training.fetch(i).value();
        for (std::size_t k = 0; k < raw.size; ++k) sum += raw.data[k];
    }
    CHECK(sum / (60000 * 784.0 * 255) == doctest::Approx(0.1307).epsilon(1e-3));  // the mean that everybody normalises by
}
