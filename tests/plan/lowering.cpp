// Fused and lowered graphs against the reference kernels: random small networks, on every instruction set.
#include "../exec/nets.hpp"

#include <doctest/doctest.h>

namespace {

using graft::builder;
using graft::dtype;
using graft::integer_attribute;
using graft::integers_attribute;
using graft::real_attribute;
using graft::shape;
using graft::value_id;
using nets::numbers;

// Writes random networks of image layers; every tensor has a shape that the writer keeps.
class random_net {
public:
    random_net(std::uint64_t seed, dtype type) : random_{seed * 7919 + 1}, type_(type), b_("random", seed) {}

    graft::graph build(int layers) {
        const std::int64_t n = pick({1, 1, 2, 3}), c = pick({1, 3, 4, 7, 8, 16, 17}), h = 5 + below(10), w = 5 + below(10);
        const value_id x = b_.input("x", type_, {n, c, h, w});
        add(x, {n, c, h, w});
        for (int i = 0; i < layers; ++i) layer();
        // Some values in the middle are outputs too, so that they cannot vanish.
        b_.output(pool_.back().id, "last");
        const std::size_t middle = below(pool_.size());
        if (middle && middle + 1 < pool_.size()) b_.output(b_.apply("Identity", {pool_[middle].id}), "middle");
        return b_.finish();
    }
    shape input_shape() const { return pool_[0].extents; }
    const std::string& text() const { return text_; }

private:
    struct made {
        value_id id;
        shape extents;
    };
    std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_.next() % n); }
    std::int64_t below(int n) { return static_cast<std::int64_t>(random_.next() % static_cast<unsigned>(n)); }
    std::int64_t pick(std::initializer_list<std::int64_t> list) { return *(list.begin() + below(list.size())); }
    bool chance(int percent) { return below(100) < percent; }
    void add(value_id id, const shape& s) { pool_.push_back({id, s}); }

    value_id constant(const shape& s, double low = -1, double high = 1) {
        return b_.constant("c" + std::to_string(constants_++), nets::random_tensor(s, random_, low, high, type_));
    }
    value_id number(double v) {
        graft::tensor t = graft::tensor::make(type_, {});
        graft::store_from_double(type_, t.raw(), 0, 1, &v);
        return b_.constant("k" + std::to_string(constants_++), t);
    }
    value_id list(std::vector<std::int64_t> v) { return b_.constant("l" + std::to_string(constants_++), nets::integers(v)); }

    // Mostly the newest value, sometimes an older one.
    made source() { return chance(75) ? pool_.back() : pool_[below(pool_.size())]; }

    value_id conv(const made& x, std::int64_t channels, std::int64_t kernel, std::int64_t stride, std::int64_t pad, std::int64_t dilation, std::int64_t groups,
                  bool bias) {
        const double scale = 1.2 / std::sqrt(static_cast<double>(x.extents[1] / groups * kernel * kernel));
        std::vector<value_id> in{x.id, constant({channels, x.extents[1] / groups, kernel, kernel}, -scale, scale)};
        if (bias) in.push_back(constant({channels}));
        return b_.apply("Conv", in,
                        {integers_attribute("kernel_shape", {kernel, kernel}), integers_attribute("strides", {stride, stride}),
                         integers_attribute("pads", {pad, pad, pad, pad}), integers_attribute("dilations", {dilation, dilation}),
                         integer_attribute("group", groups)});
    }
    static std::int64_t extent(std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t pad, std::int64_t dilation) {
        return (in + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
    }

    value_id activation(value_id x) {
        const std::int64_t kind = below(14);
        text_ += "act" + std::to_string(kind) + " ";
        switch (kind) {
        case 0: return b_.apply("Relu", {x});
        case 1: return b_.apply("Mul", {x, b_.apply("Sigmoid", {x})});                                                                         // SiLU
        case 2: return b_.apply("Mul", {b_.apply("HardSigmoid", {x}, {real_attribute("alpha", 1.0f / 6), real_attribute("beta", 0.5f)}), x});  // HardSwish
        case 3: {                                                                                                                              // GELU by erf
            const value_id e = b_.apply("Add", {b_.apply("Erf", {b_.apply("Div", {x, number(1.4142135623730951)})}), number(1)});
            return chance(50) ? b_.apply("Mul", {b_.apply("Mul", {x, e}), number(0.5)}) : b_.apply("Mul", {b_.apply("Mul", {x, number(0.5)}), e});
        }
        case 4: return b_.apply("Clip", {x, number(0), number(6)});
        case 5: return b_.apply("LeakyRelu", {x}, {real_attribute("alpha", 0.1f)});
        case 6: return b_.apply("HardSwish", {x});
        case 7: return b_.apply("Sigmoid", {x});
        case 8: return b_.apply("Tanh", {x});
        case 9: return b_.apply("Elu", {x}, {real_attribute("alpha", 0.7f)});
        case 10:
            return b_.apply(
                "Div", {b_.apply("Mul", {x, b_.apply("Clip", {b_.apply("Add", {x, number(3)}), number(0), number(6)})}), number(6)});  // HardSwish, spelt out
        case 11: return b_.apply("Softplus", {x});
        case 12: return b_.apply("HardSigmoid", {x});
        default: return b_.apply("Mul", {x, b_.apply("Tanh", {b_.apply("Softplus", {x})})});  // Mish
        }
    }

    void layer() {
        const made x = source();
        const shape s = x.extents;
        const std::int64_t kind = below(15);
        text_ += std::to_string(kind) + " ";
        switch (kind) {
        case 0:
        case 1:
        case 2: {  // convolution, mostly with what follows one
            const std::int64_t kernel = pick({1, 1, 3, 3, 5, 2}), pad = kernel / 2, stride = pick({1, 1, 1, 2}), dilation = kernel == 3 && chance(20) ? 2 : 1;
            const std::int64_t groups = chance(25) ? s[1] : 1, channels = groups > 1 ? groups * pick({1, 1, 2}) : pick({1, 5, 8, 13, 16, 19, 24, 33});
            if (s[2] + 2 * pad <= dilation * (kernel - 1) || s[3] + 2 * pad <= dilation * (kernel - 1)) return;
            value_id y = conv(x, channels, kernel, stride, pad, dilation, groups, chance(50));
            const shape out{s[0], channels, extent(s[2], kernel, stride, pad, dilation), extent(s[3], kernel, stride, pad, dilation)};
            if (chance(40))
                y = b_.apply("BatchNormalization",
                             {y, constant({channels}, 0.5, 1.5), constant({channels}), constant({channels}), constant({channels}, 0.5, 2)});
            if (chance(20)) y = b_.apply("Mul", {y, constant({1, channels, 1, 1})});
            if (chance(20)) y = b_.apply("Add", {constant({channels, 1, 1}), y});
            if (chance(50)) y = activation(y);
            return add(y, out);
        }
        case 3:
        case 4: {  // residual, before or after an activation
            value_id y = conv(x, s[1], 3, 1, 1, 1, 1, true);
            if (chance(30)) y = activation(y);
            y = chance(50) ? b_.apply("Add", {y, x.id}) : b_.apply("Sum", {x.id, y});
            if (chance(60)) y = activation(y);
            return add(y, s);
        }
        case 5: return add(activation(x.id), s);
        case 6: {  // pooling
            const std::int64_t kernel = pick({2, 3}), stride = pick({1, 2}), pad = chance(50) ? kernel / 2 : 0;
            if (s[2] + 2 * pad < kernel || s[3] + 2 * pad < kernel) return;
            const bool max = chance(50);
            std::vector<graft::attribute> a{integers_attribute("kernel_shape", {kernel, kernel}), integers_attribute("strides", {stride, stride}),
                                            integers_attribute("pads", {pad, pad, pad, pad})};
            if (!max && chance(50)) a.push_back(integer_attribute("count_include_pad", 1));
            return add(b_.apply(max ? "MaxPool" : "AveragePool", {x.id}, std::move(a)),
                       {s[0], s[1], extent(s[2], kernel, stride, pad, 1), extent(s[3], kernel, stride, pad, 1)});
        }
        case 7:
        case 8: {  // concatenation of everything with this image size
            std::vector<value_id> parts{x.id};
            std::int64_t channels = s[1];
            for (const made& other : pool_)
                if (parts.size() < 4 && other.extents[0] == s[0] && other.extents[2] == s[2] && other.extents[3] == s[3] && chance(60) &&
                    channels + other.extents[1] < 80)
                    parts.push_back(other.id), channels += other.extents[1];
            return add(b_.apply("Concat", parts, {integer_attribute("axis", 1)}), {s[0], channels, s[2], s[3]});
        }
        case 9: {  // squeeze and excitation
            const value_id pooled = chance(50) ? b_.apply("GlobalAveragePool", {x.id}) : b_.apply("ReduceMean", {x.id}, {integers_attribute("axes", {2, 3})});
            const made p{pooled, {s[0], s[1], 1, 1}};
            const made squeezed{b_.apply("Relu", {conv(p, 5, 1, 1, 0, 1, 1, true)}), {s[0], 5, 1, 1}};
            const value_id gate = b_.apply(chance(50) ? "Sigmoid" : "HardSigmoid", {conv(squeezed, s[1], 1, 1, 0, 1, 1, true)});
            return add(chance(50) ? b_.apply("Mul", {x.id, gate}) : b_.apply("Mul", {gate, x.id}), s);
        }
        case 10: {  // sums and products of equal shapes
            for (const made& other : pool_)
                if (other.extents == s && other.id != x.id) {
                    value_id y = b_.apply(chance(60) ? "Add" : chance(50) ? "Mul" : "Sub", {x.id, other.id});
                    if (chance(50)) y = activation(y);
                    return add(y, s);
                }
            return add(b_.apply("Add", {x.id, x.id}), s);
        }
        case 11: {  // with numbers, and with a number a channel
            const value_id y = chance(50) ? b_.apply("Mul", {x.id, number(0.75)}) : b_.apply("Add", {constant({1, s[1], 1, 1}), x.id});
            return add(y, s);
        }
        case 12: {  // channel shuffle: what ShuffleNet does, in whole tensors
            if (s[1] % 2) return add(b_.apply("Neg", {x.id}), s);
            const value_id split = b_.apply("Reshape", {x.id, list({s[0], 2, s[1] / 2, s[2], s[3]})});
            const value_id turned = b_.apply("Transpose", {split}, {integers_attribute("perm", {0, 2, 1, 3, 4})});
            return add(b_.apply("Reshape", {turned, list({s[0], s[1], s[2], s[3]})}), s);
        }
        case 13: {  // channels last, a matrix product, and back
            const std::int64_t channels = pick({3, 8, 21});
            const value_id last = b_.apply("Transpose", {x.id}, {integers_attribute("perm", {0, 2, 3, 1})});
            const double scale = 1.2 / std::sqrt(static_cast<double>(s[1]));
            value_id y = b_.apply("Add", {b_.apply("MatMul", {last, constant({s[1], channels}, -scale, scale)}), constant({channels})});
            if (chance(50)) y = activation(y);
            return add(b_.apply("Transpose", {y}, {integers_attribute("perm", {0, 3, 1, 2})}), {s[0], channels, s[2], s[3]});
        }
        default: {  // a part of the channels
            const std::int64_t from = below(static_cast<int>(s[1])), to = from + 1 + below(static_cast<int>(s[1] - from));
            return add(b_.apply("Slice", {x.id, list({from}), list({to}), list({1})}), {s[0], to - from, s[2], s[3]});
        }
        }
    }

    numbers random_;
    dtype type_;
    builder b_;
    std::vector<made> pool_;
    std::string text_;
    int constants_ = 0;
};

