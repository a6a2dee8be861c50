// Places that run at the same time: what may do so touches no memory of the other, and however long one takes changes no bit.
#include "../wait_until.hpp"
#include "several_places.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstring>
#include <map>
#include <new>
#include <thread>
#include <utility>
#include <vector>

using graft::builder;
using graft::slot_kind;
using graft::value_id;

namespace {

constexpr graft::dtype f32 = graft::dtype::float32;
constexpr std::int64_t lengths[] = {16, 32, 96};

std::uint64_t mixed(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}
std::atomic<std::uint64_t> drawn{1};
std::uint64_t some_microseconds() { return mixed(drawn += 0x9e3779b97f4a7c15ull) % 300; }

std::atomic<bool> throwing{false};

// As Identity, and takes its time.
graft::status wait_infer(graft::infer_context& c) { return c.set(0, c.in[0].type, c.in[0].extents); }
graft::status wait_run(graft::run_context& c) {
#ifndef GRAFT_NO_EXCEPTIONS
    if (throwing.exchange(false)) throw std::bad_alloc();
#endif
    std::this_thread::sleep_for(std::chrono::microseconds(some_microseconds()));
    std::memcpy(c.out[0].data, c.in[0].data, static_cast<std::size_t>(graft::bytes_of(c.in[0].type, c.in[0].extents)));
    return {};
}
const graft::op_row wait_rows[] = {graft::make_op("Wait", "app").inputs(1).functions(wait_infer, wait_run).elementwise().problems("f32[3]")};

// Bound to graft's operators and this one.
graft::graph with_waits(graft::graph g) {
    for (graft::node& n : g.nodes)
        if (n.op_type == "Wait") n.domain = "app";
    g.opsets.push_back({"app", 1});
    graft::load_options options;
    options.operators = wait_rows;
    return bound(g, options);
}

// Element by element, so that every place computes the same bits. Three states, of which each is read and changed.
graft::graph random_graph(std::uint64_t seed, int nodes) {
    nets::numbers coin{seed};
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(coin.uniform(0, static_cast<double>(n))); };
    builder b("overlap");
    std::map<std::int64_t, std::vector<value_id>> made;
    std::vector<value_id> states;
    for (std::int64_t n : lengths) made[n].push_back(states.emplace_back(b.input("state" + std::to_string(n), f32, {n})));
    for (std::int64_t n : lengths) made[n].push_back(b.input("x" + std::to_string(n), f32, {n}));
    std::vector<value_id> all;
    for (int i = 0; i < nodes; ++i) {
        std::vector<value_id>& among = made[lengths[below(3)]];
        // What was made lately is read more often, so that lifetimes end.
        const auto pick = [&] { return among[among.size() - 1 - below(std::min<std::size_t>(among.size(), 6))]; };
        const std::size_t which = below(5);
        all.push_back(which == 0   ? b.apply("Add", {pick(), pick()})
                      : which == 1 ? b.apply("Sub", {pick(), pick()})
                      : which == 2 ? b.apply("Max", {pick(), pick()})
                      : which == 3 ? b.apply("Neg", {pick()})
                                   : b.apply("Wait", {pick()}));
        among.push_back(all.back());
    }
    std::vector<value_id> changed;
    for (std::size_t i = 0; i < 3; ++i) changed.push_back(b.apply("Sub", {made[lengths[i]].back(), states[i]}));
    for (std::size_t i = 0; i < 4; ++i) b.output(all[all.size() - 1 - i * 3], "y" + std::to_string(i));
    for (std::size_t i = 0; i < changed.size(); ++i) b.output(changed[i], "changed" + std::to_string(i));
    graft::graph g = with_waits(b.finish());
    for (int i = 0; i < 3; ++i) g.states.push_back({i, 4 + i});
    return g;
}

std::vector<std::vector<float>> rounds_of(several_places& here) {
    std::vector<graft::tensor> inputs;
    nets::numbers random{7};
    for (int i = 0; i < 2; ++i)
        for (std::int64_t n : lengths) inputs.push_back(nets::random_tensor({n}, random));
    std::vector<std::vector<float>> told;
    for (int round = 0; round < 3; ++round) {
        here.run(inputs);
        for (std::size_t i = 0; i < 4; ++i) told.push_back(nets::values<float>(here.runner->output(i)));
    }
    REQUIRE(here.state->read_back(nullptr).ok());
    REQUIRE(here.second_state->read_back(nullptr).ok());
    for (std::size_t i = 0; i < 3; ++i) told.push_back(nets::values<float>(inputs[i]));
    return told;
}

