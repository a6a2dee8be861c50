// What the targets of pictures share. Each is told its format by the first bytes, which are put back where they were bent.
#pragma once

#include "target.hpp"

#include <graft/data/decode.hpp>

#include <algorithm>
#include <cstring>
#include <vector>

namespace fuzz {

/// Decodes a file, and reads every pixel. Whether it was taken.
inline bool decode(const std::vector<std::uint8_t>& bytes) {
    const graft::limits caps = small_limits();
    const auto picture = graft::decode(bytes.data(), bytes.size(), "input", caps);
    if (!accepted(picture)) return false;
    require(picture->width >= 1 && picture->height >= 1 && picture->width * picture->height <= caps.image_pixels && picture->channels == 3,
            "a picture is larger than the limits");
    std::uint64_t sum = 0;
    for (std::int64_t i = 0; i < picture->bytes(); ++i) sum += picture->data()[i];
    require(sum <= static_cast<std::uint64_t>(picture->bytes()) * 255, "pixels cannot be summed");
    return true;
}

/// The input with `signature` in front, whatever stood there.
inline std::vector<std::uint8_t> with_signature(const std::uint8_t* data, std::size_t size, std::string_view signature) {
    std::vector<std::uint8_t> bytes(data, data + size);
    std::copy_n(signature.begin(), std::min(signature.size(), size), bytes.begin());
    return bytes;
}

}  // namespace fuzz
