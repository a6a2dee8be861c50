// Gives every value its shape for one set of input shapes, and folds whatever is constant then.
#pragma once

#include "../core/wanted.hpp"
#include "../graph/captures.hpp"
#include "count.hpp"
#include "run_reference.hpp"
#include "whole_assignment.hpp"
#include "../ops/ops.hpp"

#include <cmath>
#include <deque>
#include <utility>

GRAFT_BEGIN_NAMESPACE

/// The graph with the shapes of its inputs fixed: shapes of all values that follow from them, constants where contents follow,
/// bodies of If written out where the condition is known. Nodes whose outputs depend on contents that only a run can tell keep
/// outputs without a shape, and so do the nodes behind them. An input without a type keeps its default; `inputs` null: nothing is
/// known of the inputs without a default, and only what is constant for all of them is folded.
result<graph> specialize(graph g, const tensor_view* inputs, const reference_options& with);

/// The same where only the shape of the first input without a default is new; the others have theirs from the graph. Inputs with a
/// default become constants.
result<graph> specialize_first_input(graph g, const shape& first, executor& pool, const limits& limit);

/// Drops nodes whose outputs nobody reads, copies (Identity, Dropout without training) and the contents of unread constants.
void prune(graph& g);

/// Drops nodes whose outputs nobody reads, and the contents of unread constants.
void drop_unread(graph& g);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE
namespace detail {

// What a file or a builder says of a value that a node makes is a claim: memory is laid out by what inference says alone.
inline void forget(value& v) {
    if (v.constant) return;
    v.type = dtype::undefined;
    v.has_shape = false;
    v.extents = shape();
}

// Whether a node only gives its input another name.
inline bool is_copy(const node& n) {
    const bool second = n.outputs.size() > 1 && n.outputs[1] != no_value, third = n.inputs.size() > 2;
    return !second && !third && !n.inputs.empty() && n.inputs[0] != no_value && !n.outputs.empty() && n.outputs[0] != no_value &&
           ops::row_of(n).is(op_flag::copies);
}

class specializer {
public:
    specializer(graph& g, const reference_options& with, const op_row* identity) : g_(g), with_(with), identity_(identity) {}

    GRAFT_COLD status run() {
        std::int64_t given = 0;
        for (const value& v : g_.values) given += static_cast<std::int64_t>(v.constant.bytes());
        most_bytes_ = with_.limit.fold_bytes + 4 * given;
        most_work_ = with_.limit.load_work + 8 * given;
        for (const node& n : g_.nodes) count_readers(n, 1);
        for (value_id id : g_.outputs) ++readers(id);
        std::deque<node> pending(std::make_move_iterator(g_.nodes.begin()), std::make_move_iterator(g_.nodes.end()));
        g_.nodes.clear();
        while (!pending.empty()) {
            node n = std::move(pending.front());
            pending.pop_front();
            std::vector<node> written_out;
            bool keep = true;
            GRAFT_TRY(visit(n, keep, written_out));
            for (const node& added : written_out) count_readers(added, 1);
            if (keep)
                append(std::move(n));
            else
                count_readers(n, -1);
            for (std::size_t i = written_out.size(); i-- > 0;) pending.push_front(std::move(written_out[i]));
        }
        return {};
    }

private:
    value& at(value_id id) { return g_.at(id); }
    void append(node n) {
        makers_.resize(g_.values.size(), -1);
        for (value_id id : n.outputs)
            if (id != no_value) makers_[id] = static_cast<int>(g_.nodes.size());
        g_.nodes.push_back(std::move(n));
    }
    int& readers(value_id id) {
        if (readers_.size() < g_.values.size()) readers_.resize(g_.values.size(), 0);
        return readers_[id];
    }
    // What nobody reads any more is given back at once: a chain of constants takes no more than its longest links.
    void count_readers(const node& n, int by) {
        ids_ = n.inputs;
        append_captures(n, ids_);
        for (value_id id : ids_) {
            if (id == no_value || (readers(id) += by) > 0 || by > 0) continue;
            made_bytes_ -= made_here(id);
            made_here(id) = 0;
            at(id).constant = tensor();
        }
    }
    std::int64_t& made_here(value_id id) {
        if (made_here_.size() < g_.values.size()) made_here_.resize(g_.values.size(), 0);
        return made_here_[id];
    }

