// A model as a header of the app's own, with its labels and how pictures are prepared: no file but the picture is read.
//   build   graft export apps/graft/demo/model.onnx --header drawings.hpp
//   build   g++ -std=c++17 -Os -Iinclude -I. examples/10_exported_header.cpp -o exported -pthread
//   run     ./exported apps/graft/demo/pictures/boat-1.png apps/graft/demo/pictures/tree-1.png
//   prints  one of 8 classes, boat to tree
//   prints  apps/graft/demo/pictures/boat-1.png: boat 98 %
//   prints  apps/graft/demo/pictures/tree-1.png: tree 98 %
#include "drawings.hpp"

#include <cstdio>

int main(int count, char** arguments) {
    if (count < 2) return std::fprintf(stderr, "usage: %s PICTURE...\n", arguments[0]), 2;
    const std::string first(drawings::labels[0]), last(drawings::labels[drawings::classes - 1]);
    std::printf("one of %d classes, %s to %s\n", drawings::classes, first.c_str(), last.c_str());
    for (int i = 1; i < count; ++i) {
        auto top = drawings::classify(arguments[i], 1);
        if (!top.ok()) return std::fprintf(stderr, "%s\n", top.error().what()), 1;
        std::printf("%s: %s %.0f %%\n", arguments[i], top->front().label.c_str(), 100 * top->front().probability);
    }
}
