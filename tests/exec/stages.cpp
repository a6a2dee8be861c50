// Networks that run in stages: the bits of one place, memory that no stage has, batches in order, and what cannot be cut.
#include "../wait_until.hpp"
#include "nets.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstring>

using graft::errc;

namespace {

graft::load_options in_stages(int stages, int parts) {
    graft::load_options o;
    o.stages = std::vector<std::shared_ptr<graft::device>>(static_cast<std::size_t>(stages));
    o.parts = parts;
    return o;
}
bool equal(const graft::tensor& a, const graft::tensor& b) {
    return a.type() == b.type() && a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}
graft::tensor batch(const graft::model& m, std::int64_t samples, std::uint64_t seed, std::int64_t open = 64) {
    nets::numbers random{seed};
    graft::shape s = m.inputs()[0].extents;
    for (int d = 0; d < s.rank(); ++d)
        if (s[d] < 0) s[d] = d ? open : samples;
    return nets::random_tensor(s, random, -1, 1, m.inputs()[0].type);
}

// Three convolutions, a residual sum, pooling and a product of matrices.
graft::graph residual_net() {
    nets::numbers random{7};
    graft::builder b("residual", 13);
    graft::value_id x = b.input("x", graft::dtype::float32, {"N", 3, 16, 16});
    const auto weight = [&](const char* name, const graft::shape& s) { return b.constant(name, nets::random_tensor(s, random, -0.3, 0.3)); };
    x = b.apply("Relu", {b.apply("Conv", {x, weight("w0", {16, 3, 3, 3})}, {graft::integers_attribute("pads", {1, 1, 1, 1})})});
    graft::value_id y = b.apply("Relu", {b.apply("Conv", {x, weight("w1", {16, 16, 3, 3})}, {graft::integers_attribute("pads", {1, 1, 1, 1})})});
    y = b.apply("Conv", {y, weight("w2", {16, 16, 3, 3})}, {graft::integers_attribute("pads", {1, 1, 1, 1})});
    x = b.apply("Relu", {b.apply("Add", {x, y})});
    x = b.apply("Flatten", {b.apply("GlobalAveragePool", {x})});
    b.output(b.apply("MatMul", {x, weight("w3", {16, 10})}), "logits");
    return b.finish();
}
// A token that is learnt stands in front of those of each sample, as in vision transformers: it is repeated by the size of the batch.
graft::graph class_token_net() {
    nets::numbers random{3};
    graft::builder b("token", 13);
    const graft::value_id x = b.input("x", graft::dtype::float32, {"N", 4, 8});
    const graft::value_id first = b.apply("Gather", {b.apply("Shape", {x}), b.constant("zero", nets::integers({0}))}, {graft::integer_attribute("axis", 0)});
    const graft::value_id extents = b.apply("Concat", {first, b.constant("rest", nets::integers({1, 8}))}, {graft::integer_attribute("axis", 0)});
    const graft::value_id token = b.apply("Expand", {b.constant("token", nets::random_tensor({1, 1, 8}, random)), extents});
    graft::value_id y = b.apply("Concat", {token, x}, {graft::integer_attribute("axis", 1)});
    y = b.apply("MatMul", {y, b.constant("w0", nets::random_tensor({8, 8}, random))});
    y = b.apply("Softmax", {b.apply("MatMul", {y, b.apply("Transpose", {y}, {graft::integers_attribute("perm", {0, 2, 1})})})},
                {graft::integer_attribute("axis", -1)});
    b.output(y, "attention");
    return b.finish();
}
graft::graph with_last(const char* op, std::vector<graft::attribute> attributes) {
    nets::numbers random{5};
    graft::builder b("mixes", 13);
    graft::value_id x = b.input("x", graft::dtype::float32, {"N", 8});
    x = b.apply("MatMul", {x, b.constant("w0", nets::random_tensor({8, 8}, random))});
    x = b.apply(op, {x}, std::move(attributes));
    b.output(b.apply("MatMul", {x, b.constant("w1", nets::random_tensor({8, 4}, random))}), "y");
    return b.finish();
}

// Every output of every batch is that of the network in one piece.
void check_bits(const graft::graph& g, const std::vector<std::int64_t>& batches) {
    const graft::model whole = graft::load(g);
    graft::session one(whole);
    for (const int stages : {2, 3})
        for (const int parts : {1, 2, 3, 8}) {
            const graft::model cut = graft::load(g, in_stages(stages, parts));
            graft::session several(cut);
            for (const std::int64_t samples : batches) {
                INFO(g.name << ", " << stages << " stages, " << parts << " parts, batch " << samples);
                const graft::tensor in = batch(whole, samples, static_cast<std::uint64_t>(samples));
                for (int again = 0; again < 2; ++again) {
                    auto ran = several.run(in);
                    REQUIRE_MESSAGE(ran.ok(), std::string(ran.ok() ? "" : ran.error().what()));
                    CHECK(equal(*ran, one.run(in).value()));
                }
            }
        }
}

}  // namespace

