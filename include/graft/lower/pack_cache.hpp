// Constants in the form that kernels want them, shared by the plans of a model.
#pragma once

#include "../core/executor.hpp"
#include "../tensor/tensor.hpp"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>

GRAFT_BEGIN_NAMESPACE

/// Where what was packed is kept beyond a process; open_packed_weights keeps it in a file. Safe from many threads, as models may share one. Functions, and
/// not virtual ones: a program that opens none does not link what does it.
struct packed_store {
    /// A number for bytes: the same for the same ones in another process, and as good as never for others.
    std::function<std::uint64_t(const void* bytes, std::size_t size, executor& pool)> number_of;
    /// What was kept of a constant in a form, in memory as `buffer::allocate` gives it; empty where there is nothing of so many bytes.
    std::function<buffer(std::uint64_t constant, std::uint64_t form, std::size_t bytes, executor& pool)> find;
    std::function<void(std::uint64_t constant, std::uint64_t form, const buffer& packed)> add;
    /// A plan is made: what was added can be written.
    std::function<void(executor& pool)> keep;
};

/// What plans have made of constants, so that the next plan finds it. It keeps what was made, not what it was made of: an entry lives as
/// long as the constants that it comes from. Safe from many threads.
class pack_cache {
public:
    /// `store` (or null): where it is kept beyond the process.
    explicit pack_cache(std::shared_ptr<const packed_store> store = nullptr);
    ~pack_cache();
    pack_cache(const pack_cache&) = delete;
    pack_cache& operator=(const pack_cache&) = delete;
    /// What was made of `source` under `key`, of that type and shape, or an empty tensor.
    tensor find(const tensor& source, const std::string& key, dtype type, const shape& extents, executor& pool);
    /// Memory for what is to be added. Errors: as tensor::make.
    result<tensor> make(dtype type, const shape& extents, const std::shared_ptr<memory_budget>& budget);
    /// Keeps `packed`.
    void add(const tensor& source, const std::string& key, const tensor& packed);
    /// Tells that `made` follows from `sources` in the way `how`: what is kept of it is found again by whoever makes it again of the same.
    void derive(const tensor& made, const std::string& how, std::initializer_list<const tensor*> sources);
    /// What was made so and somebody still holds, or an empty tensor.
    tensor derived(const std::string& how, std::initializer_list<const tensor*> sources);
    /// Before a plan is made: forgets what comes from memory that was given back.
    void sweep();
    /// After it: the store may write.
    void keep(executor& pool);

private:
    struct state;
    std::unique_ptr<state> state_;
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>
GRAFT_BEGIN_NAMESPACE

struct pack_cache::state {
    // What a tensor is known by: a number for each origin. An address says nothing once its memory has been given back.
    struct known {
        buffer::watch memory;
        dtype type;
        shape extents;
        int origin;
    };
    struct origin {
        std::string how;                    // of constants that came with the graph their type and shape
        std::vector<int> sources;           // origins; of those none
        std::vector<buffer::watch> leaves;  // those it comes from in the end
        std::uint64_t number = 0;           // what the store knows it by; 0: not asked yet
    };
    struct entry {
        int origin;
        std::string key;
        tensor packed;
    };
    const std::shared_ptr<const packed_store> store;
    mutable std::mutex lock;
    std::vector<known> tensors;
    std::unordered_map<int, origin> origins;
    std::vector<entry> entries;
    buffer::slab room;
    int next = 0;

    explicit state(std::shared_ptr<const packed_store> s) : store(std::move(s)) {}

    // -1: it was never seen.
    int find(const tensor& t) const {
        for (const known& k : tensors)
            if (k.type == t.type() && k.memory.watches(t.storage())) return k.origin;
        return -1;
    }
    GRAFT_COLD int origin_of(const tensor& t) {
        const int found = find(t);
        if (found >= 0) return found;
        origins[next] = {name(t.type()) + text(t.shape()), {}, {buffer::watch(t.storage())}};
        tensors.push_back({buffer::watch(t.storage()), t.type(), t.shape(), next});
        return next++;
    }
    GRAFT_COLD int origin_of(const std::string& how, std::initializer_list<const tensor*> sources) {
        origin from{how, {}, {}};
        for (const tensor* s : sources) {
            from.sources.push_back(origin_of(*s));
            const std::vector<buffer::watch>& leaves = origins[from.sources.back()].leaves;
            from.leaves.insert(from.leaves.end(), leaves.begin(), leaves.end());
        }
        for (const auto& o : origins)
            if (o.second.how == from.how && o.second.sources == from.sources) return o.first;
        origins[next] = std::move(from);
        return next++;
    }
    // Of the contents and of the way, as addresses and names are others in the next process. 0: the contents are gone.
    GRAFT_COLD std::uint64_t number_of(int which, executor& pool) {
        origin& o = origins[which];
        if (o.number) return o.number;
        std::string text = o.how;
        const auto append = [&text](std::uint64_t number) { text.append(reinterpret_cast<const char*>(&number), sizeof number); };
        for (const int source : o.sources) {
            const std::uint64_t number = number_of(source, pool);
            if (!number) return 0;
            append(number);
        }
        if (o.sources.empty()) {
            const buffer memory = o.leaves[0].hold();
            if (!memory) return 0;
            append(store->number_of(memory.unaligned(), memory.bytes(), pool));
            memory.let_go();
        }
        return o.number = store->number_of(text.data(), text.size(), pool);
    }
    GRAFT_COLD std::uint64_t form_of(const std::string& key, executor& pool) { return store->number_of(key.data(), key.size(), pool); }

