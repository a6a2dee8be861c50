#include "dataset_golden.hpp"
#include "made_dataset.hpp"

#include <graft/data/dataset.hpp>
#include <graft/data/splits.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

using namespace graft;

namespace {

const std::vector<std::string> three = {"a", "b", "c"};

// `counts` samples of each class, the classes taking turns.
std::vector<int> labels_of(std::vector<int> counts) {
    std::vector<int> labels;
    for (bool more = true; more;) {
        more = false;
        for (std::size_t c = 0; c < counts.size(); ++c)
            if (counts[c]-- > 0) labels.push_back(static_cast<int>(c)), more = true;
    }
    return labels;
}
std::vector<std::int64_t> counts_of(const std::vector<int>& labels, const std::vector<std::int64_t>& indices, std::size_t classes) {
    std::vector<std::int64_t> counts(classes);
    for (std::int64_t i : indices) ++counts[static_cast<std::size_t>(labels[static_cast<std::size_t>(i)])];
    return counts;
}

}  // namespace

TEST_CASE("a stratified draw takes its share of every class, and every sample once") {
    const std::vector<int> labels = labels_of({100, 10, 7});
    const split_indices s = stratified_split(labels, three, 0.2, 1).value();
    CHECK(counts_of(labels, s.validation, 3) == std::vector<std::int64_t>{20, 2, 1});
    CHECK(counts_of(labels, s.training, 3) == std::vector<std::int64_t>{80, 8, 6});
    std::vector<std::int64_t> all = s.training;
    all.insert(all.end(), s.validation.begin(), s.validation.end());
    std::sort(all.begin(), all.end());
    for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i] == static_cast<std::int64_t>(i));
    CHECK(std::is_sorted(s.training.begin(), s.training.end()));
    CHECK(std::is_sorted(s.validation.begin(), s.validation.end()));
}

TEST_CASE("the seed decides the draw, and nothing else does") {
    const std::vector<int> labels = labels_of({50, 50});
    const std::vector<std::string> two = {"a", "b"};
    const auto drawn = [&](std::uint64_t seed) { return stratified_split(labels, two, 0.3, seed).value().validation; };
    CHECK(drawn(1) == drawn(1));
    CHECK(drawn(1) != drawn(2));
    // Every sample is drawn about equally often: 3 in 10 of 1000 seeds.
    std::map<std::int64_t, int> times;
    for (std::uint64_t seed = 0; seed < 1000; ++seed)
        for (std::int64_t i : drawn(seed)) ++times[i];
    CHECK(times.size() == 100);
    for (const auto& t : times) {
        CHECK(t.second > 220);  // five deviations of a binomial
        CHECK(t.second < 380);
    }
}

TEST_CASE("another class that comes changes nothing in the others") {
    const std::vector<int> few = labels_of({20, 20});
    std::vector<int> more = few;
    for (int& label : more) label += label == 1;  // "b" becomes class 2: a new class lies between
    more.insert(more.end(), 9, 1);
    const split_indices before = stratified_split(few, {"a", "b"}, 0.25, 5).value(), after = stratified_split(more, {"a", "aa", "b"}, 0.25, 5).value();
    std::vector<std::int64_t> old_ones;
    for (std::int64_t i : after.validation)
        if (i < static_cast<std::int64_t>(few.size())) old_ones.push_back(i);
    CHECK(old_ones == before.validation);
}

TEST_CASE("each side keeps a sample of every class that has two, a single one is learnt from") {
    const std::vector<int> labels = labels_of({1, 2, 3});
    const split_indices small = stratified_split(labels, three, 0.01, 1).value(), large = stratified_split(labels, three, 0.99, 1).value();
    CHECK(counts_of(labels, small.validation, 3) == std::vector<std::int64_t>{0, 1, 1});
    CHECK(counts_of(labels, large.training, 3) == std::vector<std::int64_t>{1, 1, 1});
    CHECK(stratified_split(labels, three, 0, 1).value().validation.empty());
    CHECK(stratified_split({}, three, 0.2, 1).value().training.empty());
    for (double wrong : {-0.1, 1.0, 2.0, std::nan("")}) CHECK(code_of(stratified_split(labels, three, wrong, 1)) == "usage");
}

TEST_CASE("where no part is given to score by, a fifth of each class is drawn") {
    made_folder folder;
    for (int i = 0; i < 10; ++i)
        for (const char* name : {"a", "b"}) folder.put(std::string(name) + "/" + std::to_string(i) + ".pgm", picture(i));
    dataset_options options;
    const dataset_splits s = open_splits(folder.path, options).value();
    CHECK(!s.validation_given);
    CHECK(s.training.class_counts() == std::vector<std::int64_t>{8, 8});
    CHECK(s.validation.class_counts() == std::vector<std::int64_t>{2, 2});
    std::set<std::string> seen;
    for (std::int64_t i = 0; i < s.training.size(); ++i) seen.insert(s.training.name(i));
    for (std::int64_t i = 0; i < s.validation.size(); ++i) seen.insert(s.validation.name(i));
    CHECK(seen.size() == 20);
    options.seed = 99;
    const dataset_splits other = open_splits(folder.path, options).value();
    std::vector<std::string> one, two;
    for (std::int64_t i = 0; i < 4; ++i) one.push_back(s.validation.name(i)), two.push_back(other.validation.name(i));
    CHECK(one != two);
    options.validation_fraction = 0;
    CHECK(open_splits(folder.path, options).value().validation.size() == 0);
}

TEST_CASE("class weights are scikit-learn's balanced ones with mean 1") {
    const std::vector<float> weights = class_weights(std::vector<std::int64_t>(std::begin(golden_counts), std::end(golden_counts)));
    for (std::size_t c = 0; c < weights.size(); ++c) CHECK(weights[c] == doctest::Approx(golden_weights[c]).epsilon(1e-6));
    CHECK(class_weights({5, 5}) == std::vector<float>{1, 1});
    // Classes without samples count for nothing.
    CHECK(class_weights({5, 0, 5}) == std::vector<float>{1, 0, 1});
    CHECK(class_weights({0, 0}) == std::vector<float>{0, 0});
    CHECK(class_weights({}).empty());
}

TEST_CASE("class weights are what a text says: balanced, or one for each class") {
    const std::vector<std::int64_t> counts{1, 3};
    CHECK(class_weights("", counts, "w").value().empty());
    CHECK(class_weights("balanced", counts, "w").value() == class_weights(counts));
    CHECK(class_weights("0:2.5e1", counts, "w").value() == std::vector<float>{0, 25});
    for (const char* wrong : {"1", "1:2:3", "1:", ":1", "1:2:", "1:-1", "1:x", "1:nan", "1:inf", "1:1e39", "1;2", "balance"}) {
        CAPTURE(wrong);
        const auto refused = class_weights(wrong, counts, "w");
        REQUIRE(!refused.ok());
        CHECK(refused.error().code() == graft::errc::usage);
        CHECK(refused.error().where() == "w");
    }
}

TEST_CASE("classes are uneven where the largest has over 1.5 times its share, or over four times the smallest") {
    CHECK(is_imbalanced({60, 5}));
    CHECK(!is_imbalanced({70, 30}));
    CHECK(is_imbalanced({80, 20}));
    CHECK(is_imbalanced({100, 100, 100, 20}));
    CHECK(!is_imbalanced({100, 100, 100, 25}));
    CHECK(!is_imbalanced({10, 0, 10}));
    CHECK(!is_imbalanced({10, 0}));
    CHECK(!is_imbalanced({}));
}
