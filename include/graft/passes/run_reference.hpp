// Runs one node by its reference kernel: what folding and late nodes are made of.
#pragma once

#include "../graph/op.hpp"

#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// What runs of reference kernels need beside the node.
struct reference_options {
    const limits& limit;
    executor& pool;
    subgraph_runner* bodies = nullptr;
    std::uint64_t seed = 0;
    std::shared_ptr<memory_budget> budget = nullptr;  ///< what all that is made counts against
};

/// Infers shapes with contents at hand, allocates, and runs the reference kernel. `in` has an entry for every input and then
/// for every capture of the node's bodies; `made` gets a tensor for every output.
status run_reference(const node& n, const tensor_view* in, int inputs, std::vector<tensor>& made, const reference_options& with);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE status run_reference(const node& n, const tensor_view* in, int inputs, std::vector<tensor>& made, const reference_options& with) {
    const int outputs = static_cast<int>(n.outputs.size());
    std::vector<tensor_view> out(n.outputs.size());
    made.assign(n.outputs.size(), tensor());
    infer_context infer{{n, in, inputs, out.data(), outputs, with.limit}};
    GRAFT_TRY(n.op->infer(infer));
    // Kernels look at the output that is wanted: one at least has to be.
    bool wanted = false;
    for (value_id id : n.outputs) wanted |= id != no_value;
    if (!wanted) return {};
    const bool allocates = (n.op->flags & op_flag::allocates) != 0;
    if (infer.deferred && !allocates) return infer.fail(errc::op_value, "its output shapes cannot be known");
    run_context run{{n, in, inputs, out.data(), outputs, with.limit}, with.pool, with.bodies, &made, with.seed, nullptr, with.budget};
    if (!allocates)
        for (int i = 0; i < outputs; ++i)
            if (out[static_cast<std::size_t>(i)].type != dtype::undefined)
                GRAFT_TRY(run.allocate(i, out[static_cast<std::size_t>(i)].type, out[static_cast<std::size_t>(i)].extents));
    return n.op->run(run);
}

GRAFT_END_NAMESPACE
#endif
