// Bodies of the gradient of a convolution's input and of packing anew: phases of strides, turned weights, and runs over threads.
#pragma once

#include "../bfloat16.hpp"
#include "conv_grad.hpp"
#include "dispatch.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace cpu {
namespace detail {

// Whether the vector packer knows the form: groups that begin with a vector, and not too many taps.
inline bool packs_by_vectors(const conv_problem& q, const conv_choice& c, std::int64_t from_taps, std::int64_t width) {
    if (c.algorithm == conv_algorithm::depthwise || c.algorithm == conv_algorithm::shared || c.algorithm == conv_algorithm::bfloat16) return false;
    return from_taps <= conv_pack_args::most_taps && from_taps * width <= 4096 && (q.groups == 1 || q.ic / q.groups % width == 0);
}

// The convolution of dy that gives dx where strides are 1.
inline conv_problem turned_round(const conv_problem& f) {
    conv_problem q = f;
    q.ic = f.oc, q.ih = f.oh, q.iw = f.ow;
    q.oc = f.ic, q.oh = f.ih, q.ow = f.iw;
    q.pt = f.dh * (f.kh - 1) - f.pt;
    q.pl = f.dw * (f.kw - 1) - f.pl;
    q.in = q.out = layout::blocked;
    q.ep = epilogue();
    q.bfloat16 &= f.groups == 1;  // weights of groups are turned for floats alone
    return q;
}

// The convolution of dy that gives what each row of taps gives: output channel c * kh + ky is input channel c by row ky.
inline conv_problem rows_of_taps(const conv_problem& f) {
    conv_problem q = turned_round(f);
    q.oc = f.ic * f.kh, q.oh = f.oh;
    q.kh = q.dh = 1, q.pt = 0;
    q.bfloat16 = false;
    return q;
}
// Fewer channels than a vector has leave lanes empty: by rows of taps they are full, though all these sums are added up once more.
inline bool sums_tap_rows(isa set, const conv_problem& f, const conv_choice& whole) {
    const std::int64_t width = vector_width(set), vectors = ceil_div(f.ic * f.kh, width);
    if (whole.algorithm != conv_algorithm::direct || f.groups > 1 || f.ic >= width || f.kh < 2 || f.kh > conv_tap_rows_args::most_rows ||
        vectors > conv_tap_rows_args::most_vectors || !packs_by_vectors(rows_of_taps(f), whole, f.kw, width))
        return false;
    const double products = double(f.oh * f.iw * f.kw * f.oc * vectors), sums = 4 * double(f.ih * f.iw * f.kh * vectors);
    return products + sums < 0.8 * double(f.ih * f.iw * f.kh * f.kw * f.oc);
}
// Floats of what such a convolution gives, for one image.
inline std::int64_t tap_row_floats(const conv_problem& q, std::int64_t width) { return ceil_div(q.oc, width) * width * q.oh * q.ow; }
// Images of which that stays in the second cache.
inline std::int64_t tap_row_images(const conv_problem& q, std::int64_t width) {
    return std::min(q.n, (std::int64_t(1) << 18) / std::max<std::int64_t>(1, tap_row_floats(q, width)) + 1);
}

// One phase of an axis: inputs first, first + stride, ... of which there are `count`; the taps tap, tap + step, ... reach them, as a
// kernel of `taps` with a dilation and a pad over the outputs.
struct phase_axis {
    std::int64_t first, count;
    int tap, step, taps, dilation, pad;
};
inline phase_axis phase_of(std::int64_t size, std::int64_t phase, int kernel, int stride, int dilation, int pad) {
    phase_axis a{};
    a.first = phase;
    a.count = phase < size ? (size - 1 - phase) / stride + 1 : 0;
    a.step = stride;
    for (int d = 2; d <= a.step; ++d)
        while (a.step % d == 0 && std::int64_t(a.step / d) * dilation % stride == 0) a.step /= d;
    a.dilation = static_cast<int>(std::int64_t(a.step) * dilation / stride);
    for (; a.tap < kernel && a.tap < a.step; ++a.tap)
        if ((phase + pad - std::int64_t(a.tap) * dilation) % stride == 0) break;
    if (a.tap >= kernel || a.tap >= a.step) return a;
    a.taps = (kernel - 1 - a.tap) / a.step + 1;
    // The tap reads output (phase + pad - tap * dilation) / stride of the phase's first input; turned round it is the last one.
    a.pad = static_cast<int>((std::int64_t(a.tap) * dilation - phase - pad) / stride + std::int64_t(a.taps - 1) * a.dilation);
    return a;
}

// What one pass over a phase computes. A phase with more taps than the kernels' tables hold takes several passes.
struct phase_pass {
    conv_problem q;
    phase_axis y, x;
    std::int64_t packed;  // where its weights are, in bytes
    bool first;
};

// The next pass, in the order in which they run: all first passes, then all second ones. `index` counts (pass, phase); false: no more.
struct phase_walk {
    conv_problem f;
    std::int64_t width;
    bool bfloat16;  // how weights are packed
    std::int64_t round = 0, phase = -1, packed = 0;
    bool more = false;  // whether a phase has passes after this round
    bool next(phase_pass& pass) {
        for (;;) {
            if (++phase >= std::int64_t(f.sh) * f.sw) {
                if (!more) return false;
                more = false, phase = 0, ++round;
            }
            pass.y = phase_of(f.ih, phase / f.sw, f.kh, f.sh, f.dh, f.pt);
            pass.x = phase_of(f.iw, phase % f.sw, f.kw, f.sw, f.dw, f.pl);
            if (pass.y.count == 0 || pass.x.count == 0) continue;
            pass.first = round == 0;
            pass.packed = packed;
            if (pass.y.taps == 0 || pass.x.taps == 0) {
                pass.y.taps = pass.x.taps = 0;
                if (round == 0) return true;
                continue;
            }
            // This round's part of the taps, counted in the order of the turned kernel.
            const int across = std::min(pass.x.taps, conv_max_taps), down = std::min(pass.y.taps, conv_max_taps / across);
            const std::int64_t parts = ceil_div(pass.x.taps, across);
            if (round / parts * down >= pass.y.taps) continue;
            part_of(pass.y, down, round / parts);
            part_of(pass.x, across, round % parts);
            if (std::min<std::int64_t>(round + 1, INT32_MAX) / parts * down < total_down(pass)) more = true;
            conv_problem& q = pass.q = turned_round(f);
            q.sh = q.sw = 1;
            q.kh = pass.y.taps, q.dh = pass.y.dilation, q.pt = pass.y.pad, q.oh = pass.y.count;
            q.kw = pass.x.taps, q.dw = pass.x.dilation, q.pl = pass.x.pad, q.ow = pass.x.count;
            packed += bfloat16 ? packed_bfloat16_bytes(bfloat16_weights_of(q)) : q.groups * direct_weights(q, static_cast<int>(width)) * 4;
            return true;
        }
    }

private:
    int total_down(const phase_pass& pass) const { return phase_of(f.ih, pass.y.first, f.kh, f.sh, f.dh, f.pt).taps; }
    // Turned taps [part * size, ...): the turned kernel begins later, so its pad is smaller; in the kernel as it is they come earlier.
    static void part_of(phase_axis& a, int size, std::int64_t part) {
        const int begin = static_cast<int>(part) * size, taps = std::min(size, a.taps - begin);
        a.pad -= begin * a.dilation;
        a.tap += (a.taps - begin - taps) * a.step;
        a.taps = taps;
    }
};

// Whether each phase is faster in bfloat16.
inline bool phases_in_bfloat16(isa set, const conv_problem& f) {
    if (!f.bfloat16) return false;
    phase_walk walk{f, vector_width(set), true};
    phase_pass pass;
    while (walk.next(pass))
        if (pass.y.taps && choose_conv(set, pass.q).algorithm != conv_algorithm::bfloat16) return false;
    return true;
}
inline bool in_bfloat16(const conv_grad_input_choice& c) { return c.conv.algorithm == conv_algorithm::bfloat16; }

}  // namespace detail

