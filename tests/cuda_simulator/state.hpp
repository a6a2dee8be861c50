// The one state of all simulated libraries: devices, memory, streams and their queues, captures, graphs. One lock guards it.
#pragma once

#include "kernel_runner.hpp"
#include "simulator.hpp"

#include <graft/gpu/api/driver.hpp>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace graft_simulator {

namespace driver = graft::gpu::api::driver;
namespace result = driver::result;

/// How much of each stream, by its number, is known to have happened.
using vector_clock = std::vector<std::uint64_t>;

void join(vector_clock& into, const vector_clock& other);
void learn(vector_clock& clock, std::size_t stream, std::uint64_t sequence);
inline std::uint64_t known(const vector_clock& clock, std::size_t stream) { return stream < clock.size() ? clock[stream] : 0; }

struct context;
struct capture;

/// What is to be done on a stream, or a node of a graph.
struct operation {
    std::string what;
    std::function<void()> work;
    std::vector<range> reads, writes;
    std::function<bool()> ready;  ///< null: always
    range from_host, to_host;     ///< pinned memory that a copy reads or writes
    std::uint64_t sequence = 0;
    // Waiting for another stream is an operation, too.
    bool waits = false;
    std::size_t for_stream = 0;
    std::uint64_t for_sequence = 0;
};

struct stream {
    std::size_t number = 0;
    void* handle = nullptr;
    context* owner = nullptr;
    bool blocking = true, legacy = false, destroyed = false;
    bool runs = false;  ///< its first work is under way, or is asked whether it is ready
    std::uint64_t issued = 0, done = 0;
    vector_clock clock;  ///< what has happened before the next operation
    std::deque<operation> queue;
    std::shared_ptr<capture> capturing;
};

struct event {
    bool timing = true, recorded = false;
    context* owner = nullptr;
    std::size_t stream_number = 0;
    std::uint64_t sequence = 0;
    vector_clock clock;
    std::shared_ptr<double> milliseconds;  ///< negative until it happened
    std::shared_ptr<capture> in_capture;
    std::map<std::size_t, std::uint64_t> capture_clock;
};

/// A capture under way: the nodes in the order of enqueueing, which respects all that they wait for.
struct capture {
    std::size_t origin = 0;
    int mode = 0;
    std::thread::id thread;
    bool invalid = false, ended = false;
    std::vector<std::shared_ptr<operation>> nodes;
    std::map<std::size_t, std::uint64_t> issued;                         ///< nodes of each stream
    std::map<std::size_t, std::map<std::size_t, std::uint64_t>> clocks;  ///< of each stream
};

struct graph {
    std::vector<std::shared_ptr<operation>> nodes;
};
struct graph_exec {
    std::vector<std::shared_ptr<operation>> nodes;
    context* owner = nullptr;
};

struct module_handle {
    std::shared_ptr<kernel_module> code;
    context* owner = nullptr;
    int arch = 0;
    std::map<std::string, void*> functions;
};
struct function_handle {
    function code;
    void* module = nullptr;
    context* owner = nullptr;
};

/// Who touched bytes last.
struct touch {
    std::size_t stream = 0;
    std::uint64_t sequence = 0;
    std::string what;
};
struct segment {
    std::uint64_t end = 0;
    touch writer;
    std::vector<touch> readers;
};

struct allocation {
    std::uint64_t address = 0;
    std::size_t bytes = 0;
    int device = -1;  ///< -1: pinned memory of the host
    context* owner = nullptr;
    unsigned char* mapping = nullptr;
    std::size_t mapping_bytes = 0;
    std::uint64_t serial = 0;
    bool closes = false;                        ///< nobody but running work can touch it (GRAFT_SIMULATOR_PROTECT=1)
    bool open = false;                          ///< work that runs touches it
    std::map<std::uint64_t, segment> segments;  ///< by their begin
};

struct context {
    void* handle = nullptr;
    int device = 0;
    int retained = 0;
    int stopped = 0;  ///< the error that ended it
    stream* legacy = nullptr;
};

/// Objects by handles that are never used twice and cannot be dereferenced.
template <class T>
class handle_table {
public:
    void* add(std::unique_ptr<T> object);
    T* find(const void* handle) const {
        const auto at = objects.find(const_cast<void*>(handle));
        return at == objects.end() ? nullptr : at->second.get();
    }
    bool remove(const void* handle) { return objects.erase(const_cast<void*>(handle)) != 0; }

    std::map<void*, std::unique_ptr<T>> objects;
};

void* new_handle();

template <class T>
void* handle_table<T>::add(std::unique_ptr<T> object) {
    void* handle = new_handle();
    objects.emplace(handle, std::move(object));
    return handle;
}

/// The one lock. A call may hold it several times; who waits for what others have to do gives all of them back meanwhile.
class world_lock {
public:
    void lock() {
        mutex_.lock();
        ++held_;
    }
    void unlock() {
        --held_;
        mutex_.unlock();
    }
    /// Something happened that work may have waited for.
    void changed() {
        ++changes_;
        if (waiting_) changed_.notify_all();
    }
    std::uint64_t changes() const { return changes_; }
    /// Gives the lock to others until something has changed since `seen`.
    void wait(std::uint64_t seen);

private:
    std::recursive_mutex mutex_;
    std::condition_variable_any changed_;
    int held_ = 0, waiting_ = 0;
    std::uint64_t changes_ = 0;
};

