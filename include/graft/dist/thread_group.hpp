// Members of a run that are threads of one process: they read and write each other's memory.
#pragma once

#include "../core/communicator.hpp"

#include <memory>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// The members of a group of `size` threads, by rank; each is for one thread at a time. A member that waits longer than `timeout_seconds` for the
/// others gives up for all of them with dist.timeout. What members start goes on beside their other calls (communicator::start). The group lives as long as one
/// of its members.
std::vector<std::shared_ptr<communicator>> make_thread_group(int size, double timeout_seconds = 60);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/clock.hpp"
#include "../core/exchange_thread.hpp"
#include "../core/thread_pool.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// What the members share: where each of them is, and what it brought.
class thread_meeting {
public:
    enum class call { all_gather, broadcast, all_reduce, reduce, reduce_scatter, barrier };
    struct place {
        alignas(64) call what = call::barrier;
        std::int64_t size = 0;  // bytes or elements
        const void* in = nullptr;
        const reduction* arrays = nullptr;
        int other = -1;                      // the member that it names
        std::atomic<std::uint64_t> came{0};  // how often
        double waited = 0;                   // seconds; the member's own thread writes and reads it
    };

    thread_meeting(int size, double seconds) : places_(static_cast<std::size_t>(size)), seconds_(seconds) {}

    int size() const noexcept { return static_cast<int>(places_.size()); }
    place& at(int rank) noexcept { return places_[static_cast<std::size_t>(rank)]; }

    // Returns when everybody is here. What members wrote before it is seen by all behind it.
    status meet(int rank) {
        const std::uint64_t now = round_.load();
        if (broken_.load()) return failure();
        at(rank).came.store(now + 1);
        if (arrived_.fetch_add(1) + 1 == size()) {
            arrived_.store(0);
            {
                const std::lock_guard<std::mutex> guard(lock_);
                round_.fetch_add(1);
            }
            changed_.notify_all();
            return {};
        }
        const double began = seconds_now();
        status met = await(rank, now);
        at(rank).waited += seconds_now() - began;
        return met;
    }
    // All here, and all for the same. From here on members read and write each other's memory, until they `part`.
    status meet_for(int rank, call what, std::int64_t size, int other = -1) {
        at(rank).what = what, at(rank).size = size, at(rank).other = other;
        inside_.fetch_add(1);
        if (status met = meet(rank); !met.ok()) {
            inside_.fetch_sub(1);
            return met;
        }
        for (int r = 0; r < this->size(); ++r)
            if (at(r).what != what || at(r).size != size || at(r).other != other)
                return part_by(fail(errc::dist_mismatch, "member " + std::to_string(rank),
                                    "it asks for " + std::to_string(size) + " of one call, and member " + std::to_string(r) + " for " +
                                        std::to_string(at(r).size) +
                                        (at(r).what != what     ? " of another"
                                         : at(r).other != other ? ", and names another member"
                                                                : "")));
        return {};
    }
    // This member touches nothing of the others any more; returns when they do not touch what is its own.
    status part(int rank) {
        inside_.fetch_sub(1);
        status met = meet(rank);
        while (!met.ok() && inside_.load() > 0) std::this_thread::yield();
        return met;
    }
    // The same behind an error, which all find.
    status part_by(status failed) {
        inside_.fetch_sub(1);
        while (inside_.load() > 0) std::this_thread::yield();
        return failed;
    }
    void leave(int rank, const error& why) noexcept {
        {
            const std::lock_guard<std::mutex> guard(lock_);
            if (broken_.load()) return;
            failed_ = or_out_of_memory<status>(
                "group", [&]() -> status { return fail(errc::dist_peer_lost, "member " + std::to_string(rank), std::string("it has left: ") + why.what()); });
            broken_.store(true);
        }
        changed_.notify_all();
    }
    status look() { return broken_.load() ? failure() : status(); }
    double seconds() const noexcept { return seconds_; }
    // For another run of the same threads, none of which is in a call.
    void mend() noexcept {
        broken_.store(false);
        arrived_.store(0);
        inside_.store(0);
        failed_ = status();
    }

private:
    // Until the round that began with `now` is over.
    status await(int rank, std::uint64_t now) {
        for (int spins = 0; spins < 4000; ++spins) {
            if (round_.load(std::memory_order_acquire) != now) return {};
            relax();
        }
        std::unique_lock<std::mutex> guard(lock_);
        const auto over = [&] { return round_.load() != now || broken_.load(); };
        // By slices of a second, so that a process that was stopped and goes on does not take that for waiting.
        for (double left = seconds_; left > 0 && !over(); left -= 1) changed_.wait_for(guard, std::chrono::duration<double>(std::min(left, 1.0)), over);
        if (round_.load() != now) return {};
        if (!broken_.load()) {
            std::string missing;
            for (int r = 0; r < size(); ++r)
                if (at(r).came.load() != now + 1) missing += (missing.empty() ? "" : ", ") + std::to_string(r);
            failed_ = fail(errc::dist_timeout, "member " + std::to_string(rank),
                           "member " + missing + " did not come within " + std::to_string(static_cast<long long>(seconds_)) + " seconds");
            broken_.store(true);
        }
        guard.unlock();
        changed_.notify_all();
        return failure();
    }
    status failure() {
        const std::lock_guard<std::mutex> guard(lock_);
        return failed_.ok() ? fail(errc::dist_peer_lost, "group", "it is over") : status(failed_.error());
    }

