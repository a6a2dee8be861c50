// XXH64: a fast 64-bit checksum (Yann Collet's published algorithm). Against accidents, not against attackers.
#pragma once

#include "../config.hpp"

#include <cstddef>
#include <cstdint>

GRAFT_BEGIN_NAMESPACE

/// XXH64 of the bytes; a number of its own for every seed. Equal on every machine.
std::uint64_t xxh64(const void* bytes, std::size_t size, std::uint64_t seed = 0) noexcept;

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <initializer_list>

GRAFT_BEGIN_NAMESPACE
namespace detail {

constexpr std::uint64_t xxh_prime1 = 0x9e3779b185ebca87u, xxh_prime2 = 0xc2b2ae3d27d4eb4fu, xxh_prime3 = 0x165667b19e3779f9u;
constexpr std::uint64_t xxh_prime4 = 0x85ebca77c2b2ae63u, xxh_prime5 = 0x27d4eb2f165667c5u;

inline std::uint64_t rotate_left(std::uint64_t x, int n) noexcept { return x << n | x >> (64 - n); }

// Little-endian whatever the machine. Compilers make one load of it as it is written here, and eight of a loop.
inline std::uint64_t little_endian_4(const std::uint8_t* p) noexcept {
    return std::uint64_t(p[0]) | std::uint64_t(p[1]) << 8 | std::uint64_t(p[2]) << 16 | std::uint64_t(p[3]) << 24;
}
inline std::uint64_t little_endian_8(const std::uint8_t* p) noexcept {
    return std::uint64_t(p[0]) | std::uint64_t(p[1]) << 8 | std::uint64_t(p[2]) << 16 | std::uint64_t(p[3]) << 24 | std::uint64_t(p[4]) << 32 |
           std::uint64_t(p[5]) << 40 | std::uint64_t(p[6]) << 48 | std::uint64_t(p[7]) << 56;
}

inline std::uint64_t xxh_round(std::uint64_t lane, std::uint64_t word) noexcept { return rotate_left(lane + word * xxh_prime2, 31) * xxh_prime1; }

}  // namespace detail

GRAFT_INLINE std::uint64_t xxh64(const void* bytes, std::size_t size, std::uint64_t seed) noexcept {
    using namespace detail;
    const auto* p = static_cast<const std::uint8_t*>(bytes);
    std::size_t left = size;
    std::uint64_t hash = seed + xxh_prime5;
    if (size >= 32) {
        // Numbers of their own, which stay in registers.
        std::uint64_t a = seed + xxh_prime1 + xxh_prime2, b = seed + xxh_prime2, c = seed, d = seed - xxh_prime1;
        for (; left >= 32; left -= 32, p += 32) {
            a = xxh_round(a, little_endian_8(p));
            b = xxh_round(b, little_endian_8(p + 8));
            c = xxh_round(c, little_endian_8(p + 16));
            d = xxh_round(d, little_endian_8(p + 24));
        }
        hash = rotate_left(a, 1) + rotate_left(b, 7) + rotate_left(c, 12) + rotate_left(d, 18);
        for (const std::uint64_t lane : {a, b, c, d}) hash = (hash ^ xxh_round(0, lane)) * xxh_prime1 + xxh_prime4;
    }
    hash += size;
    for (; left >= 8; left -= 8, p += 8) hash = rotate_left(hash ^ xxh_round(0, little_endian_8(p)), 27) * xxh_prime1 + xxh_prime4;
    if (left >= 4) {
        hash = rotate_left(hash ^ little_endian_4(p) * xxh_prime1, 23) * xxh_prime2 + xxh_prime3;
        left -= 4;
        p += 4;
    }
    for (; left; --left, ++p) hash = rotate_left(hash ^ *p * xxh_prime5, 11) * xxh_prime1;
    hash = (hash ^ hash >> 33) * xxh_prime2;
    hash = (hash ^ hash >> 29) * xxh_prime3;
    return hash ^ hash >> 32;
}

GRAFT_END_NAMESPACE
#endif
