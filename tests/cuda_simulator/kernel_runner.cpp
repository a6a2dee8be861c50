// The CUDA simulator's kernels at work: a block's threads are fibers that a scheduler resumes at barriers. Compiled without sanitizers,
// which do not know fibers.
#include "kernel_runner.hpp"
#include "races.hpp"

#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>

#include <csignal>
#include <dlfcn.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#if !defined(__x86_64__) || !defined(__linux__)
#error "The CUDA simulator runs on Linux on x86-64 alone"
#endif

// Puts the callee-saved registers on the stack, leaves its pointer in *from, and goes on where `to` was left.
extern "C" void graft_simulator_switch(void** from, void* to);
__asm__(R"(
.text
.globl graft_simulator_switch
.hidden graft_simulator_switch
.type graft_simulator_switch,@function
graft_simulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size graft_simulator_switch,.-graft_simulator_switch
)");

namespace graft_simulator {

class kernel_module {
public:
    std::string path;
    const module_description* description = nullptr;
};

namespace {

constexpr std::size_t stack_bytes = 128 << 10, page_bytes = 4096;
constexpr unsigned most_threads = 1024;
constexpr unsigned char spoilt = 0xff;  // NaN in every floating type

struct fiber {
    char* stack = nullptr;  // its lowest byte; a page that cannot be touched lies under it
    void* pointer = nullptr;
};

struct waiting {
    fiber* on = nullptr;
    triple thread = {};
    wait_kind kind = wait_kind::synchronise;
    unsigned mask = 0, lane = 0;
    unsigned long long value = 0;
    int line = 0, predicate = 0;
};

// One launch at a time uses it.
struct machine {
    std::mutex one_launch;
    fiber fibers[most_threads + 1];
    fiber* idle[most_threads + 1];
    unsigned idle_count = 0;
    unsigned char status[most_threads];
    waiting waits[most_threads];
    fiber* here = nullptr;      // the running fiber
    void* scheduler = nullptr;  // the scheduler's stack pointer while a fiber runs
    device_state* state = nullptr;
    const entry_description* entry = nullptr;
    void** parameters = nullptr;
    bool stopped = false;
    outcome result;
    std::unique_ptr<race_finder> races;  // of this launch; null: nobody asks, or one was found
    const module_description* module = nullptr;
    std::uint32_t block_number = 0, block_meetings = 0, warp_meetings[most_threads / 32];
};

machine& the_machine() {
    static machine* m = new machine;  // never destroyed: kernels may run while the process ends
    return *m;
}

volatile bool in_kernel = false;
thread_local bool kernel_on_this_thread = false;

std::string place(const device_state& s) {
    const auto text = [](const triple& t) { return "(" + std::to_string(t.x) + ", " + std::to_string(t.y) + ", " + std::to_string(t.z) + ")"; };
    return " in " + std::string(the_machine().entry->name) + ", block " + text(s.block) + ", thread " + text(s.thread);
}

triple thread_of(const device_state& s, unsigned id) {
    return {id % s.block_size.x, id / s.block_size.x % s.block_size.y, id / (s.block_size.x * s.block_size.y)};
}

// Memory of the device and shared memory; stacks are each thread's own, and so is what the runner keeps.
bool is_shared_by_threads(const machine& m, const char* address) {
    if (address >= m.here->stack && address < m.here->stack + stack_bytes) return false;
    const char* const state = reinterpret_cast<const char*>(m.state);
    return address < state || address >= state + sizeof *m.state;
}
bool is_of_one_block(const machine& m, const unsigned char* address) {
    const module_description& d = *m.module;
    return (address >= d.shared_begin && address < d.shared_end) || (address >= d.dynamic_shared && address < d.dynamic_shared + d.dynamic_shared_bytes);
}

// Shared memory of each block is its own: it is told apart by an address that no memory has.
void note_access(const void* address, unsigned long bytes, bool writes) {
    machine& m = the_machine();
    if (!m.races || !is_shared_by_threads(m, static_cast<const char*>(address))) return;
    std::uintptr_t at = reinterpret_cast<std::uintptr_t>(address);
    if (is_of_one_block(m, static_cast<const unsigned char*>(address))) at ^= (std::uintptr_t{1} << 63) | (std::uintptr_t{m.block_number & 0xffffu} << 47);
    const race_finder::moment now{m.block_number * m.state->count + m.state->current + 1, m.block_meetings, m.warp_meetings[m.state->current / 32]};
    race_finder::moment other;
    if (!m.races->access(at, bytes, writes, now, other)) return;
    const std::uint32_t thread = (other.thread - 1) % m.state->count, block = (other.thread - 1) / m.state->count;
    m.result.race =
        std::string(writes ? "a write" : "a read") + place(*m.state) + ", races with thread " + std::to_string(thread) + " of block " + std::to_string(block);
    m.races.reset();
}

void to_scheduler() {
    machine& m = the_machine();
    graft_simulator_switch(&m.here->pointer, m.scheduler);
}

[[noreturn]] void stop_with(outcome::kind_type kind, const std::string& why) {
    machine& m = the_machine();
    m.result.kind = kind;
    m.result.message = why;
    m.stopped = true;
    to_scheduler();
    __builtin_unreachable();
}

void stop(const char* why, int line) { stop_with(outcome::failed, std::string(why) + " at line " + std::to_string(line) + place(*the_machine().state)); }

// A fiber starts threads until all have started; one that waits keeps its fiber, and the scheduler starts the others on another.
void fiber_main() {
    machine& m = the_machine();
    for (;;) {
        m.entry->run(m.parameters);
        m.idle[m.idle_count++] = m.here;
        to_scheduler();
    }
}

void prepare(fiber& f) {
    if (!f.stack) {
        char* all = static_cast<char*>(mmap(nullptr, stack_bytes + page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        if (all == MAP_FAILED) std::terminate();
        mprotect(all, page_bytes, PROT_NONE);
        f.stack = all + page_bytes;
    }
    // Stacks begin at different places of their pages, or they would all meet in the same lines of the cache. The entry expects a
    // return address on an aligned stack.
    const std::size_t colour = static_cast<std::size_t>(&f - the_machine().fibers) * 192 % page_bytes;
    void** top = reinterpret_cast<void**>(f.stack + stack_bytes - colour) - 2;
    *top = reinterpret_cast<void*>(fiber_main);
    top[1] = nullptr;
    std::memset(top - 6, 0, 6 * sizeof(void*));
    f.pointer = top - 6;
}

void reset_fibers(machine& m) {
    m.idle_count = 0;
    for (unsigned i = most_threads + 1; i-- > 0;) {
        if (m.fibers[i].stack) prepare(m.fibers[i]);
        m.idle[m.idle_count++] = &m.fibers[i];
    }
}

void resume(machine& m, fiber* f) {
    m.here = f;
    graft_simulator_switch(&m.scheduler, f->pointer);
}

int wait_block(int predicate, int line) {
    machine& m = the_machine();
    const unsigned id = m.state->current;
    waiting& w = m.waits[id];
    w.on = m.here;
    w.thread = m.state->thread;
    w.predicate = predicate;
    w.line = line;
    m.status[id] = at_block;
    to_scheduler();
    return w.predicate;
}

unsigned long long wait_warp(wait_kind kind, unsigned mask, unsigned long long value, unsigned lane, int line) {
    machine& m = the_machine();
    const unsigned id = m.state->current;
    if (!(mask >> (id % 32) & 1u)) stop("a thread calls a warp's function with a mask that leaves it out", line);
    waiting& w = m.waits[id];
    w.on = m.here;
    w.thread = m.state->thread;
    w.kind = kind;
    w.mask = mask;
    w.value = value;
    w.lane = lane;
    w.line = line;
    m.status[id] = at_warp;
    to_scheduler();
    return w.value;
}

// Runs a thread that waited, or threads that have not started, until none of the fiber's threads can go on.
void run_thread(machine& m, unsigned id) {
    m.status[id] = running;
    m.state->current = id;
    m.state->thread = m.waits[id].thread;
    resume(m, m.waits[id].on);
}

void run_new_threads(machine& m) {
    while (m.state->next != m.state->count && !m.stopped) {
        fiber* f = m.idle[--m.idle_count];
        if (!f->stack) prepare(*f);
        resume(m, f);
    }
}

unsigned long long lanes_value(const waiting& w, unsigned count, const unsigned long long* values) {
    if (w.kind != wait_kind::shuffle) return 0;
    // A lane that is not there, or not in the mask, has no value: what a GPU gives is undefined.
    return w.lane < count && (w.mask >> w.lane & 1u) ? values[w.lane] : ~0ull;
}

// Lets a warp's threads go on if all that the mask of one of them names have come. Gives back whether any can.
bool release_warp(machine& m, unsigned first, unsigned count) {
    bool any = false;
    for (unsigned lane = 0; lane < count && !m.stopped; ++lane) {
        if (m.status[first + lane] != at_warp) continue;
        const waiting& w = m.waits[first + lane];
        bool all = true;
        unsigned long long values[32];
        for (unsigned other = 0; other < count && all; ++other) {
            if (!(w.mask >> other & 1u)) continue;
            const waiting& o = m.waits[first + other];
            all = m.status[first + other] == at_warp && o.mask == w.mask && o.kind == w.kind && o.line == w.line;
            values[other] = o.value;
        }
        if (!all) continue;
        const unsigned mask = w.mask;
        for (unsigned other = 0; other < count; ++other) {
            if (!(mask >> other & 1u)) continue;
            waiting& o = m.waits[first + other];
            o.value = lanes_value(o, count, values);
            m.status[first + other] = running;
        }
        any = true;
    }
    if (any) ++m.warp_meetings[first / 32];
    return any;
}

void run_warp(machine& m, unsigned first, unsigned count) {
    while (!m.stopped && release_warp(m, first, count)) {
        for (unsigned i = 0; i < count && !m.stopped; ++i) {
            const unsigned lane = m.state->backward ? count - 1 - i : i;
            if (m.status[first + lane] == running) run_thread(m, first + lane);
        }
    }
}

void report_stuck(machine& m) {
    const device_state& s = *m.state;
    unsigned counts[5] = {}, example[5] = {};
    for (unsigned i = 0; i < s.count; ++i) {
        ++counts[m.status[i]];
        example[m.status[i]] = i;
    }
    std::string why = "deadlock:";
    for (const thread_status status : {at_block, at_warp}) {
        if (!counts[status]) continue;
        why += " " + std::to_string(counts[status]) + (status == at_block ? " threads wait for the block at line " : " threads wait for their warp at line ") +
               std::to_string(m.waits[example[status]].line) + ",";
    }
    why += " " + std::to_string(counts[finished]) + " have returned";
    m.state->thread = thread_of(s, example[at_warp] ? example[at_warp] : example[at_block]);
    m.stopped = true;
    m.result = {outcome::failed, why + place(*m.state)};
}

// Lets all threads go on if those that have not returned wait for the block at one place. False at the end, or where they are stuck.
bool release_block(machine& m) {
    const device_state& s = *m.state;
    unsigned waits = 0, others = 0, last = 0;
    int predicates = 0;
    for (unsigned i = 0; i < s.count; ++i) {
        if (m.status[i] == at_block) {
            if (waits && m.waits[i].line != m.waits[last].line) {
                m.stopped = true;
                m.state->thread = thread_of(s, i);
                m.result = {outcome::failed, "threads of a block wait at two barriers, at lines " + std::to_string(m.waits[last].line) + " and " +
                                                 std::to_string(m.waits[i].line) + place(s)};
                return false;
            }
            last = i;
            ++waits;
            predicates += m.waits[i].predicate;
        } else if (m.status[i] != finished) {
            ++others;
        }
    }
    if (waits + others == 0) return false;
    if (others) {
        report_stuck(m);
        return false;
    }
    for (unsigned i = 0; i < s.count; ++i) {
        if (m.status[i] != at_block) continue;
        m.waits[i].predicate = predicates;
        m.status[i] = running;
    }
    ++m.block_meetings;
    return true;
}

void run_block(machine& m) {
    const unsigned count = m.state->count;
    run_new_threads(m);
    if (m.idle_count == most_threads + 1) return;  // none waited
    while (!m.stopped) {
        for (unsigned first = 0; first < count && !m.stopped; first += 32) run_warp(m, first, count - first < 32 ? count - first : 32);
        if (m.stopped || !release_block(m)) break;
        for (unsigned i = 0; i < count && !m.stopped; ++i) {
            const unsigned id = m.state->backward ? count - 1 - i : i;
            if (m.status[id] == running) run_thread(m, id);
        }
    }
}

// ---- faults ----

struct sigaction old_actions[4];
const int fault_signals[4] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
char fault_text[256];
outcome::kind_type fault_kind;

void after_fault() { stop_with(fault_kind, fault_text + place(*the_machine().state)); }

void on_fault(int signal, siginfo_t* info, void* context) {
    if (!kernel_on_this_thread || !in_kernel) {
        for (int i = 0; i < 4; ++i) {
            if (fault_signals[i] == signal) sigaction(signal, &old_actions[i], nullptr);  // and the fault happens again
        }
        return;
    }
    in_kernel = false;
    switch (signal) {
    case SIGILL:
        fault_kind = outcome::misaligned_address;
        std::strcpy(fault_text, "a misaligned address, or a place past an array's end,");
        break;
    case SIGFPE:
        fault_kind = outcome::failed;
        std::strcpy(fault_text, "an integer divided by zero");
        break;
    default:
        fault_kind = outcome::illegal_address;
        std::strcpy(fault_text, "an illegal address, 0x");
        {
            char* end = fault_text + std::strlen(fault_text);
            const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(info->si_addr);
            for (int i = 15; i >= 0; --i) *end++ = "0123456789abcdef"[address >> (4 * i) & 15];
            *end++ = ',';
            *end = 0;
        }
    }
    // The fiber goes on in after_fault, on its own stack from the top: nothing on it is needed any more.
    ucontext_t* c = static_cast<ucontext_t*>(context);
    c->uc_mcontext.gregs[REG_RSP] = reinterpret_cast<greg_t>(the_machine().here->stack + stack_bytes - 24);
    c->uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(after_fault);
    c->uc_mcontext.gregs[REG_EFL] &= ~0x400;
}

// How many want faults to stay caught from one launch to the next; guarded by the launches' lock, as all of this is.
struct catching {
    int holds = 0;
    bool on = false;
};
catching& the_catching() {
    static catching c;
    return c;
}

void catch_faults() {
    kernel_on_this_thread = true;
    in_kernel = true;
    if (the_catching().on) return;
    static thread_local char* stack = nullptr;  // a few for each process: not worth freeing
    stack_t now{};
    sigaltstack(nullptr, &now);
    if (now.ss_flags & SS_DISABLE) {
        if (!stack) stack = new char[64 << 10];
        now = {};
        now.ss_sp = stack;
        now.ss_size = 64 << 10;
        sigaltstack(&now, nullptr);
    }
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int i = 0; i < 4; ++i) sigaction(fault_signals[i], &action, &old_actions[i]);
    the_catching().on = true;
}

void let_faults() {
    kernel_on_this_thread = false;
    in_kernel = false;
    if (!the_catching().on || the_catching().holds) return;
    for (int i = 0; i < 4; ++i) sigaction(fault_signals[i], &old_actions[i], nullptr);
    the_catching().on = false;
}

bool guard_is_whole(const module_description& d, unsigned shared_bytes) {
    const unsigned char* guard = d.dynamic_shared + shared_bytes;
    for (unsigned i = 0; i < shared_guard; ++i) {
        if (guard[i] != 0xa5) return false;
    }
    return true;
}

void run_grid(machine& m, const module_description& d, const unsigned grid[3], unsigned shared_bytes) {
    device_state& s = *m.state;
    const std::size_t shared = static_cast<std::size_t>(d.shared_end - d.shared_begin);
    std::memset(d.dynamic_shared + shared_bytes, 0xa5, shared_guard);
    for (unsigned z = 0; z < grid[2]; ++z) {
        for (unsigned y = 0; y < grid[1]; ++y) {
            for (unsigned x = 0; x < grid[0]; ++x) {
                s.block = {x, y, z};
                s.next = 0;
                s.backward = static_cast<int>((x + y + z) & 1u);
                if (shared) std::memset(d.shared_begin, spoilt, shared);
                if (shared_bytes) std::memset(d.dynamic_shared, spoilt, shared_bytes);
                run_block(m);
                if (m.stopped) return;
                ++m.block_number;
            }
        }
    }
    if (!guard_is_whole(d, shared_bytes)) m.result = {outcome::illegal_address, std::string("a write behind the shared memory of ") + m.entry->name};
}

}  // namespace

several_launches::several_launches() {
    const std::lock_guard<std::mutex> lock(the_machine().one_launch);
    ++the_catching().holds;
}
several_launches::~several_launches() {
    const std::lock_guard<std::mutex> lock(the_machine().one_launch);
    --the_catching().holds;
    let_faults();
}

std::shared_ptr<kernel_module> load(const std::string& path, std::string& why) {
    static std::mutex mutex;
    static auto* loaded = new std::map<std::string, std::shared_ptr<kernel_module>>;
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = loaded->find(path);
    if (found != loaded->end()) return found->second;
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        why = dlerror();
        return nullptr;
    }
    auto* description = static_cast<const module_description*>(dlsym(library, "graft_simulator_module"));
    if (!description || description->version != module_version) {
        why = path + " was not made by this simulator";
        return nullptr;
    }
    auto module = std::make_shared<kernel_module>();
    module->path = path;
    module->description = description;
    loaded->emplace(path, module);
    return module;
}

function find(const std::shared_ptr<kernel_module>& module, const std::string& name) {
    function f;
    f.module = module;
    for (unsigned i = 0; i < module->description->entry_count; ++i) {
        if (name == module->description->entries[i].name) f.entry = &module->description->entries[i];
    }
    return f;
}

unsigned static_shared_bytes(const function& f) {
    const module_description& d = *f.module->description;
    return static_cast<unsigned>(d.shared_end - d.shared_begin);
}

outcome check(const function& f, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes) {
    const std::uint64_t threads = std::uint64_t{block[0]} * block[1] * block[2];
    std::string why;
    if (!f.entry)
        why = "no function";
    else if (!grid[0] || !grid[1] || !grid[2] || !threads)
        why = "an empty grid or block";
    else if (grid[0] > 2147483647u || grid[1] > 65535 || grid[2] > 65535)
        why = "a grid that is too large";
    else if (block[0] > most_threads || block[1] > most_threads || block[2] > 64 || threads > most_threads)
        why = "a block that is too large";
    else if (threads > f.entry->max_threads)
        why = "a block of " + std::to_string(threads) + " threads where __launch_bounds__ says " + std::to_string(f.entry->max_threads);
    else if (shared_bytes > f.dynamic_shared_limit)
        why = std::to_string(shared_bytes) + " bytes of shared memory without opting in";
    if (why.empty()) return {};
    return {outcome::invalid, why + (f.entry ? std::string(" in the launch of ") + f.entry->name : std::string())};
}

outcome launch(const function& f, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes, void** parameters) {
    const outcome checked = check(f, grid, block, shared_bytes);
    if (checked.kind != outcome::done) return checked;
    machine& m = the_machine();
    const std::lock_guard<std::mutex> lock(m.one_launch);
    const module_description& d = *f.module->description;
    device_state& s = *d.state;
    s.block_size = {block[0], block[1], block[2]};
    s.grid_size = {grid[0], grid[1], grid[2]};
    s.count = block[0] * block[1] * block[2];
    s.status = m.status;
    s.wait_block = wait_block;
    s.wait_warp = wait_warp;
    s.stop = stop;
    m.state = &s;
    m.entry = f.entry;
    m.parameters = parameters;
    m.stopped = false;
    m.result = {};
    m.module = &d;
    m.block_number = m.block_meetings = 0;
    std::memset(m.warp_meetings, 0, sizeof m.warp_meetings);
    m.races.reset(finds_races() ? new race_finder(s.count) : nullptr);
    s.access = m.races ? note_access : nullptr;
    if (m.idle_count != most_threads + 1) reset_fibers(m);  // the first launch, or the one after an error
    catch_faults();
    run_grid(m, d, grid, shared_bytes);
    let_faults();
    m.races.reset();
    return m.result;
}

}  // namespace graft_simulator
