// Differentiation: every operator's gradient against central differences, and what the pass does with graphs.
#include "gradient_problems.hpp"
#include "gradients.hpp"
#include "small_net.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>

namespace {

// The rows of an operator, a row a range of versions.
std::vector<const graft::op_row*> rows_of(const char* domain, const char* name) {
    std::vector<const graft::op_row*> rows;
    for (const graft::op_table& table : gradients::all_tables())
        for (const graft::op_row& row : table)
            if (!std::strcmp(row.name, name) && !std::strcmp(row.domain, domain)) rows.push_back(&row);
    return rows;
}
// The row that a problem is for: that of its version, else the newest.
const graft::op_row* row_for(const char* domain, const char* name, const std::string& problem) {
    const std::size_t at = problem.find('@');
    const int version = at == std::string::npos ? graft::newest_opset : std::atoi(problem.c_str() + at + 1);
    return graft::ops::find_training_op(domain, name, version);
}

}  // namespace

TEST_CASE("the gradient of every operator is what central differences say") {
    const graft::ops::gradient_table_list all = graft::ops::all_gradient_tables();
    const gradients::random_problems random;
    gradients::summary total;
    const char* only = std::getenv("GRAFT_TEST_OPERATOR");
    for (const auto& table : all)
        for (const auto& row : table) {
            if (!row.gradient || gradients::is_estimate(row) || (only && std::string(only) != row.name)) continue;
            std::int64_t elements = 0;
            for (const graft::op_row* op : rows_of(row.domain, row.name))
                for (const std::string& text : problems::split(op->problems, ';')) elements += total.add(*op, text);
            for (const gradients::more_problems& more : gradients::more)
                if (!std::strcmp(more.name, row.name) && !std::strcmp(more.domain, row.domain))
                    for (const std::string& text : problems::split(more.problems, ';')) elements += total.add(*row_for(row.domain, row.name, text), text);
            for (const auto& [name, text] : random.made)
                if (name == row.name && !row.domain[0]) elements += total.add(*row_for("", row.name, text), text);
            CHECK_MESSAGE(elements > 0, std::string(row.name), " has no problem that its gradient can be checked by");
            ++total.operators;
        }
    for (const std::string& failure : total.failures) CHECK_MESSAGE(failure.empty(), failure);
    std::printf("gradients: %d operators, %d problems, %lld elements compared, %lld left out at kinks, %d problems refused, worst difference %.2g\n",
                total.operators, total.problems, static_cast<long long>(total.elements), static_cast<long long>(total.kinks), total.refused, total.worst);
}

namespace {

using graft::no_value;
using graft::tensor;
using graft::value_id;
using small_net::filled;
using small_net::net;

// The gradient of sum(weights * op(inputs)) for every input; none where the loss does not depend on it.
std::vector<std::vector<double>> gradients_of(const char* op, const std::vector<tensor>& inputs, const std::vector<double>& weights,
                                              std::vector<graft::attribute> attributes = {}) {
    net n;
    std::vector<value_id> ids;
    for (const tensor& t : inputs) ids.push_back(n.input(t.shape()));
    const value_id y = n.apply(op, ids, std::move(attributes));
    n.finish(n.sum(n.apply("Mul", {y, n.constant(filled({static_cast<std::int64_t>(weights.size())}, weights))})));
    std::vector<std::vector<double>> all;
    auto made = n.differentiate(ids);
    REQUIRE_MESSAGE(made.ok(), std::string(made.ok() ? "" : made.error().what()));
    const std::vector<tensor> values = n.run(inputs);
    for (value_id id : *made) all.push_back(id == no_value ? std::vector<double>() : n.contents(values, id));
    return all;
}
using list = std::vector<double>;
graft::attribute integers(const char* name, std::vector<std::int64_t> v) { return graft::integers_attribute(name, std::move(v)); }

}  // namespace

