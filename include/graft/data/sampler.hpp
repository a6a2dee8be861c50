// Which sample comes when, and the random numbers that belong to it: functions of the seed, the epoch and an index, without
// state.
#pragma once

#include "../core/rng.hpp"

#include <cstdint>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// What random numbers are drawn for; each purpose has streams of its own.
enum class random_purpose { order = 1, sample = 2, batch = 3 };

/// The stream of random numbers for (purpose, epoch, index); distinct for epochs below 2^24 and indices below 2^32.
random_stream data_stream(std::uint64_t seed, random_purpose purpose, std::int64_t epoch, std::int64_t index) noexcept;

/// A stream read one number after the other, from number `first` on.
class random_sequence {
public:
    explicit random_sequence(const random_stream& stream, std::uint64_t first = 0) noexcept : stream_(stream), next_(first) {}
    /// Uniform in [0, 1).
    double uniform() noexcept { return stream_.uniform(next_++); }
    /// Uniform in [low, high).
    double uniform(double low, double high) noexcept { return low + (high - low) * uniform(); }
    /// Uniform among 0 ... n - 1; n >= 1.
    std::uint64_t below(std::uint64_t n) noexcept { return stream_.below(next_++, n); }
    double normal() noexcept { return stream_.normal(next_++); }

private:
    random_stream stream_;
    std::uint64_t next_;
};

/// The order in which an epoch visits `n` samples: a permutation of 0 ... n - 1, every one equally likely (Fisher and Yates),
/// that depends on (seed, epoch, n) alone. Place i of it is order = f(seed, epoch, i): nothing has to be replayed to resume.
std::vector<std::int64_t> epoch_order(std::uint64_t seed, std::int64_t epoch, std::int64_t n);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <numeric>
#include <utility>

GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE random_stream data_stream(std::uint64_t seed, random_purpose purpose, std::int64_t epoch, std::int64_t index) noexcept {
    // The top bits keep these streams apart from the small numbers that weights and dropout use.
    const std::uint64_t kind = 0xd0 | static_cast<std::uint64_t>(purpose);
    return random_stream(seed, kind << 56 | (static_cast<std::uint64_t>(epoch) & 0xffffff) << 32 | (static_cast<std::uint64_t>(index) & 0xffffffff));
}

GRAFT_INLINE std::vector<std::int64_t> epoch_order(std::uint64_t seed, std::int64_t epoch, std::int64_t n) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(n > 0 ? n : 0));
    std::iota(order.begin(), order.end(), std::int64_t(0));
    const random_stream random = data_stream(seed, random_purpose::order, epoch, 0);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[static_cast<std::size_t>(random.below(i, i))]);
    return order;
}

GRAFT_END_NAMESPACE
#endif
