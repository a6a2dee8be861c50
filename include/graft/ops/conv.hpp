// Conv: its shape rules, the plain loop that QLinearConv and ConvInteger share, and its gradients.
#pragma once

#include "window_gradient.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// A grouped convolution over whole tensors widened to double. Outputs [n][groups * oc][outputs of the window...].
struct convolution {
    std::int64_t n = 0, groups = 1, ic = 0, oc = 0;  ///< channels of one group
    window w;
    const double* x = nullptr;       ///< [n][groups * ic][inputs...]
    const double* weight = nullptr;  ///< [groups * oc][ic][kernel...]
};

/// Where finished runs of outputs go: `sums` holds those of output channel `m`, starting at element `first` of the output.
struct convolution_store {
    run_context& c;
    const double* bias;  ///< one an output channel, the initial value of every sum; or null
    void (*store)(const convolution_store& self, std::int64_t m, std::int64_t first, std::int64_t count, double* sums);
};

/// Checks group, channels and bias, and sizes the window. Inputs `x`, `w`, and `b` where it is given.
GRAFT_NOINLINE inline status plan_convolution(const op_context& c, int x, int w, int b, convolution& p) {
    const shape &in = c.in[x].extents, &weight = c.in[w].extents;
    GRAFT_TRY(read_window(c, in, &weight, p.w));
    GRAFT_TRY(size_window(c, false, p.w));
    p.n = in[0];
    p.groups = c.integer("group", 1);
    if (p.groups < 1) return c.fail(errc::op_attribute, "group is %lld, but must be at least 1", p.groups);
    if (in[1] % p.groups || weight[0] % p.groups || weight[1] != in[1] / p.groups)
        return c.fail_shapes("channels, group and weights do not fit: weights must be [M, C / group, kernel...] with M and C multiples of group");
    p.ic = weight[1];
    p.oc = weight[0] / p.groups;
    return check_vector(c, b, weight[0]);
}

/// A convolution of 1x1 taps at stride 1 without padding sees the plane as one row.
inline void flatten_pointwise(window& w) noexcept {
    for (int i = 0; i < w.rank; ++i) {
        const window_axis& a = w.axis[i];
        if (a.kernel != 1 || a.stride != 1 || a.pad_begin || a.pad_end) return;
    }
    const std::int64_t n = w.inputs();
    w.rank = 1;
    w.axis[0] = {n, n, 1, 1, 1, 0, 0};
}

/// Adds to `sums` the outputs [first, first + count) of the last axis, at `outer` on the axes before it. Sums run over channels,
/// then taps in row-major order, whatever the split.
GRAFT_NOINLINE inline void convolve_row(const convolution& p, std::int64_t image, std::int64_t m, const std::int64_t* outer, std::int64_t first,
                                        std::int64_t count, double* sums) {
    const window& w = p.w;
    const int last = w.rank - 1;
    const window_axis& row = w.axis[last];
    std::int64_t tap[shape::max_rank], from[shape::max_rank], to[shape::max_rank];
    for (int i = 0; i < last; ++i) {
        w.axis[i].taps(outer[i], 0, 0, from[i], to[i]);
        if (from[i] == to[i]) return;
    }
    const std::int64_t group = m / p.oc, plane = w.inputs(), taps = w.taps();
    for (std::int64_t channel = 0; channel < p.ic; ++channel) {
        const double* x = p.x + ((image * p.groups + group) * p.ic + channel) * plane;
        const double* weight = p.weight + (m * p.ic + channel) * taps;
        for (int i = 0; i < last; ++i) tap[i] = from[i];
        for (;;) {
            std::int64_t x_row = 0, w_row = 0;
            for (int i = 0; i < last; ++i) {
                const window_axis& a = w.axis[i];
                x_row = x_row * a.input + outer[i] * a.stride - a.pad_begin + tap[i] * a.dilation;
                w_row = w_row * a.kernel + tap[i];
            }
            for (std::int64_t k = 0; k < row.kernel; ++k) {
                std::int64_t shift, low, high;
                row.outputs(k, shift, low, high);
                low = std::max(first, low);
                high = std::min(first + count, high);
                if (low >= high) continue;
                const double factor = weight[w_row * row.kernel + k];
                const double* source = x + x_row * row.input + shift + low * row.stride;
                double* sum = sums + (low - first);
                const std::int64_t length = high - low;
                if (row.stride == 1)
                    for (std::int64_t i = 0; i < length; ++i) sum[i] += factor * source[i];
                else
                    for (std::int64_t i = 0; i < length; ++i) sum[i] += factor * source[i * row.stride];
            }
            int i = last - 1;
            for (; i >= 0 && ++tap[i] == to[i]; --i) tap[i] = from[i];
            if (i < 0) break;
        }
    }
}

