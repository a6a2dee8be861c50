// Distillation's other half: a model whose answers are learnt, with pictures prepared in its own way and classes in the dataset's order.
#pragma once

#include "../data/loader.hpp"
#include "../data/preprocess_choice.hpp"
#include "../exec/session.hpp"

#include <memory>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// A teacher. Empty until it is loaded. One thread at a time may use it.
class teacher_model {
public:
    teacher_model() = default;

    /// Loads a classifier for the classes of a dataset. Its preprocessing is that of its metadata, else a guess that fits its input
    /// (choose_preprocess). Its labels have to be the classes, in any order; a model without labels has them in the dataset's order. Errors:
    /// those of loading, input.name, classify.output, usage.preprocess, data.class_mismatch, labels.count.
    static result<teacher_model> load(const std::string& path, const std::vector<std::string>& classes, int threads, const load_options& how);

    explicit operator bool() const noexcept { return session_ != nullptr; }
    const graft::graph& graph() const noexcept { return model_.graph(); }
    /// How its pictures are prepared, for loader_options::teacher.
    const teacher_view& view() const noexcept { return view_; }
    /// Whether that was guessed, and what is assumed.
    const preprocess_choice& preprocessing() const noexcept { return choice_; }

    /// Its logits for a batch of prepared pictures, float32 [N, classes], in the order of the dataset's classes; of a model that ends in a Softmax
    /// the logarithms of what it gives. Errors: labels.count, classify.output, those of a run.
    result<tensor> logits(const tensor& inputs);
    /// The same for every picture of a dataset, without augmentation: row i is of sample i. Errors: those of the samples that cannot be read,
    /// but for those in `bad`; memory.budget, those of the loader and of a run.
    result<tensor> answers(const dataset& data, loader_options how, const std::vector<bad_sample>& bad, void (*progress)(void*, std::int64_t, std::int64_t),
                           void* context);

private:
    model model_;
    std::unique_ptr<session> session_;
    preprocess_choice choice_;
    teacher_view view_;
    std::int64_t classes_ = 0;
    std::vector<std::int64_t> column_;  // of each class of the dataset; empty: the same
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../exec/class_labels.hpp"
#include "batch_parts.hpp"
#include "evaluate.hpp"

#include <algorithm>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace detail {

inline status teacher_classes(std::int64_t has, std::size_t wanted, const std::string& path) {
    if (has == static_cast<std::int64_t>(wanted)) return {};
    return fail(errc::labels_count, path,
                "the teacher answers for " + std::to_string(has) + " classes, and the data have " + std::to_string(wanted) + ": it has to know the same ones");
}

// Which of the teacher's labels each class is.
inline result<std::vector<std::int64_t>> teacher_columns(const std::vector<std::string>& labels, const std::vector<std::string>& classes,
                                                         const std::string& path) {
    const auto missing = [&](const std::vector<std::string>& from, const std::vector<std::string>& in) -> const std::string* {
        for (const std::string& name : from)
            if (std::find(in.begin(), in.end(), name) == in.end()) return &name;
        return nullptr;
    };
    const std::string* unknown = missing(classes, labels);
    const std::string* more = missing(labels, classes);
    if (unknown || more)
        return fail(errc::data_class_mismatch, path,
                    unknown ? "class \"" + *unknown + "\" of the data is none of the teacher's " + std::to_string(labels.size())
                            : "the teacher also knows \"" + *more + "\", which is no class of the data");
    GRAFT_TRY(teacher_classes(static_cast<std::int64_t>(labels.size()), classes.size(), path));
    std::vector<std::int64_t> columns;
    for (const std::string& name : classes) columns.push_back(std::find(labels.begin(), labels.end(), name) - labels.begin());
    return columns;
}

}  // namespace detail