GRAFT_INLINE conv_grad_input_choice choose_conv_grad_input(isa set, const conv_problem& f) {
    conv_grad_input_choice c;
    const std::int64_t width = vector_width(set);
    if (f.sh == 1 && f.sw == 1) {
        c.conv = choose_conv(set, detail::turned_round(f));
        if (detail::sums_tap_rows(set, f, c.conv)) {
            conv_problem q = detail::rows_of_taps(f);
            q.n = detail::tap_row_images(q, width);
            c.algorithm = conv_grad_input_algorithm::tap_rows;
            c.conv = choose_conv(set, q);
            c.reason = "few channels: rows of taps side by side";
            c.packed_bytes = c.conv.packed_bytes;
            c.workspace_bytes = q.n * detail::tap_row_floats(q, width) * 4 + c.conv.workspace_bytes;
            return c;
        }
        c.reason = c.conv.reason;
        c.packed_bytes = c.conv.packed_bytes;
        c.workspace_bytes = c.conv.workspace_bytes;
        if (!detail::in_bfloat16(c) && !detail::packs_by_vectors(detail::turned_round(f), c.conv, std::int64_t(f.kh) * f.kw, width))
            c.pack_workspace_bytes = f.oc * (f.ic / f.groups) * f.kh * f.kw * 4;
        return c;
    }
    if (detail::is_depthwise(f)) {
        c.algorithm = conv_grad_input_algorithm::depthwise;
        c.reason = "as many groups as channels";
        c.packed_bytes = detail::ceil_div(f.oc, width) * width * f.kh * f.kw * 4;
        return c;
    }
    c.algorithm = conv_grad_input_algorithm::phases;
    const bool bfloat16 = detail::phases_in_bfloat16(set, f);
    c.reason = bfloat16 ? "a convolution for each phase of the strides, operands in bfloat16" : "a convolution for each phase of the strides";
    c.conv.algorithm = bfloat16 ? conv_algorithm::bfloat16 : f.groups > 1 ? conv_algorithm::grouped : conv_algorithm::direct;
    detail::phase_walk walk{f, width, bfloat16};
    detail::phase_pass pass;
    while (walk.next(pass)) {
        if (!pass.y.taps) continue;
        if (!detail::packs_by_vectors(pass.q, c.conv, std::int64_t(f.kh) * f.kw, width))
            c.pack_workspace_bytes = std::max(c.pack_workspace_bytes, f.oc * (f.ic / f.groups) * pass.q.kh * pass.q.kw * 4);
        if (bfloat16) c.workspace_bytes = std::max(c.workspace_bytes, bfloat16_conv_workspace(pass.q, true));
    }
    c.packed_bytes = walk.packed;
    return c;
}

