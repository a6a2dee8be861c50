// The calls of a communicator over MPI.
#pragma once

#include "../core/exchange_thread.hpp"
#include "mpi_link.hpp"

#include <memory>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// The calls, by the messages of a link.
class mpi_communicator final : public overlapping_communicator, private mpi_link {
public:
    mpi_communicator(MPI_Comm comm, int rank, int size, double seconds) : mpi_link(comm, rank, size, seconds) { addends_.resize(std::size_t(size)); }
    // What is started goes on by messages of its own, on a communicator of MPI of its own, which belongs to this from here on.
    void exchange_beside(MPI_Comm comm) {
        auto channel = std::make_unique<mpi_communicator>(comm, rank_, size_, longest_wait());
        channel->beside_ = true;
        channel_ = channel.get();
        exchange_by(std::move(channel));
    }
    // Both ways at once, before `part` waits for the others to do the same.
    void say_goodbye() {
        end_exchange();
        mpi_link::say_goodbye();
        if (channel_) channel_->say_goodbye();
    }
    bool part() {
        const bool own = mpi_link::part();
        return (!channel_ || channel_->part()) && own;
    }
    int rank() const noexcept override { return rank_; }
    int size() const noexcept override { return size_; }
    const char* name() const noexcept override { return "mpi"; }
    double waited_seconds() const noexcept override { return waited_ + waited_beside(); }
    void leave(const error& why) noexcept override {
        mpi_link::leave(why);
        if (channel_) channel_->leave(why);
    }
    status look() override { return look_for_lost(); }
    double timeout_seconds() const noexcept override { return longest_wait(); }

    status all_gather(const void* own, std::size_t bytes, void* all) override {
        return run(member_call::gather, bytes, [&]() -> status {
            char* const to = static_cast<char*>(all);
            if (bytes) std::memmove(to + bytes * std::size_t(rank_), own, bytes);
            const bool few = bytes <= few_bytes;
            if (few && bytes) std::memcpy(own_first(), own, bytes);
            GRAFT_TRY(meet(few ? bytes : 0));
            for (int q = 0; q < size_; ++q) {
                if (q == rank_) continue;
                char* const place = to + bytes * std::size_t(q);
                if (few)
                    std::copy_n(came(q), bytes, place);
                else {
                    GRAFT_TRY(receive(place, bytes, q));
                    GRAFT_TRY(send(to + bytes * std::size_t(rank_), bytes, q));
                }
            }
            return await_all();
        });
    }

    status broadcast(void* data, std::size_t bytes, int from) override {
        if (from < 0 || from >= size_) return fail(errc::usage, where(), "there is no member " + std::to_string(from) + " to broadcast from");
        call_.from = from;
        return run(member_call::cast, bytes, [&]() -> status {
            char* const to = static_cast<char*>(data);
            const bool few = bytes <= few_bytes;
            if (few && bytes && rank_ == from) std::memcpy(own_first(), data, bytes);
            GRAFT_TRY(meet(few ? bytes : 0, from));
            if (few) {
                if (rank_ != from) std::copy_n(came(from), bytes, to);
                return {};
            }
            // Each of the others gets a part, and hands it on: the data leave their member once.
            const auto part_of = [&](int q) { return (q - from - 1 + size_) % size_; };
            const auto first = [&](int part) { return std::size_t(first_of(std::int64_t(bytes), part, size_ - 1)); };
            const int own = part_of(rank_);
            for (int q = 0; q < size_ && rank_ == from; ++q)
                if (q != from) GRAFT_TRY(send(to + first(part_of(q)), first(part_of(q) + 1) - first(part_of(q)), q));
            if (rank_ == from) return await_all();
            GRAFT_TRY(receive(to + first(own), first(own + 1) - first(own), from));
            GRAFT_TRY(await_all());
            for (int q = 0; q < size_; ++q) {
                if (q == rank_ || q == from) continue;
                GRAFT_TRY(receive(to + first(part_of(q)), first(part_of(q) + 1) - first(part_of(q)), q));
                GRAFT_TRY(send(to + first(own), first(own + 1) - first(own), q));
            }
            return await_all();
        });
    }

