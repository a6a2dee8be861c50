// Resize by the CPU's kernels beside the reference kernels: every mode, in planes, in blocks of channels, and on codes.
#include "../exec/nets.hpp"
#include "quantized_net.hpp"

#include <doctest/doctest.h>

#include <graft/graft.hpp>

#include <string>
#include <utility>
#include <vector>

namespace {

using graft::attribute;
using graft::dtype;
using graft::value_id;

struct resize_of {
    std::vector<float> scales;
    std::vector<std::int64_t> sizes;  // where there are no scales
    std::vector<attribute> attributes;
};

value_id input(graft::builder& b, const graft::shape& s) {
    return s.rank() == 3 ? b.input("x", dtype::float32, {s[0], s[1], s[2]}) : b.input("x", dtype::float32, {s[0], s[1], s[2], s[3]});
}
value_id resized(graft::builder& b, value_id x, const resize_of& how) {
    const value_id scales = how.scales.empty() ? graft::no_value : b.constant("scales", nets::floats(how.scales));
    const value_id sizes = how.sizes.empty() ? graft::no_value : b.constant("sizes", nets::integers(how.sizes));
    std::vector<value_id> inputs = {x, graft::no_value, scales};
    if (sizes != graft::no_value) inputs.push_back(sizes);
    return b.apply("Resize", std::move(inputs), how.attributes);
}

// Of one tap: what it rounds is a few units in the last place.
value_id convolved(graft::builder& b, value_id x, std::int64_t channels, std::int64_t made) {
    nets::numbers random{4};
    const value_id w = b.constant("w" + std::to_string(made), nets::random_tensor({made, channels, 1, 1}, random, -0.2, 0.2));
    return b.apply("Conv", {x, w});
}

// How many nodes of the operator run by the CPU's own kernels: `note` is a part of what these are called.
int kernels(const graft::model& m, const char* op, const char* note) {
    int count = 0;
    for (const graft::placement& p : m.placements({}).value()) count += p.op_type == op && p.kernel.find(note) != std::string::npos;
    return count;
}

graft::model load(const graft::graph& g, bool reference) {
    graft::load_options options;
    options.device = "cpu";
    options.reference = reference;
    return graft::load(g, options).value();
}

const std::vector<std::vector<attribute>> modes() {
    using graft::integer_attribute;
    using graft::string_attribute;
    std::vector<std::vector<attribute>> all;
    for (const char* place : {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"})
        for (const char* mode : {"nearest", "linear", "cubic"})
            all.push_back({string_attribute("coordinate_transformation_mode", place), string_attribute("mode", mode)});
    for (const char* rounding : {"round_prefer_ceil", "floor", "ceil"}) all.push_back({string_attribute("nearest_mode", rounding)});
    for (const char* mode : {"linear", "cubic"}) {
        all.push_back({string_attribute("mode", mode), integer_attribute("antialias", 1)});
        all.push_back({string_attribute("mode", mode), integer_attribute("exclude_outside", 1)});
    }
    return all;
}

}  // namespace

TEST_CASE("resize: along one axis or two, in every mode, as the reference kernels resize") {
    const struct {
        graft::shape x;
        resize_of how;
        bool taken;
    } cases[] = {
        {{2, 3, 7, 5}, {{1, 1, 2, 2}, {}, {}}, true},     {{2, 3, 7, 5}, {{}, {2, 3, 4, 3}, {}}, true},  {{1, 2, 9, 40}, {{1, 1, 3.4f, 1}, {}, {}}, true},
        {{1, 2, 9, 40}, {{1, 1, 1, 0.3f}, {}, {}}, true}, {{2, 3, 31}, {{1, 1, 2.6f}, {}, {}}, true},    {{3, 8, 6, 4}, {{1, 2, 0.5f, 1}, {}, {}}, true},
        {{1, 2, 300, 3}, {{1, 1, 4, 7}, {}, {}}, true},   {{2, 3, 7, 5}, {{1, 2, 2, 2}, {}, {}}, false},  // three axes
        {{2, 3, 7, 5}, {{1, 2, 1, 2}, {}, {}}, false},                                                    // apart
        {{1, 1, 4, 40}, {{}, {1, 1, 400, 4}, {}}, false},                                                 // more between the axes than on either side
        {{2, 3, 7, 5}, {{1, 1, 1, 1}, {}, {}}, false},                                                    // neither
    };
    for (const auto& one : cases)
        for (const std::vector<attribute>& mode : modes()) {
            resize_of how = one.how;
            how.attributes = mode;
            INFO(graft::text(one.x), " ", mode[0].string, " ", mode.size() > 1 ? mode[1].string : "");
            graft::builder b{"resize", 1};
            b.output(resized(b, input(b, one.x), how), "y");
            const graft::graph g = b.finish();
            nets::numbers random{5};
            const graft::tensor x = nets::random_tensor(one.x, random);
            const graft::model fast = load(g, false), slow = load(g, true);
            const auto want = nets::run(slow, {x}), got = nets::run(fast, {x}, 1), same = nets::run(fast, {x}, 3);
            CHECK(got.error == want.error);
            if (!want.error.empty()) continue;
            CHECK(nets::same_bits(got, same));
            CHECK(difference(got.outputs[0], want.outputs[0]) < 1e-6);
            CHECK(kernels(fast, "Resize", "reference") == (one.taken ? 0 : 1));
        }
}

TEST_CASE("resize: the nearest of elements of one to eight bytes") {
    for (const dtype type : {dtype::uint8, dtype::int16, dtype::float16, dtype::int32, dtype::float64})
        for (const float scale : {2.0f, 3.0f, 0.6f, 1.7f}) {
            graft::builder b{"resize", 1};
            b.output(resized(b, b.input("x", type, {2, 3, 11, 13}), {{1, 1, scale, scale}, {}, {}}), "y");
            const graft::graph g = b.finish();
            nets::numbers random{6};
            const graft::tensor x = nets::random_tensor({2, 3, 11, 13}, random, 0, 100, type);
            const graft::model fast = load(g, false);
            const auto want = nets::run(load(g, true), {x}), got = nets::run(fast, {x});
            CHECK(nets::same_bits(got, want));
            CHECK(kernels(fast, "Resize", "nearest") == 1);
        }
}

TEST_CASE("resize: between convolutions images stay in blocks") {
    for (const char* mode : {"nearest", "linear", "cubic"})
        for (const std::vector<float>& scales : {std::vector<float>{1, 1, 2, 2}, std::vector<float>{1, 1, 1.5f, 1}, std::vector<float>{1, 1, 0.7f, 3}}) {
            INFO(std::string(mode));
            graft::builder b{"resize", 1};
            const value_id x = b.input("x", dtype::float32, {2, 16, 9, 10});
            const value_id y = resized(b, convolved(b, x, 16, 21), {scales, {}, {graft::string_attribute("mode", mode)}});
            b.output(convolved(b, y, 21, 24), "y");
            const graft::graph g = b.finish();
            nets::numbers random{7};
            const graft::tensor input = nets::random_tensor({2, 16, 9, 10}, random);
            const graft::model fast = load(g, false);
            const auto want = nets::run(load(g, true), {input}), got = nets::run(fast, {input}, 2);
            CHECK(got.error == "");
            CHECK(difference(got.outputs[0], want.outputs[0]) < 1e-6);
            CHECK(kernels(fast, "Resize", "on blocks") == 1);
        }
}

TEST_CASE("resize: what a caller reads is resized in planes") {
    graft::builder b{"resize", 1};
    const value_id x = b.input("x", dtype::float32, {1, 16, 9, 10});
    b.output(resized(b, convolved(b, x, 16, 21), {{1, 1, 4, 4}, {}, {graft::string_attribute("mode", "linear")}}), "y");
    const graft::model fast = load(b.finish().value(), false);
    CHECK(kernels(fast, "Resize", "rows, then columns") == 1);
    CHECK(kernels(fast, "Resize", "on blocks") == 0);
}

TEST_CASE("resize: codes stay in lanes between convolutions of 8 bits") {
    quantized_net::by_every_product([] {
        const auto build = [](quantized_net::net& n) {
            const auto conv = [&](value_id of, std::int64_t channels, std::int64_t made) {
                const value_id y = n.b.apply("Conv", {of, n.weight({made, channels, 3, 3}), n.bias(made)}, {graft::integers_attribute("pads", {1, 1, 1, 1})});
                return n.quantize(y, 0.03, 120);
            };
            const value_id x = n.dequantize(n.quantize(n.b.input("x", dtype::float32, {2, 16, 7, 5}), 0.01, 128), 0.01, 128);
            const value_id y = resized(n.b, n.dequantize(conv(x, 16, 20), 0.03, 120), {{1, 1, 2, 2}, {}, {}});
            return conv(n.dequantize(n.quantize(y, 0.03, 120), 0.03, 120), 20, 24);
        };
        quantized_net::net n;
        const int integers = quantized_net::pairs_pay() ? 2 : 0;
        quantized_net::check_against_reference(n.b, build(n), quantized_net::made(dtype::float32, {2, 16, 7, 5}, 1.1), integers, 2);
        if (!integers) return;
        quantized_net::net again;
        again.b.output(build(again), "y");
        const graft::model m = load(again.b.finish().value(), false);
        const bool lanes = graft::cpu::multiplies_bytes(graft::cpu::active_isa().value());
        CHECK(kernels(m, "Resize", lanes ? "nearest, on blocks" : "nearest") == 1);
    });
}
