// A model and a picture that lie in the program itself: nothing is read at run time.
//   build   xxd -i < apps/graft/demo/model.onnx > model.inc; xxd -i < apps/graft/demo/pictures/moon-1.png > picture.inc
//   build   g++ -std=c++17 -O2 -Iinclude -I. examples/06_embed_model.cpp -o embed -pthread
//   run     ./embed
//   prints  moon 94 %
#include <graft/graft.hpp>

#include <cstdio>

static const unsigned char model_bytes[] = {
#include "model.inc"
};
static const unsigned char picture_bytes[] = {
#include "picture.inc"
};

int main() try {
    const graft::model net = graft::load(model_bytes, sizeof model_bytes);
    const graft::image picture = graft::decode(picture_bytes, sizeof picture_bytes, "embedded picture");
    graft::classifier named = graft::classifier::make(net);
    std::vector<graft::prediction> top = named.classify(picture, 1);
    std::printf("%s %.0f %%\n", top[0].label.c_str(), 100 * top[0].probability);
} catch (const graft::error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
