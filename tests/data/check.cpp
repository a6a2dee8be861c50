#include "made_dataset.hpp"

#include <graft/data/check.hpp>

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

using namespace graft;

namespace {

dataset_report checked(const std::string& path, const dataset_options& options = {}, int threads = 2) {
    pool_executor pool(threads);
    return check_dataset(path, options, pool);
}
// Two classes of so many sound pictures each, all different.
void put_classes(const made_folder& folder, const std::string& part, int each, int level = 0) {
    for (int i = 0; i < each; ++i)
        for (const char* name : {"a", "b"}) folder.put(part + name + "/" + std::to_string(i) + ".pgm", picture(level++));
}

}  // namespace

TEST_CASE("a sound dataset has no problems") {
    made_folder folder;
    put_classes(folder, "train/", 3);
    put_classes(folder, "val/", 1, 100);
    const dataset_report report = checked(folder.path);
    CHECK(report.verdict.ok());
    CHECK(report.images == 8);
    CHECK(report.readable == 8);
    CHECK(report.classes == std::vector<std::string>{"a", "b"});
    CHECK(report.training == std::vector<std::int64_t>{3, 3});
    CHECK(report.validation == std::vector<std::int64_t>{1, 1});
    CHECK(report.problems.empty());
}

TEST_CASE("damaged pictures, pipes and empty classes are listed while enough is left") {
    made_folder folder;
    put_classes(folder, "", 3);
    folder.put("a/cut.pgm", "P5 9 9 255\nxx");
    folder.put("b/empty.jpg", "");
    folder.put("b/text.png", "hello");
    folder.put("b/anim.gif", "GIF89a");
    folder.make("c");
    REQUIRE(::mkfifo((folder.path + "/a/pipe").c_str(), 0600) == 0);
    const dataset_report report = checked(folder.path);
    CHECK(report.verdict.ok());
    CHECK(report.images == 10);
    CHECK(report.readable == 6);
    CHECK(report.problems.size() == 6);
    CHECK(count_problems(report.problems, errc::image_truncated, "/a/cut.pgm") == 1);
    CHECK(count_problems(report.problems, errc::image_truncated, "/b/empty.jpg") == 1);
    CHECK(count_problems(report.problems, errc::image_unsupported, "/b/text.png") == 1);
    CHECK(count_problems(report.problems, errc::image_unsupported, "/b/anim.gif") == 1);
    CHECK(count_problems(report.problems, errc::data_empty_class, "/c") == 1);
    CHECK(count_problems(report.problems, errc::data_open, "/a/pipe") == 1);
    dataset_options options;
    options.allow_empty = true;
    CHECK(count_problems(checked(folder.path, options).problems, errc::data_empty_class) == 0);
}

TEST_CASE("the report does not depend on the threads, and progress ends at the end") {
    made_folder folder;
    put_classes(folder, "train/", 300);
    put_classes(folder, "val/", 20);
    for (int i = 0; i < 40; ++i) folder.put("train/a/bad" + std::to_string(i) + ".png", "no");
    const dataset_report one = checked(folder.path, {}, 1);
    struct steps {
        std::int64_t last = -1, total = 0;
        bool rising = true;
    } seen;
    dataset_progress progress;
    progress.context = &seen;
    progress.report = [](void* context, std::int64_t done, std::int64_t total) {
        steps& s = *static_cast<steps*>(context);
        s.rising = s.rising && done > s.last;
        s.last = done;
        s.total = total;
    };
    pool_executor pool(4);
    const dataset_report four = check_dataset(folder.path, {}, pool, progress);
    CHECK(seen.rising);
    CHECK(seen.last == 680);
    CHECK(seen.total == 680);
    REQUIRE(one.problems.size() == four.problems.size());
    for (std::size_t i = 0; i < one.problems.size(); ++i) {
        CHECK(one.problems[i].path == four.problems[i].path);
        CHECK(one.problems[i].code == four.problems[i].code);
        CHECK(one.problems[i].detail == four.problems[i].detail);
    }
}

TEST_CASE("pictures that two parts share are leaks, pictures twice in one class of one part are not") {
    made_folder folder;
    put_classes(folder, "train/", 3);
    put_classes(folder, "val/", 2, 100);
    folder.put("train/a/twice.pgm", picture(0));
    CHECK(checked(folder.path).problems.empty());
    folder.put("val/b/leaked.pgm", picture(0));
    folder.put("test/b/leaked.pgm", picture(100));
    const dataset_report report = checked(folder.path);
    CHECK(report.verdict.ok());
    REQUIRE(report.problems.size() == 2);
    CHECK(report.problems[0].code == errc::data_leak);
    CHECK(report.problems[0].path == folder.path + "/val/b/leaked.pgm");
    CHECK(contains(report.problems[0].detail, "/train/a/0.pgm"));
    CHECK(report.problems[1].path == folder.path + "/test/b/leaked.pgm");
    CHECK(contains(report.problems[1].detail, "/val/a/0.pgm"));
    made_folder digits;
    put_idx(digits, "train", std::string("\0\1\0", 3));
    put_idx(digits, "t10k", std::string("\0\1", 2));
    CHECK(count_problems(checked(digits.path).problems, errc::data_leak) == 2);
}

