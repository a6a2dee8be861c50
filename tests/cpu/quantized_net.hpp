// What the tests of quantised graphs share: graphs with pairs, and their codes held against the reference kernels.
#pragma once

#include "../emulated_products.hpp"

#include <doctest/doctest.h>

#include <graft/cpu/quantized.hpp>
#include <graft/graft.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace quantized_net {

using graft::dtype;
using graft::tensor;
using graft::value_id;

inline double number(std::int64_t i) { return static_cast<double>((i * 7919 + 13) % 1009) / 504.5 - 1; }
inline tensor made(dtype type, const graft::shape& extents, double scale, double shift = 0) {
    tensor t = tensor::make(type, extents).value();
    for (std::int64_t i = 0; i < t.elements(); ++i) {
        const double v = number(i) * scale + shift, whole = graft::is_float(type) ? v : std::nearbyint(v);
        graft::store_from_double(type, t.raw(), i, 1, &whole);
    }
    return t;
}

struct net {
    graft::builder b{"net", 1};
    int names = 0;
    value_id constant(tensor t) { return b.constant("c" + std::to_string(++names), std::move(t)); }
    value_id scalar(dtype type, double v) {
        tensor t = tensor::make(type, graft::shape{}).value();
        graft::store_from_double(type, t.raw(), 0, 1, &v);
        return constant(std::move(t));
    }
    value_id quantize(value_id x, double scale, double zero, dtype type = dtype::uint8) {
        return b.apply("QuantizeLinear", {x, scalar(dtype::float32, scale), scalar(type, zero)});
    }
    value_id dequantize(value_id x, double scale, double zero, dtype type = dtype::uint8) {
        return b.apply("DequantizeLinear", {x, scalar(dtype::float32, scale), scalar(type, zero)});
    }
    // A weight with a scale for each output channel.
    value_id weight(const graft::shape& extents, int axis = 0) {
        return b.apply("DequantizeLinear",
                       {constant(made(dtype::int8, extents, 120)), constant(made(dtype::float32, {extents[axis]}, 0.002, 0.006)),
                        constant(made(dtype::int8, {extents[axis]}, 0))},
                       {graft::integer_attribute("axis", axis)});
    }
    value_id bias(std::int64_t channels) { return dequantize(constant(made(dtype::int32, {channels}, 9000)), 0.0001, 0, dtype::int32); }
};

struct answers {
    tensor y;
    int integers = 0;   // convolutions and sums in integers
    int functions = 0;  // products, means and functions of codes
    int reals = 0;      // codes that become reals
    int cuts = 0;       // parts of images, where they lie in blocks
};
inline answers run(const graft::graph& g, const tensor& x, void (*change)(graft::load_options&) = nullptr) {
    graft::load_options options;
    options.device = "cpu";
    if (change) change(options);
    auto m = graft::load(g, options);
    REQUIRE_MESSAGE(m.ok(), std::string(m.ok() ? "" : m.error().what()));
    graft::session s(*m);
    auto y = s.run(x);
    REQUIRE_MESSAGE(y.ok(), std::string(y.ok() ? "" : y.error().what()));
    answers a;
    a.y = *y;
    auto places = m->placements({});
    REQUIRE(places.ok());
    for (const graft::placement& p : *places) {
        a.integers += p.op_type == "graft.QuantizedConv" || p.op_type == "graft.QuantizedSum";
        for (const char* op : {"graft.QuantizedProduct", "graft.QuantizedGlobalAveragePool", "graft.LookupTable"}) a.functions += p.op_type == op;
        a.reals += p.op_type == "DequantizeLinear";
        a.cuts += p.op_type == "graft.SliceChannels";
    }
    return a;
}
// Whether pairs are computed in integers here: by products of 16 bits, or of bytes.
inline bool pairs_pay() {
    const graft::cpu::isa set = graft::cpu::active_isa().value();
    return graft::cpu::pairs_of_16_bits_pay(set) || graft::cpu::multiplies_bytes(set);
}

// With the products of bytes that machines have, whatever this one has.
template <class F>
void by_every_product(const F& f) {
    for (const char* by : {"avx512_vnni", "amx", ""}) {
        INFO("products of ", std::string(*by ? by : "this machine"));
        const emulated_products with(by);
        f();
    }
}

// Codes may differ by a step where sums of reals round over a half, not often; by more where others are made of these.
inline answers check_against_reference(graft::builder& b, value_id y, const tensor& x, int integers, int most = 1) {
    b.output(y, "y");
    auto g = b.finish();
    REQUIRE_MESSAGE(g.ok(), std::string(g.ok() ? "" : g.error().what()));
    const answers fast = run(*g, x), reference = run(*g, x, [](graft::load_options&o) { o.reference = true; });
    const answers exact = run(*g, x, [](graft::load_options& o) { o.exact = true; });
    CHECK(fast.integers == integers);
    CHECK(reference.integers == 0);
    CHECK(exact.integers == 0);
    REQUIRE(fast.y.shape() == reference.y.shape());
    std::int64_t differ = 0, values = fast.y.elements();
    double low = 1e9, high = -1e9;
    for (std::int64_t i = 0; i < values; ++i) {
        const double a = graft::element_as_double(fast.y.type(), fast.y.raw(), i), r = graft::element_as_double(reference.y.type(), reference.y.raw(), i);
        REQUIRE(std::fabs(a - r) <= most);
        differ += a != r;
        low = std::min(low, r), high = std::max(high, r);
    }
    CHECK(high - low > 20);  // codes of many values, not one bound
    if (most == 1) CHECK(differ * 100 <= values);
    return fast;
}

}  // namespace quantized_net
