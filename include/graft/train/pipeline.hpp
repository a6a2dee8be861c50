// Builds the graph of a step that goes through stages: the parts of a batch, each forward and backward, and the update, in the order of a pipeline.
#pragma once

#include "batch_parts.hpp"
#include "stages.hpp"
#include "step_graph.hpp"

#include <functional>
#include <map>
#include <tuple>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// One graph of all parts. Its sums are those of a batch in parts (training_step::single::sum_parts), by the same tree; nodes ask for the place of their
// stage, and stand in the order in which they are to run.
class pipeline_builder {
public:
    pipeline_builder(const std::function<step_builder()>& builder, const step_options& o, batch_parts parts) : new_builder_(builder), o_(o), parts_(parts) {}

    // `views` are those of the inputs of a whole batch.
    result<graph> build(const std::vector<tensor_view>& views, bool plain, executor& pool) {
        views_ = views;
        const std::int64_t n = views[step_inputs::batch].extents[0], count = parts_.count(n);
        for (std::int64_t k = 0; k < count; ++k)
            if (parts_.first(n, k) < parts_.last(n, k)) used_.push_back(k);
        GRAFT_TRY(build_parts(n, plain, pool));
        GRAFT_TRY_ASSIGN(update_, new_builder_().build(part_views(parts_.largest(n)), step_part::update, plain, pool));
        return assemble(n, count);
    }

private:
    // The sums over a part of so many samples, and how many of its nodes are of the forward pass.
    struct part_graph {
        graph sums;
        std::size_t forward = 0;
        std::vector<value_id> constants;  // in the whole graph, once they are there
    };
    // A part in the whole graph.
    struct placed_part {
        std::vector<value_id> values;
        std::vector<node> forward, backward;
    };

    std::vector<tensor_view> part_views(std::int64_t n) const {
        std::vector<tensor_view> own = views_;
        for (int i : {step_inputs::batch, step_inputs::targets}) own[static_cast<std::size_t>(i)].extents[0] = n;
        if (o_.loss.distillation > 0) own[step_inputs::teacher].extents[0] = n;
        return own;
    }
    status build_parts(std::int64_t n, bool plain, executor& pool) {
        for (std::int64_t k : used_) {
            const std::int64_t size = parts_.last(n, k) - parts_.first(n, k);
            if (graphs_.count(size)) continue;
            step_builder builder = new_builder_();
            part_graph made;
            GRAFT_TRY_ASSIGN(made.sums, builder.build(part_views(size), step_part::sums, plain, pool));
            made.forward = builder.forward_nodes();
            for (const node& m : made.sums.nodes)
                for (const attribute& a : m.attributes)
                    if (a.graph) return fail(errc::op_unsupported, location(m), "an operator with a body cannot be part of a pipeline of stages");
            graphs_.emplace(size, std::move(made));
        }
        return {};
    }

