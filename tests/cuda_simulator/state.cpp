// Settings, forced failures, the log, problems and the report of the CUDA simulator.
#include "state.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

namespace graft_simulator {

world& the_world() {
    static world* w = new world;  // never destroyed: it outlives every static object of the program
    return *w;
}

void* new_handle() {
    static std::uintptr_t last = 0x51000000;  // low addresses: nothing is mapped there, so that a handle cannot be dereferenced
    last += 16;
    return reinterpret_cast<void*>(last);
}

void join(vector_clock& into, const vector_clock& other) {
    if (into.size() < other.size()) into.resize(other.size());
    for (std::size_t i = 0; i < other.size(); ++i) {
        if (into[i] < other[i]) into[i] = other[i];
    }
}
void learn(vector_clock& clock, std::size_t stream, std::uint64_t sequence) {
    if (clock.size() <= stream) clock.resize(stream + 1);
    if (clock[stream] < sequence) clock[stream] = sequence;
}

namespace {

struct rule {
    std::string function;
    long at = 0;  // 0: every call
    int code = 0;
};

struct records {
    std::map<std::string, std::string> settings;
    std::vector<rule> rules;
    bool rules_read = false;
    std::map<std::string, long> calls, calls_for_rules, problem_counts;
    long all_calls = 0, all_calls_for_rules = 0;
    std::vector<std::string> problems;
    std::map<std::string, std::map<const void*, std::uint64_t>> handles;
    std::FILE* log = nullptr;
    bool log_opened = false;
};

records& the_records() {
    static records* r = new records;
    return *r;
}

std::vector<rule> rules_of(const std::string& text) {
    std::vector<rule> rules;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        const std::string one = text.substr(begin, end - begin);
        const std::size_t a = one.find(':'), b = a == std::string::npos ? a : one.find(':', a + 1);
        if (b == std::string::npos) {
            std::fprintf(stderr, "graft CUDA simulator: '%s' is not FUNCTION:CALL:CODE; it is left out\n", one.c_str());
        } else {
            rules.push_back({one.substr(0, a), std::atol(one.c_str() + a + 1), std::atoi(one.c_str() + b + 1)});
        }
        begin = end + 1;
    }
    return rules;
}

std::string hex(std::uint64_t n) {
    char text[32];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(n));
    return text;
}

long count_memory(bool pinned) {
    long n = 0;
    for (const auto& m : the_world().memory) n += (m.second->device < 0) == pinned;
    return n;
}

long count_streams() {
    long n = 0;
    for (const auto& s : the_world().stream_handles) n += !s.second->legacy;
    return n;
}

// What lives, by kind.
std::map<std::string, long> living() {
    world& w = the_world();
    std::map<std::string, long> n;
    n["device_memory"] = count_memory(false);
    n["pinned_memory"] = count_memory(true);
    n["stream"] = count_streams();
    n["event"] = static_cast<long>(w.events.objects.size());
    n["module"] = static_cast<long>(w.modules.objects.size());
    n["graph"] = static_cast<long>(w.graphs.objects.size());
    n["graph_exec"] = static_cast<long>(w.graph_execs.objects.size());
    n["context"] = 0;
    for (const auto& c : w.primaries) n["context"] += c.second->retained;
    for (const auto& h : the_records().handles) n[h.first] = static_cast<long>(h.second.size());
    return n;
}

std::string report_text() {
    std::string text;
    for (const std::string& p : the_records().problems) text += p + "\n";
    for (const auto& m : the_world().memory) {
        text += std::string("live: ") + (m.second->device < 0 ? "pinned memory" : "device memory") + " " + hex(m.first) + ", " +
                std::to_string(m.second->bytes) + " bytes, allocation " + std::to_string(m.second->serial) + "\n";
    }
    for (const auto& n : living()) {
        if (n.second && n.first != "device_memory" && n.first != "pinned_memory") text += "live: " + n.first + " x " + std::to_string(n.second) + "\n";
    }
    return text;
}

__attribute__((destructor)) void at_exit() {
    const std::string path = setting("REPORT", "");
    if (path.empty()) return;
    const guard lock(the_world().lock);
    if (std::FILE* f = std::fopen(path.c_str(), "ab")) {
        const std::string text = report_text();
        std::fprintf(f, "graft CUDA simulator, process %ld: %s\n%s", static_cast<long>(getpid()), text.empty() ? "nothing to report" : "", text.c_str());
        std::fclose(f);
    }
}

}  // namespace

std::string setting(const char* name, const char* otherwise) {
    const guard lock(the_world().lock);
    const auto at = the_records().settings.find(name);
    if (at != the_records().settings.end()) return at->second;
    const char* value = std::getenv((std::string("GRAFT_SIMULATOR_") + name).c_str());
    return value && *value ? value : otherwise;
}

int fault(const char* function) {
    const guard lock(the_world().lock);
    records& r = the_records();
    if (!r.rules_read) {
        r.rules = rules_of(setting("FAIL", ""));
        r.rules_read = true;
    }
    ++r.calls[function];
    ++r.all_calls;
    const long of_all = ++r.all_calls_for_rules, of_it = ++r.calls_for_rules[function];
    for (const rule& one : r.rules) {
        const bool all = one.function == "*";
        if (!all && one.function != function) continue;
        if (one.at == 0 || one.at == (all ? of_all : of_it)) {
            log_call(function, "forced to fail", one.code);
            return one.code;
        }
    }
    return 0;
}

