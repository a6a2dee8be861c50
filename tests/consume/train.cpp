// What consumer projects build that train: two steps of a small network on random numbers, which have to lower its loss, and the
// network that came of them, saved and loaded again.
#include <graft/train.hpp>

#include <cstdio>

namespace {

graft::status two_steps(double (&loss)[2], graft::graph& trained) {
    const std::int64_t samples = 6, classes = 4;
    graft::architecture_options made_for;
    made_for.classes = classes;
    graft::graph network;
    GRAFT_TRY_ASSIGN(network, graft::build_architecture("lenet", made_for));
    graft::model checked;
    GRAFT_TRY_ASSIGN(checked, graft::load(network));
    graft::step_options options;
    options.optimizer.kind = graft::optimizer_kind::sgd;
    options.optimizer.weight_decay = 0;
    graft::training_step step;
    GRAFT_TRY_ASSIGN(step, graft::training_step::make(checked.graph(), graft::logits_of(checked.graph()), graft::parameters_of(checked.graph()), options));

    graft::tensor pictures, targets;
    GRAFT_TRY_ASSIGN(pictures, graft::initial(graft::initializer::kaiming_normal, {samples, 1, 28, 28}, 1, 0, 2));
    GRAFT_TRY_ASSIGN(targets, graft::tensor::zeros(graft::dtype::float32, {samples, classes}));
    for (std::int64_t i = 0; i < samples; ++i) graft::write_target(options.loss, i % classes, 1, classes, targets.data<float>() + i * classes, false);
    graft::pool_executor pool;
    graft::step_input batch;
    batch.inputs = &pictures;
    batch.targets = &targets;
    batch.scale = 1.0 / static_cast<double>(samples);
    batch.learning_rate = 0.05;
    for (batch.step = 0; batch.step < 2; ++batch.step) {
        GRAFT_TRY(step.run(batch, pool));
        loss[batch.step] = step.loss();
    }
    GRAFT_TRY_ASSIGN(trained, step.network());
    return {};
}

}  // namespace

int main() {
    double loss[2] = {};
    graft::graph trained;
    const graft::status done = two_steps(loss, trained);
    if (!done.ok()) return std::fprintf(stderr, "%s\n", done.error().what()), 1;
    std::vector<std::uint8_t> file;
    const graft::status written = graft::write_onnx(trained, file);
    if (!written.ok()) return std::fprintf(stderr, "%s\n", written.error().what()), 1;
    auto again = graft::load(file.data(), file.size());
    if (!again.ok()) return std::fprintf(stderr, "%s\n", again.error().what()), 1;
    std::printf("graft %s: the loss went from %.3f to %.3f in a step\n", graft::version(), loss[0], loss[1]);
    return loss[1] < loss[0] ? 0 : 1;
}
