// Bodies of stage_devices: what loads and plans a network in stages, which programs that name none do not link.
#pragma once

#include "session_body.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

inline status check_stages(const plan& p, std::int64_t most) {
    for (std::size_t s = 1; s < p.places.size() && most > 0; ++s) GRAFT_TRY(check_stage(s, place_bytes(p, static_cast<place_id>(s)), most));
    return {};
}
// A cut by work alone may give a stage more than it has memory for.
inline result<std::shared_ptr<const plan>> plan_stages(const executable& e, const tensor_view* inputs, executor& pool) {
    status fits;
    // By memory alone all that is not in the heaviest stage would lie anywhere.
    for (const double by_memory : {0.0, 0.5, 0.9}) {
        graft::graph staged;
        GRAFT_TRY_ASSIGN(staged, forward_pipeline(e.graph, inputs, e.pipeline, by_memory, {e.how.limit, pool, nullptr, e.how.seed, e.how.budget}));
        auto made = make_plan(staged, inputs, e.how, pool);
        fits = made.ok() ? check_stages(**made, e.pipeline.stage_bytes) : status(made.error());
        if (fits.ok()) return made;
        const errc code = fits.error().code();
        if (code != errc::memory_budget && code != errc::memory_oom) break;
    }
    return fits;
}

inline pipeline_options pipeline_of(const load_options& options) { return {static_cast<int>(options.stages.size()), options.parts, options.stage_bytes}; }
// The places of a pipeline behind the host's. Parts of the CPU are devices of their own, numbered in their order.
inline status open_stages(const load_options& options, const backend* const* backends, int count, model_state& state) {
    if (options.reference || options.opened)
        return fail(errc::usage, "stages",
                    "a pipeline has the devices of its stages alone, and runs by their kernels: without `opened` and without reference kernels");
    const backend* host = nullptr;
    for (int i = 0; i < count && !host; ++i)
        if (backends[i]->host) host = backends[i];
    int parts_of_cpu = 0;
    for (std::shared_ptr<device> on : options.stages) {
        if (!on && !host) return fail(errc::device_unavailable, "stages", "a stage asks for the CPU, and this program names no back end of the host");
        std::string named = on ? on->name() : "cpu";
        if (!on) GRAFT_TRY_ASSIGN(on, host->open("cpu:" + std::to_string(parts_of_cpu++), {}, nullptr));
        if (("," + state.devices + ",").find("," + named + ",") == std::string::npos) state.devices += (state.devices.empty() ? "" : ",") + named;
        state.folded.how.places.push_back(std::move(on));
    }
    state.folded.how.in_order = true;
    state.folded.pipeline = pipeline_of(options);
    state.folded.staged = plan_stages;
    return {};
}

GRAFT_INLINE const stage_functions& linked_stages() noexcept {
    static constexpr stage_functions all = {[](const load_options& options) { return pipeline_of(options).check(); }, open_stages};
    return all;
}

}  // namespace detail
GRAFT_END_NAMESPACE
