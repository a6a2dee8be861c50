// Training steps of a network that was loaded from any file: every weight learns, on two samples.
#include "made_inputs.hpp"
#include "onnx_custom.hpp"
#include "target.hpp"

#include <graft/train.hpp>

namespace {

constexpr std::int64_t most_elements = 4096, most_classes = 64;

void train(const graft::model& model, std::size_t size) {
    graft::graph g = model.graph();
    if (g.outputs.empty() || g.inputs.empty()) return;
    std::vector<graft::tensor> inputs;
    if (!fuzz::make_inputs(model.inputs(), size, 2, most_elements, inputs)) return;
    graft::tensor batch;
    for (graft::tensor& t : inputs)
        if (t && !batch) batch = t;
    if (!batch || batch.shape().rank() < 1) return;
    const graft::value_id logits = graft::logits_of(g);
    std::vector<graft::parameter> parameters = graft::parameters_of(g);
    graft::step_options options;
    options.limits = fuzz::small_limits();
    options.shards = 2;
    options.micro_batches = size % 5 == 0 ? 2 : 1;
    options.recompute = size % 7 == 0;
    options.reference = size % 4 == 3;
    options.optimizer.kind = size % 2 ? graft::optimizer_kind::adamw : graft::optimizer_kind::sgd;
    auto step = graft::training_step::make(std::move(g), logits, std::move(parameters), options);
    if (!fuzz::accepted(step)) return;
    graft::pool_executor pool(1);
    if (!fuzz::accepted(step->prepare(batch.shape(), pool))) return;
    const std::int64_t n = batch.shape()[0];
    const graft::shape& extents = model.outputs()[0].extents;
    const std::int64_t classes = extents.rank() > 1 && extents[1] > 0 && extents[1] <= most_classes ? extents[1] : 2;
    auto targets = graft::tensor::zeros(graft::dtype::float32, {n, classes});
    if (!targets.ok()) return;
    for (std::int64_t i = 0; i < n; ++i) targets->data<float>()[i * classes + i % classes] = 1;
    graft::step_input in;
    in.inputs = &batch;
    in.targets = &*targets;
    in.scale = n ? 1.0 / static_cast<double>(n) : 1;
    in.learning_rate = 0.01;
    for (in.step = 0; in.step < 2; ++in.step)
        if (!fuzz::accepted(step->run(in, pool))) return;
    std::vector<std::uint8_t> written;
    const auto learnt = step->network();
    if (fuzz::accepted(learnt)) fuzz::accepted(graft::write_onnx(*learnt, written));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    graft::load_options options;
    options.limits = fuzz::small_limits();
    options.device = "cpu";
    const auto model = graft::load(data, size, options);
    if (fuzz::accepted(model)) train(*model, size);
    return 0;
}
