// The training step: batches in parts and recomputation give the bits of the plain step, threads change none, what diverges is named.
#include "../sanitized.hpp"
#include "golden_steps.hpp"
#include "small_steps.hpp"

#include <cmath>
#include <limits>

#if defined(__linux__)
#include "../little_memory.hpp"
#include "../skipped.hpp"

#include <sys/wait.h>
#endif

using small_steps::architecture;
using small_steps::group_norm_dropout;
using small_steps::trained;

namespace {

graft::step_options with(graft::optimizer_kind kind) {
    graft::step_options o;
    o.optimizer.kind = kind;
    o.seed = 11;
    return o;
}

// Three steps of n samples each, the last one of fewer.
std::string three_steps(const graft::graph& g, const graft::step_options& o, std::int64_t n, int threads = 1) {
    trained t(g, o);
    for (std::int64_t i = 0; i < 3; ++i) REQUIRE_MESSAGE(t.run(i, i < 2 ? n : n - 1, threads), t.error());
    return t.bits();
}

}  // namespace

TEST_CASE("Ten steps of LeNet go as torch's do") {
    for (const golden_step& golden : golden_steps()) {
        const std::string name = golden.name;
        INFO(name);
        graft::step_options o;
        graft::optimizer_options& p = o.optimizer;
        p.kind = name == "adam"                          ? graft::optimizer_kind::adam
                 : name == "adamw" || name == "averaged" ? graft::optimizer_kind::adamw
                                                         : graft::optimizer_kind::sgd;
        const bool sgd = p.kind == graft::optimizer_kind::sgd;
        if (sgd) p.weight_decay = name == "clipped" ? 0 : 5e-4;
        if (name == "sgd") p.momentum = 0;
        p.nesterov = name == "nesterov";
        if (name == "clipped") p.clip_norm = 0.5;
        if (name == "averaged") p.ema_decay = 0.8;
        if (name == "momentum" || name == "adamw") o.loss.label_smoothing = 0.1f;
        if (name == "nesterov" || name == "adamw")
            for (int c = 0; c < 10; ++c) o.loss.class_weights.push_back(0.5f + 0.1f * static_cast<float>(c));
        trained t(architecture("lenet"), o);
        const double fan_in[] = {25, 25, 150, 150, 256, 256, 120, 120, 84, 84};
        for (std::size_t w = 0; w < 10; ++w) {
            graft::tensor& weight = t.step.state()[w].value;
            const graft::tensor from = small_steps::numbered(300 + w, weight.shape(), 1.7 / std::sqrt(fan_in[w]));
            std::memcpy(weight.raw(), from.raw(), weight.bytes());
            if (name == "averaged") std::memcpy(t.step.state()[10 + 3 * w + 2].value.raw(), from.raw(), weight.bytes());
        }
        for (std::size_t i = 0; i < golden.losses.size(); ++i) {
            REQUIRE_MESSAGE(t.run(static_cast<std::int64_t>(i), 6, 2, !sgd ? 1e-3 : name == "sgd" || name == "clipped" ? 0.05 : 0.02), t.error());
            CHECK(t.step.loss() == doctest::Approx(golden.losses[i]).epsilon(1e-5));
        }
        for (std::size_t w = 0; w < 10; ++w) {
            const graft::tensor& weight = t.step.state()[name == "averaged" ? 10 + 3 * w + 2 : w].value;
            double dot = 0;
            for (std::int64_t i = 0; i < weight.elements(); ++i)
                dot += static_cast<double>(weight.data<float>()[i]) * small_steps::hashed(400 + w, static_cast<std::uint64_t>(i));
            CHECK(std::fabs(dot - golden.weights[w]) <= 1e-5 * (1 + std::fabs(golden.weights[w])));
        }
    }
}

TEST_CASE("A batch in parts gives the bits of the whole batch") {
    const graft::graph nets[] = {architecture("lenet"), group_norm_dropout()};
    for (const graft::graph& g : nets)
        for (const std::int64_t n : {5, 8, 16}) {
            CAPTURE(g.name);
            CAPTURE(n);
            graft::step_options o = with(graft::optimizer_kind::adamw);
            o.loss.label_smoothing = 0.1f;
            const std::string whole = three_steps(g, o, n);
            for (const int parts : {2, 4, 8}) {
                CAPTURE(parts);
                o.micro_batches = parts;
                CHECK(three_steps(g, o, n) == whole);
            }
        }
}

