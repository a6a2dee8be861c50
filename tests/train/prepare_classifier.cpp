// Classifiers as people bring them: files that list weights among the inputs, fixed batches, several outputs, heads of many kinds.
#include "../difference.hpp"
#include "small_steps.hpp"

#include <cmath>
#include <functional>

namespace {

using graft::builder;
using graft::dtype;
using graft::tensor;
using graft::value_id;

value_id features(builder& b, value_id x) {
    graft::conv2d_options conv;
    conv.kernel = 3, conv.stride = 2, conv.name = "stem";
    return b.relu(b.conv2d(x, 6, conv));  // [N, 6, 4, 4]
}
value_id weight(builder& b, const char* name, const graft::shape& extents) { return b.constant(name, small_steps::numbered(7, extents)); }
value_id integers(builder& b, const char* name, const std::vector<std::int64_t>& v) {
    return b.constant(name, tensor::from(v.data(), {static_cast<std::int64_t>(v.size())}));
}
graft::graph finished(builder& b) { return small_steps::loaded(b.finish()); }

graft::preprocess_spec spec_for(const graft::graph& g) {
    const graft::input_format format = graft::picture_input(g).value();
    return graft::complete(graft::parse_preprocess("unit,resize=9x9,crop=9").value(), format).value();
}
graft::result<graft::prepared_classifier> prepared(const graft::graph& g, const std::string& output = "") {
    graft::executor serial;
    return graft::prepare_classifier(g, output, spec_for(g), serial);
}
// The new head learns, on three pictures at once.
void check_learns(const graft::prepared_classifier& p, std::int64_t channels) {
    graft::executor serial;
    const graft::trunk_cut cut = graft::find_trunk(p.graph, "", p.batch, serial).value();
    CHECK(cut.channels == channels);
    graft::grafted made = graft::replace_head(p.graph, cut, 3, 1).value();
    CHECK(made.graph.inputs.size() == 1);
    std::vector<graft::parameter> parameters = graft::parameters_of(made.graph);
    graft::step_options how;
    how.fixed_batch = p.fixed_batch;
    auto step = graft::training_step::make(made.graph, made.logits, parameters, how);
    REQUIRE_MESSAGE(step.ok(), std::string(step.ok() ? "" : step.error().what()));
    graft::shape batch = p.batch;
    batch[0] = 3;
    const tensor x = small_steps::numbered(9, batch);
    tensor targets = tensor::zeros(dtype::float32, {3, 3});
    for (int i = 0; i < 3; ++i) targets.data<float>()[i * 3 + i] = 1;
    graft::step_input in;
    in.inputs = &x, in.targets = &targets, in.scale = 1.0 / 3, in.learning_rate = 0.02;
    double first = 0;
    for (in.step = 0; in.step < 30; ++in.step) {
        const graft::status done = step->run(in, serial);
        REQUIRE_MESSAGE(done.ok(), std::string(done.ok() ? "" : done.error().what()));
        if (in.step == 0) first = step->loss();
    }
    CHECK(step->loss() < first);
    CHECK(step->logits().shape() == graft::shape{3, 3});
}

}  // namespace

