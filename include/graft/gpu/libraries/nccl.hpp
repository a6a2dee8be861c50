// NCCL among the members of a run: a communicator of its own for each GPU, whose members found each other by the run's.
#pragma once

#include "../../core/communicator.hpp"
#include "../api/driver.hpp"
#include "../api/nccl.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// What a member tells the others before they choose how to exchange.
struct nccl_offer {
    std::int32_t version = 0;    ///< of NCCL; 0: there is none
    unsigned char device[16]{};  ///< the device's uuid

    /// Whether members of these offers can exchange by NCCL: one version, and a device for each.
    static bool agree(const nccl_offer* all, int members) noexcept;
    /// What stands in the way of it, and which members; "" where nothing does.
    static std::string disagreement(const nccl_offer* all, int members);
};

/// A member's GPU in NCCL. What it calls may wait for the others, as long as the run's communicator waits at most; where one of them has left, or does
/// not come, it gives up for good. For one thread at a time, in the device's context.
class nccl_member {
public:
    /// All members of `group` call it at once. Errors: dist.*, device.unavailable (NCCL cannot be started).
    static result<std::shared_ptr<nccl_member>> join(const api::nccl_functions& functions, const api::driver_functions& driver, void* context,
                                                     control_plane& group, const std::string& device);
    ~nccl_member();
    nccl_member(const nccl_member&) = delete;
    nccl_member& operator=(const nccl_member&) = delete;

    /// The sums over all members of `counts[i]` floats at in[i], into out[i], which may be in[i].
    status all_reduce(const device_address* in, const device_address* out, const std::int64_t* counts, int arrays, void* stream);
    /// `counts[i]` floats at in[i] of every member, in the order of ranks, into out[i].
    status all_gather(const device_address* in, const device_address* out, const std::int64_t* counts, int arrays, void* stream);
    /// Waits for what was put on the stream, and counts as waiting of the run's member what exchanges took of it (communicator::add_device_wait).
    /// Errors: dist.*, device.*.
    status finish(void* stream);
    /// `bytes` bytes at `in` of every member, in the order of ranks, into `out`.
    status all_gather_bytes(device_address in, device_address out, std::size_t bytes, void* stream);
    /// The `bytes` bytes at `data` of member `from`, to the same place of all.
    status broadcast_bytes(device_address data, std::size_t bytes, int from, void* stream);
    /// Of `count` floats for each member at `in`, in the order of ranks: the sums of this member's, into `out`.
    status reduce_scatter(device_address in, device_address out, std::int64_t count, void* stream);

    /// Exchanges count as waiting of this member, which lives as long.
    void count_for(communicator& waits) noexcept { counted_ = &waits; }
    /// Gives up for good what was not waited for: the others' part of it does not end.
    void abort() noexcept;
    /// Of the device that it was joined with.
    const std::string& device() const noexcept { return device_; }

    std::shared_ptr<const void> on;  ///< the device, which lives as long

private:
    // Around an exchange on the stream.
    struct timed_exchange {
        void *begun = nullptr, *ended = nullptr;
    };
    nccl_member(const api::nccl_functions& functions, const api::driver_functions& driver, void* context, control_plane& group, const std::string& device)
        : f_(functions), driver_(driver), context_(context), group_(group), device_(device) {}
    template <class Poll>
    status wait(const char* what, const Poll& poll);
    template <class Put>
    status put(const char* what, int arrays, void* stream, const Put& put_one);
    status mark(void* event, void* stream);
    status next_timed(timed_exchange*& exchange);
    status count_waits();
    status settled(const char* what, int code);
    status failure(const char* what, int code) const;

    const api::nccl_functions& f_;
    const api::driver_functions& driver_;
    void* context_;  // of the device
    control_plane& group_;
    communicator* counted_ = nullptr;  // whose waiting it is
    std::vector<timed_exchange> timed_;
    std::size_t put_ = 0;  // of timed_: those on the stream since it was last waited for
    std::string device_;
    void* comm_ = nullptr;
    bool over_ = false;
};

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../core/clock.hpp"
#include "../runtime/driver_status.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

