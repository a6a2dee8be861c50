// The definitions of graft, for programs that include its headers with GRAFT_SPLIT.
#define GRAFT_IMPLEMENTATION
#include <graft/gpu.hpp>
#include <graft/dist.hpp>
#include <graft/profile.hpp>
#include <graft/train.hpp>
#include <graft/quantize.hpp>
#include <graft/gpu/runtime/watch.hpp>
