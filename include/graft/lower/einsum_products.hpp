// Einsum of two operands as a product of matrices.
#pragma once

#include "../ops/einsum.hpp"
#include "view_writer.hpp"

#include <utility>

GRAFT_BEGIN_NAMESPACE
namespace detail {

//   Einsum(a, b)    Transpose(Reshape(MatMul(Reshape(Transpose(a)), Reshape(Transpose(b)))))
// Names that both operands and the result have count products, what only an operand and the result have are its rows or columns, and what both operands
// alone have is summed over. Equations with other names (a diagonal, a sum over one operand), and those that sum nothing, keep their kernel.
class einsum_products : public view_writer {
public:
    einsum_products(graph& target, const lowering& with) : view_writer(target, with.on), with_(with) {}

    // Errors: memory.oom.
    GRAFT_COLD status run() {
        static constexpr rewrite<einsum_products> rows[] = {{"Einsum", "", &einsum_products::product}};
        sweep(*this, rows);
        return std::move(failure_);
    }

private:
    struct operand {
        value_id x = no_value;
        std::string names;  // of its axes

        bool has(char name) const { return names.find(name) != std::string::npos; }
    };

    GRAFT_COLD void product(node& n) {
        if (n.inputs.size() != 2 || !is_float32(n.inputs[0]) || !is_float32(n.inputs[1]) || !used_at_all(n.outputs[0])) return;
        const tensor_view in[] = {view_at_hand(at(n.inputs[0])), view_at_hand(at(n.inputs[1]))};
        const op_context c{n, in, 2, nullptr, 0, with_.limit};
        ops::einsum_plan p;
        operand a, b, y;
        if (!ops::plan_einsum(c, p).ok() || !read(n, p, 0, a) || !read(n, p, 1, b) || p.result.elements() == 0) return;
        std::string batch, rows, columns, inner;
        for (int i = 0; i < p.output.rank; ++i) y.names += static_cast<char>(p.output.name[i]);
        for (char name : y.names) (!a.has(name) ? columns : b.has(name) ? batch : rows) += name;
        for (char name : a.names)
            if (!y.has(name)) {
                if (!b.has(name)) return;
                inner += name;
            }
        for (char name : b.names)
            if (!y.has(name) && !a.has(name)) return;
        if (inner.empty() || (rows.empty() && columns.empty())) return;
        // The one whose axes come first in the result has the rows.
        if (!columns.empty() && (rows.empty() || y.names.find(columns[0]) < y.names.find(rows[0]))) std::swap(a, b), std::swap(rows, columns);

        const bool single = batch.empty(), lies_turned = b.names == batch + columns + inner;
        const std::int64_t count = extent(p, batch), m = extent(p, rows), k = extent(p, inner), w = extent(p, columns);
        const auto matrices = [&](std::int64_t height, std::int64_t width) { return single ? shape{height, width} : shape{count, height, width}; };
        const value_id left = reshaped(n, ordered(n, a, batch + rows + inner), matrices(m, k), "_rows");
        value_id right = reshaped(n, ordered(n, b, lies_turned ? b.names : batch + inner + columns), lies_turned ? matrices(w, k) : matrices(k, w), "_columns");
        if (lies_turned) right = transposed(n, right, single ? std::vector<std::int64_t>{1, 0} : std::vector<std::int64_t>{0, 2, 1}, "_turned");
        node multiply;
        become(multiply, "MatMul", "");
        multiply.name = n.name;
        multiply.multiply_adds = n.multiply_adds;
        multiply.inputs = {left, right};
        multiply.outputs = {made(n.outputs[0], matrices(m, w), "_products")};
        const value_id products = put_before(n, std::move(multiply));
        const std::string wanted = std::exchange(y.names, batch + rows + columns);
        const bool turns = y.names != wanted;
        if (turns) y.x = reshaped(n, products, extents(p, y.names), "_axes");
        const value_id told = turns ? no_value : extents_of(n, p.result);
        edit(n, [&] {
            become(n, turns ? "Transpose" : "Reshape", "");
            n.inputs = turns ? std::vector<value_id>{y.x} : std::vector<value_id>{products, told};
            n.attributes.clear();
            if (turns) n.attributes = {integers_attribute("perm", places(y, wanted))};
            n.multiply_adds = 0;
        });
    }
    // False where an axis has the name of another, or is of one element where others of that name are longer.
    GRAFT_COLD bool read(const node& n, const ops::einsum_plan& p, std::size_t i, operand& v) {
        v.x = n.inputs[i];
        const ops::einsum_term& t = p.terms[i];
        for (int k = 0; k < t.rank; ++k) {
            if (t.find(t.name[k]) != k || at(v.x).extents[k] != p.extent[t.name[k]]) return false;
            v.names += static_cast<char>(t.name[k]);
        }
        return true;
    }
    static std::int64_t extent(const ops::einsum_plan& p, const std::string& names) { return extents(p, names).elements(); }
    GRAFT_COLD static shape extents(const ops::einsum_plan& p, const std::string& names) {
        shape s;
        for (char name : names) s.push_back(p.extent[static_cast<std::uint8_t>(name)]);
        return s;
    }
    GRAFT_COLD static std::vector<std::int64_t> places(const operand& v, const std::string& names) {
        std::vector<std::int64_t> perm;
        for (char name : names) perm.push_back(static_cast<std::int64_t>(v.names.find(name)));
        return perm;
    }
    GRAFT_COLD value_id ordered(const node& before, const operand& v, const std::string& names) {
        return v.names == names ? v.x : transposed(before, v.x, places(v, names), "_ordered");
    }

    const lowering& with_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
