// What lowering makes of a step across its two parts: the operators it leaves, and the reference's weights after a step.
#include "../difference.hpp"
#include "small_steps.hpp"

#include <graft/passes/differentiate.hpp>
#include <graft/passes/specialize.hpp>
#include <graft/lower/fuse.hpp>
#include <graft/cpu/lower/training_patterns.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

using graft::value_id;
using small_steps::numbered;
using small_steps::trained;

namespace {

// A constant list of integers, which has a number in its name.
value_id list(graft::builder& b, int number, std::vector<std::int64_t> v) {
    return b.constant("integers" + std::to_string(number), graft::tensor::from(v.data(), {static_cast<std::int64_t>(v.size())}));
}

// Pictures [3, 19, 19]; convolutions with an activation, max pooling, two branches that are joined, and a global maximum.
graft::graph two_branches(bool clipped, bool summed) {
    graft::builder b("net", 5);
    int made = 0;
    const auto activated = [&](value_id x, std::int64_t channels, std::int64_t kernel) {
        graft::conv2d_options o;
        o.kernel = kernel, o.padding = kernel / 2, o.name = "conv" + std::to_string(++made);
        x = b.conv2d(x, channels, o);
        return clipped ? b.clip(x, 0, 0.4f) : b.relu(x);
    };
    graft::pool_options pool;
    pool.kernel = 3, pool.stride = 2, pool.padding = 1;
    value_id x = b.max_pool(activated(b.input("input", graft::dtype::float32, {"N", 3, 19, 19}), 32, 3), pool);
    x = activated(x, 16, 1);
    x = b.concat({activated(x, 16, 1), activated(x, 32, 3)});
    x = b.apply("Flatten", {b.apply("GlobalMaxPool", {x})});
    x = b.apply("Gemm", {x, b.constant("fc.weight", numbered(72, {4, 48}, 0.2))}, {graft::integer_attribute("transB", 1)});
    if (summed) x = b.apply("ReduceSum", {x}, {graft::integer_attribute("keepdims", 0)});
    b.output(x, "y");
    graft::graph g = b.finish();
    graft::value& y = g.at(x);
    y.type = graft::dtype::float32;
    y.has_shape = true;
    y.extents = summed ? graft::shape{} : graft::shape{graft::shape::unknown, 4};
    return small_steps::loaded(std::move(g));
}

// Twelve tokens of 24 numbers; attention of three heads whose queries, keys and values are one product, with biases that learn, and a residual sum.
graft::graph attention() {
    graft::builder b("attention", 5);
    int lists = 0;
    const auto integers = [&](std::vector<std::int64_t> v) { return list(b, ++lists, std::move(v)); };
    const auto turned = [&](value_id x, std::vector<std::int64_t> perm) {
        return b.apply("Transpose", {x}, {graft::integers_attribute("perm", std::move(perm))});
    };
    const auto linear = [&](value_id x, const char* name, std::int64_t rows, std::int64_t columns) {
        const std::uint64_t k = static_cast<std::uint64_t>(columns);
        x = b.apply("MatMul", {x, b.constant(std::string(name) + ".weight", numbered(k, {rows, columns}, 0.3))});
        return b.apply("Add", {b.constant(std::string(name) + ".bias", numbered(k + 1, {columns}, 0.2)), x});
    };
    const value_id x = b.input("input", graft::dtype::float32, {"N", 12, 24});
    const value_id heads = turned(b.apply("Reshape", {linear(x, "qkv", 24, 72), integers({0, 12, 3, 3, 8})}), {2, 0, 3, 1, 4});
    std::vector<value_id> parts = b.apply_all("Split", {heads, integers({1, 1, 1})}, {graft::integer_attribute("axis", 0)}, 3);
    for (value_id& part : parts) part = b.apply("Squeeze", {part, integers({0})});
    const float by = 0.6f;
    const value_id factor = b.constant("factor", graft::tensor::from(&by, {}));
    value_id y = b.apply("MatMul", {b.apply("Mul", {parts[0], factor}), b.apply("Mul", {turned(parts[1], {0, 1, 3, 2}), factor})});
    y = b.apply("MatMul", {b.apply("Softmax", {y}, {graft::integer_attribute("axis", -1)}), parts[2]});
    y = b.apply("Reshape", {turned(y, {0, 2, 1, 3}), integers({0, 12, 24})});
    y = b.apply("MatMul", {y, turned(b.constant("out.weight", numbered(24, {24, 24}, 0.3)), {1, 0})});
    y = b.apply("Add", {b.apply("Add", {y, b.constant("out.bias", numbered(25, {24}, 0.2))}), x});
    y = b.apply("Gemm", {b.apply("Flatten", {y}), b.constant("fc.weight", numbered(72, {4, 288}, 0.2))}, {graft::integer_attribute("transB", 1)});
    return small_steps::finished(b, y, 4);
}

// Normalisations with a bound behind them, and one to which something is added before that.
graft::graph normalised() {
    graft::builder b("normalised", 5);
    int made = 0;
    const auto layer = [&](value_id x, std::int64_t inputs) {
        const std::string name = "layer" + std::to_string(++made);
        const auto vector = [&](const char* what, double scale, double shift) {
            return b.constant(name + what, numbered(static_cast<std::uint64_t>(10 * made), {20}, scale, shift));
        };
        x = b.apply("Conv", {x, b.constant(name + ".weight", numbered(static_cast<std::uint64_t>(10 * made + 1), {20, inputs, 3, 3}, 0.2))},
                    {graft::integers_attribute("kernel_shape", {3, 3}), graft::integers_attribute("pads", {1, 1, 1, 1})});
        return b.apply("BatchNormalization", {x, vector(".scale", 0.3, 1), vector(".bias", 0.4, 0.1), vector(".mean", 0, 0), vector(".variance", 0, 1)});
    };
    const value_id x = b.relu(layer(b.input("input", graft::dtype::float32, {"N", 3, 9, 9}), 3));
    value_id y = b.clip(layer(x, 20), 0, 0.8f);
    y = b.relu(b.apply("Add", {layer(y, 20), x}));
    y = b.apply("Flatten", {b.apply("GlobalAveragePool", {y})});
    y = b.apply("Gemm", {y, b.constant("fc.weight", numbered(72, {4, 20}, 0.5))}, {graft::integer_attribute("transB", 1)});
    return small_steps::finished(b, y, 4);
}

// A branch that is scaled by a number for each channel, which learns, and added to what it was made of: [32, 1, 1], or [1, 32, 1, 1].
graft::graph scaled(bool four_axes) {
    graft::builder b("scaled", 5);
    const auto layer = [&](value_id x, const char* name, std::int64_t inputs) {
        return b.apply("Conv", {x, b.constant(name, numbered(static_cast<std::uint64_t>(inputs), {32, inputs, 3, 3}, 0.2))},
                       {graft::integers_attribute("kernel_shape", {3, 3}), graft::integers_attribute("pads", {1, 1, 1, 1})});
    };
    const value_id x = layer(b.input("input", graft::dtype::float32, {"N", 3, 9, 9}), "first.weight", 3);
    const value_id scale = b.constant("scale", numbered(50, four_axes ? graft::shape{1, 32, 1, 1} : graft::shape{32, 1, 1}, 0.5));
    value_id y = b.apply("Add", {b.apply("Mul", {scale, layer(x, "second.weight", 32)}), x});
    y = b.apply("Flatten", {b.apply("GlobalAveragePool", {y})});
    y = b.apply("Gemm", {y, b.constant("fc.weight", numbered(72, {4, 32}, 0.5))}, {graft::integer_attribute("transB", 1)});
    return small_steps::finished(b, y, 4);
}

// Two units whose channels are shuffled between: half of 20 channels is convolved and joined to the others.
graft::graph shuffled() {
    graft::builder b("shuffled", 5);
    int lists = 0;
    const auto integers = [&](std::vector<std::int64_t> v) { return list(b, ++lists, std::move(v)); };
    const auto layer = [&](value_id x, std::int64_t inputs, std::int64_t outputs) {
        const std::string name = "layer" + std::to_string(++lists) + ".weight";
        return b.relu(b.apply("Conv", {x, b.constant(name, numbered(static_cast<std::uint64_t>(lists), {outputs, inputs, 3, 3}, 0.3))},
                              {graft::integers_attribute("kernel_shape", {3, 3}), graft::integers_attribute("pads", {1, 1, 1, 1})}));
    };
    value_id x = layer(b.input("input", graft::dtype::float32, {"N", 3, 9, 9}), 3, 20);
    for (int unit = 0; unit < 2; ++unit) {
        const auto part = [&](std::int64_t from, std::int64_t to) { return b.apply("Slice", {x, integers({from}), integers({to}), integers({1})}); };
        const value_id left = part(0, 10), right = layer(part(10, 20), 10, 10);
        x = b.apply("Concat", {left, right}, {graft::integer_attribute("axis", 1)});
        x = b.apply("Reshape", {x, integers({0, 2, 10, 9, 9})});
        x = b.apply("Reshape", {b.apply("Transpose", {x}, {graft::integers_attribute("perm", {0, 2, 1, 3, 4})}), integers({0, 20, 9, 9})});
    }
    x = b.apply("Flatten", {b.apply("GlobalAveragePool", {x})});
    x = b.apply("Gemm", {x, b.constant("fc.weight", numbered(72, {4, 20}, 0.5))}, {graft::integer_attribute("transB", 1)});
    return small_steps::finished(b, x, 4);
}

std::ptrdiff_t count(const graft::graph& g, const char* op) {
    return std::count_if(g.nodes.begin(), g.nodes.end(), [&](const graft::node& n) { return n.op_type == op; });
}

// What a step made: weights, every byte, and what its trace tells of each node that ran.
struct made_step {
    std::vector<graft::training_state> state;
    std::string bits;
    std::vector<std::shared_ptr<const graft::trace_task>> tasks;

