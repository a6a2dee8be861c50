// The back ends as types, so that an app compiles the ones its runtime names.
#pragma once

#include "../lower/backend.hpp"

GRAFT_BEGIN_NAMESPACE
namespace backends {

/// The CPU: every operator of the op table, with the fastest kernels that the machine can run.
struct cpu {
    static const backend& instance() noexcept;
};

}  // namespace backends
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "ops/ops.hpp"
#include "lower/lower.hpp"

GRAFT_BEGIN_NAMESPACE
namespace backends {

GRAFT_INLINE const backend& cpu::instance() noexcept {
    static constexpr backend self = detail::cpu_backend(lower_for_cpu, graft::cpu::choose_kernel);
    return self;
}

}  // namespace backends
GRAFT_END_NAMESPACE
#endif
