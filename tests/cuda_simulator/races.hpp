// Finds races in the accesses of one launch: a byte that one thread writes, and another one reads or writes, with nothing that orders them.
#pragma once

#include "device_state.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

namespace graft_simulator {

/// Accesses are ordered within a thread, within a block by its barriers, and within a warp by the functions that its lanes meet in. Atomic
/// functions are not told to it. Of the readers of a byte it remembers two, so that a race of many threads may be told as one of two.
class race_finder {
public:
    /// Who does something: the thread's number in the whole grid, and how often its block and its lanes have met before.
    struct moment {
        std::uint32_t thread = 0;  ///< from 1 on; 0: nobody yet
        std::uint32_t block_meetings = 0, warp_meetings = 0;
    };

    explicit race_finder(std::uint32_t threads_of_block) : block_(threads_of_block) {}

    /// True where this access races with an earlier one, which is in `other` then.
    bool access(std::uintptr_t address, std::size_t bytes, bool writes, const moment& now, moment& other) {
        for (std::size_t i = 0; i < bytes; ++i) {
            seen& at = byte(address + i);
            const moment* const earlier[] = {&at.written, writes ? &at.read[0] : nullptr, writes ? &at.read[1] : nullptr};
            for (const moment* m : earlier)
                if (m && unordered(*m, now)) {
                    other = *m;
                    return true;
                }
            if (writes)
                at.written = now;
            else
                remember(at, now);
        }
        return false;
    }

private:
    static constexpr std::size_t page = 1024;
    struct seen {
        moment written, read[2];
    };

    bool unordered(const moment& before, const moment& now) const {
        if (!before.thread || before.thread == now.thread) return false;
        const std::uint32_t a = before.thread - 1, b = now.thread - 1;
        if (a / block_ != b / block_) return true;
        if (before.block_meetings != now.block_meetings) return false;
        return a % block_ / 32 != b % block_ / 32 || before.warp_meetings == now.warp_meetings;
    }
    // The latest reader, and one of another thread, of another block if there was one.
    void remember(seen& at, const moment& now) const {
        if (at.read[0].thread == now.thread) {
            at.read[0] = now;
            return;
        }
        const bool apart = at.read[1].thread && at.read[1].thread != now.thread && (at.read[1].thread - 1) / block_ != (now.thread - 1) / block_;
        if (!apart) at.read[1] = at.read[0];
        at.read[0] = now;
    }
    seen& byte(std::uintptr_t address) {
        if (address / page != last_page_ || !last_) {
            std::unique_ptr<seen[]>& bytes = pages_[address / page];
            if (!bytes) bytes.reset(new seen[page]);
            last_page_ = address / page;
            last_ = bytes.get();
        }
        return last_[address % page];
    }

    std::uint32_t block_;
    std::unordered_map<std::uintptr_t, std::unique_ptr<seen[]>> pages_;
    std::uintptr_t last_page_ = 0;
    seen* last_ = nullptr;
};

}  // namespace graft_simulator