/// Runs a planned convolution; every (image, output channel) is a task.
GRAFT_NOINLINE inline void convolve(run_context& c, convolution& p, const convolution_store& out) {
    const std::int64_t plane = p.w.outputs();
    flatten_pointwise(p.w);
    const int last = p.w.rank - 1;
    const std::int64_t row = p.w.axis[last].output;
    if (plane == 0) return;
    parallel_for(c.pool, p.n * p.groups * p.oc, [&](std::int64_t task) {
        constexpr std::int64_t block = 512;
        double sums[block];
        std::int64_t outer[shape::max_rank] = {};
        const std::int64_t image = task / (p.groups * p.oc), m = task % (p.groups * p.oc);
        for (std::int64_t r = 0; r < plane / row; ++r) {
            for (std::int64_t first = 0; first < row; first += block) {
                const std::int64_t count = std::min(block, row - first);
                std::fill(sums, sums + count, out.bias ? out.bias[m] : 0.0);
                convolve_row(p, image, m, outer, first, count, sums);
                out.store(out, m, task * plane + r * row + first, count, sums);
            }
            for (int i = last - 1; i >= 0 && ++outer[i] == p.w.axis[i].output; --i) outer[i] = 0;
        }
    });
}

inline void store_convolution(const convolution_store& self, std::int64_t, std::int64_t first, std::int64_t count, double* sums) {
    store_from_double(self.c.out[0].type, self.c.out[0].data, first, count, sums);
}

// Conv-1,11,22: Y[n,m,o] = B[m] + sum over c, k of W[m,c,k] * X[n, group(m) * C/group + c, o * stride - pad + k * dilation]
inline status conv_infer(infer_context& c) {
    convolution p;
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(check_same_type(c, 1, 0));
    GRAFT_TRY(check_same_type(c, 2, 0));
    GRAFT_TRY(plan_convolution(c, 0, 1, 2, p));
    return c.set(0, c.in[0].type, window_shape(p.n, p.groups * p.oc, p.w));
}
inline status conv_run(run_context& c) {
    convolution p;
    if (is_empty(c.out[0])) return {};
    GRAFT_TRY(plan_convolution(c, 0, 1, 2, p));
    widened<double> x, w, b;
    GRAFT_TRY(widen(c, c.in[0], x));
    GRAFT_TRY(widen(c, c.in[1], w));
    if (c.has(2)) GRAFT_TRY(widen(c, c.in[2], b));
    p.x = x.data;
    p.weight = w.data;
    convolve(c, p, {c, b.data, store_convolution});
    return {};
}

