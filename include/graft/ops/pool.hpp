// Pooling: MaxPool, AveragePool, LpPool over windows, their global forms, and their gradients.
#pragma once

#include "window_gradient.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// Checks the attributes of a pool and sizes its window.
GRAFT_NOINLINE inline status plan_pool(const op_context& c, window& w) {
    GRAFT_TRY(read_window(c, c.in[0].extents, nullptr, w));
    const bool explicit_pads = c.is("auto_pad", "NOTSET", "NOTSET");
    for (int i = 0; i < w.rank; ++i)
        if (explicit_pads && (w.axis[i].pad_begin >= w.axis[i].span() || w.axis[i].pad_end >= w.axis[i].span()))
            return c.fail(errc::op_attribute, "pads %lld and %lld must be smaller than the window, which spans %lld", w.axis[i].pad_begin, w.axis[i].pad_end,
                          w.axis[i].span());
    return size_window(c, c.integer("ceil_mode", 0) != 0, w, true);
}

/// The window of one output: its taps inside the input, as a loop over offsets into the plane.
struct window_walk {
    const window& w;
    std::int64_t from[shape::max_rank], to[shape::max_rank], tap[shape::max_rank], base[shape::max_rank];
    bool empty = false;

    window_walk(const window& over, const std::int64_t* output) noexcept : w(over) {
        for (int i = 0; i < w.rank; ++i) {
            const window_axis& a = w.axis[i];
            a.taps(output[i], 0, 0, from[i], to[i]);
            tap[i] = from[i];
            base[i] = output[i] * a.stride - a.pad_begin;
            empty = empty || from[i] == to[i];
        }
    }
    std::int64_t at(int i) const noexcept { return base[i] + tap[i] * w.axis[i].dilation; }
    std::int64_t offset() const noexcept {
        std::int64_t n = 0;
        for (int i = 0; i < w.rank; ++i) n = n * w.axis[i].input + at(i);
        return n;
    }
    /// The same place counted with the first axis running fastest.
    std::int64_t column_major_offset() const noexcept {
        std::int64_t n = 0;
        for (int i = w.rank - 1; i >= 0; --i) n = n * w.axis[i].input + at(i);
        return n;
    }
    bool next() noexcept {
        for (int i = w.rank - 1; i >= 0; --i) {
            if (++tap[i] < to[i]) return true;
            tap[i] = from[i];
        }
        return false;
    }
};

/// What a pool does with the taps of one output: the plane's value, and the place within the plane (for MaxPool).
struct pool_settings {
    bool count_include_pad = false, column_major = false;
    double p = 2;
};
using pool_function = double (*)(window_walk& walk, const double* plane, const std::int64_t* output, const pool_settings& s, std::int64_t* place);

/// Applies `f` to every window; each (image, channel) plane is a task.
GRAFT_NOINLINE inline status run_pool(run_context& c, const window& w, const pool_settings& s, pool_function f) {
    if (is_empty(c.out[c.wants(0) ? 0 : 1])) return {};
    const std::int64_t planes = c.in[0].extents[0] * c.in[0].extents[1], inputs = w.inputs(), outputs = w.outputs();
    widened<double> x;
    GRAFT_TRY(widen(c, c.in[0], x));
    std::int64_t* places = c.wants(1) ? c.out[1].as<std::int64_t>() : nullptr;
    parallel_for(c.pool, outputs ? planes : 0, [&](std::int64_t plane) {
        constexpr std::int64_t block = 512;
        double values[block];
        std::int64_t output[shape::max_rank] = {};
        for (std::int64_t first = 0; first < outputs; first += block) {
            const std::int64_t count = std::min(block, outputs - first);
            for (std::int64_t i = 0; i < count; ++i) {
                std::int64_t place = 0;
                window_walk walk(w, output);
                values[i] = f(walk, x.data + plane * inputs, output, s, &place);
                if (places) places[plane * outputs + first + i] = plane * inputs + place;
                for (int k = w.rank - 1; k >= 0 && ++output[k] == w.axis[k].output; --k) output[k] = 0;
            }
            if (c.wants(0)) store_from_double(c.out[0].type, c.out[0].data, plane * outputs + first, count, values);
        }
    });
    return {};
}

