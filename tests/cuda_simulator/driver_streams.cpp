// The simulated libcuda.so.1: streams, events, captures and graphs.
#include "exports.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace graft_simulator {
namespace {

double now_in_milliseconds() { return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// An event that may be used; null with the reason.
event* find_event(void* handle, int& why) {
    if (!the_world().initialized) {
        why = result::not_initialized;
        return nullptr;
    }
    event* e = the_world().events.find(handle);
    if (e) {
        why = e->owner->stopped;
        return e;
    }
    problem("invalid_handle", "an event that does not live was used");
    why = result::invalid_handle;
    return nullptr;
}

bool happened(const event& e) { return !e.recorded || *e.milliseconds >= 0; }

bool is_captured(const event& e) { return e.in_capture && !e.in_capture->ended; }

int record(event& e, stream& s) {
    if (s.capturing) {
        if (s.capturing->invalid) return result::capture_invalidated;
        e.recorded = false;
        e.in_capture = s.capturing;
        e.capture_clock = s.capturing->clocks[s.number];
        return result::success;
    }
    auto time = std::make_shared<double>(-1.0);
    operation op;
    op.what = "cuEventRecord";
    op.work = [time] { *time = now_in_milliseconds(); };
    if (const int error = put(s, std::move(op), false)) return error;
    e.recorded = true;
    e.in_capture = nullptr;
    e.stream_number = s.number;
    e.sequence = s.issued;
    e.clock = s.clock;
    e.milliseconds = time;
    return result::success;
}

int wait_in_capture(stream& s, event& e) {
    const std::shared_ptr<capture> from = e.in_capture;
    if (s.capturing && s.capturing != from) {
        s.capturing->invalid = from->invalid = true;
        return 902;  // two captures cannot become one
    }
    if (from->invalid) return result::capture_invalidated;
    s.capturing = from;
    auto& clock = from->clocks[s.number];
    for (const auto& n : e.capture_clock) clock[n.first] = std::max(clock[n.first], n.second);
    return result::success;
}

int wait(stream& s, event& e) {
    if (is_captured(e)) return wait_in_capture(s, e);
    if (s.capturing) {
        if (!e.recorded) return result::success;
        s.capturing->invalid = true;
        return result::capture_isolation;
    }
    if (!e.recorded) return result::success;
    if (!happened(e)) {
        operation op;
        op.what = "cuStreamWaitEvent";
        op.waits = true;
        op.for_stream = e.stream_number;
        op.for_sequence = e.sequence;
        op.sequence = ++s.issued;
        learn(s.clock, s.number, s.issued);
        s.queue.push_back(std::move(op));
        the_world().busy.insert(s.number);
        the_world().lock.changed();
    }
    join(s.clock, e.clock);
    return result::success;
}

// One step of what is in the way, so that a loop of queries ends.
void one_step(std::size_t number) {
    stream* s = the_world().streams[number].get();
    if (s && !s->queue.empty()) run_until(*s, s->queue.front().sequence);
}

void leave_capture(const std::shared_ptr<capture>& c) {
    c->ended = true;
    for (const auto& s : the_world().streams) {
        if (s && s->capturing == c) s->capturing = nullptr;
    }
    the_world().captures.erase(c);
}

// Whether the origin's last node comes after all nodes of all streams.
bool all_joined(capture& c) {
    for (const auto& n : c.issued) {
        if (c.clocks[c.origin][n.first] < n.second) return false;
    }
    return true;
}

int end_capture(stream& s, void** graph_handle) {
    *graph_handle = nullptr;
    const std::shared_ptr<capture> c = s.capturing;
    if (!c) return 401;  // the stream is not being captured
    if (c->origin != s.number) {
        c->invalid = true;
        return result::capture_unmatched;
    }
    if (c->mode != driver::flag::capture_relaxed && c->thread != std::this_thread::get_id()) return result::capture_wrong_thread;
    const bool joined = all_joined(*c);
    leave_capture(c);
    if (c->invalid) return result::capture_invalidated;
    if (!joined) return result::capture_unjoined;
    auto made = std::make_unique<graph>();
    made->nodes = c->nodes;
    *graph_handle = the_world().graphs.add(std::move(made));
    return result::success;
}

bool overlaps(const std::vector<range>& ranges, const range& r) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](const range& one) { return one.address < r.address + r.bytes && r.address < one.address + one.bytes; });
}

