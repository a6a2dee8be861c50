// GridSample and AffineGrid as rules, and the kernels of graft.GridSampleGrad.
#pragma once

#include "../codegen/sort.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The rules of ops/grid.hpp.
rule_table grid_rules();
/// The kernels of graft.GridSampleGrad: dX gathers the samples that each pixel was part of, sorted by pixel, so that it is added up in
/// one order; dgrid is a reduction over the channels.
generated_table grid_rows();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/grid.hpp"
#include "scatter.hpp"
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// The taps of a sample along one axis: as ops::find_taps and ops::find_slopes have them, in `type`, of which the place itself is computed
// in the grid's.
class grid_axis {
public:
    grid_axis(element_emitter& emitter, const ops::grid_plan& plan, const operand& normalised, std::int64_t n, dtype computed)
        : e(emitter), p(plan), extent_(n), type_(computed) {
        const double size = static_cast<double>(n);
        const dtype given = normalised.type;
        operand x = p.align_corners ? e.make(given, ("(% + 1) / 2 * " + literal(given, size - 1)).c_str(), {normalised})
                                    : e.make(given, ("((% + 1) * " + literal(given, size) + " - 1) / 2").c_str(), {normalised});
        x = e.convert(x, type_);
        const std::string far = literal(type_, 1e15);
        known_ = e.make(dtype::boolean, ("abs(%) < " + far).c_str(), {x});
        x = e.make(type_, ("% ? % : % > 0 ? " + far + " : -" + far).c_str(), {known_, x, x});
        unmoved_ = x;
        if (p.mode == ops::grid_mode::nearest) x = e.make(type_, "round(%)", {x});
        if (p.padding == ops::grid_padding::border && p.mode != ops::grid_mode::cubic)
            x = e.make(type_, ("clamped<" + name() + ">(%, " + literal(type_, size - 1) + ")").c_str(), {x});
        if (p.padding == ops::grid_padding::reflection) x = mirrored(x);
        x = e.make(type_, ("% < -4 ? " + literal(type_, -4.0) + " : % > " + literal(type_, size + 4) + " ? " + literal(type_, size + 4) + " : %").c_str(),
                   {x, x, x});
        const operand whole = e.make(type_, "floor(%)", {x});
        rest_ = e.make(type_, "% - %", {x, whole});
        first_ = e.as_index(whole, 0);
        if (p.mode == ops::grid_mode::cubic) first_ = e.add(first_, -1);
    }
    int taps() const { return p.mode == ops::grid_mode::nearest ? 1 : p.mode == ops::grid_mode::linear ? 2 : 4; }
    /// The element of tap k; `inside` gets a condition where it may be none.
    index element(const index& k, operand& inside) {
        index i = e.add(first_, k);
        const std::string last = decimal(extent_ - 1);
        if (p.padding == ops::grid_padding::zeros) {
            inside = e.both(inside, e.both(e.at_least(i, 0), e.less(i, extent_)));
            return i;
        }
        if (p.padding == ops::grid_padding::border || extent_ == 1) return e.formula(("clamped<index_t>(%, " + last + ")").c_str(), {i}, extent_);
        if (p.align_corners) return e.formula(("reflected<index_t>(%, " + last + ")").c_str(), {i}, extent_);
        const index m = e.formula(("wrapped<index_t>(%, " + decimal(2 * extent_) + ")").c_str(), {i}, 2 * extent_);
        return e.formula(("% < " + decimal(extent_) + " ? % : " + decimal(2 * extent_ - 1) + " - %").c_str(), {m, m, m}, extent_);
    }
    /// The weight of tap k; empty: 1.
    operand weight(const index& k) {
        if (p.mode == ops::grid_mode::nearest) return {};
        if (p.mode == ops::grid_mode::linear) return chosen(k, {e.make(type_, "1 - %", {rest_}), rest_});
        const operand r = rest_, one = e.make(type_, "% + 1", {r}), back = e.make(type_, "1 - %", {r}), two = e.make(type_, "2 - %", {r});
        return chosen(k, {outer(one), inner(r), inner(back), outer(two)});
    }
    /// How much the weight of tap k grows with the normalised coordinate.
    operand slope(int k) {
        const double size = static_cast<double>(extent_), low = p.align_corners ? 0 : -0.5, high = p.align_corners ? size - 1 : size - 0.5;
        if (p.mode == ops::grid_mode::nearest || (p.padding == ops::grid_padding::reflection && high <= low)) return e.number(type_, 0);
        const std::string below = literal(type_, low), above = literal(type_, high), range = literal(type_, high - low),
                          pace = literal(type_, p.align_corners ? (size - 1) / 2 : size / 2);
        operand moves = known_, by = e.number(type_, p.align_corners ? (size - 1) / 2 : size / 2);
        if (p.padding == ops::grid_padding::border && p.mode != ops::grid_mode::cubic)
            moves = e.make(dtype::boolean, ("% && % > 0 && % < " + literal(type_, size - 1)).c_str(), {known_, unmoved_, unmoved_});
        if (p.padding == ops::grid_padding::reflection) {
            const operand over = e.make(type_, ("% < " + below + " ? " + below + " - % : % - " + above).c_str(), {unmoved_, unmoved_, unmoved_});
            by = e.make(type_,
                        ("% > 0 && remainder_toward_zero(%, " + literal(type_, 2 * (high - low)) + ") <= " + range + " ? -" + pace + " : " + pace).c_str(),
                        {over, over});
        } else
            moves = e.make(dtype::boolean, ("% && % >= -4 && % <= " + literal(type_, size + 4)).c_str(), {moves, unmoved_, unmoved_});
        operand d;
        const operand r = rest_;
        const char* minus = k == 0 || (p.mode == ops::grid_mode::cubic && k == 2) ? "-" : "";
        if (p.mode == ops::grid_mode::linear)
            d = by;
        else {
            minus = k >= 2 ? "-" : "";
            const operand t = k == 0 ? e.make(type_, "% + 1", {r}) : k == 1 ? r : k == 2 ? e.make(type_, "1 - %", {r}) : e.make(type_, "2 - %", {r});
            const std::string steep = k == 0 || k == 3 ? "((" + literal(type_, -2.25) + " * % + " + literal(type_, 7.5) + ") * % - 6)"
                                                       : "(" + literal(type_, 3.75) + " * % - " + literal(type_, 4.5) + ") * %";
            d = e.make(type_, ("% * (" + steep + ")").c_str(), {by, t, t});
        }
        return e.make(type_, ("% ? " + std::string(minus) + "% : 0").c_str(), {moves, d});
    }

private:
    std::string name() const { return memory_name(type_); }
    operand mirrored(const operand& x) {
        const double size = static_cast<double>(extent_), low = p.align_corners ? 0 : -0.5, high = p.align_corners ? size - 1 : size - 0.5;
        if (high <= low) return e.number(type_, low);
        const std::string below = literal(type_, low), above = literal(type_, high), twice = literal(type_, 2 * (high - low)),
                          range = literal(type_, high - low);
        const operand over =
            e.make(type_, ("remainder_toward_zero(% < " + below + " ? " + below + " - % : % - " + above + ", " + twice + ")").c_str(), {x, x, x});
        const operand in = e.make(type_, ("% <= " + range + " ? % : " + twice + " - %").c_str(), {over, over, over});
        return e.make(type_, ("% < " + below + " ? " + below + " + % : % > " + above + " ? " + above + " - % : %").c_str(), {x, in, x, in, x});
    }
    // With a = -0.75: the kernel of Keys between its first and second zero, and inside of them.
    operand outer(const operand& t) {
        return e.make(type_, ("((" + literal(type_, -0.75) + " * % + " + literal(type_, 3.75) + ") * % - 6) * % + 3").c_str(), {t, t, t});
    }
    operand inner(const operand& t) {
        return e.make(type_, ("(" + literal(type_, 1.25) + " * % - " + literal(type_, 2.25) + ") * % * % + 1").c_str(), {t, t, t});
    }
    operand chosen(const index& k, const std::vector<operand>& of) {
        if (k.known) return of[static_cast<std::size_t>(k.number)];
        const operand number = e.as_value(k);
        operand w = of.back();
        for (std::size_t i = of.size() - 1; i-- > 0;) w = e.make(type_, ("% == " + std::to_string(i) + " ? % : %").c_str(), {number, of[i], w});
        return w;
    }

