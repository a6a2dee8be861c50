// How the lists of a library's functions become members: shared by the files beside it.
#pragma once

#include <cstddef>
#include <cstdint>

/// A function pointer of a struct of functions: members carry the exact names that the library exports.
#define GRAFT_GPU_MEMBER(result, name, parameters) result(*name) parameters = nullptr;
