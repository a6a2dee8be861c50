// Attention by cuDNN's fused engines, on the CUDA simulator: which chains of nodes become one kernel, and its answers against the CPU's.
#ifdef GRAFT_CUDA_SIMULATOR
#include "simulated_backend.hpp"

#include "../cuda_simulator/simulated.hpp"

#include "counted.hpp"

#include <graft/gpu/ops/attention.hpp>

#include <functional>

namespace {

using graft::dtype;
using graft::shape;
using graft::tensor;
using graft::value_id;

tensor numbered(const shape& extents, std::uint64_t seed, dtype type = dtype::float32) {
    tensor t = tensor::make(type, extents);
    for (std::int64_t i = 0; i < t.elements(); ++i) {
        const std::uint64_t h = (static_cast<std::uint64_t>(i) + 977 * seed) * 2654435761u & 0xffffffffu;
        const double v = static_cast<double>(h) / 4294967296.0 * 4 - 2;
        graft::store_from_double(type, t.raw(), i, 1, &v);
    }
    return t;
}

// A block of a vision transformer around what is tested, as exporters write it.
struct block {
    static constexpr std::int64_t batch = 2, heads = 3, size = 16;
    graft::builder b;
    dtype type;
    std::int64_t length;
    value_id x = graft::no_value;

    explicit block(dtype t = dtype::float32, std::int64_t tokens = 11) : b("block", 1), type(t), length(tokens) {
        x = b.input("x", type, {batch, length, heads * size});
    }

    value_id weights(const char* name, const shape& extents, std::uint64_t seed) {
        tensor t = numbered(extents, seed, type);
        for (std::int64_t i = 0; i < t.elements(); ++i) {
            const double v = graft::element_as_double(type, t.raw(), i) / 4;
            graft::store_from_double(type, t.raw(), i, 1, &v);
        }
        return b.constant(name, t);
    }
    value_id numbers(const char* name, std::vector<std::int64_t> v) {
        return b.constant(name, tensor::from(v.data(), shape{static_cast<std::int64_t>(v.size())}).value());
    }
    value_id number(const char* name, double v) {
        tensor t = tensor::make(type, {});
        graft::store_from_double(type, t.raw(), 0, 1, &v);
        return b.constant(name, t);
    }
    value_id linear(value_id from, const char* name, std::int64_t out, std::uint64_t seed) {
        const std::string n = name;
        return b.apply("Add",
                       {b.apply("MatMul", {from, weights((n + "_w").c_str(), {heads * size, out}, seed)}), weights((n + "_b").c_str(), {out}, seed + 1)});
    }
    value_id transpose(value_id from, std::vector<std::int64_t> perm) {
        return b.apply("Transpose", {from}, {graft::integers_attribute("perm", std::move(perm))});
    }
    // [batch, heads, length, size] of a projection of its own.
    value_id head(const char* name, std::uint64_t seed) {
        const std::string n = name;
        return transpose(b.apply("Reshape", {linear(x, name, heads * size, seed), numbers((n + "_shape").c_str(), {0, 0, heads, size})}), {0, 2, 1, 3});
    }
    value_id softmax(value_id s) { return b.apply("Softmax", {s}, {graft::integer_attribute("axis", -1)}); }
    // The end of the block, whose output the caller reads.
    graft::graph finish(value_id y) {
        y = b.apply("Reshape", {transpose(y, {0, 2, 1, 3}), numbers("joined", {0, 0, heads * size})});
        b.output(b.apply("Add", {linear(y, "out", heads * size, 30), x}), "y");
        return b.finish();
    }
};

tensor answer(const graft::model& m, const tensor& x) {
    graft::session session(m, {1, nullptr});
    tensor y;
    for (int i = 0; i < 3; ++i) {
        auto out = session.run(x);
        const std::string error = out.ok() ? "" : out.error().what();
        REQUIRE_MESSAGE(out.ok(), error);
        y = out.value();
    }
    return y;
}

std::shared_ptr<graft::device> with_precision(const char* precision) {
    graft::device_options options;
    options.precision = precision;
    return simulated::open(options);
}

struct kernels {
    int fused = 0, products = 0, all = 0;
};
kernels kernels_of(const graft::model& m) {
    kernels n;
    auto placed = m.placements(m.inputs());
    REQUIRE(placed.ok());
    for (const graft::placement& p : placed.value()) {
        if (p.kernel == "copy") continue;
        CHECK(p.device != "cpu");
        n.fused += p.kernel.compare(0, 15, "cuDNN, engine 1") == 0;  // 10 and 11
        n.products += p.kernel.compare(0, 8, "cuBLASLt") == 0;
        ++n.all;
    }
    return n;
}

double bound(const std::string& precision) { return precision == "bfloat16" ? 4e-2 : 5e-3; }

// Fused, and near to the CPU's answer, in both halves; `all`: the number of kernels, 0 for any.
void expect_fused(const graft::graph& g, int all = 0) {
    const graft::model host = graft::load(g);
    const graft::value_info given = host.inputs()[0];
    const tensor x = numbered(given.extents, 5);
    for (const char* precision : {"float16", "bfloat16"}) {
        CAPTURE(precision);
        const graft::model device = graft::load(g, graft::on_device(with_precision(precision)));
        const kernels n = kernels_of(device);
        CHECK(n.fused == 1);
        if (all) CHECK(n.all == all);
        CHECK(difference(answer(device, x), answer(host, x)) <= bound(precision));
    }
    simulated::expect_counted(g, with_precision("float16"), x);
}
void expect_apart(const graft::graph& g, const char* precision = "float16") {
    const graft::model host = graft::load(g), device = graft::load(g, graft::on_device(with_precision(precision)));
    const kernels n = kernels_of(device);
    CHECK(n.fused == 0);
    CHECK(n.products >= 2);
    const tensor x = numbered(host.inputs()[0].extents, 5);
    CHECK(difference(answer(device, x), answer(host, x)) <= bound(precision));
}

// softmax(q k^T / 4 + mask) v with the scale on the scores.
graft::graph scored(const std::function<value_id(block&, value_id)>& with_mask, const char* scale = "Div", dtype type = dtype::float32) {
    block n(type);
    const value_id q = n.head("q", 1), k = n.head("k", 3), v = n.head("v", 5);
    const bool div = std::string(scale) == "Div";
    value_id s = n.b.apply(scale, {n.b.apply("MatMul", {q, n.transpose(k, {0, 1, 3, 2})}), n.number("root", div ? 4 : 0.25)});
    s = with_mask(n, s);
    return n.finish(n.b.apply("MatMul", {n.softmax(s), v}));
}
value_id unmasked(block&, value_id s) { return s; }

}  // namespace

