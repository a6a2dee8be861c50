// Forms that exporters write and that the CPU brings into others: the answers stay those of the reference kernels, and what is meant to go is gone.
#include "../emulated_products.hpp"
#include "../exec/nets.hpp"

#include <doctest/doctest.h>

#include <graft/cpu/dispatch.hpp>
#include <graft/graft.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace {

using graft::attribute;
using graft::dtype;
using graft::integer_attribute;
using graft::integers_attribute;
using graft::string_attribute;
using graft::value_id;
using list = std::vector<std::int64_t>;

struct network {
    graft::builder b{"net", 1};
    int constants = 0;

    value_id constant(graft::tensor t) { return b.constant("c" + std::to_string(++constants), std::move(t)); }
    value_id number(float f) { return constant(graft::tensor::from(&f, {})); }
    value_id integers(const list& of) { return constant(nets::integers(of)); }
    value_id input(const list& s) {
        if (s.size() == 3) return b.input("x", dtype::float32, {s[0], s[1], s[2]});
        if (s.size() == 5) return b.input("x", dtype::float32, {s[0], s[1], s[2], s[3], s[4]});
        return b.input("x", dtype::float32, {s[0], s[1], s[2], s[3]});
    }
    value_id apply(const char* op, std::vector<value_id> in, std::vector<attribute> attributes = {}) {
        return b.apply(op, std::move(in), std::move(attributes));
    }
    value_id conv(value_id x, const list& weight, std::vector<attribute> attributes = {}) {
        nets::numbers random{9};
        std::vector<value_id> in = {x, constant(nets::random_tensor(graft::shape::from(weight.begin(), weight.end()), random, -0.2, 0.2)),
                                    constant(nets::random_tensor({weight[0]}, random))};
        return b.apply("Conv", std::move(in), std::move(attributes));
    }
};

// What the network runs by, "operator: kernel" of each node, once its answers are those of the reference kernels.
std::vector<std::string> kernels(const list& x, const std::function<value_id(network&, value_id)>& build, double most = 2e-6, const char* precision = "auto") {
    network n;
    n.b.output(build(n, n.input(x)), "y");
    const graft::graph g = n.b.finish();
    nets::numbers random{3};
    const graft::tensor input = nets::random_tensor(graft::shape::from(x.begin(), x.end()), random, -2, 2);
    graft::load_options fast, slow;
    fast.device = slow.device = "cpu";
    fast.on_device.precision = precision;
    slow.reference = true;
    const graft::model m = graft::load(g, fast), reference = graft::load(g, slow);
    const auto want = nets::run(reference, {input}), got = nets::run(m, {input}, 1), same = nets::run(m, {input}, 3);
    CHECK(want.error == "");
    CHECK(got.error == "");
    CHECK(nets::same_bits(got, same));
    CHECK(difference(got.outputs[0], want.outputs[0]) < most);
    std::vector<std::string> all;
    for (const graft::placement& p : m.placements({}).value()) all.push_back(p.op_type + ": " + p.kernel);
    return all;
}
int count(const std::vector<std::string>& of, const std::string& begins) {
    return static_cast<int>(std::count_if(of.begin(), of.end(), [&](const std::string& s) { return s.compare(0, begins.size(), begins) == 0; }));
}

}  // namespace

