// What the simulated NVRTC gives out as a CUBIN: a few lines and the shared library that g++ made.
#pragma once

#include <cstddef>
#include <string>

namespace graft_simulator {

/// The CUBIN of a compiled text for a compute capability. Empty where the file cannot be read.
std::string cubin_of(const std::string& path, int arch);

/// Finds the shared library of a CUBIN; writes it into the cache where it is not. False where `image` is none.
bool library_of(const void* image, std::string& path, int& arch);

}  // namespace graft_simulator
