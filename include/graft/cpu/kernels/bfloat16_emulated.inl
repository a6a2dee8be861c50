// The kernels of bfloat16 and of tiles that any vectors stand in for: for tests on machines that have neither.

namespace emulated {
#include "../simd/bfloat16_emulated.inl"
#include "bfloat16.inl"
#include "bfloat16_vectors.inl"

#include "../simd/amx_emulated.inl"
#include "bfloat16_tiles.inl"
#include "quantized_amx.inl"
}  // namespace emulated
