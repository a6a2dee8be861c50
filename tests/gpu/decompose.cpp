// Operators without a kernel of their own, which become nodes that have one: on the CUDA simulator against the reference.
#include "nvrtc.hpp"
#include "placed.hpp"

#include "../train/small_steps.hpp"
#include "../skipped.hpp"

#include <graft/plan/plan.hpp>

#include <fstream>
#include <set>

namespace {

const graft::op_row& row_of(const std::string& name) {
    const graft::op_row* row = graft::ops::find_op("", name.c_str(), graft::newest_opset);
    REQUIRE(row);
    return *row;
}

problems::problem read(const std::string& op, const std::string& text, int outputs = 1) {
    problems::problem p = problems::read(row_of(op), text);
    REQUIRE(p.error == "");
    graft::node& n = p.g.nodes[0];
    while (static_cast<int>(n.outputs.size()) < outputs) {
        n.outputs.push_back(p.g.add_value("y" + std::to_string(n.outputs.size())));
        p.g.outputs.push_back(n.outputs.back());
    }
    return p;
}

using placed::expect;
void expect(const std::string& op, const std::string& text, double tolerance = 2e-5, int outputs = 1) {
    expect(read(op, text, outputs), tolerance, simulated::exact_device());
}

// A problem whose floats have another type.
std::string in_type(std::string text, const std::string& type) {
    for (std::size_t at = 0; (at = text.find("f32", at)) != std::string::npos; at += type.size()) text.replace(at, 3, type);
    return text;
}

const char* const attentions[] = {
    "f32[2,3,40,16] f32[2,3,40,16] f32[2,3,40,16]",
    "f32[2,50,48] f32[2,33,48] f32[2,33,60] q_num_heads=3 kv_num_heads=3 scale=0.3",
    "f32[2,6,17,8] f32[2,2,29,8] f32[2,2,29,5] f32[17,29] softcap=3",
    "f32[2,7,32] f32[2,9,16] f32[2,9,24] b[2,1,7,9] q_num_heads=4 kv_num_heads=2 is_causal=1",
    "f32[2,2,5,8] f32[2,2,7,8] f32[2,2,7,8] b[5,4]",
    "f32[2,2,5,8] f32[2,2,7,8] f32[2,2,7,8] f32[1,2,1,6] is_causal=1 softcap=1.5",
    "f32[1,2,4,8] f32[1,2,6,8] f32[1,2,6,8] i32[4,6]~-3:3",
    "f32[2,4,3,8] f32[2,2,1,8] f32[2,2,1,8] - f32[2,2,9,8] f32[2,2,9,8] is_causal=1",
    "f32[2,3,32] f32[2,4,16] f32[2,4,16] f32[3,13] f32[2,2,9,8] f32[2,2,9,8] q_num_heads=4 kv_num_heads=2",
    "f32[2,2,4,8] f32[2,2,6,8] f32[2,2,6,8] - - - i64{2,6} is_causal=1",
    "f32[2,2,4,8] f32[2,2,6,8] f32[2,2,6,8] b[4,6] - - i64[2]~0:7",
    "f32[1,2,9,8] f32[1,2,6,8] f32[1,2,6,8] left_window_size=1 right_window_size=2",
    "f32[1,2,9,8] f32[1,2,6,8] f32[1,2,6,8] right_window_size=0 left_window_size=0 is_causal=1",
};

}  // namespace

TEST_CASE("Attention runs on the CUDA simulator in every form that it has") {
    for (const char* text : attentions) {
        const bool cached = std::string(text).find(" - - -") == std::string::npos;
        for (const char* mode : {"", " qk_matmul_output_mode=1", " qk_matmul_output_mode=2", " qk_matmul_output_mode=3"})
            expect("Attention", std::string(text) + mode, 2e-5, cached ? 4 : 1);
    }
}

