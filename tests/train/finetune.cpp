// Fine-tuning in one call: from a folder and a model to a better model; and the search for how its pictures are prepared.
#include "../data/made_dataset.hpp"
#include "small_steps.hpp"

#include <graft/data/png_encode.hpp>
#include <graft/quantize.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

namespace {

using graft::dtype;
using graft::value_id;

// Three classes, each of a hue of its own under noise.
void put_pictures(const made_folder& folder) {
    std::uint64_t k = 0;
    for (const char* part : {"train", "val"})
        for (int label = 0; label < 3; ++label)
            for (int i = 0; i < (part[0] == 't' ? 8 : 4); ++i, ++k) {
                const graft::image picture = graft::image::make(12, 12, 3);
                for (std::int64_t p = 0; p < 12 * 12 * 3; ++p)
                    picture.data()[p] =
                        static_cast<std::uint8_t>(128 + 60 * small_steps::hashed(k, static_cast<std::uint64_t>(p)) + (p % 3 == label ? 40 : -20));
                folder.put(std::string("data/") + part + "/" + "abc"[label] + "/" + std::to_string(i) + ".png", graft::encode_png(picture));
            }
}
// Batch 1 and its weights baked in, as exporters leave it: what is beyond [-1.2, 1.2] is cut off, so that raw pixels tell it nothing.
graft::graph exported() {
    graft::builder b("exported", 4);
    graft::conv2d_options conv;
    conv.kernel = 3, conv.stride = 2, conv.name = "conv1";
    value_id x = b.clip(b.input("picture", dtype::float32, {1, 3, 8, 8}), -1.2f, 1.2f);
    x = b.relu(b.conv2d(x, 16, conv));
    const std::int64_t to[] = {1, 16 * 9};
    x = b.apply("Reshape", {x, b.constant("to", graft::tensor::from(to, {2}))});
    b.output(b.apply("MatMul", {x, b.constant("fc", small_steps::numbered(5, {144, 7}))}), "scores");
    return small_steps::loaded(b.finish());
}

// Ridge regression without row `out`, by elimination: what the closed form stands for.
std::vector<double> told_without(std::size_t out, const std::vector<double>& x, const std::vector<std::int32_t>& labels, std::size_t width, std::size_t classes,
                                 double strength) {
    const std::size_t n = labels.size();
    double square = 0;
    std::vector<double> mean(width), z = x;
    for (std::size_t i = 0; i < n * width; ++i) mean[i % width] += x[i] / static_cast<double>(n);
    for (std::size_t i = 0; i < n * width; ++i) z[i] -= mean[i % width], square += z[i] * z[i];
    const double scale = static_cast<double>(n) / square;
    const auto product = [&](std::size_t i, std::size_t j) {
        double sum = 9;
        for (std::size_t k = 0; k < width; ++k) sum += z[i * width + k] * z[j * width + k] * scale;
        return sum;
    };
    std::vector<std::size_t> kept;
    for (std::size_t i = 0; i < n; ++i)
        if (i != out) kept.push_back(i);
    std::vector<double> told(classes);
    for (std::size_t c = 0; c < classes; ++c) {
        std::vector<std::vector<double>> a;
        for (std::size_t i : kept) {
            std::vector<double> row;
            for (std::size_t j : kept) row.push_back(product(i, j) + (i == j ? strength : 0));
            row.push_back((labels[i] == static_cast<std::int32_t>(c) ? 1.0 : 0.0) - 1.0 / static_cast<double>(classes));
            a.push_back(row);
        }
        const std::size_t m = kept.size();
        for (std::size_t p = 0; p < m; ++p)
            for (std::size_t i = 0; i < m; ++i) {
                if (i == p) continue;
                const double f = a[i][p] / a[p][p];
                for (std::size_t j = p; j <= m; ++j) a[i][j] -= f * a[p][j];
            }
        for (std::size_t p = 0; p < m; ++p) told[c] += product(out, kept[p]) * a[p][m] / a[p][p];
    }
    return told;
}

class noted final : public graft::training_observer {
public:
    std::vector<std::string> notes;
    std::vector<graft::epoch_record> epochs;
    void on_note(const std::string& text) override { notes.push_back(text); }
    graft::training_verdict on_epoch(const graft::epoch_record& r) override {
        epochs.push_back(r);
        return graft::training_verdict::go_on;
    }
};

}  // namespace

