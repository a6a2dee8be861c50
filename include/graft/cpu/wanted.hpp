// Which kernels this build holds.
#pragma once

#include "../core/wanted.hpp"
