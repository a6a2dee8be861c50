// Bodies of exec/session.hpp.
#pragma once

#include "session.hpp"
#include "context.hpp"
#include "../graph/verify.hpp"
#include "../io/onnx_read.hpp"
#include "../io/onnx_write.hpp"
#include "../passes/graph_queries.hpp"
#include "../passes/microsoft_operators.hpp"
#include "../passes/open_batch.hpp"

#include <atomic>

GRAFT_BEGIN_NAMESPACE
namespace detail {

struct model_state {
    graft::graph source;                    // as loaded
    std::shared_ptr<memory_budget> budget;  // of what it keeps; a session's counts beside it
    memory_charge charge;                   // of the source's constants
    executable folded, replaced;            // defaults as constants; and the graph for callers that replace a default
    std::vector<value_info> inputs, outputs;
    std::string devices;  // of the stages, each once

    GRAFT_COLD model_state() {}
    GRAFT_COLD ~model_state() {}
};

// Of a model that was made and not loaded: nothing.
inline GRAFT_COLD const model_state& no_state() {
    static const model_state none;
    return none;
}
inline const model_state& state_of(const std::shared_ptr<const model_state>& state) { return state ? *state : no_state(); }
inline status no_model(const char* where) { return fail(errc::usage, where, "its model is empty: give it what graft::load returns"); }

// The batch of a network whose other extents are known; what cannot be opened stays as it is.
inline result<graph> opened_where_possible(graph g, const limits& limit) {
    const value* const input = only_input(g);
    if (!input || !input->has_shape || input->extents.rank() < 1 || !input->extents.known()) return g;
    executor serial;
    auto opened = open_batch(g, input->extents, serial, limit);
    if (opened.ok()) return opened;
    if (opened.error().code() == errc::memory_oom) return opened;
    return g;
}

// Bytes of the constants of a graph and its bodies that were allocated for it, rather than lie in a file that is mapped.
inline GRAFT_COLD std::int64_t allocated_bytes(const graph& g) {
    std::int64_t bytes = 0;
    const auto add = [&bytes](const tensor& t) { bytes += t.storage().allocated() ? static_cast<std::int64_t>(t.storage().bytes()) : 0; };
    for (const value& v : g.values) add(v.constant);
    for (const node& n : g.nodes)
        for (const attribute& a : n.attributes) {
            add(a.tensor);
            if (a.graph) bytes += allocated_bytes(*a.graph);
        }
    return bytes;
}

// A network written in code says what makes its outputs, and their types only as far as its builder could guess; what writes it to a file
// has to declare the right ones.
inline void tell_output_types(model_state& state) {
    graph& g = state.source;
    shape_probe probe(g, state.folded.how.limit);
    for (const node& n : g.nodes)
        if (n.op) (void)probe.fixed(n);
    for (std::size_t i = 0; i < g.outputs.size(); ++i) {
        const dtype type = probe.type(g.outputs[i]);
        if (type == dtype::undefined) continue;
        g.at(g.outputs[i]).type = type;
        state.outputs[i].type = type;
    }
}

inline value_info describe(const graph& g, value_id id) {
    const value& v = g.at(id);
    return {v.name, v.type, v.has_shape, v.extents, v.dimensions, static_cast<bool>(v.constant)};
}

}  // namespace detail

GRAFT_INLINE const std::vector<value_info>& model::inputs() const& { return detail::state_of(state_).inputs; }
GRAFT_INLINE const std::vector<value_info>& model::outputs() const& { return detail::state_of(state_).outputs; }
GRAFT_INLINE const graph& model::graph() const& { return detail::state_of(state_).source; }
GRAFT_INLINE std::vector<value_info> model::inputs() && { return detail::state_of(state_).inputs; }
GRAFT_INLINE std::vector<value_info> model::outputs() && { return detail::state_of(state_).outputs; }
GRAFT_INLINE graph model::graph() && { return detail::state_of(state_).source; }
GRAFT_INLINE std::string model::metadata(const std::string& key) const {
    const std::string* found = graph().find_metadata(key);
    return found ? *found : std::string();
}
GRAFT_INLINE status model::save(const std::string& path) const { return state_ ? write_onnx_file(state_->source, path) : detail::no_model("model"); }

