// Networks in half precision and of quantised integers, told in float32: the same answers up to what those round.
#include "../difference.hpp"

#include <doctest/doctest.h>
#include <graft/train.hpp>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace {

using graft::dtype;
using graft::integer_attribute;
using graft::tensor;
using graft::value_id;

double number(std::int64_t i) { return static_cast<double>((i * 7919 + 13) % 1009) / 504.5 - 1; }
tensor made(dtype type, const graft::shape& extents, double scale, double shift = 0) {
    tensor t = tensor::make(type, extents);
    for (std::int64_t i = 0; i < t.elements(); ++i) {
        const double v = number(i) * scale + shift, whole = graft::is_float(type) ? v : std::nearbyint(v);
        graft::store_from_double(type, t.raw(), static_cast<std::size_t>(i), 1, &whole);
    }
    return t;
}
tensor numbers(dtype type, const std::vector<double>& v, bool scalar = true) {
    tensor t = tensor::make(type, scalar ? graft::shape{} : graft::shape{static_cast<std::int64_t>(v.size())});
    graft::store_from_double(type, t.raw(), 0, v.size(), v.data());
    return t;
}

struct net {
    graft::builder b{"net", 1};
    int names = 0;
    value_id constant(tensor t) { return b.constant("c" + std::to_string(++names), std::move(t)); }
    value_id real(double v) { return constant(numbers(dtype::float32, {v})); }
    value_id zero(dtype type, double v) { return constant(numbers(type, {v})); }
    value_id quantize(value_id x, double scale, double zero_point, dtype type = dtype::uint8) {
        return b.apply("QuantizeLinear", {x, real(scale), zero(type, zero_point)});
    }
    value_id dequantize(value_id x, double scale, double zero_point, dtype type = dtype::uint8) {
        return b.apply("DequantizeLinear", {x, real(scale), zero(type, zero_point)});
    }
};
tensor run(const graft::graph& g, const tensor& x) {
    auto m = graft::load(g);
    REQUIRE_MESSAGE(m.ok(), std::string(m.ok() ? "" : m.error().what()));
    graft::session s(*m);
    auto y = s.run(x);
    REQUIRE_MESSAGE(y.ok(), std::string(y.ok() ? "" : y.error().what()));
    return *y;
}
bool has(const graft::graph& g, const char* op_type) {
    for (const graft::node& n : g.nodes)
        if (n.op_type == op_type) return true;
    return false;
}

