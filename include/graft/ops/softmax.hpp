// Softmax, LogSoftmax and Hardmax along an axis.
#pragma once

#include "window_gradient.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

// The lines that a kernel along an axis goes over, some at a time: with an inner extent, neighbouring lines side by side
// (`step` 1); without, one line in pieces (`step` 0). Piece k of a task starts at start(k) and holds width(k) elements.
struct line_task {
    std::int64_t pieces = 0, base = 0, stride = 0, n = 0;
    int lanes = 1, step = 0;
    std::int64_t start(std::int64_t k) const noexcept { return base + k * stride; }
    int width(std::int64_t k) const noexcept { return step ? lanes : static_cast<int>(std::min<std::int64_t>(block_size, n - k * block_size)); }
};
inline std::int64_t line_tasks(const axis_split& s) noexcept { return s.outer * ((s.inner + block_size - 1) / block_size); }
inline line_task line_at(const axis_split& s, std::int64_t task) noexcept {
    const std::int64_t across = (s.inner + block_size - 1) / block_size, outer = task / across, j = task % across * block_size;
    line_task t;
    t.n = s.n;
    t.base = outer * s.n * s.inner + j;
    t.step = s.inner > 1;
    t.lanes = static_cast<int>(std::min<std::int64_t>(block_size, s.inner - j));
    t.pieces = t.step ? s.n : (s.n + block_size - 1) / block_size;
    t.stride = t.step ? s.inner : block_size;
    return t;
}

// How the tensor is cut: before opset 13 everything from the axis on is one line.
inline status softmax_split(const op_context& c, axis_split& s) {
    const shape& x = c.in[0].extents;
    const bool flat = c.version() < 13;
    if (!x.rank()) {
        s = {};
        const std::int64_t axis = c.integer("axis", flat ? 1 : -1);
        return axis == 0 || axis == -1 || (flat && axis == 1) ? status() : c.fail(errc::op_attribute, "axis %lld is out of range for a scalar", axis);
    }
    int axis = 0;
    GRAFT_TRY(c.axis(c.integer("axis", flat ? 1 : -1), x.rank(), axis, flat && c.integer("axis", 1) >= 0));
    if (flat)
        s = {x.product(0, axis), x.product(axis, x.rank()), 1};
    else
        s = split_at(x, axis);
    return {};
}
inline status softmax_infer(infer_context& c) {
    axis_split s;
    GRAFT_TRY(softmax_split(c, s));
    return real_infer(c);
}

// The mark of the largest element of each line, of the first among equals.
inline void hardmax_line(const tensor_view& x, const tensor_view& y, const line_task& t) {
    double block[block_size], best[block_size];
    std::int64_t place[block_size];
    std::fill(best, best + t.lanes, -HUGE_VAL);
    std::fill(place, place + t.lanes, std::int64_t(0));
    for (std::int64_t k = 0; k < t.pieces; ++k) {
        const int width = t.width(k);
        load_as_double(x.type, x.data, t.start(k), width, block);
        for (int i = 0; i < width; ++i) {
            const int lane = i * t.step;
            if (block[i] > best[lane]) best[lane] = block[i], place[lane] = t.step ? k : k * block_size + i;
        }
    }
    for (std::int64_t k = 0; k < t.pieces; ++k) {
        const int width = t.width(k);
        for (int i = 0; i < width; ++i) block[i] = place[i * t.step] == (t.step ? k : k * block_size + i);
        store_from_double(y.type, y.data, t.start(k), width, block);
    }
}

inline void softmax_line(const tensor_view& x, const tensor_view& y, const line_task& t, bool logarithm) {
    double block[block_size], highest[block_size], sum[block_size];
    std::fill(highest, highest + t.lanes, -HUGE_VAL);
    std::fill(sum, sum + t.lanes, 0.0);
    for (int pass = 0; pass < 3; ++pass) {
        if (pass == 2 && logarithm)
            for (int i = 0; i < t.lanes; ++i) sum[i] = std::log(sum[i]);
        for (std::int64_t k = 0; k < t.pieces; ++k) {
            const int width = t.width(k);
            load_as_double(x.type, x.data, t.start(k), width, block);
            for (int i = 0; i < width; ++i) {
                const int lane = i * t.step;
                if (pass == 0)
                    highest[lane] = block[i] > highest[lane] || block[i] != block[i] ? block[i] : highest[lane];
                else if (pass == 1)
                    sum[lane] += std::exp(block[i] - highest[lane]);
                else
                    block[i] = logarithm ? block[i] - highest[lane] - sum[lane] : std::exp(block[i] - highest[lane]) / sum[lane];
            }
            if (pass == 2) store_from_double(y.type, y.data, t.start(k), width, block);
        }
    }
}

