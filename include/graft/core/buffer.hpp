// Memory that tensors share: aligned, reference-counted, of its own or borrowed.
#pragma once

#include "error.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

GRAFT_BEGIN_NAMESPACE

/// A run of bytes, aligned to 64, that any number of tensors may share. Copies share; the last one gives it back.
class buffer {
public:
    static constexpr std::size_t alignment = 64;

    buffer() noexcept = default;
    /// New memory, not initialised; `memory.oom` where the system refuses. One cache line of slack follows the end,
    /// so that vector loads may run past it.
    static result<buffer> allocate(std::size_t bytes);
    /// Memory of somebody else's, kept alive by `owner` (null: the caller promises to outlive every user).
    static buffer borrow(const void* data, std::size_t bytes, std::shared_ptr<const void> owner = nullptr) {
        buffer b;
        b.data_ = const_cast<std::byte*>(static_cast<const std::byte*>(data));
        b.bytes_ = bytes;
        b.owner_ = std::move(owner);
        return b;
    }
    std::byte* data() const noexcept { return data_; }
    std::size_t bytes() const noexcept { return bytes_; }
    /// Whether nobody else holds this memory.
    bool unique() const noexcept { return owner_.use_count() == 1; }

private:
    std::shared_ptr<const void> owner_;
    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#if defined(__linux__)
#include <sys/mman.h>
#endif
GRAFT_BEGIN_NAMESPACE
namespace detail {
// From this size on, memory is asked for in huge pages: touching it the first time costs a fraction then.
constexpr std::size_t huge_page = std::size_t(2) << 20;
template <std::size_t Alignment>
inline void free_aligned(const void* p) {
    ::operator delete(const_cast<void*>(p), std::align_val_t(Alignment));
}
}  // namespace detail

GRAFT_INLINE result<buffer> buffer::allocate(std::size_t bytes) {
    void* memory = nullptr;
    const bool huge = bytes >= 4 * detail::huge_page;
    if (bytes < SIZE_MAX / 2) memory = ::operator new(bytes + alignment, std::align_val_t(huge ? detail::huge_page : alignment), std::nothrow);
    if (!memory) return fail(errc::memory_oom, "buffer", std::to_string(bytes) + " bytes could not be had from the system");
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (huge) madvise(memory, bytes / detail::huge_page * detail::huge_page, MADV_HUGEPAGE);
#endif
    buffer b;
    b.owner_ = std::shared_ptr<const void>(memory, huge ? detail::free_aligned<detail::huge_page> : detail::free_aligned<alignment>);
    b.data_ = static_cast<std::byte*>(memory);
    b.bytes_ = bytes;
    return b;
}
GRAFT_END_NAMESPACE
#endif