    element_emitter& e;
    const ops::grid_plan& p;
    std::int64_t extent_;
    dtype type_;
    operand known_, unmoved_, rest_;
    index first_;
};

// What samples of x at a grid are computed in.
inline dtype sample_type(dtype x, dtype grid) {
    if (grid == dtype::float64 || x == dtype::float64) return dtype::float64;
    return is_float(x) || size_of(x) <= 2 ? dtype::float32 : dtype::float64;
}
// The axes of the sample whose position in the output is `at` (its channel does not matter).
inline std::vector<grid_axis> sample_axes(element_emitter& e, const ops::grid_plan& p, value_id grid, const shape& extents, const shape& x, const position& at,
                                          dtype type) {
    std::vector<grid_axis> axes;
    std::vector<int> of{0};
    for (int d = 0; d < p.spatial; ++d) of.push_back(2 + d);
    of.push_back(-1);
    const position point = with_axes(at, of);
    for (int d = 0; d < p.spatial; ++d) {
        const operand v = e.value(grid, with_axis(point, p.spatial + 1, index_of(p.spatial - 1 - d), extents.back()));
        if (!v) return {};
        axes.emplace_back(e, p, v, x[2 + d], type);
    }
    return axes;
}
// f(where in x, the weights along the axes, whether that is inside) of every tap.
template <class F>
void for_taps(std::vector<grid_axis>& axes, const position& at, const shape& x, element_emitter& e, const F& f) {
    int count = 1;
    for (grid_axis& a : axes) count *= a.taps();
    for (int t = 0; t < count; ++t) {
        position from = at;
        from.extents = x;
        operand inside;
        std::vector<int> k(axes.size());
        int rest = t;
        for (std::size_t d = axes.size(); d-- > 0; rest /= axes[d].taps()) k[d] = rest % axes[d].taps();
        for (std::size_t d = 0; d < axes.size(); ++d) from = moved_along(from, 2 + static_cast<int>(d), axes[d].element(index_of(k[d]), inside), x);
        f(from, k, inside);
        if (e.failure) return;
    }
}
inline operand product(element_emitter& e, const operand& a, const operand& b) { return !a ? b : !b ? a : e.make(a.type, "% * %", {a, b}); }

