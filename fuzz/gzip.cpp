// gzip: a packed file of labels or of CIFAR's records as it is; and the input as what lies between a header and a checksum that are right.
#include "dataset.hpp"

namespace {

bool take(void* into, const std::uint8_t* bytes, std::size_t n) {
    auto& out = *static_cast<std::string*>(into);
    out.append(reinterpret_cast<const char*>(bytes), n);
    return out.size() < (1 << 20);
}

// A file around a stream, of which there may be too much.
std::string packed(const std::uint8_t* data, std::size_t size) {
    std::string plain;
    graft::detail::inflater unpacker(data, size, take, &plain);
    const bool done = unpacker.run() == graft::detail::inflate_end::done;
    if (done) fuzz::require(unpacker.consumed() <= size, "more is unpacked than there is");
    std::string file("\x1f\x8b\10\0\0\0\0\0\0\3", 10);
    file.append(reinterpret_cast<const char*>(data), done ? unpacker.consumed() : size);
    const std::uint32_t crc = graft::detail::crc32(0, reinterpret_cast<const std::uint8_t*>(plain.data()), plain.size());
    for (const std::uint32_t number : {crc, static_cast<std::uint32_t>(plain.size())})
        for (int i = 0; i < 4; ++i) file += static_cast<char>(number >> (8 * i));
    return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const fuzz::folder records, labels;
    static const std::string pictures = labels.write("train-images-idx3-ubyte", std::string_view("\0\0\10\3\0\0\0\2\0\0\0\1\0\0\0\1ab", 18));
    std::string whole(fuzz::text_of(data, size));
    if (size >= 2) whole[0] = '\x1f', whole[1] = '\x8b';
    fuzz::open(records.write("data_batch_1.bin.gz", whole));
    labels.write("train-labels-idx1-ubyte.gz", packed(data, size));
    fuzz::open(pictures);
    return 0;
}