inline status infer_pool(infer_context& c) {
    window w;
    GRAFT_TRY(plan_pool(c, w));
    return c.set(0, c.in[0].type, window_shape(c.in[0].extents[0], c.in[0].extents[1], w));
}

// MaxPool-1,8,10,11,12,22: the largest element of each window; Indices: its place in the whole tensor
inline status max_pool_infer(infer_context& c) {
    if (!is_byte(c.in[0].type)) GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(infer_pool(c));
    window w;
    GRAFT_TRY(plan_pool(c, w));
    return c.set(1, dtype::int64, window_shape(c.in[0].extents[0], c.in[0].extents[1], w));
}
inline double max_of_window(window_walk& walk, const double* plane, const std::int64_t*, const pool_settings& s, std::int64_t* place) {
    double best = -HUGE_VAL;
    bool any = false;
    if (walk.empty) return 0;
    do {
        const double v = plane[walk.offset()];
        if (any && !(v > best)) continue;
        any = true;
        best = v;
        *place = s.column_major ? walk.column_major_offset() : walk.offset();
    } while (walk.next());
    return best;
}
inline status max_pool_run(run_context& c) {
    window w;
    GRAFT_TRY(plan_pool(c, w));
    pool_settings s;
    s.column_major = c.integer("storage_order", 0) != 0;
    return run_pool(c, w, s, max_of_window);
}

// AveragePool-1,7,10,11,19,22: the mean of each window, over its elements inside the input, or inside the padded input
inline status average_pool_infer(infer_context& c) {
    GRAFT_TRY(check_real(c, 0));
    return infer_pool(c);
}
inline double average_of_window(window_walk& walk, const double* plane, const std::int64_t* output, const pool_settings& s, std::int64_t*) {
    double sum = 0, count = 1;
    for (int i = 0; i < walk.w.rank; ++i) {
        const window_axis& a = walk.w.axis[i];
        std::int64_t first = walk.from[i], last = walk.to[i];
        if (s.count_include_pad) a.taps(output[i], a.pad_begin, a.pad_end, first, last);
        count *= static_cast<double>(last - first);
    }
    if (walk.empty) return 0;
    do sum += plane[walk.offset()];
    while (walk.next());
    return sum / count;
}
inline status average_pool_run(run_context& c) {
    window w;
    GRAFT_TRY(plan_pool(c, w));
    pool_settings s;
    s.count_include_pad = c.integer("count_include_pad", 0) != 0;
    return run_pool(c, w, s, average_of_window);
}

// LpPool-2,11,18,22: (sum of |x|^p)^(1/p) of each window
inline status lp_pool_infer(infer_context& c) {
    if (c.integer("p", 2) < 1) return c.fail(errc::op_attribute, "p is %lld, but must be at least 1", c.integer("p", 2));
    return average_pool_infer(c);
}
inline double norm_of_window(window_walk& walk, const double* plane, const std::int64_t*, const pool_settings& s, std::int64_t*) {
    double sum = 0;
    if (walk.empty) return 0;
    do sum += std::pow(std::fabs(plane[walk.offset()]), s.p);
    while (walk.next());
    return std::pow(sum, 1 / s.p);
}
inline status lp_pool_run(run_context& c) {
    window w;
    GRAFT_TRY(plan_pool(c, w));
    pool_settings s;
    s.p = static_cast<double>(c.integer("p", 2));
    return run_pool(c, w, s, norm_of_window);
}

/// Global pools: one window that is the whole plane; [N, C, 1...].
inline status global_pool_infer(infer_context& c) {
    GRAFT_TRY(check_real(c, 0));
    const shape& x = c.in[0].extents;
    if (x.rank() < 2) return c.fail_shapes("the input needs batch and channels");
    if (c.integer("p", 2) < 1) return c.fail(errc::op_attribute, "p is %lld, but must be at least 1", c.integer("p", 2));
    shape y = shape::filled(x.rank(), 1);
    y[0] = x[0];
    y[1] = x[1];
    return c.set(0, c.in[0].type, y);
}
inline status run_global_pool(run_context& c, pool_function f) {
    const shape& x = c.in[0].extents;
    window w;
    w.rank = 1;
    const std::int64_t n = x.product(2, x.rank());
    w.axis[0] = {n, 1, std::max<std::int64_t>(n, 1), 1, 1, 0, 0};
    pool_settings s;
    s.p = static_cast<double>(c.integer("p", 2));
    return run_pool(c, w, s, f);
}
// GlobalMaxPool-1,22, GlobalAveragePool-1,22, GlobalLpPool-2,22
inline status global_max_pool_run(run_context& c) { return run_global_pool(c, max_of_window); }
inline status global_average_pool_run(run_context& c) { return run_global_pool(c, average_of_window); }
inline status global_lp_pool_run(run_context& c) { return run_global_pool(c, norm_of_window); }

