// A manifest in CSV, beside two small pictures that its rows may name.
#include "dataset.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const fuzz::folder folder;
    static const bool pictures = !folder.write("a.ppm", "P6 1 1 255\nabc").empty() && !folder.write("b.pgm", "P5 1 1 255\na").empty();
    if (pictures) fuzz::open(folder.write("manifest.csv", data, size));
    return 0;
}
