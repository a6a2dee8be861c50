// The kernels that the planner gives training's operators: their test problems against the reference kernels, in rows and in blocks.
#include "../../ops/problems.hpp"
#include "support.hpp"

#include <graft/cpu/ops/training/ops.hpp>
#include <graft/ops/gradients.hpp>
#include <graft/passes/run_reference.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

using namespace graft;
using training_test::sets;

namespace {

// A tensor as a kernel sees it: its own layout, its own memory.
struct operand {
    tensor_view view;
    layout lies;
    tensor held;
};

operand laid(const tensor& t, layout lies) {
    operand o;
    o.held = t, o.view = view(t), o.lies = lies;
    if (lies == layout::row_major || !t) return o;
    const shape& s = t.shape();
    const std::vector<float> x(t.data<float>(), t.data<float>() + t.elements());
    const std::vector<float> b = training_test::to_blocks(x, s[0], s[1], s[2] * s[3], lies.channels);
    o.held = tensor::from(b.data(), {static_cast<std::int64_t>(b.size())});
    o.view.data = o.held.raw();
    return o;
}

// Which inputs and outputs are images, that may lie in blocks.
struct images {
    const char* op;
    unsigned in, out;
};
constexpr images image_operands[] = {
    {"ReluGrad", 3, 1},        {"ClipGrad", 3, 1}, {"ActivationGrad", 3, 1}, {"BatchNormalizationTraining", 0x21, 1}, {"BatchNormalizationGrad", 0x23, 9},
    {"AveragePoolGrad", 1, 1}, {"SumTo", 1, 0}};

struct outcome {
    std::string refusal;
    std::vector<tensor> outputs;
};

// Runs the kernel that takes the node. `made` are the reference's outputs, which have the types and shapes.
outcome run(cpu::isa set, const node& n, const std::vector<tensor>& inputs, const std::vector<tensor>& made, bool blocks, executor& pool) {
    unsigned in_mask = 0, out_mask = 0;
    for (const images& i : image_operands)
        if (blocks && n.op_type == i.op) in_mask = i.in, out_mask = i.out;
    const layout blocks_of_w{layout::blocked, cpu::vector_width(set)};
    std::vector<operand> in, out;
    for (std::size_t i = 0; i < inputs.size(); ++i) in.push_back(laid(inputs[i], in_mask >> i & 1 ? blocks_of_w : layout()));
    for (std::size_t i = 0; i < made.size(); ++i) {
        tensor t = made[i] ? tensor::zeros(made[i].type(), made[i].shape()).value() : tensor();
        out.push_back(laid(t, made[i] && (out_mask >> i & 1) ? blocks_of_w : layout()));
    }
    std::vector<tensor_view> in_views, out_views;
    std::vector<layout> in_layouts, out_layouts;
    for (const operand& o : in) in_views.push_back(o.view), in_layouts.push_back(o.lies);
    for (const operand& o : out) out_views.push_back(o.view), out_layouts.push_back(o.lies);
    const limits limit;
    const int ins = static_cast<int>(in.size()), outs = static_cast<int>(out.size());
    const cpu::kernel_query q{{n, in_views.data(), ins, out_views.data(), outs, limit}, in_layouts.data(), out_layouts.data(), set, false};
    cpu::kernel_choice choice;
    const char* refusal = "";
    const cpu::kernel_row* row = cpu::choose_training_kernel(q, choice, refusal);
    if (!row) return {refusal, {}};
    buffer space = buffer::allocate(static_cast<std::size_t>(choice.workspace_bytes) + 64).value();
    std::memset(space.data(), 0xff, space.bytes());
    row->run({in_views.data(), ins, out_views.data(), outs, choice, space.data(), pool, set});
    outcome answer;
    for (std::size_t i = 0; i < out.size(); ++i) {
        if (out[i].lies == layout::row_major) {
            answer.outputs.push_back(out[i].held);
            continue;
        }
        const shape& s = made[i].shape();
        const std::vector<float> x(out[i].held.data<float>(), out[i].held.data<float>() + out[i].held.elements());
        const std::vector<float> planes = training_test::to_planes(x, s[0], s[1], s[2] * s[3], blocks_of_w.channels);
        answer.outputs.push_back(tensor::from(planes.data(), s));
    }
    return answer;
}

double error_over_range(const tensor& got, const tensor& want) {
    double worst = 0, largest = 1;
    for (std::int64_t i = 0; i < want.elements(); ++i) {
        const double w = element_as_double(want.type(), want.raw(), i), g = element_as_double(got.type(), got.raw(), i);
        if (!(std::fabs(g - w) <= 1e30)) return HUGE_VAL;
        largest = std::max(largest, std::fabs(w)), worst = std::max(worst, std::fabs(g - w));
    }
    return worst / largest;
}

}  // namespace

