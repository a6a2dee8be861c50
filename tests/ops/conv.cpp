// Convolutions by their reference kernels: values worked out by hand, and the errors that wrong attributes and shapes get.
#include "one_node.hpp"

#include <doctest/doctest.h>

namespace {
using graft::dtype;
using one_node::integer;
using one_node::integers;
using one_node::run;
using one_node::tensor;
using one_node::text;

std::string conv_error(std::vector<graft::attribute> attributes, const graft::shape& x = {1, 4, 5, 5}, const graft::shape& w = {4, 4, 3, 3}) {
    return run("Conv", 22, {graft::tensor::zeros(dtype::float32, x).value(), graft::tensor::zeros(dtype::float32, w).value()}, std::move(attributes)).error;
}
}  // namespace

TEST_CASE("Conv sums the taps inside the padded input and adds the bias") {
    const auto x = tensor(dtype::float32, {1, 1, 1, 4}, {1, 2, 3, 4}), w = tensor(dtype::float32, {1, 1, 1, 3}, {1, 10, 100}),
               b = tensor(dtype::float32, {1}, {0.5});
    CHECK(run("Conv", 22, {x, w, b}).values() == std::vector<double>{321.5, 432.5});
    CHECK(run("Conv", 22, {x, w, b}, {integers("pads", {0, 1, 0, 1})}).values() == std::vector<double>{210.5, 321.5, 432.5, 43.5});
    CHECK(run("Conv", 22, {x, w, b}, {integers("pads", {0, 1, 0, 1}), integers("strides", {1, 2})}).values() == std::vector<double>{210.5, 432.5});
    CHECK(run("Conv", 22, {x, w, b}, {integers("dilations", {1, 2}), integers("pads", {0, 1, 0, 1})}).values() == std::vector<double>{420.5, 31.5});
    CHECK(run("Conv", 22, {x, w}, {text("auto_pad", "SAME_LOWER")}).values() == std::vector<double>{210, 321, 432, 43});
}

TEST_CASE("Conv keeps its groups apart") {
    const auto x = tensor(dtype::float32, {1, 2, 2}, {1, 2, 3, 4}), w = tensor(dtype::float32, {2, 1, 1}, {10, 100});
    CHECK(run("Conv", 22, {x, w}, {integer("group", 2)}).values() == std::vector<double>{10, 20, 300, 400});
}

TEST_CASE("Conv names what is wrong with its attributes") {
    CHECK(conv_error({}) == "");
    for (const char* name : {"strides", "dilations", "kernel_shape"}) {
        CHECK(conv_error({integers(name, {0, 1})}) == "op.attribute");
        CHECK(conv_error({integers(name, {1, -1})}) == "op.attribute");
        CHECK(conv_error({integers(name, {1, INT64_MAX})}) == "op.attribute");
        CHECK(conv_error({integers(name, {1, 1, 1})}) == "op.attribute");
    }
    CHECK(conv_error({integers("pads", {1, 1, 1, -1})}) == "op.attribute");
    CHECK(conv_error({integers("pads", {1, 1})}) == "op.attribute");
    CHECK(conv_error({integer("group", 0)}) == "op.attribute");
    CHECK(conv_error({integer("group", -4)}) == "op.attribute");
    CHECK(conv_error({integer("group", 2)}) == "op.shape");
    CHECK(conv_error({text("auto_pad", "SAME")}) == "op.attribute");
    CHECK(conv_error({integers("dilations", {3, 3})}) == "op.shape");
    CHECK(conv_error({}, {1, 4, 5}) == "op.shape");
    CHECK(conv_error({}, {1, 4}) == "op.shape");
    CHECK(conv_error({}, {1, 4, 5, 5}, {4, 4, 0, 3}) == "op.shape");
}

TEST_CASE("Conv of no images is empty") {
    const auto o = run("Conv", 22, {graft::tensor::zeros(dtype::float32, {0, 1, 5, 5}).value(), graft::tensor::zeros(dtype::float32, {2, 1, 3, 3}).value()});
    REQUIRE(o.error == "");
    CHECK(o.outputs[0].shape() == graft::shape{0, 2, 3, 3});
}

TEST_CASE("ConvTranspose spreads every input over the output") {
    const auto x = tensor(dtype::float32, {1, 1, 2}, {1, 2}), w = tensor(dtype::float32, {1, 1, 3}, {1, 10, 100});
    CHECK(run("ConvTranspose", 22, {x, w}).values() == std::vector<double>{1, 12, 120, 200});
    CHECK(run("ConvTranspose", 22, {x, w}, {integers("strides", {2}), integers("output_padding", {1})}).values() ==
          std::vector<double>{1, 10, 102, 20, 200, 0});
    CHECK(run("ConvTranspose", 22, {x, w}, {integers("strides", {2}), integers("pads", {1, 1})}).values() == std::vector<double>{10, 102, 20});
    CHECK(run("ConvTranspose", 22, {x, w}, {integers("strides", {2}), integers("output_shape", {4}), text("auto_pad", "SAME_UPPER")}).values() ==
          std::vector<double>{1, 10, 102, 20});
    CHECK(run("ConvTranspose", 22, {x, w}, {integers("output_padding", {1})}).error == "op.attribute");
    CHECK(run("ConvTranspose", 22, {x, w}, {integers("pads", {4, 1})}).error == "op.attribute");
    CHECK(run("ConvTranspose", 22, {x, w}, {integers("output_shape", {4, 4, 4, 4})}).error == "op.attribute");
}
