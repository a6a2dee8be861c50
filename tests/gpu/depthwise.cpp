// Depthwise convolutions and their gradients: every direction, type and epilogue against the reference kernels.
#include "library_problem.hpp"
#include "table_problems.hpp"

#include <graft/graph/activation.hpp>
#include <graft/gpu/ops/depthwise.hpp>

using namespace generated;

namespace {

using graft::dtype;
using graft::activation;

struct ending {
    activation function = activation::none;
    float alpha = 0, beta = 0;
    int residual = 0;  // 1 before the activation, 2 behind it
};

double activated(double x, const ending& e) {
    const double alpha = static_cast<double>(e.alpha), beta = static_cast<double>(e.beta);
    const auto unit = [](double v) { return std::fmin(std::fmax(v, 0), 1); };
    switch (e.function) {
    case activation::none: return x;
    case activation::relu: return std::fmax(x, 0);
    case activation::clip: return std::fmin(std::fmax(x, alpha), beta);
    case activation::leaky_relu: return x < 0 ? alpha * x : x;
    case activation::sigmoid: return 1 / (1 + std::exp(-x));
    case activation::silu: return x / (1 + std::exp(-x));
    case activation::hard_sigmoid: return unit(alpha * x + beta);
    case activation::hard_swish: return x * unit(x / 6 + 0.5);
    case activation::tanh: return std::tanh(x);
    case activation::gelu: return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979324) * (x + 0.044715 * x * x * x)));
    case activation::elu: return x < 0 ? alpha * (std::exp(x) - 1) : x;
    case activation::softplus: return std::log(1 + std::exp(x));
    case activation::mish: return x * std::tanh(std::log(1 + std::exp(x)));
    }
    return x;
}

const ending endings[] = {{activation::relu, 0, 0, 0},       {activation::clip, -0.5f, 6, 1}, {activation::leaky_relu, 0.1f, 0, 2},
                          {activation::sigmoid, 0, 0, 1},    {activation::silu, 0, 0, 0},     {activation::hard_sigmoid, 0.2f, 0.5f, 0},
                          {activation::hard_swish, 0, 0, 2}, {activation::tanh, 0, 0, 0},     {activation::gelu, 0, 0, 1},
                          {activation::gelu_tanh, 0, 0, 0},  {activation::elu, 0.7f, 0, 2},   {activation::softplus, 0, 0, 0},
                          {activation::mish, 0, 0, 1},       {activation::none, 0, 0, 1}};

// A problem in `type`, with what double precision makes of it; for a device of so many multiprocessors: the larger, the shorter the strips.
void add_depthwise(std::vector<example>& all, const std::string& op, const std::string& problem, dtype type, dtype result, const ending& e = {},
                   int multiprocessors = 0) {
    std::string error;
    const bool conv = op == "Conv";
    const graft::op_row* row = row_of(op.c_str(), conv ? "" : "graft");
    REQUIRE(row);
    example x = from_problem(*row, problem, error);
    REQUIRE_MESSAGE(error.empty(), error);
    retype(x, type, true);
    example wide = x;
    for (tensor& t : wide.in) t = library_problem::converted(t, dtype::float64);
    const std::string failed = reference(wide);
    REQUIRE_MESSAGE(failed.empty(), failed);
    tensor want = wide.want[0];
    const tensor added = library_problem::numbers(type, want.shape(), 99);
    for (std::int64_t i = 0; i < want.elements(); ++i) {
        double& y = want.data<double>()[i];
        const double r = e.residual ? graft::element_as_double(type, added.raw(), i) : 0;
        y = activated(y + (e.residual == 1 ? r : 0), e) + (e.residual == 2 ? r : 0);
    }
    x.want = {library_problem::converted(want, result)};
    if (conv) x.n.domain = "graft";
    const auto slot = static_cast<std::size_t>(conv ? 3 : 2);
    if (e.residual) {
        while (x.in.size() < slot) x.in.emplace_back(), x.constant.push_back(false), x.n.inputs.push_back(graft::no_value);
        x.in.push_back(added), x.constant.push_back(false), x.n.inputs.push_back(77);
        x.n.attributes.push_back(graft::integer_attribute("residual", e.residual));
    }
    x.in_layout.resize(x.in.size() + 1);
    x.n.attributes.push_back(graft::integer_attribute("activation", static_cast<std::int64_t>(e.function)));
    x.n.attributes.push_back(graft::real_attribute("alpha", e.alpha));
    x.n.attributes.push_back(graft::real_attribute("beta", e.beta));
    x.name += std::string(" in ") + graft::name(type) + " to " + graft::name(result) + ", activation " + std::to_string(static_cast<int>(e.function));
    set_layouts(x, last, last);
    generate(x, multiprocessors);
    CHECK_MESSAGE(!x.refused, x.name, ": ", x.refused);
    if (!x.refused) all.push_back(x);
}

