// Ranges of observed values, and networks rewritten for eight bits, against their formulas and the float network.
#include <graft/graft.hpp>
#include <graft/quantize.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace {

graft::value_range seen_by(graft::calibration_method method, const std::vector<float>& values, double percentile = 99.99) {
    graft::range_observer o(method, percentile);
    REQUIRE(o.observe(values.data(), static_cast<std::int64_t>(values.size()), "x").ok());
    return o.range();
}

graft::graph small_network() {
    graft::builder b("net", 7);
    const graft::value_id x = b.input("x", graft::dtype::float32, {"N", 3, 8, 8});
    graft::conv2d_options wide;
    wide.kernel = 3, wide.padding = 1, wide.name = "first";
    graft::value_id y = b.relu(b.batch_norm(b.conv2d(x, 8, wide)));
    graft::conv2d_options narrow;
    narrow.name = "second";
    y = b.relu(b.add(b.conv2d(y, 8, narrow), y));
    b.output(b.linear(b.flatten(b.global_average_pool(b.max_pool(y))), 4), "y");
    auto made = b.finish();
    REQUIRE(made.ok());
    made->metadata.push_back({"graft.preprocess", "imagenet"});
    made->metadata.push_back({"graft.golden", "the float network's answer"});
    return std::move(made).value();
}

graft::tensor random_batch() {
    auto x = graft::tensor::make(graft::dtype::float32, {2, 3, 8, 8});
    REQUIRE(x.ok());
    for (int i = 0; i < 384; ++i) x->data<float>()[i] = static_cast<float>(std::sin(i * 1.7));
    return std::move(x).value();
}

int count(const graft::graph& g, const char* op) {
    int n = 0;
    for (const graft::node& one : g.nodes) n += one.op_type == op;
    return n;
}

}  // namespace

TEST_CASE("the extremes are the range by minmax, and scale and zero point follow from them") {
    const graft::value_range r = seen_by(graft::calibration_method::minmax, {-1, 0.5f, 4});
    CHECK(r.low == -1);
    CHECK(r.high == 4);
    const graft::quantization_scale s = graft::quantization_scale::of(r);
    CHECK(s.scale == doctest::Approx(5.0 / 255));
    CHECK(s.zero_point == 51);
}

TEST_CASE("a value that is always zero has a scale of one, and a range that leaves out zero is widened to it") {
    const graft::quantization_scale zero = graft::quantization_scale::of(seen_by(graft::calibration_method::entropy, {0, 0, 0}));
    CHECK(zero.scale == 1);
    CHECK(zero.zero_point == 0);
    const graft::quantization_scale above = graft::quantization_scale::of({2, 5.1f});
    CHECK(above.scale == doctest::Approx(5.1 / 255));
    CHECK(above.zero_point == 0);
}

TEST_CASE("a range by percentile leaves out what is rare, within the width of a bin") {
    std::vector<float> values;
    for (int i = 0; i < 10000; ++i) values.push_back(static_cast<float>(i) / 10000);
    values.push_back(4);
    const graft::value_range r = seen_by(graft::calibration_method::percentile, values, 99);
    CHECK(std::fabs(r.low - 0.005) < 8.0 / 2048);
    CHECK(std::fabs(r.high - 0.995) < 8.0 / 2048);
}

TEST_CASE("a histogram that has grown says the same as one that was wide from the start") {
    graft::range_observer grown(graft::calibration_method::percentile, 90);
    std::vector<float> all;
    for (int step = 0; step < 4; ++step) {
        std::vector<float> some;
        for (int i = 0; i < 1000; ++i) some.push_back(static_cast<float>(std::sin(i * 0.37) * (1 << step)));
        REQUIRE(grown.observe(some.data(), 1000, "x").ok());
        all.insert(all.end(), some.begin(), some.end());
    }
    const graft::value_range at_once = seen_by(graft::calibration_method::percentile, all, 90);
    CHECK(std::fabs(grown.range().low - at_once.low) < 32.0 / 2048);
    CHECK(std::fabs(grown.range().high - at_once.high) < 32.0 / 2048);
}