    result<graph> assemble(std::int64_t n, std::int64_t count) {
        g_ = graph();
        g_.name = update_.name;
        g_.opsets = update_.opsets;
        emitter writer(g_, ops::find_training_op, o_.limits);
        for (std::size_t i = 0; i < views_.size(); ++i) {
            const value& from = update_.at(update_.inputs[i]);
            const value_id id = g_.add_value(from.name);
            value& v = g_.at(id);
            v.type = views_[i].type, v.extents = views_[i].extents, v.has_shape = true;
            g_.inputs.push_back(id);
        }
        const int stages = static_cast<int>(o_.stages.size());
        std::vector<placed_part> parts;
        for (std::int64_t k : used_) {
            parts.emplace_back();
            GRAFT_TRY(place_part(writer, n, k, parts.back()));
        }
        // Each pass of a part in the stages that it has nodes in; sums of parts are joined as soon as they are there.
        count_ = count;
        const part_graph& any = sums_of(n, 0);
        total_.assign(any.sums.outputs.size() - step_outputs::first_state, no_value);
        places_.assign(total_.size(), 1);
        std::vector<place_id> made_at(any.sums.values.size(), 0);
        for (const node& m : any.sums.nodes)
            for (value_id made : m.outputs)
                if (made != no_value) made_at[static_cast<std::size_t>(made)] = m.place;
        for (std::size_t i = 0; i < total_.size(); ++i)
            if (const place_id place = made_at[static_cast<std::size_t>(any.sums.outputs[step_outputs::first_state + i])]) places_[i] = place;
        writer.prefix = "pipeline/sums";
        for (const pipeline_turn& turn : pipeline_schedule(stages, static_cast<int>(used_.size()))) {
            placed_part& part = parts[static_cast<std::size_t>(turn.part)];
            for (node& m : turn.backward ? part.backward : part.forward)
                if (m.place == turn.stage + 1) g_.nodes.push_back(std::move(m));
            const std::size_t k = static_cast<std::size_t>(turn.part);
            for (std::size_t i = 0; i < total_.size() && turn.backward; ++i)
                if (places_[i] == turn.stage + 1)
                    arrive(writer, i, used_[k], 1, part.values[static_cast<std::size_t>(sums_of(n, k).sums.outputs[step_outputs::first_state + i])]);
        }
        std::vector<value_id> logits;
        for (std::size_t k = 0; k < parts.size(); ++k)
            logits.push_back(parts[k].values[static_cast<std::size_t>(sums_of(n, k).sums.outputs[step_outputs::logits])]);
        writer.prefix = "pipeline";
        g_.outputs = {no_value, logits.size() > 1 ? writer.apply("Concat", logits, {integer_attribute("axis", 0)}) : logits[0]};
        GRAFT_TRY(std::move(writer.failure));
        GRAFT_TRY(append_update());
        drop_unread(g_);
        return std::move(g_);
    }
    part_graph& sums_of(std::int64_t n, std::size_t at) { return graphs_.at(parts_.last(n, used_[at]) - parts_.first(n, used_[at])); }

    // Copies the values of a graph, `map` being what is known of them; constants are shared among copies.
    void copy_values(const graph& from, const std::string& ending, std::vector<value_id>& map, std::vector<value_id>* constants) {
        if (constants) constants->resize(from.values.size(), no_value);
        for (std::size_t i = 0; i < from.values.size(); ++i) {
            if (map[i] != no_value) continue;
            value v = from.values[i];
            value_id* known = constants && v.constant ? &(*constants)[i] : nullptr;
            if (known && *known != no_value) {
                map[i] = *known;
                continue;
            }
            v.name += ending;
            map[i] = static_cast<value_id>(g_.values.size());
            g_.values.push_back(std::move(v));
            if (known) *known = map[i];
        }
    }
    static void rename(node& m, const std::vector<value_id>& map, const std::string& ending) {
        m.name += ending;
        for (std::vector<value_id>* ids : {&m.inputs, &m.outputs})
            for (value_id& id : *ids)
                if (id != no_value) id = map[static_cast<std::size_t>(id)];
    }