TEST_CASE("Heads of many kinds are found, and what they read") {
    struct head {
        const char* name;
        std::function<value_id(builder&, value_id)> make;
        std::int64_t channels;
    };
    const head heads[] = {
        {"Flatten",
         [](builder& b, value_id x) {
             return b.apply("MatMul", {b.apply("Flatten", {x}), weight(b, "w", {96, 5})});
         },
         96},
        {"GlobalAveragePool and Squeeze",
         [](builder& b, value_id x) {
             return b.apply("MatMul", {b.apply("Squeeze", {b.global_average_pool(x), integers(b, "axes", {2, 3})}), weight(b, "w", {6, 5})});
         },
         6},
        {"ReduceMean",
         [](builder& b, value_id x) {
             const value_id mean = b.apply("ReduceMean", {x}, {graft::integers_attribute("axes", {2, 3}), graft::integer_attribute("keepdims", 0)});
             return b.apply("Gemm", {mean, weight(b, "w", {5, 6})}, {graft::integer_attribute("transB", 1)});
         },
         6},
        {"a pointwise Conv on pooled maps",
         [](builder& b, value_id x) {
             return b.apply("Conv", {b.global_average_pool(x), weight(b, "w", {5, 6, 1, 1})});
         },
         6},
        {"a Conv over the map, pooled, LogSoftmax",
         [](builder& b, value_id x) {
             const value_id y = b.apply("Flatten", {b.apply("GlobalAveragePool", {b.apply("Conv", {x, weight(b, "w", {5, 6, 1, 1})})})});
             return b.apply("LogSoftmax", {y}, {graft::integer_attribute("axis", 1)});
         },
         6},
        {"channels last, tokens pooled behind the product",
         [](builder& b, value_id x) {
             const value_id last = b.apply("Transpose", {x}, {graft::integers_attribute("perm", {0, 2, 3, 1})});
             const value_id tokens = b.apply("Reshape", {last, integers(b, "to", {0, 16, 6})});
             return b.apply("ReduceMean", {b.apply("MatMul", {tokens, weight(b, "w", {6, 5})})},
                            {graft::integers_attribute("axes", {1}), graft::integer_attribute("keepdims", 0)});
         },
         6},
        {"a product that is scaled, shifted and squashed",
         [](builder& b, value_id x) {
             const value_id y = b.apply("MatMul", {b.apply("Flatten", {x}), weight(b, "w", {96, 5})});
             return b.apply("Sigmoid", {b.apply("Mul", {b.apply("Add", {y, weight(b, "b", {5})}), weight(b, "s", {1})})});
         },
         96},
        {"two heads whose answers are averaged",
         [](builder& b, value_id x) {
             const value_id flat = b.apply("Flatten", {x});
             const value_id y = b.apply("Add", {b.apply("MatMul", {flat, weight(b, "w1", {96, 5})}), b.apply("MatMul", {flat, weight(b, "w2", {96, 5})})});
             return b.apply("Softmax", {y}, {graft::integer_attribute("axis", 1)});
         },
         5},
        {"features of two branches, without a head", [](builder& b, value_id x) { return b.apply("Flatten", {b.global_average_pool(b.add(x, b.relu(x)))}); },
         6},
    };
    for (const head& h : heads) {
        INFO(std::string(h.name));
        builder b("net", 1);
        b.output(h.make(b, features(b, b.input("picture", dtype::float32, {"N", 3, 9, 9}))), "scores");
        const graft::prepared_classifier p = prepared(finished(b)).value();
        CHECK(p.fixed_batch == 0);
        CHECK(graft::text(p).empty());
        check_learns(p, h.channels);
    }
}

TEST_CASE("A file that lists its weights among the inputs loses them there, and learns them") {
    builder b("old", 1);
    b.output(b.apply("Gemm", {b.apply("Flatten", {features(b, b.input("data", dtype::float32, {1, 3, 9, 9}))}), weight(b, "fc.weight", {96, 5}),
                              weight(b, "fc.bias", {5})}),
             "prob");
    graft::graph g = finished(b);
    g.ir_version = 3;
    for (std::size_t i = 0; i < g.values.size(); ++i)
        if (g.values[i].constant) g.inputs.push_back(static_cast<value_id>(i));
    // One that nothing reads, as converters leave them behind.
    g.inputs.push_back(g.add_constant("left.over", small_steps::numbered(3, {4})));
    const graft::prepared_classifier p = prepared(small_steps::loaded(g)).value();
    CHECK(p.graph.inputs.size() == 1);
    CHECK(p.graph.ir_version >= 4);
    CHECK(p.opened);
    CHECK(p.picture.extents[0] == graft::shape::unknown);
    check_learns(p, 96);
}

