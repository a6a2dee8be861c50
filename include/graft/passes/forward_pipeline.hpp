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
#include "batch_divider.hpp"
#include "node_writer.hpp"

#include <algorithm>
#include <map>
#include <utility>

GRAFT_BEGIN_NAMESPACE
namespace detail {

class forward_pipeline_builder {
public:
    forward_pipeline_builder(const graph& g, const tensor_view* inputs, const pipeline_options& how, double by_memory, const reference_options& with)
        : how_(how), by_memory_(by_memory), batch_(g, inputs, with, ": take one part (--parts 1)"), writer_(made_, "pipeline") {}

    result<graph> build() {
        GRAFT_TRY(how_.check());
        GRAFT_TRY(batch_.specialize_whole());
        if (how_.parts > 1) GRAFT_TRY(batch_.find_samples());
        const std::int64_t parts = std::min<std::int64_t>(how_.parts, batch_.samples);
        if (parts > 1) return in_parts(batch_.samples, parts);
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
        GRAFT_TRY(batch_.follow());
        const auto first = [&](std::int64_t k) { return samples / parts * k + std::min(k, samples % parts); };
        // Largest first: the cut is by that one.
        for (std::int64_t k = 0; k < parts; ++k) GRAFT_TRY(build_part(first(k + 1) - first(k)));

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
        join_outputs(placed);
        GRAFT_TRY(std::move(writer_.failure));
        drop_unread(made_);
        return std::move(made_);
    }

    status build_part(std::int64_t size) {
        if (graphs_.count(size)) return {};
        part_graph made;
        GRAFT_TRY_ASSIGN(made.g, batch_.part(size));
        if (stages_.empty()) GRAFT_TRY(cut(made.g));
        for (std::size_t i = 0; i < made.g.nodes.size(); ++i) made.g.nodes[i].place = static_cast<place_id>(stages_[i] + 1);
        graphs_.emplace(size, std::move(made));
        return {};
    }

    void place_part(std::int64_t k, std::int64_t first, std::int64_t last, placed_part& to) {
        part_graph& own = graphs_.at(last - first);
        const std::string ending = "/part_" + std::to_string(k);
        to.values.assign(own.g.values.size(), no_value);
        for (std::size_t i = 0; i < own.g.inputs.size(); ++i)
            to.values[own.g.inputs[i]] = i == batch_.input ? rows(made_.inputs[i], first, last) : made_.inputs[i];
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
    void join_outputs(const std::vector<placed_part>& placed) {
        for (std::size_t i = 0; i < whole_.outputs.size(); ++i) {
            const std::string& name = whole_.at(whole_.outputs[i]).name;
            const bool of_samples = !batch_.axis_of(whole_.outputs[i]).none();
            std::vector<value_id> all;
            for (const placed_part& p : placed) all.push_back(p.outputs[i]);
            const value_id made = of_samples ? writer_.add("Concat", name, all, {integer_attribute("axis", 0)}) : all[0];
            made_.at(made).name = name;
            made_.outputs.push_back(made);
        }
    }

    const pipeline_options& how_;
    double by_memory_;
    batch_divider batch_;
    graph& whole_ = batch_.whole;
    graph made_;
    node_writer writer_;
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