namespace detail {

// `a` says where the weights are and which taps are wanted; the rest is filled in here.
inline void pack_by_vectors(isa set, const conv_problem& q, const conv_choice& c, conv_pack_args& a, void* packed, executor& pool) {
    const std::int64_t width = vector_width(set);
    a.to = static_cast<float*>(packed);
    a.groups = q.groups;
    a.out_channels = q.oc / q.groups;
    a.in_channels = q.ic / q.groups;
    a.taps = q.kh * q.kw;
    a.to_group = direct_weights(q, static_cast<int>(width));
    a.wino = c.algorithm == conv_algorithm::winograd4 ? 4 : c.algorithm == conv_algorithm::winograd2 ? 2 : 0;
    a.element = ceil_div(q.oc, width) * width * q.ic;
    a.planes = c.algorithm == conv_algorithm::first_layer;
    const std::int64_t tasks = a.groups * ceil_div(a.out_channels, 2 * width);
    const conv_grad_kernels& k = *training_kernels(set).conv_grad;
    parallel_for(pool, tasks, [&](std::int64_t task) { k.pack(a, task); });
}

// The weights of the forward convolution, with channels exchanged; taps (ky + y * sy, kx + x * sx) from the last to the first.
inline void pack_turned(isa set, const conv_problem& f, const conv_problem& q, const conv_choice& c, const phase_axis& y, const phase_axis& x,
                        const float* weight, void* packed, float* workspace, executor& pool) {
    const std::int64_t taps = std::int64_t(f.kh) * f.kw, icg = f.ic / f.groups, ocg = f.oc / f.groups;
    const std::int64_t last = (y.tap + std::int64_t(y.taps - 1) * y.step) * f.kw + x.tap + std::int64_t(x.taps - 1) * x.step;
    if (packs_by_vectors(q, c, taps, vector_width(set))) {
        conv_pack_args a;
        a.from = weight;
        a.out_step = a.from_taps = static_cast<int>(taps);
        a.in_step = icg * taps;
        a.from_group = ocg * icg * taps;
        for (int i = 0; i < y.taps; ++i)
            for (int j = 0; j < x.taps; ++j)
                a.tap[i * x.taps + j] = static_cast<std::int32_t>(last - std::int64_t(i) * y.step * f.kw - std::int64_t(j) * x.step);
        return pack_by_vectors(set, q, c, a, packed, pool);
    }
    parallel_for(pool, f.ic, [&](std::int64_t channel) {
        const std::int64_t group = channel / icg;
        float* out = workspace + channel * ocg * y.taps * x.taps;
        for (std::int64_t o = group * ocg; o < (group + 1) * ocg; ++o) {
            const float* from = weight + (o * icg + channel % icg) * taps + last;
            for (int i = 0; i < y.taps; ++i)
                for (int j = 0; j < x.taps; ++j) *out++ = from[-(std::int64_t(i) * y.step * f.kw + std::int64_t(j) * x.step)];
        }
    });
    pack_conv_weights(set, q, c, workspace, packed, pool);
}

}  // namespace detail

