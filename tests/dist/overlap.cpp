// Gradients that are exchanged beside the backward pass: the bits of those that are not, how they end where a member fails, and the trace that shows them.
#include "../train/small_runs.hpp"

#include <graft/core/json.hpp>
#include <graft/dist.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

namespace {

using small_steps::architecture;
using members = std::vector<std::shared_ptr<graft::communicator>>;

// Calls work(member) on a thread for each.
template <class Work>
void each(const members& all, const Work& work) {
    std::vector<std::thread> threads;
    for (const auto& m : all) threads.emplace_back([&work, &m] { work(*m); });
    for (std::thread& t : threads) t.join();
}
void pause(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }
float number(int member, std::int64_t i) { return std::sin(static_cast<float>(member * 1000 + 7 * i)) * std::pow(10.0f, static_cast<float>(i % 7)); }

struct outcome_of_steps {
    std::string bits;
    std::int64_t exchanged = 0;  // spans of a thread beside the step
};
// Steps over batches of these sizes, by so many replicas (0: none).
outcome_of_steps steps(const graft::graph& g, graft::step_options o, int replicas, const std::vector<std::int64_t>& batches) {
    graft::replica_options how;
    how.replicas = replicas, how.overlap = true;
    if (replicas) o.replicas = graft::make_replicas(how);
    o.trace = std::make_shared<graft::trace_recorder>();
    o.trace->start();
    small_steps::trained t(g, o);
    for (std::size_t i = 0; i < batches.size(); ++i) {
        t.run(static_cast<std::int64_t>(i), batches[i], 2);
        REQUIRE_MESSAGE(t.last.ok(), t.error());
    }
    outcome_of_steps r;
    r.bits = t.bits();
    const std::string events = o.trace->events();
    for (std::size_t at = 0; (at = events.find("\"cat\":\"exchange\"", at)) != std::string::npos; ++at) ++r.exchanged;
    return r;
}

// An operator that gives what it takes, late on one member; its gradient may fail, at once or when the others wait for it, or keep a member busy.
std::atomic<int> failing{-1}, failing_late{-1}, busy{-1}, late{-1};
graft::status pass_infer(graft::infer_context& c) { return c.set(0, c.in[0].type, c.in[0].extents); }
graft::status pass_run(graft::run_context& c) {
    if (c.group && late == c.group->rank()) pause(300);
    std::copy_n(c.in[0].as<float>(), c.in[0].elements(), c.out[0].as<float>());
    return {};
}
graft::status back_run(graft::run_context& c) {
    if (c.group && (busy == c.group->rank() || failing_late == c.group->rank())) pause(300);
    if (c.group && (failing == c.group->rank() || failing_late == c.group->rank())) return c.fail(graft::errc::op_value, "it was told to fail");
    std::copy_n(c.in[0].as<float>(), c.in[0].elements(), c.out[0].as<float>());
    return {};
}
const graft::op_row back_rows[] = {graft::make_op("PassBack", "my.app").inputs(1).functions(pass_infer, back_run).problems("f32[2,3]")};
graft::status pass_gradient(graft::gradient_context& c) {
    const graft::value_id dx = c.build.apply("Identity", {c.dy()});
    graft::node& n = c.build.target().nodes.back();
    n.op_type = "PassBack", n.domain = "my.app", n.op = back_rows;
    c.give(0, dx);
    return {};
}
const graft::op_row pass_rows[] = {graft::make_op("Pass", "my.app").inputs(1).functions(pass_infer, pass_run).gradient(pass_gradient).problems("f32[2,3]")};
const graft::op_table pass_operators = pass_rows;

// A small layer, the operator, and layers whose gradients fill buckets before its own is run.
graft::graph passing() {
    graft::builder b("passing", 2);
    const auto linear = [&](graft::value_id x, std::uint64_t k, std::int64_t from, std::int64_t to) {
        const graft::value_id weight = b.constant("weight" + std::to_string(k), small_steps::numbered(k, {to, from}, 0.1));
        return b.apply("Gemm", {x, weight, b.constant("bias" + std::to_string(k), small_steps::numbered(k + 10, {to}, 0.1))},
                       {graft::integer_attribute("transB", 1)});
    };
    graft::value_id x = b.apply("Pass", {linear(b.input("input", graft::dtype::float32, {"N", 16}), 1, 16, 64)});
    x = b.apply("Relu", {linear(x, 2, 64, 1024)});
    b.output(linear(x, 3, 1024, 10), "logits");
    graft::graph g = b.finish();
    for (graft::node& n : g.nodes)
        if (n.op_type == "Pass") n.domain = "my.app";
    g.opsets.push_back({"my.app", 1});
    return graft::load(std::move(g), graft::on_device(nullptr, pass_operators)).value().graph();
}

// A step of each member of a group, which has a thread each; `behind` is called where it has ended.
struct ending {
    graft::status status;
    double seconds = 0, waited = 0;
};
std::vector<ending> one_step(int size, double timeout, const graft::graph& g, int absent = -1, bool overlap = true) {
    std::vector<ending> ends(static_cast<std::size_t>(size));
    each(graft::make_thread_group(size, timeout), [&](graft::communicator& me) {
        ending& end = ends[static_cast<std::size_t>(me.rank())];
        if (me.rank() == absent) return;
        graft::step_options o;
        o.operators = pass_operators;
        o.overlap = overlap;
        o.group = std::shared_ptr<graft::communicator>(&me, [](graft::communicator*) {});
        auto made = graft::training_step::make(g, graft::logits_of(g), graft::parameters_of(g), o);
        if (!made.ok()) {
            end.status = made.take_status();
            return;
        }
        const graft::member_shards own = graft::member_shards::of(me.rank(), size, o.shards);
        const std::int64_t n = own.end(16, o.shards) - own.begin(16, o.shards);
        const graft::tensor x = small_steps::numbered(1, {n, 16});
        graft::tensor targets = graft::tensor::zeros(graft::dtype::float32, {n, 10});
        for (std::int64_t i = 0; i < n; ++i) targets.data<float>()[i * 10 + i % 10] = 1;
        graft::step_input in;
        in.inputs = &x, in.targets = &targets;
        in.scale = 1.0 / 16, in.learning_rate = 0.01, in.first = own.begin(16, o.shards), in.samples = 16;
        graft::executor alone;
        const auto began = std::chrono::steady_clock::now();
        end.status = made->run(in, alone);
        end.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
        end.waited = me.waited_seconds();
        if (!end.status.ok()) me.leave(end.status.error());
    });
    return ends;
}

// A trace as its file tells it.
struct event {
    int member = 0, thread = 0;
    double begin = 0, end = 0;
    std::string op, node;
    std::int64_t bytes = 0;
};
std::vector<event> events_of(const std::string& text) {
    const auto parsed = graft::parse_json(text, "trace");
    REQUIRE_MESSAGE(parsed.ok(), std::string(parsed.ok() ? "" : parsed.error().what()));
    const graft::json* list = parsed->find("traceEvents");
    REQUIRE(list != nullptr);
    std::vector<event> all;
    for (const graft::json& e : list->items) {
        for (const char* key : {"ph", "pid", "tid", "name", "args"}) REQUIRE(e.find(key) != nullptr);
        if (e.find("ph")->string == "M") continue;
        REQUIRE(e.find("ph")->string == "X");
        event made;
        made.member = static_cast<int>(e.find("pid")->integer), made.thread = static_cast<int>(e.find("tid")->integer);
        made.begin = e.find("ts")->real, made.end = made.begin + e.find("dur")->real;
        made.op = e.find("args")->find("op")->string, made.node = e.find("args")->find("node")->string;
        made.bytes = e.find("args")->find("bytes")->integer;
        CHECK(made.begin >= 0);
        CHECK(made.end >= made.begin);
        all.push_back(made);
    }
    return all;
}
// How often an exchange of this member goes on while a node of the backward pass runs there.
int overlaps(const std::vector<event>& all, int member) {
    int found = 0;
    for (const event& e : all)
        for (const event& n : all)
            found += e.member == member && n.member == member && e.thread == graft::trace_recorder::exchange && n.thread == graft::trace_recorder::compute &&
                     n.node.rfind("gradient/", 0) == 0 && n.begin < e.end && e.begin < n.end;
    return found;
}

}  // namespace

