// Adds nodes to a graph as its file would have them: at the operator set that it imports, bound to their rows, under names nobody has.
#pragma once

#include "../graph/builder.hpp"
#include "../ops/ops.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Nodes go to the end of the graph's list. The first mistake is kept in `failure`.
class node_writer {
public:
    // `tag` tells in the names what wrote them.
    node_writer(graph& g, std::string tag) : g_(g), tag_("/" + std::move(tag) + "_") {
        for (std::size_t i = 0; i < g.values.size(); ++i)
            if (g.values[i].name.find(tag_) != std::string::npos) tag_ += "_", i = 0;
    }

    GRAFT_COLD value_id add(const char* op_type, const std::string& stem, std::vector<value_id> inputs, std::vector<attribute> attributes = {},
                            dtype type = dtype::undefined) {
        const value_id made = g_.add_value(fresh(stem));
        g_.values.back().type = type;
        node n;
        n.name = g_.values.back().name;
        n.inputs = std::move(inputs);
        n.outputs = {made};
        n.attributes = std::move(attributes);
        become(n, op_type);
        g_.nodes.push_back(std::move(n));
        return made;
    }
    // The same under that name, or that name with a number behind it where it is taken.
    value_id named(const char* op_type, const std::string& wanted, std::vector<value_id> inputs, std::vector<attribute> attributes = {},
                   dtype type = dtype::undefined) {
        const std::string name = free_name(wanted);
        const value_id made = add(op_type, wanted, std::move(inputs), std::move(attributes), type);
        g_.at(made).name = g_.nodes.back().name = name;
        return made;
    }
    std::string free_name(const std::string& wanted) const {
        for (int tries = 0;; ++tries) {
            std::string candidate = tries ? wanted + "_" + std::to_string(tries) : wanted;
            bool taken = false;
            for (const value& v : g_.values) taken |= v.name == candidate;
            if (!taken) return candidate;
        }
    }
    // The node is of another operator from now on.
    void become(node& n, const char* op_type) {
        n.op_type = op_type;
        n.domain.clear();
        n.version = g_.version_of("");
        n.op = ops::find_op("", op_type, n.version);
        if (!n.op || !n.op->infer) mistake(fail(errc::op_unsupported, location(n), "this build does not hold the operator, which rewriting the network needs"));
    }
    GRAFT_COLD value_id integers(const std::string& stem, const std::vector<std::int64_t>& values, dtype type = dtype::int64) {
        const auto count = static_cast<std::int64_t>(values.size());
        auto t = tensor::make(type, shape{count});
        if (!t.ok()) return mistake(t.take_status()), no_value;
        store_from_int64(type, t->raw(), 0, count, values.data());
        return constant(stem, std::move(t).value());
    }
    // A float32 scalar.
    value_id number(const std::string& stem, double v) {
        auto t = tensor::make(dtype::float32, shape{});
        if (!t.ok()) return mistake(t.take_status()), no_value;
        t->data<float>()[0] = static_cast<float>(v);
        return constant(stem, std::move(t).value());
    }
    template <class T>
    value_id constant(const std::string& stem, const std::vector<T>& values, const shape& extents) {
        auto made = tensor::from(values.data(), extents);
        if (!made.ok()) return mistake(made.take_status()), no_value;
        return constant(stem, std::move(made).value());
    }
    value_id constant(const std::string& stem, tensor data) { return g_.add_constant(fresh(stem), std::move(data)); }
    std::string fresh(const std::string& stem) { return stem + tag_ + std::to_string(++made_); }
    void mistake(status s) {
        if (failure.ok()) failure = std::move(s);
    }

    status failure;

private:
    graph& g_;
    std::string tag_;
    std::int64_t made_ = 0;
};

}  // namespace detail
GRAFT_END_NAMESPACE
