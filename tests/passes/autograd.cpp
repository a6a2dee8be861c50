// Gradients of whole networks against PyTorch's autograd, recorded by scripts/record_gradients.py.
#include "golden_gradients.hpp"
#include "small_net.hpp"

#include <cmath>

namespace {

using graft::integer_attribute;
using graft::integers_attribute;
using graft::real_attribute;
using graft::string_attribute;
using graft::tensor;
using graft::value_id;

// Element i of tensor k, as the script has it: in [-1, 1).
double hashed(std::uint64_t k, std::uint64_t i) {
    std::uint64_t h = (i * 2654435761u + k * 40503u + 12345u) & 0xffffffffu;
    h = ((h ^ h >> 15) * 2246822519u) & 0xffffffffu;
    h = ((h ^ h >> 13) * 3266489917u) & 0xffffffffu;
    h ^= h >> 16;
    return static_cast<double>(h) / 4294967296.0 * 2 - 1;
}
tensor numbered(std::uint64_t k, const graft::shape& extents, double scale, double shift = 0) {
    tensor t = graft::tensor::make(graft::dtype::float64, extents);
    for (std::int64_t i = 0; i < t.elements(); ++i) t.data<double>()[i] = hashed(k, static_cast<std::uint64_t>(i)) * scale + shift;
    return t;
}

// A network whose inputs and weights are numbered in the order of their making.
class numbered_net : public small_net::net {
public:
    std::vector<value_id> ids;
    std::vector<tensor> tensors;

    value_id made(const graft::shape& extents, double scale = 1) {
        tensors.push_back(numbered(tensors.size(), extents, scale));
        ids.push_back(input(extents));
        return ids.back();
    }
    value_id conv(value_id x, const graft::shape& weight, double scale, bool bias, std::int64_t stride = 1, std::int64_t padding = 0, std::int64_t groups = 1) {
        std::vector<value_id> in{x, made(weight, scale)};
        if (bias) in.push_back(made({weight[0]}));
        return apply("Conv", in,
                     {integers_attribute("strides", {stride, stride}), integers_attribute("pads", {padding, padding, padding, padding}),
                      integer_attribute("group", groups), integers_attribute("kernel_shape", {weight[2], weight[3]})});
    }
    value_id linear(value_id x, std::int64_t inputs, std::int64_t outputs, double scale) {
        const value_id product = apply("MatMul", {x, made({inputs, outputs}, scale)});
        return apply("Add", {product, made({outputs}, scale / 2)});
    }
    value_id classifier(value_id x, std::int64_t inputs, std::int64_t classes) {
        const value_id w = made({classes, inputs});
        return apply("Gemm", {x, w, made({classes})}, {integer_attribute("transB", 1)});
    }
    value_id reshape(value_id x, const std::vector<std::int64_t>& to) { return apply("Reshape", {x, integers(to)}); }
    value_id transpose(value_id x, std::vector<std::int64_t> perm) { return apply("Transpose", {x}, {integers_attribute("perm", std::move(perm))}); }

    void compare(const golden_gradient* golden, std::size_t count) {
        REQUIRE(count == tensors.size() + 1);
        auto gradients = differentiate(ids);
        REQUIRE_MESSAGE(gradients.ok(), std::string(gradients.ok() ? "" : gradients.error().what()));
        const std::vector<tensor> values = run(tensors);
        CHECK(contents(values, g.outputs[0])[0] == doctest::Approx(golden[0].dot).epsilon(1e-12));
        for (std::size_t k = 0; k < tensors.size(); ++k) {
            INFO("tensor ", k);
            REQUIRE(gradients.value()[k] != graft::no_value);
            const std::vector<double> got = contents(values, gradients.value()[k]);
            double dot = 0, largest = 0;
            for (std::size_t i = 0; i < got.size(); ++i) {
                dot += got[i] * hashed(100 + k, i);
                largest = std::max(largest, std::fabs(got[i]));
            }
            CHECK(std::fabs(dot - golden[k + 1].dot) <= 1e-11 * largest * static_cast<double>(got.size()));
            for (std::size_t j = 0; j < 5; ++j) CHECK(std::fabs(got[j * got.size() / 5] - golden[k + 1].some[j]) <= 1e-10 * largest);
        }
    }
};

}  // namespace

