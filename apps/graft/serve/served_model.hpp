// A model that is served: read, looked at, and replaced as a whole while requests go on.
#pragma once

#include "batch_queue.hpp"
#include "turnstile.hpp"

#include "../program.hpp"

#include <graft/core/executor.hpp>
#include <graft/explain.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace program {

/// How models are served.
struct served_options {
    std::string labels, preprocess, output;
    std::atomic<std::int64_t> requests{0};                    ///< that are being answered
    std::vector<std::shared_ptr<graft::device>> devices;      ///< one for each worker of the queue; null is the CPU
    std::vector<std::unique_ptr<graft::executor>> executors;  ///< the same for their threads; empty where there is one worker, which has the process's
    int most = 0;                                             ///< samples that run together at most; 0: as many as each makes faster, up to 16
};

/// Who draws maps of what spoke for a class; made at the first question.
struct explaining {
    turnstile turns{1};
    std::optional<graft::explainer> by;  ///< whoever has the turn has this
};

/// What a file held when it was read. Shared by the requests that began while it was served.
struct model_version {
    int number = 0;
    graft::model model;
    std::shared_ptr<batch_target> target;
    /// How pictures are named by it; none where it is no classifier of pictures, and then `no_classifier` says why.
    std::optional<graft::classifier> classifier;
    std::optional<graft::error> no_classifier;
    graft::preprocess_spec preprocess;
    graft::input_format format;
    std::shared_ptr<explaining> explains = std::make_shared<explaining>();

    /// Pictures that a run takes at least: more than one where the batch is fixed.
    std::int64_t pictures_a_run() const { return format.known && format.extents.rank() > 0 ? std::max<std::int64_t>(format.extents[0], 1) : 1; }
};
/// The probabilities of picture `picture` of a run of so many. Errors: classify.output (the output is not one number a class).
graft::result<std::vector<double>> probabilities_of(const model_version& v, const std::vector<graft::tensor>& outputs, std::int64_t picture,
                                                    std::int64_t pictures);

/// A model's file and the version of it that answers now.
class served_model {
public:
    served_model(std::string name, std::string path) : name_(std::move(name)), path_(std::move(path)) {}

    /// Reads the file, runs it once on each device, and takes it if it answers as it should; else the version before stays. Checked: it gives for its
    /// golden sample, where the file holds one, what the sample says; a picture of noise gives finite numbers, the same on every device and from two copies
    /// in one batch, as many classes as the version before named. Errors: those of loading and of a run; input.shape (another number of inputs, outputs or
    /// classes than before), op.value (another answer to its golden sample), internal (it does not answer alike).
    graft::status load(const common_options& common, served_options& options);

    const std::string& name() const noexcept { return name_; }
    const std::string& path() const noexcept { return path_; }
    std::shared_ptr<const model_version> current() const {
        const std::lock_guard<std::mutex> hold(lock_);
        return current_;
    }
    /// Whether the file is another than the one that was read last, by its time and size.
    bool changed() const;

private:
    struct stamp {
        std::int64_t time = 0, bytes = -1;
        bool operator==(const stamp& o) const { return time == o.time && bytes == o.bytes; }
    };
    stamp stamp_of_file() const;

    std::string name_, path_;
    mutable std::mutex lock_;
    std::shared_ptr<const model_version> current_;
    stamp read_;
};

}  // namespace program
