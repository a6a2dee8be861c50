// Convolutions by cuDNN, on the CUDA simulator: values against the reference kernels, and which engine is chosen.
#ifdef GRAFT_CUDA_SIMULATOR
#include "simulated_device.hpp"

#include <graft/graph/activation.hpp>
#include <graft/gpu/ops/conv.hpp>

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

constexpr auto last = graft::layout::channels_last;

// What rounding of the result, and of the factors to TF32, may cost.
double bound(dtype type) { return type == dtype::float32 ? 2e-3 : type == dtype::float16 ? 2e-3 : 1e-2; }

double activated(double x, activation a, double alpha, double beta) {
    switch (a) {
    case activation::relu: return std::fmax(x, 0);
    case activation::clip: return std::fmin(std::fmax(x, alpha), beta);
    case activation::leaky_relu: return x < 0 ? alpha * x : x;
    case activation::sigmoid: return 1 / (1 + std::exp(-x));
    case activation::silu: return x / (1 + std::exp(-x));
    case activation::tanh: return std::tanh(x);
    case activation::gelu: return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979324) * (x + 0.044715 * x * x * x)));
    case activation::elu: return x < 0 ? alpha * (std::exp(x) - 1) : x;
    case activation::softplus: return std::log(1 + std::exp(x));
    default: return x;
    }
}

// A Conv of the domain graft: bias, an activation, and a residual (1 before, 2 behind it).
problem fused(const char* text, dtype type, activation a, int residual, float alpha, float beta) {
    problem p = library_problem::of(*op_row_of("Conv", ""), text, type, last);
    REQUIRE(p.error.empty());
    p.n.domain = "graft";
    const tensor add = library_problem::numbers(type, p.wanted[0].shape(), 99);
    if (residual) {
        while (p.inputs.size() < 3) p.inputs.emplace_back(), p.n.inputs.push_back(graft::no_value);
        p.inputs.push_back(add);
        p.n.inputs.push_back(77);
        p.n.attributes.push_back(graft::integer_attribute("residual", residual));
    }
    p.n.attributes.push_back(graft::integer_attribute("activation", static_cast<std::int64_t>(a)));
    p.n.attributes.push_back(graft::real_attribute("alpha", alpha));
    p.n.attributes.push_back(graft::real_attribute("beta", beta));
    for (std::int64_t i = 0; i < p.wanted[0].elements(); ++i) {
        const double r = residual ? graft::element_as_double(type, add.raw(), i) : 0;
        double& y = p.wanted[0].data<double>()[i];
        y = activated(y + (residual == 1 ? r : 0), a, static_cast<double>(alpha), static_cast<double>(beta)) + (residual == 2 ? r : 0);
    }
    return p;
}

graft::result<std::unique_ptr<graft::gpu::library_kernel>> make(const problem& p, const device& on, kernel_options options = {}) {
    return simulated::make(graft::gpu::conv_rows(), p, on, options);
}
double answered(const problem& p, const device& on, std::string& why, kernel_options options = {}, std::string* note = nullptr) {
    return simulated::answered(graft::gpu::conv_rows(), p, on, why, options, note);
}

// A user's functions behind `library_choices`.
struct notebook {
    std::map<std::string, std::string> kept;
    std::vector<std::string> timed;
    std::string fastest;  // the note that gets the least time
    int failing = 0;      // how many of the first to be timed fail

    void attach(graft::gpu::library_choices& c) {
        c.context = this;
        c.recall = [](void* self, const std::string& problem) { return static_cast<notebook*>(self)->kept[problem]; };
        c.remember = [](void* self, const std::string& problem, const std::string& choice) { static_cast<notebook*>(self)->kept[problem] = choice; };
        c.milliseconds = [](void* self, const graft::gpu::kernel_query&, const graft::gpu::library_kernel& kernel, int) {
            auto& book = *static_cast<notebook*>(self);
            book.timed.push_back(kernel.note);
            if (static_cast<int>(book.timed.size()) <= book.failing) return -1.0;
            return kernel.note.find(book.fastest) == std::string::npos ? 2.0 : 1.0;
        };
    }
};

constexpr const char* aligned = "f32[2,8,5,6] f32[16,8,3,3] f32[16] pads=1,1,1,1";

}  // namespace

