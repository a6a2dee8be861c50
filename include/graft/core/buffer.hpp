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
    /// Bytes of a file that is mapped, kept alive by `owner`, at any address. Where that is not `aligned` as their elements want it, whoever
    /// asks for `data` has them copied, once for all who share the buffer. `let_go` (or null) is told of bytes that were read and need not stay
    /// in memory. Errors: memory.oom.
    static result<buffer> lend(const void* bytes, std::size_t size, bool aligned, std::shared_ptr<const void> owner, void (*let_go)(const void*, std::size_t));

    /// What makes bytes when somebody asks for them.
    class maker {
    public:
        virtual ~maker() = default;
        /// Memory of as many bytes as were promised. Errors: memory.oom and memory.budget.
        virtual result<buffer> make() const = 0;
    };
    /// Bytes that are made, once for all who share the buffer, when they are asked for the first time: by any thread. Errors: memory.oom.
    static result<buffer> on_demand(std::size_t bytes, std::unique_ptr<const maker> by);

    /// The bytes, aligned. The first call may have to copy lent ones or to make them, and throws std::bad_alloc where there is no memory for it.
    std::byte* data() const { return kind_ != kind::lent ? data_ : copied(); }
    /// The bytes for who only copies them, at whatever address they lie.
    const std::byte* unaligned() const;
    /// The bytes if they lie aligned already, else null.
    std::byte* at_hand() const noexcept;
    /// Some of the bytes, aligned, to be read once: a copy that had to be made goes with what is returned, and so do pages of the file.
    /// `begin` is that of an element. Errors: memory.oom.
    result<buffer> to_read_once(std::size_t begin, std::size_t size) const;
    /// Tells the system that bytes of a file were read and need not stay in memory. They are there as before.
    void let_go() const noexcept {
        if (kind_ == kind::lent) let_lent_go();
    }
    std::size_t bytes() const noexcept { return bytes_; }
    /// Whether there is memory at all.
    explicit operator bool() const noexcept { return data_ || kind_ == kind::lent; }
    /// Whether nobody else holds this memory. Where it is so it may be written: whoever held it has read what he would.
    bool unique() const noexcept {
        if (owner_.use_count() != 1) return false;
        // The count that was read says nothing of what others did before they let go. To let go of it once more comes behind that.
        const auto held = owner_;
        return true;
    }
    /// Whether this is memory of its own, or becomes it when it is asked for.
    bool allocated() const noexcept;

    /// Remembers memory without holding it.
    class watch;
    /// Memory for what is made once and read in every run.
    class slab;

private:
    enum class kind { borrowed, allocated, lent };
    struct lender;
    static result<buffer> allocate(std::size_t bytes, const std::shared_ptr<memory_budget>& budget, bool huge);
    const lender& from() const noexcept;
    std::byte* copied() const;
    status copy_lent() const;
    void let_lent_go() const noexcept;

    std::shared_ptr<const void> owner_;  // of lent bytes their lender
    std::byte* data_ = nullptr;          // null of lent bytes
    std::size_t bytes_ = 0;
    kind kind_ = kind::borrowed;
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

