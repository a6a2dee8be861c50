// Values that a run of a device refuses: the CPU's errors, and that nothing is left of them in the run after.
#include "learning.hpp"
#include "table_problems.hpp"

#include "../cuda_simulator/simulated.hpp"

#include <thread>

namespace {

using graft::builder;
using graft::tensor;
using graft::value_id;

// One network on the host and on the device, with the same inputs.
class both {
public:
    both(const graft::graph& g, std::vector<tensor> in) : good(std::move(in)) {
        host.reset(new graft::session(graft::load(g, graft::on_device(nullptr)), {1, nullptr}));
        on = graft::load(g, graft::on_device(simulated::exact_device()));
        device.reset(new graft::session(on, {1, nullptr}));
    }
    std::vector<std::string> kernels() const {
        std::vector<std::string> all;
        auto placed = on.placements(on.inputs());
        REQUIRE(placed.ok());
        for (const graft::placement& p : placed.value())
            if (p.device != "cpu" && p.kernel != "copy") all.push_back(p.kernel);
        return all;
    }
    static graft::status run(graft::session& s, const std::vector<tensor>& in) {
        for (std::size_t i = 0; i < in.size(); ++i) GRAFT_TRY(s.set_input(i, in[i]));
        return s.run();
    }
    void expect_same() {
        REQUIRE(run(*host, good).ok());
        const graft::status ran = run(*device, good);
        const std::string error = ran.ok() ? "" : ran.error().what();
        REQUIRE_MESSAGE(ran.ok(), error);
        for (std::size_t i = 0; i < on.outputs().size(); ++i) CHECK(difference(device->output(i), host->output(i)) <= 2e-5);
    }
    void expect_refused(const std::vector<tensor>& bad, bool same_text = true) {
        const graft::status wanted = run(*host, bad), got = run(*device, bad);
        REQUIRE(!wanted.ok());
        REQUIRE_MESSAGE(!got.ok(), wanted.error().what());
        CHECK(got.error().code() == wanted.error().code());
        CHECK(got.error().where() == wanted.error().where());
        if (same_text) CHECK(std::string(got.error().what()) == wanted.error().what());
    }
    // At the first run, at those of which the second becomes a graph, and afterwards.
    void expect_all(const std::vector<tensor>& bad, bool same_text = true) {
        for (const int good_runs : {1, 1, 0, 3, 1}) {
            expect_refused(bad, same_text);
            for (int i = 0; i < good_runs; ++i) expect_same();
        }
    }

    std::vector<tensor> good;
    graft::model on;
    std::unique_ptr<graft::session> host, device;
};

tensor changed(const tensor& from, std::int64_t at, double to) {
    tensor t = tensor::make(from.type(), from.shape());
    std::memcpy(t.raw(), from.raw(), from.bytes());
    if (graft::is_float(t.type()))
        graft::store_from_double(t.type(), t.raw(), at, 1, &to);
    else {
        const std::int64_t whole = to <= -9.2e18 ? INT64_MIN : to >= 9.2e18 ? INT64_MAX : static_cast<std::int64_t>(to);
        graft::store_from_int64(t.type(), t.raw(), at, 1, &whole);
    }
    return t;
}

struct refused {
    const char *op, *problem;
    std::size_t input;
    std::int64_t element;
    double bad;
    bool same_text = true;
};

tensor integers(const std::vector<std::int64_t>& list) { return tensor::from(list.data(), {static_cast<std::int64_t>(list.size())}); }
tensor reals(const graft::shape& extents) { return small_steps::numbered(5, extents); }

}  // namespace