TEST_CASE("A network in stages gives the bits of the network in one piece, in any number of parts") {
    check_bits(residual_net(), {8, 1, 5});
    check_bits(class_token_net(), {6, 1});
    check_bits(graft::load(nets::demo_model()).value().graph(), {8, 3});
}

TEST_CASE("Networks of the pack give the same bits in stages") {
    const std::string folder = nets::shared();
    if (folder.empty()) {
        MESSAGE("skipped: no ../shared");
        return;
    }
    for (const char* name :
         {"mnist-8", "mlperftiny_resnet8_fp32_op12", "mobilenetv2_100_224_fp32_op12", "mobilenetv1_025_128_qdq_op13", "resnet20_cifar10_fp32_op11"}) {
        INFO(std::string(name));
        graft::load_options opening;
        opening.open_batch = true;
        const graft::graph g = graft::load(folder + "/pack/models/" + name + ".onnx", opening).value().graph();
        const graft::model whole = graft::load(g);
        const graft::tensor in = batch(whole, 4, 1);
        const graft::tensor expected = graft::session(whole).run(in).value();
        for (const int stages : {2, 3})
            for (const int parts : {1, 4}) {
                CAPTURE(stages);
                CAPTURE(parts);
                const graft::model cut = graft::load(g, in_stages(stages, parts));
                auto ran = graft::session(cut).run(in);
                REQUIRE_MESSAGE(ran.ok(), std::string(ran.ok() ? "" : ran.error().what()));
                CHECK(equal(*ran, expected));
            }
    }
}

TEST_CASE("A network that fits no single place runs in stages of the same limit") {
    // The work is at the front, the weights at the end: a cut by work alone gives the last stage more than it may have.
    nets::numbers random{11};
    graft::builder b("heavy", 13);
    graft::value_id x = b.input("x", graft::dtype::float32, {"N", 8, 16, 16});
    for (const char* name : {"c0", "c1", "c2", "c3"})
        x = b.apply("Relu",
                    {b.apply("Conv", {x, b.constant(name, nets::random_tensor({8, 8, 5, 5}, random))}, {graft::integers_attribute("pads", {2, 2, 2, 2})})});
    x = b.apply("Flatten", {b.apply("GlobalAveragePool", {x})});
    x = b.apply("MatMul", {x, b.constant("up", nets::random_tensor({8, 256}, random))});
    for (const char* name : {"w0", "w1", "w2", "w3"}) x = b.apply("Relu", {b.apply("MatMul", {x, b.constant(name, nets::random_tensor({256, 256}, random))})});
    b.output(x, "y");
    const graft::graph g = b.finish();
    const graft::model whole = graft::load(g);
    std::vector<graft::value_info> inputs = whole.inputs();
    const graft::tensor in = batch(whole, 2, 2);
    inputs[0].extents = in.shape();
    const graft::model::memory_use use = whole.memory(inputs).value();
    const std::int64_t limit = (use.arena + use.constants) * 2 / 3;
    graft::load_options alone;
    alone.limits.memory_bytes = limit;
    const auto one = graft::load(g, alone);
    REQUIRE((!one.ok() || !graft::session(one.value()).run(in).ok()));

    graft::load_options o = in_stages(2, 2);
    const std::vector<graft::stage_use> by_work = graft::load(g, o).value().stages(inputs).value();
    CHECK(by_work[1].bytes > limit);
    o.stage_bytes = limit;
    const graft::model cut = graft::load(g, o);
    graft::session session(cut);
    auto ran = session.run(in);
    REQUIRE_MESSAGE(ran.ok(), std::string(ran.ok() ? "" : ran.error().what()));
    CHECK(equal(*ran, graft::session(whole).run(in).value()));
    const std::vector<graft::stage_use> planned = cut.stages(inputs).value(), done = session.stages();
    REQUIRE(planned.size() == 2);
    REQUIRE(done.size() == 2);
    std::int64_t products = 0;
    for (std::size_t s = 0; s < 2; ++s) {
        CHECK(planned[s].device == "cpu:" + std::to_string(s));
        CHECK(planned[s].bytes <= limit);
        CHECK(planned[s].bytes == done[s].bytes);
        CHECK(planned[s].nodes > 0);
        CHECK(done[s].busy_seconds > 0);
        products += planned[s].multiply_adds;
    }
    CHECK(products == use.multiply_adds);
    CHECK(std::string(cut.device()) == "cpu");

    o.stage_bytes = limit / 64;
    const auto none = graft::session(graft::load(g, o).value()).run(in);
    REQUIRE(!none.ok());
    CHECK(none.error().code() == errc::memory_budget);
    CHECK(std::string(none.error().what()).find("stage ") != std::string::npos);
}