TEST_CASE("a convolutional network with group normalisation has autograd's gradients") {
    numbered_net n;
    value_id x = n.made({3, 3, 10, 12});
    x = n.conv(x, {8, 3, 3, 3}, 0.4, true, 1, 1);
    // As exporters write GroupNorm before opset 18.
    x = n.reshape(x, {0, 4, -1});
    x = n.apply("InstanceNormalization", {x, n.constant(small_net::filled({4}, {1})), n.constant(small_net::filled({4}, {0}))});
    x = n.reshape(x, {3, 8, 10, 12});
    x = n.apply("Mul", {x, n.reshape(n.made({8}), {8, 1, 1})});
    x = n.apply("Relu", {n.apply("Add", {x, n.reshape(n.made({8}), {8, 1, 1})})});
    x = n.conv(x, {8, 4, 3, 3}, 0.4, false, 2, 1, 2);
    x = n.apply("Mul", {x, n.apply("Sigmoid", {x})});
    x = n.apply("MaxPool", {x}, {integers_attribute("kernel_shape", {2, 2}), integers_attribute("strides", {2, 2})});
    x = n.conv(x, {6, 8, 1, 1}, 1, true);
    x = n.classifier(n.apply("Flatten", {n.apply("GlobalAveragePool", {x})}), 6, 5);
    n.finish(n.apply("SoftmaxCrossEntropyLoss", {x, n.integers({1, 4, 0})}));
    n.compare(golden_convolutions, sizeof golden_convolutions / sizeof golden_convolutions[0]);
}

TEST_CASE("a transformer block with relative positions has autograd's gradients") {
    numbered_net n;
    value_id x = n.made({2, 6, 8});
    value_id scale = n.made({8}), shift = n.made({8});
    value_id h = n.linear(n.apply("LayerNormalization", {x, scale, shift}, {integer_attribute("axis", -1)}), 8, 24, 0.6);
    const std::vector<value_id> qkv = n.apply_all("Split", {h, n.integers({8, 8, 8})}, {integer_attribute("axis", 2)}, 3);
    std::vector<value_id> heads;
    for (value_id part : qkv) heads.push_back(n.transpose(n.reshape(part, {2, 6, 2, 4}), {0, 2, 1, 3}));
    std::vector<std::int64_t> places;
    for (std::int64_t i = 0; i < 36; ++i) places.push_back(i / 6 - i % 6 + 5);
    value_id bias = n.reshape(n.apply("Gather", {n.made({11, 2}), n.integers(places)}), {6, 6, 2});
    bias = n.apply("Unsqueeze", {n.transpose(bias, {2, 0, 1}), n.integers({0})});
    h = n.apply("Mul", {n.apply("MatMul", {heads[0], n.transpose(heads[1], {0, 1, 3, 2})}), n.number(0.5)});
    h = n.apply("MatMul", {n.apply("Softmax", {n.apply("Add", {h, bias})}, {integer_attribute("axis", -1)}), heads[2]});
    x = n.apply("Add", {x, n.linear(n.reshape(n.transpose(h, {0, 2, 1, 3}), {2, 6, 8}), 8, 8, 0.6)});
    // LayerNorm and GELU as exporters of old opsets write them.
    scale = n.made({8}), shift = n.made({8});
    const auto mean = [&](value_id v) { return n.apply("ReduceMean", {v}, {integers_attribute("axes", {-1})}); };
    const value_id off = n.apply("Sub", {x, mean(x)});
    const value_id deviation = n.apply("Sqrt", {n.apply("Add", {mean(n.apply("Pow", {off, n.number(2)})), n.number(1e-5)})});
    h = n.apply("Add", {n.apply("Mul", {n.apply("Div", {off, deviation}), scale}), shift});
    h = n.linear(h, 8, 16, 0.6);
    const value_id bell = n.apply("Add", {n.apply("Erf", {n.apply("Div", {h, n.number(std::sqrt(2.0))})}), n.number(1)});
    h = n.linear(n.apply("Mul", {n.apply("Mul", {h, bell}), n.number(0.5)}), 16, 8, 0.6);
    x = n.apply("Gather", {n.apply("Add", {x, h}), n.constant(graft::tensor::scalar<std::int64_t>(0))}, {integer_attribute("axis", 1)});
    x = n.classifier(x, 8, 3);
    n.finish(n.apply("SoftmaxCrossEntropyLoss", {x, n.integers({2, 0}), n.constant(small_net::filled({3}, {0.5, 1, 2}))}));
    n.compare(golden_attention, sizeof golden_attention / sizeof golden_attention[0]);
}

