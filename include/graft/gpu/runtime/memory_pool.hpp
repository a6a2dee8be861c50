// The memory of a device: taken from the driver on demand, kept for reuse, given back by trim.
#pragma once

#include "driver_status.hpp"
#include "../kernel.hpp"

#include <cstdint>
#include <memory>
#include <string>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// What memory is used for, in reports.
enum class purpose { constants, state, activations, measuring };
constexpr int purposes = 4;
const char* name(purpose p) noexcept;

/// A run of device memory, given back to its pool when the last copy goes. The work that uses it has to be done by then: whoever holds
/// it waits for its stream first.
class device_memory {
public:
    device_memory() = default;
    device_address address() const noexcept { return held_ ? held_->address : 0; }
    std::int64_t bytes() const noexcept { return held_ ? held_->bytes : 0; }

private:
    friend class memory_pool;
    struct holding {
        std::shared_ptr<class memory_pool> from;
        device_address address = 0;
        std::int64_t bytes = 0;
        purpose use = purpose::activations;
        ~holding();
    };
    std::shared_ptr<holding> held_;
};

/// How much of a device's memory is in use, in bytes.
struct pool_use {
    std::int64_t reserved = 0;         ///< had from the driver
    std::int64_t used[purposes] = {};  ///< of that, handed out, by purpose
    std::int64_t peak = 0;             ///< the most that was handed out at a time
    std::int64_t total() const noexcept;
};

/// The pool of one device. It grows on demand up to its limit. Safe from many threads.
class memory_pool : public std::enable_shared_from_this<memory_pool> {
public:
    /// `limit`: bytes it may have from the driver; 0: as much as the device has. `context` must outlive the pool.
    static std::shared_ptr<memory_pool> make(const api::driver_functions& driver, void* context, std::string where, std::int64_t limit);
    ~memory_pool();
    /// `bytes` of memory, aligned to 256, not initialised. Errors: memory.oom (says what was asked, what is free and what uses the rest),
    /// memory.budget (over the limit), device.lost.
    result<device_memory> take(std::int64_t bytes, purpose use);
    /// Gives everything that nobody uses back to the driver.
    void trim();
    pool_use use() const;

private:
    friend struct device_memory::holding;
    struct state;
    explicit memory_pool(std::unique_ptr<state> s);
    void give(device_address address, std::int64_t bytes, purpose use);
    std::unique_ptr<state> state_;
};

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <algorithm>
#include <mutex>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

// Memory of the driver, cut into blocks that lie side by side. Free neighbours are always joined.
struct memory_pool::state {
    struct block {
        std::int64_t offset, bytes;
        bool free;
    };
    struct segment {
        device_address address;
        std::int64_t bytes;
        std::vector<block> blocks;
    };
    // What the driver hands out is rounded to this anyway.
    static constexpr std::int64_t granule = std::int64_t(2) << 20;

    state(const api::driver_functions& d, void* c, std::string w, std::int64_t most) : driver(d), context(c), where(std::move(w)), limit(most) {}

    const api::driver_functions& driver;
    void* context;
    std::string where;
    std::int64_t limit;
    mutable std::mutex lock;
    std::vector<segment> segments;
    pool_use use;

