// Kernels of images in bfloat16, which lowering puts between convolutions that multiply tiles of it.
#pragma once

#include "../bfloat16_images.hpp"
#include "elementwise.hpp"
#include "pool.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

inline bool is_narrow_image(const tensor_view& v, layout lies) { return v.type == dtype::bfloat16 && lies == layout::blocked; }
inline bool reads_narrow(const kernel_query& q, int i) { return is_narrow_image(q.in[i], q.in_layout[i]); }
inline bool writes_narrow(const kernel_query& q) { return is_narrow_image(q.out[0], q.out_layout[0]); }

inline GRAFT_COLD const char* choose_narrow_pool(const kernel_query& q, kernel_choice& choice) {
    if (!reads_narrow(q, 0) || !writes_narrow(q)) return "it is not of images in bfloat16";
    pool_problem p;
    if (const char* reason = pool_problem_of(q, p)) return reason;
    choice.set(p);
    choice.note = "pool of bfloat16";
    return nullptr;
}
template <bool Largest>
inline void run_narrow_pool_kernel(const kernel_call& c) {
    run_narrow_pool(c.level, Largest, c.parameters<pool_problem>(), c.in[0].as<const std::uint16_t>(), c.out[0].as<std::uint16_t>(), c.pool);
}

inline plane_parameters planes_in(const kernel_query& q) {
    const shape& x = q.in[0].extents;
    return {layout::blocked, x[0], x[1], x[2] * x[3]};
}
inline GRAFT_COLD const char* choose_narrow_average(const kernel_query& q, kernel_choice& choice) {
    if (!reads_narrow(q, 0) || q.out[0].type != dtype::float32 || q.out_layout[0] != layout::blocked) return "it is not the average of an image in bfloat16";
    choice.set(planes_in(q));
    choice.note = "whole planes of bfloat16";
    return nullptr;
}
inline void run_narrow_average(const kernel_call& c) {
    const auto& p = c.parameters<plane_parameters>();
    run_narrow_global_average(c.level, p.n, p.c, p.pixels, c.in[0].as<const std::uint16_t>(), c.output(0), c.pool);
}

inline GRAFT_COLD const char* choose_narrow_reorder(const kernel_query& q, kernel_choice& choice) {
    if (!reads_narrow(q, 0) || q.out[0].type != dtype::float32 || q.out_layout[0] != layout::row_major) return "it is not an image in bfloat16";
    choice.set(planes_in(q));
    choice.note = "to planes, from bfloat16";
    return nullptr;
}
inline void run_narrow_reorder(const kernel_call& c) {
    const auto& p = c.parameters<plane_parameters>();
    narrow_to_nchw(c.level, c.in[0].as<const std::uint16_t>(), p.n, p.c, p.pixels, c.output(0), c.pool);
}

struct narrow_sum_parameters {
    epilogue ep;
    std::int64_t numbers;
};
inline GRAFT_COLD const char* choose_narrow_sum(const kernel_query& q, kernel_choice& choice) {
    if (q.inputs != 2 || !reads_narrow(q, 0) || !reads_narrow(q, 1) || !writes_narrow(q)) return "it is not a sum of images in bfloat16";
    const narrow_sum_parameters p{epilogue_of(q.n), stored_elements(q.out[0], q.out_layout[0])};
    if (q.in[0].extents != q.in[1].extents || p.ep.act > activation::clip) return "its images differ in shape, or its activation is a function";
    choice.set(p);
    choice.note = "elementwise, bfloat16";
    return nullptr;
}
inline void run_narrow_sum_kernel(const kernel_call& c) {
    const auto& p = c.parameters<narrow_sum_parameters>();
    run_narrow_sum(c.level, p.ep, c.in[0].as<const std::uint16_t>(), c.in[1].as<const std::uint16_t>(), p.numbers, c.out[0].as<std::uint16_t>(), c.pool);
}

// ScaleShift, and Mul by a number for each channel.
struct narrow_channel_parameters {
    channel_problem problem;
    int image, scale, shift;  // which input; -1: none
};
inline GRAFT_COLD const char* choose_narrow_channel(const kernel_query& q, kernel_choice& choice) {
    narrow_channel_parameters p{};
    if (q.n.op_type == "ScaleShift")
        p.scale = 1, p.shift = 2;
    else
        p.image = reads_narrow(q, 0) ? 0 : 1, p.scale = 1 - p.image, p.shift = -1;
    if (!reads_narrow(q, p.image) || !writes_narrow(q) || q.in[p.scale].type != dtype::float32) return "it is not an image in bfloat16 by floats";
    const shape& x = q.in[p.image].extents;
    channel_problem& channels = p.problem;
    channels.n = x[0], channels.c = x[1], channels.area = x[2] * x[3];
    channels.ep = epilogue_of(q.n);
    if (channels.ep.act > activation::clip) return "its activation is a function";
    if (p.shift < 0) {
        const shape& s = q.in[p.scale].extents;
        if (s.rank() != 4 || s[1] != x[1] || s[2] * s[3] != 1 || (s[0] != x[0] && s[0] != 1)) return "it is not one number for each channel";
        channels.scale_image = s[0] == 1 ? 0 : stored_extents(s, q.in_layout[p.scale])[1];
    }
    choice.set(p);
    choice.note = "scale of each channel, bfloat16";
    return nullptr;
}
inline void run_narrow_channel_kernel(const kernel_call& c) {
    const auto& p = c.parameters<narrow_channel_parameters>();
    run_narrow_channel(c.level, p.problem, c.in[p.image].as<const std::uint16_t>(), c.input(p.scale), p.shift < 0 ? nullptr : c.input(p.shift),
                       c.out[0].as<std::uint16_t>(), c.pool);
}

inline kernel_rows bfloat16_kernel_rows() {
    constexpr bool images = wanted("Conv");
#define GRAFT_NARROW(op, domain, operators, choose, run) \
    kernel_row { op, domain, images && (operators) ? choose : nullptr, images && (operators) ? run : nullptr, false }
    static constexpr kernel_row rows[] = {
        GRAFT_NARROW("MaxPool", "", wanted("MaxPool"), choose_narrow_pool, run_narrow_pool_kernel<true>),
        GRAFT_NARROW("AveragePool", "", wanted("AveragePool"), choose_narrow_pool, run_narrow_pool_kernel<false>),
        GRAFT_NARROW("GlobalAveragePool", "", wanted("GlobalAveragePool"), choose_narrow_average, run_narrow_average),
        GRAFT_NARROW("Reorder", "graft", true, choose_narrow_reorder, run_narrow_reorder),
        GRAFT_NARROW("Sum", "graft", wanted("Add"), choose_narrow_sum, run_narrow_sum_kernel),
        GRAFT_NARROW("Add", "", wanted("Add"), choose_narrow_sum, run_narrow_sum_kernel),
        GRAFT_NARROW("Mul", "", wanted("Mul"), choose_narrow_channel, run_narrow_channel_kernel),
        GRAFT_NARROW("ScaleShift", "graft", wanted("BatchNormalization"), choose_narrow_channel, run_narrow_channel_kernel),
    };
#undef GRAFT_NARROW
    return rows;
}

}  // namespace cpu
GRAFT_END_NAMESPACE
