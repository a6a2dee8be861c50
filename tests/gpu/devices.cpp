// The devices that the driver shows: their numbers, and how they are doing, on libraries that are made here.
#include <graft/gpu/runtime/devices.hpp>

#include <doctest/doctest.h>

using texts = std::vector<std::string>;

TEST_CASE("CUDA_VISIBLE_DEVICES is read as the driver reads it") {
    using graft::gpu::visible_devices;
    CHECK(visible_devices("2,0") == texts{"2", "0"});
    CHECK(visible_devices(" 1 , GPU-8932f937 ,MIG-1b2c") == texts{"1", "GPU-8932f937", "MIG-1b2c"});
    CHECK(visible_devices("0,-1,1") == texts{"0"});
    CHECK(visible_devices("0,,1") == texts{"0"});
    CHECK(visible_devices("0,none") == texts{"0"});
    CHECK(visible_devices("").empty());
    CHECK(visible_devices("NoDevFiles").empty());
    CHECK(visible_devices("999999999999").empty());
}

#ifdef GRAFT_PROGRAM
#include "made_libraries.hpp"

#include "../program/program.hpp"

using program_test::done;
using program_test::graft_program;

namespace {

// Two devices, which NVML numbers the other way round; the second tells no power.
constexpr const char* two_devices = R"(
#include <graft/gpu/api/driver.hpp>
#include <cstdio>
#include <cstring>
using namespace graft::gpu::api;
extern "C" {
int cuDriverGetVersion(int* v) { *v = 13000; return 0; }
int cuDeviceGetCount(int* n) { *n = 2; return 0; }
int cuDeviceGet(int* device, int ordinal) { *device = 40 + ordinal; return ordinal < 2 ? 0 : 101; }
int cuDeviceGetName(char* name, int bytes, int device) { std::snprintf(name, bytes, "made device %d", device); return 0; }
int cuDeviceGetAttribute(int* value, int attribute, int) { *value = attribute == 75 ? 8 : attribute == 76 ? 6 : attribute == 16 ? 28 : 0; return 0; }
int cuDeviceTotalMem_v2(std::size_t* bytes, int) { *bytes = 12ull << 30; return 0; }
int cuDeviceGetUuid_v2(driver::uuid* id, int device) { std::memset(id, device, 16); return 0; }
int cuDeviceGetPCIBusId(char* id, int bytes, int device) { std::snprintf(id, bytes, "0000:%02d:00.0", device); return 0; }
}
)";
constexpr const char* two_watched = R"(
#include <graft/gpu/api/nvml.hpp>
#include <cstdio>
#include <cstring>
using namespace graft::gpu::api;
extern "C" {
int nvmlSystemGetDriverVersion(char* text, unsigned bytes) { std::snprintf(text, bytes, "580.65.06"); return 0; }
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
    if (std::strcmp(uuid, "GPU-28282828-2828-2828-2828-282828282828")) return 6;
    *device = reinterpret_cast<void*>(1 + 1);
    return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
    if (std::strcmp(id, "0000:41:00.0")) return 6;
    *device = reinterpret_cast<void*>(1);
    return 0;
}
int nvmlDeviceGetIndex(void* device, unsigned* index) { *index = reinterpret_cast<unsigned long>(device) - 1; return 0; }
int nvmlDeviceGetMemoryInfo(void*, nvml::memory* bytes) { bytes->total = 12ull << 30, bytes->free = 9ull << 30, bytes->used = 3ull << 30; return 0; }
int nvmlDeviceGetUtilizationRates(void* device, nvml::utilization* rates) { const int second = device == reinterpret_cast<void*>(2); rates->gpu = second ? 87 : 5; rates->memory = second ? 43 : 2; return 0; }
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) { *milliwatts = 123400; return device == reinterpret_cast<void*>(2) ? 0 : 3; }
int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) { *celsius = 61; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) { *reasons = device == reinterpret_cast<void*>(2) ? 0x49 : 0x5; return 0; }
}
)";