// Recorded by scripts/record_calibration.py.
TEST_CASE("ranges are those of ONNX Runtime's calibrator and of numpy") {
    struct recorded {
        int count;
        double shift;
        bool relu;
        float low, high, left, right;
    };
    for (const recorded& r : {
             recorded{20000, 0.5, false, -1.111111f, 1.110988f, -1.087978f, 1.08774f},
             recorded{5000, 0.2, false, -0.3030303f, 13.26917f, -0.2945324f, 11.63901f},
             recorded{20000, 0.5, true, 0, 1.110988f, 0, 1.08774f},
         }) {
        std::vector<float> x;
        float most = 0;
        for (int i = 0; i < r.count; ++i) {
            const double u = std::fmod(i * 0.6180339887, 1.0) - r.shift;
            const auto y = static_cast<float>(u / (0.7 - u * u));
            x.push_back(r.relu ? std::max(y, 0.0f) : y);
            most = std::max(most, std::fabs(x.back()));
        }
        const float bin = 2 * most / 2048;
        const graft::value_range e = seen_by(graft::calibration_method::entropy, x), p = seen_by(graft::calibration_method::percentile, x, 99);
        CHECK(e.low == doctest::Approx(r.low).epsilon(1e-5));
        CHECK(e.high == doctest::Approx(r.high).epsilon(1e-5));
        CHECK(std::fabs(p.low - r.left) <= bin * 1.01f);
        CHECK(std::fabs(p.high - r.right) <= bin * 1.01f);
    }
}

TEST_CASE("a range by entropy does not get narrower with the share of zeros") {
    std::vector<float> x;
    for (int i = 1; i <= 20000; ++i) x.push_back(static_cast<float>(std::fmod(i * 0.6180339887, 1.0)));
    const graft::value_range without = seen_by(graft::calibration_method::entropy, x);
    x.resize(200000, 0.0f);
    const graft::value_range with = seen_by(graft::calibration_method::entropy, x);
    CHECK(with.high == doctest::Approx(without.high).epsilon(0.002));
    CHECK(with.high > 0.99f);
}

TEST_CASE("a range by entropy is not cut so far that its squared error grows") {
    // Most values are few and small, and one in twenty is large: a level for each bin holds the small ones, whatever becomes of the others.
    std::vector<float> x;
    for (int i = 0; i < 20000; ++i)
        x.push_back(i % 20 ? 0.001f * static_cast<float>(i % 7) : 0.5f + 0.5f * static_cast<float>(std::fmod(i * 0.6180339887, 1.0)));
    const graft::value_range r = seen_by(graft::calibration_method::entropy, x);
    CHECK(r.high > 0.9f);
}

TEST_CASE("values that are not finite have no range") {
    graft::range_observer o;
    const float bad[] = {1, std::numeric_limits<float>::quiet_NaN()};
    const graft::status s = o.observe(bad, 2, "conv1");
    REQUIRE(!s.ok());
    CHECK(s.error().code() == graft::errc::quantize_range);
    CHECK(s.error().where() == "conv1");
}

TEST_CASE("a quantised network answers nearly as the float one does, and holds integers") {
    auto q = graft::quantizer::make(graft::load(small_network())->graph());
    REQUIRE(q.ok());
    CHECK(count(q->prepared(), "BatchNormalization") == 0);
    CHECK(q->finish().error().code() == graft::errc::quantize_range);
    const graft::tensor x = random_batch();
    REQUIRE(q->observe(x).ok());
    auto made = q->finish();
    REQUIRE(made.ok());
    CHECK(count(*made, "QuantizeLinear") >= 6);
    CHECK(*made->find_metadata("graft.preprocess") == "imagenet");
    CHECK(!made->find_metadata("graft.golden"));
    int uint8 = 0, int32 = 0;
    for (const graft::value& v : made->values) {
        uint8 += v.constant && v.constant.type() == graft::dtype::uint8 && v.constant.shape().rank() > 1;
        int32 += v.constant && v.constant.type() == graft::dtype::int32 && v.constant.elements() > 1;
    }
    CHECK(uint8 == 3);
    CHECK(int32 >= 3);
    const graft::model plain = graft::load(small_network()), small = graft::load(*made);
    graft::session a(plain), b(small);
    const graft::tensor wanted = a.run(x), got = b.run(x);
    double signal = 0, noise = 0;
    for (int i = 0; i < 8; ++i) {
        signal += std::pow(wanted.data<float>()[i], 2);
        noise += std::pow(wanted.data<float>()[i] - got.data<float>()[i], 2);
    }
    CHECK(noise > 0);
    CHECK(10 * std::log10(signal / noise) > 20);
}