TEST_CASE("the softmax of Attention takes scale, cap and mask into its kernel on the CUDA simulator") {
    const problems::problem p = read("Attention", "f32[1,2,40,8] f32[1,2,40,8] f32[1,2,40,8] f32[1,2,40,40] is_causal=1 softcap=2");
    const graft::model m = graft::load(p.g, graft::on_device(simulated::exact_device()));
    std::vector<graft::value_info> given;
    for (std::size_t i = 0; i < p.inputs.size(); ++i) given.push_back({m.inputs()[i].name, p.inputs[i].type(), true, p.inputs[i].shape(), {}, false});
    auto placed = m.placements(given);
    REQUIRE(placed.ok());
    int kernels = 0;
    for (const graft::placement& where : placed.value()) kernels += where.kernel != "copy";
    CHECK(kernels == 4);  // two products, the frontier of one head, and the rest
}

TEST_CASE("a query that sees no key gives zeros on the CUDA simulator") {
    for (const char* mask : {"b[4,6]~0:0", "b[4,3]", "f32[4,6]"}) {
        problems::problem p = read("Attention", std::string("f32[1,2,4,8] f32[1,2,6,8] f32[1,2,6,8] ") + mask);
        graft::tensor& m = p.inputs[3];
        for (std::int64_t i = 0; i < m.shape()[1]; ++i)
            if (m.type() == graft::dtype::boolean)
                m.data<bool>()[m.shape()[1] + i] = false;
            else
                m.data<float>()[m.shape()[1] + i] = -HUGE_VALF;
        expect(p, 2e-5, simulated::exact_device());
    }
}

TEST_CASE("Attention in other types is the reference's within their rounding on the CUDA simulator") {
    for (const char* text : attentions) {
        expect("Attention", in_type(text, "f64"), 1e-6, 2);
        expect("Attention", in_type(text, "f16"), 3e-3, 2);
        expect("Attention", in_type(text, "bf16"), 2e-2, 2);
    }
}

TEST_CASE("Einsum runs on the CUDA simulator as products of matrices and of elements") {
    for (const char* text : {
             "f32[33,17] f32[17,29] equation=ij,jk->ik",
             "f32[33,17] f32[29,17] equation=ij,kj->ki",
             "f32[2,3,20,8] f32[2,3,24,8] equation=bhqd,bhkd->bhqk",
             "f32[2,20,3,8] f32[2,24,3,8] equation=bqhd,bkhd->bhqk",
             "f32[2,3,20,24] f32[2,24,3,8] equation=bhqk,bkhd->bqhd",
             "f32[5,7] f32[5,9] equation=ki,kj->ij",
             "f32[4,5,6] f32[6,5,7] equation=abc,cbd->ad",
             "f32[4,5,6] f32[4,5,6] equation=abc,abc->a",
             "f32[4,5,6] f32[4,5,6] equation=abc,abc->",
             "f32[4] f32[5] equation=i,j->ij",
             "f32[4,6] f32[5,6] equation=ib,jb->bji",
             "f32[2,3,4,5] equation=abcd->dba",
             "f32[2,3,4,5] equation=...cd->...d",
             "f32[6,6] equation=ii->i",
             "f32[6,6] equation=ii",
             "f32[3,5,4,5,3] f32[5,2] equation=abcba,bd->acd",
             "f32[2,1,4,5] f32[3,5,6] equation=...ij,...jk->...ik",
             "f32[2,3,1] f32[1,4] equation=abj,jc->abc",
             "f32[4,1] f32[4,7] equation=ij,ij->i",
             "f32[3,4] f32[4,5] f32[5,6] equation=ab,bc,cd->ad",
             "f32[3,4] f32[4,5] f32[4] equation=ab,bc,b->ca",
             "f32[3,1] f32[3,2] f32[5,2] equation=ax,ab,xb->b",
             "f32[1,1] f32[1] equation=ab,b->a",
             "i64[300,4] i64[4] equation=ab,b->a",
             "i32[30] i32[40] equation=a,b->ba",
         }) {
        expect("Einsum", text);
        if (text[0] != 'f') continue;
        expect("Einsum", in_type(text, "f64"), 1e-12);
        expect("Einsum", in_type(text, "f16"), 3e-3);
        expect("Einsum", in_type(text, "bf16"), 3e-2);
    }
    const placed::answer whole = placed::run(read("Einsum", "i64[30,4] i64[4,50] equation=ab,bc->ac"), simulated::exact_device());
    CHECK(whole.error == "");
    CHECK(whole.refusal.find("cuBLASLt multiplies") != std::string::npos);
}

