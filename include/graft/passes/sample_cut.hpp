// A network that infers on a batch, in two: what every sample goes through by itself, and what all go through together.
#pragma once

#include "../graph/graph.hpp"
#include "run_reference.hpp"

#include <cstddef>
#include <cstdint>

GRAFT_BEGIN_NAMESPACE

/// A sample's activations stay in the caches of a core where a batch's would not, and samples that are computed beside each other share nothing but weights.
/// A weight that a sample uses once or a few times, as those of classifiers, is better read for all of them.
struct sample_cut {
    graph each;                ///< for one sample; its outputs have one row
    graph together;            ///< for the batch: its inputs are the outputs of `each` with a row for each sample, its outputs those of the network
    std::size_t input = 0;     ///< the place, in the network, of the input that holds the samples along its first axis
    std::int64_t samples = 0;  ///< 0: it cannot be cut, or better is not
};

/// Cuts the network for inputs of these shapes (as `specialize` takes them), where no sample is computed by another, which is proved as open_batch does it, and
/// where a sample is enough work to go alone. Errors: memory.oom.
result<sample_cut> cut_by_sample(const graph& g, const tensor_view* inputs, const reference_options& with);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "batch_divider.hpp"
#include "count.hpp"

#include <algorithm>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

class sample_cutter {
public:
    sample_cutter(const graph& g, const tensor_view* inputs, const reference_options& with) : inputs_(inputs), with_(with), batch_(g, inputs, with, "") {}

    // Errors are the reasons why it cannot be cut. `opened`: it takes any batch, and what it was exported with is no reason.
    GRAFT_COLD status run(sample_cut& made, bool opened = false) {
        GRAFT_TRY(batch_.find_samples());
        if (batch_.samples < 2) return {};
        GRAFT_TRY(batch_.specialize_whole());
        if (count_multiply_adds(batch_.whole) / batch_.samples < least_work) return {};
        GRAFT_TRY(batch_.follow());
        auto one = batch_.part(1);
        if (!one.ok() && !opened && one.error().code() != errc::memory_oom) {
            graph any;
            GRAFT_TRY_ASSIGN(any, batch_.opened());
            return sample_cutter(any, inputs_, with_).run(made, true);
        }
        GRAFT_TRY_ASSIGN(each_, std::move(one));
        if (!shapes_known()) return {};
        note_multiply_adds(each_);
        count_weights();
        find_together();
        if (!worthwhile()) return {};
        if (!find_between()) {
            together_.assign(together_.size(), 0);
            if (!worthwhile() || !find_between()) return {};
        }
        graph& whole = batch_.whole;
        each_.outputs = std::move(of_each_);
        whole.inputs = std::move(between_);
        keep(each_, 0);
        keep(whole, 1);
        made = {std::move(each_), std::move(whole), batch_.input, batch_.samples};
        return {};
    }

private:
    // Sixteen rows are a tile of products: a weight that meets fewer for a sample is read for all of them.
    static constexpr std::int64_t few_uses = 16, small_matrix = 1 << 16;
    // A sample of less work waits longer for its layers to begin than it gains.
    static constexpr std::int64_t least_work = 8000000;
    // A core that does 6e10 multiply-adds a second reads 5 GB of weights, if it uses each so often. Fewer weights stay in its caches.
    static constexpr std::int64_t least_uses = 48, most_kept = 1000000;

