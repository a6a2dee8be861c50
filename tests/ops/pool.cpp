// Pools by their reference kernels: padding, ceil mode, indices, and the errors that wrong attributes get.
#include "one_node.hpp"

#include <doctest/doctest.h>

namespace {
using graft::dtype;
using one_node::integer;
using one_node::integers;
using one_node::run;
using one_node::tensor;
using one_node::text;
const std::vector<double> six = {1, 5, 2, 4, 3, 6};
}  // namespace

TEST_CASE("MaxPool tells the largest element and where it is") {
    const auto x = tensor(dtype::float32, {1, 1, 2, 3}, six);
    const auto o = run("MaxPool", 22, {x}, {integers("kernel_shape", {2, 2})}, 2);
    CHECK(o.values(0) == std::vector<double>{5, 6});
    CHECK(o.values(1) == std::vector<double>{1, 5});
    CHECK(run("MaxPool", 22, {x}, {integers("kernel_shape", {2, 2}), integer("storage_order", 1)}, 2).values(1) == std::vector<double>{2, 5});
}

TEST_CASE("ceil_mode adds a window that starts inside the input, and no other") {
    const auto x = tensor(dtype::float32, {1, 1, 6}, six);
    CHECK(run("MaxPool", 22, {x}, {integers("kernel_shape", {3}), integers("strides", {2})}).values() == std::vector<double>{5, 4});
    CHECK(run("MaxPool", 22, {x}, {integers("kernel_shape", {3}), integers("strides", {2}), integer("ceil_mode", 1)}).values() == std::vector<double>{5, 4, 6});
    const auto five = tensor(dtype::float32, {1, 1, 2}, {7, 8});
    CHECK(run("MaxPool", 22, {five}, {integers("kernel_shape", {1}), integers("strides", {2}), integer("ceil_mode", 1)}).values() == std::vector<double>{7});
}

TEST_CASE("AveragePool divides by what the window covers, with the padding or without") {
    const auto x = tensor(dtype::float32, {1, 1, 3}, {2, 4, 6});
    const auto window = integers("kernel_shape", {3}), pads = integers("pads", {1, 1});
    CHECK(run("AveragePool", 22, {x}, {window, pads}).values() == std::vector<double>{3, 4, 5});
    CHECK(run("AveragePool", 22, {x}, {integers("kernel_shape", {2}), integers("pads", {1, 0}), integer("count_include_pad", 1)}).values() ==
          std::vector<double>{1, 3, 5});
    // The part of a last window that ceil_mode lets run past the padding counts in no case.
    CHECK(run("AveragePool", 22, {x}, {integers("kernel_shape", {2}), integers("strides", {2}), integer("ceil_mode", 1), integer("count_include_pad", 1)})
              .values() == std::vector<double>{3, 6});
}

TEST_CASE("LpPool and the global pools reduce whole windows") {
    const auto x = tensor(dtype::float32, {1, 1, 2}, {3, -4});
    CHECK(run("LpPool", 22, {x}, {integers("kernel_shape", {2})}).values() == std::vector<double>{5});
    CHECK(run("GlobalLpPool", 22, {x}, {integer("p", 1)}).values() == std::vector<double>{7});
    CHECK(run("GlobalMaxPool", 22, {x}).values() == std::vector<double>{3});
    CHECK(run("GlobalAveragePool", 22, {x}).values() == std::vector<double>{-0.5});
    CHECK(run("LpPool", 22, {x}, {integers("kernel_shape", {2}), integer("p", 0)}).error == "op.attribute");
}

TEST_CASE("pools refuse windows that are missing, empty, or smaller than their padding") {
    const auto x = tensor(dtype::float32, {1, 1, 6}, six);
    CHECK(run("MaxPool", 22, {x}).error == "op.attribute");
    CHECK(run("MaxPool", 22, {x}, {integers("kernel_shape", {0})}).error == "op.attribute");
    CHECK(run("MaxPool", 22, {x}, {integers("kernel_shape", {2}), integers("strides", {0})}).error == "op.attribute");
    CHECK(run("MaxPool", 22, {x}, {integers("kernel_shape", {2}), integers("pads", {2, 0})}).error == "op.attribute");
    CHECK(run("MaxPool", 22, {x}, {integers("kernel_shape", {7})}).error == "op.shape");
    CHECK(run("MaxPool", 22, {tensor(dtype::int32, {1, 1, 2}, {1, 2})}, {integers("kernel_shape", {1})}).error == "op.type");
}