TEST_CASE("the test problems of convolutions give the reference's answers by cuDNN's graphs on the simulator") {
    device on;
    int ran = 0, empty = 0, uneven = 0;
    for (const graft::gpu::library_row& family_row : graft::gpu::conv_rows()) {
        const std::string op = family_row.op, domain = family_row.domain;
        if (op == "Conv" && domain == "graft") continue;  // has no reference of its own
        const graft::op_row* row = op_row_of(op, domain);
        REQUIRE(row);
        for (const std::string& text : problems::split(row->problems, ';'))
            for (const dtype type : {dtype::float32, dtype::float16, dtype::bfloat16}) {
                const problem p = library_problem::of(*row, text, type, last);
                const std::string name = graft::name(type);
                INFO(op, " ", text, " ", name);
                CHECK_MESSAGE(p.error.empty(), p.error);
                const asked a(p, on.traits, {});
                if (const char* refused = family_row.refuse(a.query)) {
                    const std::string why = refused;
                    CHECK(why == "it is empty");
                    ++empty;
                    continue;
                }
                std::string why;
                const double d = answered(p, on, why);
                if (graft::gpu::find_uneven_pads(a.query).rank) {
                    CHECK(why.find("its pads are not even") != std::string::npos);  // lowering makes them even
                    ++uneven;
                    continue;
                }
                CHECK_MESSAGE(why.empty(), why);
                CHECK(d <= bound(type));
                ++ran;
            }
    }
    CHECK(ran >= 60);
    CHECK(empty >= 9);
    CHECK(uneven >= 24);
}

TEST_CASE("bias, residual and activation go into the convolution's graph") {
    device on;
    const struct {
        activation a;
        float alpha, beta;
    } functions[] = {{activation::none, 0, 0},      {activation::relu, 0, 0},   {activation::clip, -0.5f, 6}, {activation::leaky_relu, 0.1f, 0},
                     {activation::sigmoid, 0, 0},   {activation::silu, 0, 0},   {activation::tanh, 0, 0},     {activation::gelu, 0, 0},
                     {activation::gelu_tanh, 0, 0}, {activation::elu, 0.7f, 0}, {activation::softplus, 0, 0}};
    for (const auto& f : functions)
        for (int residual = 0; residual < 3; ++residual)
            for (const char* text : {aligned, "f32[1,8,4,4] f32[8,2,3,2] group=4 strides=2,1 pads=1,0,1,0"}) {
                const problem p = fused(text, dtype::float32, f.a, residual, f.alpha, f.beta);
                std::string why;
                const double d = answered(p, on, why);
                CAPTURE(static_cast<int>(f.a));
                CAPTURE(residual);
                CHECK_MESSAGE(why.empty(), why);
                CHECK(d <= 2e-3);
            }
}

TEST_CASE("an activation that cuDNN has not, and values that it cannot read, are refused with the reason") {
    device on;
    const auto refusal = [&](const problem& p) {
        const asked a(p, on.traits, {});
        const char* why = simulated::row_of(graft::gpu::conv_rows(), "Conv", p.n.domain.c_str())->refuse(a.query);
        return std::string(why ? why : "");
    };
    for (const activation a : {activation::hard_sigmoid, activation::hard_swish, activation::mish}) {
        CHECK(!graft::gpu::conv_epilogue_supported(a));
        CHECK(refusal(fused(aligned, dtype::float32, a, 0, 0, 0)) == "cuDNN has not its activation");
    }
    CHECK(graft::gpu::conv_epilogue_supported(activation::none));
    CHECK(refusal(fused(aligned, dtype::float64, activation::none, 0, 0, 0)) == "cuDNN convolves float32, float16 and bfloat16");
    problem rows = fused(aligned, dtype::float32, activation::none, 0, 0, 0);
    rows.in_layout[0] = graft::layout::row_major;
    CHECK(refusal(rows) == "its values are not channels-last");
    problem point = fused("f32[2,8,1,1] f32[16,8,1,1]", dtype::float32, activation::none, 0, 0, 0);
    point.in_layout[0] = point.in_layout[1] = point.out_layout[0] = graft::layout::row_major;
    CHECK(refusal(point).empty());  // one pixel lies alike in both
    problem residual = fused(aligned, dtype::float32, activation::none, 1, 0, 0);
    residual.inputs.pop_back();
    CHECK(refusal(residual) == "its residual is missing");
}

TEST_CASE("without TF32 no engine with tensor cores is taken, and products are exact") {
    device on;
    const problem p = library_problem::of(*op_row_of("Conv", ""), "f32[1,8,3,3] f32[8,8,1,1]", dtype::float32, last);
    problem fine = p;  // factors that TF32 has not the bits for
    for (tensor& t : fine.inputs)
        for (std::int64_t i = 0; i < t.elements(); ++i) t.data<float>()[i] += 1.0f / 4096;
    library_problem::answer(fine, *op_row_of("Conv", ""));
    std::string why, full, rounded;
    kernel_options options;
    options.tf32 = false;
    CHECK(answered(fine, on, why, options, &full) <= 1e-6);
    const double coarse = answered(fine, on, why, {}, &rounded);
    CHECK(coarse > 1e-5);
    CHECK(coarse <= 2e-3);
    CHECK_MESSAGE(why.empty(), why);
    CHECK(full != rounded);
}

