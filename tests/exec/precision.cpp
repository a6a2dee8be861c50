// Networks in bfloat16 on the CPU: what they answer beside float32, and where the precision is refused.
#include "../cpu_in_bfloat16.hpp"
#include "../skipped.hpp"
#include "nets.hpp"

#include <doctest/doctest.h>

#include <graft/graft.hpp>
#include <graft/train.hpp>

#include <cmath>
#include <string>
#include <vector>

using graft::errc;

namespace {

graft::load_options in(const char* precision) {
    graft::load_options o;
    o.device = "cpu";
    o.on_device.precision = precision;
    return o;
}

graft::tensor image(std::int64_t n, std::int64_t c, std::int64_t size) {
    graft::tensor t = graft::tensor::make(graft::dtype::float32, {n, c, size, size}).value();
    for (std::int64_t i = 0; i < t.elements(); ++i) t.data<float>()[i] = std::sin(static_cast<float>(i % 977));
    return t;
}

// A product by weights, one between activations (which stays in float32), and a bias and an activation behind them.
graft::graph products(std::uint64_t seed) {
    graft::builder b("products", seed);
    auto x = b.input("x", graft::dtype::float32, {"N", 40});
    x = b.relu(b.linear(x, 70));
    b.output(b.linear(x, 9), "y");
    return b.finish();
}

// All that stands between convolutions: operators that take images in bfloat16, and some that do not, whose images have to stay floats.
graft::graph images(std::uint64_t seed) {
    graft::builder b("images", seed);
    nets::numbers random{seed};
    const auto constant = [&](const graft::shape& extents, double size) {
        return b.constant("c" + std::to_string(random.next() % 100000000), nets::random_tensor(extents, random, -size, size));
    };
    const auto conv = [&](graft::value_id x, std::int64_t from, std::int64_t to, std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                          std::int64_t groups) {
        const std::int64_t each = from / groups;
        const double size = std::sqrt(3.0 / static_cast<double>(each * kernel * kernel));
        return b.apply("Conv", {x, constant({to, each, kernel, kernel}, size), constant({to}, 0.1)},
                       {graft::integers_attribute("strides", {stride, stride}), graft::integers_attribute("pads", {pad, pad, pad, pad}),
                        graft::integer_attribute("group", groups)});
    };
    const auto relu = [&](graft::value_id x) { return b.apply("Relu", {x}); };
    const auto windows = [](std::int64_t kernel, std::int64_t pad) {
        return std::vector<graft::attribute>{graft::integers_attribute("kernel_shape", {kernel, kernel}), graft::integers_attribute("strides", {2, 2}),
                                             graft::integers_attribute("pads", {pad, pad, pad, pad})};
    };
    auto x = b.input("x", graft::dtype::float32, {"N", 3, 41, 41});
    const auto before = x = b.apply("MaxPool", {relu(conv(x, 3, 24, 3, 2, 1, 1))}, windows(3, 1));
    x = b.apply("HardSwish", {conv(x, 24, 58, 1, 1, 0, 1)});
    x = relu(conv(x, 58, 58, 3, 1, 1, 58));
    const auto gate = b.apply("Sigmoid", {conv(relu(conv(b.apply("GlobalAveragePool", {x}), 58, 8, 1, 1, 0, 1)), 8, 58, 1, 1, 0, 1)});
    x = b.apply("Add", {conv(b.apply("Mul", {x, gate}), 58, 24, 1, 1, 0, 1), before});
    x = b.apply("Concat", {relu(conv(x, 24, 32, 1, 1, 0, 1)), relu(conv(x, 24, 32, 3, 1, 1, 1)), relu(conv(x, 24, 20, 5, 1, 2, 1))},
                {graft::integer_attribute("axis", 1)});
    const auto normal = b.apply(
        "BatchNormalization", {x, constant({84}, 1), constant({84}, 1), constant({84}, 1), b.constant("variance", nets::random_tensor({84}, random, 0.5, 2))});
    x = b.apply("AveragePool", {b.apply("Add", {relu(normal), x})}, windows(2, 0));
    x = b.apply("Softplus", {b.apply("Add", {x, b.apply("GlobalMaxPool", {x})})});
    x = conv(x, 84, 64, 2, 1, 0, 4);  // groups of several channels
    b.output(b.apply("Flatten", {conv(x, 64, 40, 1, 1, 0, 1)}), "y");
    return b.finish();
}

// Attention as exporters write it, and what stands round it.
graft::graph attention(std::uint64_t seed) {
    using graft::integers_attribute;
    graft::builder b("attention", seed);
    nets::numbers random{seed};
    const std::int64_t tokens = 64, heads = 2, width = 64;
    const auto weight = [&](std::int64_t from, std::int64_t to) {
        graft::tensor t = nets::random_tensor({from, to}, random, -0.2, 0.2);
        return b.constant("w" + std::to_string(from) + "_" + std::to_string(to) + "_" + std::to_string(random.next() % 1000000), t);
    };
    const auto ones = b.constant("ones", nets::random_tensor({width}, random, 0.5, 1.5)), zeros = b.constant("zeros", nets::random_tensor({width}, random));
    const auto norm = [&](graft::value_id x) { return b.apply("LayerNormalization", {x, ones, zeros}, {graft::integer_attribute("axis", -1)}); };
    auto x = b.input("x", graft::dtype::float32, {"N", tokens, width});
    const auto split = b.constant("split", nets::integers({0, tokens, heads, width / heads}));
    const auto joined = b.constant("joined", nets::integers({0, tokens, width}));
    const auto in_heads = [&](graft::value_id of, std::vector<std::int64_t> order) {
        return b.apply("Transpose", {b.apply("Reshape", {b.apply("MatMul", {of, weight(width, width)}), split})}, {integers_attribute("perm", order)});
    };
    const auto normal = norm(x);
    const auto scores = b.softmax(b.apply("MatMul", {in_heads(normal, {0, 2, 1, 3}), in_heads(normal, {0, 2, 3, 1})}));
    const auto mixed = b.apply("Transpose", {b.apply("MatMul", {scores, in_heads(normal, {0, 2, 1, 3})})}, {integers_attribute("perm", {0, 2, 1, 3})});
    x = b.add(x, b.apply("MatMul", {b.apply("Reshape", {mixed, joined}), weight(width, width)}));
    const auto wide = b.apply("MatMul", {norm(x), weight(width, 4 * width)});
    x = b.add(x, b.apply("MatMul", {b.apply("Mul", {wide, b.apply("Sigmoid", {wide})}), weight(4 * width, width)}));
    b.output(x, "y");
    return b.finish();
}

}  // namespace