TEST_CASE("weights of either type are the same numbers, with the same answers") {
    const auto weights_of = [](const graft::graph& g, graft::dtype type) {
        std::vector<int> codes;
        for (const graft::node& n : g.nodes) {
            const graft::tensor w = n.op_type == "DequantizeLinear" ? g.at(n.inputs[0]).constant : graft::tensor();
            if (!w || w.type() != type || w.shape().rank() < 2) continue;
            const graft::tensor zero = g.at(n.inputs[2]).constant;
            for (std::int64_t i = 0; i < zero.elements(); ++i) CHECK(zero.raw()[i] == static_cast<std::byte>(type == graft::dtype::uint8 ? 128 : 0));
            for (std::int64_t i = 0; i < w.elements(); ++i)
                codes.push_back(type == graft::dtype::uint8 ? w.data<std::uint8_t>()[i] - 128 : w.data<std::int8_t>()[i]);
        }
        return codes;
    };
    std::vector<graft::graph> made;
    for (const graft::dtype type : {graft::dtype::uint8, graft::dtype::int8}) {
        graft::quantize_options how;
        how.weights = type;
        auto q = graft::quantizer::make(graft::load(small_network())->graph(), how);
        REQUIRE(q.ok());
        REQUIRE(q->observe(random_batch()).ok());
        made.push_back(q->finish().value());
    }
    const std::vector<int> codes = weights_of(made[0], graft::dtype::uint8);
    CHECK(codes.size() > 200);
    CHECK(codes == weights_of(made[1], graft::dtype::int8));
    CHECK(*std::max_element(codes.begin(), codes.end()) == 127);
    CHECK(*std::min_element(codes.begin(), codes.end()) == -127);
    graft::session a(graft::load(made[0]).value()), b(graft::load(made[1]).value());
    const graft::tensor one = a.run(random_batch()).value(), other = b.run(random_batch()).value();
    for (std::int64_t i = 0; i < one.elements(); ++i) CHECK(one.data<float>()[i] == other.data<float>()[i]);

    graft::quantize_options how;
    how.weights = graft::dtype::float16;
    auto q = graft::quantizer::make(graft::load(small_network())->graph(), how);
    REQUIRE(q.ok());
    REQUIRE(q->observe(random_batch()).ok());
    CHECK(q->finish().error().code() == graft::errc::usage);
}

TEST_CASE("a network that is to learn holds its weights in float, and answers as the stored one does up to the rounding of biases") {
    auto q = graft::quantizer::make(graft::load(small_network())->graph());
    REQUIRE(q.ok());
    REQUIRE(q->observe(random_batch()).ok());
    const graft::graph learns = q->finish_to_learn().value();
    int weights = 0;
    for (const graft::node& n : learns.nodes) weights += n.op_type == "QuantizeLinear" && learns.at(n.inputs[0]).constant;
    CHECK(weights == 3);
    const graft::graph stored = graft::store_quantized(learns).value();
    CHECK(count(stored, "QuantizeLinear") == count(learns, "QuantizeLinear") - 3);
    CHECK(count(stored, "DequantizeLinear") > count(learns, "DequantizeLinear"));  // of biases
    graft::session a(graft::load(learns).value()), b(graft::load(stored).value()), c(graft::load(q->finish().value()).value());
    const graft::tensor float_biases = a.run(random_batch()).value(), integers = b.run(random_batch()).value(), at_once = c.run(random_batch()).value();
    for (std::int64_t i = 0; i < integers.elements(); ++i) {
        CHECK(integers.data<float>()[i] == at_once.data<float>()[i]);
        CHECK(std::fabs(integers.data<float>()[i] - float_biases.data<float>()[i]) <= 0.02);
    }
}