TEST_CASE("deterministic gradients leave out engines that sum in another order each time") {
    device on;
    const problem p = library_problem::of(*op_row_of("ConvGradWeight", "graft"), "f32[2,3,5,5] f32[2,5,5,5] shape=5,3,3,3 pads=1,1,1,1", dtype::float32, last);
    kernel_options options;
    options.deterministic = true;
    const auto bits = [&](kernel_options o) { return simulated::repeats(graft::gpu::conv_rows(), p, on, o); };
    CHECK(bits(options));
    CHECK(!bits({}));
}

TEST_CASE("an engine that needs more workspace than allowed is passed over") {
    device on;
    const problem p = library_problem::of(*op_row_of("Conv", ""), "f32[2,8,5,6] f32[16,8,3,3] pads=1,1,1,1", dtype::float16, last);
    const auto workspace = [&](std::int64_t limit) {
        on.with.choices.workspace_bytes = limit;
        auto kernel = make(p, on);
        REQUIRE(kernel.ok());
        return kernel.value()->workspace_bytes;
    };
    CHECK(workspace(std::int64_t(2) << 30) == std::int64_t(1) << 30);
    CHECK(workspace(std::int64_t(256) << 20) == 131);
    CHECK(workspace(0) == 0);
}

TEST_CASE("the fastest of the measured engines is taken, kept, and found again") {
    device on;
    notebook book;
    book.attach(on.with.choices);
    book.fastest = "engine 8";
    const problem p = fused(aligned, dtype::float32, activation::relu, 0, 0, 0);
    auto kernel = make(p, on);
    REQUIRE(kernel.ok());
    CHECK(book.timed.size() > 1);
    CHECK(kernel.value()->note.find("engine 8") != std::string::npos);
    REQUIRE(book.kept.size() == 1);
    const std::string key = book.kept.begin()->first, chosen = kernel.value()->note;
    CHECK(key.find("simulator; cuDNN 91900; conv x[2,8,5,6]") == 0);
    const std::size_t timed = book.timed.size();
    kernel = make(p, on);
    REQUIRE(kernel.ok());
    CHECK(kernel.value()->note == chosen);
    CHECK(book.timed.size() == timed);
    CHECK(book.kept[key].find("plan {") == 0);  // the engine's kernel was compiled
    // an engine with a knob, then texts that are no choices of this library
    for (const char* kept : {"1 25=0", "1 25=7", "1 99=0", "4711", "-1", "8 ", "8 x=1", "8 2=", "none", "99999999999999999999", "plan ", "plan {}",
                             "plan {\"simulated plan\":9999}"}) {
        book.kept[key] = kept;
        kernel = make(p, on);
        REQUIRE(kernel.ok());
        const bool restored = std::string(kept) == "1 25=0";
        CHECK(kernel.value()->note.find(restored ? "engine 1 25=0" : "engine 8") != std::string::npos);
        CHECK((book.timed.size() == timed) == restored);
        tensor got;
        REQUIRE(on.run(p, *kernel.value(), got).ok());
        CHECK(library_problem::difference(got, p.wanted[0]) <= 2e-3);
    }
}

TEST_CASE("an engine that fails while it is measured is left out; all of them failing is an error") {
    device on;
    notebook book;
    book.attach(on.with.choices);
    book.fastest = "engine";
    book.failing = 1;
    const problem p = fused(aligned, dtype::float32, activation::relu, 0, 0, 0);
    auto kernel = make(p, on);
    REQUIRE(kernel.ok());
    REQUIRE(book.timed.size() > 1);
    CHECK(kernel.value()->note == book.timed[1]);
    book.kept.clear();
    book.timed.clear();
    book.failing = 100;
    kernel = make(p, on);
    REQUIRE(!kernel.ok());
    CHECK(kernel.error().code() == graft::errc::device_unavailable);
    // Measured choices change from run to run: where bits have to stay, the library's favourite is taken.
    book.timed.clear();
    kernel_options options;
    options.deterministic = true;
    CHECK(make(p, on, options).ok());
    CHECK(book.timed.empty());
}

TEST_CASE("where no engine takes the whole node, it says op.unsupported, and the convolution alone is taken") {
    device on;
    simulated::set("COMPUTE", "7.5");
    const auto whole = make(fused(aligned, dtype::float16, activation::silu, 0, 0, 0), on);
    REQUIRE(!whole.ok());
    CHECK(whole.error().code() == graft::errc::op_unsupported);
    const problem alone = library_problem::of(*op_row_of("Conv", ""), "f32[2,8,5,6] f32[16,8,3,3] pads=1,1,1,1", dtype::float16, last);
    std::string why;
    CHECK(answered(alone, on, why) <= bound(dtype::float16));
    CHECK_MESSAGE(why.empty(), why);
    const auto brain = make(fused(aligned, dtype::bfloat16, activation::none, 0, 0, 0), on);
    REQUIRE(!brain.ok());
    CHECK(brain.error().code() == graft::errc::op_unsupported);
    on.with.cudnn = nullptr;
    const auto nothing = make(alone, on);
    REQUIRE(!nothing.ok());
    CHECK(nothing.error().code() == graft::errc::device_unavailable);
}