TEST_CASE("Gemm runs on the CUDA simulator with any C, and as one product where cuBLASLt adds it") {
    for (const char* text : {
             "f32[7,13] f32[13,17] f32[7,1]",
             "f32[13,7] f32[17,13] f32[7,1] transA=1 transB=1 alpha=0.5 beta=2",
             "f32[7,13] f32[13,17] f32[1,17] beta=-0.5",
             "f32[7,13] f32[13,17] f32[17] beta=3 alpha=2",
             "f32[7,13] f32[13,17] f32(2)",
             "f32[7,13] f32[13,17] f32[1]",
             "f32[7,13] f32[13,17] f32[1,1] beta=0.25",
             "f32[7,13] f32[13,1] f32[7,1]",
             "f32[7,13] f32[13,17] f32[7,1] beta=0",
             "f32[7,13] f32[13,17] f32[7,17] beta=0.5",
         }) {
        expect("Gemm", text);
        expect("Gemm", in_type(text, "f64"), 1e-12);
        expect("Gemm", in_type(text, "f16"), 1e-3);
        expect("Gemm", in_type(text, "bf16"), 1e-2);
        for (const char* precision : {"float16", "bfloat16"}) {
            graft::device_options options;
            options.precision = precision;
            expect(read("Gemm", text), precision[0] == 'f' ? 5e-3 : 3e-2, simulated::open(options));
        }
    }
    const auto kernels = [](const char* text) {
        const problems::problem p = read("Gemm", text);
        const graft::model m = graft::load(p.g, graft::on_device(simulated::exact_device()));
        std::vector<graft::value_info> given;
        for (std::size_t i = 0; i < p.inputs.size(); ++i) given.push_back({m.inputs()[i].name, p.inputs[i].type(), true, p.inputs[i].shape(), {}, false});
        auto placed = m.placements(given);
        REQUIRE(placed.ok());
        int count = 0;
        for (const graft::placement& where : placed.value()) count += where.kernel != "copy";
        return count;
    };
    CHECK(kernels("f32[7,13] f32[13,17] f32[17]") == 1);
    CHECK(kernels("f32[7,13] f32[13,17] f32[7,17] beta=0.5 alpha=3") == 1);
    CHECK(kernels("f32[7,13] f32[13,17]") == 1);
    CHECK(kernels("f32[7,13] f32[13,17] f32[7,1]") == 2);
}

TEST_CASE("losses of classifiers and Hardmax run on the CUDA simulator") {
    for (const char* loss : {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}) {
        for (const char* text :
             {"f32[300,10] i64[300]~0:10", "f32[40,1000] i32[40]~0:1000 f32[1000]~0.1:1", "f32[2,6,9,11] i64[2,9,11]~0:6 f32[6]~0.1:1 ignore_index=3",
              "f32[2,6,9,11] i64[2,9,11]~-1:6 ignore_index=-1", "f32[5,6] i64{9,9,9,9,9} ignore_index=9"})
            for (const char* reduction : {"", " reduction=sum", " reduction=none"}) {
                const int outputs = loss[0] == 'S' ? 2 : 1;
                expect(loss, std::string(text) + reduction, 2e-5, outputs);
                if (text[5] == '0') continue;
                expect(loss, in_type(std::string(text) + reduction, "f64"), 1e-6, outputs);
                expect(loss, in_type(std::string(text) + reduction, "f16"), 2e-3, outputs);
            }
        const placed::answer wrong = placed::run(read(loss, "f32[4,3] i64{0,3,1,2}"), simulated::exact_device()),
                             on_host = placed::run(read(loss, "f32[4,3] i64{0,3,1,2}"), nullptr);
        CHECK(wrong.error == on_host.error);
        CHECK(wrong.error.find("target 3 is out of range for 3 classes") != std::string::npos);
    }
    for (const char* text : {"f32[30,77]", "f32[4,5,6] axis=1", "f16[4,5,6] axis=0", "f64[4,5,6] axis=1 @11", "bf16[3,8]"}) expect("Hardmax", text, 0);
    problems::problem p = read("Hardmax", "f32[3,4]");
    for (int i = 0; i < 4; ++i) {
        p.inputs[0].data<float>()[i] = std::nanf("");
        p.inputs[0].data<float>()[4 + i] = i ? -HUGE_VALF : std::nanf("");
    }
    expect(p, 0, simulated::exact_device());
}

