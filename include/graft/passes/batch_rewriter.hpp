// Writes a graph for any number of samples, once it is known where every value holds them.
#pragma once

#include "../graph/batch_carrier.hpp"
#include "node_writer.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// What has to be done to a node.
struct batch_step {
    batch_change change = batch_change::none;
    std::vector<batch_carrier::repeated> repeats;
    int natural = -1;
};

class batch_rewriter {
public:
    batch_rewriter(const graph& fixed, value_id input, std::int64_t samples, const std::vector<batch_axis>& states, const std::vector<batch_step>& steps)
        : fixed_(fixed), g_(fixed), write_(g_, "batch"), input_(input), samples_(samples), states_(states), steps_(steps) {}

    GRAFT_COLD result<graph> run() {
        g_.nodes.clear();
        for (std::size_t i = 0; i < fixed_.nodes.size(); ++i) {
            node n = fixed_.nodes[i];
            for (const batch_carrier::repeated& r : steps_[i].repeats) n.inputs[static_cast<std::size_t>(r.input)] = repeat(n, r);
            change(n, steps_[i]);
            g_.nodes.push_back(std::move(n));
        }
        for (value_id& id : g_.outputs) id = rows_first(id);
        forget_shapes();
        GRAFT_TRY(std::move(write_.failure));
        return std::move(g_);
    }

private:
    const shape& extents(value_id id) const { return fixed_.at(id).extents; }
    batch_axis state(value_id id) const { return states_[id]; }

    // How many samples there are, int64 [1].
    value_id count() {
        if (count_ == no_value) {
            const value_id all = write_.add("Shape", fixed_.at(input_).name, {input_});
            count_ = write_.add("Gather", fixed_.at(input_).name, {all, write_.integers("first", {0})}, {integer_attribute("axis", 0)});
        }
        return count_;
    }
    // `values` with the one at `axis` as a multiple of the samples.
    GRAFT_COLD value_id with_samples(const std::string& stem, const std::vector<std::int64_t>& values, std::size_t axis, std::int64_t times) {
        value_id there = count();
        if (times != 1) there = write_.add("Mul", stem, {there, write_.integers(stem, {times})});
        std::vector<value_id> parts;
        if (axis > 0) parts.push_back(write_.integers(stem, {values.begin(), values.begin() + static_cast<std::ptrdiff_t>(axis)}));
        parts.push_back(there);
        if (axis + 1 < values.size()) parts.push_back(write_.integers(stem, {values.begin() + static_cast<std::ptrdiff_t>(axis) + 1, values.end()}));
        return parts.size() == 1 ? there : write_.add("Concat", stem, parts, {integer_attribute("axis", 0)});
    }

    GRAFT_COLD value_id repeat(const node& n, const batch_carrier::repeated& r) {
        value_id from = n.inputs[static_cast<std::size_t>(r.input)];
        const std::string stem = fixed_.at(from).name;
        const shape was = extents(from);
        if (samples_ > 1) {
            // It is the same for each of the samples that it was made for: one of them.
            const value_id starts = write_.integers(stem, {0}), ends = write_.integers(stem, {was[r.axis] / samples_}), axes = write_.integers(stem, {r.axis});
            if (fixed_.version_of("") < 10) {
                from =
                    write_.add("Slice", stem, {from},
                               {integers_attribute("starts", {0}), integers_attribute("ends", {was[r.axis] / samples_}), integers_attribute("axes", {r.axis})});
            } else
                from = write_.add("Slice", stem, {from, starts, ends, axes});
        }
        return write_.add("Tile", stem,
                          {from, with_samples(stem, std::vector<std::int64_t>(static_cast<std::size_t>(was.rank()), 1), static_cast<std::size_t>(r.axis), 1)});
    }

    // The extents of a value with -1 along an axis.
    static std::vector<std::int64_t> open_along(const shape& extents, int axis) {
        std::vector<std::int64_t> target(extents.begin(), extents.end());
        target[static_cast<std::size_t>(axis)] = -1;
        return target;
    }
    // Whether the target of a Reshape already does with more samples what it has to.
    bool follows(const node& n) const {
        const batch_axis from = state(n.inputs[0]), to = state(n.outputs[0]);
        if (n.inputs.size() < 2 || n.find("allowzero")) return false;
        const tensor& target = fixed_.at(n.inputs[1]).constant;
        if (!target || target.elements() <= to.axis) return false;
        const std::int64_t there = element_as_int64(target.type(), target.raw(), to.axis);
        return there == -1 || (there == 0 && from == to);
    }

