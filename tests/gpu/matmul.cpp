// Matrix products by cuBLASLt, on the CUDA simulator: values against the reference kernels, and which algorithm is chosen.
#ifdef GRAFT_CUDA_SIMULATOR
#include "simulated_device.hpp"

#include <graft/gpu/ops/matmul.hpp>

#include <map>

namespace {

using graft::dtype;
using graft::tensor;
using graft::activation;
using graft::gpu::kernel_options;
using library_problem::asked;
using library_problem::problem;
using simulated::device;
using simulated::op_row_of;

constexpr auto rows = graft::layout::row_major;

double bound(dtype type) { return type == dtype::float64 ? 1e-14 : type == dtype::bfloat16 ? 1e-2 : 2e-3; }

problem product(const char* op, const std::string& text, dtype type) {
    problem p = library_problem::of(*op_row_of(op, std::string(op) == "MatMulGradWeight" ? "graft" : ""), text, type, rows);
    CHECK_MESSAGE(p.error.empty(), p.error);
    return p;
}

std::string refusal(const problem& p, const device& on) {
    const asked a(p, on.traits, {});
    const char* why = simulated::row_of(graft::gpu::matmul_rows(), p.n.op_type.c_str(), p.n.domain.c_str())->refuse(a.query);
    return why ? why : "";
}
graft::result<std::unique_ptr<graft::gpu::library_kernel>> make(const problem& p, const device& on, kernel_options options = {}) {
    return simulated::make(graft::gpu::matmul_rows(), p, on, options);
}
double answered(const problem& p, const device& on, std::string& why, kernel_options options = {}) {
    return simulated::answered(graft::gpu::matmul_rows(), p, on, why, options);
}

// A MatMul of the domain graft from matrices as they lie in memory: [m, k] or, transposed, [k, m]; with bias, activation, residual.
problem fused(dtype type, bool trans_a, bool trans_b, bool bias, activation act, int residual) {
    const std::int64_t m = 5, n = 12, k = 7;
    problem p;
    p.n.op_type = "MatMul";
    p.n.domain = "graft";
    p.n.outputs = {100};
    p.inputs = {library_problem::numbers(type, trans_a ? graft::shape{k, m} : graft::shape{m, k}, 1),
                library_problem::numbers(type, trans_b ? graft::shape{n, k} : graft::shape{k, n}, 2), tensor(), tensor()};
    p.n.inputs = {0, 1, graft::no_value, graft::no_value};
    if (bias) p.inputs[2] = library_problem::numbers(type, {n}, 3), p.n.inputs[2] = 2;
    if (residual) p.inputs[3] = library_problem::numbers(type, {m, n}, 4), p.n.inputs[3] = 3;
    p.n.attributes = {graft::integer_attribute("transA", trans_a), graft::integer_attribute("transB", trans_b),
                      graft::integer_attribute("activation", static_cast<std::int64_t>(act)), graft::integer_attribute("residual", residual)};
    p.result = type;
    p.wanted = {tensor::make(dtype::float64, {m, n}).value()};
    const auto at = [&](int input, std::int64_t i) { return graft::element_as_double(type, p.inputs[static_cast<std::size_t>(input)].raw(), i); };
    for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
            double y = (bias ? at(2, j) : 0) + (residual == 1 ? at(3, i * n + j) : 0);
            for (std::int64_t l = 0; l < k; ++l) y += at(0, trans_a ? l * m + i : i * k + l) * at(1, trans_b ? j * k + l : l * n + j);
            if (act == activation::relu) y = y > 0 ? y : 0;
            if (act == activation::gelu_tanh) y = 0.5 * y * (1 + std::tanh(std::sqrt(2 / 3.14159265358979324) * (y + 0.044715 * y * y * y)));
            p.wanted[0].data<double>()[i * n + j] = y + (residual == 2 ? at(3, i * n + j) : 0);
        }
    return p;
}

}  // namespace

