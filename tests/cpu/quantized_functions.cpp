// Functions of codes in quantised networks: tables, products by channel and means, against the reference kernels, which go through reals.
#include "quantized_net.hpp"

#include <string>
#include <vector>

using namespace quantized_net;

namespace {

// A network of one more pair behind each value.
struct pairs : net {
    explicit pairs(dtype of) : type(of), zero(of == dtype::int8 ? -3 : 120) {}
    value_id pair(value_id x, double scale) { return dequantize(quantize(x, scale, zero, type), scale, zero, type); }
    value_id conv(value_id x, std::int64_t in, std::int64_t out, double scale) { return pair(b.apply("Conv", {x, weight({out, in, 1, 1}), bias(out)}), scale); }
    value_id axes() { return constant(tensor::from(std::vector<std::int64_t>{-1, 2}.data(), {2}).value()); }
    dtype type;
    double zero;
};

value_id indices(net& n, const std::vector<std::int64_t>& of) { return n.constant(tensor::from(of.data(), {static_cast<std::int64_t>(of.size())}).value()); }

}  // namespace

TEST_CASE("cpu quantized functions: what depends on one code is looked up, and rounded as the reference rounds") {
    struct example {
        const char* name;
        value_id (*make)(pairs&, value_id);
    };
    static const example examples[] = {
        {"another scale", [](pairs&, value_id x) { return x; }},
        {"Sigmoid", [](pairs& n, value_id x) { return n.b.apply("Sigmoid", {x}); }},
        {"SiLU",
         [](pairs& n, value_id x) {
             return n.b.apply("Mul", {x, n.b.apply("Sigmoid", {x})});
         }},
        {"SiLU with a pair between",
         [](pairs& n, value_id x) {
             return n.b.apply("Mul", {x, n.pair(n.b.apply("Sigmoid", {x}), 1.0 / 128)});
         }},
        {"HardSwish of a chain",
         [](pairs& n, value_id x) {
             const value_id shifted =
                 n.b.apply("Clip", {n.b.apply("Add", {x, n.scalar(dtype::float32, 3)}), n.scalar(dtype::float32, 0), n.scalar(dtype::float32, 6)});
             return n.b.apply("Div", {n.b.apply("Mul", {x, shifted}), n.scalar(dtype::float32, 6)});
         }},
        {"a pair behind a pair", [](pairs& n, value_id x) { return n.b.apply("Exp", {n.pair(n.b.apply("Tanh", {x}), 0.01)}); }},
    };
    by_every_product([&] {
        for (const dtype type : {dtype::uint8, dtype::int8})
            for (const example& e : examples) {
                INFO(std::string(e.name));
                pairs n(type);
                const value_id x = n.b.input("x", dtype::float32, {2, 3, 7, 5});
                const value_id image = n.conv(n.pair(x, 0.01), 3, 40, 0.03);
                const value_id y = n.quantize(e.make(n, image), 0.032, n.zero, type);
                const answers a = check_against_reference(n.b, y, made(dtype::float32, {2, 3, 7, 5}, 1.1), pairs_pay() ? 1 : 0);
                if (pairs_pay()) CHECK(a.functions == 1);
            }
    });
}

TEST_CASE("cpu quantized functions: images of several scales are put together as codes") {
    by_every_product([] {
        for (const dtype type : {dtype::uint8, dtype::int8})
            for (const std::int64_t channels : {6, 64}) {
                pairs n(type);
                const value_id x = n.pair(n.b.input("x", dtype::float32, {1, 3, 9, 8}), 0.01);
                const value_id first = n.conv(x, 3, channels, 0.03), second = n.conv(x, 3, 2 * channels, 0.05), third = n.conv(x, 3, channels, 0.04);
                const value_id y = n.quantize(n.b.apply("Concat", {first, second, third}, {graft::integer_attribute("axis", 1)}), 0.05, n.zero, type);
                const answers a = check_against_reference(n.b, y, made(dtype::float32, {1, 3, 9, 8}, 1.1), pairs_pay() ? 3 : 0);
                if (!pairs_pay()) continue;
                CHECK(a.functions == 2);
                CHECK(a.reals == 0);
            }
    });
}