int rounds(int usual) {
    const char* asked = std::getenv("GRAFT_TEST_ROUNDS");
    return asked ? std::max(1, std::atoi(asked)) : usual;
}

void compare(std::uint64_t seed, dtype type, double bound) {
    random_net net(seed, type);
    const graft::graph g = net.build(3 + static_cast<int>(seed % 9));
    INFO("seed ", seed, ": ", net.text());
    graft::load_options options;
    options.reference = true;
    auto reference = graft::load(g, options);
    REQUIRE_MESSAGE(reference.ok(), std::string(reference.ok() ? "" : reference.error().what()));
    numbers random{seed};
    const std::vector<graft::tensor> inputs{nets::random_tensor(net.input_shape(), random, -1, 1, type)};
    const nets::answer want = nets::run(*reference, inputs, 1);
    REQUIRE_MESSAGE(want.error.empty(), want.error);
    for (const std::string& isa : nets::isas()) {
        const nets::forced_isa forced(isa);
        auto lowered = graft::load(g);
        REQUIRE_MESSAGE(lowered.ok(), std::string(lowered.ok() ? "" : lowered.error().what()));
        const nets::answer got = nets::run(*lowered, inputs, 2);
        INFO(isa);
        CHECK_MESSAGE(got.error.empty(), got.error);
        CHECK(nets::difference(got, want) <= bound);
    }
}

}  // namespace

