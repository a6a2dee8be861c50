// Bodies of passes/to_float32.hpp.
#pragma once

#include "../graph/captures.hpp"
#include "node_writer.hpp"
#include "specialize.hpp"
#include "to_float32.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

class float32_rewriter {
public:
    float32_rewriter(graph g, const graph& known)
        : g_(std::move(g)), known_(known), write_(g_, "float32"), kept_(g_.values.size(), 0), alias_(g_.values.size(), no_value) {
        std::vector<value_id> ids = g_.outputs;
        for (const node& n : g_.nodes) append_captures(n, ids);
        for (value_id id : ids) kept_[id] = 1;
    }

    GRAFT_COLD result<graph> run(float32_changes& changes) {
        std::vector<node> nodes = std::move(g_.nodes);
        g_.nodes.clear();
        for (std::size_t i = 0; i < g_.values.size(); ++i) GRAFT_TRY(convert(g_.values[i], changes));
        for (node& n : nodes) {
            GRAFT_TRY(convert_attributes(n, changes));
            for (value_id& id : n.inputs)
                if (id != no_value && index(id) < alias_.size() && alias_[id] != no_value) id = alias_[id];
            bool done = false;
            GRAFT_TRY(dequantize(n, done));
            changes.dequantized |= done;
            if (!done) g_.nodes.push_back(std::move(n));
        }
        for (value_id id : g_.outputs) hand_out(id);
        GRAFT_TRY(std::move(write_.failure));
        return std::move(g_);
    }

private:
    // A value of integers that stands for (integer - zero) * scale, and the float32 value of that.
    struct quantized {
        value_id real = no_value, scale = no_value, zero = no_value;
        std::int64_t axis = 1;
    };
    static std::size_t index(value_id id) { return static_cast<std::size_t>(id); }
    dtype type_of(value_id id) const { return index(id) < known_.values.size() ? known_.at(id).type : g_.at(id).type; }
    const shape& extents(value_id id) const { return known_.at(id).extents; }
    static value_id input(const node& n, std::size_t i) { return i < n.inputs.size() ? n.inputs[i] : no_value; }
    const tensor* constant(value_id id) const { return id != no_value && g_.at(id).constant ? &g_.at(id).constant : nullptr; }

    static result<tensor> converted(const tensor& from) {
        tensor to;
        GRAFT_TRY_ASSIGN(to, tensor::make(dtype::float32, from.shape()));
        for (std::int64_t i = 0; i < from.elements(); ++i) to.data<float>()[i] = static_cast<float>(element_as_double(from.type(), from.raw(), i));
        return to;
    }
    static status convert(value& v, float32_changes& changes) {
        if (!is_half_or_double(v.constant ? v.constant.type() : v.type)) return {};
        if (changes.converted == dtype::undefined) changes.converted = v.constant ? v.constant.type() : v.type;
        if (v.constant) GRAFT_TRY_ASSIGN(v.constant, converted(v.constant));
        v.type = dtype::float32;
        return {};
    }
    // Types that nodes name, and tensors that they hold.
    static status convert_attributes(node& n, float32_changes& changes) {
        for (attribute& a : n.attributes) {
            const bool names_type = (a.name == "to" && ops::row_of(n).is(op_flag::converts)) || a.name == "dtype" || a.name == "output_datatype";
            if (names_type && is_half_or_double(static_cast<dtype>(a.integer))) {
                if (changes.converted == dtype::undefined) changes.converted = static_cast<dtype>(a.integer);
                a.integer = static_cast<std::int64_t>(dtype::float32);
            }
            if (a.kind == attribute_kind::tensor && is_half_or_double(a.tensor.type())) GRAFT_TRY_ASSIGN(a.tensor, converted(a.tensor));
            if (!a.graph) continue;
            auto body = std::make_shared<graph>(*a.graph);
            for (value& v : body->values) GRAFT_TRY(convert(v, changes));
            for (node& inner : body->nodes) GRAFT_TRY(convert_attributes(inner, changes));
            a.graph = std::move(body);
        }
        return {};
    }

