// Rows of batches: the parts that one is computed in, where they lie, and how a part is filled up.
#pragma once

#include "../core/shards.hpp"
#include "../graph/op.hpp"

#include <algorithm>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Samples [first, last) of a batch, where they lie.
inline tensor_view rows_of(const tensor& batch, std::int64_t first, std::int64_t last) {
    tensor_view v = view(batch);
    const std::int64_t n = v.extents[0];
    v.data = static_cast<unsigned char*>(v.data) + (n ? static_cast<std::int64_t>(batch.bytes()) / n * first : 0);
    v.extents[0] = last - first;
    return v;
}

// Samples [first, last) of a tensor, where they lie.
inline tensor samples_of(const tensor& all, std::int64_t first, std::int64_t last) {
    const tensor_view rows = rows_of(all, first, last);
    return tensor(all.type(), rows.extents, buffer::borrow(rows.data, static_cast<std::size_t>(bytes_of(all.type(), rows.extents))));
}

// The parts that a batch is computed in: as shards are cut, or of `each` samples. Their number is a power of two, and some may be empty.
struct batch_parts {
    shards cut;
    std::int64_t each = 0;

    std::int64_t count(std::int64_t n) const {
        std::int64_t parts = each > 0 ? 1 : cut.count;
        while (each > 0 && parts * each < n) parts *= 2;
        return parts;
    }
    std::int64_t first(std::int64_t n, std::int64_t s) const { return each > 0 ? std::min(n, s * each) : cut.first(n, static_cast<int>(s)); }
    std::int64_t last(std::int64_t n, std::int64_t s) const { return first(n, s + 1); }
    // Samples of the largest part, as it is planned.
    std::int64_t largest(std::int64_t n) const {
        std::int64_t most = each;
        for (std::int64_t s = 0; each == 0 && s < cut.count; ++s) most = std::max(most, last(n, s) - first(n, s));
        return most;
    }
};

// Repeats the last sample until there are `n`; `fill` false: zeros instead.
inline status filled_up(const tensor_view& rows, std::int64_t n, bool fill, tensor& made) {
    shape extents = rows.extents;
    const std::int64_t had = extents[0];
    const std::size_t size = static_cast<std::size_t>(bytes_of(rows.type, extents) / had);
    extents[0] = n;
    tensor all;  // `made` may be what the rows lie in
    GRAFT_TRY_ASSIGN(all, tensor::zeros(rows.type, extents));
    const auto* from = static_cast<const std::byte*>(rows.data);
    for (std::int64_t i = 0; i < (fill ? n : had); ++i)
        std::memcpy(all.raw() + static_cast<std::size_t>(i) * size, from + static_cast<std::size_t>(std::min(i, had - 1)) * size, size);
    made = std::move(all);
    return {};
}

}  // namespace detail
GRAFT_END_NAMESPACE
