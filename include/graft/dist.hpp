// graft with training on many devices: the umbrella beside train.hpp.
#pragma once

#include "macros_begin.inl"

#include "train.hpp"
#include "dist/replicas.hpp"
#include "dist/thread_group.hpp"

#include "macros_end.inl"