TEST_CASE("Placements name the stages, and each has layers") {
    const graft::model cut = graft::load(residual_net(), in_stages(3, 1));
    std::vector<graft::value_info> inputs = cut.inputs();
    inputs[0].extents[0] = 2;
    int layers[3] = {0, 0, 0};
    for (const graft::placement& p : cut.placements(inputs).value())
        for (int s = 0; s < 3; ++s) layers[s] += p.device == "cpu:" + std::to_string(s);
    for (const int count : layers) CHECK(count > 0);
}

TEST_CASE("Batches under way in several sessions of a network in stages come back in their order") {
    const graft::graph g = residual_net();
    const graft::model whole = graft::load(g), cut = graft::load(g, in_stages(2, 2));
    graft::session one(whole);
    graft::session_pool pool = graft::session_pool::make({cut, cut}, {2, -1}).value();
    std::vector<graft::tensor> in;
    for (int i = 0; i < 9; ++i) in.push_back(batch(whole, i == 8 ? 3 : 8, static_cast<std::uint64_t>(i)));
    for (std::size_t given = 0, taken = 0; taken < in.size(); ++taken) {
        for (; given < in.size() && !pool.full(); ++given) REQUIRE(pool.submit({in[given]}).ok());
        CHECK(equal(pool.take().value().outputs[0], one.run(in[taken]).value()));
    }
}

TEST_CASE("Parts are refused where samples are not computed apart, and stages where there is nothing to cut") {
    const auto refused = [](const graft::graph& g, const graft::load_options& o, std::int64_t samples, errc code, const char* says) {
        auto made = graft::load(g, o);
        graft::status failed = made.ok() ? graft::status() : graft::status(made.error());
        if (made.ok()) {
            auto ran = graft::session(made.value()).run(batch(made.value(), samples, 1));
            REQUIRE(!ran.ok());
            failed = graft::status(ran.error());
        }
        INFO(failed.error().what());
        CHECK(failed.error().code() == code);
        CHECK(std::string(failed.error().what()).find(says) != std::string::npos);
    };
    // A softmax over the batch, and a division by its size.
    refused(with_last("Softmax", {graft::integer_attribute("axis", 0)}), in_stages(2, 2), 4, errc::graph_fixed_batch, "--parts 1");
    graft::builder b("mean", 13);
    graft::value_id x = b.input("x", graft::dtype::float32, {"N", 8});
    nets::numbers random{5};
    x = b.apply("MatMul", {x, b.constant("w0", nets::random_tensor({8, 8}, random))});
    const graft::value_id size =
        b.apply("Cast", {b.apply("Gather", {b.apply("Shape", {x}), b.constant("zero", nets::integers({0}))})}, {graft::integer_attribute("to", 1)});
    x = b.apply("Div", {x, size});
    b.output(b.apply("MatMul", {x, b.constant("w1", nets::random_tensor({8, 4}, random))}), "y");
    const graft::graph by_size = b.finish();
    refused(by_size, in_stages(2, 2), 4, errc::graph_fixed_batch, "follows the size of the batch");
    // Whole, both go through.
    for (const graft::graph& g : {with_last("Softmax", {graft::integer_attribute("axis", 0)}), by_size}) {
        const graft::model whole = graft::load(g), cut = graft::load(g, in_stages(2, 1));
        const graft::tensor in = batch(whole, 4, 9);
        CHECK(equal(graft::session(cut).run(in).value(), graft::session(whole).run(in).value()));
    }
    refused(residual_net(), in_stages(60, 1), 2, errc::usage, "cannot be cut into 60 stages");
    refused(residual_net(), in_stages(1, 1), 2, errc::usage, "2 to 64 stages");
    refused(residual_net(), in_stages(65, 1), 2, errc::usage, "2 to 64 stages");
    refused(residual_net(), in_stages(2, 257), 2, errc::usage, "1 to 256 parts");
    refused(residual_net(), in_stages(2, 0), 2, errc::usage, "1 to 256 parts");
    graft::load_options o = in_stages(2, 1);
    o.reference = true;
    refused(residual_net(), o, 2, errc::usage, "without reference kernels");
    o = in_stages(0, 2);
    refused(residual_net(), o, 2, errc::usage, "none are given");
}