TEST_CASE("what members start is added up beside their other calls, by the tree of their shards") {
    for (int size : {1, 2, 3, 4, 7}) {
        const std::vector<std::int64_t> counts{5000, 1, 70000, 333};
        std::vector<std::vector<std::vector<float>>> data(static_cast<std::size_t>(size));
        for (int m = 0; m < size; ++m)
            for (std::size_t a = 0; a < counts.size(); ++a) {
                data[static_cast<std::size_t>(m)].emplace_back();
                for (std::int64_t i = 0; i < counts[a]; ++i) data[static_cast<std::size_t>(m)][a].push_back(number(m + 31 * static_cast<int>(a), i));
            }
        const auto before = data;
        std::atomic<int> wrong{0};
        each(graft::make_thread_group(size), [&](graft::communicator& me) {
            auto& mine = data[static_cast<std::size_t>(me.rank())];
            wrong += !me.overlaps();
            for (int round = 0; round < 2; ++round) {
                mine = before[static_cast<std::size_t>(me.rank())];
                for (std::size_t a = 0; a < counts.size(); ++a) {
                    if (me.rank() == round) pause(5);
                    wrong += !me.start({mine[a].data(), counts[a], "sum"}).ok();
                    std::vector<int> ranks(static_cast<std::size_t>(size), -1);
                    const int own = me.rank();
                    wrong += !me.all_gather(&own, sizeof own, ranks.data()).ok();
                    for (int r = 0; r < size; ++r) wrong += ranks[static_cast<std::size_t>(r)] != r;
                }
                for (std::size_t a : {2u, 0u, 1u, 3u}) wrong += !me.finish(mine[a].data()).ok();
                wrong += !me.settle(nullptr).ok();
            }
        });
        for (std::size_t a = 0; a < counts.size(); ++a)
            for (std::size_t i = 0; i < static_cast<std::size_t>(counts[a]); ++i) {
                const float expected = graft::join_members<float>(
                    0, size, [&](int m) { return before[static_cast<std::size_t>(m)][a][i]; }, [](float x, float y) { return x + y; });
                for (const auto& of : data) wrong += of[a][i] != expected;
            }
        CHECK(wrong == 0);
    }
}

