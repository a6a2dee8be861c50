// Tables of operators, gradients and kernels, as they are handed out: rows that stand in the program for good.
#pragma once

#include "../config.hpp"

#include <cstddef>

GRAFT_BEGIN_NAMESPACE

/// Rows of one kind, which must outlive the table.
template <class Row>
struct row_table {
    const Row* rows = nullptr;
    int size = 0;

    constexpr row_table() noexcept = default;
    constexpr row_table(const Row* first, int count) noexcept : rows(first), size(count) {}
    /// All rows of an array.
    template <std::size_t Count>
    constexpr row_table(const Row (&all)[Count]) noexcept : rows(all), size(static_cast<int>(Count)) {}

    constexpr const Row* begin() const noexcept { return rows; }
    constexpr const Row* end() const noexcept { return rows + size; }
};

GRAFT_END_NAMESPACE