    // Of the nodes of an operator those among whose shapes that is.
    std::ptrdiff_t count(const std::string& op, const std::string& shape = "") const {
        return std::count_if(tasks.begin(), tasks.end(), [&](const auto& t) { return t->op == op && t->shapes.find(shape) != std::string::npos; });
    }
};
made_step step_of(const graft::graph& g, bool reference, bool recompute, int threads) {
    graft::step_options o;
    o.optimizer.kind = graft::optimizer_kind::sgd;
    o.optimizer.momentum = 0;
    o.optimizer.weight_decay = 0;
    o.reference = reference;
    o.recompute = recompute;
    o.trace = std::make_shared<graft::trace_recorder>();
    trained t(g, o);
    o.trace->start();
    REQUIRE_MESSAGE(t.run(0, 6, threads, 0.5), t.error());
    made_step made{t.step.state(), t.bits(), {}};
    for (const graft::trace_span& s : o.trace->spans()) made.tasks.push_back(s.task);
    return made;
}
// The step by the CPU's kernels, which is the same on any number of threads and where parts are computed again, and near that of reference kernels.
made_step like_the_reference(const graft::graph& g, double tolerance) {
    const made_step fast = step_of(g, false, false, 1), slow = step_of(g, true, false, 1);
    CHECK(fast.bits == step_of(g, false, false, 3).bits);
    CHECK(fast.bits == step_of(g, false, true, 2).bits);
    for (std::size_t i = 0; i < fast.state.size(); ++i) {
        const graft::tensor &a = fast.state[i].value, &b = slow.state[i].value;
        const std::string name = fast.state[i].name;
        INFO(name);
        double worst = 0, largest = 0;
        for (std::int64_t k = 0; k < a.elements(); ++k) {
            worst = larger_error(worst, std::fabs(static_cast<double>(a.data<float>()[k]) - static_cast<double>(b.data<float>()[k])));
            largest = std::max(largest, std::fabs(static_cast<double>(b.data<float>()[k])));
        }
        CHECK(worst <= tolerance * largest);
    }
    return fast;
}

}  // namespace