inline operand emit_grid_sample(const rule_call& r) {
    element_emitter& e = r.e;
    const shape &x = r.c.in[0].extents, &grid = r.c.in[1].extents;
    ops::grid_plan p;
    if (!ops::read_grid(r.c, p).ok()) return e.refuse("its attributes do not fit");
    const dtype from = r.c.in[0].type, type = sample_type(from, r.c.in[1].type);
    std::vector<grid_axis> axes = sample_axes(e, p, r.c.n.inputs[1], grid, x, r.at, type);
    if (axes.empty()) return {};
    operand y;
    for_taps(axes, r.at, x, e, [&](const position& at, const std::vector<int>& k, const operand& inside) {
        const operand v = e.where(inside, e.number(p.mode == ops::grid_mode::nearest ? from : type, 0),
                                  [&] { return p.mode == ops::grid_mode::nearest ? r.in(0, at) : e.convert(r.in(0, at), type); });
        operand w;
        for (std::size_t d = 0; d < axes.size(); ++d) w = product(e, w, axes[d].weight(index_of(k[d])));
        const operand term = w ? e.make(type, "% * %", {w, v}) : v;
        y = y ? e.make(type, "% + %", {y, term}) : term;
    });
    return p.mode == ops::grid_mode::nearest ? y : cast(e, y, type, is_float(from) ? compute_type(from) : from);
}

// y = theta (x, y[, z], 1), at places that are spread over [-1, 1].
inline operand emit_affine_grid(const rule_call& r) {
    element_emitter& e = r.e;
    if (!is_known(r.c, 1)) return e.refuse("its size is computed in the graph");
    const shape &o = r.at.extents, &theta = r.c.in[0].extents;
    const int d = o.rank() - 2;
    const dtype type = r.type();
    const bool corners = r.c.integer("align_corners", 0) != 0;
    const position row = with_axes(r.at, {0, d + 1, -1});
    const auto of_theta = [&](int j) { return r.in(0, with_axis(row, 2, index_of(j), theta[2])); };
    operand y = of_theta(d);
    for (int j = 0; j < d; ++j) {
        const std::int64_t m = o[d - j];
        const operand at = e.convert(e.as_value(e.axis(r.at, d - j)), type);
        const operand spread = corners && m == 1 ? e.number(type, -1)
                               : corners         ? e.make(type, ("2 * % / " + literal(type, static_cast<double>(m - 1)) + " - 1").c_str(), {at})
                                                 : e.make(type, ("(2 * % + 1) / " + literal(type, static_cast<double>(m)) + " - 1").c_str(), {at});
        y = e.make(type, "% + % * %", {y, of_theta(j), spread});
    }
    return y;
}

