// BMP.
#include "picture.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::decode(fuzz::with_signature(data, size, "BM"));
    return 0;
}