TEST_CASE("a segmentation network with squeeze, excitation, borders and upsampling has autograd's gradients") {
    numbered_net n;
    const value_id x = n.made({2, 4, 9, 7});
    value_id a = n.conv(x, {6, 4, 3, 3}, 0.3, false, 1, 1);
    const value_id scale = n.made({6}), shift = n.made({6}, 0.2);
    a = n.apply("BatchNormalization", {a, scale, shift, n.constant(numbered(90, {6}, 0.2)), n.constant(numbered(91, {6}, 0.2, 1))});
    a = n.apply("Clip", {a, n.number(-0.5), n.number(0.5)});
    value_id s = n.apply("ReduceMean", {a}, {integers_attribute("axes", {2, 3})});
    s = n.apply("HardSwish", {n.conv(s, {3, 6, 1, 1}, 1, true)});
    s = n.apply("HardSigmoid", {n.conv(s, {6, 3, 1, 1}, 1, true)}, {real_attribute("alpha", 0.25f), real_attribute("beta", 0.5f)});
    a = n.apply("Mul", {a, s});
    value_id y = n.apply("Add", {a, n.conv(x, {6, 4, 1, 1}, 1, false)});
    y = n.apply("PRelu", {y, n.reshape(n.made({6}, 0.5), {6, 1, 1})});
    y = n.apply("Concat", {y, a}, {integer_attribute("axis", 1)});
    y = n.apply("Pad", {y, n.integers({0, 0, 1, 1, 0, 0, 1, 1})}, {string_attribute("mode", "reflect")});
    y = n.apply("AveragePool", {y}, {integers_attribute("kernel_shape", {3, 3}), integers_attribute("strides", {2, 2})});
    const value_id w = n.made({12, 5, 2, 2});
    y = n.apply("ConvTranspose", {y, w, n.made({5})}, {integers_attribute("kernel_shape", {2, 2}), integers_attribute("strides", {2, 2})});
    const float scales[] = {1, 1, 2, 2};
    y = n.apply("Resize", {y, graft::no_value, n.constant(graft::tensor::from(scales, {4}))},
                {string_attribute("mode", "linear"), string_attribute("coordinate_transformation_mode", "half_pixel")});
    y = n.apply("Slice", {y, n.integers({3}), n.integers({17}), n.integers({2}), n.integers({2})});
    y = n.apply("LogSoftmax", {n.apply("LeakyRelu", {y}, {real_attribute("alpha", 0.125f)})}, {integer_attribute("axis", 1)});
    std::vector<std::int64_t> targets;
    for (std::int64_t i = 0; i < 2 * 7 * 16; ++i) targets.push_back((i * 7 + 3) % 6 == 5 ? 255 : (i * 7 + 3) % 6);
    const value_id t = n.constant(graft::tensor::from(targets.data(), {2, 7, 16}));
    n.finish(n.apply("NegativeLogLikelihoodLoss", {y, t}, {integer_attribute("ignore_index", 255)}));
    n.compare(golden_segmentation, sizeof golden_segmentation / sizeof golden_segmentation[0]);
}