// What the host may not touch while the graph waits: sources of copies that nothing before them changes, and targets that nothing reads.
struct host_memory {
    std::vector<std::pair<range, std::uint64_t>> sources;
    std::vector<range> targets;
};
host_memory host_memory_of(const operation& all, const std::vector<std::shared_ptr<operation>>& nodes) {
    host_memory memory;
    for (const auto& node : nodes) {
        const range &from = node->from_host, &to = node->to_host;
        if (from.bytes && is_live(from, true) && !queued_touches(from.address, from.bytes) && !overlaps(all.writes, from))
            memory.sources.emplace_back(from, sum_of(from));
        if (to.bytes && is_live(to, true) && !queued_touches(to.address, to.bytes) && !overlaps(all.reads, to)) memory.targets.push_back(to);
    }
    return memory;
}

int launch_graph(graph_exec& g, stream& s) {
    operation op;
    op.what = "cuGraphLaunch";
    const auto nodes = g.nodes;
    context* owner = s.owner;
    for (const auto& node : nodes) {
        op.reads.insert(op.reads.end(), node->reads.begin(), node->reads.end());
        op.writes.insert(op.writes.end(), node->writes.begin(), node->writes.end());
    }
    const bool captured = s.capturing != nullptr;
    const host_memory host = captured ? host_memory() : host_memory_of(op, nodes);
    op.work = [nodes, owner, sources = host.sources] {
        ++the_world().graph_launches;
        for (const auto& source : sources) {
            if (sum_of(source.first) != source.second) problem("host_race", "the host wrote to pinned memory that a queued graph copies from");
        }
        for (const auto& node : nodes) run_operation(owner, *node);
    };
    if (const int error = put(s, std::move(op), true)) return error;
    for (const range& target : host.targets) {  // who reads before waiting shall see that it was too early
        if (!s.queue.empty()) std::memset(reinterpret_cast<void*>(target.address), 0xdb, target.bytes);
    }
    return result::success;
}

template <class T>
T* find_in(const handle_table<T>& table, void* handle, const char* what, int& why) {
    const context* c = current(why);
    if (!c || why) return nullptr;
    T* object = table.find(handle);
    if (!object) {
        problem("invalid_handle", std::string(what) + " that does not live was used");
        why = result::invalid_handle;
    }
    return object;
}

}  // namespace
}  // namespace graft_simulator

using namespace graft_simulator;