TEST_CASE("a network of halves is quantised as the float32 one that it stands for") {
    const auto network = [](std::int64_t side) {
        graft::builder b("net", 7);
        const graft::value_id x = b.input("x", graft::dtype::float16, {"N", 3, side, side}), w = b.constant("w", [] {
            graft::tensor t = graft::tensor::make(graft::dtype::float16, {4, 3, 3, 3}).value();
            for (std::int64_t i = 0; i < t.elements(); ++i) {
                const double v = std::sin(static_cast<double>(i));
                graft::store_from_double(t.type(), t.raw(), i, 1, &v);
            }
            return t;
        }());
        b.output(b.apply("Flatten", {b.apply("GlobalAveragePool", {b.apply("Relu", {b.apply("Conv", {x, w})})})}), "y");
        return b.finish().value();
    };
    auto q = graft::quantizer::make(graft::load(network(8))->graph());
    REQUIRE(q.ok());
    CHECK(q->converted() == graft::dtype::float16);
    REQUIRE(q->observe(random_batch()).ok());
    const graft::graph made = q->finish().value();
    graft::session a(graft::load(q->prepared()).value()), b(graft::load(made).value());
    const graft::tensor wide = a.run(random_batch()).value(), small = b.run(random_batch()).value();
    REQUIRE(small.type() == graft::dtype::float32);
    for (std::int64_t i = 0; i < wide.elements(); ++i) CHECK(std::fabs(wide.data<float>()[i] - small.data<float>()[i]) < 0.05f);
    CHECK(graft::quantizer::make(graft::load(small_network())->graph())->converted() == graft::dtype::undefined);

    graft::quantize_options how;
    CHECK(graft::quantizer::make(graft::load(network(graft::shape::unknown))->graph(), how).error().code() == graft::errc::input_shape);
    how.input = {1, 3, 8, 8};
    CHECK(graft::quantizer::make(graft::load(network(graft::shape::unknown))->graph(), how).ok());
}

TEST_CASE("nodes that are kept stay float, and a name of none is refused") {
    auto q = graft::quantizer::make(graft::load(small_network())->graph());
    REQUIRE(q.ok());
    REQUIRE(q->observe(random_batch()).ok());
    auto made = q->finish({"first"});
    REQUIRE(made.ok());
    for (const graft::node& n : made->nodes)
        if (n.name == "first") CHECK(made->at(n.inputs[1]).constant.type() == graft::dtype::float32);
    CHECK(q->finish({"third"}).error().code() == graft::errc::input_name);
    CHECK(q->finish(q->nodes()).error().code() == graft::errc::quantize_nothing);
}

TEST_CASE("a Softmax that joins several axes, as it did before operator set 13, goes on doing so") {
    graft::builder b("net", 7);
    const graft::value_id x = b.conv2d(b.input("x", graft::dtype::float32, {2, 3, 8, 8}), 4);
    b.output(b.apply("Softmax", {x}, {graft::integer_attribute("axis", 1)}), "y");
    graft::graph g = b.finish().value();
    g.opsets = {{"", 11}};
    for (graft::node& n : g.nodes) {
        n.op = graft::ops::find_op("", n.op_type.c_str(), 11);
        n.version = 11;
    }
    const graft::model old = graft::load(std::move(g)).value();
    auto q = graft::quantizer::make(old.graph());
    REQUIRE(q.ok());
    REQUIRE(q->observe(random_batch()).ok());
    const graft::graph made = q->finish().value();
    CHECK(made.version_of("") == 13);
    CHECK(count(made, "Flatten") == 1);
    graft::session a(old), c(graft::load(made).value());
    const graft::tensor wanted = a.run(random_batch()).value(), got = c.run(random_batch()).value();
    REQUIRE(got.shape() == wanted.shape());
    for (std::int64_t i = 0; i < got.elements(); ++i) CHECK(got.data<float>()[i] == doctest::Approx(wanted.data<float>()[i]).epsilon(0.05));
    double sum = 0;
    for (std::int64_t i = 0; i < got.elements() / 2; ++i) sum += static_cast<double>(got.data<float>()[i]);
    CHECK(sum == doctest::Approx(1));
}