// The three directions of a convolution of C channels: x [N,C,inputs], y [N,C,outputs].
struct geometry {
    std::int64_t n, channels;
    std::string inputs, outputs, kernel, attributes;
    bool bias;
};
std::string list(const geometry& g, const std::string& extents) { return "[" + std::to_string(g.n) + "," + std::to_string(g.channels) + "," + extents + "]"; }
std::string filter(const geometry& g) { return "[" + std::to_string(g.channels) + ",1," + g.kernel + "]"; }
std::string bare(const std::string& text) { return text.substr(1, text.size() - 2); }

std::string forward(const geometry& g) {
    return "f32" + list(g, g.inputs) + " f32" + filter(g) + (g.bias ? " f32[" + std::to_string(g.channels) + "]" : "") +
           " group=" + std::to_string(g.channels) + " " + g.attributes;
}
std::string grad_input(const geometry& g) {
    return "f32" + list(g, g.outputs) + " f32" + filter(g) + " shape=" + bare(list(g, g.inputs)) + " group=" + std::to_string(g.channels) + " " + g.attributes;
}
std::string grad_weight(const geometry& g) {
    return "f32" + list(g, g.inputs) + " f32" + list(g, g.outputs) + " shape=" + bare(filter(g)) + " group=" + std::to_string(g.channels) + " " + g.attributes;
}

const geometry geometries[] = {
    {2, 16, "7,9", "7,9", "3,3", "pads=1,1,1,1", true},
    {3, 24, "9,11", "5,6", "3,3", "strides=2,2 pads=1,1,1,1", false},
    {1, 40, "14,14", "7,7", "3,3", "strides=2,2 pads=0,0,1,1", true},
    {2, 12, "10,7", "10,7", "5,5", "pads=2,2,2,2", true},
    {1, 20, "11,13", "6,7", "5,5", "strides=2,2 pads=2,2,2,2", false},
    {2, 8, "9,8", "9,8", "7,7", "pads=3,3,3,3", true},
    {1, 7, "8,9", "5,5", "3,5", "strides=2,2 pads=2,1,1,3", true},
    {2, 6, "13,12", "9,12", "3,3", "dilations=2,3 pads=0,3,0,3", false},
    {1, 10, "15,16", "7,8", "3,3", "strides=2,2 dilations=2,2 pads=1,2,2,2", true},
    {1, 32, "12,10", "4,4", "2,2", "strides=3,3 pads=0,1,0,1", false},
    {2, 4, "6,17", "6,5", "1,3", "strides=1,4 pads=0,1,0,1", true},
    {2, 136, "3,5", "3,5", "3,3", "pads=1,1,1,1", false},
    {2, 2, "5,5", "7,7", "1,1", "pads=1,1,1,1", true},
    {3, 8, "21", "10", "5", "strides=2 pads=1,1", true},
    {1, 8, "4,5,6", "4,3,6", "3,3,3", "strides=1,2,1 pads=1,1,1,1,1,1", true},
    {2, 8, "30,31", "30,31", "3,3", "pads=1,1,1,1", false},
    {4, 128, "24,22", "24,22", "3,3", "pads=1,1,1,1", false},
};

constexpr dtype types[] = {dtype::float32, dtype::float16, dtype::bfloat16};

// Unrolled texts take NVRTC long: some of each kind are enough.
void expect_some_compiled(const std::vector<example>& all) {
    std::vector<example> some;
    for (std::size_t i = 0; i < all.size(); i += 9) some.push_back(all[i]);
    expect_compiled(some);
}

}  // namespace

