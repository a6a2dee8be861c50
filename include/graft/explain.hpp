// Why a classifier answers what it answers: a map over the picture of the places that spoke for a class.
#pragma once

#include "core/number_text.hpp"
#include "classify.hpp"
#include "train/grad_cam.hpp"

#include <memory>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// An answer, and what in the picture spoke for it.
struct explanation {
    prediction answer;
    tensor map;            ///< [H, W], float32 from 0 up: how much each place spoke for the class; its scale says nothing
    graft::image picture;  ///< what the network saw, in gray under the map in colours, the answer below it; small ones enlarged
};

/// Explains a classifier's answers by Grad-CAM (`grad_cam`), on the CPU. It holds a session and scratch memory, so bring one a thread.
class explainer {
public:
    /// Loads a model and finds the features to look at. Errors: those of `classifier::load`; `prepare_classifier`; explain.features (a
    /// network of dense layers alone), input.shape (its batch is fixed to more than one), train.no_gradient (an operator between those features and
    /// the logits has none).
    static result<explainer> load(const std::string& path, const classifier_options& options = {});
    /// The same of a model that is loaded already, for the CPU.
    static result<explainer> make(const model& m, const classifier_options& options = {});

    /// The `top` likeliest classes of a picture, likeliest first, each with its map. Errors: those of `classifier::classify` and `grad_cam`.
    result<std::vector<explanation>> best(const image& picture, int top = 1);
    /// The same of one class, an index of the model's outputs. Errors: those, and data.label_range.
    result<explanation> of(const image& picture, int index);

    const classifier& named() const noexcept { return named_; }
    const feature_map& features() const noexcept { return features_; }
    /// The name of the value whose places the maps weigh.
    const std::string& features_name() const noexcept { return network_.at(features_.features).name; }

private:
    explainer(classifier named, const classifier_options& options)
        : named_(std::move(named)), limits_(options.load.limits), pool_(new pool_executor(options.session.threads)) {}
    status plan(const shape& input);
    status prepare(const image& picture, image& seen, tensor& input);
    result<explanation> explain(const image& seen, const tensor& input, prediction answer);

