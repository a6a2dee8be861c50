// Whether the machine has an NVIDIA GPU at all, asked of the system and not of NVIDIA's software.
#pragma once

#include "../../config.hpp"

#include <string>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// Whether the system knows an NVIDIA GPU, whatever is installed to use it: a device file of its driver (/dev/nvidia*), a device of the PCI vendor
/// 10de, or WSL's /dev/dxg; on Windows the driver's nvcuda.dll. `root`: the folder to look in ("": the system's own), which tests make.
bool has_hardware(const std::string& root = "");

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../core/directory.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// The names in a folder; none where it cannot be read.
inline std::vector<folder_entry> entries_of(const std::string& folder) {
    auto entries = list_folder(folder, errc::file_open, 1 << 16);
    return entries.ok() ? std::move(entries).value() : std::vector<folder_entry>();
}

// sysfs writes "0x10de" and the end of the line.
inline bool is_of_nvidia(const std::string& vendor_file) {
    char text[8] = "";
    if (std::FILE* file = std::fopen(vendor_file.c_str(), "rb")) {
        text[std::fread(text, 1, sizeof text - 1, file)] = 0;
        std::fclose(file);
    }
    return std::strncmp(text, "0x10de", 6) == 0;
}

}  // namespace detail

GRAFT_INLINE bool has_hardware(const std::string& root) {
#if defined(_WIN32)
    const char* told = std::getenv("SystemRoot");
    const std::string windows = !root.empty() ? root : told ? told : "C:\\Windows";
    return look_at(join_path(windows, "System32/nvcuda.dll"), errc::file_open).ok();
#else
    for (const folder_entry& file : detail::entries_of(root + "/dev"))
        if (file.name.rfind("nvidia", 0) == 0 || file.name == "dxg") return true;
    const std::string devices = root + "/sys/bus/pci/devices";
    for (const folder_entry& device : detail::entries_of(devices))
        if (detail::is_of_nvidia(join_path(join_path(devices, device.name), "vendor"))) return true;
    return false;
#endif
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
