// Recurrent layers as their steps, one after the other.
#pragma once

#include "../lower/decompose.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// RNN, GRU and LSTM of ops/recurrent.hpp over up to 64 steps. What the input gives to the gates is one product for all steps; a step is the
/// product of the state, and the gates. The state is float32, whatever the values between operators are.
decomposition_table recurrent_decompositions();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/recurrent.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

class recurrent_writer {
public:
    inline explicit recurrent_writer(decomposition& to) : d(to), e(to.build), c(to.c) {}

    inline const char* write() {
        constexpr std::int64_t most_steps = 64;
        if (!ops::plan_recurrent(c, p).ok()) return "its shapes or attributes do not fit";
        if (d.any_empty()) return "it is empty";
        if (p.length > most_steps) return "it has more than 64 steps";
        if (const char* why = read_lengths()) return why;
        type_ = c.in[0].type;
        sums_ = type_ == dtype::float64 ? type_ : dtype::float32;
        for (int direction = 0; direction < p.directions; ++direction) run(direction);
        const value_id parts[] = {joined(all_, 1), joined(hidden_, 0), joined(cell_, 0)};
        for (int o = 0; o < c.outputs && o < 3; ++o)
            if (c.wants(o)) d.out[static_cast<std::size_t>(o)] = parts[o];
        return nullptr;
    }

private:
    // A kernel could not report a length that is out of range.
    inline const char* read_lengths() {
        if (!c.has(4)) return nullptr;
        if (!c.in[4].data) return "its lengths are not constants: a wrong one could not be reported";
        for (std::int64_t b = 0; b < p.batch; ++b)
            if (c.in[4].integer(b) < 0 || c.in[4].integer(b) > p.length) return "one of its lengths is out of range";
        return nullptr;
    }
    // Elements [from, from + count) along an axis.
    inline value_id part(value_id x, int axis, std::int64_t from, std::int64_t count) {
        if (e.failure.ok() && from == 0 && e.extents(x)[axis] == count) return x;
        return e.apply("Slice", {x, e.integers({from}), e.integers({from + count}), e.integers({axis})});
    }
    // One direction of an input as a matrix, and of a bias as a row.
    inline value_id of_direction(int i, int direction, std::int64_t rows, std::int64_t columns) {
        return e.reshape(part(d.in[static_cast<std::size_t>(i)], 0, direction, 1), {rows, columns});
    }
    // A gate of [batch, gates * hidden], or of a row.
    inline value_id gate(value_id x, int number) { return part(x, 1, number * p.hidden, p.hidden); }
    inline value_id initial(int i, int direction) {
        if (c.has(i)) return d.cast(e.reshape(part(d.in[static_cast<std::size_t>(i)], p.batch_first ? 1 : 0, direction, 1), {p.batch, p.hidden}), sums_);
        return d.constant(sums_, {p.batch, p.hidden});
    }
    inline value_id active(value_id x, const ops::recurrent_activation& f) {
        if (f.entry == &ops::recurrent_affine) return e.add(e.mul(x, e.number(f.alpha, x)), e.number(f.beta, x));
        if (f.entry == &ops::recurrent_thresholded_relu) return d.where(e.apply("GreaterOrEqual", {x, e.number(f.alpha, x)}), x, 0);
        if (f.entry == &ops::recurrent_scaled_tanh) return e.mul(e.apply("Tanh", {e.mul(x, e.number(f.beta, x))}), e.number(f.alpha, x));
        std::vector<attribute> attributes;
        if (f.entry->alpha.name) attributes.push_back(real_attribute(f.entry->alpha.name, static_cast<float>(f.alpha)));
        if (f.entry->beta.name) attributes.push_back(real_attribute(f.entry->beta.name, static_cast<float>(f.beta)));
        return e.apply(f.op, {x}, std::move(attributes));
    }
    inline value_id clipped(value_id x, const ops::recurrent_activation& f) {
        return active(p.clip > 0 ? e.apply("Clip", {x, e.number(-p.clip, x), e.number(p.clip, x)}) : x, f);
    }
    inline value_id from_state(value_id h, value_id weight) { return d.product(d.cast(h, type_), false, weight, true, sums_); }

