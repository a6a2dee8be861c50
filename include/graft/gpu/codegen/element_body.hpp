// Bodies of the emitter: part of element.hpp.
#pragma once

#include "element.hpp"

#include <algorithm>
#include <numeric>

GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

inline level deeper(level a, level b) noexcept { return a < b ? b : a; }

// `text` with each % replaced by the next of the names.
inline std::string fill_in(const char* text, const std::vector<std::string>& names) {
    std::string s;
    std::size_t next = 0;
    for (; *text; ++text) {
        if (*text == '%' && next < names.size())
            s += names[next++];
        else
            s += *text;
    }
    return s;
}

// Chains longer than this would be compiled for minutes, and walked too deep.
constexpr int longest_chain = 256;

}  // namespace detail

GRAFT_INLINE std::string element_emitter::define(const char* kind, const std::string& type, const std::string& expression, level where) {
    named& n = names_[type + " " + expression];
    if (n.name.empty()) {
        n.name = kind + std::to_string(count_++);
        n.where = where;
        const std::string indent(4 + 4 * static_cast<std::size_t>(where), ' ');
        text_[static_cast<std::size_t>(where)] += indent + "const " + type + " " + n.name + " = " + expression + ";\n";
    }
    return n.name;
}
GRAFT_INLINE index element_emitter::named_index(const std::string& expression, level where) {
    index i;
    i.text = define("i", "index_t", expression, where);
    i.level = where;
    i.multiple = 1;
    i.bound = 0;
    i.known = false;
    return i;
}
GRAFT_INLINE index element_emitter::counter(const char* name, std::int64_t bound, level where) const {
    index i;
    i.text = name;
    i.level = where;
    i.multiple = 1;
    i.bound = bound;
    i.known = false;
    return i;
}
GRAFT_INLINE index element_emitter::loop_index(const char* name, std::int64_t bound) const {
    index i = counter(name, bound, level::pack);
    i.consecutive = lanes_ > 1;
    i.multiple = lanes_;
    return i;
}
GRAFT_INLINE index element_emitter::each(const index& a) {
    if (!a.consecutive) return a;
    index i = named_index(a.text + " + lane", level::lane);
    i.bound = a.bound;
    return i;
}

GRAFT_INLINE index element_emitter::add(const index& a, const index& b) {
    if (a.known && b.known) return index_of(a.number + b.number);
    if (a.known && a.number == 0) return b;
    if (b.known && b.number == 0) return a;
    if ((a.consecutive && (b.consecutive || b.level == level::lane)) || (b.consecutive && a.level == level::lane)) return add(each(a), each(b));
    index i = named_index(a.text + " + " + b.text, detail::deeper(a.level, b.level));
    i.consecutive = a.consecutive || b.consecutive;
    i.multiple = std::gcd(a.multiple, b.multiple);
    i.bound = a.bound && b.bound ? a.bound + b.bound - 1 : 0;
    return i;
}
GRAFT_INLINE index element_emitter::multiply(const index& a, std::int64_t k) {
    if (k == 1) return a;
    if (k == 0) return index();
    if (a.known) return index_of(a.number * k);
    if (a.consecutive) return multiply(each(a), k);
    index i = named_index(a.text + " * " + index_of(k).text, a.level);
    i.multiple = a.multiple * (k < 0 ? -k : k);
    i.bound = a.bound && k > 0 ? (a.bound - 1) * k + 1 : 0;
    return i;
}
GRAFT_INLINE index element_emitter::divide(const index& a, std::int64_t k) {
    if (k == 1) return a;
    if (a.known && a.number >= 0) return index_of(a.number / k);
    if (a.bound && a.bound <= k) return index();
    const bool aligned = a.multiple % lanes_ == 0 && k % lanes_ == 0;  // then a pack lies in one block of k
    if (a.consecutive && !aligned) return divide(each(a), k);
    index i = named_index(a.text + " / " + std::to_string(k), a.level);
    i.multiple = a.multiple % k == 0 ? a.multiple / k : 1;
    i.bound = a.bound ? (a.bound - 1) / k + 1 : 0;
    return i;
}
GRAFT_INLINE index element_emitter::remainder(const index& a, std::int64_t k) {
    if (a.bound && a.bound <= k) return a;
    if (k == 1) return index();
    if (a.known && a.number >= 0) return index_of(a.number % k);
    const bool aligned = a.multiple % lanes_ == 0 && k % lanes_ == 0;
    if (a.consecutive && !aligned) return remainder(each(a), k);
    index i = named_index(a.text + " % " + std::to_string(k), a.level);
    i.consecutive = a.consecutive;
    i.multiple = std::gcd(a.multiple, k);
    i.bound = a.bound ? k : 0;
    return i;
}
GRAFT_INLINE index element_emitter::formula(const char* text, std::initializer_list<index> of, std::int64_t bound) {
    std::vector<std::string> names;
    level where = level::thread;
    for (const index& a : of) {
        const index one = each(a);
        names.push_back(one.text);
        where = detail::deeper(where, one.level);
    }
    index i = named_index(detail::fill_in(text, names), where);
    i.bound = bound;
    return i;
}