TEST_CASE("cpu quantized functions: squeeze and excitation stays in codes") {
    by_every_product([] {
        for (const dtype type : {dtype::uint8, dtype::int8})
            for (const std::int64_t channels : {6, 40, 130})
                for (const bool turned : {false, true}) {
                    INFO(channels, " channels");
                    pairs n(type);
                    const value_id x = n.b.input("x", dtype::float32, {2, 3, 7, 5});
                    const value_id image = n.conv(n.pair(x, 0.01), 3, channels, 0.03);
                    const value_id mean = n.pair(turned ? n.b.apply("ReduceMean", {image, n.axes()}) : n.b.apply("GlobalAveragePool", {image}), 0.01);
                    const value_id gate = n.pair(n.b.apply("HardSigmoid", {n.conv(mean, channels, channels, 0.05)}), 1.0 / 256);
                    const value_id y =
                        n.quantize(n.b.apply("Mul", turned ? std::vector<value_id>{gate, image} : std::vector<value_id>{image, gate}), 0.02, n.zero, type);
                    const answers a = check_against_reference(n.b, y, made(dtype::float32, {2, 3, 7, 5}, 1.1), pairs_pay() ? 2 : 0, 2);
                    if (!pairs_pay()) continue;
                    CHECK(a.functions == 3);
                    CHECK(a.reals == 0);
                }
    });
}

TEST_CASE("cpu quantized functions: averages of windows that count as many numbers are depthwise convolutions") {
    const std::vector<std::int64_t> three{3, 3}, two{2, 2}, one{1, 1}, borders{1, 1, 1, 1};
    const struct {
        std::vector<std::int64_t> kernel, strides, pads;
        int counts_pads, ceil;
        bool integers;
    } windows[] = {{three, one, borders, 1, 0, true},  {two, two, {0, 0, 0, 0}, 0, 0, true},  {{1, 5}, one, {0, 2, 0, 2}, 1, 0, true},
                   {three, one, borders, 0, 0, false}, {two, two, {0, 0, 0, 0}, 1, 1, false}, {two, two, {0, 0, 0, 1}, 1, 0, true}};
    by_every_product([&] {
        for (const dtype type : {dtype::uint8, dtype::int8})
            for (const std::int64_t channels : {6, 40, 130})
                for (const auto& w : windows) {
                    INFO(channels << " channels, window " << w.kernel[0] << "x" << w.kernel[1] << ", counts pads " << w.counts_pads << ", ceil " << w.ceil);
                    pairs n(type);
                    const value_id x = n.b.input("x", dtype::float32, {2, 3, 11, 9});
                    const value_id average = n.b.apply("AveragePool", {n.conv(n.pair(x, 0.01), 3, channels, 0.03)},
                                                       {graft::integers_attribute("kernel_shape", w.kernel), graft::integers_attribute("strides", w.strides),
                                                        graft::integers_attribute("pads", w.pads), graft::integer_attribute("count_include_pad", w.counts_pads),
                                                        graft::integer_attribute("ceil_mode", w.ceil)});
                    // Two steps: the convolution's one may be another of the average's scale.
                    const answers a = check_against_reference(n.b, n.quantize(n.b.apply("Relu", {average}), 0.023, n.zero, type),
                                                              made(dtype::float32, {2, 3, 11, 9}, 1.1), pairs_pay() ? (w.integers ? 2 : 1) : 0, 2);
                    if (pairs_pay()) CHECK(a.reals == (w.integers ? 0 : 1));
                }
    });
}

TEST_CASE("cpu quantized functions: what moves numbers moves codes") {
    using graft::integer_attribute;
    using graft::integers_attribute;
    const struct {
        const char* op;
        bool integers;
        value_id (*apply)(net&, value_id);
    } moves[] = {
        {"Pad by zeros", true,
         [](net& n, value_id x) {
             return n.b.apply("Pad", {x, indices(n, {0, 1, 1, 2, 0, 0, 0, 1})});
         }},
        {"Pad by a number", true,
         [](net& n, value_id x) {
             return n.b.apply("Pad", {x, indices(n, {0, 0, 1, 2, 0, 0, 0, 1}), n.scalar(dtype::float32, -0.4)});
         }},
        {"Pad by the border", true,
         [](net& n, value_id x) {
             return n.b.apply("Pad", {x, indices(n, {0, 0, 1, 2, 0, 0, 0, 1})}, {graft::string_attribute("mode", "edge")});
         }},
        {"Gather", true,
         [](net& n, value_id x) {
             return n.b.apply("Gather", {x, indices(n, {5, 0, 2, 2})}, {integer_attribute("axis", 1)});
         }},
        {"Expand", true,
         [](net& n, value_id x) {
             return n.b.apply("Expand", {x, indices(n, {3, 2, 12, 7, 5})});
         }},
        {"Tile", true,
         [](net& n, value_id x) {
             return n.b.apply("Tile", {x, indices(n, {1, 1, 2, 1})});
         }},
        {"DepthToSpace", true, [](net& n, value_id x) { return n.b.apply("DepthToSpace", {x}, {integer_attribute("blocksize", 2)}); }},
        {"Resize to the nearest", true,
         [](net& n, value_id x) {
             return n.b.apply("Resize", {x, graft::no_value, n.constant(made(dtype::float32, {4}, 0, 2))});
         }},
        {"Resize between pixels", false,
         [](net& n, value_id x) {
             return n.b.apply("Resize", {x, graft::no_value, n.constant(made(dtype::float32, {4}, 0, 2))}, {graft::string_attribute("mode", "linear")});
         }},
        {"GlobalMaxPool", true, [](net& n, value_id x) { return n.b.apply("GlobalMaxPool", {x}); }},
    };
    by_every_product([&] {
        for (const dtype type : {dtype::uint8, dtype::int8})
            for (const double scale : {0.03, 0.041})
                for (const auto& move : moves) {
                    INFO(move.op, ", scale ", scale);
                    pairs n(type);
                    const value_id x = n.b.input("x", dtype::float32, {2, 3, 7, 5});
                    const value_id y = n.quantize(move.apply(n, n.conv(n.pair(x, 0.01), 3, 12, 0.03)), scale, n.zero, type);
                    const answers a = check_against_reference(n.b, y, made(dtype::float32, {2, 3, 7, 5}, 1.1), pairs_pay() ? 1 : 0);
                    if (!pairs_pay()) continue;
                    CHECK(a.reals == (move.integers ? 0 : 1));
                    CHECK(a.functions == (move.integers && scale != 0.03 ? 1 : 0));
                }
    });
}