    GRAFT_COLD status visit(node& n, bool& keep, std::vector<node>& written_out) {
        ids_ = n.inputs;
        append_captures(n, ids_);
        const int inputs = static_cast<int>(n.inputs.size());
        bool shapes_known = true, constant = true;
        in_.assign(ids_.size(), tensor_view{});
        for (std::size_t i = 0; i < ids_.size(); ++i) {
            if (ids_[i] == no_value) continue;
            const value& v = at(ids_[i]);
            in_[i] = view_at_hand(v);
            if (!v.constant) {
                constant = false;
                if (!v.has_shape || !v.extents.known() || v.type == dtype::undefined) shapes_known = false;
            }
        }
        if (n.op->is(op_flag::branches) && inputs && at(n.inputs[0]).constant) return write_out_if(n, keep, written_out);
        if (!shapes_known || !n.op->infer) return {};
        std::vector<tensor_view> out(n.outputs.size());
        infer_context c{{n, in_.data(), inputs, out.data(), static_cast<int>(out.size()), with_.limit}};
        GRAFT_TRY(n.op->infer(c));
        const unsigned flags = n.op->flags;
        const bool fold = (constant || (flags & op_flag::shape_only)) && !(flags & (op_flag::random | op_flag::bodies)) && n.op->run;
        if (c.deferred && !(fold && (flags & op_flag::allocates))) return {};
        if (c.deferred) return evaluate_now(n, inputs, keep, 0, count_work(c));
        std::int64_t bytes = 0;
        for (std::size_t i = 0; i < out.size(); ++i) {
            if (out[i].type == dtype::undefined || n.outputs[i] == no_value) continue;
            const std::int64_t b = bytes_of(out[i].type, out[i].extents);
            if (b < 0 || b > with_.limit.memory_bytes)
                return fail(errc::memory_budget, location(n),
                            "its output " + text(out[i].extents) + " of " + name(out[i].type) + " is over the memory limit of " +
                                std::to_string(with_.limit.memory_bytes) + " bytes");
            bytes += b;
            value& v = at(n.outputs[i]);
            v.type = out[i].type;
            v.extents = out[i].extents;
            v.has_shape = true;
        }
        if (wanted("ScatterND") && identity_ && whole_assignment(g_, makers_).is(n)) {
            count_readers(n, -1);
            n.op_type = "Identity", n.op = identity_, n.version = newest_opset;
            n.inputs = {n.inputs[2]};
            n.attributes.clear();
            count_readers(n, 1);
            return {};
        }
        // Small results always pay; large ones only where they are not blown up from nothing.
        std::int64_t read = 1 << 20;
        for (const tensor_view& v : in_) read += bytes_of(v.type, v.extents);
        if (!fold || bytes > 4 * read) return {};
        return evaluate_now(n, inputs, keep, bytes, count_work({n, in_.data(), inputs, out.data(), static_cast<int>(out.size()), with_.limit}));
    }

    // Computes the node, whose outputs take `bytes` and their making `work`; beyond the limits each run does.
    GRAFT_COLD status evaluate_now(node& n, int inputs, bool& keep, std::int64_t bytes, std::int64_t work) {
        if (bytes > most_bytes_ - made_bytes_ || work > most_work_) return {};
        most_work_ -= work;
        std::vector<tensor> made;
        // A view of a constant shares its memory.
        if (n.outputs[0] != no_value && n.op->is(op_flag::view)) {
            const value& y = at(n.outputs[0]);
            made.push_back(tensor(y.type, y.extents, at(n.inputs[0]).constant.storage()));
            made_here(n.outputs[0]) = std::exchange(made_here(n.inputs[0]), 0);
        } else if (wanted("DequantizeLinear") && n.op->traits.role == op_role::dequantize && bytes >= least_on_demand && scales_are_numbers(n)) {
            GRAFT_TRY(promise(n, inputs, made));
            made_bytes_ += made_here(n.outputs[0]) = bytes;
        } else {
            std::vector<tensor> read(static_cast<std::size_t>(inputs));
            for (std::size_t i = 0; i < read.size(); ++i) {
                if (n.inputs[i] == no_value || !at(n.inputs[i]).constant) continue;
                GRAFT_TRY_ASSIGN(read[i], at(n.inputs[i]).constant.to_read_once());
                in_[i] = view(read[i]);
            }
            GRAFT_TRY(run_reference(n, in_.data(), inputs, made, with_));
            for (std::size_t i = 0; i < made.size(); ++i)
                if (n.outputs[i] != no_value) made_bytes_ += made_here(n.outputs[i]) = static_cast<std::int64_t>(made[i].bytes());
        }
        for (std::size_t i = 0; i < made.size(); ++i) {
            if (n.outputs[i] == no_value || !made[i]) continue;
            value& v = at(n.outputs[i]);
            v.type = made[i].type();
            v.extents = made[i].shape();
            v.has_shape = true;
            v.constant = std::move(made[i]);
            if (wanted("DequantizeLinear") && n.op->traits.role == op_role::dequantize) remember_integers(n, v);
        }
        keep = false;
        return {};
    }

