// Kernels of graft.QuantizedConv, of sums, products, functions and means of codes, and of MaxPool on 8-bit images.
#pragma once

#include "../quantized.hpp"
#include "../quantized_elementwise.hpp"
#include "attributes.hpp"
#include "pool.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

template <>
struct problem_fields<quantized_sum_problem> {
    template <class Problem, class Field>
    static void visit(Problem& p, const Field& field) {
        auto& [a_signed, b_signed, y_signed, a_zero, b_zero, y_zero, low, high, a_scale, b_scale, y_scale, lanes] = p;
        const auto each = [&](auto&... fields) { (field(fields), ...); };
        each(a_signed, b_signed, y_signed, a_zero, b_zero, y_zero, low, high, a_scale, b_scale, y_scale, lanes);
    }
};
template <>
struct problem_fields<quantized_product_problem> {
    template <class Problem, class Field>
    static void visit(Problem& p, const Field& field) {
        auto& [a_signed, b_signed, y_signed, a_zero, b_zero, y_zero, low, high, scale, of_channels] = p;
        const auto each = [&](auto&... fields) { (field(fields), ...); };
        each(a_signed, b_signed, y_signed, a_zero, b_zero, y_zero, low, high, scale, of_channels);
    }
};
template <>
struct problem_fields<quantized_mean_problem> {
    template <class Problem, class Field>
    static void visit(Problem& p, const Field& field) {
        auto& [x_signed, y_signed, x_zero, y_zero, low, high, x_scale, y_scale] = p;
        const auto each = [&](auto&... fields) { (field(fields), ...); };
        each(x_signed, y_signed, x_zero, y_zero, low, high, x_scale, y_scale);
    }
};
template <>
struct problem_fields<quantized_conv_problem> {
    template <class Problem, class Field>
    static void visit(Problem& p, const Field& field) {
        auto& [n, ic, ih, iw, oc, oh, ow, groups, kh, kw, sh, sw, dh, dw, pt, pl, x_signed, y_signed, x_zero, y_zero, low, high, bytes, tiles, planes,
               signed_pixels, wide, few, matrix, winograd, adds, sum] = p;
        const auto each = [&](auto&... fields) { (field(fields), ...); };
        each(n, ic, ih, iw, oc, oh, ow, groups, kh, kw, sh, sw, dh, dw, pt, pl, x_signed, y_signed, x_zero, y_zero, low, high, bytes, tiles, planes,
             signed_pixels, wide, few, matrix, winograd, adds);
        problem_fields<quantized_sum_problem>::visit(sum, field);
    }
};

inline GRAFT_COLD const char* choose_quantized_conv(const kernel_query& q, kernel_choice& choice) {
    quantized_conv_problem p;
    if (!problem_in(q.n, p)) return "its parameters are missing";
    choice.workspace_bytes = quantized_conv_workspace(p);
    const bool lanes = p.bytes && !p.matrix;
    if ((lanes && !p.planes) != (q.in_layout[0] == layout::blocked) || lanes != (q.out_layout[0] == layout::blocked))
        return "its images lie otherwise than it was lowered for";
    choice.note = p.depthwise() ? "8 bits, depthwise"
                  : p.winograd  ? "8 bits, Winograd F(2x2, 3x3)"
                  : p.tiles     ? "8 bits, by tiles"
                  : p.matrix    ? "8 bits, matrix product"
                  : p.few       ? "8 bits, four products a lane of channels"
                  : p.grouped() ? "8 bits, in groups"
                  : p.bytes     ? "8 bits, four products a lane"
                                : "8 bits, two products a lane";
    choice.set(p);
    return nullptr;
}
inline void run_quantized_conv_kernel(const kernel_call& c) {
    run_quantized_conv(c.level, c.parameters<quantized_conv_problem>(), c.in[0].data, c.in[1].data, c.input(2), c.in[3].as<const std::int32_t>(), c.out[0].data,
                       c.workspace, c.pool, c.inputs > 4 ? c.in[4].data : nullptr);
}
struct stored_sum_problem {
    quantized_sum_problem sum;
    std::int64_t codes;
};
inline GRAFT_COLD const char* choose_quantized_sum(const kernel_query& q, kernel_choice& choice) {
    stored_sum_problem p{};
    if (!problem_in(q.n, p.sum)) return "its parameters are missing";
    if (q.out_layout[0] == layout::blocked) p.sum = p.sum.in_lanes();
    p.codes = stored_bytes(q.out[0].type, q.out[0].extents, q.out_layout[0]);
    choice.note = "8 bits";
    choice.set(p);
    return nullptr;
}
inline void run_quantized_sum_kernel(const kernel_call& c) {
    const auto& p = c.parameters<stored_sum_problem>();
    run_quantized_sum(c.level, p.sum, c.in[0].data, c.in[1].data, c.out[0].data, p.codes, c.pool);
}