GRAFT_INLINE index element_emitter::axis(const position& at, int d) {
    const int f = at.from[static_cast<std::size_t>(d)];
    if (f == position::zero || at.extents[d] == 1) return index();
    if (f == position::given) return at.axes[static_cast<std::size_t>(d)];
    return remainder(divide(at.offset, at.walk.product(f + 1, at.walk.rank())), at.walk[f]);
}
GRAFT_INLINE index element_emitter::offset(const position& at, const std::vector<std::int64_t>& strides) {
    index sum;
    std::vector<std::int64_t> by_walk(static_cast<std::size_t>(at.walk.rank()));
    for (std::size_t d = 0; d < at.from.size(); ++d) {
        if (at.extents[static_cast<int>(d)] == 1 || at.from[d] == position::zero) continue;
        if (at.from[d] == position::given)
            sum = add(sum, multiply(at.axes[d], strides[d]));
        else
            by_walk[static_cast<std::size_t>(at.from[d])] += strides[d];
    }
    // Neighbours of the walk that are one run in memory are taken together, from the innermost outwards.
    struct run {
        std::int64_t inner, extent, stride;
    };
    std::vector<run> runs;
    std::int64_t inner = 1;
    for (int w = at.walk.rank() - 1; w >= 0; inner *= at.walk[w--]) {
        const std::int64_t stride = by_walk[w];
        if (at.walk[w] == 1) continue;
        if (!runs.empty() && stride == runs.back().stride * runs.back().extent)
            runs.back().extent *= at.walk[w];
        else
            runs.push_back({inner, at.walk[w], stride});
    }
    for (const run& r : runs)
        if (r.stride) sum = add(multiply(remainder(divide(at.offset, r.inner), r.extent), r.stride), sum);
    return sum;
}

GRAFT_INLINE operand element_emitter::less(const index& a, std::int64_t k) {
    if (a.known) return {a.number < k ? "true" : "false", dtype::boolean, level::thread};
    if (a.bound && a.bound <= k) return {"true", dtype::boolean, level::thread};
    if (a.consecutive && !(a.multiple % lanes_ == 0 && k % lanes_ == 0)) return less(each(a), k);
    return {define("c", "bool", a.text + " < " + std::to_string(k), a.level), dtype::boolean, a.level};
}
GRAFT_INLINE operand element_emitter::at_least(const index& a, std::int64_t k) {
    if (a.known) return {a.number >= k ? "true" : "false", dtype::boolean, level::thread};
    if (a.bound && k <= 0) return {"true", dtype::boolean, level::thread};
    if (a.consecutive && !(a.multiple % lanes_ == 0 && k % lanes_ == 0)) return at_least(each(a), k);
    return {define("c", "bool", a.text + " >= " + std::to_string(k), a.level), dtype::boolean, a.level};
}
GRAFT_INLINE operand element_emitter::as_value(const index& a) {
    const index one = each(a);
    return {one.known ? literal(dtype::int64, one.number) : define("v", "long long", one.text, one.level), dtype::int64, one.level};
}
GRAFT_INLINE index element_emitter::as_index(const operand& x, std::int64_t bound) {
    index i = named_index("(index_t)" + x.text, x.level);
    i.bound = bound;
    return i;
}

