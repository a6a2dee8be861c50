// A network of one operator, written in code and run: 1, -2, 3 become 1, 0, 3.
#include <graft/graft.hpp>

#include <cstdio>

int main() {
    graft::builder network;
    const graft::value_id x = network.input("x", graft::dtype::float32, {3});
    network.output(network.apply("Relu", {x}), "y");
    auto model = graft::load(network.finish());
    if (!model.ok()) return std::fprintf(stderr, "%s\n", model.error().what()), 1;
    graft::session session(model.value());
    const float values[] = {1, -2, 3};
    auto y = session.run(graft::tensor::from(values, {3}));
    if (!y.ok()) return std::fprintf(stderr, "%s\n", y.error().what()), 1;
    const float* out = y.value().data<float>();
    std::printf("graft %s: %g %g %g\n", graft::version(), static_cast<double>(out[0]), static_cast<double>(out[1]), static_cast<double>(out[2]));
    return out[0] == 1 && out[1] == 0 && out[2] == 3 ? 0 : 1;
}
