// Recurrent layers: RNN, GRU, LSTM, in one or both directions, with the activations that ONNX names.
#pragma once

#include "../core/decimal.hpp"
#include "activation.hpp"
#include "window.hpp"

#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace ops {

// Activations that recurrent layers alone have, or have in a form of their own.
inline constexpr activation_entry recurrent_affine = {
    activation::none, "affine", {"alpha", 1}, {"beta", 0}, [](double x, double alpha, double beta) { return alpha * x + beta; }, nullptr, nullptr, nullptr};
inline constexpr activation_entry recurrent_thresholded_relu = {
    activation::none, "thresholded_relu", {"alpha", 1}, {}, [](double x, double alpha, double) { return x >= alpha ? x : 0; }, nullptr, nullptr, nullptr};
inline constexpr activation_entry recurrent_scaled_tanh = {
    activation::none, "scaled_tanh", {"alpha", 1}, {"beta", 1}, [](double x, double alpha, double beta) { return alpha * std::tanh(beta * x); },
    nullptr,          nullptr,       nullptr};
inline constexpr activation_entry recurrent_softsign = {
    activation::none, "softsign", {}, {}, [](double x, double, double) { return x / (1 + std::fabs(x)); }, nullptr, nullptr, nullptr};

/// An activation of a recurrent layer.
struct recurrent_activation {
    const char* op = nullptr;  ///< as the layer names it
    const activation_entry* entry = nullptr;
    double alpha = 0, beta = 0;

    double operator()(double x) const noexcept { return entry->value(x, alpha, beta); }
};

/// An RNN (1 gate), GRU (3) or LSTM (4).
struct recurrent_plan {
    int gates = 1, functions = 1, directions = 1;
    bool batch_first = false, reverse = false, linear_before_reset = false, input_forget = false;
    std::int64_t length, batch, input, hidden;
    double clip = 0;  ///< 0: none
    recurrent_activation activation[6];

    shape state() const noexcept { return batch_first ? shape{batch, directions, hidden} : shape{directions, batch, hidden}; }
    shape sequence() const noexcept { return batch_first ? shape{batch, length, directions, hidden} : shape{length, directions, batch, hidden}; }
    std::int64_t state_row(std::int64_t direction, std::int64_t b) const noexcept {
        return (batch_first ? b * directions + direction : direction * batch + b) * hidden;
    }
    std::int64_t input_row(std::int64_t t, std::int64_t b) const noexcept { return (batch_first ? b * length + t : t * batch + b) * input; }
    std::int64_t output_row(std::int64_t t, std::int64_t direction, std::int64_t b) const noexcept {
        return (batch_first ? (b * length + t) * directions + direction : (t * directions + direction) * batch + b) * hidden;
    }
};

/// Reads names, alphas and betas. Both lists are used up in order by those activations that have such a parameter.
GRAFT_NOINLINE inline status read_activations(const op_context& c, recurrent_plan& p) {
    struct row {
        const char* op;
        const activation_entry& entry;
    };
    const auto listed = [](activation kind) -> const activation_entry& { return activation_entries[static_cast<int>(kind)]; };
    const row known[] = {{"Relu", listed(activation::relu)},
                         {"Tanh", listed(activation::tanh)},
                         {"Sigmoid", listed(activation::sigmoid)},
                         {"LeakyRelu", listed(activation::leaky_relu)},
                         {"HardSigmoid", listed(activation::hard_sigmoid)},
                         {"Elu", listed(activation::elu)},
                         {"Softplus", listed(activation::softplus)},
                         {"Affine", recurrent_affine},
                         {"ThresholdedRelu", recurrent_thresholded_relu},
                         {"ScaledTanh", recurrent_scaled_tanh},
                         {"Softsign", recurrent_softsign}};
    static constexpr const char* defaults[3][3] = {{"Tanh", "", ""}, {"Sigmoid", "Tanh", ""}, {"Sigmoid", "Tanh", "Tanh"}};
    const attribute *names = c.n.find("activations"), *alphas = c.n.find("activation_alpha"), *betas = c.n.find("activation_beta");
    const std::size_t count = static_cast<std::size_t>(p.functions * p.directions);
    // RNN-1..22 declare two default names whatever the direction, so more than needed are no fault.
    if (names && names->strings.size() < count) return c.fail(errc::op_attribute, "%lld activations are needed", static_cast<std::int64_t>(count));
    std::size_t alpha = 0, beta = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const char* name = names ? names->strings[i].c_str() : defaults[p.functions - 1][i % static_cast<std::size_t>(p.functions)];
        recurrent_activation& f = p.activation[i];
        for (const row& r : known) {
            const char *a = name, *b = r.op;
            while (*a && *b && (*a | 32) == (*b | 32)) ++a, ++b;
            if (!*a && !*b) f.op = r.op, f.entry = &r.entry;
        }
        if (!f.entry) return c.fail(errc::op_attribute, "activation %lld is unknown", static_cast<std::int64_t>(i));
        const auto given = [](const activation_entry::parameter& one, const attribute* list, std::size_t& next) {
            return one.name && list && next < list->reals.size() ? static_cast<double>(list->reals[next++]) : decimal_of(one.otherwise);
        };
        f.alpha = given(f.entry->alpha, alphas, alpha);
        f.beta = given(f.entry->beta, betas, beta);
    }
    return {};
}

