// Copies: the same bytes, the same pixels, or nearly the same picture; what check says of them; draws that keep them together.
#include "made_dataset.hpp"

#include <graft/core/read_file.hpp>
#include <graft/data/check.hpp>
#include <graft/data/png_encode.hpp>
#include <graft/data/resize.hpp>
#include <graft/data/splits.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

using namespace graft;

namespace {

// A scene of soft waves and a few edges, of its own for every number; `light` scales its pixels.
image scene(int number, std::int64_t height = 120, std::int64_t width = 160, double light = 1, double grain = 0) {
    const image made = image::make(height, width, 3).value();
    std::uint64_t state = static_cast<std::uint64_t>(number) * 977 + 12345;
    const auto random = [&state] {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return static_cast<double>(state >> 40) / (1 << 24);
    };
    struct wave {
        double across, down, phase, strength;
        bool edge;
    } waves[14];
    for (wave& w : waves) w = {random() * 9 - 4.5, random() * 9 - 4.5, random() * 6.3, 8 + random() * 14, random() < 0.3};
    const double tint[3] = {random() * 30, random() * 30, random() * 30};
    for (std::int64_t y = 0; y < height; ++y)
        for (std::int64_t x = 0; x < width; ++x) {
            double sum = 110;
            for (const wave& w : waves) {
                const double v = std::sin(6.2832 * (w.across * (static_cast<double>(x) + 0.5) / static_cast<double>(width) +
                                                    w.down * (static_cast<double>(y) + 0.5) / static_cast<double>(height)) +
                                          w.phase);
                sum += w.strength * (w.edge ? (v > 0 ? 1 : -1) : v);
            }
            for (int c = 0; c < 3; ++c) {
                const double noise = grain * (static_cast<double>((static_cast<std::uint64_t>(x * 31 + y * 17 + c) * 2654435761u) >> 8 & 255) / 255 - 0.5);
                made.data()[(y * width + x) * 3 + c] = static_cast<std::uint8_t>(std::min(255.0, std::max(0.0, (sum + tint[c]) * light + noise)));
            }
        }
    return made;
}

std::string png(const image& picture) { return encode_png(picture).value(); }
std::string ppm(const image& picture) {
    return "P6 " + std::to_string(picture.width) + " " + std::to_string(picture.height) + " 255\n" +
           std::string(reinterpret_cast<const char*>(picture.data()), static_cast<std::size_t>(picture.bytes()));
}

dataset_report checked(const std::string& path, int threads = 2) {
    pool_executor pool(threads);
    return check_dataset(path, {}, pool);
}
std::string file_of(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

}  // namespace

TEST_CASE("copies are found whether bytes, pixels or only looks are the same, and distinct pictures are none") {
    made_folder folder;
    for (int i = 0; i < 40; ++i) folder.put(i % 2 ? "a/s" + std::to_string(i) + ".png" : "b/s" + std::to_string(i) + ".png", png(scene(i)));
    CHECK(checked(folder.path).copies.empty());
    folder.put("a/s1-bytes.png", png(scene(1)));
    folder.put("a/s3-pixels.ppm", ppm(scene(3)));
    folder.put("a/s5-smaller.png", png(resize(scene(5), 96, 128, filter::bicubic).value()));
    folder.put("a/s7-twice.png", png(resize(scene(7), 240, 320, filter::bilinear).value()));
    folder.put("a/s9-lighter.png", png(scene(9, 120, 160, 1.12)));
    folder.put("a/s11-darker.png", png(scene(11, 120, 160, 0.8)));
    folder.put("a/s13-grain.png", png(scene(13, 120, 160, 1, 6)));
    folder.put("a/s15-square.png", png(resize(scene(15), 96, 96).value()));
    const dataset_report report = checked(folder.path);
    CHECK(report.near_searched);
    CHECK(report.problems.empty());  // copies within a class are no fault
    CHECK(report.exact_copies[0] == 2);
    CHECK(report.near_copies[0] == 6);
    std::set<std::string> found;
    for (const dataset_report::copy& c : report.copies) found.insert(file_of(contains(c.path, "-") ? c.path : c.of));
    for (const char* name :
         {"s1-bytes.png", "s3-pixels.ppm", "s5-smaller.png", "s7-twice.png", "s9-lighter.png", "s11-darker.png", "s13-grain.png", "s15-square.png"}) {
        INFO(std::string(name));
        CHECK(found.count(name) == 1);
    }
    for (const dataset_report::copy& c : report.copies) {
        INFO(c.path, " of ", c.of);
        const std::string one = file_of(c.path), other = file_of(c.of);
        CHECK(one.substr(0, one.find_first_of("-.")) == other.substr(0, other.find_first_of("-.")));
        CHECK(c.exact == (contains(c.path + c.of, "bytes") || contains(c.path + c.of, "pixels")));
        CHECK(c.where == dataset_report::overlap::in_class);
    }
    const dataset_report again = checked(folder.path, 1);
    REQUIRE(again.copies.size() == report.copies.size());
    for (std::size_t i = 0; i < report.copies.size(); ++i) CHECK(again.copies[i].path == report.copies[i].path);
}

TEST_CASE("pictures that are small, even, or of another color are no near copies") {
    made_folder folder;
    for (int i = 0; i < 12; ++i) {
        // Simple shapes at 28 x 28 are alike by nature, even ones have nothing to compare.
        folder.put("a/small" + std::to_string(i) + ".png", png(scene(1, 28, 28, 1 - 0.01 * i)));
        const image even = image::make(64, 64, 3).value();
        std::fill(even.data(), even.data() + even.bytes(), static_cast<std::uint8_t>(100 + i));
        folder.put("b/even" + std::to_string(i) + ".png", png(even));
    }
    image red = scene(2), blue = scene(2);
    for (std::int64_t i = 0; i < red.bytes(); i += 3) {
        red.data()[i] = static_cast<std::uint8_t>(std::min(255, red.data()[i] + 80));
        blue.data()[i + 2] = static_cast<std::uint8_t>(std::min(255, blue.data()[i + 2] + 80));
    }
    folder.put("a/red.png", png(red));
    folder.put("b/blue.png", png(blue));
    CHECK(checked(folder.path).copies.empty());
}

TEST_CASE("copies across classes and across parts are problems, and the earlier part is named as the one to be a copy of") {
    made_folder folder;
    folder.put("list.csv", "path,label,split\nv1.png,a,val\nt1.png,a,train\nt2.png,a,\nt3.png,b,\nt4.png,b,\nv2.png,b,val\nx.png,b,test\n");
    folder.put("t1.png", png(scene(1)));
    folder.put("v1.png", png(scene(1, 120, 160, 0.9)));  // near, in another part
    folder.put("t2.png", png(scene(2)));
    folder.put("t3.png", png(scene(3)));
    folder.put("t4.png", png(resize(scene(2), 90, 120).value()));  // near, in another class
    folder.put("v2.png", png(scene(4)));
    folder.put("x.png", png(scene(4)));
    const dataset_report report = checked(folder.path + "/list.csv");
    CHECK(report.problems.size() == 3);
    CHECK(count_problems(report.problems, errc::data_leak, "/v1.png") == 1);
    CHECK(count_problems(report.problems, errc::data_label_conflict, "/t4.png") == 1);
    CHECK(count_problems(report.problems, errc::data_leak, "/x.png") == 1);
    for (const dataset_problem& p : report.problems)
        CHECK(contains(p.detail, contains(p.path, "x.png") ? "the same picture as " : "nearly the same picture as "));
    CHECK(report.near_copies[1] == 1);
    CHECK(report.near_copies[2] == 1);
    CHECK(report.exact_copies[2] == 1);
}

TEST_CASE("copies are never drawn to both sides, whatever the seed, and a draw without copies is as it was") {
    made_folder folder;
    for (int i = 0; i < 60; ++i) folder.put((i % 2 ? "a/" : "b/") + std::to_string(i) + ".png", png(scene(i, 96, 96)));
    const auto names = [](const dataset& d) {
        std::set<std::string> all;
        for (std::int64_t i = 0; i < d.size(); ++i) all.insert(file_of(d.name(i)));
        return all;
    };
    dataset_options loose;
    loose.together = false;
    const dataset_splits plain = open_splits(folder.path).value();
    CHECK(plain.copies == 0);
    CHECK(names(plain.validation) == names(open_splits(folder.path, loose).value().validation));
    // Ten bursts of four, some across the classes, and three files that are copied byte by byte.
    for (int i = 0; i < 10; ++i)
        for (int k = 0; k < 3; ++k)
            folder.put((i < 8    ? i % 2 ? "a/" : "b/"
                        : k == 1 ? "a/"
                                 : "b/") +
                           std::to_string(i) + "-" + std::to_string(k) + ".png",
                       png(resize(scene(i, 96, 96, 1 - 0.05 * k), 70 + 10 * k, 80).value()));
    for (int i = 30; i < 33; ++i) folder.put((i % 2 ? "a/" : "b/") + std::to_string(i) + "-x.png", png(scene(i, 96, 96)));
    int mixed_without = 0;
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
        const auto mixed = [&](bool together) {
            dataset_options options;
            options.seed = seed;
            options.together = together;
            const dataset_splits s = open_splits(folder.path, options).value();
            if (together) {
                CHECK(s.copies == 33);
                const std::vector<std::int64_t> all = open_dataset(folder.path).value().class_counts(), held = s.validation.class_counts();
                for (std::size_t c = 0; c < 2; ++c) CHECK(std::abs(static_cast<double>(held[c]) - 0.2 * static_cast<double>(all[c])) <= 2.5);
            }
            std::set<std::string> learnt, scored, both;
            const auto stem = [](const std::string& name) { return name.substr(0, name.find_first_of("-.")); };
            for (const std::string& n : names(s.training)) learnt.insert(stem(n));
            for (const std::string& n : names(s.validation)) scored.insert(stem(n));
            std::set_intersection(learnt.begin(), learnt.end(), scored.begin(), scored.end(), std::inserter(both, both.end()));
            return static_cast<int>(both.size());
        };
        CHECK(mixed(true) == 0);
        mixed_without += mixed(false);
    }
    CHECK(mixed_without > 12);
}