// An operator that tells which part of the batch it is at, so that what runs beside what can be seen.
namespace {
std::atomic<bool> meeting{false};
std::atomic<int> parts_of[2], under_way{0}, met{0};
graft::status meet_infer(graft::infer_context& c) { return c.set(0, c.in[0].type, c.in[0].extents); }
// While the first stage is at the second part, the other is at the first: each waits until the other has come as far, or gives up.
graft::status meet_run(graft::run_context& c) {
    const int stage = static_cast<int>(c.integer("stage", 0));
    if (meeting && parts_of[stage]++ == 1 - stage) {
        ++under_way;
        met += wait_until([] { return under_way == 2; });
    }
    std::copy_n(c.in[0].as<float>(), c.in[0].elements(), c.out[0].as<float>());
    return {};
}
const graft::op_row meet_rows[] = {graft::make_op("Meet", "my.app").inputs(1).functions(meet_infer, meet_run).elementwise().attributes("stage:i")};
const graft::op_table meet_operators = meet_rows;
}  // namespace

TEST_CASE("Two parts are enough for two stages to work beside each other, also where two values cross in another layout") {
    // What crosses is blocked by channels inside of a stage, and read by both branches of the next.
    nets::numbers random{7};
    graft::builder b("beside", 13);
    const auto conv = [&](graft::value_id v, const char* name) {
        return b.apply("Relu", {b.apply("Conv", {v, b.constant(name, nets::random_tensor({16, 16, 3, 3}, random, -0.3, 0.3))},
                                        {graft::integers_attribute("pads", {1, 1, 1, 1})})});
    };
    graft::value_id x = conv(b.input("x", graft::dtype::float32, {"N", 16, 16, 16}), "w0");
    x = b.apply("Identity", {x});
    x = b.apply("Add", {conv(x, "w1"), x});
    graft::value_id y = conv(x, "w2");
    y = b.apply("Identity", {b.apply("Add", {conv(y, "w3"), x})});
    b.output(conv(y, "w4"), "y");
    graft::graph g = b.finish();
    g.opsets.push_back({"my.app", 1});
    int stage = 0;
    for (graft::node& n : g.nodes)
        if (n.op_type == "Identity") {
            n.op_type = "Meet", n.domain = "my.app", n.version = 1;
            n.attributes = {graft::integer_attribute("stage", stage++)};
        }
    graft::load_options o = in_stages(2, 2), alone;
    o.operators = alone.operators = meet_operators;
    const graft::model cut = graft::load(g, o), whole = graft::load(g, alone);
    const graft::tensor in = batch(whole, 4, 3);
    const graft::tensor expected = graft::session(whole).run(in).value();
    meeting = true;
    CHECK(equal(graft::session(cut, {2, nullptr}).run(in).value(), expected));
    meeting = false;
    CHECK(met == 2);
}
