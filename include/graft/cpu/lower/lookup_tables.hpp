// Lowering of quantised networks: what is a function of one code is looked up in a table.
#pragma once

#include "../quantized_kernels.hpp"
#include "../../lower/rewriter.hpp"
#include "../../passes/run_reference.hpp"

#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

//   QuantizeLinear(f(DequantizeLinear(x)))    graft.LookupTable(x)
// where f is of elementwise operators with numbers, and of further such pairs: HardSwish as x, a pair round HardSigmoid and a product, for one; or nothing,
// where codes get another scale. The table is what the reference kernels make of all 256 codes, so that rounding is theirs.
class lookup_tables : public rewriter {
public:
    lookup_tables(graph& target, const lowering& with) : rewriter(target, with.on), with_(with), functions_(target.values.size()) {}

    void run() {
        for (node& n : g.nodes) follow(n);
        finish();
    }

private:
    static constexpr std::int64_t codes = 256;
    struct function {
        value_id of = no_value;
        tensor results;  // of each code, in the order of bytes
    };

    // What the node makes, if that is a function of one code.
    void follow(node& n) {
        const op_row& op = row(n);
        const bool reads_codes = op.traits.role == op_role::dequantize;
        if (!op.run || n.outputs.size() != 1 || n.inputs.empty() || op.is(op_flag::random)) return;
        if (!reads_codes && op.traits.role != op_role::quantize && !op.is(op_flag::elementwise)) return;
        if (integer(n, "block_size", 0)) return;
        if (reads_codes) start(n.inputs[0]);
        value_id of = no_value;
        std::vector<tensor_view> in;
        for (value_id id : n.inputs) {
            if (id == no_value) {
                in.push_back({});
                continue;
            }
            const function& f = at_value(id);
            if (f.of != no_value) {
                if (of != no_value && of != f.of) return;
                of = f.of;
                in.push_back({f.results.type(), along(at(of).extents.rank()), f.results.raw()});
            } else {
                if (!is_constant(id) || at(id).constant.elements() != 1 || !at(id).constant.storage().at_hand()) return;
                in.push_back({at(id).type, {}, at(id).constant.raw()});
            }
        }
        const value_id y = n.outputs[0];
        if (of == no_value || at(y).extents != at(of).extents) return;
        std::vector<tensor> made;
        // What fails is left to a run, which says so.
        if (!run_reference(n, in.data(), static_cast<int>(in.size()), made, {with_.limit, with_.pool}).ok() || made[0].elements() != codes) return;
        function& found = at_value(y);
        found.of = of;
        found.results = std::move(made[0]);
        if (op.traits.role == op_role::quantize && ops::is_byte(at(y).type)) look_up(n, found);
    }
    // A code as a function of itself.
    void start(value_id id) {
        const dtype type = at(id).type;
        if (!ops::is_byte(type) || is_constant(id) || at_value(id).of != no_value || at(id).extents.rank() == 0) return;
        auto made = tensor::make(type, shape{codes});
        if (!made.ok()) return;
        for (std::int64_t i = 0; i < codes; ++i) made->raw()[i] = static_cast<std::byte>(i);
        at_value(id) = {id, std::move(made).value()};
    }
    void look_up(node& n, const function& f) {
        auto table = tensor::from(reinterpret_cast<const std::uint8_t*>(f.results.raw()), shape{codes});
        if (!table.ok()) return;
        const value_id id = g.add_constant(n.name + "_table", std::move(table).value());
        edit(n, [&] {
            become(n, "LookupTable", "graft");
            n.inputs = {f.of, id};
            n.attributes.clear();
        });
    }
    function& at_value(value_id id) { return functions_[static_cast<std::size_t>(id)]; }
    static shape along(int rank) {
        shape s = shape::filled(rank, 1);
        s[rank - 1] = codes;
        return s;
    }

    const lowering& with_;
    std::vector<function> functions_;  // by value, of those that the graph had before
};

}  // namespace detail
GRAFT_END_NAMESPACE
