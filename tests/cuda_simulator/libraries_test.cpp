// The simulated NVRTC, NVML and NCCL, and what the environment asks of the simulator.
#include "simulated.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include <unistd.h>

namespace {

using namespace simulated;

std::string text_of(const std::string& path) {
    std::ifstream f(path);
    return {std::istreambuf_iterator<char>(f), {}};
}

// Runs a case of this program that is skipped otherwise, with settings; gives back what it wrote to `path`, which `{}` stands for.
std::string run_child(const char* test_case, std::string settings) {
    char program[4096] = {};
    REQUIRE(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    char path[] = "/tmp/graft_simulator_testXXXXXX";
    const int file = mkstemp(path);
    REQUIRE(file >= 0);
    close(file);
    settings.replace(settings.find("{}"), 2, path);
    const std::string command = settings + " '" + program + "' --no-skip --test-case='" + test_case + "' > /dev/null";
    CHECK(std::system(command.c_str()) == 0);
    const std::string text = text_of(path);
    std::remove(path);
    return text;
}

}  // namespace

TEST_CASE("child: memory and a stream are forgotten" * doctest::skip()) {
    void *context = nullptr, *stream = nullptr;
    std::uint64_t a = 0;
    REQUIRE(cuda().cuInit(0) == 0);
    REQUIRE(cuda().cuDevicePrimaryCtxRetain(&context, 0) == 0);
    REQUIRE(cuda().cuCtxPushCurrent_v2(context) == 0);
    CHECK(cuda().cuMemAlloc_v2(&a, 1234) == 0);
    CHECK(cuda().cuStreamCreate(&stream, 1) == 0);
    CHECK(cuda().cuMemFree_v2(a + 1) == driver::result::invalid_value);
}

TEST_CASE("child: devices that are seen" * doctest::skip()) {
    int devices = 0;
    REQUIRE(cuda().cuInit(0) == 0);
    CHECK(cuda().cuDeviceGetCount(&devices) == 0);
    CHECK(devices == 2);
    char bus[32];
    CHECK(cuda().cuDeviceGetPCIBusId(bus, 32, 0) == 0);
    CHECK(std::string(bus) == "0000:04:00.0");  // the fourth
    int major = 0, minor = 0;
    CHECK(cuda().cuDeviceGetAttribute(&major, driver::attribute::compute_capability_major, 1) == 0);
    CHECK(cuda().cuDeviceGetAttribute(&minor, driver::attribute::compute_capability_minor, 1) == 0);
    CHECK(major * 10 + minor == 86);
    std::size_t bytes = 0;
    CHECK(cuda().cuDeviceTotalMem_v2(&bytes, 1) == 0);
    CHECK(bytes == 1000000);
}

TEST_CASE("child: the second device's name cannot be had" * doctest::skip()) {
    char name[32];
    REQUIRE(cuda().cuInit(0) == 0);
    CHECK(cuda().cuDeviceGetName(name, 32, 0) == 0);
    CHECK(cuda().cuDeviceGetName(name, 32, 0) == 999);
    CHECK(cuda().cuDeviceGetName(name, 32, 0) == 0);
}

TEST_CASE("A process leaves a report of what it forgot") {
    const std::string text = run_child("child: memory and a stream are forgotten", "GRAFT_SIMULATOR_REPORT={}");
    CHECK(text.find("live: device memory") != std::string::npos);
    CHECK(text.find("1234 bytes") != std::string::npos);
    CHECK(text.find("live: stream x 1") != std::string::npos);
    CHECK(text.find("live: context x 1") != std::string::npos);
    CHECK(text.find("invalid_address: an address was freed that no allocation begins at") != std::string::npos);
    const std::string clean = run_child("child: the second device*", "GRAFT_SIMULATOR_FAIL=cuDeviceGetName:2:999 GRAFT_SIMULATOR_REPORT={}");
    CHECK(clean.find("nothing to report") != std::string::npos);
}

TEST_CASE("A process leaves a log of its calls") {
    const std::string text = run_child("child: memory and a stream are forgotten", "GRAFT_SIMULATOR_LOG={}");
    CHECK(text.find("cuInit() = 0\n") != std::string::npos);
    CHECK(text.find("cuMemAlloc_v2(1234, 0x") != std::string::npos);
    CHECK(text.find("cuStreamCreate(0x") != std::string::npos);
}

TEST_CASE("Devices are what the environment says, and CUDA_VISIBLE_DEVICES chooses among them") {
    run_child("child: devices that are seen",
              "GRAFT_SIMULATOR_DEVICES=4 CUDA_VISIBLE_DEVICES=3,1,9,0 GRAFT_SIMULATOR_COMPUTE=8.6 GRAFT_SIMULATOR_MEMORY=1000000 GRAFT_SIMULATOR_LOG={}");
}

TEST_CASE("The simulated NVRTC tells its version and refuses what NVRTC refuses") {
    int major = 0, minor = -1, count_of_archs = 0;
    CHECK(rtc().nvrtcVersion(&major, &minor) == 0);
    CHECK(major == 13);
    CHECK(minor == 0);
    CHECK(rtc().nvrtcGetNumSupportedArchs(&count_of_archs) == 0);
    std::vector<int> archs(static_cast<std::size_t>(count_of_archs));
    CHECK(rtc().nvrtcGetSupportedArchs(archs.data()) == 0);
    CHECK(std::count(archs.begin(), archs.end(), 90) == 1);
    void* program = nullptr;
    REQUIRE(rtc().nvrtcCreateProgram(&program, "extern \"C\" __global__ void entry(int* p) { p[0] = nothing; }", "x.cu", 0, nullptr, nullptr) == 0);
    const char* arch = "-arch=sm_61";
    CHECK(rtc().nvrtcCompileProgram(program, 1, &arch) == nvrtc::result::invalid_option);
    const char* option = "--no-such-option";
    CHECK(rtc().nvrtcCompileProgram(program, 1, &option) == nvrtc::result::invalid_option);
    arch = "-arch=sm_90";
    CHECK(rtc().nvrtcCompileProgram(program, 1, &arch) == nvrtc::result::compilation);
    std::size_t bytes = 0;
    CHECK(rtc().nvrtcGetProgramLogSize(program, &bytes) == 0);
    std::string log(bytes, 0);
    CHECK(rtc().nvrtcGetProgramLog(program, &log[0]) == 0);
    CHECK(log.find("'nothing'") != std::string::npos);
    CHECK(rtc().nvrtcGetCUBINSize(program, &bytes) != 0);
    CHECK(count("nvrtcProgram") == 1);
    CHECK(rtc().nvrtcDestroyProgram(&program) == 0);
    CHECK(count("nvrtcProgram") == 0);
}

TEST_CASE("A virtual architecture has no CUBIN; macros and headers that are handed over count") {
    void* program = nullptr;
    const char *header = "#define TWO 2\n", *name = "two.h";
    REQUIRE(rtc().nvrtcCreateProgram(&program, "#include \"two.h\"\nextern \"C\" __global__ void entry(int* p) { p[0] = TWO + THREE; }", "x.cu", 1, &header,
                                     &name) == 0);
    const char* options[] = {"--gpu-architecture=compute_90", "-DTHREE=3"};
    CHECK(rtc().nvrtcCompileProgram(program, 2, options) == 0);
    std::size_t bytes = 1;
    CHECK(rtc().nvrtcGetCUBINSize(program, &bytes) == 0);
    CHECK(bytes == 0);
    CHECK(rtc().nvrtcDestroyProgram(&program) == 0);
}

TEST_CASE("The simulated NVML finds the driver's devices") {
    CHECK(ml().nvmlInit_v2() == 0);
    unsigned devices = 0;
    CHECK(ml().nvmlDeviceGetCount_v2(&devices) == 0);
    CHECK(devices == 1);
    REQUIRE(cuda().cuInit(0) == 0);
    char bus[32], uuid[96], name[96];
    CHECK(cuda().cuDeviceGetPCIBusId(bus, 32, 0) == 0);
    void *by_bus = nullptr, *by_index = nullptr, *by_uuid = nullptr;
    CHECK(ml().nvmlDeviceGetHandleByPciBusId_v2(bus, &by_bus) == 0);
    CHECK(ml().nvmlDeviceGetHandleByIndex_v2(0, &by_index) == 0);
    CHECK(by_bus == by_index);
    CHECK(ml().nvmlDeviceGetUUID(by_index, uuid, 96) == 0);
    CHECK(ml().nvmlDeviceGetHandleByUUID(uuid, &by_uuid) == 0);
    CHECK(by_uuid == by_index);
    CHECK(ml().nvmlDeviceGetName(by_index, name, 96) == 0);
    CHECK(std::string(name) == "graft CUDA simulator");
    nvml::memory memory;
    CHECK(ml().nvmlDeviceGetMemoryInfo(by_index, &memory) == 0);
    CHECK(memory.total > 0);
    CHECK(memory.used + memory.free == memory.total);
    nvml::utilization first, second;
    CHECK(ml().nvmlDeviceGetUtilizationRates(by_index, &first) == 0);
    CHECK(ml().nvmlDeviceGetUtilizationRates(by_index, &second) == 0);
    CHECK(first.gpu != second.gpu);
    CHECK(ml().nvmlShutdown() == 0);
    CHECK(ml().nvmlShutdown() == nvml::result::uninitialized);
    CHECK(count("nvmlInit") == 0);
}

TEST_CASE("The simulated NCCL tells its version") {
    int version = 0;
    CHECK(nccl_library().ncclGetVersion(&version) == 0);
    CHECK(version / 100 == 227);
    CHECK(std::string(nccl_library().ncclGetErrorString(0)) == "no error");
}
