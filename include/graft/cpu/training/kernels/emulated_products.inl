// The training kernels of bfloat16 and of tiles that any vectors stand in for: for tests on machines that have none.

namespace emulated {
#include "bfloat16_grad.inl"
#include "bfloat16_grad_vectors.inl"
#include "bfloat16_grad_tiles.inl"
}  // namespace emulated