// dX = MaxPoolGrad(dY, X, Y): the gradient of a window goes to its first largest element, as PyTorch has it.
inline status max_pool_gradient(gradient_context& c) {
    std::vector<tensor_view> in;
    const op_context forward = forward_context(c, in);
    window w;
    GRAFT_TRY(plan_pool(forward, w));
    if (c.wants(0) && c.dy() != no_value) c.give(0, c.build.apply_graft("MaxPoolGrad", {c.dy(), c.in(0), c.out()}, window_attributes(w)));
    return {};
}
inline value_id emit_average_pool_grad(gradient_context& c, value_id dy, const window& w, bool count_include_pad) {
    std::vector<attribute> attributes = window_attributes(w);
    attributes.push_back(integer_attribute("count_include_pad", count_include_pad));
    attributes.push_back(shape_attribute("shape", shape(c.extents(c.in(0)))));
    return c.build.apply_graft("AveragePoolGrad", {dy}, std::move(attributes));
}
inline status average_pool_gradient(gradient_context& c) {
    std::vector<tensor_view> in;
    const op_context forward = forward_context(c, in);
    window w;
    GRAFT_TRY(plan_pool(forward, w));
    if (c.wants(0)) c.give(0, emit_average_pool_grad(c, c.dy(), w, c.integer("count_include_pad", 0) != 0));
    return {};
}

/// sign(x) |x|^(p - 1) * spread(dY / y^(p - 1)), 0 where y is 0; `spread` is what the pool's sum is turned around: null for global
/// pools, which broadcast.
inline value_id norm_pool_gradient(gradient_context& c, const window* w, value_id counts) {
    const double p = static_cast<double>(c.integer("p", 2));
    value_id x = c.in(0), y = c.out(), scaled = c.dy(), direction = x;
    if (p != 1) {
        const value_id safe = c.build.apply("Where", {c.build.apply("Equal", {y, c.build.number(0, y)}), c.build.number(1, y), y});
        scaled = c.build.div(scaled, p == 2 ? safe : c.build.apply("Pow", {safe, c.build.number(p - 1, y)}));
    }
    if (p != 2) direction = c.build.apply("Sign", {x});
    if (p > 2) direction = c.build.mul(direction, c.build.apply("Pow", {c.build.apply("Abs", {x}), c.build.number(p - 1, x)}));
    // The mean's gradient is the sum's after multiplying by the counts.
    if (w) scaled = emit_average_pool_grad(c, c.build.mul(scaled, counts), *w, false);
    return c.build.mul(direction, scaled);
}
inline status lp_pool_gradient(gradient_context& c) {
    std::vector<tensor_view> in;
    const op_context forward = forward_context(c, in);
    window w;
    GRAFT_TRY(plan_pool(forward, w));
    if (!c.wants(0)) return {};
    tensor counts;
    GRAFT_TRY_ASSIGN(counts, tensor::make(c.build.type(c.out()), window_shape(1, 1, w)));
    std::int64_t output[shape::max_rank] = {};
    for (std::int64_t i = 0; i < counts.elements(); ++i) {
        double n = 1;
        for (int k = 0; k < w.rank; ++k) {
            std::int64_t first = 0, last = 0;
            w.axis[k].taps(output[k], 0, 0, first, last);
            n *= static_cast<double>(last - first);
        }
        store_from_double(counts.type(), counts.raw(), i, 1, &n);
        for (int k = w.rank - 1; k >= 0 && ++output[k] == w.axis[k].output; --k) output[k] = 0;
    }
    c.give(0, norm_pool_gradient(c, &w, c.build.constant(std::move(counts), "counts")));
    return {};
}
inline status global_lp_pool_gradient(gradient_context& c) {
    if (c.wants(0)) c.give(0, norm_pool_gradient(c, nullptr, no_value));
    return {};
}
// One window over the whole picture; false where there is none to pool, and the gradient is given already.
inline bool whole_window(gradient_context& c, window& w) {
    const shape x = c.extents(c.in(0));
    if (!c.wants(0)) return false;
    if (x.rank() == 2) return c.give(0, c.dy()), false;
    if (x.elements() == 0) return c.give(0, c.build.zeros(x, c.dy())), false;
    w.rank = x.rank() - 2;
    for (int i = 0; i < w.rank; ++i) w.axis[i] = {x[i + 2], 1, x[i + 2], 1, 1, 0, 0};
    return true;
}
inline status global_average_pool_gradient(gradient_context& c) {
    window w;
    if (whole_window(c, w)) c.give(0, emit_average_pool_grad(c, c.dy(), w, false));
    return {};
}
inline status global_max_pool_gradient(gradient_context& c) {
    window w;
    if (whole_window(c, w)) c.give(0, c.build.apply_graft("MaxPoolGrad", {c.dy(), c.in(0), c.out()}, window_attributes(w)));
    return {};
}

