// The CPU's kernels, apart from the other definitions: a quarter of them, which another processor can compile meanwhile.
#define GRAFT_KERNELS
#include <graft/cpu/dispatch.hpp>
#include <graft/cpu/peak_dispatch.hpp>
#include <graft/cpu/training/dispatch.hpp>