TEST_CASE("masks pass pooling and joins, and pooling keeps places instead of pictures") {
    for (bool clipped : {false, true}) {
        graft::executor alone;
        graft::graph g = graft::specialize_first_input(two_branches(clipped, true), {2, 3, 19, 19}, alone, {}).value();
        std::vector<value_id> weights;
        for (const graft::parameter& p : graft::parameters_of(g)) weights.push_back(p.id);
        const value_id loss = g.outputs[0];
        g.outputs = graft::differentiate(g, loss, weights, 8, {}).value();
        const char* mask = clipped ? "ClipGrad" : "ReluGrad";
        CHECK(count(g, mask) == 4);
        CHECK(count(g, "MaxPoolGrad") == 2);
        const graft::limits caps;
        const graft::lowering with{caps, alone, nullptr, false};
        graft::must(graft::detail::fuser(g, with).run());
        graft::detail::training_fuser(g, 0).run();
        CHECK(count(g, mask) == 3);
        CHECK(count(g, "MaxPoolGrad") == 0);
        CHECK(count(g, "MaxPoolGradPlaces") == 2);
        CHECK(count(g, "MaxPool") == 0);
        // The global maximum stays, and its places are found before its gradient.
        CHECK(count(g, "MaxPoolPlaces") == 2);
        CHECK(count(g, "GlobalMaxPool") == 1);
        std::vector<char> made(g.values.size(), 0);
        for (const graft::node& n : g.nodes) {
            for (value_id id : n.inputs)
                if (id != graft::no_value && !g.at(id).constant && id != g.inputs[0]) CHECK(made[id]);
            for (value_id id : n.outputs)
                if (id != graft::no_value) made[id] = 1;
        }
    }
}