TEST_CASE("Of several outputs one has to be named") {
    builder b("two", 1);
    const value_id x = features(b, b.input("picture", dtype::float32, {"N", 3, 9, 9}));
    b.output(b.apply("MatMul", {b.apply("Flatten", {x}), weight(b, "w1", {96, 5})}), "classes");
    b.output(b.apply("MatMul", {b.apply("Flatten", {b.global_average_pool(x)}), weight(b, "w2", {6, 2})}), "other");
    const graft::graph g = finished(b);
    auto unsaid = prepared(g);
    REQUIRE(!unsaid.ok());
    CHECK(unsaid.error().code() == graft::errc::train_head);
    CHECK(unsaid.error().detail().find("classes, other") != std::string::npos);
    CHECK(prepared(g, "nowhere").error().code() == graft::errc::input_name);
    check_learns(prepared(g, "classes").value(), 96);
    check_learns(prepared(g, "other").value(), 6);
}

TEST_CASE("A network whose samples cannot be told apart is trained in parts of its own size") {
    for (const std::int64_t samples : {1, 2}) {
        builder b("mixes", 1);
        const value_id x = features(b, b.input("picture", dtype::float32, {samples, 3, 9, 9}));
        // Scaled by a mean over the whole batch: no way round that.
        const value_id mean = b.apply("ReduceMean", {x}, {graft::integer_attribute("keepdims", 1)});
        b.output(b.apply("MatMul", {b.apply("Flatten", {b.apply("Add", {x, mean})}), weight(b, "w", {96, 5})}), "scores");
        const graft::prepared_classifier p = prepared(finished(b)).value();
        CHECK(p.fixed_batch == samples);
        CHECK(p.fixed_because.find("ReduceMean") != std::string::npos);
        REQUIRE(graft::text(p).size() == 1);
        check_learns(p, 96);  // three pictures: with samples == 2 the last part is filled up
    }
}

TEST_CASE("Parts of a network's own size give the gradients of the whole batch") {
    // The same network with and without its batch fixed: GroupNormalization and the like keep samples apart.
    const graft::graph open = small_steps::group_norm_dropout();
    const auto run = [&](std::int64_t fixed, std::int64_t n) {
        graft::step_options how;
        how.optimizer.kind = graft::optimizer_kind::sgd;
        how.optimizer.momentum = 0;
        how.optimizer.weight_decay = 0;
        how.fixed_batch = fixed;
        graft::training_step step = graft::training_step::make(open, graft::logits_of(open), graft::parameters_of(open), how).value();
        const tensor x = small_steps::numbered(4, {n, 3, 8, 8});
        tensor t = tensor::zeros(dtype::float32, {n, 5});
        for (std::int64_t i = 0; i < n; ++i) t.data<float>()[i * 5 + i % 5] = 1;
        graft::step_input in;
        in.inputs = &x, in.targets = &t, in.scale = 1.0 / static_cast<double>(n), in.learning_rate = 0.5;
        graft::executor serial;
        const graft::status done = step.run(in, serial);
        REQUIRE_MESSAGE(done.ok(), std::string(done.ok() ? "" : done.error().what()));
        std::vector<double> all{step.loss()};
        for (const graft::training_state& s : step.state())
            for (std::int64_t i = 0; i < s.value.elements(); ++i) all.push_back(static_cast<double>(s.value.data<float>()[i]));
        return all;
    };
    for (const std::int64_t n : {1, 4, 7}) {
        const std::vector<double> whole = run(0, n);
        for (const std::int64_t fixed : {1, 3}) {
            const std::vector<double> parts = run(fixed, n);
            REQUIRE(parts.size() == whole.size());
            double worst = 0;
            for (std::size_t i = 0; i < whole.size(); ++i) worst = larger_error(worst, std::fabs(whole[i] - parts[i]));
            CHECK(worst < 1e-5);
        }
    }
    graft::step_options mse;
    mse.loss.kind = graft::loss_kind::mse;
    mse.fixed_batch = 3;
    CHECK(graft::training_step::make(open, graft::logits_of(open), graft::parameters_of(open), mse).error().code() == graft::errc::usage);
}

