// Fusions drawn at random, and what they compute node by node.
#pragma once

#include "generated.hpp"

#include <graft/graph/emitter.hpp>

namespace generated {

/// Draws a chain of 2 to 8 operators over a float tensor of rank 4, in a body of two to four inputs, with its reference.
class chain {
public:
    explicit chain(std::uint64_t seed) : random_{seed}, e_(g_, graft::ops::find_training_op, limit_) {
        const std::int64_t n = 1 + draw(3), c = draw(2) ? 8 : 1 + draw(7), h = 2 + draw(5), w = draw(2) ? 8 : 1 + draw(7);
        type_ = draw(3) ? graft::dtype::float32 : draw(2) ? graft::dtype::float16 : graft::dtype::bfloat16;
        live_.push_back(input({n, c, h, w}));
        for (int nodes = 2 + draw(7); nodes > 0; --nodes) step();
    }
    example finish() {
        REQUIRE_MESSAGE(e_.failure.ok(), g_.nodes.size());
        g_.outputs.push_back(live_.back());
        // A value on the way is wanted too, now and then.
        if (draw(3) == 0 && live_[live_.size() - 2] != live_.back() && g_.inputs[0] != live_[live_.size() - 2]) g_.outputs.push_back(live_[live_.size() - 2]);
        example x;
        x.n.op_type = "Fusion";
        x.n.op = graft::gpu::fusion_row();
        x.n.version = 1;
        for (std::size_t i = 0; i < g_.inputs.size(); ++i) x.n.inputs.push_back(static_cast<graft::value_id>(i));
        for (std::size_t i = 0; i < g_.outputs.size(); ++i) x.n.outputs.push_back(static_cast<graft::value_id>(100 + i));
        for (const graft::node& n : g_.nodes) x.name += n.op_type + " ";
        x.name += graft::name(type_);
        evaluate(x);
        // What is fused is not rounded in between, the reference is; so the bound is wider for narrow types.
        x.near = type_ == graft::dtype::float32 ? 2e-5 : type_ == graft::dtype::float16 ? 2e-2 : 1e-1;
        x.in_layout.assign(x.in.size() + 1, layout::row_major);
        x.out_layout.assign(x.want.size() + 1, layout::row_major);
        draw_layouts(x, random_);
        graft::attribute body;
        body.name = "body";
        body.kind = graft::attribute_kind::graph;
        body.graph = std::make_shared<graft::graph>(g_);
        x.n.attributes.push_back(std::move(body));
        return x;
    }

private:
    using value_id = graft::value_id;