TEST_CASE("an index that only a run has is refused on the CUDA simulator as on the CPU, and the next run is right") {
    const refused all[] = {
        {"Gather", "f32[7,16] i64[3,5]~-7:7", 1, 4, 7},
        {"Gather", "f32[7,16] i64[3,5]~-7:7", 1, 14, -8},
        {"Gather", "f32[2,8,6] i32[4]~-6:6 axis=2", 1, 0, 1e9},
        {"Gather", "i64[500,40] i64[1]~-40:40 axis=1", 1, 0, -1e19},
        {"Gather", "f16[7,16] i64[20]~0:7", 1, 19, 1e19},
        {"GatherElements", "f32[4,8,5] i64[4,11,3]~-8:8 axis=1", 1, 131, 8},
        {"GatherElements", "i32[60,8] i64[60,8]~-8:8 axis=-1", 1, 0, -9},
        {"GatherND", "f32[4,5,6,8] i64[7,2]~-4:4", 1, 3, 5},
        {"GatherND", "f32[4,5,6] i64[4,5,2,1]~-6:6 batch_dims=2", 1, 39, -7},
        {"ReverseSequence", "f32[4,5,8] i64[5]~0:5", 1, 2, 5},
        {"ReverseSequence", "f32[4,5,8] i64[4]~0:6 batch_axis=0 time_axis=1", 1, 3, -1},
        {"Scatter", "f32[5] i64[3]~-5:5 f32[3] @10", 1, 1, 5},
        {"ScatterElements", "f32[3,8,5] i64[3,4,5]~-8:8 f32[3,4,5] axis=1", 1, 7, 8},
        {"ScatterElements", "f32[3,8,5] i64[3,4,5]~-8:8 f32[3,4,5] axis=1 reduction=add", 1, 59, -9},
        {"ScatterND", "f32[6,8,4] i64[5,1]~-6:6 f32[5,8,4]", 1, 0, 6},
        {"ScatterND", "f32[6,4,8] i64[2,3,2]~-4:4 f32[2,3,8] reduction=max", 1, 11, 4},
        {"ScatterND", "f32[40,8] i64[3000,1]~-40:40 f32[3000,8]~0.9:1.1 reduction=add", 1, 2999, -41},
        {"TensorScatter", "f32[3,6,8] f32[3,2,8] i64[3]~0:4", 2, 1, 5},
        {"TensorScatter", "f32[3,6,8] f32[3,2,8] i64[3]~0:20 mode=circular", 2, 2, -1},
        {"MaxUnpool", "f32[1,2,2,2] i64[1,2,2,2]~0:16 kernel_shape=2,2 strides=2,2", 1, 5, 32},
        {"MaxUnpool", "f32[1,2,2,2] i64[1,2,2,2]~0:16 kernel_shape=2,2 strides=2,2", 1, 0, -1},
        {"RoiAlign", "f32[2,3,8,8] f32[4,4]~0:7 i64[4]~0:2 output_height=2 output_width=2 @16", 2, 1, 2},
        {"RoiAlign", "f32[2,3,8,8] f32[4,4]~0:7 i64[4]~0:2 output_height=2 output_width=2 @16", 2, 3, -1},
        {"RoiAlign", "f32[2,3,8,8] f32[4,4]~0:7 i64[4]~0:2 output_height=2 output_width=2 @16", 1, 6, HUGE_VAL},
        {"RoiAlign", "f32[2,3,8,8] f32[4,4]~0:7 i64[4]~0:2 output_height=2 output_width=2 @10", 1, 6, 1e9, false},
        {"MaxRoiPool", "f32[2,3,8,8] f32[4,5]~0:1.9 pooled_shape=2,2", 1, 10, 2},
        {"MaxRoiPool", "f32[2,3,8,8] f32[4,5]~0:1.9 pooled_shape=2,2", 1, 15, NAN},
        {"MaxRoiPool", "f32[2,3,8,8] f32[4,5]~0:1.9 pooled_shape=2,2", 1, 8, 2e9},
        {"NegativeLogLikelihoodLoss", "f32[6,5] i64[6]~0:5", 1, 5, 5},
        {"NegativeLogLikelihoodLoss", "f32[6,5,4] i32[6,4]~0:5 f32[5] reduction=none", 1, 20, -1},
        {"NegativeLogLikelihoodLoss", "f32[6,5] i64[6]~-1:5 ignore_index=-1", 1, 0, -2},
        {"SoftmaxCrossEntropyLoss", "f32[6,5] i64[6]~0:5", 1, 0, -1},
        {"SoftmaxCrossEntropyLoss", "f32[6,5,4] i64[6,4]~0:5 reduction=sum", 1, 23, 1e12},
        {"SoftmaxCrossEntropyLoss", "f16[6,5] i64[6]~3:8 ignore_index=7", 1, 2, 9},
    };
    const long problems_before = simulated::count("problems");
    for (const refused& r : all) {
        INFO(std::string(r.op), ": ", std::string(r.problem));
        const graft::op_row* row = generated::row_of(r.op, "");
        REQUIRE(row);
        problems::problem p = problems::read(*row, r.problem);
        REQUIRE(p.error == "");
        // The problem whose ignored class lies behind the others.
        if (std::string(r.problem).find("~3:8") != std::string::npos)
            for (std::int64_t i = 0; i < p.inputs[1].elements(); ++i)
                if (p.inputs[1].data<std::int64_t>()[i] > 4) p.inputs[1].data<std::int64_t>()[i] = 7;
        both nets(p.g, p.inputs);
        CHECK(!nets.kernels().empty());
        std::vector<tensor> bad = p.inputs;
        bad[r.input] = changed(bad[r.input], r.element, r.bad);
        nets.expect_all(bad, r.same_text);
    }
    const std::string report = simulated::report();
    CHECK_MESSAGE(simulated::count("problems") == problems_before, report);
}

