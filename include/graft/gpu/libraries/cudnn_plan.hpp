// Execution plans of cuDNN: which engine runs an operation graph, chosen by rule, by measuring, or from what was chosen before.
#pragma once

#include "cudnn_graph.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// What an engine must not do.
struct engine_limits {
    bool deterministic = false;  ///< leaves out engines that do not give the same bits every time
    bool tensor_cores = true;    ///< false: full float32, no TF32
    bool transforms = true;      ///< false: no Winograd and no FFT, whose sums of whole numbers are not exact
    std::int64_t workspace_bytes = 0;
};

/// A tensor of an operation graph that has memory: its id, and where a call finds it.
struct graph_binding {
    std::int64_t id;
    argument memory;
    std::int64_t offset = 0;  ///< bytes from there to the tensor's first element
};

/// An engine that was made ready for a graph.
struct cudnn_plan {
    cudnn_descriptor config, plan;
    std::int64_t workspace_bytes = 0;
    bool plain = false;      ///< keeps NaNs strictly, and is slow
    bool compiled = false;   ///< its kernel is compiled when the plan is made, which takes a second or so
    void* handle = nullptr;  ///< that it was made with, and is run with
    std::string choice;      ///< "<engine> <knob>=<value> ...", which `restore_plan` reads
};

/// Makes the plan of an engine configuration of a graph, with the handle that this is bound to; op.unsupported where the engine does not
/// take it, or breaks a limit. Nobody else uses the handle meanwhile.
status make_plan(const libraries& with, void* handle, const engine_limits& limits, cudnn_descriptor config, cudnn_plan& plan);
/// What is kept of a plan: its choice, or, where its kernel was compiled, the library's own text of the plan, which has the kernel.
std::string keep_plan(const cudnn_plan& plan);
/// The plan of a text that was kept.
status restore_plan(const libraries& with, const engine_limits& limits, const cudnn_graph& graph, const std::string& text, cudnn_plan& plan);

/// The kernel of a finalized graph, by the engine that was kept for `problem`, else the fastest of the measured ones, else the
/// library's favourite. op.unsupported where no engine takes the graph within the limits.
result<std::unique_ptr<library_kernel>> choose_cudnn_kernel(const kernel_query& query, const libraries& with, const engine_limits& limits,
                                                            const cudnn_graph& graph, const std::vector<graph_binding>& bindings, const std::string& problem);

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../../core/executor.hpp"
#include "../runtime/driver_status.hpp"