    status all_reduce(const reduction& arrays) override { return reduce_for(member_call::reduce, arrays, everybody); }

    status reduce(const reduction& arrays, int to) override {
        if (to < 0 || to >= size_) return fail(errc::usage, where(), "there is no member " + std::to_string(to) + " to reduce to");
        call_.from = to;
        return reduce_for(member_call::reduce_one, arrays, to);
    }

    status reduce_scatter(float* data, std::int64_t count) override {
        return or_out_of_memory<status>("reduce_scatter", [&]() -> status {
            const float* const in = data;
            row_.open({&in, &data, &count, 1});
            return run(member_call::scatter, std::uint64_t(count), [&] { return reduce_row(nobody); });
        });
    }

    status barrier() override {
        return run(member_call::meet, 0, [&] { return meet(0); });
    }

private:
    static constexpr int slots = 4, everybody = -1, nobody = -2;
    static constexpr std::int64_t piece_floats = 65536;
    struct span {
        std::int64_t at, n;
    };
    struct step {
        std::int64_t piece = 0;
        int open = 0;
        bool sent = false;
    };

    status reduce_for(member_call::kinds kind, const reduction& arrays, int to) {
        return or_out_of_memory<status>("reduce", [&]() -> status {
            row_.open(arrays);
            call_.arrays = arrays.arrays, call_.lengths = member_call::hash_of(arrays.counts, arrays.arrays);
            return run(kind, std::uint64_t(row_.elements()), [&] { return reduce_row(to); });
        });
    }

    // Besides the member that has added it up, a part of the sums goes to `to`: a member, everybody or nobody.
    bool gets_all(int q) const { return to_ == everybody || to_ == q; }
    status reduce_row(int to) {
        const std::int64_t n = row_.elements();
        if (size_ == 1) {
            row_.copy_through();
            return {};
        }
        if (std::size_t(n) * sizeof(float) > few_bytes) {
            GRAFT_TRY(meet(0));
            return reduce_parts(to);
        }
        // Each member adds up everything.
        float* const own = reinterpret_cast<float*>(own_first());
        row_.copy_in(0, n, own);
        GRAFT_TRY(meet(std::size_t(n) * sizeof(float)));
        for (int q = 0; q < size_; ++q) addends_[std::size_t(q)] = q == rank_ ? own : reinterpret_cast<const float*>(came(q));
        float* const out = row_.out(0, n);
        sum_members(addends_.data(), size_, n, out ? out : own);
        if (!out) row_.copy_out(own, 0, n);
        return {};
    }

    // Each member adds up its part of the row, in pieces, `slots` of which are under way at once; members get the sums of a piece (where they are
    // to be spread) when all have sent theirs. A slot s has requests for the pieces that arrive, those for the sums that leave, and those that are
    // both in turn: a piece of another's part leaves, then its sums arrive in its place.
    status reduce_parts(int to) {
        to_ = to;
        piece_ = std::max<std::int64_t>(4096, std::min<std::int64_t>(piece_floats, (std::int64_t(1) << 21) / size_));
        const std::size_t per_slot = std::size_t(size_) * 2 + 1;
        stage_.resize(std::max(stage_.size(), per_slot * slots * std::size_t(piece_)));
        reserve(std::size_t(size_) * 3 * slots);
        for (int s = 0; s < slots; ++s) {
            GRAFT_TRY(start_own(s, s));
            theirs_[s].assign(std::size_t(size_), step{});
            for (int q = 0; q < size_; ++q)
                if (q != rank_) GRAFT_TRY(start_theirs(s, q, s));
        }
        while (open_ > 0) {
            GRAFT_TRY(await());
            for (int i = 0; i < ended_count_; ++i) {
                const int at = ended_[std::size_t(i)], s = at / (3 * size_), role = at / size_ % 3, q = at % size_;
                if (role == 2)
                    GRAFT_TRY(go_on(s, q));
                else if (--own_[s].open == 0)
                    GRAFT_TRY(role == 0 ? add_up(s) : start_own(s, own_[s].piece + slots));
            }
        }
        clear();
        return {};
    }
    span piece_of(int q, std::int64_t piece) const {
        const std::int64_t n = row_.elements(), first = first_of(n, q, size_), last = first_of(n, q + 1, size_), at = std::min(first + piece * piece_, last);
        return {at, std::min(piece_, last - at)};
    }
    std::size_t request(int s, int role, int q) const { return std::size_t((s * 3 + role) * size_ + q); }
    // Memory for a piece: those that come from q, those of q's part, and (q = size) this member's own.
    float* came_from(int s, int q) { return stage_.data() + std::size_t(piece_) * std::size_t(s * (size_ * 2 + 1) + q); }
    float* part_of(int s, int q) { return came_from(s, size_ + q); }
    float* own_part(int s) { return came_from(s, size_ * 2); }

