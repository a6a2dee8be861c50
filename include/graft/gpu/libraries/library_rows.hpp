// The rows of the families that call libraries, by operator.
#pragma once

#include "../ops/attention.hpp"
#include "../ops/collective.hpp"
#include "../ops/conv.hpp"
#include "../ops/matmul.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The row of cuDNN's families; null where there is none.
const library_row* find_conv_row(const char* op, const char* domain);
/// The row of cuBLASLt's families; null where there is none.
const library_row* find_matmul_row(const char* op, const char* domain);
/// The row of cuDNN's attention; null where there is none.
const library_row* find_attention_row(const char* op, const char* domain);
/// The row of NCCL's exchanges; null where there is none.
const library_row* find_collective_row(const char* op, const char* domain);

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <cstring>
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {
inline const library_row* find_row(const library_table& rows, const char* op, const char* domain) {
    for (const library_row& row : rows)
        if (!std::strcmp(row.op, op) && !std::strcmp(row.domain, domain)) return &row;
    return nullptr;
}
}  // namespace detail

GRAFT_INLINE const library_row* find_conv_row(const char* op, const char* domain) { return detail::find_row(conv_rows(), op, domain); }
GRAFT_INLINE const library_row* find_matmul_row(const char* op, const char* domain) { return detail::find_row(matmul_rows(), op, domain); }
GRAFT_INLINE const library_row* find_attention_row(const char* op, const char* domain) { return detail::find_row(attention_rows(), op, domain); }
GRAFT_INLINE const library_row* find_collective_row(const char* op, const char* domain) { return detail::find_row(collective_rows(), op, domain); }

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