#include <algorithm>
#include <cstdlib>
GRAFT_BEGIN_NAMESPACE
namespace gpu {

namespace detail {

/// Runs a plan on the tensors of a call.
class cudnn_kernel final : public library_kernel {
public:
    cudnn_kernel(cudnn_plan plan, const std::vector<graph_binding>& bindings, const std::vector<graph_scalar>& scalars)
        : plan_(std::move(plan)), bindings_(bindings), scalars_(scalars) {
        workspace_bytes = plan_.workspace_bytes;
        note = "cuDNN, engine " + plan_.choice;
    }
    inline status enqueue(const library_call& call) const override {
        namespace attribute = api::cudnn::attribute;
        namespace type = api::cudnn::attribute_type;
        const api::cudnn_functions& f = *call.with.cudnn;
        if (const int code = f.cudnnSetStream(plan_.handle, call.stream)) return cudnn_failure(f, code, "the choice of a stream");
        constexpr std::size_t most = 8;
        std::int64_t ids[most];
        void* memory[most];
        std::size_t count = 0;
        if (bindings_.size() + scalars_.size() > most) return fail(errc::internal, "cuDNN", "a graph has more tensors than a call holds");
        for (const graph_binding& b : bindings_) {
            const device_address at = (b.memory.kind == argument::from::input ? call.in : call.out)[b.memory.index] + static_cast<device_address>(b.offset);
            ids[count] = b.id;
            memory[count++] = reinterpret_cast<void*>(static_cast<std::uintptr_t>(at));
        }
        // CuDNN copies the number when the plan is executed.
        std::vector<graph_scalar> scalars = scalars_;
        for (graph_scalar& s : scalars) {
            ids[count] = s.id;
            memory[count++] = &s.value;
        }
        void* workspace = reinterpret_cast<void*>(static_cast<std::uintptr_t>(call.workspace));
        cudnn_descriptor pack;
        GRAFT_TRY(pack.create(f, api::cudnn::variant_pack_descriptor, "a variant pack"));
        GRAFT_TRY(pack.set(attribute::variant_pack_data_pointers, type::void_pointer, static_cast<std::int64_t>(count), memory));
        GRAFT_TRY(pack.set_integers(attribute::variant_pack_unique_ids, static_cast<std::int64_t>(count), ids));
        GRAFT_TRY(pack.set(attribute::variant_pack_workspace, type::void_pointer, 1, &workspace));
        GRAFT_TRY(pack.finalize());
        if (const int code = f.cudnnBackendExecute(plan_.handle, plan_.plan.raw(), pack.raw())) return cudnn_failure(f, code, "the execution of a plan");
        return {};
    }
    const cudnn_plan& plan() const noexcept { return plan_; }

private:
    cudnn_plan plan_;
    std::vector<graph_binding> bindings_;
    std::vector<graph_scalar> scalars_;
};

// The number of an engine, its notes on numbers, and whether it compiles its kernels.
inline status read_engine(const api::cudnn_functions& f, const cudnn_descriptor& config, std::int64_t& engine, std::vector<int>& notes, bool& compiles) {
    namespace attribute = api::cudnn::attribute;
    namespace type = api::cudnn::attribute_type;
    cudnn_descriptor e;
    std::int64_t count = 0;
    int found[32] = {};
    GRAFT_TRY(e.create(f, api::cudnn::engine_descriptor, "an engine"));
    void* raw = e.raw();
    GRAFT_TRY(config.get(attribute::engine_config_engine, type::descriptor, 1, count, &raw));
    GRAFT_TRY(e.get(attribute::engine_global_index, type::int64, 1, count, &engine));
    GRAFT_TRY(e.get(attribute::engine_numerical_note, type::numerical_note, 32, count, found));
    notes.assign(found, found + (count < 0 ? 0 : count > 32 ? 32 : count));
    GRAFT_TRY(e.get(attribute::engine_behavior_note, type::behavior_note, 32, count, found));
    const int* const end = found + (count < 0 ? 0 : count > 32 ? 32 : count);
    compiles = std::find(static_cast<const int*>(found), end, api::cudnn::behavior_note::runtime_compilation) != end;
    return {};
}

inline status read_choice(const api::cudnn_functions& f, const cudnn_descriptor& config, std::int64_t engine, engine_choice& choice) {
    namespace attribute = api::cudnn::attribute;
    namespace type = api::cudnn::attribute_type;
    constexpr std::int64_t most = 64;
    std::vector<cudnn_descriptor> knobs(most);
    std::vector<void*> raw;
    for (cudnn_descriptor& k : knobs) {
        GRAFT_TRY(k.create(f, api::cudnn::knob_choice_descriptor, "the choice of a knob"));
        raw.push_back(k.raw());
    }
    std::int64_t count = 0, one = 0;
    GRAFT_TRY(config.get(attribute::engine_config_knob_choices, type::descriptor, most, count, raw.data()));
    choice = {engine, {}};
    for (std::int64_t i = 0; i < count && i < most; ++i) {
        const cudnn_descriptor& k = knobs[static_cast<std::size_t>(i)];
        int knob = 0;
        std::int64_t value = 0;
        GRAFT_TRY(k.get(attribute::knob_choice_type, type::knob_type, 1, one, &knob));
        GRAFT_TRY(k.get(attribute::knob_choice_value, type::int64, 1, one, &value));
        choice.knobs.emplace_back(knob, value);
    }
    return {};
}

// "<engine> <knob>=<value> ..."
inline std::string text_of(const engine_choice& choice) {
    std::string text = std::to_string(choice.engine);
    for (const auto& knob : choice.knobs) text += " " + std::to_string(knob.first) + "=" + std::to_string(knob.second);
    return text;
}

inline const char* broken_limit(const engine_limits& limits, const std::vector<int>& notes) {
    namespace note = api::cudnn::numerical_note;
    for (const int n : notes) {
        if (n == note::nondeterministic && limits.deterministic) return "the engine is not deterministic";
        if (n == note::tensor_core && !limits.tensor_cores) return "the engine rounds to TF32";
        if (!limits.transforms && (n == note::fft || (n >= note::winograd && n <= note::winograd_13x13))) return "the engine transforms its factors";
        if (n == note::down_convert_inputs) return "the engine narrows its inputs";
        if (n == note::reduced_precision_reduction) return "the engine sums in less than float32";
    }
    return nullptr;
}

// A plan that a thread is to make, with a handle that no other thread uses.
struct plan_to_make {
    cudnn_descriptor config;
    void* handle;
    cudnn_plan plan;
    status done;
};

// What a thread of its own makes of a configuration: bound to a handle of its own too. False where there is none.
inline bool hand_over(const libraries& with, const cudnn_graph& graph, std::size_t thread, plan_to_make& p) {
    if (thread == 0 || with.cudnn_device) return true;  // a plan that is made for a described device has no handle
    p.handle = with.more_handles ? with.more_handles->at(thread - 1) : nullptr;
    if (!p.handle) return false;
    std::int64_t engine = 0;
    std::vector<int> notes;
    bool compiles = false;
    engine_choice choice;
    p.done = read_engine(*with.cudnn, p.config, engine, notes, compiles);
    if (p.done.ok()) p.done = read_choice(*with.cudnn, p.config, engine, choice);
    if (p.done.ok()) p.done = graph.configure(choice, p.handle, p.config);
    return true;
}

// One mode's engines: the first that can be used, or as many as are to be measured. The engine that keeps NaNs strictly is the plain
// one, which the heuristics put first for some graphs though others are far quicker: it comes behind the others. Plans are made side by
// side, as cuDNN allows to threads that share no handle: one whose kernel is compiled takes a second of a core, and a residual network's
// step asks for dozens.
inline status collect_plans(const libraries& with, const engine_limits& limits, const cudnn_graph& graph, int mode, std::size_t wanted,
                            std::vector<cudnn_plan>& plans) {
    std::vector<cudnn_descriptor> configs;
    GRAFT_TRY(graph.propose(mode, configs));
    std::vector<cudnn_plan> plain;
    status last;
    for (std::size_t first = 0; first < configs.size() && plans.size() < wanted;) {
        std::vector<plan_to_make> batch;
        for (const std::size_t most = wanted - plans.size(); batch.size() < most && first < configs.size(); ++first) {
            plan_to_make next{std::move(configs[first]), with.cudnn_handle, {}, {}};
            if (!hand_over(with, graph, batch.size(), next)) {
                configs[first] = std::move(next.config);
                break;
            }
            batch.push_back(std::move(next));
        }
        const auto count = static_cast<std::int64_t>(batch.size());
        pool_executor pool(static_cast<int>(count));
        parallel_for(pool, count, [&](std::int64_t i) {
            plan_to_make& p = batch[static_cast<std::size_t>(i)];
            if (!p.done.ok()) return;
            std::unique_ptr<current_context> now;
            if (with.driver && with.driver_context) now.reset(new current_context(*with.driver, with.driver_context));
            p.done = make_plan(with, p.handle, limits, std::move(p.config), p.plan);
        });
        for (plan_to_make& p : batch) {
            if (p.done.ok())
                (p.plan.plain ? plain : plans).push_back(std::move(p.plan));
            else
                last = std::move(p.done);
        }
    }
    for (std::size_t i = 0; i < plain.size() && plans.size() < wanted; ++i) plans.push_back(std::move(plain[i]));
    return plans.empty() ? std::move(last) : status();
}

}  // namespace detail

namespace detail {

// Reads what is to be known of a plan that was made, and holds it against the limits.
inline status read_plan(const api::cudnn_functions& f, const engine_limits& limits, cudnn_plan& plan) {
    std::int64_t engine = 0, count = 0;
    std::vector<int> notes;
    GRAFT_TRY(plan.plan.get(api::cudnn::attribute::execution_plan_workspace_bytes, api::cudnn::attribute_type::int64, 1, count, &plan.workspace_bytes));
    if (plan.workspace_bytes < 0 || plan.workspace_bytes > limits.workspace_bytes)
        return fail(errc::op_unsupported, "cuDNN",
                    "the engine needs " + std::to_string(plan.workspace_bytes) + " bytes of workspace, over the limit of " +
                        std::to_string(limits.workspace_bytes));
    GRAFT_TRY(read_engine(f, plan.config, engine, notes, plan.compiled));
    if (const char* broken = broken_limit(limits, notes)) return fail(errc::op_unsupported, "cuDNN", broken);
    plan.plain = std::find(notes.begin(), notes.end(), api::cudnn::numerical_note::strict_nan) != notes.end();
    engine_choice choice;
    GRAFT_TRY(read_choice(f, plan.config, engine, choice));
    plan.choice = text_of(choice);
    return {};
}

// What the text of a whole plan begins with.
inline const char* plan_text_mark() noexcept { return "plan "; }

inline status restore_whole_plan(const libraries& with, const engine_limits& limits, const std::string& json, cudnn_plan& plan) {
    namespace attribute = api::cudnn::attribute;
    namespace type = api::cudnn::attribute_type;
    const api::cudnn_functions& f = *with.cudnn;
    std::int64_t count = 0;
    plan.handle = with.cudnn_handle;
    GRAFT_TRY(plan.plan.create(f, api::cudnn::execution_plan_descriptor, "a kept execution plan"));
    GRAFT_TRY(plan.plan.set(attribute::execution_plan_json, type::text, static_cast<std::int64_t>(json.size()), json.data()));
    if (with.cudnn_device)
        GRAFT_TRY(plan.plan.set(attribute::execution_plan_device, type::descriptor, 1, &with.cudnn_device));
    else
        GRAFT_TRY(plan.plan.set(attribute::execution_plan_handle, type::handle, 1, &with.cudnn_handle));
    GRAFT_TRY(plan.plan.finalize());
    GRAFT_TRY(plan.config.create(f, api::cudnn::engine_config_descriptor, "an engine configuration"));
    void* raw = plan.config.raw();
    GRAFT_TRY(plan.plan.get(attribute::execution_plan_engine_config, type::descriptor, 1, count, &raw));
    return read_plan(f, limits, plan);
}

}  // namespace detail

GRAFT_INLINE status make_plan(const libraries& with, void* handle, const engine_limits& limits, cudnn_descriptor config, cudnn_plan& plan) {
    namespace attribute = api::cudnn::attribute;
    namespace type = api::cudnn::attribute_type;
    const api::cudnn_functions& f = *with.cudnn;
    std::int64_t engine = 0;
    std::vector<int> notes;
    // Before the plan is made: that may take long.
    GRAFT_TRY(detail::read_engine(f, config, engine, notes, plan.compiled));
    if (const char* broken = detail::broken_limit(limits, notes)) return fail(errc::op_unsupported, "cuDNN", broken);
    plan.config = std::move(config);
    plan.handle = handle;
    GRAFT_TRY(plan.plan.create(f, api::cudnn::execution_plan_descriptor, "an execution plan"));
    GRAFT_TRY(plan.plan.set_descriptor(attribute::execution_plan_engine_config, plan.config));
    if (with.cudnn_device) GRAFT_TRY(plan.plan.set(attribute::execution_plan_device, type::descriptor, 1, &with.cudnn_device));
    GRAFT_TRY(plan.plan.finalize());
    return detail::read_plan(f, limits, plan);
}

GRAFT_INLINE std::string keep_plan(const cudnn_plan& plan) {
    namespace attribute = api::cudnn::attribute;
    namespace type = api::cudnn::attribute_type;
    if (!plan.compiled) return plan.choice;
    constexpr std::int64_t most = std::int64_t(16) << 20;
    std::int64_t size = 0, written = 0;
    // Where there is no text, or a huge one, the choice alone is kept.
    if (!plan.plan.get(attribute::execution_plan_json, type::text, 0, size, nullptr).ok() || size <= 0 || size > most) return plan.choice;
    std::string json(static_cast<std::size_t>(size), ' ');
    if (!plan.plan.get(attribute::execution_plan_json, type::text, size, written, &json[0]).ok()) return plan.choice;
    json.resize(static_cast<std::size_t>(written < 0 ? 0 : written > size ? size : written));
    while (!json.empty() && json.back() == 0) json.pop_back();
    return detail::plan_text_mark() + json;
}

GRAFT_INLINE status restore_plan(const libraries& with, const engine_limits& limits, const cudnn_graph& graph, const std::string& text, cudnn_plan& plan) {
    const std::string mark = detail::plan_text_mark();
    if (text.compare(0, mark.size(), mark) == 0) return detail::restore_whole_plan(with, limits, text.substr(mark.size()), plan);
    const char* at = text.c_str();
    char* end = nullptr;
    engine_choice choice;
    choice.engine = std::strtoll(at, &end, 10);
    bool legal = end != at && choice.engine >= 0;
    while (legal && *end) {
        at = end;
        const long knob = std::strtol(at, &end, 10);
        legal = *at == ' ' && end != at && *end == '=' && knob >= 0 && knob < 1024 && choice.knobs.size() < 64;
        if (!legal) break;
        at = end + 1;
        choice.knobs.emplace_back(static_cast<int>(knob), std::strtoll(at, &end, 10));
        legal = end != at;
    }
    if (!legal) return fail(errc::op_unsupported, "cuDNN", "the choice '" + escape(text) + "' is none");
    cudnn_descriptor config;
    GRAFT_TRY(graph.configure(choice, config));
    return make_plan(with, with.cudnn_handle, limits, std::move(config), plan);
}

GRAFT_INLINE result<std::unique_ptr<library_kernel>> choose_cudnn_kernel(const kernel_query& query, const libraries& with, const engine_limits& limits,
                                                                         const cudnn_graph& graph, const std::vector<graph_binding>& bindings,
                                                                         const std::string& problem) {
    const library_choices& choices = with.choices;
    const std::string key = query.on.name + "; cuDNN " + std::to_string(with.cudnn->cudnnGetVersion()) + "; " + problem;
    if (choices.recall) {
        const std::string kept = choices.recall(choices.context, key);
        cudnn_plan plan;
        // What was kept may be of another driver or a damaged file: then it is chosen anew.
        if (!kept.empty() && restore_plan(with, limits, graph, kept, plan).ok())
            return std::unique_ptr<library_kernel>(new detail::cudnn_kernel(std::move(plan), bindings, graph.scalars()));
    }
    // A measured choice differs from one run of the program to the next.
    const bool measured = choices.milliseconds && choices.candidates > 1 && !query.options.deterministic;
    const std::size_t wanted = measured ? static_cast<std::size_t>(choices.candidates) : 1;
    std::vector<cudnn_plan> plans;
    status why = detail::collect_plans(with, limits, graph, api::cudnn::heuristic::a, wanted, plans);
    if (plans.empty()) {
        status fallback = detail::collect_plans(with, limits, graph, api::cudnn::heuristic::fallback, wanted, plans);
        if (!fallback.ok()) why = std::move(fallback);
    }
    if (plans.empty() && !why.ok() && why.error().code() != errc::op_unsupported) return why;
    if (plans.empty()) return fail(errc::op_unsupported, "cuDNN", "no engine takes this" + (why.ok() ? std::string() : ": " + why.error().detail()));
    std::unique_ptr<detail::cudnn_kernel> best;
    double least = 0;
    for (cudnn_plan& plan : plans) {
        std::unique_ptr<detail::cudnn_kernel> kernel(new detail::cudnn_kernel(std::move(plan), bindings, graph.scalars()));
        const double milliseconds = plans.size() > 1 ? choices.milliseconds(choices.context, query, *kernel, 5) : 0;
        if (milliseconds < 0 || (best && milliseconds >= least)) continue;
        least = milliseconds;
        best = std::move(kernel);
    }
    if (!best) return fail(errc::device_unavailable, "cuDNN", "every engine failed while it was measured; `graft doctor` tells which libraries are used");
    if (choices.remember) choices.remember(choices.context, key, keep_plan(best->plan()));
    return std::unique_ptr<library_kernel>(std::move(best));
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
