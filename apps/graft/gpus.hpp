// What doctor and monitor tell of NVIDIA GPUs and the libraries that graft needs for them.
#pragma once

#include "program.hpp"

#include <graft/gpu/runtime/devices.hpp>
#include <graft/gpu/runtime/libraries.hpp>
#include <graft/gpu/runtime/watch.hpp>

namespace program {

/// "cuda:0 NVIDIA H200", with the number of nvidia-smi behind it where that is another.
std::string gpu_title(const graft::gpu::device_info& device);
/// A device: `device, ordinal, physical, name, uuid, pci_bus_id, compute_capability, multiprocessors, memory_bytes, free_bytes,
/// driver`; null where something is not known.
json gpu_json(const graft::gpu::device_info& device);
/// A library as it stands in `libraries[]`: `name, version, used, for`, and `path, verdict, required, tried[]`.
json gpu_library_json(const graft::gpu::library_report& report);
/// Whether GPUs can be used, in a sentence; which libraries are in the way, where they are.
std::string gpu_verdict(const graft::status& available);
/// The table of the libraries, and a line below for each that cannot be used.
void print_gpu_libraries(const terminal& screen);

}  // namespace program
