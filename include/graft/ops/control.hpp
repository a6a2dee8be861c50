// Operators that run graphs: If, Loop, Scan.
#pragma once

#include "indexing.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

inline status find_body(const op_context& c, const char* attribute_name, const graph*& body) {
    const attribute* a = c.n.find(attribute_name);
    body = a ? a->graph.get() : nullptr;
    if (!body) return c.fail(errc::op_attribute, "a body is missing");
    return {};
}

/// Makes output i of the node from a tensor.
inline void give(run_context& c, int i, tensor t) {
    c.out[i] = view(t);
    (*c.made)[static_cast<std::size_t>(i)] = std::move(t);
}
inline result<tensor> copy_of(const run_context& c, const tensor_view& v) {
    auto made = tensor::make(v.type, v.extents, c.budget);
    if (made.ok() && made->bytes()) std::memcpy(made->raw(), v.data, made->bytes());
    return made;
}

/// Runs a body; outputs that are inputs handed through become copies, for the inputs' memory is used again.
inline status run_body(run_context& c, const graph& body, const std::vector<tensor_view>& inputs, std::vector<tensor>& outputs) {
    outputs.clear();
    GRAFT_TRY(c.bodies->run(body, inputs.data(), static_cast<int>(inputs.size()), outputs));
    if (outputs.size() != body.outputs.size())
        return c.fail(errc::internal, "the body has %lld outputs, not %lld", static_cast<std::int64_t>(outputs.size()),
                      static_cast<std::int64_t>(body.outputs.size()));
    for (tensor& t : outputs) {
        if (!t) return c.fail(errc::op_unsupported, "a body makes something other than a tensor");
        for (const tensor_view& v : inputs)
            if (v.data && v.data == static_cast<void*>(t.raw())) {
                GRAFT_TRY_ASSIGN(t, copy_of(c, view(t)));
                break;
            }
    }
    return {};
}

/// Tensors of one shape put behind each other, in memory that grows.
struct row_store {
    dtype type = dtype::undefined;
    shape element;
    buffer memory;
    std::int64_t count = 0, capacity = 0, bytes = 0;  // bytes: of one row
};
/// Adds a row (null data: zeros).
inline status append(const run_context& c, row_store& s, const tensor_view& t) {
    if (s.type == dtype::undefined) {
        s.type = t.type;
        s.element = t.extents;
        s.bytes = bytes_of(t.type, t.extents);
        GRAFT_TRY(check_rank(c, t.extents.rank() + 2));
    }
    if (s.type != t.type || s.element != t.extents) return c.fail(errc::op_shape, "an output of the body changes its type or shape at iteration %lld", s.count);
    if (s.bytes > 0 && s.count == s.capacity) {
        const std::int64_t grown = s.capacity ? 2 * s.capacity : 4, wanted = checked_mul(grown, s.bytes);
        const auto over = [&] {
            return c.fail(errc::memory_budget, "the collected outputs of %lld iterations are over the limit of %lld bytes", s.count, c.limit.memory_bytes);
        };
        if (wanted < 0 || wanted > c.limit.memory_bytes) return over();
        auto made = buffer::allocate(static_cast<std::size_t>(wanted), c.budget);
        if (!made.ok()) return made.error().code() == errc::memory_budget ? over() : made.take_status();
        buffer larger = std::move(made).value();
        if (s.count) std::memcpy(larger.data(), s.memory.data(), static_cast<std::size_t>(s.count * s.bytes));
        s.memory = std::move(larger);
        s.capacity = grown;
    }
    if (s.bytes > 0) {
        if (t.data)
            std::memcpy(s.memory.data() + s.count * s.bytes, t.data, static_cast<std::size_t>(s.bytes));
        else
            std::memset(s.memory.data() + s.count * s.bytes, 0, static_cast<std::size_t>(s.bytes));
    }
    ++s.count;
    return {};
}
/// Without any iteration a row is what the body declares; open extents are 0.
inline status declare(const op_context& c, row_store& s, const graph& body, int output) {
    if (s.type != dtype::undefined) return {};
    const value& v = body.at(body.outputs[static_cast<std::size_t>(output)]);
    if (!size_of(v.type)) return c.fail(errc::op_unsupported, "the type of output %lld is not known without an iteration", output);
    s.type = v.type;
    s.element = v.has_shape ? v.extents : shape{};
    for (int d = 0; d < s.element.rank(); ++d)
        if (s.element[d] < 0) s.element[d] = 0;
    return check_rank(c, s.element.rank() + 2);
}
inline tensor rows_of(const row_store& s) noexcept {
    shape all = s.element;
    all.insert(0, s.count);
    return tensor(s.type, all, s.memory);
}

