// Shared libraries opened while the program runs, and where they are looked for. None is ever closed again.
#pragma once

#include "../../config.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// An open library, or why there is none.
struct opened_library {
    void* handle = nullptr;
    std::string path;                ///< as it was opened: absolute, or a name that the system's loader knew
    std::vector<std::string> tried;  ///< each place that was looked at before, and what was there
    std::string broken;              ///< of the first file that is there and cannot be opened: its path and the loader's words
};

/// Opens the first of `names` (in order of preference) that the process has, else that is found. Places, in order: the folders of
/// GRAFT_CUDA_PATH, with their lib64 and lib; the system's loader; CUDA_HOME, CUDA_PATH, /usr/local/cuda; pip's and conda's folders
/// under VIRTUAL_ENV and CONDA_PREFIX. Where GRAFT_CUDA_PATH is set, what is `of_toolkit` is looked for there alone; the rest, which
/// comes with the driver, is looked for there and by the system's loader. Relative folders are refused, and so is the working directory.
opened_library open_library(const std::vector<std::string>& names, bool of_toolkit);

/// Opens `name` in the folder of the library `path`, where it is there: for what that library will open by its name alone.
void open_beside(const std::string& path, const std::string& name);

/// The address of what a library exports under `name`; null if nothing.
void* find_symbol(void* handle, const char* name) noexcept;
/// The file that the code at `address` was loaded from; "" where the system does not tell.
std::string file_of(void* address);

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../core/directory.hpp"
#include "../../core/keep_loaded.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>
#if defined(_WIN32)
#include <cstdint>
#else
#include <dlfcn.h>
#endif