/// Reads the resolved window of a pool's gradient; the outputs are the extents of dY.
GRAFT_NOINLINE inline status plan_pool_grad(const op_context& c, const shape& x, window& w) {
    const shape& dy = c.in[0].extents;
    GRAFT_TRY(read_window(c, x, nullptr, w));
    if (dy.rank() != x.rank() || dy[0] != x[0] || dy[1] != x[1]) return c.fail_shapes("dY must have the input's batch and channels");
    for (int i = 0; i < w.rank; ++i) {
        w.axis[i].output = dy[i + 2];
        if (checked_mul(w.axis[i].output, w.axis[i].stride) < 0) return c.fail_shapes("the extents overflow");
    }
    return {};
}
/// What a window gives of its gradient to the plane that it was taken from.
using pool_grad_function = void (*)(window_walk& walk, const double* x, const std::int64_t* output, double gradient, bool count_include_pad, double* dx);

/// Turns every window around; each (image, channel) plane is a task. `x` is null where the function does not read it.
GRAFT_NOINLINE inline status run_pool_grad(run_context& c, const window& w, const tensor_view* x, pool_grad_function f) {
    if (is_empty(c.out[0])) return {};
    const shape& s = c.out[0].extents;
    const std::int64_t inputs = w.inputs(), outputs = w.outputs();
    const bool count_include_pad = c.integer("count_include_pad", 0) != 0;
    widened<double> dy, in;
    GRAFT_TRY(widen(c, c.in[0], dy));
    if (x) GRAFT_TRY(widen(c, *x, in));
    buffer memory;
    double* sums = nullptr;
    GRAFT_TRY(scratch_of(c, s.elements(), memory, sums));
    parallel_for(c.pool, s[0] * s[1], [&](std::int64_t plane) {
        std::int64_t output[shape::max_rank] = {};
        double* dx = sums + plane * inputs;
        std::fill(dx, dx + inputs, 0.0);
        for (std::int64_t i = 0; i < outputs; ++i) {
            window_walk walk(w, output);
            if (!walk.empty) f(walk, x ? in.data + plane * inputs : nullptr, output, dy.data[plane * outputs + i], count_include_pad, dx);
            for (int k = w.rank - 1; k >= 0 && ++output[k] == w.axis[k].output; --k) output[k] = 0;
        }
        store_from_double(c.out[0].type, c.out[0].data, plane * inputs, inputs, dx);
    });
    return {};
}