// dX: every pixel adds up what the samples that it was part of give it, in their order.
inline const char* generate_sampled_gradient(const kernel_query& q, const kernel_body& body, const ops::grid_plan& p, dtype type, program& made) {
    const shape &dy = q.in[0].extents, &x = q.in[1].extents, &grid = q.in[2].extents;
    const int taps = p.mode == ops::grid_mode::nearest ? 1 : p.mode == ops::grid_mode::linear ? 2 : 4;
    std::int64_t all_taps = 1;
    for (int d = 0; d < p.spatial; ++d) all_taps *= taps;
    shape points{x[0]}, pixels{x[0]}, lead;
    for (int d = 2; d < x.rank(); ++d) points.push_back(dy[d]), pixels.push_back(x[d]);
    lead = points;
    lead.push_back(all_taps);
    const std::int64_t count = checked_mul(points.elements(), all_taps), rows = pixels.elements();
    const updates sized{count, rows, {}, "", x[0]};
    if (count < 0 || count > most_rows || !sized.fit() || rows > most_rows || x.elements() > std::int64_t(1) << 38)
        return "more samples or pixels than are counted";
    made.source = std::string("namespace graft {\n") + index_definition(4 * std::max({most_sorted, x.elements(), dy.elements(), grid.elements()}));

    // The sample of number u, in a position whose channel is `channel`; and its tap's number along axis d.
    const auto sample = [&](element_emitter& e, const index& u, const index& channel) {
        const position split = walk(lead, layout::row_major, u);
        std::vector<index> axes{e.axis(split, 0), channel};
        for (int d = 2; d < dy.rank(); ++d) axes.push_back(e.axis(split, d - 1));
        return at_axes(dy, axes);
    };
    const auto tap = [&](element_emitter& e, const index& u, int d) {
        index k = e.remainder(u, all_taps);
        for (int i = p.spatial - 1; i > d; --i) k = e.divide(k, taps);
        return e.remainder(k, taps);
    };
    std::vector<workspace_parameter> workspace;
    if (count) {
        element_emitter e(body, 1);
        const index u = e.counter("u", count, level::thread);
        const position at = sample(e, u, index());
        std::vector<grid_axis> axes = sample_axes(e, p, body.inputs[2], grid, x, at, type);
        if (axes.empty()) return e.failure;
        operand inside;
        std::string row = "(long long)" + e.axis(at, 0).text;
        for (int d = 0; d < p.spatial; ++d)
            row = "(" + row + ") * " + decimal(x[2 + d]) + " + " + axes[static_cast<std::size_t>(d)].element(tap(e, u, d), inside).text;
        if (e.failure) return e.failure;
        const std::string text = e.text(level::thread) + "    const long long row = " + (inside ? inside.text + " ? " + row + " : -1ll" : row) + ";\n";
        workspace = add_sorted_updates(q, made, {count, rows, e.parameters(), text, x[0]});  // each picture's by themselves
    }

    std::uint32_t of_pixel = 1;
    for (int d = 2; d < x.rank(); ++d) of_pixel |= 1u << d;
    row_kernel k(q, body, of_pixel, size_of(q.out[0].type));
    std::string text = std::string("    ") + memory_name(type) + " s[" + decimal(k.lanes) + "] = {};\n";
    if (count) {
        const index one = k.e.counter("u", count, level::pack);
        const position from = sample(k.e, one, k.e.axis(k.at, 1));
        std::vector<grid_axis> own = sample_axes(k.e, p, body.inputs[2], grid, x, from, type);
        if (own.empty()) return k.e.failure;
        operand w;
        for (int d = 0; d < p.spatial; ++d) w = product(k.e, w, own[static_cast<std::size_t>(d)].weight(tap(k.e, one, d)));
        const operand v = k.e.convert(k.e.value(body.inputs[0], from), type);
        const fillings names = {{"row", k.row.text},
                                {"count", decimal(sized.items())},
                                {"take", k.e.text(level::pack) + k.each("s[lane] += " + (w ? w.text + " * " : std::string()) + v.text + ";")}};
        text += fill(R"cuda(    for (int p = first[$row]; p >= 0 && p < $count; ++p) {
        const item one = items[p];
        if (key_of(one) != (sort_key)$row) break;
        const index_t u = (index_t)number_of(one);
$take    }
)cuda",
                     names);
    }
    if (k.e.failure) return k.e.failure;
    k.finish(made, text, workspace);
    made.source += "}  // namespace graft\n";
    return nullptr;
}