TEST_CASE("random networks give the reference's answers when they are fused and lowered") {
    for (int seed = 0; seed < rounds(150); ++seed) compare(static_cast<std::uint64_t>(seed), dtype::float32, 1e-4);
}

TEST_CASE("random networks in half precision stay within its steps") {
    // The reference rounds every value to half; lowered graphs keep float32 between, so they differ by a few steps of half.
    for (int seed = 1000; seed < 1000 + rounds(30); ++seed) compare(static_cast<std::uint64_t>(seed), dtype::float16, 4e-2);
}

TEST_CASE("exact models agree with the reference more closely and use no algorithm that reorders sums") {
    graft::load_options options;
    options.exact = true;
    auto m = graft::load(nets::residual_net(9), options);
    REQUIRE(m.ok());
    graft::value_info size = m->inputs()[0];
    size.extents = {1, 3, 32, 32};
    auto placed = m->placements({size});
    REQUIRE(placed.ok());
    bool winograd = false, fast = false;
    for (const graft::placement& p : *placed) {
        winograd |= p.kernel.find("inograd") != std::string::npos;
        fast |= p.op_type == "graft.Conv";
    }
    CHECK(!winograd);
    CHECK(fast);
}

TEST_CASE("images in blocks are put together in blocks, and pooled so") {
    builder b;
    nets::numbers random{7};
    const auto x = b.input("x", dtype::float32, {1, 8, 12, 12});
    const auto conv = [&](const char* name) { return b.apply("Conv", {x, b.constant(name, nets::random_tensor({32, 8, 1, 1}, random))}); };
    const auto joined = b.apply("Concat", {conv("left"), conv("right")}, {graft::integer_attribute("axis", 1)});
    b.output(b.apply("MaxPool", {joined}, {graft::integers_attribute("kernel_shape", {3, 3}), graft::integers_attribute("strides", {2, 2})}), "y");
    auto m = graft::load(b.finish());
    REQUIRE(m.ok());
    std::string operators;
    const auto placed = m->placements(m->inputs());
    REQUIRE(placed.ok());
    for (const graft::placement& p : *placed) operators += p.op_type + " (" + p.kernel + ") ";
    CHECK(operators == "graft.Reorder (to blocks) graft.Conv (one tap, no border) graft.Conv (one tap, no border) graft.Concat (copies of whole blocks) "
                       "MaxPool (pool on blocks) graft.Reorder (to planes) ");
}