    status start_own(int s, std::int64_t piece) {
        const span p = piece_of(rank_, piece);
        own_[s] = {piece, 0, false};
        for (int q = 0; q < size_ && p.n > 0; ++q) {
            if (q == rank_) continue;
            GRAFT_TRY(receive_at(request(s, 0, q), came_from(s, q), std::size_t(p.n) * sizeof(float), q, slot_tag + s));
            ++own_[s].open;
        }
        return {};
    }
    status add_up(int s) {
        const span p = piece_of(rank_, own_[s].piece);
        const float* own = row_.in(p.at, p.n);
        if (!own) row_.copy_in(p.at, p.n, own_part(s)), own = own_part(s);
        for (int q = 0; q < size_; ++q) addends_[std::size_t(q)] = q == rank_ ? own : came_from(s, q);
        float* const out = row_.out(p.at, p.n);
        float* const sums = out ? out : own_part(s);
        sum_members(addends_.data(), size_, p.n, sums);
        for (int q = 0; q < size_; ++q) {
            if (q == rank_ || !gets_all(q)) continue;
            GRAFT_TRY(send_at(request(s, 1, q), sums, std::size_t(p.n) * sizeof(float), q, slot_tag + slots + s));
            ++own_[s].open;
        }
        if (!out) row_.copy_out(sums, p.at, p.n);
        return own_[s].open ? status() : start_own(s, own_[s].piece + slots);
    }
    status start_theirs(int s, int q, std::int64_t piece) {
        const span p = piece_of(q, piece);
        theirs_[s][std::size_t(q)] = {piece, 0, false};
        if (p.n <= 0) return {};
        const float* from = row_.in(p.at, p.n);
        if (!from) row_.copy_in(p.at, p.n, part_of(s, q)), from = part_of(s, q);
        return send_at(request(s, 2, q), from, std::size_t(p.n) * sizeof(float), q, slot_tag + s);
    }
    // A piece has gone, or its sums have come.
    status go_on(int s, int q) {
        step& now = theirs_[s][std::size_t(q)];
        const span p = piece_of(q, now.piece);
        float* const out = row_.out(p.at, p.n);
        if (gets_all(rank_) && !now.sent) {
            now.sent = true;
            return receive_at(request(s, 2, q), out ? out : part_of(s, q), std::size_t(p.n) * sizeof(float), q, slot_tag + slots + s);
        }
        if (gets_all(rank_) && !out) row_.copy_out(part_of(s, q), p.at, p.n);
        return start_theirs(s, q, now.piece + slots);
    }

    mpi_row row_;
    std::vector<const float*> addends_;
    std::vector<float> stage_;
    std::int64_t piece_ = 0;
    int to_ = everybody;
    step own_[slots];
    std::vector<step> theirs_[slots];
    mpi_communicator* channel_ = nullptr;  // where what is started goes on
};

}  // namespace detail

GRAFT_END_NAMESPACE
