// Gradients that devices of the CUDA simulator exchange beside the backward pass: the bytes of those exchanged between its nodes, and how members end that
// fail while something is under way.
#include "learning.hpp"

#include "../cuda_simulator/simulated.hpp"

#include <graft/core/json.hpp>
#include <graft/dist.hpp>
#include <graft/gpu/libraries/nccl.hpp>

#include <atomic>
#include <functional>
#include <thread>

using namespace learning;

namespace {

using floats = std::vector<float>;

std::vector<std::shared_ptr<graft::device>> devices(int count) {
    std::vector<std::shared_ptr<graft::device>> all;
    graft::device_options options;
    options.precision = "float32";
    for (int d = 0; d < count; ++d) all.push_back(simulated::open(options, d));
    return all;
}

// State, loss and logits behind steps over batches of these sizes, and what was called for them.
struct outcome {
    std::string bytes;
    long waits = 0, sums = 0;
};
outcome learnt(const graft::graph& g, graft::step_options o, int replicas, bool overlap, const std::vector<std::int64_t>& batches) {
    graft::replica_options how;
    how.replicas = replicas;
    how.devices = devices(replicas);
    o.replicas = graft::make_replicas(how);
    o.overlap = overlap;
    simulated::reset();
    outcome r;
    {
        trained t(g, o);
        for (std::size_t i = 0; i < batches.size(); ++i) {
            const bool ran = t.run(static_cast<std::int64_t>(i), batches[i]);
            REQUIRE_MESSAGE(ran, t.error());
        }
        REQUIRE(t.step.read_state().ok());
        r.bytes = t.bits();
    }
    r.waits = simulated::count("call:cuStreamWaitEvent");
    r.sums = simulated::count("call:ncclAllReduce");
    const std::string report = simulated::report();
    CHECK_MESSAGE(simulated::count("problems") == 0, report);
    return r;
}
void expect_same_bytes(const graft::graph& g, const graft::step_options& o, const std::vector<std::int64_t>& batches) {
    simulated::prepare();
    for (const int replicas : {2, 4}) {
        CAPTURE(replicas);
        const outcome beside = learnt(g, o, replicas, true, batches), between = learnt(g, o, replicas, false, batches);
        CHECK(beside.bytes == between.bytes);
        CHECK(beside.waits > 0);
        CHECK(between.waits == 0);
        CHECK(beside.sums > 0);
    }
}

// A member of NCCL on a device of its own, with a stream and memory.
class member {
public:
    member(const std::shared_ptr<graft::device>& on, graft::communicator& group)
        : on_(static_cast<graft::gpu::cuda_device&>(*on)), now_(on_.driver(), on_.context()) {
        CHECK(on_.driver().cuStreamCreate(&stream, graft::gpu::api::driver::flag::stream_non_blocking) == 0);
        auto joined = graft::gpu::nccl_member::join(graft::gpu::load_nccl().functions, on_.driver(), on_.context(), group, on_.name());
        REQUIRE(joined.ok());
        nccl = joined.value();
        nccl->count_for(group);
    }
    ~member() {
        nccl.reset();
        CHECK(on_.driver().cuStreamSynchronize(stream) == 0);
        CHECK(on_.driver().cuStreamDestroy_v2(stream) == 0);
    }
    member(const member&) = delete;
    member& operator=(const member&) = delete;

    graft::gpu::device_address put(const floats& values) {
        auto taken = on_.pool().take(static_cast<std::int64_t>(values.size() * sizeof(float)), graft::gpu::purpose::state);
        REQUIRE(taken.ok());
        memory_.push_back(std::move(taken).value());
        CHECK(on_.driver().cuMemcpyHtoDAsync_v2(memory_.back().address(), values.data(), values.size() * sizeof(float), stream) == 0);
        return memory_.back().address();
    }
    floats get(graft::gpu::device_address from, std::size_t count) {
        floats values(count);
        CHECK(on_.driver().cuMemcpyDtoHAsync_v2(values.data(), from, count * sizeof(float), stream) == 0);
        CHECK(on_.driver().cuStreamSynchronize(stream) == 0);
        return values;
    }