GRAFT_BEGIN_NAMESPACE
#if defined(_WIN32)
namespace windows {
using procedure = std::intptr_t(__stdcall*)();
constexpr unsigned long search_beside_and_system = 0x1100, search_system = 0x1000;  // LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR, _DEFAULT_DIRS
extern "C" {
__declspec(dllimport) module __stdcall LoadLibraryExA(const char* name, void* file, unsigned long flags);
__declspec(dllimport) module __stdcall GetModuleHandleA(const char* name);
__declspec(dllimport) unsigned long __stdcall GetModuleFileNameA(module of, char* path, unsigned long size);
__declspec(dllimport) procedure __stdcall GetProcAddress(module of, const char* name);
__declspec(dllimport) unsigned long __stdcall GetLastError();
}
}  // namespace windows
#endif
namespace gpu {
namespace detail {

#if defined(_WIN32)
constexpr char path_separator = ';';
inline void* open_file(const std::string& path, std::string& why) {
    // what the library itself needs is looked for beside it and in the system's folders, not in PATH
    void* handle = reinterpret_cast<void*>(windows::LoadLibraryExA(path.c_str(), nullptr, windows::search_beside_and_system));
    if (!handle) why = "LoadLibrary's error " + std::to_string(windows::GetLastError());
    return handle;
}
inline void* open_name(const std::string& name, std::string& why) {
    void* handle = reinterpret_cast<void*>(windows::LoadLibraryExA(name.c_str(), nullptr, windows::search_system));
    if (!handle) why = "LoadLibrary's error " + std::to_string(windows::GetLastError());
    return handle;
}
inline void* open_already(const std::string& name) { return reinterpret_cast<void*>(windows::GetModuleHandleA(name.c_str())); }
inline bool absolute(const std::string& path) {
    return path.rfind("\\\\", 0) == 0 || (path.size() > 2 && path[1] == ':' && (path[2] == '\\' || path[2] == '/'));
}
#else
constexpr char path_separator = ':';
inline void* open_with(const char* name, int flags, std::string& why) {
    // Local, so that nothing else in the process binds to these symbols; now, so that what is missing is told here.
    void* handle = dlopen(name, flags | RTLD_LOCAL);
    if (!handle)
        if (const char* text = dlerror()) why = text;
    return handle;
}
inline void* open_file(const std::string& path, std::string& why) { return open_with(path.c_str(), RTLD_NOW, why); }
inline void* open_name(const std::string& name, std::string& why) { return open_with(name.c_str(), RTLD_NOW, why); }
inline void* open_already(const std::string& name) {
    std::string why;
    return open_with(name.c_str(), RTLD_NOW | RTLD_NOLOAD, why);
}
inline bool absolute(const std::string& path) { return !path.empty() && path[0] == '/'; }
#endif

// A place to look at: a folder, or the system's loader where `folder` is empty. `from` tells why.
struct library_place {
    std::string folder, from;
};
inline std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}
inline std::vector<std::string> split_path(const std::string& list) {
    std::vector<std::string> out;
    std::size_t begin = 0;
    while (begin <= list.size()) {
        const std::size_t end = std::min(list.find(path_separator, begin), list.size());
        out.push_back(list.substr(begin, end - begin));
        begin = end + 1;
    }
    return out;
}
inline std::vector<std::string> names_in(const std::string& folder) {
    std::vector<std::string> out;
    const auto entries = list_folder(folder, errc::file_open, 1 << 16);
    if (!entries.ok()) return out;
    for (const folder_entry& e : entries.value())
        if (e.kind == entry_kind::folder) out.push_back(e.name);
    return out;
}
// A folder of the toolkit, or of a part of it, and the folders in it that its libraries are in.
inline void add_place(std::vector<library_place>& places, const std::string& folder, const std::string& from) {
    for (const library_place& known : places)
        if (known.folder == folder) return;
    places.push_back({folder, from});
}
inline void add_root(std::vector<library_place>& places, const std::string& root, const std::string& from, bool itself) {
    if (itself) add_place(places, root, from);
#if defined(_WIN32)
    for (const char* below : {"bin/x64", "bin/x86_64", "bin"}) add_place(places, join_path(root, below), from);
#else
    for (const char* below : {"lib64", "lib"}) add_place(places, join_path(root, below), from);
#endif
}
// pip puts each library into nvidia/<part>/lib of site-packages; CUDA 13's share nvidia/cu13/lib.
inline void add_packages(std::vector<library_place>& places, const std::string& root, const std::string& from) {
#if defined(_WIN32)
    const std::vector<std::string> sites = {join_path(root, "Lib/site-packages/nvidia")};
#else
    std::vector<std::string> sites;
    for (const std::string& name : names_in(join_path(root, "lib")))
        if (name.rfind("python3", 0) == 0) sites.push_back(join_path(root, "lib/" + name + "/site-packages/nvidia"));
#endif
    for (const std::string& site : sites)
        for (const std::string& part : names_in(site)) add_root(places, join_path(site, part), from, false);
}

// Relative folders are told in `tried` and left out: what they mean depends on where the program was started.
inline std::vector<library_place> places_to_look(bool of_toolkit, std::vector<std::string>& tried) {
    std::vector<library_place> places;
    const auto take = [&](const char* variable, const std::string& folder) {
        if (folder.empty()) return false;
        if (!absolute(folder)) tried.push_back(folder + " (" + variable + "): refused, as it is not an absolute path");
        return absolute(folder);
    };
    const std::string own = environment("GRAFT_CUDA_PATH");
    for (const std::string& folder : split_path(own))
        if (take("GRAFT_CUDA_PATH", folder)) add_root(places, folder, "GRAFT_CUDA_PATH", true);
    if (!own.empty() && of_toolkit) return places;
    places.push_back({"", "the system's loader"});
    if (!of_toolkit) return places;
#if defined(_WIN32)
    for (const std::string& folder : split_path(environment("PATH")))
        if (absolute(folder)) add_place(places, folder, "PATH");
#endif
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
        if (const std::string folder = environment(variable); take(variable, folder)) add_root(places, folder, variable, false);
#if !defined(_WIN32)
    add_root(places, "/usr/local/cuda", "the toolkit's usual folder", false);
#endif
    for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
        if (const std::string folder = environment(variable); take(variable, folder)) {
            add_packages(places, folder, variable);
            if (std::string(variable) == "CONDA_PREFIX") add_root(places, folder, variable, false);
        }
    return places;
}

// A folder of LD_LIBRARY_PATH that is relative, or empty and so the working directory, and that holds `name`. The system's loader
// would take it from there.
inline std::string relative_finding(const std::string& name) {
#if !defined(_WIN32)
    const std::string list = environment("LD_LIBRARY_PATH");
    if (list.empty()) return "";
    for (const std::string& folder : split_path(list))
        if (!absolute(folder) && look_at(join_path(folder.empty() ? "." : folder, name), errc::file_open).ok()) return folder.empty() ? "." : folder;
#endif
    (void)name;
    return "";
}

// Whether the library is open now.
inline bool try_place(const library_place& at, const std::string& name, opened_library& out) {
    std::string why;
    if (at.folder.empty()) {
        if (const std::string relative = relative_finding(name); !relative.empty()) {
            out.tried.push_back(name + " (" + at.from + "): refused, as it is in the relative folder " + relative + " of LD_LIBRARY_PATH");
            return false;
        }
        out.path = name;
        out.handle = open_name(name, why);
        if (out.handle) return true;
            // What a loader says of a file that it knows nowhere names that file; anything else is about one that it found.
#if defined(_WIN32)
        const bool absent = true;
#else
        const bool absent = why.find("No such file") != std::string::npos && why.find(name) != std::string::npos;
#endif
        out.tried.push_back(name + ": " + (absent ? "not known to " + at.from : why));
        if (out.broken.empty() && !absent) out.broken = name + " cannot be loaded: " + why;
        return false;
    }
    const std::string path = join_path(at.folder, name);
    const auto found = look_at(path, errc::file_open);
    if (!found.ok() || found.value().kind != entry_kind::file) {
        out.tried.push_back(path + " (" + at.from + "): no such file");
        return false;
    }
    out.path = path;
    out.handle = open_file(path, why);
    if (out.handle) return true;
    out.tried.push_back(path + " (" + at.from + "): " + why);
    if (out.broken.empty()) out.broken = path + " cannot be loaded: " + why;
    return false;
}

}  // namespace detail