TEST_CASE("steps learn the same bytes with exchanges beside the backward pass and without") {
    const auto check = [](const graft::graph& g, graft::step_options o, const std::vector<std::int64_t>& batches, std::int64_t least) {
        const std::string alone = steps(g, o, 0, batches).bits;
        for (int replicas : {2, 3, 4}) {
            INFO(replicas << " replicas");
            o.overlap = true;
            const outcome_of_steps beside = steps(g, o, replicas, batches);
            o.overlap = false;
            const outcome_of_steps between = steps(g, o, replicas, batches);
            CHECK(beside.bits == alone);
            CHECK(between.bits == alone);
            CHECK(beside.exchanged >= least * replicas * static_cast<std::int64_t>(batches.size()));
            CHECK(between.exchanged == 0);
        }
    };
    graft::step_options o;
    // Batches that are shared unevenly, and of which members get nothing.
    SUBCASE("LeNet") { check(architecture("lenet", 28), o, {16, 11, 2, 1, 16}, 1); }
    SUBCASE("batch normalisation over all of them") { check(architecture("resnet20", 32), o, {16, 5, 2, 1}, 4); }
    SUBCASE("clipping of gradients, averaged weights") {
        o.optimizer.clip_norm = 0.5f;
        o.optimizer.ema_decay = 0.9;
        check(small_steps::group_norm_dropout(), o, {16, 7}, 1);
    }
}

TEST_CASE("who waits for sums is told, and who computes meanwhile waits for nothing") {
    std::vector<double> waited(3);
    for (bool computes : {false, true}) {
        each(graft::make_thread_group(3), [&](graft::communicator& me) {
            std::vector<float> sum(1000, 1.0f);
            if (me.rank() == 1) pause(400);
            CHECK(me.start({sum.data(), 1000, "sum"}).ok());
            if (me.rank() != 1 && computes) pause(700);
            CHECK(me.finish(sum.data()).ok());
            CHECK(me.settle(nullptr).ok());
            CHECK(sum[999] == 3.0f);
            waited[static_cast<std::size_t>(me.rank())] = me.waited_seconds();
        });
        CHECK(waited[1] < 0.2);
        for (std::size_t r : {0u, 2u}) CHECK((computes ? waited[r] < 0.2 : waited[r] > 0.2 && waited[r] < 5));
    }
}

