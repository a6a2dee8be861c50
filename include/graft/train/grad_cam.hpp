// Grad-CAM: which places of a picture spoke for a class.
#pragma once

#include "../core/executor.hpp"
#include "../core/limits.hpp"
#include "../graph/graph.hpp"

#include <cstdint>
#include <memory>

GRAFT_BEGIN_NAMESPACE

/// Maps of where a network looks: Selvaraju et al., "Grad-CAM: Visual Explanations from Deep Networks via Gradient-based
/// Localization" (2017). With the features A [1, K, H, W] and the logit y of a class, the weights are w_k = mean over the places
/// of dy / dA_k, and the map is relu(sum_k w_k A_k). Planned once, run for any number of pictures.
class grad_cam {
public:
    grad_cam();
    ~grad_cam();
    grad_cam(grad_cam&&) noexcept;
    grad_cam& operator=(grad_cam&&) noexcept;

    /// `features` is a value of rank 4 on the way from the network's first open input to `logits`, [1, classes]; `input` the
    /// shape of one picture, batch 1. `pool` has to outlive the object. Errors: train.no_gradient, op.unsupported, input.shape (a
    /// value of another rank, or a batch of several), memory.*.
    static result<grad_cam> make(graph network, value_id features, value_id logits, const shape& input, executor& pool,
                                 const limits& limit = {});

    /// The map [H, W] of one picture for a class, float32 from 0 up, not scaled; memory of its own. Errors: data.label_range,
    /// input.shape, memory.oom.
    result<tensor> map(const tensor& picture, std::int64_t label);

private:
    struct implementation;
    std::unique_ptr<implementation> self_;
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../exec/context.hpp"
#include "../passes/differentiate.hpp"
#include "../passes/specialize.hpp"
#include "backends.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE

struct grad_cam::implementation {
    detail::executable what;
    std::unique_ptr<detail::context> runner;
    tensor chosen; // 1 at the class that is asked about, 0 elsewhere
};

GRAFT_INLINE grad_cam::grad_cam() = default;
GRAFT_INLINE grad_cam::~grad_cam() = default;
GRAFT_INLINE grad_cam::grad_cam(grad_cam&&) noexcept = default;
GRAFT_INLINE grad_cam& grad_cam::operator=(grad_cam&&) noexcept = default;

GRAFT_INLINE result<grad_cam> grad_cam::make(graph g, value_id features, value_id logits, const shape& input, executor& pool,
                                             const limits& limit) {
    const auto at = [&g](value_id id) -> value& { return g.values[static_cast<std::size_t>(id)]; };
    g.outputs = {features, logits};
    drop_unread(g);
    GRAFT_TRY_ASSIGN(g, specialize_first_input(std::move(g), input, pool, limit));
    const shape places = at(features).extents, scores = at(logits).extents;
    if (!at(features).has_shape || places.rank() != 4 || places[0] != 1)
        return fail(errc::input_shape, at(features).name,
                    "Grad-CAM takes the features of one picture, [1, K, H, W]; these are " + text(places));
    if (!at(logits).has_shape || scores.rank() != 2 || scores[0] != 1)
        return fail(errc::input_shape, at(logits).name, "Grad-CAM takes logits [1, classes]; these are " + text(scores));
    grad_cam made;
    made.self_.reset(new implementation);
    implementation& self = *made.self_;
    GRAFT_TRY_ASSIGN(self.chosen, tensor::zeros(dtype::float32, scores));
    const value_id chosen = g.add_value("grad_cam/chosen");
    at(chosen).type = dtype::float32;
    at(chosen).extents = scores;
    at(chosen).has_shape = true;
    g.inputs.push_back(chosen);
    emitter build(g, ops::find_training_op, limit);
    build.prefix = "grad_cam";
    const value_id score =
        build.apply_graft("SumTo", {build.mul(logits, chosen)}, {integers_attribute("shape", {}), integer_attribute("shards", 1)});
    GRAFT_TRY(std::move(build.failure));
    std::vector<value_id> gradients;
    GRAFT_TRY_ASSIGN(gradients, differentiate(g, score, {features}, 1, limit));
    if (gradients[0] == no_value)
        return fail(errc::train_no_gradient, at(features).name, "the logits do not depend on these features");
    g.outputs = {features, gradients[0]};
    drop_unread(g);
    self.what.graph = std::move(g);
    self.what.limit = limit;
    self.what.backends = {&backends::cpu_training::instance()};
    self.what.packed = std::make_shared<pack_cache>();
    self.runner.reset(new detail::context(self.what, pool));
    return made;
}

GRAFT_INLINE result<tensor> grad_cam::map(const tensor& picture, std::int64_t label) {
    if (!self_) return fail(errc::usage, "Grad-CAM", "it is empty: take what grad_cam::make returns");
    implementation& self = *self_;
    const std::int64_t classes = self.chosen.elements();
    if (label < 0 || label >= classes)
        return fail(errc::data_label_range, "class " + std::to_string(label),
                    "the network has " + std::to_string(classes) + " classes");
    std::fill(self.chosen.data<float>(), self.chosen.data<float>() + classes, 0.0f);
    self.chosen.data<float>()[label] = 1;
    const value& in = self.what.graph.values[static_cast<std::size_t>(self.what.graph.inputs[0])];
    if (picture.type() != in.type || picture.shape() != in.extents)
        return fail(errc::input_shape, in.name,
                    "it has the shape " + text(picture.shape()) + "; the map was planned for " + text(in.extents));
    const tensor_view all[] = {view(picture), view(self.chosen)};
    GRAFT_TRY(self.runner->run(all));
    const tensor &features = self.runner->output(0), &gradient = self.runner->output(1);
    const std::int64_t channels = features.shape()[1], height = features.shape()[2], width = features.shape()[3],
                       places = height * width;
    tensor made;
    GRAFT_TRY_ASSIGN(made, tensor::zeros(dtype::float32, {height, width}));
    std::vector<double> sums(static_cast<std::size_t>(places), 0.0);
    for (std::int64_t k = 0; k < channels; ++k) {
        const float *a = features.data<float>() + k * places, *d = gradient.data<float>() + k * places;
        double weight = 0;
        for (std::int64_t i = 0; i < places; ++i) weight += static_cast<double>(d[i]);
        weight /= static_cast<double>(places);
        for (std::int64_t i = 0; i < places; ++i) sums[static_cast<std::size_t>(i)] += weight * static_cast<double>(a[i]);
    }
    for (std::int64_t i = 0; i < places; ++i)
        made.data<float>()[i] = static_cast<float>(std::max(0.0, sums[static_cast<std::size_t>(i)]));
    return made;
}

GRAFT_END_NAMESPACE
#endif
