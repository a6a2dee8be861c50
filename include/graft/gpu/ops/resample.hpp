// Rules of operators whose output elements are weighted sums of a few input elements along each axis: Resize, its gradient, that of Pad.
#pragma once

#include "../codegen/element.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The rules of ops/resize.hpp, and graft.PadGrad.
rule_table resample_rules();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/resize.hpp"
#include "movement.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// What the elements along one axis are made of: row i lists the places along the input's axis and their weights. A row that is
// `outside` has the value of extrapolation.
struct axis_weights {
    struct term {
        std::int64_t from;
        double weight;
    };
    std::vector<std::vector<term>> rows;
    std::vector<bool> outside;

    explicit axis_weights(std::int64_t n) : rows(static_cast<std::size_t>(n)), outside(static_cast<std::size_t>(n)) {}
    void add(std::int64_t row, std::int64_t from, double weight) {
        std::vector<term>& r = rows[static_cast<std::size_t>(row)];
        for (term& t : r)
            if (t.from == from) return void(t.weight += weight);
        r.push_back({from, weight});
    }
    std::size_t taps() const {
        std::size_t most = 0;
        for (const auto& r : rows) most = std::max(most, r.size());
        return most;
    }
};

// Terms of a sum are written out, and tables are part of the text: more than this is left to others.
constexpr std::size_t most_terms = 64, longest_table = 16384;

// The weights of Resize along an axis, or, `backwards`, of its gradient.
inline axis_weights resize_rows(const ops::resize_plan& p, const shape& x, int d, bool backwards) {
    const bool nearest = p.mode == ops::interpolation_mode::nearest;
    const std::int64_t taps = nearest ? 1 : ops::kernel_taps(p, d);
    std::vector<double> weights(static_cast<std::size_t>(taps), 1.0);
    axis_weights w(backwards ? x[d] : p.out[d]);
    for (std::int64_t i = 0; i < p.out[d]; ++i) {
        bool outside = false;
        double first = 0;
        if (nearest)
            first = static_cast<double>(ops::nearest_index(p, x, d, ops::source_coordinate(p, x, d, i, outside)));
        else
            first = ops::resize_weights(p, x, d, i, weights.data(), outside);
        if (outside && !backwards) w.outside[static_cast<std::size_t>(i)] = true;
        for (std::int64_t k = 0; k < taps && !outside; ++k) {
            const double weight = weights[static_cast<std::size_t>(k)];
            const std::int64_t j = ops::clamp_index(first + static_cast<double>(k), x[d]);
            if (weight != 0) w.add(backwards ? j : i, backwards ? i : j, weight);
        }
    }
    return w;
}

// A table in the text of the kernel, and what it holds at an index.
inline std::string define_table(element_emitter& e, dtype type, const std::vector<std::string>& entries) {
    std::string list;
    for (std::size_t i = 0; i < entries.size(); ++i) list += (i ? i % 16 ? ", " : ",\n        " : "") + entries[i];
    return e.define_table(memory_name(type), list);
}

// The sum over the axes from `by[which]` on of what the rows say; `from` is the position in the input so far.
struct resampling {
    const rule_call& r;
    dtype type;                                    // of the arithmetic
    std::vector<std::pair<int, axis_weights>> by;  // the axes that are resampled
    operand extrapolation;

    operand sum(std::size_t which, const position& from) {
        if (which == by.size()) return r.e.convert(r.in(0, from), type);
        element_emitter& e = r.e;
        const int d = by[which].first;
        const axis_weights& w = by[which].second;
        const shape& x = r.c.in[0].extents;
        const index i = e.axis(r.at, d);
        if (repeats(w, x[d])) return sum(which + 1, moved_along(from, d, e.divide(i, static_cast<std::int64_t>(w.rows.size()) / x[d]), x));
        operand y, outside;
        const std::size_t taps = w.taps();
        for (std::size_t k = 0; k < taps; ++k) {
            std::vector<std::string> places, weights;
            bool ones = true, gaps = false;
            for (const auto& row : w.rows) {
                const bool has = k < row.size();
                places.push_back(std::to_string(has ? row[k].from : 0));
                weights.push_back(literal(type, has ? row[k].weight : 0.0));
                ones = ones && has && row[k].weight == 1;
                gaps = gaps || !has;
            }
            const std::string place_table = define_table(e, dtype::int32, places);
            const position there = moved_along(from, d, e.formula((place_table + "[%]").c_str(), {i}, x[d]), x);
            operand weight, term;
            if (!ones) {
                const operand at = e.as_value(i);
                weight = e.make(type, (define_table(e, type, weights) + "[%]").c_str(), {at});
            }
            if (gaps)  // nothing is read where nothing is added, as it might be infinite
                term = e.where(e.make(dtype::boolean, "% != 0", {weight}), e.number(type, 0), [&] {
                    return e.make(type, "% * %", {weight, sum(which + 1, there)});
                });
            else
                term = ones ? sum(which + 1, there) : e.make(type, "% * %", {weight, sum(which + 1, there)});
            y = y ? e.make(type, "% + %", {y, term}) : term;
        }
        if (!y) y = e.number(type, 0);
        if (std::find(w.outside.begin(), w.outside.end(), true) == w.outside.end()) return y;
        std::vector<std::string> flags;
        for (bool b : w.outside) flags.push_back(b ? "true" : "false");
        return e.make(type, (define_table(e, dtype::boolean, flags) + "[%] ? % : %").c_str(), {e.as_value(i), extrapolation, y});
    }

