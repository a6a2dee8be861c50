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
/// comes or goes changes nothing. Errors: usage (a fraction outside of [0, 1)).
result<split_indices> stratified_split(const std::vector<int>& labels, const std::vector<std::string>& classes, double fraction,
                                       std::uint64_t seed);

/// A weight for each class, in inverse proportion to its share of the samples, for a loss that minds rare classes as much as
/// common ones: samples / (classes * count), scaled so that the mean over the classes that have samples is 1. A class without
/// samples gets 0.
std::vector<float> class_weights(const std::vector<std::int64_t>& counts);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/fnv1a.hpp"
#include "../core/rng.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE result<split_indices> stratified_split(const std::vector<int>& labels, const std::vector<std::string>& classes, double fraction,
                                                    std::uint64_t seed) {
    if (!(fraction >= 0 && fraction < 1))
        return fail(errc::usage, "validation_fraction", "the share of the validation part is in [0, 1), such as 0.2");
    std::vector<std::vector<std::int64_t>> members(classes.size());
    for (std::size_t i = 0; i < labels.size(); ++i) members[static_cast<std::size_t>(labels[i])].push_back(static_cast<std::int64_t>(i));
    split_indices out;
    for (std::size_t c = 0; c < members.size(); ++c) {
        std::vector<std::int64_t>& all = members[c];
        const std::int64_t n = static_cast<std::int64_t>(all.size());
        std::int64_t drawn = static_cast<std::int64_t>(static_cast<double>(n) * fraction + 0.5);
        if (n >= 2 && fraction > 0) drawn = std::min(std::max<std::int64_t>(drawn, 1), n - 1);
        if (n < 2) drawn = 0;
        // The first steps of a shuffle by Fisher and Yates.
        const random_stream random(seed, fnv1a(classes[c].data(), classes[c].size()));
        for (std::int64_t i = 0; i < drawn; ++i) {
            const std::uint64_t j = random.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(n - i));
            std::swap(all[static_cast<std::size_t>(i)], all[static_cast<std::size_t>(i) + j]);
        }
        out.validation.insert(out.validation.end(), all.begin(), all.begin() + drawn);
        out.training.insert(out.training.end(), all.begin() + drawn, all.end());
    }
    std::sort(out.training.begin(), out.training.end());
    std::sort(out.validation.begin(), out.validation.end());
    return out;
}

GRAFT_INLINE std::vector<float> class_weights(const std::vector<std::int64_t>& counts) {
    double sum = 0;
    std::int64_t present = 0;
    for (std::int64_t n : counts)
        if (n > 0) sum += 1 / static_cast<double>(n), ++present;
    std::vector<float> weights;
    for (std::int64_t n : counts)
        weights.push_back(n > 0 ? static_cast<float>(static_cast<double>(present) / (static_cast<double>(n) * sum)) : 0.0f);
    return weights;
}

GRAFT_END_NAMESPACE
#endif
