// The simulated libnvrtc.so.13: texts are compiled for the host.
#include "cubin.hpp"
#include "kernel_runner.hpp"
#include "simulator.hpp"

#include <graft/gpu/api/nvrtc.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

using namespace graft::gpu::api;
using namespace graft_simulator;

#define GRAFT_SIMULATOR_DECLARE(type, name, parameters) GRAFT_SIMULATED type name parameters;
GRAFT_NVRTC_FUNCTIONS(GRAFT_SIMULATOR_DECLARE)

namespace {

namespace result = nvrtc::result;

constexpr int archs[] = {75, 80, 86, 89, 90, 100, 120};
constexpr char kind[] = "nvrtcProgram";

struct program {
    std::string source, name, log, cubin;
    std::vector<std::pair<std::string, std::string>> headers;
    bool compiled = false;
};

struct programs {
    std::mutex lock;
    std::map<void*, std::shared_ptr<program>> live;
};
programs& the_programs() {
    static programs* p = new programs;
    return *p;
}

std::shared_ptr<program> find_program(void* handle) {
    if (!handle || !handle_used(kind, handle)) return nullptr;
    const std::lock_guard<std::mutex> lock(the_programs().lock);
    return the_programs().live[handle];
}

struct options {
    int arch = 75;
    bool real = false;  // sm_: a CUBIN is made; compute_: PTX alone
    std::vector<std::string> defines;
    std::string wrong;
};

void read_arch(const std::string& text, options& o) {
    o.real = text.compare(0, 3, "sm_") == 0;
    const std::size_t digits = o.real ? 3 : text.compare(0, 8, "compute_") == 0 ? 8 : text.size();
    o.arch = std::atoi(text.c_str() + digits);
    if (std::find(std::begin(archs), std::end(archs), o.arch) == std::end(archs)) o.wrong = "nvrtc: error: invalid value for --gpu-architecture (-arch)\n";
}

bool begins(const std::string& text, const char* with) { return text.compare(0, std::strlen(with), with) == 0; }

// What graft may pass: more than NVRTC knows is refused, as NVRTC does.
options read_options(int count, const char* const* texts) {
    options o;
    for (int i = 0; i < count && o.wrong.empty(); ++i) {
        std::string text = texts[i];
        if ((text == "-arch" || text == "--gpu-architecture" || text == "-D" || text == "-U" || text == "-std" || text == "--std") && i + 1 < count) {
            text += (text[1] == 'D' || text[1] == 'U' ? "" : "=") + std::string(texts[++i]);
        }
        const std::size_t equals = text.find('=');
        if (begins(text, "-arch=") || begins(text, "--gpu-architecture=")) {
            read_arch(text.substr(equals + 1), o);
        } else if (begins(text, "-D") || begins(text, "-U")) {
            o.defines.push_back(text);
        } else if (begins(text, "--define-macro=") || begins(text, "--undefine-macro=")) {
            o.defines.push_back((text[2] == 'd' ? "-D" : "-U") + text.substr(equals + 1));
        } else {
            static const char* const known[] = {"-std=",
                                                "--std=",
                                                "-use_fast_math",
                                                "--use_fast_math",
                                                "-fmad=",
                                                "--fmad=",
                                                "-ftz=",
                                                "--ftz=",
                                                "-prec-div=",
                                                "--prec-div=",
                                                "-prec-sqrt=",
                                                "--prec-sqrt=",
                                                "-lineinfo",
                                                "--generate-line-info",
                                                "-default-device",
                                                "--device-as-default-execution-space",
                                                "-restrict",
                                                "--restrict",
                                                "-w",
                                                "--disable-warnings",
                                                "-maxrregcount=",
                                                "--maxrregcount=",
                                                "-extra-device-vectorization",
                                                "--extra-device-vectorization",
                                                "-diag-suppress=",
                                                "--diag-suppress=",
                                                "-no-source-include",
                                                "--no-source-include",
                                                "-I",
                                                "--include-path=",
                                                "-dopt=",
                                                "--dopt=",
                                                "-G",
                                                "--device-debug",
                                                "-split-compile=",
                                                "--split-compile=",
                                                "-minimal",
                                                "--minimal"};
            const bool fine = std::any_of(std::begin(known), std::end(known),
                                          [&](const char* k) { return k[std::strlen(k) - 1] == '=' || !std::strcmp(k, "-I") ? begins(text, k) : text == k; });
            if (!fine) o.wrong = "nvrtc: error: unrecognized option " + text + " found\n";
        }
    }
    return o;
}

// Headers that were handed over are put in their include's place.
std::string with_headers(const program& p) {
    std::string text = p.source;
    for (int round = 0; round < 16; ++round) {
        bool any = false;
        for (const auto& header : p.headers) {
            for (const std::string& line : {"#include \"" + header.first + "\"", "#include <" + header.first + ">"}) {
                const std::size_t at = text.find(line);
                if (at == std::string::npos) continue;
                text.replace(at, line.size(), header.second);
                any = true;
            }
        }
        if (!any) break;
    }
    return text;
}

}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) {
    if (const int forced = fault("nvrtcVersion")) return forced;
    if (!major || !minor) return result::invalid_input;
    const std::string version = setting("NVRTC", "13.0");
    *major = std::atoi(version.c_str());
    *minor = version.find('.') == std::string::npos ? 0 : std::atoi(version.c_str() + version.find('.') + 1);
    return result::success;
}

