// What a recorded run tells of the steps of a GPU, on the CUDA simulator.
#ifdef GRAFT_CUDA_SIMULATOR
#include "counted.hpp"

namespace {

graft::tensor filled(const graft::shape& extents) {
    graft::tensor t = graft::tensor::make(graft::dtype::float32, extents);
    for (std::int64_t i = 0; i < t.elements(); ++i) t.data<float>()[i] = static_cast<float>(i % 11 - 5) / 16;
    return t;
}

}  // namespace

TEST_CASE("steps of a device count what the network counts: convolutions, and a Gemm that is taken apart") {
    graft::builder b("counted", 1);
    const auto x = b.input("x", graft::dtype::float32, {2, 8, 6, 6});
    auto y = b.apply("Relu", {b.apply("Conv", {x, b.constant("w0", filled({8, 2, 3, 3}))},
                                      {graft::integer_attribute("group", 4), graft::integers_attribute("pads", {1, 1, 1, 1})})});
    y = b.apply("ConvTranspose", {y, b.constant("w1", filled({8, 3, 2, 2}))}, {graft::integers_attribute("strides", {2, 2})});
    y = b.apply("Flatten", {y});
    y = b.apply("Gemm", {y, b.constant("w2", filled({432, 7})), b.constant("c", filled({2, 7}))}, {graft::real_attribute("beta", 0.5f)});
    b.output(b.apply("MatMul", {y, b.constant("w3", filled({7, 5}))}), "y");
    auto g = b.finish();
    REQUIRE(g.ok());
    const graft::tensor in = filled({2, 8, 6, 6});
    // By hand: 2 x 8 x 6 x 6 x 2 x 9, 2 x 8 x 6 x 6 x 3 x 4, 2 x 432 x 7, 2 x 7 x 5.
    const graft::model m = graft::load(*g);
    const graft::model::memory_use use = m.memory(m.inputs());
    CHECK(use.multiply_adds == 10368 + 6912 + 6048 + 70);
    simulated::expect_counted(*g, simulated::exact_device(), in);
    graft::device_options half;
    half.precision = "float16";
    simulated::expect_counted(*g, simulated::open(half), in);
}
#endif