TEST_CASE("attention of exported transformers is one kernel of the simulated cuDNN, with the transpositions around it") {
    // Projections, attention, projection; and the copies of what is float32 outside.
    expect_fused(scored(unmasked, "Div"), 7);
    expect_fused(scored(unmasked, "Mul"), 7);
    SUBCASE("scaled_dot_product_attention: the root of the scale on queries and keys") {
        block n;
        const value_id q = n.b.apply("Mul", {n.head("q", 1), n.number("root", 0.5)}), v = n.head("v", 5);
        const value_id k = n.b.apply("Mul", {n.transpose(n.head("k", 3), {0, 1, 3, 2}), n.number("root2", 0.5)});
        expect_fused(n.finish(n.b.apply("MatMul", {n.softmax(n.b.apply("MatMul", {q, k})), v})));
    }
    SUBCASE("one projection for all: taken apart behind its transposition") {
        for (const bool split : {false, true}) {
            CAPTURE(split);
            block n;
            const value_id all = n.transpose(
                n.b.apply("Reshape", {n.linear(n.x, "qkv", 3 * block::heads * block::size, 1), n.numbers("five", {0, 0, 3, block::heads, block::size})}),
                {2, 0, 3, 1, 4});
            value_id part[3];
            const std::vector<value_id> parts =
                split ? n.b.apply_all("Split", {all, n.numbers("ones", {1, 1, 1})}, {graft::integer_attribute("axis", 0)}, 3) : std::vector<value_id>(3);
            for (int i = 0; i < 3; ++i) {
                const std::string name = "i" + std::to_string(i);
                tensor index = tensor::make(dtype::int64, {});
                index.data<std::int64_t>()[0] = i - (i == 2 ? 3 : 0);
                part[i] = split ? n.b.apply("Squeeze", {parts[static_cast<std::size_t>(i)], n.numbers(name.c_str(), {0})})
                                : n.b.apply("Gather", {all, n.b.constant(name, index)}, {graft::integer_attribute("axis", 0)});
            }
            const value_id q = n.b.apply("Mul", {part[0], n.number("scale", 0.25)});
            const graft::graph g = n.finish(n.b.apply("MatMul", {n.softmax(n.b.apply("MatMul", {q, n.transpose(part[1], {0, 1, 3, 2})})), part[2]}));
            expect_fused(g);
        }
    }
    SUBCASE("heads in the batch: three axes") {
        block n;
        const auto three = [&](const char* name, std::uint64_t seed) {
            return n.b.apply("Reshape", {n.head(name, seed), n.numbers((std::string(name) + "3").c_str(), {-1, n.length, block::size})});
        };
        const value_id q = three("q", 1), k = three("k", 3), v = three("v", 5);
        const value_id y =
            n.b.apply("MatMul", {n.softmax(n.b.apply("Mul", {n.b.apply("MatMul", {q, n.transpose(k, {0, 2, 1})}), n.number("scale", 0.25)})), v});
        expect_fused(n.finish(n.b.apply("Reshape", {y, n.numbers("four", {block::batch, block::heads, n.length, block::size})})));
    }
    SUBCASE("keys and values of half the length, by slices") {
        block n;
        const auto half = [&](value_id from, std::int64_t begin, const char* name) {
            const std::string s = name;
            return n.b.apply("Slice",
                             {from, n.numbers((s + "b").c_str(), {begin}), n.numbers((s + "e").c_str(), {begin + 5}), n.numbers((s + "a").c_str(), {2})});
        };
        const value_id q = n.head("q", 1), k = half(n.head("k", 3), 2, "ks"), v = half(n.head("v", 5), 6, "vs");
        expect_fused(
            n.finish(n.b.apply("MatMul", {n.softmax(n.b.apply("Div", {n.b.apply("MatMul", {q, n.transpose(k, {0, 1, 3, 2})}), n.number("root", 4)})), v})));
    }
}