TEST_CASE("rewritten: GELU, and what stands in for it, as a product of many nodes") {
    using function = value_id (*)(network&, value_id);
    const function functions[] = {
        [](network& n, value_id x) {
            return n.apply("Erf", {n.apply("Div", {x, n.number(1.41421356f)})});
        },
        [](network& n, value_id x) {
            return n.apply("Erf", {n.apply("Mul", {n.number(0.70710678f), x})});
        },
        [](network& n, value_id x) {
            const value_id cube = n.apply("Mul", {x, n.apply("Mul", {x, x})});
            return n.apply("Tanh", {n.apply("Mul", {n.number(0.79788456f), n.apply("Add", {x, n.apply("Mul", {n.number(0.044715f), cube})})})});
        },
        [](network& n, value_id x) {
            const value_id cube = n.apply("Pow", {x, n.number(3)});
            return n.apply("Tanh", {n.apply("Mul", {n.apply("Add", {x, n.apply("Mul", {cube, n.number(0.044715f)})}), n.number(0.79788456f)})});
        },
        [](network& n, value_id x) {
            const value_id square = n.apply("Mul", {n.apply("Mul", {n.number(0.044715f), x}), x});
            return n.apply("Tanh", {n.apply("Mul", {n.apply("Mul", {x, n.number(0.79788456f)}), n.apply("Add", {n.number(1), square})})});
        },
    };
    using order = value_id (*)(network&, value_id x, value_id f);
    const order orders[] = {
        [](network& n, value_id x, value_id f) {
            return n.apply("Mul", {n.number(0.5f), n.apply("Mul", {x, n.apply("Add", {n.number(1), f})})});
        },
        [](network& n, value_id x, value_id f) {
            return n.apply("Mul", {n.apply("Mul", {x, n.number(0.5f)}), n.apply("Add", {f, n.number(1)})});
        },
        [](network& n, value_id x, value_id f) {
            return n.apply("Mul", {x, n.apply("Mul", {n.number(0.5f), n.apply("Add", {n.number(1), f})})});
        },
    };
    for (const function f : functions)
        for (const order o : orders) {
            const auto by = kernels({2, 3, 7, 5}, [&](network& n, value_id x) { return o(n, x, f(n, x)); });
            CHECK(by.size() == 1);
            CHECK(count(by, "graft.Activation") == 1);
        }
    // Another number is another function.
    const auto by = kernels({2, 3, 7, 5}, [&](network& n, value_id x) {
        const value_id cube = n.apply("Pow", {x, n.number(3)});
        return orders[0](n, x, n.apply("Tanh", {n.apply("Mul", {n.number(0.79788456f), n.apply("Add", {x, n.apply("Mul", {n.number(0.05f), cube})})})}));
    });
    CHECK(by.size() > 1);
}

