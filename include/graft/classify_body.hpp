// Bodies of classify.hpp.
#pragma once

#include "classify.hpp"
#include "core/json.hpp"
#include "core/read_file.hpp"

#include <algorithm>
#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace detail {

inline const node* producer_of(const graph& g, value_id id) noexcept {
    for (const node& n : g.nodes)
        for (value_id made : n.outputs)
            if (made == id) return &n;
    return nullptr;
}

// How a graph ends: whether in a Softmax, and the zero point of the quantisation behind it.
struct graph_ending {
    bool softmax = false;
    bool quantized = false; // by a QuantizeLinear whose scale is a constant
    double scale = 1, zero_point = 0;
};

inline graph_ending ending_of(const graph& g) {
    static constexpr const char* passed[] = {"Reshape",  "Flatten",        "Squeeze",         "Cast",
                                             "Identity", "QuantizeLinear", "DequantizeLinear"};
    graph_ending end;
    if (g.outputs.empty()) return end;
    value_id at = g.outputs[0];
    // A graph has no circles, but it may have a million nodes; what names look like stays short.
    for (int steps = 0; steps < 64; ++steps) {
        const node* n = producer_of(g, at);
        if (!n || n->inputs.empty() || n->inputs[0] == no_value || !(n->domain.empty() || n->domain == "ai.onnx")) return end;
        if (n->op_type == "Softmax") {
            end.softmax = true;
            return end;
        }
        bool known = false;
        for (const char* name : passed) known |= n->op_type == name;
        if (!known) return end;
        if (n->op_type == "QuantizeLinear" && !end.quantized && n->inputs.size() > 1) {
            const auto constant = [&](std::size_t i) {
                return i < n->inputs.size() && n->inputs[i] != no_value
                           ? g.values[static_cast<std::size_t>(n->inputs[i])].constant
                           : tensor();
            };
            const tensor scale = constant(1), zero = constant(2);
            if (scale && scale.elements() == 1) {
                end.quantized = true;
                end.scale = element_as_double(scale.type(), scale.raw(), 0);
                if (zero && zero.elements() == 1) end.zero_point = element_as_double(zero.type(), zero.raw(), 0);
            }
        }
        at = n->inputs[0];
    }
    return end;
}

inline void softmax_of(std::vector<double>& values) {
    double most = -HUGE_VAL, sum = 0;
    for (double v : values)
        if (v > most) most = v;
    // Infinite and undefined scores: what is largest shares the whole, undefined ones get nothing.
    for (double& v : values) sum += v = std::isnan(v) ? 0 : v == most ? 1 : std::exp(v - most);
    if (sum > 0)
        for (double& v : values) v /= sum;
}

inline void scale_to_one(std::vector<double>& values) {
    double sum = 0;
    for (double v : values) sum += v;
    if (sum > 0)
        for (double& v : values) v /= sum;
}

inline GRAFT_COLD status labels_do_not_fit(const std::string& where, std::size_t names, std::int64_t classes) {
    return fail(errc::labels_count, where,
                std::to_string(names) + " names, but the model has " + std::to_string(classes) + " outputs");
}

inline status fit_labels(std::vector<std::string>& names, const std::string& where, std::int64_t classes) {
    if (static_cast<std::int64_t>(names.size()) + 1 == classes) names.insert(names.begin(), "background");
    if (static_cast<std::int64_t>(names.size()) != classes) return labels_do_not_fit(where, names.size(), classes);
    return {};
}

