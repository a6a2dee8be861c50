// A communicator whose data go from GPU to GPU by NCCL, also where they lie in the host's memory. Bodies alone include it.
#pragma once

#include "../core/clock.hpp"
#include "../core/communicator.hpp"
#include "../core/member_call.hpp"
#include "device.hpp"
#include "libraries/nccl.hpp"
#include "runtime/driver_status.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

// The members of a run by NCCL. Host arrays go by way of staging memory on the device, in pieces; whether all are there is the control plane's to tell.
// Each call begins with an all-gather of what each member calls, with the data behind it where they are few: NCCL itself does not notice that members
// call different things. The device exchanges by the same member of NCCL, on its own stream (of_device). One thread at a time.
class nccl_communicator final : public communicator {
public:
    static result<std::shared_ptr<communicator>> join(std::shared_ptr<control_plane> notices, std::shared_ptr<cuda_device> on,
                                                      const api::nccl_functions& functions) {
        std::shared_ptr<nccl_communicator> made(new nccl_communicator(std::move(notices), std::move(on)));
        GRAFT_TRY(made->begin(functions));
        return std::shared_ptr<communicator>(std::move(made));
    }
    ~nccl_communicator() override {
        if (!on_) return;
        current_context now(on_->driver(), on_->context());
        of_device.reset();
        member_.reset();
        if (stream_) {
            on_->driver().cuStreamSynchronize(stream_);
            on_->driver().cuStreamDestroy_v2(stream_);
        }
    }
    nccl_communicator(const nccl_communicator&) = delete;
    nccl_communicator& operator=(const nccl_communicator&) = delete;

    int rank() const noexcept override { return notices_->rank(); }
    int size() const noexcept override { return notices_->size(); }
    const char* name() const noexcept override { return "nccl"; }
    double timeout_seconds() const noexcept override { return notices_->timeout_seconds(); }
    status look() override {
        if (failed_) return status(*failed_);
        return notices_->look();
    }
    void leave(const error& why) noexcept override {
        notices_->leave(why);
        if (!member_) return;
        current_context now(on_->driver(), on_->context());
        member_->abort();
    }

    status all_gather(const void* own, std::size_t bytes, void* all) override {
        graft::detail::member_call call;
        call.kind = graft::detail::member_call::gather, call.size = bytes;
        return run(call, bytes <= few_bytes ? own : nullptr, bytes, [&]() -> status {
            char* const to = static_cast<char*>(all);
            const auto each = static_cast<std::size_t>(size());
            if (bytes <= few_bytes) {
                for (std::size_t r = 0; r < each && bytes; ++r) std::memcpy(to + r * bytes, came(r), bytes);
                return {};
            }
            const std::size_t piece = stage_bytes / (each + 1) / 256 * 256;
            for (std::size_t at = 0; at < bytes; at += piece) {
                const std::size_t n = std::min(piece, bytes - at);
                const device_address gathered = stage_.address() + piece;
                GRAFT_TRY(bring(stage_.address(), static_cast<const char*>(own) + at, n));
                GRAFT_TRY(member_->all_gather_bytes(stage_.address(), gathered, n, stream_));
                GRAFT_TRY(await());
                for (std::size_t r = 0; r < each; ++r) GRAFT_TRY(fetch(to + r * bytes + at, gathered + r * n, n));
            }
            return {};
        });
    }
    status broadcast(void* data, std::size_t bytes, int from) override {
        if (from < 0 || from >= size()) return fail(errc::usage, where(), "there is no member " + std::to_string(from) + " to broadcast from");
        graft::detail::member_call call;
        call.kind = graft::detail::member_call::cast, call.size = bytes, call.from = from;
        const bool gives = rank() == from, few = bytes <= few_bytes;
        return run(call, few && gives ? data : nullptr, bytes, [&]() -> status {
            if (few) {
                if (!gives && bytes) std::memcpy(data, came(static_cast<std::size_t>(from)), bytes);
                return {};
            }
            for (std::size_t at = 0; at < bytes; at += stage_bytes) {
                char* const here = static_cast<char*>(data) + at;
                const std::size_t n = std::min(stage_bytes, bytes - at);
                if (gives) GRAFT_TRY(bring(stage_.address(), here, n));
                GRAFT_TRY(member_->broadcast_bytes(stage_.address(), n, from, stream_));
                GRAFT_TRY(await());
                if (!gives) GRAFT_TRY(fetch(here, stage_.address(), n));
            }
            return {};
        });
    }
    status all_reduce(const graft::reduction& arrays) override { return reduce_for(graft::detail::member_call::reduce, arrays, -1); }
    status reduce(const graft::reduction& arrays, int to) override {
        if (to < 0 || to >= size()) return fail(errc::usage, where(), "there is no member " + std::to_string(to) + " to reduce to");
        return reduce_for(graft::detail::member_call::reduce_one, arrays, to);
    }
    status reduce_scatter(float* data, std::int64_t count) override {
        graft::detail::member_call call;
        call.kind = graft::detail::member_call::scatter, call.size = static_cast<std::uint64_t>(count);
        return run(call, nullptr, 0, [&]() -> status {
            // NCCL's parts are equally long, these may differ by one: shorter ones end with a zero.
            const int members = size();
            const std::int64_t longest = first_of(count, 1, members), room = stage_floats / (members + 1);
            for (std::int64_t at = 0; at < longest; at += room) {
                const std::int64_t n = std::min(room, longest - at);
                host_.assign(static_cast<std::size_t>(n * members), 0.f);
                for (int r = 0; r < members; ++r) {
                    const std::int64_t first = first_of(count, r, members) + at, here = std::min(n, first_of(count, r + 1, members) - first);
                    if (here > 0) std::memcpy(host_.data() + r * n, data + first, static_cast<std::size_t>(here) * sizeof(float));
                }
                const device_address in = stage_.address(), out = in + static_cast<std::size_t>(n * members) * sizeof(float);
                GRAFT_TRY(bring(in, host_.data(), host_.size() * sizeof(float)));
                GRAFT_TRY(member_->reduce_scatter(in, out, n, stream_));
                GRAFT_TRY(await());
                const std::int64_t first = first_of(count, rank(), members) + at, here = std::min(n, first_of(count, rank() + 1, members) - first);
                if (here > 0) GRAFT_TRY(fetch(data + first, out, static_cast<std::size_t>(here) * sizeof(float)));
            }
            return {};
        });
    }
    status barrier() override {
        return run(graft::detail::member_call(), nullptr, 0, [] { return status(); });
    }

private:
    static constexpr std::size_t stage_bytes = std::size_t(8) << 20, slot_bytes = 1024, few_bytes = slot_bytes - sizeof(graft::detail::member_call);
    static constexpr std::int64_t stage_floats = static_cast<std::int64_t>(stage_bytes / sizeof(float));