struct access {
    int step, segment;
    bool writes;
    std::int64_t first, last;
    value_id id;
};

// What nobody orders does not meet in memory; and in the order of the steps each finds the value that it reads.
void check_memory(const graft::plan& p) {
    const std::size_t count = p.segments.size();
    std::vector<std::vector<char>> before(count, std::vector<char>(count, 0));
    for (std::size_t k = 0; k < count; ++k) {
        const auto behind = [&](std::size_t other) {
            before[other][k] = 1;
            for (std::size_t i = 0; i < count; ++i) before[i][k] = before[i][k] || before[i][other] ? 1 : 0;
        };
        for (std::size_t i = 0; i < k; ++i)
            if (p.segments[i].place == p.segments[k].place) behind(i);
        for (int other : p.segments[k].after) {
            REQUIRE(static_cast<std::size_t>(other) < k);
            CHECK(p.segments[static_cast<std::size_t>(other)].place != p.segments[k].place);
            behind(static_cast<std::size_t>(other));
        }
    }
    std::map<std::pair<slot_kind, std::int64_t>, std::vector<access>> memories;
    for (std::size_t k = 0; k < count; ++k)
        for (int i = p.segments[k].first; i < p.segments[k].last; ++i) {
            const graft::step& s = p.steps[static_cast<std::size_t>(i)];
            const graft::node& n = p.lowered.nodes[static_cast<std::size_t>(s.node)];
            for (int side = 0; side < 2; ++side) {
                const std::vector<graft::slot>& slots = side ? s.out : s.in;
                for (std::size_t j = 0; j < slots.size(); ++j) {
                    const graft::slot& at = slots[j];
                    if (at.kind == slot_kind::none || at.kind == slot_kind::constant) continue;
                    const bool arena = at.kind == slot_kind::arena;
                    const std::int64_t from = arena ? at.index : 0;
                    memories[{at.kind, arena ? at.place : at.index}].push_back({i, static_cast<int>(k), side == 1, from,
                                                                                from + graft::bytes_of(at.prototype.type, at.prototype.extents),
                                                                                side ? n.outputs[j] : n.inputs[j]});
                }
            }
            if (s.kernel->workspace_bytes > 0)
                memories[{slot_kind::arena, s.place}].push_back(
                    {i, static_cast<int>(k), true, s.workspace_offset, s.workspace_offset + s.kernel->workspace_bytes, graft::no_value});
        }
    for (const auto& memory : memories) {
        const std::vector<access>& all = memory.second;
        for (std::size_t a = 0; a < all.size(); ++a) {
            const access* owner = nullptr;
            for (std::size_t b = 0; b < a; ++b) {
                if (all[a].last <= all[b].first || all[b].last <= all[a].first) continue;
                if (all[b].writes) owner = &all[b];
                if (!all[a].writes && !all[b].writes) continue;
                const auto x = static_cast<std::size_t>(all[b].segment), y = static_cast<std::size_t>(all[a].segment);
                CHECK_MESSAGE((x == y || before[x][y]), "steps " << all[b].step << " and " << all[a].step << " meet at " << all[a].first);
            }
            if (!all[a].writes && owner) CHECK_MESSAGE(owner->id == all[a].id, "step " << all[a].step << " reads what step " << owner->step << " left there");
        }
    }
}

int waits_in(const graft::plan& p) {
    int waits = 0;
    for (const graft::plan_segment& s : p.segments) waits += static_cast<int>(s.after.size());
    return waits;
}

}  // namespace

TEST_CASE("places beside each other change no bit, however long each takes") {
    std::size_t beside = 0;
    for (std::uint64_t seed = 0; seed < 24; ++seed) {
        CAPTURE(seed);
        const graft::graph g = random_graph(seed + 1, 60);
        several_places alone(g);
        const auto want = rounds_of(alone);
        graft::graph placed = g;
        nets::numbers coin{seed + 100};
        // Runs of nodes at one place, as a pipeline has them, and single ones.
        int turn = 0;
        spread(placed, [&](std::size_t) {
            return turn = coin.uniform(0, 1) < (seed % 2 ? 0.7 : 0.15) ? static_cast<int>(coin.uniform(0, several_places::count)) : turn;
        });
        several_places here(std::move(placed));
        here.device->delay = here.second->delay = some_microseconds;
        CHECK(rounds_of(here) == want);
        const graft::plan& p = *here.runner->current();
        check_memory(p);
        for (std::size_t k = 1; k < p.segments.size(); ++k) beside += p.segments[k].after.empty() || p.segments[k].after.back() + 1 < static_cast<int>(k);
        CHECK(waits_in(p) > 0);
    }
    CHECK(beside > 100);  // segments that need not wait for the one in front
}

