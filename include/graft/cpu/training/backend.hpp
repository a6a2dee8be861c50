// The CPU for graphs of training steps: that of inference, with the operators and the fusions that training adds.
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
#include "../device.hpp"
#include "../lower/attention_heads.hpp"
#include "../lower/channel_shuffles.hpp"
#include "../lower/masks_of_inputs.hpp"
#include "../lower/narrow_steps.hpp"
#include "../lower/saved_activations.hpp"
#include "../lower/strided_products.hpp"
#include "../lower/training_patterns.hpp"
#include "../ops/training/ops.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// What training needs.
inline const kernel_set& training_set() noexcept {
    static constexpr kernel_set self = {choose_training_kernel, [](graph& g, place_id on) { graft::detail::training_fuser(g, on).run(); },
                                        [](graph& g, const lowering& with, const arithmetic& by) {
                                            if constexpr (wanted("Conv") && wanted("Transpose") && wanted("Reshape"))
                                                GRAFT_TRY(graft::detail::channel_shuffles(g, with).run());
                                            if constexpr (wanted("MatMul") && wanted("Transpose")) {
                                                graft::detail::strided_products(g, with, by).run();
                                                graft::detail::attention_heads(g, with.on, by).run();
                                            }
                                            if (by.bfloat16)
                                                graft::detail::activation_saver(g, with.on).run();
                                            else
                                                graft::detail::masks_of_inputs(g, with.on).run();
                                            return graft::detail::narrow_step_layouter(g, with, by).run();
                                        },
                                        bfloat16_wanted()};
    return self;
}

}  // namespace cpu
namespace backends {

GRAFT_INLINE const backend& cpu_training::instance() noexcept {
    static constexpr backend self = {"cpu", [] { return status(); },
                                     [](const std::string& name, const device_options& options, void (*)(const char*)) {
                                         return graft::cpu::open(name, options, graft::cpu::training_set());
                                     },
                                     nullptr, true};
    return self;
}

}  // namespace backends
GRAFT_END_NAMESPACE
#endif
