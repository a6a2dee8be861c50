// Random numbers by counter, against the known answers of the Random123 library and against their own moments.
#include <graft/core/rng.hpp>

#include <doctest/doctest.h>

#include <cmath>

TEST_CASE("Philox gives the published answers") {
    const graft::random_stream zeros(0);
    CHECK(zeros.bits(0) == 0xe169c58d6627e8d5ull);
    CHECK(zeros.bits(1) == 0x9b00dbd8bc57ac4cull);
    // Counter and key from the digits of pi; `normal` sets the top bit of the counter, which these digits have.
    const graft::random_stream pi(0x299f31d0a4093822ull, 0x0370734413198a2eull);
    const double u = static_cast<double>(0x94fdccebd16cfe09ull >> 11) / 9007199254740992.0;
    const double v = static_cast<double>(0x24126ea15001e420ull >> 11) / 9007199254740992.0;
    CHECK(pi.normal(0x05a308d3243f6a88ull) == doctest::Approx(std::sqrt(-2 * std::log1p(-u)) * std::cos(2 * 3.14159265358979323846 * v)).epsilon(1e-12));
}

TEST_CASE("streams are uniform, normal, and differ from each other") {
    const graft::random_stream a(1), b(1, 1), c(2);
    const int n = 100000;
    double mean = 0, square = 0, normal_mean = 0, normal_square = 0, product = 0;
    int tenths[10] = {};
    bool inside = true;
    for (int i = 0; i < n; ++i) {
        const auto at = static_cast<std::uint64_t>(i);
        const double u = a.uniform(at), z = a.normal(at);
        inside = inside && u >= 0 && u < 1;
        mean += u / n;
        square += u * u / n;
        normal_mean += z / n;
        normal_square += z * z / n;
        product += (u - 0.5) * (b.uniform(at) - 0.5) / n + (u - 0.5) * (c.uniform(at) - 0.5) / n;
        ++tenths[a.below(at, 10)];
    }
    CHECK(inside);
    CHECK(std::fabs(mean - 0.5) < 0.005);
    CHECK(std::fabs(square - 1.0 / 3) < 0.005);
    CHECK(std::fabs(normal_mean) < 0.02);
    CHECK(std::fabs(normal_square - 1) < 0.03);
    CHECK(std::fabs(product) < 0.003);
    for (int count : tenths) CHECK(std::abs(count - n / 10) < 500);
}

TEST_CASE("a number of a stream does not depend on what was asked before") {
    const graft::random_stream s(42, 7);
    const std::uint64_t late = s.bits(123456789), early = s.bits(3);
    CHECK(s.bits(3) == early);
    CHECK(s.bits(123456789) == late);
    CHECK(s.below(5, 1) == 0);
}
