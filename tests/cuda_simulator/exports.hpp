// Declares the driver's functions as graft does, so that a definition with other types does not compile.
#pragma once

#include "state.hpp"

using namespace graft::gpu::api;  // the lists name types of it

#define GRAFT_SIMULATOR_DECLARE(type, name, parameters) GRAFT_SIMULATED type name parameters;
GRAFT_DRIVER_FUNCTIONS(GRAFT_SIMULATOR_DECLARE)