TEST_CASE("recurrent layers run on the CUDA simulator, step after step") {
    const char* const layers[][2] = {
        {"RNN", "f32[7,3,5] f32[1,6,5] f32[1,6,6] f32[1,12] hidden_size=6"},
        {"RNN", "f32[7,3,5] f32[2,6,5] f32[2,6,6] - i32{7,0,3} f32[2,3,6] hidden_size=6 direction=bidirectional activations=LeakyRelu,Affine "
                "activation_alpha=0.1,0.5 activation_beta=0.2"},
        {"RNN",
         "f32[3,7,5] f32[1,6,5] f32[1,6,6] - - f32[3,1,6] hidden_size=6 layout=1 direction=reverse clip=0.4 activations=ThresholdedRelu activation_alpha=0.1"},
        {"GRU", "f32[7,3,5] f32[1,18,5] f32[1,18,6] f32[1,36] hidden_size=6"},
        {"GRU", "f32[3,7,5] f32[2,18,5] f32[2,18,6] f32[2,36] i32{7,1,4} f32[3,2,6] hidden_size=6 direction=bidirectional layout=1 linear_before_reset=1"},
        {"GRU", "f32[1,3,5] f32[1,18,5] f32[1,18,6] hidden_size=6 linear_before_reset=1 activations=HardSigmoid,ScaledTanh activation_alpha=0.3,0.9 "
                "activation_beta=0.4,1.1"},
        {"LSTM", "f32[7,3,5] f32[1,24,5] f32[1,24,6] f32[1,48] hidden_size=6"},
        {"LSTM", "f32[7,3,5] f32[2,24,5] f32[2,24,6] f32[2,48] i32{5,7,2} f32[2,3,6] f32[2,3,6] f32[2,18] hidden_size=6 direction=bidirectional"},
        {"LSTM",
         "f32[2,64,9] f32[1,64,9] f32[1,64,16] f32[1,128] hidden_size=16 layout=1 direction=reverse input_forget=1 clip=0.7 activations=Sigmoid,Softsign,Elu"},
    };
    graft::device_options halves;
    halves.precision = "float16";
    const auto narrow = simulated::open(halves);
    for (const auto& layer : layers) {
        const int outputs = layer[0][0] == 'L' ? 3 : 2;
        expect(layer[0], layer[1], 2e-5, outputs);
        expect(layer[0], in_type(layer[1], "f64"), 1e-6, outputs);
        expect(layer[0], in_type(layer[1], "f16"), 1e-2, outputs);
        expect(read(layer[0], layer[1], outputs), 1e-2, narrow);
    }
    const placed::answer longer = placed::run(read("RNN", "f32[65,1,2] f32[1,3,2] f32[1,3,3] hidden_size=3"), simulated::exact_device());
    CHECK(longer.refusal.find("64 steps") != std::string::npos);
    const placed::answer lengths = placed::run(read("RNN", "f32[5,2,2] f32[1,3,2] f32[1,3,3] - i32[2]~0:5 hidden_size=3"), simulated::exact_device());
    CHECK(lengths.refusal.find("its lengths are not constants") != std::string::npos);
}

