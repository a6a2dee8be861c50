// Raises a network to operator set 13.
#pragma once

#include "../ops/ops.hpp"
#include "graph_queries.hpp"
#include "node_writer.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Old forms of operators that become those of operator set 13.
class opset_raiser {
public:
    static constexpr int wanted = 13;

    explicit opset_raiser(graph& g) : g_(g), write_(g, "raised") {}
    // Errors: model.version (an operator means something else in operator set 13).
    GRAFT_COLD status run() {
        if (g_.version_of("") >= wanted) return {};
        for (opset& o : g_.opsets)
            if (o.domain.empty() || o.domain == "ai.onnx") o.version = wanted;
        std::vector<node> all = std::move(g_.nodes);
        g_.nodes.clear();
        for (node& n : all) {
            if (n.domain.empty() || n.domain == "ai.onnx") GRAFT_TRY(raise(n));
            g_.nodes.push_back(std::move(n));
        }
        return std::move(write_.failure);
    }

private:
    struct form {
        const char* op;
        bool (opset_raiser::*raise)(node&);  // false: it means something else
    };

    status raise(node& n) {
        static constexpr form forms[] = {{"Squeeze", &opset_raiser::axes},
                                         {"Unsqueeze", &opset_raiser::axes},
                                         {"ReduceSum", &opset_raiser::axes},
                                         {"Clip", &opset_raiser::bounds},
                                         {"Dropout", &opset_raiser::ratio},
                                         {"Pad", &opset_raiser::pads},
                                         {"BatchNormalization", &opset_raiser::norm},
                                         {"Softmax", &opset_raiser::axis},
                                         {"LogSoftmax", &opset_raiser::axis}};
        const op_row* newer = ops::find_op("", n.op_type.c_str(), wanted);
        for (const attribute& a : n.attributes)
            if (a.graph) return refused(n);
        if (newer && newer == n.op) {
            n.version = wanted;
            return {};
        }
        const form* old = std::find_if(std::begin(forms), std::end(forms), [&](const form& f) { return n.op_type == f.op; });
        if (!newer || !n.op || old == std::end(forms) || !(this->*old->raise)(n)) return refused(n);
        n.version = wanted;
        n.op = ops::find_op("", n.op_type.c_str(), wanted);
        return {};
    }
    bool axes(node& n) { return move_list(n, "axes"), true; }
    bool bounds(node& n) {
        if (n.inputs.size() != 1) return false;
        const attribute *low = n.find("min"), *high = n.find("max");
        const value_id from = low ? write_.number("min", static_cast<double>(low->real)) : no_value,
                       to = high ? write_.number("max", static_cast<double>(high->real)) : no_value;
        n.inputs.push_back(from);
        if (to != no_value) n.inputs.push_back(to);
        n.attributes.clear();
        return true;
    }
    bool ratio(node& n) { return n.attributes.clear(), true; }
    bool norm(node& n) { return drop(n, "spatial"), n.outputs.size() == 1; }
    bool axis(node& n) {
        // The old form joins all axes from `axis` on: the same where that is the last.
        const value_id x = n.inputs[0];
        const attribute* given = n.find("axis");
        const std::int64_t at = given ? given->integer : 1;
        n.attributes = {integer_attribute("axis", -1)};
        if (at == -1 || rank_of(x) == at + 1) return true;
        const std::string stem = g_.at(n.outputs[0]).name;
        const dtype type = g_.at(x).type;
        const value_id joined = write_.add("Flatten", stem, {x}, {integer_attribute("axis", at)}, type),
                       extents = write_.add("Shape", stem, {x}, {}, dtype::int64);
        n.inputs = {write_.add(n.op_type.c_str(), stem, {joined}, std::move(n.attributes), type), extents};
        n.attributes.clear();
        write_.become(n, "Reshape");
        return true;
    }
    bool pads(node& n) {
        if (n.inputs.size() != 1) return false;
        const attribute* filled = n.find("value");
        const double with = filled ? static_cast<double>(filled->real) : 0;
        move_list(n, "pads");
        drop(n, "value");
        n.inputs.push_back(write_.number("value", with));
        return true;
    }
    // The rank of a value, by its shape or by what makes it, a few nodes back; -1: not known.
    int rank_of(value_id id, int steps = 8) const {
        if (g_.at(id).has_shape) return g_.at(id).extents.rank();
        const auto made =
            std::find_if(g_.nodes.begin(), g_.nodes.end(), [&](const node& n) { return std::find(n.outputs.begin(), n.outputs.end(), id) != n.outputs.end(); });
        if (made == g_.nodes.end() || steps == 0) return -1;
        if (is_named(*made, "Gemm") || is_named(*made, "Flatten")) return 2;
        if (is_named(*made, "GlobalAveragePool")) return rank_of(made->inputs[0], steps - 1);
        const tensor second = made->inputs.size() > 1 && made->inputs[1] != no_value ? g_.at(made->inputs[1]).constant : tensor();
        if (!second) return -1;
        if (is_named(*made, "Conv")) return second.shape().rank();
        if (is_named(*made, "Reshape")) return static_cast<int>(second.elements());
        const bool squeezes = is_named(*made, "Squeeze");
        if (!squeezes && !is_named(*made, "Add") && !is_named(*made, "MatMul")) return -1;
        const int rank = rank_of(made->inputs[0], steps - 1);
        return squeezes && rank > 0 ? rank - static_cast<int>(second.elements()) : second.shape().rank() <= std::max(rank, 2) ? rank : -1;
    }
    void move_list(node& n, const char* name) {
        const attribute* list = n.find(name);
        if (!list) return;
        const value_id given = write_.integers(name, list->integers);
        drop(n, name);
        n.inputs.push_back(given);
    }
    static void drop(node& n, const char* name) {
        n.attributes.erase(std::remove_if(n.attributes.begin(), n.attributes.end(), [&](const attribute& a) { return a.name == name; }), n.attributes.end());
    }
    static status refused(const node& n) {
        return fail(errc::model_version, location(n),
                    "quantised weights need operator set 13, in which this operator means something else; raise the model by onnx.version_converter");
    }

    graph& g_;
    node_writer write_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
