// A device over the host's memory, for tests: it takes the nodes that it is told to, runs them by the reference kernels on memory of
// its own, and counts what crosses.
#pragma once

#include <doctest/doctest.h>
#include <graft/graft.hpp>
#include <graft/plan/plan.hpp>

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace host_devices {

using bytes = std::vector<unsigned char>;

inline bool is_copy(const graft::node& n) { return n.domain == "graft" && n.op_type == "Transfer"; }
// Whether a copy brings its value to the place that runs it.
inline bool is_upload(const graft::step& s) { return s.out[0].place == s.place; }

struct counters {
    std::atomic<int> uploads{0}, downloads{0}, segments{0}, state_uploads{0}, state_downloads{0}, channels_last{0}, expected{0};
    void reset() { uploads = downloads = segments = state_uploads = state_downloads = channels_last = expected = 0; }
};

class kernel final : public graft::device_kernel {
public:
    graft::node n;
    std::vector<graft::layout> in_layout, out_layout;
};

class program final : public graft::device_program {
public:
    std::map<std::int64_t, bytes> constants;
    inline std::int64_t constant_bytes() const noexcept override {
        std::int64_t sum = 0;
        for (const auto& c : constants) sum += static_cast<std::int64_t>(c.second.size());
        return sum;
    }
};

class state final : public graft::device_state {
public:
    explicit state(counters& did) : did_(did) {}
    inline void host_changed(const void* address) noexcept override {
        for (auto& e : held_)
            if (!address || e.first == address) e.second.current = e.second.changed = false;
    }
    inline graft::status read_back(const void* address) override {
        for (auto& e : held_) {
            if ((address && e.first != address) || !e.second.changed) continue;
            std::memcpy(e.first, e.second.memory.data(), e.second.memory.size());
            e.second.changed = false;
            ++did_.state_downloads;
        }
        return {};
    }
    unsigned char* find(void* address, std::size_t size, bool changes) {
        held& h = held_[address];
        if (!h.current) {
            const unsigned char* from = static_cast<const unsigned char*>(address);
            h.memory.assign(from, from + size);
            h.current = true;
            ++did_.state_uploads;
        }
        h.changed |= changes;
        return h.memory.data();
    }

private:
    struct held {
        bytes memory;
        bool current = false, changed = false;
    };
    counters& did_;
    std::map<void*, held> held_;
};

// Copies a tensor of rank 4 between its rows and its channels lying last.
inline void change_layout(const graft::tensor_view& v, const unsigned char* from, unsigned char* to, bool to_last) {
    const graft::shape& s = v.extents;
    const std::size_t size = graft::size_of(v.type);
    std::size_t row = 0;
    for (std::int64_t n = 0; n < s[0]; ++n)
        for (std::int64_t c = 0; c < s[1]; ++c)
            for (std::int64_t p = 0; p < s[2] * s[3]; ++p, ++row) {
                const std::size_t last = static_cast<std::size_t>((n * s[2] * s[3] + p) * s[1] + c);
                std::memcpy(to + (to_last ? last : row) * size, from + (to_last ? row : last) * size, size);
            }
}

class context final : public graft::device_context {
public:
    context(std::shared_ptr<const graft::plan> p, graft::place_id place, state* kept, counters& did, std::atomic<int>& failing,
            std::function<std::uint64_t()> delay, std::function<bool()> on_run)
        : plan_(std::move(p)), place_(place), state_(kept), did_(did), failing_(failing), delay_(std::move(delay)), on_run_(std::move(on_run)),
          arena_(static_cast<std::size_t>(plan_->places[place].arena_bytes)) {
        while (plan_->steps[static_cast<std::size_t>(first_)].place != place_) ++first_;
    }

    ~context() { (void)finish(1 << 30); }
    // Later on a thread of its own, where it was told to take its time.
    inline graft::status start(int segment, const graft::run_environment& around) override {
        if (!delay_) return run(segment, around);
        const std::uint64_t takes = delay_();
        const std::shared_future<void> before = started_.empty() ? std::shared_future<void>() : started_.back().ended;
        started_.push_back({segment, {}, {}});
        running& now = started_.back();
        now.ended = std::async(std::launch::async, [this, before, takes, &now, &around] {
                        if (before.valid()) before.wait();
                        std::this_thread::sleep_for(std::chrono::microseconds(takes));
                        now.done = run(now.segment, around);
                    }).share();
        return {};
    }
    inline graft::status finish(int segment) override {
        graft::status first;
        while (!started_.empty() && started_.front().segment <= segment) {
            started_.front().ended.wait();
            if (first.ok()) first = std::move(started_.front().done);
            started_.pop_front();
        }
        return first;
    }

    inline graft::status expect(std::int64_t, const void*) override {
        ++did_.expected;
        return {};
    }

private:
    struct running {
        int segment;
        std::shared_future<void> ended;
        graft::status done;
    };
    graft::status run(int segment, const graft::run_environment& around) {
        ++did_.segments;
        if (on_run_ && !on_run_()) return graft::fail(graft::errc::device_lost, "host device", "it was told to fail");
        if (failing_ > 0 && failing_-- == 1) return graft::fail(graft::errc::device_lost, "host device", "it was told to fail");
        const graft::plan_segment& steps = plan_->segments[static_cast<std::size_t>(segment)];
        if (steps.first == first_) std::memset(arena_.data(), 0xff, arena_.size());  // a NaN, or -1, for who reads what this run did not make
        for (int i = steps.first; i < steps.last; ++i) GRAFT_TRY(run_step(plan_->steps[static_cast<std::size_t>(i)], around));
        return {};
    }
    static std::size_t size_of(const graft::slot& s) { return static_cast<std::size_t>(graft::bytes_of(s.prototype.type, s.prototype.extents)); }
    static graft::status wrong(const std::string& what) { return graft::fail(graft::errc::internal, "host device", what); }

    graft::result<unsigned char*> find(const graft::slot& s, const graft::run_environment& around, bool changes) {
        if (s.place != place_) return wrong("a kernel of the device was given memory of another place");
        if (s.kind == graft::slot_kind::arena) {
            if (s.index < 0 || s.index + static_cast<std::int64_t>(size_of(s)) > plan_->places[place_].arena_bytes)
                return wrong("a value lies outside of the arena");
            return arena_.data() + s.index;
        }
        if (s.kind == graft::slot_kind::input) {
            if (!state_) return wrong("there is state, and nothing to keep it in");
            return state_->find(around.address(s), size_of(s), changes);
        }
        if (s.kind != graft::slot_kind::constant || changes) return wrong("a value is no place of the device");
        const auto& all = static_cast<const program*>(plan_->places[place_].loaded.get())->constants;
        const auto found = all.find(s.index);
        if (found == all.end()) return wrong("a constant was not loaded");
        return const_cast<unsigned char*>(found->second.data());
    }

    graft::status run_step(const graft::step& s, const graft::run_environment& around) {
        const kernel& k = static_cast<const kernel&>(*s.kernel);
        const bool upload = is_copy(k.n) && is_upload(s), download = is_copy(k.n) && !upload;
        if (s.kernel->workspace_bytes > 0) {
            if (s.workspace_offset < 0 || s.workspace_offset + s.kernel->workspace_bytes > plan_->places[place_].arena_bytes)
                return wrong("scratch memory lies outside of the arena");
            std::memset(arena_.data() + s.workspace_offset, 0xee, static_cast<std::size_t>(s.kernel->workspace_bytes));
        }
        std::vector<graft::tensor> in(s.in.size()), out(s.out.size());
        std::vector<graft::tensor_view> in_views(s.in.size()), out_views(s.out.size());
        for (std::size_t i = 0; i < s.in.size(); ++i) {
            if (s.in[i].prototype.type == graft::dtype::undefined) continue;
            GRAFT_TRY_ASSIGN(in[i], graft::tensor::make(s.in[i].prototype.type, s.in[i].prototype.extents));
            unsigned char* from = nullptr;
            if (upload) {
                if (s.in[i].place == place_) return wrong("what is uploaded lies on the device");
                from = static_cast<unsigned char*>(around.address(s.in[i]));
            } else
                GRAFT_TRY_ASSIGN(from, find(s.in[i], around, false));
            did_.channels_last += k.in_layout[i] == graft::layout::channels_last;
            move(s.in[i].prototype, from, reinterpret_cast<unsigned char*>(in[i].raw()), k.in_layout[i] == graft::layout::channels_last, false);
            in_views[i] = view(in[i]);
        }
        for (std::size_t i = 0; i < s.out.size(); ++i) {
            if (s.out[i].prototype.type == graft::dtype::undefined) continue;
            GRAFT_TRY_ASSIGN(out[i], graft::tensor::make(s.out[i].prototype.type, s.out[i].prototype.extents));
            out_views[i] = view(out[i]);
        }
        if (upload || download) {
            ++(upload ? did_.uploads : did_.downloads);
            out = in;
        } else {
            graft::executor serial;
            graft::run_context c{
                {k.n, in_views.data(), static_cast<int>(in.size()), out_views.data(), static_cast<int>(out.size()), limit_}, serial, nullptr, nullptr, s.seed};
            GRAFT_TRY(k.n.op->run(c));
        }
        for (std::size_t i = 0; i < s.out.size(); ++i) {
            if (!out[i]) continue;
            unsigned char* to = nullptr;
            if (download) {
                if (s.out[i].place == place_) return wrong("what is downloaded goes to the device");
                to = static_cast<unsigned char*>(around.address(s.out[i]));
            } else
                GRAFT_TRY_ASSIGN(to, find(s.out[i], around, true));
            move(s.out[i].prototype, reinterpret_cast<unsigned char*>(out[i].raw()), to, k.out_layout[i] == graft::layout::channels_last, true);
        }
        return {};
    }
    static void move(const graft::tensor_view& v, const unsigned char* from, unsigned char* to, bool channels_last, bool to_last) {
        if (!v.elements()) return;
        if (channels_last)
            change_layout(v, from, to, to_last);
        else
            std::memcpy(to, from, static_cast<std::size_t>(graft::bytes_of(v.type, v.extents)));
    }

    std::shared_ptr<const graft::plan> plan_;
    graft::place_id place_;
    state* state_;
    counters& did_;
    std::atomic<int>& failing_;
    std::function<std::uint64_t()> delay_;
    std::function<bool()> on_run_;
    std::deque<running> started_;
    bytes arena_;
    graft::limits limit_;
    int first_ = 0;
};

class host_device final : public graft::device {
public:
    std::function<bool(const graft::node&)> takes = [](const graft::node&) { return true; };
    bool channels_last = false;  // pictures inside of the device lie so
    // Microseconds before the next segment is run, beside whoever started it; null: it is run at once. For contexts made from then on.
    std::function<std::uint64_t()> delay;
    std::function<bool()> on_run;  // asked when a segment is to run; false: it fails
    counters did;
    // A call with that number, counted from 1, fails; 0: none does.
    std::atomic<int> failing_prepare{0}, failing_load{0}, failing_context{0}, failing_run{0};

    explicit host_device(std::string name = "host:0") : name_(std::move(name)) {}
    inline const std::string& name() const noexcept override { return name_; }
    inline const char* refuse(const graft::op_context& c) const override {
        if (!c.n.op || !c.n.op->run) return "it has no reference kernel";
        return takes(c.n) ? nullptr : "it was told not to";
    }
    inline graft::status lower(graft::graph& g, const graft::lowering& with) override {
        std::vector<char> row_major(g.values.size(), 0);
        for (graft::value_id id : g.outputs) row_major[id] = 1;
        for (const graft::node& n : g.nodes) {
            for (graft::value_id id : n.outputs) {
                if (!channels_last || n.place != with.on || id == graft::no_value || row_major[id]) continue;
                graft::value& v = g.at(id);
                if (v.extents.rank() == 4 && v.type == graft::dtype::float32) v.layout = graft::layout::channels_last;
            }
        }
        return {};
    }
    inline graft::result<std::shared_ptr<const graft::device_kernel>> prepare(const graft::device_query& q) override {
        if (failing_prepare > 0 && failing_prepare-- == 1) return told_to_fail();
        auto made = std::make_shared<kernel>();
        made->n = q.n;
        made->in_layout.assign(q.in_layout, q.in_layout + q.inputs);
        made->out_layout.assign(q.out_layout, q.out_layout + q.outputs);
        made->note = is_copy(q.n) ? "copy" : "by the host";
        // Copies say so too: planning has to know that what they read lies elsewhere.
        made->in_place = is_copy(q.n) || (q.n.op->flags & graft::op_flag::elementwise) != 0;
        made->workspace_bytes = is_copy(q.n) ? 0 : 96;
        return std::shared_ptr<const graft::device_kernel>(std::move(made));
    }
    inline graft::result<std::shared_ptr<const graft::device_program>> load(const graft::plan& p, graft::place_id place, graft::executor&) override {
        if (failing_load > 0 && failing_load-- == 1) return told_to_fail();
        GRAFT_TRY(check(p, place));
        auto made = std::make_shared<program>();
        for (const graft::step& s : p.steps)
            for (const graft::slot& from : s.in)
                if (s.place == place && from.kind == graft::slot_kind::constant) {
                    const graft::tensor& t = p.lowered.values[static_cast<std::size_t>(from.index)].constant;
                    const unsigned char* data = reinterpret_cast<const unsigned char*>(t.raw());
                    made->constants[from.index].assign(data, data + t.bytes());
                }
        return std::shared_ptr<const graft::device_program>(std::move(made));
    }
    inline graft::result<std::unique_ptr<graft::device_context>> make_context(std::shared_ptr<const graft::plan> p, graft::place_id place,
                                                                              graft::device_state* kept) override {
        if (failing_context > 0 && failing_context-- == 1) return told_to_fail();
        return std::unique_ptr<graft::device_context>(new context(std::move(p), place, static_cast<state*>(kept), did, failing_run, delay, on_run));
    }
    inline graft::result<std::unique_ptr<graft::device_state>> make_state() override { return std::unique_ptr<graft::device_state>(new state(did)); }

private:
    static graft::status wrong(const std::string& what) { return graft::fail(graft::errc::internal, "host device", what); }
    static graft::status told_to_fail() { return graft::fail(graft::errc::device_compile, "host device", "it was told to fail"); }

    // Steps read and write the memory of their place alone, and copies lead from there to the host's or back.
    static graft::status check(const graft::plan& p, graft::place_id place) {
        for (const graft::step& s : p.steps) {
            if (s.place != place && s.place != 0) continue;
            const bool copies = s.place && is_copy(static_cast<const kernel&>(*s.kernel).n);
            const graft::place_id in = copies && is_upload(s) ? 0 : s.place, out = copies && !is_upload(s) ? 0 : s.place;
            for (const graft::slot& from : s.in)
                if (from.kind != graft::slot_kind::none && from.place != in) return wrong("an input lies on the wrong side");
            for (const graft::slot& to : s.out)
                if (to.kind != graft::slot_kind::none && to.place != out) return wrong("an output lies on the wrong side");
        }
        for (int i : p.late)
            for (graft::value_id id : p.lowered.nodes[static_cast<std::size_t>(i)].inputs)
                if (id != graft::no_value && p.value_slots[id].place) return wrong("a late node reads memory of the device");
        for (std::size_t i = 0; i < p.outputs.size(); ++i)
            if (p.outputs[i].place && p.state_of[i] < 0) return wrong("an output of the graph lies on the device");
        return {};
    }

    std::string name_;
};

inline std::shared_ptr<host_device> make() { return std::make_shared<host_device>(); }

/// Takes every node that makes a value which a coin thrown by `seed` picks.
inline std::function<bool(const graft::node&)> at_random(std::uint64_t seed) {
    return [seed](const graft::node& n) {
        std::uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15ull + static_cast<std::uint64_t>(n.outputs.empty() ? 0 : n.outputs[0]) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 30)) * 0x94d049bb133111ebull;
        return ((z ^ (z >> 31)) & 1) != 0;
    };
}
/// Takes the operators that are named.
inline std::function<bool(const graft::node&)> named(const std::vector<std::string>& names) {
    return [names](const graft::node& n) {
        for (const std::string& name : names)
            if (n.op_type == name || n.name == name) return true;
        return false;
    };
}

/// The code of a result's error, which it has to have.
template <class R>
graft::errc errc_of(const R& r) {
    REQUIRE(!r.ok());
    return r.error().code();
}

}  // namespace host_devices