inline status check_shape(const op_context& c, int i, const shape& wanted) {
    if (!c.has(i) || c.in[i].extents == wanted) return {};
    return c.fail_shapes("the shapes of weights, biases or initial states do not fit the input, the directions and hidden_size");
}

GRAFT_COLD inline status plan_recurrent(const op_context& c, recurrent_plan& p) {
    const std::string& type = c.n.op_type;
    p.gates = type == "LSTM" ? 4 : type == "GRU" ? 3 : 1;
    p.functions = type == "LSTM" ? 3 : type == "GRU" ? 2 : 1;
    const shape &x = c.in[0].extents, &w = c.in[1].extents, &r = c.in[2].extents;
    // GRU-1 spells its default "foward".
    p.reverse = c.is("direction", "reverse", "forward");
    p.directions = c.is("direction", "bidirectional", "forward") ? 2 : 1;
    if (!p.reverse && p.directions == 1 && !c.is("direction", "forward", "forward") && !c.is("direction", "foward", "forward"))
        return c.fail(errc::op_attribute, "direction is none of forward, reverse, bidirectional");
    p.batch_first = c.integer("layout", 0) != 0;
    p.linear_before_reset = c.integer("linear_before_reset", 0) != 0;
    p.input_forget = c.integer("input_forget", 0) != 0;
    p.clip = c.has_attribute("clip") ? static_cast<double>(c.real("clip", 0)) : 0;
    if (!(p.clip >= 0)) return c.fail(errc::op_attribute, "clip must not be negative");
    if (x.rank() != 3 || w.rank() != 3 || r.rank() != 3) return c.fail_shapes("input, W and R must have three dimensions");
    p.length = x[p.batch_first ? 1 : 0];
    p.batch = x[p.batch_first ? 0 : 1];
    p.input = x[2];
    p.hidden = c.integer("hidden_size", r[2]);
    const std::int64_t rows = checked_mul(p.gates, p.hidden);
    if (p.hidden < 1 || rows < 0 || checked_mul(rows, 2) < 0) return c.fail(errc::op_attribute, "hidden_size is %lld", p.hidden);
    GRAFT_TRY(check_shape(c, 1, {p.directions, rows, p.input}));
    GRAFT_TRY(check_shape(c, 2, {p.directions, rows, p.hidden}));
    GRAFT_TRY(check_shape(c, 3, {p.directions, 2 * rows}));
    GRAFT_TRY(check_shape(c, 4, {p.batch}));
    GRAFT_TRY(check_shape(c, 5, p.state()));
    GRAFT_TRY(check_shape(c, 6, p.state()));
    GRAFT_TRY(check_shape(c, 7, {p.directions, 3 * p.hidden}));
    return read_activations(c, p);
}

inline status recurrent_infer(infer_context& c) {
    recurrent_plan p;
    GRAFT_TRY(check_real(c, 0));
    for (int i = 1; i < 8; ++i)
        if (i != 4) GRAFT_TRY(check_same_type(c, i, 0));
    if (c.has(4) && c.in[4].type != dtype::int32) return c.fail(errc::op_type, "sequence_lens must be int32");
    GRAFT_TRY(plan_recurrent(c, p));
    GRAFT_TRY(c.set(0, c.in[0].type, p.sequence()));
    GRAFT_TRY(c.set(1, c.in[0].type, p.state()));
    return c.set(2, c.in[0].type, p.state());
}

/// The weights of one direction, as doubles, and one sequence's state.
struct recurrent_cell {
    const recurrent_plan& p;
    const double *w, *r, *bias, *peephole;  ///< bias (W's, then R's) and peephole may be null
    const recurrent_activation* f;
    double *gate, *hidden, *cell, *reset;  ///< gates * hidden, hidden, hidden, hidden