    status place_part(emitter& writer, std::int64_t n, std::int64_t k, placed_part& made) {
        const std::int64_t first = parts_.first(n, k), last = parts_.last(n, k);
        part_graph& own = graphs_.at(last - first);
        const std::string ending = "/part_" + std::to_string(k);
        writer.prefix = "pipeline" + ending;
        const auto rows = [&](int input) {
            const value_id whole = g_.inputs[static_cast<std::size_t>(input)];
            if (first == 0 && last == n) return whole;
            return writer.apply("Slice", {whole, writer.integers({first}), writer.integers({last}), writer.integers({0})});
        };
        made.values.assign(own.sums.values.size(), no_value);
        for (std::size_t i = 0; i < views_.size(); ++i) {
            value_id& id = made.values[static_cast<std::size_t>(own.sums.inputs[i])];
            const int at = static_cast<int>(i);
            if (at == step_inputs::batch || at == step_inputs::targets || (at == step_inputs::teacher && o_.loss.distillation > 0))
                id = rows(at);
            else if (at == step_inputs::counter && first > 0)
                id = writer.add(g_.inputs[i], writer.integers({0, first}));
            else
                id = g_.inputs[i];
        }
        GRAFT_TRY(std::move(writer.failure));
        copy_values(own.sums, ending, made.values, &own.constants);
        const int last_stage = static_cast<int>(o_.stages.size());
        for (std::size_t i = 0; i < own.sums.nodes.size(); ++i) {
            node m = own.sums.nodes[i];
            if (!m.place) m.place = static_cast<place_id>(last_stage);
            rename(m, made.values, ending);
            (i < own.forward ? made.forward : made.backward).push_back(std::move(m));
        }
        return {};
    }

    // A sum over the parts [first, first + count) is there: where the other half of what both belong to is there, too, or has no samples, they become one, as
    // training_step::single::sum_parts joins them (an empty part counts as +0), at the place where it was made.
    void arrive(emitter& writer, std::size_t which, std::int64_t first, std::int64_t count, value_id sum) {
        if (count == count_) {
            total_[which] = sum;
            return;
        }
        const std::int64_t other = first ^ count, whole = std::min(first, other);
        const bool empty = std::none_of(used_.begin(), used_.end(), [&](std::int64_t k) { return k >= other && k < other + count; });
        value_id with = no_value;
        if (empty) {
            with = writer.number(0, sum);
        } else {
            const auto there = waiting_.find({which, other, count});
            if (there == waiting_.end()) {
                waiting_[{which, first, count}] = sum;
                return;
            }
            with = there->second;
        }
        const value_id joined = first < other || empty ? writer.add(sum, with) : writer.add(with, sum);
        if (!g_.nodes.empty()) g_.nodes.back().place = places_[which];
        arrive(writer, which, whole, count * 2, joined);
    }

    status append_update() {
        std::vector<value_id> map(update_.values.size(), no_value);
        bool fits = views_.size() + total_.size() == update_.inputs.size();
        for (std::size_t i = 0; i < update_.inputs.size() && fits; ++i) {
            const value_id given = i < views_.size() ? g_.inputs[i] : total_[i - views_.size()];
            map[static_cast<std::size_t>(update_.inputs[i])] = given;
            fits = i < views_.size() || g_.at(given).extents == update_.at(update_.inputs[i]).extents;
        }
        if (!fits) return fail(errc::internal, g_.name, "the parts of a batch do not make what its update takes");
        copy_values(update_, "", map, nullptr);
        for (node& m : update_.nodes) {
            rename(m, map, "");
            g_.nodes.push_back(std::move(m));
        }
        for (std::size_t i = 0; i < update_.outputs.size(); ++i) {
            const value_id id = map[static_cast<std::size_t>(update_.outputs[i])];
            if (i == 0)
                g_.outputs[step_outputs::loss] = id;
            else
                g_.outputs.push_back(id);
        }
        for (const state_pair& s : update_.states) g_.states.push_back({s.input, s.output < 0 ? -1 : s.output + 1});
        return {};
    }

    const std::function<step_builder()>& new_builder_;
    const step_options& o_;
    batch_parts parts_;
    std::vector<tensor_view> views_;
    std::vector<std::int64_t> used_;                                                   // the parts that have samples
    std::map<std::int64_t, part_graph> graphs_;                                        // by samples
    std::int64_t count_ = 1;                                                           // of parts, empty ones among them
    std::vector<value_id> total_;                                                      // the sums over all of them,
    std::vector<place_id> places_;                                                     // and where each is made
    std::map<std::tuple<std::size_t, std::int64_t, std::int64_t>, value_id> waiting_;  // for their other half: which, first part, count
    graph update_, g_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
