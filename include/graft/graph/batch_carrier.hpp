// One node on the way of a batch through a graph: where its inputs hold the samples, and what is answered of its outputs.
#pragma once

#include "op.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE
/// Where a value holds the samples: along `axis` its index is (outer, sample, inner), so that its memory is [P][samples][Q] with P the
/// product of the extents before the axis, times `outer`. axis -1: it is the same for all samples.
struct batch_axis {
    int axis = -1;
    std::int64_t outer = 1;
    bool none() const { return axis < 0; }
    bool operator==(const batch_axis& o) const { return axis == o.axis && outer == o.outer; }
    bool operator!=(const batch_axis& o) const { return !(*this == o); }
};

/// How a node has to be changed, beside repeating inputs, to take any number of samples.
enum class batch_change {
    none,
    view,      // where its samples do not go where they have to: becomes a Reshape to the extents of now, with -1 along the axis of the output
    reshape,   // a Reshape whose target does not do that gets such a one
    identity,  // becomes such a Reshape in any case
    expand,    // its target has 1 along the axis of the output, counted from the right as Expand does
    slice,     // it takes all there is along the axis of the input
    sizes,     // of Resize: those along the axis of the input follow the batch
    gather,    // along the samples' own axis: within each sample, and then reshaped
};

/// What a rule (op_traits::carries) is asked of, and answers to. It is asked where an input of the node holds samples.
struct batch_carrier {
    struct repeated {
        int input, axis;
    };

    const graph& g;
    const node& n;
    const std::vector<batch_axis>& states;  // of every value
    std::int64_t samples;                   // that the graph is fixed to

    std::vector<batch_axis> out;      // answers, one an output
    std::vector<batch_axis> options;  // where there is a choice for output 0: best first
    int natural = -1;                 // of a view: the axis of output 0 that the samples' own axis becomes; -1: it goes
    std::vector<repeated> repeats;    // inputs without samples that are repeated for each
    batch_change change = batch_change::none;
    std::string why;  // the samples cannot pass

    batch_carrier(const graph& of, const node& carrier, const std::vector<batch_axis>& of_values, std::int64_t fixed_to)
        : g(of), n(carrier), states(of_values), samples(fixed_to), out(n.outputs.size()) {}

    int inputs() const { return static_cast<int>(n.inputs.size()); }
    value_id in(int i) const { return i >= 0 && i < inputs() ? n.inputs[static_cast<std::size_t>(i)] : no_value; }
    bool has(int i) const { return in(i) != no_value; }
    const value& value_in(int i) const { return g.at(in(i)); }
    const shape& extents(int i) const { return value_in(i).extents; }
    const shape& output_extents(int i = 0) const { return g.at(n.outputs[static_cast<std::size_t>(i)]).extents; }
    bool wants(int output) const { return output < static_cast<int>(n.outputs.size()) && n.outputs[static_cast<std::size_t>(output)] != no_value; }
    batch_axis state(int i) const { return has(i) ? states[in(i)] : batch_axis(); }
    bool carries(int i) const { return !state(i).none(); }
    std::int64_t extent(int i) const { return extents(i)[state(i).axis]; }  // along the samples' axis
    // The product of the extents before the place of the samples in memory.
    std::int64_t before(int i) const {
        std::int64_t p = state(i).outer;
        for (int a = 0; a < state(i).axis; ++a) p *= extents(i)[a];
        return p;
    }
    std::int64_t integer(const char* name, std::int64_t otherwise) const {
        const attribute* a = n.find(name);
        return a ? a->integer : otherwise;
    }
    // The integers of an attribute, or else of a constant input; false where neither is known.
    bool integers(const char* name, int input, std::vector<std::int64_t>& values) const {
        values.clear();
        if (const attribute* a = n.find(name)) return values = a->integers, true;
        if (!has(input) || !value_in(input).constant) return false;
        const tensor& t = value_in(input).constant;
        for (std::int64_t i = 0; i < t.elements(); ++i) values.push_back(element_as_int64(t.type(), t.raw(), i));
        return true;
    }

    bool conflict(std::string text) { return why = std::move(text), false; }
    // Output i holds the samples there.
    bool answer(int i, batch_axis where) {
        if (wants(i)) out[static_cast<std::size_t>(i)] = where;
        return true;
    }
    bool answer_all(batch_axis where) {
        for (int i = 0; i < static_cast<int>(n.outputs.size()); ++i) answer(i, where);
        return true;
    }
    // All inputs but those in `data` have to be without samples.
    GRAFT_COLD bool only(unsigned data) {
        for (int i = 0; i < inputs(); ++i)
            if (carries(i) && !(i < 32 && data >> i & 1)) return conflict("its input " + std::to_string(i) + " depends on the sample");
        return true;
    }
    // An input without samples stands where others have `extent` along the samples' axis: one for all, or as many, to be repeated.
    bool fits_beside(int i, int axis, std::int64_t extent, std::int64_t outer) { return extents(i)[axis] == 1 || one_for_each(i, axis, extent, outer); }
    // The same where there is no broadcasting.
    GRAFT_COLD bool one_for_each(int i, int axis, std::int64_t extent, std::int64_t outer) {
        if (extents(i)[axis] != extent) return conflict("its input " + std::to_string(i) + " is broadcast along the samples");
        if (outer != 1) return conflict("its input " + std::to_string(i) + " would have to be repeated within an axis");
        if (samples > 1 && !alike(i, axis)) return conflict("its input " + std::to_string(i) + " differs from sample to sample");
        repeats.push_back({i, axis});
        return true;
    }

private:
    // Whether a constant holds the same for each of the samples along an axis.
    bool alike(int i, int axis) const {
        const tensor& t = value_in(i).constant;
        if (!t || t.shape()[axis] % samples) return false;
        std::int64_t rows = 1, inner = 1;
        for (int a = 0; a < axis; ++a) rows *= t.shape()[a];
        for (int a = axis + 1; a < t.shape().rank(); ++a) inner *= t.shape()[a];
        const std::int64_t part = t.shape()[axis] / samples * inner;
        for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t k = part; k < part * samples; ++k)
                if (element_as_double(t.type(), t.raw(), r * part * samples + k) != element_as_double(t.type(), t.raw(), r * part * samples + k % part))
                    return false;
        return true;
    }
};

GRAFT_END_NAMESPACE