    nccl_communicator(std::shared_ptr<control_plane> notices, std::shared_ptr<cuda_device> on) : notices_(std::move(notices)), on_(std::move(on)) {}

    status begin(const api::nccl_functions& functions) {
        const api::driver_functions& d = on_->driver();
        current_context now(d, on_->context());
        GRAFT_TRY(driver_status(d, now.result(), on_->name(), "using its context"));
        GRAFT_GPU_TRY(d, cuStreamCreate(&stream_, api::driver::flag::stream_non_blocking), on_->name(), "making a stream");
        GRAFT_TRY_ASSIGN(stage_, on_->pool().take(static_cast<std::int64_t>(stage_bytes), purpose::state));
        // Slots of all members and this one's, which first calls need at once.
        const auto slots = static_cast<std::int64_t>(slot_bytes) * (size() + 1);
        GRAFT_TRY_ASSIGN(slots_, on_->pool().take(slots, purpose::state));
        said_.resize(slot_bytes * (static_cast<std::size_t>(size()) + 1));
        const double began = graft::detail::seconds_now();
        GRAFT_TRY_ASSIGN(member_, nccl_member::join(functions, on_->driver(), on_->context(), *notices_, on_->name()));
        add_device_wait(graft::detail::seconds_now() - began);
        member_->count_for(*this);
        of_device = member_;
        return {};
    }
    // `to`: the member that wants the sums, or -1: all. NCCL has all of them add up, as it does for gradients.
    status reduce_for(graft::detail::member_call::kinds kind, const graft::reduction& arrays, int to) {
        graft::detail::member_call call;
        call.kind = kind, call.from = std::max(to, 0);
        call.size = static_cast<std::uint64_t>(arrays.elements());
        call.arrays = arrays.arrays, call.lengths = graft::detail::member_call::hash_of(arrays.counts, arrays.arrays);
        return run(call, nullptr, 0, [&]() -> status {
            // Arrays as one row, from which pieces are cut: many are short.
            constexpr std::int64_t piece = stage_bytes / sizeof(float);
            host_.resize(static_cast<std::size_t>(std::min(piece, arrays.elements())));
            int in_array = 0, out_array = 0;
            std::int64_t in_at = 0, out_at = 0;
            for (std::int64_t left = arrays.elements(); left > 0;) {
                const std::int64_t n = std::min(piece, left);
                walk(arrays, n, in_array, in_at, [&](int i, std::int64_t at, std::int64_t in_row, std::int64_t count) {
                    std::memcpy(host_.data() + in_row, arrays.in[i] + at, static_cast<std::size_t>(count) * sizeof(float));
                });
                const device_address row = stage_.address();
                GRAFT_TRY(bring(row, host_.data(), static_cast<std::size_t>(n) * sizeof(float)));
                GRAFT_TRY(member_->all_reduce(&row, &row, &n, 1, stream_));
                GRAFT_TRY(await());
                if (to >= 0 && to != rank()) {
                    left -= n;
                    continue;
                }
                GRAFT_TRY(fetch(host_.data(), row, static_cast<std::size_t>(n) * sizeof(float)));
                walk(arrays, n, out_array, out_at, [&](int i, std::int64_t at, std::int64_t in_row, std::int64_t count) {
                    std::memcpy(arrays.out[i] + at, host_.data() + in_row, static_cast<std::size_t>(count) * sizeof(float));
                });
                left -= n;
            }
            return {};
        });
    }
    std::string where() const { return "nccl, member " + std::to_string(rank()) + " of " + std::to_string(size()); }
    const char* came(std::size_t member) const { return said_.data() + slot_bytes * (member + 1) + sizeof(graft::detail::member_call); }

