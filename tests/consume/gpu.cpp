// What consumer projects build that use a GPU where there is one: a small network on the device that "auto" finds, by the one header.
#include <graft/gpu.hpp>

#include <cstdio>

int main() {
    using runtime = graft::runtime<graft::backends::cuda, graft::backends::cpu>;
    graft::builder net("net", 2);
    net.output(net.apply("Relu", {net.input("x", graft::dtype::float32, {1, 4})}), "y");
    graft::load_options options;
    options.warn = [](const char* why) { std::printf("%s\n", why); };
    auto loaded = runtime::load(net.finish(), options);
    if (!loaded.ok()) return std::fprintf(stderr, "%s\n", loaded.error().what()), 1;
    graft::session session(loaded.value());
    const float x[] = {-1, 2, -3, 4};
    auto y = session.run(graft::tensor::from(x, {1, 4}).value());
    if (!y.ok()) return std::fprintf(stderr, "%s\n", y.error().what()), 1;
    const float* got = y.value().data<float>();
    std::printf("on %s: %g %g %g %g\n", loaded.value().device(), static_cast<double>(got[0]), static_cast<double>(got[1]), static_cast<double>(got[2]),
                static_cast<double>(got[3]));
    return got[0] == 0 && got[1] == 2 && got[2] == 0 && got[3] == 4 ? 0 : 1;
}