TEST_CASE("rewritten: zeros round an image are pads of what reads it") {
    const list image = {2, 3, 9, 8};
    const auto pads = [](network& n, value_id x, const list& of, const char* mode = "constant", float value = 0) {
        return n.apply("Pad", {x, n.integers(of), n.number(value)}, {string_attribute("mode", mode)});
    };
    const list around = {0, 0, 0, 1, 0, 0, 1, 2};
    CHECK(count(kernels(image,
                        [&](network& n, value_id x) {
                            return n.conv(pads(n, x, around), {4, 3, 3, 3}, {integers_attribute("strides", {2, 2})});
                        }),
                "Pad") == 0);
    CHECK(count(kernels(image,
                        [&](network& n, value_id x) {
                            return n.conv(pads(n, x, around), {4, 3, 3, 3}, {integers_attribute("pads", {1, 0, 2, 1})});
                        }),
                "Pad") == 0);
    CHECK(count(kernels(image,
                        [&](network& n, value_id x) {
                            return n.conv(pads(n, x, around), {4, 3, 3, 3}, {string_attribute("auto_pad", "VALID"), integers_attribute("pads", {1, 1, 1, 1})});
                        }),
                "Pad") == 0);
    CHECK(count(kernels(image,
                        [&](network& n, value_id x) {
                            const value_id axes = n.integers({-1}), padded = n.apply("Pad", {x, n.integers({2, 1}), graft::no_value, axes});
                            return n.apply("Add", {n.conv(padded, {4, 3, 3, 3}), n.conv(padded, {4, 3, 3, 3})});
                        }),
                "Pad") == 0);
    // Windows that see nothing but zeros.
    const list far = {0, 0, 4, 5, 0, 0, 6, 7};
    for (const std::int64_t kernel : {1, 2, 3})
        for (const std::int64_t stride : {1, 2})
            CHECK(count(kernels(image,
                                [&](network& n, value_id x) {
                                    return n.conv(pads(n, x, far), {20, 3, kernel, kernel}, {integers_attribute("strides", {stride, stride})});
                                }),
                        "Pad") == 0);
    const auto averages = [&](std::int64_t counted, const list& border) {
        return kernels(image, [&](network& n, value_id x) {
            return n.apply("AveragePool", {pads(n, x, border)}, {integers_attribute("kernel_shape", {3, 3}), integer_attribute("count_include_pad", counted)});
        });
    };
    CHECK(count(averages(1, around), "Pad") == 0);
    CHECK(count(averages(1, far), "Pad") == 0);
    CHECK(count(averages(0, around), "Pad") == 1);
    // What does more than that, or is read by others too.
    const struct {
        list pads;
        const char* mode;
        float value;
    } others[] = {{around, "edge", 0}, {around, "constant", 0.5f}, {{0, 0, 0, -1, 0, 0, 1, 2}, "constant", 0}};
    for (const auto& other : others)
        CHECK(count(kernels(image, [&](network& n, value_id x) { return n.conv(pads(n, x, other.pads, other.mode, other.value), {4, 3, 3, 3}); }), "Pad") == 1);
    CHECK(count(kernels(image, [&](network& n, value_id x) { return n.conv(pads(n, x, {0, 1, 0, 0, 0, 0, 0, 0}), {4, 4, 3, 3}); }), "Pad") == 1);
    CHECK(count(kernels(image,
                        [&](network& n, value_id x) {
                            return n.conv(pads(n, x, around), {4, 3, 3, 3}, {string_attribute("auto_pad", "SAME_UPPER")});
                        }),
                "Pad") == 1);
    CHECK(count(kernels(image,
                        [&](network& n, value_id x) {
                            const value_id padded = pads(n, x, {0, 0, 1, 1, 0, 0, 1, 1});
                            return n.apply("Add", {n.conv(padded, {3, 3, 1, 1}), padded});
                        }),
                "Pad") == 1);
}

TEST_CASE("rewritten: convolutions of large patches are products of matrices") {
    const char* precision = "auto";
    double most = 1e-5;  // sums of 3,072 products
    const auto patches = [&](std::int64_t height, std::int64_t width, std::int64_t kernel, std::int64_t stride) {
        const auto build = [&](network& n, value_id x) {
            return n.apply("Relu", {n.conv(x, {24, 3, kernel, kernel}, {integers_attribute("strides", {stride, stride})})});
        };
        return kernels({2, 3, height, width}, build, most, precision);
    };
    for (const auto& by : {patches(64, 96, 32, 32), patches(20, 40, 20, 20)}) {
        CHECK(count(by, "graft.MatMul") == 1);
        CHECK(count(by, "graft.Conv") == 0);
        CHECK(count(by, "Relu") + count(by, "graft.Activation") == 0);
    }
    CHECK(count(patches(70, 64, 32, 32), "graft.Conv") == 1);  // rows that no window has
    CHECK(count(patches(64, 64, 32, 16), "graft.Conv") == 1);  // windows that overlap
    CHECK(count(patches(32, 32, 8, 8), "graft.Conv") == 1);    // small ones
    precision = "bfloat16", most = 5e-3;
    for (const char* products : {"amx", "avx512_bf16"}) {
        const emulated_products with(products);
        CHECK(count(patches(64, 96, 32, 32), "graft.MatMul: matrix product, operands in bfloat16") == 1);
    }
}

