// Channels that are shuffled between groups, with what joins them before and cuts them behind.
#pragma once

#include "channel_places.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

//   Split(Reshape(Transpose(Reshape(Concat(a, b), N g C/g H W), 0 2 1 3 4), N C H W))    GatherChannels(places, a, b), GatherChannels(places, a, b)
// as ShuffleNet has them between its units: each part is brought together out of the images, in blocks of channels where these lie so, and nothing in between
// is made.
class channel_shuffles : public rewriter {
public:
    channel_shuffles(graph& target, const lowering& with) : rewriter(target, with.on), limit_(with.limit) {}

    // Errors: memory.oom; the graph is of no use then.
    GRAFT_COLD status run() {
        static constexpr rewrite<channel_shuffles> rows[] = {{"Transpose", "", &channel_shuffles::shuffle}};
        sweep(*this, rows);
        return std::move(failure_);
    }

private:
    GRAFT_COLD void shuffle(node& turn) {
        node* const before = used_once(turn.inputs[0]) ? maker(turn.inputs[0]) : nullptr;
        node* const behind = only_reader(turn.outputs[0]);
        if (!before || !behind || !row(*before).is(op_flag::view) || !row(*behind).is(op_flag::view) || !swaps_groups(turn)) return;
        const value_id x = before->inputs[0], y = behind->outputs[0];
        const shape image = at(x).extents, groups = at(turn.inputs[0]).extents;
        if (!is_float32(x) || image.rank() != 4 || image.elements() == 0 || at(y).extents != image || groups[0] != image[0] ||
            groups[1] * groups[2] != image[1])
            return;
        std::vector<std::int64_t> from;
        for (std::int64_t c = 0; c < image[1]; ++c) from.push_back(c % groups[1] * groups[2] + c / groups[1]);
        node* const join = used_once(x) ? maker(x) : nullptr;
        const bool joined = join && is(*join, "Concat") && along_channels(*join, 1);
        const std::vector<value_id> images = joined ? join->inputs : std::vector<value_id>{x};

        const std::vector<int> reading = readers(y);
        std::vector<std::int64_t> starts;
        bool cut = !is_output(y) && !reading.empty();
        for (int i : reading) cut = cut && cuts_channels(*this, g.nodes[static_cast<std::size_t>(i)], limit_, starts);
        if (cut)
            for (int i : reading) {
                node& part = g.nodes[static_cast<std::size_t>(i)];
                cuts_channels(*this, part, limit_, starts);
                for (std::size_t k = 0; k < starts.size(); ++k) {
                    const auto first = from.begin() + static_cast<std::ptrdiff_t>(starts[k]);
                    gather_before(part, images, {first, first + static_cast<std::ptrdiff_t>(at(part.outputs[k]).extents[1])}, part.outputs[k]);
                }
                drop(part);
            }
        else
            gather_before(*behind, images, from, y);
        if (joined) drop(*join);
        drop(*before);
        drop(turn);
        drop(*behind);
    }
    void gather_before(const node& n, const std::vector<value_id>& images, std::vector<std::int64_t> from, value_id to) {
        result<node> made = gather_channels(*this, images, std::move(from), to);
        if (made.ok())
            insert_before(n, std::move(made).value());
        else
            failure_ = made.take_status();
    }
    // 0 2 1, and the others as they are.
    static bool swaps_groups(const node& transpose) {
        const attribute* const perm = transpose.find("perm");
        if (!perm || perm->integers.size() < 4) return false;
        for (std::size_t d = 0; d < perm->integers.size(); ++d)
            if (perm->integers[d] != static_cast<std::int64_t>(d == 1 ? 2 : d == 2 ? 1 : d)) return false;
        return true;
    }

    const limits& limit_;
    status failure_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