GRAFT_NOINLINE inline status softmax_kernel(run_context& c, char kind) {
    axis_split s;
    GRAFT_TRY(softmax_split(c, s));
    if (!c.out[0].elements()) return {};
    parallel_for(c.pool, line_tasks(s), [&](std::int64_t task) {
        const line_task t = line_at(s, task);
        if (kind == 'h')
            hardmax_line(c.in[0], c.out[0], t);
        else
            softmax_line(c.in[0], c.out[0], t, kind == 'l');
    });
    return {};
}

// Softmax-1,11,13: y = exp(x) / sum of exp(x) along the axis; LogSoftmax-1,11,13: its logarithm; Hardmax-1,11,13: 1 at the first
// largest, else 0
inline status softmax_run(run_context& c) { return softmax_kernel(c, 's'); }
inline status log_softmax_run(run_context& c) { return softmax_kernel(c, 'l'); }
inline status hardmax_run(run_context& c) { return softmax_kernel(c, 'h'); }

// x as the lines that softmax goes over, and their axis: before opset 13 everything from `axis` on is one line.
inline status softmax_lines(gradient_context& c, shape& lines, int& axis) {
    lines = c.extents(c.in(0));
    const bool flat = c.n.version < 13;
    std::vector<tensor_view> in;
    axis_split s;
    GRAFT_TRY(softmax_split(forward_context(c, in), s));
    const std::int64_t given = c.integer("axis", -1);
    axis = static_cast<int>(given < 0 ? given + lines.rank() : given);
    if (flat || !lines.rank()) lines = shape{s.outer, s.n}, axis = 1;
    return {};
}
/// dX of a softmax along `axis` whose result was y.
inline value_id emit_softmax_gradient(gradient_context& c, value_id dy, value_id y, int axis) {
    return c.build.apply_graft("SoftmaxGrad", {dy, y}, {integer_attribute("axis", axis)});
}
inline status softmax_gradient(gradient_context& c) {
    shape lines;
    int axis = 0;
    GRAFT_TRY(softmax_lines(c, lines, axis));
    const value_id dx = emit_softmax_gradient(c, c.build.reshape(c.dy(), lines), c.build.reshape(c.out(), lines), axis);
    c.give(0, c.build.reshape(dx, c.extents(c.in(0))));
    return {};
}

// graft.SoftmaxGrad(dY, Y) -> dX = Y * (dY - sum(dY * Y)), the sum along `axis`
inline status softmax_grad_infer(infer_context& c) {
    GRAFT_TRY(check_real(c, 1));
    GRAFT_TRY(check_same_type(c, 0, 1));
    int axis = 0;
    if (c.in[0].extents != c.in[1].extents) return c.fail_shapes("dY and Y must have one shape");
    GRAFT_TRY(c.axis(c.integer("axis", -1), c.in[1].extents.rank(), axis));
    return c.set(0, c.in[1].type, c.in[1].extents);
}
inline status softmax_grad_run(run_context& c) {
    int axis = 0;
    const shape& x = c.in[1].extents;
    GRAFT_TRY(c.axis(c.integer("axis", -1), x.rank(), axis));
    const std::int64_t outer = x.product(0, axis), n = x[axis], inner = x.product(axis + 1, x.rank());
    widened<double> dy, y;
    GRAFT_TRY(widen(c, c.in[0], dy));
    GRAFT_TRY(widen(c, c.in[1], y));
    parallel_for(c.pool, outer * inner, [&](std::int64_t line) {
        const std::int64_t first = line / inner * n * inner + line % inner;
        double sum = 0;
        for (std::int64_t i = 0; i < n; ++i) sum += dy.data[first + i * inner] * y.data[first + i * inner];
        for (std::int64_t i = 0; i < n; ++i) {
            const double dx = y.data[first + i * inner] * (dy.data[first + i * inner] - sum);
            store_from_double(c.out[0].type, c.out[0].data, first + i * inner, 1, &dx);
        }
    });
    return {};
}
// dx = dy - exp(y) * sum(dy)
inline status log_softmax_gradient(gradient_context& c) {
    shape lines;
    int axis = 0;
    GRAFT_TRY(softmax_lines(c, lines, axis));
    emitter& e = c.build;
    const value_id y = e.reshape(c.out(), lines), dy = e.reshape(c.dy(), lines);
    const value_id dx = e.sub(dy, e.mul(e.apply("Exp", {y}), sum_along(c, dy, axis)));
    c.give(0, e.reshape(dx, c.extents(c.in(0))));
    return {};
}

