// Generated kernels: compiled by NVRTC once for each text and architecture, kept on disk, loaded into a device.
#pragma once

#include "../../core/executor.hpp"
#include "../api/nvrtc.hpp"
#include "driver_status.hpp"
#include "../kernel.hpp"

#include <memory>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The kernels of one device. Safe from many threads.
class module_cache {
public:
    /// The functions must outlive the cache, and so must `context`. `where` names the device in errors.
    module_cache(const api::driver_functions& driver, const api::nvrtc_functions& nvrtc, void* context, const device_traits& on, std::string where);
    ~module_cache();
    /// Makes every one of these texts ready, from the folder on disk, or compiled, side by side on the threads of `pool`; gives their
    /// modules, which those who hold them share: the last one unloads. Errors: device.compile (with the compiler's words), memory.oom,
    /// device.lost.
    result<std::vector<std::shared_ptr<void>>> prepare(const std::vector<const std::string*>& sources, executor& pool);
    /// A kernel of a module. Errors: device.compile.
    result<void*> function(void* module, const std::string& entry);

private:
    struct state;
    std::unique_ptr<state> state_;
};

/// The architecture to compile for: the device's, or the newest that NVRTC knows and the device runs, which is an older one of the same
/// major. 0 where there is none.
int compiled_arch(const api::nvrtc_functions& nvrtc, const device_traits& on);

/// Compiles CUDA C++ for an architecture such as 90. Errors: device.compile.
result<std::string> compile_kernels(const api::nvrtc_functions& nvrtc, const std::string& source, int arch, const std::string& where);

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "kernel_files.hpp"

#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

struct module_cache::state {
    const api::driver_functions& driver;
    const api::nvrtc_functions& nvrtc;
    void* context;
    device_traits on;
    std::string where, compiler;
    int arch = 0;
    std::mutex lock;
    std::map<std::string, std::weak_ptr<void>> modules;  // by text

    std::shared_ptr<void> loaded(const std::string& source) const {
        const auto at = modules.find(source);
        return at == modules.end() ? nullptr : at->second.lock();
    }
};

GRAFT_INLINE int compiled_arch(const api::nvrtc_functions& nvrtc, const device_traits& on) {
    int count = 0, best = 0;
    if (nvrtc.nvrtcGetNumSupportedArchs(&count) || count < 1 || count > 1024) return 0;
    std::vector<int> known(static_cast<std::size_t>(count));
    if (nvrtc.nvrtcGetSupportedArchs(known.data())) return 0;
    for (int arch : known)
        if (arch / 10 == on.major && arch <= on.arch() && arch > best) best = arch;
    return best;
}

GRAFT_INLINE result<std::string> compile_kernels(const api::nvrtc_functions& nvrtc, const std::string& source, int arch, const std::string& where) {
    void* program = nullptr;
    int made = nvrtc.nvrtcCreateProgram(&program, source.c_str(), "graft.cu", 0, nullptr, nullptr);
    if (made) return fail(errc::device_compile, where, std::string("NVRTC: ") + nvrtc.nvrtcGetErrorString(made));
    const std::string architecture = "--gpu-architecture=sm_" + std::to_string(arch);
    const char* options[] = {architecture.c_str(), "--std=c++17"};
    made = nvrtc.nvrtcCompileProgram(program, 2, options);
    std::string out;
    std::size_t bytes = 0;
    if (!made) {
        made = nvrtc.nvrtcGetCUBINSize(program, &bytes);
        out.resize(bytes);
        if (!made) made = nvrtc.nvrtcGetCUBIN(program, &out[0]);
        nvrtc.nvrtcDestroyProgram(&program);
        if (made) return fail(errc::device_compile, where, std::string("NVRTC: ") + nvrtc.nvrtcGetErrorString(made));
        return out;
    }
    if (!nvrtc.nvrtcGetProgramLogSize(program, &bytes) && bytes > 1) {
        out.resize(bytes);
        nvrtc.nvrtcGetProgramLog(program, &out[0]);
        out.resize(std::strlen(out.c_str()));
    }
    nvrtc.nvrtcDestroyProgram(&program);
    return fail(errc::device_compile, where, std::string("NVRTC, ") + architecture + ": " + nvrtc.nvrtcGetErrorString(made) + (out.empty() ? "" : "\n" + out));
}

