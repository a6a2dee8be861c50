// What the backward part of a step in bfloat16 reads of the forward part: kept in half of the memory, for layers of every kind, with gradients near float32's.
#include "../cpu_in_bfloat16.hpp"
#include "../skipped.hpp"
#include "small_steps.hpp"

#include <cmath>

namespace {

// Networks of operators by name, whose shapes the builder need not know.
class layers : public graft::builder {
public:
    layers() : builder("kinds", 9) {}
    graft::value_id weight(const std::string& name, const graft::shape& extents, double scale = 0.15, double shift = 0) {
        return constant(name, small_steps::numbered(++numbers_, extents, scale, shift));
    }
    graft::value_id conv(graft::value_id x, const std::string& name, std::int64_t inputs, std::int64_t channels, std::int64_t kernel, std::int64_t groups = 1) {
        const std::int64_t pad = kernel / 2;
        return apply("Conv", {x, weight(name + ".weight", {channels, inputs / groups, kernel, kernel})},
                     {graft::integers_attribute("kernel_shape", {kernel, kernel}), graft::integers_attribute("pads", {pad, pad, pad, pad}),
                      graft::integer_attribute("group", groups)});
    }
    graft::value_id batch_norm(graft::value_id x, const std::string& name, std::int64_t channels) {
        return apply("BatchNormalization", {x, weight(name + ".scale", {channels}, 0.2, 1), weight(name + ".bias", {channels}),
                                            weight(name + ".mean", {channels}, 0), weight(name + ".variance", {channels}, 0, 1)});
    }
    graft::value_id layer_norm(graft::value_id x, const std::string& name, std::int64_t channels) {
        return apply("LayerNormalization", {x, weight(name + ".scale", {channels}, 0.2, 1), weight(name + ".bias", {channels})});
    }
    graft::value_id times(graft::value_id x, const std::string& name, std::int64_t rows, std::int64_t columns) {
        return apply("MatMul", {x, weight(name + ".weight", {rows, columns})});
    }

private:
    std::uint64_t numbers_ = 30;
};

// Images: activations by their input and by their result, pooling, depthwise and joined layers, a residual sum, squeeze and excitation. Then tokens:
// normalisation by rows, attention of a split product, GELU, dropout.
graft::graph all_kinds() {
    layers b;
    graft::value_id x = b.batch_norm(b.conv(b.input("input", graft::dtype::float32, {"N", 3, 24, 24}), "stem", 3, 24, 3), "norm1", 24);
    x = b.apply("Mul", {x, b.apply("Sigmoid", {x})});
    x = b.apply("MaxPool", {x}, {graft::integers_attribute("kernel_shape", {2, 2}), graft::integers_attribute("strides", {2, 2})});
    graft::value_id y = b.batch_norm(b.conv(x, "depthwise", 24, 24, 3, 24), "norm2", 24);
    y = b.apply("Clip", {y, b.weight("low", {}, 0), b.weight("high", {}, 0, 6)});
    y = b.apply("Add", {b.batch_norm(b.conv(y, "narrow", 24, 24, 1), "norm3", 24), x});
    y = b.apply("Mul", {y, b.apply("Sigmoid", {b.conv(b.apply("GlobalAveragePool", {y}), "gate", 24, 24, 1)})});
    y = b.apply("Concat", {b.apply("Relu", {b.conv(y, "left", 24, 16, 1)}), b.apply("Relu", {b.conv(y, "right", 24, 32, 3)})},
                {graft::integer_attribute("axis", 1)});
    const std::int64_t tokens[] = {0, 48, 144};
    x = b.apply("Reshape", {y, b.constant("tokens", graft::tensor::from(tokens, {3}))});
    x = b.apply("Transpose", {x}, {graft::integers_attribute("perm", {0, 2, 1})});
    y = b.times(b.layer_norm(x, "norm4", 48), "mix", 48, 144);
    const std::vector<graft::value_id> parts = b.apply_all("Split", {y}, {graft::integer_attribute("axis", 2), graft::integer_attribute("num_outputs", 3)}, 3);
    const graft::value_id turned = b.apply("Transpose", {parts[1]}, {graft::integers_attribute("perm", {0, 2, 1})});
    const graft::value_id share = b.apply("Softmax", {b.apply("MatMul", {parts[0], turned})}, {graft::integer_attribute("axis", -1)});
    y = b.apply("Dropout", {b.apply("MatMul", {share, parts[2]}), b.weight("ratio", {}, 0, 0.25)});
    x = b.apply("Add", {b.times(y, "back", 48, 48), x});
    y = b.apply("Gelu", {b.times(b.layer_norm(x, "norm5", 48), "wide", 48, 192)});
    x = b.apply("Add", {b.times(y, "thin", 192, 48), x});
    const std::int64_t axes[] = {1};
    x = b.apply("ReduceMean", {x, b.constant("axes", graft::tensor::from(axes, {1}))}, {graft::integer_attribute("keepdims", 0)});
    x = b.apply("Gemm", {x, b.weight("fc.weight", {48, 10}), b.weight("fc.bias", {10})});
    return small_steps::finished(b, x, 10, 21);
}

graft::step_options plain_steps() {
    graft::step_options o;
    o.optimizer.kind = graft::optimizer_kind::sgd;
    o.optimizer.momentum = 0;
    o.optimizer.weight_decay = 0;
    return o;
}

// What one step has changed each weight by.
std::vector<std::vector<float>> changes(const graft::graph& g, const graft::step_options& o, int threads = 1) {
    small_steps::trained t(g, o);
    std::vector<std::vector<float>> by;
    const std::size_t weights = graft::parameters_of(g).size();
    const auto each = [&](const auto& f) {
        for (std::size_t i = 0; i < weights; ++i)
            for (std::int64_t k = 0; k < t.step.state()[i].value.elements(); ++k) f(i, t.step.state()[i].value.data<float>()[k]);
    };
    by.resize(weights);
    each([&](std::size_t i, float v) { by[i].push_back(-v); });
    INFO(t.error());
    REQUIRE(t.run(0, 8, threads));
    std::vector<std::size_t> at(weights, 0);
    each([&](std::size_t i, float v) { by[i][at[i]++] += v; });
    return by;
}

double length(const std::vector<float>& a) {
    double sum = 0;
    for (float v : a) sum += double(v) * double(v);
    return std::sqrt(sum);
}

std::int64_t activations(const graft::graph& g, const graft::step_options& o, std::int64_t batch) {
    small_steps::trained t(g, o);
    graft::pool_executor pool(1);
    auto memory = t.step.prepare(t.batch_shape(batch), pool);
    REQUIRE(memory.ok());
    return memory->activations;
}

}  // namespace

