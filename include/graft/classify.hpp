// Pictures to names: a model, its labels and its preprocessing in one object.
#pragma once

#include "macros_begin.inl"

#include "data/decode.hpp"
#include "data/image.hpp"
#include "data/preprocess_choice.hpp"
#include "exec/class_scores.hpp"
#include "exec/session.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// One answer of a classifier.
struct prediction {
    int index = 0;      ///< of the model's output
    std::string label;  ///< its name, or the index as text where there are no names
    double probability = 0;
};

/// How a classifier is made.
struct classifier_options {
    std::string labels;      ///< a text file with one name a line; empty: the model's own, else none
    std::string preprocess;  ///< a specification such as "imagenet,crop=224"; empty: the model's own, else a guess
    std::string output;      ///< the output that names classes; empty: the first
    load_options load;       ///< `classifier::load` opens the batch of a network that was exported for a fixed one, whatever `open_batch` says
    session_options session;
};

/// Names what is in pictures. It holds a session, so bring one a thread; copies of its model are cheap.
class classifier {
public:
    /// Loads a model with one picture input. Errors: those of `load`; file.open and labels.count (the labels);
    /// usage.preprocess; input.name and input.shape (the model does not take one picture); classify.output (what it gives is not one number
    /// a class: seen here where the file tells the shape, else at the first picture).
    static result<classifier> load(const std::string& path, const classifier_options& options = {});
    /// The same of a model that is loaded already.
    static result<classifier> make(const model& m, const classifier_options& options = {});

    /// The `top` likeliest classes of a picture file, likeliest first; of equal ones the lower index first. Errors: image.*,
    /// preprocess.crop, and those of a run.
    result<std::vector<prediction>> classify(const std::string& path, int top = 5);
    /// The same of a picture in memory, RGB.
    result<std::vector<prediction>> classify(const image& picture, int top = 5);
    /// The same of many pictures, in their order: at once as far as the model takes so many and they have one size when they are prepared.
    result<std::vector<std::vector<prediction>>> classify(const std::vector<image>& pictures, int top = 5);
    /// The probability of every class, by index.
    result<std::vector<double>> probabilities(const image& picture);
    /// The same of many pictures: a row for each.
    result<std::vector<std::vector<double>>> probabilities(const std::vector<image>& pictures);
    /// Of the probabilities of all classes, by index, the `top` likeliest with their names, in the order of `classify`. Errors: labels.count.
    result<std::vector<prediction>> best(const std::vector<double>& probabilities, int top = 5) const;

    const graft::model& model() const& noexcept { return model_; }
    /// The names of the classes by index; empty where there are none.
    const std::vector<std::string>& labels() const& noexcept { return labels_; }
    const preprocess_choice& preprocessing() const& noexcept { return preprocess_; }
    /// The place of the output that names classes among the model's.
    std::size_t output() const noexcept { return output_; }
    /// How many classes there are: as the file says, else by a run on a gray picture. Errors: classify.output, and those of a run.
    result<std::int64_t> classes();
    /// A name for each class: its label, else its number, as the digits of an IDX file are called. Errors: those of `classes`; labels.count.
    result<std::vector<std::string>> class_names();
    // Of a temporary the thing itself.
    graft::model model() && { return std::move(model_); }
    std::vector<std::string> labels() && { return std::move(labels_); }
    preprocess_choice preprocessing() && { return std::move(preprocess_); }

private:
    classifier(const graft::model& m, const session_options& options) : model_(m), session_(m, options) {}
    status add_rows(const std::vector<tensor>& prepared, std::vector<std::vector<double>>& rows);

    graft::model model_;
    graft::session session_;
    preprocess_choice preprocess_;
    input_format format_;
    std::vector<std::string> labels_;
    std::size_t input_ = 0, output_ = 0;
    limits limits_;
};

/// Reads class names for a model with `classes` outputs: UTF-8, one a line. One line too few makes output 0 "background".
/// Errors: file.open, labels.count.
result<std::vector<std::string>> read_labels(const std::string& path, std::int64_t classes);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
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
        return fail(errc::input_name, "classify", "the model asks for " + std::to_string(pictures) + " inputs; one picture is what it can be given");
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
GRAFT_INLINE result<std::vector<std::string>> classifier::class_names() GRAFT_MEMORY_TRY {
    std::int64_t count = 0;
    GRAFT_TRY_ASSIGN(count, classes());
    std::vector<std::string> names = labels_;
    if (!names.empty()) {
        GRAFT_TRY(detail::fit_labels(names, "labels", count));
        return names;
    }
    for (std::int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
    return names;
}
GRAFT_MEMORY_CATCH("classifier::class_names")

GRAFT_INLINE result<std::vector<prediction>> classifier::best(const std::vector<double>& probabilities, int top) const GRAFT_MEMORY_TRY {
    // Where the file did not say how many classes there are, the names may lack the first one's.
    std::vector<std::string> fitted;
    const bool fit = labels_.empty() || labels_.size() == probabilities.size();
    if (!fit) {
        fitted = labels_;
        GRAFT_TRY(detail::fit_labels(fitted, "labels", static_cast<std::int64_t>(probabilities.size())));
    }
    const std::vector<std::string>& names = fit ? labels_ : fitted;
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
        predictions.push_back({order[i], index < names.size() ? names[index] : std::to_string(order[i]), probabilities[index]});
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
#endif

#include "macros_end.inl"
