// Helpers of the operators that move elements: short integer lists, axes, strided and mapped copies.
#pragma once

#include "common.hpp"

#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// A list of integers from an input or an attribute, long enough for the begin and end of every axis.
struct short_list {
    static constexpr int max_size = 2 * shape::max_rank;
    std::int64_t values[max_size] = {};
    int size = 0;
    std::int64_t operator[](int i) const noexcept { return values[i]; }
};

/// Whether input i is there but its contents are not known yet.
inline bool unknown(const infer_context& c, int i) noexcept { return c.has(i) && !c.knows(i); }

/// Element i of a tensor of int64 or int32.
inline std::int64_t index_at(const tensor_view& t, std::int64_t i) noexcept {
    return t.type == dtype::int64 ? t.as<std::int64_t>()[i] : std::int64_t(t.as<std::int32_t>()[i]);
}

/// Reads `list` from input i where it is there, else from the attribute; `given`: whether either is. Contents must be known.
GRAFT_NOINLINE inline status read_list(const op_context& c, int i, const char* attribute, bool int32_too, short_list& list, bool& given) {
    list.size = 0;
    given = true;
    if (i >= 0 && c.has(i)) {
        GRAFT_TRY(check_index_type(c, i, int32_too));
        const shape& s = c.in[i].extents;
        if (s.rank() > 1) return c.fail(errc::op_shape, "input %lld must have one dimension, not %lld", i, s.rank());
        if (s.back() > short_list::max_size) return c.fail(errc::op_shape, "input %lld has %lld elements, more than there are axes", i, s.back());
        for (list.size = 0; list.size < s.back(); ++list.size) list.values[list.size] = index_at(c.in[i], list.size);
        return {};
    }
    given = attribute && c.has_attribute(attribute);
    const integer_list a = given ? c.integers(attribute) : integer_list{};
    if (a.size > short_list::max_size) return c.fail(errc::op_attribute, "an attribute has %lld elements, more than there are axes", a.size);
    for (; list.size < a.size; ++list.size) list.values[list.size] = a[list.size];
    return {};
}

/// Resolves negative axes in place; each must be in range for `rank` and be named once.
GRAFT_NOINLINE inline status resolve_axes(const op_context& c, int rank, short_list& axes) {
    bool seen[shape::max_rank + 1] = {};
    for (int i = 0; i < axes.size; ++i) {
        int a = 0;
        GRAFT_TRY(c.axis(axes[i], rank, a));
        if (seen[a]) return c.fail(errc::op_attribute, "axis %lld is named twice", axes[i]);
        seen[a] = true;
        axes.values[i] = a;
    }
    return {};
}

/// Which of `names` (null at the end) a string attribute is; else op.attribute.
GRAFT_NOINLINE inline status choose(const op_context& c, const char* attribute, const char* otherwise, const char* const* names, int& chosen) {
    for (chosen = 0; names[chosen]; ++chosen)
        if (c.is(attribute, names[chosen], otherwise)) return {};
    return graft::fail(errc::op_attribute, location(c.n),
                       std::string(attribute) + " is not one that the operator knows: " + escape(c.string(attribute, otherwise)));
}

/// Fails where an output would have more axes than a shape holds.
GRAFT_NOINLINE inline status check_rank(const op_context& c, std::int64_t rank) {
    if (rank > shape::max_rank) return c.fail(errc::op_unsupported, "%lld axes are more than the %lld that are supported", rank, shape::max_rank);
    return {};
}

/// Strides in elements of a row-major tensor.
inline void row_major(const shape& s, std::int64_t* strides) noexcept {
    std::int64_t n = 1;
    for (int d = s.rank() - 1; d >= 0; --d) {
        strides[d] = n;
        n *= s[d];
    }
}

template <class T>
inline void copy_run_of(char* to, std::int64_t to_stride, const char* from, std::int64_t from_stride, std::int64_t n) noexcept {
    T* t = reinterpret_cast<T*>(to);
    const T* f = reinterpret_cast<const T*>(from);
    for (std::int64_t i = 0; i < n; ++i) t[i * to_stride] = f[i * from_stride];
}

/// Copies n elements of `size` bytes; strides in elements.
GRAFT_NOINLINE inline void copy_run(std::size_t size, char* to, std::int64_t to_stride, const char* from, std::int64_t from_stride, std::int64_t n) noexcept {
    if (to_stride == 1 && from_stride == 1) {
        if (n > 0) std::memcpy(to, from, static_cast<std::size_t>(n) * size);
        return;
    }
    switch (size) {
    case 1: return copy_run_of<std::uint8_t>(to, to_stride, from, from_stride, n);
    case 2: return copy_run_of<std::uint16_t>(to, to_stride, from, from_stride, n);
    case 4: return copy_run_of<std::uint32_t>(to, to_stride, from, from_stride, n);
    default: return copy_run_of<std::uint64_t>(to, to_stride, from, from_stride, n);
    }
}