TEST_CASE("a fused kernel on the CUDA simulator tells which of its operators refuses") {
    builder b("net", 2);
    const value_id x = b.input("x", graft::dtype::float32, {12, 16}), i = b.input("i", graft::dtype::int64, {9}), j = b.input("j", graft::dtype::int64, {9});
    const value_id first = b.apply("Relu", {b.apply("Gather", {x, i})}), second = b.apply("Sigmoid", {b.apply("Gather", {x, j})});
    b.output(b.apply("Transpose", {b.apply("Add", {first, second})}), "y");
    both nets(b.finish(), {reals({12, 16}), integers({0, 1, 2, 3, 4, 5, 6, 7, -1}), integers({11, -12, 9, 8, 7, 6, 5, 4, 3})});
    CHECK(nets.kernels() == std::vector<std::string>{"6 operators in one loop"});
    nets.expect_all({nets.good[0], integers({0, 1, 2, 3, 12, 5, 6, 7, -1}), nets.good[2]});
    nets.expect_all({nets.good[0], nets.good[1], integers({0, 1, 2, 3, 4, 5, 6, 7, -13})});
    // Of several it is the same one every time: the first operator's, and of its values the one that is nearest below 0.
    const std::vector<tensor> worse{nets.good[0], integers({0, 99, -40, 3, -20, 5, 6, 7, 400}), integers({0, 1, 2, 3, 4, 5, 6, 7, -13})};
    for (int n = 0; n < 4; ++n) {
        const graft::status got = both::run(*nets.device, worse);
        REQUIRE(!got.ok());
        CHECK(std::string(got.error().detail()) == "index -20 is out of range for extent 12");
        CHECK(std::string(got.error().where()).find("Gather") != std::string::npos);
    }
    nets.expect_same();
}

