// JPEG, by libjpeg-turbo or stb_image, whichever is built.
#include "picture.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::decode(fuzz::with_signature(data, size, "xffxd8xff"));
    return 0;
}