TEST_CASE("RotaryEmbedding and LinearAttention run on the CUDA simulator") {
    for (const char* text :
         {"f32[2,3,40,8] f32[2,40,4] f32[2,40,4]", "f32[2,40,24] f32[2,40,3] f32[2,40,3] num_heads=3 rotary_embedding_dim=6",
          "f32[2,3,40,8] f32[2,40,4] f32[2,40,4] interleaved=1", "f32[2,40,24] f32[2,40,3] f32[2,40,3] num_heads=3 rotary_embedding_dim=6 interleaved=1"}) {
        expect("RotaryEmbedding", text);
        expect("RotaryEmbedding", in_type(text, "f64"), 1e-12);
        expect("RotaryEmbedding", in_type(text, "f16"), 2e-3);
    }
    for (const char* text : {"f32[2,9,8] f32[2,9,8] f32[2,9,6] q_num_heads=2 kv_num_heads=2 update_rule=linear",
                             "f32[2,9,16] f32[2,9,8] f32[2,9,6] f32[2,2,4,3] f32[2,9,2]~-1:0 f32[2,9,1] q_num_heads=4 kv_num_heads=2",
                             "f32[1,40,8] f32[1,40,8]~-0.4:0.4 f32[1,40,6] - - f32[1,40,2]~0:1 q_num_heads=2 kv_num_heads=2 update_rule=delta",
                             "f32[2,5,8] f32[2,5,4] f32[2,5,4] - f32[2,5,4]~-1:0 q_num_heads=2 kv_num_heads=1 update_rule=gated scale=0.7"}) {
        expect("LinearAttention", text, 2e-5, 2);
        expect("LinearAttention", in_type(text, "f16"), 1e-2, 2);
    }
}

TEST_CASE("CausalConvWithState runs on the CUDA simulator as a depthwise convolution") {
    for (const char* text : {"f32[2,3,7] f32[3,1,4] f32[3] f32[2,3,3] activation=silu", "f32[2,16,40] f32[16,1,4] - f32[2,16,3]",
                             "f32[2,8,1] f32[8,1,3] f32[8] f32[2,8,2] activation=swish", "f32[1,8,50] f32[8,1,1] f32[8]", "f32[2,9,30] f32[9,1,12] f32[9]"}) {
        const int outputs = std::string(text).find(",1,1]") == std::string::npos ? 2 : 1;
        expect("CausalConvWithState", text, 2e-5, outputs);
        expect("CausalConvWithState", in_type(text, "f16"), 3e-3, outputs);
        expect("CausalConvWithState", in_type(text, "bf16"), 2e-2, outputs);
    }
}

TEST_CASE("DFT and STFT run on the CUDA simulator as products whose factors are not rounded") {
    const auto halves = [] {
        graft::device_options options;
        options.precision = "bfloat16";
        return simulated::open(options);
    }();
    const auto automatic = simulated::open({});
    const char* const transforms[][2] = {
        {"DFT", "f32[3,16,1]"},
        {"DFT", "f32[2,10,3,2] - i64(1) inverse=1"},
        {"DFT", "f32[2,9,2] i64(12) onesided=1 inverse=1"},
        {"DFT", "f32[2,6,2] onesided=1 inverse=1"},
        {"DFT", "f32[2,5,4,2] i64(9) i64(1) onesided=1 inverse=1"},
        {"DFT", "f32[2,33,5,1] i64(20) i64(1) onesided=1"},
        {"DFT", "f32[7,13,2] i64(21) i64(0)"},
        {"DFT", "f32[2,500,1] - - onesided=1"},
        {"STFT", "f32[2,64,1] i64(8) - i64(16)"},
        {"STFT", "f32[2,30,2] i64(7) f32[12] onesided=0"},
        {"STFT", "f32[1,400,1] i64(50) f32[128] i64(128)"},
    };
    for (const auto& t : transforms) {
        expect(t[0], t[1]);
        expect(t[0], in_type(t[1], "f64"), 1e-9);
        expect(t[0], in_type(t[1], "f16"), 2e-3);
        // What is chosen for other products does not reach these.
        expect(read(t[0], t[1]), 2e-5, halves);
        expect(read(t[0], t[1]), 2e-5, automatic);
    }
    CHECK(placed::run(read("DFT", "f32[1,2049,1]"), simulated::exact_device()).refusal.find("too long") != std::string::npos);
    // Of a value that lies in memory as halves.
    problems::problem p = read("DFT", "f32[4,16,2]");
    graft::graph& g = p.g;
    graft::node squared;
    squared.op_type = "Mul";
    squared.name = "squared";
    squared.inputs = {g.nodes[0].inputs[0], g.nodes[0].inputs[0]};
    squared.outputs = {g.add_value("squares")};
    g.nodes[0].inputs[0] = squared.outputs[0];
    g.nodes.insert(g.nodes.begin(), squared);
    expect(p, 2e-2, halves);
}

