// Quantised networks that the CPU computes in integers, against the reference kernels, which go through reals.
#include "quantized_net.hpp"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

using namespace quantized_net;

TEST_CASE("cpu quantized graphs: convolutions, bounds and sums between pairs are steps in integers") {
    by_every_product([] {
        for (const dtype type : {dtype::uint8, dtype::int8}) {
            const double zero = type == dtype::int8 ? -3 : 120;
            net n;
            const value_id x = n.b.input("x", dtype::float32, {2, 3, 14, 15});
            const value_id a = n.dequantize(n.quantize(x, 0.01, zero, type), 0.01, zero, type);
            const value_id c = n.b.apply("Conv", {a, n.weight({8, 3, 3, 3}), n.bias(8)}, {graft::integers_attribute("pads", {1, 1, 1, 1})});
            const value_id first = n.dequantize(n.quantize(n.b.apply("Relu", {c}), 0.03, zero, type), 0.03, zero, type);
            const value_id d =
                n.b.apply("Conv", {first, n.weight({8, 1, 3, 3})}, {graft::integers_attribute("pads", {1, 1, 1, 1}), graft::integer_attribute("group", 8)});
            const value_id bounded = n.b.apply("Clip", {d, n.scalar(dtype::float32, -2), n.scalar(dtype::float32, 2.5)});
            const value_id second = n.dequantize(n.quantize(bounded, 0.04, zero, type), 0.04, zero, type);
            check_against_reference(n.b, n.quantize(n.b.apply("Add", {first, second}), 0.06, zero, type), made(dtype::float32, {2, 3, 14, 15}, 1.1),
                                    pairs_pay() ? 3 : 0);
        }
    });
}

TEST_CASE("cpu quantized graphs: weights whose differences from their zero points are no int8") {
    by_every_product([] {
        for (const std::int64_t channels : {6, 40})
            for (const std::int64_t group : {std::int64_t(1), std::int64_t(2), channels})
                for (const int zero : {3, 120, 0}) {
                    INFO(channels << " channels, group " << group << ", zero point " << zero);
                    net n;
                    const value_id x = n.b.input("x", dtype::float32, {1, channels, 8, 8});
                    const value_id a = n.dequantize(n.quantize(x, 0.01, 128), 0.01, 128);
                    // Of a zero point of 0 a difference is 255: no two int8 have that sum.
                    const tensor weights = made(dtype::uint8, {channels, channels / group, 3, 3}, 127.5, 127.5);
                    const value_id w = n.dequantize(n.constant(weights), 0.01, zero);
                    const double scale = group == channels ? 0.08 : 0.02 * static_cast<double>(channels / group);
                    const value_id y = n.quantize(n.b.apply("Conv", {a, w}, {graft::integer_attribute("group", group)}), scale, 100);
                    check_against_reference(n.b, y, made(dtype::float32, {1, channels, 8, 8}, 1), pairs_pay() ? 1 : 0);
                }
    });
}

TEST_CASE("cpu quantized graphs: images of few channels and of many follow each other, and convolutions add where they store") {
    for (const dtype type : {dtype::uint8, dtype::int8})
        for (const bool turned : {false, true}) {
            tensor codes;
            by_every_product([&] {
                const int zero = type == dtype::uint8 ? 120 : -5;
                net n;
                const auto pair = [&](value_id x, double scale) { return n.dequantize(n.quantize(x, scale, zero, type), scale, zero, type); };
                const auto conv = [&](value_id x, std::int64_t in, std::int64_t out, std::int64_t group, double scale) {
                    return pair(n.b.apply("Conv", {x, n.weight({out, in / group, 3, 3}), n.bias(out)},
                                          {graft::integer_attribute("group", group), graft::integers_attribute("pads", {1, 1, 1, 1})}),
                                scale);
                };
                const value_id x = pair(n.b.input("x", dtype::float32, {2, 3, 14, 15}), 0.01);
                const value_id few = conv(x, 3, 16, 1, 0.1), many = conv(few, 16, 40, 1, 0.4), wide = conv(many, 40, 40, 40, 0.8);
                const value_id back = conv(wide, 40, 40, 1, 2);
                const value_id sum =
                    pair(n.b.apply("Relu", {n.b.apply("Add", turned ? std::vector<value_id>{many, back} : std::vector<value_id>{back, many})}), 2);
                const value_id pool = pair(n.b.apply("MaxPool", {sum}, {graft::integers_attribute("kernel_shape", {3, 2})}), 2);
                const value_id narrow = conv(pool, 40, 20, 1, 20);
                const value_id y = n.quantize(n.b.apply("Conv", {narrow, n.weight({20, 1, 3, 3})}, {graft::integer_attribute("group", 20)}), 30, zero, type);
                const int integers = graft::cpu::multiplies_tiles(graft::cpu::active_isa().value()) ? 6 : pairs_pay() ? 7 : 0;
                const answers a = check_against_reference(n.b, y, made(dtype::float32, {2, 3, 14, 15}, 1.1), integers, 3);
                if (integers == 0) return;
                if (codes) CHECK(std::memcmp(a.y.raw(), codes.raw(), a.y.bytes()) == 0);
                codes = a.y;
            });
        }
}