struct world {
    world_lock lock;
    bool initialized = false;
    std::vector<int> visible;                           ///< physical numbers of the devices
    std::map<int, std::unique_ptr<context>> primaries;  ///< by device
    std::vector<std::unique_ptr<context>> dead_contexts;
    handle_table<context*> contexts;
    handle_table<event> events;
    handle_table<module_handle> modules;
    handle_table<function_handle> functions;
    handle_table<graph> graphs;
    handle_table<graph_exec> graph_execs;
    std::map<void*, stream*> stream_handles;
    std::vector<std::unique_ptr<stream>> streams;  ///< by number
    std::set<std::size_t> busy;                    ///< streams with a queue
    std::map<std::uint64_t, std::unique_ptr<allocation>> memory;
    std::map<std::uint64_t, std::size_t> freed;  ///< address and bytes of what was freed
    std::map<int, std::size_t> used;             ///< bytes of each physical device
    vector_clock host;                           ///< what the host has waited for
    std::set<std::shared_ptr<capture>> captures;
    long launches = 0, graph_launches = 0;
    std::uint64_t serial = 0;
};

world& the_world();
using guard = std::lock_guard<world_lock>;

// ---- contexts ----
struct context_stack {
    static constexpr std::size_t most = 256;
    void* held[most];
    std::size_t count;

    bool empty() const { return count == 0; }
    std::size_t size() const { return count; }
    void* back() const { return held[count - 1]; }
    void push_back(void* context) {
        if (count < most) held[count++] = context;
    }
    void pop_back() { --count; }
};
context_stack& current_stack();
/// The current context; null with the reason in `why`.
context* current(int& why);
int physical(int device);
/// What cuDeviceGetAttribute tells; 0 for what it does not know.
int device_attribute(int attribute);

// ---- memory ----
allocation* find_memory(std::uint64_t address, std::size_t bytes);
int allocate(context* owner, int device, std::size_t bytes, std::uint64_t& address);
void release(std::uint64_t address);
/// While one lives, what `open_memory` opened can be touched; afterwards its surroundings are checked. Made under the lock.
class memory_open {
public:
    memory_open();
    ~memory_open();
    memory_open(const memory_open&) = delete;
    memory_open& operator=(const memory_open&) = delete;
};
void open_memory(const range& r);
std::string describe(const range& r);
/// Problems with where the bytes lie: 0, or invalid_value after a report.
int check_range(const range& r, const char* what, bool pinned);
/// Notes that the operation touches the bytes, and reports what is not ordered with it.
void touch_range(const range& r, bool write, const stream& s, const operation& op);

// ---- streams ----
stream* new_stream(context* owner, bool blocking, bool legacy);
/// The stream of a handle, or null with the reason.
stream* find_stream(void* handle, int& why);
int put(stream& s, operation op, bool kernel);
/// Runs the stream's work up to that number. False where some of it is not ready: others have to do something before.
bool run_until(stream& s, std::uint64_t sequence);
bool run_number_until(std::size_t number, std::uint64_t sequence);
/// These wait for what is not ready, and let other threads call the simulator meanwhile: what was looked up before may be gone then.
void wait_until(std::size_t number, std::uint64_t sequence);
void wait_for(stream& s);
/// Everything that can run, and all of that context's.
void wait_for_everything(const context& c);
/// Everything that can run; what can never run in that context any more is given up, and reported.
void run_everything_of_last(context& c);
void host_waited_for(const stream& s);
void stop_context(context& c, int code, const std::string& why);
/// A call that a capture of others forbids: 0, or its error after the captures are invalid.
int unsafe_call();
std::uint64_t sum_of(const range& r);
bool queued_touches(std::uint64_t address, std::size_t bytes);
void run_operation(context* c, operation& op);

// ---- exported functions ----
/// One call of an exported function: counted, perhaps made to fail, logged at its end.
class call {
public:
    explicit call(const char* name) : lock_(the_world().lock), name_(name), forced(fault(name)) {}
    template <class... A>
    int end(int code, const A&... arguments) {
        if (logging()) {
            std::string text;
            (append(text, arguments), ...);
            log_call(name_, text, code);
        }
        return code;
    }

private:
    static void append(std::string& text, const void* p);
    static void append(std::string& text, const char* p);
    static void append(std::string& text, const std::string& p) { append(text, p.c_str()); }
    static void append(std::string& text, unsigned long long n);
    static void append(std::string& text, unsigned long n) { append(text, static_cast<unsigned long long>(n)); }
    static void append(std::string& text, unsigned n) { append(text, static_cast<unsigned long long>(n)); }
    static void append(std::string& text, int n);

    guard lock_;
    const char* name_;

public:
    const int forced;
};

}  // namespace graft_simulator