TEST_CASE("an index whose element nobody reads is refused on the CUDA simulator all the same") {
    builder b("net", 2);
    const value_id x = b.input("x", graft::dtype::float32, {12, 16}), i = b.input("i", graft::dtype::int64, {6}),
                   mask = b.input("mask", graft::dtype::float32, {6, 16});
    const value_id taken = b.apply("Gather", {x, i});
    const value_id part =
        b.apply("Slice", {b.apply("Relu", {taken}), b.constant("from", integers({0})), b.constant("to", integers({3})), b.constant("axes", integers({0}))});
    const value_id never = b.apply("Less", {mask, b.constant("none", tensor::zeros(graft::dtype::float32, {}))});
    const value_id nowhere = b.apply("Where", {never, b.apply("Gather", {x, i}), mask});
    b.output(b.apply("Neg", {part}), "y");
    b.output(nowhere, "z");
    both nets(b.finish(), {reals({12, 16}), integers({0, 1, 2, 3, 4, 5}), tensor::zeros(graft::dtype::float32, {6, 16})});
    nets.expect_all({nets.good[0], integers({0, 1, 2, 3, 4, 12}), nets.good[2]});
}

TEST_CASE("an index that is computed on the CUDA simulator is refused there") {
    // Where the largest elements are, times 2: out of range where they lie in the second half. In a part that is left out nothing is read.
    builder b("net", 2);
    const value_id x = b.input("x", graft::dtype::float32, {4, 32});
    const value_id top = b.apply_all("TopK", {x, b.constant("k", integers({3}))}, {}, 2)[1];
    const value_id places = b.apply("Mul", {top, b.constant("two", tensor::from(std::vector<std::int64_t>{2}.data(), {}))});
    const value_id some =
        b.apply("Concat", {x, b.apply("GatherElements", {x, places}, {graft::integer_attribute("axis", 1)}), x}, {graft::integer_attribute("axis", 1)});
    b.output(b.apply("Sqrt", {b.apply("Abs", {some})}), "y");
    const auto peaks = [](std::int64_t at) {
        tensor t = tensor::zeros(graft::dtype::float32, {4, 32});
        for (std::int64_t r = 0; r < 4; ++r)
            for (std::int64_t k = 0; k < 3; ++k) t.data<float>()[r * 32 + (r == 2 ? at : 4) + k] = static_cast<float>(9 - k);
        return t;
    };
    both nets(b.finish(), {peaks(7)});
    CHECK(nets.kernels().size() >= 2);
    nets.expect_all({changed(peaks(11), 2 * 32 + 29, 20)});
}

TEST_CASE("a run that goes through the host refuses on either side of it") {
    builder b("net", 2);
    const value_id x = b.input("x", graft::dtype::float32, {12, 16}), i = b.input("i", graft::dtype::int64, {4, 4}), j = b.input("j", graft::dtype::int64, {9});
    const value_id first = b.apply("Relu", {b.apply("GatherElements", {x, i})});
    b.output(b.apply("Mul", {b.apply("Gather", {x, j}), b.apply("Det", {first})}), "y");
    both nets(b.finish(), {reals({12, 16}), tensor::zeros(graft::dtype::int64, {4, 4}), integers({0, 1, 2, 3, 4, 5, 6, 7, 8})});
    for (std::int64_t k = 0; k < 16; ++k) nets.good[1].data<std::int64_t>()[k] = k * 7 % 12;
    CHECK(nets.kernels().size() >= 2);
    nets.expect_all({nets.good[0], changed(nets.good[1], 9, 12), nets.good[2]});
    nets.expect_all({nets.good[0], nets.good[1], changed(nets.good[2], 0, -13)});
}

TEST_CASE("two contexts on the CUDA simulator do not see each other's faults") {
    builder b("net", 2);
    const value_id x = b.input("x", graft::dtype::float32, {12, 16}), i = b.input("i", graft::dtype::int64, {9});
    b.output(b.apply("Relu", {b.apply("Gather", {x, i})}), "y");
    const graft::graph g = b.finish();
    const graft::model on = graft::load(g, graft::on_device(simulated::exact_device()));
    const tensor data = reals({12, 16}), good = integers({0, 1, 2, 3, 4, 5, 6, 7, 8}), bad = integers({0, 1, 2, 3, 4, 5, 6, 7, 12});
    const auto live = [&](const tensor& at, int& failed) {
        graft::session s(on, {1, nullptr});
        for (int n = 0; n < 12; ++n) {
            const graft::status ran = both::run(s, {data, at});
            failed += !ran.ok() && ran.error().code() == graft::errc::op_index;
        }
    };
    int of_good = 0, of_bad = 0;
    std::thread one([&] { live(good, of_good); }), other([&] { live(bad, of_bad); });
    one.join();
    other.join();
    CHECK(of_good == 0);
    CHECK(of_bad == 12);
}

