// A row of the op table: what an operator is called, its functions, and what passes ask of it.
#pragma once

#include "../core/row_table.hpp"

#include <cstddef>
#include <cstdint>

GRAFT_BEGIN_NAMESPACE

struct epilogue;
struct op_context;
struct infer_context;
struct run_context;
struct gradient_context;
struct batch_carrier;
class status;
using infer_function = status (*)(infer_context&);
using run_function = status (*)(run_context&);
using gradient_function = status (*)(gradient_context&);
using work_function = std::int64_t (*)(const op_context&);
using batch_rule = bool (*)(batch_carrier&);
using activation_reader = bool (*)(const op_context&, epilogue&);

/// Properties of an operator that passes and the executor act on.
struct op_flag {
    static constexpr unsigned none = 0;
    static constexpr unsigned elementwise = 1;          ///< each output element depends on the input elements at its place alone
    static constexpr unsigned allocates = 2;            ///< output shapes are known only after running: makes its outputs itself
    static constexpr unsigned random = 4;               ///< never folded
    static constexpr unsigned bodies = 8;               ///< runs subgraphs
    static constexpr unsigned view = 16;                ///< output is the first input's elements in the same order, with another shape
    static constexpr unsigned shape_only = 32;          ///< reads the shapes of its inputs, not their contents
    static constexpr unsigned combines = 64;            ///< may read any number of input elements for each output element: products, windows, sequences
    static constexpr unsigned copies = 128;             ///< its first output is its first input, where neither more inputs nor outputs ask for something else
    static constexpr unsigned converts = 256;           ///< moves elements into another type
    static constexpr unsigned branches = 512;           ///< is one of its bodies, once its first input is known
    static constexpr unsigned rounds = 1024;            ///< to a grid of integers, so that no gradient comes back
    static constexpr unsigned reads_bits = 2048;        ///< as they are in memory: an input of another type would be another value
    static constexpr unsigned widens = 4096;            ///< halves may be computed as float32 and rounded where they leave
    static constexpr unsigned takes_activation = 8192;  ///< its kernels apply an activation to what they made
    static constexpr unsigned sums_batch = 16384;       ///< adds up the batch by the tree of its attribute "shards"
    static constexpr unsigned sums_if_shorter = 32768;  ///< does so where its output is shorter along the first axis
    static constexpr unsigned commutes = 65536;         ///< its two inputs may change places
    static constexpr unsigned sums_members =
        262144;  ///< of a run of several members it adds up the batch of all: outputs shaped unlike the first are the same everywhere
    static constexpr unsigned first_optional = 131072;  ///< its first input may be left out before others that may not
};

/// How an operator moves elements of its inputs; the values stay as they are.
enum class motion {
    none,
    same,     ///< in the same order: Reshape
    permute,  ///< by another order of the axes: Transpose
    regroup,  ///< each once, by a rule of its own: DepthToSpace
    part,     ///< some, in the same order: Slice
    join,     ///< those of all inputs, side by side: Concat
    repeat,   ///< some more than once: Expand
    choose,   ///< those that indices tell, or that are the largest: Gather, MaxPool
};

/// In what an operator is linear; elsewhere its inputs are factors, divisors, shapes.
enum class linearity {
    none,
    first,   ///< in its first input, for any others
    joint,   ///< in all of its inputs together: sums
    either,  ///< in each of its inputs, for any others: products
};

/// The part that an operator plays in a network.
enum class op_role { other, constant, convolution, product, pool, softmax, log_softmax, quantize, dequantize, drop, update };

/// What becomes of an operator where a float network is brought into eight bits.
enum class eight_bits {
    stays_float,
    multiplies,  ///< its input 1, stored as int8 where that is constant, by its input 0
    computes,    ///< on values of uint8
    cuts_range,  ///< of what stands before it, which is of eight bits behind it
    is_integer,  ///< it is of a network in eight bits already
};

/// What passes ask of an operator beyond its flags. Of masks bit i stands for input or output i.
struct op_traits {
    motion moves = motion::none;
    linearity linear = linearity::none;
    op_role role = op_role::other;
    eight_bits integers = eight_bits::stays_float;
    std::uint8_t residual_input = 0;        ///< the input that its kernels add to what they made; 0: none
    std::uint8_t weights = 0;               ///< inputs that learn where they are constants
    std::uint8_t statistics = 0;            ///< inputs that are running statistics: a mean, then a variance
    std::uint8_t exact_inputs = 0;          ///< inputs that are places in a picture: halves would be off by pixels
    std::uint8_t exact_outputs = 0;         ///< outputs that stay float32 between nodes of halves
    std::uint8_t checked_inputs = 0;        ///< inputs whose contents its kernels may refuse
    std::uint8_t made_once = 0;             ///< outputs that must not be made a second time
    work_function work = nullptr;           ///< its multiply-adds, where its kind is counted by those
    batch_rule carries = nullptr;           ///< where its outputs hold the samples of a batch; null: as its flags say, or it may mix them
    activation_reader activates = nullptr;  ///< whether a node of it is an activation that other kernels apply, and which
};

