// The simulated libnccl.so.2: its version alone.
#include "simulator.hpp"

#include <graft/gpu/api/nccl.hpp>

#include <cstdlib>

using namespace graft::gpu::api;

#define GRAFT_SIMULATOR_DECLARE(type, name, parameters) GRAFT_SIMULATED type name parameters;
GRAFT_NCCL_FUNCTIONS(GRAFT_SIMULATOR_DECLARE)

extern "C" {

int ncclGetVersion(int* version) {
    if (const int forced = graft_simulator::fault("ncclGetVersion")) return forced;
    if (!version) return nccl::result::invalid_argument;
    *version = std::atoi(graft_simulator::setting("NCCL", "22707").c_str());
    return nccl::result::success;
}

const char* ncclGetErrorString(int error) {
    switch (error) {
    case nccl::result::success: return "no error";
    case nccl::result::unhandled_cuda_error: return "unhandled cuda error";
    case nccl::result::system_error: return "unhandled system error";
    case nccl::result::internal_error: return "internal error";
    case nccl::result::invalid_argument: return "invalid argument";
    case nccl::result::invalid_usage: return "invalid usage";
    case nccl::result::remote_error: return "remote process exited or there was a network error";
    default: return "unknown result code";
    }
}
}
