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
constexpr int exit_stopped = 128;  ///< and the number of the signal that asked for it, as shells have it
constexpr int batch_auto = -2;     ///< --batch auto

/// Options that every verb takes.
struct common_options {
    bool json = false;
    bool quiet = false;
    bool exact = false;
    int threads = 0;
    std::uint64_t seed = 0;
    std::string device, precision = "auto", memory_limit;
    bool deterministic = false, strict_placement = false;
    std::string packed_file;
    std::shared_ptr<const graft::packed_store> packed;  ///< of that file; null: of none
    std::string color = "auto";
    std::string command, resume_command;  ///< the command line for a shell: as it was typed, and to go on with the run that it began
};

/// Prints `graft: error: <code>: <where>: <detail>` on stderr and returns the exit code that belongs to it.
int report(const graft::error& e);
/// Prints a line on stderr, unless -q.
void warn(const common_options& common, const std::string& text);

/// Prints one JSON object on stdout, in one line when `common.json` is set.
void print(const json& object);
/// The object in one line; what of it is not UTF-8 becomes U+FFFD.
std::string json_text(const json& object);
/// A name for JSON, which escapes control characters by itself: bytes that are no UTF-8 are written out as \xNN, so that names stay apart.
std::string utf8_text(const std::string& text);
/// `index`, `label` and `probability` of each.
json predictions_json(const std::vector<graft::prediction>& predictions);
/// `code` and `detail`.
json error_json(const graft::error& e);
/// The shape as the contract has it: numbers, names of open dimensions, "?"; null where even the rank is open.
json shape_json(const graft::value_info& value);
json shape_json(const graft::shape& extents);

/// The devices: --device, else GRAFT_DEVICE, else auto; more than one where it is a list such as cuda:0,1. Errors: usage.
graft::result<std::vector<std::string>> wanted_devices(const common_options& common);
/// The same for who takes one.
graft::result<std::string> wanted_device(const common_options& common);
/// Those devices, opened as the options say; null is the CPU. Errors: usage, device.* (also where GRAFT_REQUIRE_GPU is set and there is no GPU).
graft::result<std::vector<std::shared_ptr<graft::device>>> open_devices(const common_options& common);
/// The same for who takes one.
graft::result<std::shared_ptr<graft::device>> open_device(const common_options& common);
/// As logs and JSON name it: "cpu", "cuda:0".
std::string device_name(const std::shared_ptr<graft::device>& device);
/// How a model is loaded onto the device of the command line, or onto the one given. Errors: usage, device.*.
graft::result<graft::load_options> load_options_of(const common_options& common);
graft::load_options load_options_of(const common_options& common, std::shared_ptr<graft::device> on);
/// A model that names pictures, with the options of the command line. Errors: usage.preprocess, before the model is read; those of loading.
graft::result<graft::classifier> load_classifier(const common_options& common, const std::string& model, const std::string& labels,
                                                 const std::string& preprocess, const std::string& output);
/// What `load_classifier` loads with. Errors: usage.preprocess.
graft::result<graft::classifier_options> classifier_options_of(const common_options& common, std::shared_ptr<graft::device> on, const std::string& labels,
                                                               const std::string& preprocess, const std::string& output);
/// Warns where neither the model nor the command line says how pictures are prepared.
void warn_where_assumed(const common_options& common, const graft::preprocess_choice& choice);
/// Whether it is beside the CPU, which may have a device for a precision of its own.
bool on_gpu(const std::shared_ptr<graft::device>& device);
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

}  // namespace program
