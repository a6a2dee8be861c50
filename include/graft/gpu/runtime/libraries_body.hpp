// How each library is opened and judged: names, functions, versions, and what does not go together.
#pragma once

#include "driver_status.hpp"
#include "libraries.hpp"
#include "shared_library.hpp"

#include <cstdlib>
#include <utility>

GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// What is known of a library before it is found. `fix` says how to get it.
struct library_kind {
    const char* name;
    const char* needed_for;
    bool required;
    bool of_toolkit;  // else it comes with the driver
    const char* fix;
};

// Opens the library and looks up `symbols`, each with the place its address goes to. False, with the verdict set, where that fails.
struct wanted_symbol {
    const char* name;
    void** address;
};
inline bool open_and_resolve(const library_kind& kind, const std::vector<std::string>& names, const std::vector<wanted_symbol>& symbols,
                             library_report& report) {
    report.name = kind.name;
    report.needed_for = kind.needed_for;
    report.required = kind.required;
    opened_library opened = open_library(names, kind.of_toolkit);
    report.tried = std::move(opened.tried);
    if (!opened.handle) {
        const bool told = kind.of_toolkit && !environment("GRAFT_CUDA_PATH").empty();
        std::string all;
        for (const std::string& name : names) all += (all.empty() ? "" : " or ") + name;
        report.verdict = !opened.broken.empty() ? opened.broken + "; " + kind.fix
                         : told                 ? all + " is not in GRAFT_CUDA_PATH, which all libraries are to come from: add it there, or unset the variable"
                                                : all + " was not found: " + kind.fix;
        return false;
    }
    report.path = opened.path;
    for (const wanted_symbol& symbol : symbols) {
        *symbol.address = find_symbol(opened.handle, symbol.name);
        if (*symbol.address) continue;
        report.verdict = report.path + " lacks the function " + symbol.name + ", so it is too old or no " + kind.name + "; " + kind.fix;
        return false;
    }
    if (const std::string file = file_of(*symbols[0].address); !file.empty()) report.path = file;
    return true;
}

// The rows of a list as wanted symbols of `functions`.
#define GRAFT_GPU_WANTED(result, name, parameters) {#name, reinterpret_cast<void**>(&functions.name)},

inline std::string dotted(long long major, long long minor, long long patch) {
    return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}
inline std::vector<std::string> sonames(const char* linux_name, const char* windows_name) {
#if defined(_WIN32)
    (void)linux_name;
    return {windows_name};
#else
    (void)windows_name;
    return {linux_name};
#endif
}
// Names of a library that has the CUDA's major in them, the preferred one first.
inline std::vector<std::string> sonames_by_major(const char* linux_name, const char* windows_name, const char* windows_end, int preferred) {
    std::vector<std::string> out;
    for (int major : {preferred == 12 ? 12 : 13, preferred == 12 ? 13 : 12})
#if defined(_WIN32)
        out.push_back(windows_name + std::to_string(major) + windows_end);
#else
        out.push_back(linux_name + std::to_string(major));
#endif
    (void)linux_name, (void)windows_name, (void)windows_end;
    return out;
}

// Refuses what cannot work with the rest: a newer CUDA than the driver's, or one that cuDNN was not built for.
inline void check_mixture(library_report& report, int cuda, bool with_cudnn) {
    if (!report.ok) return;
    const auto& driver = load_driver();
    const std::string built = std::string(report.name) + " " + report.version + " is for CUDA " + std::to_string(cuda);
    if (driver.major && cuda > driver.major) {
        report.ok = false;
        report.verdict = built + ", but the driver is for CUDA " + driver.report.version + ": update the NVIDIA driver" +
                         (cuda == 13 ? " to 580 or newer" : "") + ", or install the libraries for CUDA " + std::to_string(driver.major);
        return;
    }
    if (!with_cudnn) return;
    const auto& cudnn = load_cudnn();
    if (!cudnn.cuda || cudnn.cuda == cuda) return;
    report.ok = false;
    report.verdict = built + ", but cuDNN (" + cudnn.report.path + ") is for CUDA " + std::to_string(cudnn.cuda) +
                     ": install both for the same CUDA, or name the folder of a whole set in GRAFT_CUDA_PATH";
}
inline void refuse(library_report& report, std::string verdict) {
    report.ok = false;
    report.verdict = std::move(verdict);
}
inline void accept(library_report& report, std::string verdict) {
    report.ok = true;
    report.verdict = std::move(verdict);
}
// The major of the CUDA whose libraries to look for first.
inline int preferred_cuda() {
    const auto& cudnn = load_cudnn();
    return cudnn.cuda ? cudnn.cuda : load_driver().major;
}

