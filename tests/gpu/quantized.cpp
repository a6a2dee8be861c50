// Arithmetic on quantised tensors on the CUDA simulator: the reference's answers, to the last bit.
#include "placed.hpp"

namespace {

problems::problem read(const std::string& op, const std::string& text) {
    const graft::op_row* row = graft::ops::find_op("", op.c_str(), graft::newest_opset);
    REQUIRE(row);
    problems::problem p = problems::read(*row, text);
    REQUIRE(p.error == "");
    return p;
}
/// Input i of the node as a constant of the network.
problems::problem with_constant(problems::problem p, std::size_t i) {
    const graft::value_id id = p.g.nodes[0].inputs[i];
    for (std::size_t k = 0; k < p.g.inputs.size(); ++k) {
        if (p.g.inputs[k] != id) continue;
        p.g.at(id).constant = p.inputs[k];
        p.g.inputs.erase(p.g.inputs.begin() + static_cast<std::ptrdiff_t>(k));
        p.inputs.erase(p.inputs.begin() + static_cast<std::ptrdiff_t>(k));
        break;
    }
    return p;
}
std::shared_ptr<graft::device> device_of(const char* precision) {
    graft::device_options options;
    options.precision = precision;
    return simulated::open(options);
}
void expect(const problems::problem& p, const std::shared_ptr<graft::device>& device) { placed::expect(p, 0, device); }

}  // namespace

TEST_CASE("quantized products and convolutions are exact on the CUDA simulator, whatever type values between operators have") {
    for (const char* precision : {"float32", "tf32", "bfloat16", "float16"}) {
        CAPTURE(precision);
        const auto device = device_of(precision);
        expect(read("MatMulInteger", "u8[70,300] u8[300,5] u8(12) u8(250)"), device);  // in two parts
        expect(read("MatMulInteger", "i8[2,30,40] i8[40,9] i8(1) i8[9]"), device);
        expect(read("MatMulInteger", "u8[2,30,4] i8[2,4,5] u8[2,30,1]"), device);
        expect(read("QLinearMatMul", "u8[90,700] f32(0.02) u8(113) u8[700,6] f32(0.001) u8(114) f32(0.5) u8(118)"), device);
        expect(read("ConvInteger", "u8[2,70,9,7] i8[8,70,3,3] u8(128) pads=1,1,1,1 strides=2,1"), device);
        expect(read("QLinearConv", "u8[1,64,9,7] f32(0.02) u8(128) i8[16,64,3,3] f32[16]~0.001:0.002 i8[16] f32(0.05) u8(100) i32[16] pads=1,1,1,1"), device);
        expect(with_constant(read("QLinearConv", "i8[1,12,9,7] f32(0.02) i8(3) i8[12,1,3,3] f32[12]~0.01:0.02 i8(0) f32(0.05) i8(0) group=12"), 3), device);
        expect(with_constant(
                   with_constant(read("QLinearConv", "u8[1,200,9,9] f32(0.02) u8(128) i8[4,200,3,3] f32[4]~0.0001:0.0002 i8[4] f32(0.05) u8(100) pads=1,1,1,1"),
                                 3),
                   5),
               device);
    }
}

TEST_CASE("values are quantized on the CUDA simulator by scales that are computed in the run") {
    const auto device = device_of("float32");
    expect(read("DynamicQuantizeLinear", "f32[3,17]"), device);
    expect(read("DynamicQuantizeLinear", "f32[900]~0.5:2"), device);
    expect(read("DynamicQuantizeLinear", "f32[30,41]~-7:-1"), device);
    // As exporters write it: quantised by what is in the batch, multiplied as integers, scaled back.
    problems::problem p = read("DynamicQuantizeLinear", "f32[6,50]");
    graft::graph& g = p.g;
    const auto apply = [&](const char* op, std::vector<graft::value_id> inputs) {
        graft::node n;
        n.op_type = op;
        n.name = op;
        n.inputs = std::move(inputs);
        n.outputs = {g.add_value(std::string(op) + "/y")};
        if (n.op_type == "Cast") n.attributes.push_back(graft::integer_attribute("to", static_cast<std::int64_t>(graft::dtype::float32)));
        g.nodes.push_back(n);
        return n.outputs[0];
    };
    graft::tensor w = graft::tensor::make(graft::dtype::int8, {50, 4});
    for (std::int64_t i = 0; i < w.elements(); ++i) w.data<std::int8_t>()[i] = static_cast<std::int8_t>(i * 37 % 255 - 127);
    const std::vector<graft::value_id> q = g.nodes[0].outputs;
    const graft::value_id product = apply("MatMulInteger", {q[0], g.add_constant("w", w), q[2]});
    g.outputs = {apply("Mul", {apply("Cast", {product}), q[1]}), apply("DequantizeLinear", {q[0], q[1], q[2]})};
    expect(p, device);
}