TEST_CASE("groups go to one side, near to the share, and leave each class something to learn from") {
    const std::vector<std::string> classes = {"a", "b"};
    std::vector<int> labels(40, 0);
    labels.resize(60, 1);
    std::vector<std::int64_t> groups;
    for (std::int64_t i = 0; i < 60; ++i) groups.push_back(i < 40 ? i / 4 : i < 58 ? 100 : i);  // tens of four; one of eighteen and two
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        const split_indices s = stratified_split(labels, classes, 0.25, seed, groups).value();
        std::map<std::int64_t, std::set<bool>> sides;
        for (std::int64_t i : s.training) sides[groups[static_cast<std::size_t>(i)]].insert(true);
        for (std::int64_t i : s.validation) sides[groups[static_cast<std::size_t>(i)]].insert(false);
        for (const auto& side : sides) CHECK(side.second.size() == 1);
        CHECK(s.training.size() + s.validation.size() == 60);
        const auto of_a = std::count_if(s.validation.begin(), s.validation.end(), [](std::int64_t i) { return i < 40; });
        const auto of_b = static_cast<std::int64_t>(s.validation.size()) - of_a;
        CHECK((of_a >= 8 && of_a <= 12));
        CHECK((of_b >= 1 && of_b <= 2));
    }
    // Where all of a class are copies of each other, they are learnt from.
    CHECK(stratified_split({0, 0, 1, 1}, classes, 0.5, 1, {7, 7, 8, 9}).value().validation.size() == 1);
    CHECK(code_of(stratified_split({0, 1}, classes, 0.5, 1, {1})) == "usage");
    std::vector<std::int64_t> own;
    for (std::int64_t i = 0; i < 60; ++i) own.push_back(1000 - i);
    CHECK(stratified_split(labels, classes, 0.3, 5, own).value().validation == stratified_split(labels, classes, 0.3, 5).value().validation);
}

