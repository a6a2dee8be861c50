// Batches of a dataset, made by threads ahead of whoever asks for them; the same ones whatever the number of threads.
#pragma once

#include "../core/shards.hpp"
#include "mix.hpp"
#include "sample_maker.hpp"

#include <optional>

GRAFT_BEGIN_NAMESPACE

/// A sample that could not be read, and why.
struct bad_sample {
    std::int64_t index = 0;  ///< in the dataset
    std::string name;
    errc code = errc::internal;
    std::string detail;
};

/// What a loader hands out.
struct batch {
    tensor inputs;                      ///< (N, C, H, W) or (N, H, W, C), of the type that the preprocessing says
    tensor teacher_inputs;              ///< the same samples as loader_options::teacher has them; empty without
    std::vector<std::int32_t> labels;   ///< N of them
    std::vector<std::int64_t> indices;  ///< in the dataset, N of them
    /// Where the batch was mixed: sample i is lambda[i] of `labels[i]` and the rest of `other_labels[i]`. Else both are empty.
    std::vector<std::int32_t> other_labels;
    std::vector<float> lambda;
    std::vector<bad_sample> bad;  ///< what was left out: the batch is shorter by as many, perhaps empty
    std::int64_t number = 0;      ///< in the epoch

    std::int64_t size() const noexcept { return static_cast<std::int64_t>(labels.size()); }
};

/// How a teacher sees pictures: the same ones, changed in the same way, prepared for another network.
struct teacher_view {
    preprocess_spec preprocess;
    input_format format;
};

/// How a loader goes through its dataset.
struct loader_options {
    sample_options sample;
    std::int64_t batch_size = 32;
    bool shuffle = true;     ///< in `epoch_order`; else in the dataset's
    bool drop_last = false;  ///< whether a last batch that is not full is left out
    int workers = 0;         ///< threads; 0: default_threads()
    int ahead = 4;           ///< batches made or being made before they are asked for; >= 1
    /// The share of the samples that may be bad in one epoch (of those that were visited since `start`): see `allowed_bad`; more is
    /// data.too_many_bad, which says what share there is. `strict`: the first one ends it, with its own error.
    double bad_share = 0.01;
    bool strict = false;
    /// Of a run of several members, which each have their samples of every batch (member_shards): only those of member `member` are made, and rows of
    /// others are not written; labels and indices are those of the whole batch. Where batches are mixed all are made.
    int member = 0, members = 1, shards = 1;
    /// Makes `batch::teacher_inputs` too: crops, flips and all else are drawn once for both. Erasing leaves out what is not float32, and mixing
    /// is refused there.
    std::optional<teacher_view> teacher;
};

/// How many of so many samples may be bad: the share, rounded down, but one at least, so that a single damaged file stops nothing where the
/// share is not 0 and two samples are left.
std::int64_t allowed_bad(double share, std::int64_t samples) noexcept;

namespace detail {
class loader_queue;
}

/// Makes batches in threads of its own, as many ahead as asked for. Batch b of epoch e is a function of the dataset, the options
/// but for `workers`, `ahead` and `cache`, e and b. One thread at a time may use it. Ends its threads when it goes; a sample in
/// the making is finished first.
class loader {
public:
    loader() noexcept = default;
    /// Errors: usage (a batch size, share or count that makes no sense), and those of sample_maker::make.
    static result<loader> make(const dataset& data, const loader_options& options);

    /// Batches in an epoch.
    std::int64_t batches() const noexcept;
    const sample_maker& samples() const noexcept;

    /// Begins an epoch at batch `first`, at once: threads work before the first call of `next`. Whatever was under way is given
    /// up.
    status start(std::int64_t epoch, std::int64_t first = 0);
    /// The next batch, waited for if need be; `out` may hold the one before, whose memory is used again if nobody else holds it.
    /// Errors: usage (none is left, or no epoch was started), data.too_many_bad, memory.oom; with `strict` those of the sample.
    status next(batch& out);
    /// The batch that `next` gave last, with all of its samples, for a loader of one member: where another member has found a bad sample, as what is left out
    /// moves the others. Errors: those of `next`.
    status whole(batch& out);
    /// Ends the threads; `start` begins anew.
    void stop();

    /// Seconds that `next` has waited for batches since `start`, and seconds from `start` to the last return of `next`.
    double waited_seconds() const noexcept;
    double elapsed_seconds() const noexcept;

private:
    std::shared_ptr<detail::loader_queue> queue_;
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "loader_body.hpp"
#endif
