// Constants in the form that kernels want them, shared by the plans of a model.
#pragma once

#include "../tensor/tensor.hpp"

#include <initializer_list>
#include <memory>
#include <string>

GRAFT_BEGIN_NAMESPACE

/// What plans have made of constants, so that the next plan finds it. It keeps what was made, not what it was made of: an entry lives as
/// long as the constants that it comes from. Safe from many threads.
class pack_cache {
public:
    pack_cache();
    ~pack_cache();
    pack_cache(const pack_cache&) = delete;
    pack_cache& operator=(const pack_cache&) = delete;
    /// What was made of `source` under `key`, or an empty tensor.
    tensor find(const tensor& source, const std::string& key) const;
    /// Keeps `packed`.
    void add(const tensor& source, const std::string& key, const tensor& packed);
    /// Tells that `made` follows from `sources` in the way `how`: what is kept of it is found again by whoever makes it again of the same.
    void derive(const tensor& made, const std::string& how, std::initializer_list<const tensor*> sources);
    /// What was made so and somebody still holds, or an empty tensor.
    tensor derived(const std::string& how, std::initializer_list<const tensor*> sources);
    /// Forgets what comes from memory that was given back: before a plan is made.
    void sweep();

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
        std::string recipe;                 // "" of constants that came with the graph
        std::vector<buffer::watch> leaves;  // those it comes from in the end
    };
    struct entry {
        int origin;
        std::string key;
        tensor packed;
    };
    mutable std::mutex lock;
    std::vector<known> tensors;
    std::unordered_map<int, origin> origins;
    std::vector<entry> entries;
    int next = 0;

    // -1: it was never seen.
    int find(const tensor& t) const {
        for (const known& k : tensors)
            if (k.type == t.type() && k.memory.watches(t.storage())) return k.origin;
        return -1;
    }
    int origin_of(const tensor& t) {
        const int found = find(t);
        if (found >= 0) return found;
        origins[next] = {"", {buffer::watch(t.storage())}};
        tensors.push_back({buffer::watch(t.storage()), t.type(), t.shape(), next});
        return next++;
    }
    int origin_of(const std::string& how, std::initializer_list<const tensor*> sources) {
        origin from{how, {}};
        for (const tensor* s : sources) {
            const int source = origin_of(*s);
            from.recipe += " " + std::to_string(source);
            const std::vector<buffer::watch>& leaves = origins[source].leaves;
            from.leaves.insert(from.leaves.end(), leaves.begin(), leaves.end());
        }
        for (const auto& o : origins)
            if (o.second.recipe == from.recipe) return o.first;
        origins[next] = std::move(from);
        return next++;
    }
    void sweep() {
        tensors.erase(std::remove_if(tensors.begin(), tensors.end(), [](const known& k) { return k.memory.gone(); }), tensors.end());
        for (auto i = origins.begin(); i != origins.end();)
            i = std::any_of(i->second.leaves.begin(), i->second.leaves.end(), [](const buffer::watch& w) { return w.gone(); }) ? origins.erase(i)
                                                                                                                               : std::next(i);
        entries.erase(std::remove_if(entries.begin(), entries.end(), [this](const entry& e) { return !origins.count(e.origin); }), entries.end());
    }
};
GRAFT_INLINE pack_cache::pack_cache() : state_(new state) {}
GRAFT_INLINE pack_cache::~pack_cache() = default;
GRAFT_INLINE tensor pack_cache::find(const tensor& source, const std::string& key) const {
    std::lock_guard<std::mutex> guard(state_->lock);
    const int origin = state_->find(source);
    for (const auto& e : state_->entries)
        if (origin >= 0 && e.origin == origin && e.key == key) return e.packed;
    return {};
}
GRAFT_INLINE void pack_cache::add(const tensor& source, const std::string& key, const tensor& packed) {
    std::lock_guard<std::mutex> guard(state_->lock);
    state_->entries.push_back({state_->origin_of(source), key, packed});
}
GRAFT_INLINE void pack_cache::derive(const tensor& made, const std::string& how, std::initializer_list<const tensor*> sources) {
    std::lock_guard<std::mutex> guard(state_->lock);
    state_->tensors.push_back({buffer::watch(made.storage()), made.type(), made.shape(), state_->origin_of(how, sources)});
}
GRAFT_INLINE tensor pack_cache::derived(const std::string& how, std::initializer_list<const tensor*> sources) {
    std::lock_guard<std::mutex> guard(state_->lock);
    const int origin = state_->origin_of(how, sources);
    for (const auto& k : state_->tensors)
        if (k.origin == origin)
            if (const buffer memory = k.memory.hold()) return tensor(k.type, k.extents, memory);
    return {};
}

GRAFT_INLINE void pack_cache::sweep() {
    std::lock_guard<std::mutex> guard(state_->lock);
    state_->sweep();
}

GRAFT_END_NAMESPACE
#endif