TEST_CASE("a mask that is known when the network is lowered goes into the fused attention on the simulated device") {
    for (const shape& extents : {shape{1, 3, 11, 11}, shape{11, 11}, shape{2, 1, 11, 11}, shape{2, 3, 11, 11}, shape{1, 1, 1, 11}}) {
        const std::string text = graft::text(extents);
        CAPTURE(text);
        expect_fused(scored([&](block& n, value_id s) { return n.b.apply("Add", {s, n.weights("bias", extents, 9)}); }));
    }
    SUBCASE("behind it a number, and -infinity where a query may not look") {
        expect_fused(scored([](block& n, value_id s) {
            tensor frontier = tensor::make(dtype::float32, {11, 11});
            for (int i = 0; i < 121; ++i) frontier.data<float>()[i] = i % 11 > i / 11 ? -static_cast<float>(HUGE_VAL) : 0.25f * static_cast<float>(i % 7);
            return n.b.apply("Mul", {n.b.apply("Add", {n.b.constant("frontier", frontier), s}), n.number("half", 0.5)});
        }));
    }
}

TEST_CASE("networks of halves have the fused attention on the simulated device too, with casts around the softmax or without") {
    for (const dtype type : {dtype::float16, dtype::bfloat16})
        for (const bool casts : {false, true}) {
            CAPTURE(graft::name(type));
            CAPTURE(casts);
            const graft::graph g = [&] {
                block n(type);
                const value_id q = n.head("q", 1), k = n.head("k", 3), v = n.head("v", 5);
                value_id s = n.b.apply("Mul", {n.b.apply("MatMul", {q, n.transpose(k, {0, 1, 3, 2})}), n.number("scale", 0.25)});
                if (casts) s = n.b.apply("Cast", {s}, {graft::integer_attribute("to", static_cast<std::int64_t>(dtype::float32))});
                s = n.softmax(s);
                if (casts) s = n.b.apply("Cast", {s}, {graft::integer_attribute("to", static_cast<std::int64_t>(type))});
                return n.finish(n.b.apply("MatMul", {s, v}));
            }();
            const graft::model host = graft::load(g), device = graft::load(g, graft::on_device(with_precision("float32")));
            CHECK(kernels_of(device).fused == 1);
            const tensor x = numbered({2, 11, 48}, 5, type);
            CHECK(difference(answer(device, x), answer(host, x)) <= bound(type == dtype::float16 ? "float16" : "bfloat16"));
        }
}

