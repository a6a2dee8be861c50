// Cuts a network into the stages of a pipeline: by work, by memory, or by both.
#pragma once

#include "../core/limits.hpp"
#include "../graph/graph.hpp"

#include <cstdint>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// What a cut is to fit.
struct stage_limits {
    int stages = 2;
    int parts = 1;                     ///< of a batch
    int kept = 0;                      ///< tensors that the optimiser keeps for each weight
    double by_memory = 0;              ///< how much memory counts beside work: 0, alone work; 1, alone memory
    bool forward_only = false;         ///< nothing is kept for a backward pass: a weight counts once, and of what is made what is alive at the same time
    std::vector<value_id> weights;     ///< that learn; of a forward pass, all constants that are to be counted
    std::vector<value_id> of_samples;  ///< inputs that differ from sample to sample
};
/// The stage of each of the first `count` nodes of a graph whose shapes are known, for one part of a batch: runs of nodes in their order, each from a layer
/// with multiply-adds on where there are enough of these, such that the heaviest stage is as light as can be. Errors: usage (fewer nodes than stages, of a
/// forward pass fewer layers with multiply-adds).
result<std::vector<int>> cut_stages(const graph& g, std::size_t count, const stage_limits& fits);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../graph/memory_roots.hpp"
#include "count.hpp"
#include "graph_queries.hpp"

#include <algorithm>
#include <limits>

GRAFT_BEGIN_NAMESPACE
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
        if (fits.forward_only) find_alive();
    }

    result<std::vector<int>> run() {
        const int stages = fits_.stages;
        if (count_ < static_cast<std::size_t>(stages))
            return fail(errc::usage, "stages", "a network of " + std::to_string(count_) + " nodes cannot be cut into " + std::to_string(stages) + " stages");
        if (fits_.forward_only && layers_.size() + 1 < static_cast<std::size_t>(stages))
            return fail(errc::usage, "stages",
                        "a network of " + std::to_string(layers_.size() + 1) + " layers with products cannot be cut into " + std::to_string(stages) +
                            " stages, each of which has one at least");
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
    double memory(std::size_t i, std::size_t j, int held) const {
        const double weights = weights_[j] - weights_[i];
        return fits_.forward_only ? weights + most_alive(i, j) : memory(weights, made_[j] - made_[i], held);
    }
    // Bytes that are alive while each node runs, and for each power of two the most of as many nodes from there on.
    void find_alive() {
        const std::vector<value_id> roots = memory_roots(g_);
        std::vector<std::size_t> last(g_.values.size(), 0);
        for (std::size_t i = 0; i < count_; ++i)
            for (value_id id : g_.nodes[i].inputs)
                if (id != no_value) last[static_cast<std::size_t>(roots[id])] = i;
        for (value_id id : g_.outputs) last[static_cast<std::size_t>(roots[id])] = count_ - 1;
        std::vector<double> change(count_ + 1, 0);
        for (std::size_t i = 0; i < count_; ++i)
            for (value_id id : g_.nodes[i].outputs) {
                if (id == no_value || roots[id] != id) continue;
                const double bytes = static_cast<double>(std::max<std::int64_t>(0, bytes_of(g_.at(id).type, g_.at(id).extents)));
                change[i] += bytes;
                change[std::max(i, last[id]) + 1] -= bytes;
            }
        alive_.emplace_back(count_, 0);
        double now = 0;
        for (std::size_t i = 0; i < count_; ++i) alive_[0][i] = now += change[i];
        for (std::size_t width = 1; 2 * width <= count_; width *= 2) {
            const std::vector<double>& half = alive_.back();
            std::vector<double> whole(count_ - 2 * width + 1, 0);
            for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = std::max(half[i], half[i + width]);
            alive_.push_back(std::move(whole));
        }
    }
    double most_alive(std::size_t i, std::size_t j) const {
        std::size_t level = 0;
        while (std::size_t(2) << level <= j - i) ++level;
        return std::max(alive_[level][i], alive_[level][j - (std::size_t(1) << level)]);
    }
    double cost(int s, std::size_t i, std::size_t j) const {
        const double all = memory(0, count_, fits_.stages), held = memory(i, j, std::min(fits_.parts, fits_.stages - s));
        return (1 - fits_.by_memory) * (work_[j] - work_[i]) / std::max(1.0, work_[count_]) + fits_.by_memory * held / std::max(1.0, all);
    }
    // What is made of weights alone goes to who reads it first.
    void follow_readers(std::vector<int>& stage) const {
        std::vector<char> depends(g_.values.size(), 0);
        for (value_id id : fits_.of_samples) depends[id] = 1;
        std::vector<int> reader(g_.values.size(), -1);
        mark_dependents(g_, count_, depends);
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
    std::vector<std::vector<double>> alive_;     // of a forward pass: see find_alive
    std::vector<std::size_t> layers_;            // nodes with multiply-adds
};

}  // namespace detail

GRAFT_INLINE result<std::vector<int>> cut_stages(const graph& g, std::size_t count, const stage_limits& fits) {
    return detail::stage_cutter(g, count, fits).run();
}

GRAFT_END_NAMESPACE
#endif
