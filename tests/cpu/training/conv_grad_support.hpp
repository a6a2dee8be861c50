// What the tests of gradients of convolutions share: operands, the chain rule in double, and runs of both gradients.
#pragma once

#include "../conv_support.hpp"
#include "../in_bfloat16.hpp"

#include <graft/cpu/reorder.hpp>
#include <graft/cpu/training/conv_grad.hpp>

#include <cmath>
#include <vector>

namespace kernel_test {

using namespace graft;
using namespace graft::cpu;

struct operands {
    std::vector<float> x, w, dy, residual;
    operands(random_source& random, const conv_problem& p)
        : x(random.reals(p.n * p.ic * p.ih * p.iw)), w(random.reals(p.oc * (p.ic / p.groups) * p.kh * p.kw)), dy(random.reals(p.n * p.oc * p.oh * p.ow)),
          residual(random.reals(p.n * p.ic * p.ih * p.iw)) {}
};

// The chain rule, spelled out: every product of the forward sum gives one to dw and one to dx.
// The `mass` of a sum is that of its terms' magnitudes, which rounding errors are measured by.
struct gradients {
    std::vector<double> dw, db, dx, dw_mass, db_mass, dx_mass;
    gradients(const conv_problem& p, const operands& in)
        : dw(in.w.size()), db(static_cast<std::size_t>(p.oc)), dx(in.x.size()), dw_mass(dw), db_mass(db), dx_mass(dx) {
        const std::int64_t icg = p.ic / p.groups, ocg = p.oc / p.groups;
        std::size_t at = 0;
        for (std::int64_t n = 0; n < p.n; ++n)
            for (std::int64_t o = 0; o < p.oc; ++o)
                for (std::int64_t oy = 0; oy < p.oh; ++oy)
                    for (std::int64_t ox = 0; ox < p.ow; ++ox, ++at) {
                        const double d = double(in.dy[at]);
                        db[static_cast<std::size_t>(o)] += d;
                        db_mass[static_cast<std::size_t>(o)] += std::fabs(d);
                        for (std::int64_t c = 0; c < icg; ++c)
                            for (int ky = 0; ky < p.kh; ++ky)
                                for (int kx = 0; kx < p.kw; ++kx) {
                                    const std::int64_t iy = oy * p.sh - p.pt + ky * p.dh, ix = ox * p.sw - p.pl + kx * p.dw;
                                    if (iy < 0 || iy >= p.ih || ix < 0 || ix >= p.iw) continue;
                                    const auto i = static_cast<std::size_t>(((n * p.ic + o / ocg * icg + c) * p.ih + iy) * p.iw + ix);
                                    const auto j = static_cast<std::size_t>(((o * icg + c) * p.kh + ky) * p.kw + kx);
                                    dw[j] += d * double(in.x[i]);
                                    dx[i] += d * double(in.w[j]);
                                    dw_mass[j] += std::fabs(d * double(in.x[i]));
                                    dx_mass[i] += std::fabs(d * double(in.w[j]));
                                }
                    }
    }
};

// The largest error, in parts of the mass.
inline double distance(const std::vector<float>& got, const std::vector<double>& want, const std::vector<double>& mass) {
    double worst = got.size() == want.size() ? 0 : 1e30;
    for (std::size_t i = 0; i < want.size() && i < got.size(); ++i) {
        const double off = std::fabs(double(got[i]) - want[i]) / (1 + mass[i]);
        if (!(off <= worst)) worst = off;  // NaN becomes the worst
        if (!(off < 1e30)) worst = 1e30;
    }
    return worst;
}
constexpr double tolerance = 4e-7;

struct weight_result {
    std::vector<float> dw, db;
};
inline std::vector<std::uint16_t> narrowed(const buffer& x) { return narrowed(floats(x), x.bytes() / sizeof(float)); }
inline weight_result weight_gradient(isa set, const conv_problem& p, const operands& in, int shards, bool with_bias, executor& pool,
                                     conv_grad_weight_choice* chosen = nullptr, bool narrow = false) {
    const conv_grad_weight_choice choice = choose_conv_grad_weight(set, p, shards);
    if (chosen) *chosen = choice;
    buffer space = room(choice.workspace_bytes / 4);
    buffer x = blocked(set, in.x, p.n, p.ic, p.ih * p.iw), dy = blocked(set, in.dy, p.n, p.oc, p.oh * p.ow);
    weight_result r{std::vector<float>(in.w.size(), std::nanf("")), std::vector<float>(with_bias ? static_cast<std::size_t>(p.oc) : 0, std::nanf(""))};
    const std::vector<std::uint16_t> narrow_x = narrow ? narrowed(x) : std::vector<std::uint16_t>();
    const saved_activation from = narrow ? saved_activation(narrow_x.data()) : choice.in == layout::row_major ? in.x.data() : floats(x);
    run_conv_grad_weight(set, p, choice, from, floats(dy), r.dw.data(), with_bias ? r.db.data() : nullptr, space.data(), pool);
    return r;
}

inline std::vector<float> input_gradient(isa set, const conv_problem& p, const operands& in, bool with_residual, executor& pool,
                                         conv_grad_input_choice* chosen = nullptr) {
    const conv_grad_input_choice choice = choose_conv_grad_input(set, p);
    if (chosen) *chosen = choice;
    buffer packed = room(choice.packed_bytes / 4), pack_space = room(choice.pack_workspace_bytes / 4), space = room(choice.workspace_bytes / 4);
    buffer dy = blocked(set, in.dy, p.n, p.oc, p.oh * p.ow), dx = room(blocked_floats(set, p.n, p.ic, p.ih * p.iw));
    // In place, as sums of gradients are.
    if (with_residual) dx = blocked(set, in.residual, p.n, p.ic, p.ih * p.iw);
    pack_conv_grad_input_weights(set, p, choice, in.w.data(), packed.data(), pack_space.data(), pool);
    run_conv_grad_input(set, p, choice, floats(dy), packed.data(), with_residual ? floats(dx) : nullptr, floats(dx), space.data(), pool);
    std::vector<float> out(in.x.size());
    to_nchw(set, floats(dx), p.n, p.ic, p.ih * p.iw, out.data(), pool);
    return out;
}

// `kind` as draw_channels has it.
inline conv_problem random_problem(random_source& random, int kind) {
    conv_problem p;
    draw_window(random, p);
    p.pt = static_cast<int>(random.between(0, p.kh));
    p.pl = static_cast<int>(random.between(0, p.kw));
    p.ih = random.between(1, 14) + (p.kh - 1) * p.dh;
    p.iw = random.between(1, 24) + (p.kw - 1) * p.dw;
    p.n = random.between(1, 5);
    draw_channels(random, kind, p);
    if (kind == 1) {
        p.kh = static_cast<int>(random.between(1, 9));
        p.ih += 9;
    }
    draw_output(random, p);
    return p;
}

}  // namespace kernel_test