TEST_CASE("cpu quantized graphs: a shape that comes second, for which weights are packed already, gets the codes of one that comes first") {
    by_every_product([] {
        for (const std::int64_t group : {1, 2, 6}) {
            net n;
            const value_id x = n.b.input("x", dtype::float32, {"N", 6, "H", "W"});
            const value_id a = n.dequantize(n.quantize(x, 0.01, 120), 0.01, 120);
            const value_id c = n.b.apply("Conv", {a, n.weight({6, 6 / group, 3, 3}), n.bias(6)}, {graft::integer_attribute("group", group)});
            n.b.output(n.quantize(c, 0.03, 120), "y");
            auto g = n.b.finish();
            REQUIRE(g.ok());
            graft::load_options options;
            options.device = "cpu";
            auto m = graft::load(*g, options), again = graft::load(*g, options);
            REQUIRE(m.ok());
            REQUIRE(again.ok());
            const tensor wanted_for = made(dtype::float32, {1, 6, 9, 11}, 1.1);
            graft::session first(*again), second(*m);
            REQUIRE(second.run(made(dtype::float32, {2, 6, 14, 15}, 1.1)).ok());
            auto got = second.run(wanted_for), wanted = first.run(wanted_for);
            REQUIRE(got.ok());
            REQUIRE(wanted.ok());
            CHECK(std::memcmp(got->raw(), wanted->raw(), static_cast<std::size_t>(wanted->elements())) == 0);
        }
    });
}

TEST_CASE("cpu quantized graphs: what chooses among numbers or moves them does so with codes, looked up where the scale changes") {
    by_every_product([] {
        for (const dtype type : {dtype::uint8, dtype::int8})
            for (const bool one_scale : {true, false}) {
                const double zero = type == dtype::int8 ? -3 : 120;
                net n;
                const auto pair = [&](value_id y, double scale = 0.03) { return n.dequantize(n.quantize(y, scale, zero, type), scale, zero, type); };
                const value_id x = n.b.input("x", dtype::float32, {2, 3, 14, 15});
                const value_id c = pair(n.b.apply("Conv", {pair(x, 0.01), n.weight({5, 3, 3, 3}), n.bias(5)}));
                const value_id pool = pair(n.b.apply("MaxPool", {c},
                                                     {graft::integers_attribute("kernel_shape", {3, 2}), graft::integers_attribute("strides", {2, 1}),
                                                      graft::integers_attribute("pads", {1, 1, 1, 0})}),
                                           one_scale ? 0.03 : 0.05);
                const value_id both = pair(n.b.apply("Concat", {pool, pool}, {graft::integer_attribute("axis", 1)}), one_scale ? 0.03 : 0.05);
                const value_id turned = pair(n.b.apply("Transpose", {both}, {graft::integers_attribute("perm", {0, 2, 3, 1})}), one_scale ? 0.03 : 0.05);
                const value_id y = n.quantize(n.b.apply("Flatten", {turned}), one_scale ? 0.03 : 0.05, zero, type);
                const answers a = check_against_reference(n.b, y, made(dtype::float32, {2, 3, 14, 15}, 1.1), pairs_pay() ? 1 : 0);
                if (!pairs_pay()) continue;
                CHECK(a.reals == 0);
                CHECK(a.functions == (one_scale ? 0 : 1));
            }
    });
}

