// Recomputation as a pass: what the backward part of a training step reads is computed once more instead of kept.
#pragma once

#include "../graph/graph.hpp"

#include <cstddef>

GRAFT_BEGIN_NAMESPACE

/// The graph of a step with less to keep in memory. Its first `forward` nodes are the forward part, the others the backward part; shapes
/// are known. The forward part is cut into segments; what passes from one to the next is kept, and the rest of a segment is computed
/// again right before the backward part first reads it (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016). The number
/// of segments is the one by which the largest sum of bytes that are alive at once is least; where none helps, the graph stays as it is.
/// Same operators on the same numbers, so same bits. Nodes that draw numbers of their own, or whose shapes only a run can tell, run once;
/// running statistics are renewed once.
graph recompute(const graph& g, std::size_t forward);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../graph/captures.hpp"
#include "../graph/op.hpp"

#include <algorithm>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

class recomputer {
public:
    recomputer(const graph& g, std::size_t forward)
        : g_(g), forward_(std::min(forward, g.nodes.size())), maker_(g.values.size(), -1), bytes_(g.values.size(), 0) {
        for (std::size_t i = 0; i < g_.nodes.size(); ++i)
            for (value_id id : g_.nodes[i].outputs)
                if (id != no_value) maker_[id] = static_cast<int>(i);
        for (std::size_t i = 0; i < bytes_.size(); ++i) {
            const value& v = g_.values[i];
            if (v.has_shape && v.extents.known() && maker_[i] >= 0) bytes_[i] = std::max<std::int64_t>(0, bytes_of(v.type, v.extents));
            if (maker_[i] >= 0 && maker_[i] < static_cast<int>(forward_)) largest_ = std::max(largest_, bytes_[i]);
        }
        find_last_forward_reads();
    }

    graph run() {
        graph best = g_;
        std::int64_t least = peak(g_);
        for (std::size_t segments : {2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64}) {
            if (segments > forward_) break;
            graph made = with_segments(segments);
            const std::int64_t needs = peak(made);
            if (needs >= least) continue;
            least = needs;
            best = std::move(made);
        }
        return best;
    }

private:
    void find_last_forward_reads() {
        last_read_.assign(g_.values.size(), -1);
        std::vector<value_id> ids;
        for (std::size_t i = 0; i < forward_; ++i) {
            ids = g_.nodes[i].inputs;
            append_captures(g_.nodes[i], ids);
            for (value_id id : ids)
                if (id != no_value) last_read_[id] = static_cast<int>(i);
        }
    }

    // Where the segments end (one past their last nodes): each at the place with least to keep among those that part the bytes evenly.
    std::vector<std::size_t> cuts(std::size_t segments) const {
        std::vector<std::int64_t> crossing(forward_ + 1, 0), sum(forward_ + 1, 0);
        for (std::size_t v = 0; v < bytes_.size(); ++v) {
            const int made = maker_[v];
            if (made < 0 || made >= static_cast<int>(forward_)) continue;
            sum[static_cast<std::size_t>(made) + 1] += bytes_[v];
            if (last_read_[v] <= made) continue;
            crossing[static_cast<std::size_t>(made) + 1] += bytes_[v];
            crossing[static_cast<std::size_t>(last_read_[v]) + 1] -= bytes_[v];
        }
        for (std::size_t i = 1; i <= forward_; ++i) sum[i] += sum[i - 1], crossing[i] += crossing[i - 1];
        const double share = static_cast<double>(sum[forward_]) / static_cast<double>(segments);
        std::vector<std::size_t> ends;
        for (std::size_t s = 1; s < segments; ++s) {
            const double target = share * static_cast<double>(s);
            std::size_t best = 0;
            for (std::size_t i = 1; i < forward_; ++i) {
                const double at = static_cast<double>(sum[i]);
                if (at < target - share / 3 || at > target + share / 3 || (!ends.empty() && i <= ends.back())) continue;
                if (best == 0 || crossing[i] < crossing[best]) best = i;
            }
            if (best) ends.push_back(best);
        }
        ends.push_back(forward_);
        return ends;
    }

    static bool repeatable(const node& n) { return n.op && !(n.op->flags & (op_flag::random | op_flag::allocates | op_flag::bodies)); }
    // Statistics of the batch are small, and those of the run must not be renewed twice: such a node's first output alone is made again.
    static bool once(const node& n, std::size_t output) { return n.op && in_mask(n.op->traits.made_once, output); }