TEST_CASE("bfloat16 on a CPU: answers are near those of float32, and not the same") {
    for (const std::string by : {"amx", "avx512_bf16"}) {
        INFO(by);
        const emulated_products with(by.c_str());
        if (!multiplies_bfloat16()) return say_skipped("neither this machine nor this build multiplies bfloat16");
        struct {
            graft::graph g;
            graft::tensor x;
        } const cases[] = {{nets::residual_net(3), image(2, 3, 33)},
                           {products(5), image(1, 1, 20).reshaped({10, 40})},
                           {images(7), image(2, 3, 41)},
                           {attention(9), image(3, 1, 64).reshaped({3, 64, 64})}};
        for (const auto& c : cases) {
            const graft::model wide = graft::load(c.g, in("float32")), narrow = graft::load(c.g, in("bfloat16"));
            CHECK(std::string(narrow.device()) == "cpu");
            const auto want = nets::run(wide, {c.x}), got = nets::run(narrow, {c.x});
            CHECK(want.error == "");
            CHECK(got.error == "");
            double worst = 0, largest = 0;
            for (std::int64_t i = 0; i < want.outputs[0].elements(); ++i) {
                const double difference = std::fabs(double(want.outputs[0].data<float>()[i]) - double(got.outputs[0].data<float>()[i]));
                if (!(difference <= worst)) worst = difference;  // NaN too
                largest = std::fmax(largest, std::fabs(double(want.outputs[0].data<float>()[i])));
            }
            CHECK(worst > 1e-6 * largest);
            CHECK(worst < 0.02 * largest);
            std::vector<graft::value_info> given = wide.inputs();
            given[0].extents = c.x.shape();
            int narrowed = 0;
            for (const graft::placement& p : narrow.placements(given).value()) narrowed += p.kernel.find("bfloat16") != std::string::npos;
            CHECK(narrowed >= (by == "amx" ? 2 : 1));  // pairs are not always faster than floats
            for (const graft::placement& p : wide.placements(given).value()) CHECK(p.kernel.find("bfloat16") == std::string::npos);
        }
    }
}

TEST_CASE("bfloat16 on a CPU: a device that was opened once serves several models, and the bits are those of any number of threads") {
    const emulated_products with("amx");
    if (!multiplies_bfloat16()) return say_skipped("neither this machine nor this build multiplies bfloat16");
    const std::shared_ptr<graft::device> on = cpu_in_bfloat16();
    REQUIRE(static_cast<bool>(on));
    CHECK(on->in_host_memory());
    const graft::model first = graft::load(nets::residual_net(3), graft::on_device(on));
    const auto want = nets::run(first, {image(1, 3, 40)}, 1);
    for (const int threads : {1, 2, 3}) {
        const graft::model m = graft::load(nets::residual_net(3), graft::on_device(on));
        CHECK(nets::same_bits(nets::run(m, {image(1, 3, 40)}, threads), want));
    }
}

TEST_CASE("bfloat16 on a CPU: who cannot have it hears why") {
    {
        const emulated_products with("amx");
        if (multiplies_bfloat16()) {
            // Reference kernels compute in float32.
            const graft::graph net = products(1);
            graft::step_options step;
            step.on = cpu_in_bfloat16();
            step.reference = true;
            const auto made = graft::training_step::make(net, net.outputs[0], graft::parameters_of(net), step);
            REQUIRE(!made.ok());
            CHECK(made.error().code() == errc::device_unavailable);
            CHECK(made.error().detail().find("reference") != std::string::npos);
            graft::load_options reference = in("bfloat16");
            reference.reference = true;
            CHECK(graft::load(products(1), reference).error().code() == errc::device_unavailable);
        }
    }
    if (multiplies_bfloat16()) return;
    const auto m = graft::load(products(1), in("bfloat16"));
    REQUIRE(!m.ok());
    CHECK(m.error().code() == errc::device_unavailable);
    CHECK(m.error().where() == "precision");
    CHECK(m.error().detail().find("AVX-512 BF16") != std::string::npos);
}
