// Shapes, and sizes that cannot overflow unnoticed.
#include <graft/core/shape.hpp>

#include <doctest/doctest.h>

using graft::shape;

TEST_CASE("a shape holds up to sixteen extents and counts from either end") {
    shape s{2, 3, 5};
    CHECK(s.rank() == 3);
    CHECK(s.at(-1) == 5);
    CHECK(s.at(-3) == 2);
    CHECK(s.at(-4) == 1);  // as broadcasting has it
    CHECK(s.at(7) == 1);
    CHECK(s.back() == 5);
    CHECK(s.elements() == 30);
    CHECK(s.product(1, 3) == 15);
    s.insert(1, 7);
    CHECK(s == shape{2, 7, 3, 5});
    s.erase(0);
    CHECK(s == shape{7, 3, 5});
    CHECK(s != shape{7, 3});
    CHECK(shape{}.elements() == 1);
    CHECK(shape{}.back() == 1);
    CHECK(shape::filled(3, 4) == shape{4, 4, 4});
    shape full;
    for (int i = 0; i < 20; ++i) full.push_back(i);
    CHECK(full.rank() == shape::max_rank);
    CHECK(full[15] == 15);
}

TEST_CASE("a shape is written with its unknown extents") {
    CHECK(graft::text(shape{}) == "[]");
    CHECK(graft::text(shape{1, shape::unknown, 3}) == "[1,?,3]");
    CHECK(!shape{1, shape::unknown}.known());
    CHECK(shape{1, 0}.known());
}

TEST_CASE("products and sums of sizes are refused where they overflow") {
    CHECK(graft::checked_mul(1 << 20, 1 << 20) == std::int64_t(1) << 40);
    CHECK(graft::checked_mul(std::int64_t(1) << 32, std::int64_t(1) << 31) == -1);
    CHECK(graft::checked_mul(INT64_MAX, 1) == INT64_MAX);
    CHECK(graft::checked_mul(INT64_MAX, 2) == -1);
    CHECK(graft::checked_mul(INT64_MAX, 0) == 0);
    CHECK(graft::checked_mul(-1, 0) == -1);
    CHECK(graft::checked_add(INT64_MAX, 0) == INT64_MAX);
    CHECK(graft::checked_add(INT64_MAX, 1) == -1);
    CHECK(graft::checked_add(-1, 5) == -1);
}

TEST_CASE("the size of a tensor is a number of bytes or a refusal") {
    using graft::dtype;
    CHECK(graft::bytes_of(dtype::float32, {2, 3}) == 24);
    CHECK(graft::bytes_of(dtype::float64, {}) == 8);
    CHECK(graft::bytes_of(dtype::float32, {2, shape::unknown}) == -1);
    CHECK(graft::bytes_of(dtype::float32, {std::int64_t(1) << 31, std::int64_t(1) << 31}) == -1);
    CHECK(graft::bytes_of(dtype::float32, {std::int64_t(1) << 62}) == -1);
    CHECK(graft::bytes_of(dtype::float32, {0, 5}) == 0);
    // Beside an extent of 0 the others stay small, so that loops over them end.
    CHECK(graft::bytes_of(dtype::uint8, {0, std::int64_t(1) << 32}) == -1);
    CHECK(graft::elements_of({INT64_MAX, INT64_MAX, 0}) == -1);
    CHECK(graft::bytes_of(dtype::string, {3}) == 0);
}