/// A row of the op table: one operator, or one range of versions of it that means the same. `make_op` fills it by names.
struct op_row {
    const char* name;
    const char* domain;
    int since, until;            ///< opset versions, both included; until 0: still so
    int min_inputs, max_inputs;  ///< max -1: any number
    int min_outputs, max_outputs;
    infer_function infer;
    run_function run;
    unsigned flags;
    const char* attributes;
    const char* problems;
    gradient_function gradient = nullptr;  ///< of an app's own operators, which train by it; graft's own gradients are in ops/gradients.hpp
    op_traits traits = {};

    constexpr bool is(unsigned flag) const noexcept { return (flags & flag) != 0; }
    /// Whether what it makes are numbers that went in.
    constexpr bool moves_numbers() const noexcept { return traits.moves != motion::none && !is(op_flag::converts); }
};

/// A run of rows.
using op_table = row_table<op_row>;

/// Fills a row by names, at compile time: `make_op("Limit", "my.app").inputs(1).functions(limit_shape, limit_run).elementwise()`. What is not
/// said: every opset version, one output, no attributes.
class make_op {
public:
    /// `here` false: the functions are left out, and with them the operator.
    constexpr explicit make_op(const char* name, const char* domain = "", bool here = true)
        : row_{name, domain, 1, 0, 0, 0, 1, 1, nullptr, nullptr, 0, "", "", nullptr, {}}, here_(here) {}

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
    constexpr make_op& view() { return flag(op_flag::view).moves(motion::same); }
    constexpr make_op& shape_only() { return flag(op_flag::shape_only); }
    constexpr make_op& combines() { return flag(op_flag::combines); }
    constexpr make_op& copies() { return flag(op_flag::copies); }
    constexpr make_op& branches() { return flag(op_flag::branches); }
    constexpr make_op& rounds() { return flag(op_flag::rounds); }
    constexpr make_op& reads_bits() { return flag(op_flag::reads_bits); }
    constexpr make_op& widens() { return flag(op_flag::widens); }
    constexpr make_op& takes_activation() { return flag(op_flag::takes_activation); }
    constexpr make_op& commutes() { return flag(op_flag::commutes); }
    constexpr make_op& first_optional() { return flag(op_flag::first_optional); }
    constexpr make_op& sums_batch() { return flag(op_flag::sums_batch); }
    constexpr make_op& sums_members() { return flag(op_flag::sums_members); }
    constexpr make_op& sums_if_shorter() { return flag(op_flag::sums_batch | op_flag::sums_if_shorter); }

    // Its traits: see op_traits. Inputs and outputs are numbered from 0 to 7.
    /// What moves elements by rules that know nothing of them is linear, too.
    constexpr make_op& moves(motion how) {
        row_.traits.moves = how;
        return linear(how == motion::join ? linearity::joint : how == motion::choose ? linearity::none : linearity::first);
    }
    /// Moves elements into another type, and is not linear, since that rounds.
    constexpr make_op& converts() { return flag(op_flag::converts).moves(motion::same).linear(linearity::none); }
    constexpr make_op& linear(linearity how) { return row_.traits.linear = how, *this; }
    constexpr make_op& plays(op_role role) { return row_.traits.role = role, *this; }
    constexpr make_op& in_eight_bits(eight_bits how) { return row_.traits.integers = how, *this; }
    constexpr make_op& residual(int input) { return row_.traits.residual_input = static_cast<std::uint8_t>(input), *this; }
    template <class... I>
    constexpr make_op& weights(I... inputs_that) {
        return row_.traits.weights = mask(inputs_that...), *this;
    }
    constexpr make_op& weights_from(int input) { return row_.traits.weights = mask_from(input), *this; }
    constexpr make_op& statistics(int mean, int variance) { return row_.traits.statistics = mask(mean, variance), *this; }
    template <class... I>
    constexpr make_op& exact_inputs(I... inputs_that) {
        return row_.traits.exact_inputs = mask(inputs_that...), *this;
    }
    constexpr make_op& exact_outputs_from(int output) { return row_.traits.exact_outputs = mask_from(output), *this; }
    template <class... I>
    constexpr make_op& checks(I... inputs_that) {
        return row_.traits.checked_inputs = mask(inputs_that...), *this;
    }
    constexpr make_op& made_once_from(int output) { return row_.traits.made_once = mask_from(output), *this; }
    constexpr make_op& work(work_function multiply_adds) { return row_.traits.work = multiply_adds, *this; }
    constexpr make_op& carries(batch_rule rule) {
        if (here_) row_.traits.carries = rule;
        return *this;
    }
    constexpr make_op& activates(activation_reader reads) { return row_.traits.activates = reads, *this; }

    constexpr operator op_row() const { return row_; }

private:
    constexpr make_op& flag(unsigned which) { return row_.flags |= which, *this; }
    template <class... I>
    static constexpr std::uint8_t mask(I... bits) {
        return static_cast<std::uint8_t>((0u | ... | (1u << bits)));
    }
    static constexpr std::uint8_t mask_from(int bit) { return static_cast<std::uint8_t>(0xffu << bit); }

    op_row row_;
    bool here_;
};

/// Whether bit i of a mask of op_traits is set.
constexpr bool in_mask(std::uint8_t mask, std::size_t i) noexcept { return i < 8 && (mask >> i & 1) != 0; }

/// Whether every row has test problems, for a static_assert behind every table.
template <int N>
constexpr bool all_have_problems(const op_row (&rows)[N]) {
    for (const op_row& row : rows)
        if (!row.problems || !row.problems[0]) return false;
    return true;
}

GRAFT_END_NAMESPACE