namespace detail {
inline GRAFT_COLD std::vector<tensor_view> views_of(const model_state& state, const std::vector<value_info>& given) {
    std::vector<tensor_view> views;
    for (const value_info& i : state.inputs) {
        tensor_view v;
        if (!i.has_default) v = {i.type, i.extents, nullptr};
        for (const value_info& g : given)
            if (g.name == i.name && !i.has_default) v = {g.type, g.extents, nullptr};
        views.push_back(v);
    }
    return views;
}
inline result<std::shared_ptr<const plan>> plan_of(const model_state& state, const std::vector<value_info>& given, executor& pool) {
    const std::vector<tensor_view> views = views_of(state, given);
    for (std::size_t i = 0; i < views.size(); ++i)
        if (views[i].type != dtype::undefined && !views[i].extents.known())
            return fail(errc::input_shape, state.inputs[i].name, "its open extents have to be given: " + text(views[i].extents));
    return state.folded.plan_for(views.data(), pool);
}
inline result<std::shared_ptr<const plan>> plan_of(const model_state& state, const std::vector<value_info>& given) {
    executor serial;
    return plan_of(state, given, serial);
}
}  // namespace detail

GRAFT_INLINE std::string shape_text(const value_info& v) {
    if (!v.has_shape) return "of any rank";
    std::string out = "[";
    for (int i = 0; i < v.extents.rank(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        const bool named = at < v.dimensions.size() && !v.dimensions[at].empty();
        out += (i ? "," : "") + (v.extents[i] >= 0 ? std::to_string(v.extents[i]) : named ? escape(v.dimensions[at]) : "?");
    }
    return out + "]";
}
GRAFT_INLINE std::string to_string(const value_info& v) { return escape(v.name) + " " + name(v.type) + " " + shape_text(v); }

GRAFT_INLINE const char* model::device() const noexcept {
    if (state_ && !state_->devices.empty()) return state_->devices.c_str();
    return state_ && state_->folded.how.places.size() > 1 ? state_->folded.how.places[1]->name().c_str() : "cpu";
}
GRAFT_INLINE void warn_on_stderr(const char* text) { std::fprintf(stderr, "graft: warning: %s\n", text); }

GRAFT_INLINE result<model::memory_use> model::memory(const std::vector<value_info>& inputs) const GRAFT_MEMORY_TRY {
    if (!state_) return detail::no_model("model");
    std::shared_ptr<const plan> p;
    GRAFT_TRY_ASSIGN(p, detail::plan_of(*state_, inputs));
    memory_use use;
    use.arena = host_arena_bytes(*p);
    use.scratch = p->scratch_bytes;
    use.constants = p->constant_bytes;
    use.outputs = output_bytes(*p);
    use.multiply_adds = p->multiply_adds;
    use.device = device_bytes(*p);
    return use;
}
GRAFT_MEMORY_CATCH("model::memory")

namespace detail {
// Without what a run tells.
inline std::vector<stage_use> stages_of_plan(const plan& p) {
    std::vector<stage_use> all;
    for (std::size_t at = 1; at < p.places.size(); ++at) {
        const auto place = static_cast<place_id>(at);
        stage_use use;
        use.device = p.places[at].on->name();
        for (const step& s : p.steps) use.nodes += s.place == place;
        use.bytes = place_bytes(p, place);
        use.multiply_adds = p.places[at].multiply_adds;
        all.push_back(std::move(use));
    }
    return all;
}
}  // namespace detail

GRAFT_INLINE result<std::vector<stage_use>> model::stages(const std::vector<value_info>& inputs) const GRAFT_MEMORY_TRY {
    if (!state_) return detail::no_model("model");
    if (!state_->folded.pipeline.stages) return std::vector<stage_use>();
    std::shared_ptr<const plan> p;
    GRAFT_TRY_ASSIGN(p, detail::plan_of(*state_, inputs));
    return detail::stages_of_plan(*p);
}
GRAFT_MEMORY_CATCH("model::stages")

GRAFT_INLINE result<std::vector<placement>> model::placements(const std::vector<value_info>& inputs) const GRAFT_MEMORY_TRY {
    if (!state_) return detail::no_model("model");
    std::shared_ptr<const plan> p;
    GRAFT_TRY_ASSIGN(p, detail::plan_of(*state_, inputs));
    std::vector<placement> all;
    for (const plan* part : {p->each.get(), p.get()}) {
        if (!part) continue;
        for (const step& s : part->steps) {
            const node& n = part->lowered.nodes[static_cast<std::size_t>(s.node)];
            const std::string type = n.domain.empty() ? n.op_type : n.domain + "." + n.op_type;
            const std::string reason = *s.refused.why ? part->places[s.refused.by].on->name() + ": " + s.refused.why : s.kernel->refusal;
            all.push_back({n.name, type, part->places[s.place].on->name(), s.kernel->note, reason});
        }
    }
    for (int i : p->late) {
        const node& n = p->lowered.nodes[static_cast<std::size_t>(i)];
        const graft::graph* called = n.domain == "graft" ? n.find("body")->graph.get() : nullptr;
        if (!called)
            all.push_back({n.name, n.op_type, "cpu", "reference", detail::late_reason(n)});
        else
            for (const node& inner : called->nodes)
                all.push_back({inner.name, inner.op_type, device(), "", "planned when a run knows the shapes of its inputs"});
    }
    return all;
}
GRAFT_MEMORY_CATCH("model::placements")

namespace detail {
// What the CPU says to numbers that it was asked for, where it computes in float32.
inline status host_precision(const std::string& precision) {
    if (precision == "auto" || precision == "float32") return {};
    if (precision == "bfloat16")
        return fail(errc::device_unavailable, "precision",
                    "in bfloat16 computes a device that was opened for it (runtime::open), and no reference kernel: hand over one, or leave the precision out");
    for (const char* known : {"tf32", "float16"})
        if (precision == known)
            return fail(errc::device_unavailable, "precision",
                        precision +
                            " is a precision of GPUs, and this runs on the CPU, which computes in float32: leave it out, or take a GPU (--device cuda)");
    return fail(errc::usage, "precision", "'" + precision + "' is none of auto, float32, tf32, float16, bfloat16");
}
// The host's device where it computes otherwise than it would by itself; else null, for the host. `unusable`: why another device was not taken, where
// one might have been.
inline GRAFT_COLD result<std::shared_ptr<device>> open_host(const backend& host, const device_options& options, const status& unusable) {
    const auto open = [&]() -> result<std::shared_ptr<device>> {
        if (options.precision == "bfloat16") return host.open(host.name, options, nullptr);
        GRAFT_TRY(host_precision(options.precision));
        return std::shared_ptr<device>();
    };
    auto opened = open();
    if (opened.ok() || unusable.ok() || opened.error().code() != errc::device_unavailable) return opened;
    const error& why = opened.error();
    return fail(why.code(), why.where(), why.detail() + ". No GPU was taken: " + unusable.error().detail());
}
}  // namespace detail

GRAFT_INLINE GRAFT_COLD result<std::shared_ptr<device>> open_device(const std::string& wanted, const device_options& options, void (*warn)(const char*),
                                                                    const backend* const* backends, int count) GRAFT_MEMORY_TRY {
    static std::atomic_flag warned = ATOMIC_FLAG_INIT;
    const bool any = wanted == "auto";
    const std::string kind = wanted.substr(0, wanted.find(':'));
    std::string names;
    status unusable;
    bool expected = false;  // of what is unusable
    for (int i = 0; i < count; ++i) {
        names += std::string(i ? ", " : "") + backends[i]->name;
        if (!any && (backends[i]->host ? wanted : kind) != backends[i]->name) continue;
        if (backends[i]->host) {
            GRAFT_TRY(backends[i]->available());
            auto opened = detail::open_host(*backends[i], options, unusable);
            if (opened.ok() && !unusable.ok() && warn && expected && !warned.test_and_set())
                warn((std::string("running on the CPU: ") + unusable.error().what()).c_str());
            return opened;
        }
        auto opened = backends[i]->open(any ? backends[i]->name : wanted, options, warn);
        if (opened.ok() || !any) return opened;
        unusable = opened.take_status();
        expected = !backends[i]->expected || backends[i]->expected();
    }
    if (!unusable.ok()) return unusable;
    return fail(errc::device_unavailable, wanted, "this program has no such back end; it has: " + names);
}
GRAFT_MEMORY_CATCH("open_device")

GRAFT_INLINE GRAFT_COLD result<model> load_graph(graph g, const load_options& options, const backend* const* backends, int count,
                                                 bool typed_outputs) GRAFT_MEMORY_TRY {
    if (options.reference) GRAFT_TRY(detail::host_precision(options.on_device.precision));
    std::shared_ptr<device> on = options.reference ? nullptr : options.opened;
    if (options.stages.empty() && (options.parts != 1 || options.stage_bytes != 0))
        return fail(errc::usage, "stages", "`parts` and `stage_bytes` belong to a network in stages, and none are given");
    if (!options.stages.empty()) GRAFT_TRY(options.stages.linked()->check(options));
    if (!on && !options.reference && options.stages.empty())
        GRAFT_TRY_ASSIGN(on, open_device(options.device, options.on_device, options.warn, backends, count));
    std::vector<op_table> tables;
    if (options.operators.size) tables.push_back(options.operators);
    const ops::table_list own = ops::all_op_tables();
    tables.insert(tables.end(), own.begin(), own.end());
    GRAFT_TRY(write_out_microsoft_operators(g, options.operators, options.limits));
    GRAFT_TRY(verify_graph(g, {tables.data(), static_cast<int>(tables.size())}, options.limits));

    if (options.open_batch) GRAFT_TRY_ASSIGN(g, detail::opened_where_possible(std::move(g), options.limits));

    auto state = std::make_shared<detail::model_state>();
    for (value_id id : g.inputs) state->inputs.push_back(detail::describe(g, id));
    for (value_id id : g.outputs) state->outputs.push_back(detail::describe(g, id));
    state->source = std::move(g);
    state->budget = std::make_shared<memory_budget>(options.limits.memory_bytes);
    if (!state->charge.take(state->budget, detail::allocated_bytes(state->source)))
        return fail(errc::memory_budget, state->source.name,
                    "the tensors of the model take more than the limit of " + std::to_string(options.limits.memory_bytes) + " bytes");
    bool has_defaults = false;
    for (const value_info& i : state->inputs) has_defaults |= i.has_default;
    std::shared_ptr<device> host;
    if (on && on->in_host_memory()) host = std::move(on);
    for (int i = 0; i < count && !host; ++i)
        if (backends[i]->host) GRAFT_TRY_ASSIGN(host, backends[i]->open(backends[i]->name, {}, nullptr));
    state->folded.how = execution_of(options, std::move(host), on, options.packed);
    state->folded.how.budget = state->budget;
    state->folded.how.by_sample = options.stages.empty() && !options.operators.size;
    for (const value_info& o : state->outputs)
        if (typed_outputs) state->folded.declared.push_back(o.type);
    if (!options.stages.empty()) GRAFT_TRY(options.stages.linked()->open(options, backends, count, *state));
    state->replaced.how = state->folded.how;
    state->replaced.pipeline = state->folded.pipeline;
    state->replaced.staged = state->folded.staged;
    state->replaced.declared = state->folded.declared;
    pool_executor pool(options.threads);
    graft::graph runnable = state->source;
    if (options.operators.size) detail::set_apart(runnable, options.operators);
    if (has_defaults) state->replaced.graph = runnable;
    GRAFT_TRY_ASSIGN(state->folded.graph, specialize(std::move(runnable), nullptr, {options.limits, pool, nullptr, options.seed, state->budget}));
    if (!typed_outputs) detail::tell_output_types(*state);
    // Where every input shape is known, what is wrong with the graph can be told now rather than at the first run.
    bool known = true;
    for (const value_info& i : state->inputs) known &= i.has_default || (i.has_shape && i.extents.known());
    model m;
    m.state_ = state;
    if (known) {
        auto planned = detail::plan_of(*state, {}, pool);
        if (!planned.ok()) return planned.take_status();
    }
    return m;
}
GRAFT_MEMORY_CATCH("load_graph")

GRAFT_INLINE result<model> load_file(const std::string& path, const load_options& options, const backend* const* backends, int count) GRAFT_MEMORY_TRY {
    graft::graph g;
    GRAFT_TRY_ASSIGN(g, read_onnx_file(path, options.limits));
    return load_graph(std::move(g), options, backends, count, true);
}
GRAFT_MEMORY_CATCH(path)
GRAFT_INLINE result<model> load_memory(const void* bytes, std::size_t size, const load_options& options, const backend* const* backends,
                                       int count) GRAFT_MEMORY_TRY {
    graft::graph g;
    GRAFT_TRY_ASSIGN(g, read_onnx(bytes, size, "model in memory", "", options.limits, nullptr));
    return load_graph(std::move(g), options, backends, count, true);
}
GRAFT_MEMORY_CATCH("model in memory")

struct session::state {
    std::shared_ptr<const detail::model_state> model;
    std::unique_ptr<pool_executor> own_pool;
    executor* pool = nullptr;
    std::unique_ptr<detail::context> folded, replaced;
    detail::context* last = nullptr;
    std::vector<tensor> inputs;
    std::vector<tensor_view> views;
    int traced_as = -1;  // its number in the trace; below 0 until it was recorded
    std::shared_ptr<const trace_task> whole_run;
};

GRAFT_INLINE session::session(const model& m, const session_options& options) {
    if (!m.state_) return;
    made_ = detail::or_out_of_memory<status>("session", [&]() -> status {
        std::unique_ptr<state> made(new state);
        made->model = m.state_;
        if (!options.pool) made->own_pool = std::make_unique<pool_executor>(options.threads);
        made->pool = options.pool ? options.pool : made->own_pool.get();
        const auto budget = std::make_shared<memory_budget>(m.state_->budget->limit(), m.state_->budget);
        made->folded = std::make_unique<detail::context>(m.state_->folded, *made->pool, std::vector<device_state*>(), budget);
        made->replaced = std::make_unique<detail::context>(m.state_->replaced, *made->pool, std::vector<device_state*>(), budget);
        made->inputs.resize(m.state_->inputs.size());
        made->views.resize(m.state_->inputs.size());
        state_ = std::move(made);
        return {};
    });
}
GRAFT_INLINE status session::unusable() const { return made_.ok() ? detail::no_model("session") : status(made_.error()); }
GRAFT_INLINE session::~session() = default;
GRAFT_INLINE session::session(session&&) noexcept = default;
GRAFT_INLINE session& session::operator=(session&&) noexcept = default;

GRAFT_INLINE GRAFT_COLD status session::set_input(std::size_t i, const tensor& value) GRAFT_MEMORY_TRY {
    if (!state_) return unusable();
    if (i >= state_->inputs.size())
        return fail(errc::input_name, "input " + std::to_string(i), "the model has " + std::to_string(state_->inputs.size()) + " inputs");
    const value_info& info = state_->model->inputs[i];
    if (value && info.type != dtype::undefined && value.type() != info.type)
        return fail(errc::input_dtype, info.name, std::string("it is ") + name(value.type()) + ", the model asks for " + name(info.type));
    if (value && info.has_shape) {
        bool fits = value.shape().rank() == info.extents.rank();
        for (int d = 0; fits && d < info.extents.rank(); ++d) fits = info.extents[d] < 0 || info.extents[d] == value.shape()[d];
        if (!fits) return fail(errc::input_shape, info.name, "its shape is " + text(value.shape()) + ", the model asks for " + text(info.extents));
    }
    state_->inputs[i] = value;
    return {};
}
GRAFT_MEMORY_CATCH("session::set_input")

GRAFT_INLINE status session::run() { return run_inputs(0, nullptr); }
// `next`: where input `coming` of the next run lies; null where that is not known.
GRAFT_INLINE status session::run_inputs(std::size_t coming, const void* next) GRAFT_MEMORY_TRY {
    if (!state_) return unusable();
    bool replaces = false;
    for (std::size_t i = 0; i < state_->inputs.size(); ++i) {
        const value_info& info = state_->model->inputs[i];
        if (!state_->inputs[i] && !info.has_default) return fail(errc::input_name, info.name, "this input has no default and was not given");
        replaces |= state_->inputs[i] && info.has_default;
        state_->views[i] = state_->inputs[i] ? view(state_->inputs[i]) : tensor_view{};
    }
    state_->last = replaces ? state_->replaced.get() : state_->folded.get();
    trace_recorder* const trace = state_->model->folded.how.trace.get();
    if (trace && trace->recording()) return run_recorded(*trace, coming, next);
    return state_->last->run(state_->views.data(), next, static_cast<std::int64_t>(coming));
}
GRAFT_MEMORY_CATCH("session::run")
GRAFT_INLINE GRAFT_COLD status session::run_recorded(trace_recorder& trace, std::size_t coming, const void* next) {
    if (state_->traced_as < 0) state_->traced_as = trace.new_member();
    if (!state_->whole_run) {
        trace_task whole;
        whole.op = trace_recorder::whole_run, whole.node = detail::name_in_trace(state_->model->source.name);
        whole.device = "caller", whole.threads = state_->pool->threads();
        state_->whole_run = std::make_shared<const trace_task>(std::move(whole));
    }
    state_->last->trace_as(state_->traced_as);
    trace_span span;
    span.member = state_->traced_as;
    span.task = state_->whole_run;
    span.begin = detail::seconds_now();
    GRAFT_TRY(state_->last->run(state_->views.data(), next, static_cast<std::int64_t>(coming)));
    span.end = detail::seconds_now();
    trace.add(span);
    return {};
}
GRAFT_INLINE const tensor& session::output(std::size_t i) const {
    static const tensor none;
    return state_ && state_->last ? state_->last->output(i) : none;
}

GRAFT_INLINE std::vector<stage_use> session::stages() const {
    const std::shared_ptr<const plan> p = state_ && state_->last && state_->model->folded.pipeline.stages ? state_->last->current() : nullptr;
    if (!p) return {};
    std::vector<stage_use> all = detail::stages_of_plan(*p);
    for (std::size_t s = 0; s < all.size(); ++s) all[s].busy_seconds = state_->last->busy_seconds(static_cast<place_id>(s + 1));
    return all;
}

GRAFT_INLINE GRAFT_COLD result<std::vector<named_tensor>> session::run(const std::vector<named_tensor>& inputs) GRAFT_MEMORY_TRY {
    if (!state_) return unusable();
    for (tensor& t : state_->inputs) t = tensor();
    for (const named_tensor& given : inputs) {
        std::size_t i = 0;
        while (i < state_->inputs.size() && state_->model->inputs[i].name != given.name) ++i;
        if (i == state_->inputs.size()) return fail(errc::input_name, given.name, "the model has no input of this name");
        GRAFT_TRY(set_input(i, given.value));
    }
    GRAFT_TRY(run());
    std::vector<named_tensor> outputs;
    for (std::size_t i = 0; i < state_->model->outputs.size(); ++i) outputs.push_back({state_->model->outputs[i].name, output(i)});
    return outputs;
}
GRAFT_MEMORY_CATCH("session::run")

GRAFT_INLINE result<tensor> session::run(const tensor& input, const tensor* next) GRAFT_MEMORY_TRY {
    if (!state_) return unusable();
    std::size_t only = state_->inputs.size();
    for (std::size_t i = 0; i < state_->inputs.size(); ++i) {
        state_->inputs[i] = tensor();
        if (state_->model->inputs[i].has_default) continue;
        if (only != state_->inputs.size()) return fail(errc::input_name, state_->model->inputs[i].name, "the model has more than one input: name them");
        only = i;
    }
    if (only == state_->inputs.size()) return fail(errc::input_name, "model", "it has no input without a default");
    GRAFT_TRY(set_input(only, input));
    const bool alike = next && next->shape() == input.shape() && next->type() == input.type();
    GRAFT_TRY(run_inputs(only, alike ? next->raw() : nullptr));
    return output(0);
}
GRAFT_MEMORY_CATCH("session::run")

GRAFT_INLINE void session::trim() {
    if (!state_) return;
    state_->folded->trim();
    state_->replaced->trim();
    state_->last = nullptr;
}

GRAFT_END_NAMESPACE
