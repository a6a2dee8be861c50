// A model as it is put into an app: one block of bytes, and what the app has to know of it.
#pragma once

#include "../program.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace program {

/// A network without what running it does not take: its golden sample, descriptions, names that only messages use.
struct embedded_network {
    std::vector<std::uint8_t> bytes;         ///< an ONNX file, which says itself how pictures are prepared and what the classes are called
    std::vector<std::string> operators;      ///< as GRAFT_OPS lists them
    std::vector<std::string> inputs;         ///< those without a default, as text: "input float32 [N,3,64,64]"
    std::vector<std::string> outputs;        ///< the same of the outputs
    std::int64_t parameters = 0;             ///< numbers that were learnt
    std::int64_t classes = 0;                ///< that it tells apart; 0: it is no classifier
    std::optional<graft::error> unfit;       ///< why it is no classifier
    std::vector<std::string> labels;         ///< names of the classes; empty where there are none
    graft::preprocess_choice preprocessing;  ///< of a classifier
};

/// Which network, and what is said of it beside the file.
struct embedding_options {
    std::string model, labels, preprocess, output;
    bool float16 = false;     ///< weights in half precision
    bool keep_names = false;  ///< those of nodes and of values between them
};

/// Reads a model and makes it ready. One that names no classes is taken too, unless the options say what only a classifier has. Errors: those of
/// loading; labels.count, usage.preprocess; input.* and classify.output (no classifier, where the options want one); model.too_large.
graft::result<embedded_network> embed_network(const common_options& common, const embedding_options& options);

}  // namespace program
