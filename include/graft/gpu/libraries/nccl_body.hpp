// Bodies of gpu/libraries/nccl.hpp.
#pragma once

#include "../../core/clock.hpp"
#include "../runtime/driver_status.hpp"
#include "nccl.hpp"

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
    for (const started& s : started_)
        for (void* event : {s.ready, s.begun, s.done})
            if (event) driver_.cuEventDestroy_v2(event);
    if (closing_) driver_.cuEventDestroy_v2(closing_);
    if (beside_) driver_.cuStreamDestroy_v2(beside_);
}

// Events that tell when the stream came to an exchange and when that was over: what lies between is the others' time, and the link's.
GRAFT_INLINE status nccl_member::next_timed(timed_exchange*& exchange) {
    if (put_ == timed_.size()) timed_.emplace_back();
    exchange = &timed_[put_];
    for (void** event : {&exchange->begun, &exchange->ended}) GRAFT_TRY(make_event(*event, api::driver::flag::event_default));
    return {};
}
GRAFT_INLINE status nccl_member::make_event(void*& event, unsigned flags) {
    return event ? status() : driver_status(driver_, driver_.cuEventCreate(&event, flags), device_, "making an event");
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
    timed_exchange* timed = nullptr;
    GRAFT_TRY(next_timed(timed));
    GRAFT_TRY(mark(timed->begun, stream));
    // Behind what was started before it, as on every member.
    if (last_ended_) GRAFT_TRY(block(stream, last_ended_));
    GRAFT_TRY(exchange(what, arrays, put_one));
    GRAFT_TRY(mark(timed->ended, stream));
    ++put_;
    return {};
}
template <class Put>
status nccl_member::exchange(const char* what, int arrays, const Put& put_one) {
    if (over_) return fail(errc::dist_peer_lost, device_, "NCCL's run is over, after an error that was told before");
    int code = f_.ncclGroupStart();
    for (int i = 0; i < arrays && !code; ++i)
        if (const int put = put_one(i); put != api::nccl::result::in_progress) code = put;
    const int ended = f_.ncclGroupEnd();
    return settled(what, code ? code : ended);
}
GRAFT_INLINE int nccl_member::sum(device_address in, device_address out, std::int64_t count, void* stream) const {
    if (!count) return api::nccl::result::success;
    return f_.ncclAllReduce(reinterpret_cast<const void*>(in), reinterpret_cast<void*>(out), static_cast<std::size_t>(count), api::nccl::data::float32,
                            api::nccl::reduction::sum, comm_, stream);
}
GRAFT_INLINE status nccl_member::all_reduce(const device_address* in, const device_address* out, const std::int64_t* counts, int arrays, void* stream) {
    return put("adding up", arrays, stream, [&](int i) { return sum(in[i], out[i], counts[i], stream); });
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

GRAFT_INLINE status nccl_member::block(void* stream, void* event) {
    return driver_status(driver_, driver_.cuStreamWaitEvent(stream, event, 0), device_, "ordering an exchange");
}
GRAFT_INLINE status nccl_member::next_started(started*& sum) {
    if (!beside_)
        GRAFT_TRY(driver_status(driver_, driver_.cuStreamCreate(&beside_, api::driver::flag::stream_non_blocking), device_, "making a stream for exchanges"));
    std::size_t at = 0;
    while (at < started_.size() && (started_[at].open || started_[at].traced)) ++at;
    if (at == started_.size()) started_.emplace_back();
    sum = &started_[at];
    GRAFT_TRY(make_event(sum->ready, api::driver::flag::event_disable_timing));
    GRAFT_TRY(make_event(sum->begun, api::driver::flag::event_default));
    return make_event(sum->done, api::driver::flag::event_default);
}
GRAFT_INLINE status nccl_member::start(device_address data, std::int64_t count, void* stream, const char* name) {
    started* now = nullptr;
    GRAFT_TRY(next_started(now));
    GRAFT_TRY(mark(now->ready, stream));
    GRAFT_TRY(block(beside_, now->ready));
    now->data = data, now->count = count, now->name = name, now->open = true;
    ++open_;
    if (trace()) {
        GRAFT_TRY(mark(now->begun, beside_));
        now->traced = true;
    }
    GRAFT_TRY(exchange("adding up", 1, [&](int) { return sum(data, data, count, beside_); }));
    GRAFT_TRY(mark(now->done, beside_));
    last_ended_ = now->done;
    return {};
}
GRAFT_INLINE status nccl_member::await(device_address data, void* stream) {
    const auto of = std::find_if(started_.begin(), started_.end(), [&](const started& s) { return s.open && s.data == data; });
    if (of == started_.end()) return fail(errc::internal, device_, "it waits for a sum that nobody has started");
    timed_exchange* timed = nullptr;
    GRAFT_TRY(next_timed(timed));
    GRAFT_TRY(mark(timed->begun, stream));
    GRAFT_TRY(block(stream, of->done));
    GRAFT_TRY(mark(timed->ended, stream));
    ++put_;
    of->open = false;
    --open_;
    if (last_ended_ == of->done) last_ended_ = nullptr;
    return {};
}
// Of what the stream has waited for. The host knows when the stream came to its end, and the device how long before that a sum began.
GRAFT_INLINE status nccl_member::show(trace_recorder& to, double ended) {
    for (started& s : started_) {
        if (!s.traced || s.open) continue;
        float begun = 0, done = 0;  // milliseconds before the end
        GRAFT_TRY(driver_status(driver_, driver_.cuEventElapsedTime(&begun, s.begun, closing_), device_, "timing an exchange"));
        GRAFT_TRY(driver_status(driver_, driver_.cuEventElapsedTime(&done, s.done, closing_), device_, "timing an exchange"));
        graft::detail::add_exchange(to, group_.rank(), s.name, ended - static_cast<double>(begun) / 1e3, ended - static_cast<double>(done) / 1e3,
                                    s.count * static_cast<std::int64_t>(sizeof(float)));
        s.traced = false;
    }
    return {};
}
GRAFT_INLINE status nccl_member::settle() {
    status done = open_ ? finish(beside_) : status();
    for (started& s : started_) s.open = s.traced = false;
    open_ = 0;
    last_ended_ = nullptr;
    return done;
}

GRAFT_INLINE status nccl_member::finish(void* stream) {
    const bool shows = trace() && std::any_of(started_.begin(), started_.end(), [](const started& s) { return s.traced && !s.open; });
    status closed = shows ? make_event(closing_, api::driver::flag::event_default) : status();
    if (shows && closed.ok()) closed = mark(closing_, stream);
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
    if (done.ok()) {
        GRAFT_TRY(std::move(closed));
        if (shows) GRAFT_TRY(show(*trace(), graft::detail::seconds_now()));
        return count_waits();
    }
    put_ = 0;
    for (started& s : started_) s.traced = false;
    // What waits on the stream ends with the communicator.
    abort();
    driver_.cuStreamSynchronize(stream);
    return done;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
