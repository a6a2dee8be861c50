// Whether a machine has an NVIDIA GPU, on folders laid out as /dev and /sys are.
#include <graft/gpu/backend.hpp>
#include <graft/gpu/runtime/hardware.hpp>

#include "../data/made_dataset.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

#if !defined(_WIN32)
using graft::gpu::has_hardware;

TEST_CASE("a machine without NVIDIA's devices has no GPU of theirs") {
    const made_folder machine;
    CHECK_FALSE(has_hardware(machine.path));
    for (const char* file : {"dev/null", "dev/nvme0", "dev/kfd", "dev/dri/card0", "usr/lib/libcuda.so.1"}) machine.put(file, "");
    machine.put("sys/bus/pci/devices/0000:00:00.0/vendor", "0x8086\n");
    machine.put("sys/bus/pci/devices/0000:03:00.0/vendor", "0x1002\n");
    machine.put("sys/bus/pci/devices/0000:03:00.0/device", "0x10de\n");
    machine.put("sys/bus/pci/devices/0000:04:00.0/vendor", "");
    machine.make("sys/bus/pci/devices/0000:05:00.0");
    CHECK_FALSE(has_hardware(machine.path));
}

TEST_CASE("a device file, a device on the bus, or WSL's passage is a GPU") {
    for (const char* file : {"dev/nvidia0", "dev/nvidiactl", "dev/dxg"}) {
        CAPTURE(file);
        const made_folder machine;
        machine.put("dev/null", "");
        CHECK_FALSE(has_hardware(machine.path));
        machine.put(file, "");
        CHECK(has_hardware(machine.path));
    }
    const made_folder machine;
    machine.put("sys/bus/pci/devices/0000:00:00.0/vendor", "0x8086\n");
    machine.put("sys/bus/pci/devices/0000:81:00.0/vendor", "0x10de\n");
    CHECK(has_hardware(machine.path));
    // As sysfs has it: devices are links to where they are on the bus.
    const made_folder linked;
    linked.put("sys/devices/pci0000:80/0000:81:00.0/vendor", "0x10de\n");
    linked.make("sys/bus/pci/devices");
    std::filesystem::create_directory_symlink("../../../devices/pci0000:80/0000:81:00.0", linked.path + "/sys/bus/pci/devices/0000:81:00.0");
    CHECK(has_hardware(linked.path));
}

// What says nothing on a machine without a GPU, and warns on one that has a GPU or where libraries are named.
TEST_CASE("a warning is for machines with a GPU, and for those who name libraries") {
    const char* set = std::getenv("GRAFT_CUDA_PATH");
    const std::string before = set ? set : "";
    const auto expected = [] { return graft::backends::cuda::instance().expected(); };
    unsetenv("GRAFT_CUDA_PATH");
    CHECK(expected() == has_hardware());
    setenv("GRAFT_CUDA_PATH", "/nowhere", 1);
    CHECK(expected());
    if (set)
        setenv("GRAFT_CUDA_PATH", before.c_str(), 1);
    else
        unsetenv("GRAFT_CUDA_PATH");
}
#endif
