// Element types: names, sizes, and the narrow floats code by code against numpy and ml_dtypes (scripts/golden/floats.py).
#include "../ops/problems.hpp"

#include <graft/core/dtype.hpp>
#include <graft/tensor/convert.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <string>

using graft::dtype;

namespace {

struct checksum {
    std::uint64_t state = 0xcbf29ce484222325ull;
    void add(std::uint64_t value, int bytes) {
        for (int i = 0; i < bytes; ++i) state = (state ^ (value >> 8 * i & 255)) * 0x100000001b3ull;
    }
};

// Signs and exponents in [low, high) at random; some with few bits of mantissa, so that ties occur.
double next_double(problems::numbers& random, int low, int high) {
    const std::uint64_t a = random.next(), m = random.next() >> 12;
    const int bits = a >> 60 < 4 ? 4 : a >> 60 < 8 ? 12 : 52;
    const double mantissa = 1 + std::ldexp(static_cast<double>(m >> (52 - bits)), -bits);
    const double v = std::ldexp(mantissa, low + static_cast<int>(a % static_cast<unsigned>(high - low)));
    return a >> 40 & 1 ? -v : v;
}

double decode(dtype type, std::uint32_t code) {
    const auto narrow = static_cast<std::uint16_t>(code);
    const auto byte = static_cast<std::uint8_t>(code);
    double value = 0;
    graft::load_as_double(type, graft::size_of(type) == 2 ? static_cast<const void*>(&narrow) : &byte, 0, 1, &value);
    return value;
}
std::uint32_t encode(dtype type, double value) {
    std::uint16_t narrow = 0;
    std::uint8_t byte = 0;
    graft::store_from_double(type, graft::size_of(type) == 2 ? static_cast<void*>(&narrow) : &byte, 0, 1, &value);
    return graft::size_of(type) == 2 ? narrow : byte;
}

const struct {
    dtype type;
    int low, high;
    std::uint64_t decoded, encoded;
} goldens[] = {
    {dtype::float16, -27, 17, 0x1f87f165810ea7c5ull, 0x81996d3d4dfd6fefull},     {dtype::bfloat16, -140, 128, 0xcf8e09175d8f5ba5ull, 0x4622505ddde52386ull},
    {dtype::float8e4m3fn, -12, 9, 0xdad1d9c50f749ca5ull, 0xe352c8c760dec2b1ull}, {dtype::float8e4m3fnuz, -13, 8, 0xf51851cb11c63018ull, 0xa06e32edb79146d4ull},
    {dtype::float8e5m2, -19, 16, 0x6c1e56b6fb09c905ull, 0xaac2f3358f0105c3ull},  {dtype::float8e5m2fnuz, -20, 16, 0x94ae6fc493d49818ull, 0xa380da6459c19fc8ull},
};

}  // namespace

TEST_CASE("every code of the narrow floats means what numpy says, and comes back as the same code") {
    for (const auto& g : goldens) {
        INFO(std::string(graft::name(g.type)));
        checksum sum;
        int lost = 0;
        const int bytes = static_cast<int>(graft::size_of(g.type));
        for (std::uint32_t code = 0; code < 1u << 8 * bytes; ++code) {
            const double value = decode(g.type, code);
            sum.add(std::isnan(value) ? 0x7fc00000u : graft::bit_cast<std::uint32_t>(static_cast<float>(value)), 4);
            const std::uint32_t again = encode(g.type, value);
            // Infinity saturates in one byte, as ONNX's Cast has it.
            lost += std::isnan(value)                 ? !std::isnan(decode(g.type, again))
                    : std::isinf(value) && bytes == 1 ? !std::isfinite(decode(g.type, again))
                                                      : again != code;
        }
        CHECK(sum.state == g.decoded);
        CHECK(lost == 0);
    }
}

TEST_CASE("doubles are rounded once, to the nearest code, ties to the even one") {
    for (const auto& g : goldens) {
        INFO(std::string(graft::name(g.type)));
        checksum sum;
        problems::numbers random{42};
        for (int i = 0; i < 20000; ++i) sum.add(encode(g.type, next_double(random, g.low, g.high)), static_cast<int>(graft::size_of(g.type)));
        CHECK(sum.state == g.encoded);
    }
    // Half a step over 1 and a hair: rounding through float would lose the hair.
    CHECK(graft::to_float16(1 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40)).bits == 0x3c01);
    CHECK(graft::to_float16(1 + std::ldexp(1.0, -11)).bits == 0x3c00);
    CHECK(graft::to_bfloat16(1 + std::ldexp(1.0, -8) + std::ldexp(1.0, -40)).bits == 0x3f81);
    CHECK(graft::to_bfloat16(1 + std::ldexp(1.0, -8)).bits == 0x3f80);
    CHECK(graft::to_float16(65519.999).bits == 0x7bff);
    CHECK(graft::to_float16(65520).bits == 0x7c00);
    CHECK(graft::to_float16(-HUGE_VAL).bits == 0xfc00);
    CHECK(graft::to_bfloat16(1e300).bits == 0x7f80);
}

TEST_CASE("one byte either saturates or does not, as Cast asks") {
    CHECK(graft::double_to_small_float(dtype::float8e4m3fn, 1000, true) == 0x7e);
    CHECK(graft::double_to_small_float(dtype::float8e4m3fn, 1000, false) == 0x7f);
    CHECK(graft::double_to_small_float(dtype::float8e5m2, -1e9, true) == 0xfb);
    CHECK(graft::double_to_small_float(dtype::float8e5m2, -1e9, false) == 0xfc);
    CHECK(graft::double_to_small_float(dtype::float8e4m3fnuz, -1e9, false) == 0x80);
    CHECK(graft::double_to_small_float(dtype::float4e2m1, 5.0, true) == 6);
    CHECK(graft::double_to_small_float(dtype::float4e2m1, -100, true) == 15);
    for (int code = 0; code < 16; ++code)
        if (code != 8)
            CHECK(graft::double_to_small_float(dtype::float4e2m1, graft::small_float_to_double(dtype::float4e2m1, static_cast<std::uint8_t>(code)), true) ==
                  code);
    for (int code = 0; code < 255; ++code)
        CHECK(graft::double_to_small_float(dtype::float8e8m0, graft::small_float_to_double(dtype::float8e8m0, static_cast<std::uint8_t>(code)), true) == code);
}

TEST_CASE("every element type has a name of its own, a size and a kind") {
    std::set<std::string> names;
    for (int i = 0; i <= 26; ++i) {
        const auto type = static_cast<dtype>(i);
        names.insert(graft::name(type));
        CHECK(!(graft::is_float(type) && graft::is_integer(type)));
        if (graft::is_unsigned(type)) CHECK(graft::is_integer(type));
        const bool held = i != 0 && type != dtype::string && type != dtype::complex64 && type != dtype::complex128;
        CHECK((graft::size_of(type) != 0) == held);
        CHECK(graft::file_bits(type) <= 8 * graft::size_of(type));
    }
    CHECK(names.size() == 27);
    CHECK(graft::size_of(static_cast<dtype>(27)) == 0);
    CHECK(std::string(graft::name(static_cast<dtype>(200))) == "undefined");
    CHECK(graft::file_bits(dtype::int4) == 4);
    CHECK(graft::file_bits(dtype::uint2) == 2);
    CHECK(!graft::is_integer(dtype::boolean));
}
