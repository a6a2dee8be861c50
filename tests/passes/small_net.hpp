// Small networks in float64 for tests of differentiation: built, verified, specialised, differentiated, run by the reference kernels.
#pragma once

#include "gradients.hpp"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

namespace small_net {

using graft::tensor;
using graft::value_id;

/// A float64 tensor of these values, over and over.
inline tensor filled(const graft::shape& extents, const std::vector<double>& values) {
    tensor t = graft::tensor::make(graft::dtype::float64, extents);
    for (std::int64_t i = 0; i < t.elements(); ++i) t.data<double>()[i] = values[static_cast<std::size_t>(i) % values.size()];
    return t;
}
/// A float64 tensor of fixed numbers between -1 and 1.
inline tensor numbers(const graft::shape& extents, std::uint64_t seed) {
    tensor t = graft::tensor::make(graft::dtype::float64, extents);
    problems::numbers random{seed};
    for (std::int64_t i = 0; i < t.elements(); ++i) t.data<double>()[i] = random.uniform(-1, 1);
    return t;
}

/// A network whose inputs have fixed shapes; its first output is the loss.
class net {
public:
    graft::graph g;

    value_id input(const graft::shape& extents) {
        const value_id id = b_.input("x" + std::to_string(shapes_.size()), graft::dtype::float64, {});
        shapes_.push_back(extents);
        return id;
    }
    value_id constant(tensor t) { return b_.constant("c" + std::to_string(constants_++), std::move(t)); }
    value_id integers(const std::vector<std::int64_t>& v) { return constant(graft::tensor::from(v.data(), {static_cast<std::int64_t>(v.size())})); }
    value_id number(double v) { return constant(filled({}, {v})); }
    value_id apply(const char* op, std::vector<value_id> inputs, std::vector<graft::attribute> attributes = {}) {
        return b_.apply(op, std::move(inputs), std::move(attributes));
    }
    std::vector<value_id> apply_all(const char* op, std::vector<value_id> inputs, std::vector<graft::attribute> attributes, int count) {
        return b_.apply_all(op, std::move(inputs), std::move(attributes), count);
    }
    value_id sum(value_id x) { return apply("ReduceSum", {x}, {graft::integer_attribute("keepdims", 0)}); }

    void finish(value_id loss, value_id other = graft::no_value) {
        b_.output(loss, "loss");
        if (other != graft::no_value) b_.output(other, "other");
        g = b_.finish();
        std::vector<graft::tensor_view> views;
        for (std::size_t i = 0; i < shapes_.size(); ++i) {
            g.values[gradients::index(g.inputs[i])].extents = shapes_[i];
            views.push_back({graft::dtype::float64, shapes_[i], nullptr});
        }
        const std::vector<graft::op_table> tables = gradients::all_tables();
        const graft::status s = graft::verify_graph(g, {tables.data(), static_cast<int>(tables.size())}, limit_);
        REQUIRE_MESSAGE(s.ok(), std::string(s.ok() ? "" : s.error().what()));
        graft::executor serial;
        auto made = graft::specialize(std::move(g), views.data(), {limit_, serial, nullptr, 7});
        REQUIRE_MESSAGE(made.ok(), std::string(made.ok() ? "" : made.error().what()));
        g = std::move(made).value();
    }
    graft::result<std::vector<value_id>> differentiate(const std::vector<value_id>& wrt) { return graft::differentiate(g, g.outputs[0], wrt, 8, limit_); }

    /// Every value, computed from these inputs.
    std::vector<tensor> run(const std::vector<tensor>& inputs) const {
        std::vector<tensor> values(g.values.size());
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = g.values[i].constant;
        for (std::size_t i = 0; i < inputs.size(); ++i) values[gradients::index(g.inputs[i])] = inputs[i];
        const std::string error = gradients::run_nodes(g, g.nodes.size(), values);
        CHECK_MESSAGE(error.empty(), error);
        return values;
    }
    static std::vector<double> contents(const std::vector<tensor>& values, value_id id) {
        const tensor& t = values[gradients::index(id)];
        return {t.data<double>(), t.data<double>() + t.elements()};
    }

private:
    graft::builder b_{"net"};
    std::vector<graft::shape> shapes_;
    int constants_ = 0;
    graft::limits limit_;
};

}  // namespace small_net