TEST_CASE("a node with more addresses than a kernel takes stays on the host") {
    std::string parts;
    for (int i = 0; i < 70; ++i) parts += "f32[2,40] ";
    const problems::problem p = read("Concat", parts + "axis=0");
    const placed::answer want = placed::run(p, nullptr), got = placed::run(p, simulated::exact_device());
    REQUIRE_MESSAGE(got.error.empty(), got.error);
    CHECK(got.refusal.find("more than 64") != std::string::npos);
    CHECK(difference(got.outputs[0], want.outputs[0]) == 0);
}

TEST_CASE("halves between operators change Attention by little on the CUDA simulator, and losses stay float32") {
    for (const char* precision : {"float16", "bfloat16"}) {
        graft::device_options options;
        options.precision = precision;
        const auto device = simulated::open(options);
        const double tolerance = std::string(precision) == "float16" ? 1e-2 : 6e-2;
        for (const char* text : attentions) expect(read("Attention", text), tolerance, device);
        expect(read("Einsum", "f32[2,20,3,8] f32[2,24,3,8] f32[24] equation=bqhd,bkhd,k->q"), tolerance, device);
        expect(read("SoftmaxCrossEntropyLoss", "f32[2,6,9,11] i64[2,9,11]~0:6 f32[6]~0.1:1", 2), 2e-5, device);
    }
}

TEST_CASE("a vision transformer runs on the CUDA simulator, no node of it on the host" * doctest::skip(!std::getenv("GRAFT_SHARED"))) {
    const char* shared = std::getenv("GRAFT_SHARED");
    const std::string path = std::string(shared ? shared : "") + "/pack/models/arch_random_weights/timm_vit_op17.onnx";
    if (!std::ifstream(path)) {
        say_skipped("there is no " + std::string(path));
        return;
    }
    const graft::model host = graft::load(path);
    const graft::tensor x = small_steps::numbered(3, {2, 3, 64, 64});
    graft::session on_host(host, {1, nullptr});
    const graft::tensor want = on_host.run(x);
    for (const char* precision : {"float32", "float16", "bfloat16"}) {
        CAPTURE(precision);
        graft::device_options options;
        options.precision = precision;
        const graft::model m = graft::load(path, graft::on_device(simulated::open(options)));
        graft::session session(m, {1, nullptr});
        const graft::tensor got = session.run(x);
        CHECK(difference(got, want) <= (std::string(precision) == "float32" ? 2e-5 : std::string(precision) == "float16" ? 1e-2 : 6e-2));
        std::vector<graft::value_info> given{{m.inputs()[0].name, x.type(), true, x.shape(), {}, false}};
        auto placed = m.placements(given);
        REQUIRE(placed.ok());
        for (const graft::placement& where : placed.value()) CHECK_MESSAGE(where.device != "cpu", where.reason);
    }
}

namespace {

// Pictures [3, 8, 8] as 16 tokens that look at each other, a product of all of them, and a classifier.
graft::graph small_transformer() {
    const auto integers = [](const std::vector<std::int64_t>& v) {
        return graft::tensor::from(v.data(), graft::shape{static_cast<std::int64_t>(v.size())}).value();
    };
    graft::builder b("tokens", 5);
    graft::conv2d_options conv;
    conv.kernel = conv.stride = 2, conv.name = "conv1";
    graft::value_id x = b.conv2d(b.input("input", graft::dtype::float32, {"N", 3, 8, 8}), 12, conv);
    x = b.apply("Transpose", {b.apply("Reshape", {x, b.constant("tokens", integers({0, 12, 16}))})}, {graft::integers_attribute("perm", {0, 2, 1})});
    const graft::value_id k = b.apply("MatMul", {x, b.constant("key.weight", small_steps::numbered(60, {12, 6}))});
    const graft::value_id v = b.apply("MatMul", {x, b.constant("value.weight", small_steps::numbered(61, {12, 6}))});
    x = b.apply("Attention", {x, k, v},
                {graft::integer_attribute("q_num_heads", 4), graft::integer_attribute("kv_num_heads", 2), graft::integer_attribute("is_causal", 1),
                 graft::real_attribute("softcap", 4.0f)});
    x = b.apply("Einsum", {x, b.constant("mix.weight", small_steps::numbered(62, {16, 12, 7}, 0.2))}, {graft::string_attribute("equation", "ntc,tcd->nd")});
    x = b.apply("Gemm", {x, b.constant("fc.weight", small_steps::numbered(63, {5, 7}, 0.5)), b.constant("fc.bias", small_steps::numbered(64, {5}))},
                {graft::integer_attribute("transB", 1)});
    b.output(x, "logits");
    graft::graph g = b.finish();
    graft::value& logits = g.at(x);
    logits.type = graft::dtype::float32;
    logits.has_shape = true;
    logits.extents = {graft::shape::unknown, 5};
    g.opsets[0].version = 23;
    for (graft::node& n : g.nodes) n.version = 23;
    return small_steps::loaded(std::move(g));
}

}  // namespace