    classifier named_;
    limits limits_;
    std::unique_ptr<pool_executor> pool_;
    graph network_;  // as `prepare_classifier` makes it
    input_format format_;
    preprocess_spec preprocess_;
    shape planned_;
    feature_map features_;
    grad_cam cam_;
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "train/draw_text.hpp"
#include "train/head.hpp"
#include "train/prepare_classifier.hpp"
#include "train/heat_map.hpp"

#include <algorithm>
#include <cstdio>

GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE result<explainer> explainer::load(const std::string& path, const classifier_options& options) GRAFT_MEMORY_TRY {
    load_options how = options.load;
    how.open_batch = true;
    graft::model m;
    GRAFT_TRY_ASSIGN(m, graft::load(path, how));
    return make(m, options);
}
GRAFT_MEMORY_CATCH(path)

GRAFT_INLINE result<explainer> explainer::make(const graft::model& m, const classifier_options& options) GRAFT_MEMORY_TRY {
    auto named = classifier::make(m, options);
    if (!named.ok()) return named.take_status();
    explainer made(std::move(named).value(), options);
    input_format declared;
    GRAFT_TRY_ASSIGN(declared, picture_input(m.graph()));
    const preprocess_spec& wanted = made.named_.preprocessing().spec;
    GRAFT_TRY_ASSIGN(made.preprocess_, complete(wanted, declared));
    // Gradients are of float32, whatever the network came in.
    prepared_classifier prepared;
    GRAFT_TRY_ASSIGN(prepared, prepare_classifier(m.graph(), m.outputs()[made.named_.output()].name, made.preprocess_, *made.pool_, made.limits_));
    if (prepared.fixed_batch > 1)
        return fail(errc::input_shape, "input",
                    "the network is fixed to batches of " + std::to_string(prepared.fixed_batch) +
                        ", and a map takes one picture: export it with an open batch, or with 1");
    made.network_ = std::move(prepared.graph);
    made.format_ = prepared.picture;
    GRAFT_TRY_ASSIGN(made.preprocess_, complete(wanted, made.format_));
    // What the network lacks is told before the first picture.
    shape one = prepared.batch;
    one[0] = 1;
    GRAFT_TRY(made.plan(one));
    return made;
}
GRAFT_MEMORY_CATCH("explainer::make")

GRAFT_INLINE status explainer::plan(const shape& input) GRAFT_MEMORY_TRY {
    if (planned_ == input && planned_.rank() > 0) return {};
    for (int i = 0; i < input.rank() && format_.extents.rank() == input.rank(); ++i)
        if (format_.extents[i] >= 0 && format_.extents[i] != input[i])
            return fail(errc::input_shape, "explain",
                        "prepared pictures have the shape " + text(input) + "; the network asks for " + text(format_.extents) +
                            ": --preprocess says how they are prepared");
    const value_id logits = logits_of(network_);
    GRAFT_TRY_ASSIGN(features_, find_feature_map(network_, logits, input, *pool_, limits_));
    GRAFT_TRY_ASSIGN(cam_, grad_cam::make(network_, features_, logits, input, *pool_, limits_));
    planned_ = input;
    return {};
}
GRAFT_MEMORY_CATCH("explainer::plan")

GRAFT_INLINE status explainer::prepare(const image& picture, image& seen, tensor& input) GRAFT_MEMORY_TRY {
    GRAFT_TRY_ASSIGN(seen, resize_and_crop(picture, preprocess_, format_, limits_));
    GRAFT_TRY_ASSIGN(input, to_tensor(seen, preprocess_, format_));
    return plan(input.shape());
}
GRAFT_MEMORY_CATCH("explainer::prepare")

GRAFT_INLINE result<explanation> explainer::explain(const image& seen, const tensor& input, prediction answer) GRAFT_MEMORY_TRY {
    constexpr std::int64_t least_side = 160, wanted_side = 224;
    explanation e;
    GRAFT_TRY_ASSIGN(e.map, cam_.map(input, answer.index));
    const std::int64_t side = std::min(seen.height, seen.width), times = side < least_side ? (wanted_side + side - 1) / side : 1;
    image large;
    GRAFT_TRY_ASSIGN(large, resize(seen, seen.height * times, seen.width * times, filter::nearest));
    GRAFT_TRY_ASSIGN(e.picture, overlay_heat_map(large, e.map.data<float>(), e.map.shape()[0], e.map.shape()[1]));
    const std::string share = detail::number_text(" %.1f %%", 100 * answer.probability);
    const int room = static_cast<int>(large.width / detail::font_width) - 1 - static_cast<int>(share.size());
    GRAFT_TRY_ASSIGN(e.picture, detail::with_caption(e.picture, {detail::cut_text(detail::drawn_name(answer.label, answer.index), room) + share}));
    e.answer = std::move(answer);
    return e;
}
GRAFT_MEMORY_CATCH("explainer::explain")

GRAFT_INLINE result<std::vector<explanation>> explainer::best(const image& picture, int top) GRAFT_MEMORY_TRY {
    std::vector<prediction> answers;
    GRAFT_TRY_ASSIGN(answers, named_.classify(picture, top));
    image seen;
    tensor input;
    GRAFT_TRY(prepare(picture, seen, input));
    std::vector<explanation> all;
    for (prediction& answer : answers) {
        explanation e;
        GRAFT_TRY_ASSIGN(e, explain(seen, input, std::move(answer)));
        all.push_back(std::move(e));
    }
    return all;
}
GRAFT_MEMORY_CATCH("explainer::best")

GRAFT_INLINE result<explanation> explainer::of(const image& picture, int index) GRAFT_MEMORY_TRY {
    std::vector<double> probabilities;
    GRAFT_TRY_ASSIGN(probabilities, named_.probabilities(picture));
    const std::size_t at = static_cast<std::size_t>(index);
    if (index < 0 || at >= probabilities.size())
        return fail(errc::data_label_range, "class " + std::to_string(index), "the network has " + std::to_string(probabilities.size()) + " classes");
    const std::vector<std::string>& names = named_.labels();
    image seen;
    tensor input;
    GRAFT_TRY(prepare(picture, seen, input));
    return explain(seen, input, {index, at < names.size() ? names[at] : std::to_string(index), probabilities[at]});
}
GRAFT_MEMORY_CATCH("explainer::of")

GRAFT_END_NAMESPACE
#endif
