// The vendor's libraries of one device: their functions, their handles, and how their kernels are chosen.
#pragma once

#include "../api/cublaslt.hpp"
#include "../api/cudnn.hpp"
#include "../api/driver.hpp"
#include "../kernel.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// How a library's kernel is chosen among those that it proposes. The functions are null where nothing is measured or kept.
struct library_choices {
    std::int64_t workspace_bytes = std::int64_t(256) << 20;  ///< what needs more is left out
    int candidates = 4;                                      ///< how many are timed, the library's favourites first
    void* context = nullptr;                                 ///< handed to the functions below

    /// Milliseconds that one of `runs` runs took, on memory of the function's own; negative where it failed.
    double (*milliseconds)(void* context, const kernel_query& query, const library_kernel& kernel, int runs) = nullptr;
    /// What was chosen before for `problem`, or an empty text. The problem's text names the device and the library's version.
    std::string (*recall)(void* context, const std::string& problem) = nullptr;
    /// Keeps a choice: a short line, or cuDNN's own text of a plan with the kernel that it compiled (some 100 KB), which spares the
    /// next start a second or so. Such texts have to come back as they were, or not at all: keep a checksum.
    void (*remember)(void* context, const std::string& problem, const std::string& choice) = nullptr;
};

/// Handles of cuDNN for one device, beside its first: a handle is for one thread at a time, so threads that make plans side by side have
/// one each. Itself for one thread at a time, in the device's context.
class cudnn_handles {
public:
    explicit cudnn_handles(const api::cudnn_functions& functions) noexcept : functions_(functions) {}
    ~cudnn_handles();
    cudnn_handles(const cudnn_handles&) = delete;
    cudnn_handles& operator=(const cudnn_handles&) = delete;
    /// Handle `i`, made when it is first asked for, with those before it; null where cuDNN makes no more.
    void* at(std::size_t i);

private:
    const api::cudnn_functions& functions_;
    std::vector<void*> made_;
};

/// The vendor's libraries of one device; null where a library is not there.
struct libraries {
    const api::cudnn_functions* cudnn = nullptr;
    void* cudnn_handle = nullptr;
    cudnn_handles* more_handles = nullptr;  ///< null: plans are made one by one
    void* cudnn_device = nullptr;           ///< cuDNN's descriptor of a device that plans are made for ahead of time; null: the handle's device
    const api::cublaslt_functions* cublaslt = nullptr;
    void* cublaslt_handle = nullptr;
    const api::driver_functions* driver = nullptr;
    void* driver_context = nullptr;  ///< that of the device, for threads that work for it; null: they need none
    library_choices choices;
};

/// The rows of a family.
using library_table = row_table<library_row>;

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE
namespace gpu {

GRAFT_INLINE cudnn_handles::~cudnn_handles() {
    for (void* handle : made_) functions_.cudnnDestroy(handle);
}
GRAFT_INLINE void* cudnn_handles::at(std::size_t i) {
    while (made_.size() <= i) {
        void* handle = nullptr;
        if (functions_.cudnnCreate(&handle)) return nullptr;
        made_.push_back(handle);
    }
    return made_[i];
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
