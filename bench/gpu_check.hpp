// The parts of gpu_check: each prints JSON lines and returns how many failures it found.
#pragma once

#include "gpu_common.hpp"

namespace bench {

/// What the parts are told.
struct check_options {
    std::string device = "cpu";
    std::vector<std::string> precisions;  ///< of device_options
    std::vector<std::string> models;      ///< ONNX files
    std::vector<std::string> only;        ///< operators; empty: all
    double until = 0;                     ///< by seconds(); what has not begun then is not run, and said to be
    int threads = 1;
    int steps = 50;
    std::int64_t batch = 4;
};

/// Half of the relative spacing of a precision's numbers: what one rounding changes at most. 0 for float32, which has bounds of its own.
inline double rounding_of(const std::string& precision) {
    return precision == "bfloat16" ? 0x1p-8 : precision == "float16" || precision == "tf32" ? 0x1p-11 : 0;
}

/// Every operator's test problems, or those of the operators that training adds: the device against the reference kernels.
graft::result<int> check_operators(const check_options& options, bool training);
/// Whole networks: the device against the CPU back end.
graft::result<int> check_networks(const check_options& options);
/// Training steps: losses of the device against those of the CPU; the same run twice gives the same bits.
graft::result<int> check_steps(const check_options& options);
/// Too large a batch is an error, and what fits works after it; all memory comes back.
graft::result<int> check_memory(const check_options& options);
/// Threads with a session each on one model give the bits of one thread.
graft::result<int> check_threads(const check_options& options);

}  // namespace bench
