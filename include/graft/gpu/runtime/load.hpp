// What a plan needs on a GPU before it runs: kernels compiled and loaded, constants brought over; and the timing of kernels.
#pragma once

#include "../context.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

GRAFT_INLINE result<std::shared_ptr<const device_program>> cuda_device::load_plan(const plan& p, place_id place, executor& pool) {
    auto made = std::make_shared<cuda_program>();
    std::vector<const std::string*> sources;
    for (const step& s : p.steps)
        if (s.place == place && !static_cast<const cuda_kernel&>(*s.kernel).generated.launches.empty())
            sources.push_back(&static_cast<const cuda_kernel&>(*s.kernel).generated.source);
    GRAFT_TRY_ASSIGN(made->modules, modules_->prepare(sources, pool));
    std::size_t module = 0;
    made->steps.resize(p.steps.size());
    made->constants.assign(p.lowered.values.size(), 0);
    current_context now(driver(), context_);
    GRAFT_TRY(driver_status(driver(), now.result(), name_, "using its context"));
    cuda_stream stream;
    GRAFT_TRY(stream.open(driver(), context_, name_));
    for (std::size_t i = 0; i < p.steps.size(); ++i) {
        const step& s = p.steps[i];
        if (s.place != place) continue;
        const program& text = static_cast<const cuda_kernel&>(*s.kernel).generated;
        for (const launch& l : text.launches) {
            if (l.arguments.size() > most_arguments) return fail(errc::internal, name_, "a kernel takes more than 500 addresses");
            void* function = nullptr;
            GRAFT_TRY_ASSIGN(function, modules_->function(made->modules[module].get(), l.entry));
            made->steps[i].push_back({function, &l});
        }
        module += text.launches.empty() ? 0 : 1;
        for (const slot& from : s.in) {
            if (from.kind != slot_kind::constant || made->constants[static_cast<std::size_t>(from.index)]) continue;
            std::shared_ptr<const resident_constant> constant;
            GRAFT_TRY_ASSIGN(constant, resident(p.lowered.values[static_cast<std::size_t>(from.index)].constant, stream.get()));
            made->constants[static_cast<std::size_t>(from.index)] = constant->memory.address();
            made->bytes += constant->memory.bytes();
            made->held.push_back(std::move(constant));
        }
    }
    return std::shared_ptr<const device_program>(std::move(made));
}

// The plans of a model share its constants: those that are there already are found by the host's memory, which they keep alive.
GRAFT_INLINE result<std::shared_ptr<const resident_constant>> cuda_device::resident(const tensor& host, void* stream) {
    std::lock_guard<std::mutex> guard(making_);
    constants_.erase(std::remove_if(constants_.begin(), constants_.end(), [](const auto& c) { return c.expired(); }), constants_.end());
    for (const auto& c : constants_)
        if (auto held = c.lock())
            if (held->host.storage().unaligned() == host.storage().unaligned() && held->host.bytes() == host.bytes())
                return std::shared_ptr<const resident_constant>(held);
    auto made = std::make_shared<resident_constant>();
    made->host = host;
    GRAFT_TRY_ASSIGN(made->memory, pool_->take(static_cast<std::int64_t>(host.bytes()), purpose::constants));
    if (host.bytes())
        GRAFT_GPU_TRY(driver(), cuMemcpyHtoDAsync_v2(made->memory.address(), host.storage().unaligned(), host.bytes(), stream), name_, "bringing weights over");
    // Here, since whoever finds it from now on takes it for whole.
    GRAFT_GPU_TRY(driver(), cuStreamSynchronize(stream), name_, "bringing weights over");
    constants_.push_back(made);
    return std::shared_ptr<const resident_constant>(std::move(made));
}

GRAFT_INLINE double measure_on_device(void* context, const kernel_query& query, const library_kernel& kernel, int runs) {
    cuda_device& on = *static_cast<cuda_device*>(context);
    const api::driver_functions& d = on.driver();
    std::vector<device_memory> held;
    std::vector<device_address> in, out;
    cuda_stream stream;
    if (!stream.open(d, on.context(), on.name()).ok()) return -1;
    const auto take = [&](std::int64_t bytes) {
        auto memory = on.pool().take(bytes, purpose::measuring);
        if (!memory.ok()) return device_address(0);
        held.push_back(memory.value());
        // Zeros, so that what was there before does not decide about denormal numbers.
        d.cuMemsetD8Async(held.back().address(), 0, static_cast<std::size_t>(held.back().bytes()), stream.get());
        return held.back().address();
    };
    bool had = true;
    for (int i = 0; i < query.inputs; ++i) {
        in.push_back(query.has(i) ? take(bytes_of(query.in[i].type, query.in[i].extents)) : 0);
        had &= !query.has(i) || in.back();
    }
    for (int i = 0; i < query.outputs; ++i) {
        out.push_back(query.wants(i) ? take(bytes_of(query.out[i].type, query.out[i].extents)) : 0);
        had &= !query.wants(i) || out.back();
    }
    const device_address workspace = take(kernel.workspace_bytes);
    // Without room to measure, no kernel is told apart from another: the library's favourite is as good as any.
    if (!had || !workspace) {
        d.cuStreamSynchronize(stream.get());
        return 0;
    }
    void *begin = nullptr, *end = nullptr;
    float milliseconds = -1;
    auto with = on.open_handles();
    if (with && !d.cuEventCreate(&begin, 0) && !d.cuEventCreate(&end, 0)) {
        const library_call call{*with, stream.get(), in.data(), out.data(), workspace};
        bool ran = kernel.enqueue(call).ok() && !d.cuEventRecord(begin, stream.get());
        for (int r = 0; r < runs && ran; ++r) ran = kernel.enqueue(call).ok();
        ran = ran && !d.cuEventRecord(end, stream.get()) && !d.cuEventSynchronize(end) && !d.cuEventElapsedTime(&milliseconds, begin, end);
        if (!ran) milliseconds = -1;
    }
    if (begin) d.cuEventDestroy_v2(begin);
    if (end) d.cuEventDestroy_v2(end);
    d.cuStreamSynchronize(stream.get());
    return milliseconds < 0 ? -1 : static_cast<double>(milliseconds) / std::max(runs, 1);
}

}  // namespace gpu
GRAFT_END_NAMESPACE