TEST_CASE("Leaving one out in closed form is what learning without it gives") {
    const std::size_t n = 11, width = 4, classes = 3;
    std::vector<double> x;
    std::vector<std::int32_t> labels;
    for (std::size_t i = 0; i < n; ++i) {
        labels.push_back(static_cast<std::int32_t>(i % classes));
        for (std::size_t k = 0; k < width; ++k) x.push_back(5 * small_steps::hashed(i, k) + (k == i % classes ? 4.0 : 0.0) + 100);
    }
    const graft::preprocess_trial found = graft::detail::leave_one_out(x, labels, width, classes);
    CHECK(found.chance == doctest::Approx(2.0 / 3));
    double best = HUGE_VAL, accuracy = 0;
    for (const double strength : {1e-3, 1e-2, 1e-1, 1.0}) {
        double error = 0, right = 0;
        for (std::size_t i = 0; i < n; ++i) {
            const std::vector<double> told = told_without(i, x, labels, width, classes, strength);
            for (std::size_t c = 0; c < classes; ++c) {
                const double off = (labels[i] == static_cast<std::int32_t>(c) ? 1.0 : 0.0) - 1.0 / 3 - told[c];
                error += off * off / static_cast<double>(n);
            }
            right += std::max_element(told.begin(), told.end()) - told.begin() == labels[i] ? 1.0 / static_cast<double>(n) : 0;
        }
        if (error < best) best = error, accuracy = right;
    }
    CHECK(found.error == doctest::Approx(best).epsilon(1e-6));
    CHECK(found.accuracy == doctest::Approx(accuracy));
}

TEST_CASE("One call takes a model that was exported for one picture, finds how pictures are prepared, and writes a better one") {
    const made_folder folder;
    put_pictures(folder);
    graft::graph g = exported();
    graft::finetune_options how;
    how.epochs = 6;
    how.batch = 6;
    how.learning_rate = 0.02;
    how.threads = 2;
    how.out = folder.path + "/run";
    noted seen;
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data").value();
    const graft::model from = graft::load(g).value();
    const graft::finetune_setup setup = graft::set_up_finetuning(from, data.training, how).value();
    REQUIRE(setup.tried.size() == 5);
    for (std::size_t i = 1; i < 5; ++i) CHECK(setup.tried[i - 1].error <= setup.tried[i].error);
    CHECK((setup.tried[0].text == "imagenet" || setup.tried[0].text == "signed" || setup.tried[0].text == "unit"));
    for (std::size_t i = 3; i < 5; ++i) CHECK((setup.tried[i].text == "raw" || setup.tried[i].text == "caffe"));

    auto done = graft::finetune(data, from, how, seen);
    REQUIRE_MESSAGE(done.ok(), std::string(done.ok() ? "" : done.error().what()));
    CHECK(seen.notes == setup.notes);
    CHECK(seen.notes.size() == 2);
    CHECK(done->best_top1 >= 0.75);
    graft::classifier named = graft::classifier::load(folder.path + "/run/model.onnx").value();
    CHECK(named.labels() == std::vector<std::string>{"a", "b", "c"});
    CHECK(named.preprocessing().source == graft::preprocess_source::metadata);
    CHECK(named.model().inputs()[0].extents[0] == graft::shape::unknown);
    std::vector<graft::image> pictures;
    for (std::int64_t i = 0; i < data.validation.size(); ++i) pictures.push_back(data.validation.read(i).value());
    const auto all = named.classify(pictures, 1).value();
    double right = 0;
    for (std::size_t i = 0; i < all.size(); ++i) right += all[i][0].index == data.validation.label(static_cast<std::int64_t>(i));
    CHECK(right / static_cast<double>(all.size()) == doctest::Approx(done->best_top1));

    // What is given is not searched for; the same by paths.
    how.preprocessing = "signed";
    how.freeze = "trunk";
    how.out = folder.path + "/again";
    REQUIRE(from.save(folder.path + "/model.onnx").ok());
    auto again = graft::finetune(folder.path + "/data", folder.path + "/model.onnx", how);
    REQUIRE_MESSAGE(again.ok(), std::string(again.ok() ? "" : again.error().what()));
    how.preprocessing = "nonsense";
    CHECK(graft::finetune(data, from, how, seen).error().code() == graft::errc::usage_preprocess);
}

