// The rules of all families: which operators are generated element by element, and may be fused.
#pragma once

#include "../codegen/loop.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// Tables of rules.
using rule_list = row_table<rule_table>;

/// Every rule.
rule_list all_rules();

/// Whether a node may stand in the body of a Fusion, as far as its operator tells.
inline bool fusable(const node& n) { return find_rule(n.op_type.c_str(), n.domain.c_str()) != nullptr; }

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "activation.hpp"
#include "elementwise.hpp"
#include "gather.hpp"
#include "grid.hpp"
#include "legacy.hpp"
#include "loss.hpp"
#include "movement.hpp"
#include "norm.hpp"
#include "optimizer.hpp"
#include "quantize.hpp"
#include "random.hpp"
#include "resample.hpp"
#include "scatter.hpp"

#include <cstring>
GRAFT_BEGIN_NAMESPACE
namespace gpu {

GRAFT_INLINE rule_list all_rules() {
    static const rule_table tables[] = {
        activation_rules(), elementwise_rules(), gather_rules(),   grid_rules(),   legacy_rules(),   loss_rules(),    movement_rules(),
        norm_rules(),       optimizer_rules(),   quantize_rules(), random_rules(), resample_rules(), scatter_rules(),
    };
    return tables;
}

GRAFT_INLINE const element_rule* find_rule(const char* op, const char* domain) {
    for (const rule_table& table : all_rules())
        for (const element_rule& row : table)
            if (!std::strcmp(row.op, op) && !std::strcmp(row.domain, domain)) return &row;
    static constexpr element_rule by_row = {"", "", element_rule::same, detail::emit_by_row, ""};
    const op_row* row = ops::find_op(domain, op, newest_opset);
    return row && row->traits.activates ? &by_row : nullptr;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
