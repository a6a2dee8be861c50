// Memory that tensors share: aligned, reference-counted, of its own or borrowed.
#pragma once

#include "error.hpp"
#include "memory_budget.hpp"

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
    /// so that vector loads may run past it. `budget`: what it counts against for as long as anybody holds it (null: nothing);
    /// `memory.budget` where that has no room.
    static result<buffer> allocate(std::size_t bytes, const std::shared_ptr<memory_budget>& budget = nullptr);
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
    /// Whether this is memory of its own, not borrowed.
    bool allocated() const noexcept { return allocated_; }

    /// Remembers memory without holding it.
    class watch;

private:
    std::shared_ptr<const void> owner_;
    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
    bool allocated_ = false;
};

class buffer::watch {
public:
    explicit watch(const buffer& b) noexcept : memory_(b), owner_(b.owner_), owned_(static_cast<bool>(b.owner_)) { memory_.owner_.reset(); }
    /// Whether nobody holds it any more; never of borrowed memory without an owner.
    bool gone() const noexcept { return owned_ && owner_.expired(); }
    bool watches(const buffer& b) const noexcept { return b.data_ == memory_.data_ && !owner_.owner_before(b.owner_) && !b.owner_.owner_before(owner_); }
    /// The memory, held again; empty where it is gone.
    buffer hold() const noexcept {
        buffer b = memory_;
        b.owner_ = owner_.lock();
        return owned_ && !b.owner_ ? buffer() : b;
    }

private:
    buffer memory_;  // without its owner
    std::weak_ptr<const void> owner_;
    bool owned_;
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

GRAFT_INLINE result<buffer> buffer::allocate(std::size_t bytes, const std::shared_ptr<memory_budget>& budget) GRAFT_MEMORY_TRY {
    memory_charge charge;
    if (bytes < SIZE_MAX / 2 && !charge.take(budget, static_cast<std::int64_t>(bytes)))
        return fail(errc::memory_budget, "buffer", std::to_string(bytes) + " bytes more are over the limit of " + std::to_string(budget->limit()) + " (limits::memory_bytes)");
    void* memory = nullptr;
    const bool huge = bytes >= 4 * detail::huge_page;
    if (bytes < SIZE_MAX / 2) memory = ::operator new(bytes + alignment, std::align_val_t(huge ? detail::huge_page : alignment), std::nothrow);
    if (!memory) return fail(errc::memory_oom, "buffer", std::to_string(bytes) + " bytes could not be had from the system");
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (huge) madvise(memory, bytes / detail::huge_page * detail::huge_page, MADV_HUGEPAGE);
#endif
    const auto free = huge ? detail::free_aligned<detail::huge_page> : detail::free_aligned<alignment>;
    buffer b;
    if (budget)
        b.owner_ = std::shared_ptr<const void>(memory, [free, held = std::move(charge)](const void* p) { free(p); });
    else
        b.owner_ = std::shared_ptr<const void>(memory, free);
    b.data_ = static_cast<std::byte*>(memory);
    b.bytes_ = bytes;
    b.allocated_ = true;
    return b;
}
GRAFT_MEMORY_CATCH("buffer::allocate")
GRAFT_END_NAMESPACE
#endif