done with(const made_folder& folder, const std::string& verb, const std::string& more = "") {
    return graft_program(verb, "env -u CUDA_VISIBLE_DEVICES " + more + " GRAFT_CUDA_PATH=" + folder.path + " ");
}

}  // namespace

TEST_CASE("devices have the driver's numbers, and those of nvidia-smi by UUID or bus") {
    const made_folder folder;
    REQUIRE(made_libraries::build(folder, "libcuda.so.1", "driver", two_devices));
    REQUIRE(made_libraries::build(folder, "libnvidia-ml.so.1", "nvml", two_watched));
    const done d = with(folder, "doctor --json");
    CHECK(d.has(
        R"("gpus":[{"device":"cuda:0","ordinal":0,"physical":1,"name":"made device 40","uuid":"GPU-28282828-2828-2828-2828-282828282828",)"
        R"("pci_bus_id":"0000:40:00.0","compute_capability":"8.6","multiprocessors":28,"memory_bytes":12884901888,"free_bytes":9663676416,"driver":"13.0"},)"
        R"({"device":"cuda:1","ordinal":1,"physical":0,)"));
    CHECK(with(folder, "doctor").has("cuda:0 made device 40 (GPU 1 of nvidia-smi), compute capability 8.6"));
}

TEST_CASE("without NVML the numbers are those of CUDA_VISIBLE_DEVICES") {
    const made_folder folder;
    REQUIRE(made_libraries::build(folder, "libcuda.so.1", "driver", two_devices));
    REQUIRE(made_libraries::build(folder, "libnvidia-ml.so.1", "nvml", "extern \"C\" int nvmlInit_v2() { return 9; }"));
    CHECK(with(folder, "doctor --json").has(R"("ordinal":1,"physical":1,)"));
    const done d = with(folder, "doctor --json", "CUDA_VISIBLE_DEVICES=5,GPU-29");
    CHECK(d.has(R"("ordinal":0,"physical":5,)"));
    CHECK(d.has(R"("ordinal":1,"physical":null,)"));
    CHECK(d.has(R"("free_bytes":null)"));
    CHECK(with(folder, "monitor").refused("device.unavailable"));
}

TEST_CASE("monitor tells what each device tells, and leaves out the rest") {
    const made_folder folder;
    REQUIRE(made_libraries::build(folder, "libcuda.so.1", "driver", two_devices));
    REQUIRE(made_libraries::build(folder, "libnvidia-ml.so.1", "nvml", two_watched));
    const done d = with(folder, "monitor --json");
    CHECK(d.code == 0);
    CHECK(d.has(R"("utilization":87,"memory_access":43,"memory_used":3221225472,"power_w":123.4,"lost":false,"temperature_c":61,"throttled":"heat"})"));
    CHECK(d.has(R"("utilization":5,"memory_access":2,"memory_used":3221225472,"power_w":null,"lost":false,"temperature_c":61,"throttled":"power limit"})"));
    const done lines = with(folder, "monitor --count 2 --interval 0.05");
    int count = 0;
    for (char c : lines.out) count += c == '\n';
    CHECK(count == 2);
    CHECK(lines.has("cuda:0 87 %, 43 % memory accesses, "));
    CHECK(lines.has("123 W, 61 C, slowed by heat"));
    CHECK(lines.has(", -, 61 C, slowed by power limit"));
    CHECK(with(folder, "monitor --interval 0").code == 2);
}

TEST_CASE("monitor says that a device is lost") {
    const made_folder folder;
    REQUIRE(made_libraries::build(folder, "libcuda.so.1", "driver", two_devices));
    std::string lost = two_watched;
    const std::string answer = "*celsius = 61; return 0;";
    lost.replace(lost.find(answer), answer.size(), "*celsius = 61; return 15;");
    REQUIRE(made_libraries::build(folder, "libnvidia-ml.so.1", "nvml", lost));
    CHECK(with(folder, "monitor --json").has(R"("lost":true,"temperature_c":null)"));
    CHECK(with(folder, "monitor --count 1").has("cuda:0 lost, "));
}
#endif
