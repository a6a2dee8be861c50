// Strides, dilations, pads and kernels past what the kernels count in int: the reference computes such windows, and none is cut short.
#include <doctest/doctest.h>
#include <graft/graft.hpp>

#include <string>
#include <vector>

namespace {

using graft::integer_attribute;
using graft::integers_attribute;
using graft::tensor;
using integers = std::vector<std::int64_t>;

constexpr std::int64_t large = std::int64_t(1) << 32;  // 0 as an int

// y of a row of numbers [1,1,1,n], and of weights where there are any.
std::vector<float> result_of(const char* op, const std::vector<float>& row, const std::vector<float>& weights, std::vector<graft::attribute> attributes) {
    graft::builder b("net");
    std::vector<graft::value_id> inputs{b.input("x", graft::dtype::float32, {1, 1, 1, static_cast<std::int64_t>(row.size())})};
    if (!weights.empty()) inputs.push_back(b.constant("w", tensor::from(weights.data(), {1, 1, 1, static_cast<std::int64_t>(weights.size())})));
    b.output(b.apply(op, inputs, std::move(attributes)), "y");
    auto m = graft::load(b.finish());
    REQUIRE_MESSAGE(m.ok(), std::string(m.ok() ? "" : m.error().what()));
    graft::session s(*m);
    const auto y = s.run(tensor::from(row.data(), {1, 1, 1, static_cast<std::int64_t>(row.size())}));
    REQUIRE_MESSAGE(y.ok(), std::string(y.ok() ? "" : y.error().what()));
    return {y->data<float>(), y->data<float>() + y->elements()};
}

}  // namespace

TEST_CASE("A convolution reaches as far as its dilation says") {
    // The first tap lies in the padding, the second on the picture.
    const std::vector<graft::attribute> far{integers_attribute("dilations", {1, large}), integers_attribute("pads", {0, large, 0, 0})};
    CHECK(result_of("Conv", {2, 3}, {5, 7}, far) == std::vector<float>{14, 21});
    CHECK(result_of("ConvTranspose", {2, 3}, {5, 7}, far) == std::vector<float>{14, 21});
    // Both within int, the reach of three taps is not.
    const std::int64_t half = large / 4;
    CHECK(result_of("Conv", {2}, {5, 7, 11}, {integers_attribute("dilations", {1, half}), integers_attribute("pads", {0, half, 0, half})}) ==
          std::vector<float>{14});
    CHECK(result_of("Conv", {2, 3}, {5}, {integers_attribute("strides", {1, large})}) == std::vector<float>{10});
}

TEST_CASE("the largest strides and dilations that the kernels count are theirs on blocks of channels too") {
    constexpr std::int64_t most = std::int64_t(1) << 28;
    std::vector<float> picture(64), weights(32);
    for (std::size_t i = 0; i < picture.size(); ++i) picture[i] = static_cast<float>(i % 13);
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 7) - 3;
    const auto wide = [&](std::int64_t taps, std::vector<graft::attribute> window) {
        graft::builder b("net");
        window.push_back(integer_attribute("group", 16));
        const auto conv = b.apply("Conv", {b.input("x", graft::dtype::float32, {1, 16, 1, 4}), b.constant("w", tensor::from(weights.data(), {16, 1, 1, taps}))},
                                  std::move(window));
        b.output(b.apply("MaxPool", {conv}, {integers_attribute("kernel_shape", {1, 1}), integers_attribute("strides", {1, most})}), "y");
        const graft::model m = graft::load(b.finish());
        graft::session s(m);
        const tensor y = s.run(tensor::from(picture.data(), {1, 16, 1, 4}));
        REQUIRE(y.elements() == 16);
        for (std::size_t c = 0; c < 16; ++c)
            CHECK(y.data<float>()[c] == picture[4 * c] * weights[c * static_cast<std::size_t>(taps) + static_cast<std::size_t>(taps) - 1]);
    };
    wide(1, {integers_attribute("strides", {1, most})});
    wide(1, {integers_attribute("dilations", {1, most / 2})});
    // The first tap lies in the padding, the second on the picture.
    wide(2, {integers_attribute("dilations", {1, most / 2}), integers_attribute("pads", {0, most / 2, 0, 0})});
}

TEST_CASE("A pool takes all of its window") {
    const auto window = [](std::int64_t begin, std::int64_t end) {
        return std::vector<graft::attribute>{integers_attribute("kernel_shape", {1, begin + end + 3}), integers_attribute("pads", {0, begin, 0, end})};
    };
    CHECK(result_of("MaxPool", {2, 7, 3}, {}, window(large / 2, large / 2 - 3)) == std::vector<float>{7});          // of 2^32
    CHECK(result_of("AveragePool", {2, 7, 3}, {}, window(large / 2 - 1, large / 2 - 1)) == std::vector<float>{4});  // of 2^32 + 1
}

TEST_CASE("a convolution by weights of more rows than the kernels count is planned") {
    // The weights are the picture: [9, 2, 2^32, 3], which is the caller's memory.
    graft::builder b("net");
    const auto x = b.input("x", graft::dtype::float32, {9, 2, large, 3});
    b.output(b.apply("Conv", {x, x}), "y");
    const auto m = graft::load(b.finish());
    REQUIRE_MESSAGE(m.ok(), std::string(m.ok() ? "" : m.error().what()));
    CHECK(m->memory(m->inputs()).ok());
}

TEST_CASE("an operator that no kernel takes on blocks is not given them") {
    std::vector<float> numbers(16 * 16 * 9);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 23) / 23 - 0.5f;
    graft::builder b("net");
    const auto conv = b.apply("Conv", {b.input("x", graft::dtype::float32, {1, 16, 4, 4}), b.constant("w", tensor::from(numbers.data(), {16, 16, 3, 3}))},
                              {integers_attribute("pads", {1, 1, 1, 1})});
    b.output(b.apply("MaxPool", {conv}, {integers_attribute("kernel_shape", {1, 1}), integers_attribute("strides", {1, large})}), "y");
    const graft::graph g = b.finish();
    graft::load_options reference;
    reference.reference = true;
    const auto fast = graft::load(g), plain = graft::load(g, reference);
    REQUIRE_MESSAGE(fast.ok(), std::string(fast.ok() ? "" : fast.error().what()));
    const tensor x = tensor::from(numbers.data(), {1, 16, 4, 4});
    const tensor y = graft::session(*fast).run(x), wanted = graft::session(*plain).run(x);
    REQUIRE(y.shape() == graft::shape{1, 16, 4, 1});
    for (int i = 0; i < 64; ++i) CHECK(y.data<float>()[i] == doctest::Approx(wanted.data<float>()[i]).epsilon(1e-5));
}