// How they carry a batch: see batch_rules.hpp.
inline bool carry_softmax(batch_carrier& c) { return c.n.version < 13 ? carry_from_axis(c, 1) : carry_axis_last(c); }

inline op_table softmax_ops() {
    static constexpr op_row rows[] = {
        onnx("Softmax")
            .opsets(1, 12)
            .inputs(1)
            .functions(softmax_infer, softmax_run)
            .carries(carry_softmax)
            .plays(op_role::softmax)
            .exact_outputs_from(0)
            .widens()
            .attributes("axis:i")
            .problems("f32[2,3,5] axis=1 @11; f32[3,17] @12"),
        onnx("Softmax")
            .opsets(13)
            .inputs(1)
            .functions(softmax_infer, softmax_run)
            .carries(carry_softmax)
            .plays(op_role::softmax)
            .exact_outputs_from(0)
            .widens()
            .attributes("axis:i")
            .problems("f32[3,17]; f32[2,1000]; f32[2,3,5] axis=1; f64[4,3] axis=0; f16[0,4]; f32[]"),
        onnx("LogSoftmax")
            .opsets(1, 12)
            .inputs(1)
            .functions(softmax_infer, log_softmax_run)
            .carries(carry_softmax)
            .plays(op_role::log_softmax)
            .exact_outputs_from(0)
            .widens()
            .attributes("axis:i")
            .problems("f32[2,3,5] axis=1 @11; f32[3,17] @12"),
        onnx("LogSoftmax")
            .opsets(13)
            .inputs(1)
            .functions(softmax_infer, log_softmax_run)
            .carries(carry_softmax)
            .plays(op_role::log_softmax)
            .exact_outputs_from(0)
            .widens()
            .attributes("axis:i")
            .problems("f32[3,17]; f32[2,1000]; f32[2,3,5] axis=1; f64[4,3] axis=0; f16[0,4]; f32[]"),
        onnx("Hardmax")
            .opsets(1, 12)
            .inputs(1)
            .functions(softmax_infer, hardmax_run)
            .carries(carry_softmax)
            .attributes("axis:i")
            .problems("f32[2,3,5] axis=1 @11; f32[3,17] @12"),
        onnx("Hardmax")
            .opsets(13)
            .inputs(1)
            .functions(softmax_infer, hardmax_run)
            .carries(carry_softmax)
            .attributes("axis:i")
            .problems("f32[3,17]; f32{1,3,3,2}; f32[2,3,5] axis=1; f16[0,4]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline op_table softmax_training_ops() {
    static constexpr op_row rows[] = {
        own("SoftmaxGrad")
            .inputs(2)
            .functions(softmax_grad_infer, softmax_grad_run)
            .attributes("axis:i")
            .problems("f32[3,17] f32[3,17]; f32[2,1000] f32[2,1000]; f32[2,3,5] f32[2,3,5] axis=1; f32[4,3,70] f32[4,3,70] axis=0; f64[4,3] f64[4,3] axis=0; "
                      "f16[5,9] f16[5,9]; f32[0,4] f32[0,4]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}
inline gradient_table softmax_gradients() {
    static constexpr gradient_row rows[] = {{"Softmax", "", softmax_gradient}, {"LogSoftmax", "", log_softmax_gradient}, {"Hardmax", "", nullptr}};
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
