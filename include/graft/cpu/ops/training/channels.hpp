// The kernel of graft.SliceChannels: a copy of whole blocks of channels.
#pragma once

#include "../attributes.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

struct slice_channels_parameters {
    std::int64_t images, skipped, stride, run;  // bytes: before the part, from image to image, of the part in an image
};

inline const char* choose_slice_channels(const kernel_query& q, kernel_choice& choice) {
    const std::int64_t block = q.in_layout[0].channels;
    if (!block || q.out_layout[0] != q.in_layout[0]) return "it cuts blocks of channels only";
    const shape &x = q.in[0].extents, &y = q.out[0].extents;
    const std::int64_t plane = x[2] * x[3] * block * 4, start = integer_of(q.n, "start", 0);
    const auto blocks = [&](std::int64_t channels) { return (channels + block - 1) / block; };
    choice.set(slice_channels_parameters{x[0], start / block * plane, blocks(x[1]) * plane, blocks(y[1]) * plane});
    choice.note = "copies blocks of channels";
    return nullptr;
}
inline void run_slice_channels(const kernel_call& c) {
    const auto& p = c.parameters<slice_channels_parameters>();
    parallel_for(c.pool, p.images, [&](std::int64_t i) {
        std::memcpy(static_cast<unsigned char*>(c.out[0].data) + i * p.run, static_cast<const unsigned char*>(c.in[0].data) + i * p.stride + p.skipped,
                    static_cast<std::size_t>(p.run));
    });
}

inline kernel_rows channel_kernel_rows() {
    static constexpr kernel_row rows[] = {{"SliceChannels", "graft", choose_slice_channels, run_slice_channels, false}};
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