TEST_CASE("rewritten: channels that make a few channels each are convolved as often") {
    const auto grouped = [](std::int64_t channels, std::int64_t of_each, std::int64_t kernel) {
        return kernels({2, channels, 13, 11}, [&](network& n, value_id x) {
            return n.apply("Relu",
                           {n.conv(x, {channels * of_each, 1, kernel, kernel},
                                   {integer_attribute("group", channels), integers_attribute("strides", {2, 2}), integers_attribute("pads", {3, 3, 3, 3})})});
        });
    };
    for (const auto& by : {grouped(6, 2, 7), grouped(20, 3, 3)}) {
        CHECK(count(by, "graft.Conv: as many groups as channels") == 1);
        CHECK(count(by, "Gather") == 1);
    }
    CHECK(count(grouped(6, 16, 3), "Gather") == 0);  // whole vectors
    CHECK(count(grouped(6, 1, 3), "Gather") == 0);
    CHECK(count(kernels({1, 6, 40, 40},
                        [&](network& n, value_id x) {
                            return n.conv(x, {60, 1, 1, 1}, {integer_attribute("group", 6), integers_attribute("strides", {8, 8})});
                        }),
                "Gather") == 0);  // little of the image is left
}

TEST_CASE("rewritten: batch normalisation of rows goes into the product that makes them") {
    const auto normalized = [](std::int64_t channels, const std::function<value_id(network&, value_id)>& before) {
        return kernels({2, 3, 7, 24}, [&](network& n, value_id x) {
            nets::numbers random{11};
            const auto some = [&](double low, double high) { return n.constant(nets::random_tensor({channels}, random, low, high)); };
            const value_id rows = before(n, x), scale = some(0.5, 2), shift = some(-1, 1), mean = some(-1, 1), variance = some(0.5, 2);
            return n.apply("BatchNormalization", {rows, scale, shift, mean, variance});
        });
    };
    nets::numbers random{12};
    const graft::tensor weight = nets::random_tensor({24, 32}, random, -0.3, 0.3);
    const auto by_matmul = normalized(32, [&](network& n, value_id x) {
        return n.apply("Reshape", {n.apply("MatMul", {x, n.constant(weight)}), n.integers({-1, 32})});
    });
    const auto by_gemm = normalized(32, [&](network& n, value_id x) {
        return n.apply("Gemm", {n.apply("Reshape", {x, n.integers({-1, 24})}), n.constant(weight)});
    });
    for (const auto& by : {by_matmul, by_gemm}) {
        CHECK(count(by, "graft.ScaleShift") == 0);
        CHECK(count(by, "graft.MatMul") == 1);
    }
    // Rows that are others than the product's.
    CHECK(count(normalized(16,
                           [&](network& n, value_id x) {
                               return n.apply("Reshape", {n.apply("MatMul", {x, n.constant(weight)}), n.integers({-1, 16})});
                           }),
                "graft.ScaleShift") == 1);
    for (const std::int64_t channels : {56, 63, 64})
        CHECK(count(normalized(channels,
                               [&](network& n, value_id x) {
                                   const value_id all = n.apply("Reshape", {x, n.integers({1008})});
                                   const value_id some = n.apply("Slice", {all, n.integers({0}), n.integers({channels * 15}), n.integers({0})});
                                   return n.apply("Reshape", {some, n.integers({15, channels})});
                               }),
                    "graft.ScaleShift: scale and shift") == 1);
}

TEST_CASE("rewritten: rows that become images, and images that become rows, pass no planes") {
    const auto between = [](const list& to, const list& back) {
        return kernels({2, 35, 24}, [&](network& n, value_id x) {
            const value_id channels = n.apply("Transpose", {x}, {integers_attribute("perm", {0, 2, 1})});
            const value_id image =
                n.conv(n.apply("Reshape", {channels, n.integers(to)}), {20, to[1] < 0 ? 24 : to[1], 3, 3}, {integers_attribute("pads", {1, 1, 1, 1})});
            return n.apply("Relu", {n.apply("Transpose", {n.apply("Reshape", {image, n.integers(back)})}, {integers_attribute("perm", {0, 2, 1})})});
        });
    };
    const auto by = between({2, 24, 5, 7}, {2, 20, 35});
    CHECK(count(by, "Transpose: between blocks and channels last") == 2);
    CHECK(count(by, "graft.Reorder") + count(by, "graft.Activation") == 0);
    CHECK(count(between({0, -1, 7, 5}, {0, 20, -1}), "graft.Reorder") == 0);
    // Channels that are others afterwards.
    CHECK(count(between({2, 12, 10, 7}, {2, 20, 70}), "graft.Reorder") == 1);
    CHECK(count(between({2, 24, 5, 7}, {2, 10, 70}), "graft.Reorder") == 1);
}

