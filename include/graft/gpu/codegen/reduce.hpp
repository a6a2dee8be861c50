// Kernels of everything that sums up: over the elements that lie side by side in memory, or across them; in pieces where there are
// many. What is summed up, and what becomes of it, is told by a `reduction`.
#pragma once

#include "fill.hpp"
#include "loop.hpp"

#include <cstdint>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// Axes of a tensor in memory, neighbours of one kind joined; innermost first.
struct reduction_axes {
    struct run {
        std::int64_t extent, stride;
    };
    std::vector<run> kept, reduced;
    std::int64_t outputs = 1, count = 1;  ///< elements of the kept axes, and of the reduced ones
    bool across = false;                  ///< the innermost run is kept
    std::int64_t innermost() const noexcept { return across ? kept[0].extent : reduced.empty() ? 1 : reduced[0].extent; }
};
/// `axes`: bit d for each axis that is reduced. `groups`: axis 1 is cut into so many, and reduced within them (0: it is as `axes` says).
reduction_axes join_axes(const shape& extents, layout order, std::uint32_t axes, std::int64_t groups = 0);

/// What sums up. All text is CUDA C++: `take` is the body of take(state& s, int taken, index_t position, x0, x1, ...) where `taken`
/// counts the calls for this state and `position` is the element's number along the reduced axes; `merge` that of merge(state& a, const
/// state& b), where b follows a but for neighbours that are interleaved.
struct reducer {
    struct field {
        const char* name;
        dtype type;
        std::string start;
    };
    std::vector<field> fields;
    std::vector<dtype> elements;  ///< of x0, x1, ...
    std::string take, merge;
    std::string helpers = "";  ///< functions that both call
};

/// A node in the body of a Fusion: what is fused with it, and what it is by itself.
struct fused_node {
    const kernel_query& whole;
    kernel_body body;
    const node* n = nullptr;
    std::vector<tensor_view> in, out;           ///< of the node
    std::vector<layout> in_layout, out_layout;  ///< of its inputs in memory; of what the body computes, the layout that it is walked in
};

/// A result of a reduction, or what follows from it: an output of the node, at a position.
struct reduction_result {
    int output;
    operand y;
    position at;
};

/// One reduction: which elements, by what, and what becomes of the results. Operands of the methods are of `e`.
class reduction {
public:
    inline explicit reduction(const kernel_query& query) : q(query), whole(&query) {}
    inline virtual ~reduction() {}
    /// x0, x1, ... of the element at `at`; `result` is where it goes, with extent 1 along what is reduced.
    inline virtual std::vector<operand> elements(element_emitter& e, const position& at, const position& result) const = 0;
    /// Says what follows from a result: its fields are in `s`, `at` is where it is, with extent 1 along what was reduced. Outputs of the
    /// node are added to `results`. Returns the statistics that `map` wants.
    inline virtual std::vector<operand> finish(element_emitter& e, const std::vector<operand>& s, const position& at,
                                               std::vector<reduction_result>& results) const = 0;
    /// The elements at `at` of the outputs in `mapped`.
    inline virtual std::vector<operand> map(element_emitter& e, const std::vector<operand>& known, const position& at) const {
        (void)e, (void)known, (void)at;
        return {};
    }

    /// Reads the body: of the node alone, or of what is fused with it. Null, or why there can be no kernel.
    const char* begin(const fused_node* around);
    /// The element of the node's input i at `at`.
    operand in(element_emitter& e, int i, const position& at) const { return e.value(inputs[static_cast<std::size_t>(i)], at); }
    /// Whether somebody reads output o.
    bool writes(int o) const { return q.wants(o) && q.out[o].type != dtype::undefined; }

    const kernel_query& q;      ///< the node
    const kernel_query* whole;  ///< what the kernels are for: the node, or the Fusion around it
    kernel_body body;
    std::vector<value_id> inputs, outputs;  ///< of the node, in the body
    shape extents;                          ///< of what is summed up
    layout order = layout::row_major;
    std::uint32_t axes = 0;   ///< bit d: axis d is reduced
    std::int64_t groups = 0;  ///< of axis 1, as `join_axes` has it; results have them as axis 1
    std::size_t bytes = 4;    ///< of the narrowest tensor that is read in `order`
    reducer by;
    std::vector<int> finished;                        ///< outputs of the node that `finish` makes
    std::vector<int> mapped;                          ///< outputs of the node that `map` makes: they have `extents`
    std::vector<dtype> statistics;                    ///< of what `finish` returns
    std::vector<int> stored_finished, stored_mapped;  ///< outputs of the kernels, and when they are stored

private:
    const char* read_fused(const fused_node& around);
};

/// A row of a family of reductions: `generate` makes the kernels of a node, or of all that is in the body around it.
struct reduction_row {
    const char* op;
    const char* domain;
    const char* (*generate)(const kernel_query& q, const fused_node* around, program& p);
};
using reduction_table = row_table<reduction_row>;
/// The row of a reduction, or null. Defined with the families, in gpu/ops/ops.hpp.
const reduction_row* find_reduction(const char* op, const char* domain);

/// Makes the kernels of a Fusion of which one node is a reduction: rules before it, behind it, or both.
const char* generate_fused_reduction(const kernel_query& q, program& p);

/// Makes the kernels of a reduction that has begun. Null, or why there are none.
const char* generate_reduction(const reduction& r, program& p);

/// The statement that stores y to output o at `at`.
std::string store_statement(element_emitter& e, const kernel_query& q, int o, const position& at, const operand& y);

/// A kernel's text as `entry_point` makes it, with pointers into the workspace behind the other parameters.
struct workspace_parameter {
    std::string declaration;  ///< "state* partial"
    std::int64_t offset;      ///< in bytes
};
std::string entry_point(const kernel_query& q, launch& l, const std::vector<int>& inputs, const std::vector<int>& outputs,
                        const std::vector<workspace_parameter>& workspace, const std::string& statements);

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "reduce_plan.hpp"

#include "reduce_fused.hpp"
#include "reduce_kernels.hpp"
#endif