TEST_CASE("a class of the validation part that training lacks is a problem, training can go on without it") {
    made_folder folder;
    put_classes(folder, "train/", 2);
    folder.put("val/z/1.pgm", picture(99));
    const dataset_report report = checked(folder.path);
    CHECK(report.verdict.ok());
    CHECK(report.images == 4);
    CHECK(count_problems(report.problems, errc::data_class_mismatch, "/val/z") == 1);
}

TEST_CASE("uneven classes and the share of unreadable pictures are told") {
    made_folder folder;
    put_classes(folder, "", 5);
    CHECK(!checked(folder.path).imbalanced);
    for (int i = 0; i < 55; ++i) folder.put("b/more" + std::to_string(i) + ".pgm", picture(20 + i));
    folder.put("a/bad.pgm", "no picture");
    const dataset_report report = checked(folder.path);
    CHECK(report.imbalanced);
    CHECK(report.classes[report.largest] == "b");
    CHECK(report.classes[report.smallest] == "a");
    CHECK(report.majority == doctest::Approx(60.0 / 65));
    CHECK(report.ratio == doctest::Approx(12));
    CHECK(report.bad_share == doctest::Approx(1.0 / 66));
}

TEST_CASE("numbers left out among class names are a problem") {
    made_folder folder;
    for (const char* name : {"0", "1", "2", "4", "10"}) folder.put(std::string(name) + "/1.pgm", picture(std::atoi(name)));
    const dataset_report report = checked(folder.path);
    CHECK(report.verdict.ok());
    REQUIRE(report.problems.size() == 1);
    CHECK(report.problems[0].code == errc::data_empty_class);
    CHECK(contains(report.problems[0].detail, "3, 5, 6, 7, 8, 9"));
    made_folder far;
    far.put("0/1.pgm", picture(1));
    far.put("999999999/1.pgm", picture(1));
    CHECK(contains(checked(far.path).problems[0].detail, "999999998 are missing"));
    made_folder digits;
    put_idx(digits, "train", std::string("\0\2\0", 3));
    CHECK(count_problems(checked(digits.path).problems, errc::data_empty_class) == 1);
    CHECK(checked(digits.path).verdict.ok());
    CHECK(checked(digits.path).images == 3);
}

TEST_CASE("the verdict fails where nothing is left to train on") {
    const auto verdict = [](const std::string& path) {
        const dataset_report report = checked(path);
        CHECK(!report.problems.empty());
        return code_of(report.verdict);
    };
    made_folder folder;
    CHECK(verdict(folder.path + "/nowhere") == "data.open");
    CHECK(verdict(folder.path) == "data.no_classes");
    folder.put("a/1.pgm", picture(1));
    CHECK(verdict(folder.path) == "data.no_classes");
    folder.make("b");
    CHECK(verdict(folder.path) == "data.no_classes");  // one class has pictures
    folder.put("b/1.png", "broken");
    CHECK(verdict(folder.path) == "data.no_classes");
    folder.put("a/1.pgm", "broken");
    CHECK(verdict(folder.path) == "data.too_many_bad");
    CHECK(verdict(folder.put("junk.bin", "x")) == "data.format");
    CHECK(verdict(folder.put("label.bin", cifar_record(255, 0))) == "data.label_range");
    made_folder digits;
    put_idx(digits, "train", std::string("\0\1", 2));
    put_idx(digits, "t10k", std::string("\0\1", 2));
    CHECK(checked(digits.path + "/t10k-images-idx3-ubyte").verdict.ok());
    digits.put("train-labels-idx1-ubyte", idx_labels("abc"));
    CHECK(verdict(digits.path) == "data.count_mismatch");  // a test part alone is not learnt from
}

TEST_CASE("a damaged part is listed while the training part is whole") {
    made_folder digits;
    put_idx(digits, "train", std::string("\0\1", 2));
    digits.put("t10k-images-idx3-ubyte", "junk");
    const dataset_report report = checked(digits.path);
    CHECK(report.verdict.ok());
    CHECK(report.images == 2);
    CHECK(count_problems(report.problems, errc::data_open) == 1);
}

TEST_CASE("the formats that name their classes need not have samples of all") {
    made_folder folder;
    const dataset_report report = checked(folder.put("some.bin", cifar_record(3, 1) + cifar_record(3, 2)));
    CHECK(report.verdict.ok());
    CHECK(report.problems.empty());
}

TEST_CASE("pictures of one color all over are no copies of each other") {
    const made_folder folder;
    for (const char* name : {"train/a/1", "train/a/2", "train/b/3", "val/b/4"}) folder.put(std::string(name) + ".pgm", "P5 4 4 255\n" + std::string(16, 'x'));
    for (const char* name : {"train/a/5", "train/b/6"}) folder.put(std::string(name) + ".pgm", "P5 4 4 255\n" + std::string(15, 'x') + "y");
    const graft::dataset_report report = checked(folder.path);
    CHECK(report.copies.size() == 1);
    CHECK(count_problems(report.problems, errc::data_label_conflict) == 1);
    CHECK(report.problems.size() == 1);
}
