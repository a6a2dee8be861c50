// graft_classifier_evaluate: how well a classifier knows labelled pictures.
#include "options.hpp"

#include <graft/train.hpp>

namespace bindings {
namespace {

graft::status evaluate(graft_classifier& handle, const char* data, const graft_options* options, graft_evaluation& result) {
    graft::classifier& by = handle.classifier;
    graft::evaluation_options how;
    how.threads = handle.threads;
    how.output = by.output();
    GRAFT_TRY(
        take(options, {option("batch", how.batch, 1, 1 << 20), option("bad_share", how.bad_share, 0, 1), option("threads", how.threads, 0, most_threads)}));
    graft::dataset_options opening;
    opening.allow_empty = true;
    graft::dataset pictures;
    GRAFT_TRY_ASSIGN(pictures, graft::open_dataset(data, opening));
    std::vector<std::string> classes;
    GRAFT_TRY_ASSIGN(classes, by.class_names());
    std::vector<std::int64_t> outputs;
    GRAFT_TRY_ASSIGN(outputs, graft::match_classes(pictures.classes(), classes, data));
    graft::evaluation_result found;
    GRAFT_TRY_ASSIGN(found, graft::evaluate(by.model(), pictures, by.preprocessing().spec, outputs, how));
    const graft::classification_metrics& m = found.metrics;
    if (m.samples() == 0) return graft::fail(graft::errc::data_too_many_bad, data, "none of its pictures can be read");
    graft_evaluation all{};
    all.top1 = m.top1(), all.top5 = m.top_k(), all.loss = m.loss(), all.balanced_accuracy = m.balanced_accuracy(), all.macro_f1 = m.macro_f1();
    all.pictures = m.samples(), all.bad_pictures = static_cast<std::int64_t>(found.bad.size()), all.classes = m.classes();
    hand_out(all, result);
    return {};
}

}  // namespace
}  // namespace bindings

extern "C" graft_return_code graft_classifier_evaluate(graft_classifier* classifier, const char* data, const graft_options* options, graft_evaluation* result,
                                                       graft_error** error) {
    return bindings::done(error, [&]() -> graft::status {
        GRAFT_TRY(bindings::wanted(classifier, "classifier"));
        GRAFT_TRY(bindings::wanted(data, "data"));
        GRAFT_TRY(bindings::wanted(result, "result"));
        GRAFT_TRY(bindings::check_size(*result, "graft_evaluation"));
        return bindings::evaluate(*classifier, data, options, *result);
    });
}
