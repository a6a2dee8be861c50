// Quantisation after training: a float network runs on pictures, what its values range over is observed, and it is rewritten for eight bits.
#pragma once

#include "macros_begin.inl"

#include "graft.hpp"
#include "exec/quantizer.hpp"

#include "macros_end.inl"