TEST_CASE("what every node gets is told, and why no faster kernel took it") {
    builder b;
    const auto x = b.input("x", dtype::float64, {1, 2, 4, 4});
    const auto w = b.constant("w", graft::tensor::zeros(dtype::float64, {2, 2, 1, 1}));
    b.output(b.apply("Conv", {x, w}), "y");
    auto m = graft::load(b.finish());
    REQUIRE(m.ok());
    auto placed = m->placements({m->inputs()[0]});
    REQUIRE(placed.ok());
    REQUIRE(placed->size() == 1);
    CHECK((*placed)[0].device == "cpu");
    CHECK((*placed)[0].kernel == "reference");
    CHECK(!(*placed)[0].reason.empty());
}

TEST_CASE("a transposed convolution whose output goes beyond what its input reaches has its kernel") {
    builder b;
    nets::numbers random{13};
    const auto x = b.input("x", dtype::float32, {1, 4, 6, 6});
    const auto weight = b.constant("w", nets::random_tensor({4, 3, 3, 3}, random));
    // The windows reach 13 pixels.
    b.output(b.apply("ConvTranspose", {x, weight}, {graft::integers_attribute("strides", {2, 2}), graft::integers_attribute("output_shape", {14, 12})}), "y");
    auto m = graft::load(b.finish());
    REQUIRE(m.ok());
    const auto placed = m->placements(m->inputs());
    REQUIRE(placed.ok());
    REQUIRE(placed->size() == 1);
    CHECK((*placed)[0].kernel == "matrix product, then columns to image");
}

TEST_CASE("Gemm applies alpha and beta once, whatever of its operands is constant") {
    nets::numbers random{11};
    const graft::tensor a = nets::random_tensor({3, 5}, random), weight = nets::random_tensor({5, 4}, random), bias = nets::random_tensor({4}, random);
    for (const bool constant_weight : {false, true})
        for (const bool constant_bias : {false, true})
            for (const float alpha : {1.0f, 0.5f})
                for (const float beta : {1.0f, 2.0f}) {
                    builder b("gemm");
                    std::vector<graft::tensor> inputs{a};
                    const value_id x = b.input("a", dtype::float32, {3, 5});
                    const value_id w = constant_weight ? b.constant("b", weight) : (inputs.push_back(weight), b.input("b", dtype::float32, {5, 4}));
                    const value_id c = constant_bias ? b.constant("c", bias) : (inputs.push_back(bias), b.input("c", dtype::float32, {4}));
                    b.output(b.apply("Gemm", {x, w, c}, {real_attribute("alpha", alpha), real_attribute("beta", beta)}), "y");
                    const graft::graph g = b.finish();
                    graft::load_options slow;
                    slow.reference = true;
                    const graft::model reference = graft::load(g, slow), lowered = graft::load(g);
                    CAPTURE(constant_weight);
                    CAPTURE(constant_bias);
                    CAPTURE(alpha);
                    CAPTURE(beta);
                    CHECK(nets::difference(nets::run(lowered, inputs, 1), nets::run(reference, inputs, 1)) <= 1e-5);
                }
}