GRAFT_INLINE operand element_emitter::make(dtype type, const char* text, const std::vector<operand>& of) {
    std::vector<std::string> names;
    level where = level::thread;
    for (const operand& x : of) {
        if (!x) return {};  // something was refused on the way here
        names.push_back(x.text);
        where = detail::deeper(where, x.level);
    }
    type = compute_type(type);
    return {define("v", memory_name(type), detail::fill_in(text, names), where), type, where};
}
GRAFT_INLINE operand element_emitter::make(dtype type, const char* text, std::initializer_list<operand> of) {
    return make(type, text, std::vector<operand>(of));
}
GRAFT_INLINE operand element_emitter::convert(const operand& x, dtype type) {
    type = compute_type(type);
    if (!x || x.type == type) return x;
    return make(type, (std::string("(") + memory_name(type) + ")%").c_str(), {x});
}
GRAFT_INLINE operand element_emitter::both(const operand& a, const operand& b) {
    if (!a || a.text == "true") return b.text == "true" ? operand{} : b;
    if (!b || b.text == "true") return a;
    return {define("c", "bool", a.text + " && " + b.text, detail::deeper(a.level, b.level)), dtype::boolean, detail::deeper(a.level, b.level)};
}
GRAFT_INLINE std::string element_emitter::report(const std::string& value, const fault& what) {
    if (!body_.faults) return refuse("it has a check where none can be told of"), std::string();
    std::vector<fault>& all = *body_.faults;
    const auto same = std::find_if(
        all.begin(), all.end(), [&](const fault& f) { return f.code == what.code && f.where == what.where && f.text == what.text && f.limit == what.limit; });
    const std::string number = std::to_string(same - all.begin());
    if (same == all.end()) all.push_back(what);
    reports_ = true;
    return "atomicExch(fault_seen, 1ull), atomicMax(faults + " + number + ", " + (what.counted ? "~" : "") + "(unsigned long long)" + value + ")";
}
GRAFT_INLINE void element_emitter::demand(const operand& fits, const operand& value, const fault& what) {
    if (!fits || !value || fits.text == "true") return;
    const level where = detail::deeper(detail::deeper(fits.level, value.level), guard_ ? guard_.level : level::thread);
    const std::string statement = "if (" + (guard_ ? guard_.text + " && " : std::string()) + "!" + fits.text + ") " + report(value.text, what);
    named& n = names_[statement];
    if (!n.name.empty()) return;
    n.name = "reported";
    n.where = where;
    text_[static_cast<std::size_t>(where)] += std::string(4 + 4 * static_cast<std::size_t>(where), ' ') + statement + ";\n";
}
GRAFT_INLINE operand element_emitter::fault_seen() {
    asks_ = true;
    return {define("c", "bool", "*fault_seen != 0", level::thread), dtype::boolean, level::thread};
}
GRAFT_INLINE std::string element_emitter::define_table(const char* type, const std::string& entries) {
    named& n = names_[std::string("table ") + type + entries];
    if (n.name.empty()) {
        n.name = "t" + std::to_string(count_++);
        n.where = level::thread;
        text_[0] += std::string("    static const ") + type + " " + n.name + "[] = {\n        " + entries + "};\n";
    }
    return n.name;
}

