// One sample before it is decoded, what can be wrong with one, and how datasets are opened.
#pragma once

#include "../core/error.hpp"
#include "../core/limits.hpp"

#include <cstdint>
#include <memory>
#include <string>

GRAFT_BEGIN_NAMESPACE

/// Told from time to time, on the calling thread, how many samples are done.
struct dataset_progress {
    void (*report)(void* context, std::int64_t done, std::int64_t total) = nullptr;
    void* context = nullptr;
};

/// How a dataset is opened and divided.
struct dataset_options {
    /// What its files may ask for: `image_*` for a picture, `memory_bytes` for the pixels that IDX and CIFAR files hold in all.
    graft::limits limits;
    /// The share of each class that is kept for validation where the dataset has no validation part, in [0, 1); 0 keeps none.
    double validation_fraction = 0.2;
    /// Decides which ones are kept.
    std::uint64_t seed = 0;
    /// Whether copies of a picture come to one side of a draw: every picture is read and decoded once for that (`find_copies`), on `threads`
    /// threads (0: default_threads()), and `progress` is told.
    bool together = true;
    int threads = 0;
    dataset_progress progress;
    /// Whether a class without pictures is taken; else it is `data.empty_class`.
    bool allow_empty = false;
    /// The part that `open_dataset` gives: "train", "validation" (or "val"), "test"; "" for all of them.
    std::string split;
};

/// The undecoded contents of one sample: an encoded file, or raw pixels.
struct sample_bytes {
    const std::uint8_t* data = nullptr;
    std::size_t size = 0;
    std::shared_ptr<const void> owner;  ///< keeps `data` alive
    std::int64_t height = 0;            ///< 0 for an encoded file; else `data` are the pixels, 8 bits each
    std::int64_t width = 0;
    int channels = 0;     ///< of raw pixels: 1 is gray, 3 are RGB
    bool planar = false;  ///< of raw pixels: one channel after the other (CHW), else interleaved (HWC)
};

/// Something wrong with a dataset: where, of which kind, and a sentence.
struct dataset_problem {
    std::string path;  ///< bytes as the file system has them
    errc code = errc::data_format;
    std::string detail;
    bool refused = false;  ///< whether training is refused because of it; else it is passed over
};

GRAFT_END_NAMESPACE