TEST_CASE("attention stays two products where the fused kernel would not do the same on the simulated device") {
    expect_apart(scored(unmasked), "float32");
    SUBCASE("a mask that is computed") {
        expect_apart(scored([](block& n, value_id s) {
            return n.b.apply("Add", {s, n.b.apply("ReduceMax", {n.x, n.numbers("axes", {0, 2})}, {graft::integer_attribute("keepdims", 0)})});
        }));
    }
    SUBCASE("a mask that hides every key of a query") {
        const graft::graph g = scored([](block& n, value_id s) {
            tensor mask = tensor::make(dtype::float32, {11, 11});
            for (int i = 0; i < 121; ++i) mask.data<float>()[i] = i / 11 == 4 ? -static_cast<float>(HUGE_VAL) : 0.0f;
            return n.b.apply("Add", {s, n.b.constant("mask", mask)});
        });
        CHECK(kernels_of(graft::load(g, graft::on_device(with_precision("float16")))).fused == 0);
    }
    SUBCASE("scores that the caller reads as well") {
        block n;
        const value_id q = n.head("q", 1), k = n.head("k", 3), v = n.head("v", 5);
        const value_id s = n.softmax(n.b.apply("MatMul", {q, n.transpose(k, {0, 1, 3, 2})}));
        const value_id y = n.b.apply("MatMul", {s, v});
        n.b.output(s, "weights");
        const graft::model device = graft::load(n.finish(y), graft::on_device(with_precision("float16")));
        CHECK(kernels_of(device).fused == 0);
    }
    SUBCASE("a softmax along another axis") {
        block n;
        const value_id q = n.head("q", 1), k = n.head("k", 3), v = n.head("v", 5);
        const value_id s = n.b.apply("Softmax", {n.b.apply("MatMul", {q, n.transpose(k, {0, 1, 3, 2})})}, {graft::integer_attribute("axis", 2)});
        expect_apart(n.finish(n.b.apply("MatMul", {s, v})));
    }
    SUBCASE("heads of a size that is no multiple of 8") {
        graft::builder b("sizes", 1);
        const value_id x = b.input("x", dtype::float32, {2, 3, 9, 12});
        const value_id y =
            b.apply("MatMul", {b.apply("Softmax", {b.apply("MatMul", {x, b.apply("Transpose", {x}, {graft::integers_attribute("perm", {0, 1, 3, 2})})})},
                                       {graft::integer_attribute("axis", -1)}),
                               x});
        b.output(b.apply("Neg", {y}), "y");
        expect_apart(b.finish());
    }
}

TEST_CASE("the row of the fused attention refuses what would read outside of its values, or not in packs") {
    using integers = std::vector<std::int64_t>;
    const graft::gpu::library_row& row = graft::gpu::attention_rows().rows[0];
    const graft::limits limit;
    const graft::layout rows[4] = {};
    const auto refusal = [&](integers extents, integers q, dtype type, int major, const shape& mask) {
        graft::node n;
        n.attributes = {graft::integers_attribute("extents", std::move(extents)), graft::integers_attribute("q", std::move(q))};
        for (const char* part : {"k", "v", "y"}) n.attributes.push_back(graft::integers_attribute(part, {0, 528, 176, 16}));
        const shape x{2, 3, 11, 16};
        const graft::tensor_view in[] = {{type, x, nullptr}, {type, x, nullptr}, {type, x, nullptr}, {mask.rank() ? type : dtype::undefined, mask, nullptr}};
        graft::tensor_view out[] = {{type, x, nullptr}};
        n.inputs = {0, 1, 2, 3};
        n.outputs = {4};
        graft::gpu::device_traits on;
        on.major = major;
        const graft::gpu::kernel_query query{{n, in, 4, out, 1, limit}, rows, rows, on, {}};
        const char* why = row.refuse(query);
        return std::string(why ? why : "");
    };
    const integers fits{2, 3, 3, 11, 11, 16, 16}, packed{0, 528, 176, 16};
    CHECK(refusal(fits, packed, dtype::float16, 8, {}) == "");
    CHECK(refusal(fits, packed, dtype::bfloat16, 9, {1, 3, 11, 16}) == "");
    CHECK(refusal(fits, packed, dtype::float16, 7, {}) != "");
    CHECK(refusal(fits, packed, dtype::float32, 9, {}) != "");
    CHECK(refusal(fits, {8, 528, 176, 16}, dtype::float16, 8, {}) == "a head lies outside of its value");
    CHECK(refusal(fits, {-8, 528, 176, 16}, dtype::float16, 8, {}) != "");
    CHECK(refusal(fits, {4, 520, 176, 16}, dtype::float16, 8, {}) == "a head does not begin at 16 bytes");
    CHECK(refusal(fits, {0, 528, 180, 16}, dtype::float16, 8, {}) == "rows of a head do not begin at 16 bytes");
    CHECK(refusal(fits, {0, std::int64_t(1) << 62, 176, 16}, dtype::float16, 8, {}) == "a head lies outside of its value");
    CHECK(refusal(fits, {0, 528, 176}, dtype::float16, 8, {}) != "");
    CHECK(refusal({2, 3, 2, 11, 11, 16, 16}, packed, dtype::float16, 8, {}) == "its heads make no groups");
    CHECK(refusal({2, 3, 3, 11, 11, 16, 136}, packed, dtype::float16, 8, {}) != "");
    CHECK(refusal({2, 3, 3, 11, 0, 16, 16}, packed, dtype::float16, 8, {}) == "it is empty");
    for (const shape& mask : {shape{1, 3, 11, 8}, shape{1, 3, 11, 11}, shape{1, 2, 11, 16}, shape{1, 3, 1, 16}, shape{3, 11, 16}})
        CHECK(refusal(fits, packed, dtype::float16, 8, mask) == "its mask has another shape or type");
}