TEST_CASE("What is no classifier of pictures is told so") {
    const auto refused = [](graft::graph g) {
        auto format = graft::picture_input(g);
        if (!format.ok()) return std::string(graft::text(format.error().code()));
        auto p = prepared(g);
        if (!p.ok()) return std::string(graft::text(p.error().code()));
        graft::executor serial;
        auto cut = graft::find_trunk(p->graph, "", p->batch, serial);
        return std::string(cut.ok() ? "taken" : graft::text(cut.error().code()));
    };
    {
        builder b("style", 1);
        b.output(features(b, b.input("picture", dtype::float32, {"N", 3, 9, 9})), "picture too");
        CHECK(refused(finished(b)) == "train.head");
    }
    {
        builder b("one number", 1);
        b.output(b.apply("MatMul", {b.apply("Flatten", {features(b, b.input("picture", dtype::float32, {"N", 3, 9, 9}))}), weight(b, "w", {96, 1})}), "age");
        CHECK(refused(finished(b)) == "train.head");
    }
    {
        builder b("text", 1);
        b.output(b.apply("MatMul", {b.input("tokens", dtype::float32, {"N", 16}), weight(b, "w", {16, 4})}), "scores");
        CHECK(refused(finished(b)) == "train.head");
    }
    {
        builder b("two pictures", 1);
        b.output(b.apply("Flatten", {b.add(b.input("left", dtype::float32, {"N", 3, 9, 9}), b.input("right", dtype::float32, {"N", 3, 9, 9}))}), "scores");
        CHECK(refused(finished(b)) == "train.head");
    }
    {
        builder b("five channels", 1);
        b.output(b.apply("Flatten", {b.input("bands", dtype::float32, {"N", 5, 9, 9})}), "scores");
        CHECK(refused(finished(b)) == "train.head");
    }
}

TEST_CASE("The logits of a step may have no declared shape, and other extents of one") {
    builder b("net", 1);
    const value_id x = features(b, b.input("picture", dtype::float32, {"N", 3, 9, 9}));
    b.output(b.apply("Conv", {b.global_average_pool(x), weight(b, "w", {5, 6, 1, 1})}), "scores");
    const graft::graph g = finished(b);
    graft::training_step step = graft::training_step::make(g, graft::logits_of(g), graft::parameters_of(g), {}).value();
    const tensor in = small_steps::numbered(4, {2, 3, 9, 9}), targets = tensor::zeros(dtype::float32, {2, 5}), wrong = tensor::zeros(dtype::float32, {2, 4});
    graft::step_input batch;
    batch.inputs = &in, batch.targets = &targets, batch.scale = 0.5, batch.learning_rate = 0.01;
    graft::executor serial;
    CHECK(step.run(batch, serial).ok());
    CHECK(step.logits().shape() == graft::shape{2, 5});
    batch.targets = &wrong;
    const graft::status refused = step.run(batch, serial);
    REQUIRE(!refused.ok());
    CHECK(refused.error().detail().find("[2,5]") != std::string::npos);
}

TEST_CASE("A network that gives one row for a whole batch is refused, not trained on its first sample") {
    builder b("first", 1);
    const value_id flat = b.apply("Flatten", {features(b, b.input("picture", dtype::float32, {"N", 3, 9, 9}))});
    const value_id first = b.apply("Slice", {flat, integers(b, "starts", {0}), integers(b, "ends", {1}), integers(b, "along", {0})});
    b.output(b.apply("MatMul", {first, weight(b, "w", {96, 5})}), "scores");
    const graft::graph g = finished(b);
    graft::training_step step = graft::training_step::make(g, graft::logits_of(g), graft::parameters_of(g), {}).value();
    graft::executor serial;
    auto planned = step.prepare({4, 3, 9, 9}, serial);
    REQUIRE(!planned.ok());
    CHECK(planned.error().code() == graft::errc::train_head);
}
