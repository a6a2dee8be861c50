// Kernels that belong to no larger family: bits that are read as another type, and determinants.
#include "placed.hpp"
#include "table_problems.hpp"

#include <graft/gpu/ops/cast.hpp>
#include <graft/gpu/ops/linear_algebra.hpp>

using namespace generated;

namespace {

// Whether two tensors are the same bytes.
bool equal_bits(const tensor& a, const tensor& b) {
    return a.type() == b.type() && a.shape() == b.shape() && !std::memcmp(a.raw(), b.raw(), static_cast<std::size_t>(graft::bytes_of(a.type(), a.shape())));
}

}  // namespace

TEST_CASE("BitCast gives the reference's bits for every type, in any layouts") {
    std::vector<example> all;
    add_rows(all, graft::gpu::cast_rows());
    for (const layout in : {plain, last})
        for (const layout out : {plain, last})
            for (const char* text : {"f32[2,8,3,5] to=6", "i32[2,8,3,5] to=1", "f64[2,3,5] to=7", "i64[40] to=11", "f16[2,16,3,3] to=4", "u16[2,16,3,3] to=10",
                                     "bf16[2,16,3,3] to=10", "i16[33] to=16", "u8[2,16,3,3]~0:9 to=9", "b[2,3,17] to=3", "i8[17] to=2", "u32[7] to=12"})
                if (text[0] != 'i' || out == plain || text[2] == '2') add(all, "", "BitCast", text, in, out);
    MESSAGE(all.size(), " programs");
    expect_all(all);
    expect_compiled(all);
}

TEST_CASE("BitCast keeps NaN of any payload on the CUDA simulator, whatever type is chosen for values between operators") {
    for (const std::string text : {"f16[2,3,400] to=4", "bf16[2400] to=4", "f32[2,3,400] to=6", "u16[2,1200] to=10", "u32[2,1200] to=1"}) {
        problems::problem p = problems::read(*row_of("BitCast", ""), text);
        REQUIRE(p.error == "");
        tensor& x = p.inputs[0];
        auto* bits = reinterpret_cast<unsigned char*>(x.raw());
        for (std::int64_t i = 0; i < graft::bytes_of(x.type(), x.shape()); ++i) bits[i] = static_cast<unsigned char>(i % 2 ? 0x7f | i % 3 << 7 : 0x81 + i * 7);
        for (const std::string precision : {"float32", "bfloat16", "float16"}) {
            CAPTURE(text);
            CAPTURE(precision);
            graft::device_options options;
            options.precision = precision;
            const placed::answer want = placed::run(p, nullptr), got = placed::run(p, simulated::open(options));
            REQUIRE_MESSAGE(got.error.empty(), got.error);
            CHECK(got.on_device);
            CHECK(got.refusal == "");
            CHECK(equal_bits(got.outputs[0], want.outputs[0]));
        }
    }
}

TEST_CASE("what BitCast reads between other operators has all its bits on the CUDA simulator") {
    graft::builder b("bits", 2);
    graft::value_id x = b.apply("Mul", {b.input("x", graft::dtype::float32, {2, 3, 8, 8}), b.input("y", graft::dtype::float32, {2, 3, 8, 8})});
    x = b.apply("BitCast", {x}, {graft::integer_attribute("to", static_cast<std::int64_t>(graft::dtype::uint32))});
    x = b.apply("BitwiseXor", {x, b.constant("flip", graft::tensor::from(std::vector<std::uint32_t>{0x80000001u}.data(), {1}))});
    x = b.apply("BitCast", {x}, {graft::integer_attribute("to", static_cast<std::int64_t>(graft::dtype::float32))});
    b.output(b.apply("Abs", {x}), "z");
    graft::graph g = b.finish();
    g.opsets[0].version = 26;
    for (graft::node& n : g.nodes) n.version = 26;
    const auto answer = [&](const graft::load_options& options) {
        const graft::model m = graft::load(g, options);
        graft::session session(m, {1, nullptr});
        std::string error;
        for (std::size_t i = 0; i < 2; ++i) {
            tensor t = tensor::make(graft::dtype::float32, {2, 3, 8, 8});
            for (std::int64_t k = 0; k < t.elements(); ++k) t.data<float>()[k] = 1.0f / static_cast<float>(3 + k + static_cast<std::int64_t>(i));
            REQUIRE(session.set_input(i, t).ok());
        }
        const graft::status s = session.run();
        REQUIRE_MESSAGE(s.ok(), std::string(s.ok() ? "" : s.error().what()));
        return session.output(0);
    };
    const tensor want = answer({});
    for (const char* precision : {"float32", "bfloat16", "float16"}) {
        graft::device_options options;
        options.precision = precision;
        graft::load_options strict = graft::on_device(simulated::open(options));
        strict.strict_placement = true;
        CHECK(equal_bits(answer(strict), want));
    }
}

TEST_CASE("Det gives the reference's answers for matrices of any size, with pivots and without") {
    std::vector<example> all;
    add_rows(all, graft::gpu::linear_algebra_rows());
    for (const char* text :
         {"f32[300,2,2]", "f32[70,3,3]", "f64[9,4,4]", "f16[40,5,5]~-1:1", "bf16[3,2,8,8]~-1:1", "f32[5,9,9]", "f32[3,17,17]", "f64[2,3,32,32]",
          "f32[2,33,33]~-0.4:0.4", "f32[64,64]~-0.3:0.3", "f32[2,70,70]~-0.3:0.3", "f32[40,3,3]~0:0", "f32[2,6,6]~1:1", "f32[2,3,4,0,0]", "f64[1,1,1,1]"})
        for (const layout in : {plain, last})
            for (const layout out : {plain, last}) add(all, "", "Det", text, in, out);
    MESSAGE(all.size(), " programs");
    expect_all(all);
    expect_compiled(all);
}