GRAFT_INLINE void pack_conv_grad_input_weights(isa set, const conv_problem& f, const conv_grad_input_choice& choice, const float* weight, void* packed,
                                               void* workspace, executor& pool) {
    float* const space = static_cast<float*>(workspace);
    if (choice.algorithm == conv_grad_input_algorithm::depthwise) {
        conv_choice forward;
        forward.algorithm = conv_algorithm::depthwise;
        return pack_conv_weights(set, f, forward, weight, packed, pool);
    }
    if (choice.algorithm == conv_grad_input_algorithm::tap_rows) {
        conv_pack_args a;
        a.from = weight;
        a.out_step = a.from_taps = f.kw;
        a.in_step = f.ic * f.kh * f.kw;
        for (int kx = 0; kx < f.kw; ++kx) a.tap[kx] = f.kw - 1 - kx;
        return detail::pack_by_vectors(set, detail::rows_of_taps(f), choice.conv, a, packed, pool);
    }
    if (choice.algorithm == conv_grad_input_algorithm::convolution && detail::in_bfloat16(choice)) {
        // Turned round: channels change places, and the last tap is the first.
        const std::int64_t taps = std::int64_t(f.kh) * f.kw;
        return pack_bfloat16(set, {f.oc, f.ic, taps, taps, f.ic * taps, -1}, weight + taps - 1, 0, f.ic, packed, pool);
    }
    if (choice.algorithm == conv_grad_input_algorithm::convolution) {
        detail::phase_axis y{}, x{};
        y.taps = f.kh, x.taps = f.kw, y.step = x.step = 1;
        return detail::pack_turned(set, f, detail::turned_round(f), choice.conv, y, x, weight, packed, space, pool);
    }
    detail::phase_walk walk{f, vector_width(set), detail::in_bfloat16(choice)};
    detail::phase_pass pass;
    while (walk.next(pass))
        if (pass.y.taps) detail::pack_turned(set, f, pass.q, choice.conv, pass.y, pass.x, weight, static_cast<char*>(packed) + pass.packed, space, pool);
}

GRAFT_INLINE void repack_conv_weights(isa set, const conv_problem& p, const conv_choice& choice, const float* weight, void* packed, executor& pool) {
    const std::int64_t taps = std::int64_t(p.kh) * p.kw, icg = p.ic / p.groups;
    if (!detail::packs_by_vectors(p, choice, taps, vector_width(set))) return pack_conv_weights(set, p, choice, weight, packed, pool);
    conv_pack_args a;
    a.from = weight;
    a.from_taps = static_cast<int>(taps);
    a.in_step = taps;
    a.out_step = icg * taps;
    a.from_group = p.oc / p.groups * icg * taps;
    for (int t = 0; t < a.from_taps; ++t) a.tap[t] = t;
    detail::pack_by_vectors(set, p, choice, a, packed, pool);
}

namespace detail {

inline void run_tap_rows(isa set, const conv_problem& f, const conv_grad_input_choice& choice, const float* dy, const void* packed, const float* residual,
                         float* dx, void* workspace, executor& pool) {
    const std::int64_t width = vector_width(set), of_dy = ceil_div(f.oc, width) * width * f.oh * f.ow, of_dx = width * f.ih * f.iw;
    conv_problem q = rows_of_taps(f);
    const std::int64_t together = tap_row_images(q, width);
    conv_tap_rows_args a;
    a.forward = f;
    a.vectors = static_cast<int>(ceil_div(q.oc, width));
    for (int ky = 0; ky < f.kh; ++ky)
        for (int c = 0; c < f.ic; ++c) {
            const std::int64_t from = std::int64_t(c) * f.kh + ky;
            a.lane[ky][from / width][c] = static_cast<std::int32_t>(from % width);
            a.taken[ky][from / width][c] = 1;
        }
    float* const sums = static_cast<float*>(workspace);
    void* const behind = sums + together * tap_row_floats(q, width);
    a.sums = sums;
    for (std::int64_t first = 0; first < f.n; first += together) {
        q.n = std::min(together, f.n - first);
        run_conv(set, q, choice.conv, dy + first * of_dy, packed, nullptr, nullptr, sums, behind, pool);
        a.residual = residual ? residual + first * of_dx : nullptr;
        a.dx = dx + first * of_dx;
        parallel_for_pieces(pool, q.n * f.ih, ceil_div(2000, f.iw), [&](std::int64_t row, std::int64_t count) {
            for (std::int64_t end = row + count; row < end; ++row) training_kernels(set).conv_grad->input_tap_rows(a, row);
        });
    }
}

}  // namespace detail