// To find a page again costs most where many of 4 KB follow each other, as those of weights do. Behind the first megabytes, whose pages a processor remembers,
// there are huge ones, which what is smaller shares. Not safe from many threads.
class buffer::slab {
public:
    /// As buffer::allocate; what is shared goes back to the system when all of it has been given back.
    result<buffer> allocate(std::size_t bytes, const std::shared_ptr<memory_budget>& budget);

private:
    buffer shared_;
    std::size_t used_ = 0, all_ = 0;  // of what is shared now, and of everything
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <atomic>
#include <cstring>
#include <mutex>
#if defined(__linux__)
#include <sys/mman.h>
#endif
GRAFT_BEGIN_NAMESPACE
namespace detail {
// From four of them on, memory is asked for in huge pages: touching it the first time costs a fraction then.
constexpr std::size_t huge_page = std::size_t(2) << 20;
template <std::size_t Alignment>
inline void free_aligned(const void* p) {
    ::operator delete(const_cast<void*>(p), std::align_val_t(Alignment));
}
inline result<memory_charge> charged(std::size_t bytes, const std::shared_ptr<memory_budget>& budget) {
    memory_charge charge;
    if (bytes < SIZE_MAX / 2 && !charge.take(budget, static_cast<std::int64_t>(bytes)))
        return fail(errc::memory_budget, "buffer",
                    std::to_string(bytes) + " bytes more are over the limit of " + std::to_string(budget->limit()) + " (limits::memory_bytes)");
    return charge;
}
}  // namespace detail

GRAFT_INLINE result<buffer> buffer::allocate(std::size_t bytes, const std::shared_ptr<memory_budget>& budget) {
    return allocate(bytes, budget, bytes >= 4 * detail::huge_page);
}
GRAFT_INLINE result<buffer> buffer::allocate(std::size_t bytes, const std::shared_ptr<memory_budget>& budget, bool huge) GRAFT_MEMORY_TRY {
    memory_charge charge;
    GRAFT_TRY_ASSIGN(charge, detail::charged(bytes, budget));
    void* memory = nullptr;
    if (bytes < SIZE_MAX / 2) memory = ::operator new(bytes + alignment, std::align_val_t(huge ? detail::huge_page : alignment), std::nothrow);
    if (!memory) return fail(errc::memory_oom, "buffer", std::to_string(bytes) + " bytes could not be had from the system");
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (huge) madvise(memory, bytes / detail::huge_page * detail::huge_page, MADV_HUGEPAGE);
#endif
    const auto free = huge ? detail::free_aligned<detail::huge_page> : detail::free_aligned<alignment>;
    buffer b;
    if (budget)
        // What the function holds would live as long as a watch.
        b.owner_ = std::shared_ptr<const void>(memory, [free, held = std::move(charge)](const void* p) mutable {
            free(p);
            held = memory_charge();
        });
    else
        b.owner_ = std::shared_ptr<const void>(memory, free);
    b.data_ = static_cast<std::byte*>(memory);
    b.bytes_ = bytes;
    b.kind_ = kind::allocated;
    return b;
}
GRAFT_MEMORY_CATCH("buffer::allocate")
GRAFT_INLINE GRAFT_COLD result<buffer> buffer::slab::allocate(std::size_t bytes, const std::shared_ptr<memory_budget>& budget) GRAFT_MEMORY_TRY {
    constexpr std::size_t page = detail::huge_page, together = 4 * page - alignment;  // which is what allocate adds
    // What is small would leave more of a page empty than it gains.
    if (bytes < page / 8) return buffer::allocate(bytes, budget);
    const bool few = all_ < 4 * page;
    all_ += bytes;
    if (few) return buffer::allocate(bytes, budget);
    if (bytes > page) return buffer::allocate(bytes, budget, true);
    const std::size_t taken = (bytes + 2 * alignment - 1) / alignment * alignment;
    memory_charge charge;
    GRAFT_TRY_ASSIGN(charge, detail::charged(bytes, budget));
    if (shared_.bytes() - used_ < taken) {
        GRAFT_TRY_ASSIGN(shared_, buffer::allocate(together, nullptr, true));
        used_ = 0;
    }
    buffer b = borrow(shared_.data_ + used_, bytes);
    b.owner_ = std::shared_ptr<const void>(b.data_, [of = shared_.owner_, held = std::move(charge)](const void*) mutable {
        of.reset();
        held = memory_charge();
    });
    b.kind_ = kind::allocated;
    used_ += taken;
    return b;
}
GRAFT_MEMORY_CATCH("buffer::slab")

struct buffer::lender {
    std::shared_ptr<const void> owner;
    std::byte* bytes;
    bool there;  // whether they lie aligned as they are
    void (*let_go)(const void*, std::size_t);
    std::unique_ptr<const maker> by;          // null of bytes that lie somewhere
    mutable std::atomic<std::byte*> aligned;  // null until they were copied, or made
    mutable std::mutex copying;
    mutable buffer copy;

