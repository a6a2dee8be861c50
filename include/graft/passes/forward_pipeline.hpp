// A network that only infers as a pipeline: its nodes ask for the place of their stage, and a batch goes through the stages in parts.
#pragma once

#include "../graph/op.hpp"
#include "cut_stages.hpp"
#include "run_reference.hpp"

#include <cstdint>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// How a network is run in stages.
struct pipeline_options {
    int stages = 0;                ///< 2 to most_stages; 0: it is not cut
    int parts = 1;                 ///< that a batch goes through them in, 1 to most_parts; a batch of fewer samples has one a sample
    std::int64_t stage_bytes = 0;  ///< of memory that a stage may take; 0: no limit

    /// Whether the numbers are within their ranges. Errors: usage.
    status check() const {
        if (stages >= 2 && stages <= most_stages && parts >= 1 && parts <= most_parts) return {};
        return fail(errc::usage, "stages",
                    "a pipeline has 2 to " + std::to_string(most_stages) + " stages and 1 to " + std::to_string(most_parts) + " parts of a batch, and not " +
                        std::to_string(stages) + " and " + std::to_string(parts));
    }
};

/// The network for inputs of these shapes (as `specialize` takes them), cut by cut_stages: each node asks for the place of its stage, 1 and on, and stands
/// in the order in which the stages take turns. In more than one part the samples of its one input are cut along the first axis, and the rows of its outputs
/// are put together again; that no sample is computed by another is proved as open_batch does it. `by_memory` is that of stage_limits. Errors: usage
/// (numbers out of range, fewer nodes than stages); for parts input.name (it has not one input), graph.fixed_batch (names the node that mixes samples),
/// op.unsupported (a node has a body); those of specialize.
result<graph> forward_pipeline(const graph& g, const tensor_view* inputs, const pipeline_options& how, double by_memory, const reference_options& with);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "node_writer.hpp"
#include "open_batch.hpp"
#include "specialize.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

GRAFT_BEGIN_NAMESPACE
namespace detail {

class forward_pipeline_builder {
public:
    forward_pipeline_builder(const graph& g, const tensor_view* inputs, const pipeline_options& how, double by_memory, const reference_options& with)
        : g_(g), inputs_(inputs), how_(how), by_memory_(by_memory), with_(with), writer_(made_, "pipeline") {}

    result<graph> build() {
        GRAFT_TRY(how_.check());
        GRAFT_TRY_ASSIGN(whole_, specialize(g_, inputs_, with_));
        std::int64_t samples = 1;
        if (how_.parts > 1) GRAFT_TRY_ASSIGN(samples, find_samples());
        const std::int64_t parts = std::min<std::int64_t>(how_.parts, samples);
        if (parts > 1) return in_parts(samples, parts);
        GRAFT_TRY(cut(whole_));
        std::vector<node> nodes = std::move(whole_.nodes);
        whole_.nodes.clear();
        for (int s = 0; s < how_.stages; ++s) take_turn(nodes, s, whole_.nodes);
        return std::move(whole_);
    }

private:
    // The network for a part of so many samples.
    struct part_graph {
        graph g;
        std::vector<value_id> constants;  // in the whole, once they are there
    };
    // A part in the whole graph.
    struct placed_part {
        std::vector<value_id> values, outputs;
        std::vector<node> nodes;
    };

    result<std::int64_t> find_samples() {
        for (std::size_t i = 0; i < g_.inputs.size(); ++i) {
            if (!inputs_ || inputs_[i].type == dtype::undefined) continue;
            if (input_ != none)
                return fail(errc::input_name, g_.name, "a network whose batch goes through stages in parts has to have one input: take one part (--parts 1)");
            input_ = i;
        }
        if (input_ == none) return std::int64_t(1);
        const shape& extents = inputs_[input_].extents;
        return extents.rank() < 1 || extents.elements() == 0 ? std::int64_t(1) : extents[0];
    }
    status mixes(const std::string& where, const std::string& why) const {
        return fail(errc::graph_fixed_batch, where, why + ", so that a batch cannot go through the stages in parts: take one part (--parts 1)");
    }

    status cut(graph& g) {
        stage_limits fits;
        fits.stages = how_.stages;
        fits.parts = how_.parts;
        fits.by_memory = by_memory_;
        fits.forward_only = true;
        for (std::size_t i = 0; i < g.values.size(); ++i)
            if (g.values[i].constant) fits.weights.push_back(static_cast<value_id>(i));
        for (std::size_t i = 0; i < g.inputs.size(); ++i)
            if (!g.at(g.inputs[i]).constant) fits.of_samples.push_back(g.inputs[i]);
        GRAFT_TRY_ASSIGN(stages_, cut_stages(g, g.nodes.size(), fits));
        for (std::size_t i = 0; i < g.nodes.size(); ++i) g.nodes[i].place = static_cast<place_id>(stages_[i] + 1);
        return {};
    }
    static void take_turn(std::vector<node>& from, int stage, std::vector<node>& to) {
        for (node& n : from)
            if (n.place == stage + 1) to.push_back(std::move(n));
    }