TEST_CASE("rewritten: windows of one axis, and of three of which some stay as they are, are windows of two") {
    const auto pool = [](const char* op, const list& image, const list& kernel, const list& strides, const list& pads) {
        return kernels(image, [&](network& n, value_id x) {
            return n.apply(op, {x}, {integers_attribute("kernel_shape", kernel), integers_attribute("strides", strides), integers_attribute("pads", pads)});
        });
    };
    for (const char* op : {"MaxPool", "AveragePool"}) {
        const std::string fast = std::string(op) + ": pool on planes", slow = std::string(op) + ": reference";
        CHECK(count(pool(op, {2, 5, 37}, {3}, {2}, {1, 0}), fast) == 1);
        CHECK(count(pool(op, {2, 3, 9, 8}, {3, 2}, {2, 1}, {1, 0, 1, 1}), fast) == 1);
        CHECK(count(pool(op, {2, 1, 11, 5, 7}, {5, 1, 1}, {1, 1, 1}, {2, 0, 0, 2, 0, 0}), fast) == 1);
        CHECK(count(pool(op, {2, 3, 4, 9, 8}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1, 0, 1, 1}), fast) == 1);
        CHECK(count(pool(op, {2, 3, 4, 9, 8}, {2, 3, 3}, {1, 2, 2}, {0, 1, 1, 0, 1, 1}), slow) == 1);
        CHECK(count(pool(op, {2, 3, 4, 9, 8}, {2, 1, 3}, {1, 1, 2}, {0, 0, 1, 0, 0, 1}), slow) == 1);
    }
}

TEST_CASE("rewritten: the largest of codes in windows of one axis, and of three") {
    const auto largest = [](const graft::shape& s, graft::builder& b, value_id x, const list& kernel, const list& pads) {
        b.output(b.apply("MaxPool", {x}, {integers_attribute("kernel_shape", kernel), integers_attribute("pads", pads)}), "y");
        const graft::graph g = b.finish();
        nets::numbers random{5};
        const graft::tensor input = nets::random_tensor(s, random, 0, 255, dtype::uint8);
        graft::load_options fast, slow;
        fast.device = slow.device = "cpu";
        slow.reference = true;
        const graft::model m = graft::load(g, fast);
        CHECK(nets::same_bits(nets::run(m, {input}), nets::run(graft::load(g, slow), {input})));
        return m.placements({}).value()[0].kernel;
    };
    graft::builder line{"net", 1}, volume{"net", 1};
    CHECK(largest({2, 5, 37}, line, line.input("x", dtype::uint8, {2, 5, 37}), {3}, {1, 0}) == "8 bits, planes");
    CHECK(largest({2, 3, 4, 9, 8}, volume, volume.input("x", dtype::uint8, {2, 3, 4, 9, 8}), {1, 3, 3}, {0, 1, 1, 0, 1, 1}) == "8 bits, planes");
}

TEST_CASE("rewritten: channels divided by what their neighbours are") {
    for (const std::int64_t size : {1, 4, 5, 64})
        for (const float beta : {0.75f, 0.5f, 1.0f, 0.6f}) {
            INFO(size, " ", beta);
            const auto by = kernels({2, 21, 5, 7}, [&](network& n, value_id x) {
                return n.apply("LRN", {x},
                               {integer_attribute("size", size), graft::real_attribute("alpha", 0.4f), graft::real_attribute("beta", beta),
                                graft::real_attribute("bias", 1.5f)});
            });
            CHECK(count(by, "LRN: planes") == 1);
        }
}