GRAFT_INLINE operand element_emitter::load(int input, const position& at) {
    const auto k = static_cast<std::size_t>(input);
    const value_id v = body_.inputs[k];
    const tensor_view& x = body_.values[v];
    const dtype type = compute_type(x.type);
    if (x.data && x.elements() == 1) return {element_literal(x.type, x.data, 0), type, level::thread};
    loaded_[k] = true;
    const index from = offset(at, strides_of(x.extents, body_.order[k]));
    if (offsets_[k].empty()) offsets_[k] = from.text;
    if (offsets_[k] != from.text) offsets_[k] = "many";
    const std::string element = memory_name(body_.memory[k]), lanes = std::to_string(lanes_);
    std::string arguments = "(in" + std::to_string(input) + (from.known && from.number == 0 ? "" : " + " + from.text);
    if (guard_) arguments += ", " + guard_.text;
    arguments += ")";
    level where = detail::deeper(from.level, guard_ ? guard_.level : level::thread);
    if (from.consecutive && where != level::lane) {
        const std::string pack = "pack<" + element + ", " + lanes + ">";
        const std::string aligned = std::to_string(std::gcd<std::int64_t>(from.multiple, lanes_));
        const std::string name = define("p", pack, "load_" + pack.substr(0, pack.size() - 1) + ", " + aligned + ">" + arguments, where);
        return convert({define("v", compute_name(body_.memory[k]), "compute(" + name + ".at[lane])", level::lane), compute_type(body_.memory[k]), level::lane},
                       type);
    }
    if (from.consecutive) {
        const index one = each(from);
        arguments = "(in" + std::to_string(input) + " + " + one.text + (guard_ ? ", " + guard_.text : "") + ")";
    }
    return convert({define("v", compute_name(body_.memory[k]), "load" + arguments, where), compute_type(body_.memory[k]), where}, type);
}

GRAFT_INLINE operand element_emitter::compute(value_id v, const position& at) {
    const auto made = body_.maker[v];
    const tensor_view& x = body_.values[v];
    if (made.first < 0) {
        const auto input = std::find(body_.inputs.begin(), body_.inputs.end(), v);
        if (input != body_.inputs.end()) return load(static_cast<int>(input - body_.inputs.begin()), at);
        if (x.data && x.elements() == 1) return {element_literal(x.type, x.data, 0), compute_type(x.type), level::thread};
        return refuse("a constant of more than one element lies inside of a fused body");
    }
    const node& n = body_.nodes[static_cast<std::size_t>(made.first)];
    const element_rule* rule = find_rule(n.op_type.c_str(), n.domain.c_str());
    if (!rule) return refuse("there is no generated kernel for the operator");
    std::vector<tensor_view> in, out;
    for (value_id i : n.inputs) in.push_back(i == no_value ? tensor_view{} : body_.values[static_cast<std::size_t>(i)]);
    for (value_id o : n.outputs) out.push_back(o == no_value ? tensor_view{} : body_.values[static_cast<std::size_t>(o)]);
    const op_context c{n, in.data(), static_cast<int>(in.size()), out.data(), static_cast<int>(out.size()), *body_.limit};
    const operand y = rule->build({*this, c, rule->text, made.second, at});
    if (!y && !failure) return refuse("its attributes do not fit its inputs");
    return convert(y, x.type);
}
GRAFT_INLINE operand element_emitter::value(value_id v, const position& at) {
    if (failure) return {};
    if (depth_ >= detail::longest_chain) return refuse("its chain of operators is too long");
    const std::string key = std::to_string(v) + "@" + at.key() + "?" + guard_.text;
    const auto found = computed_.find(key);
    if (found != computed_.end()) return found->second;
    ++depth_;
    operand x = compute(v, at);
    --depth_;
    if (!failure) computed_[key] = x;
    return x;
}
GRAFT_INLINE void element_emitter::bind(value_id v, const position& at, const operand& known) {
    computed_[std::to_string(v) + "@" + at.key() + "?" + guard_.text] = convert(known, body_.values[v].type);
}

