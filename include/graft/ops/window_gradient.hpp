// What gradients of windows and normalisations share: resolved attributes, and sums down to the channels.
#pragma once

#include "gradient_common.hpp"
#include "window.hpp"

#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// The attributes of a window with nothing left to resolve: kernel_shape, strides, dilations, pads; no auto_pad.
inline std::vector<attribute> window_attributes(const window& w) {
    std::vector<std::int64_t> kernel, strides, dilations, pads;
    for (int i = 0; i < w.rank; ++i) {
        kernel.push_back(w.axis[i].kernel);
        strides.push_back(w.axis[i].stride);
        dilations.push_back(w.axis[i].dilation);
        pads.push_back(w.axis[i].pad_begin);
    }
    for (int i = 0; i < w.rank; ++i) pads.push_back(w.axis[i].pad_end);
    return {integers_attribute("kernel_shape", std::move(kernel)), integers_attribute("strides", std::move(strides)),
            integers_attribute("dilations", std::move(dilations)), integers_attribute("pads", std::move(pads))};
}

/// A shape as an attribute of integers.
inline attribute shape_attribute(const char* name, const shape& s) { return integers_attribute(name, std::vector<std::int64_t>(s.begin(), s.end())); }

/// Reads the attribute `shape` of an operator that makes a gradient: the extents of what it is the gradient of.
inline status read_shape_attribute(const op_context& c, shape& out) {
    const integer_list list = c.integers("shape");
    if (!c.has_attribute("shape") || list.size > shape::max_rank) return c.fail(errc::op_attribute, "shape has %lld items", list.size);
    out = shape::from(list.begin(), list.end());
    if (elements_of(out) < 0) return c.fail(errc::op_attribute, "the extents of shape overflow or are negative");
    return {};
}
/// Reads the attribute `shards`.
inline status read_shards(const op_context& c, int& count) {
    const std::int64_t given = c.integer("shards", 8);
    if (!shards::legal(given)) return c.fail(errc::op_attribute, "shards is %lld, but must be a power of two from 1 to %lld", given, shards::most);
    count = static_cast<int>(given);
    return {};
}

/// The gradient of a vector that was added to, or multiplied with, the channels (axis 1): summed over all other axes.
inline value_id sum_to_channels(gradient_context& c, value_id x, std::int64_t channels) {
    if (!c.build.failure.ok() || x == no_value) return no_value;
    shape kept = shape::filled(c.extents(x).rank(), 1);
    kept[1] = channels;
    return c.build.reshape(c.sum_to(x, kept), {channels});
}
/// A vector of one element a channel, seen with `rank` axes so that it is broadcast along axis 1.
inline value_id along_channels(gradient_context& c, value_id x, int rank) {
    if (!c.build.failure.ok() || x == no_value) return no_value;
    shape s = shape::filled(rank, 1);
    s[1] = c.extents(x).elements();
    return c.build.reshape(x, s);
}

}  // namespace ops
GRAFT_END_NAMESPACE
