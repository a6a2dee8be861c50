// The CUDA simulator's memory: a range of addresses of its own, wide gaps between allocations, and who touched their bytes last.
#include "state.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <sys/mman.h>

namespace graft_simulator {
namespace {

constexpr std::size_t page_bytes = 4096, alignment = 512;
constexpr unsigned char guard_byte = 0xa5, fresh_byte = 0xff;  // 0xff...: a NaN in every floating type
constexpr std::size_t most_filled = 64u << 20;
constexpr std::size_t region_bytes = std::size_t{1} << 38, gap_bytes = 16u << 20;

std::size_t up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

unsigned char* memory_of(const allocation& a) { return reinterpret_cast<unsigned char*>(a.address); }

bool guards_are_whole(const allocation& a) {
    const unsigned char *begin = a.mapping, *end = a.mapping + a.mapping_bytes;
    const auto spoilt = [](unsigned char c) { return c != guard_byte; };
    return std::none_of(begin, static_cast<const unsigned char*>(memory_of(a)), spoilt) &&
           std::none_of(memory_of(a) + a.bytes, const_cast<unsigned char*>(end), spoilt);
}

std::string describe_allocation(const allocation& a) {
    return (a.device < 0 ? "pinned memory of " : "device memory of ") + std::to_string(a.bytes) + " bytes (allocation " + std::to_string(a.serial) + ")";
}

void check_guards_of(allocation& a) {
    if (guards_are_whole(a)) return;
    problem("out_of_bounds", "a write outside of " + describe_allocation(a));
    unsigned char *begin = a.mapping, *end = a.mapping + a.mapping_bytes;
    std::fill(begin, memory_of(a), guard_byte);
    std::fill(memory_of(a) + a.bytes, end, guard_byte);
}

// Addresses that nothing else is at: whoever goes astray from an allocation meets pages that cannot be touched.
unsigned char* region() {
    static void* const begin = mmap(nullptr, region_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return begin == MAP_FAILED ? nullptr : static_cast<unsigned char*>(begin);
}

// The first live allocation that ends behind `from`.
const allocation* next_from(std::uint64_t from) {
    auto& memory = the_world().memory;
    auto at = memory.upper_bound(from);
    if (at != memory.begin() && std::prev(at)->second->address + std::prev(at)->second->bytes > from) --at;
    return at == memory.end() ? nullptr : at->second.get();
}

// Room for an allocation; addresses are used again when all have been. Null where there is none.
unsigned char* find_room(std::size_t bytes) {
    static std::size_t next = 0;
    unsigned char* begin = region();
    if (!begin || bytes > region_bytes - 2 * gap_bytes) return nullptr;
    for (int round = 0; round < 2; ++round, next = 0) {
        while (next + bytes + 2 * gap_bytes <= region_bytes) {
            unsigned char* at = begin + next + gap_bytes;
            const allocation* other = next_from(reinterpret_cast<std::uintptr_t>(begin + next));
            const std::uint64_t end = reinterpret_cast<std::uintptr_t>(at + bytes + gap_bytes);
            if (!other || other->address >= end) {
                next += bytes + gap_bytes;
                auto& freed = the_world().freed;
                freed.erase(freed.lower_bound(reinterpret_cast<std::uintptr_t>(at)), freed.lower_bound(end));
                return at;
            }
            next = up(other->address + other->bytes - reinterpret_cast<std::uintptr_t>(begin), page_bytes);
        }
    }
    return nullptr;
}

void protect(const allocation& a, int protection) { mprotect(a.mapping, a.mapping_bytes, protection); }

// What is open at present, and how many want it so.
struct opened {
    int times = 0;
    std::vector<std::uint64_t> addresses;
};
opened& the_opened() {
    static opened o;
    return o;
}

}  // namespace

allocation* find_memory(std::uint64_t address, std::size_t bytes) {
    auto& memory = the_world().memory;
    auto at = memory.upper_bound(address);
    if (at == memory.begin()) return nullptr;
    allocation* a = std::prev(at)->second.get();
    const std::uint64_t offset = address - a->address;
    return offset < a->bytes && bytes <= a->bytes - offset ? a : nullptr;
}

int allocate(context* owner, int device, std::size_t bytes, std::uint64_t& address) {
    world& w = the_world();
    if (bytes == 0) return result::invalid_value;
    const int place = device < 0 ? -1 : physical(device);
    if (bytes > (std::size_t{1} << 46)) return result::out_of_memory;
    if (device >= 0 && (w.used[place] > total_memory() || up(bytes, alignment) > total_memory() - w.used[place])) return result::out_of_memory;
    const std::size_t inside = up(up(bytes, alignment), page_bytes);
    unsigned char* room = find_room(inside);
    if (!room || mmap(room, inside, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        return result::out_of_memory;
    auto a = std::make_unique<allocation>();
    a->mapping = room;
    a->mapping_bytes = inside;
    unsigned char* memory = room + inside - up(bytes, alignment);  // as near to its end as alignment allows
    a->address = address = reinterpret_cast<std::uintptr_t>(memory);
    a->bytes = bytes;
    a->device = device;
    a->owner = owner;
    a->serial = ++w.serial;
    std::fill(room, memory, guard_byte);
    std::fill(memory + bytes, room + inside, guard_byte);
    if (bytes <= most_filled) std::memset(memory, fresh_byte, bytes);
    a->closes = device >= 0 && setting("PROTECT", "0") == "1";
    if (a->closes) protect(*a, PROT_NONE);
    if (device >= 0) w.used[place] += up(bytes, alignment);
    w.memory[address] = std::move(a);
    return result::success;
}

void release(std::uint64_t address) {
    world& w = the_world();
    const auto at = w.memory.find(address);
    std::unique_ptr<allocation> a = std::move(at->second);
    w.memory.erase(at);
    if (a->closes) protect(*a, PROT_READ | PROT_WRITE);
    check_guards_of(*a);
    if (a->device >= 0) w.used[physical(a->device)] -= up(a->bytes, alignment);
    mmap(a->mapping, a->mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    w.freed[a->address] = a->bytes;
}

memory_open::memory_open() { ++the_opened().times; }

memory_open::~memory_open() {
    if (--the_opened().times) return;
    for (const std::uint64_t address : the_opened().addresses) {
        const auto at = the_world().memory.find(address);
        if (at == the_world().memory.end()) continue;
        allocation& a = *at->second;
        a.open = false;
        check_guards_of(a);
        if (a.closes) protect(a, PROT_NONE);
    }
    the_opened().addresses.clear();
}

void open_memory(const range& r) {
    allocation* a = r.bytes ? find_memory(r.address, r.bytes) : nullptr;
    if (!a || a->open) return;
    a->open = true;
    if (a->closes) protect(*a, PROT_READ | PROT_WRITE);
    the_opened().addresses.push_back(a->address);
}

std::string describe(const range& r) {
    char text[64];
    std::snprintf(text, sizeof text, "%zu bytes at 0x%llx", r.bytes, static_cast<unsigned long long>(r.address));
    return text;
}

std::uint64_t sum_of(const range& r) {
    const unsigned char* p = reinterpret_cast<const unsigned char*>(r.address);
    std::uint64_t h = 1469598103934665603ull;
    for (std::size_t i = 0; i < r.bytes; ++i) h = (h ^ p[i]) * 1099511628211ull;
    return h;
}

int device_of(const range& r) {
    const guard lock(the_world().lock);
    const allocation* a = find_memory(r.address, r.bytes);
    return a ? a->device : -1;
}

bool is_live(const range& r, bool pinned) {
    const guard lock(the_world().lock);
    const allocation* a = find_memory(r.address, r.bytes);
    return a && (pinned || a->device >= 0);
}

int check_range(const range& r, const char* what, bool pinned) {
    if (r.bytes == 0) return 0;
    const allocation* a = find_memory(r.address, r.bytes);
    if (a && (pinned || a->device >= 0)) return 0;
    world& w = the_world();
    const auto at = w.freed.upper_bound(r.address);
    const bool was = at != w.freed.begin() && r.address - std::prev(at)->first < std::prev(at)->second;
    const allocation* begin = find_memory(r.address, 1);
    std::string why = ", which are not in device memory";
    if (a)
        why = ", which are in pinned memory";
    else if (begin)
        why = ", which reach past the end of " + describe_allocation(*begin);
    else if (was)
        why = ", which were freed";
    problem(was && !begin ? "use_after_free" : "invalid_address", std::string(what) + " touches " + describe(r) + why);
    return result::invalid_value;
}

namespace {

void conflict(const touch& other, const char* other_did, const operation& op, const char* op_does, const range& r, const stream& s) {
    problem("unsynchronised", op.what + " on stream " + std::to_string(s.number) + " " + op_does + " " + describe(r) + ", which " + other.what + " on stream " +
                                  std::to_string(other.stream) + " " + other_did + " without an order between the two");
}

bool unordered(const touch& t, const stream& s) { return t.sequence && t.stream != s.number && known(s.clock, t.stream) < t.sequence; }

// Makes a segment begin at `at`, if one covers it.
void split(std::map<std::uint64_t, segment>& segments, std::uint64_t at) {
    auto next = segments.upper_bound(at);
    if (next == segments.begin()) return;
    auto here = std::prev(next);
    if (here->first == at || here->second.end <= at) return;
    segment back = here->second;
    here->second.end = at;
    segments.emplace(at, std::move(back));
}

void note(segment& seg, bool write, const stream& s, const operation& op) {
    const touch t{s.number, op.sequence, op.what};
    if (write) {
        seg.writer = t;
        seg.readers.clear();
        return;
    }
    for (touch& reader : seg.readers) {
        if (reader.stream == s.number) {
            reader = t;
            return;
        }
    }
    seg.readers.push_back(t);
}

}  // namespace

void touch_range(const range& r, bool write, const stream& s, const operation& op) {
    if (r.bytes == 0) return;
    allocation* a = find_memory(r.address, r.bytes);
    if (!a) return;
    auto& segments = a->segments;
    const std::uint64_t end = r.address + r.bytes;
    split(segments, r.address);
    split(segments, end);
    bool told = false;
    std::uint64_t at = r.address;
    while (at < end) {
        auto here = segments.lower_bound(at);
        if (here == segments.end() || here->first > at) {
            segment fresh;
            fresh.end = here == segments.end() || here->first >= end ? end : here->first;
            here = segments.emplace_hint(here, at, fresh);
        }
        segment& seg = here->second;
        if (!told && unordered(seg.writer, s)) {
            conflict(seg.writer, "wrote", op, write ? "writes" : "reads", r, s);
            told = true;
        }
        for (const touch& reader : seg.readers) {
            if (write && !told && unordered(reader, s)) {
                conflict(reader, "reads", op, "writes", r, s);
                told = true;
            }
        }
        note(seg, write, s, op);
        at = seg.end;
    }
    if (write) {  // one segment, so that the map does not grow
        auto first = segments.find(r.address);
        auto last = segments.lower_bound(end);
        segments.erase(std::next(first), last);
        first->second.end = end;
    }
}

}  // namespace graft_simulator
