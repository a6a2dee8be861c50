// Tensors: their memory, and elements that are asked for as what they are.
#include <graft/tensor/tensor.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace graft;

TEST_CASE("elements come as the C++ type of their dtype, and as bytes where C++ has none") {
    CHECK(tensor::zeros(dtype::float32, {2}).value().data<float>()[1] == 0);
    CHECK(tensor::zeros(dtype::float32, {2}).value().data<const float>()[1] == 0);
    CHECK(tensor::zeros(dtype::boolean, {2}).value().data<bool>()[1] == false);
    CHECK(tensor::zeros(dtype::float16, {2}).value().data<float16>()[1].bits == 0);
    for (const dtype type : {dtype::int4, dtype::int2}) CHECK(tensor::zeros(type, {3}).value().data<std::int8_t>()[2] == 0);
    for (const dtype type : {dtype::uint4, dtype::uint2, dtype::float8e4m3fn, dtype::float8e5m2fnuz, dtype::float4e2m1, dtype::float8e8m0})
        CHECK(tensor::zeros(type, {3}).value().data<std::uint8_t>()[2] == 0);
}

#ifndef GRAFT_NO_EXCEPTIONS
namespace {

template <class T>
std::string refusal(dtype type) {
    const tensor t = type == dtype::undefined ? tensor() : tensor::zeros(type, {2}).value();
    try {
        (void)t.data<T>();
    } catch (const error& e) {
        CHECK(e.code() == errc::tensor_dtype);
        return e.detail();
    }
    return "";
}

}  // namespace

TEST_CASE("elements that are asked for as another type are an error, and are not read as it") {
    CHECK(refusal<float>(dtype::float64) == "the elements are float64; they were asked for as float32");
    CHECK(refusal<std::int64_t>(dtype::int32) == "the elements are int32; they were asked for as int64");
    CHECK(refusal<std::uint8_t>(dtype::boolean) == "the elements are bool; they were asked for as uint8");
    CHECK(refusal<std::uint8_t>(dtype::int8) == "the elements are int8; they were asked for as uint8");
    CHECK(refusal<std::uint8_t>(dtype::int4) == "the elements are int4; they were asked for as uint8");
    CHECK(refusal<std::int8_t>(dtype::uint4) == "the elements are uint4; they were asked for as int8");
    CHECK(refusal<float>(dtype::undefined) == "there is no tensor; they were asked for as float32");
}
#endif
