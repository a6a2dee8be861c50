// The losses of some training steps, for comparison with another implementation: bench/trajectory.py drives it.
//   trajectory MODEL DATA.npy LABELS.npy OPTIMIZER RATE THREADS [SHARDS]
// DATA is float32 [steps, batch, ...], LABELS int64 [steps, batch]; prints one loss a line and, last, the least milliseconds of a step.
#include <graft/graft.hpp>
#include <graft/train/architectures.hpp>
#include <graft/train/head.hpp>
#include <graft/train/step.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace {

int failed(const graft::error& e) {
    std::fprintf(stderr, "trajectory: %s\n", e.what());
    return 1;
}

graft::result<graft::tensor> part_of(const graft::tensor& all, std::int64_t i) {
    const graft::shape extents = graft::shape::from(all.shape().begin() + 1, all.shape().end());
    graft::tensor part;
    GRAFT_TRY_ASSIGN(part, graft::tensor::make(all.type(), extents));
    std::memcpy(part.raw(), all.raw() + i * static_cast<std::int64_t>(part.bytes()), part.bytes());
    return part;
}

graft::status run(char** argv, int argc) {
    graft::model network;
    GRAFT_TRY_ASSIGN(network, graft::load(std::string(argv[1])));
    graft::tensor data, labels;
    GRAFT_TRY_ASSIGN(data, graft::read_npy_file(argv[2]));
    GRAFT_TRY_ASSIGN(labels, graft::read_npy_file(argv[3]));
    graft::graph g = network.graph();
    graft::constants_to_initializers(g);
    const graft::value_id logits = graft::logits_of(g);
    const char* flags = std::getenv("GRAFT_BENCH_REFERENCE");
    graft::step_options options;
    GRAFT_TRY_ASSIGN(options.optimizer.kind, graft::optimizer_of(argv[4]));
    if (options.optimizer.kind == graft::optimizer_kind::sgd) options.optimizer.weight_decay = 5e-4;
    options.shards = argc > 7 ? std::atoi(argv[7]) : 8;
    options.reference = flags && flags[0] == '1';
    graft::training_step step;
    const std::vector<graft::parameter> parameters = graft::parameters_of(g);
    GRAFT_TRY_ASSIGN(step, graft::training_step::make(g, logits, parameters, options));
    graft::pool_executor pool(std::atoi(argv[6]));
    const std::int64_t steps = data.shape()[0], batch = data.shape()[1];
    graft::step_memory memory;
    GRAFT_TRY_ASSIGN(memory, step.prepare(graft::shape::from(data.shape().begin() + 1, data.shape().end()), pool));
    std::fprintf(stderr, "%lld bytes of activations, %lld of state\n", static_cast<long long>(memory.activations), static_cast<long long>(memory.state));
    double best = 0;
    std::int64_t classes = 0;
    for (const graft::value& v : g.values)
        if (v.name == g.at(logits).name && v.extents.rank() == 2) classes = v.extents[1];
    for (std::int64_t i = 0; i < steps; ++i) {
        graft::tensor x, targets;
        GRAFT_TRY_ASSIGN(x, part_of(data, i));
        GRAFT_TRY_ASSIGN(targets, graft::tensor::zeros(graft::dtype::float32, {batch, classes}));
        for (std::int64_t s = 0; s < batch; ++s)
            graft::write_target(options.loss, labels.data<std::int64_t>()[i * batch + s], 1, classes, targets.data<float>() + s * classes, false);
        graft::step_input in;
        in.inputs = &x, in.targets = &targets;
        in.scale = 1.0 / static_cast<double>(batch);
        in.learning_rate = std::atof(argv[5]);
        in.step = i;
        const auto before = std::chrono::steady_clock::now();
        GRAFT_TRY(step.run(in, pool));
        const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
        if (i > 0 && (i == 1 || took < best)) best = took;
        std::printf("%.9g\n", step.loss());
    }
    std::printf("%.3f ms\n", 1e3 * best);
    return {};
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 7) {
        std::fprintf(stderr, "trajectory MODEL DATA.npy LABELS.npy OPTIMIZER RATE THREADS [SHARDS]\n");
        return 2;
    }
    const graft::status done = run(argv, argc);
    return done.ok() ? 0 : failed(done.error());
}
