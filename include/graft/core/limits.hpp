// Every limit that a file or a caller can run into, in one place.
#pragma once

#include "../config.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE

/// What a model, an image or a run may ask for. The defaults suit one machine; lower them for hostile input.
struct limits {
    std::int64_t model_bytes = (std::int64_t(1) << 31) - 1;  ///< protobuf part of a model
    std::int64_t external_bytes = std::int64_t(16) << 30;    ///< all external data of a model together
    std::int64_t memory_bytes = std::int64_t(16) << 30;      ///< what a model keeps and one session takes, together; and any single value
    std::int64_t fold_bytes = std::int64_t(256) << 20;       ///< all constants that folding makes, beside four times those of the graph
    std::int64_t load_work =
        std::int64_t(1) << 28;  ///< elements that folding computes, beside eight a byte of the graph's constants; sixteenths of bytes of functions written out
    int nesting = 64;           ///< subgraphs in subgraphs, groups in unknown fields
    int function_depth = 32;    ///< functions that call functions
    std::int64_t nodes = 1 << 20;                          ///< nodes after functions are written out
    std::int64_t loop_iterations = std::int64_t(1) << 20;  ///< of one Loop or Scan
    int image_side = 16384;                                ///< pixels
    std::int64_t image_pixels = std::int64_t(64) << 20;    ///< width times height
    std::int64_t image_bytes = std::int64_t(512) << 20;    ///< size of the encoded file
    int image_scans = 500;                                 ///< of a progressive JPEG
    std::int64_t json_bytes = 100000000;                   ///< header of a safetensors file (its own limit)
    int json_depth = 64;                                   ///< arrays in arrays
};

/// Stages that a network is cut into at most, and parts that a batch goes through them in.
constexpr int most_stages = 64, most_parts = 256;

GRAFT_END_NAMESPACE