// If-1,11,13,16,19,21,23,24,25: runs one of two bodies, which read what they need from the graph around them.
inline status if_infer(infer_context& c) {
    GRAFT_TRY(check_scalar(c, 0, dtype::boolean));
    for (const char* name : {"then_branch", "else_branch"}) {
        const graph* body = nullptr;
        GRAFT_TRY(find_body(c, name, body));
        if (!body->inputs.empty()) return c.fail(errc::op_attribute, "a branch has %lld inputs", static_cast<std::int64_t>(body->inputs.size()));
        if (static_cast<int>(body->outputs.size()) != c.outputs)
            return c.fail(errc::op_attribute, "a branch has %lld outputs, the node %lld", static_cast<std::int64_t>(body->outputs.size()), c.outputs);
    }
    return c.defer();
}
inline status if_run(run_context& c) {
    const graph* body = nullptr;
    GRAFT_TRY(find_body(c, *c.in[0].as<std::uint8_t>() ? "then_branch" : "else_branch", body));
    std::vector<tensor> outputs;
    GRAFT_TRY(run_body(c, *body, {}, outputs));
    for (int i = 0; i < c.outputs; ++i) give(c, i, std::move(outputs[static_cast<std::size_t>(i)]));
    return {};
}

// Whether the condition that a Loop's body gives can ever differ from the one it got: if not, the trip count alone ends it.
inline bool condition_may_end(const graph& body) {
    value_id id = body.outputs[0];
    for (int hops = 0; hops < 8; ++hops) {
        const value& v = body.at(id);
        if (id == body.inputs[1]) return false;
        if (v.constant) return !(v.constant.type() == dtype::boolean && v.constant.elements() == 1 && v.constant.data<bool>()[0]);
        const node* maker = nullptr;
        for (const node& n : body.nodes)
            for (value_id o : n.outputs)
                if (o == id) maker = &n;
        if (!maker || maker->op_type != "Identity" || maker->inputs.empty() || maker->inputs[0] < 0) return true;
        id = maker->inputs[0];
    }
    return true;
}

// Loop-1,11,13,16,19,21,23,24,25: for (i = 0; i < M && cond; ++i) (cond, state.., rows..) = body(i, cond, state..); the rows of
// all iterations are put behind each other.
inline status loop_infer(infer_context& c) {
    const graph* body = nullptr;
    GRAFT_TRY(find_body(c, "body", body));
    if (c.has(0)) GRAFT_TRY(check_scalar(c, 0, dtype::int64));
    if (c.has(1)) GRAFT_TRY(check_scalar(c, 1, dtype::boolean));
    const int states = c.inputs > 2 ? c.inputs - 2 : 0;
    for (int i = 2; i < c.inputs; ++i)
        if (!c.has(i)) return c.fail(errc::op_unsupported, "state %lld is left out, or is not a tensor", i - 2);
    if (static_cast<int>(body->inputs.size()) != states + 2 || static_cast<int>(body->outputs.size()) < states + 1 ||
        static_cast<int>(body->outputs.size()) != c.outputs + 1)
        return c.fail(errc::op_attribute, "the body has %lld inputs and %lld outputs, which does not fit %lld states",
                      static_cast<std::int64_t>(body->inputs.size()), static_cast<std::int64_t>(body->outputs.size()), states);
    return c.defer();
}
inline GRAFT_COLD status loop_run(run_context& c) {
    const graph* body = nullptr;
    GRAFT_TRY(find_body(c, "body", body));
    const int states = c.inputs > 2 ? c.inputs - 2 : 0, stores = c.outputs - states;
    const std::int64_t trips = c.has(0) ? c.in[0].integer(0) : INT64_MAX;
    std::uint8_t condition = c.has(1) ? *c.in[1].as<std::uint8_t>() != 0 : 1;
    if (condition && trips > c.limit.loop_iterations && !condition_may_end(*body))
        return c.fail(errc::op_limit, "%lld iterations are over the limit of %lld", trips, c.limit.loop_iterations);
    std::vector<tensor> state, next;
    std::vector<row_store> rows(static_cast<std::size_t>(stores));
    std::vector<tensor_view> views(static_cast<std::size_t>(states) + 2);
    for (int i = 0; i < states; ++i) views[static_cast<std::size_t>(i) + 2] = c.in[i + 2];
    std::int64_t iteration = 0;
    views[0] = {dtype::int64, shape{}, &iteration};
    views[1] = {dtype::boolean, shape{}, &condition};
    for (; condition && iteration < trips; ++iteration) {
        if (iteration >= c.limit.loop_iterations) return c.fail(errc::op_limit, "more than %lld iterations", c.limit.loop_iterations);
        GRAFT_TRY(run_body(c, *body, views, next));
        if (next[0].type() != dtype::boolean || next[0].elements() != 1) return c.fail(errc::op_type, "the condition that the body gives is not one bool");
        condition = next[0].data<bool>()[0];
        for (int i = 0; i < stores; ++i) GRAFT_TRY(append(c, rows[static_cast<std::size_t>(i)], view(next[static_cast<std::size_t>(1 + states + i)])));
        state.swap(next);
        for (int i = 0; i < states; ++i) views[static_cast<std::size_t>(i) + 2] = view(state[static_cast<std::size_t>(i) + 1]);
    }
    for (int i = 0; i < states; ++i) {
        if (iteration)
            give(c, i, std::move(state[static_cast<std::size_t>(i) + 1]));
        else {
            tensor t;
            GRAFT_TRY_ASSIGN(t, copy_of(c, c.in[i + 2]));
            give(c, i, std::move(t));
        }
    }
    for (int i = 0; i < stores; ++i) {
        GRAFT_TRY(declare(c, rows[static_cast<std::size_t>(i)], *body, 1 + states + i));
        give(c, states + i, rows_of(rows[static_cast<std::size_t>(i)]));
    }
    return {};
}