    // -- quantisation --

    bool is_quantized(value_id id) const { return id != no_value && index(id) < quantized_.size() && quantized_[id].real != no_value; }
    bool same(value_id a, value_id b) const {
        if (a == b) return true;
        const tensor *x = constant(a), *y = constant(b);
        if (a == no_value || b == no_value) {
            // A zero point that is left out is zero.
            const tensor* other = a == no_value ? y : x;
            for (std::int64_t i = 0; other && i < other->elements(); ++i)
                if (element_as_double(other->type(), other->raw(), i) != 0) return false;
            return other != nullptr;
        }
        if (!x || !y || x->elements() != y->elements()) return false;
        for (std::int64_t i = 0; i < x->elements(); ++i)
            if (element_as_double(x->type(), x->raw(), i) != element_as_double(y->type(), y->raw(), i)) return false;
        return true;
    }
    void mark(value_id id, value_id real, value_id scale, value_id zero, std::int64_t axis) {
        quantized_.resize(g_.values.size());
        quantized_[id] = {real, scale, zero, axis};
    }

    // A scale or zero point as float32, shaped to meet a value of that rank by broadcasting.
    result<tensor> along(value_id id, int rank, std::int64_t axis) const {
        const tensor& from = *constant(id);
        tensor to;
        shape e;
        if (from.elements() > 1) e = shape::filled(rank, 1), e[static_cast<int>(axis < 0 ? axis + rank : axis)] = from.elements();
        GRAFT_TRY_ASSIGN(to, tensor::make(dtype::float32, e));
        for (std::int64_t i = 0; i < from.elements(); ++i) to.data<float>()[i] = static_cast<float>(element_as_double(from.type(), from.raw(), i));
        return to;
    }
    std::string name_of(value_id id) const { return g_.at(id).name; }

    status need_constants(const node& n, std::initializer_list<value_id> ids) const {
        for (value_id id : ids)
            if (id != no_value && !constant(id))
                return fail(errc::op_unsupported, location(n), "its scales and zero points have to be constants for the network to learn in float32");
        return {};
    }