TEST_CASE("depthwise convolutions of many geometries give the reference's answers") {
    std::vector<example> all;
    std::size_t next = 0;
    for (const geometry& g : geometries)
        for (const dtype type : types) {
            add_depthwise(all, "Conv", forward(g), type, type, endings[next++ % (sizeof endings / sizeof endings[0])]);
            if (type != dtype::bfloat16) add_depthwise(all, "Conv", forward(g), type, dtype::float32, {}, 132);
        }
    MESSAGE(all.size(), " programs");
    expect_all(all);
    expect_some_compiled(all);
}

TEST_CASE("depthwise convolutions with every activation and residual give the reference's answers") {
    std::vector<example> all;
    for (ending e : endings)
        for (e.residual = 0; e.residual < 3; ++e.residual)
            add_depthwise(all, "Conv", forward(geometries[0]), e.residual == 1 ? dtype::float16 : dtype::float32, dtype::float32, e);
    MESSAGE(all.size(), " programs");
    expect_all(all);
    expect_some_compiled(all);
}

TEST_CASE("gradients of depthwise convolutions' inputs give the reference's answers") {
    std::vector<example> all;
    for (const geometry& g : geometries)
        for (const dtype type : types) {
            add_depthwise(all, "ConvGradInput", grad_input(g), type, type, {activation::none, 0, 0, type == dtype::float16});
            if (type == dtype::float16) add_depthwise(all, "ConvGradInput", grad_input(g), type, dtype::float32, {}, 132);
        }
    MESSAGE(all.size(), " programs");
    expect_all(all);
    expect_some_compiled(all);
}

TEST_CASE("gradients of depthwise weights give the reference's answers") {
    std::vector<example> all;
    for (const geometry& g : geometries)
        for (const dtype type : types) add_depthwise(all, "ConvGradWeight", grad_weight(g), type, type == dtype::bfloat16 ? type : dtype::float32);
    MESSAGE(all.size(), " programs");
    expect_all(all);
    expect_some_compiled(all);
}

TEST_CASE("what is no depthwise convolution is refused with the reason, and cuDNN is asked") {
    const auto refusal = [](const char* op, const std::string& problem, layout l = last) {
        std::string error;
        const std::string domain = std::string(op) == "Conv" ? "" : "graft";
        example x = from_problem(*row_of(op, domain.c_str()), problem, error);
        REQUIRE_MESSAGE(error.empty(), error);
        const std::string failed = reference(x);
        REQUIRE_MESSAGE(failed.empty(), failed);
        set_layouts(x, l, l);
        generate(x, 0);
        return std::string(x.refused ? x.refused : "");
    };
    CHECK(refusal("Conv", "f32[1,8,5,5] f32[8,1,3,3] group=8").empty());
    CHECK(refusal("Conv", "f32[1,8,5,5] f32[8,1,3,3] group=8", plain) == "its values are not channels-last");
    CHECK(refusal("Conv", "f32[1,8,1,1] f32[8,1,1,1] group=8", plain).empty());  // one pixel lies alike in both
    CHECK(refusal("Conv", "f32[1,8,5,5] f32[8,2,3,3] group=4") == "it is no depthwise convolution");
    CHECK(refusal("Conv", "f32[1,8,5,5] f32[16,1,3,3] group=8") == "it is no depthwise convolution");
    CHECK(refusal("Conv", "f32[1,1,5,5] f32[1,1,3,3]") == "it is no depthwise convolution");
    CHECK(refusal("Conv", "f64[1,8,5,5] f64[8,1,3,3] group=8") == "cuDNN convolves float32, float16 and bfloat16");
    CHECK(refusal("Conv", "f32[1,2,5,12] f32[2,1,3,9] group=2") == "a wide kernel or stride");
    CHECK(refusal("Conv", "f32[1,2,5,12] f32[2,1,3,3] group=2 strides=1,5") == "a wide kernel or stride");
    CHECK(refusal("Conv", "f32[1,2,80,5] f32[2,1,70,6] group=2 pads=0,1,0,0") == "a filter of too many elements");
    CHECK(refusal("Conv", "f32[1,2,5,5] f32[2,1,3,3] group=2 pads=70000,0,70000,0 strides=1000,1") == "a wide stride, dilation or pad");
    CHECK(refusal("Conv", "f32[0,2,5,5] f32[2,1,3,3] group=2") == "it is empty");
    CHECK(refusal("ConvGradWeight", "f32[1,4,5,5] f32[1,8,3,3] shape=8,1,3,3 group=4") == "it is no depthwise convolution");
}