TEST_CASE("a gradient of weights is float32 where the factors are narrower") {
    device on;
    problem p = library_problem::of(*op_row_of("ConvGradWeight", "graft"), "f32[4,8,6,6] f32[4,8,6,6] shape=8,8,3,3 pads=1,1,1,1", dtype::bfloat16, last);
    p.result = dtype::float32;
    std::string why;
    CHECK(answered(p, on, why) <= 1e-5);
    CHECK_MESSAGE(why.empty(), why);
}

TEST_CASE("a convolution is captured into a graph and runs at every launch") {
    device on;
    const problem p = fused(aligned, dtype::float32, activation::relu, 1, 0, 0);
    auto kernel = make(p, on);
    REQUIRE(kernel.ok());
    std::vector<std::uint64_t> in;
    std::vector<std::vector<unsigned char>> held;
    for (std::size_t i = 0; i < p.inputs.size(); ++i) {
        held.push_back(library_problem::laid_out(p.inputs[i], last, false));
        in.push_back(on.memory(held.back().size()));
        REQUIRE(simulated::cuda().cuMemcpyHtoDAsync_v2(in[i], held.back().data(), held.back().size(), on.stream) == 0);
    }
    tensor got = tensor::make(p.result, p.wanted[0].shape());
    const std::uint64_t out = on.memory(got.bytes()), workspace = on.memory(static_cast<std::size_t>(kernel.value()->workspace_bytes));
    void *graph = nullptr, *executable = nullptr;
    REQUIRE(simulated::cuda().cuStreamSynchronize(on.stream) == 0);
    REQUIRE(simulated::cuda().cuStreamBeginCapture_v2(on.stream, 2) == 0);
    CHECK(kernel.value()->enqueue({on.with, on.stream, in.data(), &out, workspace}).ok());
    REQUIRE(simulated::cuda().cuStreamEndCapture(on.stream, &graph) == 0);
    REQUIRE(simulated::cuda().cuGraphInstantiateWithFlags(&executable, graph, 0) == 0);
    for (int launch = 0; launch < 2; ++launch) {
        REQUIRE(simulated::cuda().cuMemsetD8Async(out, 0, got.bytes(), on.stream) == 0);
        REQUIRE(simulated::cuda().cuGraphLaunch(executable, on.stream) == 0);
        REQUIRE(simulated::cuda().cuMemcpyDtoHAsync_v2(got.raw(), out, got.bytes(), on.stream) == 0);
        REQUIRE(simulated::cuda().cuStreamSynchronize(on.stream) == 0);
        tensor rows = tensor::make(p.result, got.shape());
        const auto bytes = library_problem::laid_out(got, last, true);
        std::memcpy(rows.raw(), bytes.data(), bytes.size());
        CHECK(library_problem::difference(rows, p.wanted[0]) <= 2e-3);
    }
    CHECK(simulated::cuda().cuGraphExecDestroy(executable) == 0);
    CHECK(simulated::cuda().cuGraphDestroy(graph) == 0);
    in.push_back(out);
    in.push_back(workspace);
    for (const std::uint64_t at : in) REQUIRE(simulated::cuda().cuMemFree_v2(at) == 0);
}

TEST_CASE("every call of cuDNN that fails gives a clean error and leaks nothing") {
    device on;
    const problem p = fused(aligned, dtype::float32, activation::relu, 1, 0, 0);
    int refused = 0;
    for (int call = 1; call < 400; ++call) {
        simulated::reset();
        simulated::fail(("*:" + std::to_string(call) + ":4000").c_str());
        auto kernel = make(p, on);
        simulated::fail(nullptr);
        const bool made = kernel.ok();
        refused += !made;
        if (!made) CHECK(kernel.error().code() != graft::errc::internal);
        // Beyond the last call of all nothing failed.
        if (made && simulated::count("calls") < call) break;
    }
    CHECK(refused > 40);
    auto kernel = make(p, on);
    REQUIRE(kernel.ok());
    for (const char* function : {"cudnnSetStream", "cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute", "cudnnBackendFinalize", "cudnnBackendExecute"}) {
        simulated::fail((std::string(function) + ":1:5000").c_str());
        const std::uint64_t nothing[4] = {4096, 4096, 4096, 4096};
        const graft::status s = kernel.value()->enqueue({on.with, on.stream, nothing, nothing, 4096});
        simulated::fail(nullptr);
        REQUIRE(!s.ok());
        CHECK(s.error().code() == graft::errc::device_unavailable);
    }
}
#endif