GRAFT_INLINE bool nccl_offer::agree(const nccl_offer* all, int members) noexcept {
    for (int i = 0; i < members; ++i) {
        if (!all[i].version || all[i].version != all[0].version) return false;
        for (int k = 0; k < i; ++k)
            if (!std::memcmp(all[i].device, all[k].device, sizeof all[i].device)) return false;
    }
    return members > 1;
}
GRAFT_INLINE GRAFT_COLD std::string nccl_offer::disagreement(const nccl_offer* all, int members) {
    const auto version = [&](int i) { return all[i].version ? std::to_string(all[i].version) : std::string("none"); };
    for (int i = 0; i < members; ++i) {
        if (!all[i].version || all[i].version != all[0].version) return "NCCL of rank 0 is " + version(0) + ", of rank " + std::to_string(i) + " " + version(i);
        for (int k = 0; k < i; ++k)
            if (!std::memcmp(all[i].device, all[k].device, sizeof all[i].device))
                return "ranks " + std::to_string(k) + " and " + std::to_string(i) +
                       " have one GPU: each needs its own, by LOCAL_RANK, --device or CUDA_VISIBLE_DEVICES";
    }
    return "";
}

GRAFT_INLINE GRAFT_COLD status nccl_member::failure(const char* what, int code) const {
    namespace result = api::nccl::result;
    const char* text = f_.ncclGetErrorString(code);
    const errc meant = code == result::invalid_argument || code == result::invalid_usage ? errc::dist_mismatch
                       : code == result::unhandled_cuda_error                            ? errc::device_lost
                       : code == result::system_error || code == result::remote_error    ? errc::dist_peer_lost
                                                                                         : errc::device_unavailable;
    return fail(meant, device_, std::string("NCCL, ") + what + ": " + (text ? text : "error") + " (" + std::to_string(code) + ")");
}

