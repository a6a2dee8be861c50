// The operators whose kernels are generated: every family, and how a row is found.
#pragma once

#include "rules.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The row of an operator: of a family that writes its own kernels, else of the loop where there is a rule. `generate` is null
/// where there is neither.
generated_row find_generated(const char* op, const char* domain);

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../codegen/multi_tensor.hpp"
#include "cast.hpp"
#include "cumulative.hpp"
#include "depthwise.hpp"
#include "deform_conv.hpp"
#include "detection.hpp"
#include "global_norm.hpp"
#include "grid.hpp"
#include "linear_algebra.hpp"
#include "norm_training.hpp"
#include "pool.hpp"
#include "scatter.hpp"
#include "selection.hpp"
#include "softmax.hpp"
#include "unfold.hpp"

#include <cstring>
GRAFT_BEGIN_NAMESPACE
namespace gpu {

namespace detail {

// One operator that is a reduction.
inline const char* generate_reduction_alone(const kernel_query& q, program& p) {
    return find_reduction(q.n.op_type.c_str(), q.n.domain.c_str())->generate(q, nullptr, p);
}

// The bodies that lowering makes: of rules alone, or with one reduction among them.
inline const char* generate_fusion(const kernel_query& q, program& p) {
    const attribute* body = q.n.find("body");
    if (body && body->graph)
        for (const node& n : body->graph->nodes)
            if (find_reduction(n.op_type.c_str(), n.domain.c_str())) return generate_fused_reduction(q, p);
    return generate_loop(q, p);
}
inline generated_table fusion_rows() {
    static constexpr generated_row rows[] = {{"Fusion", "", generate_fusion}, {"MultiTensor", "", generate_multi_tensor}};
    return rows;
}

}  // namespace detail

GRAFT_INLINE const reduction_row* find_reduction(const char* op, const char* domain) {
    const reduction_table families[] = {
        norm_rows(),
        norm_training_rows(),
        reduce_rows(),
        softmax_rows(),
    };
    for (const reduction_table& family : families)
        for (const auto& row : family)
            if (!std::strcmp(row.op, op) && !std::strcmp(row.domain, domain)) return &row;
    return nullptr;
}
GRAFT_INLINE generated_row find_generated(const char* op, const char* domain) {
    const generated_table families[] = {
        detail::fusion_rows(), cast_rows(),           cumulative_rows(), depthwise_rows(), deform_conv_rows(), detection_rows(), global_norm_rows(),
        grid_rows(),           linear_algebra_rows(), pool_rows(),       scatter_rows(),   selection_rows(),   unfold_rows(),
    };
    for (const generated_table& family : families)
        for (const auto& row : family)
            if (!std::strcmp(row.op, op) && !std::strcmp(row.domain, domain)) return row;
    if (const reduction_row* row = find_reduction(op, domain)) return {row->op, row->domain, detail::generate_reduction_alone};
    return {op, domain, find_rule(op, domain) ? generate_loop : nullptr};
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
