// Elements of any type to and from double and int64, and tensors over them.
#include "../ops/problems.hpp"

#include <graft/tensor/convert.hpp>
#include <graft/tensor/tensor.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using graft::dtype;
using graft::errc;
using graft::tensor;

namespace {

double through(dtype type, double value) {
    const tensor t = tensor::make(type, {1});
    graft::store_from_double(type, t.raw(), 0, 1, &value);
    return graft::element_as_double(type, t.raw(), 0);
}
std::int64_t through(dtype type, std::int64_t value) {
    const tensor t = tensor::make(type, {1});
    graft::store_from_int64(type, t.raw(), 0, 1, &value);
    return graft::element_as_int64(type, t.raw(), 0);
}

}  // namespace

TEST_CASE("numbers that a type can hold come back from it") {
    const struct {
        dtype type;
        double low, high;
    } ranges[] = {{dtype::int8, -128, 127},
                  {dtype::uint8, 0, 255},
                  {dtype::int16, -32768, 32767},
                  {dtype::uint16, 0, 65535},
                  {dtype::int32, -2147483648.0, 2147483647.0},
                  {dtype::uint32, 0, 4294967295.0},
                  {dtype::int64, -9007199254740992.0, 9007199254740992.0},
                  {dtype::uint64, 0, 9007199254740992.0},
                  {dtype::int4, -8, 7},
                  {dtype::uint4, 0, 15},
                  {dtype::int2, -2, 1},
                  {dtype::uint2, 0, 3},
                  {dtype::float32, -16777216, 16777216},
                  {dtype::float64, -1e15, 1e15},
                  {dtype::boolean, 0, 1},
                  {dtype::float16, -2048, 2048},
                  {dtype::bfloat16, -256, 256},
                  {dtype::float8e4m3fn, -16, 16},
                  {dtype::float8e5m2, -8, 8}};
    problems::numbers random{1};
    for (const auto& r : ranges) {
        INFO(std::string(graft::name(r.type)));
        CHECK(through(r.type, r.low) == r.low);
        CHECK(through(r.type, r.high) == r.high);
        for (int i = 0; i < 200; ++i) {
            const double v = std::floor(random.uniform(r.low, r.high + 1));
            CHECK(through(r.type, v) == v);
            CHECK(through(r.type, static_cast<std::int64_t>(v)) == static_cast<std::int64_t>(v));
        }
    }
}

TEST_CASE("integers wrap, floats are cut towards zero, and nothing is undefined") {
    CHECK(through(dtype::int8, std::int64_t(130)) == -126);
    CHECK(through(dtype::uint8, std::int64_t(-1)) == 255);
    CHECK(through(dtype::int4, std::int64_t(8)) == -8);
    CHECK(through(dtype::uint4, std::int64_t(17)) == 1);
    CHECK(through(dtype::int2, std::int64_t(3)) == -1);
    CHECK(through(dtype::boolean, std::int64_t(7)) == 1);
    CHECK(through(dtype::boolean, 0.25) == 1);
    CHECK(through(dtype::int32, 2.9) == 2);
    CHECK(through(dtype::int32, -2.9) == -2);
    CHECK(through(dtype::uint64, std::int64_t(-1)) == -1);
    CHECK(through(dtype::uint64, 18446744073709549568.0) == 18446744073709549568.0);
    for (const double odd : {HUGE_VAL, -HUGE_VAL, std::numeric_limits<double>::quiet_NaN(), 1e300, -1e300})
        for (const dtype type : {dtype::int8, dtype::int32, dtype::int64, dtype::uint64, dtype::uint2}) through(type, odd);
    CHECK(std::isnan(through(dtype::float16, std::numeric_limits<double>::quiet_NaN())));
    CHECK(through(dtype::float16, HUGE_VAL) == HUGE_VAL);
    CHECK(through(dtype::bfloat16, -HUGE_VAL) == -HUGE_VAL);
}

TEST_CASE("runs are read and written where they are asked for and nowhere else") {
    for (const dtype type : {dtype::float32, dtype::float16, dtype::int8, dtype::uint64, dtype::float8e5m2}) {
        const tensor t = tensor::zeros(type, {10});
        const double in[] = {1, 2, 3};
        graft::store_from_double(type, t.raw(), 4, 3, in);
        double out[10];
        graft::load_as_double(type, t.raw(), 0, 10, out);
        for (int i = 0; i < 10; ++i) CHECK(out[i] == (i >= 4 && i < 7 ? i - 3 : 0));
    }
}

TEST_CASE("tensors share their memory, borrow it, and refuse what cannot be") {
    const float data[] = {1, 2, 3, 4};
    const tensor t = tensor::from(data, {2, 2}), copy = t, seen = t.reshaped({4});
    CHECK(copy.raw() == t.raw());
    CHECK(!t.storage().unique());
    CHECK(seen.shape() == graft::shape{4});
    CHECK(t.bytes() == 16);
    CHECK(reinterpret_cast<std::uintptr_t>(t.raw()) % 64 == 0);
    const tensor borrowed = tensor::borrow(data, {4});
    CHECK(borrowed.data<float>() == data);
    CHECK(!tensor());
    CHECK(static_cast<bool>(tensor::scalar(2.0f).value()));
    CHECK(tensor::scalar(std::int64_t(5))->shape() == graft::shape{});
    CHECK(tensor::make(dtype::float32, {std::int64_t(1) << 62}).error().code() == errc::tensor_overflow);
    CHECK(tensor::make(dtype::float32, {-1}).error().code() == errc::tensor_overflow);
    CHECK(tensor::make(dtype::string, {1}).error().code() == errc::tensor_dtype);
    CHECK(tensor::make(dtype::float32, {0, 3})->bytes() == 0);
}
