// Where a specification of preprocessing comes from: the caller, the model, or a guess.
#pragma once

#include "preprocess.hpp"

#include <string>

GRAFT_BEGIN_NAMESPACE

/// Where a specification of preprocessing comes from: the caller, the model's metadata, its 8-bit input (raw), or a guess by its input
/// alone.
enum class preprocess_source { given, metadata, raw_bytes, assumed };

/// A specification and where it comes from.
struct preprocess_choice {
    preprocess_spec spec;
    preprocess_source source = preprocess_source::given;
    std::string text;  ///< as it was given, or guessed
};

/// How pictures are prepared for an input: by `given`, else by `metadata` (a model's graft.preprocess), else by a guess that fits it: raw
/// for 8-bit inputs, "unit,order=gray" for one channel, imagenet for three; with crop=224 where its sides are open. Errors: usage.preprocess.
result<preprocess_choice> choose_preprocess(const std::string& given, const std::string& metadata, const input_format& input);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE result<preprocess_choice> choose_preprocess(const std::string& given, const std::string& metadata, const input_format& input) GRAFT_MEMORY_TRY {
    preprocess_choice choice;
    const bool bytes = input.type == dtype::uint8 || input.type == dtype::int8;
    const shape& e = input.extents;
    const bool pictures = input.known && e.rank() == 4, nhwc = detail::is_nhwc(e);
    std::string guess = bytes ? "raw" : pictures && e[nhwc ? 3 : 1] == 1 ? "unit,order=gray" : "imagenet";
    if (pictures && (e[nhwc ? 1 : 2] < 1 || e[nhwc ? 2 : 3] < 1)) guess += ",crop=224";
    choice.source = !given.empty()      ? preprocess_source::given
                    : !metadata.empty() ? preprocess_source::metadata
                    : bytes             ? preprocess_source::raw_bytes
                                        : preprocess_source::assumed;
    choice.text = !given.empty() ? given : !metadata.empty() ? metadata : guess;
    GRAFT_TRY_ASSIGN(choice.spec, parse_preprocess(choice.text));
    return choice;
}
GRAFT_MEMORY_CATCH("choose_preprocess")

GRAFT_END_NAMESPACE
#endif