// dX = ConvGradInput(dY, W), dW = ConvGradWeight(X, dY), dB = dY summed over all but the channels
inline status conv_gradient(gradient_context& c) {
    std::vector<tensor_view> in;
    const op_context forward = forward_context(c, in);
    convolution p;
    GRAFT_TRY(plan_convolution(forward, 0, 1, 2, p));
    std::vector<attribute> attributes = window_attributes(p.w);
    attributes.push_back(integer_attribute("group", p.groups));
    // The weights first: after them nobody needs X, so that its gradient may take its place.
    if (c.wants(1)) {
        std::vector<attribute> of_weight = attributes;
        of_weight.push_back(shape_attribute("shape", shape(c.extents(c.in(1)))));
        of_weight.push_back(integer_attribute("shards", c.shards));
        c.give(1, c.build.apply_graft("ConvGradWeight", {c.in(0), c.dy()}, std::move(of_weight)));
    }
    if (c.wants(2)) c.give(2, sum_to_channels(c, c.dy(), p.groups * p.oc));
    if (c.wants(0)) {
        attributes.push_back(shape_attribute("shape", shape(c.extents(c.in(0)))));
        c.give(0, c.build.apply_graft("ConvGradInput", {c.dy(), c.in(1)}, std::move(attributes)));
    }
    return {};
}

/// Sizes the window of a gradient of Conv from the extents of X and dY; `weight` is the shape of W. The pads at the end say
/// nothing beyond what the extents do, but have to agree with them.
GRAFT_NOINLINE inline status plan_conv_grad(const op_context& c, const shape& x, const shape& weight, const shape& dy, convolution& p) {
    GRAFT_TRY(read_window(c, x, &weight, p.w));
    GRAFT_TRY(size_window(c, false, p.w));
    p.n = x[0];
    p.groups = c.integer("group", 1);
    if (p.groups < 1) return c.fail(errc::op_attribute, "group is %lld, but must be at least 1", p.groups);
    if (x[1] % p.groups || weight[0] % p.groups || weight[1] != x[1] / p.groups) return c.fail_shapes("the weights must be [M, C / group, kernel...]");
    p.ic = weight[1];
    p.oc = weight[0] / p.groups;
    if (dy != window_shape(x[0], weight[0], p.w)) return c.fail_shapes("dY must have the shape that Conv gives");
    return {};
}

// graft.ConvGradWeight(X, dY): dW[m,c,k] = sum over n, o of dY[n,m,o] * X[n, group(m) * C/group + c, o * stride - pad + k * dilation];
// the sum over n is the tree of shards.
inline status conv_grad_weight_infer(infer_context& c) {
    shape weight;
    convolution p;
    int count = 0;
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(check_same_type(c, 1, 0));
    GRAFT_TRY(read_shape_attribute(c, weight));
    GRAFT_TRY(read_shards(c, count));
    GRAFT_TRY(plan_conv_grad(c, c.in[0].extents, weight, c.in[1].extents, p));
    return c.set(0, c.in[0].type, weight);
}
/// Sum over one plane's outputs of dY times what `tap` sees of X.
GRAFT_NOINLINE inline double correlate_tap(const window& w, const std::int64_t* tap, const double* x, const double* dy) {
    const std::int64_t stride = w.axis[w.rank - 1].stride;
    double sum = 0;
    for_rows_under_tap(w, tap, [&](std::int64_t output, std::int64_t input, std::int64_t first, std::int64_t last) {
        for (std::int64_t o = first; o < last; ++o) sum += dy[output + o] * x[input + o * stride];
    });
    return sum;
}
inline status conv_grad_weight_run(run_context& c) {
    shape weight;
    convolution p;
    shards cut;
    GRAFT_TRY(read_shape_attribute(c, weight));
    GRAFT_TRY(read_shards(c, cut.count));
    GRAFT_TRY(plan_conv_grad(c, c.in[0].extents, weight, c.in[1].extents, p));
    if (is_empty(c.out[0])) return {};
    if (is_empty(c.in[0]) || is_empty(c.in[1])) p.n = 0;
    widened<double> x, dy;
    GRAFT_TRY(widen(c, c.in[0], x));
    GRAFT_TRY(widen(c, c.in[1], dy));
    const std::int64_t inputs = p.w.inputs(), outputs = p.w.outputs(), taps = p.w.taps();
    parallel_for(c.pool, p.groups * p.oc * p.ic, [&](std::int64_t task) {
        const std::int64_t m = task / p.ic, channel = m / p.oc * p.ic + task % p.ic;
        std::int64_t tap[shape::max_rank] = {};
        for (std::int64_t t = 0; t < taps; ++t) {
            const double sum = sum_shards_as(c.out[0].type == dtype::float32, cut.count, [&](int s) {
                double own = 0;
                for (std::int64_t n = cut.first(p.n, s); n < cut.last(p.n, s); ++n)
                    own += correlate_tap(p.w, tap, x.data + (n * p.groups * p.ic + channel) * inputs, dy.data + (n * p.groups * p.oc + m) * outputs);
                return own;
            });
            store_from_double(c.out[0].type, c.out[0].data, task * taps + t, 1, &sum);
            for (int i = p.w.rank - 1; i >= 0 && ++tap[i] == p.w.axis[i].kernel; --i) tap[i] = 0;
        }
    });
    return {};
}

