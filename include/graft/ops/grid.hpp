// Operators that sample at given places: GridSample, AffineGrid; and their gradients.
#pragma once

#include "gradient_common.hpp"
#include "indexing.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace ops {

enum class grid_mode { linear, nearest, cubic };
enum class grid_padding { zeros, border, reflection };

struct grid_plan {
    grid_mode mode = grid_mode::linear;
    grid_padding padding = grid_padding::zeros;
    bool align_corners = false, single = true;  // single: coordinates are computed in float, as the grid holds them
    int spatial = 2;
};

inline status read_grid(const op_context& c, grid_plan& p) {
    static constexpr const char* modes[] = {"linear", "nearest", "cubic", "bilinear", "bicubic", nullptr};
    static constexpr const char* paddings[] = {"zeros", "border", "reflection", nullptr};
    int chosen = 0;
    GRAFT_TRY(choose(c, "mode", "linear", modes, chosen));
    p.mode = chosen == 4 ? grid_mode::cubic : chosen == 3 ? grid_mode::linear : static_cast<grid_mode>(chosen);
    GRAFT_TRY(choose(c, "padding_mode", "zeros", paddings, chosen));
    p.padding = static_cast<grid_padding>(chosen);
    p.align_corners = c.integer("align_corners", 0) != 0;
    p.single = c.in[1].type != dtype::float64;
    p.spatial = c.in[0].extents.rank() - 2;
    return {};
}

// `x` mirrored about the borders until it lies between them.
inline double reflect(double x, double low, double high) noexcept {
    const double range = high - low;
    if (range <= 0) return low;
    if (x >= low && x <= high) return x;
    const double distance = std::fmod(std::fabs(x < low ? low - x : x - high), 2 * range);
    const double inside = distance <= range ? distance : 2 * range - distance;
    return x < low ? low + inside : high - inside;
}

/// The elements along one axis that a sample is made of: index -1 stands for zero.
struct grid_taps {
    std::int64_t index[4];
    double weight[4];
    int count;
};
inline void find_taps(const grid_plan& p, double normalised, std::int64_t extent, grid_taps& taps) noexcept {
    const double n = static_cast<double>(extent), low = p.align_corners ? 0 : -0.5, high = p.align_corners ? n - 1 : n - 0.5;
    double x = p.align_corners ? (normalised + 1) / 2 * (n - 1) : ((normalised + 1) * n - 1) / 2;
    if (p.single) {
        const float v = static_cast<float>(normalised), m = static_cast<float>(extent);
        x = static_cast<double>(p.align_corners ? (v + 1.0f) / 2.0f * (m - 1.0f) : ((v + 1.0f) * m - 1.0f) / 2.0f);
    }
    if (!(std::fabs(x) < 1e15)) x = x > 0 ? 1e15 : -1e15;  // infinities and NaN: far outside
    if (p.mode == grid_mode::nearest) x = std::nearbyint(x);
    // The cubic kernel is not moved to the border, only its taps are: as PyTorch and ONNX Runtime have it.
    if (p.padding == grid_padding::border && p.mode != grid_mode::cubic) x = x < 0 ? 0 : x > n - 1 ? n - 1 : x;
    if (p.padding == grid_padding::reflection) x = reflect(x, low, high);
    x = x < -4 ? -4 : x > n + 4 ? n + 4 : x;
    const double whole = std::floor(x), r = x - whole, a = -0.75;
    std::int64_t first = static_cast<std::int64_t>(whole);
    if (p.mode == grid_mode::nearest) {
        taps.count = 1;
        taps.weight[0] = 1;
    } else if (p.mode == grid_mode::linear) {
        taps.count = 2;
        taps.weight[0] = 1 - r;
        taps.weight[1] = r;
    } else {
        taps.count = 4;
        taps.weight[0] = ((a * (r + 1) - 5 * a) * (r + 1) + 8 * a) * (r + 1) - 4 * a;
        taps.weight[1] = ((a + 2) * r - (a + 3)) * r * r + 1;
        taps.weight[2] = ((a + 2) * (1 - r) - (a + 3)) * (1 - r) * (1 - r) + 1;
        taps.weight[3] = ((a * (2 - r) - 5 * a) * (2 - r) + 8 * a) * (2 - r) - 4 * a;
        --first;
    }
    for (int k = 0; k < taps.count; ++k) {
        std::int64_t i = first + k;
        if (i < 0 || i >= extent) {
            if (p.padding == grid_padding::zeros)
                i = -1;
            else {
                if (p.padding == grid_padding::reflection) i = static_cast<std::int64_t>(reflect(static_cast<double>(i), low, high));
                i = i < 0 ? 0 : i >= extent ? extent - 1 : i;
            }
        }
        taps.index[k] = i;
    }
}