TEST_CASE("gradients at kinks are torch's") {
    const tensor x = filled({3}, {-1, 0, 2});
    CHECK(gradients_of("Relu", {x}, {3})[0] == list{0, 0, 3});
    CHECK(gradients_of("Abs", {x}, {3})[0] == list{-3, 0, 3});
    CHECK(gradients_of("LeakyRelu", {x}, {1}, {graft::real_attribute("alpha", 0.5f)})[0] == list{0.5, 0.5, 1});
    CHECK(gradients_of("Elu", {x}, {1})[0][1] == 1);
    const std::vector<list> slope = gradients_of("PRelu", {x, filled({1}, {0.25})}, {1});
    CHECK(slope[0] == list{0.25, 0.25, 1});
    CHECK(slope[1] == list{-1});
    CHECK(gradients_of("HardSigmoid", {filled({4}, {-3, 3, 0, 4})}, {6}, {graft::real_attribute("alpha", 0.25f), graft::real_attribute("beta", 0.75f)})[0] ==
          list{0, 0, 1.5, 0});

    const std::vector<list> both = gradients_of("Max", {filled({3}, {1, 2, 3}), filled({3}, {1, 3, 2})}, {4});
    CHECK(both[0] == list{2, 0, 4});
    CHECK(both[1] == list{2, 4, 0});
    CHECK(gradients_of("ReduceMax", {filled({4}, {1, 5, 5, 2})}, {6}, {graft::integer_attribute("keepdims", 0)})[0] == list{0, 3, 3, 0});
    CHECK(gradients_of("ReduceL2", {filled({2}, {0, 0})}, {6}, {graft::integer_attribute("keepdims", 0)})[0] == list{0, 0});
    CHECK(gradients_of("ReduceProd", {filled({3}, {0, 2, 5})}, {1}, {graft::integer_attribute("keepdims", 0)})[0] == list{10, 0, 0});
    CHECK(gradients_of("Floor", {x}, {1})[0].empty());
}

TEST_CASE("the bounds of Clip let nothing through, at the bounds and outside") {
    net n;
    const value_id x = n.input({5});
    n.finish(n.sum(n.apply("Clip", {x, n.constant(filled({}, {0})), n.constant(filled({}, {6}))})));
    auto made = n.differentiate({x});
    REQUIRE(made.ok());
    CHECK(n.contents(n.run({filled({5}, {-1, 0, 3, 6, 7})}), made.value()[0]) == list{0, 0, 1, 0, 0});
}

TEST_CASE("a value that several nodes read gets the sum of what comes back") {
    net n;
    const value_id x = n.input({2});
    const value_id y = n.apply("Mul", {n.apply("Exp", {x}), x});
    n.finish(n.sum(n.apply("Add", {y, n.apply("Mul", {x, x})})));  // x e^x + x^2
    auto made = n.differentiate({x});
    REQUIRE(made.ok());
    const list g = n.contents(n.run({filled({2}, {0, 1})}), made.value()[0]);
    CHECK(g[0] == doctest::Approx(1));
    CHECK(g[1] == doctest::Approx(2 * std::exp(1.0) + 2));
}

TEST_CASE("a weight that is used twice gets both gradients") {
    net n;
    const value_id x = n.input({3, 2}), w = n.input({2, 2});
    n.finish(n.sum(n.apply("MatMul", {n.apply("Tanh", {n.apply("MatMul", {x, w})}), w})));
    const gradients::outcome o = gradients::check_graph(n.g, {small_net::numbers({3, 2}, 1), small_net::numbers({2, 2}, 2)});
    CHECK_MESSAGE(o.error.empty(), o.error);
    CHECK(o.elements == 10);
}

TEST_CASE("what the loss does not depend on has no gradient, and what is frozen adds no nodes") {
    net n;
    const value_id x = n.input({4, 3}), frozen = n.input({3, 3}), learns = n.input({3, 2}), aside = n.input({2});
    const value_id trunk = n.apply("Relu", {n.apply("MatMul", {n.apply("Sigmoid", {x}), frozen})});
    const value_id head = n.apply("MatMul", {trunk, learns});
    const value_id beside = n.apply("Exp", {aside});
    n.finish(n.sum(head), beside);
    const std::size_t forward = n.g.nodes.size();
    auto made = n.differentiate({learns, aside});
    REQUIRE(made.ok());
    CHECK(made.value()[0] != no_value);
    CHECK(made.value()[1] == no_value);
    // Of the sum and of the head; the trunk's operators give none.
    for (std::size_t i = forward; i < n.g.nodes.size(); ++i) {
        const std::string& type = n.g.nodes[i].op_type;
        CHECK_MESSAGE((type == "Expand" || type == "MatMulGradWeight" || type == "Reshape"), type);
    }
    CHECK(n.g.nodes.size() - forward <= 4);
}

TEST_CASE("an operator without a gradient is named where a weight lies before it, and is of no matter where none does") {
    for (bool before : {true, false}) {
        net n;
        const value_id x = n.input({3, 3}), w = n.input({3, 3});
        value_id y = n.apply("MatMul", {x, w});
        y = n.apply("Det", {before ? y : x});
        n.finish(n.sum(n.apply("Mul", {y, n.sum(w)})));
        auto made = n.differentiate({w});
        CHECK(made.ok() != before);
        if (made.ok()) continue;
        CHECK(made.error().code() == graft::errc::train_no_gradient);
        CHECK(std::string(made.error().what()).find("(Det)") != std::string::npos);
    }
}

