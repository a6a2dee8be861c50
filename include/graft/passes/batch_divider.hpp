// The network for a part of a batch, beside that for the whole: each of its nodes computes for a sample what it did among all.
#pragma once

#include "../graph/op.hpp"
#include "open_batch.hpp"
#include "run_reference.hpp"
#include "specialize.hpp"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Of the network for inputs of these shapes (as `specialize` takes them). That no sample is computed by another is proved as open_batch does it.
class batch_divider {
public:
    // `advice` ends what is said of a network that cannot be cut.
    batch_divider(const graph& g, const tensor_view* inputs, const reference_options& with, const char* advice)
        : g_(g), inputs_(inputs), with_(with), advice_(advice) {}

    // Errors: those of specialize.
    status specialize_whole() {
        GRAFT_TRY_ASSIGN(whole, specialize(g_, inputs_, with_));
        return {};
    }
    // Finds the input that holds the samples along its first axis; where none is given, or it has no elements, there is one sample. Errors: input.name (more
    // than one is given).
    GRAFT_COLD status find_samples() {
        for (std::size_t i = 0; i < g_.inputs.size(); ++i) {
            if (!inputs_ || inputs_[i].type == dtype::undefined) continue;
            if (input != none) return fail(errc::input_name, g_.name, std::string("a network whose batch is cut has to have one input") + advice_);
            input = i;
        }
        if (input == none) return {};
        const shape& extents = inputs_[input].extents;
        if (extents.rank() >= 1 && extents.elements() != 0) samples = extents[0];
        return {};
    }
    // Follows them through the whole to its outputs. Errors: graph.fixed_batch (names what mixes them).
    GRAFT_COLD status follow() {
        follower_ = std::make_unique<batch_follower>(whole, whole.inputs[input], samples);
        status apart = follower_->run();
        if (!apart.ok()) return mixes(apart.error().where(), apart.error().detail());
        for (value_id id : whole.outputs)
            if (!rows_first(id) && !axis_of(id).none())
                return mixes("'" + whole.at(id).name + "'", "this output does not have its samples along the first axis");
        return {};
    }
    batch_axis axis_of(value_id id) const { return follower_->states()[id]; }
    // Whether a value has the samples along its first axis.
    bool rows_first(value_id id) const { return axis_of(id) == batch_axis{0, 1}; }

    // The network for any number of samples, where `part` refuses because it was exported for those that it has.
    GRAFT_COLD result<graph> opened() {
        std::vector<batch_step> steps;
        for (std::size_t i = 0; i < whole.nodes.size(); ++i) steps.push_back(follower_->step(i));
        return batch_rewriter(whole, whole.inputs[input], samples, follower_->states(), steps).run();
    }

    // The network for so many of the samples: node i computes what that of the whole does. Errors: graph.fixed_batch, op.unsupported (a node has a body),
    // those of specialize.
    GRAFT_COLD result<graph> part(std::int64_t size) {
        std::vector<tensor_view> views(inputs_, inputs_ + g_.inputs.size());
        views[input].extents[0] = size;
        graph made;
        GRAFT_TRY_ASSIGN(made, specialize(g_, views.data(), with_));
        if (made.nodes.size() != whole.nodes.size())
            return mixes(g_.name, "the network of " + std::to_string(size) + " samples is another one than that of " + std::to_string(samples));
        for (std::size_t i = 0; i < made.nodes.size(); ++i) {
            const node& n = made.nodes[i];
            for (const attribute& a : n.attributes)
                if (a.graph) return fail(errc::op_unsupported, location(n), std::string("an operator with a body cannot run on parts of a batch") + advice_);
            if (!same(n, made, i, size)) return mixes(location(n), "what it computes with follows the size of the batch");
        }
        return made;
    }
    status mixes(const std::string& where, const std::string& why) const { return fail(errc::graph_fixed_batch, where, why + advice_); }

    static constexpr std::size_t none = static_cast<std::size_t>(-1);
    graph whole;  // once it is specialized
    std::int64_t samples = 1;
    std::size_t input = none;  // its place

private:
    // What may follow the size of the batch are the targets of views, and what is repeated for each of the samples.
    GRAFT_COLD bool same(const node& part, const graph& own, std::size_t i, std::int64_t size) const {
        const node& n = whole.nodes[i];
        if (part.op_type != n.op_type || part.domain != n.domain || part.inputs.size() != n.inputs.size() || part.outputs.size() != n.outputs.size())
            return false;
        for (std::size_t k = 0; k < part.outputs.size(); ++k) {
            const value_id a = n.outputs[k], b = part.outputs[k];
            if ((a == no_value) != (b == no_value)) return false;
            if (a == no_value) continue;
            const int axis = axis_of(a).axis;
            shape expected = whole.at(a).extents;
            if (axis >= 0) expected[axis] = expected[axis] / samples * size;
            if (whole.at(a).has_shape != own.at(b).has_shape || own.at(b).extents != expected) return false;
        }
        const batch_step& step = follower_->step(i);
        for (std::size_t k = 0; k < part.inputs.size(); ++k) {
            const value_id a = n.inputs[k], b = part.inputs[k];
            if ((a == no_value) != (b == no_value)) return false;
            if (a == no_value) continue;
            const tensor &all = whole.at(a).constant, &some = own.at(b).constant;
            if (static_cast<bool>(all) != static_cast<bool>(some)) return false;
            if (!all || equal(whole.at(a), own.at(b))) continue;
            const bool sized = (part.op->flags & op_flag::view) || step.change == batch_change::expand || step.change == batch_change::sizes;
            bool follows = k > 0 && !is_float(all.type()) && sized;
            for (const batch_carrier::repeated& r : step.repeats) follows |= r.input == static_cast<int>(k) && repeats(all, some, r.axis, size);
            if (!follows) return false;
        }
        return true;
    }
    // Reals of 8-bit weights need not be made for it, and bytes of a file not be copied.
    GRAFT_COLD static bool equal(const value& a, const value& b) {
        const auto told = [](const value& v) { return v.integers && v.integers->floats.watches(v.constant.storage()); };
        if (!told(a) || !told(b)) return equal(a.constant, b.constant);
        const dequantized &x = *a.integers, &y = *b.integers;
        return x.axis == y.axis && a.constant.shape() == b.constant.shape() && equal(x.integers, y.integers) && equal(x.scale, y.scale) &&
               equal(x.zero_point, y.zero_point);
    }
    static bool equal(const tensor& a, const tensor& b) {
        if (a.type() != b.type() || a.shape() != b.shape()) return false;
        if (!a.bytes()) return true;
        const std::byte *x = a.storage().unaligned(), *y = b.storage().unaligned();
        return x == y || std::memcmp(x, y, a.bytes()) == 0;
    }
    // Whether both hold one thing for each sample along `axis`.
    GRAFT_COLD bool repeats(const tensor& all, const tensor& some, int axis, std::int64_t size) const {
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

    const graph& g_;
    const tensor_view* inputs_;
    const reference_options& with_;
    const char* advice_;
    std::unique_ptr<batch_follower> follower_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
