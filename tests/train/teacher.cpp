// Distillation in whole runs: a teacher with its own preprocessing, size and order of classes.
#include "../data/made_dataset.hpp"
#include "../file_contents.hpp"
#include "small_steps.hpp"

#include <graft/data/png_encode.hpp>

#include <cmath>
#include <utility>

namespace {

void put_pictures(const made_folder& folder) {
    std::uint64_t k = 4000;
    for (const char* part : {"train", "val"})
        for (int label = 0; label < 3; ++label)
            for (int i = 0; i < (part[0] == 't' ? 6 : 2); ++i, ++k) {
                const graft::image picture = graft::image::make(20, 20, 3);
                for (std::int64_t p = 0; p < 20 * 20 * 3; ++p)
                    picture.data()[p] =
                        static_cast<std::uint8_t>(128 + 50 * small_steps::hashed(k, static_cast<std::uint64_t>(p)) + (p % 3 == label ? 60 : -20));
                folder.put(std::string("data/") + part + "/" + "abc"[label] + "/" + std::to_string(i) + ".png", graft::encode_png(picture));
            }
}

// A convolution over pictures of `side`, and three classes whose order `order` gives.
graft::graph network(std::int64_t side, const std::string& order, bool softmax = false) {
    graft::builder b("small", 4);
    graft::conv2d_options conv;
    conv.kernel = 3, conv.stride = 2, conv.name = "conv";
    graft::value_id x = b.flatten(b.global_average_pool(b.relu(b.conv2d(b.input("input", graft::dtype::float32, {"N", 3, side, side}), 6, conv))));
    graft::linear_options fc;
    fc.name = "fc";
    x = b.linear(x, 3, fc);
    b.output(softmax ? b.softmax(x) : x, "scores");
    graft::graph g = small_steps::loaded(b.finish());
    std::vector<std::string> labels;
    for (const char c : order) labels.push_back(std::string(1, c));
    for (graft::value& v : g.values) {
        if (!v.constant || v.name.compare(0, 3, "fc.") != 0) continue;
        const graft::tensor was = v.constant;
        v.constant = graft::tensor::make(was.type(), was.shape());
        const std::int64_t row = was.elements() / 3;
        for (std::int64_t i = 0; i < 3; ++i)
            std::copy_n(was.data<float>() + (order[static_cast<std::size_t>(i)] - 'a') * row, row, v.constant.data<float>() + i * row);
    }
    graft::describe_classifier(g, labels,
                               graft::complete(graft::parse_preprocess("imagenet,resize=" + std::to_string(side) + "x" + std::to_string(side)),
                                               {graft::dtype::float32, {-1, 3, side, side}, true}));
    return g;
}

graft::training_network student(const std::string& freeze) {
    graft::training_network n;
    n.graph = network(8, "abc");
    n.logits = graft::logits_of(n.graph);
    n.parameters = graft::parameters_of(n.graph);
    n.features = n.graph.nodes.back().inputs[0];
    graft::executor serial;
    REQUIRE(graft::freeze(n.graph, n.parameters, freeze, {"fc.weight", "fc.bias"}, {}, {1, 3, 8, 8}, serial).ok());
    return n;
}

graft::trainer_options options(const std::string& teacher) {
    graft::trainer_options o;
    o.epochs = 2;
    o.batch = 4;
    o.learning_rate = 0.01;
    o.trunk_rate = 0.1;
    o.seed = 3;
    o.threads = 1;
    o.workers = 1;
    o.preprocess = graft::parse_preprocess("imagenet,resize=8x8");
    o.teacher = teacher;
    o.step.loss.distillation = 1;
    return o;
}

graft::result<graft::training_result> taught(const made_folder& folder, const graft::trainer_options& o, const std::string& freeze = "none") {
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
    graft::training_observer watcher;
    return graft::train(student(freeze), data, o, watcher);
}

std::string saved(const made_folder& folder, const std::string& name, const graft::graph& g) {
    const std::string path = folder.path + "/" + name;
    REQUIRE(graft::write_onnx_file(g, path).ok());
    return path;
}

std::string learnt(const graft::training_result& r) {
    std::string all;
    for (const graft::value& v : r.network.values)
        if (v.constant) all.append(reinterpret_cast<const char*>(v.constant.raw()), v.constant.bytes());
    return all;
}

}  // namespace