TEST_CASE("rewritten: sums of products over named axes are products of matrices") {
    struct equation {
        const char* text;
        list a, b;  // b: a constant's
        bool product;
    };
    const equation equations[] = {
        {"byhwc,hkc->byhwk", {2, 3, 4, 5, 6}, {4, 7, 6}, true},  // relative places of rows
        {"byhwc,wkc->byhwk", {2, 3, 4, 5, 6}, {5, 7, 6}, true},  // and of columns
        {"nhw,ixh->nixw", {2, 5, 4}, {3, 7, 5}, true},           // the columns come first
        {"nixw,jyw->nijxy", {2, 3, 4, 5}, {6, 7, 5}, true},
        {"bij,bjk->bik", {3, 4, 5}, {3, 5, 6}, true},
        {"bij,bkj->bki", {3, 4, 5}, {3, 6, 5}, true},
        {"...ij,jk", {2, 3, 4, 5}, {5, 6}, true},              // with no result named
        {"bij,j->bi", {3, 4, 5}, {5}, true},                   // by a vector
        {"abij,abij->ab", {2, 3, 4, 5}, {2, 3, 4, 5}, false},  // neither rows nor columns
        {"bij,bjk->bijk", {2, 3, 4}, {2, 4, 5}, false},        // nothing is summed
        {"bii,ij->bj", {2, 4, 4}, {4, 5}, false},              // a diagonal
        {"bij,kl->bkl", {2, 3, 4}, {5, 6}, false},             // sums of one operand
        {"bij,bjk->bik", {3, 4, 5}, {1, 5, 6}, false},         // one matrix for all
    };
    for (const equation& e : equations) {
        CAPTURE(std::string(e.text));
        const auto found = kernels(e.a, [&](network& n, value_id x) {
            nets::numbers random{4};
            return n.apply("Einsum", {x, n.constant(nets::random_tensor(graft::shape::from(e.b.begin(), e.b.end()), random))},
                           {string_attribute("equation", e.text)});
        });
        CHECK(count(found, "Einsum") == !e.product);
        CHECK(count(found, "graft.MatMul") + count(found, "graft.StridedMatMul") == e.product);
        CHECK(count(found, "graft.MatMul: reference") + count(found, "graft.StridedMatMul: reference") == 0);
    }
}

TEST_CASE("rewritten: products along a short axis that is turned behind the others and back are products where it lies") {
    struct mix {
        list x, there, back;
        std::int64_t channels;
        bool bias, lies;
    };
    const mix mixes[] = {
        {{2, 4, 19, 23}, {0, 2, 3, 1}, {0, 3, 1, 2}, 4, true, true},  // an attention's heads
        {{2, 3, 19, 23}, {0, 2, 3, 1}, {0, 3, 1, 2}, 7, false, true},
        {{2, 5, 6}, {0, 2, 1}, {0, 2, 1}, 3, true, true},
        {{3, 5, 2, 4, 6}, {0, 1, 3, 4, 2}, {0, 1, 4, 2, 3}, 5, true, true},
        {{2, 4, 5, 6}, {0, 2, 3, 1}, {0, 3, 2, 1}, 4, true, false},   // turned back otherwise
        {{2, 4, 5, 6}, {0, 3, 2, 1}, {0, 3, 1, 2}, 4, true, false},   // the others are turned too
        {{2, 24, 5, 6}, {0, 2, 3, 1}, {0, 3, 1, 2}, 8, true, false},  // not short
        {{2, 4, 5, 6}, {0, 1, 2, 3}, {0, 1, 2, 3}, 6, false, false},  // lies there anyway
    };
    for (const mix& m : mixes) {
        CAPTURE(m.x.size());
        CAPTURE(m.channels);
        const auto found = kernels(m.x, [&](network& n, value_id x) {
            nets::numbers random{4};
            const std::int64_t inner = m.x[static_cast<std::size_t>(m.there.back())];
            value_id v = n.apply(
                "MatMul", {n.apply("Transpose", {x}, {integers_attribute("perm", m.there)}), n.constant(nets::random_tensor({inner, m.channels}, random))});
            if (m.bias) v = n.apply("Add", {n.constant(nets::random_tensor({m.channels}, random)), v});
            return n.apply("Transpose", {v}, {integers_attribute("perm", m.back)});
        });
        CHECK(count(found, "Transpose") == (m.lies ? 0 : 2));
        CHECK(count(found, "graft.MatMul: reference") == 0);
    }
}

