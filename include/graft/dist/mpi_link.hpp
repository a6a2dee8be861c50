// The messages of a communicator over MPI: how members meet, wait for each other with a deadline, and say what went wrong.
#pragma once

#include "mpi_parts.hpp"

#include <optional>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// The messages of one communicator. Every call begins with one from each member to each other, which says what is called and brings the data where
// they are few: so members that call different things, or nothing, are told from each other, and nothing is received that is not expected. No call of
// MPI that is made here waits; what waits is `await`.
class mpi_link {
public:
    mpi_link(MPI_Comm comm, int rank, int size, double seconds) : comm_(comm), rank_(rank), size_(size), timeout_(seconds) {
        first_.resize(first_bytes), came_.resize(std::size_t(size) * first_bytes), left_.resize(std::size_t(size));
    }
    void leave(const error& why) noexcept {
        if (gone_.exchange(true)) return;
        process_.failed = true;
        // Short enough to be taken over by MPI at once.
        static constexpr std::size_t most = 1000;
        const std::size_t bytes = std::min(std::strlen(why.what()), most);
        std::memcpy(farewell_, why.what(), bytes);
        mpi_patience waiting;
        for (int q = 0; q < size_; ++q) {
            if (q == rank_) continue;
            MPI_Request sent = MPI_REQUEST_NULL;
            const auto turn = process_.turn();
            if (MPI_Isend(farewell_, int(bytes), MPI_BYTE, q, leave_tag, comm_, &sent) == MPI_SUCCESS) MPI_Request_free(&sent);
        }
        // The process may end as soon as this returns: MPI gets some time to send it off.
        do {
            int there = 0;
            const auto turn = process_.turn();
            MPI_Iprobe(MPI_ANY_SOURCE, leave_tag, comm_, &there, MPI_STATUS_IGNORE);
        } while (std::this_thread::yield(), waiting.seconds() < 0.02);
    }

    // Says that this member makes no more calls, without waiting.
    void say_goodbye() {
        if (gone_ || failed_) return;
        call_.kind = member_call::end, call_.sequence = ++calls_;
        if (status s = exchange(0, -1); !s.ok()) keep(s.error());
    }
    // Whether all others have said so too. They may still have work to do, so that they are waited for longer than in a call.
    bool part() {
        if (gone_ || failed_) return false;
        timeout_ *= 10;
        status s = await_all();
        if (s.ok()) s = compare();
        const auto turn = mpi_process::here().turn();
        return s.ok() && MPI_Comm_free(&comm_) == MPI_SUCCESS;
    }

protected:
    // What MPI takes over at once: Open MPI's shared memory 4096 bytes with its own head, MPICH's (by UCX) twice as many.
#ifdef OPEN_MPI
    static constexpr std::size_t fragment = 4000;
#else
    static constexpr std::size_t fragment = 8128;
#endif
    static constexpr std::size_t few_bytes = 16384, first_bytes = (sizeof(member_call) + few_bytes + fragment - 1) / fragment * fragment;
    static constexpr int first_tag = 1, leave_tag = 2, data_tag = 3, slot_tag = 8;  // and those behind it: see mpi_communicator
    static constexpr std::size_t longest = std::size_t(1) << 30;                    // of one message: MPI counts in int

    double longest_wait() const noexcept { return timeout_; }
    // Whether somebody has left, outside of a call.
    status look_for_lost() {
        find_lost();
        for (int q = 0; q < size_ && any_left_; ++q)
            if (!left_[std::size_t(q)].empty()) return lost(q);
        return {};
    }
    GRAFT_COLD status lost(int q) const { return fail(errc::dist_peer_lost, where(), member_list({q}) + " has left: " + left_[std::size_t(q)]); }
    char* came(int q) { return came_.data() + std::size_t(q) * first_bytes + sizeof(member_call); }
    std::string where() const { return "mpi, member " + std::to_string(rank_) + " of " + std::to_string(size_); }
    std::string call_text() const { return "call " + std::to_string(call_.sequence) + " (" + call_.text() + ")"; }

    char* own_first() { return first_.data() + sizeof(member_call); }

    template <class F>
    status run(std::uint32_t kind, std::uint64_t bytes, const F& body) {
        if (failed_) return status(*failed_);
        if (gone_) return fail(errc::dist_peer_lost, where(), "this member has left");
        call_.kind = kind, call_.size = bytes, call_.sequence = ++calls_;
        status s = or_out_of_memory<status>("mpi", body);
        if (!s.ok()) {
            keep(s.error());
            drop();
        }
        const member_call fresh;
        call_.lengths = fresh.lengths, call_.from = fresh.from, call_.arrays = fresh.arrays;
        return s;
    }