    // Whether every element is repeated the same number of times, which a division says.
    static bool repeats(const axis_weights& w, std::int64_t extent) {
        const auto n = static_cast<std::int64_t>(w.rows.size());
        if (extent == 0 || n % extent) return false;
        for (std::int64_t i = 0; i < n; ++i) {
            const auto& row = w.rows[static_cast<std::size_t>(i)];
            if (w.outside[static_cast<std::size_t>(i)] || row.size() != 1 || row[0].weight != 1 || row[0].from != i / (n / extent)) return false;
        }
        return true;
    }
};

inline operand resample(const rule_call& r, std::vector<std::pair<int, axis_weights>> by, const operand& extrapolation, dtype type) {
    std::size_t terms = 1;
    for (const auto& axis : by) {
        const std::size_t taps = std::max<std::size_t>(1, axis.second.taps());
        if (taps > most_terms || (terms *= taps) > most_terms) return r.e.refuse("each element is a sum of more terms than a generated kernel writes out");
        if (axis.second.rows.size() > longest_table) return r.e.refuse("an axis is longer than the tables of generated kernels");
    }
    return resampling{r, type, std::move(by), extrapolation}.sum(0, r.at);
}

// Integers are resized as numbers and rounded; float holds those of 16 bits.
inline operand emit_resize(const rule_call& r) {
    ops::resize_plan p;
    if (!all_known(r.c, 1)) return r.e.refuse("its scales, sizes and regions are not constants");
    if (!ops::read_resize(r.c, p).ok()) return r.e.refuse("its attributes do not fit");
    const shape& x = r.c.in[0].extents;
    const dtype from = r.c.in[0].type;
    const bool nearest = p.mode == ops::interpolation_mode::nearest;
    const dtype type = nearest || is_float(from) ? compute_type(from) : size_of(from) <= 2 ? dtype::float32 : dtype::float64;
    std::vector<std::pair<int, axis_weights>> by;
    for (int d = 0; d < x.rank(); ++d) {
        if (!p.resized[d]) continue;
        if (p.out[d] > static_cast<std::int64_t>(longest_table)) return r.e.refuse("an axis is longer than the tables of generated kernels");
        by.emplace_back(d, resize_rows(p, x, d, false));
    }
    double outside = static_cast<double>(r.c.real("extrapolation_value", 0));
    const bool crops = p.coordinate == ops::coordinate_mode::tf_crop_and_resize;
    if (crops && !is_float(from)) return r.e.refuse("it crops integers");
    operand y = resample(r, std::move(by), r.e.number(type, outside), type);
    if (is_float(from) || nearest) return y;
    return r.e.make(from, (std::string("saturated<") + memory_name(from) + ">(%)").c_str(), {y});
}
inline operand emit_resize_grad(const rule_call& r) {
    if (!all_known(r.c, 1)) return r.e.refuse("its scales, sizes and regions are not constants");
    const ops::resized_forward forward(r.c);
    ops::resize_plan p;
    if (!ops::read_resize(forward.context(r.c), p).ok()) return r.e.refuse("its attributes do not fit");
    std::vector<std::pair<int, axis_weights>> by;
    for (int d = 0; d < r.at.extents.rank(); ++d) {
        if (!p.resized[d]) continue;
        if (r.at.extents[d] > static_cast<std::int64_t>(longest_table)) return r.e.refuse("an axis is longer than the tables of generated kernels");
        by.emplace_back(d, resize_rows(p, r.at.extents, d, true));
    }
    return resample(r, std::move(by), r.number(0), r.type());
}
// The sum of dy wherever Pad put the element.
inline operand emit_pad_grad(const rule_call& r) {
    ops::border_list border;
    shape x;
    if (!ops::read_pad_grad(r.c, border, x).ok()) return r.e.refuse("its attributes do not fit");
    const shape& y = r.c.in[0].extents;
    ops::axis_maps maps;
    executor serial;
    const run_context context{r.c, serial, nullptr, nullptr, 0};
    for (int d = 0; d < x.rank(); ++d)
        if (y[d] > static_cast<std::int64_t>(longest_table)) return r.e.refuse("an axis is longer than the tables of generated kernels");
    if (!ops::pad_maps(context, r.c.string("mode", "")[0], x, border, y, maps).ok()) return r.e.refuse("there is no memory to plan it");
    std::vector<std::pair<int, axis_weights>> by;
    for (int d = 0; d < x.rank(); ++d) {
        if (!maps.map[d]) continue;
        axis_weights w(x[d]);
        for (std::int64_t i = 0; i < y[d]; ++i) w.add(maps.map[d][i], i, 1);
        by.emplace_back(d, std::move(w));
    }
    return resample(r, std::move(by), r.number(0), r.type());
}

}  // namespace detail

GRAFT_INLINE rule_table resample_rules() {
    using namespace detail;
    constexpr unsigned several = element_rule::several;
    static constexpr element_rule rows[] = {
        {"Resize", "", several, emit_resize, ""},
        {"Upsample", "", several, emit_resize, ""},
        {"ResizeGrad", "graft", several, emit_resize_grad, ""},
        {"PadGrad", "graft", several, emit_pad_grad, ""},
    };
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