TEST_CASE("a step with masks across pooling and joins gives the reference's weights") {
    for (bool clipped : {false, true}) like_the_reference(two_branches(clipped, false), 2e-6);
}

TEST_CASE("a step through attention multiplies matrices where they lie, and adds biases that learn where it stores them") {
    const made_step step = like_the_reference(attention(), 2e-6);
    CHECK(step.count("StridedMatMul") == 0);
    CHECK(step.count("Softmax") + step.count("SoftmaxGrad") == 0);
    CHECK(step.count("AttentionTraining") == 1);
    // The gradients of the three are written side by side, and that of the weights that are kept turned as these lie.
    CHECK(step.count("AttentionGrad") == 1);
    CHECK(step.count("Concat") == 0);
    CHECK(step.count("Transpose") == 0);
    CHECK(step.count("Add") == 0);
}

TEST_CASE("a step through normalisations makes masks of what was normalised, where nothing was added to it") {
    const made_step step = like_the_reference(normalised(), 5e-6);
    CHECK(step.count("BatchNormalizationGrad") == 3);
    CHECK(step.count("BatchNormalizationGrad", "float32[2,20]") == 2);
    CHECK(step.count("BatchNormalizationTraining", "float32[2,20]") == 2);
}

TEST_CASE("a step through numbers that scale each channel leaves images where they lie") {
    for (bool four_axes : {false, true}) {
        const made_step step = like_the_reference(scaled(four_axes), 2e-6);
        CHECK(step.count("Mul", "float32[6,32,9,9]") == 3);
        CHECK(step.count("Reorder", "float32[6,32,9,9]") == 0);
    }
}

TEST_CASE("a step through shuffled channels brings them together at once, both ways") {
    const made_step step = like_the_reference(shuffled(), 2e-6);
    CHECK(step.count("GatherChannels") > 0);
    for (const char* gone : {"Transpose", "Concat", "SliceGrad"}) CHECK(step.count(gone) == 0);
}