TEST_CASE("a network with Attention and Einsum learns on the CUDA simulator what it learns on the CPU") {
    const graft::graph g = small_transformer();
    graft::step_options host_options, device_options;
    device_options.on = simulated::exact_device();
    small_steps::trained host(g, host_options), device(g, device_options);
    for (std::int64_t i = 0; i < 4; ++i) {
        const std::int64_t n = i == 3 ? 3 : 4;
        REQUIRE(host.run(i, n));
        const bool ran = device.run(i, n);
        REQUIRE_MESSAGE(ran, device.error());
        CHECK(device.step.loss() == doctest::Approx(host.step.loss()).epsilon(1e-4));
        CHECK(difference(device.step.logits(), host.step.logits()) <= 1e-4);
    }
}

namespace {

// The texts of all kernels that a problem becomes, with what was fused.
void add_texts(const problems::problem& p, const std::shared_ptr<graft::device>& device, std::set<std::string>& texts) {
    const graft::model m = graft::load(p.g);
    std::vector<graft::tensor_view> inputs;
    for (const graft::tensor& x : p.inputs) inputs.push_back({x.type(), x.shape(), nullptr});
    graft::executor pool;
    graft::execution_options how;
    how.places = {graft::backends::cpu::instance().open("cpu", {}, nullptr).value(), device};
    auto made = graft::make_plan(m.graph(), inputs.data(), how, pool);
    REQUIRE(made.ok());
    for (const graft::step& s : made.value()->steps)
        if (s.place) texts.insert(static_cast<const graft::gpu::cuda_kernel&>(*s.kernel).generated.source);
    texts.erase("");  // of libraries and copies
}

}  // namespace

TEST_CASE("the real NVRTC compiles what Attention, steps and losses become") {
    std::string why;
    const auto* nvrtc = real_nvrtc::functions(why);
    if (!nvrtc) {
        say_skipped(why);
        return;
    }
    std::set<std::string> texts;
    for (const char* precision : {"float32", "float16"}) {
        graft::device_options options;
        options.precision = precision;
        const auto device = simulated::open(options);
        for (const char* text : attentions) add_texts(read("Attention", text), device, texts);
        add_texts(read("LSTM", "f32[7,3,5] f32[2,24,5] f32[2,24,6] f32[2,48] i32{5,7,2} f32[2,3,6] f32[2,3,6] f32[2,18] hidden_size=6 direction=bidirectional"),
                  device, texts);
        add_texts(read("SoftmaxCrossEntropyLoss", "f32[2,6,9,11] i64[2,9,11]~0:6 f32[6]~0.1:1 ignore_index=3"), device, texts);
        add_texts(read("Hardmax", "f32[30,77]"), device, texts);
    }
    for (const char* arch : {"sm_75", "sm_90"})
        for (const std::string& text : texts) {
            const std::string log = real_nvrtc::compile(*nvrtc, text, arch);
            CHECK_MESSAGE(log.empty(), arch, ": ", log.substr(0, 2000));
        }
    MESSAGE(texts.size(), " texts compiled for two architectures");
}