    // What the integers of `id` stand for by this scale and zero point: a constant, what is known of the value, or DequantizeLinear of an input.
    status real_of(const node& n, value_id id, value_id scale, value_id zero, std::int64_t axis, value_id& real) {
        GRAFT_TRY(need_constants(n, {scale, zero}));
        const int rank = extents(id).rank();
        if (const tensor* t = constant(id)) {
            const tensor &s = *constant(scale), *z = constant(zero);
            tensor made;
            GRAFT_TRY_ASSIGN(made, tensor::make(dtype::float32, t->shape()));
            std::int64_t inner = 1;
            const std::int64_t at = axis < 0 ? axis + rank : axis;
            if (s.elements() > 1 && (at < 0 || at >= rank || t->shape()[static_cast<int>(at)] != s.elements()))
                return fail(errc::op_unsupported, location(n), "it has scales by blocks, of which the form in float32 is not known");
            for (int a = static_cast<int>(at) + 1; a < rank; ++a) inner *= t->shape()[a];
            for (std::int64_t i = 0; i < t->elements(); ++i) {
                const std::int64_t k = s.elements() > 1 ? i / inner % s.elements() : 0;
                const double off = z ? element_as_double(z->type(), z->raw(), z->elements() > 1 ? k : 0) : 0;
                made.data<float>()[i] = static_cast<float>((element_as_double(t->type(), t->raw(), i) - off) * element_as_double(s.type(), s.raw(), k));
            }
            real = write_.constant(name_of(id), std::move(made));
            return {};
        }
        if (!is_quantized(id)) {
            std::vector<value_id> in{id, scale};
            if (zero != no_value) in.push_back(zero);
            real = write_.add("DequantizeLinear", name_of(id), in,
                              constant(scale)->elements() > 1 ? std::vector<attribute>{integer_attribute("axis", axis)} : std::vector<attribute>(),
                              dtype::float32);
            return {};
        }
        const quantized q = quantized_[id];
        real = q.real;
        if (same(q.scale, scale) && same(q.zero, zero)) return {};
        // The integers first, then by the other scale: (real / s + z - z') * s'.
        GRAFT_TRY(whole_of(id, real));
        if (zero != no_value) {
            tensor z;
            GRAFT_TRY_ASSIGN(z, along(zero, rank, axis));
            real = write_.add("Sub", name_of(id), {real, write_.constant(name_of(zero), std::move(z))}, {}, dtype::float32);
        }
        tensor s;
        GRAFT_TRY_ASSIGN(s, along(scale, rank, axis));
        real = write_.add("Mul", name_of(id), {real, write_.constant(name_of(scale), std::move(s))}, {}, dtype::float32);
        return {};
    }
    // The integers themselves, as float32 that are not rounded.
    status whole_of(value_id id, value_id& whole) {
        const quantized q = quantized_[id];
        const int rank = extents(id).rank();
        tensor s;
        whole = q.real;
        if (q.scale != no_value) {
            GRAFT_TRY_ASSIGN(s, along(q.scale, rank, q.axis));
            whole = write_.add("Div", name_of(id), {whole, write_.constant(name_of(q.scale), std::move(s))}, {}, dtype::float32);
        }
        if (q.zero == no_value) return {};
        tensor z;
        GRAFT_TRY_ASSIGN(z, along(q.zero, rank, q.axis));
        whole = write_.add("Add", name_of(id), {whole, write_.constant(name_of(q.zero), std::move(z))}, {}, dtype::float32);
        return {};
    }

    // `real` cut to what integers of a type can stand for.
    status saturated(const node& n, value_id& real, value_id out, dtype type, value_id scale, value_id zero, std::int64_t axis) {
        double low = 0, high = 0;
        if (!ops::quantized_range(type, low, high)) return {};  // to a small float: it saturates far beyond what is met
        GRAFT_TRY(need_constants(n, {scale, zero}));
        tensor least, most;
        GRAFT_TRY_ASSIGN(least, along(scale, extents(out).rank(), axis));
        GRAFT_TRY_ASSIGN(most, along(scale, extents(out).rank(), axis));
        const tensor* z = constant(zero);
        for (std::int64_t i = 0; i < least.elements(); ++i) {
            const double s = static_cast<double>(least.data<float>()[i]), off = z ? element_as_double(z->type(), z->raw(), z->elements() > 1 ? i : 0) : 0;
            least.data<float>()[i] = static_cast<float>((low - off) * s);
            most.data<float>()[i] = static_cast<float>((high - off) * s);
        }
        const std::string stem = name_of(out);
        if (least.elements() > 1) {
            real = write_.add("Max", stem, {real, write_.constant(stem, std::move(least))}, {}, dtype::float32);
            real = write_.add("Min", stem, {real, write_.constant(stem, std::move(most))}, {}, dtype::float32);
        } else if (g_.version_of("") < 11)
            real =
                write_.add("Clip", stem, {real}, {real_attribute("min", least.data<float>()[0]), real_attribute("max", most.data<float>()[0])}, dtype::float32);
        else
            real = write_.add(
                "Clip", stem,
                {real, write_.number(stem, static_cast<double>(least.data<float>()[0])), write_.number(stem, static_cast<double>(most.data<float>()[0]))}, {},
                dtype::float32);
        return {};
    }

