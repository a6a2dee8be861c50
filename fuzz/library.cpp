// The definitions of graft for the fuzz targets, compiled once; without the GPU's, which no file reaches here.
#define GRAFT_IMPLEMENTATION
#include <graft/train.hpp>
