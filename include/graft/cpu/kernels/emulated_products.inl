// The kernels of bytes, of bfloat16 and of tiles that any vectors stand in for: for tests on machines that have none.

namespace emulated {
#include "../simd/vnni_emulated.inl"
#include "quantized_lanes.inl"

#include "../simd/bfloat16_emulated.inl"
#include "bfloat16.inl"
#include "bfloat16_images.inl"
#include "bfloat16_vectors.inl"

#include "../simd/amx_emulated.inl"
#include "bfloat16_tiles.inl"
#include "quantized_pixels.inl"
}  // namespace emulated