TEST_CASE("A part of one sample beside parts of two gives the same to rounding where only the gradients themselves are alike") {
    // A weight of the shape [1, 4], added to rows: its gradient is a sum for two rows, and for one it is that row.
    graft::builder b("net");
    graft::value_id x = b.input("input", graft::dtype::float32, {"N", 4});
    x = b.apply("Div",
                {b.apply("Add", {x, b.constant("place", small_steps::numbered(60, {1, 4}))}), b.constant("spread", small_steps::numbered(61, {1, 4}, 0.2, 1))});
    const graft::value_id y = b.apply(
        "Gemm", {b.apply("Tanh", {x}), b.constant("fc.weight", small_steps::numbered(62, {4, 3})), b.constant("fc.bias", small_steps::numbered(63, {3}))});
    b.output(y, "logits");
    graft::graph g = b.finish();
    graft::value& logits = g.at(y);
    logits.type = graft::dtype::float32, logits.has_shape = true, logits.extents = {graft::shape::unknown, 3};
    g = small_steps::loaded(std::move(g));
    graft::step_options o = with(graft::optimizer_kind::sgd);
    trained whole(g, o);
    o.micro_batches = 4;
    trained parts(g, o);
    for (std::int64_t i = 0; i < 4; ++i) {
        const std::int64_t n = i % 2 ? 8 : 6;
        REQUIRE_MESSAGE(whole.run(i, n), whole.error());
        REQUIRE_MESSAGE(parts.run(i, n), parts.error());
        CHECK(parts.step.loss() == doctest::Approx(whole.step.loss()).epsilon(1e-6));
    }
    REQUIRE(whole.step.state().size() == 8);
    for (std::size_t s = 0; s < 8; ++s)
        for (std::int64_t i = 0; i < whole.step.state()[s].value.elements(); ++i)
            CHECK(std::fabs(parts.step.state()[s].value.data<float>()[i] - whole.step.state()[s].value.data<float>()[i]) <= 1e-6f);
}

TEST_CASE("Every loss in parts gives the bits of the whole batch, and so do clipping and averages") {
    const graft::graph g = group_norm_dropout();
    for (const char* kind : {"cross_entropy", "bce_with_logits", "focal", "mse", "l1", "huber"}) {
        INFO(std::string(kind));
        graft::step_options o = with(graft::optimizer_kind::sgd);
        o.loss.kind = graft::loss_of(kind);
        o.optimizer.clip_norm = 0.05;
        o.optimizer.ema_decay = 0.9;
        const std::string whole = three_steps(g, o, 7);
        o.micro_batches = 4;
        CHECK(three_steps(g, o, 7) == whole);
    }
}

TEST_CASE("A batch in parts takes less memory") {
    const graft::graph g = architecture("lenet");
    graft::step_options o = with(graft::optimizer_kind::sgd);
    graft::executor serial;
    trained whole(g, o);
    o.micro_batches = 8;
    trained parts(g, o);
    const graft::step_memory a = whole.step.prepare(whole.batch_shape(64), serial), b = parts.step.prepare(parts.batch_shape(64), serial);
    MESSAGE("bytes of a step of LeNet on 64 pictures: " << a.activations << " whole, " << b.activations << " in 8 parts");
    CHECK(b.activations < a.activations * 6 / 10);  // what kernels of convolutions work in is of the same size for any batch
    CHECK(b.state == a.state);
}

TEST_CASE("A network that looks across the batch is not computed in parts") {
    graft::step_options o = with(graft::optimizer_kind::sgd);
    o.micro_batches = 2;
    trained t(architecture("resnet20", 16), o);
    CHECK(!t.run(0, 4));
    CHECK(t.last.error().code() == graft::errc::memory_budget);
    o.batch_norm = false;
    trained by_running_statistics(architecture("resnet20", 16), o);
    CHECK_MESSAGE(by_running_statistics.run(0, 4), by_running_statistics.error());
    // Convolutions that sum transformed tiles over the batch are left out by `exact`: what remains has the same bits.
    o.exact = true;
    const graft::graph g = architecture("resnet20", 16);
    const std::string parts = three_steps(g, o, 6);
    o.micro_batches = 1;
    CHECK(three_steps(g, o, 6) == parts);
}