inline code_groups code_groups_of(const shape& x, layout l) {
    code_groups of;
    of.together = std::max(1, int(l.channels));
    of.images = x[0], of.groups = (x[1] + of.together - 1) / of.together, of.pixels = x.product(2, x.rank());
    return of;
}
struct stored_product_problem {
    quantized_product_problem product;
    code_groups by;
    std::int64_t codes;
};
inline GRAFT_COLD const char* choose_quantized_product(const kernel_query& q, kernel_choice& choice) {
    stored_product_problem p{};
    if (!problem_in(q.n, p.product)) return "its parameters are missing";
    const layout lies = q.out_layout[0];
    if (q.in_layout[0].channels != lies.channels || q.in_layout[1].channels != lies.channels) return "its images lie in two ways";
    if (lies == layout::blocked) p.product = p.product.in_lanes();
    if (p.product.of_channels) p.by = code_groups_of(q.out[0].extents, lies);
    p.codes = stored_bytes(q.out[0].type, q.out[0].extents, lies);
    choice.note = "8 bits";
    choice.set(p);
    return nullptr;
}
inline void run_quantized_product_kernel(const kernel_call& c) {
    const auto& p = c.parameters<stored_product_problem>();
    run_quantized_product(c.level, p.product, c.in[0].data, c.in[1].data, c.out[0].data, p.codes, p.by, c.pool);
}

struct stored_mean_problem {
    quantized_mean_problem mean;
    code_groups of;
};
inline GRAFT_COLD const char* choose_quantized_mean(const kernel_query& q, kernel_choice& choice) {
    stored_mean_problem p{};
    if (!problem_in(q.n, p.mean)) return "its parameters are missing";
    if (q.in_layout[0].channels != q.out_layout[0].channels) return "its images lie in two ways";
    if (q.in_layout[0] == layout::blocked) p.mean = p.mean.in_lanes();
    p.of = code_groups_of(q.in[0].extents, q.in_layout[0]);
    choice.note = "8 bits";
    choice.set(p);
    return nullptr;
}
inline void run_quantized_mean_kernel(const kernel_call& c) {
    const auto& p = c.parameters<stored_mean_problem>();
    run_quantized_mean(c.level, p.mean, p.of, c.in[0].data, c.out[0].data, c.pool);
}

struct lookup_parameters {
    int x_flip, y_flip;
    std::int64_t codes;
};
inline GRAFT_COLD const char* choose_lookup(const kernel_query& q, kernel_choice& choice) {
    if (q.in_layout[0].channels != q.out_layout[0].channels) return "its images lie in two ways";
    const bool planes = q.out_layout[0] != layout::blocked;
    const auto flip = [&](dtype type) { return planes || type == dtype::uint8 ? 0 : 128; };
    choice.set(lookup_parameters{flip(q.in[0].type), flip(q.out[0].type), stored_bytes(q.out[0].type, q.out[0].extents, q.out_layout[0])});
    choice.note = "8 bits, by a table";
    return nullptr;
}
inline void run_lookup_kernel(const kernel_call& c) {
    const auto& p = c.parameters<lookup_parameters>();
    run_lookup(c.level, c.in[1].as<const std::uint8_t>(), p.x_flip, p.y_flip, c.in[0].data, c.out[0].data, p.codes, c.pool);
}

