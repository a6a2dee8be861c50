// The bubble of a pipeline beside its formula, of steps and of inference: layers that sleep, forward 4 ms and backward 8 ms a part, so that neither cores nor
// caches count.
//   g++ -std=c++17 -O2 -Iinclude bench/pipeline.cpp -o /tmp/pipeline -pthread -ldl && /tmp/pipeline
#include <graft/train.hpp>
#include <graft/train/stages.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int forward_ms = 4, backward_ms = 8, width = 8;

graft::status nap_infer(graft::infer_context& c) { return c.set(0, c.in[0].type, c.in[0].extents); }
graft::status nap_run(graft::run_context& c) {
    std::this_thread::sleep_for(std::chrono::milliseconds(c.integer("ms", forward_ms)));
    std::copy_n(c.in[0].as<float>(), c.in[0].elements(), c.out[0].as<float>());
    return {};
}
graft::status nap_gradient(graft::gradient_context& c) {
    graft::graph& g = c.build.target();
    graft::node back = c.n;
    back.name += "/back";
    back.attributes = {graft::integer_attribute("ms", backward_ms)};
    back.inputs = {c.dy()};
    const graft::value_id made = g.add_value(back.name);
    graft::value &dx = g.at(made), &dy = g.at(c.dy());
    dx.type = dy.type, dx.extents = dy.extents, dx.has_shape = true;
    back.outputs = {made};
    g.nodes.push_back(std::move(back));
    c.give(0, made);
    return {};
}
const graft::op_row rows[] = {graft::make_op("Nap", "bench").inputs(1).functions(nap_infer, nap_run).gradient(nap_gradient).elementwise().attributes("ms:i")};
const graft::op_table operators = rows;

// As many layers as stages, each a product of matrices and its sleep.
graft::graph network(int layers) {
    graft::builder b("naps", 3);
    graft::value_id x = b.input("x", graft::dtype::float32, {"N", width});
    for (int i = 0; i < layers; ++i) {
        std::vector<float> w(width * width, 0.01f);
        x = b.apply("MatMul", {x, b.constant("w" + std::to_string(i), graft::tensor::from(w.data(), {width, width}).value())});
        x = b.apply("Identity", {x});
    }
    b.output(x, "logits");
    graft::graph g = b.finish();
    g.opsets.push_back({"bench", 1});
    for (graft::node& n : g.nodes)
        if (n.op_type == "Identity") n.op_type = "Nap", n.domain = "bench", n.version = 1;
    return g;
}

// The least of some steps, in milliseconds.
double step_ms(int stages, int parts) {
    graft::load_options loading;
    loading.operators = operators;
    graft::graph g = graft::load(network(stages), loading).value().graph();
    graft::step_options o;
    o.optimizer.kind = graft::optimizer_kind::sgd;
    o.shards = 32;
    o.micro_batches = parts;
    o.operators = operators;
    if (stages > 1) o.stages.resize(static_cast<std::size_t>(stages));
    graft::training_step step = graft::training_step::make(g, g.outputs[0], graft::parameters_of(g), o).value();
    const graft::tensor x = graft::tensor::zeros(graft::dtype::float32, {32, width}).value();
    graft::tensor t = graft::tensor::zeros(graft::dtype::float32, {32, width}).value();
    for (int i = 0; i < 32; ++i) t.data<float>()[i * width] = 1;
    graft::step_input in;
    in.inputs = &x, in.targets = &t, in.scale = 1.0 / 32, in.learning_rate = 1e-6;
    graft::executor pool;
    double least = 1e9;
    for (int i = 0; i < 4; ++i, ++in.step) {
        const auto start = std::chrono::steady_clock::now();
        const graft::status done = step.run(in, pool);
        if (!done.ok()) std::fprintf(stderr, "%s\n", done.error().what());
        least = std::min(least, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    return least;
}

// The least of some runs of a network that only infers, in milliseconds, and the share of it in which stages wait by their own clocks.
double run_ms(int stages, int parts, double& waited) {
    graft::load_options o;
    o.operators = operators;
    o.stages = std::vector<std::shared_ptr<graft::device>>(static_cast<std::size_t>(stages));
    o.parts = parts;
    graft::model m = graft::load(network(stages), o).value();
    graft::session session(m);
    const graft::tensor x = graft::tensor::zeros(graft::dtype::float32, {32, width}).value();
    double least = 1e9, before = 0;
    for (int i = 0; i < 5; ++i) {
        const auto start = std::chrono::steady_clock::now();
        const auto ran = session.run(x);
        if (!ran.ok()) std::fprintf(stderr, "%s\n", ran.error().what());
        const double took = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
        double busy = 0;
        for (const graft::stage_use& s : session.stages()) busy += s.busy_seconds * 1e3;
        if (i && took < least) least = took, waited = 1 - (busy - before) / (took * stages);
        before = busy;
    }
    return least;
}

}  // namespace

int main() {
    std::printf("stages  parts  ms a step  bubble  by formula\n");
    for (const int stages : {2, 4, 8})
        for (const int parts : {1, 2, 4, 8, 16, 32}) {
            const double ms = step_ms(stages, parts), work = parts * (forward_ms + backward_ms);
            std::printf("%6d %6d %10.1f %6.1f %% %8.1f %%\n", stages, parts, ms, 100 * (1 - work / ms), 100 * graft::pipeline_bubble(stages, parts));
        }
    std::printf("inference\nstages  parts  ms a run  bubble  by formula  stages wait\n");
    for (const int stages : {2, 4, 8})
        for (const int parts : {1, 2, 4, 8, 16, 32}) {
            double waited = 0;
            const double ms = run_ms(stages, parts, waited), work = parts * forward_ms;
            std::printf("%6d %6d %9.1f %6.1f %% %8.1f %% %9.1f %%\n", stages, parts, ms, 100 * (1 - work / ms), 100 * graft::pipeline_bubble(stages, parts),
                        100 * waited);
        }
}