bool logging() {
    records& r = the_records();
    if (!r.log_opened) {
        const guard lock(the_world().lock);
        r.log_opened = true;
        const std::string path = setting("LOG", "");
        if (!path.empty()) r.log = std::fopen(path.c_str(), "ab");
    }
    return r.log != nullptr;
}

void log_call(const char* function, const std::string& arguments, int code) {
    if (!logging()) return;
    const guard lock(the_world().lock);
    std::fprintf(the_records().log, "%s(%s) = %d\n", function, arguments.c_str(), code);
    std::fflush(the_records().log);
}

void call::append(std::string& text, const void* p) { text += (text.empty() ? "" : ", ") + hex(reinterpret_cast<std::uintptr_t>(p)); }
void call::append(std::string& text, const char* p) { text += (text.empty() ? "" : ", ") + std::string(p ? p : "null"); }
void call::append(std::string& text, unsigned long long n) { text += (text.empty() ? "" : ", ") + (n >> 32 ? hex(n) : std::to_string(n)); }
void call::append(std::string& text, int n) { text += (text.empty() ? "" : ", ") + std::to_string(n); }

void problem(const char* kind, const std::string& text) {
    const guard lock(the_world().lock);
    records& r = the_records();
    ++r.problem_counts[kind];
    ++r.problem_counts["problems"];
    if (r.problems.size() < 1000) r.problems.push_back(std::string(kind) + ": " + text);
    if (logging()) std::fprintf(r.log, "  problem: %s: %s\n", kind, text.c_str());
    if (!setting("VERBOSE", "").empty()) std::fprintf(stderr, "graft CUDA simulator: %s: %s\n", kind, text.c_str());
}

void handle_made(const char* kind, const void* handle) {
    const guard lock(the_world().lock);
    the_records().handles[kind][handle] = ++the_world().serial;
}

bool handle_used(const char* kind, const void* handle) {
    const guard lock(the_world().lock);
    auto& live = the_records().handles[kind];
    if (live.count(handle)) return true;
    problem("invalid_handle", std::string("no ") + kind + " is at " + hex(reinterpret_cast<std::uintptr_t>(handle)));
    return false;
}

bool handle_destroyed(const char* kind, const void* handle) {
    const guard lock(the_world().lock);
    if (!handle_used(kind, handle)) return false;
    the_records().handles[kind].erase(handle);
    return true;
}

// ---- devices ----

int device_count() { return std::atoi(setting("DEVICES", "1").c_str()); }

int compute_capability() {
    const std::string text = setting("COMPUTE", "9.0");
    const std::size_t dot = text.find('.');
    return std::atoi(text.c_str()) * 10 + (dot == std::string::npos ? 0 : std::atoi(text.c_str() + dot + 1));
}

std::size_t total_memory() { return static_cast<std::size_t>(std::strtoull(setting("MEMORY", "4294967296").c_str(), nullptr, 10)); }

std::size_t used_memory(int device) {
    const guard lock(the_world().lock);
    const auto at = the_world().used.find(device);
    return at == the_world().used.end() ? 0 : at->second;
}

void device_uuid(int device, unsigned char bytes[16]) {
    std::memcpy(bytes, "graft simulator", 15);
    bytes[15] = static_cast<unsigned char>(device);
}

std::string device_bus_id(int device) {
    char text[32];
    std::snprintf(text, sizeof text, "0000:%02X:00.0", device + 1);
    return text;
}

}  // namespace graft_simulator

using namespace graft_simulator;

extern "C" {

long graft_simulator_counts(const char* what) {
    const guard lock(the_world().lock);
    const std::string name = what ? what : "";
    records& r = the_records();
    if (name == "calls") return r.all_calls;
    if (name.compare(0, 5, "call:") == 0) return r.calls.count(name.substr(5)) ? r.calls[name.substr(5)] : 0;
    if (name == "launches") return the_world().launches;
    if (name == "graph_launches") return the_world().graph_launches;
    if (name == "current") return static_cast<long>(current_stack().size());
    const std::map<std::string, long> live = living();
    if (name == "live") {
        long all = 0;
        for (const auto& n : live) all += n.second;
        return all;
    }
    const auto at = live.find(name);
    if (at != live.end()) return at->second;
    return r.problem_counts.count(name) ? r.problem_counts[name] : 0;
}

std::size_t graft_simulator_report(char* text, std::size_t bytes) {
    const guard lock(the_world().lock);
    const std::string all = report_text();
    if (text && bytes) {
        const std::size_t n = std::min(all.size(), bytes - 1);
        std::memcpy(text, all.data(), n);
        text[n] = 0;
    }
    return all.size();
}

void graft_simulator_fail(const char* rules) {
    const guard lock(the_world().lock);
    records& r = the_records();
    r.rules = rules_of(rules ? rules : "");
    r.rules_read = true;
    r.calls_for_rules.clear();
    r.all_calls_for_rules = 0;
}

void graft_simulator_reset(void) {
    const guard lock(the_world().lock);
    records& r = the_records();
    r.problems.clear();
    r.problem_counts.clear();
    r.calls.clear();
    r.all_calls = 0;
    the_world().launches = the_world().graph_launches = 0;
}

void graft_simulator_set(const char* name, const char* value) {
    const guard lock(the_world().lock);
    if (!name) return;
    if (value)
        the_records().settings[name] = value;
    else
        the_records().settings.erase(name);
}
}