// dgrid: sums over the channels of dY * X * the slope of the weight, one for each axis.
class grid_slopes : public reduction {
public:
    inline grid_slopes(const kernel_query& query, const ops::grid_plan& how, dtype computed) : reduction(query), plan(how), type(computed) {
        axes = 2;
        extents = q.in[0].extents;
        order = q.in_layout[0];
        bytes = size_of(q.in[0].type);
        finished = {1};
        static constexpr const char* names[] = {"sum0", "sum1", "sum2"};
        for (int d = 0; d < plan.spatial; ++d) {
            by.fields.push_back({names[d], type, "0"});
            by.elements.push_back(type);
            by.take += std::string("s.") + names[d] + " += x" + decimal(d) + ";\n    ";
            by.merge += std::string("a.") + names[d] + " += b." + names[d] + ";\n    ";
        }
    }
    inline std::vector<operand> elements(element_emitter& e, const position& at, const position&) const override {
        const shape& x = q.in[1].extents;
        std::vector<operand> sums(by.fields.size());
        std::vector<grid_axis> along = sample_axes(e, plan, inputs[2], q.in[2].extents, x, at, type);
        if (along.empty()) return sums;
        const operand dy = e.convert(in(e, 0, at), type);
        for_taps(along, at, x, e, [&](const position& from, const std::vector<int>& k, const operand& inside) {
            const operand v = e.where(inside, e.number(type, 0), [&] { return e.convert(in(e, 1, from), type); });
            for (std::size_t d = 0; d < along.size(); ++d) {
                operand w = along[d].slope(k[d]);
                for (std::size_t other = 0; other < along.size(); ++other)
                    if (other != d) w = product(e, w, along[other].weight(index_of(k[other])));
                const operand term = e.make(type, "% * %", {w, v});
                sums[d] = sums[d] ? e.make(type, "% + %", {sums[d], term}) : term;
            }
        });
        for (operand& s : sums) s = e.make(type, "% * %", {s, dy});
        return sums;
    }
    inline std::vector<operand> finish(element_emitter&, const std::vector<operand>& s, const position& at,
                                       std::vector<reduction_result>& results) const override {
        std::vector<int> of{0};
        for (int d = 0; d < plan.spatial; ++d) of.push_back(2 + d);
        of.push_back(-1);
        for (int d = 0; d < plan.spatial; ++d)
            results.push_back(
                {1, s[static_cast<std::size_t>(d)], with_axis(with_axes(at, of), plan.spatial + 1, index_of(plan.spatial - 1 - d), plan.spatial)});
        return {};
    }
    const ops::grid_plan& plan;
    dtype type;
};

inline const char* generate_grid_sample_grad(const kernel_query& q, program& p) {
    const op_context forward{q.n, q.in + 1, 2, nullptr, 0, q.limit};
    ops::grid_plan plan;
    kernel_body body;
    if (!ops::read_grid(forward, plan).ok()) return "its attributes do not fit";
    if (const char* why = read_body(q, body)) return why;
    const dtype type = sample_type(q.in[1].type, q.in[2].type);
    if (q.wants(0) && q.out[0].type != dtype::undefined && q.out[0].elements())
        if (const char* why = generate_sampled_gradient(q, body, plan, type, p)) return why;
    if (q.wants(1) && q.out[1].type != dtype::undefined && q.out[1].elements()) {
        grid_slopes slopes(q, plan, type);
        program other;
        if (const char* why = slopes.begin(nullptr)) return why;
        if (const char* why = generate_reduction(slopes, other)) return why;
        const std::string wide = "typedef long long index_t";
        if (!p.source.empty() && (p.source.find(wide) == std::string::npos) != (other.source.find(wide) == std::string::npos))
            return "more elements than its two kernels count alike";
        const std::string open = "namespace graft {\n", close = "}  // namespace graft\n";
        if (!p.source.empty()) {  // both in one namespace
            p.source.resize(p.source.size() - close.size());
            other.source.erase(0, open.size());
        }
        p.source += other.source;
        for (launch& l : other.launches) p.launches.push_back(std::move(l));
        p.workspace_bytes = std::max(p.workspace_bytes, other.workspace_bytes);  // one after the other
    }
    p.note = "samples sorted by pixel";
    return nullptr;
}

}  // namespace detail

GRAFT_INLINE rule_table grid_rules() {
    static constexpr element_rule rows[] = {
        {"GridSample", "", element_rule::several, detail::emit_grid_sample, ""},
        {"AffineGrid", "", element_rule::several, detail::emit_affine_grid, ""},
    };
    return rows;
}
GRAFT_INLINE generated_table grid_rows() {
    static constexpr generated_row rows[] = {{"GridSampleGrad", "graft", detail::generate_grid_sample_grad}};
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