TEST_CASE("a given validation part that holds training pictures is told of in one problem when it is opened") {
    made_folder folder;
    for (int i = 0; i < 4; ++i) {
        folder.put(std::string("train/") + (i % 2 ? "a/" : "b/") + std::to_string(i) + ".png", png(scene(i)));
        folder.put(std::string("val/") + (i % 2 ? "a/" : "b/") + std::to_string(i) + "v.png", png(scene(i + 10)));
    }
    CHECK(open_splits(folder.path).value().training.problems().empty());
    folder.put("val/a/1.png", png(scene(1)));
    folder.put("val/b/2.png", png(scene(2)));
    const dataset_splits s = open_splits(folder.path).value();
    CHECK(s.validation_given);
    REQUIRE(count_problems(s.training.problems(), errc::data_leak) == 1);
    CHECK(contains(s.training.problems()[0].detail, "which is learnt from, and so for 1 others"));
}

TEST_CASE("tags tell contents apart by size, beginning, middle and end") {
    made_folder folder;
    std::string bytes(40000, 'x');
    const auto tag_of = [&](const std::string& contents) { return file_tag(folder.put("file", contents), errc::data_open).value(); };
    const std::uint64_t first = tag_of(bytes);
    CHECK(tag_of(bytes) == first);
    std::set<std::uint64_t> tags{first};
    for (const std::size_t at : {std::size_t(0), std::size_t(4095), std::size_t(20000), std::size_t(39999)}) {
        std::string other = bytes;
        other[at] = 'y';
        tags.insert(tag_of(other));
    }
    tags.insert(tag_of(bytes + "x"));
    CHECK(tags.size() == 6);
    CHECK(tag_of("") != tag_of("a"));
    for (const std::size_t size : {std::size_t(1), std::size_t(4096), std::size_t(5000), std::size_t(9000)}) {
        std::string small(size, 'z'), other = small;
        other[size - 1] = 'y';
        CHECK(tag_of(small) != tag_of(other));
    }
    CHECK(code_of(file_tag(folder.path, errc::data_open)) == "data.open");
    CHECK(code_of(file_tag(folder.path + "/nowhere", errc::data_open)) == "data.open");
}