TEST_CASE("Computing activations again changes no bit and takes less memory") {
    struct {
        const char* name;
        std::int64_t side, n;
    } const nets[] = {{"lenet", 0, 5}, {"resnet20", 16, 4}, {"mobilenet_v2", 64, 2}};
    for (const auto& net : nets) {
        INFO(std::string(net.name));
        const graft::graph g = architecture(net.name, net.side);
        graft::step_options o = with(graft::optimizer_kind::sgd);
        const std::string kept = three_steps(g, o, net.n);
        o.recompute = true;
        CHECK(three_steps(g, o, net.n) == kept);
    }
    const graft::graph g = group_norm_dropout();
    graft::step_options o = with(graft::optimizer_kind::sgd);
    const std::string kept = three_steps(g, o, 4);
    o.recompute = true;
    CHECK(three_steps(g, o, 4) == kept);
    o.micro_batches = 2;
    CHECK(three_steps(g, o, 4) == kept);
}

TEST_CASE("Computing activations again saves memory in deep networks") {
    const struct {
        const char* name;
        std::int64_t n;
    } nets[] = {{"resnet20", 16}, {"mobilenet_v2", 16}};
    for (const auto& net : nets) {
        INFO(std::string(net.name));
        const graft::graph g = architecture(net.name);
        graft::step_options o = with(graft::optimizer_kind::sgd);
        graft::executor serial;
        trained keeps(g, o);
        o.recompute = true;
        trained again(g, o);
        const graft::step_memory a = keeps.step.prepare(keeps.batch_shape(net.n), serial), b = again.step.prepare(again.batch_shape(net.n), serial);
        MESSAGE(std::string(net.name) << " on " << net.n << " pictures: " << a.activations << " bytes, computing again " << b.activations);
        CHECK(b.activations < a.activations * 3 / 4);
    }
}

TEST_CASE("Threads change no bit of a step") {
    const graft::graph nets[] = {architecture("lenet"), architecture("resnet20", 16), group_norm_dropout()};
    for (const graft::graph& g : nets) {
        CAPTURE(g.name);
        for (const graft::optimizer_kind kind : {graft::optimizer_kind::sgd, graft::optimizer_kind::adamw}) {
            const graft::step_options o = with(kind);
            const std::string one = three_steps(g, o, 9, 1);
            CHECK(three_steps(g, o, 9, 2) == one);
            CHECK(three_steps(g, o, 9, 3) == one);
        }
    }
}

TEST_CASE("The state's order is weights, statistics, and what the optimiser keeps weight by weight") {
    const graft::graph g = architecture("resnet20", 16);
    graft::step_options o = with(graft::optimizer_kind::adam);
    o.optimizer.ema_decay = 0.99;
    const trained t(g, o), other(g, o);
    const std::vector<graft::training_state>& s = t.step.state();
    const std::size_t weights = graft::parameters_of(g).size();
    std::vector<graft::value_id> ids;
    for (const graft::parameter& p : graft::parameters_of(g)) ids.push_back(p.id);
    const std::size_t statistics = graft::running_statistics(g, ids).size();
    REQUIRE(s.size() == weights * 4 + statistics);
    for (std::size_t w = 0; w < weights; ++w) {
        CHECK(s[weights + statistics + 3 * w].name == s[w].name + ".exp_avg");
        CHECK(s[weights + statistics + 3 * w + 1].name == s[w].name + ".exp_avg_sq");
        CHECK(s[weights + statistics + 3 * w + 2].name == s[w].name + ".ema");
        CHECK(std::memcmp(s[weights + statistics + 3 * w + 2].value.raw(), s[w].value.raw(), s[w].value.bytes()) == 0);
    }
    for (std::size_t i = 0; i < s.size(); ++i) CHECK(s[i].name == other.step.state()[i].name);
}

TEST_CASE("A loss that is not finite names what was first, and the weights stay") {
    const graft::graph g = architecture("lenet");
    for (const int parts : {1, 4}) {
        CAPTURE(parts);
        graft::step_options o = with(graft::optimizer_kind::sgd);
        o.micro_batches = parts;
        SUBCASE("a picture") {
            trained t(g, o);
            graft::tensor x = small_steps::numbered(1, t.batch_shape(8));
            x.data<float>()[5 * 784] = std::numeric_limits<float>::quiet_NaN();
            const std::string before = t.bits().substr(0, 1000);
            CHECK(!t.run(3, x, 1, 0.1));
            CHECK(t.last.error().code() == graft::errc::train_diverged);
            CHECK(t.last.error().where() == "step 3");
            CHECK(t.error().find("pictures hold NaN") != std::string::npos);
            CHECK(t.bits().substr(0, 1000) == before);
        }
        SUBCASE("a weight") {
            trained t(g, o);
            t.step.state()[2].value.data<float>()[7] = std::numeric_limits<float>::infinity();
            CHECK(!t.run(0, 8));
            CHECK(t.error().find("'" + t.step.state()[2].name + "' holds") != std::string::npos);
        }
        SUBCASE("a value on the way") {
            trained t(g, o);
            // The second convolution's sums go past what float32 holds.
            for (graft::training_state& s : t.step.state())
                if (s.name == "conv2.weight")
                    for (std::int64_t i = 0; i < s.value.elements(); ++i) s.value.data<float>()[i] = 3e38f;
            std::vector<std::string> before;
            for (const graft::training_state& s : t.step.state()) before.emplace_back(reinterpret_cast<const char*>(s.value.raw()), s.value.bytes());
            CHECK(!t.run(0, 8));
            INFO(t.error());
            CHECK(t.error().find("conv2") != std::string::npos);
            for (std::size_t i = 0; i < before.size(); ++i) {
                const graft::tensor& now = t.step.state()[i].value;
                CHECK(std::memcmp(before[i].data(), now.raw(), now.bytes()) == 0);
            }
        }
    }
}