inline std::string why_no_start(const api::driver_functions& functions, const library_report& report, int error) {
    using namespace api::driver;
    if (error == result::stub_library)
        return "the CUDA driver is a stub: " + report.path +
               " is there to link with alone; take its folder out of the search path, and install the NVIDIA driver";
    if (error == result::no_device) {
        const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
        return "the driver finds no NVIDIA GPU" +
               (visible ? ", and CUDA_VISIBLE_DEVICES is \"" + escape(visible) + "\": unset it, or name a device that nvidia-smi -L lists"
                        : std::string(": see whether nvidia-smi lists one; a container has to be started with its GPUs (--gpus all)"));
    }
    if (error == result::driver_mismatch)
        return "the driver's library and the system's NVIDIA module are of different versions: restart the machine, or load the module again";
    return "the driver does not start, " + driver_error_text(functions, error) + ": see what nvidia-smi says";
}

inline loaded_library<api::driver_functions> open_driver() {
    loaded_library<api::driver_functions> out;
    api::driver_functions& functions = out.functions;
    const library_kind kind = {"CUDA driver", "all work on GPUs", true, false,
                               "install the NVIDIA driver (525 or newer); in a container, start it with its GPUs (--gpus all)"};
    if (!open_and_resolve(kind, sonames("libcuda.so.1", "nvcuda.dll"), {GRAFT_DRIVER_FUNCTIONS(GRAFT_GPU_WANTED)}, out.report)) return out;
    int version = 0;
    // asked before cuInit, which is what a driver that is too old may fail at
    if (functions.cuDriverGetVersion(&version) == api::driver::result::success && version > 0) {
        out.major = out.cuda = version / 1000;
        out.report.version = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
        if (version < 12000) {
            refuse(out.report,
                   "the NVIDIA driver is for CUDA " + out.report.version + ", and CUDA 12.0 is the oldest that graft uses: update it to 525 or newer");
            return out;
        }
    }
    if (const int error = functions.cuInit(0); error != api::driver::result::success) {
        refuse(out.report, why_no_start(functions, out.report, error));
        return out;
    }
    int count = 0;
    functions.cuDeviceGetCount(&count);
    accept(out.report, "for CUDA " + out.report.version + ", " + std::to_string(count) + (count == 1 ? " device" : " devices"));
    return out;
}

inline loaded_library<api::cudnn_functions> open_cudnn() {
    loaded_library<api::cudnn_functions> out;
    api::cudnn_functions& functions = out.functions;
    const library_kind kind = {"cuDNN", "convolutions", true, true,
                               "install cuDNN 9 (pip install nvidia-cudnn-cu13, or -cu12), or name its folder in GRAFT_CUDA_PATH"};
    if (!open_and_resolve(kind, sonames("libcudnn.so.9", "cudnn64_9.dll"), {GRAFT_CUDNN_FUNCTIONS(GRAFT_GPU_WANTED)}, out.report)) return out;
    const auto version = static_cast<long long>(functions.cudnnGetVersion());
    const auto runtime = static_cast<long long>(functions.cudnnGetCudartVersion());
    // until 8 a major was 1000
    const long long unit = version < 10000 ? 1000 : 10000;
    out.major = static_cast<int>(version / unit);
    out.cuda = static_cast<int>(runtime / 1000);
    out.report.version = dotted(out.major, version % unit / 100, version % 100);
    if (out.major != 9) {
        out.cuda = 0;
        refuse(out.report, "cuDNN " + out.report.version + " is " + (out.major < 9 ? "older" : "newer") + " than the 9.x that graft knows; " + kind.fix);
        return out;
    }
    accept(out.report, "for CUDA " + std::to_string(out.cuda));
    check_mixture(out.report, out.cuda, false);
    return out;
}

