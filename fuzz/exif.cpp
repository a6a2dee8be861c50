// What EXIF and XMP say of a picture's orientation.
#include "target.hpp"

#include <graft/data/exif.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string bytes(fuzz::text_of(data, size));
    for (const std::string& exif : {bytes, std::string("Exif\0\0", 6) + bytes}) {
        const int orientation = graft::detail::orientation_of(exif, bytes);
        fuzz::require(orientation >= 0 && orientation <= 9, "an orientation that there is not");
    }
    return 0;
}
