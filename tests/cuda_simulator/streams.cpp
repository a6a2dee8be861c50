// The CUDA simulator's streams: queues that run when something waits for them, the order between them, and captures.
#include "state.hpp"

namespace graft_simulator {
namespace {

constexpr std::size_t longest_queue = 1024;  // a driver's queue is full at about this length, and the oldest work is certainly done

context*& running_context() {
    static context* c = nullptr;
    return c;
}

void push(stream& s, operation op) {
    op.sequence = ++s.issued;
    learn(s.clock, s.number, s.issued);
    s.queue.push_back(std::move(op));
    the_world().busy.insert(s.number);
}

void push_wait(stream& s, std::size_t number, std::uint64_t sequence, const vector_clock& clock) {
    const stream* other = the_world().streams[number].get();
    if (other && other->done < sequence) {
        operation op;
        op.what = "a wait";
        op.waits = true;
        op.for_stream = number;
        op.for_sequence = sequence;
        push(s, std::move(op));
    }
    join(s.clock, clock);
    learn(s.clock, number, sequence);
}

// The legacy default stream and blocking streams wait for each other.
void order_with_legacy(stream& s) {
    if (!s.blocking) return;
    for (const auto& other : the_world().streams) {
        if (!other || other.get() == &s || other->owner != s.owner || !other->blocking || !(s.legacy || other->legacy)) continue;
        if (other->issued > known(s.clock, other->number)) push_wait(s, other->number, other->issued, other->clock);
    }
}

// Whether the ranges are live; reported where not.
bool ranges_are_live(const operation& op) {
    bool live = true;
    for (const range& r : op.reads) live = check_range(r, op.what.c_str(), true) == 0 && live;
    for (const range& r : op.writes) live = check_range(r, op.what.c_str(), true) == 0 && live;
    return live;
}

void make_it_fail(operation& op) {
    const std::string what = op.what;
    op.reads.clear();
    op.writes.clear();
    op.work = [what] { fail_work(result::illegal_address, what + " was given addresses outside of live memory"); };
}

int put_in_capture(stream& s, operation op, bool kernel) {
    capture& c = *s.capturing;
    if (c.invalid) return result::capture_invalidated;
    if (!ranges_are_live(op)) {
        if (!kernel) return result::invalid_value;
        make_it_fail(op);
    }
    c.clocks[s.number][s.number] = ++c.issued[s.number];
    c.nodes.push_back(std::make_shared<operation>(std::move(op)));
    return result::success;
}

// Using the legacy stream while a blocking stream is captured would be a dependency on uncaptured work.
bool breaks_a_capture(const stream& s) {
    bool broken = false;
    if (!s.legacy) return false;
    for (const auto& other : the_world().streams) {
        if (!other || other->owner != s.owner || !other->blocking || !other->capturing) continue;
        other->capturing->invalid = true;
        broken = true;
    }
    return broken;
}

}  // namespace

// Clocks have an entry for each number, so that numbers of streams that are gone serve again; what was issued goes on from theirs.
stream* new_stream(context* owner, bool blocking, bool legacy) {
    world& w = the_world();
    stream* made = nullptr;
    for (const auto& s : w.streams)
        if (!made && s->destroyed && s->done == s->issued && s->queue.empty()) made = s.get();
    if (!made) {
        w.streams.push_back(std::make_unique<stream>());
        made = w.streams.back().get();
        made->number = w.streams.size() - 1;
    }
    made->owner = owner;
    made->blocking = blocking;
    made->legacy = legacy;
    made->destroyed = false;
    made->clock.clear();
    learn(made->clock, made->number, made->issued);
    made->handle = new_handle();
    w.stream_handles[made->handle] = made;
    return made;
}

stream* find_stream(void* handle, int& why) {
    context* c = current(why);
    if (!c) return nullptr;
    if (!handle || handle == reinterpret_cast<void*>(1)) return c->legacy;
    const auto at = the_world().stream_handles.find(handle);
    if (at == the_world().stream_handles.end()) {
        problem("invalid_handle", "a stream that does not live was used");
        why = result::invalid_handle;
        return nullptr;
    }
    if (at->second->owner->stopped) {
        why = at->second->owner->stopped;
        return nullptr;
    }
    return at->second;
}

int put(stream& s, operation op, bool kernel) {
    if (s.owner->stopped) return s.owner->stopped;
    if (s.capturing) return put_in_capture(s, std::move(op), kernel);
    if (breaks_a_capture(s)) return result::capture_implicit;
    if (!ranges_are_live(op)) {
        if (!kernel) return result::invalid_value;
        make_it_fail(op);
    }
    order_with_legacy(s);
    join(s.clock, the_world().host);
    op.sequence = s.issued + 1;
    for (const range& r : op.reads) touch_range(r, false, s, op);
    for (const range& r : op.writes) touch_range(r, true, s, op);
    push(s, std::move(op));
    if (s.queue.size() > longest_queue) run_until(s, s.queue.front().sequence);
    return result::success;
}

void stop_context(context& c, int code, const std::string& why) {
    if (c.stopped) return;
    problem("kernel_fault", why);
    c.stopped = code;
}

void run_operation(context* c, operation& op) {
    if (c->stopped) return;
    if (!ranges_are_live(op)) {
        stop_context(*c, result::illegal_address, op.what + " ran with memory that does not live any more");
        return;
    }
    for (const range& r : op.reads) open_memory(r);
    for (const range& r : op.writes) open_memory(r);
    context* before = running_context();
    running_context() = c;
    op.work();
    running_context() = before;
}

void fail_work(int code, const std::string& why) {
    if (running_context()) stop_context(*running_context(), code, why);
}

void run_until(stream& s, std::uint64_t sequence) {
    if (s.queue.empty() || s.queue.front().sequence > sequence) return;
    const memory_open open;
    const several_launches many;
    while (!s.queue.empty() && s.queue.front().sequence <= sequence) {
        operation op = std::move(s.queue.front());
        s.queue.pop_front();
        if (op.waits) {
            run_number_until(op.for_stream, op.for_sequence);
        } else {
            run_operation(s.owner, op);
        }
        s.done = op.sequence;
    }
    if (s.queue.empty()) the_world().busy.erase(s.number);
}

void run_number_until(std::size_t number, std::uint64_t sequence) {
    if (stream* s = the_world().streams[number].get()) run_until(*s, sequence);
}

void drain(stream& s) { run_until(s, s.issued); }

// What the driver does before memory is freed. The streams that were made last come first: an order that a GPU could take.
void run_everything() {
    world& w = the_world();
    while (!w.busy.empty()) {
        stream& s = *w.streams[*w.busy.rbegin()];
        drain(s);
    }
    for (const auto& s : w.streams) {
        if (s) join(w.host, s->clock);
    }
}

void host_waited_for(const stream& s) {
    join(the_world().host, s.clock);
    learn(the_world().host, s.number, s.issued);
}

int unsafe_call() {
    bool forbidden = false;
    for (const auto& c : the_world().captures) {
        if (c->mode == driver::flag::capture_relaxed) continue;
        if (c->mode == driver::flag::capture_thread_local && c->thread != std::this_thread::get_id()) continue;
        c->invalid = true;
        forbidden = true;
    }
    return forbidden ? result::capture_unsupported : 0;
}

bool queued_touches(std::uint64_t address, std::size_t bytes) {
    const auto meets = [&](const std::vector<range>& ranges) {
        for (const range& r : ranges) {
            if (r.address < address + bytes && address < r.address + r.bytes) return true;
        }
        return false;
    };
    for (const std::size_t number : the_world().busy) {
        for (const operation& op : the_world().streams[number]->queue) {
            if (meets(op.reads) || meets(op.writes)) return true;
        }
    }
    return false;
}

// ---- for the other libraries ----

int enqueue(const char* what, void* handle, std::function<void()> work, std::vector<range> reads, std::vector<range> writes) {
    const guard lock(the_world().lock);
    int why = 0;
    stream* s = find_stream(handle, why);
    if (!s) return why;
    operation op;
    op.what = what;
    op.work = std::move(work);
    op.reads = std::move(reads);
    op.writes = std::move(writes);
    return put(*s, std::move(op), false);
}

int check_stream(void* handle) {
    const guard lock(the_world().lock);
    int why = 0;
    const stream* s = find_stream(handle, why);
    if (!s) return why;
    int unused = 0;
    if (s->owner == current(unused)) return result::success;
    problem("wrong_context", "a stream of another context was used");
    return result::invalid_handle;
}

bool is_capturing(void* handle) {
    const guard lock(the_world().lock);
    const auto at = the_world().stream_handles.find(handle);
    return at != the_world().stream_handles.end() && at->second->capturing;
}

int synchronise_context() {
    const guard lock(the_world().lock);
    int why = 0;
    context* c = current(why);
    if (!c) return why;
    if (const int error = unsafe_call()) return error;
    for (std::size_t i = the_world().streams.size(); i-- > 0;) {
        stream* s = the_world().streams[i].get();
        if (!s || s->owner != c) continue;
        if (s->capturing) {
            s->capturing->invalid = true;
            return result::capture_unsupported;
        }
        drain(*s);
        host_waited_for(*s);
    }
    return c->stopped;
}

int current_device() {
    const guard lock(the_world().lock);
    int why = 0;
    const context* c = current(why);
    return c ? c->device : -1;
}

}  // namespace graft_simulator
