// The emitter: CUDA C++ for one element of a value, by walking backwards from it and writing each operator's rule down in place.
#pragma once

#include "../../graph/op.hpp"
#include "index.hpp"
#include "text.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The row of Fusion(inputs...) -> outputs: the attribute `body` is a graph of nodes that have rules, one of which may be a
/// reduction, with as many inputs and outputs.
inline const op_row* fusion_row() {
    static constexpr op_row row = make_op("Fusion").inputs_from(0).outputs_from(1).attributes("body:g");
    return &row;
}

/// What a kernel computes: the body of a Fusion, or one node that is a body by itself.
struct kernel_body {
    std::vector<node> nodes;
    std::vector<tensor_view> values;         ///< by value id; `data` is there for constants
    std::vector<value_id> inputs, outputs;   ///< as those of the query
    std::vector<dtype> memory;               ///< type of each input in memory
    std::vector<layout> order;               ///< layout of each input
    std::vector<std::pair<int, int>> maker;  ///< by value id: the node that makes it and which output it is; -1 for inputs
    const graft::limits* limit = nullptr;
    std::vector<fault>* faults = nullptr;  ///< of the program that its kernels go into
};

/// Reads what a query asks for, for kernels that may have checks where the program is named that they go into. Null, or why no kernel can
/// be made of it.
const char* read_body(const kernel_query& q, kernel_body& body, program* into = nullptr);

/// Writes statements that compute elements.
///
///     element_emitter e(body, 8);                                   // packs of 8 elements
///     const index i = e.loop_index("i", total);                     // the kernel's loop counts it, 8 at a time
///     const operand y = e.value(body.outputs[0], walk(extents, order, i));
///     if (e.failure) return e.failure;
///     // e.text(level::thread) goes before the loop, (level::pack) into it, (level::lane) into the loop of `lane` inside;
///     // y.text is a value of y's compute type there; `e.parameters()` says which inputs the kernel reads.
///
/// Every name is defined once for its text, so that what is read or computed twice stands there once. Statements have no effects but for
/// faults: a load or a check under a condition is made only where it holds. For a kernel with loops of its own (reductions), a body's prologue is
/// `value` at the coordinates of a loop's element, and its epilogue `bind`s the result to the value that it is and asks
/// for the outputs. `next_loop` begins another loop in the same kernel.
class element_emitter {
public:
    element_emitter(const kernel_body& body, int lanes) : body_(body), lanes_(lanes), loaded_(body.inputs.size()), offsets_(body.inputs.size()) {}

    const kernel_body& body() const noexcept { return body_; }
    int lanes() const noexcept { return lanes_; }

    /// The element of `v` at `at`, in v's compute type. An empty operand after a failure.
    operand value(value_id v, const position& at);
    /// Says that the element of `v` at `at` is `known`, which the kernel has computed by itself.
    void bind(value_id v, const position& at, const operand& known);

    /// A counter of the kernel in [0, bound): of its loop over packs where `consecutive` (a multiple of the number of lanes), else
    /// of whatever is at `where`.
    index loop_index(const char* name, std::int64_t bound) const;
    index counter(const char* name, std::int64_t bound, level where) const;

    // Indices. Division and remainder are of numbers that are not negative.
    index add(const index& a, const index& b);
    index add(const index& a, std::int64_t k) { return add(a, index_of(k)); }
    index multiply(const index& a, std::int64_t k);
    index divide(const index& a, std::int64_t k);
    index remainder(const index& a, std::int64_t k);
    /// The index whose text is `text`, made of the indices in `of`: for what the others do not cover. % in it stands for each in turn.
    index formula(const char* text, std::initializer_list<index> of, std::int64_t bound);
    /// Coordinate of axis d.
    index axis(const position& at, int d);
    /// Offset of the element in a tensor of these strides, by axis.
    index offset(const position& at, const std::vector<std::int64_t>& strides);
    /// Number of the element in row-major order.
    index number(const position& at) { return offset(at, strides_of(at.extents, layout::row_major)); }
    /// Whether a < k.
    operand less(const index& a, std::int64_t k);
    /// Whether a >= k; a may be negative.
    operand at_least(const index& a, std::int64_t k);
    /// An index as a value of int64, and the other way round: `bound` as in `index`.
    operand as_value(const index& a);
    index as_index(const operand& x, std::int64_t bound);

