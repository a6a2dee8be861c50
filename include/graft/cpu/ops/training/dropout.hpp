// The kernel of graft.Dropout: float32, row-major or in blocks of channels; which element draws which number does not depend on that.
#pragma once

#include "../../../core/rng.hpp"
#include "../attributes.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

struct dropout_parameters {
    std::int64_t images, channels, plane, block;  // row-major: one channel, whose plane is the whole sample
    double ratio;
    std::uint64_t seed;
};

inline const char* choose_dropout(const kernel_query& q, kernel_choice& choice) {
    if (q.in[0].type != dtype::float32 || q.in[0].extents.rank() < 1 || q.in[0].elements() == 0) return "it is not float32, or empty";
    const shape& x = q.in[0].extents;
    const std::int64_t block = q.in_layout[0].channels;
    if (q.out_layout[0] != q.in_layout[0] || (q.wants(1) && q.out_layout[1] != q.in_layout[0])) return "its outputs lie in another layout";
    dropout_parameters p{
        x[0], 1, x.elements() / x[0], block, static_cast<double>(real_of(q.n, "ratio", 0.5f)), static_cast<std::uint64_t>(integer_of(q.n, "seed", 0))};
    if (block) p.channels = x[1], p.plane = x[2] * x[3];
    choice.set(p);
    choice.note = "drops by counter";
    return nullptr;
}

inline void run_dropout(const kernel_call& c) {
    const auto& p = c.parameters<dropout_parameters>();
    const std::int64_t* counter = c.in[1].as<const std::int64_t>();
    const random_stream numbers(p.seed, static_cast<std::uint64_t>(counter[0]));
    const float kept = static_cast<float>(1 / (1 - p.ratio));
    const std::int64_t lanes = p.block ? p.block : 1, blocks = (p.channels + lanes - 1) / lanes, pieces = (p.plane + 4095) / 4096;
    const float* x = c.input(0);
    float *y = c.out[0].as<float>(), *mask = c.outputs > 1 ? c.out[1].as<float>() : nullptr;
    parallel_for(c.pool, p.images * blocks * pieces, [&](std::int64_t task) {
        const std::int64_t piece = task % pieces, image = task / pieces / blocks, first = piece * 4096, n = p.plane - first < 4096 ? p.plane - first : 4096;
        const std::int64_t base = (task / pieces * p.plane + first) * lanes;
        double drawn[512];
        for (std::int64_t lane = 0; lane < lanes; ++lane) {
            const std::int64_t channel = task / pieces % blocks * lanes + lane;
            const std::uint64_t number = static_cast<std::uint64_t>(((counter[1] + image) * p.channels + channel) * p.plane + first);
            for (std::int64_t i = 0; i < n; i += 512) {
                const std::int64_t count = n - i < 512 ? n - i : 512;
                // Lanes behind the last channel hold anything; they are dropped, so that nothing odd is made of them.
                if (channel < p.channels) numbers.uniform(number + static_cast<std::uint64_t>(i), count, drawn);
                for (std::int64_t k = 0; k < count; ++k) {
                    const std::int64_t at = base + (i + k) * lanes + lane;
                    const float factor = channel < p.channels && drawn[k] >= p.ratio ? kept : 0;
                    if (mask) mask[at] = factor;
                    if (y) y[at] = channel < p.channels ? x[at] * factor : 0;
                }
            }
        }
    });
}

inline kernel_rows dropout_kernel_rows() {
    static constexpr kernel_row rows[] = {{"Dropout", "graft", choose_dropout, run_dropout, false}};
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