/// to[sum i_d * to_strides[d]] = from[sum i_d * from_strides[d]] for every i inside `extents`; strides in elements, any sign.
GRAFT_NOINLINE inline void copy_strided(std::size_t size, const shape& extents, void* to, const std::int64_t* to_strides, const void* from,
                                        const std::int64_t* from_strides) noexcept {
    // Neighbouring axes that are one run in both are merged, axes of extent 1 dropped.
    std::int64_t n[shape::max_rank] = {}, ts[shape::max_rank] = {}, fs[shape::max_rank] = {}, at[shape::max_rank] = {};
    int rank = 0;
    for (int d = 0; d < extents.rank(); ++d) {
        if (extents[d] == 0) return;
        if (extents[d] == 1) continue;
        if (rank && ts[rank - 1] == to_strides[d] * extents[d] && fs[rank - 1] == from_strides[d] * extents[d]) {
            n[rank - 1] *= extents[d];
            ts[rank - 1] = to_strides[d];
            fs[rank - 1] = from_strides[d];
            continue;
        }
        n[rank] = extents[d];
        ts[rank] = to_strides[d];
        fs[rank++] = from_strides[d];
    }
    char* t = static_cast<char*>(to);
    const char* f = static_cast<const char*>(from);
    const std::int64_t width = static_cast<std::int64_t>(size);
    if (!rank) return copy_run(size, t, 1, f, 1, 1);
    const int last = rank - 1;
    for (;;) {
        copy_run(size, t, ts[last], f, fs[last], n[last]);
        int d = last - 1;
        for (; d >= 0; --d) {
            t += ts[d] * width;
            f += fs[d] * width;
            if (++at[d] < n[d]) break;
            t -= ts[d] * n[d] * width;
            f -= fs[d] * n[d] * width;
            at[d] = 0;
        }
        if (d < 0) return;
    }
}

/// For each axis of an output: where along that axis of the input its elements come from, -1 for the fill value;
/// null: the axis is copied as it is.
struct axis_maps {
    std::int64_t* map[shape::max_rank] = {};
    buffer memory;

    /// Makes room for the maps of the axes whose extents differ.
    status allocate(const run_context& c, const shape& from, const shape& to) {
        bool mapped[shape::max_rank] = {};
        for (int d = 0; d < to.rank(); ++d) mapped[d] = from[d] != to[d];
        return allocate(c, to, mapped);
    }
    /// The same for those that `mapped` names.
    status allocate(const run_context& c, const shape& to, const bool* mapped) {
        std::int64_t total = 0;
        for (int d = 0; d < to.rank(); ++d)
            if (mapped[d]) total = checked_add(total, to[d]);
        GRAFT_TRY_ASSIGN(memory, c.scratch(checked_mul(total, 8)));
        std::int64_t* p = reinterpret_cast<std::int64_t*>(memory.data());
        for (int d = 0; d < to.rank(); ++d)
            if (mapped[d]) map[d] = p, p += to[d];
        return {};
    }
};

/// Writes `n` elements of `size` bytes, each the bytes at `fill`.
inline void fill_run(std::size_t size, char* to, std::int64_t n, const void* fill) noexcept {
    const unsigned char* bytes = static_cast<const unsigned char*>(fill);
    std::size_t alike = 1;
    while (alike < size && bytes[alike] == bytes[0]) ++alike;
    if (alike >= size) {  // zeros, as nearly always
        std::memset(to, bytes[0], static_cast<std::size_t>(n) * size);
        return;
    }
    for (std::int64_t i = 0; i < n; ++i, to += size) std::memcpy(to, fill, size);
}

/// to[i0,i1,…] = from[map0[i0],map1[i1],…], or the element at `fill` where a map says -1.
GRAFT_NOINLINE inline void copy_mapped(std::size_t size, const shape& from_extents, const shape& to_extents, const axis_maps& maps, const void* from, void* to,
                                       const void* fill) noexcept {
    if (to_extents.elements() == 0) return;
    int last = to_extents.rank() - 1;
    while (last >= 0 && !maps.map[last]) --last;
    if (last < 0) return copy_run(size, static_cast<char*>(to), 1, static_cast<const char*>(from), 1, to_extents.elements());
    const std::int64_t block = to_extents.product(last + 1, to_extents.rank()), bytes = block * static_cast<std::int64_t>(size);
    std::int64_t strides[shape::max_rank], at[shape::max_rank] = {};
    row_major(from_extents, strides);
    const char* f = static_cast<const char*>(from);
    char* t = static_cast<char*>(to);
    for (;;) {
        std::int64_t base = 0;
        bool outside = false;
        for (int d = 0; d < last; ++d) {
            const std::int64_t i = maps.map[d] ? maps.map[d][at[d]] : at[d];
            outside |= i < 0;
            base += i * strides[d];
        }
        // What comes from places behind one another goes in one piece, and so does what is filled.
        const std::int64_t* from_places = maps.map[last];
        for (std::int64_t j = 0, count = 0; j < to_extents[last]; j += count, t += count * bytes) {
            const std::int64_t i = outside ? -1 : from_places[j];
            count = outside ? to_extents[last] : 1;
            while (j + count < to_extents[last] && from_places[j + count] == (i < 0 ? i : i + count)) ++count;
            if (i < 0)
                fill_run(size, t, count * block, fill);
            else
                copy_run(size, t, 1, f + (base + i * strides[last]) * static_cast<std::int64_t>(size), 1, count * block);
        }
        int d = last - 1;
        for (; d >= 0; --d) {
            if (++at[d] < to_extents[d]) break;
            at[d] = 0;
        }
        if (d < 0) return;
    }
}

}  // namespace ops
GRAFT_END_NAMESPACE