    // Others are refused at once.
    GRAFT_COLD bool scales_are_numbers(const node& n) {
        const tensor& scale = at(n.inputs[1]).constant;
        for (std::int64_t i = 0; i < scale.elements(); ++i)
            if (!std::isfinite(element_as_double(scale.type(), scale.raw(), i))) return false;
        return true;
    }
    // The reals of weights that are stored as integers: nobody may ask for them.
    class dequantizing final : public buffer::maker {
    public:
        dequantizing(const node& n, std::vector<tensor> inputs, const reference_options& with)
            : node_(n), inputs_(std::move(inputs)), limit_(with.limit), budget_(with.budget) {}
        result<buffer> make() const override {
            std::vector<tensor> read(inputs_.size()), made;
            std::vector<tensor_view> in(inputs_.size());
            for (std::size_t i = 0; i < read.size(); ++i) {
                if (!inputs_[i]) continue;
                GRAFT_TRY_ASSIGN(read[i], inputs_[i].to_read_once());
                in[i] = view(read[i]);
            }
            executor serial;
            GRAFT_TRY(run_reference(node_, in.data(), static_cast<int>(in.size()), made, {limit_, serial, nullptr, 0, budget_}));
            return made[0].storage();
        }

    private:
        node node_;
        std::vector<tensor> inputs_;
        limits limit_;
        std::shared_ptr<memory_budget> budget_;
    };
    GRAFT_COLD status promise(const node& n, int inputs, std::vector<tensor>& made) {
        std::vector<tensor> given(static_cast<std::size_t>(inputs));
        for (std::size_t i = 0; i < given.size(); ++i)
            if (n.inputs[i] != no_value) given[i] = at(n.inputs[i]).constant;
        const value& y = at(n.outputs[0]);
        buffer reals;
        GRAFT_TRY_ASSIGN(
            reals, buffer::on_demand(static_cast<std::size_t>(bytes_of(y.type, y.extents)), std::make_unique<const dequantizing>(n, std::move(given), with_)));
        made.push_back(tensor(y.type, y.extents, reals));
        return {};
    }

    // What was 8 bits can be computed with as such.
    GRAFT_COLD void remember_integers(const node& n, value& v) {
        auto from = std::make_shared<dequantized>();
        const attribute *axis = n.find("axis"), *block = n.find("block_size");
        if ((block && block->integer) || n.inputs.size() < 2 || v.type != dtype::float32) return;
        from->integers = at(n.inputs[0]).constant;
        from->scale = at(n.inputs[1]).constant;
        if (n.inputs.size() > 2 && n.inputs[2] != no_value) from->zero_point = at(n.inputs[2]).constant;
        from->axis = static_cast<int>(axis ? axis->integer : 1);
        from->floats = buffer::watch(v.constant.storage());
        v.integers = std::move(from);
    }

    // If with a condition that is known: its branch takes its place.
    GRAFT_COLD status write_out_if(node& n, bool& keep, std::vector<node>& written_out) {
        const tensor& condition = at(n.inputs[0]).constant;
        const attribute* branch =
            condition.elements() ? n.find(element_as_double(condition.type(), condition.raw(), 0) != 0 ? "then_branch" : "else_branch") : nullptr;
        if (!branch || !branch->graph || branch->graph->outputs.size() != n.outputs.size())
            return fail(errc::op_attribute, location(n), "its condition is empty or a branch does not make as many outputs as the node");
        const graph& body = *branch->graph;
        std::vector<value_id> map(body.values.size(), no_value);
        for (const capture& c : body.captures) map[c.inner] = c.outer;
        for (std::size_t i = 0; i < body.values.size(); ++i)
            if (map[i] == no_value) {
                g_.values.push_back(body.values[i]);
                forget(g_.values.back());
                map[i] = static_cast<value_id>(g_.values.size() - 1);
            }
        for (node inner : body.nodes) {
            rename_captures(inner, map);
            for (value_id& id : inner.inputs)
                if (id != no_value) id = map[id];
            for (value_id& id : inner.outputs)
                if (id != no_value) id = map[id];
            written_out.push_back(std::move(inner));
        }
        // The branch's outputs may be captured or constant values, so they are copied to the node's by Identity.
        for (std::size_t i = 0; i < n.outputs.size(); ++i) {
            if (n.outputs[i] == no_value) continue;
            node copy_node;
            copy_node.op_type = "Identity";
            copy_node.name = n.name;
            copy_node.version = n.version;
            copy_node.op = identity_;
            copy_node.inputs = {map[body.outputs[i]]};
            copy_node.outputs = {n.outputs[i]};
            if (!copy_node.op) return fail(errc::op_unsupported, location(n), "this build has no Identity, which If needs");
            written_out.push_back(std::move(copy_node));
        }
        keep = false;
        return {};
    }