TEST_CASE("the test problems of matrix products give the reference's answers by cuBLASLt on the simulator") {
    device on;
    std::map<std::string, int> refused;
    int ran = 0;
    for (const graft::gpu::library_row& row : graft::gpu::matmul_rows()) {
        const std::string op = row.op, domain = row.domain;
        if (op == "MatMul" && domain == "graft") continue;  // has no reference of its own
        for (const std::string& text : problems::split(op_row_of(op, domain)->problems, ';'))
            for (const dtype type : {dtype::float32, dtype::float16, dtype::bfloat16, dtype::float64}) {
                const problem p = product(op.c_str(), text, type);
                const std::string name = graft::name(type);
                INFO(op, " ", text, " ", name);
                const std::string why_not = refusal(p, on);
                if (!why_not.empty()) {
                    ++refused[why_not];
                    CHECK(!make(p, on).ok());
                    continue;
                }
                std::string why;
                const double d = answered(p, on, why);
                CHECK_MESSAGE(why.empty(), why);
                CHECK(d <= bound(type));
                ++ran;
            }
    }
    CHECK(ran >= 60);
    for (const auto& r : refused) {
        const std::string known[] = {"it is empty", "its bias is scaled", "its bias is not one number for each column", "cuBLASLt has no bias of that type",
                                     "cuBLASLt multiplies float32, float16, bfloat16 and float64"};
        CHECK_MESSAGE(std::find(std::begin(known), std::end(known), r.first) != std::end(known), r.first);
    }
}

TEST_CASE("batches are strides, rows of one product, or a few products") {
    device on;
    const char* texts[] = {"f32[2,3,4,5] f32[2,3,5,6]", "f32[2,3,4,5] f32[5,6]",     "f32[4,5] f32[2,3,5,6]",     "f32[2,1,4,5] f32[1,3,5,6]",
                           "f32[2,3,4,5] f32[3,5,6]",   "f32[2,3,4,5] f32[2,1,5,6]", "f32[2,1,1,5] f32[2,3,5,6]", "f32[5] f32[3,5,6]",
                           "f32[3,4,5] f32[5]",         "f32[1,1,5] f32[5,1]"};
    for (const char* text : texts) {
        INFO(text);
        std::string why;
        const double d = answered(product("MatMul", text, dtype::float32), on, why);
        CHECK_MESSAGE(why.empty(), why);
        CHECK(d <= 2e-3);
    }
    CHECK(refusal(product("MatMul", "f32[2,1,3,4,5] f32[1,2,1,5,6]", dtype::float32), on) == "its batches are broadcast in more than one way");
    CHECK(refusal(product("MatMul", "f32[65,1,1,2] f32[1,2,2,2]", dtype::float32), on) == "its batches are too many");
}

TEST_CASE("bias, residual, ReLU and the approximate GELU go into the product") {
    device on;
    int ran = 0;
    for (const dtype type : {dtype::float32, dtype::float16, dtype::bfloat16})
        for (const activation act : {activation::none, activation::relu, activation::gelu_tanh})
            for (int bits = 0; bits < 16; ++bits) {
                const int residual = bits & 8 ? (act == activation::none ? 2 : 1) : 0;
                const problem p = fused(type, bits & 1, bits & 2, bits & 4, act, residual);
                std::string why;
                CAPTURE(static_cast<int>(act));
                CAPTURE(bits);
                const double d = answered(p, on, why);
                CHECK_MESSAGE(why.empty(), why);
                CHECK(d <= bound(type));
                ++ran;
            }
    CHECK(ran == 144);
}

