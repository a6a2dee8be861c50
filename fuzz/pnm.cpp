// PNM: P1 to P6, by the second byte.
#include "picture.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::decode(fuzz::with_signature(data, size, "P"));
    return 0;
}