// Until poll() says that it is done (a status that is no error, and `done`). Short waits are spent awake: a step has hundreds.
template <class Poll>
status nccl_member::wait(const char* what, const Poll& poll) {
    double waited = 0, last = graft::detail::seconds_now();
    for (std::int64_t turn = 0;; ++turn) {
        bool done = false;
        GRAFT_TRY(poll(done));
        if (done) return {};
        if (turn % 64 == 0) {
            GRAFT_TRY(group_.look());
            const double now = graft::detail::seconds_now();
            // A process that was stopped and goes on does not take that for waiting.
            waited += std::min(1.0, now - last);
            last = now;
            if (waited > group_.timeout_seconds())
                return fail(errc::dist_timeout, device_,
                            std::string("NCCL, ") + what + ": the other members did not come within " +
                                std::to_string(static_cast<long long>(group_.timeout_seconds())) + " seconds");
        }
        if (waited < 1e-3)
            std::this_thread::yield();
        else
            std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
}

// Calls of a communicator that does not block go on behind their return.
GRAFT_INLINE status nccl_member::settled(const char* what, int code) {
    namespace result = api::nccl::result;
    const auto look = [&](bool& ready) -> status {
        int now = 0;
        if (const int asked = f_.ncclCommGetAsyncError(comm_, &now)) return failure(what, asked);
        ready = now == result::success;
        return ready || now == result::in_progress ? status() : failure(what, now);
    };
    status done = code == result::success || code == result::in_progress ? wait(what, look) : failure(what, code);
    if (!done.ok()) abort();
    return done;
}

GRAFT_INLINE void nccl_member::abort() noexcept {
    over_ = true;
    if (comm_) f_.ncclCommAbort(comm_);
    comm_ = nullptr;
}
GRAFT_INLINE nccl_member::~nccl_member() {
    if (comm_) f_.ncclCommDestroy(comm_);
    current_context now(driver_, context_);
    for (const timed_exchange& t : timed_)
        for (void* event : {t.begun, t.ended})
            if (event) driver_.cuEventDestroy_v2(event);
}

// Events that tell when the stream came to an exchange and when that was over: what lies between is the others' time, and the link's.
GRAFT_INLINE status nccl_member::next_timed(timed_exchange*& exchange) {
    if (put_ == timed_.size()) timed_.emplace_back();
    exchange = &timed_[put_];
    for (void** event : {&exchange->begun, &exchange->ended})
        if (!*event) GRAFT_TRY(driver_status(driver_, driver_.cuEventCreate(event, api::driver::flag::event_default), device_, "making an event"));
    return {};
}
GRAFT_INLINE status nccl_member::mark(void* event, void* stream) {
    return driver_status(driver_, driver_.cuEventRecord(event, stream), device_, "timing an exchange");
}
GRAFT_INLINE status nccl_member::count_waits() {
    for (std::size_t i = 0; i < put_; ++i) {
        float milliseconds = 0;
        GRAFT_TRY(driver_status(driver_, driver_.cuEventElapsedTime(&milliseconds, timed_[i].begun, timed_[i].ended), device_, "timing an exchange"));
        if (counted_) counted_->add_device_wait(static_cast<double>(milliseconds) / 1e3);
    }
    put_ = 0;
    return {};
}

GRAFT_INLINE result<std::shared_ptr<nccl_member>> nccl_member::join(const api::nccl_functions& functions, const api::driver_functions& driver, void* context,
                                                                    control_plane& group, const std::string& device) {
    std::shared_ptr<nccl_member> made(new nccl_member(functions, driver, context, group, device));
    // What the first cannot make, the others have to hear of.
    struct {
        api::nccl::unique_id id;
        std::int32_t code = 0;
    } first;
    if (group.rank() == 0) first.code = functions.ncclGetUniqueId(&first.id);
    GRAFT_TRY(group.broadcast(&first, sizeof first, 0));
    if (first.code) return made->failure("an id for the run", first.code);
    api::nccl::config how;
    how.blocking = 0;
    const int code = functions.ncclCommInitRankConfig(&made->comm_, group.size(), first.id, group.rank(), &how);
    GRAFT_TRY(made->settled("joining the others", code));
    return made;
}

template <class Put>
status nccl_member::put(const char* what, int arrays, void* stream, const Put& put_one) {
    if (over_) return fail(errc::dist_peer_lost, device_, "NCCL's run is over, after an error that was told before");
    timed_exchange* timed = nullptr;
    GRAFT_TRY(next_timed(timed));
    GRAFT_TRY(mark(timed->begun, stream));
    int code = f_.ncclGroupStart();
    for (int i = 0; i < arrays && !code; ++i)
        if (const int put = put_one(i); put != api::nccl::result::in_progress) code = put;
    const int ended = f_.ncclGroupEnd();
    GRAFT_TRY(settled(what, code ? code : ended));
    GRAFT_TRY(mark(timed->ended, stream));
    ++put_;
    return {};
}
GRAFT_INLINE status nccl_member::all_reduce(const device_address* in, const device_address* out, const std::int64_t* counts, int arrays, void* stream) {
    return put("adding up", arrays, stream, [&](int i) {
        if (!counts[i]) return api::nccl::result::success;
        return f_.ncclAllReduce(reinterpret_cast<const void*>(in[i]), reinterpret_cast<void*>(out[i]), static_cast<std::size_t>(counts[i]),
                                api::nccl::data::float32, api::nccl::reduction::sum, comm_, stream);
    });
}
GRAFT_INLINE status nccl_member::all_gather(const device_address* in, const device_address* out, const std::int64_t* counts, int arrays, void* stream) {
    return put("gathering", arrays, stream, [&](int i) {
        if (!counts[i]) return api::nccl::result::success;
        return f_.ncclAllGather(reinterpret_cast<const void*>(in[i]), reinterpret_cast<void*>(out[i]), static_cast<std::size_t>(counts[i]),
                                api::nccl::data::float32, comm_, stream);
    });
}

GRAFT_INLINE status nccl_member::all_gather_bytes(device_address in, device_address out, std::size_t bytes, void* stream) {
    return put("gathering", 1, stream, [&](int) {
        return f_.ncclAllGather(reinterpret_cast<const void*>(in), reinterpret_cast<void*>(out), bytes, api::nccl::data::uint8, comm_, stream);
    });
}
GRAFT_INLINE status nccl_member::broadcast_bytes(device_address data, std::size_t bytes, int from, void* stream) {
    return put("broadcasting", 1, stream, [&](int) {
        return f_.ncclBroadcast(reinterpret_cast<const void*>(data), reinterpret_cast<void*>(data), bytes, api::nccl::data::uint8, from, comm_, stream);
    });
}
GRAFT_INLINE status nccl_member::reduce_scatter(device_address in, device_address out, std::int64_t count, void* stream) {
    return put("adding up", 1, stream, [&](int) {
        return f_.ncclReduceScatter(reinterpret_cast<const void*>(in), reinterpret_cast<void*>(out), static_cast<std::size_t>(count), api::nccl::data::float32,
                                    api::nccl::reduction::sum, comm_, stream);
    });
}

GRAFT_INLINE status nccl_member::finish(void* stream) {
    status done = wait("waiting for the others", [&](bool& ready) -> status {
        const int now = driver_.cuStreamQuery(stream);
        ready = now == api::driver::result::success;
        if (!ready && now != api::driver::result::not_ready) return driver_status(driver_, now, device_, "running the network");
        int error = 0;
        if (!ready && comm_)
            if (const int asked = f_.ncclCommGetAsyncError(comm_, &error); asked || (error && error != api::nccl::result::in_progress))
                return failure("waiting for the others", asked ? asked : error);
        return {};
    });
    if (done.ok()) return count_waits();
    put_ = 0;
    // What waits on the stream ends with the communicator.
    abort();
    driver_.cuStreamSynchronize(stream);
    return done;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
