// The definitions of graft, once in this program.
#define GRAFT_IMPLEMENTATION
#include <graft/train.hpp>