TEST_CASE("a training step that refuses an index on the CUDA simulator leaves weights, statistics and the optimiser as they were") {
    // Each sample names an integer by its first element, of which a wrong index makes no NaN.
    builder b("net", 3);
    const value_id x = b.input("input", graft::dtype::float32, {"N", 6});
    const value_id from = b.constant("from", integers({0})), to = b.constant("to", integers({1})), axis = b.constant("axis", integers({1}));
    const value_id place = b.apply("Squeeze", {b.apply("Cast", {b.apply("Slice", {x, from, to, axis})}, {graft::integer_attribute("to", 7)}), axis});
    const value_id table = b.constant("table", tensor::from(std::vector<std::int64_t>{1, 2, 3, 1}.data(), {4, 1}));
    const value_id factor = b.apply("Cast", {b.apply("Gather", {table, place})}, {graft::integer_attribute("to", 1)});
    value_id y = b.apply("Mul", {b.apply("Sigmoid", {x}), factor});
    y = b.apply("BatchNormalization",
                {y, b.constant("bn.weight", small_steps::numbered(74, {6}, 0.1, 1)), b.constant("bn.bias", small_steps::numbered(75, {6}, 0.1)),
                 b.constant("bn.mean", small_steps::numbered(76, {6}, 0.1)), b.constant("bn.variance", small_steps::numbered(77, {6}, 0.1, 1))});
    const value_id weight = b.constant("fc.weight", small_steps::numbered(72, {5, 6}, 0.3)), bias = b.constant("fc.bias", small_steps::numbered(73, {5}));
    y = b.apply("Gemm", {y, weight, bias}, {graft::integer_attribute("transB", 1)});
    b.output(y, "logits");
    graft::graph g = b.finish();
    graft::value& v = g.at(y);
    v.type = graft::dtype::float32;
    v.has_shape = true;
    v.extents = {graft::shape::unknown, 5};
    g = small_steps::loaded(std::move(g));
    tensor good = small_steps::numbered(9, {8, 6});
    for (std::int64_t n = 0; n < 8; ++n) good.data<float>()[n * 6] = static_cast<float>(n % 8 - 4);
    const tensor bad = changed(good, 5 * 6, 4);
    for (const graft::optimizer_kind kind : {graft::optimizer_kind::sgd, graft::optimizer_kind::adamw}) {
        small_steps::trained host(g, learning::with(kind, nullptr)), device(g, learning::with(kind, simulated::exact_device()));
        std::int64_t step = 0;
        for (const bool fits : {true, false, true, true, false, false, true}) {
            const std::vector<float> before = learning::numbers_of(device);
            const bool ran = device.run(step, fits ? good : bad, 1, 0.05);
            CHECK(host.run(step, fits ? good : bad, 1, 0.05) == fits);
            REQUIRE_MESSAGE(ran == fits, device.error());
            const std::vector<float> after = learning::numbers_of(device);
            if (!fits) {
                CHECK(device.error() == host.error());
                CHECK(device.last.error().code() == graft::errc::op_index);
                CHECK(before == after);
            } else
                CHECK(before != after);
            CHECK(learning::distance(after, learning::numbers_of(host)) <= (kind == graft::optimizer_kind::sgd ? 1e-3 : 2e-2));
            ++step;
        }
    }
}
