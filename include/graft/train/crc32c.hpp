// CRC-32C (Castagnoli, RFC 3720): the checksum of checkpoints and of TensorBoard's files.
#pragma once

#include "../config.hpp"

#include <cstddef>
#include <cstdint>

GRAFT_BEGIN_NAMESPACE

/// The CRC-32C of bytes; `crc` is that of what came before them, 0 at the start.
std::uint32_t crc32c(std::uint32_t crc, const void* bytes, std::size_t n) noexcept;

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <cstring>
GRAFT_BEGIN_NAMESPACE
namespace detail {

// Eight tables: [k][b] is the CRC of byte b followed by k zero bytes.
struct crc32c_tables {
    std::uint32_t at[8][256] = {};
    constexpr crc32c_tables() {
        for (std::uint32_t b = 0; b < 256; ++b) {
            std::uint32_t crc = b;
            for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
            at[0][b] = crc;
        }
        for (int k = 1; k < 8; ++k)
            for (std::uint32_t b = 0; b < 256; ++b) at[k][b] = at[k - 1][b] >> 8 ^ at[0][at[k - 1][b] & 255];
    }
};

}  // namespace detail

GRAFT_INLINE std::uint32_t crc32c(std::uint32_t crc, const void* bytes, std::size_t n) noexcept {
    static constexpr detail::crc32c_tables table;
    const auto* p = static_cast<const std::uint8_t*>(bytes);
    crc = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        std::uint32_t low = 0, high = 0;
        std::memcpy(&low, p, 4);
        std::memcpy(&high, p + 4, 4);
        low ^= crc;
        crc = table.at[7][low & 255] ^ table.at[6][low >> 8 & 255] ^ table.at[5][low >> 16 & 255] ^ table.at[4][low >> 24] ^ table.at[3][high & 255] ^
              table.at[2][high >> 8 & 255] ^ table.at[1][high >> 16 & 255] ^ table.at[0][high >> 24];
    }
    for (; n; --n, ++p) crc = table.at[0][(crc ^ *p) & 255] ^ crc >> 8;
    return ~crc;
}

GRAFT_END_NAMESPACE
#endif
