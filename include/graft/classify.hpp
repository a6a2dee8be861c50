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
    int index = 0;     ///< of the model's output
    std::string label; ///< its name, or the index as text where there are no names
    double probability = 0;
};

/// How a classifier is made.
struct classifier_options {
    std::string labels;     ///< a text file with one name a line; empty: the model's own, else none
    std::string preprocess; ///< a specification such as "imagenet,crop=224"; empty: the model's own, else a guess
    std::string output;     ///< the output that names classes; empty: the first
    load_options load;      ///< `classifier::load` opens the batch of a network that was exported for a fixed one, whatever `open_batch` says
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

    const graft::model& model() const& noexcept { return model_; }
    /// The names of the classes by index; empty where there are none.
    const std::vector<std::string>& labels() const& noexcept { return labels_; }
    const preprocess_choice& preprocessing() const& noexcept { return preprocess_; }
    /// The place of the output that names classes among the model's.
    std::size_t output() const noexcept { return output_; }
    /// How many classes there are: as the file says, else by a run on a gray picture. Errors: classify.output, and those of a run.
    result<std::int64_t> classes();
    // Of a temporary the thing itself.
    graft::model model() && { return std::move(model_); }
    std::vector<std::string> labels() && { return std::move(labels_); }
    preprocess_choice preprocessing() && { return std::move(preprocess_); }

private:
    classifier(const graft::model& m, const session_options& options) : model_(m), session_(m, options) {}
    result<std::vector<prediction>> best(const std::vector<double>& probabilities, int top);
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
#include "classify_body.hpp"
#endif

#include "macros_end.inl"
