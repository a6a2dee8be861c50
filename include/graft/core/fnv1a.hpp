// FNV-1a of 64 bits: a small hash, one byte after the other. Not against attackers.
#pragma once

#include "../config.hpp"

#include <cstddef>
#include <cstdint>

GRAFT_BEGIN_NAMESPACE

/// The hash of no bytes: the algorithm's offset basis.
constexpr std::uint64_t fnv1a_basis = 0xcbf29ce484222325u;

/// FNV-1a of the bytes, by Fowler, Noll and Vo (RFC 9923): hash = (hash ^ byte) * 0x100000001b3. `hash` is that of the
/// bytes before these, so that fnv1a(b, m, fnv1a(a, n)) is the hash of a and b together. Equal on every machine.
std::uint64_t fnv1a(const void* bytes, std::size_t size, std::uint64_t hash = fnv1a_basis) noexcept;

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES

GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE std::uint64_t fnv1a(const void* bytes, std::size_t size, std::uint64_t hash) noexcept {
    for (std::size_t i = 0; i < size; ++i) hash = (hash ^ static_cast<const std::uint8_t*>(bytes)[i]) * 0x100000001b3u;
    return hash;
}

GRAFT_END_NAMESPACE
#endif
