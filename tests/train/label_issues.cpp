// Labels that a network doubts: who is taken by the confident joint, and who is not.
#include <graft/train/label_issues.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

namespace {

// A picture of `label`, of which the network gives these probabilities.
graft::scored_picture scored(std::int32_t label, const std::vector<double>& probabilities) {
    graft::scored_picture p;
    p.label = label;
    for (std::size_t c = 0; c < probabilities.size(); ++c)
        if (probabilities[c] > probabilities[static_cast<std::size_t>(p.predicted)]) p.predicted = static_cast<std::int32_t>(c);
    p.probability = static_cast<float>(probabilities[static_cast<std::size_t>(p.predicted)]);
    p.loss = static_cast<float>(-std::log(probabilities[static_cast<std::size_t>(label)]));
    return p;
}

}  // namespace

TEST_CASE("Labels are doubted where another class has at least the probability that its own pictures give it") {
    // Class 0 gets 0.7 of its own pictures on average, class 1 gets 0.55.
    const std::vector<graft::scored_picture> pictures = {scored(0, {0.9, 0.1}), scored(0, {0.8, 0.2}), scored(0, {0.4, 0.6}),  scored(1, {0.05, 0.95}),
                                                         scored(1, {0.2, 0.8}), scored(1, {0.9, 0.1}), scored(1, {0.65, 0.35})};
    const std::vector<graft::label_issue> issues = graft::find_label_issues(pictures);
    REQUIRE(issues.size() == 2);
    CHECK(issues[0].picture == 5);  // 0.9 for class 0
    CHECK(issues[0].suggested == 0);
    CHECK(issues[0].probability == doctest::Approx(0.9));
    CHECK(issues[0].self_confidence == doctest::Approx(0.1));
    CHECK(issues[0].margin() == doctest::Approx(0.8));
    CHECK(issues[1].picture == 2);  // 0.6 for class 1
    // The last is taken for class 0 by 0.65: not enough.
}

TEST_CASE("Labels are doubted by nothing that is not known") {
    CHECK(graft::find_label_issues({}).empty());
    // Nobody is labelled 1, so that there is no threshold for it.
    CHECK(graft::find_label_issues({scored(0, {0.1, 0.9}), scored(0, {0.9, 0.1})}).empty());
    std::vector<graft::scored_picture> lost = {scored(0, {0.9, 0.1}), scored(1, {0.1, 0.9}), scored(1, {0.95, 0.05})};
    CHECK(graft::find_label_issues(lost).size() == 1);
    lost[2].loss = std::numeric_limits<float>::infinity();
    CHECK(graft::find_label_issues(lost).empty());
    lost[2].probability = std::numeric_limits<float>::quiet_NaN();
    CHECK(graft::find_label_issues(lost).empty());
}

TEST_CASE("Neighbours vote by the cosine of their features, whoever computes it, and nobody votes for itself") {
    // Two fans of directions; one of each fan is labelled as the other.
    std::vector<float> rows;
    std::vector<std::int32_t> labels;
    for (int i = 0; i < 40; ++i) {
        const double angle = (i % 2 ? 1.4 : 0.1) + 0.003 * i, length = 1 + i % 5;
        for (int k = 0; k < 11; ++k) rows.push_back(static_cast<float>(k == 0 ? length * std::cos(angle) : k == 10 ? length * std::sin(angle) : 0));
        labels.push_back(i == 6 || i == 21 ? 1 - i % 2 : i % 2);
    }
    graft::pool_executor one(1), three(3);
    const auto votes = graft::vote_of_neighbours(rows.data(), 11, labels, one).value();
    const auto again = graft::vote_of_neighbours(rows.data(), 11, labels, three).value();
    REQUIRE(votes.size() == 40);
    for (int i = 0; i < 40; ++i) {
        const auto at = static_cast<std::size_t>(i);
        CHECK(votes[at].predicted == i % 2);
        CHECK(votes[at].label == labels[at]);
        CHECK(votes[at].probability == again[at].probability);
        CHECK(votes[at].loss == again[at].loss);
    }
    // Five neighbours of 20 a class: all of the other label, or one who is wrong himself.
    CHECK(votes[6].probability == 1);
    CHECK(votes[4].probability == doctest::Approx(0.8).epsilon(0.01));
    const auto issues = graft::find_label_issues(votes);
    REQUIRE(issues.size() == 2);
    CHECK(issues[0].picture + issues[1].picture == 27);
    CHECK(issues[0].margin() == doctest::Approx(1));
}

TEST_CASE("Neighbours of what is like nothing keep its label, and features without a number are refused") {
    graft::pool_executor pool(1);
    const float none[6] = {};
    const auto votes = graft::vote_of_neighbours(none, 2, {0, 1, 1}, pool).value();
    CHECK(votes[0].predicted == 0);
    CHECK(votes[0].probability == 1);
    CHECK(graft::find_label_issues(votes).empty());
    CHECK(graft::vote_of_neighbours(none, 2, {}, pool)->empty());
    CHECK(graft::vote_of_neighbours(none, 0, {0}, pool).error().code() == graft::errc::usage);
    CHECK(graft::vote_of_neighbours(none, 1, {0}, pool)->front().predicted == 0);
}
