// IDX: a file of pictures and one of labels, plain ones and gzipped ones, out of one input: the first two bytes say where it is cut.
#include "dataset.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const fuzz::folder folder;
    if (size < 2) return 0;
    const std::size_t cut = 2 + std::min<std::size_t>(std::size_t(data[0]) << 8 | data[1], size - 2);
    const std::string pictures = folder.write("train-images-idx3-ubyte", data + 2, cut - 2);
    folder.write("train-labels-idx1-ubyte", data + cut, size - cut);
    fuzz::open(pictures);
    return 0;
}