TEST_CASE("cpu quantized functions: parts of a Split have pairs of their own") {
    by_every_product([] {
        for (const dtype type : {dtype::uint8, dtype::int8})
            for (const int axis : {1, -1}) {
                pairs n(type);
                const value_id x = n.b.input("x", dtype::float32, {2, 3, 7, 8});
                const value_id c = n.conv(n.pair(x, 0.01), 3, 12, 0.03);
                const std::int64_t first = axis == 1 ? 4 : 3, second = 8 - first + (axis == 1 ? 4 : 0);
                const std::vector<value_id> parts = n.b.apply_all("Split", {c, indices(n, {first, second})}, {graft::integer_attribute("axis", axis)}, 2);
                // One keeps its scale, the other is looked up.
                const value_id y = n.b.apply("Concat", {n.pair(parts[1], 0.03), n.pair(parts[0], 0.041)}, {graft::integer_attribute("axis", axis)});
                const answers a =
                    check_against_reference(n.b, n.quantize(y, 0.041, n.zero, type), made(dtype::float32, {2, 3, 7, 8}, 1.1), pairs_pay() ? 1 : 0, 2);
                if (pairs_pay()) CHECK(a.reals == 0);
            }
    });
}

TEST_CASE("cpu quantized functions: products of images of equal shapes, and what is none of these stays in reals") {
    by_every_product([] {
        for (const dtype type : {dtype::uint8, dtype::int8})
            for (const bool equal : {true, false}) {
                pairs n(type);
                const value_id x = n.b.input("x", dtype::float32, {2, 3, 7, 5});
                const value_id a = n.pair(x, 0.01), first = n.conv(a, 3, 40, 0.03);
                // One number a pixel is none a channel.
                const value_id second = n.conv(a, 3, equal ? 40 : 1, 0.04);
                const answers got = check_against_reference(n.b, n.quantize(n.b.apply("Relu", {n.b.apply("Mul", {first, second})}), 0.05, n.zero, type),
                                                            made(dtype::float32, {2, 3, 7, 5}, 1.1), pairs_pay() ? 2 : 0);
                if (pairs_pay()) CHECK(got.functions == (equal ? 1 : 0));
            }
    });
}

TEST_CASE("cpu quantized functions: beside QLinearConv too, which has no pairs") {
    by_every_product([] {
        net n;
        const value_id x = n.b.input("x", dtype::uint8, {1, 5, 11, 9});
        const value_id c =
            n.b.apply("QLinearConv", {x, n.scalar(dtype::float32, 1.0 / 128), n.scalar(dtype::uint8, 131), n.constant(made(dtype::int8, {7, 5, 3, 3}, 120)),
                                      n.scalar(dtype::float32, 0.01), n.scalar(dtype::int8, 0), n.scalar(dtype::float32, 0.1), n.scalar(dtype::uint8, 90)});
        const value_id y = n.quantize(n.b.apply("Sigmoid", {n.dequantize(c, 0.1, 90)}), 1.0 / 256, 0);
        const answers a = check_against_reference(n.b, y, made(dtype::uint8, {1, 5, 11, 9}, 120, 128), 1, 0);
        if (!pairs_pay()) return;
        CHECK(a.functions == 1);
        CHECK(a.reals == 0);
    });
}
