// The CPU as a back end that apps name: runtime<backends::cpu>.
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
#include "device.hpp"
#include "lower/channel_shuffles.hpp"
#include "lower/conv_forms.hpp"
#include "lower/image_rows.hpp"
#include "lower/lookup_tables.hpp"
#include "lower/narrow_images.hpp"
#include "lower/strided_products.hpp"
#include "lower/quantized.hpp"
#include "lower/quantized_sums.hpp"
#include "ops/ops.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// Quantised networks in integers; what that leaves unread is dropped.
inline status in_integers(graph& g, const lowering& with, isa level) {
    const bool pays = graft::detail::quantized_lowering(g, with, level).pays();
    if (pays) {
        // First, as a product that is a function of one code is no product of two.
        graft::detail::lookup_tables(g, with).run();
        drop_unread(g);
    }
    GRAFT_TRY(graft::detail::quantized_lowering(g, with, level).run(pays));
    drop_unread(g);
    if (!multiplies_tiles(level)) return {};
    graft::detail::quantized_sums(g, with).run();
    drop_unread(g);
    return {};
}

/// What inference needs.
inline const kernel_set& inference_set() noexcept {
    constexpr bool quantized = quantized_conv_wanted() || quantized_sum_wanted();
    static constexpr kernel_set self = {choose_kernel, nullptr,
                                        [](graph& g, const lowering& with, const arithmetic& by) {
                                            if constexpr (wanted("Conv")) GRAFT_TRY(graft::detail::conv_forms(g, with, by.level).run());
                                            if constexpr (wanted("MatMul") && wanted("Transpose")) graft::detail::strided_products(g, with, by).run();
                                            if constexpr (wanted("Conv") && wanted("Transpose") && wanted("Reshape")) {
                                                GRAFT_TRY(graft::detail::channel_shuffles(g, with).run());
                                                GRAFT_TRY(graft::detail::image_rows(g, with).run());
                                            }
                                            const bool images = by.bfloat16 && bfloat16_products(by.level)->tiles;
                                            return images ? graft::detail::narrow_layouter(g, with, by).run() : graft::detail::layouter(g, with, by).run();
                                        },
                                        bfloat16_wanted(), quantized ? in_integers : nullptr};
    return self;
}

}  // namespace cpu
namespace backends {

GRAFT_INLINE const backend& cpu::instance() noexcept {
    static constexpr backend self = {"cpu", [] { return status(); },
                                     [](const std::string& name, const device_options& options, void (*)(const char*)) {
                                         return graft::cpu::open(name, options, graft::cpu::inference_set());
                                     },
                                     nullptr, true};
    return self;
}

}  // namespace backends
GRAFT_END_NAMESPACE
#endif