    // Posts the first messages. `bytes` of data come from member `source` (from everybody where that is -1); this member's lie behind the head of first_.
    // They go in fragments that MPI sends at once, without asking the receiver: two or three of those are faster than one long message.
    status exchange(std::size_t bytes, int source) {
        std::memcpy(first_.data(), &call_, sizeof call_);
        fragments_ = (sizeof call_ + bytes + fragment - 1) / fragment;
        reserve(std::size_t(size_) * fragments_ * 2);
        for (std::size_t i = 0; i < fragments_; ++i) {
            const std::size_t own = (source < 0 || source == rank_ ? bytes : 0) + sizeof call_;
            for (int q = 0; q < size_; ++q) {
                if (q == rank_) continue;
                const std::size_t at = (std::size_t(q) * fragments_ + i) * 2, begin = i * fragment;
                // With room for a whole fragment, whatever comes: who calls something else is to be told by the head.
                if (i == 0 || source < 0 || source == q) GRAFT_TRY(receive_at(at, came(q) - sizeof call_ + begin, fragment, q, first_tag));
                if (begin < own) GRAFT_TRY(send_at(at + 1, first_.data() + begin, std::min(fragment, own - begin), q, first_tag));
            }
        }
        return {};
    }
    // Meets all others, with what exchange() posts.
    status meet(std::size_t bytes, int source = -1) {
        meeting_ = true;
        GRAFT_TRY(exchange(bytes, source));
        for (int heads = 0; open_ > 0;) {
            GRAFT_TRY(await());
            for (int i = 0; i < ended_count_; ++i) heads += std::size_t(ended_[std::size_t(i)]) % (fragments_ * 2) == 0;
            if (heads == size_ - 1) {
                meeting_ = false, ++heads;
                GRAFT_TRY(compare());
            }
        }
        clear(), meeting_ = false;
        return {};
    }
    status compare() {
        for (int q = 0; q < size_; ++q)
            if (q != rank_ && std::memcmp(came(q) - sizeof(member_call), &call_, sizeof call_) != 0) return differs();
        return {};
    }
    GRAFT_COLD status differs() {
        std::vector<member_call> calls(std::size_t(size_), call_);
        std::vector<int> over;
        for (int q = 0; q < size_; ++q) {
            if (q != rank_) std::memcpy(&calls[std::size_t(q)], came(q) - sizeof(member_call), sizeof call_);
            if (calls[std::size_t(q)].kind == member_call::end) over.push_back(q);
        }
        if (!over.empty() && call_.kind != member_call::end)
            return fail(errc::dist_peer_lost, where(),
                        member_list(over) + (over.size() == 1 ? " has" : " have") + " ended, and does not come to " + call_text());
        return calls_differ(calls, call_, where());
    }

    void clear() { requests_.clear(), peers_.clear(), receives_.clear(), open_ = 0; }
    void reserve(std::size_t count) {
        requests_.assign(count, MPI_REQUEST_NULL);
        peers_.resize(count), receives_.resize(count);
        ended_.resize(count), statuses_.resize(count);
        open_ = 0;
    }
    // Posts one message of request `at`, to or from a member.
    status post(bool receives, std::size_t at, void* data, std::size_t bytes, int peer, int tag) {
        const auto turn = process_.turn();
        const int code = receives ? MPI_Irecv(data, int(bytes), MPI_BYTE, peer, tag, comm_, &requests_[at])
                                  : MPI_Isend(data, int(bytes), MPI_BYTE, peer, tag, comm_, &requests_[at]);
        if (code != MPI_SUCCESS) return fail(errc::dist_peer_lost, where(), member_list({peer}) + " in " + call_text() + ": " + mpi_text(code));
        peers_[at] = peer, receives_[at] = receives, ++open_;
        return {};
    }
    status send_at(std::size_t at, const void* data, std::size_t bytes, int peer, int tag) {
        return post(false, at, const_cast<void*>(data), bytes, peer, tag);
    }
    status receive_at(std::size_t at, void* data, std::size_t bytes, int peer, int tag) { return post(true, at, data, bytes, peer, tag); }
    // As many more requests as the bytes need.
    status move(bool receives, char* data, std::size_t bytes, int peer) {
        for (std::size_t at = 0; at < bytes; at += longest) {
            const std::size_t own = requests_.size();
            requests_.push_back(MPI_REQUEST_NULL), peers_.push_back(0), receives_.push_back(0);
            ended_.resize(own + 1), statuses_.resize(own + 1);
            GRAFT_TRY(post(receives, own, data + at, std::min(longest, bytes - at), peer, data_tag));
        }
        return {};
    }
    status send(char* data, std::size_t bytes, int peer) { return move(false, data, bytes, peer); }
    status receive(char* data, std::size_t bytes, int peer) { return move(true, data, bytes, peer); }

    // Looks which requests have ended: ended_[0, ended_count_).
    status look() {
        ended_count_ = 0;
        int code;
        {
            const auto turn = process_.turn();
            code = MPI_Testsome(int(requests_.size()), requests_.data(), &ended_count_, ended_.data(), statuses_.data());
        }
        if (ended_count_ == MPI_UNDEFINED) ended_count_ = 0;
        open_ -= ended_count_;
        if (code == MPI_SUCCESS) return {};
        for (int i = 0; i < ended_count_ && code == MPI_ERR_IN_STATUS; ++i)
            if (const int own = statuses_[std::size_t(i)].MPI_ERROR; own != MPI_SUCCESS && own != MPI_ERR_PENDING)
                return fail(errc::dist_peer_lost, where(),
                            member_list({peers_[std::size_t(ended_[std::size_t(i)])]}) + " in " + call_text() + ": " + mpi_text(own));
        return fail(errc::dist_peer_lost, where(), call_text() + ": " + mpi_text(code));
    }

