// CausalConvWithState as a depthwise convolution of what was and what is.
#pragma once

#include "../lower/decompose.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// CausalConvWithState of ops/causal_conv.hpp.
decomposition_table causal_conv_decompositions();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

inline const char* decompose_causal_conv(decomposition& d) {
    const op_context& c = d.c;
    emitter& e = d.build;
    const shape& x = c.in[0].extents;
    const std::int64_t state = c.in[1].extents[2] - 1;
    if (c.in[0].elements() == 0) return "it is empty";
    value_id line = d.in[0];
    if (state) line = e.apply("Concat", {c.has(3) ? d.in[3] : d.constant(c.in[0].type, {x[0], x[1], state}), line}, {integer_attribute("axis", 2)});
    std::vector<value_id> inputs{line, d.in[1]};
    if (c.has(2)) inputs.push_back(d.in[2]);
    const value_id y = e.apply("Conv", inputs, {integer_attribute("group", x[1])});
    d.out[0] = c.is("activation", "none", "none") ? y : e.apply("Swish", {y});
    if (c.wants(1)) d.out[1] = e.apply("Slice", {line, e.integers({x[2]}), e.integers({x[2] + state}), e.integers({2})});
    return nullptr;
}

}  // namespace detail

GRAFT_INLINE decomposition_table causal_conv_decompositions() {
    static constexpr decomposition_row rows[] = {{"CausalConvWithState", "", detail::decompose_causal_conv, false}};
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
