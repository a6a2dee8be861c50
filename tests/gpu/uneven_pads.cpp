// Convolutions whose pads differ from side to side, as TensorFlow's SAME makes them: cuDNN is asked for even ones alone.
#include "learning.hpp"

namespace {

// Pictures [3, side, side]: halved twice with a pad behind alone, a residual around 2x2 kernels, and a transposed convolution.
graft::graph uneven(std::int64_t side, bool transposed) {
    graft::builder b("net", 11);
    std::uint64_t seed = 10;
    const auto conv = [&](const char* op, graft::value_id x, std::int64_t from, std::int64_t to, std::int64_t kernel, std::int64_t stride) {
        const bool forward = op == std::string("Conv");
        const std::string name = "conv" + std::to_string(++seed);
        graft::tensor w = small_steps::numbered(seed, {forward ? to : from, forward ? from : to, kernel, kernel}),
                      bias = small_steps::numbered(seed + 50, {to});
        for (std::int64_t i = 0; i < w.elements(); ++i) w.data<float>()[i] /= static_cast<float>(kernel * kernel);
        return b.apply(op, {x, b.constant(name + ".weight", w), b.constant(name + ".bias", bias)},
                       {graft::integers_attribute("strides", {stride, stride}), graft::integers_attribute("pads", {0, 0, 1, 1})});
    };
    graft::value_id x = b.relu(conv("Conv", b.input("input", graft::dtype::float32, {"N", 3, side, side}), 3, 8, 3, 2));
    x = b.relu(b.add(x, conv("Conv", conv("Conv", x, 8, 8, 2, 1), 8, 8, 2, 1)));
    x = b.relu(conv("Conv", x, 8, 16, 3, 2));
    if (transposed) x = b.relu(conv("ConvTranspose", x, 16, 4, 3, 2));
    const graft::value_id means = b.apply("Flatten", {b.apply("GlobalAveragePool", {x})});
    b.output(b.apply("Gemm", {means, b.constant("fc.weight", small_steps::numbered(90, {transposed ? 4 : 16, 10}))}), "logits");
    return b.finish();
}

}  // namespace

TEST_CASE("pads that differ from side to side become even around pictures that are padded before and cut behind") {
    for (const std::int64_t side : {16, 18}) {
        const graft::graph g = small_steps::loaded(uneven(side, true));
        const graft::tensor x = small_steps::numbered(5, {2, 3, side, side});
        const graft::tensor want = simulated::recorded_answer(graft::load(g), x);
        for (const char* precision : {"float32", "bfloat16"}) {
            CAPTURE(precision);
            graft::device_options options;
            options.precision = precision;
            const graft::model m = graft::load(g, graft::on_device(simulated::open(options)));
            CHECK(difference(simulated::recorded_answer(m, x), want) <= (std::string(precision) == "bfloat16" ? 3e-2 : 1e-5));
            const auto placed = m.placements({{"input", graft::dtype::float32, true, x.shape(), {}, false}});
            REQUIRE(placed.ok());
            int convolutions = 0;
            for (const graft::placement& p : placed.value()) {
                CHECK(p.device != "cpu");
                convolutions += p.op_type.find("Conv") != std::string::npos;
            }
            CHECK(convolutions == 5);
        }
    }
}

TEST_CASE("convolutions with pads that differ from side to side learn on the CUDA simulator what they learn on the CPU") {
    learning::expect_alike(learning::without_bends(small_steps::loaded(uneven(16, false))));
}