inline gradient_table conv_gradients() {
    static constexpr gradient_row rows[] = {{"Conv", "", conv_gradient}};
    return rows;
}
inline op_table conv_training_ops() {
    static constexpr op_row rows[] = {
        own("ConvGradWeight")
            .inputs(2)
            .functions(conv_grad_weight_infer, conv_grad_weight_run)
            .exact_outputs_from(0)
            .sums_batch()
            .attributes("dilations:is group:i kernel_shape:is pads:is shape:is shards:i strides:is")
            .problems(
                "f32[3,3,9,7] f32[3,5,9,7] shape=5,3,3,3 pads=1,1,1,1; f32[9,4,8,9] f32[9,6,3,8] shape=6,2,3,2 group=2 strides=2,1 dilations=1,1; "
                "f32[2,7,5,5] f32[2,7,3,3] shape=7,1,3,3 group=7 strides=2,2 pads=1,1,1,1 shards=1; f32[5,3,11] f32[5,4,11] shape=4,3,4 pads=2,1 shards=4; "
                "f64[2,2,4,5,6] f64[2,3,4,3,6] shape=3,2,2,3,2 pads=1,0,1,0,0,0; f32[0,3,5,5] f32[0,2,5,5] shape=2,3,1,1; f16[2,5,4,4] f16[2,3,2,2] "
                "shape=3,5,1,1 strides=2,2; "
                "f32[2,16,8,8] f32[2,32,4,4] shape=32,16,3,3 strides=2,2 pads=1,1,1,1; f32[5,3,11] f32[5,4,11] shape=4,3,3 pads=1,1; "
                "f32[3,4,8,8] f32[3,6,4,4] shape=6,4,3,3 strides=2,2 pads=0,0,1,1"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline std::int64_t conv_work(const op_context& c) { return filtered_work(c, 1); }

inline op_table conv_ops() {
    static constexpr op_row rows[] = {
        onnx("Conv")
            .in_eight_bits(eight_bits::multiplies)
            .inputs(2, 3)
            .functions(conv_infer, conv_run)
            .carries(carry_first_axis<1>)
            .combines()
            .plays(op_role::convolution)
            .weights(1, 2)
            .widens()
            .work(conv_work)
            .attributes("auto_pad:s dilations:is group:i kernel_shape:is pads:is strides:is")
            .problems("f32[1,3,9,7] f32[5,3,3,3] f32[5] pads=1,1,1,1; f32[2,4,8,9] f32[6,2,3,2] group=2 strides=2,1 dilations=1,2; "
                      "f32[1,7,5,5] f32[7,1,3,3] group=7 auto_pad=SAME_LOWER strides=2,2; f32[2,3,11] f32[4,3,4] pads=2,1; "
                      "f32[2,4,8,8] f32[6,4,3,3] f32[6] strides=2,2 pads=0,0,1,1; "
                      "f32[1,2,4,5,6] f32[3,2,2,3,2] f32[3] pads=1,0,1,0,1,1; f32[0,3,5,5] f32[2,3,1,1]; f64[1,5,4,4] f64[3,5,1,1] "
                      "strides=2,2; "
                      "f16[1,3,6,6] f16[4,3,3,3] auto_pad=VALID"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