TEST_CASE("a gradient that an operator has not in one form is refused by its name") {
    net n;
    const value_id x = n.input({3, 3});
    n.finish(n.sum(n.apply("Einsum", {x}, {graft::string_attribute("equation", "ii->i")})));
    auto made = n.differentiate({x});
    REQUIRE(!made.ok());
    CHECK(made.error().code() == graft::errc::train_no_gradient);
    CHECK(std::string(made.error().what()).find("(Einsum)") != std::string::npos);
}

TEST_CASE("gradients keep the types of mixed graphs") {
    net n;
    const value_id x = n.input({4});
    const value_id half = n.apply("Cast", {x}, {graft::integer_attribute("to", static_cast<std::int64_t>(graft::dtype::float16))});
    const value_id back = n.apply("Cast", {n.apply("Mul", {half, half})}, {graft::integer_attribute("to", static_cast<std::int64_t>(graft::dtype::float64))});
    n.finish(n.sum(back));
    auto made = n.differentiate({x});
    REQUIRE(made.ok());
    CHECK(n.g.at(made.value()[0]).type == graft::dtype::float64);
    CHECK(n.contents(n.run({filled({4}, {-1, 0, 0.5, 3})}), made.value()[0]) == list{-2, 0, 1, 6});
}

TEST_CASE("a loss of more than one number is refused") {
    net n;
    const value_id x = n.input({4});
    n.finish(n.apply("Exp", {x}));
    auto made = n.differentiate({x});
    REQUIRE(!made.ok());
    CHECK(made.error().code() == graft::errc::op_shape);
}

TEST_CASE("sums over the batch are the tree of shards, whose leaves are whole samples") {
    // Numbers that a sum in another order rounds differently.
    const std::int64_t samples = 11, width = 3;
    const tensor dy = small_net::numbers({samples, width}, 5);
    for (int count : {1, 4, 8}) {
        graft::node node;
        node.op_type = "SumTo";
        node.domain = "graft";
        node.attributes = {integers("shape", {width}), graft::integer_attribute("shards", count)};
        node.op = graft::ops::find_training_op("graft", "SumTo", graft::newest_opset);
        node.inputs = {0};
        node.outputs = {1};
        const graft::limits limit;
        graft::executor serial;
        const graft::tensor_view in = graft::view(dy);
        std::vector<tensor> made;
        REQUIRE(graft::run_reference(node, &in, 1, made, {limit, serial, nullptr, 0}).ok());
        for (std::int64_t j = 0; j < width; ++j) {
            std::vector<double> leaves;
            const graft::shards cut{count};
            for (int s = 0; s < count; ++s) {
                double leaf = 0;
                for (std::int64_t i = cut.first(samples, s); i < cut.last(samples, s); ++i) leaf += dy.data<double>()[i * width + j];
                leaves.push_back(leaf);
            }
            while (leaves.size() > 1) {
                for (std::size_t k = 0; k < leaves.size() / 2; ++k) leaves[k] = leaves[2 * k] + leaves[2 * k + 1];
                leaves.resize(leaves.size() / 2);
            }
            CHECK(made[0].data<double>()[j] == leaves[0]);
        }
    }
}

TEST_CASE("the problems of the operators that training adds run by their reference kernels") {
    const graft::ops::table_list all = graft::ops::all_training_op_tables();
    int ran = 0;
    for (const auto& table : all)
        for (const auto& row : table) {
            for (const std::string& text : problems::split(row.problems, ';')) {
                const problems::problem p = problems::read(row, text);
                INFO(std::string(row.name), ": ", text);
                CHECK_MESSAGE(p.error.empty(), p.error);
                graft::graph g = p.g;
                g.nodes[0].op = &row;
                g.nodes[0].version = graft::newest_opset;
                std::vector<tensor> values(g.values.size());
                for (std::size_t i = 0; i < values.size(); ++i) values[i] = g.values[i].constant;
                for (std::size_t i = 0; i < p.inputs.size(); ++i) values[g.inputs[i]] = p.inputs[i];
                const std::string error = gradients::run_nodes(g, g.nodes.size(), values);
                CHECK_MESSAGE(error.empty(), error);
                ++ran;
            }
        }
    CHECK(ran > 30);
}