// Channels that lie together, before and behind: 0, 4 or 64.
struct code_order_parameters {
    int from, to;
    bool is_signed;
    std::int64_t n, c, pixels;
};
inline GRAFT_COLD const char* choose_reorder_of_codes(const kernel_query& q, kernel_choice& choice) {
    const dtype type = q.in[0].type;
    if (type != dtype::uint8 && type != dtype::int8) return "it is not of 8 bits";
    const shape& x = q.in[0].extents;
    const code_order_parameters p{q.in_layout[0].channels, q.out_layout[0].channels, type == dtype::int8, x[0], x[1], x.product(2, x.rank())};
    choice.set(p);
    choice.note = p.to == 0 ? "codes to planes" : p.to == 4 ? "codes to lanes" : "codes to pixels";
    return nullptr;
}
inline void run_reorder_of_codes(const kernel_call& c) {
    const auto& p = c.parameters<code_order_parameters>();
    const void* const x = c.in[0].data;
    void* const y = c.out[0].data;
    if (p.from == 4 && p.to == code_pixel) return lanes_to_pixels(c.level, x, p.n, p.c, p.pixels, y, c.pool);
    if (p.from == code_pixel && p.to == 4) return pixels_to_lanes(c.level, x, p.n, p.c, p.pixels, y, c.pool);
    const auto move = p.from == 4 ? lanes_to_codes : p.to == 4 ? codes_to_lanes : p.from == code_pixel ? pixels_to_codes : codes_to_pixels;
    move(c.level, p.is_signed, x, p.n, p.c, p.pixels, y, c.pool);
}

struct code_pool_problem {
    pool_problem window;
    bool is_signed, pixels;
};
inline GRAFT_COLD const char* choose_max_pool_of_codes(const kernel_query& q, kernel_choice& choice) {
    const dtype type = q.in[0].type;
    if (type != dtype::uint8 && type != dtype::int8) return "it is not of 8 bits";
    code_pool_problem p{{}, type == dtype::int8, q.in_layout[0].channels == code_pixel};
    if (const char* reason = pool_problem_of(q, p.window)) return reason;
    if (!takes_max_pool_of_codes(p.window)) return "its rows are too long";
    choice.set(p);
    choice.note = p.pixels ? "8 bits, pixels" : p.window.l == layout::blocked ? "8 bits, lanes" : "8 bits, planes";
    return nullptr;
}
inline void run_max_pool_of_codes_kernel(const kernel_call& c) {
    const auto& p = c.parameters<code_pool_problem>();
    if (p.pixels) return run_max_pool_of_pixels(c.level, p.window, c.in[0].data, c.out[0].data, c.pool);
    run_max_pool_of_codes(c.level, p.window, p.is_signed, c.in[0].data, c.out[0].data, c.pool);
}

inline kernel_rows quantized_kernel_rows() {
    constexpr bool conv = quantized_conv_wanted(), sum = quantized_sum_wanted(), max_pool = quantized_max_pool_wanted(), pairs = quantized_pairs_wanted(),
                   product = quantized_product_wanted(), mean = quantized_mean_wanted();
    static constexpr kernel_row rows[] = {
        {"QuantizedConv", "graft", conv ? choose_quantized_conv : nullptr, conv ? run_quantized_conv_kernel : nullptr, false},
        {"QuantizedSum", "graft", sum ? choose_quantized_sum : nullptr, sum ? run_quantized_sum_kernel : nullptr, false},
        {"QuantizedProduct", "graft", product ? choose_quantized_product : nullptr, product ? run_quantized_product_kernel : nullptr, false},
        {"QuantizedGlobalAveragePool", "graft", mean ? choose_quantized_mean : nullptr, mean ? run_quantized_mean_kernel : nullptr, false},
        {"LookupTable", "graft", pairs ? choose_lookup : nullptr, pairs ? run_lookup_kernel : nullptr, false},
        {"Reorder", "graft", conv ? choose_reorder_of_codes : nullptr, conv ? run_reorder_of_codes : nullptr, false},
        {"MaxPool", "", max_pool ? choose_max_pool_of_codes : nullptr, max_pool ? run_max_pool_of_codes_kernel : nullptr, false},
    };
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
