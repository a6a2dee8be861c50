// Networks that look where they have computed to, whole and on the device: a spatial transformer, a detector's head, selection.
#include "simulated_backend.hpp"

#include "../train/small_steps.hpp"

namespace {

using graft::value_id;
using small_steps::numbered;

value_id integers(graft::builder& b, const char* name, const std::vector<std::int64_t>& list) {
    return b.constant(name, graft::tensor::from(list.data(), {static_cast<std::int64_t>(list.size())}));
}
graft::graph finished(graft::builder& b, value_id y, const graft::shape& extents) {
    b.output(y, "y");
    graft::graph g = b.finish();
    graft::value& v = g.at(y);
    v.type = graft::dtype::float32;
    v.has_shape = true;
    v.extents = extents;
    g.opsets[0].version = 21;
    for (graft::node& n : g.nodes) n.version = 21;
    return small_steps::loaded(std::move(g));
}

// A picture is warped as the network finds, and the largest of its features are classified. Batches of 4.
graft::graph spatial_transformer() {
    graft::builder b("transformer", 7);
    const value_id x = b.input("input", graft::dtype::float32, {4, 3, 12, 12});
    graft::conv2d_options conv;
    conv.kernel = 3, conv.padding = 1, conv.name = "localise";
    value_id theta = b.apply("Flatten", {b.apply("GlobalAveragePool", {b.apply("Relu", {b.conv2d(x, 8, conv)})})});
    theta = b.apply("Gemm",
                    {theta, b.constant("theta.weight", numbered(72, {6, 8}, 0.1)),
                     b.constant("theta.bias", graft::tensor::from(std::vector<float>{0.9f, 0.1f, 0.05f, -0.1f, 0.8f, -0.05f}.data(), {6}))},
                    {graft::integer_attribute("transB", 1)});
    const value_id grid = b.apply("AffineGrid", {b.apply("Reshape", {theta, integers(b, "two_by_three", {4, 2, 3})}), integers(b, "size", {4, 3, 12, 12})});
    const value_id kernel = b.constant("classify.weight", numbered(75, {8, 3, 3, 3}, 0.3));
    value_id y = b.apply("Relu", {b.apply("Conv", {b.apply("GridSample", {x, grid}), kernel}, {graft::integers_attribute("pads", {1, 1, 1, 1})})});
    y = b.apply("Flatten", {y});
    // the 40 largest features, those that their places name, and some that are listed, one of them many times
    const std::vector<value_id> top = b.apply_all("TopK", {y, integers(b, "k", {40})}, {}, 2);
    const value_id last = b.constant("last", graft::tensor::from(std::vector<std::int64_t>{8 * 144 - 1}.data(), {1}));
    const value_id opposite = b.apply("GatherElements", {y, b.apply("Sub", {last, top[1]})}, {graft::integer_attribute("axis", 1)});
    std::vector<std::int64_t> listed;
    for (std::int64_t i = 0; i < 40; ++i) listed.push_back(i % 3 ? 29 * i - 1152 : 5);
    const value_id some = b.apply("Gather", {y, integers(b, "listed", listed)}, {graft::integer_attribute("axis", 1)});
    y = b.apply("Add", {b.apply("Add", {top[0], opposite}), some});
    y = b.apply("Gemm", {y, b.constant("fc.weight", numbered(73, {5, 40}, 0.1)), b.constant("fc.bias", numbered(74, {5}))},
                {graft::integer_attribute("transB", 1)});
    return finished(b, y, {4, 5});
}

// Convolutions that look where others tell them to, with masks: the offsets begin at zero, as they do in training. Batches of 4.
graft::graph deformable() {
    graft::builder b("deformable", 7);
    const value_id x = b.input("input", graft::dtype::float32, {4, 3, 10, 10});
    graft::conv2d_options conv;
    conv.kernel = 3, conv.padding = 1, conv.name = "features";
    const value_id features = b.apply("Relu", {b.conv2d(x, 8, conv)});
    const std::vector<graft::attribute> pads{graft::integers_attribute("pads", {1, 1, 1, 1})};
    const value_id offset = b.apply("Conv", {features, b.constant("offset.weight", graft::tensor::zeros(graft::dtype::float32, {36, 8, 3, 3}))}, pads);
    const value_id mask = b.apply("Sigmoid", {b.apply("Conv", {features, b.constant("mask.weight", numbered(81, {18, 8, 3, 3}, 0.1))}, pads)});
    std::vector<graft::attribute> attributes = pads;
    attributes.push_back(graft::integer_attribute("offset_group", 2));
    const value_id kernel = b.constant("deform.weight", numbered(82, {12, 8, 3, 3}, 0.3)), bias = b.constant("deform.bias", numbered(83, {12}, 0.1));
    const value_id y =
        b.apply("Flatten", {b.apply("GlobalAveragePool", {b.apply("Relu", {b.apply("DeformConv", {features, kernel, offset, bias, mask}, attributes)})})});
    return finished(b,
                    b.apply("Gemm", {y, b.constant("fc.weight", numbered(84, {5, 12}, 0.5)), b.constant("fc.bias", numbered(85, {5}))},
                            {graft::integer_attribute("transB", 1)}),
                    {4, 5});
}

// Regions of a picture's features: two by two bins each, and their sum.
graft::graph regions_of_features() {
    graft::builder b("regions", 7);
    const value_id x = b.input("input", graft::dtype::float32, {2, 3, 16, 16}), scores = b.input("boxes", graft::dtype::float32, {2, 6, 4});
    graft::conv2d_options conv;
    conv.kernel = 3, conv.padding = 1, conv.name = "features";
    const value_id features = b.apply("Relu", {b.conv2d(x, 8, conv)});
    const value_id boxes = b.apply("Reshape", {b.apply("Mul", {scores, b.constant("side", numbered(1, {1}, 0, 15.0))}), integers(b, "rows", {12, 4})});
    const value_id of = integers(b, "of", {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1});
    const value_id bins =
        b.apply("RoiAlign", {features, boxes, of},
                {graft::integer_attribute("output_height", 2), graft::integer_attribute("output_width", 2), graft::integer_attribute("sampling_ratio", 2)});
    return finished(b, b.apply("Softmax", {b.apply("Flatten", {bins})}), {12, 32});
}

std::vector<graft::tensor> answers(const graft::model& m, const std::vector<graft::tensor>& in) {
    graft::session session(m, {1, nullptr});
    for (std::size_t i = 0; i < in.size(); ++i) REQUIRE(session.set_input(i, in[i]).ok());
    const graft::status s = session.run();
    REQUIRE_MESSAGE(s.ok(), std::string(s.ok() ? "" : s.error().what()));
    std::vector<graft::tensor> all;
    for (std::size_t i = 0; i < m.outputs().size(); ++i) all.push_back(session.output(i));
    return all;
}

// Whole on the device, and what it learns there is what it learns on the CPU.
void expect_learning(const graft::graph& g, const graft::tensor& x) {
    graft::load_options strict = graft::on_device(simulated::exact_device());
    strict.strict_placement = true;
    const graft::model host = graft::load(g), device = graft::load(g, strict);
    CHECK(difference(answers(device, {x})[0], answers(host, {x})[0]) <= 1e-4);
    graft::step_options options;
    options.optimizer.momentum = 0.9;
    small_steps::trained on_host(g, options);
    options.on = simulated::exact_device();
    small_steps::trained on_device(g, options);
    for (std::int64_t i = 0; i < 3; ++i) {
        REQUIRE(on_host.run(i, 4));
        const bool ran = on_device.run(i, 4);
        REQUIRE_MESSAGE(ran, on_device.error());
        CHECK(on_device.step.loss() == doctest::Approx(on_host.step.loss()).epsilon(1e-3));
        CHECK(difference(on_device.step.logits(), on_host.step.logits()) <= 2e-3);
    }
}

}  // namespace

