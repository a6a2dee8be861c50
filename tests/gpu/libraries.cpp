// What is said of libraries that are missing, too old, too new, broken or of different sets. `graft doctor` is run on libraries
// that are made here, since a process looks for its libraries once.
#ifdef GRAFT_PROGRAM
#include "made_libraries.hpp"

#include "../program/program.hpp"
#include "../sanitized.hpp"

#include <doctest/doctest.h>

using namespace made_libraries;
using program_test::done;
using program_test::graft_program;

namespace {

// doctor --json, with nothing that this machine's user has set.
done doctor(const std::string& environment) {
    return graft_program("doctor --json",
                         "env -u GRAFT_CUDA_PATH -u CUDA_HOME -u CUDA_PATH -u VIRTUAL_ENV -u CONDA_PREFIX -u LD_LIBRARY_PATH -u CUDA_VISIBLE_DEVICES " +
                             environment + " ");
}
done doctor_of(const made_folder& folder) { return doctor("GRAFT_CUDA_PATH=" + folder.path); }

// The part of the JSON that is about one library.
std::string about(const done& d, const std::string& name) {
    const std::size_t begin = d.out.find("{\"name\":\"" + name + "\"");
    if (d.code != 0 || begin == std::string::npos) return "doctor failed: " + d.err;
    return d.out.substr(begin, d.out.find('}', begin) - begin);
}
bool said(const done& d, const std::string& library, const std::string& text) {
    const bool found = contains(about(d, library), text);
    if (!found) MESSAGE(about(d, library));
    return found;
}
bool used(const done& d, const std::string& library) { return contains(about(d, library), "\"used\":true"); }

}  // namespace

TEST_CASE("a whole set in GRAFT_CUDA_PATH is used, each library from there") {
    const made_folder folder;
    REQUIRE(build_set(folder));
    REQUIRE(build(folder, "libcuda.so.1", "driver", driver(12040)));
    REQUIRE(build(folder, "libnvidia-ml.so.1", "nvml", ""));
    const done d = doctor_of(folder);
    for (const char* name : {"CUDA driver", "cuDNN", "cuBLASLt", "NVRTC", "NVML"}) {
        CHECK(used(d, name));
        CHECK(said(d, name, "\"path\":\"" + folder.path));
    }
    CHECK(said(d, "CUDA driver", "\"version\":\"12.4\""));
    CHECK(said(d, "cuDNN", "\"version\":\"9.1.0\""));
    CHECK(said(d, "cuBLASLt", "\"version\":\"12.4.5\""));
    CHECK(said(d, "NVRTC", "\"version\":\"12.4\""));
    CHECK(d.has("\"gpus\":[]"));
    CHECK(d.has("the driver has no device"));
}

TEST_CASE("a library that GRAFT_CUDA_PATH lacks is missing, even where the machine has it") {
    const made_folder folder;
    const done d = doctor_of(folder);
    for (const char* name : {"cuDNN", "cuBLASLt", "NVRTC", "NCCL"}) CHECK_FALSE(used(d, name));
    CHECK(said(d, "cuDNN", "libcudnn.so.9 is not in GRAFT_CUDA_PATH"));
    CHECK(said(d, "cuBLASLt", "libcublasLt.so.13 or libcublasLt.so.12 is not in GRAFT_CUDA_PATH"));
    CHECK(said(d, "NVRTC", folder.path + "/lib64/libnvrtc.so.13 (GRAFT_CUDA_PATH): no such file"));
}

TEST_CASE("a library without one of the functions is refused, and the function named") {
    const made_folder folder;
    REQUIRE(build(folder, "libcudnn.so.9", "cudnn", cudnn(90100, 12040), "cudnnBackendExecute"));
    const done d = doctor_of(folder);
    CHECK_FALSE(used(d, "cuDNN"));
    CHECK(said(d, "cuDNN", "lacks the function cudnnBackendExecute"));
}

TEST_CASE("a driver and a cuDNN that are too old are refused, and what to do is said") {
    const made_folder folder;
    REQUIRE(build(folder, "libcuda.so.1", "driver", driver(11080)));
    REQUIRE(build(folder, "libcudnn.so.9", "cudnn", cudnn(8905, 12010)));
    const done d = doctor_of(folder);
    CHECK_FALSE(used(d, "CUDA driver"));
    CHECK(said(d, "CUDA driver", "is for CUDA 11.8, and CUDA 12.0 is the oldest that graft uses: update it"));
    CHECK_FALSE(used(d, "cuDNN"));
    CHECK(said(d, "cuDNN", "cuDNN 8.9.5 is older than the 9.x that graft knows; install cuDNN 9"));
}

