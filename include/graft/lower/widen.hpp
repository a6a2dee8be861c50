// Half-precision networks on a CPU: computed in float32, converted where they enter and leave.
#pragma once

#include "rewriter.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// float16 and bfloat16 are storage formats to the CPU's kernels. Around operators that compute, values become float32, and stay so
// from one to the next: like other engines, results are then more exact than the type asks for. A network without a convolution or a
// matrix product keeps its types, and with them every rounding.
class widener : public rewriter {
public:
    widener(graph& target, const lowering& with) : rewriter(target, with.on), with_(with) {}

    GRAFT_COLD status run() {
        bool heavy = false;
        for (const node& n : g.nodes) {
            const op_row& row = this->row(n);
            const bool sums = row.traits.role == op_role::convolution || row.traits.role == op_role::product;
            heavy |= sums && row.is(op_flag::widens) && !n.outputs.empty() && is_half(n.outputs[0]);
        }
        if (!heavy) return {};
        std::vector<node> nodes = std::move(g.nodes);
        g.nodes.clear();
        for (node& n : nodes) {
            if (!computes(n)) {
                for (value_id& id : n.inputs) GRAFT_TRY(as(id, false));
                g.nodes.push_back(std::move(n));
                continue;
            }
            for (value_id& id : n.inputs) GRAFT_TRY(as(id, true));
            std::vector<value_id> narrow = n.outputs;
            for (value_id& id : n.outputs)
                if (id != no_value && is_half(id)) id = widened(id);
            g.nodes.push_back(std::move(n));
            // Bodies capture by name of the value, so what they read has to be there in its own type.
            for (value_id id : narrow)
                if (id != no_value && is_half(id) && captured(nodes, id)) GRAFT_TRY(as(id, false));
        }
        for (value_id id : g.outputs) GRAFT_TRY(as(id, false));
        index();
        return {};
    }

private:
    bool is_half(value_id id) { return id != no_value && (at(id).type == dtype::float16 || at(id).type == dtype::bfloat16); }

    // Operators with float32 kernels, and those that only move elements.
    bool computes(const node& n) {
        return !n.inputs.empty() && !n.outputs.empty() && is_half(n.inputs[0]) && is_half(n.outputs[0]) && row(n).is(op_flag::widens);
    }

    bool captured(const std::vector<node>& nodes, value_id id) const {
        std::vector<value_id> ids;
        for (const node& n : nodes) append_captures(n, ids);
        for (value_id c : ids)
            if (c == id) return true;
        return false;
    }

    // The float32 counterpart of a half value.
    value_id widened(value_id id) {
        wide_.resize(g.values.size(), no_value);
        narrow_made_.resize(g.values.size(), 0);
        if (wide_[id] == no_value) {
            const value_id made = like(id, "_float32");
            at(made).type = dtype::float32;
            wide_.resize(g.values.size(), no_value);
            narrow_made_.resize(g.values.size(), 0);
            wide_[id] = made;
            narrow_made_[id] = 2;  // made wide; a cast brings the half value when it is asked for
        }
        return wide_[id];
    }

    // Puts the value in the form asked for into `id`, with a Cast where it is not there yet.
    status as(value_id& id, bool wide) {
        if (!is_half(id)) return {};
        wide_.resize(g.values.size(), no_value);
        narrow_made_.resize(g.values.size(), 0);
        const std::size_t i = static_cast<std::size_t>(id);
        if (wide && wide_[i] == no_value) {
            const tensor constant = at(id).constant;
            const value_id from = id, made = like(id, "_float32");
            at(made).type = dtype::float32;
            wide_.resize(g.values.size(), no_value);
            narrow_made_.resize(g.values.size(), 0);
            wide_[i] = made;
            if (constant)
                GRAFT_TRY(widen_constant(constant, at(made).constant));
            else
                cast(from, made, dtype::float32);
        } else if (!wide && wide_[i] != no_value && narrow_made_[i] == 2) {
            cast(wide_[i], id, at(id).type);
            narrow_made_[i] = 1;
        }
        if (wide) id = wide_[i];
        return {};
    }
    status widen_constant(const tensor& from, tensor& to) {
        // Shared by the plans of a model, so that what is packed from it is found again.
        to = with_.packed ? with_.packed->derived("float32", {&from}) : tensor();
        if (to) return {};
        GRAFT_TRY_ASSIGN(to, tensor::make(dtype::float32, from.shape(), with_.budget));
        tensor narrow;
        GRAFT_TRY_ASSIGN(narrow, from.to_read_once());
        float* const out = to.data<float>();
        for (std::int64_t k = 0; k < from.elements(); ++k) out[k] = static_cast<float>(element_as_double(from.type(), narrow.raw(), k));
        if (with_.packed) with_.packed->derive(to, "float32", {&from});
        return {};
    }
    void cast(value_id from, value_id to, dtype type) {
        node n;
        n.name = at(to).name;
        become(n, "Cast", "");
        set(n, "to", static_cast<std::int64_t>(type));
        n.inputs = {from};
        n.outputs = {to};
        g.nodes.push_back(std::move(n));
    }

    const lowering& with_;
    std::vector<value_id> wide_;
    std::vector<char> narrow_made_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