    int draw(int n) { return static_cast<int>(random_.next() % static_cast<std::uint64_t>(n)); }
    value_id input(const graft::shape& extents) {
        const value_id id = g_.add_value("x" + std::to_string(g_.inputs.size()));
        graft::value& v = g_.values[at(id)];
        v.type = type_;
        v.has_shape = true;
        v.extents = extents;
        g_.inputs.push_back(id);
        return id;
    }
    value_id pick() { return live_[live_.size() - 1 - static_cast<std::size_t>(draw(static_cast<int>(std::min<std::size_t>(3, live_.size()))))]; }
    // Another value of the shape, or one that is broadcast to it.
    value_id other(const graft::shape& s) {
        for (value_id v : live_)
            if (draw(2) && graft::shape(e_.extents(v)) == s) return v;
        graft::shape b = s;
        for (int d = 0; d < b.rank(); ++d)
            if (draw(2)) b[d] = 1;
        return input(draw(4) ? b : graft::shape{});
    }
    void step() {
        static const char* unary[] = {"Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Softplus", "HardSwish", "Erf", "Mish", "Gelu", "Sin"};
        static const char* binary[] = {"Add", "Sub", "Mul", "Max", "Min"};
        const value_id x = live_.back();
        const graft::shape s = e_.extents(x);
        const int last = s.rank() - 1, kind = draw(14), which = draw(11);
        value_id y = graft::no_value;
        switch (kind) {
        case 0:
        case 1:
        case 2: y = e_.apply(unary[which], {x}); break;
        case 3:
        case 4:
        case 5: y = e_.apply(binary[which % 5], {x, other(s)}); break;
        case 6: {  // continuous: of two numbers that are nearly alike, rounding decides which is the greater
            const value_id o = other(s);
            y = e_.apply("Where", {e_.apply("Greater", {x, o}), x, o});
            break;
        }
        case 7: {
            std::vector<std::int64_t> perm;
            for (int d = 0; d <= last; ++d) perm.insert(perm.begin() + draw(d + 1), d);
            y = e_.apply("Transpose", {x}, {graft::integers_attribute("perm", perm)});
            break;
        }
        case 8: {
            const int d = draw(last + 1);
            const std::int64_t step = which % 2 ? 1 : -1;
            if (s[d] < 2) break;
            y = e_.apply("Slice", {x, e_.integers({step > 0 ? 1 : s[d] - 1}), e_.integers({step > 0 ? s[d] : 0}), e_.integers({d}), e_.integers({step})});
            break;
        }
        case 9: {
            std::vector<std::int64_t> pads(static_cast<std::size_t>(2 * (last + 1)));
            pads[static_cast<std::size_t>(draw(last + 1))] = 1;
            const std::size_t behind = static_cast<std::size_t>(last + 1 + draw(last + 1));
            pads[behind] = draw(2) ? 1 : 2;
            for (int d = 0; d <= last; ++d)
                if (s[d] < 3) pads[static_cast<std::size_t>(d)] = pads[static_cast<std::size_t>(d + last + 1)] = 0;
            static const char* modes[] = {"constant", "reflect", "edge", "wrap"};
            y = e_.apply("Pad", {x, e_.integers(pads)}, {graft::string_attribute("mode", modes[which % 4])});
            break;
        }
        case 10: {
            const int axis = draw(last + 1);
            graft::shape b = s;
            b[axis] = draw(2) ? 8 : 1 + draw(5);
            const std::vector<value_id> parts = draw(2) ? std::vector<value_id>{x, input(b)} : std::vector<value_id>{input(b), x};
            y = e_.apply("Concat", parts, {graft::integer_attribute("axis", axis)});
            break;
        }
        case 11: y = e_.reshape(x, draw(2) ? graft::shape{s[0] * s[1], s.product(2, s.rank())} : graft::shape{s.elements()}); break;
        case 12: y = e_.apply("Split", {x}, {graft::integer_attribute("axis", 1), graft::integer_attribute("num_outputs", 1)}); break;
        default: y = e_.apply("Clip", {x, e_.number(-0.5, x), e_.number(1.25, x)});
        }
        if (y == graft::no_value) y = e_.apply("Relu", {x});
        if (graft::shape(e_.extents(y)).rank() < 2) y = e_.reshape(y, s);
        if (graft::shape(e_.extents(y)).rank() == 2) y = e_.reshape(e_.apply("Abs", {y}), s);
        if (e_.extents(y).elements() <= 20000) live_.push_back(y);
    }
    void evaluate(example& x) {
        std::vector<tensor> values(g_.values.size());
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = g_.values[i].constant;
        for (value_id id : g_.inputs) {
            tensor t = tensor::make(type_, g_.values[at(id)].extents);
            for (std::int64_t k = 0; k < t.elements(); ++k) {
                const double v = random_.uniform(-2, 2);
                graft::store_from_double(type_, t.raw(), k, 1, &v);
            }
            values[at(id)] = t;
            x.in.push_back(t);
            x.constant.push_back(draw(2) == 0 && t.elements() == 1);
        }
        graft::executor serial;
        for (const graft::node& n : g_.nodes) {
            std::vector<graft::tensor_view> in;
            for (value_id id : n.inputs) in.push_back(id == graft::no_value ? graft::tensor_view{} : graft::view(values[at(id)]));
            std::vector<tensor> made;
            const graft::status s = graft::run_reference(n, in.data(), static_cast<int>(in.size()), made, {limit_, serial, nullptr, 7});
            REQUIRE(s.ok());
            for (std::size_t k = 0; k < made.size(); ++k)
                if (n.outputs[k] != graft::no_value) values[at(n.outputs[k])] = made[k];
        }
        for (value_id id : g_.outputs) x.want.push_back(values[at(id)]);
    }

    problems::numbers random_;
    graft::limits limit_;
    graft::graph g_;
    graft::emitter e_;
    graft::dtype type_ = graft::dtype::float32;
    std::vector<value_id> live_;
};

inline std::vector<example> fused_examples(int count, std::uint64_t seed) {
    std::vector<example> all;
    for (int i = 0; i < count; ++i) {
        chain c(seed * 1000 + static_cast<std::uint64_t>(i));
        example x = c.finish();
        generate(x, i % 3 == 2);
        CHECK_MESSAGE(!x.refused, x.name, x.refused ? x.refused : "");
        if (!x.refused) all.push_back(std::move(x));
    }
    return all;
}

}  // namespace generated
