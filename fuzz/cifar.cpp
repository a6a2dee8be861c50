// CIFAR-10 and, by the first byte, CIFAR-100. Records of 3,073 bytes are long for a fuzzer: the labels come first, the pixels are made.
#include "dataset.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const fuzz::folder folder;
    if (size < 3) return 0;
    const std::size_t labels = data[0] & 1 ? 2 : 1, records = std::min<std::size_t>(size - 3, 8);
    std::string file;
    for (std::size_t i = 0; i < records; ++i) {
        file += std::string(labels, static_cast<char>(data[3 + i]));
        file += std::string(3 * 32 * 32, static_cast<char>(i));
    }
    // Cut short or gone on with by as many bytes as the second and the third say.
    file.resize(file.size() - std::min<std::size_t>(file.size(), data[1]));
    file += std::string(data[2], 'x');
    fuzz::open(folder.write(labels == 2 ? "train.bin" : "data_batch_1.bin", file));
    return 0;
}
