// Einsum as products of matrices, operand by operand.
#pragma once

#include "../lower/decompose.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// Einsum of ops/einsum.hpp. Two operands become one batched product of matrices, or a product of elements and a sum where there is
/// nothing to multiply by rows and columns; integers are taken in the latter form alone: a matrix by a vector at most.
decomposition_table einsum_decompositions();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../ops/einsum.hpp"

#include <algorithm>
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

/// A value whose axes have names, none twice. Axes of the extent 1 are left out: they say nothing.
struct named_value {
    value_id x = no_value;
    std::string names;

    bool has(char name) const { return names.find(name) != std::string::npos; }
};

class einsum_writer {
public:
    inline explicit einsum_writer(decomposition& to) : d(to), e(to.build), c(to.c) {}

    inline const char* write() {
        if (!ops::plan_einsum(c, p).ok()) return "its equation does not fit its inputs";
        if (d.any_empty()) return "it is empty";
        named_value left;
        for (std::size_t i = 0; i < p.terms.size(); ++i) {
            named_value right;
            if (const char* why = read(i, right)) return why;
            keep_ = ops::names_after(p, i + 1);
            if (i == 0)
                left = summed(right, {});
            else {
                const named_value a = summed(left, right), b = summed(right, left);
                if (const char* why = contract(a, b, left)) return why;
            }
        }
        std::string wanted;
        for (int i = 0; i < p.output.rank; ++i)
            if (p.extent[p.output.name[i]] > 1) wanted += static_cast<char>(p.output.name[i]);
        d.out[0] = e.reshape(ordered(left, wanted).x, p.result);
        return nullptr;
    }

private:
    inline std::int64_t extent(char name) const { return p.extent[static_cast<std::uint8_t>(name)]; }
    inline std::int64_t extent(const std::string& names) const {
        std::int64_t n = 1;
        for (char name : names) n = checked_mul(n, extent(name));
        return n;
    }
    inline shape extents(const std::string& names) const {
        shape s;
        for (char name : names) s.push_back(extent(name));
        return s;
    }
    inline bool stays(char name) const { return keep_.find(static_cast<std::uint8_t>(name)) >= 0; }

    // Operand i. Of axes with one name the diagonal is taken: with both last and joined, every (n + 1)th element.
    inline const char* read(std::size_t i, named_value& v) {
        v.x = d.in[i];
        const shape& x = c.in[i].extents;
        for (int k = 0; k < x.rank(); ++k)
            if (x[k] > 1) v.names += static_cast<char>(p.terms[i].name[k]);
        if (v.names.size() > static_cast<std::size_t>(shape::max_rank)) return "it has too many axes";
        v.x = e.reshape(v.x, extents(v.names));
        for (std::size_t k = 0; k < v.names.size();) {
            const std::size_t twin = v.names.find(v.names[k], k + 1);
            if (twin == std::string::npos) {
                ++k;
                continue;
            }
            const char name = v.names[k];
            std::string rest;
            std::vector<std::int64_t> perm;
            for (std::size_t j = 0; j < v.names.size(); ++j)
                if (j != k && j != twin) perm.push_back(static_cast<std::int64_t>(j)), rest += v.names[j];
            perm.push_back(static_cast<std::int64_t>(k));
            perm.push_back(static_cast<std::int64_t>(twin));
            const std::int64_t n = extent(name), axis = static_cast<std::int64_t>(rest.size());
            shape joined = extents(rest);
            joined.push_back(n * n);
            v.x = e.reshape(d.transpose(v.x, perm), joined);
            v.x = e.apply("Slice", {v.x, e.integers({0}), e.integers({n * n}), e.integers({axis}), e.integers({n + 1})});
            v.names = rest + name;
            k = 0;
        }
        return nullptr;
    }
    // Names that nobody else has are summed out.
    inline named_value summed(const named_value& v, const named_value& other) {
        named_value y;
        std::vector<std::int64_t> axes;
        for (std::size_t k = 0; k < v.names.size(); ++k)
            if (stays(v.names[k]) || other.has(v.names[k]))
                y.names += v.names[k];
            else
                axes.push_back(static_cast<std::int64_t>(k));
        y.x = axes.empty() ? v.x : d.sum(v.x, axes, false);
        return y;
    }
    // The same with its axes in another order.
    inline named_value ordered(const named_value& v, const std::string& names) {
        std::vector<std::int64_t> perm;
        for (char name : names) perm.push_back(static_cast<std::int64_t>(v.names.find(name)));
        return {v.names == names ? v.x : d.transpose(v.x, perm), names};
    }

    inline const char* contract(const named_value& a, const named_value& b, named_value& y) {
        std::string batch, rows, columns, inner;
        for (char name : a.names) (b.has(name) ? (stays(name) ? batch : inner) : rows) += name;
        for (char name : b.names)
            if (!a.has(name)) columns += name;
        y.names = batch + rows + columns;
        if (y.names.size() + inner.size() > static_cast<std::size_t>(shape::max_rank)) return "it has too many axes";
        const std::int64_t n = extent(batch), m = extent(rows), k = extent(inner), w = extent(columns);
        if (checked_mul(checked_mul(n, m), w) < 0) return "its sizes overflow";
        const bool line_by_line = (rows.empty() || columns.empty()) && (rows == columns || !is_float(c.in[0].type));  // equal: neither has any
        if (inner.empty() || line_by_line) {
            const value_id x = e.reshape(ordered(a, batch + rows + inner).x, {n, m, 1, k}), z = e.reshape(ordered(b, batch + columns + inner).x, {n, 1, w, k});
            const dtype type = c.in[0].type, sums = inner.empty() || (type != dtype::float16 && type != dtype::bfloat16) ? type : dtype::float32;
            value_id both = e.mul(d.cast(x, sums), d.cast(z, sums));
            if (!inner.empty()) both = d.sum(both, {3}, false);
            y.x = e.reshape(d.cast(both, type), extents(y.names));
            return nullptr;
        }
        // Factors that lie right for the library but for the order within their matrices stay where they are.
        const bool trans_a = a.names == batch + inner + rows && !rows.empty(), trans_b = b.names != batch + inner + columns;
        const value_id x = e.reshape(trans_a ? a.x : ordered(a, batch + rows + inner).x, trans_a ? shape{n, k, m} : shape{n, m, k});
        const value_id z = e.reshape(trans_b ? ordered(b, batch + columns + inner).x : b.x, trans_b ? shape{n, w, k} : shape{n, k, w});
        y.x = e.reshape(d.product(x, trans_a, z, trans_b, c.in[0].type), extents(y.names));
        return nullptr;
    }

    decomposition& d;
    emitter& e;
    const op_context& c;
    ops::einsum_plan p;
    ops::einsum_term keep_;  // the names that the output or a later operand has
};
inline const char* decompose_einsum(decomposition& d) { return einsum_writer(d).write(); }

}  // namespace detail

GRAFT_INLINE decomposition_table einsum_decompositions() {
    static constexpr decomposition_row rows[] = {{"Einsum", "", detail::decompose_einsum, false}};
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