    // Until at least one of the open requests has ended.
    status await() {
        GRAFT_TRY(look());
        if (ended_count_) return {};
        const mpi_patience waiting;
        status came = await(waiting);
        waited_ += waiting.seconds();
        return came;
    }
    status await(const mpi_patience& waiting) {
        bool last_look = false;  // a process that was stopped itself finds its time over, and the answers there
        double lost_since = -1;
        for (int turn = 1;; ++turn) {
            GRAFT_TRY(look());
            if (ended_count_) return {};
            const double waited = waiting.seconds();
            // Another thread of this member may say that it goes.
            if (gone_) return fail(errc::dist_peer_lost, where(), "this member has left");
            if (turn % 64 == 0 || waited > 1e-3) {
                // What a member sent before it left may still be on its way.
                const int gone = find_lost();
                if (gone < 0)
                    lost_since = -1;
                else if (lost_since < 0)
                    lost_since = waited;
                else if (waited - lost_since > 5e-3)
                    return lost(gone);
            }
            if (waited > timeout_) {
                if (last_look) return late();
                last_look = true;
            } else
                mpi_patience::pass(waited, beside_);
        }
    }
    status await_all() {
        while (open_ > 0) GRAFT_TRY(await());
        clear();
        return {};
    }

    // Reads what members say that leave; answers with one that left and that an open request belongs to, or -1.
    int find_lost() {
        for (;;) {
            int there = 0, bytes = 0;
            MPI_Status from;
            const auto turn = process_.turn();
            if (MPI_Iprobe(MPI_ANY_SOURCE, leave_tag, comm_, &there, &from) != MPI_SUCCESS || !there) break;
            MPI_Get_count(&from, MPI_BYTE, &bytes);
            std::string said(std::size_t(std::max(bytes, 0)), ' ');
            MPI_Recv(&said[0], bytes, MPI_BYTE, from.MPI_SOURCE, leave_tag, comm_, MPI_STATUS_IGNORE);
            left_[std::size_t(from.MPI_SOURCE)] = said.empty() ? "without a word" : said;
            any_left_ = true;
        }
        for (std::size_t i = 0; i < requests_.size() && any_left_; ++i)
            if (requests_[i] != MPI_REQUEST_NULL && !left_[std::size_t(peers_[i])].empty()) return peers_[i];
        return -1;
    }

    GRAFT_COLD status late() {
        std::vector<int> missing;
        for (const char receives : {char(1), char(0)})
            for (int q = 0; q < size_ && (receives || missing.empty()); ++q)
                for (std::size_t i = 0; i < requests_.size(); ++i)
                    if (requests_[i] != MPI_REQUEST_NULL && peers_[i] == q && receives_[i] == receives) {
                        missing.push_back(q);
                        break;
                    }
        char time[32];
        std::snprintf(time, sizeof time, "%g s", timeout_);
        return fail(errc::dist_timeout, where(),
                    member_list(missing) + (meeting_ ? " did not come to " : " did not answer in ") + call_text() + " within " + time);
    }

    // After an error: takes back what would still be written to memory of the caller. What cannot be taken back is given a moment to end.
    void drop() noexcept {
        for (std::size_t i = 0; i < requests_.size(); ++i) {
            const auto turn = process_.turn();
            if (requests_[i] != MPI_REQUEST_NULL && receives_[i]) MPI_Cancel(&requests_[i]);
        }
        for (mpi_patience waiting; open_ > 0 && waiting.seconds() < 0.1; std::this_thread::yield()) {
            const auto turn = process_.turn();
            int some = 0;
            MPI_Testsome(int(requests_.size()), requests_.data(), &some, ended_.data(), MPI_STATUSES_IGNORE);
            if (some == MPI_UNDEFINED || some <= 0) continue;
            open_ -= some;
        }
    }

    mpi_process& process_ = mpi_process::here();
    MPI_Comm comm_;
    const int rank_, size_;
    member_call call_;
    std::vector<int> ended_;  // of the requests, by `await`
    int open_ = 0, ended_count_ = 0;
    double waited_ = 0;    // seconds, in await
    bool beside_ = false;  // it is the way of what goes on beside this member's other calls

private:
    void keep(const error& e) {
        failed_.emplace(e);
        process_.failed = true;
    }

    double timeout_;
    std::uint64_t calls_ = 0;
    std::size_t fragments_ = 1;
    bool meeting_ = false, any_left_ = false;
    std::atomic<bool> gone_{false};
    std::optional<error> failed_;
    std::vector<std::string> left_;   // what members said that left
    std::vector<char> first_, came_;  // first messages: this member's, and those of all
    std::vector<MPI_Request> requests_;
    std::vector<int> peers_;
    std::vector<char> receives_;
    std::vector<MPI_Status> statuses_;
    char farewell_[1000];
};

}  // namespace detail

GRAFT_END_NAMESPACE