/// What a Scan node asks for. Scan-8 has a batch axis in front of everything, and sequence_lens as its first input.
struct scan_plan {
    const graph* body = nullptr;
    int first = 0, states = 0, scans = 0, stores = 0;
    bool batched = false;
    std::int64_t batch = 1, steps = 0;
};
// Entry i of a list attribute, 0 where it is not there; `listed` is the length that it must have.
inline status list_entry(const op_context& c, const char* name, int i, int listed, std::int64_t& entry) {
    const integer_list list = c.integers(name);
    if (c.has_attribute(name) && list.size != listed) return c.fail(errc::op_attribute, "a list has %lld entries, not %lld", list.size, listed);
    entry = list.size ? list[i] : 0;
    return {};
}
inline status read_direction(const op_context& c, const char* name, int i, int listed, bool& reversed) {
    std::int64_t entry = 0;
    GRAFT_TRY(list_entry(c, name, i, listed, entry));
    if (entry != 0 && entry != 1) return c.fail(errc::op_attribute, "direction %lld is neither 0 nor 1", entry);
    reversed = entry == 1;
    return {};
}
inline status scan_axis(const op_context& c, const scan_plan& p, int i, int& axis) {
    axis = 1;
    if (p.batched) return {};
    std::int64_t entry = 0;
    GRAFT_TRY(list_entry(c, "scan_input_axes", i, p.scans, entry));
    return c.axis(entry, c.in[p.first + p.states + i].extents.rank(), axis);
}
inline GRAFT_COLD status read_scan(const op_context& c, scan_plan& p) {
    GRAFT_TRY(find_body(c, "body", p.body));
    p.batched = c.version() < 9;
    p.first = p.batched ? 1 : 0;
    const std::int64_t scans = c.integer("num_scan_inputs", 0);
    if (scans < 1 || scans > c.inputs - p.first) return c.fail(errc::op_attribute, "num_scan_inputs %lld is out of range", scans);
    p.scans = static_cast<int>(scans);
    p.states = c.inputs - p.first - p.scans;
    p.stores = c.outputs - p.states;
    for (int i = p.first; i < c.inputs; ++i)
        if (!c.has(i)) return c.fail(errc::op_unsupported, "input %lld is left out, or is not a tensor", i);
    if (static_cast<int>(p.body->inputs.size()) != p.states + p.scans || p.stores < 0 || static_cast<int>(p.body->outputs.size()) != c.outputs)
        return c.fail(errc::op_attribute, "the body has %lld inputs and %lld outputs, which does not fit the node",
                      static_cast<std::int64_t>(p.body->inputs.size()), static_cast<std::int64_t>(p.body->outputs.size()));
    for (int i = 0; i < p.scans; ++i) {
        const shape& s = c.in[p.first + p.states + i].extents;
        int axis = 0;
        bool reversed = false;
        if (p.batched && s.rank() < 2) return c.fail_shapes("scan inputs must have a batch and a sequence axis");
        GRAFT_TRY(scan_axis(c, p, i, axis));
        GRAFT_TRY(read_direction(c, p.batched ? "directions" : "scan_input_directions", i, p.scans, reversed));
        if (i && (s[axis] != p.steps || (p.batched && s[0] != p.batch))) return c.fail_shapes("the sequences differ in length");
        p.steps = s[axis];
        if (p.batched) p.batch = s[0];
    }
    for (int i = 0; i < p.states && p.batched; ++i)
        if (c.in[p.first + i].extents.rank() < 1 || c.in[p.first + i].extents[0] != p.batch)
            return c.fail_shapes("the states have not the batch of the sequences");
    if (p.batched && c.has(0)) {
        GRAFT_TRY(check_index_type(c, 0, false));
        if (c.in[0].extents != shape{p.batch}) return c.fail_shapes("sequence_lens must have one element a batch");
    }
    return {};
}