// The names that a model's own metadata give: graft.labels, a JSON array; or class_names of other tools, an array or an object by
// index.
inline result<std::vector<std::string>> labels_of(const model& m, std::int64_t classes, const limits& caps) {
    std::vector<std::string> names;
    for (const char* key : {"graft.labels", "class_names"}) {
        const std::string text = m.metadata(key);
        if (text.empty()) continue;
        const bool own = key[0] == 'g';
        auto parsed = parse_json(text, key, caps);
        if (!parsed.ok()) {
            if (own) return parsed.take_status();
            continue;
        }
        const json& list = parsed.value();
        const bool is_array = list.type == json::kind::array;
        bool good = is_array || (!own && list.type == json::kind::object);
        for (std::size_t i = 0; good && i < list.items.size(); ++i) {
            const json* item = is_array ? &list.items[i] : list.find(std::to_string(i));
            good = item && item->type == json::kind::string;
            if (good) names.push_back(item->string);
        }
        if (good && (own || static_cast<std::int64_t>(names.size()) == classes)) {
            if (classes >= 0) GRAFT_TRY(fit_labels(names, key, classes));
            return names;
        }
        if (own) return fail(errc::json_malformed, key, "this metadata has to be a JSON array of names");
        names.clear();
    }
    return names;
}

// The number of classes that the first output has, -1 where only a run can tell.
inline std::int64_t classes_of(const model& m) noexcept {
    const value_info& output = m.outputs()[0];
    if (!output.has_shape || output.extents.rank() < 1) return -1;
    shape tail;
    for (int i = output.extents.rank() > 1 ? 1 : 0; i < output.extents.rank(); ++i) tail.push_back(output.extents[i]);
    return elements_of(tail);
}

} // namespace detail

GRAFT_INLINE std::vector<double> class_probabilities(const graph& g, const tensor& scores) {
    std::vector<double> values(static_cast<std::size_t>(scores.elements()));
    load_as_double(scores.type(), scores.raw(), 0, scores.elements(), values.data());
    const detail::graph_ending end = detail::ending_of(g);
    if (is_float(scores.type())) {
        if (!end.softmax) detail::softmax_of(values);
        return values;
    }
    if (end.quantized && !end.softmax) {
        for (double& v : values) v = (v - end.zero_point) * end.scale;
        detail::softmax_of(values);
        return values;
    }
    double zero = end.quantized ? end.zero_point : 0;
    if (!end.quantized)
        for (double v : values) zero = std::min(zero, v);
    for (double& v : values) v -= zero;
    detail::scale_to_one(values);
    return values;
}

GRAFT_INLINE result<std::vector<std::string>> read_labels(const std::string& path, std::int64_t classes) {
    std::string text;
    GRAFT_TRY_ASSIGN(text, read_file(path, std::int64_t(64) << 20, errc::file_open, errc::labels_count));
    std::vector<std::string> names;
    std::size_t at = text.compare(0, 3, "\xef\xbb\xbf") == 0 ? 3 : 0;
    while (at < text.size()) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        std::string line = text.substr(at, end - at);
        if (!line.empty() && line.back() == '\r') line.pop_back();
        names.push_back(std::move(line));
        at = end + 1;
    }
    if (classes >= 0) GRAFT_TRY(detail::fit_labels(names, path, classes));
    return names;
}

GRAFT_INLINE result<preprocess_choice> choose_preprocess(const std::string& given, const std::string& metadata, dtype input) {
    preprocess_choice choice;
    const bool bytes = input == dtype::uint8 || input == dtype::int8;
    choice.source = !given.empty()      ? preprocess_source::given
                    : !metadata.empty() ? preprocess_source::metadata
                    : bytes             ? preprocess_source::raw_bytes
                                        : preprocess_source::assumed;
    const char* fallback = bytes ? "raw" : "imagenet";
    GRAFT_TRY_ASSIGN(choice.spec, parse_preprocess(!given.empty() ? given : !metadata.empty() ? metadata : fallback));
    return choice;
}