    // Does away with a node of quantised arithmetic; `done`: what it made is told otherwise now.
    status dequantize(node& n, bool& done) {
        bool reads = false;
        for (value_id id : n.inputs) reads |= is_quantized(id);
        struct rule {
            const char* op;
            status (float32_rewriter::*rewrite)(node&, bool&);
            bool reads;  // only where it reads such integers
        };
        static constexpr rule rules[] = {
            {"QuantizeLinear", &float32_rewriter::quantize_linear, false},         {"DequantizeLinear", &float32_rewriter::dequantize_linear, false},
            {"DynamicQuantizeLinear", &float32_rewriter::dynamic_quantize, false}, {"QLinearConv", &float32_rewriter::qlinear_conv, false},
            {"QLinearMatMul", &float32_rewriter::qlinear_matmul, false},           {"ConvInteger", &float32_rewriter::conv_integer, false},
            {"MatMulInteger", &float32_rewriter::matmul_integer, false},           {"Cast", &float32_rewriter::cast_quantized, true},
        };
        for (const rule& r : rules)
            if (n.op_type == r.op && n.domain.empty() && (reads || !r.reads)) return done = true, (this->*r.rewrite)(n, done);
        if (reads && ops::row_of(n).traits.moves != motion::none) return done = true, move_quantized(n);
        if (reads) return fail(errc::op_unsupported, location(n), "it works on quantised integers, and its form in float32 is not known");
        return {};
    }