TEST_CASE("A student that is its teacher loses nothing, with pictures and with kept features") {
    const made_folder folder;
    put_pictures(folder);
    graft::trainer_options o = options(saved(folder, "same.onnx", network(8, "abc")));
    o.learning_rate = 1e-9;
    for (const bool kept : {false, true}) {
        CAPTURE(kept);
        if (kept) o.augmentation = graft::parse_augmentation("none");
        const auto made = taught(folder, o, kept ? "trunk" : "none");
        REQUIRE_MESSAGE(made.ok(), std::string(made.ok() ? "" : made.error().what()));
        CHECK(std::fabs(made->history[0].training_loss) < 1e-5);
        // Against labels it would be near log 3.
        CHECK(made->history[0].loss > 0.5);
    }
}

TEST_CASE("The order of a teacher's classes is that of its labels, and its Softmax is taken off") {
    const made_folder folder;
    put_pictures(folder);
    for (const bool kept : {false, true}) {
        CAPTURE(kept);
        graft::trainer_options o = options(saved(folder, "plain.onnx", network(16, "abc")));
        if (kept) o.augmentation = graft::parse_augmentation("none");
        const std::string freeze = kept ? "trunk" : "none";
        const auto plain = taught(folder, o, freeze);
        REQUIRE_MESSAGE(plain.ok(), std::string(plain.ok() ? "" : plain.error().what()));
        o.teacher = saved(folder, "turned.onnx", network(16, "cab"));
        const auto turned = taught(folder, o, freeze);
        REQUIRE(turned.ok());
        CHECK(learnt(*turned) == learnt(*plain));
        o.teacher = saved(folder, "soft.onnx", network(16, "abc", true));
        const auto soft = taught(folder, o, freeze);
        REQUIRE(soft.ok());
        CHECK(soft->history[1].training_loss == doctest::Approx(plain->history[1].training_loss).epsilon(1e-3));
        // Another size is another teacher.
        o.teacher = saved(folder, "small.onnx", network(8, "abc"));
        CHECK(learnt(*taught(folder, o, freeze)) != learnt(*plain));
    }
}

TEST_CASE("A teacher of other classes is refused, and told apart by its names") {
    const made_folder folder;
    put_pictures(folder);
    graft::graph g = network(8, "abc");
    const auto refused = [&](const graft::errc code, const std::string& words) {
        const auto made = taught(folder, options(saved(folder, "other.onnx", g)));
        REQUIRE(!made.ok());
        CAPTURE(made.error().what());
        CHECK(made.error().code() == code);
        CHECK(contains(made.error().detail(), words));
    };
    const graft::preprocess_spec spec = graft::complete(graft::parse_preprocess("imagenet,resize=8x8"), {graft::dtype::float32, {-1, 3, 8, 8}, true});
    graft::describe_classifier(g, {"a", "b", "z"}, spec);
    refused(graft::errc::data_class_mismatch, "class \"c\" of the data is none of the teacher's 3");
    // Without names their number has to do.
    g.metadata.clear();
    CHECK(taught(folder, options(saved(folder, "nameless.onnx", g))).ok());
    graft::builder b("four", 4);
    graft::linear_options fc;
    b.output(b.linear(b.flatten(b.global_average_pool(b.input("input", graft::dtype::float32, {"N", 3, 8, 8}))), 4, fc), "scores");
    g = small_steps::loaded(b.finish());
    refused(graft::errc::labels_count, "the teacher answers for 4 classes, and the data have 3");
    graft::describe_classifier(g, {"a", "b", "c", "d"}, spec);
    refused(graft::errc::data_class_mismatch, "the teacher also knows \"d\"");
}

TEST_CASE("A run that was begun with another teacher is not gone on with") {
    const made_folder folder;
    put_pictures(folder);
    graft::trainer_options o = options(saved(folder, "teacher.onnx", network(8, "abc")));
    o.out = folder.path + "/run";
    REQUIRE(taught(folder, o).ok());
    o.resume = true;
    CHECK(taught(folder, o).ok());
    (void)saved(folder, "teacher.onnx", network(16, "abc"));
    const auto other = taught(folder, o);
    REQUIRE(!other.ok());
    CHECK(other.error().code() == graft::errc::resume_mismatch);
    CHECK(other.error().where() == "teacher");
}
