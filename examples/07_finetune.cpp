// Teaches a network classes that it does not know, from a folder with a few dozen pictures, and names one it has not seen.
//   build   g++ -std=c++17 -O2 -Iinclude examples/07_finetune.cpp -o finetune -pthread
//   run     ./finetune apps/graft/demo/model.onnx apps/graft/demo/new_pictures apps/graft/demo/unseen_pictures/umbrella-1.png
//   prints  96 pictures to learn from, 24 to score by
//   prints  the best epoch names nine tenths or more of the 24 right
//   prints  apps/graft/demo/unseen_pictures/umbrella-1.png: umbrella
#include <graft/train.hpp>

#include <cstdio>

struct printer final : graft::training_observer {
    graft::verdict on_epoch(const graft::epoch_record& r) override {
        std::fprintf(stderr, "epoch %lld: %.0f %%\n", static_cast<long long>(r.epoch + 1), 100 * r.top1);
        return graft::verdict::go_on; // or stop, to resume it later
    }
    void on_warning(const std::string& text) override { std::fprintf(stderr, "%s\n", text.c_str()); }
};

int main(int count, char** arguments) try {
    if (count < 4) return std::fprintf(stderr, "usage: %s MODEL FOLDER PICTURE\n", arguments[0]), 2;
    const graft::dataset_splits data = graft::open_splits(arguments[2]); // a folder for each class
    std::printf("%lld pictures to learn from, %lld to score by\n", static_cast<long long>(data.training.size()),
                static_cast<long long>(data.validation.size()));

    const graft::model old = graft::load(arguments[1]);
    graft::graph g = old.graph();
    graft::pool_executor pool;
    const graft::trunk_cut cut = graft::find_trunk(g, "", {1, 3, 64, 64}, pool);
    graft::grafted made = graft::replace_head(std::move(g), cut, static_cast<std::int64_t>(data.training.classes().size()), 0);

    graft::trainer_options how;
    how.epochs = 20, how.batch = 8, how.learning_rate = 0.01; // of the new layer
    how.trunk_rate = 0.3;                                      // the trunk's share of it
    how.preprocess = graft::parse_preprocess(old.metadata("graft.preprocess"));
    how.overwrite = true;  // what an earlier run of this left there
    how.out = "finetuned"; // gets model.onnx, checkpoint.safetensors, metrics.jsonl, TensorBoard events
    printer shown;
    graft::training_network network;
    network.graph = made.graph, network.logits = made.logits, network.features = cut.features;
    network.parameters = graft::parameters_of(made.graph);
    const graft::training_result done = graft::train(network, data, how, shown);
    std::printf("the best epoch names %s of the 24 right\n", done.best_top1 >= 0.9 ? "nine tenths or more" : "less than nine tenths");

    graft::classifier named = graft::classifier::load("finetuned/model.onnx");
    std::printf("%s: %s\n", arguments[3], named.classify(arguments[3], 1).value()[0].label.c_str());
} catch (const graft::error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
