// What a run of training writes into its folder: the model, the checkpoint, the logs.
#pragma once

#include "../core/directory.hpp"
#include "../data/dataset.hpp"
#include "../data/preprocess.hpp"
#include "../exec/session.hpp"
#include "golden.hpp"
#include "metrics_log.hpp"
#include "run_folder.hpp"
#include "tensorboard.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// Puts what a classifier needs into a model's metadata: `graft.labels` (JSON), `class_names` (one a line, for others' tools) and
/// `graft.preprocess` (a complete SPEC). Entries that were there are replaced.
void describe_classifier(graph& g, const std::vector<std::string>& classes, const preprocess_spec& complete_spec);

/// Runs a picture through the network, and keeps it and the answer in the metadata as `graft.golden`. Where values are rounded to eight bits, another
/// machine may round one the other way: the tolerance is 20 % of the answer's range there. Errors: those of loading and running.
result<golden_sample> add_golden(graph& g, const tensor& picture, int threads, op_table operators = {});
/// Whether a model gives for its golden sample what the sample says. Errors: op.value, op.shape, input.name (it has no such output), those of running.
status check_golden(session& by, const golden_sample& sample);
status check_golden(const model& m, const golden_sample& sample, int threads);

/// Runs a picture through the network, keeps it and the answer as `graft.golden`, writes the file, and holds what was written against the
/// sample by loading it again. Errors: file.write, op.value (what was written answers otherwise), those of loading and running.
status write_verified_model(graph& g, const tensor& picture, const std::string& path, int threads, op_table operators = {});

namespace detail {

// The folder of a run; with an empty path nothing is written.
class training_files {
public:
    explicit training_files(std::string folder) : folder_(std::move(folder)) {}

    bool wanted() const { return !folder_.empty(); }
    std::string path(const char* name) const { return join_path(folder_, name); }
    std::string checkpoint() const { return path("checkpoint.safetensors"); }

    // Makes the folder and opens the logs; lines of steps after `step` are of a run that was cut off, and go.
    status open(std::int64_t step, double wall_time);
    status log(const char* split, std::int64_t step, std::int64_t epoch, const named_numbers& figures, double wall_time,
               const std::vector<member_record>& members = {}, const std::vector<stage_record>& stages = {});
    // For TensorBoard; a picture without sides is none.
    status log_picture(const char* name, std::int64_t step, const image& picture, double wall_time);
    status close();

private:
    std::string folder_;
    metrics_log log_;
    event_writer events_;
};

}  // namespace detail

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/file.hpp"
#include "../core/json.hpp"
#include "../data/png_encode.hpp"
#include "../io/onnx_write.hpp"

GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE void describe_classifier(graph& g, const std::vector<std::string>& classes, const preprocess_spec& complete_spec) {
    json_writer labels;
    std::string lines;
    labels.begin_array();
    for (const std::string& c : classes) {
        labels.string(c);
        lines += (lines.empty() ? "" : "\n") + c;
    }
    labels.end_array();
    g.set_metadata("graft.labels", labels.text());
    g.set_metadata("class_names", std::move(lines));
    g.set_metadata("graft.preprocess", text(complete_spec));
}

GRAFT_INLINE result<golden_sample> add_golden(graph& g, const tensor& picture, int threads, op_table operators) GRAFT_MEMORY_TRY {
    golden_sample sample;
    for (value_id id : g.inputs)
        if (sample.input_name.empty() && !g.at(id).constant) sample.input_name = g.at(id).name;
    sample.input = picture;
    model network;
    GRAFT_TRY_ASSIGN(network, load(g, on_device(nullptr, operators)));
    session run(network, {threads, nullptr});
    std::vector<named_tensor> answers;
    GRAFT_TRY_ASSIGN(answers, run.run({{sample.input_name, picture}}));
    sample.output = answers[0].value;
    sample.output_name = answers[0].name;
    for (const node& n : g.nodes)
        if (n.op_type == "QuantizeLinear" || n.op_type.compare(0, 7, "QLinear") == 0) sample.tolerance = 0.2;
    std::string text;
    GRAFT_TRY_ASSIGN(text, encode_golden(sample));
    g.set_metadata(golden_key, std::move(text));
    return sample;
}
GRAFT_MEMORY_CATCH(golden_key)

GRAFT_INLINE status check_golden(session& by, const golden_sample& sample) GRAFT_MEMORY_TRY {
    std::vector<named_tensor> answers;
    GRAFT_TRY_ASSIGN(answers, by.run({{sample.input_name, sample.input}}));
    for (const named_tensor& answer : answers)
        if (answer.name == sample.output_name) return check_golden(sample, answer.value);
    return fail(errc::input_name, golden_key, "there is no output '" + escape(sample.output_name) + "'");
}
GRAFT_MEMORY_CATCH(golden_key)
GRAFT_INLINE status check_golden(const model& m, const golden_sample& sample, int threads) GRAFT_MEMORY_TRY {
    session by(m, {threads, nullptr});
    return check_golden(by, sample);
}
GRAFT_MEMORY_CATCH(golden_key)

GRAFT_INLINE status write_verified_model(graph& g, const tensor& picture, const std::string& path, int threads, op_table operators) GRAFT_MEMORY_TRY {
    golden_sample sample;
    GRAFT_TRY_ASSIGN(sample, add_golden(g, picture, threads, operators));
    GRAFT_TRY(write_onnx_file(g, path));
    model after;
    GRAFT_TRY_ASSIGN(after, load(path, on_device(nullptr, operators)));
    return check_golden(after, sample, threads);
}
GRAFT_MEMORY_CATCH(path)

namespace detail {

inline status training_files::open(std::int64_t step, double wall_time) {
    if (!wanted()) return {};
    GRAFT_TRY(make_folder(folder_));
    // Of a run that was killed while it wrote a model: checkpoints look after their own.
    remove_stale_temporaries(folder_, ".graft-");
    GRAFT_TRY_ASSIGN(log_, metrics_log::open(path("metrics.jsonl"), step));
    GRAFT_TRY_ASSIGN(events_, event_writer::open(folder_, wall_time, step > 0 ? step + 1 : 0));
    return {};
}
inline status training_files::log(const char* split, std::int64_t step, std::int64_t epoch, const named_numbers& figures, double wall_time,
                                  const std::vector<member_record>& members, const std::vector<stage_record>& stages) {
    if (!wanted()) return {};
    GRAFT_TRY(log_.append(step, epoch, split, figures, members, stages));
    for (const auto& f : figures) GRAFT_TRY(events_.scalar(f.first + "/" + split, step, f.second, wall_time));
    return {};
}
inline status training_files::log_picture(const char* name, std::int64_t step, const image& picture, double wall_time) {
    if (!wanted() || !picture) return {};
    std::string png;
    GRAFT_TRY_ASSIGN(png, encode_png(picture));
    return events_.picture(name, step, png, picture.height, picture.width, picture.channels, wall_time);
}
inline status training_files::close() {
    if (!wanted()) return {};
    GRAFT_TRY(log_.close());
    return events_.close();
}

}  // namespace detail
GRAFT_END_NAMESPACE
#endif