TEST_CASE("A network that learns with the rounding of eight bits is written in them, and keeps a head that knows the classes") {
    const made_folder folder;
    put_pictures(folder);
    graft::finetune_options how;
    how.epochs = 4;
    how.batch = 6;
    how.learning_rate = 0.02;
    how.threads = 2;
    how.out = folder.path + "/float";
    noted seen;
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data").value();
    const graft::model from = graft::load(exported()).value();
    auto real = graft::finetune(data, from, how, seen);
    REQUIRE_MESSAGE(real.ok(), std::string(real.ok() ? "" : real.error().what()));

    how.quantize = true;
    how.learning_rate = 0.005;
    how.out = folder.path + "/eight";
    const graft::model trained = graft::load(folder.path + "/float/model.onnx").value();
    const graft::finetune_setup setup = graft::set_up_finetuning(trained, data.training, how).value();
    CHECK(setup.network.head_is_trained);
    CHECK(setup.network.in_eight_bits);
    auto done = graft::finetune(data, trained, how, seen);
    REQUIRE_MESSAGE(done.ok(), std::string(done.ok() ? "" : done.error().what()));
    CHECK(done->best_top1 >= real->best_top1 - 0.1);
    const graft::graph before = graft::store_quantized(setup.network.graph).value();
    int integers = 0, moved = 0;
    for (const graft::value& v : done->network.values) {
        if (!v.constant || v.type != graft::dtype::uint8 || v.constant.elements() < 2 || v.name.find("zero_point") != std::string::npos) continue;
        ++integers;
        for (const graft::value& w : before.values)
            if (w.name == v.name) moved += std::memcmp(w.constant.raw(), v.constant.raw(), v.constant.bytes()) != 0;
    }
    CHECK(integers >= 2);
    CHECK(moved >= 1);
    // What was scored is what was written.
    graft::classifier named = graft::classifier::load(folder.path + "/eight/model.onnx").value();
    double right = 0;
    for (std::int64_t i = 0; i < data.validation.size(); ++i)
        right += named.classify(data.validation.read(i).value(), 1).value()[0].index == data.validation.label(i);
    CHECK(right / static_cast<double>(data.validation.size()) == doctest::Approx(done->best_top1));

    const graft::finetune_setup fresh = graft::set_up_finetuning(from, data.training, how).value();
    CHECK(!fresh.network.head_is_trained);
    CHECK(fresh.network.in_eight_bits);
    CHECK(fresh.notes.back().find("stays in float32") != std::string::npos);
}

TEST_CASE("A run with the rounding of eight bits that is stopped and resumed ends with the bytes of one that is not") {
    struct stopper final : graft::training_observer {
        std::int64_t left = 0;
        graft::training_verdict on_step(const graft::trainer_progress&) override {
            return --left == 0 ? graft::training_verdict::stop : graft::training_verdict::go_on;
        }
    };
    const auto bytes_of_model = [](const std::string& folder) {
        std::ifstream in(folder + "/model.onnx", std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(in), {});
    };
    const made_folder folder;
    put_pictures(folder);
    graft::finetune_options how;
    how.epochs = 3;
    how.batch = 6;
    how.learning_rate = 0.005;
    how.threads = 1;
    how.preprocessing = "signed";
    how.quantize = true;
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data").value();
    // First the head is new, then it is the model's own.
    graft::model from = graft::load(exported()).value();
    for (const char* head : {"new", "kept"}) {
        CAPTURE(head);
        how.resume = false;
        how.out = folder.path + "/" + head;
        stopper watcher;
        const auto whole = graft::finetune(data, from, how, watcher);
        REQUIRE_MESSAGE(whole.ok(), std::string(whole.ok() ? "" : whole.error().what()));
        const std::string wanted = bytes_of_model(how.out);
        REQUIRE(!wanted.empty());
        // Four steps an epoch: in the middle of the first, at its end, and in the middle of the last.
        for (const std::int64_t step : {2, 4, 10}) {
            CAPTURE(step);
            how.resume = false;
            how.out = folder.path + "/" + head + std::to_string(step);
            watcher.left = step;
            auto stopped = graft::finetune(data, from, how, watcher);
            REQUIRE(stopped.ok());
            CHECK(stopped->stopped);
            how.resume = true;
            auto resumed = graft::finetune(data, from, how, watcher);
            REQUIRE_MESSAGE(resumed.ok(), std::string(resumed.ok() ? "" : resumed.error().what()));
            CHECK(!resumed->stopped);
            CHECK(bytes_of_model(how.out) == wanted);
        }
        if (head[0] == 'n') {
            how.quantize = false;
            how.out = folder.path + "/float";
            REQUIRE(graft::finetune(data, from, how, watcher).ok());
            from = graft::load(how.out + "/model.onnx").value();
            how.quantize = true;
        }
    }
}

TEST_CASE("A search looks at the same few pictures of all classes") {
    const made_folder folder;
    put_pictures(folder);
    const graft::dataset data = graft::open_splits(folder.path + "/data").value().training;
    const std::vector<std::int64_t> some = graft::search_sample(data);
    CHECK(some.size() == 24);
    CHECK(some == graft::search_sample(data));
    CHECK(std::is_sorted(some.begin(), some.end()));
}