TEST_CASE("majors that graft does not know are refused") {
    const made_folder folder;
    REQUIRE(build(folder, "libcudnn.so.9", "cudnn", cudnn(100000, 14000)));
    REQUIRE(build(folder, "libcublasLt.so.13", "cublaslt", cublaslt(140000)));
    REQUIRE(build(folder, "libnvrtc.so.12", "nvrtc", nvrtc(11, 8)));
    REQUIRE(build(folder, "libnccl.so.2", "nccl", "extern \"C\" int ncclGetVersion(int* v) { *v = 30001; return 0; }"));
    const done d = doctor_of(folder);
    for (const char* name : {"cuDNN", "cuBLASLt", "NVRTC", "NCCL"}) CHECK_FALSE(used(d, name));
    CHECK(said(d, "cuDNN", "10.0.0 is newer than the 9.x"));
    CHECK(said(d, "cuBLASLt", "14.0.0 is newer than the 13.x"));
    CHECK(said(d, "NVRTC", "11.8 is older than the 12.x"));
    CHECK(said(d, "NCCL", "3.0.1 is not the 2.x"));
}

TEST_CASE("a file that is no library is told from one that is not there") {
    const made_folder folder;
    folder.put("libcudnn.so.9", "this is no library");
    folder.put("libcublasLt.so.13", "");
    const done d = doctor_of(folder);
    CHECK(said(d, "cuDNN", folder.path + "/libcudnn.so.9 cannot be loaded: "));
    CHECK(said(d, "cuBLASLt", folder.path + "/libcublasLt.so.13 cannot be loaded: "));
    CHECK(said(d, "NVRTC", "is not in GRAFT_CUDA_PATH"));
}

TEST_CASE("of two majors the one of the driver is taken, and that of cuDNN before it") {
    const made_folder folder;
    REQUIRE(build(folder, "libcuda.so.1", "driver", driver(12040)));
    REQUIRE(build(folder, "libnvrtc.so.12", "nvrtc", nvrtc(12, 4)));
    REQUIRE(build(folder, "libnvrtc.so.13", "nvrtc", nvrtc(13, 0)));
    CHECK(said(doctor_of(folder), "NVRTC", "\"version\":\"12.4\""));
    REQUIRE(build(folder, "libcuda.so.1", "driver", driver(13000)));
    CHECK(said(doctor_of(folder), "NVRTC", "\"version\":\"13.0\""));
    REQUIRE(build(folder, "libcudnn.so.9", "cudnn", cudnn(90100, 12040)));
    CHECK(said(doctor_of(folder), "NVRTC", "\"version\":\"12.4\""));
}

TEST_CASE("libraries that do not go together are refused, and both are named") {
    const made_folder newer;
    REQUIRE(build(newer, "libcuda.so.1", "driver", driver(12040)));
    REQUIRE(build(newer, "libcudnn.so.9", "cudnn", cudnn(91300, 13000)));
    const done old_driver = doctor_of(newer);
    CHECK_FALSE(used(old_driver, "cuDNN"));
    CHECK(said(old_driver, "cuDNN", "cuDNN 9.13.0 is for CUDA 13, but the driver is for CUDA 12.4: update the NVIDIA driver to 580 or newer"));

    const made_folder mixed;
    REQUIRE(build(mixed, "libcuda.so.1", "driver", driver(13000)));
    REQUIRE(build(mixed, "libcudnn.so.9", "cudnn", cudnn(91300, 12090)));
    REQUIRE(build(mixed, "libcublasLt.so.13", "cublaslt", cublaslt(130000)));
    const done d = doctor_of(mixed);
    CHECK(used(d, "cuDNN"));
    CHECK_FALSE(used(d, "cuBLASLt"));
    CHECK(said(d, "cuBLASLt", "cuBLASLt 13.0.0 is for CUDA 13, but cuDNN (" + mixed.path + "/libcudnn.so.9) is for CUDA 12: install both for the same CUDA"));
}

TEST_CASE("a driver that does not start is refused, and why is said") {
    const made_folder folder;
    REQUIRE(build(folder, "libcuda.so.1", "driver", driver(13000, 34)));
    CHECK(said(doctor_of(folder), "CUDA driver", "the CUDA driver is a stub: " + folder.path + "/libcuda.so.1"));
    REQUIRE(build(folder, "libcuda.so.1", "driver", driver(13000, 100)));
    CHECK(said(doctor_of(folder), "CUDA driver", "the driver finds no NVIDIA GPU: see whether nvidia-smi lists one"));
    CHECK(said(doctor("CUDA_VISIBLE_DEVICES=7 GRAFT_CUDA_PATH=" + folder.path), "CUDA driver", "and CUDA_VISIBLE_DEVICES is \\\"7\\\": unset it"));
    REQUIRE(build(folder, "libcuda.so.1", "driver",
                  driver(13000, 999) + "extern \"C\" int cuGetErrorName(int e, const char** text) { *text = e == 999 ? "
                                       "\"CUDA_ERROR_UNKNOWN\" : 0; return 0; }"));
    const done d = doctor_of(folder);
    CHECK_FALSE(used(d, "CUDA driver"));
    CHECK(said(d, "CUDA driver", "the driver does not start, CUDA_ERROR_UNKNOWN"));
}

