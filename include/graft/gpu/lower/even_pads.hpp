// Convolutions for cuDNN whose pads differ from side to side: what one side has more becomes zeros around the picture, or is cut off it.
#pragma once

#include "../../lower/rewriter.hpp"
#include "../libraries/library_rows.hpp"
#include "../ops/conv.hpp"
#include "query.hpp"

#include <algorithm>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// Behind the choice of types and layouts: both sides of a Pad have the picture's. Kernels of our own take any pads.
class even_pads : public graft::detail::rewriter {
public:
    even_pads(graph& target, place_id on, const kernel_question& ask, const limits& limit) : rewriter(target, on), ask_(ask), limit_(limit) {}

    status run() {
        for (node& n : g.nodes) {
            if (!here(n) || !find_conv_row(n.op_type.c_str(), n.domain.c_str()) || ask_.own(ask_.context, n, g)) continue;
            const uneven_pads pads = find_uneven_pads(asked_in_graph(g, n, limit_).context());
            if (pads.rank) GRAFT_TRY(make_even(n, pads));
        }
        finish();
        return {};
    }

private:
    status make_even(node& n, const uneven_pads& pads) {
        const bool transposed = n.op_type == "ConvTranspose", writes = transposed || n.op_type == "ConvGradInput";
        const value_id y = n.outputs[0];
        std::vector<value_id> in = n.inputs;
        if (!writes)
            GRAFT_TRY_ASSIGN(in[0], padded(n, in[0], pads));
        else if (!transposed && in.size() > 2 && in[2] != no_value)  // what is added to the gradient
            GRAFT_TRY_ASSIGN(in[2], padded(n, in[2], pads));
        const value_id made = writes ? larger(y, pads) : y;
        edit(n, [&] {
            n.inputs = std::move(in);
            n.outputs[0] = made;
            replace_attributes(n, pads, transposed);
        });
        if (!writes) return {};
        node cut;
        GRAFT_TRY_ASSIGN(cut, pad(made, y, pads, -1));
        insert_behind(n, std::move(cut));
        return {};
    }
    void replace_attributes(node& n, const uneven_pads& pads, bool transposed) {
        const auto replaced = [](const attribute& a) {
            return a.name == "pads" || a.name == "auto_pad" || a.name == "output_padding" || a.name == "output_shape";
        };
        n.attributes.erase(std::remove_if(n.attributes.begin(), n.attributes.end(), replaced), n.attributes.end());
        std::vector<std::int64_t> even(pads.both, pads.both + pads.rank);
        const std::int64_t* const last = transposed ? pads.last : pads.both;
        even.insert(even.end(), last, last + pads.rank);
        n.attributes.push_back(integers_attribute("pads", std::move(even)));
        if (transposed) n.attributes.push_back(integers_attribute("output_padding", {pads.output_padding, pads.output_padding + pads.rank}));
        if (n.op_type != "ConvGradInput") return;
        const shape& extents = at(n.outputs[0]).extents;
        for (attribute& a : n.attributes)
            if (a.name == "shape") a.integers.assign(extents.begin(), extents.end());
    }
    value_id larger(value_id id, const uneven_pads& pads) {
        const value_id made = like(id, "_padded");
        at(made).layout = at(id).layout;
        for (int i = 0; i < pads.rank; ++i) at(made).extents[i + 2] += pads.begin[i] + pads.end[i];
        return made;
    }
    result<value_id> padded(const node& before, value_id id, const uneven_pads& pads) {
        const value_id made = larger(id, pads);
        node n;
        GRAFT_TRY_ASSIGN(n, pad(id, made, pads, 1));
        insert_before(before, std::move(n));
        return made;
    }
    // `sign` -1 takes away what +1 adds.
    result<node> pad(value_id from, value_id to, const uneven_pads& pads, std::int64_t sign) {
        const int rank = at(from).extents.rank();
        std::vector<std::int64_t> list(static_cast<std::size_t>(2 * rank));
        for (int i = 0; i < pads.rank; ++i) {
            list[static_cast<std::size_t>(i + 2)] = sign * pads.begin[i];
            list[static_cast<std::size_t>(rank + i + 2)] = sign * pads.end[i];
        }
        tensor constant;
        GRAFT_TRY_ASSIGN(constant, tensor::from(list.data(), shape{2 * rank}));
        node n;
        n.name = at(to).name;
        become(n, "Pad", "");
        n.inputs = {from, g.add_constant(n.name + "_pads", std::move(constant))};
        n.outputs = {to};
        return n;
    }

    const kernel_question& ask_;
    const limits& limit_;
};

}  // namespace detail
}  // namespace gpu
GRAFT_END_NAMESPACE