    inline void run(int direction) {
        const std::int64_t rows = p.gates * p.hidden;
        weight_ = of_direction(2, direction, rows, p.hidden);
        state_bias_ = no_value;
        f_ = p.activation + direction * p.functions;
        value_id x = p.batch_first ? d.transpose(d.in[0], {1, 0, 2}) : d.in[0];
        x = d.product(e.reshape(x, {p.length * p.batch, p.input}), false, of_direction(1, direction, rows, p.input), true, sums_);
        if (c.has(3)) {
            const value_id both = d.cast(of_direction(3, direction, 1, 2 * rows), sums_), of_state = part(both, 1, rows, rows);
            x = e.add(x, part(both, 1, 0, rows));
            if (p.gates == 3 && p.linear_before_reset)
                state_bias_ = of_state;
            else
                x = e.add(x, of_state);
        }
        std::vector<value_id> inputs = d.apart(e.reshape(x, {p.length, p.batch, rows})), steps(inputs.size(), no_value);
        if (c.has(7)) peephole_ = d.cast(of_direction(7, direction, 1, 3 * p.hidden), sums_);
        value_id h = initial(5, direction), cell = p.gates == 4 ? initial(6, direction) : no_value;
        for (std::int64_t k = 0; k < p.length && e.failure.ok(); ++k) {
            const std::int64_t t = p.reverse || direction == 1 ? p.length - 1 - k : k;
            const value_id now = e.reshape(inputs[static_cast<std::size_t>(t)], {p.batch, rows}), before = h, cell_before = cell;
            h = p.gates == 4 ? lstm(now, h, cell) : p.gates == 3 ? gru(now, h) : clipped(e.add(from_state(h, weight_), now), f_[0]);
            value_id y = h;
            if (const value_id lives = c.has(4) ? running(t) : no_value; lives != no_value) {
                y = d.where(lives, h, 0);
                h = e.apply("Where", {lives, h, before});
                if (p.gates == 4) cell = e.apply("Where", {lives, cell, cell_before});
            }
            steps[static_cast<std::size_t>(t)] = e.reshape(y, {1, 1, p.batch, p.hidden});
        }
        all_.push_back(d.together(steps, 0));
        hidden_.push_back(e.reshape(h, {1, p.batch, p.hidden}));
        if (p.gates == 4) cell_.push_back(e.reshape(cell, {1, p.batch, p.hidden}));
    }
    // H = (1 - z) * h + z * H
    inline value_id gru(value_id x, value_id h) {
        value_id z = no_value, r = no_value, own = no_value;
        if (p.linear_before_reset) {
            value_id all = from_state(h, weight_);
            if (state_bias_ != no_value) all = e.add(all, state_bias_);
            z = e.add(gate(all, 0), gate(x, 0)), r = clipped(e.add(gate(all, 1), gate(x, 1)), f_[0]);
            own = e.mul(r, gate(all, 2));
        } else {
            const value_id both = e.add(from_state(h, part(weight_, 0, 0, 2 * p.hidden)), part(x, 1, 0, 2 * p.hidden));
            z = gate(both, 0), r = clipped(gate(both, 1), f_[0]);
            own = from_state(e.mul(r, h), part(weight_, 0, 2 * p.hidden, p.hidden));
        }
        z = clipped(z, f_[0]);
        const value_id fresh = clipped(e.add(own, gate(x, 2)), f_[1]);
        return e.add(e.mul(e.sub(e.number(1, z), z), fresh), e.mul(z, h));
    }
    // C = f * C + i * c; H = o * h(C)
    inline value_id lstm(value_id x, value_id h, value_id& cell) {
        const value_id all = e.add(from_state(h, weight_), x);
        const auto peeped = [&](int number, int own, value_id at) {
            const value_id g = gate(all, number);
            return c.has(7) ? e.add(g, e.mul(gate(peephole_, own), at)) : g;
        };
        const value_id i = clipped(peeped(0, 0, cell), f_[0]);
        const value_id forget = p.input_forget ? e.sub(e.number(1, i), i) : clipped(peeped(2, 2, cell), f_[0]);
        cell = e.add(e.mul(forget, cell), e.mul(i, clipped(gate(all, 3), f_[1])));
        return e.mul(clipped(peeped(1, 1, cell), f_[0]), active(cell, f_[2]));
    }
    // Which sequences step t is part of; no_value: all of them.
    inline value_id running(std::int64_t t) {
        auto made = tensor::make(dtype::boolean, {p.batch, 1});
        if (!made.ok()) return e.mistake(made.take_status()), no_value;
        bool all = true;
        for (std::int64_t b = 0; b < p.batch; ++b) {
            const bool lives = t < c.in[4].integer(b);
            made->data<bool>()[b] = lives;
            all = all && lives;
        }
        return all ? no_value : e.constant(std::move(made).value(), "running");
    }
    // The directions side by side, as an output has them.
    inline value_id joined(const std::vector<value_id>& parts, int axis) {
        if (parts.empty() || !e.failure.ok()) return no_value;
        value_id x = d.together(parts, axis);
        if (p.batch_first) x = axis ? d.transpose(x, {2, 0, 1, 3}) : d.transpose(x, {1, 0, 2});
        return d.cast(x, type_);
    }

    decomposition& d;
    emitter& e;
    const op_context& c;
    ops::recurrent_plan p;
    dtype type_ = dtype::float32, sums_ = dtype::float32;
    const ops::recurrent_activation* f_ = nullptr;                              // of the direction
    value_id weight_ = no_value, state_bias_ = no_value, peephole_ = no_value;  // of the direction
    std::vector<value_id> all_, hidden_, cell_;                                 // by direction
};
inline const char* decompose_recurrent(decomposition& d) { return recurrent_writer(d).write(); }

}  // namespace detail

GRAFT_INLINE decomposition_table recurrent_decompositions() {
    using detail::decompose_recurrent;
    static constexpr decomposition_row rows[] = {
        {"RNN", "", decompose_recurrent, true}, {"GRU", "", decompose_recurrent, true}, {"LSTM", "", decompose_recurrent, true}};
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