TEST_CASE("cpu quantized graphs: parts of an image's channels are cut where the codes lie") {
    by_every_product([] {
        for (const std::int64_t first : {64, 62})
            for (const bool one_scale : {true, false}) {
                net n;
                const auto pair = [&](value_id y, double scale = 0.1) { return n.dequantize(n.quantize(y, scale, 120), scale, 120); };
                const value_id x = n.b.input("x", dtype::float32, {2, 3, 14, 15});
                const value_id c = pair(n.b.apply("Conv", {pair(x, 0.01), n.weight({100, 3, 3, 3}), n.bias(100)}));
                tensor lengths = tensor::make(dtype::int64, {2}).value();
                lengths.data<std::int64_t>()[0] = first, lengths.data<std::int64_t>()[1] = 100 - first;
                const auto parts = n.b.apply_all("Split", {c, n.constant(lengths)}, {graft::integer_attribute("axis", 1)}, 2);
                const value_id left = pair(parts[0], one_scale ? 0.1 : 0.12), right = pair(parts[1]);
                const value_id made_of = pair(n.b.apply("Conv", {left, n.weight({100 - first, first, 1, 1})}), 0.4);
                const answers a =
                    check_against_reference(n.b, n.quantize(n.b.apply("Add", {made_of, right}), 0.4, 120), made(dtype::float32, {2, 3, 14, 15}, 1.1),
                                            graft::cpu::multiplies_tiles(graft::cpu::active_isa().value()) ? 2
                                            : pairs_pay()                                                  ? 3
                                                                                                           : 0,
                                            3);
                if (!pairs_pay()) continue;
                CHECK(a.reals == 0);
                CHECK(a.functions == (one_scale ? 0 : 1));
                if (graft::cpu::multiplies_bytes(graft::cpu::active_isa().value())) CHECK(a.cuts == (first % 64 ? 0 : 2));
            }
    });
}

TEST_CASE("cpu quantized graphs: products of rows by constant weights are convolutions of one tap where bytes are multiplied") {
    by_every_product([] {
        const int integers = graft::cpu::multiplies_bytes(graft::cpu::active_isa().value()) ? 1 : 0;
        for (const dtype type : {dtype::uint8, dtype::int8})
            for (const std::int64_t rows : {1, 3, 60})
                for (const std::int64_t columns : {12, 45}) {
                    INFO(rows, " rows of ", columns);
                    const double zero = type == dtype::int8 ? -3 : 120;
                    const auto check = [&](std::initializer_list<graft::dimension> dims, const graft::shape& extents, auto&& product) {
                        net n;
                        const value_id x = n.b.input("x", dtype::float32, dims);
                        const value_id y = product(n, n.dequantize(n.quantize(x, 0.01, zero, type), 0.01, zero, type));
                        check_against_reference(n.b, n.quantize(y, 0.03, zero, type), made(dtype::float32, extents, 1.1), integers);
                    };
                    check({rows, columns}, {rows, columns}, [&](net& n, value_id x) {
                        return n.b.apply("Gemm", {x, n.weight({37, columns}), n.bias(37)}, {graft::integer_attribute("transB", 1)});
                    });
                    check({rows, columns}, {rows, columns}, [&](net& n, value_id x) {
                        return n.b.apply("Relu", {n.b.apply("Gemm", {x, n.weight({columns, 70}, 1), n.bias(70)})});
                    });
                    check({2, rows, columns}, {2, rows, columns}, [&](net& n, value_id x) { return n.b.apply("MatMul", {x, n.weight({columns, 64}, 1)}); });
                    for (const bool first : {false, true})
                        check({2, rows, columns}, {2, rows, columns}, [&](net& n, value_id x) {
                            const value_id sums = n.b.apply("MatMul", {x, n.weight({columns, 64}, 1)}), bias = n.constant(made(dtype::float32, {64}, 0.9));
                            return n.b.apply("Relu", {n.b.apply("Add", first ? std::vector<value_id>{bias, sums} : std::vector<value_id>{sums, bias})});
                        });
                }
        // Scaled and turned products stay reals.
        for (const graft::attribute& how : {graft::real_attribute("alpha", 0.5f), graft::integer_attribute("transA", 1)}) {
            net n;
            const value_id x = n.b.input("x", dtype::float32, {8, 8});
            const value_id y = n.b.apply("Gemm", {n.dequantize(n.quantize(x, 0.01, 120), 0.01, 120), n.weight({8, 9}, 1)}, {how});
            check_against_reference(n.b, n.quantize(y, 0.03, 120), made(dtype::float32, {8, 8}, 1.1), 0);
        }
    });
}