// What cuBLASLt and NVRTC share: majors 12 and 13, which are those of their CUDA.
template <class Functions>
inline void judge_by_major(loaded_library<Functions>& out, const library_kind& kind, const std::string& version) {
    out.report.version = version;
    out.cuda = out.major;
    if (out.major != 12 && out.major != 13) {
        refuse(out.report, std::string(kind.name) + " " + out.report.version + " is " + (out.major < 12 ? "older than the 12" : "newer than the 13") +
                               ".x that graft knows; " + kind.fix);
        return;
    }
    accept(out.report, "for CUDA " + std::to_string(out.cuda));
    check_mixture(out.report, out.cuda, true);
}

inline loaded_library<api::cublaslt_functions> open_cublaslt() {
    loaded_library<api::cublaslt_functions> out;
    api::cublaslt_functions& functions = out.functions;
    const library_kind kind = {"cuBLASLt", "matrix products", true, true,
                               "install cuBLAS 12 or 13 (pip install nvidia-cublas, or nvidia-cublas-cu12), or name its folder in GRAFT_CUDA_PATH"};
    const auto names = sonames_by_major("libcublasLt.so.", "cublasLt64_", ".dll", preferred_cuda());
    if (!open_and_resolve(kind, names, {GRAFT_CUBLASLT_FUNCTIONS(GRAFT_GPU_WANTED)}, out.report)) return out;
    const auto version = static_cast<long long>(functions.cublasLtGetVersion());
    out.major = static_cast<int>(version / 10000);
    judge_by_major(out, kind, dotted(out.major, version % 10000 / 100, version % 100));
    return out;
}

// NVRTC opens this one by its bare name when it first compiles, and names no folder: where only pip's folder has it, the system's loader
// would not find it. What is open already is found by that name.
inline std::string nvrtc_builtins_name(int major, int minor) {
#if defined(_WIN32)
    return "nvrtc-builtins64_" + std::to_string(major * 10 + minor) + ".dll";
#else
    return "libnvrtc-builtins.so." + std::to_string(major) + "." + std::to_string(minor);
#endif
}

inline loaded_library<api::nvrtc_functions> open_nvrtc() {
    loaded_library<api::nvrtc_functions> out;
    api::nvrtc_functions& functions = out.functions;
    const library_kind kind = {"NVRTC", "kernels compiled at run time", true, true,
                               "install NVRTC 12 or 13 (pip install nvidia-cuda-nvrtc, or nvidia-cuda-nvrtc-cu12), or name its folder in GRAFT_CUDA_PATH"};
    const auto names = sonames_by_major("libnvrtc.so.", "nvrtc64_", "0_0.dll", preferred_cuda());
    if (!open_and_resolve(kind, names, {GRAFT_NVRTC_FUNCTIONS(GRAFT_GPU_WANTED)}, out.report)) return out;
    int minor = 0;
    functions.nvrtcVersion(&out.major, &minor);
    judge_by_major(out, kind, std::to_string(out.major) + "." + std::to_string(minor));
    if (out.report.ok) open_beside(out.report.path, nvrtc_builtins_name(out.major, minor));
    return out;
}

inline loaded_library<api::nvml_functions> open_nvml() {
    loaded_library<api::nvml_functions> out;
    api::nvml_functions& functions = out.functions;
    const library_kind kind = {"NVML", "watching devices", false, false, "it comes with the NVIDIA driver; without it devices work, but cannot be watched"};
    if (!open_and_resolve(kind, sonames("libnvidia-ml.so.1", "nvml.dll"), {GRAFT_NVML_FUNCTIONS(GRAFT_GPU_WANTED)}, out.report)) return out;
    if (const int error = functions.nvmlInit_v2(); error != api::nvml::result::success) {
        const char* text = functions.nvmlErrorString(error);
        refuse(out.report, std::string("NVML does not start: ") + (text ? text : "error " + std::to_string(error)) + "; see what nvidia-smi says");
        return out;
    }
    char version[96] = "";
    if (functions.nvmlSystemGetDriverVersion(version, sizeof version) == api::nvml::result::success) out.report.version = version;
    out.major = std::atoi(version);
    accept(out.report, "of driver " + out.report.version);
    return out;
}

