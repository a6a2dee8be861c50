// The vendor's libraries in this process: found, opened and judged at their first use, each once. Nothing is linked.
#pragma once

#include "../../core/error.hpp"
#include "../api/cublaslt.hpp"
#include "../api/cudnn.hpp"
#include "../api/driver.hpp"
#include "../api/nccl.hpp"
#include "../api/nvml.hpp"
#include "../api/nvrtc.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// What became of one library.
struct library_report {
    const char* name = "";           ///< "CUDA driver", "cuDNN", ...
    const char* needed_for = "";     ///< what graft does with it
    bool required = false;           ///< the back end does not work without it
    bool ok = false;                 ///< it can be used
    std::string path;                ///< the file; "" where none was opened
    std::string version;             ///< "9.19.0"; "" where it could not be asked
    std::string verdict;             ///< a sentence; where not ok, what is wrong and what to do
    std::vector<std::string> tried;  ///< places that were looked at in vain, and what was there
};

/// A library's functions, and what became of it. The functions are only to be called where the report is ok.
template <class Functions>
struct loaded_library {
    Functions functions;
    library_report report;
    int major = 0;  ///< of its version; of the driver, of the CUDA that it is for
    int cuda = 0;   ///< the major of the CUDA that it was built for; 0 where it does not tell
    explicit operator bool() const noexcept { return report.ok; }
};

/// The driver, ready to be asked for devices: cuInit was called. No context is made.
const loaded_library<api::driver_functions>& load_driver();
/// cuDNN 9. It opens its own parts, and cuBLASLt and NVRTC by name when it needs them: load those two as well before it runs.
const loaded_library<api::cudnn_functions>& load_cudnn();
/// cuBLASLt 12 or 13: where there is a choice, that of cuDNN's CUDA, else of the driver's.
const loaded_library<api::cublaslt_functions>& load_cublaslt();
/// NVRTC 12 or 13, chosen as cuBLASLt is.
const loaded_library<api::nvrtc_functions>& load_nvrtc();
/// NVML, initialised.
const loaded_library<api::nvml_functions>& load_nvml();
/// NCCL 2.
const loaded_library<api::nccl_functions>& load_nccl();

/// All of them, in the order above.
std::vector<const library_report*> library_reports();

/// Whether the back end can be used: every library that it needs, and at least one device. Errors: device_unavailable, with what is
/// missing, where it was looked for, and what to do; without a driver the other libraries are not looked for.
status available();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "libraries_body.hpp"
#endif
