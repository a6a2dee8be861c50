// Arrays of numpy.
#include "target.hpp"

#include <graft/io/npy.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto array = graft::read_npy(data, size, "input", fuzz::small_limits());
    if (!fuzz::accepted(array)) return 0;
    fuzz::require(array->bytes() <= size, "an array holds more than its file");
    fuzz::accepted(graft::npy_header(array->type(), array->shape()));
    return 0;
}
