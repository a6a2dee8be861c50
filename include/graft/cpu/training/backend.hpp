// The back ends of training: those of inference, with the operators and the fusions that training adds.
#pragma once

#include "../../lower/backend.hpp"

GRAFT_BEGIN_NAMESPACE
namespace backends {

/// The CPU, for graphs of training steps.
struct cpu_training {
    static const backend& instance() noexcept;
};

}  // namespace backends
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "lower.hpp"

GRAFT_BEGIN_NAMESPACE
namespace backends {

GRAFT_INLINE const backend& cpu_training::instance() noexcept {
    static constexpr backend self = detail::cpu_backend(lower_training_for_cpu, graft::cpu::choose_training_kernel);
    return self;
}

}  // namespace backends
GRAFT_END_NAMESPACE
#endif