    GRAFT_COLD void sweep() {
        tensors.erase(std::remove_if(tensors.begin(), tensors.end(), [](const known& k) { return k.memory.gone(); }), tensors.end());
        for (auto i = origins.begin(); i != origins.end();)
            i = std::any_of(i->second.leaves.begin(), i->second.leaves.end(), [](const buffer::watch& w) { return w.gone(); }) ? origins.erase(i)
                                                                                                                               : std::next(i);
        entries.erase(std::remove_if(entries.begin(), entries.end(), [this](const entry& e) { return !origins.count(e.origin); }), entries.end());
    }
};
GRAFT_INLINE GRAFT_COLD pack_cache::pack_cache(std::shared_ptr<const packed_store> store) : state_(new state(std::move(store))) {}
GRAFT_INLINE pack_cache::~pack_cache() = default;
GRAFT_INLINE GRAFT_COLD tensor pack_cache::find(const tensor& source, const std::string& key, dtype type, const shape& extents, executor& pool) {
    std::lock_guard<std::mutex> guard(state_->lock);
    const int origin = state_->store ? state_->origin_of(source) : state_->find(source);
    if (origin < 0) return {};
    for (const auto& e : state_->entries)
        if (e.origin == origin && e.key == key) return e.packed;
    if (!state_->store) return {};
    const std::uint64_t constant = state_->number_of(origin, pool);
    if (!constant) return {};
    const buffer kept = state_->store->find(constant, state_->form_of(key, pool), static_cast<std::size_t>(extents.elements()) * size_of(type), pool);
    if (!kept) return {};
    state_->entries.push_back({origin, key, tensor(type, extents, kept)});
    return state_->entries.back().packed;
}
GRAFT_INLINE GRAFT_COLD result<tensor> pack_cache::make(dtype type, const shape& extents, const std::shared_ptr<memory_budget>& budget) {
    std::lock_guard<std::mutex> guard(state_->lock);
    return tensor::make(type, extents, budget, &state_->room);
}
GRAFT_INLINE GRAFT_COLD void pack_cache::add(const tensor& source, const std::string& key, const tensor& packed) {
    std::lock_guard<std::mutex> guard(state_->lock);
    const int origin = state_->origin_of(source);
    state_->entries.push_back({origin, key, packed});
    if (!state_->store) return;
    executor serial;
    if (const std::uint64_t constant = state_->number_of(origin, serial)) state_->store->add(constant, state_->form_of(key, serial), packed.storage());
}
GRAFT_INLINE GRAFT_COLD void pack_cache::derive(const tensor& made, const std::string& how, std::initializer_list<const tensor*> sources) {
    std::lock_guard<std::mutex> guard(state_->lock);
    state_->tensors.push_back({buffer::watch(made.storage()), made.type(), made.shape(), state_->origin_of(how, sources)});
}
GRAFT_INLINE GRAFT_COLD tensor pack_cache::derived(const std::string& how, std::initializer_list<const tensor*> sources) {
    std::lock_guard<std::mutex> guard(state_->lock);
    const int origin = state_->origin_of(how, sources);
    for (const auto& k : state_->tensors)
        if (k.origin == origin)
            if (const buffer memory = k.memory.hold()) return tensor(k.type, k.extents, memory);
    return {};
}

GRAFT_INLINE GRAFT_COLD void pack_cache::sweep() {
    std::lock_guard<std::mutex> guard(state_->lock);
    state_->sweep();
}
GRAFT_INLINE GRAFT_COLD void pack_cache::keep(executor& pool) {
    std::lock_guard<std::mutex> guard(state_->lock);
    if (state_->store) state_->store->keep(pool);
}

GRAFT_END_NAMESPACE
#endif