TEST_CASE("A gradient that is not finite under a finite loss stops the step that made it, and names the weight") {
    // The square root of 0 has no slope: 0 times infinity reaches the convolution.
    graft::builder b("net", 5);
    graft::conv2d_options conv;
    conv.kernel = 3, conv.name = "conv1";
    graft::value_id x = b.conv2d(b.input("input", graft::dtype::float32, {"N", 3, 8, 8}), 4, conv);
    const float nothing = 0;
    x = b.apply("Mul", {x, b.constant("nothing", graft::tensor::from(&nothing, {}))});
    x = b.apply("Flatten", {b.apply("Sqrt", {x})});
    x = b.apply("Gemm", {x, b.constant("fc.weight", small_steps::numbered(72, {5, 144}, 0.05)), b.constant("fc.bias", small_steps::numbered(73, {5}))},
                {graft::integer_attribute("transB", 1)});
    b.output(x, "logits");
    graft::graph g = b.finish();
    graft::value& logits = g.at(x);
    logits.type = graft::dtype::float32, logits.has_shape = true, logits.extents = {graft::shape::unknown, 5};
    g = small_steps::loaded(std::move(g));
    for (const graft::optimizer_kind kind : {graft::optimizer_kind::sgd, graft::optimizer_kind::adamw})
        for (const int parts : {1, 4}) {
            CAPTURE(parts);
            graft::step_options o = with(kind);
            o.micro_batches = parts;
            trained t(g, o);
            CHECK(!t.run(7, 8));
            INFO(t.error());
            CHECK(std::isfinite(t.step.loss()));
            CHECK(t.last.error().code() == graft::errc::train_diverged);
            CHECK(t.last.error().where() == "step 7");
            CHECK(t.error().find("'conv1.") != std::string::npos);
        }
}

#if defined(__linux__) && !defined(GRAFT_TEST_SANITIZED)
namespace {

std::string state_of(const trained& t) {
    std::string all;
    for (const graft::training_state& s : t.step.state()) all.append(reinterpret_cast<const char*>(s.value.raw()), s.value.bytes());
    return all;
}

}  // namespace

TEST_CASE("A step that finds no memory is memory.oom, changes nothing, and others follow it") {
    const graft::graph g = architecture("lenet");
    for (const int parts : {1, 2}) {
        CAPTURE(parts);
        const pid_t child = ::fork();
        if (child == 0) {
            graft::step_options o = with(graft::optimizer_kind::adamw);
            o.micro_batches = parts;
            trained t(g, o), same(g, o);
            const graft::tensor many = small_steps::numbered(1, t.batch_shape(4096));
            rlimit before{};
            if (!t.run(0, 8) || !same.run(0, 8)) ::_exit(2);
            if (!limit_memory(rlim_t(32) << 20, before)) ::_exit(77);
            const std::string state = state_of(t);
            for (int attempt = 0; attempt < 2; ++attempt) {
                if (t.run(1, many, 1, 0.01) || t.last.error().code() != graft::errc::memory_oom) ::_exit(3);
                if (t.error().find("bytes could not be had") == std::string::npos) ::_exit(4);
            }
            if (state_of(t) != state) ::_exit(5);
            // A smaller batch in the same process; then the same one where there is room again.
            if (!t.run(1, 8) || !same.run(1, 8) || t.bits() != same.bits()) ::_exit(6);
            if (::setrlimit(RLIMIT_AS, &before) != 0 || !t.run(2, many, 1, 0.01) || !same.run(2, many, 1, 0.01)) ::_exit(7);
            ::_exit(t.bits() == same.bits() ? 0 : 8);
        }
        int ended = 0;
        REQUIRE(::waitpid(child, &ended, 0) == child);
        REQUIRE(WIFEXITED(ended));
        if (WEXITSTATUS(ended) == 77) {
            say_skipped("memory cannot be limited here");
            return;
        }
        CHECK(WEXITSTATUS(ended) == 0);
    }
}
#endif