GRAFT_INLINE result<teacher_model> teacher_model::load(const std::string& path, const std::vector<std::string>& classes, int threads,
                                                       const load_options& how) GRAFT_MEMORY_TRY {
    teacher_model made;
    load_options opening = how;
    opening.open_batch = true;
    GRAFT_TRY_ASSIGN(made.model_, graft::load(path, opening));
    const model& m = made.model_;
    std::size_t pictures = 0;
    for (const value_info& input : m.inputs())
        if (!input.has_default) {
            ++pictures;
            made.view_.format = {input.type, input.extents, true};
        }
    if (pictures != 1 || m.outputs().empty())
        return fail(errc::input_name, path,
                    "a teacher takes one picture and gives one number a class; this model has " + std::to_string(pictures) + " inputs and " +
                        std::to_string(m.outputs().size()) + " outputs");
    GRAFT_TRY_ASSIGN(made.choice_, choose_preprocess("", m.metadata("graft.preprocess"), made.view_.format));
    GRAFT_TRY_ASSIGN(made.view_.preprocess, complete(made.choice_.spec, made.view_.format));
    made.classes_ = static_cast<std::int64_t>(classes.size());
    std::int64_t declared = -1;
    std::vector<std::string> labels;
    GRAFT_TRY_ASSIGN(declared, detail::classes_of(m, 0));
    GRAFT_TRY_ASSIGN(labels, detail::labels_of(m, declared, how.limits));
    if (!labels.empty())
        GRAFT_TRY_ASSIGN(made.column_, detail::teacher_columns(labels, classes, path));
    else if (declared >= 0)
        GRAFT_TRY(detail::teacher_classes(declared, classes.size(), path));
    made.session_.reset(new session(made.model_, {threads, nullptr}));
    return made;
}
GRAFT_MEMORY_CATCH(path)

GRAFT_INLINE result<tensor> teacher_model::logits(const tensor& inputs) GRAFT_MEMORY_TRY {
    if (!session_) return fail(errc::usage, "teacher", "it is empty: give it what teacher_model::load returns");
    const std::int64_t n = inputs.shape()[0];
    // A network that is fixed to one batch is fed by it.
    const std::int64_t fixed = view_.format.extents.rank() > 0 ? view_.format.extents[0] : 0, each = fixed > 0 ? fixed : n;
    tensor all;
    GRAFT_TRY_ASSIGN(all, tensor::make(dtype::float32, {n, classes_}));
    for (std::int64_t first = 0; first < n; first += each) {
        const std::int64_t count = std::min(each, n - first);
        tensor part = inputs, scores;
        if (each != n) GRAFT_TRY(detail::filled_up(detail::rows_of(inputs, first, first + count), each, true, part));
        GRAFT_TRY_ASSIGN(scores, session_->run(part));
        std::vector<float> rows;
        GRAFT_TRY_ASSIGN(rows, detail::logits_in(model_.graph(), 0, scores, count, each));
        GRAFT_TRY(detail::teacher_classes(static_cast<std::int64_t>(rows.size()) / count, static_cast<std::size_t>(classes_), model_.graph().name));
        float* to = all.data<float>() + first * classes_;
        for (std::int64_t i = 0; i < count; ++i)
            for (std::int64_t c = 0; c < classes_; ++c)
                to[i * classes_ + c] = rows[static_cast<std::size_t>(i * classes_ + (column_.empty() ? c : column_[static_cast<std::size_t>(c)]))];
    }
    return all;
}
GRAFT_MEMORY_CATCH("teacher_model::logits")

GRAFT_INLINE result<tensor> teacher_model::answers(const dataset& data, loader_options how, const std::vector<bad_sample>& bad,
                                                   void (*progress)(void*, std::int64_t, std::int64_t), void* context) GRAFT_MEMORY_TRY {
    how.shuffle = false;
    how.sample.preprocess = view_.preprocess;
    how.sample.format = view_.format;
    loader source;
    GRAFT_TRY_ASSIGN(source, loader::make(data, how));
    GRAFT_TRY(source.start(0));
    const std::int64_t bytes = bytes_of(dtype::float32, {data.size(), classes_});
    if (bytes < 0 || bytes > limits().memory_bytes)
        return fail(errc::memory_budget, "teacher", "its answers for all pictures would take " + std::to_string(bytes) + " bytes");
    tensor all;
    GRAFT_TRY_ASSIGN(all, tensor::zeros(dtype::float32, {data.size(), classes_}));
    batch b;
    std::int64_t done = 0;
    for (std::int64_t i = 0; i < source.batches(); ++i) {
        GRAFT_TRY(source.next(b));
        for (const bad_sample& s : b.bad)
            if (std::none_of(bad.begin(), bad.end(), [&](const bad_sample& known) { return known.index == s.index; }))
                return fail(s.code, s.name, "for the teacher: " + s.detail);
        if (b.labels.empty()) continue;
        tensor rows;
        GRAFT_TRY_ASSIGN(rows, logits(b.inputs));
        for (std::size_t k = 0; k < b.indices.size(); ++k)
            std::memcpy(all.data<float>() + b.indices[k] * classes_, rows.data<float>() + static_cast<std::int64_t>(k) * classes_,
                        static_cast<std::size_t>(classes_) * sizeof(float));
        done += b.size();
        if (progress) progress(context, done, data.size());
    }
    return all;
}
GRAFT_MEMORY_CATCH("teacher_model::answers")

GRAFT_END_NAMESPACE
#endif
