// What the tests of whole runs share: a folder of pictures, a network that learns them in moments, and its runs.
#pragma once

#include "../data/made_dataset.hpp"
#include "small_steps.hpp"

#include <graft/data/png_encode.hpp>

#include <fstream>
#include <iterator>

// Three classes of pictures of 12 x 12, each of its own colour under noise: 8 of each to learn from, 3 to score by.
inline void put_pictures(const made_folder& folder) {
    std::uint64_t k = 1000;
    for (const char* part : {"train", "val"})
        for (int label = 0; label < 3; ++label)
            for (int i = 0; i < (part[0] == 't' ? 8 : 3); ++i, ++k) {
                const graft::image picture = graft::image::make(12, 12, 3);
                for (std::int64_t p = 0; p < 12 * 12 * 3; ++p)
                    picture.data()[p] =
                        static_cast<std::uint8_t>(128 + 50 * small_steps::hashed(k, static_cast<std::uint64_t>(p)) + (p % 3 == label ? 60 : -20));
                folder.put(std::string("data/") + part + "/" + "abc"[label] + "/" + std::to_string(i) + ".png", graft::encode_png(picture));
            }
}

inline graft::training_network small_network(const std::string& freeze, bool features = true) {
    graft::builder b("small", 4);
    graft::conv2d_options conv;
    conv.kernel = 3, conv.stride = 2, conv.name = "conv1";
    graft::value_id x = b.relu(b.conv2d(b.input("input", graft::dtype::float32, {"N", 3, 8, 8}), 8, conv));
    conv.name = "conv2", conv.stride = 1;
    x = b.flatten(b.global_average_pool(b.relu(b.conv2d(x, 12, conv))));
    graft::linear_options fc;
    fc.name = "fc";
    b.output(b.linear(x, 3, fc), "logits");
    graft::training_network n;
    n.graph = small_steps::loaded(b.finish());
    n.logits = graft::logits_of(n.graph);
    n.parameters = graft::parameters_of(n.graph);
    if (features) n.features = n.graph.nodes.back().inputs[0];
    graft::executor serial;
    const graft::status frozen = graft::freeze(n.graph, n.parameters, freeze, {"fc.weight", "fc.bias"}, {}, {1, 3, 8, 8}, serial);
    REQUIRE(frozen.ok());
    return n;
}

inline graft::trainer_options small_options(const std::string& out) {
    graft::trainer_options o;
    o.epochs = 3;
    o.batch = 5;
    o.learning_rate = 0.01;
    o.trunk_rate = 0.1;
    o.unfreeze_epoch = 0;
    o.augmentation = graft::default_augmentation();
    o.step.optimizer.ema_decay = 0;
    o.seed = 9;
    o.threads = 1;
    o.workers = 1;
    o.out = out;
    o.preprocess = graft::parse_preprocess("imagenet,resize=8x8");
    return o;
}

inline std::string file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

struct outcome {
    graft::training_result result;
    std::string model;
};
inline outcome trained(const made_folder& folder, const graft::trainer_options& o, graft::training_network network) {
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
    graft::training_observer watcher;
    auto made = graft::train(std::move(network), data, o, watcher);
    REQUIRE_MESSAGE(made.ok(), std::string(made.ok() ? "" : made.error().what()));
    outcome r;
    r.result = std::move(made).value();
    if (!o.out.empty()) r.model = file(o.out + "/model.onnx");
    return r;
}

inline std::string weight(const graft::graph& g, const char* name) {
    for (const graft::value& v : g.values)
        if (v.name == name && v.constant) return {reinterpret_cast<const char*>(v.constant.raw()), v.constant.bytes()};
    return "";
}
