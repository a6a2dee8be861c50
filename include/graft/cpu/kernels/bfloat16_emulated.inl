// The kernels over tiles that vectors stand in for: for tests on machines that have none.

#include "../simd/amx_emulated.inl"
#include "bfloat16.inl"
#include "quantized_amx.inl"