// graft.MaxPoolGrad(dY, X, Y): each dY is added to the place of its window's first largest element
inline status max_pool_grad_infer(infer_context& c) {
    window w;
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(check_same_type(c, 1, 0));
    GRAFT_TRY(check_same_type(c, 2, 0));
    if (c.in[2].extents != c.in[0].extents) return c.fail_shapes("Y and dY must have one shape");
    GRAFT_TRY(plan_pool_grad(c, c.in[1].extents, w));
    return c.set(0, c.in[0].type, c.in[1].extents);
}
inline void give_to_largest(window_walk& walk, const double* x, const std::int64_t* output, double gradient, bool, double* dx) {
    std::int64_t place = 0;
    max_of_window(walk, x, output, {}, &place);
    dx[place] += gradient;
}
inline status max_pool_grad_run(run_context& c) {
    window w;
    GRAFT_TRY(plan_pool_grad(c, c.in[1].extents, w));
    return run_pool_grad(c, w, &c.in[1], give_to_largest);
}

// graft.AveragePoolGrad(dY): each dY is added to its window's elements, over as many as AveragePool divides by
inline status average_pool_grad_infer(infer_context& c) {
    window w;
    shape x;
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(read_shape_attribute(c, x));
    GRAFT_TRY(plan_pool_grad(c, x, w));
    return c.set(0, c.in[0].type, x);
}
inline void give_to_all(window_walk& walk, const double*, const std::int64_t* output, double gradient, bool count_include_pad, double* dx) {
    double count = 1;
    for (int i = 0; i < walk.w.rank; ++i) {
        const window_axis& a = walk.w.axis[i];
        std::int64_t first = walk.from[i], last = walk.to[i];
        if (count_include_pad) a.taps(output[i], a.pad_begin, a.pad_end, first, last);
        count *= static_cast<double>(last - first);
    }
    do dx[walk.offset()] += gradient / count;
    while (walk.next());
}
inline status average_pool_grad_run(run_context& c) {
    window w;
    shape x;
    GRAFT_TRY(read_shape_attribute(c, x));
    GRAFT_TRY(plan_pool_grad(c, x, w));
    return run_pool_grad(c, w, nullptr, give_to_all);
}