    status quantize_linear(node& n, bool&) {
        const std::int64_t axis = integer(n, "axis", 1);
        value_id real = n.inputs[0];
        const value_id zero = input(n, 2);
        const dtype type = zero != no_value ? type_of(zero) : static_cast<dtype>(integer(n, "output_dtype", static_cast<std::int64_t>(dtype::uint8)));
        if (integer(n, "block_size", 0)) return fail(errc::op_unsupported, location(n), "it has scales by blocks, of which the form in float32 is not known");
        GRAFT_TRY(saturated(n, real, n.outputs[0], type, n.inputs[1], zero, axis));
        mark(n.outputs[0], real, n.inputs[1], zero, axis);
        return {};
    }
    status dequantize_linear(node& n, bool& done) {
        const std::int64_t axis = integer(n, "axis", 1);
        const value& folded = known_.at(n.outputs[0]);
        if (folded.constant) {
            tensor made;
            GRAFT_TRY_ASSIGN(made, converted(folded.constant));
            return become_constant(n.outputs[0], std::move(made));
        }
        if (!constant(n.inputs[0]) && !is_quantized(n.inputs[0])) return done = false, status();  // integers from outside
        value_id real = no_value;
        GRAFT_TRY(real_of(n, n.inputs[0], n.inputs[1], input(n, 2), axis, real));
        return stands_for(n.outputs[0], real);
    }
    status become_constant(value_id id, tensor made) {
        value& v = g_.at(id);
        v.type = made.type();
        v.extents = made.shape();
        v.has_shape = true;
        v.constant = std::move(made);
        return {};
    }
    // Whatever reads `id` gets `real`.
    status stands_for(value_id id, value_id real) {
        if (const tensor* t = constant(real)) return become_constant(id, *t);
        if (!kept_[id]) return alias_[id] = real, status();
        node copy;
        copy.name = name_of(id);
        copy.inputs = {real};
        copy.outputs = {id};
        write_.become(copy, "Identity");
        g_.nodes.push_back(std::move(copy));
        g_.at(id).type = dtype::float32;
        return {};
    }
    // By a scale of 1: the numbers stand for themselves, and the scale that comes out is that.
    status dynamic_quantize(node& n, bool&) {
        mark(n.outputs[0], n.inputs[0], no_value, no_value, 1);
        for (std::size_t i = 1; i < n.outputs.size(); ++i) {
            if (n.outputs[i] == no_value) continue;
            tensor made;
            GRAFT_TRY_ASSIGN(made, tensor::zeros(i == 1 ? dtype::float32 : dtype::uint8, shape{}));
            if (i == 1) made.data<float>()[0] = 1;
            GRAFT_TRY(become_constant(n.outputs[i], std::move(made)));
        }
        return {};
    }
    status qlinear_conv(node& n, bool&) {
        value_id x = no_value, w = no_value, bias = no_value;
        GRAFT_TRY(real_of(n, n.inputs[0], n.inputs[1], n.inputs[2], 1, x));
        GRAFT_TRY(real_of(n, n.inputs[3], n.inputs[4], n.inputs[5], 0, w));
        if (input(n, 8) != no_value) GRAFT_TRY(real_bias(n, n.inputs[8], n.inputs[1], n.inputs[4], bias));
        std::vector<value_id> in{x, w};
        if (bias != no_value) in.push_back(bias);
        value_id y = write_.add("Conv", name_of(n.outputs[0]), in, n.attributes, dtype::float32);
        GRAFT_TRY(saturated(n, y, n.outputs[0], type_of(n.inputs[7]), n.inputs[6], n.inputs[7], 1));
        mark(n.outputs[0], y, n.inputs[6], n.inputs[7], 1);
        return {};
    }
    // A bias of integers stands for itself times both scales.
    status real_bias(const node& n, value_id id, value_id x_scale, value_id w_scale, value_id& bias) {
        GRAFT_TRY(need_constants(n, {id, x_scale, w_scale}));
        const tensor &b = *constant(id), &x = *constant(x_scale), &w = *constant(w_scale);
        tensor made;
        GRAFT_TRY_ASSIGN(made, converted(b));
        for (std::int64_t i = 0; i < made.elements(); ++i)
            made.data<float>()[i] = static_cast<float>(element_as_double(b.type(), b.raw(), i) * element_as_double(x.type(), x.raw(), 0) *
                                                       element_as_double(w.type(), w.raw(), w.elements() > 1 ? i : 0));
        bias = write_.constant(name_of(id), std::move(made));
        return {};
    }
    status qlinear_matmul(node& n, bool&) {
        value_id a = no_value, b = no_value;
        const int out_rank = extents(n.outputs[0]).rank();
        GRAFT_TRY(real_of(n, n.inputs[0], n.inputs[1], n.inputs[2], -2, a));
        GRAFT_TRY(real_of(n, n.inputs[3], n.inputs[4], n.inputs[5], -1, b));
        value_id y = write_.add("MatMul", name_of(n.outputs[0]), {a, b}, {}, dtype::float32);
        GRAFT_TRY(saturated(n, y, n.outputs[0], type_of(n.inputs[7]), n.inputs[6], n.inputs[7], out_rank - 2));
        mark(n.outputs[0], y, n.inputs[6], n.inputs[7], out_rank - 2);
        return {};
    }
    // Sums of products of integers less their zero points: exact numbers of their own.
    status conv_integer(node& n, bool&) { return integer_product(n, true); }
    status matmul_integer(node& n, bool&) { return integer_product(n, false); }
    status integer_product(node& n, bool conv) {
        value_id in[2] = {no_value, no_value};
        for (int i = 0; i < 2; ++i) {
            const value_id id = n.inputs[static_cast<std::size_t>(i)], zero = input(n, static_cast<std::size_t>(i) + 2);
            GRAFT_TRY(need_constants(n, {zero}));
            if (!is_quantized(id) && !constant(id)) {
                in[i] = write_.add("Cast", name_of(id), {id}, {integer_attribute("to", static_cast<std::int64_t>(dtype::float32))}, dtype::float32);
            } else if (constant(id)) {
                tensor made;
                GRAFT_TRY_ASSIGN(made, converted(*constant(id)));
                in[i] = write_.constant(name_of(id), std::move(made));
            } else
                GRAFT_TRY(whole_of(id, in[i]));
            const tensor* z = constant(zero);
            bool any = false;
            for (std::int64_t k = 0; z && k < z->elements(); ++k) any |= element_as_double(z->type(), z->raw(), k) != 0;
            if (!any) continue;
            tensor off;
            const int rank = extents(id).rank();
            GRAFT_TRY_ASSIGN(off, along(zero, rank, conv ? 0 : i ? rank - 1 : rank - 2));
            in[i] = write_.add("Sub", name_of(id), {in[i], write_.constant(name_of(zero), std::move(off))}, {}, dtype::float32);
        }
        const value_id y =
            write_.add(conv ? "Conv" : "MatMul", name_of(n.outputs[0]), {in[0], in[1]}, conv ? n.attributes : std::vector<attribute>(), dtype::float32);
        mark(n.outputs[0], y, no_value, no_value, 1);
        return {};
    }
    status cast_quantized(node& n, bool&) {
        value_id whole = no_value;
        GRAFT_TRY(whole_of(n.inputs[0], whole));
        if (!is_float(static_cast<dtype>(integer(n, "to", 1)))) return mark(n.outputs[0], whole, no_value, no_value, 1), status();
        return stands_for(n.outputs[0], whole);
    }
    status move_quantized(node& n) {
        if (!is_quantized(n.inputs[0])) return fail(errc::op_unsupported, location(n), "it works on quantised integers, and its form in float32 is not known");
        const quantized first = quantized_[n.inputs[0]];
        if (constant(first.scale) && constant(first.scale)->elements() > 1)
            return fail(errc::op_unsupported, location(n), "it moves integers that have a scale a channel");
        const bool joins = ops::row_of(n).traits.moves == motion::join;
        for (std::size_t i = 0; i < (joins ? n.inputs.size() : 1); ++i) GRAFT_TRY(real_of(n, n.inputs[i], first.scale, first.zero, 1, n.inputs[i]));
        for (value_id& id : n.outputs) {
            if (id == no_value) continue;
            const value_id real = g_.add_value(write_.fresh(name_of(id)));
            g_.values.back().type = dtype::float32;
            mark(id, real, first.scale, first.zero, 1);
            id = real;
        }
        g_.nodes.push_back(std::move(n));
        return {};
    }