// GridSample-16,20,22: y[n, c, o..] = x[n, c] interpolated at grid[n, o..], whose last axis is (x, y) or (x, y, z) in [-1, 1].
inline status grid_sample_infer(infer_context& c) {
    GRAFT_TRY(check_real(c, 1));
    if (!is_float(c.in[0].type) && !is_integer(c.in[0].type)) return c.fail(errc::op_type, "the input must hold numbers");
    const shape &s = c.in[0].extents, &g = c.in[1].extents;
    if (s.rank() < 3 || s.rank() > 5) return c.fail(errc::op_unsupported, "rank %lld is not supported: only 1 to 3 spatial axes are", s.rank());
    if (g.rank() != s.rank() || g[0] != s[0] || g.back() != s.rank() - 2) return c.fail_shapes("the grid must be [N, output extents.., spatial axes]");
    grid_plan p;
    GRAFT_TRY(read_grid(c, p));
    shape out{s[0], s[1]};
    bool some = true;
    for (int d = 1; d + 1 < g.rank(); ++d) out.push_back(g[d]), some = some && g[d] > 0;
    for (int d = 2; d < s.rank(); ++d)
        if (s[d] == 0 && some) return c.fail_shapes("there is nothing to sample");
    return c.set(0, c.in[0].type, out);
}
inline status grid_sample_run(run_context& c) {
    const shape &s = c.in[0].extents, &g = c.in[1].extents;
    grid_plan p;
    GRAFT_TRY(read_grid(c, p));
    if (c.out[0].elements() == 0) return {};
    const std::int64_t pixels = s.product(2, s.rank()), points = g.product(1, g.rank() - 1), channels = s[1];
    for (std::int64_t n = 0; n < s[0]; ++n)
        for (std::int64_t o = 0; o < points; ++o) {
            grid_taps taps[3];
            double at[3];
            load_as_double(c.in[1].type, c.in[1].data, (n * points + o) * p.spatial, p.spatial, at);
            for (int d = 0; d < p.spatial; ++d) find_taps(p, at[p.spatial - 1 - d], s[2 + d], taps[d]);
            for (int d = p.spatial; d < 3; ++d) taps[d].count = 1, taps[d].index[0] = 0, taps[d].weight[0] = 1;
            const std::int64_t height = p.spatial > 1 ? s[3] : 1, depth = p.spatial > 2 ? s[4] : 1;
            for (std::int64_t channel = 0; channel < channels; ++channel) {
                const std::int64_t base = (n * channels + channel) * pixels, to = (n * channels + channel) * points + o;
                if (p.mode == grid_mode::nearest) {  // moved as it is: 64-bit integers would not survive a double
                    const bool inside = taps[0].index[0] >= 0 && taps[1].index[0] >= 0 && taps[2].index[0] >= 0;
                    const std::int64_t from = base + (taps[0].index[0] * height + taps[1].index[0]) * depth + taps[2].index[0];
                    const std::int64_t size = static_cast<std::int64_t>(size_of(c.in[0].type));
                    if (inside)
                        copy_run(static_cast<std::size_t>(size), c.out[0].as<char>() + to * size, 1, c.in[0].as<char>() + from * size, 1, 1);
                    else
                        std::memset(c.out[0].as<char>() + to * size, 0, static_cast<std::size_t>(size));
                    continue;
                }
                double sum = 0;
                for (int i = 0; i < taps[0].count; ++i)
                    for (int j = 0; j < taps[1].count; ++j)
                        for (int k = 0; k < taps[2].count; ++k) {
                            if (taps[0].index[i] < 0 || taps[1].index[j] < 0 || taps[2].index[k] < 0) continue;
                            const std::int64_t from = base + (taps[0].index[i] * height + taps[1].index[j]) * depth + taps[2].index[k];
                            sum += taps[0].weight[i] * taps[1].weight[j] * taps[2].weight[k] * c.in[0].real(from);
                        }
                store_from_double(c.out[0].type, c.out[0].data, to, 1, &sum);
            }
        }
    return {};
}