inline gradient_table pool_gradients() {
    static constexpr gradient_row rows[] = {
        {"MaxPool", "", max_pool_gradient},
        {"AveragePool", "", average_pool_gradient},
        {"LpPool", "", lp_pool_gradient},
        {"GlobalMaxPool", "", global_max_pool_gradient},
        {"GlobalAveragePool", "", global_average_pool_gradient},
        {"GlobalLpPool", "", global_lp_pool_gradient},
    };
    return rows;
}
inline op_table pool_training_ops() {
    static constexpr op_row rows[] = {
        own("MaxPoolGrad")
            .inputs(3)
            .functions(max_pool_grad_infer, max_pool_grad_run)
            .attributes("dilations:is kernel_shape:is pads:is strides:is")
            .problems("f32[2,3,5,4] f32[2,3,9,7] f32[2,3,5,4] kernel_shape=3,3 strides=2,2 pads=1,1,1,1; f32[2,2,3,5] f32[2,2,8,9] f32[2,2,3,5] "
                      "kernel_shape=3,2 strides=3,2; "
                      "f32[1,5,3] f32[1,5,7] f32[1,5,3] kernel_shape=3 dilations=2; f32[3,17,4,4] f32[3,17,8,8] f32[3,17,4,4] kernel_shape=2,2 strides=2,2; "
                      "f64[1,2,3,3,5] f64[1,2,4,5,6] f64[1,2,3,3,5] kernel_shape=2,3,2; f16[1,3,2,2] f16[1,3,4,4] f16[1,3,2,2] kernel_shape=2,2 strides=2,2; "
                      "f32[0,3,4,4] f32[0,3,5,5] f32[0,3,4,4] kernel_shape=2,2"),
        own("AveragePoolGrad")
            .inputs(1)
            .functions(average_pool_grad_infer, average_pool_grad_run)
            .attributes("count_include_pad:i dilations:is kernel_shape:is pads:is shape:is strides:is")
            .problems(
                "f32[2,3,5,4] shape=2,3,9,7 kernel_shape=3,3 strides=2,2 pads=1,1,1,1; f32[2,2,8,9] shape=2,2,8,9 kernel_shape=3,2 pads=1,0,1,1 "
                "count_include_pad=1; "
                "f32[1,2,3,3] shape=1,2,8,8 kernel_shape=3,3 strides=3,3 pads=1,1,1,1 count_include_pad=1; f32[1,5,3] shape=1,5,7 kernel_shape=3 dilations=2; "
                "f64[1,2,4,5,6] shape=1,2,4,5,6 kernel_shape=2,3,2 pads=1,1,1,0,1,0; f32[3,17,4,4] shape=3,17,8,8 kernel_shape=2,2 strides=2,2; f32[0,3,4,4] "
                "shape=0,3,5,5 kernel_shape=2,2"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

// How they carry a batch: see batch_rules.hpp.
inline bool carry_pool(batch_carrier& c) {
    if (c.wants(1)) return c.conflict("the places of its largest elements count over all samples");
    if (!c.only(1)) return false;
    if (c.state(0).axis > 1) return c.conflict("it pools over the samples");
    return c.answer(0, c.state(0));
}

inline op_table pool_ops() {
    static constexpr op_row rows[] = {
        onnx("MaxPool")
            .inputs(1)
            .outputs(1, 2)
            .functions(max_pool_infer, max_pool_run)
            .carries(carry_pool)
            .combines()
            .moves(motion::choose)
            .plays(op_role::pool)
            .widens()
            .attributes("auto_pad:s ceil_mode:i dilations:is kernel_shape:is pads:is storage_order:i strides:is")
            .problems("f32[1,3,9,7] kernel_shape=3,3 strides=2,2 pads=1,1,1,1; f32[2,2,8,9] kernel_shape=3,2 ceil_mode=1 strides=2,2; "
                      "f32[1,5,7] kernel_shape=3 dilations=2; u8[1,2,5,5] kernel_shape=2,2 auto_pad=SAME_UPPER; f32[1,2,4,5,6] "
                      "kernel_shape=2,3,2; "
                      "f32[0,3,5,5] kernel_shape=2,2"),
        onnx("AveragePool")
            .in_eight_bits(eight_bits::computes)
            .inputs(1)
            .functions(average_pool_infer, average_pool_run)
            .carries(carry_pool)
            .combines()
            .plays(op_role::pool)
            .widens()
            .attributes("auto_pad:s ceil_mode:i count_include_pad:i dilations:is kernel_shape:is pads:is strides:is")
            .problems("f32[1,3,9,7] kernel_shape=3,3 strides=2,2 pads=1,1,1,1; f32[2,2,8,9] kernel_shape=3,2 pads=1,0,1,1 "
                      "count_include_pad=1; "
                      "f32[1,2,8,8] kernel_shape=3,3 strides=3,3 pads=1,1,1,1 ceil_mode=1 count_include_pad=1; f32[1,5,7] "
                      "kernel_shape=3 dilations=2; "
                      "f64[1,2,4,5,6] kernel_shape=2,3,2 auto_pad=SAME_LOWER"),
        onnx("LpPool")
            .opsets(2)
            .inputs(1)
            .functions(lp_pool_infer, lp_pool_run)
            .carries(carry_pool)
            .combines()
            .plays(op_role::pool)
            .attributes("auto_pad:s ceil_mode:i dilations:is kernel_shape:is p:i pads:is strides:is")
            .problems("f32[1,3,9,7] kernel_shape=3,3 strides=2,2 pads=1,1,1,1; f32[2,3,8] kernel_shape=3 p=3 ceil_mode=1 strides=2; "
                      "f32[1,1,4,4] kernel_shape=2,2 p=1"),
        onnx("GlobalMaxPool")
            .inputs(1)
            .functions(global_pool_infer, global_max_pool_run)
            .carries(carry_pool)
            .moves(motion::choose)
            .widens()
            .problems("f32[2,5,7,3]; f32[1,17,1,1]; f32[1,3,9]; f64[0,3,4,4]"),
        onnx("GlobalAveragePool")
            .in_eight_bits(eight_bits::computes)
            .inputs(1)
            .functions(global_pool_infer, global_average_pool_run)
            .carries(carry_pool)
            .widens()
            .problems("f32[2,5,7,3]; f32[1,17,1,1]; f32[1,3,2,3,4]; f16[0,3,4,4]"),
        onnx("GlobalLpPool")
            .opsets(2)
            .inputs(1)
            .functions(global_pool_infer, global_lp_pool_run)
            .carries(carry_pool)
            .attributes("p:i")
            .problems("f32[2,5,7,3]; f32[1,3,9] p=3"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