TEST_CASE("bfloat16: the gradient of every weight goes where float32's does, through layers of every kind") {
    for (const char* by : {"amx", "avx512_bf16"}) {
        INFO(by);
        const emulated_products with(by);
        if (!multiplies_bfloat16()) return say_skipped("neither this machine nor this build multiplies bfloat16");
        const graft::graph g = all_kinds();
        graft::step_options o = plain_steps();
        const auto wide = changes(g, o);
        o.on = cpu_in_bfloat16();
        const auto narrow = changes(g, o);
        CHECK(changes(g, o, 3) == narrow);
        const std::vector<graft::parameter> names = graft::parameters_of(g);
        for (std::size_t i = 0; i < wide.size(); ++i) {
            INFO(names[i].name);
            std::vector<float> apart(wide[i].size());
            for (std::size_t k = 0; k < apart.size(); ++k) apart[k] = narrow[i][k] - wide[i][k];
            CHECK(length(wide[i]) > 0);
            CHECK(length(apart) < 0.15 * length(wide[i]));  // as far as rounded operands alone take it, which let other numbers through a relu
        }
        o.recompute = true;
        small_steps::trained again(g, o);
        CHECK(again.run(0, 8));
    }
}

TEST_CASE("bfloat16: what a product makes for a function, and what that makes for the next, is half as many bytes both ways") {
    for (const char* by : {"amx", "avx512_bf16"}) {
        INFO(by);
        const emulated_products with(by);
        if (!multiplies_bfloat16()) return say_skipped("neither this machine nor this build multiplies bfloat16");
        graft::step_options o = plain_steps();
        o.on = cpu_in_bfloat16();
        o.trace = std::make_shared<graft::trace_recorder>();
        const graft::graph g = all_kinds();
        small_steps::trained t(g, o);
        o.trace->start();
        REQUIRE_MESSAGE(t.run(0, 8), t.error());
        int narrow = 0, again = 0;
        for (const graft::trace_span& s : o.trace->spans()) {
            INFO(s.task->op << " " << s.task->shapes);
            // The 192 columns between the products "wide" and "thin".
            for (const char* wide : {"float32[8,144,192]", "float32[1152,192]"}) CHECK(s.task->shapes.find(wide) == std::string::npos);
            narrow += s.task->op == "MatMul" && s.task->shapes.find("-> bfloat16[") != std::string::npos;
            again += s.task->op == "ActivationGradAgain";
        }
        CHECK(narrow == 2);
        CHECK(again == 1);
    }
}

TEST_CASE("bfloat16: what a step keeps takes about half of float32's memory") {
    const emulated_products with("avx512_bf16");
    if (!multiplies_bfloat16()) return say_skipped("neither this machine nor this build multiplies bfloat16");
    const struct {
        graft::graph g;
        double most;
    } nets[] = {{small_steps::architecture("mobilenet_v2", 96), 0.6}, {small_steps::architecture("resnet20", 32), 0.6}, {all_kinds(), 0.7}};
    for (const auto& net : nets) {
        const graft::graph& g = net.g;
        INFO(g.name);
        graft::step_options o = plain_steps();
        const std::int64_t wide = activations(g, o, 32);
        o.on = cpu_in_bfloat16();
        const std::int64_t narrow = activations(g, o, 32);
        CHECK(narrow < net.most * double(wide));
        o.recompute = true;
        CHECK(activations(g, o, 32) <= narrow);
    }
}
