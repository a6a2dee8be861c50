// Golden samples: text and back, to the bit; what hostile metadata get.
#include <doctest/doctest.h>
#include <graft/train/base64.hpp>
#include <graft/train/golden.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

namespace {

graft::golden_sample sample() {
    graft::golden_sample s;
    s.input_name = "data";
    s.output_name = "logits";
    s.input = graft::tensor::make(graft::dtype::float32, {1, 3, 32, 32}).value();
    for (std::int64_t i = 0; i < s.input.elements(); ++i) s.input.data<float>()[i] = (static_cast<float>(i * 7919 % 256) / 255 - 0.45f) / 0.22f;
    const float logits[] = {1.5f, -2.25f, 1e-30f};
    s.output = graft::tensor::from(logits, {1, 3}).value();
    return s;
}

}  // namespace

TEST_CASE("Base64 has the values of RFC 4648") {
    const char* pairs[][2] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}};
    std::string back;
    for (const auto& p : pairs) {
        CHECK(graft::base64_encode(p[0]) == p[1]);
        CHECK(graft::base64_decode(p[1], back));
        CHECK(back == p[0]);
    }
    std::string all;
    for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
    CHECK(graft::base64_decode(graft::base64_encode(all), back));
    CHECK(back == all);
    for (const char* wrong : {"Z", "Zg=", "Z===", "====", "Zg==Zg==", "Zm9\n", "=m9v", "Z g="}) CHECK(!graft::base64_decode(wrong, back));
}

TEST_CASE("A golden sample is read back to the bit, and is much smaller than its tensors") {
    const graft::golden_sample s = sample();
    const std::string text = graft::encode_golden(s).value();
    CHECK(text.size() < s.input.bytes());
    const graft::golden_sample back = graft::decode_golden(text, "m.onnx").value();
    CHECK(back.input_name == "data");
    CHECK(back.output_name == "logits");
    CHECK(back.input.shape() == s.input.shape());
    CHECK(std::memcmp(back.input.raw(), s.input.raw(), s.input.bytes()) == 0);
    CHECK(std::memcmp(back.output.raw(), s.output.raw(), s.output.bytes()) == 0);
    CHECK(back.tolerance == s.tolerance);
    graft::golden_sample whole = s;
    whole.input = graft::tensor::make(graft::dtype::int64, {1}).value();
    CHECK(graft::encode_golden(whole).error().code() == graft::errc::tensor_dtype);
}

TEST_CASE("A picture of bytes is kept as bytes") {
    for (const graft::dtype type : {graft::dtype::uint8, graft::dtype::int8}) {
        graft::golden_sample s = sample();
        s.input = graft::tensor::make(type, {1, 5, 7, 3}).value();
        for (std::int64_t i = 0; i < s.input.elements(); ++i) s.input.raw()[i] = static_cast<std::byte>(i * 31);
        const graft::golden_sample back = graft::decode_golden(graft::encode_golden(s).value(), "m.onnx").value();
        CHECK(back.input.type() == type);
        CHECK(back.input.shape() == s.input.shape());
        CHECK(std::memcmp(back.input.raw(), s.input.raw(), s.input.bytes()) == 0);
    }
    std::string text = graft::encode_golden(sample()).value();
    text.insert(text.find("\"data\":"), "\"dtype\":\"int64\",");
    CHECK(graft::decode_golden(text, "m").error().code() == graft::errc::model_malformed);
}

TEST_CASE("An output is the golden one within the tolerance of its range") {
    const graft::golden_sample s = sample();
    const auto with = [&](float first) {
        const float v[] = {first, -2.25f, 0};
        return graft::check_golden(s, graft::tensor::from(v, {1, 3}).value());
    };
    CHECK(with(1.5f).ok());
    CHECK(with(1.5003f).ok());
    CHECK(with(1.5005f).error().code() == graft::errc::op_value);
    CHECK(!with(std::numeric_limits<float>::quiet_NaN()).ok());
    CHECK(graft::check_golden(s, graft::tensor::make(graft::dtype::float32, {3}).value()).error().code() == graft::errc::op_shape);
}

TEST_CASE("Golden samples that are damaged or hostile are refused") {
    const std::string good = graft::encode_golden(sample()).value();
    for (std::size_t n = 0; n < good.size(); n += 97) CHECK(!graft::decode_golden(good.substr(0, n), "m").ok());
    const auto code = [](const std::string& input) {
        const std::string text = "{\"version\":1,\"tolerance\":1e-4,\"input\":" + input + ",\"output\":{}}";
        return std::string(graft::text(graft::decode_golden(text, "m").error().code()));
    };
    CHECK(code("{}") == "model.malformed");
    CHECK(code("{\"name\":\"x\",\"shape\":[4611686018427387904,4],\"data\":\"\"}") == "tensor.overflow");
    CHECK(code("{\"name\":\"x\",\"shape\":[1000000000,4],\"data\":\"\"}") == "memory.budget");
    CHECK(code("{\"name\":\"x\",\"shape\":[-1],\"data\":\"\"}") == "model.malformed");
    CHECK(code("{\"name\":\"x\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],\"data\":\"\"}") == "model.malformed");
    CHECK(code("{\"name\":\"x\",\"shape\":[1],\"data\":\"eJxjYGBgAAAABAAB\"}") == "model.malformed");  // Of input it is right, of output nothing
    CHECK(code("{\"name\":\"x\",\"shape\":[1],\"data\":\"!!!!\"}") == "model.malformed");
    CHECK(!graft::decode_golden("{\"version\":2,\"tolerance\":1}", "m").ok());
}
