// Dividing a dataset, and weighing its classes.
#pragma once

#include "../core/error.hpp"

#include <cstdint>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// Which samples a stratified draw keeps for training and for validation, each in rising order.
struct split_indices {
    std::vector<std::int64_t> training, validation;
};

/// Draws, of samples with these labels (indices into `classes`), the share `fraction` of each class for validation, rounded to the
/// nearest number of samples; of a class with two or more, at least one goes to either side (with `fraction` > 0), a single one to
/// training. What is drawn of a class depends on the seed, the name of the class and its own samples alone: another class that
/// comes or goes changes nothing.
///
/// `groups` names for each sample a group, by any number; those of one group go to one side (empty: each is its own). They are taken in the
/// order drawn where they bring a class nearer to its share and leave each class something to learn from. A class whose samples are groups of
/// their own is drawn as it is without `groups`. Errors: usage (a fraction outside of [0, 1), groups of another number than samples).
result<split_indices> stratified_split(const std::vector<int>& labels, const std::vector<std::string>& classes, double fraction, std::uint64_t seed,
                                       const std::vector<std::int64_t>& groups = {});

/// A weight for each class, in inverse proportion to its share of the samples, for a loss that minds rare classes as much as
/// common ones: samples / (classes * count), scaled so that the mean over the classes that have samples is 1. A class without
/// samples gets 0.
std::vector<float> class_weights(const std::vector<std::int64_t>& counts);
/// The same as a user names them: "balanced", or a weight of at least 0 for each class, "W1:W2:..."; none for an empty text. Errors: usage (neither; a
/// number of weights that is not that of classes), at `where`.
result<std::vector<float>> class_weights(const std::string& text, const std::vector<std::int64_t>& counts, const std::string& where);

/// Whether classes of so many samples are so uneven that the share of right answers says little: the largest has over 1.5 times its even
/// share (always naming it scores as much), or over 4 times the samples of the smallest. Classes without samples do not count.
bool is_imbalanced(const std::vector<std::int64_t>& counts) noexcept;

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/fnv1a.hpp"
#include "../core/number_text.hpp"
#include "../core/rng.hpp"

#include <algorithm>
#include <limits>
#include <map>

GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE result<split_indices> stratified_split(const std::vector<int>& labels, const std::vector<std::string>& classes, double fraction,
                                                    std::uint64_t seed, const std::vector<std::int64_t>& groups) GRAFT_MEMORY_TRY {
    if (!(fraction >= 0 && fraction < 1)) return fail(errc::usage, "validation_fraction", "the share of the validation part is in [0, 1), such as 0.2");
    if (!groups.empty() && groups.size() != labels.size())
        return fail(errc::usage, "groups", std::to_string(groups.size()) + " groups for " + std::to_string(labels.size()) + " samples");
    std::vector<std::vector<std::int64_t>> members(classes.size());
    for (std::size_t i = 0; i < labels.size(); ++i) members[static_cast<std::size_t>(labels[i])].push_back(static_cast<std::int64_t>(i));
    // The groups by numbers from 0, and what is in each.
    std::map<std::int64_t, std::size_t> numbers;
    std::vector<std::size_t> group_of;
    std::vector<std::vector<std::int64_t>> together;
    for (std::size_t i = 0; i < labels.size(); ++i) {
        group_of.push_back(groups.empty() ? i : numbers.emplace(groups[i], numbers.size()).first->second);
        together.resize(std::max(together.size(), group_of[i] + 1));
        together[group_of[i]].push_back(static_cast<std::int64_t>(i));
    }
    std::vector<bool> considered(together.size()), held_out(together.size());
    std::vector<std::int64_t> taken(classes.size());
    const auto count_in = [&](std::size_t g, std::size_t c) {
        return std::count_if(together[g].begin(), together[g].end(),
                             [&](std::int64_t i) { return static_cast<std::size_t>(labels[static_cast<std::size_t>(i)]) == c; });
    };
    const auto take = [&](std::size_t g) {
        held_out[g] = true;
        for (std::int64_t i : together[g]) ++taken[static_cast<std::size_t>(labels[static_cast<std::size_t>(i)])];
    };
    // Whether every class keeps something to learn from without a group.
    const auto can_go = [&](std::size_t g) {
        for (std::int64_t i : together[g]) {
            const std::size_t c = static_cast<std::size_t>(labels[static_cast<std::size_t>(i)]);
            if (taken[c] + count_in(g, c) >= static_cast<std::int64_t>(members[c].size())) return false;
        }
        return true;
    };
    for (std::size_t c = 0; c < members.size(); ++c) {
        std::vector<std::int64_t>& all = members[c];
        const std::int64_t n = static_cast<std::int64_t>(all.size());
        std::int64_t wanted = static_cast<std::int64_t>(static_cast<double>(n) * fraction + 0.5);
        if (n >= 2 && fraction > 0) wanted = std::min(std::max<std::int64_t>(wanted, 1), n - 1);
        if (n < 2) wanted = 0;
        // The first steps of a shuffle by Fisher and Yates.
        const random_stream random(seed, fnv1a(classes[c].data(), classes[c].size()));
        std::size_t least = together.size();  // the smallest group that could go
        for (std::int64_t i = 0; i < n && taken[c] < wanted; ++i) {
            const std::uint64_t j = random.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(n - i));
            std::swap(all[static_cast<std::size_t>(i)], all[static_cast<std::size_t>(i) + j]);
            const std::size_t g = group_of[static_cast<std::size_t>(all[static_cast<std::size_t>(i)])];
            if (considered[g]) continue;
            considered[g] = true;
            if (!can_go(g)) continue;
            if (least == together.size() || together[g].size() < together[least].size()) least = g;
            if (count_in(g, c) < 2 * (wanted - taken[c])) take(g);
        }
        if (taken[c] == 0 && wanted > 0 && least < together.size()) take(least);
    }
    split_indices out;
    for (std::size_t i = 0; i < labels.size(); ++i) (held_out[group_of[i]] ? out.validation : out.training).push_back(static_cast<std::int64_t>(i));
    return out;
}
GRAFT_MEMORY_CATCH("stratified_split")

GRAFT_INLINE std::vector<float> class_weights(const std::vector<std::int64_t>& counts) {
    double sum = 0;
    std::int64_t present = 0;
    for (std::int64_t n : counts)
        if (n > 0) sum += 1 / static_cast<double>(n), ++present;
    std::vector<float> weights;
    for (std::int64_t n : counts) weights.push_back(n > 0 ? static_cast<float>(static_cast<double>(present) / (static_cast<double>(n) * sum)) : 0.0f);
    return weights;
}
GRAFT_INLINE result<std::vector<float>> class_weights(const std::string& text, const std::vector<std::int64_t>& counts,
                                                      const std::string& where) GRAFT_MEMORY_TRY {
    if (text.empty()) return std::vector<float>();
    if (text == "balanced") return class_weights(counts);
    std::vector<float> weights;
    for (const char *at = text.c_str(), *end = at; weights.size() < counts.size(); at = end + 1) {
        const double weight = detail::read_number(at, &end);
        if (end == at || !(weight >= 0 && weight <= std::numeric_limits<float>::max())) break;
        weights.push_back(static_cast<float>(weight));
        if (!*end && weights.size() == counts.size()) return weights;
        if (*end != ':') break;
    }
    return fail(errc::usage, where, "it takes balanced, or one weight of at least 0 for each of the " + std::to_string(counts.size()) + " classes: W1:W2:...");
}
GRAFT_MEMORY_CATCH("class_weights")

GRAFT_INLINE bool is_imbalanced(const std::vector<std::int64_t>& counts) noexcept {
    std::int64_t all = 0, present = 0, most = 0, least = 0;
    for (std::int64_t n : counts) {
        if (n < 1) continue;
        all += n, ++present;
        most = std::max(most, n);
        least = least ? std::min(least, n) : n;
    }
    return present > 1 && (static_cast<double>(most) * static_cast<double>(present) > 1.5 * static_cast<double>(all) || most > 4 * least);
}

GRAFT_END_NAMESPACE
#endif