    result<graph> in_parts(std::int64_t samples, std::int64_t parts) {
        const value_id input = whole_.inputs[input_];
        batch_follower follower(whole_, input, samples);
        status apart = follower.run();
        if (!apart.ok()) return mixes(apart.error().where(), apart.error().detail());
        for (value_id id : whole_.outputs) {
            const batch_axis at = follower.states()[id];
            if (!at.none() && (at.axis != 0 || at.outer != 1))
                return mixes("'" + whole_.at(id).name + "'", "this output does not have its samples along the first axis");
        }
        const auto first = [&](std::int64_t k) { return samples / parts * k + std::min(k, samples % parts); };
        // Largest first: the cut is by that one.
        for (std::int64_t k = 0; k < parts; ++k) GRAFT_TRY(build_part(first(k + 1) - first(k), samples, follower));

        made_.name = whole_.name;
        made_.opsets = whole_.opsets;
        made_.ir_version = whole_.ir_version;
        for (value_id id : whole_.inputs) {
            made_.inputs.push_back(static_cast<value_id>(made_.values.size()));
            made_.values.push_back(whole_.at(id));
        }
        std::vector<placed_part> placed(static_cast<std::size_t>(parts));
        for (std::int64_t k = 0; k < parts; ++k) place_part(k, first(k), first(k + 1), placed[static_cast<std::size_t>(k)]);
        // A stage's next part is issued before what waits for its last one, so that it need not wait for that.
        for (std::int64_t turn = 0; turn < parts + how_.stages - 1; ++turn)
            for (int s = 0; s < how_.stages; ++s)
                if (turn - s >= 0 && turn - s < parts) take_turn(placed[static_cast<std::size_t>(turn - s)].nodes, s, made_.nodes);
        join_outputs(placed, follower);
        GRAFT_TRY(std::move(writer_.failure));
        drop_unread(made_);
        return std::move(made_);
    }

    status build_part(std::int64_t size, std::int64_t samples, batch_follower& follower) {
        if (graphs_.count(size)) return {};
        std::vector<tensor_view> views(inputs_, inputs_ + g_.inputs.size());
        views[input_].extents[0] = size;
        part_graph made;
        GRAFT_TRY_ASSIGN(made.g, specialize(g_, views.data(), with_));
        if (made.g.nodes.size() != whole_.nodes.size())
            return mixes(g_.name, "the network of " + std::to_string(size) + " samples is another one than that of " + std::to_string(samples));
        for (std::size_t i = 0; i < made.g.nodes.size(); ++i) {
            const node& n = made.g.nodes[i];
            for (const attribute& a : n.attributes)
                if (a.graph)
                    return fail(errc::op_unsupported, location(n), "an operator with a body cannot go through stages in parts: take one part (--parts 1)");
            GRAFT_TRY(check_same(n, made.g, whole_.nodes[i], follower, i, size, samples));
        }
        if (stages_.empty()) GRAFT_TRY(cut(made.g));
        for (std::size_t i = 0; i < made.g.nodes.size(); ++i) made.g.nodes[i].place = static_cast<place_id>(stages_[i] + 1);
        graphs_.emplace(size, std::move(made));
        return {};
    }