GRAFT_INLINE opened_library open_library(const std::vector<std::string>& names, bool of_toolkit) {
    opened_library out;
    const std::vector<detail::library_place> places = detail::places_to_look(of_toolkit, out.tried);
    // A library that something else in the process uses is taken, so that the process has one: but for GRAFT_CUDA_PATH, which is
    // there to say otherwise.
    const bool told = !detail::environment("GRAFT_CUDA_PATH").empty();
    for (const std::string& name : names)
        if (!told && (out.handle = detail::open_already(name)) != nullptr) {
            out.path = name;
            return out;
        }
    for (const std::string& name : names)
        for (const detail::library_place& at : places)
            if (detail::try_place(at, name, out)) return out;
    out.path.clear();
    return out;
}

GRAFT_INLINE void open_beside(const std::string& path, const std::string& name) {
    const std::size_t end = path.find_last_of("/\\");
    std::string why;
    if (detail::absolute(path)) (void)detail::open_file(join_path(path.substr(0, end), name), why);
}

GRAFT_INLINE void* find_symbol(void* handle, const char* name) noexcept {
#if defined(_WIN32)
    return reinterpret_cast<void*>(windows::GetProcAddress(reinterpret_cast<windows::module>(handle), name));
#else
    return dlsym(handle, name);
#endif
}

GRAFT_INLINE std::string file_of(void* address) {
#if defined(_WIN32)
    windows::module module = nullptr;
    char path[1024];
    if (!windows::GetModuleHandleExA(windows::by_address | windows::uncounted, static_cast<const char*>(address), &module)) return "";
    const unsigned long length = windows::GetModuleFileNameA(module, path, sizeof path);
    return length && length < sizeof path ? std::string(path, length) : "";
#else
    Dl_info about;
    return dladdr(address, &about) && about.dli_fname ? about.dli_fname : "";
#endif
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
