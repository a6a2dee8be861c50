// Scoring: whatever a classifier gives is taken for what it stands for; what gives no row of classes is told so.
#include "../data/made_dataset.hpp"
#include "small_steps.hpp"

#include <graft/data/png_encode.hpp>
#include <graft/dist.hpp>

#include <functional>
#include <thread>

namespace {

using graft::builder;
using graft::dtype;
using graft::errc;
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

TEST_CASE("The classes of a dataset are found among a network's by their names") {
    CHECK(graft::match_classes({"c", "a"}, {"a", "b", "c"}, "data").value() == std::vector<std::int64_t>{2, 0});
    CHECK(graft::match_classes({}, {"a"}, "data").value().empty());
    const auto one = graft::match_classes({"a", "z\n"}, {"a", "b"}, "data");
    REQUIRE(!one.ok());
    CHECK(one.error().code() == graft::errc::data_class_mismatch);
    CHECK(one.error().where() == "data");
    CHECK(one.error().detail() == "\"z\\x0a\" is none of the model's 2 classes, which begin with \"a\", \"b\"; --labels names the model's classes");
    const auto many = graft::match_classes({"1", "2", "3", "4", "5", "6", "7"}, {"a"}, "data");
    REQUIRE(!many.ok());
    CHECK(many.error().detail() ==
          "\"1\", \"2\", \"3\", \"4\", \"5\" and 2 more are none of the model's 1 classes, which begin with \"a\"; --labels names the model's classes");
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

namespace {

// A dataset of 23 pictures of which two cannot be read, and the network that is scored on it.
struct scoring {
    made_folder folder;
    graft::dataset data;
    graft::model net;
    graft::preprocess_spec spec = graft::parse_preprocess("unit,resize=4x4").value();

    scoring() {
        for (int i = 0; i < 23; ++i) {
            const graft::image picture = graft::image::make(4, 4, 3);
            for (int p = 0; p < 48; ++p) picture.data()[p] = static_cast<std::uint8_t>((p * 31 + i * 47 + (p % 3 == i % 3 ? 90 : 0)) % 256);
            std::string bytes = graft::encode_png(picture);
            folder.put(std::string("data/") + "abc"[i % 3] + "/" + std::to_string(100 + i) + ".png", i == 4 || i == 20 ? "no picture" : bytes);
        }
        data = graft::open_dataset(folder.path + "/data").value();
        builder b("net", 1);
        b.output(b.flatten(b.global_average_pool(b.input("picture", dtype::float32, {"N", 3, 4, 4}))), "scores");
        net = graft::load(b.finish()).value();
    }
    graft::result<graft::evaluation_result> run(int replicas, graft::evaluation_options how, const std::vector<std::int64_t>& class_of = {}) const {
        return graft::evaluate(std::vector<graft::model>(static_cast<std::size_t>(replicas), net), data, spec, class_of, how);
    }
    static graft::evaluation_options by(std::int64_t batch, int threads = 2) {
        graft::evaluation_options how;
        how.batch = batch, how.threads = threads, how.bad_share = 0.2;
        return how;
    }
};

void check_equal(const graft::evaluation_result& a, const graft::evaluation_result& b) {
    CHECK(a.metrics.samples() == b.metrics.samples());
    CHECK(a.metrics.loss() == b.metrics.loss());
    CHECK(a.metrics.top1() == b.metrics.top1());
    CHECK(a.metrics.calibration_error() == b.metrics.calibration_error());
    for (std::int64_t t = 0; t < 3; ++t)
        for (std::int64_t p = 0; p < 3; ++p) CHECK(a.metrics.confusion(t, p) == b.metrics.confusion(t, p));
    REQUIRE(a.pictures.size() == b.pictures.size());
    for (std::size_t i = 0; i < a.pictures.size(); ++i) {
        CHECK(a.pictures[i].index == b.pictures[i].index);
        CHECK(a.pictures[i].loss == b.pictures[i].loss);
        CHECK(a.pictures[i].probability == b.pictures[i].probability);
    }
    REQUIRE(a.bad.size() == b.bad.size());
    for (std::size_t i = 0; i < a.bad.size(); ++i) {
        CHECK(a.bad[i].index == b.bad[i].index);
        CHECK(a.bad[i].name == b.bad[i].name);
        CHECK(a.bad[i].detail == b.bad[i].detail);
    }
}

// So many processes, which are threads here; `change` makes their options differ.
std::vector<graft::result<graft::evaluation_result>> together(const scoring& s, int members, const graft::evaluation_options& how,
                                                              const std::function<void(graft::evaluation_options&, int)>& change = nullptr) {
    std::vector<graft::result<graft::evaluation_result>> all;
    for (int m = 0; m < members; ++m) all.emplace_back(graft::evaluation_result());
    std::vector<std::thread> threads;
    for (const auto& member : graft::make_thread_group(members, 20))
        threads.emplace_back([&, member] {
            graft::evaluation_options own = how;
            own.group = member;
            if (change) change(own, member->rank());
            all[static_cast<std::size_t>(member->rank())] = s.run(member->rank() == 1 ? 2 : 1, own);
        });
    for (std::thread& t : threads) t.join();
    return all;
}

}  // namespace

TEST_CASE("Replicas score a dataset as one network does, to the bit") {
    const scoring s;
    for (const std::int64_t batch : {1, 3, 32}) {
        const auto one = s.run(1, scoring::by(batch)).value();
        CHECK(one.metrics.samples() == 21);
        CHECK(one.bad.size() == 2);
        for (const int replicas : {2, 3, 5}) check_equal(s.run(replicas, scoring::by(batch, 3)).value(), one);
    }
    graft::evaluation_options strict = scoring::by(2);
    strict.bad_share = 0;
    CHECK(s.run(3, strict).error().code() == errc::data_too_many_bad);
    CHECK(s.run(3, scoring::by(2), {0, 1, 7}).error().code() == errc::data_label_range);
    CHECK(s.run(0, scoring::by(2)).error().code() == errc::usage);
}

TEST_CASE("Processes score a dataset together as one does, each picture once, and end together") {
    const scoring s;
    for (const std::int64_t batch : {1, 2, 32}) {
        const auto one = s.run(1, scoring::by(batch)).value();
        for (const int members : {2, 3})
            for (const auto& found : together(s, members, scoring::by(batch))) {
                REQUIRE_MESSAGE(found.ok(), std::string(found.ok() ? "" : found.error().what()));
                check_equal(found.value(), one);
            }
    }
    for (const auto& found : together(s, 3, scoring::by(1), [](graft::evaluation_options&o, int) { o.bad_share = 0; }))
        CHECK(found.error().code() == errc::data_too_many_bad);
    const auto differ = together(s, 2, scoring::by(2), [](graft::evaluation_options& o, int rank) { o.batch += rank; });
    for (const auto& found : differ) CHECK(contains(found.error().what(), "dist.mismatch: batch: member 1 has \"3\", and member 0 has \"2\""));
}
