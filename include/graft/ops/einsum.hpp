// Einsum: sums of products over named axes, operands contracted from left to right.
#pragma once

#include "gradient_common.hpp"
#include "window.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// A tensor whose axes have names: letters as themselves, axes of an ellipsis as 128 + their place from the right.
struct einsum_term {
    static constexpr int max_axes = 72;  // 52 letters and the axes of an ellipsis
    int rank = 0;
    std::uint8_t name[max_axes] = {};
    std::int64_t stride[max_axes] = {};

    int find(std::uint8_t label) const noexcept {
        for (int i = 0; i < rank; ++i)
            if (name[i] == label) return i;
        return -1;
    }
    /// Step for one more along `label`, over all axes of that name: a repeated name walks the diagonal.
    std::int64_t step(std::uint8_t label) const noexcept {
        std::int64_t n = 0;
        for (int i = 0; i < rank; ++i)
            if (name[i] == label) n += stride[i];
        return n;
    }
    void push(std::uint8_t label) noexcept {
        if (rank < max_axes) name[rank++] = label;
    }
};

/// A parsed equation: the terms, the output, and the extent of every name.
struct einsum_plan {
    std::vector<einsum_term> terms;
    einsum_term output;
    std::int64_t extent[256] = {};
    shape result;
};

/// Reads one term of the left side up to ',' or '>' or the end, against the shape of its operand.
GRAFT_NOINLINE inline status parse_einsum_term(const op_context& c, const char*& at, const shape& x, einsum_plan& p, bool (&present)[256]) {
    einsum_term t;
    int letters = 0, ellipses = 0;
    for (const char* s = at; *s && *s != ',' && *s != '-'; ++s) letters += (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z');
    const int covered = x.rank() - letters;
    if (covered < 0) return c.fail_shapes("an operand has fewer dimensions than the equation names");
    for (; *at && *at != ',' && *at != '-'; ++at) {
        if (*at == ' ') continue;
        if (*at == '.') {
            if (at[1] != '.' || at[2] != '.' || ellipses++) return c.fail(errc::op_attribute, "the equation has a '.' that is no single ellipsis");
            for (int i = 0; i < covered; ++i) t.push(static_cast<std::uint8_t>(128 + covered - 1 - i));
            at += 2;
        } else if ((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z'))
            t.push(static_cast<std::uint8_t>(*at));
        else
            return c.fail(errc::op_attribute, "the equation holds character %lld, which is neither a letter nor an ellipsis", *at);
    }
    if (t.rank != x.rank()) return c.fail_shapes("an operand has more dimensions than the equation names");
    std::int64_t step = 1;
    for (int i = t.rank - 1; i >= 0; --i) {
        std::int64_t& extent = p.extent[t.name[i]];
        if (!present[t.name[i]] || extent == 1)
            extent = x[i];
        else if (x[i] != 1 && x[i] != extent)
            return c.fail_shapes("an axis of the equation has different extents");
        present[t.name[i]] = true;
        t.stride[i] = x[i] == 1 ? 0 : step;
        step = std::max<std::int64_t>(checked_mul(step, x[i]), 0);
    }
    p.terms.push_back(t);
    return {};
}

/// Parses the equation against the operands' shapes.
GRAFT_NOINLINE inline status plan_einsum(const op_context& c, einsum_plan& p) {
    const char* at = c.string("equation", "");
    bool present[256] = {};
    int count[256] = {};
    for (int i = 0; i < c.inputs; ++i) {
        GRAFT_TRY(parse_einsum_term(c, at, c.in[i].extents, p, present));
        for (int k = 0; k < p.terms.back().rank; ++k) ++count[p.terms.back().name[k]];
        if ((*at == ',') != (i + 1 < c.inputs))
            return c.fail(errc::op_attribute, "the equation does not have as many terms as there are inputs, %lld", c.inputs);
        if (*at == ',') ++at;
    }
    if (*at) {  // explicit output
        if (at[1] != '>') return c.fail(errc::op_attribute, "the equation has a '-' that is not part of '->'");
        for (at += 2; *at; ++at) {
            if (*at == ' ') continue;
            if (*at == '.' && at[1] == '.' && at[2] == '.') {
                for (int i = 255; i >= 128; --i)
                    if (present[i]) p.output.push(static_cast<std::uint8_t>(i));
                at += 2;
                continue;
            }
            const auto label = static_cast<std::uint8_t>(*at);
            if (label >= 128 || !present[label] || p.output.find(label) >= 0)
                return c.fail(errc::op_attribute, "the output of the equation names character %lld, which no input has or which comes twice", *at);
            p.output.push(label);
        }
    } else {
        for (int i = 255; i >= 128; --i)
            if (present[i]) p.output.push(static_cast<std::uint8_t>(i));
        for (int i = 0; i < 128; ++i)
            if (count[i] == 1) p.output.push(static_cast<std::uint8_t>(i));
    }
    if (p.output.rank > shape::max_rank) return c.fail(errc::op_unsupported, "an output of %lld dimensions", p.output.rank);
    for (int i = 0; i < p.output.rank; ++i) p.result.push_back(p.extent[p.output.name[i]]);
    return {};
}

/// The axes of one contraction: first those kept, in the result's order, then those summed over.
struct einsum_loop {
    int kept = 0, axes = 0;
    std::int64_t extent[2 * einsum_term::max_axes], step_a[2 * einsum_term::max_axes], step_b[2 * einsum_term::max_axes];

    void add(std::int64_t n, std::int64_t a, std::int64_t b) noexcept {
        extent[axes] = n;
        step_a[axes] = a;
        step_b[axes++] = b;
    }
};

/// result[i] = sum over the summed axes of a * b (or of a alone where b is null), for `count` results from `first` on.
template <class T>
GRAFT_NOINLINE void contract_run(const einsum_loop& loop, const T* a, const T* b, std::int64_t first, std::int64_t count, T* result) {
    std::int64_t index[2 * einsum_term::max_axes] = {};
    const T one = T(1);
    std::int64_t rest = first, at_a = 0, at_b = 0;
    for (int i = loop.kept - 1; i >= 0; --i) {
        index[i] = rest % loop.extent[i];
        rest /= loop.extent[i];
        at_a += index[i] * loop.step_a[i];
        at_b += index[i] * loop.step_b[i];
    }
    const int inner = loop.axes - 1;
    const bool sums = inner >= loop.kept;
    const std::int64_t n = sums ? loop.extent[inner] : 1, inner_a = sums ? loop.step_a[inner] : 0, inner_b = sums && b ? loop.step_b[inner] : 0;
    const int outer = sums ? inner : loop.axes;  // the axes before this one are stepped by the odometer
    for (std::int64_t r = 0; r < count; ++r) {
        T sum = T(0);
        for (;;) {
            const T *x = a + at_a, *y = b ? b + at_b : &one;
            for (std::int64_t i = 0; i < n; ++i) sum += x[i * inner_a] * y[i * inner_b];
            int i = outer - 1;
            for (; i >= loop.kept; --i) {
                at_a += loop.step_a[i];
                at_b += loop.step_b[i];
                if (++index[i] < loop.extent[i]) break;
                at_a -= loop.step_a[i] * loop.extent[i];
                at_b -= loop.step_b[i] * loop.extent[i];
                index[i] = 0;
            }
            if (i < loop.kept) break;
        }
        result[first + r] = sum;
        for (int i = loop.kept - 1; i >= 0; --i) {
            at_a += loop.step_a[i];
            at_b += loop.step_b[i];
            if (++index[i] < loop.extent[i]) break;
            at_a -= loop.step_a[i] * loop.extent[i];
            at_b -= loop.step_b[i] * loop.extent[i];
            index[i] = 0;
        }
    }
}

/// Contracts `a` with `b` (which may be absent), keeping the names of `keep` that either has; the result becomes `out`.
template <class T>
GRAFT_NOINLINE status contract(const run_context& c, const einsum_plan& p, const einsum_term& a, const T* a_data, const einsum_term* b, const T* b_data,
                               const einsum_term& keep, einsum_term& out, widened<T>& result) {
    einsum_loop loop;
    out = {};
    bool summed[256] = {}, empty = false;
    std::int64_t elements = 1;
    for (int i = 0; i < keep.rank; ++i) {
        const std::uint8_t label = keep.name[i];
        if (a.find(label) < 0 && (!b || b->find(label) < 0)) continue;
        loop.add(p.extent[label], a.step(label), b ? b->step(label) : 0);
        summed[label] = true;
        out.push(label);
        empty = empty || p.extent[label] == 0;
    }
    if (empty)
        elements = 0;
    else
        for (int i = 0; i < loop.axes; ++i)
            if (elements >= 0) elements = checked_mul(elements, loop.extent[i]);
    loop.kept = loop.axes;
    for (const einsum_term* t : {&a, b})
        for (int i = 0; t && i < t->rank; ++i) {
            const std::uint8_t label = t->name[i];
            if (summed[label]) continue;
            summed[label] = true;
            empty = empty || p.extent[label] == 0;
            loop.add(p.extent[label], a.step(label), b ? b->step(label) : 0);
        }
    std::int64_t step = 1;
    for (int i = out.rank - 1; i >= 0; --i) {
        out.stride[i] = p.extent[out.name[i]] == 1 ? 0 : step;
        step = std::max<std::int64_t>(checked_mul(step, p.extent[out.name[i]]), 0);
    }
    T* data = nullptr;
    buffer memory;
    GRAFT_TRY(scratch_of(c, elements, memory, data));
    if (empty) {
        std::fill(data, data + elements, T(0));
    } else {
        constexpr std::int64_t block = 1024;
        parallel_for(c.pool, (elements + block - 1) / block,
                     [&](std::int64_t i) { contract_run(loop, a_data, b_data, i * block, std::min(block, elements - i * block), data); });
    }
    result.memory = std::move(memory);  // what was there before may have been an operand
    result.data = data;
    return {};
}

/// The names that must survive the first `done` operands: those of later operands and of the output, in the output's order first.
inline einsum_term names_after(const einsum_plan& p, std::size_t done) noexcept {
    einsum_term keep = p.output;
    for (std::size_t k = done; k < p.terms.size(); ++k)
        for (int i = 0; i < p.terms[k].rank; ++i)
            if (keep.find(p.terms[k].name[i]) < 0) keep.push(p.terms[k].name[i]);
    return keep;
}

// Einsum-12,28: the products of all operands, summed over the names that the output lacks
inline status einsum_infer(infer_context& c) {
    einsum_plan p;
    if (c.inputs < 1) return c.fail(errc::op_attribute, "an input is needed");
    if (!is_integer(c.in[0].type)) GRAFT_TRY(check_real(c, 0));
    for (int i = 0; i < c.inputs; ++i) {
        if (!c.has(i)) return c.fail(errc::op_attribute, "input %lld is missing", i);
        GRAFT_TRY(check_same_type(c, i, 0));
    }
    GRAFT_TRY(plan_einsum(c, p));
    return c.set(0, c.in[0].type, p.result);
}
template <class T>
inline status einsum_run_as(run_context& c, const einsum_plan& p) {
    einsum_term left, own, next;
    widened<T> sum, operand, reduced;
    for (std::size_t i = 0; i < p.terms.size(); ++i) {
        operand = {};
        GRAFT_TRY(widen(c, c.in[i], operand));
        // Names that nobody else has are summed out of an operand before it is multiplied.
        einsum_term keep = names_after(p, i + 1);
        for (int k = 0; k < left.rank; ++k)
            if (keep.find(left.name[k]) < 0) keep.push(left.name[k]);
        GRAFT_TRY(contract<T>(c, p, p.terms[i], operand.data, nullptr, nullptr, i ? keep : names_after(p, 1), own, reduced));
        if (i == 0) {
            left = own;
            std::swap(sum, reduced);
            continue;
        }
        widened<T> product;
        GRAFT_TRY(contract<T>(c, p, left, sum.data, &own, reduced.data, names_after(p, i + 1), next, product));
        left = next;
        std::swap(sum, product);
    }
    store_widened(c.out[0].type, c.out[0].data, 0, c.out[0].elements(), sum.data);
    return {};
}
inline status einsum_run(run_context& c) {
    einsum_plan p;
    if (is_empty(c.out[0])) return {};
    GRAFT_TRY(plan_einsum(c, p));
    return is_float(c.in[0].type) ? einsum_run_as<double>(c, p) : einsum_run_as<std::uint64_t>(c, p);
}

// Each name of the equation as a letter, those of an ellipsis as letters that nobody else has.
struct einsum_letters {
    char of[256] = {};
    explicit einsum_letters(const einsum_plan& p) {
        bool used[128] = {};
        for (const einsum_term& t : p.terms)
            for (int i = 0; i < t.rank; ++i)
                if (t.name[i] < 128) used[t.name[i]] = true, of[t.name[i]] = static_cast<char>(t.name[i]);
        const char* spare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        for (const einsum_term& t : p.terms)
            for (int i = 0; i < t.rank; ++i) {
                if (of[t.name[i]]) continue;
                while (*spare && used[static_cast<unsigned char>(*spare)]) ++spare;
                if (*spare) of[t.name[i]] = *spare++;
            }
    }
    /// The letters of a term; of those names only that `only` has, where there is one.
    std::string term(const einsum_term& t, const bool* only = nullptr) const {
        std::string text;
        for (int i = 0; i < t.rank; ++i)
            if (!only || only[t.name[i]]) text += of[t.name[i]];
        return text;
    }
};
// dX is the sum of products of dY and all other operands that keeps X's names; names that only X has are broadcast.
inline status einsum_gradient_of(gradient_context& c, const einsum_plan& p, const einsum_letters& letters, int i) {
    const einsum_term& own = p.terms[static_cast<std::size_t>(i)];
    bool known[256] = {};
    for (int k = 0; k < p.output.rank; ++k) known[p.output.name[k]] = true;
    std::string equation = letters.term(p.output);
    std::vector<value_id> operands{c.dy()};
    for (int k = 0; k < static_cast<int>(p.terms.size()); ++k) {
        if (k == i) continue;
        const einsum_term& other = p.terms[static_cast<std::size_t>(k)];
        for (int d = 0; d < other.rank; ++d) known[other.name[d]] = true;
        equation += "," + letters.term(other);
        operands.push_back(c.in(k));
    }
    const shape x = c.extents(c.in(i));
    shape full, apart, thin;  // of x's names: as the equation has them; with 1 for those that nobody else has; as the operand makes them
    for (int d = 0; d < own.rank; ++d) {
        if (own.find(own.name[d]) != d) return c.refuse("an operand of its equation names an axis twice: freeze what lies before it");
        if (!letters.of[own.name[d]]) return c.refuse("its equation has more axes than letters: freeze what lies before it");
        const std::int64_t extent = p.extent[own.name[d]];
        full.push_back(extent);
        apart.push_back(known[own.name[d]] ? extent : 1);
        if (known[own.name[d]]) thin.push_back(extent);
    }
    equation += "->" + letters.term(own, known);
    value_id g = c.build.apply("Einsum", std::move(operands), {string_attribute("equation", equation)});
    // Where every other operand and dY has the extent 1, so has the result, while the equation says more.
    if (c.build.failure.ok() && c.extents(g) != thin) g = expanded(c, g, thin);
    c.give(i, c.sum_to(expanded(c, c.build.reshape(g, apart), full), x));
    return {};
}
inline status einsum_gradient(gradient_context& c) {
    std::vector<tensor_view> in;
    einsum_plan p;
    GRAFT_TRY(plan_einsum(forward_context(c, in), p));
    const einsum_letters letters(p);
    for (int i = 0; i < static_cast<int>(p.terms.size()); ++i)
        if (c.wants(i)) GRAFT_TRY(einsum_gradient_of(c, p, letters, i));
    return {};
}

// How they carry a batch: see batch_rules.hpp.
inline GRAFT_COLD bool carry_einsum(batch_carrier& c) {
    std::vector<tensor_view> in(c.n.inputs.size());
    for (int i = 0; i < c.inputs(); ++i) in[static_cast<std::size_t>(i)] = {c.value_in(i).type, c.extents(i), nullptr};
    tensor_view made;
    const limits none;
    const op_context context{c.n, in.data(), c.inputs(), &made, 1, none};
    einsum_plan plan;
    if (!plan_einsum(context, plan).ok()) return c.conflict("its equation is not legal");
    int label = -1;
    batch_axis where;
    std::int64_t extent = 0;
    const auto name = [&](int i) { return static_cast<int>(plan.terms[static_cast<std::size_t>(i)].name[c.state(i).axis]); };
    for (int i = 0; i < c.inputs(); ++i) {
        if (!c.carries(i)) continue;
        if (label < 0) label = name(i), where = c.state(i), extent = c.extent(i);
        if (name(i) != label || c.state(i).outer != where.outer || c.extent(i) != extent) return c.conflict("its inputs hold the samples along different axes");
    }
    for (int i = 0; i < c.inputs(); ++i) {
        const einsum_term& term = plan.terms[static_cast<std::size_t>(i)];
        int times = 0;
        for (int a = 0; a < term.rank; ++a) times += term.name[a] == label;
        if (times > 1) return c.conflict("it takes a diagonal of the samples");
        const int axis = term.find(static_cast<std::uint8_t>(label));
        if (!c.carries(i) && axis >= 0 && !c.fits_beside(i, axis, extent, where.outer)) return false;
    }
    const int axis = plan.output.find(static_cast<std::uint8_t>(label));
    if (axis < 0) return c.conflict("it sums over the samples");
    return c.answer(0, {axis, where.outer});
}

inline op_table einsum_ops() {
    static constexpr op_row rows[] = {
        onnx("Einsum")
            .opsets(12)
            .inputs_from(1)
            .functions(einsum_infer, einsum_run)
            .carries(carry_einsum)
            .combines()
            .plays(op_role::product)
            .weights_from(0)
            .attributes("equation:s")
            .problems("f32[3,4] f32[4,5] equation=ij,jk->ik; f32[2,3,4] f32[2,4,5] equation=...ij,...jk; f32[4,4] equation=ii->i; f32[5] "
                      "f32[7] equation=i,j; "
                      "f32[2,3] f32[3,4] f32[4,5] equation=ab,bc,cd->da; i32[3,4] equation=ij->; f32[0,4] f32[4,3] equation=ij,jk->ik"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline gradient_table einsum_gradients() {
    static constexpr gradient_row rows[] = {{"Einsum", "", einsum_gradient}};
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
