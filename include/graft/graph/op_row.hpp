// A row of the op table: what an operator is called, its functions, and what passes ask of it.
#pragma once

#include "../config.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE

struct infer_context;
struct run_context;
struct gradient_context;
class status;
using infer_function = status (*)(infer_context&);
using run_function = status (*)(run_context&);
using gradient_function = status (*)(gradient_context&);

/// Properties of an operator that passes and the executor act on.
struct op_flag {
    static constexpr unsigned none = 0;
    static constexpr unsigned elementwise = 1;  ///< each output element depends on the input elements at its place alone
    static constexpr unsigned allocates = 2;    ///< output shapes are known only after running: makes its outputs itself
    static constexpr unsigned random = 4;       ///< never folded
    static constexpr unsigned bodies = 8;       ///< runs subgraphs
    static constexpr unsigned view = 16;        ///< output is the first input's elements in the same order, with another shape
    static constexpr unsigned shape_only = 32;  ///< reads the shapes of its inputs, not their contents
    static constexpr unsigned combines = 64;    ///< may read any number of input elements for each output element: products, windows, sequences
};

/// A row of the op table: one operator, or one range of versions of it that means the same. `make_op` fills it by names.
struct op_row {
    const char* name;
    const char* domain;
    int since, until;              ///< opset versions, both included; until 0: still so
    int min_inputs, max_inputs;    ///< max -1: any number
    int min_outputs, max_outputs;
    infer_function infer;
    run_function run;
    unsigned flags;
    const char* attributes;
    const char* problems;
    gradient_function gradient = nullptr;  ///< of an app's own operators, which train by it; graft's own gradients are in ops/gradients.hpp
};

/// A run of rows.
struct op_table {
    const op_row* rows;
    int size;
};

/// Fills a row by names, at compile time: `make_op("Limit", "my.app").inputs(1).functions(limit_shape, limit_run).elementwise()`. What is not
/// said: every opset version, one output, no attributes.
class make_op {
public:
    /// `here` false: the functions are left out, and with them the operator.
    constexpr explicit make_op(const char* name, const char* domain = "", bool here = true) : row_{name, domain, 1, 0, 0, 0, 1, 1, nullptr, nullptr, 0, "", "", nullptr}, here_(here) {}

    /// The first version of the operator set that means this, and the last; 0: still so.
    constexpr make_op& opsets(int first, int last = 0) { return row_.since = first, row_.until = last, *this; }
    constexpr make_op& inputs(int fewest, int most) { return row_.min_inputs = fewest, row_.max_inputs = most, *this; }
    constexpr make_op& inputs(int count) { return inputs(count, count); }
    constexpr make_op& inputs_from(int fewest) { return inputs(fewest, -1); }
    constexpr make_op& outputs(int fewest, int most) { return row_.min_outputs = fewest, row_.max_outputs = most, *this; }
    constexpr make_op& outputs(int count) { return outputs(count, count); }
    constexpr make_op& outputs_from(int fewest) { return outputs(fewest, -1); }
    /// Shape inference and the reference kernel.
    constexpr make_op& functions(infer_function infer, run_function run) {
        if (here_) row_.infer = infer, row_.run = run;
        return *this;
    }
    /// "name:kind" separated by spaces; the kinds are i s f t g is fs ss. Others are refused when a model is loaded.
    constexpr make_op& attributes(const char* names) { return row_.attributes = names, *this; }
    /// Test problems separated by ';'. A problem lists its inputs, then its attributes, separated by spaces:
    ///   f32[2,3]       contents drawn at random (types: f32 f64 f16 bf16 i8 u8 i16 u16 i32 u32 i64 u64 b)
    ///   f32[2,3]~0.1:2 drawn from that range;  i64{3,-1} these values, one dimension;  i64(5) a scalar;  - left out
    ///   axis=1  pads=0,1,0,1  mode=linear  alpha=0.5    as the kinds say;  @13  opset version (default: the newest)
    constexpr make_op& problems(const char* list) { return row_.problems = list, *this; }
    /// Of an app's own operator, which trains by it.
    constexpr make_op& gradient(gradient_function emits) { return row_.gradient = emits, *this; }

    // Its properties: see op_flag.
    constexpr make_op& elementwise() { return flag(op_flag::elementwise); }
    constexpr make_op& allocates() { return flag(op_flag::allocates); }
    constexpr make_op& random() { return flag(op_flag::random); }
    constexpr make_op& bodies() { return flag(op_flag::bodies); }
    constexpr make_op& view() { return flag(op_flag::view); }
    constexpr make_op& shape_only() { return flag(op_flag::shape_only); }
    constexpr make_op& combines() { return flag(op_flag::combines); }

    constexpr operator op_row() const { return row_; }

private:
    constexpr make_op& flag(unsigned which) { return row_.flags |= which, *this; }

    op_row row_;
    bool here_;
};

/// Whether every row has test problems, for a static_assert behind every table.
template <int N>
constexpr bool all_have_problems(const op_row (&rows)[N]) {
    for (const op_row& row : rows)
        if (!row.problems || !row.problems[0]) return false;
    return true;
}

GRAFT_END_NAMESPACE
