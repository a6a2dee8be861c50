// Lowering of training steps for the CPU: fusion across the forward and the backward part, and layouts for gradients.
#pragma once

#include "../ops/training/ops.hpp"
#include "../lower/training_patterns.hpp"
#include "../lower/training_layout.hpp"
#include "../lower/lower.hpp"

GRAFT_BEGIN_NAMESPACE
/// Rewrites the graph of a training step, whose shapes are known, for the CPU.
inline status lower_training_for_cpu(graph& g, const lowering& with) {
    cpu::isa level = cpu::isa::baseline;
    GRAFT_TRY_ASSIGN(level, cpu::active_isa());
    GRAFT_TRY(detail::widener(g, with).run());
    GRAFT_TRY(detail::fuser(g, with).run());
    detail::training_fuser(g).run();
    GRAFT_TRY(detail::training_layouter(g, with, level).run());
    drop_unread(g);
    return {};
}

GRAFT_END_NAMESPACE