    void* stream = nullptr;
    std::shared_ptr<graft::gpu::nccl_member> nccl;

private:
    graft::gpu::cuda_device& on_;
    graft::gpu::current_context now_;
    std::vector<graft::gpu::device_memory> memory_;
};
void on_members(int size, const std::function<void(member&, graft::communicator&)>& body) {
    simulated::prepare();
    const auto on = devices(size);
    simulated::reset();
    const auto group = graft::make_thread_group(size, 60);
    std::vector<std::thread> threads;
    for (int r = 0; r < size; ++r)
        threads.emplace_back([&, r] {
            graft::communicator& me = *group[static_cast<std::size_t>(r)];
            member m(on[static_cast<std::size_t>(r)], me);
            body(m, me);
        });
    for (std::thread& t : threads) t.join();
    const std::string report = simulated::report();
    CHECK_MESSAGE(simulated::count("problems") == 0, report);
}

// What a trace tells of exchanges: their number, their bytes, and whether each is a stretch of time.
struct exchanges {
    long count = 0;
    std::int64_t bytes = 0;
    bool sound = true;
};
exchanges exchanges_of(const std::string& file, int member) {
    const auto parsed = graft::parse_json(file, "trace");
    REQUIRE_MESSAGE(parsed.ok(), std::string(parsed.ok() ? "" : parsed.error().what()));
    exchanges all;
    for (const graft::json& e : parsed->find("traceEvents")->items) {
        if (e.find("ph")->string != "X" || e.find("tid")->integer != graft::trace_recorder::exchange || e.find("pid")->integer != member) continue;
        ++all.count;
        all.bytes += e.find("args")->find("bytes")->integer;
        all.sound &= e.find("ts")->real >= 0 && e.find("dur")->real >= 0 && e.find("args")->find("op")->string == "AllReduce" &&
                     !e.find("args")->find("node")->string.empty();
    }
    return all;
}

// An operator that no device has, which gives what it takes; its gradient fails where it is told to.
std::atomic<int> failing{-1};
graft::status pass_infer(graft::infer_context& c) { return c.set(0, c.in[0].type, c.in[0].extents); }
graft::status pass_run(graft::run_context& c) {
    std::copy_n(c.in[0].as<float>(), c.in[0].elements(), c.out[0].as<float>());
    return {};
}
graft::status back_run(graft::run_context& c) {
    if (c.group && failing == c.group->rank()) return c.fail(graft::errc::op_value, "it was told to fail");
    return pass_run(c);
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

}  // namespace

TEST_CASE("exchanges beside the backward pass of devices give the bytes of those between its nodes: convolutions, and a batch of which some have nothing") {
    expect_same_bytes(small_steps::architecture("lenet"), with(graft::optimizer_kind::sgd, nullptr), {8, 5, 1, 8});
}
TEST_CASE("exchanges beside the backward pass of devices give the bytes of those between its nodes: batch normalisation over all of them") {
    graft::step_options o = with(graft::optimizer_kind::adamw, nullptr);
    o.strict_placement = true;  // the statistics of all members too are exchanged and joined by the devices
    expect_same_bytes(small_steps::architecture("resnet20", 16), o, {8, 5, 8});
    CHECK(simulated::count("call:ncclAllGather") > 0);
}
TEST_CASE("exchanges beside the backward pass of devices give the bytes of those between its nodes: nodes of the host stand between start and end") {
    graft::step_options o = with(graft::optimizer_kind::sgd, nullptr);
    o.operators = pass_operators;
    expect_same_bytes(passing(), o, {8, 8, 3});
}

TEST_CASE("a sum that was started leaves its stream free, and who reads it waits for it on the device alone") {
    std::atomic<bool> free{false};
    on_members(2, [&](member& m, graft::communicator& me) {
        const float own = static_cast<float>(me.rank() + 1);
        const auto bucket = m.put({own, 10 * own}), other = m.put({0, 0}), small = m.put({own});
        const std::int64_t one = 1;
        if (me.rank() == 1)
            while (!free) std::this_thread::yield();  // the other's sum cannot have ended before
        REQUIRE(m.nccl->start(bucket, 2, m.stream).ok());
        // What stands behind it runs meanwhile.
        if (me.rank() == 0) {
            CHECK(m.get(other, 2) == floats{0, 0});
            free = true;
        }
        // A sum on the stream itself comes behind it, and another one that is started behind that.
        REQUIRE(m.nccl->all_reduce(&small, &small, &one, 1, m.stream).ok());
        REQUIRE(m.nccl->start(small, 1, m.stream).ok());
        REQUIRE(m.nccl->await(bucket, m.stream).ok());
        REQUIRE(m.nccl->await(small, m.stream).ok());
        const graft::status unknown = m.nccl->await(bucket, m.stream);
        REQUIRE(!unknown.ok());
        CHECK(unknown.error().code() == graft::errc::internal);
        REQUIRE(m.nccl->finish(m.stream).ok());
        CHECK(m.get(bucket, 2) == floats{3, 30});
        CHECK(m.get(small, 1) == floats{6});
        CHECK(m.nccl->settle().ok());
    });
}

TEST_CASE("sums that nobody waits for have ended when the member has settled") {
    on_members(2, [&](member& m, graft::communicator& me) {
        const auto bucket = m.put(floats(1000, static_cast<float>(me.rank() + 1)));
        for (int i = 0; i < 3; ++i) {
            REQUIRE(m.nccl->start(bucket, 1000, m.stream).ok());
            REQUIRE(m.nccl->settle().ok());
        }
        CHECK(m.get(bucket, 1000) == floats(1000, 12));
    });
}

TEST_CASE("a member whose host fails between two buckets ends by name, so do the others, and the next step begins anew") {
    simulated::prepare();
    const graft::graph g = passing();
    for (const int who : {0, 1}) {
        CAPTURE(who);
        graft::replica_options how;
        how.replicas = 2;
        how.devices = devices(2);
        graft::step_options o = with(graft::optimizer_kind::sgd, nullptr);
        o.operators = pass_operators;
        o.replicas = graft::make_replicas(how);
        trained t(g, o);
        simulated::reset();
        for (int turn = 0; turn < 3; ++turn) {
            failing = turn == 1 ? who : -1;
            const bool ran = t.run(turn, 8);
            failing = -1;
            CHECK_MESSAGE(ran == (turn != 1), t.error());
            if (turn != 1) continue;
            CHECK_MESSAGE(t.last.error().code() == graft::errc::op_value, t.error());
            t.step.state_changed();
        }
        const std::string report = simulated::report();
        CHECK_MESSAGE(simulated::count("problems") == 0, report);
    }
}

TEST_CASE("a device that fails while a bucket is under way ends the step by name, and its memory is free behind it") {
    simulated::prepare();
    const graft::graph g = small_steps::architecture("lenet");
    // Each of two devices copies seven gradients into the first bucket and four into the second. Which of them fails is chance.
    for (const char* rule : {"cuMemcpyDtoDAsync_v2:16:1", "cuMemcpyDtoDAsync_v2:19:1", "cuMemcpyDtoDAsync_v2:22:1", "ncclAllReduce:3:3", "cuEventRecord:5:1"}) {
        CAPTURE(rule);
        graft::replica_options how;
        how.replicas = 2;
        how.devices = devices(2);
        graft::step_options o = with(graft::optimizer_kind::sgd, nullptr);
        o.replicas = graft::make_replicas(how);
        trained t(g, o);
        REQUIRE(t.run(0, 8));
        simulated::reset();
        simulated::fail(rule);
        CHECK(!t.run(1, 8));
        CHECK_MESSAGE(t.last.error().code() == graft::errc::device_unavailable, t.error());
        simulated::fail(nullptr);
        t.step.state_changed();
        const bool ran = t.run(2, 8);
        CHECK_MESSAGE(ran, t.error());
        const std::string report = simulated::report();
        CHECK_MESSAGE(simulated::count("problems") == 0, report);
    }
}

TEST_CASE("a trace has the exchanges of devices by their clocks, where they stand beside the backward pass, also behind a step that failed") {
    simulated::prepare();
    const graft::graph g = passing();
    std::int64_t learning = 0;
    for (const graft::parameter& p : graft::parameters_of(g)) learning += g.at(p.id).constant.elements();
    for (const bool overlap : {true, false}) {
        CAPTURE(overlap);
        graft::replica_options how;
        how.replicas = 2;
        how.devices = devices(2);
        graft::step_options o = with(graft::optimizer_kind::sgd, nullptr);
        o.operators = pass_operators;
        o.overlap = overlap;
        o.trace = std::make_shared<graft::trace_recorder>();
        o.replicas = graft::make_replicas(how);
        trained t(g, o);
        const auto run = [&](int step, int fails) {
            failing = fails;
            const bool ran = t.run(step, 8);
            failing = -1;
            CHECK_MESSAGE(ran == (fails < 0), t.error());
        };
        const auto told = [&](int of) { return exchanges_of(graft::trace_file(2, o.trace->events()), of); };
        run(0, -1);
        CHECK(o.trace->events().empty());
        o.trace->start();
        run(1, -1);
        exchanges first[2] = {told(0), told(1)}, failed[2];
        run(2, 1);
        t.step.state_changed();
        for (const int of : {0, 1}) failed[of] = told(of);
        run(3, -1);
        o.trace->stop();
        run(4, -1);
        for (const int of : {0, 1}) {
            CAPTURE(of);
            const exchanges all = told(of);
            CHECK(all.sound);
            CHECK(first[of].count == (overlap ? 2 : 0));
            CHECK(first[of].bytes == (overlap ? (learning + 1) * 4 : 0));  // and the loss
            CHECK(failed[of].count - first[of].count < 2);                 // none of the bucket that nobody waited for
            CHECK(all.count - failed[of].count == first[of].count);
            CHECK(all.bytes - failed[of].bytes == first[of].bytes);
        }
    }
}
