// graft with NVIDIA GPUs: everything of graft.hpp, and the back end that finds the vendor's libraries at run time.
#pragma once

#include "macros_begin.inl"

#include "graft.hpp"
#include "gpu/hardware.hpp"
#include "gpu/libraries.hpp"
#include "gpu/devices.hpp"
#include "gpu/watch.hpp"
#include "gpu/backend.hpp"

#include "macros_end.inl"