    lender(std::shared_ptr<const void> o, const void* b, bool a, void (*l)(const void*, std::size_t))
        : owner(std::move(o)), bytes(const_cast<std::byte*>(static_cast<const std::byte*>(b))), there(a), let_go(l), aligned(a ? bytes : nullptr) {}
    lender(std::unique_ptr<const maker> m) : bytes(nullptr), there(false), let_go(nullptr), by(std::move(m)), aligned(nullptr) {}
    result<buffer> copy_of(std::size_t begin, std::size_t size) const {
        auto made = allocate(size);
        if (made.ok()) std::memcpy(made->data(), bytes + begin, size);
        if (let_go) let_go(bytes + begin, size);
        return made;
    }
};
GRAFT_INLINE result<buffer> buffer::lend(const void* bytes, std::size_t size, bool aligned, std::shared_ptr<const void> owner,
                                         void (*let_go)(const void*, std::size_t)) GRAFT_MEMORY_TRY {
    buffer b;
    b.owner_ = std::make_shared<const lender>(std::move(owner), bytes, aligned, let_go);
    b.bytes_ = size;
    b.kind_ = kind::lent;
    return b;
}
GRAFT_MEMORY_CATCH("buffer::lend")
GRAFT_INLINE result<buffer> buffer::on_demand(std::size_t bytes, std::unique_ptr<const maker> by) GRAFT_MEMORY_TRY {
    buffer b;
    b.owner_ = std::make_shared<const lender>(std::move(by));
    b.bytes_ = bytes;
    b.kind_ = kind::lent;
    return b;
}
GRAFT_MEMORY_CATCH("buffer::on_demand")
GRAFT_INLINE const buffer::lender& buffer::from() const noexcept { return *static_cast<const lender*>(owner_.get()); }
GRAFT_INLINE std::byte* buffer::at_hand() const noexcept { return kind_ == kind::lent ? from().aligned.load(std::memory_order_acquire) : data_; }
GRAFT_INLINE const std::byte* buffer::unaligned() const {
    if (kind_ != kind::lent) return data_;
    return from().by ? copied() : from().bytes;
}
GRAFT_INLINE void buffer::let_lent_go() const noexcept {
    if (from().let_go) from().let_go(from().bytes, bytes_);
}
GRAFT_INLINE bool buffer::allocated() const noexcept { return kind_ == kind::allocated || (kind_ == kind::lent && !from().there); }
GRAFT_INLINE result<buffer> buffer::to_read_once(std::size_t begin, std::size_t size) const GRAFT_MEMORY_TRY {
    std::byte* aligned = at_hand();
    if (kind_ == kind::lent && !aligned) {
        if (!from().by) return from().copy_of(begin, size);
        GRAFT_TRY(copy_lent());
        aligned = at_hand();
    }
    if (kind_ != kind::lent || !from().there || !from().let_go) return borrow(aligned + begin, size, owner_);
    return borrow(aligned + begin, size, std::shared_ptr<const void>(aligned + begin, [size, held = owner_](const void* p) {
                      static_cast<const lender*>(held.get())->let_go(p, size);
                  }));
}
GRAFT_MEMORY_CATCH("buffer::to_read_once")
GRAFT_INLINE GRAFT_COLD status buffer::copy_lent() const {
    const lender& lent = from();
    std::lock_guard<std::mutex> guard(lent.copying);
    if (lent.copy) return {};
    auto made = lent.by ? lent.by->make() : lent.copy_of(0, bytes_);
    if (!made.ok()) return made.take_status();
    lent.copy = std::move(made).value();
    lent.aligned.store(lent.copy.data_, std::memory_order_release);
    return {};
}
GRAFT_INLINE GRAFT_COLD std::byte* buffer::copied() const {
    if (std::byte* const there = at_hand()) return there;
    const status had = copy_lent();
#ifndef GRAFT_NO_EXCEPTIONS
    if (!had.ok()) throw std::bad_alloc();
#endif
    return at_hand();
}
GRAFT_END_NAMESPACE
#endif