TEST_CASE("rewritten: images in blocks are cut along their channels where they lie") {
    struct cut {
        list parts;
        bool slices, whole;  // by Slice, not Split; in whole blocks, of 16 at most
    };
    const cut cuts[] = {{{32, 32}, false, true}, {{16, 37}, false, true},  {{32, 16, 16}, false, true}, {{64}, true, true},
                        {{32, 40}, true, true},  {{24, 40}, false, false}, {{24, 24}, true, false}};
    for (const cut& c : cuts) {
        CAPTURE(c.parts.size());
        CAPTURE(c.parts[0]);
        std::int64_t channels = 0;
        for (std::int64_t part : c.parts) channels += part;
        const auto found = kernels(
            {2, 3, 12, 11},
            [&](network& n, value_id x) {
                const value_id images = n.conv(x, {channels, 3, 3, 3});
                std::vector<value_id> parts;
                if (c.slices) {
                    for (std::int64_t i = 0, start = 0; i < static_cast<std::int64_t>(c.parts.size()); start += c.parts[static_cast<std::size_t>(i++)])
                        // One from the end: the same part.
                        parts.push_back(n.apply("Slice", {images, n.integers({i ? start - channels : start}),
                                                          n.integers({start + c.parts[static_cast<std::size_t>(i)]}), n.integers({i ? -3 : 1})}));
                } else {
                    parts = n.b.apply_all("Split", {images, n.integers(c.parts)}, {integer_attribute("axis", 1)}, static_cast<int>(c.parts.size()));
                }
                parts.back() = n.conv(parts.back(), {16, c.parts.back(), 1, 1});
                return n.apply("Concat", parts, {integer_attribute("axis", 1)});
            },
            1e-5);
        const int block = graft::cpu::vector_width(graft::cpu::active_isa().value());
        const bool whole = c.whole || (block <= 8 && c.parts[0] % block == 0);
        CHECK(count(found, "graft.SliceChannels: copies of whole blocks") == (whole ? static_cast<int>(c.parts.size()) : 0));
        if (whole && c.parts[0] % block == 0) CHECK(count(found, "graft.Reorder") == 1);  // what the caller reads
    }
}

TEST_CASE("rewritten: images in blocks are joined and cut where blocks are not whole") {
    const int block = graft::cpu::vector_width(graft::cpu::active_isa().value());
    for (const list& parts : {list{24, 40}, {20, 12, 7}, {5, 3, 2, 30}, {1, 1}, {17, 64, 16}, {32, 16, 5}}) {
        CAPTURE(parts[0]);
        std::int64_t channels = 0;
        bool whole = true;
        for (std::int64_t part : parts) {
            whole = whole && channels % block == 0;
            channels += part;
        }
        const auto joined = kernels(
            {3, 3, 9, 7},
            [&](network& n, value_id x) {
                std::vector<value_id> images;
                for (std::int64_t part : parts) images.push_back(n.conv(x, {part, 3, 3, 3}));
                return n.conv(n.apply("Concat", images, {integer_attribute("axis", -3)}), {16, channels, 1, 1});
            },
            1e-5);
        CHECK(count(joined, "graft.GatherChannels: lanes of blocks") == (whole ? 0 : 1));
        CHECK(count(joined, "graft.Reorder") == 1);  // what the caller reads
        const auto cut = kernels(
            {3, 3, 9, 7},
            [&](network& n, value_id x) {
                std::vector<value_id> images =
                    n.b.apply_all("Split", {n.conv(x, {channels, 3, 3, 3}), n.integers(parts)}, {integer_attribute("axis", 1)}, static_cast<int>(parts.size()));
                value_id sum = n.conv(images[0], {16, parts[0], 1, 1});
                for (std::size_t i = 1; i < images.size(); ++i) sum = n.apply("Add", {sum, n.conv(images[i], {16, parts[i], 1, 1})});
                return sum;
            },
            1e-5);
        CHECK(count(cut, "graft.GatherChannels: lanes of blocks") + count(cut, "graft.SliceChannels") == static_cast<int>(parts.size()));
        CHECK(count(cut, "graft.Reorder") == 1);
    }
}

