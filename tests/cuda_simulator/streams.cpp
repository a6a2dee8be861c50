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
    the_world().lock.changed();
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

namespace {

// Whether the stream's first work can run now. It stays the first while it is asked: what it waits for may be far on in other streams.
bool first_is_ready(const stream& s) {
    const operation& op = s.queue.front();
    const bool ready = op.waits ? run_number_until(op.for_stream, op.for_sequence) : !op.ready || op.ready();
    return ready || s.owner->stopped;
}

// One go at all streams: whether those of `c` (null: all) are done. Those that were made last come first: an order that a GPU could take.
bool run_what_can(const context* c) {
    const std::set<std::size_t> busy = the_world().busy;
    bool done = true;
    for (auto number = busy.rbegin(); number != busy.rend(); ++number) {
        stream& s = *the_world().streams[*number];
        if (!run_until(s, s.issued) && (!c || s.owner == c)) done = false;
    }
    return done;
}

void host_waited_for_all() {
    for (const auto& s : the_world().streams) {
        if (s && s->queue.empty()) join(the_world().host, s->clock);
    }
}

}  // namespace

bool run_until(stream& s, std::uint64_t sequence) {
    if (s.queue.empty() || s.queue.front().sequence > sequence) return true;
    if (s.runs) return false;  // asked for by what its own first work waits for
    const memory_open open;
    const several_launches many;
    s.runs = true;
    bool ready = true;
    while (ready && !s.queue.empty() && s.queue.front().sequence <= sequence) {
        ready = first_is_ready(s);
        if (!ready) break;
        operation op = std::move(s.queue.front());
        s.queue.pop_front();
        if (!op.waits) run_operation(s.owner, op);
        s.done = op.sequence;
        the_world().lock.changed();
    }
    s.runs = false;
    if (s.queue.empty()) the_world().busy.erase(s.number);
    return ready;
}

bool run_number_until(std::size_t number, std::uint64_t sequence) {
    stream* s = the_world().streams[number].get();
    return !s || run_until(*s, sequence);
}

void wait_until(std::size_t number, std::uint64_t sequence) {
    world_lock& lock = the_world().lock;
    for (;;) {
        const std::uint64_t before = lock.changes();
        if (run_number_until(number, sequence)) return;
        lock.wait(before);
    }
}

void wait_for(stream& s) {
    const vector_clock clock = s.clock;  // others may put more on it meanwhile
    const std::size_t number = s.number;
    const std::uint64_t issued = s.issued;
    wait_until(number, issued);
    join(the_world().host, clock);
    learn(the_world().host, number, issued);
}

// What the driver does before memory is freed.
void wait_for_everything(const context& c) {
    world_lock& lock = the_world().lock;
    for (;;) {
        const std::uint64_t before = lock.changes();
        const bool done = run_what_can(&c);
        if (done && lock.changes() == before) break;
        lock.wait(before);
    }
    host_waited_for_all();
}

void run_everything_of_last(context& c) {
    world& w = the_world();
    for (std::uint64_t before = w.lock.changes() + 1; before != w.lock.changes();) {
        before = w.lock.changes();
        run_what_can(nullptr);
    }
    const std::set<std::size_t> busy = w.busy;
    for (const std::size_t number : busy) {
        stream& s = *w.streams[number];
        if (s.owner != &c) continue;
        problem("unbalanced", "a context was released while " + s.queue.front().what + " waited for what never came");
        s.done = s.queue.back().sequence;
        s.queue.clear();
        w.busy.erase(number);
        w.lock.changed();
    }
    host_waited_for_all();
}

void world_lock::wait(std::uint64_t seen) {
    const int held = held_;
    held_ = 0;
    for (int i = 1; i < held; ++i) mutex_.unlock();
    ++waiting_;
    while (changes_ == seen) changed_.wait(mutex_);
    --waiting_;
    for (int i = 1; i < held; ++i) mutex_.lock();
    held_ = held;
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

int enqueue_when(const char* what, void* handle, std::function<bool()> ready, std::function<void()> work, std::vector<range> reads, std::vector<range> writes,
                 place& at) {
    const guard lock(the_world().lock);
    int why = 0;
    const auto found = the_world().stream_handles.find(handle);
    stream* s = found == the_world().stream_handles.end() ? find_stream(handle, why) : found->second;
    if (!s) return why;
    operation op;
    op.what = what;
    op.ready = std::move(ready);
    op.work = std::move(work);
    op.reads = std::move(reads);
    op.writes = std::move(writes);
    const int code = put(*s, std::move(op), false);
    at = {s->number, s->issued};
    return code;
}

bool run_to(const place& at) {
    const guard lock(the_world().lock);
    return run_number_until(at.stream, at.sequence);
}

bool is_done(const place& at) {
    const guard lock(the_world().lock);
    return the_world().streams[at.stream]->done >= at.sequence;
}

bool is_behind(void* handle, const place& at) {
    const guard lock(the_world().lock);
    const auto found = the_world().stream_handles.find(handle);
    if (found == the_world().stream_handles.end()) return true;  // another check tells
    return found->second->number == at.stream || known(found->second->clock, at.stream) >= at.sequence || known(the_world().host, at.stream) >= at.sequence;
}

waiting_lock::waiting_lock() { the_world().lock.lock(); }
waiting_lock::~waiting_lock() { the_world().lock.unlock(); }
void waiting_lock::wait_until(const std::function<bool()>& happened) {
    world_lock& lock = the_world().lock;
    for (;;) {
        const std::uint64_t before = lock.changes();
        if (happened()) return;
        lock.wait(before);
    }
}
void waiting_lock::changed() { the_world().lock.changed(); }

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

int device_of_stream(void* handle) {
    const guard lock(the_world().lock);
    int why = 0;
    const stream* s = find_stream(handle, why);
    return s ? s->owner->device : -1;
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
        wait_for(*s);
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
