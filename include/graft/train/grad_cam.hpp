// Grad-CAM: which places of a picture spoke for a class.
#pragma once

#include "../core/executor.hpp"
#include "../core/limits.hpp"
#include "../graph/graph.hpp"
#include "feature_map.hpp"

#include <cstdint>
#include <memory>

GRAFT_BEGIN_NAMESPACE

/// Maps of where a network looks. Of images of features it is Grad-CAM: Selvaraju et al., "Grad-CAM: Visual Explanations from Deep Networks
/// via Gradient-based Localization" (2017). With the features A [K, H, W] and the logit y of a class, the weights are w_k = mean over the
/// places of dy / dA_k, and the map is relu(sum_k w_k A_k). Of tokens it is relu(sum_k A_k dy / dA_k) with the gradient of each place (HiResCAM:
/// Draelos and Carin, 2020): one weight for all places says little where attention chose among them. Planned once, run for any number of
/// pictures.
class grad_cam {
public:
    grad_cam();
    ~grad_cam();
    grad_cam(grad_cam&&) noexcept;
    grad_cam& operator=(grad_cam&&) noexcept;

    /// `features` is what `find_feature_map` finds, or another such value on the way from the network's first open input to `logits`, of which
    /// every element is the logit of a class; `input` the shape of one picture, batch 1. `pool` has to outlive the object. Errors:
    /// train.no_gradient, op.unsupported, input.shape (features that are not as described), input.dtype, memory.*.
    static result<grad_cam> make(graph network, const feature_map& features, value_id logits, const shape& input, executor& pool, const limits& limit = {});

    /// The map [H, W] of one picture for a class, float32 from 0 up, not scaled; memory of its own. Errors: data.label_range,
    /// input.shape, memory.oom.
    result<tensor> map(const tensor& picture, std::int64_t label);

private:
    struct implementation;
    std::unique_ptr<implementation> self_;
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <algorithm>

GRAFT_BEGIN_NAMESPACE

struct grad_cam::implementation {
    detail::executable what;
    std::unique_ptr<detail::context> runner;
    tensor chosen;  // 1 at the class that is asked about, 0 elsewhere
    feature_map map;
};

GRAFT_INLINE grad_cam::grad_cam() = default;
GRAFT_INLINE grad_cam::~grad_cam() = default;
GRAFT_INLINE grad_cam::grad_cam(grad_cam&&) noexcept = default;
GRAFT_INLINE grad_cam& grad_cam::operator=(grad_cam&&) noexcept = default;

GRAFT_INLINE result<grad_cam> grad_cam::make(graph g, const feature_map& map, value_id logits, const shape& input, executor& pool,
                                             const limits& limit) GRAFT_MEMORY_TRY {
    const auto at = [&g](value_id id) -> value& { return g.at(id); };
    const auto last = static_cast<value_id>(g.values.size());
    if (map.features < 0 || map.features >= last || logits < 0 || logits >= last)
        return fail(errc::input_name, g.name, "the features or the logits are no value of this network");
    g.outputs = {map.features, logits};
    drop_unread(g);
    GRAFT_TRY_ASSIGN(g, specialize_first_input(std::move(g), input, pool, limit));
    const value &features = at(map.features), &scores = at(logits);
    const bool inside = map.height > 0 && map.width > 0 && map.channels > 0 && map.first >= 0 && map.place_stride > 0 && map.channel_stride > 0 &&
                        features.has_shape && features.extents.known() &&
                        static_cast<double>(map.first) +
                                (static_cast<double>(map.height) * static_cast<double>(map.width) - 1) * static_cast<double>(map.place_stride) +
                                static_cast<double>(map.channels - 1) * static_cast<double>(map.channel_stride) <
                            static_cast<double>(elements_of(features.extents));
    if (!inside)
        return fail(errc::input_shape, features.name,
                    text(features.extents) + " does not hold features of " + std::to_string(map.height) + "x" + std::to_string(map.width) + " places");
    if (features.type != dtype::float32 || scores.type != dtype::float32)
        return fail(errc::input_dtype, features.name, "maps are made of float32 features and logits");
    if (!scores.has_shape || !scores.extents.known() || scores.extents.rank() < 1 || scores.extents[0] != 1 || input.rank() < 1 || input[0] != 1)
        return fail(errc::input_shape, scores.name, "a map takes the logits of one picture, [1, classes]; these are " + text(scores.extents));
    grad_cam made;
    made.self_.reset(new implementation);
    implementation& self = *made.self_;
    self.map = map;
    GRAFT_TRY_ASSIGN(self.chosen, tensor::zeros(dtype::float32, scores.extents));
    GRAFT_TRY_ASSIGN(g, detail::with_logit_gradients(std::move(g), logits, {map.features}, limit));
    GRAFT_TRY(detail::make_executable(std::move(g), limit, self.what));
    self.runner.reset(new detail::context(self.what, pool));
    return made;
}
GRAFT_MEMORY_CATCH("grad_cam::make")

GRAFT_INLINE result<tensor> grad_cam::map(const tensor& picture, std::int64_t label) GRAFT_MEMORY_TRY {
    if (!self_) return fail(errc::usage, "Grad-CAM", "it is empty: take what grad_cam::make returns");
    implementation& self = *self_;
    const std::int64_t classes = self.chosen.elements();
    if (label < 0 || label >= classes)
        return fail(errc::data_label_range, "class " + std::to_string(label), "the network has " + std::to_string(classes) + " classes");
    std::fill(self.chosen.data<float>(), self.chosen.data<float>() + classes, 0.0f);
    self.chosen.data<float>()[label] = 1;
    const value& in = self.what.graph.at(self.what.graph.inputs[0]);
    if (picture.type() != in.type || picture.shape() != in.extents)
        return fail(errc::input_shape, in.name, "it has the shape " + text(picture.shape()) + "; the map was planned for " + text(in.extents));
    const tensor_view all[] = {view(picture), view(self.chosen)};
    GRAFT_TRY(self.runner->run(all));
    const float *features = self.runner->output(0).data<float>() + self.map.first, *gradient = self.runner->output(1).data<float>() + self.map.first;
    const std::int64_t places = self.map.height * self.map.width, step = self.map.place_stride;
    tensor made;
    GRAFT_TRY_ASSIGN(made, tensor::zeros(dtype::float32, {self.map.height, self.map.width}));
    std::vector<double> sums(static_cast<std::size_t>(places), 0.0);
    for (std::int64_t k = 0; k < self.map.channels; ++k) {
        const float *a = features + k * self.map.channel_stride, *d = gradient + k * self.map.channel_stride;
        double mean = 0;
        for (std::int64_t i = 0; i < places; ++i) mean += static_cast<double>(d[i * step]);
        mean /= static_cast<double>(places);
        for (std::int64_t i = 0; i < places; ++i)
            sums[static_cast<std::size_t>(i)] += (self.map.tokens ? static_cast<double>(d[i * step]) : mean) * static_cast<double>(a[i * step]);
    }
    for (std::int64_t i = 0; i < places; ++i) made.data<float>()[i] = static_cast<float>(std::max(0.0, sums[static_cast<std::size_t>(i)]));
    return made;
}
GRAFT_MEMORY_CATCH("grad_cam::map")

GRAFT_END_NAMESPACE
#endif