inline loaded_library<api::nccl_functions> open_nccl() {
    loaded_library<api::nccl_functions> out;
    api::nccl_functions& functions = out.functions;
    const library_kind kind = {"NCCL", "training on several devices", false, true,
                               "install NCCL 2 (pip install nvidia-nccl-cu13, or -cu12), or name its folder in GRAFT_CUDA_PATH; one device works without it"};
    if (!open_and_resolve(kind, sonames("libnccl.so.2", "nccl.dll"), {GRAFT_NCCL_FUNCTIONS(GRAFT_GPU_WANTED)}, out.report)) return out;
    int version = 0;
    functions.ncclGetVersion(&version);
    const int unit = version < 10000 ? 1000 : 10000;  // until 2.8 a major was 1000
    out.major = version / unit;
    out.report.version = dotted(out.major, version % unit / 100, version % 100);
    if (out.major != 2)
        refuse(out.report, "NCCL " + out.report.version + " is not the 2.x that graft knows; " + kind.fix);
    else
        accept(out.report, "can be used");
    return out;
}
#undef GRAFT_GPU_WANTED

}  // namespace detail

GRAFT_INLINE const loaded_library<api::driver_functions>& load_driver() {
    static const loaded_library<api::driver_functions> it = detail::open_driver();
    return it;
}
GRAFT_INLINE const loaded_library<api::cudnn_functions>& load_cudnn() {
    static const loaded_library<api::cudnn_functions> it = detail::open_cudnn();
    return it;
}
GRAFT_INLINE const loaded_library<api::cublaslt_functions>& load_cublaslt() {
    static const loaded_library<api::cublaslt_functions> it = detail::open_cublaslt();
    return it;
}
GRAFT_INLINE const loaded_library<api::nvrtc_functions>& load_nvrtc() {
    static const loaded_library<api::nvrtc_functions> it = detail::open_nvrtc();
    return it;
}
GRAFT_INLINE const loaded_library<api::nvml_functions>& load_nvml() {
    static const loaded_library<api::nvml_functions> it = detail::open_nvml();
    return it;
}
GRAFT_INLINE const loaded_library<api::nccl_functions>& load_nccl() {
    static const loaded_library<api::nccl_functions> it = detail::open_nccl();
    return it;
}

GRAFT_INLINE std::vector<const library_report*> library_reports() {
    return {&load_driver().report, &load_cudnn().report, &load_cublaslt().report, &load_nvrtc().report, &load_nvml().report, &load_nccl().report};
}

namespace detail {
// The places, without what is said of those that simply have no such file.
inline std::string places_text(const std::vector<std::string>& tried) {
    std::string out;
    for (const std::string& place : tried) {
        const std::string none = ": no such file";
        const bool absent = place.size() > none.size() && place.compare(place.size() - none.size(), none.size(), none) == 0;
        out += (out.empty() ? "" : ", ") + (absent ? place.substr(0, place.find(" (")) : place);
    }
    return out;
}
}  // namespace detail

GRAFT_INLINE status available() {
    const auto& driver = load_driver();
    std::string missing;
    const auto look = [&](const library_report& report) {
        if (report.ok) return;
        missing += (missing.empty() ? "" : "; ") + std::string(report.name) + ": " + report.verdict;
        if (report.path.empty() && !report.tried.empty()) missing += " (looked at " + detail::places_text(report.tried) + ")";
    };
    look(driver.report);
    // Without a driver there is no GPU, and no need to open hundreds of megabytes.
    if (driver) {
        look(load_cudnn().report);
        look(load_cublaslt().report);
        look(load_nvrtc().report);
    }
    if (missing.empty()) {
        int count = 0;
        if (const int error = driver.functions.cuDeviceGetCount(&count); error != api::driver::result::success)
            missing = "the driver does not count its devices: " + driver_error_text(driver.functions, error);
        else if (!count)
            missing = "the driver has no device: see whether nvidia-smi lists one, and what CUDA_VISIBLE_DEVICES is";
    }
    return missing.empty() ? status() : fail(errc::device_unavailable, "cuda", missing);
}

}  // namespace gpu
GRAFT_END_NAMESPACE
