// Libraries with the vendors' names that do nothing, built while the tests run: what a machine may have in place of the right
// ones.
#pragma once

#include "../data/made_dataset.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace made_libraries {

/// The text that a driver for CUDA `version` (12040) answers with. What it has no answer to succeeds and writes nothing.
inline std::string driver(int version, int init = 0) {
    return "extern \"C\" int cuDriverGetVersion(int* v) { *v = " + std::to_string(version) + "; return 0; }\n" + "extern \"C\" int cuInit(unsigned) { return " +
           std::to_string(init) + "; }\n";
}
inline std::string cudnn(int version, int runtime) {
    return "#include <cstddef>\nextern \"C\" std::size_t cudnnGetVersion() { return " + std::to_string(version) + "; }\n" +
           "extern \"C\" std::size_t cudnnGetCudartVersion() { return " + std::to_string(runtime) + "; }\n";
}
inline std::string cublaslt(int version) {
    return "#include <cstddef>\nextern \"C\" std::size_t cublasLtGetVersion() { return " + std::to_string(version) + "; }\n";
}
inline std::string nvrtc(int major, int minor) {
    return "extern \"C\" int nvrtcVersion(int* a, int* b) { *a = " + std::to_string(major) + "; *b = " + std::to_string(minor) + "; return 0; }\n";
}

/// Builds `folder/file` with every function of the list in graft/gpu/api/<api>.hpp but `without`; `answers` are the ones that do
/// more than nothing. Whether it could be built.
inline bool build(const made_folder& folder, const std::string& file, const std::string& api, const std::string& answers, const std::string& without = "") {
    std::string list = "GRAFT_" + api + "_FUNCTIONS";
    for (char& c : list)
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    const std::string all = folder.put(file + ".all.cpp", "#include <graft/gpu/api/" + api + ".hpp>\nusing namespace graft::gpu::api;\n" +
                                                              "#define DEFINE(result, name, parameters) extern \"C\" __attribute__((weak)) result "
                                                              "name parameters { return static_cast<result>(0); }\n" +
                                                              list + "(DEFINE)\n");
    const std::string own = folder.put(file + ".own.cpp", answers);
    const std::string script = folder.put(file + ".script", "{ local: " + (without.empty() ? "nothing_at_all" : without) + "; };\n");
    const char* compiler = std::getenv("CXX");
    const std::string command = std::string(compiler && *compiler ? compiler : "c++") +
                                " -std=c++17 -w -shared -fPIC -I" GRAFT_SOURCE_DIR "/include -Wl,-soname," + file + " -Wl,--version-script=" + script + " -o " +
                                folder.path + "/" + file + " " + all + " " + own;
    return std::system(command.c_str()) == 0;
}

/// A whole set for CUDA 12 in `folder`, but for the driver.
inline bool build_set(const made_folder& folder) {
    return build(folder, "libcudnn.so.9", "cudnn", cudnn(90100, 12040)) && build(folder, "libcublasLt.so.12", "cublaslt", cublaslt(120405)) &&
           build(folder, "libnvrtc.so.12", "nvrtc", nvrtc(12, 4));
}

}  // namespace made_libraries