GRAFT_INLINE void element_emitter::next_loop(int lanes) {
    lanes_ = lanes;
    for (auto n = names_.begin(); n != names_.end();) n = n->second.where != level::thread ? names_.erase(n) : std::next(n);
    for (auto c = computed_.begin(); c != computed_.end();) c = c->second.level != level::thread ? computed_.erase(c) : std::next(c);
    text_[1].clear();
    text_[2].clear();
}
GRAFT_INLINE std::vector<int> element_emitter::parameters() const {
    std::vector<int> used;
    for (std::size_t i = 0; i < loaded_.size(); ++i)
        if (loaded_[i]) used.push_back(static_cast<int>(i));
    if (reports_ || asks_) used.push_back(reports_ ? fault_words : fault_word);
    return used;
}
GRAFT_INLINE bool element_emitter::read_only_at(int input, const index& i) const {
    const std::string& offset = offsets_[static_cast<std::size_t>(input)];
    return offset.empty() || offset == i.text;
}

namespace detail {

// Places a view of a value, and refuses what kernels cannot hold.
inline const char* check_value(const tensor_view& x) {
    if (x.type == dtype::undefined) return nullptr;
    if (!is_generated(x.type)) return "an element type that generated kernels do not take";
    return elements_of(x.extents) < 0 ? "a shape that is not known" : nullptr;
}

inline const char* read_fusion(const kernel_query& q, kernel_body& body) {
    const attribute* a = q.n.find("body");
    if (!a || !a->graph) return "a Fusion without a body";
    const graph& g = *a->graph;
    if (static_cast<int>(g.inputs.size()) != q.inputs || static_cast<int>(g.outputs.size()) != q.outputs)
        return "a Fusion whose body has other inputs or outputs";
    body.nodes = g.nodes;
    body.inputs = g.inputs;
    body.outputs = g.outputs;
    for (const value& v : g.values) body.values.push_back(v.constant ? view(v.constant) : tensor_view{v.type, v.extents, nullptr});
    for (std::size_t i = 0; i < g.inputs.size(); ++i) body.values[g.inputs[i]] = q.in[i];
    return nullptr;
}

// One node: equal inputs stay equal, so that they are read once.
inline const char* read_single(const kernel_query& q, kernel_body& body) {
    node n = q.n;
    for (int i = 0; i < q.inputs; ++i) {
        value_id id = no_value;
        for (int k = 0; k < i && q.has(i) && id == no_value; ++k)
            if (q.n.inputs[static_cast<std::size_t>(k)] == q.n.inputs[static_cast<std::size_t>(i)]) id = n.inputs[static_cast<std::size_t>(k)];
        if (id == no_value) id = static_cast<value_id>(body.values.size());
        if (id == static_cast<value_id>(body.values.size())) body.values.push_back(q.in[i]);
        body.inputs.push_back(id);
        n.inputs[static_cast<std::size_t>(i)] = q.has(i) ? id : no_value;
    }
    for (int o = 0; o < q.outputs; ++o) {
        body.outputs.push_back(static_cast<value_id>(body.values.size()));
        if (q.wants(o)) n.outputs[static_cast<std::size_t>(o)] = body.outputs.back();
        body.values.push_back(q.out[o]);
    }
    body.nodes.push_back(std::move(n));
    return nullptr;
}

}  // namespace detail

GRAFT_INLINE const char* read_body(const kernel_query& q, kernel_body& body, program* into) {
    const bool fused = q.n.op == fusion_row();
    if (const char* why = fused ? detail::read_fusion(q, body) : detail::read_single(q, body)) return why;
    body.limit = &q.limit;
    body.faults = into ? &into->faults : nullptr;
    for (int i = 0; i < q.inputs; ++i) {
        body.memory.push_back(q.in[i].type);
        body.order.push_back(q.in_layout[i]);
    }
    body.maker.assign(body.values.size(), {-1, -1});
    for (std::size_t n = 0; n < body.nodes.size(); ++n)
        for (std::size_t o = 0; o < body.nodes[n].outputs.size(); ++o)
            if (body.nodes[n].outputs[o] != no_value)
                body.maker[static_cast<std::size_t>(body.nodes[n].outputs[o])] = {static_cast<int>(n), static_cast<int>(o)};
    for (const tensor_view& x : body.values)
        if (const char* why = detail::check_value(x)) return why;
    return nullptr;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
