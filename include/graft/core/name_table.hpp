// A table from names to numbers. The hash is keyed by the table's own address, so that a file cannot pick names that collide.
#pragma once

#include "../config.hpp"

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// Names and their numbers; the names' characters are somebody else's and must outlive the table.
class name_table {
public:
    name_table() noexcept = default;
    name_table(const name_table&) = delete;
    name_table& operator=(const name_table&) = delete;

    /// The number of that name, or -1.
    int find(std::string_view name) const noexcept;
    /// Adds a name that is not there yet; false, and nothing changed, if it is. `number` is >= 0.
    bool insert(std::string_view name, int number);
    std::size_t size() const noexcept { return used_; }

private:
    struct slot {
        std::string_view name;
        int number = -1;
    };
    std::size_t hash(std::string_view name) const noexcept;
    std::vector<slot> slots_;  // a power of two of them, at most half full
    std::size_t used_ = 0;
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE std::size_t name_table::hash(std::string_view name) const noexcept {
    std::uint64_t h = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(this)) * 0x9e3779b97f4a7c15ull ^ name.size();
    const char* p = name.data();
    std::size_t n = name.size();
    while (n) {
        std::uint64_t word = 0;
        const std::size_t step = n < 8 ? n : 8;
        std::memcpy(&word, p, step);
        h = (h ^ word) * 0xff51afd7ed558ccdull;
        h ^= h >> 32;
        p += step;
        n -= step;
    }
    h *= 0xc4ceb9fe1a85ec53ull;
    return static_cast<std::size_t>(h ^ (h >> 29));
}

GRAFT_INLINE int name_table::find(std::string_view name) const noexcept {
    if (slots_.empty()) return -1;
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t i = hash(name) & mask; slots_[i].number >= 0; i = (i + 1) & mask)
        if (slots_[i].name == name) return slots_[i].number;
    return -1;
}

GRAFT_INLINE bool name_table::insert(std::string_view name, int number) {
    if (2 * (used_ + 1) > slots_.size()) {
        std::vector<slot> old(slots_.empty() ? 16 : slots_.size() * 2);
        old.swap(slots_);
        const std::size_t mask = slots_.size() - 1;
        for (const slot& s : old) {
            if (s.number < 0) continue;
            std::size_t i = hash(s.name) & mask;
            while (slots_[i].number >= 0) i = (i + 1) & mask;
            slots_[i] = s;
        }
    }
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = hash(name) & mask;
    for (; slots_[i].number >= 0; i = (i + 1) & mask)
        if (slots_[i].name == name) return false;
    slots_[i].name = name;
    slots_[i].number = number;
    ++used_;
    return true;
}

GRAFT_END_NAMESPACE
#endif