TEST_CASE("epilogues and values that cuBLASLt has not are refused with the reason") {
    device on;
    CHECK(graft::gpu::matmul_epilogue_supported(activation::gelu_tanh));
    for (const activation act : {activation::gelu, activation::silu, activation::clip, activation::tanh}) {
        CHECK(!graft::gpu::matmul_epilogue_supported(act));
        CHECK(refusal(fused(dtype::float32, false, false, true, act, 0), on) == "cuBLASLt has not its activation");
    }
    CHECK(refusal(fused(dtype::float32, false, false, true, activation::relu, 2), on) == "cuBLASLt adds no residual behind the activation");
    CHECK(refusal(fused(dtype::float64, false, false, true, activation::none, 0), on) == "cuBLASLt has no bias of that type");
    CHECK(refusal(fused(dtype::float64, false, false, false, activation::relu, 0), on) == "cuBLASLt has not its activation");
    problem odd = fused(dtype::float16, false, false, true, activation::none, 0);
    odd.inputs[2] = library_problem::converted(odd.inputs[2], dtype::float32);
    CHECK(refusal(odd, on) == "cuBLASLt has no bias of that type");
    problem turned = product("MatMul", "f32[2,3,4,5] f32[5,6]", dtype::float32);
    turned.in_layout[0] = graft::layout::channels_last;
    CHECK(refusal(turned, on) == "its values are not row-major");
}

TEST_CASE("alpha, beta, and C as a matrix or a row, are the product's own") {
    device on;
    for (const char* text :
         {"f32[3,5] f32[5,4] f32[3,4] alpha=0.5 beta=-2", "f32[3,5] f32[5,4] f32[4] alpha=-3", "f32[5,3] f32[4,5] f32[1,4] transA=1 transB=1",
          "f32[3,5] f32[5,1] f32[3,1] beta=0.25", "f32[3,5] f32[5,4] f32[3,1] beta=0", "f32[1,5] f32[5,4] f32[4] beta=7"}) {
        INFO(text);
        std::string why;
        const double d = answered(product("Gemm", text, dtype::float32), on, why);
        CHECK_MESSAGE(why.empty(), why);
        CHECK(d <= 2e-3);
    }
    CHECK(refusal(product("Gemm", "f32[3,5] f32[5,4] f32[4] beta=2", dtype::float32), on) == "its bias is scaled");
    CHECK(refusal(product("Gemm", "f32[3,5] f32[5,4] f32[3,1]", dtype::float32), on) == "its bias is not one number for each column");
}

TEST_CASE("without TF32 factors of a product are not rounded") {
    device on;
    problem p = product("MatMul", "f32[8,16] f32[16,8]", dtype::float32);
    for (tensor& t : p.inputs)
        for (std::int64_t i = 0; i < t.elements(); ++i) t.data<float>()[i] += 1.0f / 4096;
    library_problem::answer(p, *op_row_of("MatMul", ""));
    kernel_options options;
    std::string why;
    const double rounded = answered(p, on, why, options);
    options.tf32 = false;
    CHECK(answered(p, on, why, options) <= 1e-6);
    CHECK(rounded > 1e-5);
    CHECK_MESSAGE(why.empty(), why);
}

TEST_CASE("the result of narrow factors may be float32") {
    device on;
    problem p = product("MatMulGradWeight", "f32[13,7] f32[13,17] transposed=1", dtype::float16);
    p.result = dtype::float32;
    std::string why;
    CHECK(answered(p, on, why) <= 1e-6);
    CHECK_MESSAGE(why.empty(), why);
}