    graph with_segments(std::size_t segments) const {
        const std::vector<std::size_t> ends = cuts(segments);
        std::vector<int> segment(forward_, 0);
        for (std::size_t i = 0, s = 0; i < forward_; ++i) {
            while (i >= ends[s]) ++s;
            segment[i] = static_cast<int>(s);
        }
        const int last = static_cast<int>(ends.size()) - 1;
        std::vector<char> kept(g_.values.size(), 1);
        for (std::size_t v = 0; v < kept.size(); ++v) {
            const int made = maker_[v];
            if (made < 0 || made >= static_cast<int>(forward_)) continue;
            const node& n = g_.nodes[made];
            const int own = segment[made];
            const bool crosses = last_read_[v] >= 0 && segment[static_cast<std::size_t>(last_read_[v])] > own;
            const std::size_t output = static_cast<std::size_t>(std::find(n.outputs.begin(), n.outputs.end(), static_cast<value_id>(v)) - n.outputs.begin());
            kept[v] = crosses || own == last || !repeatable(n) || once(n, output) || bytes_[v] <= largest_ / 1024 ? 1 : 0;
        }
        for (value_id id : g_.outputs) kept[id] = 1;

        graph made = g_;
        made.nodes.assign(g_.nodes.begin(), g_.nodes.begin() + static_cast<std::ptrdiff_t>(forward_));
        std::vector<value_id> again(g_.values.size(), no_value);
        std::vector<char> done(static_cast<std::size_t>(last) + 1, 0);
        for (std::size_t i = forward_; i < g_.nodes.size(); ++i) {
            node n = g_.nodes[i];
            for (value_id id : n.inputs) {
                if (id == no_value || kept[id]) continue;
                const int s = segment[static_cast<std::size_t>(maker_[id])];
                if (!done[static_cast<std::size_t>(s)]) repeat(made, s, segment, kept, again);
                done[static_cast<std::size_t>(s)] = 1;
            }
            rename(n, again);
            made.nodes.push_back(std::move(n));
        }
        return made;
    }

    // Appends the nodes of a segment that make what the backward part reads of it and is not kept.
    void repeat(graph& made, int s, const std::vector<int>& segment, const std::vector<char>& kept, std::vector<value_id>& again) const {
        std::vector<char> needed(g_.values.size(), 0);
        const auto need = [&](const node& n) {
            for (value_id id : n.inputs)
                if (id != no_value && !kept[id] && segment[static_cast<std::size_t>(maker_[id])] == s) needed[id] = 1;
        };
        for (std::size_t i = forward_; i < g_.nodes.size(); ++i) need(g_.nodes[i]);
        std::vector<std::size_t> nodes;
        for (std::size_t i = forward_; i-- > 0;) {
            if (segment[i] != s) continue;
            bool any = false;
            for (value_id id : g_.nodes[i].outputs) any |= id != no_value && needed[id];
            if (!any) continue;
            nodes.push_back(i);
            need(g_.nodes[i]);
        }
        for (std::size_t k = nodes.size(); k-- > 0;) {
            node n = g_.nodes[nodes[k]];
            n.name += "/again";
            rename(n, again);
            // What it makes does not depend on the running statistics, the memory of which may hold the new ones by now.
            for (std::size_t i = 0; i < n.inputs.size(); ++i)
                if (in_mask(n.op->traits.statistics, i)) n.inputs[i] = n.inputs[1];
            for (std::size_t o = 0; o < n.outputs.size(); ++o) {
                value_id& id = n.outputs[o];
                if (id == no_value) continue;
                if (once(n, o)) {
                    id = no_value;
                    continue;
                }
                value copy = g_.at(id);
                copy.name += "/again";
                made.values.push_back(std::move(copy));
                const value_id fresh = static_cast<value_id>(made.values.size() - 1);
                if (!kept[id]) again[id] = fresh;
                id = fresh;
            }
            made.nodes.push_back(std::move(n));
        }
    }
    void rename(node& n, const std::vector<value_id>& again) const {
        for (value_id& id : n.inputs)
            if (id != no_value && again[id] != no_value) id = again[id];
    }

    // The largest sum of bytes that are alive at once. Views share the memory of what they look at; state and constants are not counted.
    static std::int64_t peak(const graph& g) {
        std::vector<value_id> root(g.values.size());
        for (std::size_t i = 0; i < root.size(); ++i) root[i] = static_cast<value_id>(i);
        std::vector<int> first(g.values.size(), -1), last(g.values.size(), -1);
        std::vector<value_id> ids;
        for (std::size_t i = 0; i < g.nodes.size(); ++i) {
            const node& n = g.nodes[i];
            ids = n.inputs;
            append_captures(n, ids);
            for (value_id id : ids)
                if (id != no_value) last[root[id]] = static_cast<int>(i);
            for (value_id id : n.outputs)
                if (id != no_value) first[id] = last[id] = static_cast<int>(i);
            if (n.op && (n.op->flags & op_flag::view) && n.outputs[0] != no_value && !n.inputs.empty() && n.inputs[0] != no_value) {
                root[n.outputs[0]] = root[n.inputs[0]];
                first[n.outputs[0]] = -1;
            }
        }
        for (value_id id : g.outputs) last[root[id]] = static_cast<int>(g.nodes.size());
        std::vector<std::int64_t> change(g.nodes.size() + 2, 0);
        for (std::size_t v = 0; v < first.size(); ++v) {
            const value& made = g.values[v];
            if (first[v] < 0 || !made.has_shape || !made.extents.known()) continue;
            const std::int64_t bytes = std::max<std::int64_t>(0, bytes_of(made.type, made.extents));
            change[static_cast<std::size_t>(first[v])] += bytes;
            change[static_cast<std::size_t>(last[v]) + 1] -= bytes;
        }
        std::int64_t alive = 0, most = 0;
        for (std::int64_t c : change) most = std::max(most, alive += c);
        return most;
    }

    const graph& g_;
    std::size_t forward_;
    std::vector<int> maker_, last_read_;  // of each value: the node that makes it, the last forward node that reads it
    std::vector<std::int64_t> bytes_;
    std::int64_t largest_ = 0;
};

}  // namespace detail

GRAFT_INLINE graph recompute(const graph& g, std::size_t forward) { return detail::recomputer(g, forward).run(); }

GRAFT_END_NAMESPACE
#endif