    GRAFT_COLD void change(node& n, const batch_step& step) {
        if (step.change == batch_change::none) return;
        const value_id in = n.inputs[0], out = n.outputs[0];
        const std::string stem = n.name.empty() ? fixed_.at(out).name : n.name;
        const int axis = state(out).axis;
        switch (step.change) {
        case batch_change::none: break;
        case batch_change::gather: {
            std::vector<std::int64_t> parts(extents(in).begin(), extents(in).end());
            const auto along = static_cast<std::ptrdiff_t>(state(in).axis);
            parts.insert(parts.begin() + along, -1);
            const value_id apart = write_.add("Reshape", stem, {in, write_.integers(stem, parts)});
            const value_id taken = write_.add("Gather", stem, {apart, n.inputs[1]}, {integer_attribute("axis", along + 1)});
            become_reshape(n, taken, stem, open_along(extents(out), axis));
            break;
        }
        case batch_change::view:
        case batch_change::reshape:
        case batch_change::identity: {
            const bool does = step.change == batch_change::view ? axis == step.natural : step.change == batch_change::reshape && follows(n);
            if (!does) become_reshape(n, in, stem, open_along(extents(out), axis));
            break;
        }
        case batch_change::expand: {
            // As many extents as the target had: it may have fewer than the output.
            std::vector<std::int64_t> target(extents(out).begin(), extents(out).end());
            target[static_cast<std::size_t>(axis)] = 1;
            n.inputs[1] = write_.integers(stem, target);
            break;
        }
        case batch_change::slice: take_all(n, stem, axis); break;
        case batch_change::sizes: {
            std::vector<std::int64_t> sizes;
            const tensor& given = fixed_.at(n.inputs[3]).constant;
            for (std::int64_t i = 0; i < given.elements(); ++i) sizes.push_back(element_as_int64(given.type(), given.raw(), i));
            std::size_t at = static_cast<std::size_t>(axis);
            if (const attribute* axes = n.find("axes"))
                for (std::size_t i = 0; i < axes->integers.size(); ++i)
                    if (axes->integers[i] == axis || axes->integers[i] + extents(in).rank() == axis) at = i;
            n.inputs[3] = with_samples(stem, sizes, at, sizes[at] / samples_);
            break;
        }
        }
    }
    void become_reshape(node& n, value_id from, const std::string& stem, const std::vector<std::int64_t>& target) {
        write_.become(n, "Reshape");
        n.attributes.clear();
        n.inputs = {from, write_.integers(stem, target)};
    }
    GRAFT_COLD void take_all(node& n, const std::string& stem, int axis) {
        const int rank = extents(n.inputs[0]).rank();
        std::vector<std::int64_t> axes, ends;
        const auto read = [&](const char* name, std::size_t input, std::vector<std::int64_t>& values) {
            if (const attribute* a = n.find(name)) values = a->integers;
            if (input >= n.inputs.size() || n.inputs[input] == no_value) return;
            const tensor& t = fixed_.at(n.inputs[input]).constant;
            for (std::int64_t i = 0; i < t.elements(); ++i) values.push_back(element_as_int64(t.type(), t.raw(), i));
        };
        read("ends", 2, ends);
        read("axes", 3, axes);
        for (std::size_t i = 0; i < ends.size(); ++i) {
            const std::int64_t along = axes.empty() ? static_cast<std::int64_t>(i) : axes[i] + (axes[i] < 0 ? rank : 0);
            if (along == axis) ends[i] = INT32_MAX;  // which 32-bit lists hold too: the lists of a Slice are of one type
        }
        if (n.inputs.size() > 2)
            n.inputs[2] = write_.integers(stem, ends, fixed_.at(n.inputs[2]).constant.type());
        else
            for (attribute& a : n.attributes)
                if (a.name == "ends") a.integers = ends;
    }

    // An output with a row for each sample; the name stays with what is handed out.
    GRAFT_COLD value_id rows_first(value_id id) {
        const batch_axis where = state(id);
        if (where.none()) return id;
        const shape e = extents(id);
        if (where.axis == 0 && where.outer == 1 && e[0] == samples_) {
            rows_.emplace_back(id, e);
            rows_.back().second[0] = shape::unknown;
            return id;
        }
        std::int64_t before = where.outer, behind = 1;
        for (int a = 0; a < where.axis; ++a) before *= e[a];
        behind = e.elements() / (before * samples_);
        // One sample as it was, without the axis that was the batch's alone.
        std::vector<std::int64_t> rows{-1};
        for (int a = 0; a < e.rank(); ++a)
            if (a != where.axis || e[a] != samples_) rows.push_back(a == where.axis ? e[a] / samples_ : e[a]);
        const std::string name = g_.at(id).name;
        g_.at(id).name = write_.fresh(name);
        value_id made = id;
        if (before > 1) {
            made = write_.add("Reshape", name, {made, write_.integers(name, {before, -1, behind})});
            made = write_.add("Transpose", name, {made}, {integers_attribute("perm", {1, 0, 2})});
        }
        made = write_.add("Reshape", name, {made, write_.integers(name, rows)});
        g_.at(made).name = name;
        g_.at(made).type = fixed_.at(id).type;
        rows_.emplace_back(made, shape::from(rows.data(), rows.data() + rows.size()));
        return made;
    }

    // Shapes were those of the fixed batch; what comes in and what goes out is told with the samples open.
    void forget_shapes() {
        for (const node& n : g_.nodes)
            for (value_id id : n.outputs)
                if (id != no_value) g_.at(id).has_shape = false, g_.at(id).dimensions.clear();
        shape in = extents(input_);
        in[0] = shape::unknown;
        tell(input_, in);
        for (const auto& row : rows_) tell(row.first, row.second);
    }
    void tell(value_id id, const shape& e) {
        value& v = g_.at(id);
        v.has_shape = true;
        v.extents = e;
        v.dimensions.assign(static_cast<std::size_t>(e.rank()), "");
        v.dimensions[0] = "batch";
    }

    const graph& fixed_;
    graph g_;
    node_writer write_;
    value_id input_;
    std::int64_t samples_;
    const std::vector<batch_axis>& states_;
    const std::vector<batch_step>& steps_;
    value_id count_ = no_value;
    std::vector<std::pair<value_id, shape>> rows_;  // the outputs that hold samples, and what is known of their extents
};

}  // namespace detail
GRAFT_END_NAMESPACE