TEST_CASE("algorithms within the workspace are measured, and the fastest is kept and found again") {
    device on;
    struct notebook {
        std::map<std::string, std::string> kept;
        std::vector<std::string> timed;
        double fails = 0;
    } book;
    on.with.choices.context = &book;
    on.with.choices.recall = [](void* self, const std::string& key) { return static_cast<notebook*>(self)->kept[key]; };
    on.with.choices.remember = [](void* self, const std::string& key, const std::string& choice) { static_cast<notebook*>(self)->kept[key] = choice; };
    on.with.choices.milliseconds = [](void* self, const graft::gpu::kernel_query&, const graft::gpu::library_kernel& kernel, int) {
        static_cast<notebook*>(self)->timed.push_back(kernel.note);
        return static_cast<notebook*>(self)->fails < 0 ? -1.0 : kernel.workspace_bytes ? 2.0 : 1.0;
    };
    const problem p = product("MatMul", "f32[8,16] f32[16,8]", dtype::float32);
    auto kernel = make(p, on);
    REQUIRE(kernel.ok());
    CHECK(book.timed.size() == 2);
    CHECK(kernel.value()->workspace_bytes == 0);
    REQUIRE(book.kept.size() == 1);
    CHECK(book.kept.begin()->first.find("simulator; cuBLASLt 130002; product 8x8x16") == 0);
    kernel = make(p, on);
    REQUIRE(kernel.ok());
    CHECK(kernel.value()->workspace_bytes == 0);
    CHECK(book.timed.size() == 2);
    book.kept.begin()->second = "not an algorithm";
    CHECK(make(p, on).ok());
    CHECK(book.timed.size() == 4);
    book.kept.clear();
    book.fails = -1;
    const auto failed = make(p, on);
    REQUIRE(!failed.ok());
    CHECK(failed.error().code() == graft::errc::device_unavailable);
    // Without measuring, the library's favourite; it needs a workspace, and is left out where there is none.
    on.with.choices.milliseconds = nullptr;
    book.kept.clear();
    CHECK(make(p, on).value()->workspace_bytes > 0);
    on.with.choices.workspace_bytes = 0;
    CHECK(make(p, on).value()->workspace_bytes == 0);
    on.with.cublaslt = nullptr;
    const auto nothing = make(p, on);
    REQUIRE(!nothing.ok());
    CHECK(nothing.error().code() == graft::errc::device_unavailable);
}

TEST_CASE("deterministic products leave out algorithms that add in another order each time, and what was measured") {
    simulated::set("RACING_SUMS", "1");
    device on;
    const problem p = product("MatMul", "f32[5,64] f32[64,7]", dtype::float32);
    std::map<std::string, std::string> kept;
    on.with.choices.context = &kept;
    on.with.choices.recall = [](void* self, const std::string& key) { return (*static_cast<std::map<std::string, std::string>*>(self))[key]; };
    on.with.choices.remember = [](void* self, const std::string& key, const std::string& choice) {
        (*static_cast<std::map<std::string, std::string>*>(self))[key] = choice;
    };
    on.with.choices.candidates = 2;
    // the one that races is measured as the fastest, and kept
    on.with.choices.milliseconds = [](void*, const graft::gpu::kernel_query&, const graft::gpu::library_kernel&, int) { return 1.0; };
    const auto bits = [&](kernel_options o) { return simulated::repeats(graft::gpu::matmul_rows(), p, on, o); };
    kernel_options options;
    options.deterministic = true;
    CHECK(bits(options));
    CHECK(!bits({}));
    CHECK(bits(options));
    CHECK(kept.size() == 1);
    simulated::set("RACING_SUMS", nullptr);
}

TEST_CASE("every call of cuBLASLt that fails gives a clean error and leaks nothing") {
    device on;
    const problem p = fused(dtype::float32, false, true, true, activation::relu, 1);
    int refused = 0;
    for (int call = 1; call < 100; ++call) {
        simulated::reset();
        simulated::fail(("*:" + std::to_string(call) + ":13").c_str());
        auto kernel = make(p, on);
        simulated::fail(nullptr);
        const bool made = kernel.ok();
        refused += !made;
        if (!made) CHECK(kernel.error().code() == graft::errc::device_unavailable);
        if (made && simulated::count("calls") < call) break;
    }
    CHECK(refused > 10);
    auto kernel = make(p, on);
    REQUIRE(kernel.ok());
    simulated::fail("cublasLtMatmul:1:3");
    const std::uint64_t nothing[4] = {4096, 4096, 4096, 4096};
    const graft::status s = kernel.value()->enqueue({on.with, on.stream, nothing, nothing, 4096});
    simulated::fail(nullptr);
    REQUIRE(!s.ok());
    CHECK(s.error().code() == graft::errc::memory_oom);
}
#endif
