// Products along an axis that is turned behind the others and back.
#pragma once

#include "../ops/rearrange.hpp"
#include "view_writer.hpp"

#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

//   Transpose(Add(MatMul(Transpose(x), W), b))    Reshape(Add(MatMul(W', Reshape(x)), b))
// where the first Transpose puts an axis behind all others and the last puts it back: the mixing of an attention's heads. W' is W turned, x lies as it is,
// [what is before the axis, the axis, what is behind it]. Only where the axis is shorter than a vector, as neither transpose nor product is fast there;
// other products have packed weights and an epilogue, which are worth two transposes.
class turned_products : public view_writer {
public:
    turned_products(graph& target, const lowering& with) : view_writer(target, with.on), with_(with) {}

    // Errors: memory.oom.
    GRAFT_COLD status run() {
        static constexpr rewrite<turned_products> rows[] = {{"Transpose", "", &turned_products::product}};
        sweep(*this, rows);
        return std::move(failure_);
    }

private:
    static constexpr std::int64_t few = 16;  // numbers of a vector

    GRAFT_COLD void product(node& turn) {
        const shape x = at(turn.inputs[0]).extents;
        const int rank = x.rank();
        if (rank < 2 || x.elements() == 0 || !is_float32(turn.inputs[0])) return;
        const std::vector<std::int64_t> perm = perm_of(turn);
        const int axis = perm.empty() ? rank : static_cast<int>(perm.back());
        if (axis + 1 >= rank || perm != turned(rank, axis, false)) return;
        node *const multiply = only_reader(turn.outputs[0]), *add = multiply ? only_reader(multiply->outputs[0]) : nullptr;
        if (!multiply || !add || !is(*multiply, "MatMul") || multiply->inputs[0] != turn.outputs[0]) return;
        node* back = add;
        if (!is(*add, "Add"))
            add = nullptr;
        else
            back = only_reader(add->outputs[0]);
        if (!back || !is(*back, "Transpose") || perm_of(*back) != turned(rank, axis, true)) return;

        const value_id weight = multiply->inputs[1];
        if (!is_constant(weight) || !is_float32(weight) || at(weight).extents.rank() != 2) return;
        const std::int64_t inner = at(weight).extents[0], made_of = at(weight).extents[1];
        if (inner != x[axis] || inner >= few || made_of >= few || made_of == 0) return;
        value_id bias = no_value;
        if (add) {
            bias = add->inputs[add->inputs[0] == multiply->outputs[0] ? 1 : 0];
            if (!is_constant(bias) || at(bias).extents != shape{made_of}) return;
            bias = g.add_constant(at(bias).name + "_column", at(bias).constant.reshaped(shape{made_of, 1}));
        }
        auto rows = tensor::make(dtype::float32, shape{made_of, inner}, with_.budget);
        if (!rows.ok()) return void(failure_ = rows.take_status());
        const tensor& columns = at(weight).constant;
        for (std::int64_t i = 0; i < inner; ++i)
            for (std::int64_t j = 0; j < made_of; ++j) rows->data<float>()[j * inner + i] = columns.data<float>()[i * made_of + j];

        const std::int64_t outer = x.product(0, axis), rest = x.product(axis + 1, rank);
        const value_id left = g.add_constant(at(weight).name + "_turned", std::move(rows).value());
        const value_id lies = reshaped(turn, turn.inputs[0], shape{outer, inner, rest}, "_lies"), told = extents_of(*back, at(back->outputs[0]).extents);
        value_id last = multiply->outputs[0];
        edit(*multiply, [&] { multiply->inputs = {left, lies}; });
        at(last).extents = shape{outer, made_of, rest};
        if (add) {
            edit(*add, [&] { add->inputs = {last, bias}; });
            last = add->outputs[0];
            at(last).extents = shape{outer, made_of, rest};
        }
        edit(*back, [&] {
            become(*back, "Reshape", "");
            back->inputs = {last, told};
            back->attributes.clear();
        });
        drop(turn);
    }
    std::vector<std::int64_t> perm_of(const node& n) {
        const tensor_view in = view_at_hand(at(n.inputs[0]));
        ops::short_list perm;
        if (!ops::read_permutation({n, &in, 1, nullptr, 0, with_.limit}, perm).ok()) return {};
        return {perm.values, perm.values + perm.size};
    }
    // That puts `axis` behind all others, or what is behind all others back to it.
    static std::vector<std::int64_t> turned(int rank, int axis, bool back) {
        std::vector<std::int64_t> perm;
        for (int d = 0; d < rank - (back ? 1 : 0); ++d)
            if (back || d != axis) perm.push_back(d);
        perm.insert(back ? perm.begin() + axis : perm.end(), back ? rank - 1 : axis);
        return perm;
    }

    const lowering& with_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
