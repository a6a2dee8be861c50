// A network written in code, saved as ONNX and loaded again.
//   build   g++ -std=c++17 -O2 -Iinclude examples/05_build_network.cpp -o build_network -pthread
//   run     ./build_network digits.onnx
//   prints  12 nodes, output [2,10]
//   prints  digits.onnx gives the same probabilities
#include <graft/graft.hpp>

#include <cmath>
#include <cstdio>

int main(int count, char** arguments) try {
    if (count < 2) return std::fprintf(stderr, "usage: %s OUTPUT.onnx\n", arguments[0]), 2;
    graft::builder b("digits", 42);
    // In C++20: b.conv2d(x, 8, {.kernel = 5, .padding = 2})
    graft::conv2d_options five, three;
    five.kernel = 5, five.padding = 2;
    three.kernel = 3, three.padding = 1, three.bias = false;
    graft::value_id x = b.input("image", graft::dtype::float32, {"N", 1, 28, 28});
    x = b.max_pool(b.relu(b.conv2d(x, 8, five)));
    const graft::value_id skipped = x = b.conv2d(x, 16, three);
    x = b.relu(b.batch_norm(x));
    x = b.add(b.conv2d(x, 16, three), skipped);
    x = b.linear(b.flatten(b.global_average_pool(x)), 10);
    b.output(b.softmax(x), "probabilities");

    const graft::model net = graft::load(b.finish().value());
    graft::must(net.save(arguments[1]));
    const graft::model again = graft::load(arguments[1]);

    const graft::tensor images = graft::tensor::zeros(graft::dtype::float32, {2, 1, 28, 28});
    for (int i = 0; i < 2 * 28 * 28; ++i) images.data<float>()[i] = static_cast<float>(i % 29) / 29;
    graft::session one(net), two(again);
    const graft::tensor p = one.run(images), q = two.run(images);
    std::printf("%zu nodes, output %s\n", net.graph().nodes.size(), graft::text(p.shape()).c_str());
    bool same = true;
    for (int i = 0; i < 20; ++i) same &= std::fabs(p.data<float>()[i] - q.data<float>()[i]) < 1e-6f;
    std::printf("%s gives %s\n", arguments[1], same ? "the same probabilities" : "other probabilities");
    return same ? 0 : 1;
} catch (const graft::error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
