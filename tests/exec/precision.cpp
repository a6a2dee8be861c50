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

}  // namespace

TEST_CASE("bfloat16 on a CPU: answers are near those of float32, and not the same") {
    for (const std::string by : {"amx", "avx512_bf16"}) {
        INFO(by);
        const emulated_products with(by.c_str());
        if (!multiplies_bfloat16()) return say_skipped("neither this machine nor this build multiplies bfloat16");
        struct {
            graft::graph g;
            graft::tensor x;
        } const cases[] = {{nets::residual_net(3), image(2, 3, 33)}, {products(5), image(1, 1, 20).reshaped({10, 40})}};
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
