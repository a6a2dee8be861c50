// An operator of the app's own: a row with its shape inference and its kernel, handed to `load`.
//   build   g++ -std=c++17 -O2 -Iinclude examples/04_custom_operator.cpp -o custom -pthread
//   run     ./custom
//   prints  without the row: op.unsupported
//   prints  limit(-3, -1, 0, 1, 3) = -2 -1 0 1 2
#include <graft/graft.hpp>

#include <cmath>
#include <cstdio>

// Limit: y = bound * tanh(x / bound), made to whole numbers here.
static graft::status limit_shape(graft::infer_context& c) { return c.set(0, c.in[0].type, c.in[0].extents); }

static graft::status limit_run(graft::run_context& c) {
    if (c.in[0].type != graft::dtype::float32) return c.fail(graft::errc::op_type, "Limit takes float32");
    const float bound = c.real("bound", 1);
    const float* x = c.in[0].as<float>();
    float* y = c.out[0].as<float>();
    for (std::int64_t i = 0; i < c.in[0].elements(); ++i) y[i] = std::round(bound * std::tanh(x[i] / bound));
    return {};
}

static const graft::op_row rows[] = {
    graft::make_op("Limit", "my.app").inputs(1).functions(limit_shape, limit_run).elementwise().attributes("bound:f"),
};

int main() try {
    // A file would name the operator in the same way; here the network is written in code.
    graft::builder b("custom");
    const graft::value_id x = b.input("x", graft::dtype::float32, {"N"});
    b.output(b.apply("Limit", {x}, {graft::real_attribute("bound", 2.2f)}), "y");
    graft::graph g = b.finish();
    g.opsets.push_back({"my.app", 1});
    g.nodes[0].domain = "my.app";

    auto refused = graft::load(g);
    std::printf("without the row: %s\n", refused.ok() ? "loaded" : graft::text(refused.error().code()));

    graft::load_options options;
    options.operators = rows;
    const graft::model net = graft::load(g, options);
    graft::session session(net);
    const float values[] = {-3, -1, 0, 1, 3};
    const graft::tensor in = graft::tensor::from(values, {5}), y = session.run(in);
    std::printf("limit(-3, -1, 0, 1, 3) =");
    for (int i = 0; i < 5; ++i) std::printf(" %g", static_cast<double>(y.data<float>()[i]));
    std::printf("\n");
} catch (const graft::error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