// Scan-8,9,11,16,19,21,23,24,25: for each step along the sequences (state.., rows..) = body(state.., slices..).
inline status scan_infer(infer_context& c) {
    scan_plan p;
    GRAFT_TRY(read_scan(c, p));
    return c.defer();
}
// Output i of the node from its rows: [steps, ..] with the step axis put where it belongs, backwards where asked for.
inline GRAFT_COLD status give_scanned(run_context& c, const scan_plan& p, int i, const row_store& s) {
    shape rank_only = s.element;
    rank_only.insert(0, s.count);
    int axis = 0;
    bool reversed = false;
    std::int64_t entry = 0;
    GRAFT_TRY(list_entry(c, "scan_output_axes", i, p.stores, entry));
    GRAFT_TRY(c.axis(entry, rank_only.rank(), axis));
    GRAFT_TRY(read_direction(c, "scan_output_directions", i, p.stores, reversed));
    if (axis == 0 && !reversed) return give(c, p.states + i, rows_of(s)), status{};
    shape out = s.element;
    out.insert(axis, s.count);
    GRAFT_TRY(c.allocate(p.states + i, s.type, out));
    std::int64_t from[shape::max_rank], to[shape::max_rank], moved[shape::max_rank];
    row_major(rank_only, from);
    row_major(out, to);
    for (int d = 0; d < out.rank(); ++d) moved[d] = d == axis ? from[0] : from[d < axis ? d + 1 : d];
    const std::byte* start = s.memory.data();
    if (reversed && s.count) {
        start += (s.count - 1) * s.bytes;
        moved[axis] = -moved[axis];
    }
    copy_strided(size_of(s.type), out, c.out[p.states + i].data, to, start, moved);
    return {};
}
// The slice of scan input i at step t: a view where it is contiguous, else a copy in `slice`.
inline status take_slice(const run_context& c, const scan_plan& p, int i, std::int64_t b, std::int64_t t, tensor& slice, tensor_view& taken) {
    const tensor_view& whole = c.in[p.first + p.states + i];
    int axis = 0;
    bool reversed = false;
    GRAFT_TRY(scan_axis(c, p, i, axis));
    GRAFT_TRY(read_direction(c, p.batched ? "directions" : "scan_input_directions", i, p.scans, reversed));
    if (reversed) t = (p.batched && c.has(0) ? index_at(c.in[0], b) : p.steps) - 1 - t;
    const std::int64_t size = static_cast<std::int64_t>(size_of(whole.type));
    std::int64_t strides[shape::max_rank], to[shape::max_rank];
    row_major(whole.extents, strides);
    taken.type = whole.type;
    taken.extents = whole.extents;
    taken.extents.erase(axis);
    char* from = whole.as<char>() + t * strides[axis] * size;
    if (p.batched) {
        taken.extents.erase(0);
        from += b * strides[0] * size;
    }
    taken.data = from;
    if (p.batched || axis == 0 || taken.extents.elements() == 0) return {};
    if (!slice) GRAFT_TRY_ASSIGN(slice, tensor::make(taken.type, taken.extents, c.budget));
    for (int d = axis; d + 1 < whole.extents.rank(); ++d) strides[d] = strides[d + 1];
    row_major(taken.extents, to);
    copy_strided(static_cast<std::size_t>(size), taken.extents, slice.raw(), to, from, strides);
    taken.data = slice.raw();
    return {};
}
inline GRAFT_COLD status scan_run(run_context& c) {
    scan_plan p;
    GRAFT_TRY(read_scan(c, p));
    if (checked_mul(p.steps, p.batch) < 0 || p.steps * p.batch > c.limit.loop_iterations)
        return c.fail(errc::op_limit, "%lld x %lld iterations are over the limit of %lld", p.batch, p.steps, c.limit.loop_iterations);
    const std::size_t states = static_cast<std::size_t>(p.states), outputs = static_cast<std::size_t>(c.outputs);
    std::vector<tensor> state, next, slices(static_cast<std::size_t>(p.scans));
    std::vector<row_store> rows(outputs);  // of the states: only where there is a batch
    std::vector<tensor_view> views(states + static_cast<std::size_t>(p.scans));
    for (std::int64_t b = 0; b < p.batch; ++b) {
        const std::int64_t steps = p.batched && c.has(0) ? index_at(c.in[0], b) : p.steps;
        if (steps < 0 || steps > p.steps) return c.fail(errc::op_index, "sequence length %lld is out of range for %lld", steps, p.steps);
        for (std::size_t i = 0; i < states; ++i) {
            views[i] = c.in[static_cast<std::size_t>(p.first) + i];
            if (!p.batched) continue;
            views[i].extents.erase(0);
            views[i].data = views[i].as<char>() + b * bytes_of(views[i].type, views[i].extents);
        }
        for (std::int64_t t = 0; t < steps; ++t) {
            for (int i = 0; i < p.scans; ++i)
                GRAFT_TRY(take_slice(c, p, i, b, t, slices[static_cast<std::size_t>(i)], views[states + static_cast<std::size_t>(i)]));
            GRAFT_TRY(run_body(c, *p.body, views, next));
            for (std::size_t i = states; i < outputs; ++i) GRAFT_TRY(append(c, rows[i], view(next[i])));
            state.swap(next);
            for (std::size_t i = 0; i < states; ++i) views[i] = view(state[i]);
        }
        for (std::size_t i = states; i < outputs && steps < p.steps; ++i) {
            GRAFT_TRY(declare(c, rows[i], *p.body, static_cast<int>(i)));
            rows[i].bytes = bytes_of(rows[i].type, rows[i].element);
            for (std::int64_t t = steps; t < p.steps; ++t) GRAFT_TRY(append(c, rows[i], tensor_view{rows[i].type, rows[i].element, nullptr}));
        }
        for (std::size_t i = 0; i < states && p.batched; ++i) GRAFT_TRY(append(c, rows[i], views[i]));
    }
    for (std::size_t i = 0; i < outputs; ++i) {
        const int k = static_cast<int>(i);
        if (i < states && !p.batched) {
            tensor t;
            if (p.steps)
                t = std::move(state[i]);
            else
                GRAFT_TRY_ASSIGN(t, copy_of(c, views[i]));
            give(c, k, std::move(t));
            continue;
        }
        GRAFT_TRY(declare(c, rows[i], *p.body, k));
        if (!p.batched)
            GRAFT_TRY(give_scanned(c, p, k - p.states, rows[i]));
        else if (i < states)
            give(c, k, rows_of(rows[i]));
        else {
            shape out = rows[i].element;
            out.insert(0, p.steps);
            out.insert(0, p.batch);
            give(c, k, tensor(rows[i].type, out, rows[i].memory));
        }
    }
    return {};
}