    // Values.
    /// The value of the type `type` that `text` gives, where each % stands for the next of `of`.
    operand make(dtype type, const char* text, std::initializer_list<operand> of);
    operand make(dtype type, const char* text, const std::vector<operand>& of);
    /// A literal.
    operand number(dtype type, double x) const { return {literal(type, x), compute_type(type), level::thread}; }
    /// x converted as C++ converts numbers; x itself where it has the type already.
    operand convert(const operand& x, dtype type);
    /// Both conditions; an empty operand is one that always holds.
    operand both(const operand& a, const operand& b);
    /// condition ? inside() : otherwise, where what `inside` loads is read only if the condition holds.
    template <class F>
    operand where(const operand& condition, const operand& otherwise, const F& inside) {
        const operand before = guard_;
        guard_ = both(guard_, condition);
        operand x = inside();
        guard_ = before;
        if (!condition || condition.text == "true" || !x) return x;
        return make(x.type, "% ? % : %", {condition, x, convert(otherwise, x.type)});
    }

    /// Reports a fault where `fits` does not hold: `value` is what the error tells.
    void demand(const operand& fits, const operand& value, const fault& what);
    /// The statement that reports it, for kernels that decide by themselves; without its semicolon.
    std::string report(const std::string& value, const fault& what);
    /// Whether one has been reported since the run began.
    operand fault_seen();

    /// The name of what `expression` gives, defined where it is not yet. `kind`: the first letter of the name.
    std::string define(const char* kind, const std::string& type, const std::string& expression, level where);

    /// Name of a table of the type `type` with these entries, in the text of the thread.
    std::string define_table(const char* type, const std::string& entries);

    /// Gives up on the body; returns an empty operand.
    operand refuse(const char* why) {
        if (!failure) failure = why;
        return {};
    }
    const char* failure = nullptr;

    /// The statements of a level so far.
    const std::string& text(level where) const { return text_[static_cast<std::size_t>(where)]; }
    /// Forgets the statements and names of packs and lanes; those of the thread stay. The loop that begins has packs of `lanes`.
    void next_loop() { next_loop(lanes_); }
    void next_loop(int lanes);
    /// Inputs that are read, in order: the kernel's parameters "const T* in<k>". Behind them `fault_words` where faults are reported, or
    /// `fault_word` where the kernel asks for them.
    std::vector<int> parameters() const;
    static constexpr int fault_words = -1, fault_word = -2;
    /// Whether input i is read at the offset `i.text` alone: then an output of that walk may lie over it.
    bool read_only_at(int input, const index& i) const;

private:
    struct named {
        std::string name;
        level where;
    };
    operand compute(value_id v, const position& at);
    operand load(int input, const position& at);
    index each(const index& a);
    index named_index(const std::string& expression, level where);

    const kernel_body& body_;
    int lanes_;
    std::vector<bool> loaded_;
    std::vector<std::string> offsets_;  // by input: the one offset that it is read at; "many" where there are others
    std::string text_[3];
    std::map<std::string, named> names_;       // by type and expression
    std::map<std::string, operand> computed_;  // by value, position and condition
    operand guard_;
    bool reports_ = false, asks_ = false;
    int count_ = 0, depth_ = 0;
};

/// An operator's rule: what element `output` of the node is at `at`.
struct rule_call {
    element_emitter& e;
    const op_context& c;
    const char* text;  ///< of the rule's row
    int output;
    const position& at;

    /// The element of input i that is broadcast to here.
    operand in(int i) const { return e.value(c.n.inputs[static_cast<std::size_t>(i)], broadcast_to(at, c.in[i].extents)); }
    operand in(int i, const position& where) const { return e.value(c.n.inputs[static_cast<std::size_t>(i)], where); }
    /// The one element of input i, or `otherwise` where it is left out.
    operand scalar(int i, const operand& otherwise) const { return c.has(i) ? in(i, walk(c.in[i].extents, layout::row_major, index())) : otherwise; }
    /// The compute type of input i.
    dtype type(int i = 0) const { return compute_type(c.in[i].type); }
    operand number(double x) const { return e.number(type(), x); }
    operand attribute(const char* name, float otherwise) const { return number(static_cast<double>(c.real(name, otherwise))); }
};

/// A row of a family of rules.
struct element_rule {
    const char* op;
    const char* domain;
    unsigned reads;  ///< see below
    operand (*build)(const rule_call&);
    const char* text;  ///< for `build`: what tells operators of one rule apart

    static constexpr unsigned same = 0;     ///< input elements at the output's position, broadcasting aside
    static constexpr unsigned moved = 1;    ///< at most one element of an input, at another position
    static constexpr unsigned several = 2;  ///< several elements of an input
    static constexpr unsigned state = 4;    ///< beside those: outputs may lie over the inputs that they update
};
using rule_table = row_table<element_rule>;

/// The rule of an operator: its family's, else one for all whose rows of the op table say that they are activations; null where there is neither. It
/// tells no operator of its own then. Defined with the families, in gpu/ops/rules.hpp.
const element_rule* find_rule(const char* op, const char* domain);

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "element_body.hpp"
#endif