// AffineGrid-20: y[n, o.., d] = sum_k theta[n, d, k] (x, y[, z], 1)_k, where the places o are spread over [-1, 1].
inline status affine_grid_infer(infer_context& c) {
    GRAFT_TRY(check_real(c, 0));
    GRAFT_TRY(check_index_type(c, 1, false));
    const shape &theta = c.in[0].extents, &size = c.in[1].extents;
    if (size.rank() != 1 || (size[0] != 4 && size[0] != 5)) return c.fail_shapes("size must list the 4 or 5 extents of a picture or a volume");
    const std::int64_t d = size[0] - 2;
    if (theta.rank() != 3 || theta[1] != d || theta[2] != d + 1) return c.fail_shapes("theta must be [N, 2, 3], or [N, 3, 4] for volumes");
    if (unknown(c, 1)) return c.defer();
    if (index_at(c.in[1], 0) != theta[0]) return c.fail(errc::op_shape, "size asks for %lld pictures, theta has %lld", index_at(c.in[1], 0), theta[0]);
    shape out{theta[0]};
    for (int i = 2; i < size[0]; ++i) {
        out.push_back(index_at(c.in[1], i));
        if (out.back() < 0) return c.fail(errc::op_value, "extent %lld is negative", out.back());
    }
    out.push_back(d);
    return c.set(0, c.in[0].type, out);
}
inline status affine_grid_run(run_context& c) {
    const shape& o = c.out[0].extents;
    const int d = o.rank() - 2;
    const bool corners = c.integer("align_corners", 0) != 0;
    const std::int64_t points = o.elements() ? o.product(1, o.rank() - 1) : 0;
    for (std::int64_t n = 0; n < o[0]; ++n)
        for (std::int64_t i = 0; i < points; ++i) {
            double place[4] = {1, 1, 1, 1}, theta[12];
            std::int64_t rest = i;
            for (int k = 0; k < d; ++k) {  // k = 0 is x, the innermost axis
                const std::int64_t extent = o[d - k], at = rest % extent;
                rest /= extent;
                const double m = static_cast<double>(extent);
                place[k] = !corners ? (2 * static_cast<double>(at) + 1) / m - 1 : at ? 2 * static_cast<double>(at) / (m - 1) - 1 : -1;
            }
            load_as_double(c.in[0].type, c.in[0].data, n * d * (d + 1), d * (d + 1), theta);
            for (int k = 0; k < d; ++k) {
                double sum = theta[k * (d + 1) + d];
                for (int j = 0; j < d; ++j) sum += theta[k * (d + 1) + j] * place[j];
                store_from_double(c.out[0].type, c.out[0].data, (n * points + i) * d + k, 1, &sum);
            }
        }
    return {};
}

/// How much the weights of `taps` change with the normalised coordinate; 0 where it was moved to a border.
inline void find_slopes(const grid_plan& p, double normalised, std::int64_t extent, double* slopes) noexcept {
    const double n = static_cast<double>(extent), low = p.align_corners ? 0 : -0.5, high = p.align_corners ? n - 1 : n - 0.5;
    double x = p.align_corners ? (normalised + 1) / 2 * (n - 1) : ((normalised + 1) * n - 1) / 2, slope = p.align_corners ? (n - 1) / 2 : n / 2;
    for (int k = 0; k < 4; ++k) slopes[k] = 0;
    if (p.mode == grid_mode::nearest || !(std::fabs(x) < 1e15)) return;
    if (p.padding == grid_padding::border && p.mode != grid_mode::cubic && (x <= 0 || x >= n - 1)) return;
    if (p.padding == grid_padding::reflection) {
        if (high <= low) return;
        // Every second time that the places are mirrored they run backwards.
        if (x < low || x > high) slope *= std::fmod(x < low ? low - x : x - high, 2 * (high - low)) <= high - low ? -1 : 1;
        x = reflect(x, low, high);
    }
    if (x < -4 || x > n + 4) return;
    const double r = x - std::floor(x), a = -0.75;
    if (p.mode == grid_mode::linear) {
        slopes[0] = -slope;
        slopes[1] = slope;
        return;
    }
    slopes[0] = slope * ((3 * a * (r + 1) - 10 * a) * (r + 1) + 8 * a);
    slopes[1] = slope * (3 * (a + 2) * r - 2 * (a + 3)) * r;
    slopes[2] = -slope * (3 * (a + 2) * (1 - r) - 2 * (a + 3)) * (1 - r);
    slopes[3] = -slope * ((3 * a * (2 - r) - 10 * a) * (2 - r) + 8 * a);
}