TEST_CASE("relative folders and the working directory are refused") {
    const made_folder folder;
    REQUIRE(build_set(folder));
    const std::string here = "-C " + folder.path + " ";
    const done relative = doctor(here + "GRAFT_CUDA_PATH=.");
    CHECK_FALSE(used(relative, "cuDNN"));
    CHECK(said(relative, "cuDNN", ". (GRAFT_CUDA_PATH): refused, as it is not an absolute path"));
    for (const char* list : {".", "/nowhere:", ":/nowhere"}) {
        const done d = doctor(here + "LD_LIBRARY_PATH=" + list);
        CHECK_FALSE(contains(about(d, "cuDNN"), "\"version\":\"9.1.0\""));
        CHECK(said(d, "cuDNN", "of LD_LIBRARY_PATH"));
    }
}

TEST_CASE("the loader's path, CUDA_HOME, and pip's folders are searched") {
    const made_folder root;
    const auto place = [&](const std::string& folder) {
        const made_folder built;
        REQUIRE(build(built, "libnvrtc.so.12", "nvrtc", nvrtc(12, 77)));
        return root.put(folder + "/libnvrtc.so.12", file_contents(built.path + "/libnvrtc.so.12"));
    };
    // a cuDNN for CUDA 12, so that 12 is looked for before what this machine may have
    const made_folder loader;
    REQUIRE(build(loader, "libcudnn.so.9", "cudnn", cudnn(90100, 12040)));
    const std::string with = "LD_LIBRARY_PATH=" + loader.path + " ";
    const std::string packages = place("venv/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib");
    CHECK(said(doctor(with + "VIRTUAL_ENV=" + root.path + "/venv"), "NVRTC", packages));
    CHECK(said(doctor(with + "CONDA_PREFIX=" + root.path + "/venv"), "NVRTC", packages));
    const std::string home = place("home/lib64");
    CHECK(said(doctor(with + "CUDA_HOME=" + root.path + "/home VIRTUAL_ENV=" + root.path + "/venv"), "NVRTC", home));
    CHECK(said(doctor(with + "CUDA_PATH=" + root.path + "/home"), "NVRTC", home));
    const std::string near = place("near");
    CHECK(said(doctor("LD_LIBRARY_PATH=" + loader.path + ":" + root.path + "/near CUDA_HOME=" + root.path + "/home"), "NVRTC", near));
}

// NVIDIA's NVRTC asks the system's loader for it, which does not know pip's folders.
TEST_CASE("what NVRTC opens by its name alone is opened from NVRTC's folder before") {
    const made_folder folder;
    REQUIRE(build_set(folder));
    REQUIRE(build(folder, "libcuda.so.1", "driver", driver(12040)));
    REQUIRE(build(folder, "libnvrtc-builtins.so.12.4", "nvrtc",
                  "#include <cstdio>\nstatic const int told = std::fputs(\"NVRTC's builtins are open\\n\", stderr);\n"));
    const done d = doctor_of(folder);
    CHECK(used(d, "NVRTC"));
    CHECK_MESSAGE(contains(d.err, "NVRTC's builtins are open"), d.err);
}

// A sanitizer's own library has to be the first.
#ifndef GRAFT_TEST_SANITIZED
TEST_CASE("a library that the process has is taken before others, but for GRAFT_CUDA_PATH") {
    const made_folder folder, other;
    REQUIRE(build(folder, "libnvrtc.so.12", "nvrtc", nvrtc(12, 77)));
    REQUIRE(build(other, "libnvrtc.so.13", "nvrtc", nvrtc(13, 88)));
    const std::string preloaded = "LD_PRELOAD=" + folder.path + "/libnvrtc.so.12 ";
    CHECK(said(doctor(preloaded + "LD_LIBRARY_PATH=" + other.path), "NVRTC", "\"version\":\"12.77\""));
    CHECK(said(doctor(preloaded + "GRAFT_CUDA_PATH=" + other.path), "NVRTC", "\"version\":\"13.88\""));
}
#endif
#endif
