// Everything that kernel text may use: included before any region is opened.
#pragma once

#include "kernel_table.hpp"
#include "target.hpp"
#include "../core/wanted.hpp"

#include "../core/dtype.hpp"
#include "conv_kernels.hpp"
#include "elementwise_kernels.hpp"
#include "../graph/activation.hpp"
#include "gemm_kernels.hpp"
#include "move_kernels.hpp"
#include "pool_kernels.hpp"
#include "reorder_kernels.hpp"
#include "rows_kernels.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
