// Teaches a network classes that it does not know, from a folder with a few dozen pictures, and names one it has not seen.
//   build   g++ -std=c++17 -O2 -Iinclude examples/07_finetune.cpp -o finetune -pthread
//   run     ./finetune apps/graft/demo/model.onnx apps/graft/demo/new_pictures apps/graft/demo/unseen_pictures/umbrella-1.png
//   prints  the best epoch names nine tenths or more right
//   prints  apps/graft/demo/unseen_pictures/umbrella-1.png: umbrella
#include <graft/train.hpp>

#include <cstdio>

int main(int count, char** arguments) try {
    if (count < 4) return std::fprintf(stderr, "usage: %s MODEL FOLDER PICTURE\n", arguments[0]), 2;
    graft::finetune_options how;
    how.epochs = 20, how.learning_rate = 0.01;  // this network is small: large ones do well by the defaults
    how.overwrite = true;                       // what an earlier run of this left there
    how.out = "finetuned";                      // gets model.onnx, checkpoint.safetensors, metrics.jsonl, TensorBoard events
    const graft::training_result done = graft::finetune(arguments[2], arguments[1], how);
    std::printf("the best epoch names %s right\n", done.best_top1 >= 0.9 ? "nine tenths or more" : "less than nine tenths");
    graft::classifier named = graft::classifier::load("finetuned/model.onnx");
    std::printf("%s: %s\n", arguments[3], named.classify(arguments[3], 1).value()[0].label.c_str());
} catch (const graft::error& e) {
    return std::fprintf(stderr, "%s\n", e.what()), 1;
}
