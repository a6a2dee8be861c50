// Bodies of classify.hpp.
#pragma once

#include "classify.hpp"
#include "core/read_file.hpp"
#include "exec/class_labels.hpp"

#include <algorithm>
#include <cmath>

GRAFT_BEGIN_NAMESPACE
GRAFT_INLINE result<std::vector<std::string>> read_labels(const std::string& path, std::int64_t classes) GRAFT_MEMORY_TRY {
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
GRAFT_MEMORY_CATCH(path)

GRAFT_INLINE result<classifier> classifier::make(const graft::model& m, const classifier_options& options) GRAFT_MEMORY_TRY {
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
    while (!options.output.empty() && made.output_ < m.outputs().size() && m.outputs()[made.output_].name != options.output) ++made.output_;
    if (made.output_ == m.outputs().size()) return fail(errc::input_name, "--output " + options.output, "the model has no output of that name");
    made.format_ = {input.type, input.extents, true};
    GRAFT_TRY_ASSIGN(made.preprocess_, choose_preprocess(options.preprocess, m.metadata("graft.preprocess"), made.format_));
    // What the specification asks of the model can be told before the first picture.
    auto complete_spec = complete(made.preprocess_.spec, made.format_);
    if (!complete_spec.ok()) return complete_spec.take_status();

    std::int64_t classes = -1;
    GRAFT_TRY_ASSIGN(classes, detail::classes_of(m, made.output_));
    if (!options.labels.empty())
        GRAFT_TRY_ASSIGN(made.labels_, read_labels(options.labels, classes));
    else
        GRAFT_TRY_ASSIGN(made.labels_, detail::labels_of(m, classes, options.load.limits));
    return made;
}
GRAFT_MEMORY_CATCH("classifier::make")

GRAFT_INLINE result<classifier> classifier::load(const std::string& path, const classifier_options& options) GRAFT_MEMORY_TRY {
    graft::model m;
    load_options how = options.load;
    how.open_batch = true;
    GRAFT_TRY_ASSIGN(m, graft::load(path, how));
    return make(m, options);
}
GRAFT_MEMORY_CATCH(path)

// Runs pictures of one shape, and adds a row for each.
GRAFT_INLINE status classifier::add_rows(const std::vector<tensor>& prepared, std::vector<std::vector<double>>& rows) GRAFT_MEMORY_TRY {
    const value_info& input = model_.inputs()[input_];
    const auto wanted = static_cast<std::int64_t>(prepared.size());
    // A model with a fixed batch gets the last picture as often as there is room.
    const std::int64_t fixed = input.has_shape && input.extents.rank() > 0 ? input.extents[0] : -1, batch = fixed > 0 ? fixed : wanted;
    tensor all = prepared[0];
    if (batch > 1) {
        shape extents = all.shape();
        extents[0] = batch;
        GRAFT_TRY_ASSIGN(all, tensor::make(all.type(), extents));
        for (std::int64_t i = 0; i < batch; ++i) {
            const tensor& one = prepared[static_cast<std::size_t>(std::min(i, wanted - 1))];
            std::memcpy(all.raw() + static_cast<std::size_t>(i) * one.bytes(), one.raw(), one.bytes());
        }
    }
    GRAFT_TRY(session_.set_input(input_, all));
    GRAFT_TRY(session_.run());
    const tensor& scores = session_.output(output_);
    if (classes_in(scores.shape(), batch) < 1) return detail::no_classes(model_, output_, scores.shape());
    for (std::int64_t i = 0; i < wanted; ++i) rows.push_back(class_probabilities(model_.graph(), scores, i, batch, output_));
    return {};
}
GRAFT_MEMORY_CATCH("classifier::add_rows")

GRAFT_INLINE result<std::vector<std::vector<double>>> classifier::probabilities(const std::vector<image>& pictures) GRAFT_MEMORY_TRY {
    constexpr std::size_t most = 32;  // at once: enough for every core, and little memory
    const value_info& input = model_.inputs()[input_];
    const std::size_t room = input.has_shape && input.extents.rank() > 0 && input.extents[0] > 0 ? static_cast<std::size_t>(input.extents[0]) : most;
    std::vector<std::vector<double>> rows;
    std::vector<tensor> prepared;
    for (const image& picture : pictures) {
        tensor pixels;
        GRAFT_TRY_ASSIGN(pixels, preprocess(picture, preprocess_.spec, format_, limits_));
        if (!prepared.empty() && (prepared.size() == room || pixels.shape() != prepared[0].shape())) {
            GRAFT_TRY(add_rows(prepared, rows));
            prepared.clear();
        }
        prepared.push_back(std::move(pixels));
    }
    if (!prepared.empty()) GRAFT_TRY(add_rows(prepared, rows));
    return rows;
}
GRAFT_MEMORY_CATCH("classifier::probabilities")
GRAFT_INLINE result<std::vector<double>> classifier::probabilities(const image& picture) GRAFT_MEMORY_TRY {
    tensor pixels;
    GRAFT_TRY_ASSIGN(pixels, preprocess(picture, preprocess_.spec, format_, limits_));
    std::vector<std::vector<double>> rows;
    GRAFT_TRY(add_rows({pixels}, rows));
    return std::move(rows[0]);
}
GRAFT_MEMORY_CATCH("classifier::probabilities")

GRAFT_INLINE result<std::int64_t> classifier::classes() GRAFT_MEMORY_TRY {
    std::int64_t told = -1;
    GRAFT_TRY_ASSIGN(told, detail::classes_of(model_, output_));
    if (told > 0) return told;
    preprocess_spec spec;
    GRAFT_TRY_ASSIGN(spec, complete(preprocess_.spec, format_));
    image gray;
    const bool exact = spec.crop == preprocess_spec::crop_rule::exact;
    GRAFT_TRY_ASSIGN(gray, image::make(exact ? spec.crop_height : 224, exact ? spec.crop_width : 224, 3));
    std::memset(gray.data(), 128, static_cast<std::size_t>(gray.height * gray.width * 3));
    if (!exact) spec.resize = preprocess_spec::size_rule::none;
    tensor pixels;
    GRAFT_TRY_ASSIGN(pixels, to_tensor(gray, spec, format_));
    std::vector<std::vector<double>> rows;
    GRAFT_TRY(add_rows({pixels}, rows));
    return static_cast<std::int64_t>(rows[0].size());
}
GRAFT_MEMORY_CATCH("classifier::classes")

GRAFT_INLINE result<std::vector<prediction>> classifier::best(const std::vector<double>& probabilities, int top) GRAFT_MEMORY_TRY {
    if (!labels_.empty()) GRAFT_TRY(detail::fit_labels(labels_, "labels", static_cast<std::int64_t>(probabilities.size())));
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
GRAFT_MEMORY_CATCH("classifier::best")

GRAFT_INLINE result<std::vector<prediction>> classifier::classify(const image& picture, int top) GRAFT_MEMORY_TRY {
    std::vector<double> p;
    GRAFT_TRY_ASSIGN(p, probabilities(picture));
    return best(p, top);
}
GRAFT_MEMORY_CATCH("classifier::classify")
GRAFT_INLINE result<std::vector<std::vector<prediction>>> classifier::classify(const std::vector<image>& pictures, int top) GRAFT_MEMORY_TRY {
    std::vector<std::vector<double>> rows;
    GRAFT_TRY_ASSIGN(rows, probabilities(pictures));
    std::vector<std::vector<prediction>> named(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) GRAFT_TRY_ASSIGN(named[i], best(rows[i], top));
    return named;
}
GRAFT_MEMORY_CATCH("classifier::classify")

GRAFT_INLINE result<std::vector<prediction>> classifier::classify(const std::string& path, int top) GRAFT_MEMORY_TRY {
    image picture;
    GRAFT_TRY_ASSIGN(picture, decode_file(path, limits_));
    return classify(picture, top);
}
GRAFT_MEMORY_CATCH(path)

GRAFT_END_NAMESPACE