    // The smallest free block that is large enough.
    bool find(std::int64_t bytes, device_address& found) {
        segment* in = nullptr;
        std::size_t best = 0;
        for (segment& s : segments)
            for (std::size_t i = 0; i < s.blocks.size(); ++i)
                if (s.blocks[i].free && s.blocks[i].bytes >= bytes && (!in || s.blocks[i].bytes < in->blocks[best].bytes)) in = &s, best = i;
        if (!in) return false;
        block& b = in->blocks[best];
        found = in->address + static_cast<device_address>(b.offset);
        b.free = false;
        if (b.bytes > bytes) {
            const block rest{b.offset + bytes, b.bytes - bytes, true};
            b.bytes = bytes;
            in->blocks.insert(in->blocks.begin() + static_cast<std::ptrdiff_t>(best) + 1, rest);
        }
        return true;
    }
    // In whole granules where there is room for them.
    int grow(std::int64_t bytes, bool exact) {
        segment s{0, exact ? bytes : (bytes + granule - 1) / granule * granule, {}};
        if (limit) s.bytes = std::max(bytes, std::min(s.bytes, limit - use.reserved));
        const int result = driver.cuMemAlloc_v2(&s.address, static_cast<std::size_t>(s.bytes));
        if (result) return result;
        s.blocks.push_back({0, s.bytes, true});
        use.reserved += s.bytes;
        segments.push_back(std::move(s));
        return 0;
    }
    void trim() {
        for (std::size_t i = segments.size(); i-- > 0;) {
            if (segments[i].blocks.size() != 1 || !segments[i].blocks[0].free) continue;
            driver.cuMemFree_v2(segments[i].address);
            use.reserved -= segments[i].bytes;
            segments.erase(segments.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }
    std::string told() const {
        std::string text;
        for (int p = 0; p < purposes; ++p) text += std::string(p ? ", " : "") + name(static_cast<purpose>(p)) + " " + std::to_string(use.used[p]);
        return text;
    }
};

GRAFT_INLINE const char* name(purpose p) noexcept {
    constexpr const char* names[purposes] = {"constants", "state", "activations", "measuring"};
    return names[static_cast<int>(p)];
}
GRAFT_INLINE std::int64_t pool_use::total() const noexcept {
    std::int64_t sum = 0;
    for (std::int64_t bytes : used) sum += bytes;
    return sum;
}
GRAFT_INLINE device_memory::holding::~holding() { from->give(address, bytes, use); }

GRAFT_INLINE memory_pool::memory_pool(std::unique_ptr<state> s) : state_(std::move(s)) {}
GRAFT_INLINE memory_pool::~memory_pool() {
    current_context now(state_->driver, state_->context);
    for (const state::segment& s : state_->segments) state_->driver.cuMemFree_v2(s.address);
}
GRAFT_INLINE std::shared_ptr<memory_pool> memory_pool::make(const api::driver_functions& driver, void* context, std::string where, std::int64_t limit) {
    return std::shared_ptr<memory_pool>(new memory_pool(std::unique_ptr<state>(new state(driver, context, std::move(where), limit))));
}

GRAFT_INLINE result<device_memory> memory_pool::take(std::int64_t bytes, purpose use) {
    state& s = *state_;
    constexpr std::int64_t most = INT64_MAX / 2;
    if (bytes < 0 || bytes > most) return fail(errc::memory_budget, s.where, "the size of what is asked overflows");
    bytes = std::max<std::int64_t>(256, (bytes + 255) / 256 * 256);
    std::lock_guard<std::mutex> guard(s.lock);
    current_context now(s.driver, s.context);
    GRAFT_TRY(driver_status(s.driver, now.result(), s.where, "using its context"));
    device_address found = 0;
    if (!s.find(bytes, found)) {
        if (s.limit && s.use.reserved + bytes > s.limit) s.trim();
        if (s.limit && s.use.reserved + bytes > s.limit)
            return fail(errc::memory_budget, s.where,
                        std::to_string(bytes) + " bytes more are over the limit of " + std::to_string(s.limit) + " (--memory-limit); in use: " + s.told());
        int result = s.grow(bytes, false);
        if (result == api::driver::result::out_of_memory) {
            s.trim();
            result = s.grow(bytes, true);
        }
        if (result == api::driver::result::out_of_memory) {
            std::size_t free = 0, total = 0;
            s.driver.cuMemGetInfo_v2(&free, &total);
            return fail(errc::memory_oom, s.where,
                        std::to_string(bytes) + " bytes were asked for, " + std::to_string(free) + " of " + std::to_string(total) +
                            " are free; this process uses: " + s.told() + ". A smaller batch needs less");
        }
        GRAFT_TRY(driver_status(s.driver, result, s.where, "taking memory"));
        if (!s.find(bytes, found)) return fail(errc::internal, s.where, "new memory was not found");
    }
    s.use.used[static_cast<int>(use)] += bytes;
    s.use.peak = std::max(s.use.peak, s.use.total());
    device_memory made;
    made.held_ = std::make_shared<device_memory::holding>();
    made.held_->from = shared_from_this();
    made.held_->address = found;
    made.held_->bytes = bytes;
    made.held_->use = use;
    return made;
}

GRAFT_INLINE void memory_pool::give(device_address address, std::int64_t bytes, purpose use) {
    state& s = *state_;
    std::lock_guard<std::mutex> guard(s.lock);
    s.use.used[static_cast<int>(use)] -= bytes;
    for (state::segment& in : s.segments) {
        if (address < in.address || address >= in.address + static_cast<device_address>(in.bytes)) continue;
        std::vector<state::block>& blocks = in.blocks;
        for (std::size_t i = 0; i < blocks.size(); ++i) {
            if (in.address + static_cast<device_address>(blocks[i].offset) != address) continue;
            blocks[i].free = true;
            if (i + 1 < blocks.size() && blocks[i + 1].free) {
                blocks[i].bytes += blocks[i + 1].bytes;
                blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(i) + 1);
            }
            if (i > 0 && blocks[i - 1].free) {
                blocks[i - 1].bytes += blocks[i].bytes;
                blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(i));
            }
            return;
        }
    }
}

GRAFT_INLINE void memory_pool::trim() {
    std::lock_guard<std::mutex> guard(state_->lock);
    current_context now(state_->driver, state_->context);
    if (!now.result()) state_->trim();
}
GRAFT_INLINE pool_use memory_pool::use() const {
    std::lock_guard<std::mutex> guard(state_->lock);
    return state_->use;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
