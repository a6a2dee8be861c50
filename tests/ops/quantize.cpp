// Quantization by its reference kernels: rounding, saturation, scales by axis and by block, and arithmetic on quantised tensors.
#include "one_node.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace {
using graft::dtype;
using one_node::integer;
using one_node::integers;
using one_node::run;
using one_node::tensor;
}  // namespace

TEST_CASE("QuantizeLinear rounds half to even and saturates") {
    const auto x = tensor(dtype::float32, {6}, {1, 3, -1, 1000, -1000, NAN}), scale = tensor(dtype::float32, {}, {2}), zero = tensor(dtype::uint8, {}, {10});
    CHECK(run("QuantizeLinear", 21, {x, scale, zero}).values() == std::vector<double>{10, 12, 10, 255, 0, 0});
    CHECK(run("QuantizeLinear", 21, {x, tensor(dtype::float32, {}, {0}), zero}).error == "op.value");
    CHECK(run("QuantizeLinear", 21, {x, tensor(dtype::float32, {}, {NAN}), zero}).error == "op.value");
}

TEST_CASE("DequantizeLinear takes its scale by axis or by block") {
    const auto x = tensor(dtype::int8, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
    CHECK(run("DequantizeLinear", 21, {x, tensor(dtype::float32, {2}, {1, 10})}, {integer("axis", 0)}).values() ==
          std::vector<double>{1, 2, 3, 4, 50, 60, 70, 80});
    const auto blocks = tensor(dtype::float32, {2, 2}, {1, 10, 100, 1000});
    CHECK(run("DequantizeLinear", 21, {x, blocks}, {integer("axis", 1), integer("block_size", 3)}).values() ==
          std::vector<double>{1, 2, 3, 40, 500, 600, 700, 8000});
    CHECK(run("DequantizeLinear", 21, {x, blocks}, {integer("axis", 1), integer("block_size", 5)}).error == "op.shape");
    CHECK(run("DequantizeLinear", 21, {x, blocks}, {integer("axis", 1), integer("block_size", -1)}).error == "op.attribute");
    CHECK(run("DequantizeLinear", 21, {x, tensor(dtype::float32, {2}, {1, 10})}, {integer("axis", 2)}).error == "op.attribute");
    CHECK(run("DequantizeLinear", 21, {x, tensor(dtype::float32, {3}, {1, 1, 1})}, {integer("axis", 0)}).error == "op.shape");
}

TEST_CASE("QLinearConv requantizes the sum of products about the zero points") {
    const auto f = [](double v) { return tensor(dtype::float32, {}, {v}); };
    const auto u = [](double v) { return tensor(dtype::uint8, {}, {v}); };
    const auto x = tensor(dtype::uint8, {1, 1, 3}, {11, 12, 13}), w = tensor(dtype::uint8, {1, 1, 2}, {6, 7});
    // (1, 2, 3) * (1, 2) = 5, 8; plus the bias 1; times 0.5 * 2 / 4; plus the zero point 100.
    CHECK(run("QLinearConv", 10, {x, f(0.5), u(10), w, f(2), u(5), f(4), u(100), tensor(dtype::int32, {1}, {1})}).values() == std::vector<double>{102, 102});
    CHECK(run("QLinearConv", 10, {x, f(0.5), u(10), w, f(2), u(5), f(0), u(100)}).error == "op.value");
    CHECK(run("ConvInteger", 10, {x, w, u(10), u(5)}).values() == std::vector<double>{5, 8});
}

TEST_CASE("MatMulInteger subtracts zero points by row and by column") {
    const auto a = tensor(dtype::uint8, {2, 2}, {3, 4, 5, 6}), b = tensor(dtype::uint8, {2, 2}, {1, 2, 3, 4});
    CHECK(run("MatMulInteger", 10, {a, b}).values() == std::vector<double>{15, 22, 23, 34});
    CHECK(run("MatMulInteger", 10, {a, b, tensor(dtype::uint8, {2}, {3, 5}), tensor(dtype::uint8, {2}, {1, 2})}).values() == std::vector<double>{2, 2, 2, 2});
    CHECK(run("MatMulInteger", 10, {a, b, tensor(dtype::uint8, {3}, {3, 5, 5})}).error == "op.shape");
}
