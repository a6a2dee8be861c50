// graft with NVIDIA GPUs: everything of graft.hpp, and the back end that finds the vendor's libraries at run time.
#pragma once

#include "macros_begin.inl"

#include "graft.hpp"
#include "gpu/runtime/hardware.hpp"
#include "gpu/runtime/libraries.hpp"
#include "gpu/runtime/devices.hpp"
#include "gpu/runtime/watch.hpp"
#include "gpu/backend.hpp"

#include "macros_end.inl"
