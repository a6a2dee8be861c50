// Labels that a network doubts: confident learning's rule, for pictures that are to be looked at again.
#pragma once

#include "evaluate.hpp"

#include <cstdint>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// A picture whose label a network doubts.
struct label_issue {
    std::size_t picture = 0;     ///< its place among the pictures that were given
    std::int32_t suggested = 0;  ///< the class that it was taken for
    double probability = 0;      ///< of that class
    double self_confidence = 0;  ///< the probability of the label that it has
    double margin() const noexcept { return probability - self_confidence; }
};

/// The pictures that the confident joint of Northcutt, Jiang and Chuang (2021, "Confident Learning: Estimating Uncertainty in Dataset Labels",
/// section 3.1) has off its diagonal: taken for another class than their label, with at least the probability that pictures labelled as that class
/// get for it on average. Of the classes above their threshold the likeliest alone counts, so that a picture whose likeliest class is
/// below its own is left alone. A class without pictures has no threshold and is suggested to nobody. The widest margin comes first. The rule is
/// made for pictures that the network did not learn from; those that it did it takes for what they were said to be, so that fewer are found.
std::vector<label_issue> find_label_issues(const std::vector<scored_picture>& pictures);

/// How the pictures around each picture are labelled, as if a network had said so: of its nearest neighbours by the cosine of their features
/// (`rows`: `labels.size()` x `width`, row-major) each votes for its own label with that cosine. A picture has no vote of its own, so that this
/// is a judgement of a network that was never told the label, if the trunk that made the features was not. There are a quarter as many neighbours as a class
/// has pictures on average, from 3 to 20, among up to 4096 pictures that lie evenly in the order given. Does not depend on the threads of `pool`. Errors: usage
/// (no width).
result<std::vector<scored_picture>> vote_of_neighbours(const float* rows, std::int64_t width, const std::vector<std::int32_t>& labels, executor& pool);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <algorithm>
#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Sums side by side, which compilers turn into vectors without changing a bit.
inline float dot_product(const float* a, const float* b, std::int64_t n) noexcept {
    float sums[8] = {};
    std::int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; ++k) sums[k] += a[i + k] * b[i + k];
    float rest = 0;
    for (; i < n; ++i) rest += a[i] * b[i];
    for (const float s : sums) rest += s;
    return rest;
}

// The vote on picture `i`: the best `k` of the references but itself.
inline scored_picture vote_on(std::int64_t i, const std::vector<float>& unit, std::int64_t width, const std::vector<std::int32_t>& labels,
                              const std::vector<std::int64_t>& references, std::int32_t classes, std::size_t k) {
    std::vector<std::pair<float, std::int64_t>> near;  // the least first
    for (const std::int64_t r : references) {
        if (r == i) continue;
        const float likeness = dot_product(&unit[static_cast<std::size_t>(i * width)], &unit[static_cast<std::size_t>(r * width)], width);
        if (near.size() == k && !(likeness > near.front().first)) continue;
        near.insert(std::upper_bound(near.begin(), near.end(), std::make_pair(likeness, r), [](const auto& a, const auto& b) { return a.first < b.first; }),
                    {likeness, r});
        if (near.size() > k) near.erase(near.begin());
    }
    std::vector<double> votes(static_cast<std::size_t>(classes));
    double all = 0;
    for (const auto& n : near) {
        const double weight = std::max(0.0, static_cast<double>(n.first));
        votes[static_cast<std::size_t>(labels[static_cast<std::size_t>(n.second)])] += weight;
        all += weight;
    }
    scored_picture s;
    s.index = i;
    s.label = s.predicted = labels[static_cast<std::size_t>(i)];
    s.probability = 1;
    if (!(all > 0)) return s;  // nobody is like it
    const auto most = std::max_element(votes.begin(), votes.end());
    s.predicted = static_cast<std::int32_t>(most - votes.begin());
    s.probability = static_cast<float>(*most / all);
    s.loss = static_cast<float>(-std::log(std::max(votes[static_cast<std::size_t>(s.label)] / all, 1e-9)));
    return s;
}

}  // namespace detail

GRAFT_INLINE result<std::vector<scored_picture>> vote_of_neighbours(const float* rows, std::int64_t width, const std::vector<std::int32_t>& labels,
                                                                    executor& pool) GRAFT_MEMORY_TRY {
    if (width < 1) return fail(errc::usage, "vote_of_neighbours", "features have at least one number");
    const auto n = static_cast<std::int64_t>(labels.size());
    std::int32_t classes = 0;
    for (const std::int32_t label : labels) classes = std::max(classes, label + 1);
    std::vector<float> unit(rows, rows + n * width);
    parallel_for(pool, n, [&](std::int64_t i) {
        float* const row = &unit[static_cast<std::size_t>(i * width)];
        const float length = std::sqrt(detail::dot_product(row, row, width));
        for (std::int64_t k = 0; k < width; ++k) row[k] = length > 0 ? row[k] / length : 0;
    });
    std::vector<std::int64_t> references;
    const std::int64_t most = std::min<std::int64_t>(n, 4096);
    for (std::int64_t r = 0; r < most; ++r) references.push_back(r * n / most);
    const auto k = static_cast<std::size_t>(std::min<std::int64_t>(20, std::max<std::int64_t>(3, classes ? n / classes / 4 : 0)));
    std::vector<scored_picture> votes(labels.size());
    parallel_for(pool, n, [&](std::int64_t i) { votes[static_cast<std::size_t>(i)] = detail::vote_on(i, unit, width, labels, references, classes, k); });
    return votes;
}
GRAFT_MEMORY_CATCH("vote_of_neighbours")

GRAFT_INLINE std::vector<label_issue> find_label_issues(const std::vector<scored_picture>& pictures) {
    std::int32_t classes = 0;
    for (const scored_picture& p : pictures) classes = std::max({classes, p.label + 1, p.predicted + 1});
    // Of each class: the sum of the probabilities that its own pictures give it, and how many those are.
    std::vector<std::pair<double, std::int64_t>> own(static_cast<std::size_t>(classes));
    const auto self_confidence = [](const scored_picture& p) { return std::isfinite(p.loss) ? std::exp(-static_cast<double>(p.loss)) : 0; };
    for (const scored_picture& p : pictures) {
        own[static_cast<std::size_t>(p.label)].first += self_confidence(p);
        ++own[static_cast<std::size_t>(p.label)].second;
    }
    std::vector<label_issue> issues;
    for (std::size_t i = 0; i < pictures.size(); ++i) {
        const scored_picture& p = pictures[i];
        const auto& threshold = own[static_cast<std::size_t>(p.predicted)];
        const double probability = static_cast<double>(p.probability);
        if (p.predicted == p.label || threshold.second == 0 || !std::isfinite(p.loss)) continue;
        if (probability * static_cast<double>(threshold.second) >= threshold.first) issues.push_back({i, p.predicted, probability, self_confidence(p)});
    }
    std::stable_sort(issues.begin(), issues.end(), [](const label_issue& a, const label_issue& b) { return a.margin() > b.margin(); });
    return issues;
}

GRAFT_END_NAMESPACE
#endif