TEST_CASE("cpu quantized graphs: a large product of reals does not keep convolutions from integers") {
    by_every_product([] {
        net n;
        const value_id x = n.b.input("x", dtype::float32, {1, 4, 6, 6});
        const value_id c = n.b.apply("Conv", {n.dequantize(n.quantize(x, 0.01, 120), 0.01, 120), n.weight({5, 4, 1, 1})});
        const value_id rows = n.b.apply("Flatten", {n.dequantize(n.quantize(c, 0.03, 120), 0.03, 120)});
        const value_id product = n.b.apply("MatMul", {rows, n.constant(made(dtype::float32, {180, 300}, 0.2))});
        check_against_reference(n.b, n.quantize(product, 0.05, 120), made(dtype::float32, {1, 4, 6, 6}, 1.1), pairs_pay() ? 1 : 0);
    });
}

TEST_CASE("cpu quantized graphs: QLinearConv gives the reference's codes") {
    by_every_product([] {
        for (const bool zero_points : {false, true}) {
            net n;
            const value_id x = n.b.input("x", dtype::uint8, {1, 5, 11, 9});
            const value_id y =
                n.b.apply("QLinearConv",
                          {x, n.scalar(dtype::float32, 1.0 / 128), n.scalar(dtype::uint8, 131), n.constant(made(dtype::uint8, {7, 5, 3, 3}, 120, 126)),
                           n.scalar(dtype::float32, 0.01), n.scalar(dtype::uint8, zero_points ? 3 : 128), n.scalar(dtype::float32, zero_points ? 0.4 : 0.1),
                           n.scalar(dtype::uint8, 90), n.constant(made(dtype::int32, {7}, 3000))},
                          {graft::integers_attribute("strides", {2, 1}), graft::integers_attribute("pads", {0, 2, 1, 1})});
            check_against_reference(n.b, y, made(dtype::uint8, {1, 5, 11, 9}, 120, 128), 1, 0);
        }
    });
}

TEST_CASE("cpu quantized graphs: sums that are more steps than int32 holds are the least code and the largest") {
    by_every_product([] {
        for (const std::int64_t group : {1, 5}) {
            net n;
            const value_id x = n.b.input("x", dtype::uint8, {1, 5, 11, 9});
            const value_id y =
                n.b.apply("QLinearConv",
                          {x, n.scalar(dtype::float32, 1), n.scalar(dtype::uint8, 131), n.constant(made(dtype::int8, {10, 5 / group, 3, 3}, 120)),
                           n.scalar(dtype::float32, 1), n.scalar(dtype::int8, 0), n.scalar(dtype::float32, 1e-7), n.scalar(dtype::uint8, 90)},
                          {graft::integer_attribute("group", group)});
            check_against_reference(n.b, y, made(dtype::uint8, {1, 5, 11, 9}, 120, 128), 1, 0);
        }
    });
}

// Quantisers give channels with hardly any weights so small a scale that the bias is nearly all that int32 holds.
TEST_CASE("cpu quantized graphs: biases of thousands of millions of steps are integers, where the sum stays in int32") {
    by_every_product([] {
        const double most = 2147483647;
        for (const double bias : {1.9e9, -1.9e9, most, -most})
            for (const std::int64_t group : {1, 5}) {
                CAPTURE(bias);
                net n;
                const value_id x = n.b.input("x", dtype::uint8, {1, 5, 11, 9});
                tensor scales = tensor::make(dtype::float32, {10}).value(), biases = tensor::zeros(dtype::int32, {10}).value();
                for (int m = 0; m < 10; ++m)
                    scales.data<float>()[m] = m % 3 ? 1e-3f : 1e-8f, biases.data<std::int32_t>()[m] = m % 3 ? -500 * m : static_cast<std::int32_t>(bias);
                const value_id y = n.b.apply(
                    "QLinearConv",
                    {x, n.scalar(dtype::float32, 1), n.scalar(dtype::uint8, 131), n.constant(made(dtype::int8, {10, 5 / group, 3, 3}, 120)), n.constant(scales),
                     n.constant(made(dtype::int8, {10}, 0)), n.scalar(dtype::float32, 0.7), n.scalar(dtype::uint8, 120), n.constant(biases)},
                    {graft::integer_attribute("group", group)});
                const bool integers = std::fabs(bias) < most && graft::cpu::multiplies_bytes(graft::cpu::active_isa().value());
                check_against_reference(n.b, y, made(dtype::uint8, {1, 5, 11, 9}, 120, 128), integers ? 1 : 0);
            }
    });
}

