// The version of graft: read by CMake, Meson and the amalgamator, so keep one number a line.
#pragma once

#define GRAFT_VERSION_MAJOR 0
#define GRAFT_VERSION_MINOR 1
#define GRAFT_VERSION_PATCH 0