    bool shapes_known() const {
        for (const node& n : each_.nodes) {
            if (ops::row_of(n).is(op_flag::random)) return false;
            for (value_id id : n.outputs)
                if (id != no_value && !each_.at(id).has_shape) return false;
        }
        return true;
    }
    GRAFT_COLD void count_weights() {
        for (const node& n : each_.nodes) {
            std::int64_t count = 0;
            for (value_id id : n.inputs)
                if (n.multiply_adds && id != no_value && each_.at(id).constant) count = std::max(count, each_.at(id).constant.elements());
            weights_.push_back(count);
        }
    }
    // Matrices that are seldom used, of which nothing behind multiplies more, and all that reads what they make.
    GRAFT_COLD void find_together() {
        const graph& g = batch_.whole;
        together_.assign(g.nodes.size(), 0);
        std::vector<char> multiplied(g.values.size(), 0), made(g.values.size(), 0);
        for (std::size_t i = g.nodes.size(); i-- > 0;) {
            const std::int64_t work = each_.nodes[i].multiply_adds;
            bool more = work > 0 && work >= few_uses * weights_[i];
            for (value_id id : g.nodes[i].outputs) more |= id != no_value && multiplied[id];
            for (value_id id : g.nodes[i].inputs)
                if (id != no_value && more) multiplied[id] = 1;
            if (!more && weights_[i] > small_matrix) together_[i] = 1;
        }
        for (std::size_t i = 0; i < g.nodes.size(); ++i) {
            for (value_id id : g.nodes[i].inputs)
                if (id != no_value && made[id]) together_[i] = 1;
            for (value_id id : g.nodes[i].outputs)
                if (id != no_value) made[id] = together_[i];
        }
    }
    GRAFT_COLD bool worthwhile() const {
        std::int64_t work = 0, weights = 0;
        for (std::size_t i = 0; i < together_.size(); ++i)
            if (!together_[i]) work += each_.nodes[i].multiply_adds, weights += weights_[i];
        return work >= least_work && (weights <= most_kept || work / weights >= least_uses);
    }
    // What is read behind the cut and made before it. False where that does not hold a row for each sample.
    GRAFT_COLD bool find_between() {
        const graph& g = batch_.whole;
        std::vector<value_id> in_each(g.values.size(), no_value);
        for (std::size_t i = 0; i < g.inputs.size(); ++i) in_each[g.inputs[i]] = each_.inputs[i];
        for (std::size_t i = 0; i < g.nodes.size(); ++i)
            for (std::size_t k = 0; k < g.nodes[i].outputs.size(); ++k)
                if (g.nodes[i].outputs[k] != no_value) in_each[g.nodes[i].outputs[k]] = together_[i] ? no_value : each_.nodes[i].outputs[k];
        between_.clear(), of_each_.clear();
        bool rows = true;
        const auto read = [&](value_id id) {
            if (id == no_value || g.at(id).constant || in_each[id] == no_value) return;
            if (std::find(between_.begin(), between_.end(), id) != between_.end()) return;
            rows &= batch_.rows_first(id);
            between_.push_back(id);
            of_each_.push_back(in_each[id]);
        };
        for (value_id id : g.outputs) read(id);
        for (std::size_t i = 0; i < g.nodes.size(); ++i)
            if (together_[i])
                for (value_id id : g.nodes[i].inputs) read(id);
        return rows && !between_.empty();
    }
    GRAFT_COLD void keep(graph& g, char which) const {
        std::vector<node> kept;
        for (std::size_t i = 0; i < together_.size(); ++i)
            if (together_[i] == which) kept.push_back(std::move(g.nodes[i]));
        g.nodes = std::move(kept);
        drop_unread(g);
    }

    const tensor_view* inputs_;
    const reference_options& with_;
    batch_divider batch_;
    graph each_;
    std::vector<std::int64_t> weights_;  // of each node: elements of the largest constant that it multiplies with
    std::vector<char> together_;         // of each node
    std::vector<value_id> between_, of_each_;
};

}  // namespace detail

GRAFT_INLINE GRAFT_COLD result<sample_cut> cut_by_sample(const graph& g, const tensor_view* inputs, const reference_options& with) GRAFT_MEMORY_TRY {
    sample_cut made;
    status cut = detail::sample_cutter(g, inputs, with).run(made);
    if (!cut.ok() && cut.error().code() == errc::memory_oom) return cut;
    return made;
}
GRAFT_MEMORY_CATCH("cut_by_sample")

GRAFT_END_NAMESPACE
#endif