    static constexpr std::int64_t least_on_demand = 1 << 16;  // bytes; less is made at once

    graph& g_;
    const reference_options& with_;
    const op_row* identity_;
    std::vector<value_id> ids_;
    std::vector<tensor_view> in_;
    std::vector<int> makers_;              // by value: which of the graph's nodes makes it
    std::vector<int> readers_;             // by value: nodes to come and outputs of the graph
    std::vector<std::int64_t> made_here_;  // by value: bytes of constants that folding has made
    std::int64_t made_bytes_ = 0, most_bytes_ = 0, most_work_ = 0;
};

}  // namespace detail

GRAFT_INLINE GRAFT_COLD result<graph> specialize(graph g, const tensor_view* inputs, const reference_options& with) GRAFT_MEMORY_TRY {
    for (const node& n : g.nodes)
        for (value_id id : n.outputs)
            if (id != no_value) detail::forget(g.at(id));
    for (std::size_t i = 0; i < g.inputs.size(); ++i) {
        value& v = g.at(g.inputs[i]);
        if (inputs && inputs[i].type != dtype::undefined) {
            v.constant = tensor();
            v.type = inputs[i].type;
            v.extents = inputs[i].extents;
            v.has_shape = true;
        } else if (!v.constant)
            v.has_shape = false;
    }
    // What a file declares an initializer as, where it is an input too, is a claim as well.
    for (value& v : g.values)
        if (v.constant) {
            v.type = v.constant.type();
            v.extents = v.constant.shape();
            v.has_shape = true;
        }
    GRAFT_TRY(detail::specializer(g, with, ops::find_op("", "Identity", newest_opset)).run());
    prune(g);
    return g;
}
GRAFT_MEMORY_CATCH("specialize")

GRAFT_INLINE GRAFT_COLD result<graph> specialize_first_input(graph g, const shape& first, executor& pool, const limits& limit) GRAFT_MEMORY_TRY {
    std::vector<value_id> open;
    std::vector<tensor_view> views;
    for (value_id id : g.inputs) {
        const value& v = g.at(id);
        if (v.constant) continue;
        views.push_back({v.type, open.empty() ? first : v.extents, nullptr});
        open.push_back(id);
    }
    g.inputs = std::move(open);
    return specialize(std::move(g), views.data(), reference_options{limit, pool, nullptr, 0});
}
GRAFT_MEMORY_CATCH("specialize_first_input")

GRAFT_INLINE GRAFT_COLD void prune(graph& g) {
    const auto at = [](std::vector<char>& flags, value_id id) -> char& { return flags[id]; };
    // Copies first, in order, so that chains of them collapse.
    std::vector<value_id> alias(g.values.size());
    for (std::size_t i = 0; i < alias.size(); ++i) alias[i] = static_cast<value_id>(i);
    std::vector<char> is_output(g.values.size(), 0);
    for (value_id id : g.outputs) at(is_output, id) = 1;
    std::vector<node> kept;
    for (node& n : g.nodes) {
        for (value_id& id : n.inputs)
            if (id != no_value) id = alias[id];
        detail::rename_captures(n, alias);
        if (detail::is_copy(n) && !at(is_output, n.outputs[0])) {
            alias[n.outputs[0]] = n.inputs[0];
            continue;
        }
        kept.push_back(std::move(n));
    }
    g.nodes = std::move(kept);
    drop_unread(g);
}

GRAFT_INLINE GRAFT_COLD void drop_unread(graph& g) {
    const auto at = [](std::vector<char>& flags, value_id id) -> char& { return flags[id]; };
    std::vector<char> read(g.values.size(), 0);
    for (value_id id : g.outputs) at(read, id) = 1;
    std::vector<char> live(g.nodes.size(), 0);
    std::vector<value_id> ids;
    for (std::size_t i = g.nodes.size(); i-- > 0;) {
        const node& n = g.nodes[i];
        for (value_id id : n.outputs)
            if (id != no_value && at(read, id)) live[i] = 1;
        if (!live[i]) continue;
        ids = n.inputs;
        detail::append_captures(n, ids);
        for (value_id id : ids)
            if (id != no_value) at(read, id) = 1;
    }
    std::vector<node> kept;
    for (std::size_t i = 0; i < g.nodes.size(); ++i)
        if (live[i]) kept.push_back(std::move(g.nodes[i]));
    g.nodes = std::move(kept);
    for (std::size_t i = 0; i < g.values.size(); ++i)
        if (!read[i]) g.values[i].constant = tensor();
}

GRAFT_END_NAMESPACE
#endif