    std::vector<place> places_;
    double seconds_;
    std::atomic<std::uint64_t> round_{0};
    std::atomic<int> arrived_{0};
    std::atomic<int> inside_{0};  // members that may touch what is another's
    std::atomic<bool> broken_{false};
    std::mutex lock_;
    std::condition_variable changed_;
    status failed_;
};

class thread_member final : public overlapping_communicator {
public:
    // `beside`: where what is started meets; null: this member is such a place itself.
    thread_member(std::shared_ptr<thread_meeting> all, std::shared_ptr<thread_meeting> beside, int rank) : all_(std::move(all)), rank_(rank) {
        if (!beside) return;
        auto channel = std::make_unique<thread_member>(std::move(beside), nullptr, rank);
        channel_ = channel.get();
        exchange_by(std::move(channel));
    }

    inline int rank() const noexcept override { return rank_; }
    inline int size() const noexcept override { return all_->size(); }
    inline const char* name() const noexcept override { return "threads"; }
    inline double waited_seconds() const noexcept override { return all_->at(rank_).waited + waited_beside(); }

    inline status all_gather(const void* own, std::size_t bytes, void* all) override {
        all_->at(rank_).in = own;
        GRAFT_TRY(all_->meet_for(rank_, call::all_gather, static_cast<std::int64_t>(bytes)));
        for (int r = 0; r < size() && bytes; ++r) std::memcpy(static_cast<std::byte*>(all) + static_cast<std::size_t>(r) * bytes, all_->at(r).in, bytes);
        return all_->part(rank_);
    }
    inline status broadcast(void* data, std::size_t bytes, int from) override {
        all_->at(rank_).in = data;
        GRAFT_TRY(all_->meet_for(rank_, call::broadcast, static_cast<std::int64_t>(bytes), from));
        if (all_->at(from).in != data && bytes) std::memcpy(data, all_->at(from).in, bytes);
        return all_->part(rank_);
    }
    inline status all_reduce(const reduction& arrays) override { return reduce_for(call::all_reduce, arrays, 0, size()); }
    inline status reduce(const reduction& arrays, int to) override {
        if (to < 0 || to >= size()) return fail(errc::usage, "reduce", "there is no member " + std::to_string(to));
        return reduce_for(call::reduce, arrays, to, to + 1);
    }
    inline status reduce_scatter(float* data, std::int64_t count) override {
        all_->at(rank_).in = data;
        GRAFT_TRY(all_->meet_for(rank_, call::reduce_scatter, count));
        const std::int64_t first = first_of(count, rank_, size()), n = first_of(count, rank_ + 1, size()) - first;
        for (int r = 0; r < size(); ++r) parts_[static_cast<std::size_t>(r)] = static_cast<const float*>(all_->at(r).in) + first;
        sum_members(parts_.data(), size(), n, data + first);
        return all_->part(rank_);
    }
    inline status barrier() override {
        GRAFT_TRY(all_->meet_for(rank_, call::barrier, 0));
        return all_->part(rank_);
    }
    inline void leave(const error& why) noexcept override {
        all_->leave(rank_, why);
        if (channel_) channel_->leave(why);
    }
    inline status look() override { return all_->look(); }
    inline double timeout_seconds() const noexcept override { return all_->seconds(); }