    // An output of integers is quantised again: what is handed out stays what it was.
    void hand_out(value_id id) {
        if (!is_quantized(id)) return;
        const quantized q = quantized_[id];
        const bool plain = q.scale == no_value;
        node n;
        n.name = name_of(id);
        n.inputs = {q.real};
        n.outputs = {id};
        if (!plain) n.inputs.push_back(q.scale);
        if (!plain && q.zero != no_value) n.inputs.push_back(q.zero);
        if (plain)
            n.attributes.push_back(integer_attribute("to", static_cast<std::int64_t>(type_of(id))));
        else if (constant(q.scale)->elements() > 1)
            n.attributes.push_back(integer_attribute("axis", q.axis));
        write_.become(n, plain ? "Cast" : "QuantizeLinear");
        g_.nodes.push_back(std::move(n));
        quantized_[id] = {};
    }
    static std::int64_t integer(const node& n, const char* name, std::int64_t otherwise) {
        const attribute* a = n.find(name);
        return a ? a->integer : otherwise;
    }

    graph g_;
    const graph& known_;  // with the types and shapes of all values
    node_writer write_;
    std::vector<char> kept_;       // outputs, and what bodies read: they need a value of their own
    std::vector<value_id> alias_;  // what is read in place of a value
    std::vector<quantized> quantized_;
};

}  // namespace detail

GRAFT_INLINE result<graph> to_float32(graph g, const shape& input, executor& pool, const limits& limit, float32_changes& changes) GRAFT_MEMORY_TRY {
    graph known;
    GRAFT_TRY_ASSIGN(known, specialize_first_input(g, input, pool, limit));
    return detail::float32_rewriter(std::move(g), known).run(changes);
}
GRAFT_MEMORY_CATCH("to_float32")

GRAFT_END_NAMESPACE