TEST_CASE("a member that fails while sums are under way ends the steps of all, and is named") {
    const graft::graph g = passing();
    SUBCASE("nobody fails") {
        for (const ending& e : one_step(3, 20, g)) CHECK_MESSAGE(e.status.ok(), std::string(e.status.ok() ? "" : e.status.error().what()));
    }
    SUBCASE("a node of its backward pass refuses what it is given") {
        for (bool overlap : {true, false}) {
            failing = 1;
            const std::vector<ending> ends = one_step(3, 20, g, -1, overlap);
            failing = -1;
            REQUIRE(!ends[1].status.ok());
            CHECK(ends[1].status.error().code() == graft::errc::op_value);
            for (std::size_t r : {0u, 2u}) {
                REQUIRE(!ends[r].status.ok());
                CHECK(ends[r].status.error().code() == graft::errc::dist_peer_lost);
                const std::string said = ends[r].status.error().what();
                CHECK_MESSAGE(said.find("member 1") != std::string::npos, said);
                CHECK_MESSAGE(said.find("told to fail") != std::string::npos, said);
                CHECK(ends[r].seconds < 10);
            }
        }
    }
    SUBCASE("it never comes") {
        const std::vector<ending> ends = one_step(3, 0.3, g, 1);
        for (std::size_t r : {0u, 2u}) {
            REQUIRE(!ends[r].status.ok());
            const graft::errc code = ends[r].status.error().code();
            CHECK((code == graft::errc::dist_timeout || code == graft::errc::dist_peer_lost));
            CHECK(std::string(ends[r].status.error().what()).find("member 1 did not come") != std::string::npos);
            CHECK(ends[r].seconds < 10);
        }
    }
    SUBCASE("it leaves before it starts what the others have started") {
        std::vector<graft::status> ends(3);
        each(graft::make_thread_group(3), [&](graft::communicator& me) {
            std::vector<float> one(70000, 1.0f), two = one;
            graft::status& end = ends[static_cast<std::size_t>(me.rank())];
            if (me.rank() == 1) {
                pause(50);
                me.leave(graft::error(graft::errc::file_open, "photo.jpg", "it is gone"));
                return;
            }
            CHECK(me.start({one.data(), 70000, "one"}).ok());
            CHECK(me.start({two.data(), 70000, "two"}).ok());
            end = me.finish(two.data());
            const graft::status settled = me.settle(end.ok() ? nullptr : &end.error());
            CHECK(!settled.ok());
            // After an error nothing succeeds any more.
            (void)me.start({one.data(), 70000, "one"});
            CHECK(!me.finish(one.data()).ok());
            CHECK(!me.settle(nullptr).ok());
        });
        for (std::size_t r : {0u, 2u}) {
            REQUIRE(!ends[r].ok());
            CHECK(ends[r].error().code() == graft::errc::dist_peer_lost);
            CHECK(std::string(ends[r].error().what()).find("photo.jpg: it is gone") != std::string::npos);
        }
    }
    SUBCASE("members start different sums") {
        std::vector<graft::status> ends(2);
        each(graft::make_thread_group(2), [&](graft::communicator& me) {
            std::vector<float> sum(8, 1.0f);
            CHECK(me.start({sum.data(), 4 + 4 * me.rank(), "sum"}).ok());
            ends[static_cast<std::size_t>(me.rank())] = me.finish(sum.data());
            CHECK(!me.settle(nullptr).ok());
        });
        for (const graft::status& s : ends) {
            REQUIRE(!s.ok());
            CHECK(s.error().code() == graft::errc::dist_mismatch);
        }
    }
    SUBCASE("replicas begin anew behind it") {
        graft::step_options o;
        o.operators = pass_operators;
        const std::string alone = steps(g, o, 0, {16, 16}).bits;
        for (bool overlap : {true, false}) {
            CAPTURE(overlap);
            graft::replica_options how;
            how.replicas = 3, how.overlap = overlap;
            o.replicas = graft::make_replicas(how);
            small_steps::trained t(g, o);
            // The others have exchanged what they could meanwhile, but updates stand behind all exchanges: nothing was changed.
            for (std::atomic<int>* fails : {&failing, &failing_late}) {
                *fails = 2;
                CHECK(!t.run(0, 16, 2));
                *fails = -1;
                CHECK_MESSAGE(t.error().find("told to fail") != std::string::npos, t.error());
            }
            for (std::int64_t i : {0, 1}) CHECK_MESSAGE(t.run(i, 16, 2), t.error());
            CHECK(t.bits() == alone);
        }
    }
}