    double clipped(double x) const noexcept { return p.clip > 0 ? std::min(std::max(x, -p.clip), p.clip) : x; }
    double from_input(std::int64_t row, const double* x) const noexcept {
        double sum = bias ? bias[row] : 0.0;
        for (std::int64_t i = 0; i < p.input; ++i) sum += x[i] * w[row * p.input + i];
        return sum;
    }
    double from_hidden(std::int64_t row, const double* h) const noexcept {
        double sum = bias ? bias[p.gates * p.hidden + row] : 0.0;
        for (std::int64_t i = 0; i < p.hidden; ++i) sum += h[i] * r[row * p.hidden + i];
        return sum;
    }
    // RNN: h = f(W x + R h + b)
    void step_rnn(const double* x) const noexcept {
        for (std::int64_t j = 0; j < p.hidden; ++j) gate[j] = f[0](clipped(from_input(j, x) + from_hidden(j, hidden)));
        std::copy(gate, gate + p.hidden, hidden);
    }
    // GRU: gates z (update), r (reset), h; H = (1 - z) * h + z * H
    void step_gru(const double* x) const noexcept {
        const std::int64_t n = p.hidden;
        for (std::int64_t j = 0; j < 2 * n; ++j) gate[j] = f[0](clipped(from_input(j, x) + from_hidden(j, hidden)));
        for (std::int64_t j = 0; j < n; ++j) reset[j] = gate[n + j] * hidden[j];
        for (std::int64_t j = 0; j < n; ++j) {
            const double recurrent = p.linear_before_reset ? gate[n + j] * from_hidden(2 * n + j, hidden) : from_hidden(2 * n + j, reset);
            gate[2 * n + j] = f[1](clipped(from_input(2 * n + j, x) + recurrent));
        }
        for (std::int64_t j = 0; j < n; ++j) hidden[j] = (1 - gate[j]) * gate[2 * n + j] + gate[j] * hidden[j];
    }
    // LSTM: gates i, o, f, c; C = f * C + i * c; H = o * h(C)
    void step_lstm(const double* x) const noexcept {
        const std::int64_t n = p.hidden;
        for (std::int64_t j = 0; j < 4 * n; ++j) gate[j] = from_input(j, x) + from_hidden(j, hidden);
        for (std::int64_t j = 0; j < n; ++j) {
            const double before = cell[j];
            const double i = f[0](clipped(gate[j] + (peephole ? peephole[j] * before : 0.0)));
            const double forget = p.input_forget ? 1 - i : f[0](clipped(gate[2 * n + j] + (peephole ? peephole[2 * n + j] * before : 0.0)));
            cell[j] = forget * before + i * f[1](clipped(gate[3 * n + j]));
            hidden[j] = f[0](clipped(gate[n + j] + (peephole ? peephole[n + j] * cell[j] : 0.0))) * f[2](cell[j]);
        }
    }
};

// RNN-1,7,14,22, GRU-3,7,14,22, LSTM-1,7,14,22; every (direction, sequence) is a task
inline status recurrent_run(run_context& c) {
    recurrent_plan p;
    GRAFT_TRY(plan_recurrent(c, p));
    bool empty = true;
    for (int i = 0; i < 3; ++i) empty = empty && (!c.wants(i) || is_empty(c.out[i]));
    if (empty) return {};
    for (std::int64_t b = 0; c.has(4) && b < p.batch; ++b)
        if (c.in[4].integer(b) < 0 || c.in[4].integer(b) > p.length)
            return c.fail(errc::op_value, "sequence %lld has length %lld, but the input has %lld steps", b, c.in[4].integer(b), p.length);
    widened<double> x, w, r, bias, peephole;
    GRAFT_TRY(widen(c, c.in[0], x));
    GRAFT_TRY(widen(c, c.in[1], w));
    GRAFT_TRY(widen(c, c.in[2], r));
    if (c.has(3)) GRAFT_TRY(widen(c, c.in[3], bias));
    if (c.has(7)) GRAFT_TRY(widen(c, c.in[7], peephole));
    const std::int64_t rows = p.gates * p.hidden, each = rows + 3 * p.hidden;
    buffer memory;
    double* scratch = nullptr;
    GRAFT_TRY(scratch_of(c, checked_mul(checked_mul(p.directions, p.batch), each), memory, scratch));
    parallel_for(c.pool, p.directions * p.batch, [&](std::int64_t task) {
        const std::int64_t direction = task / p.batch, b = task % p.batch, length = c.has(4) ? c.in[4].integer(b) : p.length;
        const bool backward = p.reverse || direction == 1;
        double* own = scratch + task * each;
        const recurrent_cell cell{p,
                                  w.data + direction * rows * p.input,
                                  r.data + direction * rows * p.hidden,
                                  bias.data ? bias.data + direction * 2 * rows : nullptr,
                                  peephole.data ? peephole.data + direction * 3 * p.hidden : nullptr,
                                  p.activation + direction * p.functions,
                                  own,
                                  own + rows,
                                  own + rows + p.hidden,
                                  own + rows + 2 * p.hidden};
        std::fill(own, own + each, 0.0);
        if (c.has(5)) load_as_double(c.in[5].type, c.in[5].data, p.state_row(direction, b), p.hidden, cell.hidden);
        if (c.has(6)) load_as_double(c.in[6].type, c.in[6].data, p.state_row(direction, b), p.hidden, cell.cell);
        for (std::int64_t step = 0; step < length; ++step) {
            const std::int64_t t = backward ? length - 1 - step : step;
            const double* now = x.data + p.input_row(t, b);
            if (p.gates == 4)
                cell.step_lstm(now);
            else if (p.gates == 3)
                cell.step_gru(now);
            else
                cell.step_rnn(now);
            if (c.wants(0)) store_from_double(c.out[0].type, c.out[0].data, p.output_row(t, direction, b), p.hidden, cell.hidden);
        }
        if (c.wants(1)) store_from_double(c.out[1].type, c.out[1].data, p.state_row(direction, b), p.hidden, cell.hidden);
        if (c.wants(2)) store_from_double(c.out[2].type, c.out[2].data, p.state_row(direction, b), p.hidden, cell.cell);
        std::fill(cell.gate, cell.gate + p.hidden, 0.0);
        for (std::int64_t t = length; c.wants(0) && t < p.length; ++t)
            store_from_double(c.out[0].type, c.out[0].data, p.output_row(t, direction, b), p.hidden, cell.gate);
    });
    return {};
}