// Bodies cannot be written as test problems: the table-driven test passes rows over that have op_flag::bodies.
inline op_table control_ops() {
    static constexpr op_row rows[] = {
        onnx("If")
            .inputs(1)
            .outputs_from(1)
            .functions(if_infer, if_run)
            .bodies()
            .allocates()
            .branches()
            .attributes("then_branch:g else_branch:g")
            .problems("b(1)"),
        onnx("Loop").inputs_from(0).outputs_from(1).functions(loop_infer, loop_run).bodies().allocates().attributes("body:g").problems("i64(3) b(1)"),
        onnx("Scan")
            .opsets(8, 8)
            .inputs_from(2)
            .outputs_from(1)
            .functions(scan_infer, scan_run)
            .first_optional()
            .bodies()
            .allocates()
            .attributes("body:g directions:is num_scan_inputs:i")
            .problems("- f32[1,2] f32[1,3,2] num_scan_inputs=1 @8"),
        onnx("Scan")
            .opsets(9)
            .inputs_from(1)
            .outputs_from(1)
            .functions(scan_infer, scan_run)
            .bodies()
            .allocates()
            .attributes("body:g num_scan_inputs:i scan_input_axes:is scan_input_directions:is scan_output_axes:is scan_output_directions:is")
            .problems("f32[2] f32[3,2] num_scan_inputs=1"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
