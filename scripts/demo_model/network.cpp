// Writes the network of graft's demo with random weights: a small residual network with separable convolutions, for 3x64x64.
//   build   g++ -std=c++17 -O2 -Iinclude scripts/demo_model/network.cpp -o /tmp/network -pthread
//   run     /tmp/network /tmp/untrained.onnx
#include <graft/graft.hpp>

#include <cstdio>

namespace {

struct network {
    graft::builder b{"graft_demo", 0};

    graft::value_id conv(graft::value_id x, const std::string& name, int channels, int kernel, int stride, bool depthwise = false, bool relu = true) {
        graft::conv2d_options o;
        o.kernel = kernel, o.stride = stride, o.padding = kernel / 2, o.bias = false, o.name = name;
        if (depthwise) o.groups = channels;
        graft::batch_norm_options norm;
        norm.name = name + ".norm";
        x = b.batch_norm(b.conv2d(x, channels, o), norm);
        return relu ? b.relu(x) : x;
    }
    // MobileNet's block: a depthwise 3x3 convolution, then a pointwise one.
    graft::value_id separable(graft::value_id x, const std::string& name, int from, int to, int stride, bool relu = true) {
        return conv(conv(x, name + ".depthwise", from, 3, stride, true), name + ".pointwise", to, 1, 1, false, relu);
    }
};

}  // namespace

int main(int count, char** arguments) try {
    if (count < 2) return std::fprintf(stderr, "usage: %s OUTPUT.onnx\n", arguments[0]), 2;
    network n;
    graft::value_id x = n.b.input("input", graft::dtype::float32, {"N", 3, 64, 64});
    x = n.conv(x, "stem", 16, 3, 2);          // 32x32
    x = n.separable(x, "stage1", 16, 32, 2);  // 16x16
    graft::value_id y = n.conv(x, "stage1.residual.0", 32, 3, 1);
    x = n.b.relu(n.b.add(x, n.conv(y, "stage1.residual.1", 32, 3, 1, false, false)));
    x = n.separable(x, "stage2", 32, 64, 2);  // 8x8
    x = n.b.relu(n.b.add(x, n.separable(x, "stage2.residual", 64, 64, 1, false)));
    x = n.separable(x, "stage3", 64, 96, 1);
    x = n.b.relu(n.b.add(x, n.separable(x, "stage3.residual", 96, 96, 1, false)));
    n.b.output(n.b.linear(n.b.flatten(n.b.global_average_pool(x)), 8), "logits");
    graft::graph g = n.b.finish().value();
    g.metadata.emplace_back("graft.preprocess", "imagenet,resize=64x64,crop=none");
    graft::must(graft::load(std::move(g)).value().save(arguments[1]));
} catch (const graft::error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