struct quantised_case {
    const char* name;
    dtype input;
    std::function<value_id(net&, value_id)> make;
    double tolerance;     // absolute: what one step of the coarsest scale can change
    std::size_t weights;  // that can learn
};
// Pictures [2, 3, 6, 6].
const std::vector<quantised_case>& cases() {
    static const std::vector<quantised_case> all{
        {"QDQ around a Conv, weights a scale a channel", dtype::float32,
         [](net& n, value_id x) {
             const value_id a = n.dequantize(n.quantize(x, 0.01, 128), 0.01, 128);
             const value_id w =
                 n.b.apply("DequantizeLinear",
                           {n.constant(made(dtype::int8, {4, 3, 3, 3}, 100)), n.constant(numbers(dtype::float32, {0.01, 0.02, 0.005, 0.01}, false)),
                            n.constant(numbers(dtype::int8, {0, 0, 0, 0}, false))},
                           {integer_attribute("axis", 0)});
             const value_id bias = n.dequantize(n.constant(made(dtype::int32, {4}, 1000)), 0.0001, 0, dtype::int32);
             return n.dequantize(n.quantize(n.b.apply("Conv", {a, w, bias}), 0.05, 100), 0.05, 100);
         },
         0.08, 2},
        {"a ReLU6 that has become part of a scale", dtype::float32,
         [](net& n, value_id x) {
             const value_id y = n.b.apply("Mul", {x, n.real(20)});
             return n.dequantize(n.quantize(y, 6.0 / 255, 0), 6.0 / 255, 0);
         },
         0.02, 0},
        {"integers that are moved between", dtype::float32,
         [](net& n, value_id x) {
             const value_id q = n.quantize(x, 0.01, 120);
             const value_id moved = n.b.apply("Transpose", {n.b.apply("MaxPool", {q}, {graft::integers_attribute("kernel_shape", {2, 2})})},
                                              {graft::integers_attribute("perm", {0, 2, 3, 1})});
             return n.dequantize(moved, 0.01, 120);
         },
         0.006, 0},
        {"two scales joined", dtype::float32,
         [](net& n, value_id x) {
             const value_id a = n.quantize(x, 0.01, 120), b = n.quantize(x, 0.02, 128);
             return n.dequantize(n.b.apply("Concat", {a, b}, {integer_attribute("axis", 1)}), 0.01, 120);
         },
         0.02, 0},
        {"integers read by another scale", dtype::float32, [](net& n, value_id x) { return n.dequantize(n.quantize(x, 0.01, 120), 0.02, 110); }, 0.011, 0},
        {"QLinearConv on bytes from outside", dtype::uint8,
         [](net& n, value_id x) {
             const value_id y = n.b.apply("QLinearConv", {x, n.real(1.0 / 128), n.zero(dtype::uint8, 128),
                                                          n.constant(made(dtype::uint8, {4, 3, 3, 3}, 100, 120)), n.real(0.01), n.zero(dtype::uint8, 120),
                                                          n.real(0.05), n.zero(dtype::uint8, 90), n.constant(made(dtype::int32, {4}, 2000))});
             return n.dequantize(y, 0.05, 90);
         },
         0.03, 2},
        {"QLinearMatMul", dtype::float32,
         [](net& n, value_id x) {
             const value_id q = n.quantize(n.b.apply("Flatten", {x}), 0.01, 100);
             const value_id y = n.b.apply("QLinearMatMul", {q, n.real(0.01), n.zero(dtype::uint8, 100), n.constant(made(dtype::uint8, {108, 5}, 100, 128)),
                                                            n.real(0.01), n.zero(dtype::uint8, 128), n.real(0.1), n.zero(dtype::uint8, 128)});
             return n.dequantize(y, 0.1, 128);
         },
         0.25, 1},
        {"dynamic quantisation and ConvInteger", dtype::float32,
         [](net& n, value_id x) {
             const std::vector<value_id> q = n.b.apply_all("DynamicQuantizeLinear", {x}, {}, 3);
             const value_id y = n.b.apply("ConvInteger", {q[0], n.constant(made(dtype::uint8, {4, 3, 3, 3}, 100, 128)), q[2], n.zero(dtype::uint8, 128)});
             return n.b.apply(
                 "Mul", {n.b.apply("Cast", {y}, {integer_attribute("to", static_cast<std::int64_t>(dtype::float32))}), n.b.apply("Mul", {q[1], n.real(0.01)})});
         },
         0.1, 1},
        {"dynamic quantisation and MatMulInteger", dtype::float32,
         [](net& n, value_id x) {
             const std::vector<value_id> q = n.b.apply_all("DynamicQuantizeLinear", {n.b.apply("Flatten", {x})}, {}, 3);
             const value_id y = n.b.apply("MatMulInteger", {q[0], n.constant(made(dtype::int8, {108, 5}, 100)), q[2]});
             return n.b.apply(
                 "Mul", {n.b.apply("Cast", {y}, {integer_attribute("to", static_cast<std::int64_t>(dtype::float32))}), n.b.apply("Mul", {q[1], n.real(0.01)})});
         },
         0.2, 1},
    };
    return all;
}

}  // namespace