TEST_CASE("ONNX's Attention is the fused kernel on the simulated device where it has neither mask nor cap") {
    struct {
        shape q, k, v;
        std::vector<graft::attribute> attributes;
        bool fused;
    } const cases[] = {
        {{2, 3, 11, 16}, {2, 3, 13, 16}, {2, 3, 13, 8}, {}, true},
        {{2, 11, 48},
         {2, 13, 48},
         {2, 13, 48},
         {graft::integer_attribute("q_num_heads", 3), graft::integer_attribute("kv_num_heads", 3), graft::real_attribute("scale", 0.3f)},
         true},
        {{2, 11, 64}, {2, 13, 32}, {2, 13, 16}, {graft::integer_attribute("q_num_heads", 4), graft::integer_attribute("kv_num_heads", 2)}, true},
        {{2, 3, 11, 16}, {2, 3, 13, 16}, {2, 3, 13, 8}, {graft::real_attribute("softcap", 3)}, false},
        {{2, 3, 11, 16}, {2, 3, 13, 16}, {2, 3, 13, 8}, {graft::integer_attribute("is_causal", 1)}, false},
    };
    for (const auto& c : cases) {
        graft::builder b("attention", 1);
        const shape& e = c.q;
        const value_id q = e.rank() == 3 ? b.input("q", dtype::float32, {e[0], e[1], e[2]}) : b.input("q", dtype::float32, {e[0], e[1], e[2], e[3]}),
                       k = b.constant("k", numbered(c.k, 2)), v = b.constant("v", numbered(c.v, 3));
        // Constants have no kernel that makes them: here they are computed.
        const value_id zero = b.apply("ReduceMax", {b.apply("Mul", {q, b.constant("zero", tensor::zeros(dtype::float32, {}).value())})},
                                      {graft::integer_attribute("keepdims", 0)});
        b.output(b.apply("Attention", {q, b.apply("Add", {k, zero}), b.apply("Add", {v, zero})}, c.attributes), "y");
        graft::graph g = b.finish();
        g.opsets[0].version = graft::newest_opset;
        for (graft::node& n : g.nodes) n.version = 0;
        const graft::model host = graft::load(g);
        for (const char* precision : {"float16", "bfloat16", "float32"}) {
            const std::string text = graft::text(c.q);
            CAPTURE(text);
            CAPTURE(precision);
            const graft::model device = graft::load(g, graft::on_device(with_precision(precision)));
            CHECK(kernels_of(device).fused == (c.fused && std::string(precision) != "float32"));
            const tensor x = numbered(c.q, 1);
            CHECK(difference(answer(device, x), answer(host, x)) <= bound(precision));
        }
    }
}
#endif