TEST_CASE("nothing is rounded between a product and its bias, and what moves numbers keeps their scale") {
    graft::builder b("net", 7);
    const graft::value_id x = b.conv2d(b.input("x", graft::dtype::float32, {2, 3, 8, 8}), 4);
    const std::int64_t as_rows[] = {2, 4, 64}, begin[] = {1}, end[] = {3}, axis[] = {1};
    const auto integers = [&](const char* name, const std::int64_t* of, const graft::shape& extents) {
        return b.constant(name, graft::tensor::from(of, extents));
    };
    const auto random = [&](const char* name, const graft::shape& extents) {
        graft::tensor t = graft::tensor::make(graft::dtype::float32, extents).value();
        for (int i = 0; i < t.elements(); ++i) t.data<float>()[i] = static_cast<float>(std::cos(i * 1.3));
        return b.constant(name, t);
    };
    const graft::value_id rows = b.apply("Reshape", {x, integers("as_rows", as_rows, {3})});
    const graft::value_id products = b.apply("MatMul", {rows, random("weight", {64, 10})}), sums = b.apply("Add", {random("bias", {10}), products});
    const auto parts = b.apply_all("Split", {sums}, {graft::integer_attribute("axis", 1)}, 2);
    const graft::value_id some = b.apply("Slice", {sums, integers("begin", begin, {1}), integers("end", end, {1}), integers("axis", axis, {1})});
    b.output(b.apply("Mul", {b.apply("Mul", {parts[0], parts[1]}), some}), "y");
    graft::graph g = b.finish().value();
    auto q = graft::quantizer::make(graft::load(g)->graph());
    REQUIRE(q.ok());
    REQUIRE(q->observe(random_batch()).ok());
    const graft::graph made = q->finish().value();
    const auto scale_of = [&](const graft::graph& in, graft::value_id id) {
        for (const graft::node& n : in.nodes)
            if (n.op_type == "QuantizeLinear" && in.at(n.inputs[0]).name == g.at(id).name) return in.at(n.inputs[1]).constant.data<float>()[0];
        return 0.0f;
    };
    CHECK(scale_of(made, products) == 0);
    CHECK(scale_of(made, sums) > 0);
    for (graft::value_id part : {parts[0], parts[1], some}) CHECK(scale_of(made, part) == scale_of(made, sums));
    // An Add that stays float stands behind the product's pair.
    std::string add;
    for (const graft::node& n : q->prepared().nodes)
        if (n.op_type == "Add") add = n.name;
    const graft::graph kept = q->finish({add}).value();
    CHECK(scale_of(kept, products) > 0);
    CHECK(scale_of(kept, sums) == 0);
}

// Others' softmax of codes makes zeros of what is finer.
TEST_CASE("the range of a Softmax reaches twice the mean of a row, however uniform rows are") {
    const auto scale_of = [](float spread) {
        graft::builder b("net", 7);
        const std::int64_t as_rows[] = {2, 4, 64};
        const graft::value_id x = b.conv2d(b.input("x", graft::dtype::float32, {2, 3, 8, 8}), 4),
                              spread_out = b.apply("Mul", {x, b.constant("spread", graft::tensor::from(&spread, {}))}),
                              rows = b.apply("Reshape", {spread_out, b.constant("as_rows", graft::tensor::from(as_rows, {3}))}),
                              columns = b.apply("Transpose", {rows}, {graft::integers_attribute("perm", {0, 2, 1})});
        const graft::value_id weights = b.apply("Softmax", {rows});
        b.output(b.apply("MatMul", {weights, columns}), "y");
        const graft::model m = graft::load(b.finish().value()).value();
        const std::string name = m.graph().nodes[4].op_type == "Softmax" ? m.graph().at(m.graph().nodes[4].outputs[0]).name : "";
        auto q = graft::quantizer::make(m.graph());
        REQUIRE(q.ok());
        REQUIRE(q->observe(random_batch()).ok());
        const graft::graph made = q->finish().value();
        for (const graft::node& n : made.nodes)
            if (n.op_type == "QuantizeLinear" && made.at(n.inputs[0]).name == name) return made.at(n.inputs[1]).constant.data<float>()[0];
        return 0.0f;
    };
    CHECK(scale_of(0.01f) == doctest::Approx(2.0 / 64 / 255));
    CHECK(scale_of(4) > 2.5f / 64 / 255);
}

TEST_CASE("networks that are quantised already or have nothing to quantise are refused") {
    auto q = graft::quantizer::make(graft::load(small_network())->graph());
    REQUIRE(q.ok());
    REQUIRE(q->observe(random_batch()).ok());
    auto twice = graft::quantizer::make(graft::load(q->finish().value())->graph());
    REQUIRE(!twice.ok());
    CHECK(twice.error().code() == graft::errc::quantize_nothing);
    graft::builder b;
    b.output(b.relu(b.input("x", graft::dtype::float32, {1, 3})), "y");
    auto none = graft::quantizer::make(graft::load(b.finish().value())->graph());
    REQUIRE(!none.ok());
    CHECK(none.error().code() == graft::errc::quantize_nothing);
}