TEST_CASE("Quantised networks stand for the same numbers in float32, with their saturation") {
    graft::executor serial;
    for (const quantised_case& c : cases()) {
        INFO(std::string(c.name));
        net n;
        const value_id x = n.b.input("picture", c.input, {"N", 3, 6, 6});
        n.b.output(c.make(n, x), "y");
        const graft::graph g = graft::load(n.b.finish().value()).value().graph();
        graft::float32_changes changes;
        auto real = graft::to_float32(g, {2, 3, 6, 6}, serial, {}, changes);
        REQUIRE_MESSAGE(real.ok(), std::string(real.ok() ? "" : real.error().what()));
        CHECK(changes.dequantized);
        for (const char* op : {"QuantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "DynamicQuantizeLinear"})
            CHECK(!has(*real, op));
        CHECK(has(*real, "DequantizeLinear") == (c.input == dtype::uint8));
        const tensor in = made(c.input, {2, 3, 6, 6}, c.input == dtype::uint8 ? 100 : 1, c.input == dtype::uint8 ? 128 : 0);
        const tensor want = run(g, in), got = run(*real, in);
        REQUIRE(want.shape() == got.shape());
        double worst = 0, largest = 0;
        for (std::int64_t i = 0; i < want.elements(); ++i) {
            const double w = static_cast<double>(want.data<float>()[i]), v = static_cast<double>(got.data<float>()[i]);
            REQUIRE(std::isfinite(v));
            worst = larger_error(worst, std::fabs(w - v));
            largest = std::max(largest, std::fabs(w));
        }
        CHECK(worst <= c.tolerance);
        CHECK(largest > 4 * c.tolerance);
        CHECK(graft::parameters_of(*real).size() == c.weights);
    }
}

TEST_CASE("An output of integers stays one") {
    net n;
    const value_id x = n.b.input("picture", dtype::float32, {"N", 6});
    n.b.output(n.quantize(n.b.apply("Relu", {x}), 0.01, 3), "y");
    const graft::graph g = graft::load(n.b.finish().value()).value().graph();
    graft::executor serial;
    graft::float32_changes changes;
    const graft::graph real = graft::to_float32(g, {2, 6}, serial, {}, changes);
    const tensor in = made(dtype::float32, {2, 6}, 1), want = run(g, in), got = run(real, in);
    REQUIRE(got.type() == dtype::uint8);
    for (int i = 0; i < 12; ++i) CHECK(want.data<std::uint8_t>()[i] == got.data<std::uint8_t>()[i]);
}

TEST_CASE("Arithmetic on quantised integers that has no known form in float32 is refused by name") {
    net n;
    const value_id x = n.b.input("picture", dtype::float32, {"N", 6});
    const value_id q = n.quantize(x, 0.01, 3);
    n.b.output(n.dequantize(n.b.apply("Mod", {q, n.zero(dtype::uint8, 7)}), 0.01, 3), "y");
    const graft::graph g = graft::load(n.b.finish().value()).value().graph();
    graft::executor serial;
    graft::float32_changes changes;
    auto refused = graft::to_float32(g, {2, 6}, serial, {}, changes);
    REQUIRE(!refused.ok());
    CHECK(refused.error().code() == graft::errc::op_unsupported);
    CHECK(refused.error().where().find("Mod") != std::string::npos);
}

TEST_CASE("Half precision and double become float32, input and constants alike, and a float32 network stays as it is") {
    for (const dtype type : {dtype::float16, dtype::bfloat16, dtype::float64, dtype::float32}) {
        INFO(std::string(graft::name(type)));
        net n;
        const value_id x = n.b.input("picture", type, {"N", 3, 6, 6});
        const value_id y = n.b.apply("Relu", {n.b.apply("Conv", {x, n.constant(made(type, {4, 3, 3, 3}, 0.5))})});
        const value_id half =
            n.b.apply("Cast", {n.b.apply("Sigmoid", {n.b.apply("Cast", {y}, {integer_attribute("to", static_cast<std::int64_t>(dtype::float32))})})},
                      {integer_attribute("to", static_cast<std::int64_t>(type))});
        n.b.output(n.b.apply("Mul", {half, n.constant(made(type, {}, 1, 2))}), "y");
        const graft::graph g = graft::load(n.b.finish().value()).value().graph();
        graft::executor serial;
        graft::float32_changes changes;
        const graft::graph real = graft::to_float32(g, {2, 3, 6, 6}, serial, {}, changes);
        CHECK(changes.converted == (type == dtype::float32 ? dtype::undefined : type));
        CHECK(!changes.dequantized);
        for (const graft::value& v : real.values) CHECK((!v.constant || v.constant.type() == dtype::float32));
        const tensor in = made(type, {2, 3, 6, 6}, 1), want = run(g, in);
        tensor single = tensor::make(dtype::float32, in.shape());
        for (std::int64_t i = 0; i < in.elements(); ++i) single.data<float>()[i] = static_cast<float>(graft::element_as_double(type, in.raw(), i));
        const tensor got = run(real, single);
        REQUIRE(got.type() == dtype::float32);
        const double tolerance = type == dtype::bfloat16 ? 0.03 : type == dtype::float16 ? 0.004 : 1e-6;
        for (std::int64_t i = 0; i < got.elements(); ++i)
            REQUIRE(std::fabs(graft::element_as_double(type, want.raw(), i) - static_cast<double>(got.data<float>()[i])) <= tolerance);
    }
}