TEST_CASE("Loss scaling changes no step but those whose gradients overflow, and these change nothing and halve the scale") {
    const graft::graph g = small_steps::architecture("lenet");
    for (const int parts : {1, 2}) {
        CAPTURE(parts);
        graft::step_options plain = with(graft::optimizer_kind::adamw), scaled = plain;
        plain.micro_batches = scaled.micro_batches = parts;
        scaled.loss_scaling = true;
        trained a(g, plain), b(g, scaled);
        for (std::int64_t i = 0; i < 3; ++i) {
            REQUIRE(a.run(i, 8));
            REQUIRE(b.run(i, 8));
            CHECK(b.step.loss() == doctest::Approx(a.step.loss()).epsilon(1e-6));
        }
        CHECK(b.step.scaling().factor == 65536);
        CHECK(b.step.scaling().steps == 3);
        for (std::size_t s = 0; s < a.step.state().size(); ++s)
            for (std::int64_t i = 0; i < a.step.state()[s].value.elements(); ++i)
                REQUIRE(b.step.state()[s].value.data<float>()[i] == doctest::Approx(a.step.state()[s].value.data<float>()[i]).epsilon(1e-4));

        const auto state_of = [](const trained& t) {
            std::string all;
            for (const graft::training_state& s : t.step.state()) all.append(reinterpret_cast<const char*>(s.value.raw()), s.value.bytes());
            return all;
        };
        // Bright pictures make gradients that are far larger than the loss, so that these overflow first.
        const graft::tensor bright = small_steps::numbered(7, b.batch_shape(8), 30);
        std::string before;
        double factor = 1e34;
        for (; b.step.scaling().skipped == 0 && factor < 3e38; factor *= 2) {
            b.step.scaling() = {factor, 7, 0};
            before = state_of(b);
            REQUIRE(b.run(3, bright, 1, 0.0001));
        }
        CHECK(std::isfinite(b.step.loss()));
        CHECK(b.step.scaling().skipped == 1);
        CHECK(b.step.scaling().factor == factor / 4);
        CHECK(b.step.scaling().steps == 0);
        CHECK(state_of(b) == before);
    }
}

TEST_CASE("A running statistic that is a weight as well cannot be trained, and the error says what can be done") {
    graft::builder b("net", 1);
    const graft::value_id x = b.input("x", graft::dtype::float32, {"N", 4}), shared = b.constant("shared", small_steps::numbered(1, {4}, 0.2, 1));
    const graft::value_id scale = b.constant("scale", small_steps::numbered(2, {4})), mean = b.constant("mean", small_steps::numbered(3, {4}));
    const graft::value_id y = b.apply("BatchNormalization", {x, scale, shared, mean, shared});
    b.output(y, "logits");
    const graft::graph g = small_steps::loaded(b.finish());
    for (const bool frozen : {false, true}) {
        graft::step_options o;
        o.batch_norm = !frozen;
        auto step = graft::training_step::make(g, graft::logits_of(g), graft::parameters_of(g), o);
        REQUIRE(step.ok());
        graft::pool_executor pool(1);
        const auto planned = step->prepare({2, 4}, pool);
        CHECK(planned.ok() == frozen);
        if (frozen) continue;
        CHECK(planned.error().code() == graft::errc::op_unsupported);
        CHECK(planned.error().detail().find("--batch-norm frozen") != std::string::npos);
    }
}

TEST_CASE("A network that asks for a second input is refused, whether it comes before the first or behind it") {
    for (const bool before : {false, true}) {
        graft::builder b("net", 1);
        graft::value_id first = b.input("first", graft::dtype::float32, {"N", 4}), second = b.input("second", graft::dtype::float32, {"N", 4});
        b.output(b.linear(before ? second : b.add(first, second), 3), "logits");
        const graft::graph g = small_steps::loaded(b.finish());
        const auto step = graft::training_step::make(g, graft::logits_of(g), graft::parameters_of(g), {});
        REQUIRE(!step.ok());
        CHECK(step.error().code() == graft::errc::input_name);
        CHECK(step.error().detail().find("second") != std::string::npos);
    }
}
