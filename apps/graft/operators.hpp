// Which operators a network has, and how many weights.
#pragma once

#include <graft/core/error.hpp>
#include <graft/graph/graph.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace program {

/// How often each operator stands in some networks, and what their weights are.
struct operator_census {
    std::map<std::string, std::int64_t> operators;  ///< by name, with the domain before it where that is not ONNX's own
    std::int64_t parameters = 0, parameter_bytes = 0;
    bool half = false;         ///< whether there are values in half precision
    bool written_out = false;  ///< whether a file has operators of com.microsoft, which are written as ONNX's when it is loaded

    /// Counts a network and its bodies too.
    void add(const graft::graph& g);
    /// Looks at a network as its file has it.
    graft::status look_at_file(const std::string& file);
    /// Every operator once, most frequent first.
    std::vector<std::pair<std::string, std::int64_t>> by_number() const;
    /// Their names without domains, sorted, each once, and those of operators that graft puts in itself: what GRAFT_OPS lists.
    std::vector<std::string> names() const;
    /// The same as one text, with commas between.
    std::string list() const;
};

}  // namespace program