// How they carry a batch: see batch_rules.hpp.
// RNN, GRU, LSTM: X, W, R, B, sequence_lens, initial states.
inline bool carry_recurrent(batch_carrier& c) {
    const bool batch_first = c.integer("layout", 0) != 0;
    const int axis = batch_first ? 0 : 1;
    if (!c.only(1 | 32 | 64) || !c.carries(0) || c.state(0).axis != axis) return c.conflict(c.why.empty() ? "its samples do not lie along the batch" : c.why);
    const batch_axis where = c.state(0);
    for (int i : {4, 5, 6}) {
        if (!c.has(i)) continue;
        const int along = i == 4 ? 0 : axis;
        if (c.carries(i) && (c.state(i).axis != along || c.state(i).outer != where.outer))
            return c.conflict("its inputs hold the samples along different axes");
        if (!c.carries(i) && !c.one_for_each(i, along, c.extent(0), where.outer)) return false;
    }
    c.answer(0, {batch_first ? 0 : 2, where.outer});
    for (int i : {1, 2}) c.answer(i, {axis, where.outer});
    return true;
}

inline op_table recurrent_ops() {
    static constexpr op_row rows[] = {
        onnx("RNN")
            .inputs(3, 6)
            .outputs(0, 2)
            .functions(recurrent_infer, recurrent_run)
            .carries(carry_recurrent)
            .combines()
            .attributes("activation_alpha:fs activation_beta:fs activations:ss clip:f direction:s hidden_size:i layout:i output_sequence:i")
            .problems("f32[5,2,3] f32[1,4,3] f32[1,4,4] f32[1,8] hidden_size=4; f32[2,5,3] f32[2,4,3] f32[2,4,4] hidden_size=4 "
                      "direction=bidirectional layout=1; "
                      "f32[5,2,3] f32[1,4,3] f32[1,4,4] - i32{3,5} f32[1,2,4] hidden_size=4 direction=reverse clip=0.5"),
        onnx("GRU")
            .inputs(3, 6)
            .outputs(0, 2)
            .functions(recurrent_infer, recurrent_run)
            .carries(carry_recurrent)
            .combines()
            .attributes("activation_alpha:fs activation_beta:fs activations:ss clip:f direction:s hidden_size:i layout:i "
                        "linear_before_reset:i output_sequence:i")
            .problems("f32[5,2,3] f32[1,12,3] f32[1,12,4] f32[1,24] hidden_size=4; f32[2,5,3] f32[2,12,3] f32[2,12,4] f32[2,24] "
                      "hidden_size=4 direction=bidirectional "
                      "layout=1 linear_before_reset=1; f32[0,2,3] f32[1,12,3] f32[1,12,4] hidden_size=4"),
        onnx("LSTM")
            .inputs(3, 8)
            .outputs(0, 3)
            .functions(recurrent_infer, recurrent_run)
            .carries(carry_recurrent)
            .combines()
            .attributes("activation_alpha:fs activation_beta:fs activations:ss clip:f direction:s hidden_size:i input_forget:i layout:i "
                        "output_sequence:i")
            .problems("f32[5,2,3] f32[1,16,3] f32[1,16,4] f32[1,32] hidden_size=4; f32[5,2,3] f32[2,16,3] f32[2,16,4] f32[2,32] "
                      "i32{5,2} f32[2,2,4] f32[2,2,4] f32[2,12] "
                      "hidden_size=4 direction=bidirectional; f32[2,5,3] f32[1,16,3] f32[1,16,4] hidden_size=4 layout=1 "
                      "input_forget=1 clip=0.7"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
