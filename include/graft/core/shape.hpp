// Shapes: up to sixteen extents, held inline; and sizes that cannot overflow unnoticed.
#pragma once

#include "dtype.hpp"
#include "error.hpp"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

GRAFT_BEGIN_NAMESPACE

/// The extents of a tensor, outermost first, in elements; row-major (C) order. Trivially copyable, never on the heap.
/// Extents are >= 0; `unknown` (-1) stands for one that is not known yet.
class shape {
public:
    static constexpr int max_rank = 16;
    static constexpr std::int64_t unknown = -1;

    shape() noexcept = default;
    shape(std::initializer_list<std::int64_t> extents) noexcept {
        for (std::int64_t e : extents) push_back(e);
    }
    /// `rank` extents, all `fill`.
    static shape filled(int rank, std::int64_t fill) noexcept {
        shape s;
        for (int i = 0; i < rank; ++i) s.push_back(fill);
        return s;
    }
    template <class It>
    static shape from(It first, It last) noexcept {
        shape s;
        for (; first != last; ++first) s.push_back(static_cast<std::int64_t>(*first));
        return s;
    }

    int rank() const noexcept { return rank_; }
    std::int64_t operator[](int i) const noexcept { return extents_[i]; }
    std::int64_t& operator[](int i) noexcept { return extents_[i]; }
    /// Extent `i`, counted from the end where negative; 1 where there is none, as broadcasting has it.
    std::int64_t at(int i) const noexcept {
        if (i < 0) i += rank_;
        return i < 0 || i >= rank_ ? 1 : extents_[i];
    }
    const std::int64_t* begin() const noexcept { return extents_; }
    const std::int64_t* end() const noexcept { return extents_ + rank_; }
    std::int64_t back() const noexcept { return rank_ ? extents_[rank_ - 1] : 1; }
    /// Adds an extent behind the last; past `max_rank` it is dropped, so check ranks that come from files before.
    void push_back(std::int64_t extent) noexcept {
        if (rank_ < max_rank) extents_[rank_++] = extent;
    }
    void insert(int at, std::int64_t extent) noexcept {
        if (rank_ >= max_rank) return;
        for (int i = rank_++; i > at; --i) extents_[i] = extents_[i - 1];
        extents_[at] = extent;
    }
    void erase(int at) noexcept {
        for (int i = at; i + 1 < rank_; ++i) extents_[i] = extents_[i + 1];
        --rank_;
    }
    bool known() const noexcept {
        for (std::int64_t e : *this)
            if (e < 0) return false;
        return true;
    }
    /// Product of the extents [first, last): 1 for none. Only for shapes that `bytes_of` has accepted.
    std::int64_t product(int first, int last) const noexcept {
        std::uint64_t n = 1;  // unsigned: extents beside one of 0 may be anything, and wrapping must stay defined
        for (int i = first; i < last; ++i) n *= static_cast<std::uint64_t>(extents_[i]);
        return static_cast<std::int64_t>(n);
    }
    std::int64_t elements() const noexcept { return product(0, rank_); }

    friend bool operator==(const shape& a, const shape& b) noexcept {
        if (a.rank_ != b.rank_) return false;
        for (int i = 0; i < a.rank_; ++i)
            if (a.extents_[i] != b.extents_[i]) return false;
        return true;
    }
    friend bool operator!=(const shape& a, const shape& b) noexcept { return !(a == b); }

private:
    std::int64_t extents_[max_rank] = {};
    int rank_ = 0;
};

/// "[2,3,?]".
std::string text(const shape& s);

/// a * b, or -1 if that overflows or either is negative.
inline std::int64_t checked_mul(std::int64_t a, std::int64_t b) noexcept {
    if (a < 0 || b < 0) return -1;
    if (a == 0 || b == 0) return 0;
    return a > INT64_MAX / b ? -1 : a * b;
}
/// a + b, or -1 if that overflows or either is negative.
inline std::int64_t checked_add(std::int64_t a, std::int64_t b) noexcept { return a < 0 || b < 0 || a > INT64_MAX - b ? -1 : a + b; }

/// Number of elements, or -1 where an extent is unknown or the product overflows. Beside an extent of 0 the others may multiply
/// to 2^31 at most, so that loops over them end.
inline std::int64_t elements_of(const shape& s) noexcept {
    std::int64_t n = 1;
    bool zero = false;
    for (std::int64_t e : s) {
        if (e == 0) zero = true;
        if (e != 0 && (n = checked_mul(n, e)) < 0) return -1;
    }
    return !zero ? n : n <= (std::int64_t(1) << 31) ? 0 : -1;
}

/// Bytes that a tensor takes, or -1 where that is unknown or overflows.
inline std::int64_t bytes_of(dtype type, const shape& s) noexcept {
    const std::int64_t n = elements_of(s);
    return n < 0 ? -1 : checked_mul(n, static_cast<std::int64_t>(size_of(type)));
}

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE
GRAFT_INLINE std::string text(const shape& s) {
    std::string out = "[";
    for (int i = 0; i < s.rank(); ++i) {
        if (i) out += ',';
        out += s[i] < 0 ? std::string("?") : std::to_string(s[i]);
    }
    return out + "]";
}
GRAFT_END_NAMESPACE
#endif