TEST_CASE("a trace shows exchanges beside nodes of the backward pass") {
    graft::step_options o;
    o.operators = pass_operators;
    o.trace = std::make_shared<graft::trace_recorder>();
    graft::replica_options how;
    how.replicas = 2, how.overlap = true;
    const graft::graph g = passing();
    const auto traced = [&](bool overlap) {
        o.overlap = overlap;
        o.trace = std::make_shared<graft::trace_recorder>();
        o.replicas = graft::make_replicas(how);
        small_steps::trained t(g, o);
        REQUIRE(t.run(0, 16, 2));
        const std::string before = o.trace->events();
        CHECK(before.empty());
        o.trace->start();
        busy = 0, late = 1;
        REQUIRE(t.run(1, 16, 2));
        busy = late = -1;
        o.trace->stop();
        const std::string text = graft::trace_file(2, o.trace->events());
        REQUIRE(t.run(2, 16, 2));
        CHECK(graft::trace_file(2, o.trace->events()) == text);
        return events_of(text);
    };
    const std::vector<event> beside = traced(true), between = traced(false);
    // Member 0 has started what its last layers gave, and computes on while it waits for member 1.
    CHECK(overlaps(beside, 0) > 0);
    CHECK(overlaps(between, 0) == 0);
    CHECK(overlaps(between, 1) == 0);
    std::int64_t exchanged[2] = {0, 0}, learning = 0;
    for (const event& e : beside)
        if (e.thread == graft::trace_recorder::exchange) exchanged[e.member] += e.bytes;
    for (const graft::parameter& p : graft::parameters_of(g)) learning += g.at(p.id).constant.elements();
    for (std::int64_t bytes : exchanged) CHECK(bytes == (learning + 1) * 4);  // and the loss
    for (const char* op : {"AllReduceStart", "AllReduceEnd", "PassBack"})
        for (int member : {0, 1})
            CHECK(std::count_if(beside.begin(), beside.end(), [&](const event& e) { return e.op == op && e.member == member && e.thread == 0; }) > 0);
}

TEST_CASE("a trace takes down as many spans as it has room for") {
    graft::trace_recorder three(3);
    graft::trace_span s;
    s.name = "a \"name\"";
    s.begin = s.end = graft::detail::seconds_now() + 1;
    three.add(s);
    three.start();
    for (int i = 0; i < 4; ++i) three.add(s);
    CHECK(three.left_out() == 1);
    CHECK(events_of(graft::trace_file(1, three.events())).size() == 3);
    CHECK(events_of(graft::trace_file(4, "")).empty());
}

TEST_CASE("a run writes the trace that it is told to, and learns the same") {
    made_folder folder;
    put_pictures(folder);
    graft::trainer_options o = small_options(folder.path + "/plain");
    const outcome plain = trained(folder, o, small_network("none"));
    graft::replica_options how;
    how.replicas = 2, how.overlap = true;
    for (int replicas : {1, 2}) {
        if (replicas > 1) o.step.replicas = graft::make_replicas(how);
        o.out = folder.path + "/traced" + std::to_string(replicas);
        o.trace = folder.path + "/trace" + std::to_string(replicas) + ".json";
        CHECK(trained(folder, o, small_network("none")).model == plain.model);
        const std::vector<event> all = events_of(file(o.trace));
        for (int member = 0; member < replicas; ++member) {
            // 15 steps, three of them to warm up.
            const auto updates = std::count_if(all.begin(), all.end(), [&](const event& e) { return e.member == member && e.op == "AllReduceStart"; });
            CHECK(updates == (replicas > 1 ? 12 : 0));
            CHECK(std::any_of(all.begin(), all.end(), [&](const event& e) { return e.member == member && e.node.rfind("gradient/", 0) == 0; }));
        }
        CHECK(std::none_of(all.begin(), all.end(), [&](const event& e) { return e.member >= replicas; }));
    }
    o.step.replicas = nullptr;
    o.out = folder.path + "/none";
    o.trace = folder.path + "/no such folder/trace.json";
    const graft::dataset_splits data = graft::open_splits(folder.path + "/data");
    graft::training_observer watcher;
    const auto made = graft::train(small_network("none"), data, o, watcher);
    REQUIRE(!made.ok());
    CHECK(made.error().code() == graft::errc::file_write);
}