TEST_CASE("a spatial transformer with TopK runs on the CUDA simulator alone, and learns what it learns on the CPU") {
    expect_learning(spatial_transformer(), numbered(3, {4, 3, 12, 12}));
}

TEST_CASE("deformable convolutions run on the CUDA simulator alone, and learn what they learn on the CPU") {
    const graft::graph g = deformable();
    expect_learning(g, numbered(3, {4, 3, 10, 10}));
    for (const char* precision : {"bfloat16", "float16"}) {
        graft::step_options options;
        small_steps::trained on_host(g, options);
        graft::device_options narrow;
        narrow.precision = precision;
        options.on = simulated::open(narrow);
        small_steps::trained on_device(g, options);
        for (std::int64_t i = 0; i < 2; ++i) {
            REQUIRE(on_host.run(i, 4));
            const bool ran = on_device.run(i, 4);
            REQUIRE_MESSAGE(ran, on_device.error());
            CHECK(on_device.step.loss() == doctest::Approx(on_host.step.loss()).epsilon(2e-2));
        }
    }
}

TEST_CASE("regions stay exact where values between operators have 16 bits") {
    const graft::graph g = regions_of_features();
    graft::tensor boxes = numbered(9, {2, 6, 4}, 0.5, 0.5);
    for (std::int64_t i = 0; i < 12; ++i) {
        float* box = boxes.data<float>() + 4 * i;
        for (int d = 0; d < 2; ++d)
            if (box[d] > box[d + 2]) std::swap(box[d], box[d + 2]);
    }
    const graft::tensor x = numbered(3, {2, 3, 16, 16});
    const graft::tensor want = answers(graft::load(g), {x, boxes})[0];
    for (const char* precision : {"float32", "bfloat16", "float16"}) {
        CAPTURE(precision);
        graft::device_options options;
        options.precision = precision;
        graft::load_options strict = graft::on_device(simulated::open(options));
        strict.strict_placement = true;
        const std::string p = precision;
        CHECK(difference(answers(graft::load(g, strict), {x, boxes})[0], want) <= (p == "float32" ? 1e-5 : p == "float16" ? 5e-3 : 4e-2));
    }
}