TEST_CASE("cpu quantized graphs: QLinearConv in groups of several channels gives the reference's codes") {
    by_every_product([] {
        for (const std::int64_t group : {2, 5, 10})
            for (const bool zero_points : {false, true}) {
                net n;
                const value_id x = n.b.input("x", dtype::uint8, {2, 10, 11, 9});
                const value_id y = n.b.apply(
                    "QLinearConv",
                    {x, n.scalar(dtype::float32, 1.0 / 128), n.scalar(dtype::uint8, 131), n.constant(made(dtype::uint8, {20, 10 / group, 3, 3}, 120, 126)),
                     n.constant(made(dtype::float32, {20}, 0.002, 0.01)), n.constant(made(dtype::uint8, {20}, zero_points ? 60 : 0, 128)),
                     n.scalar(dtype::float32, 0.1), n.scalar(dtype::uint8, 90), n.constant(made(dtype::int32, {20}, 3000))},
                    {graft::integer_attribute("group", group), graft::integers_attribute("pads", {1, 1, 1, 1})});
                CHECK(check_against_reference(n.b, y, made(dtype::uint8, {2, 10, 11, 9}, 120, 128), 1, 0).reals == 0);
            }
    });
}

TEST_CASE("cpu quantized graphs: QLinearConv of one dimension gives the reference's codes in float32") {
    by_every_product([] {
        for (const std::int64_t group : {1, 2}) {
            net n;
            const value_id x = n.b.input("x", dtype::uint8, {2, 10, 19});
            const value_id y =
                n.b.apply("QLinearConv",
                          {x, n.scalar(dtype::float32, 1.0 / 128), n.scalar(dtype::uint8, 131), n.constant(made(dtype::uint8, {20, 10 / group, 5}, 120, 126)),
                           n.constant(made(dtype::float32, {20}, 0.002, 0.01)), n.constant(made(dtype::uint8, {20}, 60, 128)), n.scalar(dtype::float32, 0.1),
                           n.scalar(dtype::uint8, 90), n.constant(made(dtype::int32, {20}, 3000))},
                          {graft::integer_attribute("group", group), graft::integers_attribute("pads", {2, 1})});
            CHECK(check_against_reference(n.b, y, made(dtype::uint8, {2, 10, 19}, 120, 128), 0).reals == 1);
        }
    });
}

TEST_CASE("cpu quantized graphs: reals that somebody else reads, and scales that a run gives, stay reals") {
    SUBCASE("an output of the graph") {
        net n;
        const value_id x = n.b.input("x", dtype::float32, {1, 3, 8, 8});
        const value_id c = n.b.apply("Conv", {n.dequantize(n.quantize(x, 0.01, 128), 0.01, 128), n.weight({4, 3, 3, 3})});
        const value_id y = n.quantize(c, 0.05, 100);
        n.b.output(y, "y");
        n.b.output(c, "c");
        auto g = n.b.finish();
        REQUIRE(g.ok());
        CHECK(run(*g, made(dtype::float32, {1, 3, 8, 8}, 1)).integers == 0);
    }
    SUBCASE("a convolution of reals") {
        net n;
        const value_id x = n.b.input("x", dtype::float32, {1, 3, 8, 8});
        const value_id y = n.quantize(n.b.apply("Conv", {x, n.weight({4, 3, 3, 3})}), 0.05, 100);
        check_against_reference(n.b, y, made(dtype::float32, {1, 3, 8, 8}, 1), 0);
    }
    SUBCASE("weights of reals") {
        net n;
        const value_id x = n.b.input("x", dtype::float32, {1, 3, 8, 8});
        const value_id a = n.dequantize(n.quantize(x, 0.01, 128), 0.01, 128);
        const value_id y = n.quantize(n.b.apply("Conv", {a, n.constant(made(dtype::float32, {4, 3, 3, 3}, 1))}), 0.05, 100);
        check_against_reference(n.b, y, made(dtype::float32, {1, 3, 8, 8}, 1), 0);
    }
}
