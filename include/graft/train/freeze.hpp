// Freezing: which parameters of a network learn.
#pragma once

#include "../core/executor.hpp"
#include "../core/limits.hpp"
#include "parameters.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// Sets `learns` of every parameter by a rule:
///   "none"    all of them learn
///   "trunk"   those whose names are in `head` learn, the others do not
///   a number  the parameters of the first N stages do not; a stage ends where the picture gets smaller
///   "names"   those whose names are in `named` do not
/// `input` is the shape of one batch. Errors: train.freeze (nothing is left to learn, there are fewer stages, no such name), usage.
status freeze(const graph& g, std::vector<parameter>& parameters, const std::string& rule, const std::vector<std::string>& head,
              const std::vector<std::string>& named, const shape& input, executor& pool, const limits& limit = {});

/// The stage of each parameter, counted from 1: how many times the picture has become smaller before the layer's output, the layer's own
/// stride included. Layers behind the last picture belong to the last stage.
result<std::vector<int>> stages_of(const graph& g, const std::vector<parameter>& parameters, const shape& input, executor& pool, const limits& limit = {});

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../passes/specialize.hpp"
#include "trunk.hpp"

#include <algorithm>
#include <cstdlib>

GRAFT_BEGIN_NAMESPACE

namespace detail {

// Whether anything before the head learns; a network without a head of its own has no trunk.
inline bool trunk_learns(const graph& g, const std::vector<parameter>& parameters, value_id features) {
    const int cut = maker_of(g, features);
    for (const parameter& p : parameters)
        if (p.learns && p.node <= cut) return true;
    return false;
}

}  // namespace detail

GRAFT_INLINE result<std::vector<int>> stages_of(const graph& g, const std::vector<parameter>& parameters, const shape& input, executor& pool,
                                                const limits& limit) GRAFT_MEMORY_TRY {
    graph known;
    GRAFT_TRY_ASSIGN(known, specialize_first_input(g, input, pool, limit));
    std::vector<int> stages;
    std::int64_t smallest = INT64_MAX;
    int stage = 0;
    for (const parameter& p : parameters) {
        // Where a weight reaches its layer through a Transpose or a Reshape, the layer is the next reader of that.
        std::size_t at = static_cast<std::size_t>(p.node);
        const node& n = g.nodes[at];
        const value& y = known.at(n.outputs[0]);
        const bool picture = y.has_shape && y.extents.rank() == 4 && y.extents.known() && !(n.inputs[0] == p.id);
        const std::int64_t side = picture ? std::min(y.extents[2], y.extents[3]) : smallest;
        // Squeezing to 1 x 1, as pooling and excitation do, is no stage.
        if (stage == 0 || (side < smallest && side > 1)) {
            ++stage;
            smallest = side;
        }
        stages.push_back(stage);
    }
    return stages;
}
GRAFT_MEMORY_CATCH("stages_of")

GRAFT_INLINE status freeze(const graph& g, std::vector<parameter>& parameters, const std::string& rule, const std::vector<std::string>& head,
                           const std::vector<std::string>& named, const shape& input, executor& pool, const limits& limit) GRAFT_MEMORY_TRY {
    const auto among = [](const std::vector<std::string>& names, const std::string& name) {
        return std::find(names.begin(), names.end(), name) != names.end();
    };
    char* end = nullptr;
    const long stages = std::strtol(rule.c_str(), &end, 10);
    const bool number = !rule.empty() && rule[0] >= '0' && rule[0] <= '9' && !*end;
    if (!number && rule != "none" && rule != "trunk" && rule != "names")
        return fail(errc::usage, rule, "freeze takes none, trunk, a number of stages, or names");
    std::vector<int> stage(parameters.size(), 1);
    if (number && stages > 0) {
        GRAFT_TRY_ASSIGN(stage, stages_of(g, parameters, input, pool, limit));
        const int most = stage.empty() ? 0 : stage.back();
        if (stages > most) return fail(errc::train_freeze, rule, "the network has " + std::to_string(most) + " stages");
    }
    bool any = false;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        parameter& p = parameters[i];
        const bool in_head = among(head, p.name);
        if (rule == "trunk")
            p.learns = in_head;
        else if (rule == "names")
            p.learns = !among(named, p.name);
        else if (number)
            p.learns = in_head || stage[i] > stages;
        else
            p.learns = true;
        any |= p.learns;
    }
    if (!any) return fail(errc::train_freeze, rule, "nothing is left to learn");
    return {};
}
GRAFT_MEMORY_CATCH("freeze")

GRAFT_END_NAMESPACE
#endif
