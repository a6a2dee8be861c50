// Scoring: whatever a classifier gives is taken for what it stands for; what gives no row of classes is told so.
#include "../data/made_dataset.hpp"
#include "small_steps.hpp"

#include <graft/data/png_encode.hpp>

#include <functional>

namespace {

using graft::builder;
using graft::dtype;
using graft::value_id;

// Pictures of three colours, labelled by them.
graft::dataset pictures(const made_folder& folder) {
    for (int label = 0; label < 3; ++label)
        for (int i = 0; i < 4; ++i) {
            const graft::image picture = graft::image::make(4, 4, 3);
            for (int p = 0; p < 48; ++p) picture.data()[p] = static_cast<std::uint8_t>(p % 3 == label ? 200 + i : 40 + 20 * i);
            folder.put(std::string("data/") + "abc"[label] + "/" + std::to_string(i) + ".png", graft::encode_png(picture));
        }
    return graft::open_dataset(folder.path + "/data").value();
}
value_id cast(builder& b, value_id x, dtype to) { return b.apply("Cast", {x}, {graft::integer_attribute("to", static_cast<std::int64_t>(to))}); }
value_id real(builder& b, const char* name, double v) {
    const float f = static_cast<float>(v);
    return b.constant(name, graft::tensor::from(&f, {}));
}
value_id byte(builder& b, const char* name, std::uint8_t v) { return b.constant(name, graft::tensor::from(&v, {})); }

}  // namespace

TEST_CASE("Scores of every form give the same accuracy") {
    const made_folder folder;
    const graft::dataset data = pictures(folder);
    struct form {
        const char* name;
        std::function<value_id(builder&, value_id)> make;
        double loss_tolerance;
    };
    // What comes in are the means of the three channels, [N, 3, 1, 1].
    const form forms[] = {
        {"rank 4", [](builder&, value_id x) { return x; }, 1e-6},
        {"rank 2", [](builder& b, value_id x) { return b.apply("Flatten", {x}); }, 1e-6},
        {"LogSoftmax", [](builder& b, value_id x) { return b.apply("LogSoftmax", {b.apply("Flatten", {x})}, {graft::integer_attribute("axis", 1)}); }, 1e-5},
        {"Softmax", [](builder& b, value_id x) { return b.softmax(b.apply("Flatten", {x})); }, 1e-5},
        {"float16", [](builder& b, value_id x) { return cast(b, x, dtype::float16); }, 0.01},
        {"double", [](builder& b, value_id x) { return cast(b, x, dtype::float64); }, 1e-6},
        {"bytes by a scale",
         [](builder& b, value_id x) {
             return b.apply("QuantizeLinear", {x, real(b, "scale", 0.02), byte(b, "zero", 3)});
         },
         0.05},
        {"probabilities as bytes",
         [](builder& b, value_id x) {
             return b.apply("QuantizeLinear", {b.softmax(b.apply("Flatten", {x})), real(b, "scale", 1.0 / 256), byte(b, "zero", 0)});
         },
         0.05},
    };
    double loss = 0;
    for (const form& f : forms) {
        INFO(std::string(f.name));
        builder b("net", 1);
        const value_id x = b.apply("Mul", {b.global_average_pool(b.input("picture", dtype::float32, {"N", 3, 4, 4})), real(b, "gain", 5)});
        b.output(f.make(b, x), "scores");
        const graft::model m = graft::load(b.finish()).value();
        auto found = graft::evaluate(m, data, graft::parse_preprocess("unit,resize=4x4").value(), {}, {});
        REQUIRE_MESSAGE(found.ok(), std::string(found.ok() ? "" : found.error().what()));
        CHECK(found->metrics.samples() == 12);
        CHECK(found->metrics.top1() == 1);
        if (loss == 0) loss = found->metrics.loss();
        CHECK(std::fabs(found->metrics.loss() - loss) <= f.loss_tolerance);
    }
}

TEST_CASE("The output that is asked for is scored, and one that gives no row of classes is told so") {
    const made_folder folder;
    const graft::dataset data = pictures(folder);
    builder b("net", 1);
    const value_id x = b.input("picture", dtype::float32, {"N", 3, 4, 4});
    b.output(b.relu(x), "picture too");
    b.output(b.flatten(b.global_average_pool(x)), "scores");
    const graft::model m = graft::load(b.finish()).value();
    graft::evaluation_options how;
    const graft::preprocess_spec spec = graft::parse_preprocess("unit,resize=4x4").value();
    CHECK(graft::evaluate(m, data, spec, {}, how).error().code() == graft::errc::classify_output);
    how.output = 1;
    CHECK(graft::evaluate(m, data, spec, {}, how).value().metrics.top1() == 1);
    how.output = 2;
    CHECK(graft::evaluate(m, data, spec, {}, how).error().code() == graft::errc::input_name);
}

TEST_CASE("A network that is fixed to a batch is scored by it, the last one filled up") {
    const made_folder folder;
    const graft::dataset data = pictures(folder);
    builder b("net", 1);
    b.output(b.flatten(b.global_average_pool(b.input("picture", dtype::float32, {5, 3, 4, 4}))), "scores");
    const graft::model m = graft::load(b.finish()).value();
    const auto found = graft::evaluate(m, data, graft::parse_preprocess("unit,resize=4x4").value(), {}, {}).value();
    CHECK(found.metrics.samples() == 12);
    CHECK(found.metrics.top1() == 1);
    CHECK(found.pictures.size() == 12);
}