GRAFT_INLINE void run_conv_grad_input(isa set, const conv_problem& f, const conv_grad_input_choice& choice, const float* dy, const void* packed,
                                      const float* residual, float* dx, void* workspace, executor& pool) {
    const conv_grad_kernels& k = *training_kernels(set).conv_grad;
    const std::int64_t width = vector_width(set), blocks = detail::ceil_div(f.ic, width);
    if (f.n * f.ic * f.ih * f.iw == 0) return;
    if (choice.algorithm == conv_grad_input_algorithm::convolution)
        return run_conv(set, detail::turned_round(f), choice.conv, dy, packed, nullptr, residual, dx, workspace, pool);
    if (choice.algorithm == conv_grad_input_algorithm::tap_rows) return detail::run_tap_rows(set, f, choice, dy, packed, residual, dx, workspace, pool);
    conv_grad_input_args a[4];
    for (conv_grad_input_args& one : a) {
        one.forward = f;
        one.conv.x = dy;
        one.conv.residual = residual;
        one.conv.y = dx;
    }
    if (choice.algorithm == conv_grad_input_algorithm::depthwise) {
        conv_args& c = a[0].conv;
        c.weight = static_cast<const float*>(packed);
        const std::int64_t row = detail::ceil_div(f.iw * f.kh * f.kw, std::int64_t(f.sh) * f.sw);
        c.batch_tiles = std::min(detail::ceil_div(20000, row), f.ih);
        c.batches = detail::ceil_div(f.ih, c.batch_tiles);
        parallel_for(pool, f.n * blocks * c.batches, [&](std::int64_t task) { k.input_depthwise(a[0], task); });
        return;
    }
    detail::phase_walk walk{f, width, detail::in_bfloat16(choice)};
    detail::phase_pass pass;
    std::int64_t tasks[5] = {0, 0, 0, 0, 0}, last_round = 0;  // of the phases before, for one image
    int held = 0;
    // Some phases at a time, all of one image before the next, which read the same dy; passes over one phase never together.
    const auto flush = [&] {
        parallel_for(pool, f.n * tasks[held], [&](std::int64_t task) {
            const std::int64_t image = task / tasks[held], mine = task % tasks[held];
            int i = 0;
            while (mine >= tasks[i + 1]) ++i;
            const std::int64_t each = tasks[i + 1] - tasks[i], index = image * each + mine - tasks[i];
            a[i].conv.weight ? k.input_phase(a[i], index) : k.input_empty_phase(a[i], index);
        });
        held = 0;
    };
    while (walk.next(pass)) {
        if (held == 4 || (held && walk.round != last_round)) flush();
        last_round = walk.round;
        conv_grad_input_args& one = a[held];
        std::int64_t each = blocks;
        one.row0 = pass.y.first, one.column0 = pass.x.first;
        one.conv.weight = nullptr;
        const char* const weights = static_cast<const char*>(packed) + pass.packed;
        if (pass.y.taps && detail::in_bfloat16(choice)) {
            const output_steps steps{f.sh * f.iw * width, f.sw * width, f.ih * f.iw * width, blocks * f.ih * f.iw * width};
            const std::int64_t first = (pass.y.first * f.iw + pass.x.first) * width;
            const float* const add = pass.first ? residual : dx;
            run_bfloat16_conv(set, pass.q, dy, weights, nullptr, add ? add + first : nullptr, dx + first, workspace, pool, &steps);
            continue;
        }
        if (pass.y.taps) {
            one.conv = detail::conv_arguments(set, pass.q, choice.conv);
            one.conv.x = dy;
            one.conv.y = dx;
            one.conv.weight = reinterpret_cast<const float*>(weights);
            each = pass.q.groups * one.conv.batches * one.conv.tasks_per_batch;
        }
        one.conv.residual = pass.first ? residual : dx;
        one.conv.y = dx;
        tasks[held + 1] = tasks[held] + each;
        ++held;
    }
    if (held) flush();
}

}  // namespace cpu
GRAFT_END_NAMESPACE