GRAFT_INLINE module_cache::module_cache(const api::driver_functions& driver, const api::nvrtc_functions& nvrtc, void* context, const device_traits& on,
                                        std::string where)
    : state_(new state{driver, nvrtc, context, on, std::move(where), "", compiled_arch(nvrtc, on), {}, {}}) {
    int major = 0, minor = 0;
    nvrtc.nvrtcVersion(&major, &minor);
    state_->compiler = std::to_string(major) + "." + std::to_string(minor);
}
GRAFT_INLINE module_cache::~module_cache() = default;

GRAFT_INLINE result<std::vector<std::shared_ptr<void>>> module_cache::prepare(const std::vector<const std::string*>& sources, executor& pool) {
    state& s = *state_;
    struct job {
        const std::string* source;
        std::string cubin;
        bool compiled = false;
        status done;
    };
    std::vector<job> jobs;
    std::map<std::string, std::shared_ptr<void>> wanted;
    {
        std::lock_guard<std::mutex> guard(s.lock);
        for (auto m = s.modules.begin(); m != s.modules.end();) m = m->second.expired() ? s.modules.erase(m) : std::next(m);
        for (const std::string* source : sources) {
            const auto at = wanted.emplace(*source, nullptr);
            if (at.second && !(at.first->second = s.loaded(*source))) jobs.push_back({source, "", false, {}});
        }
    }
    if (!s.arch && !jobs.empty())
        return fail(errc::device_compile, s.where,
                    "NVRTC " + s.compiler + " does not know compute capability " + std::to_string(s.on.major) + "." + std::to_string(s.on.minor) + " of " +
                        s.on.name + "; install a newer one");
    const std::string made_for = "sm_" + std::to_string(s.arch) + " nvrtc " + s.compiler + "\n";
    const auto compile = [&](job& j) {
        auto made = compile_kernels(s.nvrtc, *j.source, s.arch, s.where);
        j.compiled = true;
        if (!made.ok()) {
            j.done = made.take_status();
            return;
        }
        j.cubin = std::move(made).value();
        keep_file(made_for + *j.source, ".cubin", j.cubin);
    };
    parallel_for(pool, static_cast<std::int64_t>(jobs.size()), [&](std::int64_t i) {
        job& j = jobs[static_cast<std::size_t>(i)];
        j.cubin = kept_file(made_for + *j.source, ".cubin");
        if (j.cubin.empty()) compile(j);
    });
    std::lock_guard<std::mutex> guard(s.lock);
    current_context now(s.driver, s.context);
    GRAFT_TRY(driver_status(s.driver, now.result(), s.where, "using its context"));
    for (job& j : jobs) {
        GRAFT_TRY(std::move(j.done));
        std::shared_ptr<void>& kept = wanted[*j.source];
        if ((kept = s.loaded(*j.source))) continue;  // another thread was faster
        void* module = nullptr;
        int result = s.driver.cuModuleLoadData(&module, j.cubin.data());
        if (result && !j.compiled && !is_lost(result)) {
            compile(j);  // what was on disk is of no use here
            GRAFT_TRY(std::move(j.done));
            result = s.driver.cuModuleLoadData(&module, j.cubin.data());
        }
        GRAFT_TRY(driver_status(s.driver, result, s.where, "loading kernels"));
        kept = std::shared_ptr<void>(module, [&driver = s.driver, context = s.context](void* unused) {
            current_context held(driver, context);
            driver.cuModuleUnload(unused);
        });
        s.modules[*j.source] = kept;
    }
    std::vector<std::shared_ptr<void>> modules;
    for (const std::string* source : sources) modules.push_back(wanted[*source]);
    return modules;
}

GRAFT_INLINE result<void*> module_cache::function(void* module, const std::string& entry) {
    state& s = *state_;
    void* found = nullptr;
    current_context now(s.driver, s.context);
    const int result = s.driver.cuModuleGetFunction(&found, module, entry.c_str());
    if (result == api::driver::result::not_found) return fail(errc::device_compile, s.where, "its kernels have no entry point '" + entry + "'");
    GRAFT_TRY(driver_status(s.driver, result, s.where, "finding a kernel"));
    return found;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
