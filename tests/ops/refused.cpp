// What ONNX's schemas do not allow, found by tests/conformance/refusals.py: element types, ranks and attributes that are refused, each beside
// one that is taken.
#include "problems.hpp"
#include "../exec/nets.hpp"

#include <doctest/doctest.h>

namespace {

// The code that loading and running a problem ends with, or "" where it runs.
std::string code_of(const char* op, const std::string& text) {
    const graft::op_row* row = graft::ops::find_op("", op, graft::newest_opset);
    REQUIRE(row);
    problems::problem p = problems::read(*row, text);
    if (!p.error.empty()) return p.error;
    auto model = graft::load(p.g);
    if (!model.ok()) return graft::text(model.error().code());
    graft::session session(*model, {1, nullptr});
    for (std::size_t i = 0; i < p.inputs.size(); ++i)
        if (graft::status set = session.set_input(i, p.inputs[i]); !set.ok()) return graft::text(set.error().code());
    const graft::status ran = session.run();
    return ran.ok() ? "" : graft::text(ran.error().code());
}

}  // namespace

TEST_CASE("What no schema of ONNX allows is refused") {
    const struct {
        const char *op, *taken, *refused, *code;
    } cases[] = {
        {"ReduceSum", "i32[2,3] i64{1}", "i8[2,3] i64{1}", "op.type"},
        {"ReduceSum", "f32[2,3] i64{1}", "f32[2,3] i32{1}", "op.type"},
        {"ReduceMean", "u64[2,3] i64{1}", "u16[2,3] i64{1}", "op.type"},
        {"ReduceL2", "i64[2,3] i64{1}", "i16[2,3] i64{1}", "op.type"},
        {"ReduceMax", "i8[2,3] i64{1}", "i16[2,3] i64{1}", "op.type"},
        {"ReduceMin", "b[2,3] i64{1}", "b[2,3] i32{1}", "op.type"},
        {"ReduceLogSum", "i32[2,3]~1:5 i64{1} @18", "u8[2,3]~1:5 i64{1} @18", "op.type"},
        {"CumSum", "u32[4] i64(0)", "u8[4] i64(0)", "op.type"},
        {"CumProd", "i64[4] i64(0)", "i16[4] i64(0)", "op.type"},
        {"PRelu", "i32[4] i32[4]", "i8[4] i8[4]", "op.type"},
        {"Relu", "i8[4]", "u8[4]", "op.type"},
        {"Pow", "i32[4] u8[4]~0:2", "u8[4] i32[4]~0:2", "op.type"},
        {"Erf", "f16[4]", "i32[4]", "op.type"},
        {"Erf", "i32[4] @9", "i32[4] @13", "op.type"},
        {"DFT", "f32[1,16,1] - i64(1)", "f32[1,16,1] - i32(1)", "op.type"},
        {"DFT", "f32[1,16,1] i32(8)", "f32[1,16,1] u8(8)", "op.type"},
        {"STFT", "f32[1,64,1] i32(8) - i32(16)", "f32[1,64,1] i64(8) - i32(16)", "op.type"},
        {"STFT", "f32[1,64,1] i64(8) - i64(16)", "f32[1,64,1] u8(8) - u8(16)", "op.type"},
        {"MelWeightMatrix", "i32(8) i32(16) i32(8192) f32(0) f32(4096)", "u16(8) u16(16) u16(8192) f32(0) f32(4096)", "op.type"},
        {"MelWeightMatrix", "i64(8) i64(16) i64(8192) f32(0) f32(4096)", "i64(8) i32(16) i64(8192) f32(0) f32(4096)", "op.type"},
        {"MelWeightMatrix", "i32(8) i32(16) i32(8192) f64(0) f64(4096)", "i32(8) i32(16) i32(8192) f64(0) f32(4096)", "op.type"},
        {"Slice", "f32[5,6] i32{1} i32{3} i32{1}", "f32[5,6] i64{1} i32{3} i64{1}", "op.type"},
        {"Slice", "f32[5,6] i64{1} i64{3} i64{1} i64{2}", "f32[5,6] i64{1} i64{3} i64{1} i32{2}", "op.type"},
        {"BatchNormalization", "f16[2,3] f32[3] f32[3] f32[3] f32[3]~0.1:2", "f32[2,3] f32[3] f32[3] f32[3] f64[3]~0.1:2", "op.type"},
        {"BatchNormalization", "f32[2,3] f32[3] f32[3] f64[3] f64[3]~0.1:2", "f32[2,3] f32[3] f16[3] f32[3] f32[3]~0.1:2", "op.type"},
        {"LayerNormalization", "f16[4,9] f16[9] f16[9]", "f16[4,9] f32[9] f16[9]", "op.type"},
        {"LayerNormalization", "f32[4,9] f32[9] f32[9]", "f32[4,9] f32[9] f64[9]", "op.type"},
        {"RMSNormalization", "f16[4,9] f32[9]", "f16[4,9] i32[9]", "op.type"},
        {"QuantizeLinear", "f16[4] f16(0.1) u8(3)", "f64[4] f32(0.1) u8(3)", "op.type"},
        {"QuantizeLinear", "f32[4] f32(0.1) u8(3)", "f32[4] f64(0.1) u8(3)", "op.type"},
        {"DequantizeLinear", "u8[4] f32(0.1) u8(3)", "u8[4] f64(0.1) u8(3)", "op.type"},
        {"QLinearMatMul", "u8[3,4] f32(0.1) u8(0) i8[4,2] f32(0.1) i8(0) f32(0.1) u8(9)", "u8[3,4] f32(0.1) u8(0) i8[4,2] f16(0.1) i8(0) f32(0.1) u8(9)",
         "op.type"},
        {"QLinearMatMul", "u8[3,4] f16(0.1) u8(0) i8[4,2] f16(0.1) i8(0) f16(0.1) u8(9)", "u8[3,4] f64(0.1) u8(0) i8[4,2] f64(0.1) i8(0) f64(0.1) u8(9)",
         "op.type"},
        {"Compress", "f32[3] b{1,0,1}", "f32(3) b{1}", "op.shape"},
        {"TfIdfVectorizer", "i64{1} mode=TF min_gram_length=1 max_gram_length=1 max_skip_count=0 ngram_counts=0 ngram_indexes=0 pool_int64s=2",
         "i64(1) mode=TF min_gram_length=1 max_gram_length=1 max_skip_count=0 ngram_counts=0 ngram_indexes=0 pool_int64s=2", "op.shape"},
        {"TfIdfVectorizer", "i64{1} mode=TF min_gram_length=1 max_gram_length=1 max_skip_count=0 ngram_counts=0 ngram_indexes=0 pool_int64s=2",
         "i64{1} mode=TF min_gram_length=1 max_gram_length=1 ngram_counts=0 ngram_indexes=0 pool_int64s=2", "op.attribute"},
        {"Resize", "f32[1,1,2,2] - f32{1,1,2,2} keep_aspect_ratio_policy=not_larger", "f32[1,1,2,2] - f32{1,1,2,2} keep_aspect_ratio_policy=largest",
         "op.attribute"},
    };
    for (const auto& c : cases) {
        INFO(std::string(c.op), ": ", std::string(c.refused));
        CHECK(code_of(c.op, c.taken) == "");
        CHECK(code_of(c.op, c.refused) == c.code);
    }
}

TEST_CASE("The value of ConstantOfShape is a vector") {
    for (const bool vector : {true, false}) {
        graft::builder b("filled");
        graft::attribute value;
        value.name = "value";
        value.kind = graft::attribute_kind::tensor;
        value.tensor = graft::tensor::zeros(graft::dtype::float32, vector ? graft::shape{1} : graft::shape{1, 1});
        b.output(b.apply("ConstantOfShape", {b.constant("shape", nets::integers({2, 3}))}, {value}), "y");
        const auto model = graft::load(b.finish());
        CHECK(model.ok() == vector);
        if (!model.ok()) CHECK(model.error().code() == graft::errc::op_attribute);
    }
}
