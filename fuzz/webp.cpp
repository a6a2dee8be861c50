// WebP, by libwebp: a build without it refuses every file.
#include "picture.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::vector<std::uint8_t> bytes = fuzz::with_signature(data, size, "RIFF");
    if (size >= 12) std::copy_n("WEBP", 4, &bytes[8]);
    fuzz::decode(bytes);
    return 0;
}
