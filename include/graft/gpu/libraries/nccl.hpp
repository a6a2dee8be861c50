// NCCL among the members of a run: a communicator of its own for each GPU, whose members found each other by the run's.
#pragma once

#include "../../core/communicator.hpp"
#include "../../core/trace.hpp"
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
/// not come, it gives up for good. All exchanges go by one communicator of NCCL, one after the other in the order of the calls, on whatever streams: NVIDIA
/// promises no progress to two communicators at once. For one thread at a time, in the device's context.
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
    /// Begins to add up `count` floats at `data` over all members, in place, when what was put on `stream` so far has ended: on a stream of its own, beside
    /// what is put on `stream` from here on. Members start the same sums in the same order. `name` is for a trace, and lives as long as the sum goes on.
    /// Errors: dist.*, device.*.
    status start(device_address data, std::int64_t count, void* stream, const char* name = "");
    /// What is put on `stream` from here on waits for the sums at `data`, and what the stream waits counts as waiting. The host does not wait.
    status await(device_address data, void* stream);
    /// Waits for what was put on the stream, and counts as waiting of the run's member what exchanges took of it (communicator::add_device_wait). Where the
    /// member is traced, tells when the sums went on that the stream waited for. Errors: dist.*, device.*.
    status finish(void* stream);
    /// Waits for sums that were started and that no stream waits for, as a run that fails leaves them: their memory is free behind it. Errors: those of finish.
    status settle();
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
    // A sum on the stream of its own, and what orders it with others: it waits for `ready`, and whoever reads it waits for `done`.
    struct started {
        device_address data = 0;
        std::int64_t count = 0;
        const char* name = "";
        void *ready = nullptr, *begun = nullptr, *done = nullptr;
        bool open = false;    // no stream waits for it yet
        bool traced = false;  // `begun` was recorded, and nobody has told of it
    };
    nccl_member(const api::nccl_functions& functions, const api::driver_functions& driver, void* context, control_plane& group, const std::string& device)
        : f_(functions), driver_(driver), context_(context), group_(group), device_(device) {}
    template <class Poll>
    status wait(const char* what, const Poll& poll);
    template <class Put>
    status put(const char* what, int arrays, void* stream, const Put& put_one);
    template <class Put>
    status exchange(const char* what, int arrays, const Put& put_one);
    int sum(device_address in, device_address out, std::int64_t count, void* stream) const;
    status next_started(started*& sum);
    trace_recorder* trace() const noexcept { return counted_ ? counted_->trace() : nullptr; }
    status show(trace_recorder& to, double ended);
    status make_event(void*& event, unsigned flags);
    status block(void* stream, void* event);
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
    std::size_t put_ = 0;     // of timed_: those on the stream since it was last waited for
    void* beside_ = nullptr;  // the stream of what is started, made for the first
    std::vector<started> started_;
    std::size_t open_ = 0;        // of started_
    void* last_ended_ = nullptr;  // of started_, what the last of them records, as long as an exchange on another stream may come before it
    void* closing_ = nullptr;     // for a trace: where a stream that is waited for ends
    std::string device_;
    void* comm_ = nullptr;
    bool over_ = false;
};

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "nccl_body.hpp"
#endif