TEST_CASE("rewritten: channels that are shuffled between groups are brought together at once, with the join before and the cuts behind") {
    enum cutting { none, slices, split, one_part };
    struct shuffle {
        list images;
        std::int64_t groups;
        cutting cut;
        bool planes;  // of the caller's images, not of convolutions
    };
    const shuffle all[] = {{{58, 58}, 2, slices, false}, {{24, 24}, 2, split, false},    {{116, 116}, 2, none, false}, {{30}, 3, none, false},
                           {{30}, 5, slices, false},     {{20, 12}, 4, one_part, false}, {{7, 5, 8}, 2, split, false}, {{64, 64}, 2, slices, false},
                           {{3}, 3, none, true},         {{3, 3}, 2, split, true}};
    for (const shuffle& s : all) {
        CAPTURE(s.images[0]);
        CAPTURE(s.groups);
        std::int64_t channels = 0;
        for (std::int64_t c : s.images) channels += c;
        const std::int64_t half = channels / 2;
        const auto found = kernels(
            {2, 3, 9, 7},
            [&](network& n, value_id x) {
                std::vector<value_id> images;
                for (std::int64_t c : s.images) images.push_back(s.planes ? x : n.conv(x, {c, 3, 3, 3}));
                const list image = s.planes ? list{2, channels, 9, 7} : list{2, channels, 7, 5};
                value_id v = images.size() > 1 ? n.apply("Concat", images, {integer_attribute("axis", 1)}) : images[0];
                v = n.apply("Reshape", {v, n.integers({2, s.groups, channels / s.groups, image[2], image[3]})});
                v = n.apply("Reshape", {n.apply("Transpose", {v}, {integers_attribute("perm", {0, 2, 1, 3, 4})}), n.integers(image)});
                if (s.cut == none) return n.conv(v, {16, channels, 1, 1});
                const auto slice = [&](std::int64_t from, std::int64_t to) {
                    return n.apply("Slice", {v, n.integers({from}), n.integers({to}), n.integers({1})});
                };
                std::vector<value_id> parts;
                if (s.cut == split)
                    parts = n.b.apply_all("Split", {v, n.integers({half, channels - half})}, {integer_attribute("axis", 1)}, 2);
                else
                    parts = {slice(0, half), slice(half, channels)};
                parts[1] = n.conv(parts[1], {half, channels - half, 1, 1});
                // The whole is read beside its parts, so it is made.
                if (s.cut == one_part) parts[0] = n.conv(v, {half, channels, 1, 1});
                return n.apply("Add", {parts[0], parts[1]});
            },
            1e-5);
        const int parts = s.cut == none || s.cut == one_part ? 1 : 2;
        if (s.cut != one_part) CHECK(count(found, s.planes ? "graft.GatherChannels: copies of planes" : "graft.GatherChannels: lanes of blocks") == parts);
        CHECK(count(found, "graft.GatherChannels") >= parts);
        CHECK(count(found, "Transpose") + count(found, "Concat") == 0);
    }
}
