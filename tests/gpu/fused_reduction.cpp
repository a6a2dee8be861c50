// Fusions around one reduction: what is computed before it and behind it, against the nodes one by one.
#include "table_problems.hpp"

#include <graft/graph/emitter.hpp>

using namespace generated;

namespace {

using graft::integer_attribute;
using graft::integers_attribute;
using graft::value_id;

// A body that a test writes by `e`, with inputs drawn at random; the reference runs it node by node.
class body {
public:
    explicit body(graft::dtype type) : type_(type), e(g, graft::ops::find_training_op, limit_) {}
    value_id input(const graft::shape& extents, double low = -2, double high = 2, graft::dtype type = graft::dtype::undefined) {
        const value_id id = g.add_value("x" + std::to_string(g.inputs.size()));
        graft::value& v = g.values[at(id)];
        v.type = type == graft::dtype::undefined ? type_ : type;
        v.has_shape = true;
        v.extents = extents;
        g.inputs.push_back(id);
        tensor t = tensor::make(v.type, extents);
        for (std::int64_t k = 0; k < t.elements(); ++k) {
            const double x = random_.uniform(low, high);
            graft::store_from_double(v.type, t.raw(), k, 1, &x);
        }
        in_.push_back(t);
        return id;
    }
    example finish(const std::vector<value_id>& outputs, layout in, layout out) {
        REQUIRE(e.failure.ok());
        g.outputs = outputs;
        std::vector<tensor> values(g.values.size());
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = g.values[i].constant;
        for (std::size_t i = 0; i < in_.size(); ++i) values[at(g.inputs[i])] = in_[i];
        example x;
        x.n.op_type = "Fusion";
        x.n.op = graft::gpu::fusion_row();
        x.n.version = 1;
        graft::executor serial;
        for (const graft::node& n : g.nodes) {
            std::vector<graft::tensor_view> views;
            for (value_id id : n.inputs) views.push_back(id == graft::no_value ? graft::tensor_view{} : graft::view(values[at(id)]));
            std::vector<tensor> made;
            const graft::status s = graft::run_reference(n, views.data(), static_cast<int>(views.size()), made, {limit_, serial, nullptr, 7});
            REQUIRE(s.ok());
            for (std::size_t k = 0; k < made.size(); ++k)
                if (n.outputs[k] != graft::no_value) values[at(n.outputs[k])] = made[k];
            x.name += n.op_type + " ";
        }
        x.in = in_;
        x.constant.assign(in_.size(), false);
        for (std::size_t i = 0; i < in_.size(); ++i) x.n.inputs.push_back(static_cast<value_id>(i));
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            x.n.outputs.push_back(static_cast<value_id>(100 + i));
            x.want.push_back(values[at(outputs[i])]);
        }
        // What is fused is not rounded in between, the reference is.
        x.near = type_ == graft::dtype::float32 ? 2e-5 : type_ == graft::dtype::float16 ? 5e-3 : 4e-2;
        x.in_layout.assign(x.in.size() + 1, plain);
        x.out_layout.assign(x.want.size() + 1, plain);
        set_layouts(x, in, out);
        graft::attribute a;
        a.name = "body";
        a.kind = graft::attribute_kind::graph;
        a.graph = std::make_shared<graft::graph>(g);
        x.n.attributes.push_back(std::move(a));
        return x;
    }

    graft::dtype type_;
    graft::graph g;
    graft::limits limit_;
    graft::emitter e;

private:
    std::vector<tensor> in_;
    problems::numbers random_{11};
};

void keep(std::vector<example>& all, example x) {
    generate(x, 100);
    CHECK_MESSAGE(!x.refused, x.name, x.refused ? x.refused : "");
    if (!x.refused) all.push_back(std::move(x));
}

}  // namespace

