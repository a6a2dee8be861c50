// The table of rows kernels that each instruction set fills.
#pragma once

#include "../config.hpp"

GRAFT_BEGIN_NAMESPACE
namespace cpu {

struct rows_kernels {};

}  // namespace cpu
GRAFT_END_NAMESPACE
