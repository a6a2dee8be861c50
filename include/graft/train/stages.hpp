// A network cut into stages of a pipeline, and the order in which they compute the parts of a batch.
#pragma once

#include "../core/limits.hpp"
#include "../graph/graph.hpp"

#include <cstdint>
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

/// What a cut is to fit.
struct stage_limits {
    int stages = 2;
    int parts = 1;                     ///< of a batch
    int kept = 0;                      ///< tensors that the optimiser keeps for each weight
    double by_memory = 0;              ///< how much memory counts beside work: 0, alone work; 1, alone memory
    std::vector<value_id> weights;     ///< that learn
    std::vector<value_id> of_samples;  ///< inputs that differ from sample to sample
};
/// The stage of each of the first `count` nodes of a graph whose shapes are known, for one part of a batch: runs of nodes in their order, each from a layer
/// with multiply-adds on where there are enough of these, such that the heaviest stage is as light as can be. Errors: usage (fewer nodes than stages).
result<std::vector<int>> cut_stages(const graph& g, std::size_t count, const stage_limits& fits);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../passes/count.hpp"

#include <algorithm>
#include <limits>

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

namespace detail {

// What each place between two nodes would cost as a cut, by sums over the nodes before it.
class stage_cutter {
public:
    stage_cutter(const graph& g, std::size_t count, const stage_limits& fits) : g_(g), count_(count), fits_(fits) {
        work_.assign(count + 1, 0), made_.assign(count + 1, 0), weights_.assign(count + 1, 0);
        std::vector<char> learns(g.values.size(), 0), seen(g.values.size(), 0);
        for (value_id id : fits.weights) learns[id] = 1;
        std::vector<tensor_view> in, out;
        const limits none;
        for (std::size_t i = 0; i < count; ++i) {
            const node& n = g.nodes[i];
            in.clear(), out.clear();
            std::int64_t bytes = 0, elements = 0, own = 0;
            for (value_id id : n.inputs) {
                in.push_back(id == no_value ? tensor_view{} : view_of(id));
                if (id != no_value && learns[id] && !seen[id]++) own += bytes_of(g.at(id).type, g.at(id).extents);
            }
            for (value_id id : n.outputs) {
                out.push_back(id == no_value ? tensor_view{} : view_of(id));
                if (id == no_value || (n.op->flags & op_flag::view)) continue;
                bytes += std::max<std::int64_t>(0, bytes_of(g.at(id).type, g.at(id).extents));
                elements += std::max<std::int64_t>(0, elements_of(g.at(id).extents));
            }
            const op_context c{n, in.data(), static_cast<int>(in.size()), out.data(), static_cast<int>(out.size()), none};
            const std::int64_t products = std::max<std::int64_t>(0, count_multiply_adds(c));
            if (products && i) layers_.push_back(i);
            work_[i + 1] = work_[i] + static_cast<double>(products + elements);
            made_[i + 1] = made_[i] + static_cast<double>(bytes);
            weights_[i + 1] = weights_[i] + static_cast<double>(own);
        }
    }

    result<std::vector<int>> run() {
        const int stages = fits_.stages;
        if (count_ < static_cast<std::size_t>(stages))
            return fail(errc::usage, "stages", "a network of " + std::to_string(count_) + " nodes cannot be cut into " + std::to_string(stages) + " stages");
        // What is fused with a layer stays with it: between two of them a cut changes no bit.
        std::vector<std::size_t> ends{0};
        if (layers_.size() + 1 >= static_cast<std::size_t>(stages))
            ends.insert(ends.end(), layers_.begin(), layers_.end());
        else
            for (std::size_t i = 1; i < count_; ++i) ends.push_back(i);
        ends.push_back(count_);
        const std::size_t n = ends.size() - 1;
        // best[s][j]: the heaviest of s stages that end at ends[j], where it is lightest.
        std::vector<std::vector<double>> best(static_cast<std::size_t>(stages) + 1, std::vector<double>(n + 1, std::numeric_limits<double>::infinity()));
        std::vector<std::vector<std::size_t>> from(best.size(), std::vector<std::size_t>(n + 1, 0));
        best[0][0] = 0;
        for (std::size_t s = 1; s < best.size(); ++s)
            for (std::size_t j = s; j <= n; ++j)
                for (std::size_t i = s - 1; i < j; ++i) {
                    const double most = std::max(best[s - 1][i], cost(static_cast<int>(s) - 1, ends[i], ends[j]));
                    if (most < best[s][j]) best[s][j] = most, from[s][j] = i;
                }
        std::vector<int> stage(count_, 0);
        for (std::size_t s = best.size() - 1, j = n; s > 0; j = from[s--][j])
            std::fill(stage.begin() + static_cast<std::ptrdiff_t>(ends[from[s][j]]), stage.begin() + static_cast<std::ptrdiff_t>(ends[j]),
                      static_cast<int>(s) - 1);
        follow_readers(stage);
        return stage;
    }

private:
    tensor_view view_of(value_id id) const { return {g_.at(id).type, g_.at(id).extents, nullptr}; }
    // Weights, their gradients and what is kept of them; what is made for as many parts as the stage holds at once, and the gradient of one.
    double memory(double weights, double made, int held) const { return weights * (2 + fits_.kept) + made * (held + 1); }
    double cost(int s, std::size_t i, std::size_t j) const {
        const double all = memory(weights_[count_], made_[count_], fits_.stages),
                     held = memory(weights_[j] - weights_[i], made_[j] - made_[i], std::min(fits_.parts, fits_.stages - s));
        return (1 - fits_.by_memory) * (work_[j] - work_[i]) / std::max(1.0, work_[count_]) + fits_.by_memory * held / std::max(1.0, all);
    }
    // What is made of weights alone goes to who reads it first.
    void follow_readers(std::vector<int>& stage) const {
        std::vector<char> depends(g_.values.size(), 0);
        for (value_id id : fits_.of_samples) depends[id] = 1;
        std::vector<int> reader(g_.values.size(), -1);
        for (std::size_t i = 0; i < count_; ++i) {
            bool any = false;
            for (value_id id : g_.nodes[i].inputs) any |= id != no_value && depends[id];
            for (value_id id : g_.nodes[i].outputs)
                if (id != no_value && any) depends[id] = 1;
        }
        for (std::size_t i = count_; i-- > 0;) {
            const node& n = g_.nodes[i];
            int first = -1;
            bool free = true;
            for (value_id id : n.outputs) {
                if (id == no_value) continue;
                free &= !depends[id];
                if (reader[id] >= 0 && (first < 0 || reader[id] < first)) first = reader[id];
            }
            if (free && first >= 0) stage[i] = first;
            for (value_id id : n.inputs)
                if (id != no_value && (reader[id] < 0 || stage[i] < reader[id])) reader[id] = stage[i];
        }
    }

    const graph& g_;
    std::size_t count_;
    const stage_limits& fits_;
    std::vector<double> work_, made_, weights_;  // of the nodes before each
    std::vector<std::size_t> layers_;            // nodes with multiply-adds
};

}  // namespace detail

GRAFT_INLINE result<std::vector<int>> cut_stages(const graph& g, std::size_t count, const stage_limits& fits) {
    return detail::stage_cutter(g, count, fits).run();
}

GRAFT_END_NAMESPACE
#endif