    // All members meet, and tell what they call, with `few` bytes at `data`, unless that is null; then `body`.
    template <class F>
    status run(graft::detail::member_call call, const void* data, std::size_t few, const F& body) {
        if (failed_) return status(*failed_);
        call.sequence = ++calls_;
        current_context now(on_->driver(), on_->context());
        status done = driver_status(on_->driver(), now.result(), on_->name(), "using its context");
        if (done.ok()) done = meet(call, data, few);
        if (done.ok()) done = graft::detail::or_out_of_memory<status>("nccl", body);
        if (!done.ok()) {
            failed_.emplace(done.error());
            member_->abort();
        }
        return done;
    }
    status meet(const graft::detail::member_call& call, const void* data, std::size_t few) {
        std::memcpy(said_.data(), &call, sizeof call);
        if (data && few) std::memcpy(said_.data() + sizeof call, data, few);
        const std::size_t others = slot_bytes * static_cast<std::size_t>(size());
        GRAFT_TRY(bring(slots_.address(), said_.data(), slot_bytes));
        GRAFT_TRY(member_->all_gather_bytes(slots_.address(), slots_.address() + slot_bytes, slot_bytes, stream_));
        GRAFT_TRY(await());
        GRAFT_TRY(fetch(said_.data() + slot_bytes, slots_.address() + slot_bytes, others));
        std::vector<graft::detail::member_call> calls(static_cast<std::size_t>(size()));
        bool same = true;
        for (std::size_t r = 0; r < calls.size(); ++r) {
            std::memcpy(&calls[r], said_.data() + slot_bytes * (r + 1), sizeof call);
            same &= alike(calls[r], call);
        }
        return same ? status() : calls_differ(calls, call, where());
    }
    // What it takes counts as waiting of this member (all_waited_seconds).
    status await() { return member_->finish(stream_); }
    status bring(device_address to, const void* from, std::size_t bytes) {
        GRAFT_GPU_TRY(on_->driver(), cuMemcpyHtoDAsync_v2(to, from, bytes, stream_), on_->name(), "copying to the device");
        return {};
    }
    status fetch(void* to, device_address from, std::size_t bytes) {
        GRAFT_GPU_TRY(on_->driver(), cuMemcpyDtoHAsync_v2(to, from, bytes, stream_), on_->name(), "copying from the device");
        GRAFT_GPU_TRY(on_->driver(), cuStreamSynchronize(stream_), on_->name(), "copying from the device");
        return {};
    }
    // The next `n` elements of the row, piece by piece: f(array, place in it, place in the piece, count).
    template <class F>
    static void walk(const graft::reduction& arrays, std::int64_t n, int& array, std::int64_t& at, const F& f) {
        for (std::int64_t in_row = 0; in_row < n;) {
            const std::int64_t count = std::min(n - in_row, arrays.counts[array] - at);
            if (count > 0) f(array, at, in_row, count);
            in_row += count, at += count;
            if (at == arrays.counts[array]) ++array, at = 0;
        }
    }

    std::shared_ptr<control_plane> notices_;
    std::shared_ptr<cuda_device> on_;
    std::shared_ptr<nccl_member> member_;
    void* stream_ = nullptr;
    device_memory stage_, slots_;
    std::vector<char> said_;   // slots: this member's, then those of all
    std::vector<float> host_;  // pieces of arrays that are added up
    std::uint64_t calls_ = 0;
    std::optional<error> failed_;
};

}  // namespace gpu
GRAFT_END_NAMESPACE
