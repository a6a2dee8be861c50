// What measures the limits of a machine, as kernels see it: the table that each instruction set fills.
#pragma once

#include "../config.hpp"

#include <cstdint>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// Both return a number that depends on all that they did, so that none of it can be left out.
struct peak_kernels {
    /// `rounds` times a product and a sum in each element of `chains` independent vectors of registers; `start` has most_chain_floats floats.
    float (*multiply_add)(const float* start, std::int64_t rounds);
    /// Adds up `n` floats from memory; n is a multiple of most_chain_floats.
    float (*read)(const float* from, std::int64_t n);
    int chain_floats;  ///< elements of all chains: two FLOP each a round
};
constexpr int most_chain_floats = 512;

}  // namespace cpu
GRAFT_END_NAMESPACE