// graft.GridSampleGrad(dY, X, grid) -> dX, dgrid: dX[from] = sum of dY times the weight of `from`; dgrid = sum over channels and taps
// of dY * X * (slope of the weight)
inline status grid_sample_grad_infer(infer_context& c) {
    for (int i = 0; i < 3; ++i) GRAFT_TRY(check_real(c, i));
    const shape &dy = c.in[0].extents, &s = c.in[1].extents, &g = c.in[2].extents;
    if (s.rank() < 3 || s.rank() > 5 || g.rank() != s.rank() || g[0] != s[0] || g.back() != s.rank() - 2)
        return c.fail_shapes("the grid must be [N, output extents.., spatial axes]");
    shape out{s[0], s[1]};
    for (int d = 1; d + 1 < g.rank(); ++d) out.push_back(g[d]);
    if (dy != out) return c.fail_shapes("dY must have the shape that GridSample gives");
    if (out.elements() > 0 && s.elements() == 0) return c.fail_shapes("there is nothing to sample");
    GRAFT_TRY(c.set(0, c.in[1].type, s));
    return c.set(1, c.in[2].type, g);
}
inline status grid_sample_grad_run(run_context& c) {
    const shape &s = c.in[1].extents, &g = c.in[2].extents;
    const op_context forward{c.n, c.in + 1, 2, nullptr, 0, c.limit};
    grid_plan p;
    GRAFT_TRY(read_grid(forward, p));
    const std::int64_t points = c.in[0].elements() ? g.product(1, g.rank() - 1) : 0, pixels = points ? s.product(2, s.rank()) : 0, channels = s[1];
    const std::int64_t places = std::max<std::int64_t>(elements_of(g), 0), elements = std::max<std::int64_t>(elements_of(s), 0);
    buffer memory[2];
    GRAFT_TRY_ASSIGN(memory[0], c.scratch(checked_mul(elements, 8)));
    GRAFT_TRY_ASSIGN(memory[1], c.scratch(checked_mul(places, 8)));
    double *dx = reinterpret_cast<double*>(memory[0].data()), *dgrid = reinterpret_cast<double*>(memory[1].data());
    std::fill(dx, dx + elements, 0.0);
    std::fill(dgrid, dgrid + places, 0.0);
    parallel_for(c.pool, points ? s[0] : 0, [&](std::int64_t n) {
        for (std::int64_t o = 0; o < points; ++o) {
            grid_taps taps[3];
            double at[3], slopes[3][4] = {}, moved[3] = {};
            load_as_double(c.in[2].type, c.in[2].data, (n * points + o) * p.spatial, p.spatial, at);
            for (int d = 0; d < p.spatial; ++d) {
                find_taps(p, at[p.spatial - 1 - d], s[2 + d], taps[d]);
                find_slopes(p, at[p.spatial - 1 - d], s[2 + d], slopes[d]);
            }
            for (int d = p.spatial; d < 3; ++d) taps[d].count = 1, taps[d].index[0] = 0, taps[d].weight[0] = 1;
            const std::int64_t height = p.spatial > 1 ? s[3] : 1, depth = p.spatial > 2 ? s[4] : 1;
            for (std::int64_t channel = 0; channel < channels; ++channel) {
                const std::int64_t base = (n * channels + channel) * pixels;
                const double gradient = c.in[0].real((n * channels + channel) * points + o);
                for (int i = 0; i < taps[0].count; ++i)
                    for (int j = 0; j < taps[1].count; ++j)
                        for (int k = 0; k < taps[2].count; ++k) {
                            if (taps[0].index[i] < 0 || taps[1].index[j] < 0 || taps[2].index[k] < 0) continue;
                            const std::int64_t from = base + (taps[0].index[i] * height + taps[1].index[j]) * depth + taps[2].index[k];
                            const double a = taps[0].weight[i], b = taps[1].weight[j], e = taps[2].weight[k], x = gradient * c.in[1].real(from);
                            dx[from] += gradient * a * b * e;
                            moved[0] += x * slopes[0][i] * b * e;
                            moved[1] += x * a * slopes[1][j] * e;
                            moved[2] += x * a * b * slopes[2][k];
                        }
            }
            for (int d = 0; d < p.spatial; ++d) dgrid[(n * points + o) * p.spatial + p.spatial - 1 - d] = moved[d];
        }
    });
    if (c.wants(0)) store_from_double(c.out[0].type, c.out[0].data, 0, elements, dx);
    if (c.wants(1)) store_from_double(c.out[1].type, c.out[1].data, 0, places, dgrid);
    return {};
}
inline status grid_sample_gradient(gradient_context& c) {
    const std::vector<value_id> made = c.build.apply_all("graft", "GridSampleGrad", {c.dy(), c.in(0), c.in(1)}, c.n.attributes, 2);
    for (int i = 0; i < 2; ++i)
        if (c.wants(i)) c.give(i, made[static_cast<std::size_t>(i)]);
    return {};
}

