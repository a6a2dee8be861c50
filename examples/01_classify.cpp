// Names what is in pictures.
//   build   g++ -std=c++17 -O2 -Iinclude examples/01_classify.cpp -o classify -pthread
//   run     ./classify apps/graft/demo/model.onnx apps/graft/demo/pictures/boat-1.png apps/graft/demo/pictures/tree-1.png
//   prints  apps/graft/demo/pictures/boat-1.png: boat 98 %
//   prints  apps/graft/demo/pictures/tree-1.png: tree 98 %
#include <graft/graft.hpp>

#include <cstdio>

int main(int count, char** arguments) try {
    if (count < 3) return std::fprintf(stderr, "usage: %s MODEL PICTURE...\n", arguments[0]), 2;
    // Labels and preprocessing come with this model; for others, see graft::classifier_options.
    graft::classifier named = graft::classifier::load(arguments[1]);
    for (int i = 2; i < count; ++i) {
        std::vector<graft::prediction> top = named.classify(arguments[i], 1);
        std::printf("%s: %s %.0f %%\n", arguments[i], top[0].label.c_str(), 100 * top[0].probability);
    }
} catch (const graft::error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