TEST_CASE("a state is changed when whoever reads it at another place has read it") {
    builder b("state");
    const auto state = b.input("state", f32, {8}), one = b.constant("one", nets::floats({1}));
    const auto changed = b.apply("Add", {state, one});
    b.output(b.apply("Neg", {state}), "y");
    b.output(changed, "changed");
    graft::graph g = bound(b.finish());
    g.states.push_back({0, 1});
    spread(g, [&](std::size_t i) { return g.nodes[i].op_type == "Neg" ? 2 : 0; });
    several_places here(std::move(g));
    here.device->delay = [] { return std::uint64_t(2000); };
    const std::vector<graft::tensor> inputs{nets::floats({1, 2, 3, 4, 5, 6, 7, 8})};
    for (int round = 0; round < 3; ++round) {
        check_memory(*here.run(inputs));
        CHECK(here.runner->output(0).data<float>()[0] == -1.0f - static_cast<float>(round));
    }
    CHECK(inputs[0].data<float>()[0] == 4);
}

TEST_CASE("independent work of two places is under way at the same time") {
    builder b("two");
    const auto x = b.input("x", f32, {8});
    const auto left = b.apply("Exp", {x}), right = b.apply("Neg", {x});
    b.output(b.apply("Add", {left, right}), "y");
    graft::graph g = bound(b.finish());
    spread(g, [](std::size_t i) { return i == 0 ? 2 : i == 1 ? 3 : 0; });
    several_places here(std::move(g));
    // Each waits until the other has come as far, or gives up.
    std::atomic<int> under_way{0};
    std::atomic<bool> met{false};
    const auto meet = [&] {
        ++under_way;
        met = wait_until([&] { return under_way == 2; });
        return true;
    };
    here.device->on_run = here.second->on_run = meet;
    here.device->delay = here.second->delay = [] { return std::uint64_t(0); };
    here.run({nets::floats({1, 2, 3, 4, 5, 6, 7, 8})});
    CHECK(met);
    CHECK(here.runner->output(0).data<float>()[1] == doctest::Approx(std::exp(2.0) - 2));
}

#ifndef GRAFT_NO_EXCEPTIONS
TEST_CASE("what an operator throws comes out when every place has ended") {
    builder b("throwing");
    const auto x = b.input("x", f32, {8});
    const auto left = b.apply("Neg", {x}), right = b.apply("Wait", {b.apply("Exp", {x})});
    b.output(left, "left");
    b.output(right, "right");
    graft::graph g = with_waits(b.finish());
    spread(g, [&](std::size_t i) { return g.nodes[i].op_type == "Neg" ? 2 : g.nodes[i].op_type == "Exp" ? 3 : 0; });
    several_places here(std::move(g));
    here.device->delay = [] { return std::uint64_t(20000); };
    const std::vector<graft::tensor> inputs{nets::floats({1, 2, 3, 4, 5, 6, 7, 8})};
    throwing = true;
    CHECK_THROWS_AS((void)here.try_run(inputs), std::bad_alloc);
    CHECK(here.device->did.segments == 1);
    here.run(inputs);
    CHECK(here.runner->output(0).data<float>()[0] == -1);
    CHECK(here.runner->output(1).data<float>()[0] == doctest::Approx(std::exp(1.0)));
}
#endif

TEST_CASE("a failure anywhere ends the run with its error, nothing runs on, and the next run is right") {
    const graft::graph g = random_graph(5, 40);
    several_places alone(g);
    const auto want = rounds_of(alone);
    for (int call = 1; call < 5; ++call) {
        CAPTURE(call);
        graft::graph placed = g;
        spread(placed, [&](std::size_t i) { return i % several_places::count; });
        several_places here(std::move(placed));
        here.device->delay = here.second->delay = some_microseconds;
        std::vector<graft::tensor> inputs;
        for (int i = 0; i < 2; ++i)
            for (std::int64_t n : lengths) inputs.push_back(graft::tensor::zeros(f32, {n}).value());
        (call % 2 ? here.device : here.second)->failing_run = call;
        const graft::status failed = here.try_run(inputs);
        REQUIRE(!failed.ok());
        CHECK(failed.error().code() == graft::errc::device_lost);
        const int ran = here.device->did.segments + here.second->did.segments;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        CHECK(here.device->did.segments + here.second->did.segments == ran);
        here.state->host_changed(nullptr);
        here.second_state->host_changed(nullptr);
        CHECK(rounds_of(here) == want);
    }
}
