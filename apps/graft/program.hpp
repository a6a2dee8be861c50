// What the verbs of the program share: options, errors, files, and loading a model.
#pragma once

#include "console.hpp"

#include <graft/core/suggest.hpp>
#include <graft/data/sample.hpp>
#include <graft/graft.hpp>
#include <graft/train.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace program {

using json = nlohmann::ordered_json;

constexpr int exit_done = 0, exit_failed = 1, exit_usage = 2;
constexpr int exit_stopped = 128; ///< and the number of the signal that asked for it, as shells have it
constexpr int batch_auto = -2; ///< --batch auto

/// Options that every verb takes.
struct common_options {
    bool json = false;
    bool quiet = false;
    bool exact = false;
    int threads = 0;
    std::uint64_t seed = 0;
    std::string device, precision = "auto", memory_limit;
    bool deterministic = false, strict_placement = false;
    std::string color = "auto";
};

struct doctor_options {};
struct monitor_options {
    double interval = 1; ///< seconds between samples
    int count = 0;       ///< samples; 0: one with --json, else until the program is stopped
};
struct info_options {
    std::string file;
    bool ops = false, placement = false;
    int train = 0; ///< samples of the training step whose memory is told; 0: none
};
struct run_options {
    std::string model, output_dir;
    std::vector<std::string> inputs;
};
struct classify_options {
    std::string model, labels, preprocess, output, csv, sort_into; ///< csv: a file, "-" for standard output, or nothing
    std::vector<std::string> images;
    double unsure = 0;         ///< least probability of what is sure
    int top = 0, preview = -1; ///< 0 and -1: as suits the output
};
struct explain_options {
    std::string model, labels, preprocess, output, out, label; ///< label: a class by its name or its index; empty: the likeliest
    std::vector<std::string> images;
    int top = 1;
};
struct bench_options {
    std::string model;
    int batch = 0, rounds = 20; ///< batch 0: as the model has it
    std::string train, arch; ///< train: "full", "head", or "" for a run
};
struct decode_options {
    std::string image, output;
};
struct preprocess_options {
    std::string image, model, preprocess, output;
};
struct check_options {
    std::string data;
    bool allow_empty = false;
};
struct augment_options {
    std::string data, preview, augment, preprocess;
    int images = 6;
};
struct evaluate_options {
    std::string model, data, labels, preprocess, output;
    int batch = 32;
    double bad_share = 0.01;
};
/// Of finetune and train. What is not given is as the library has it; numbers that are negative and texts that are empty are decided later.
struct training_options {
    bool from_scratch = false; ///< train
    std::string data, from, arch, out, command, resume_command; ///< command: for a shell, as it was typed; resume_command: to go on with what it began
    graft::finetune_options with; ///< what the options go into, and where their defaults come from
    int batch = static_cast<int>(with.batch);
    double trunk_lr = -1, warmup = -1, mixup = -1, cutmix = -1, validation = graft::dataset_options().validation_fraction;
    std::string optimizer = graft::name(with.step.optimizer.kind), loss = graft::name(with.step.loss.kind), schedule, class_weights;
    std::vector<std::string> rates; ///< REGEX=FACTOR
    std::string batch_norm = with.step.batch_norm ? "train" : "frozen", augment, preprocess, max_ram, cache;
    bool strict = false, allow_empty = false, find_lr = false;
};

// One function a verb, each in the file of its name. They return the exit code, or fail and leave the message to main.
graft::result<int> doctor(const common_options&, const doctor_options&);
graft::result<int> monitor(const common_options&, const monitor_options&);
graft::result<int> info(const common_options&, const info_options&);
graft::result<int> run(const common_options&, const run_options&);
graft::result<int> classify(const common_options&, const classify_options&);
graft::result<int> explain(const common_options&, const explain_options&);
graft::result<int> bench(const common_options&, const bench_options&);
graft::result<int> decode(const common_options&, const decode_options&);
graft::result<int> preprocess(const common_options&, const preprocess_options&);
graft::result<int> check(const common_options&, const check_options&);
graft::result<int> augment(const common_options&, const augment_options&);
graft::result<int> evaluate(const common_options&, const evaluate_options&);
graft::result<int> train(const common_options&, const training_options&);
/// Training steps instead of runs, for `bench --train`.
graft::result<int> bench_training(const common_options&, const bench_options&);

/// Prints `graft: error: <code>: <where>: <detail>` on stderr and returns the exit code that belongs to it.
int report(const graft::error& e);
/// Prints a line on stderr, unless -q.
void warn(const common_options& common, const std::string& text);

/// Prints one JSON object on stdout, in one line when `common.json` is set.
void print(const json& object);
/// `code` and `detail`.
json error_json(const graft::error& e);
/// The shape as the contract has it: numbers, names of open dimensions, "?"; null where even the rank is open.
json shape_json(const graft::value_info& value);
json shape_json(const graft::shape& extents);

/// The device: --device, else GRAFT_DEVICE, else auto. Errors: usage.
graft::result<std::string> wanted_device(const common_options& common);
/// That device, opened as the options say; null is the CPU. Errors: usage, device.* (also where GRAFT_REQUIRE_GPU is set and there is no GPU).
graft::result<std::shared_ptr<graft::device>> open_device(const common_options& common);
/// As logs and JSON name it: "cpu", "cuda:0".
std::string device_name(const std::shared_ptr<graft::device>& device);
graft::result<graft::load_options> load_options_of(const common_options& common);
/// A model that names pictures, with the options of the command line. Errors: usage.preprocess, before the model is read; those of loading.
graft::result<graft::classifier> load_classifier(const common_options& common, const std::string& model, const std::string& labels,
                                                 const std::string& preprocess, const std::string& output);
/// What `load_classifier` loads with. Errors: usage, usage.preprocess, device.*.
graft::result<graft::classifier_options> classifier_options_of(const common_options& common, const std::string& labels, const std::string& preprocess,
                                                               const std::string& output);
/// Warns where neither the model nor the command line says how pictures are prepared.
void warn_where_assumed(const common_options& common, const graft::preprocess_choice& choice);
/// "cpu, avx2", or as "cuda:0 NVIDIA H200".
std::string device_title(const std::shared_ptr<graft::device>& device);
/// The same with the precision behind it, where one was asked for.
std::string device_and_precision(const common_options& common, const std::shared_ptr<graft::device>& device);
/// Bytes of a text such as 512M or 2GiB. Errors: usage, naming the option.
graft::result<std::int64_t> size_of_text(const std::string& text, const char* option);
/// The threads that --threads means, after the environment.
int thread_count(const common_options& common);

/// Inputs that a caller must give, with every open extent replaced: the first by `batch`, pixels by 224, others by 1.
std::vector<graft::value_info> assumed_inputs(const graft::model& model, std::int64_t batch);

/// A bar for what goes through a dataset, whose length is known once that is open. Gone with the object.
class dataset_bar {
public:
    dataset_bar(const char* what, bool quiet) : what_(what), quiet_(quiet) {}
    /// Holds on to this object.
    graft::dataset_progress told();

private:
    const char* what_;
    bool quiet_;
    std::unique_ptr<progress> bar_;
};

/// The names of some classes.
std::vector<std::string> named(const std::vector<std::string>& classes, const std::vector<std::int64_t>& indices);

/// Milliseconds of a steady clock.
double now_ms();
/// The largest resident memory of this process so far, in 2^20 bytes.
double peak_rss_mb();

} // namespace program