TEST_CASE("A reduction takes in what is computed before it and behind it") {
    std::vector<example> all;
    for (const graft::dtype type : {graft::dtype::float32, graft::dtype::float16, graft::dtype::bfloat16})
        for (const layout order : {plain, last}) {
            {  // a bias's gradient behind an activation: relu's mask, summed to the channels
                body b(type);
                const value_id dy = b.input({3, 16, 9, 8}), y = b.input({3, 16, 9, 8});
                const value_id mask =
                    b.e.apply("Cast", {b.e.apply("Greater", {y, b.e.number(0, y)})}, {integer_attribute("to", static_cast<std::int64_t>(type))});
                const value_id sum = b.e.apply_graft("SumTo", {b.e.mul(dy, mask)}, {integers_attribute("shape", {1, 16, 1, 1})});
                keep(all, b.finish({b.e.mul(sum, b.e.number(0.5, sum))}, order, plain));
            }
            {  // a root mean square, and its reciprocal beside it
                body b(type);
                const value_id x = b.input({4, 6, 5, 16}), axes = b.e.integers({1, 2, 3});
                const value_id mean = b.e.apply("ReduceMean", {b.e.mul(x, x), axes}, {integer_attribute("keepdims", 0)});
                const value_id root = b.e.apply("Sqrt", {mean});
                keep(all, b.finish({root, b.e.apply("Reciprocal", {root}), mean}, order, plain));
            }
            {  // scores: scaled, masked, and made probabilities that are dropped
                body b(type);
                const value_id x = b.input({2, 3, 7, 24}), mask = b.input({1, 1, 7, 24});
                const value_id p = b.e.apply("Softmax", {b.e.add(b.e.mul(x, b.e.number(0.25, x)), mask)}, {integer_attribute("axis", 3)});
                keep(all, b.finish({b.e.mul(p, b.e.number(2, p))}, order, order));
            }
            {  // across the channels
                body b(type);
                const value_id x = b.input({2, 16, 5, 4}), y = b.input({2, 16, 5, 4});
                const value_id p = b.e.apply("LogSoftmax", {b.e.sub(x, y)}, {integer_attribute("axis", 1)});
                keep(all, b.finish({b.e.neg(b.e.mul(p, y)), p}, order, order));
            }
            {  // a sum and its normalisation, with the statistics
                body b(type);
                const value_id x = b.input({2, 5, 32}), y = b.input({2, 5, 32}), scale = b.input({32}), shift = b.input({32});
                const value_id sum = b.e.add(x, y);
                const std::vector<value_id> n = b.e.apply_all("", "LayerNormalization", {sum, scale, shift}, {}, 3);
                keep(all, b.finish({b.e.apply("Gelu", {n[0]}), sum, n[1], n[2]}, order, order));
            }
            {  // batch normalisation behind an addition, and an activation behind it
                body b(type);
                const value_id x = b.input({3, 8, 6, 4}), y = b.input({3, 8, 6, 4});
                std::vector<value_id> in{b.e.add(x, y)};
                for (int i = 0; i < 4; ++i) in.push_back(b.input({8}, 0.5, 2, graft::dtype::float32));
                const std::vector<value_id> n = b.e.apply_all("graft", "BatchNormalizationTraining", in, {}, 5);
                keep(all, b.finish({b.e.apply("HardSwish", {n[0]}), n[1], n[2], n[3], n[4]}, order, order));
            }
        }
    {  // so many that parts are summed up apart
        body b(graft::dtype::float32);
        const value_id x = b.input({1, 60000}), y = b.input({1, 60000});
        keep(all, b.finish({b.e.apply("Sqrt", {b.e.apply("ReduceSum", {b.e.mul(b.e.sub(x, y), b.e.sub(x, y))}, {integer_attribute("keepdims", 0)})})}, plain,
                           plain));
    }
    MESSAGE(all.size(), " programs");
    expect_all(all);
    expect_compiled(all);
}

TEST_CASE("What cannot be fused with a reduction is refused") {
    body two(graft::dtype::float32);
    const value_id x = two.input({4, 5});
    const value_id sum = two.e.apply("ReduceSum", {x, two.e.integers({1})});
    example a = two.finish({two.e.apply("ReduceSum", {sum})}, plain, plain);
    generate(a, 1);
    CHECK(a.refused == std::string("two reductions in one body"));
    body other(graft::dtype::float32);
    const value_id y = other.input({4, 5}), double_y = other.e.add(y, y);
    example b = other.finish({other.e.apply("ReduceSum", {double_y}), double_y}, plain, plain);
    generate(b, 1);
    CHECK(b.refused == std::string("an output of the body that is not of the reduction's extents"));
}