extern "C" {

int cuStreamCreate(void** handle, unsigned flags) {
    call c("cuStreamCreate");
    if (c.forced) return c.forced;
    int why = 0;
    context* here = current(why);
    if (!here || why) return c.end(why, flags);
    if (!handle || flags > 1) return c.end(result::invalid_value, flags);
    *handle = new_stream(here, flags == driver::flag::stream_default, false)->handle;
    return c.end(result::success, *handle, flags);
}

int cuStreamDestroy_v2(void* handle) {
    call c("cuStreamDestroy_v2");
    int why = 0;
    graft_simulator::stream* s = find_stream(handle, why);
    const auto at = the_world().stream_handles.find(handle);
    if (at == the_world().stream_handles.end() || at->second->legacy) return c.end(why ? why : static_cast<int>(result::invalid_handle), handle);
    s = at->second;
    if (s->capturing) {
        s->capturing->invalid = true;
        s->capturing = nullptr;
    }
    s->destroyed = true;  // its work goes on to wait for somebody who needs it
    the_world().stream_handles.erase(at);
    return c.end(c.forced ? c.forced : why, handle);
}

int cuStreamSynchronize(void* handle) {
    call c("cuStreamSynchronize");
    if (c.forced) return c.forced;
    int why = 0;
    graft_simulator::stream* s = find_stream(handle, why);
    if (!s || why) return c.end(why, handle);
    if (s->capturing) {
        s->capturing->invalid = true;
        return c.end(result::capture_unsupported, handle);
    }
    if (s->legacy) {  // and all that it waits for
        operation nothing;
        nothing.what = "cuStreamSynchronize";
        nothing.work = [] {};
        if (const int error = put(*s, std::move(nothing), false)) return c.end(error, handle);
    }
    const context& owner = *s->owner;
    wait_for(*s);
    return c.end(owner.stopped, handle);
}

int cuStreamQuery(void* handle) {
    call c("cuStreamQuery");
    if (c.forced) return c.forced;
    int why = 0;
    graft_simulator::stream* s = find_stream(handle, why);
    if (!s || why) return c.end(why, handle);
    if (s->capturing) {
        s->capturing->invalid = true;
        return c.end(result::capture_unsupported, handle);
    }
    if (s->queue.empty()) {
        host_waited_for(*s);
        return c.end(s->owner->stopped, handle);
    }
    one_step(s->number);
    return c.end(result::not_ready, handle);
}

int cuStreamWaitEvent(void* handle, void* event_handle, unsigned flags) {
    call c("cuStreamWaitEvent");
    if (c.forced) return c.forced;
    int why = 0;
    graft_simulator::stream* s = find_stream(handle, why);
    event* e = s && !why ? find_event(event_handle, why) : nullptr;
    if (!e || why) return c.end(why, handle, event_handle, flags);
    return c.end(wait(*s, *e), handle, event_handle, flags);
}

int cuStreamBeginCapture_v2(void* handle, int mode) {
    call c("cuStreamBeginCapture_v2");
    if (c.forced) return c.forced;
    int why = 0;
    graft_simulator::stream* s = find_stream(handle, why);
    if (!s || why) return c.end(why, handle, mode);
    if (mode < 0 || mode > 2) return c.end(result::invalid_value, handle, mode);
    if (s->legacy) return c.end(result::capture_unsupported, handle, mode);
    if (s->capturing) return c.end(401, handle, mode);
    auto made = std::make_shared<capture>();
    made->origin = s->number;
    made->mode = mode;
    made->thread = std::this_thread::get_id();
    s->capturing = made;
    the_world().captures.insert(made);
    return c.end(result::success, handle, mode);
}

int cuStreamEndCapture(void* handle, void** graph_handle) {
    call c("cuStreamEndCapture");
    int why = 0;
    graft_simulator::stream* s = find_stream(handle, why);
    if (!s || !graph_handle) return c.end(s ? static_cast<int>(result::invalid_value) : why, handle);
    if (c.forced) {  // the capture is over all the same
        void* made = nullptr;
        end_capture(*s, &made);
        if (made) the_world().graphs.remove(made);
        *graph_handle = nullptr;
        return c.forced;
    }
    const int code = end_capture(*s, graph_handle);
    return c.end(why ? why : code, handle, *graph_handle);
}

int cuEventCreate(void** handle, unsigned flags) {
    call c("cuEventCreate");
    if (c.forced) return c.forced;
    int why = 0;
    context* here = current(why);
    if (!here || why) return c.end(why, flags);
    if (!handle || flags > 7) return c.end(result::invalid_value, flags);
    auto made = std::make_unique<event>();
    made->timing = !(flags & driver::flag::event_disable_timing);
    made->owner = here;
    made->milliseconds = std::make_shared<double>(-1.0);
    *handle = the_world().events.add(std::move(made));
    return c.end(result::success, *handle, flags);
}

int cuEventDestroy_v2(void* handle) {
    call c("cuEventDestroy_v2");
    int why = 0;
    if (!find_event(handle, why)) return c.end(why, handle);
    the_world().events.remove(handle);
    return c.end(c.forced ? c.forced : why, handle);
}

int cuEventRecord(void* handle, void* stream_handle) {
    call c("cuEventRecord");
    if (c.forced) return c.forced;
    int why = 0;
    graft_simulator::stream* s = find_stream(stream_handle, why);
    event* e = s && !why ? find_event(handle, why) : nullptr;
    if (!e || why) return c.end(why, handle, stream_handle);
    if (e->owner != s->owner) {
        problem("wrong_context", "an event was recorded on a stream of another context");
        return c.end(result::invalid_handle, handle, stream_handle);
    }
    return c.end(record(*e, *s), handle, stream_handle);
}

int cuEventQuery(void* handle) {
    call c("cuEventQuery");
    if (c.forced) return c.forced;
    int why = 0;
    event* e = find_event(handle, why);
    if (!e || why) return c.end(why, handle);
    if (is_captured(*e)) return c.end(result::captured_event, handle);
    if (const int error = unsafe_call()) return c.end(error, handle);
    if (happened(*e)) {
        if (e->recorded) join(the_world().host, e->clock);
        return c.end(e->owner->stopped, handle);
    }
    one_step(e->stream_number);
    return c.end(e->owner->stopped ? e->owner->stopped : static_cast<int>(result::not_ready), handle);
}

int cuEventSynchronize(void* handle) {
    call c("cuEventSynchronize");
    if (c.forced) return c.forced;
    int why = 0;
    event* e = find_event(handle, why);
    if (!e || why) return c.end(why, handle);
    if (is_captured(*e)) return c.end(result::captured_event, handle);
    const context& owner = *e->owner;
    if (e->recorded) {
        const vector_clock clock = e->clock;  // others may destroy the event, or record it again, meanwhile
        wait_until(e->stream_number, e->sequence);
        join(the_world().host, clock);
    }
    return c.end(owner.stopped, handle);
}

int cuEventElapsedTime(float* milliseconds, void* start, void* end) {
    call c("cuEventElapsedTime");
    if (c.forced) return c.forced;
    int why = 0;
    const event* a = find_event(start, why);
    const event* b = a && !why ? find_event(end, why) : nullptr;
    if (!b || why) return c.end(why, start, end);
    if (!milliseconds) return c.end(result::invalid_value, start, end);
    if (!a->timing || !b->timing || !a->recorded || !b->recorded) return c.end(result::invalid_handle, start, end);
    if (!happened(*a) || !happened(*b)) return c.end(result::not_ready, start, end);
    *milliseconds = static_cast<float>(*b->milliseconds - *a->milliseconds);
    return c.end(result::success, start, end);
}

int cuGraphInstantiateWithFlags(void** handle, void* graph_handle, unsigned long long flags) {
    call c("cuGraphInstantiateWithFlags");
    if (c.forced) return c.forced;
    int why = 0;
    const graph* g = find_in(the_world().graphs, graph_handle, "a graph", why);
    if (!g) return c.end(why, graph_handle, flags);
    if (!handle) return c.end(result::invalid_value, graph_handle, flags);
    auto made = std::make_unique<graph_exec>();
    made->nodes = g->nodes;
    made->owner = current(why);
    *handle = the_world().graph_execs.add(std::move(made));
    return c.end(result::success, *handle, graph_handle, flags);
}

int cuGraphLaunch(void* handle, void* stream_handle) {
    call c("cuGraphLaunch");
    if (c.forced) return c.forced;
    int why = 0;
    graft_simulator::stream* s = find_stream(stream_handle, why);
    graph_exec* g = s && !why ? find_in(the_world().graph_execs, handle, "an executable graph", why) : nullptr;
    if (!g) return c.end(why, handle, stream_handle);
    if (g->owner != s->owner) {
        problem("wrong_context", "a graph was launched on a stream of another context");
        return c.end(result::invalid_handle, handle, stream_handle);
    }
    return c.end(launch_graph(*g, *s), handle, stream_handle);
}

int cuGraphExecDestroy(void* handle) {
    call c("cuGraphExecDestroy");
    int why = 0;
    if (!the_world().graph_execs.remove(handle)) {
        problem("invalid_handle", "an executable graph that does not live was destroyed");
        return c.end(result::invalid_value, handle);
    }
    current(why);
    return c.end(c.forced ? c.forced : why, handle);
}

int cuGraphDestroy(void* handle) {
    call c("cuGraphDestroy");
    int why = 0;
    if (!the_world().graphs.remove(handle)) {
        problem("invalid_handle", "a graph that does not live was destroyed");
        return c.end(result::invalid_value, handle);
    }
    current(why);
    return c.end(c.forced ? c.forced : why, handle);
}

int cuGraphGetNodes(void* handle, void** nodes, std::size_t* count) {
    call c("cuGraphGetNodes");
    if (c.forced) return c.forced;
    int why = 0;
    const graph* g = find_in(the_world().graphs, handle, "a graph", why);
    if (!g) return c.end(why, handle);
    if (!count) return c.end(result::invalid_value, handle);
    if (nodes) {
        for (std::size_t i = 0; i < *count; ++i) nodes[i] = i < g->nodes.size() ? static_cast<void*>(g->nodes[i].get()) : nullptr;
        *count = std::min(*count, g->nodes.size());
    } else {
        *count = g->nodes.size();
    }
    return c.end(result::success, handle);
}
}