    // For another run of the same threads, none of which is in a call.
    void mend() noexcept {
        all_->mend();
        if (channel_) channel_->mend();
    }

private:
    using call = thread_meeting::call;

    // Each adds its part of the elements, for the members [first_to, last_to).
    status reduce_for(call what, const reduction& arrays, int first_to, int last_to) {
        const std::int64_t count = arrays.elements();
        all_->at(rank_).arrays = &arrays;
        GRAFT_TRY(all_->meet_for(rank_, what, count, what == call::reduce ? first_to : -1));
        for (int r = 0; r < size(); ++r) {
            const reduction& other = *all_->at(r).arrays;
            if (other.arrays != arrays.arrays || !std::equal(arrays.counts, arrays.counts + arrays.arrays, other.counts))
                return all_->part_by(fail(errc::dist_mismatch, "member " + std::to_string(rank_), "its arrays are not those of member " + std::to_string(r)));
        }
        const std::int64_t first = first_of(count, rank_, size()), last = first_of(count, rank_ + 1, size());
        std::int64_t begin = 0;  // of the array, among all elements
        for (int i = 0; i < arrays.arrays; begin += arrays.counts[i++]) {
            const std::int64_t from = std::max(first, begin) - begin, n = std::min(last, begin + arrays.counts[i]) - begin - from;
            if (n > 0) add(i, from, n, first_to, last_to);
        }
        return all_->part(rank_);
    }
    void add(int array, std::int64_t from, std::int64_t n, int first_to, int last_to) {
        for (int r = 0; r < size(); ++r) parts_[static_cast<std::size_t>(r)] = all_->at(r).arrays->in[array] + from;
        // In pieces that are still in the first cache when they are copied to the others.
        constexpr std::int64_t piece = 2048;
        for (std::int64_t at = 0; at < n; at += piece) {
            const std::int64_t some = std::min(piece, n - at);
            const int own = first_to <= rank_ && rank_ < last_to ? rank_ : first_to;
            float* sums = all_->at(own).arrays->out[array] + from + at;
            sum_members(parts_.data(), size(), some, sums);
            for (int r = first_to; r < last_to; ++r)
                if (r != own) std::memcpy(all_->at(r).arrays->out[array] + from + at, sums, static_cast<std::size_t>(some) * sizeof(float));
            for (const float*& part : parts_) part += some;
        }
    }

    std::shared_ptr<thread_meeting> all_;
    int rank_;
    std::vector<const float*> parts_ = std::vector<const float*>(static_cast<std::size_t>(all_->size()));
    thread_member* channel_ = nullptr;  // where what is started goes on
};

}  // namespace detail

GRAFT_INLINE std::vector<std::shared_ptr<communicator>> make_thread_group(int size, double timeout_seconds) {
    const auto all = std::make_shared<detail::thread_meeting>(size, timeout_seconds), beside = std::make_shared<detail::thread_meeting>(size, timeout_seconds);
    std::vector<std::shared_ptr<communicator>> members;
    for (int r = 0; r < size; ++r) members.push_back(std::make_shared<detail::thread_member>(all, beside, r));
    return members;
}

GRAFT_END_NAMESPACE
#endif