TEST_CASE("the kernels of training's operators give the reference's answers, in rows and in blocks") {
    const std::set<std::string> here = {"BatchNormalizationTraining",
                                        "BatchNormalizationGrad",
                                        "ReluGrad",
                                        "ClipGrad",
                                        "ActivationGrad",
                                        "AveragePoolGrad",
                                        "SumTo",
                                        "SGD",
                                        "Adam",
                                        "ExponentialMovingAverage",
                                        "GlobalNorm",
                                        "MatMulGradWeight",
                                        "ScaleByNorm",
                                        "SoftmaxGrad",
                                        "LayerNormalizationGrad",
                                        "LayerNormalizationGradScale"};
    std::set<std::string> taken, taken_in_blocks;
    executor alone;
    const ops::table_list all = ops::all_training_op_tables();
    for (const auto& table : all)
        for (const auto& row : table) {
            if (!here.count(row.name)) continue;
            for (const std::string& text : problems::split(row.problems, ';')) {
                INFO(std::string(row.name), ": ", text);
                const problems::problem p = problems::read(row, text);
                REQUIRE(p.error.empty());
                node n = p.g.nodes[0];
                n.op = &row;
                std::vector<tensor> inputs;
                std::size_t next = 0;
                for (value_id id : n.inputs) {
                    const bool constant = id != no_value && p.g.at(id).constant;
                    inputs.push_back(id == no_value ? tensor() : constant ? p.g.at(id).constant : p.inputs[next++]);
                }
                // What has two outputs or three, but not without state to follow from.
                while (static_cast<int>(n.outputs.size()) < row.max_outputs) n.outputs.push_back(static_cast<value_id>(1000 + n.outputs.size()));
                if (n.op_type == "SGD" && !inputs[2]) n.outputs[1] = no_value;
                std::vector<tensor_view> views;
                for (const tensor& x : inputs) views.push_back(x ? view(x) : tensor_view{});
                std::vector<tensor> made;
                const limits limit;
                const status s = run_reference(n, views.data(), static_cast<int>(views.size()), made, {limit, alone, nullptr, 0});
                const std::string error = s.ok() ? "" : s.error().what();
                REQUIRE_MESSAGE(s.ok(), error);
                if (n.op_type == "SGD" && !inputs[2]) made[1] = tensor();
                bool image = !inputs.empty();
                for (const tensor& x : inputs) image = image && (!x || x.shape().rank() == 4 || x.shape().rank() == 1);
                image = image && inputs[0] && inputs[0].shape().rank() == 4 && inputs[0].elements() && inputs[0].type() == dtype::float32;
                for (cpu::isa set : sets())
                    for (bool blocks : {false, true}) {
                        if (blocks && !image) continue;
                        const outcome a = run(set, n, inputs, made, blocks, alone);
                        if (!a.refusal.empty()) continue;
                        (blocks ? taken_in_blocks : taken).insert(row.name);
                        INFO(std::string(cpu::name(set)), blocks ? ", blocks" : ", rows");
                        for (std::size_t i = 0; i < made.size(); ++i)
                            if (made[i]) CHECK(error_over_range(a.outputs[i], made[i]) < 3e-6);
                    }
            }
        }
    for (const std::string& name : here) {
        INFO(name);
        CHECK(taken.count(name) == 1);
    }
    for (const char* name : {"BatchNormalizationTraining", "BatchNormalizationGrad", "AveragePoolGrad"}) {
        INFO(std::string(name));
        CHECK(taken_in_blocks.count(name) == 1);
    }
}

TEST_CASE("a loss that is not finite leaves weights and state as they were, in place and elsewhere") {
    executor alone;
    const auto numbers = [](std::uint32_t seed) {
        const std::vector<float> x = training_test::numbers(100, seed, 0.1f, 1);
        return tensor::from(x.data(), {100}).value();
    };
    const auto scalar = [](float v) { return tensor::from(&v, shape{}).value(); };
    const std::int64_t one = 1;
    struct update {
        const char* op;
        std::vector<tensor> inputs;
        std::vector<int> follows;  // which input each output follows
    };
    for (float loss : {std::nanf(""), HUGE_VALF, -HUGE_VALF, 1.0f}) {
        const update all[] = {
            {"SGD", {numbers(1), numbers(2), numbers(3), scalar(0.1f), scalar(loss)}, {0, 2}},
            {"Adam", {numbers(1), numbers(2), numbers(3), numbers(4), scalar(0.1f), tensor::from(&one, shape{}).value(), scalar(loss)}, {0, 2, 3}},
            {"ExponentialMovingAverage", {numbers(1), numbers(2), scalar(loss)}, {0}}};
        for (const update& u : all)
            for (cpu::isa set : sets()) {
                INFO(std::string(u.op), ", loss ", loss, " on ", std::string(cpu::name(set)));
                node n;
                n.op_type = u.op, n.domain = "graft", n.version = 1;
                attribute momentum;
                momentum.name = "momentum", momentum.kind = attribute_kind::real, momentum.real = 0.9f;
                if (n.op_type == "SGD") n.attributes.push_back(momentum);
                std::vector<tensor> made;
                for (std::size_t i = 0; i < u.inputs.size(); ++i) n.inputs.push_back(static_cast<value_id>(i));
                for (int from : u.follows) {
                    n.outputs.push_back(static_cast<value_id>(100 + from));
                    made.push_back(u.inputs[from]);
                }
                const outcome a = run(set, n, u.inputs, made, false, alone);
                CHECK(a.refusal == "");
                for (std::size_t i = 0; i < a.outputs.size(); ++i) {
                    const bool kept = std::memcmp(a.outputs[i].raw(), made[i].raw(), 400) == 0;
                    CHECK(kept == !std::isfinite(loss));
                }
            }
    }
}