    // Whether node i of a part computes what that of the whole batch does for each sample. What may follow the size of the batch are the targets of views, and
    // what is repeated for each of the samples.
    status check_same(const node& part, const graph& own, const node& whole, batch_follower& follower, std::size_t i, std::int64_t size,
                      std::int64_t samples) const {
        bool same = part.op_type == whole.op_type && part.domain == whole.domain && part.inputs.size() == whole.inputs.size() &&
                    part.outputs.size() == whole.outputs.size();
        for (std::size_t k = 0; same && k < part.outputs.size(); ++k) {
            const value_id a = whole.outputs[k], b = part.outputs[k];
            same = (a == no_value) == (b == no_value);
            if (!same || a == no_value) continue;
            const int axis = follower.states()[a].axis;
            shape expected = whole_.at(a).extents;
            if (axis >= 0) expected[axis] = expected[axis] / samples * size;
            same = whole_.at(a).has_shape == own.at(b).has_shape && own.at(b).extents == expected;
        }
        for (std::size_t k = 0; same && k < part.inputs.size(); ++k) {
            const value_id a = whole.inputs[k], b = part.inputs[k];
            same = (a == no_value) == (b == no_value);
            if (!same || a == no_value) continue;
            const tensor &all = whole_.at(a).constant, &some = own.at(b).constant;
            same = static_cast<bool>(all) == static_cast<bool>(some);
            if (!same || !all || equal(all, some)) continue;
            const batch_change change = follower.step(i).change;
            const bool sized = (part.op->flags & op_flag::view) || change == batch_change::expand || change == batch_change::sizes;
            const bool shapes = k > 0 && !is_float(all.type()) && sized;
            bool repeated = false;
            for (const batch_carrier::repeated& r : follower.step(i).repeats)
                repeated |= r.input == static_cast<int>(k) && repeats(all, some, r.axis, size, samples);
            same = shapes || repeated;
        }
        return same ? status() : mixes(location(part), "what it computes with follows the size of the batch");
    }
    static bool equal(const tensor& a, const tensor& b) {
        return a.type() == b.type() && a.shape() == b.shape() && (a.raw() == b.raw() || !a.bytes() || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
    }
    // Whether both hold one thing for each sample along `axis`.
    static bool repeats(const tensor& all, const tensor& some, int axis, std::int64_t size, std::int64_t samples) {
        shape expected = all.shape();
        if (all.type() != some.type() || axis >= expected.rank() || expected[axis] % samples != 0) return false;
        const std::int64_t each = expected[axis] / samples;
        expected[axis] = each * size;
        if (some.shape() != expected || !all.bytes() || !some.bytes()) return false;
        std::int64_t before = 1;
        for (int d = 0; d < axis; ++d) before *= expected[d];
        const std::size_t sample = all.bytes() / static_cast<std::size_t>(before * samples);
        for (std::int64_t o = 0; o < before; ++o)
            for (const auto& held : {std::make_pair(&all, samples), std::make_pair(&some, size)})
                for (std::int64_t i = 0; i < held.second; ++i)
                    if (std::memcmp(held.first->raw() + sample * static_cast<std::size_t>(o * held.second + i),
                                    all.raw() + sample * static_cast<std::size_t>(o * samples), sample) != 0)
                        return false;
        return true;
    }

    void place_part(std::int64_t k, std::int64_t first, std::int64_t last, placed_part& to) {
        part_graph& own = graphs_.at(last - first);
        const std::string ending = "/part_" + std::to_string(k);
        to.values.assign(own.g.values.size(), no_value);
        for (std::size_t i = 0; i < own.g.inputs.size(); ++i) to.values[own.g.inputs[i]] = i == input_ ? rows(made_.inputs[i], first, last) : made_.inputs[i];
        own.constants.resize(own.g.values.size(), no_value);
        for (std::size_t i = 0; i < own.g.values.size(); ++i) {
            if (to.values[i] != no_value) continue;
            const value& v = own.g.values[i];
            if (v.constant) {
                if (own.constants[i] == no_value) own.constants[i] = shared_constant(v);
                to.values[i] = own.constants[i];
                continue;
            }
            to.values[i] = static_cast<value_id>(made_.values.size());
            made_.values.push_back(v);
            made_.values.back().name += ending;
        }
        for (node n : own.g.nodes) {
            n.name += ending;
            for (std::vector<value_id>* ids : {&n.inputs, &n.outputs})
                for (value_id& id : *ids)
                    if (id != no_value) id = to.values[id];
            to.nodes.push_back(std::move(n));
        }
        for (value_id id : own.g.outputs) to.outputs.push_back(to.values[id]);
    }
    // Parts of all sizes read the same weights.
    value_id shared_constant(const value& v) {
        if (v.constant.bytes()) {
            value_id& known = constants_.emplace(v.constant.raw(), no_value).first->second;
            if (known != no_value && made_.at(known).constant.type() == v.constant.type() && made_.at(known).constant.shape() == v.constant.shape())
                return known;
            known = static_cast<value_id>(made_.values.size());
        }
        made_.values.push_back(v);
        return static_cast<value_id>(made_.values.size()) - 1;
    }
    value_id rows(value_id input, std::int64_t first, std::int64_t last) {
        const std::string stem = made_.at(input).name;
        if (whole_.version_of("") < 10)
            return writer_.add("Slice", stem, {input},
                               {integers_attribute("starts", {first}), integers_attribute("ends", {last}), integers_attribute("axes", {0})});
        const value_id starts = writer_.integers(stem, {first}), ends = writer_.integers(stem, {last}), axes = writer_.integers(stem, {0});
        return writer_.add("Slice", stem, {input, starts, ends, axes});
    }
    void join_outputs(const std::vector<placed_part>& placed, const batch_follower& follower) {
        for (std::size_t i = 0; i < whole_.outputs.size(); ++i) {
            const std::string& name = whole_.at(whole_.outputs[i]).name;
            const bool of_samples = !follower.states()[whole_.outputs[i]].none();
            std::vector<value_id> all;
            for (const placed_part& p : placed) all.push_back(p.outputs[i]);
            const value_id made = of_samples ? writer_.add("Concat", name, all, {integer_attribute("axis", 0)}) : all[0];
            made_.at(made).name = name;
            made_.outputs.push_back(made);
        }
    }

    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    const graph& g_;
    const tensor_view* inputs_;
    const pipeline_options& how_;
    double by_memory_;
    const reference_options& with_;
    graph whole_, made_;
    node_writer writer_;
    std::size_t input_ = none;                   // the place of the one that holds samples
    std::vector<int> stages_;                    // of each node of a part
    std::map<std::int64_t, part_graph> graphs_;  // by samples
    std::map<const void*, value_id> constants_;  // in the whole graph, by where they lie
};

}  // namespace detail

GRAFT_INLINE result<graph> forward_pipeline(const graph& g, const tensor_view* inputs, const pipeline_options& how, double by_memory,
                                            const reference_options& with) {
    return detail::forward_pipeline_builder(g, inputs, how, by_memory, with).build();
}

GRAFT_END_NAMESPACE
#endif
