// The order in which the stages of a pipeline compute the parts of a batch in training: passes/cut_stages.hpp cuts them.
#pragma once

#include "../passes/cut_stages.hpp"

#include <vector>

GRAFT_BEGIN_NAMESPACE

/// One turn of a stage: the forward or the backward pass of a part of the batch.
struct pipeline_turn {
    int stage = 0, part = 0;
    bool backward = false;
};
/// The turns of all stages in the order in which they are issued: each stage runs forward ahead of the first backward pass by as many parts as there
/// are stages behind it, then one forward and one backward in turn ("1F1B": Narayanan et al., "PipeDream", SOSP 2019, section 3.3, in the flushed
/// form of Narayanan et al., "Megatron-LM", SC 2021, section 2.2.1).
std::vector<pipeline_turn> pipeline_schedule(int stages, int parts);
/// The share of a stage's time in which it waits, where all turns of all stages take as long: (stages - 1) / (parts + stages - 1).
inline double pipeline_bubble(int stages, int parts) noexcept { return static_cast<double>(stages - 1) / static_cast<double>(parts + stages - 1); }

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <algorithm>

GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE std::vector<pipeline_turn> pipeline_schedule(int stages, int parts) {
    std::vector<std::vector<pipeline_turn>> own(static_cast<std::size_t>(stages));
    for (int s = 0; s < stages; ++s) {
        const int ahead = std::min(parts, stages - s);
        int forward = 0;
        while (forward < ahead) own[static_cast<std::size_t>(s)].push_back({s, forward++, false});
        for (int backward = 0; backward < parts; ++backward) {
            own[static_cast<std::size_t>(s)].push_back({s, backward, true});
            if (forward < parts) own[static_cast<std::size_t>(s)].push_back({s, forward++, false});
        }
    }
    // Played through with passes of one and two units: a stage's turn begins behind its last one and what it waits for. Those of later stages are issued first,
    // which others wait for.
    const std::size_t all = static_cast<std::size_t>(stages * parts);
    std::vector<int> ended[2] = {std::vector<int>(all, -1), std::vector<int>(all, -1)}, free(static_cast<std::size_t>(stages), 0);
    std::vector<std::size_t> next(static_cast<std::size_t>(stages), 0);
    std::vector<std::pair<int, pipeline_turn>> order;
    const auto at = [&](int s, int part) { return static_cast<std::size_t>(s * parts + part); };
    while (order.size() < 2 * all)
        for (int s = stages; s-- > 0;) {
            const std::size_t stage = static_cast<std::size_t>(s);
            while (next[stage] < own[stage].size()) {
                const pipeline_turn turn = own[stage][next[stage]];
                int begin = free[stage];
                const int before = turn.backward ? (s + 1 < stages ? ended[1][at(s + 1, turn.part)] : ended[0][at(s, turn.part)])
                                                 : (s > 0 ? ended[0][at(s - 1, turn.part)] : 0);
                if (before < 0) break;
                begin = std::max(begin, before);
                free[stage] = ended[turn.backward][at(s, turn.part)] = begin + (turn.backward ? 2 : 1);
                order.emplace_back(begin, turn);
                ++next[stage];
            }
        }
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.first != b.first ? a.first < b.first : a.second.stage > b.second.stage; });
    std::vector<pipeline_turn> turns;
    for (const auto& entry : order) turns.push_back(entry.second);
    return turns;
}

GRAFT_END_NAMESPACE
#endif