// dtheta[n, d, k] = sum over the places o of dY[n, o, d] * (x, y[, z], 1)_k
inline status affine_grid_gradient(gradient_context& c) {
    const shape o = c.extents(c.out());
    const int d = o.rank() - 2;
    if (!c.wants(0)) return {};
    if (o.elements() == 0) return c.give(0, c.build.zeros(shape(c.extents(c.in(0))), c.dy())), status();
    const bool corners = c.integer("align_corners", 0) != 0;
    const std::int64_t points = o.product(1, o.rank() - 1);
    tensor places;
    GRAFT_TRY_ASSIGN(places, tensor::make(c.build.type(c.dy()), {points, d + 1}));
    for (std::int64_t i = 0; i < points; ++i) {
        double place[4] = {1, 1, 1, 1};
        std::int64_t rest = i;
        for (int k = 0; k < d; ++k) {
            const std::int64_t extent = o[d - k], at = rest % extent;
            rest /= extent;
            const double m = static_cast<double>(extent);
            place[k] = !corners ? (2 * static_cast<double>(at) + 1) / m - 1 : at ? 2 * static_cast<double>(at) / (m - 1) - 1 : -1;
        }
        store_from_double(places.type(), places.raw(), i * (d + 1), d + 1, place);
    }
    const value_id turned = c.build.apply("Transpose", {c.build.reshape(c.dy(), {o[0], points, d})}, {integers_attribute("perm", {0, 2, 1})});
    c.give(0, c.build.apply("MatMul", {turned, c.build.constant(std::move(places), "places")}));
    return {};
}

inline gradient_table grid_gradients() {
    static constexpr gradient_row rows[] = {{"GridSample", "", grid_sample_gradient}, {"AffineGrid", "", affine_grid_gradient}};
    return rows;
}
inline op_table grid_training_ops() {
    static constexpr op_row rows[] = {
        own("GridSampleGrad")
            .inputs(3)
            .outputs(1, 2)
            .functions(grid_sample_grad_infer, grid_sample_grad_run)
            .exact_inputs(2)
            .attributes("align_corners:i mode:s padding_mode:s")
            .problems("f32[1,2,5] f32[1,2,4] f32[1,5,1]~-1.5:1.5; f32[1,2,5,2] f32[1,2,3,4] f32[1,5,2,2]~-1.5:1.5; f64[2,1,2,2] f64[2,1,3,3] f64[2,2,2,2]~-2:2 "
                      "mode=cubic padding_mode=reflection; "
                      "f32[1,1,3,3] f32[1,1,4,4] f32[1,3,3,2]~-3:3 mode=nearest padding_mode=border align_corners=1; f32[1,2,1,2,2] f32[1,2,2,3,2] "
                      "f32[1,1,2,2,3]; f32[1,1,0,2] f32[1,1,3,3] f32[1,0,2,2]"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline op_table grid_ops() {
    static constexpr op_row rows[] = {
        onnx("GridSample")
            .opsets(16)
            .inputs(2)
            .functions(grid_sample_infer, grid_sample_run)
            .carries(carry_first_axis<3>)
            .exact_inputs(1)
            .attributes("align_corners:i mode:s padding_mode:s")
            .problems("f32[1,2,3,4] f32[1,2,5,2]~-1.5:1.5; f32[2,1,3,3] f32[2,2,2,2]~-2:2 mode=cubic padding_mode=reflection; "
                      "f32[1,1,4,4] f32[1,3,3,2]~-3:3 mode=nearest padding_mode=border align_corners=1; f32[1,2,2,3,2] f32[1,2,1,2,3]; "
                      "f32[1,1,3,3] f32[1,0,2,2]; f32[1,1,2,2] f32[1,2,2,2] mode=bicubic @16"),
        onnx("AffineGrid")
            .opsets(20)
            .inputs(2)
            .functions(affine_grid_infer, affine_grid_run)
            .attributes("align_corners:i")
            .problems("f32[2,2,3] i64{2,1,3,4}; f64[1,3,4] i64{1,1,2,3,2} align_corners=1; f32[1,2,3] i64{1,1,0,4}"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