const char* nvrtcGetErrorString(int error) {
    static const char* const names[] = {"NVRTC_SUCCESS",
                                        "NVRTC_ERROR_OUT_OF_MEMORY",
                                        "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
                                        "NVRTC_ERROR_INVALID_INPUT",
                                        "NVRTC_ERROR_INVALID_PROGRAM",
                                        "NVRTC_ERROR_INVALID_OPTION",
                                        "NVRTC_ERROR_COMPILATION",
                                        "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE"};
    if (error >= 0 && error < 8) return names[error];
    return error == result::internal_error ? "NVRTC_ERROR_INTERNAL_ERROR" : "NVRTC_ERROR unknown";
}

int nvrtcCreateProgram(void** handle, const char* source, const char* name, int header_count, const char* const* headers, const char* const* header_names) {
    if (const int forced = fault("nvrtcCreateProgram")) return forced;
    if (!handle || !source || header_count < 0 || (header_count && (!headers || !header_names))) return result::invalid_input;
    auto made = std::make_shared<program>();
    made->source = source;
    made->name = name ? name : "default_program";
    for (int i = 0; i < header_count; ++i) made->headers.emplace_back(header_names[i], headers[i]);
    static std::uintptr_t last = 0x52000000;
    const std::lock_guard<std::mutex> lock(the_programs().lock);
    *handle = reinterpret_cast<void*>(last += 16);
    the_programs().live[*handle] = made;
    handle_made(kind, *handle);
    return result::success;
}

int nvrtcDestroyProgram(void** handle) {
    const int forced = fault("nvrtcDestroyProgram");
    if (!handle || !*handle || !handle_destroyed(kind, *handle)) return result::invalid_program;
    const std::lock_guard<std::mutex> lock(the_programs().lock);
    the_programs().live.erase(*handle);
    *handle = nullptr;
    return forced;
}

int nvrtcCompileProgram(void* handle, int option_count, const char* const* option_texts) {
    if (const int forced = fault("nvrtcCompileProgram")) return forced;
    const std::shared_ptr<program> p = find_program(handle);
    if (!p) return result::invalid_program;
    if (option_count < 0 || (option_count && !option_texts)) return result::invalid_input;
    const options o = read_options(option_count, option_texts);
    p->cubin.clear();
    p->log = o.wrong;
    if (!o.wrong.empty()) return result::invalid_option;
    const compiled made = compile(with_headers(*p), o.defines);
    p->log = made.log;
    p->compiled = made.ok;
    log_call("nvrtcCompileProgram", p->name + ", sm_" + std::to_string(o.arch) + ", " + made.path, made.ok ? 0 : static_cast<int>(result::compilation));
    if (!made.ok) return result::compilation;
    if (o.real) p->cubin = cubin_of(made.path, o.arch);
    return o.real && p->cubin.empty() ? static_cast<int>(result::internal_error) : result::success;
}

int nvrtcGetProgramLogSize(void* handle, std::size_t* bytes) {
    if (const int forced = fault("nvrtcGetProgramLogSize")) return forced;
    const std::shared_ptr<program> p = find_program(handle);
    if (!p) return result::invalid_program;
    if (!bytes) return result::invalid_input;
    *bytes = p->log.size() + 1;
    return result::success;
}

int nvrtcGetProgramLog(void* handle, char* log) {
    if (const int forced = fault("nvrtcGetProgramLog")) return forced;
    const std::shared_ptr<program> p = find_program(handle);
    if (!p) return result::invalid_program;
    if (!log) return result::invalid_input;
    std::memcpy(log, p->log.c_str(), p->log.size() + 1);
    return result::success;
}

int nvrtcGetCUBINSize(void* handle, std::size_t* bytes) {
    if (const int forced = fault("nvrtcGetCUBINSize")) return forced;
    const std::shared_ptr<program> p = find_program(handle);
    if (!p || !p->compiled) return result::invalid_program;
    if (!bytes) return result::invalid_input;
    *bytes = p->cubin.size();
    return result::success;
}

int nvrtcGetCUBIN(void* handle, char* cubin) {
    if (const int forced = fault("nvrtcGetCUBIN")) return forced;
    const std::shared_ptr<program> p = find_program(handle);
    if (!p || !p->compiled) return result::invalid_program;
    if (!cubin) return result::invalid_input;
    std::memcpy(cubin, p->cubin.data(), p->cubin.size());
    return result::success;
}

int nvrtcGetNumSupportedArchs(int* count) {
    if (const int forced = fault("nvrtcGetNumSupportedArchs")) return forced;
    if (!count) return result::invalid_input;
    *count = static_cast<int>(sizeof archs / sizeof archs[0]);
    return result::success;
}

int nvrtcGetSupportedArchs(int* list) {
    if (const int forced = fault("nvrtcGetSupportedArchs")) return forced;
    if (!list) return result::invalid_input;
    std::copy(std::begin(archs), std::end(archs), list);
    return result::success;
}
}