GRAFT_INLINE result<classifier> classifier::make(const graft::model& m, const classifier_options& options) {
    classifier made(m, options.session);
    made.limits_ = options.load.limits;
    std::size_t pictures = 0;
    for (std::size_t i = 0; i < m.inputs().size(); ++i)
        if (!m.inputs()[i].has_default) {
            made.input_ = i;
            ++pictures;
        }
    if (pictures != 1)
        return fail(errc::input_name, "classify",
                    "the model asks for " + std::to_string(pictures) + " inputs; one picture is what it can be given");
    const value_info& input = m.inputs()[made.input_];
    if (m.outputs().empty()) return fail(errc::input_name, "classify", "the model has no output");
    made.format_ = {input.type, input.extents, true};
    GRAFT_TRY_ASSIGN(made.preprocess_, choose_preprocess(options.preprocess, m.metadata("graft.preprocess"), input.type));
    // What the specification asks of the model can be told before the first picture.
    auto complete_spec = complete(made.preprocess_.spec, made.format_);
    if (!complete_spec.ok()) return complete_spec.take_status();

    const std::int64_t classes = detail::classes_of(m);
    if (!options.labels.empty())
        GRAFT_TRY_ASSIGN(made.labels_, read_labels(options.labels, classes));
    else
        GRAFT_TRY_ASSIGN(made.labels_, detail::labels_of(m, classes, options.load.limits));
    return made;
}

GRAFT_INLINE result<classifier> classifier::load(const std::string& path, const classifier_options& options) {
    graft::model m;
    GRAFT_TRY_ASSIGN(m, graft::load(path, options.load));
    return make(m, options);
}

GRAFT_INLINE result<std::vector<double>> classifier::probabilities(const image& picture) {
    tensor pixels;
    GRAFT_TRY_ASSIGN(pixels, preprocess(picture, preprocess_.spec, format_, limits_));
    // A model with a fixed batch gets the picture as many times as it asks for.
    const value_info& input = model_.inputs()[input_];
    if (input.has_shape && input.extents.rank() == pixels.shape().rank() && input.extents[0] > 1) {
        shape extents = pixels.shape();
        extents[0] = input.extents[0];
        tensor repeated;
        GRAFT_TRY_ASSIGN(repeated, tensor::make(pixels.type(), extents));
        for (std::int64_t i = 0; i < extents[0]; ++i)
            std::memcpy(repeated.raw() + static_cast<std::size_t>(i) * pixels.bytes(), pixels.raw(), pixels.bytes());
        pixels = repeated;
    }
    GRAFT_TRY(session_.set_input(input_, pixels));
    GRAFT_TRY(session_.run());
    const tensor& scores = session_.output(0);
    const std::int64_t batch = pixels.shape().rank() ? pixels.shape()[0] : 1;
    const bool batched = scores.shape().rank() > 1 && scores.shape()[0] == batch;
    const std::int64_t classes = batched ? scores.elements() / std::max<std::int64_t>(1, batch) : scores.elements();
    if (classes < 1)
        return fail(errc::op_shape, model_.outputs()[0].name, "the model's output is empty: " + text(scores.shape()));
    return class_probabilities(model_.graph(), tensor(scores.type(), {classes}, scores.storage()));
}

GRAFT_INLINE std::vector<prediction> classifier::best(const std::vector<double>& probabilities, int top) const {
    std::vector<int> order(probabilities.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    const std::size_t n = std::min(order.size(), static_cast<std::size_t>(std::max(top, 0)));
    const double* p = probabilities.data();
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n), order.end(), [p](int a, int b) {
        const double x = std::isnan(p[a]) ? -1 : p[a], y = std::isnan(p[b]) ? -1 : p[b];
        return x != y ? x > y : a < b;
    });
    std::vector<prediction> predictions;
    for (std::size_t i = 0; i < n; ++i) {
        const std::size_t index = static_cast<std::size_t>(order[i]);
        predictions.push_back(
            {order[i], index < labels_.size() ? labels_[index] : std::to_string(order[i]), probabilities[index]});
    }
    return predictions;
}

GRAFT_INLINE result<std::vector<prediction>> classifier::classify(const image& picture, int top) {
    std::vector<double> p;
    GRAFT_TRY_ASSIGN(p, probabilities(picture));
    const std::int64_t classes = static_cast<std::int64_t>(p.size());
    if (!labels_.empty()) GRAFT_TRY(detail::fit_labels(labels_, "labels", classes));
    return best(p, top);
}

GRAFT_INLINE result<std::vector<prediction>> classifier::classify(const std::string& path, int top) {
    image picture;
    GRAFT_TRY_ASSIGN(picture, decode_file(path, limits_));
    return classify(picture, top);
}

GRAFT_END_NAMESPACE
