// Lowering for the CPU: fusion, the blocked layout, packed weights.
#pragma once

#include "../../passes/specialize.hpp"
#include "../../lower/fuse.hpp"
#include "layout.hpp"
#include "../../lower/widen.hpp"

GRAFT_BEGIN_NAMESPACE

/// Rewrites a graph with known shapes for the CPU. Nodes whose shapes only a run can tell stay as they are.
inline status lower_for_cpu(graph& g, const lowering& with) {
    cpu::isa level = cpu::isa::baseline;
    GRAFT_TRY_ASSIGN(level, cpu::active_isa());
    GRAFT_TRY(detail::widener(g, with).run());
    GRAFT_TRY(detail::fuser(g, with).run());
    GRAFT_TRY(detail::layouter(g, with, level).run());
    drop_unread(g);  // weights that were packed
    return {};
}

GRAFT_END_NAMESPACE
