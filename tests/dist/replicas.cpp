// Training steps spread over replicas in one process: the bits of a step that is not spread.
#include "../train/small_steps.hpp"

#include <graft/dist.hpp>

namespace {

using small_steps::architecture;
using small_steps::trained;

// Steps over batches of these sizes; empty where one failed.
std::string bits_after(const graft::graph& g, graft::step_options o, int replicas, const std::vector<std::int64_t>& batches, bool central = false) {
    o.central_variables = central;
    graft::replica_options how;
    how.replicas = replicas;
    if (replicas) o.replicas = graft::make_replicas(how);
    trained t(g, o);
    for (std::size_t i = 0; i < batches.size(); ++i) {
        t.run(static_cast<std::int64_t>(i), batches[i], 2);
        REQUIRE_MESSAGE(t.last.ok(), t.error());
    }
    return t.bits();
}
void check_equal(const graft::graph& g, const graft::step_options& o, const std::vector<std::int64_t>& batches) {
    const std::string alone = bits_after(g, o, 0, batches);
    for (int replicas : {1, 2, 3, 4, 8}) {
        if (replicas > o.shards) continue;
        INFO(replicas << " replicas");
        CHECK(bits_after(g, o, replicas, batches) == alone);
        CHECK_MESSAGE(bits_after(g, o, replicas, batches, true) == alone, "central variables");
    }
}

}  // namespace

TEST_CASE("replicas give the bits of one, whatever the batch is cut into") {
    const std::vector<std::int64_t> ragged{16, 11, 5, 1, 16};
    graft::step_options o;
    SUBCASE("convolutions") { check_equal(architecture("lenet", 28), o, ragged); }
    SUBCASE("batch normalisation over all of them, Winograd") { check_equal(architecture("resnet20", 32), o, ragged); }
    SUBCASE("depthwise convolutions, clip") { check_equal(architecture("mobilenet_v2", 32), o, {8, 3, 1}); }
    SUBCASE("group normalisation and dropout") { check_equal(small_steps::group_norm_dropout(), o, ragged); }
    SUBCASE("a learned table that is added to every sample, whose gradient is also passed on") {
        graft::builder b("table", 6);
        graft::conv2d_options conv;
        conv.kernel = 4, conv.stride = 4, conv.name = "patches";
        graft::value_id x = b.conv2d(b.input("input", graft::dtype::float32, {"N", 3, 8, 8}), 6, conv);
        x = b.apply("Add", {x, b.constant("table", small_steps::numbered(80, {1, 6, 2, 2}))});
        x = b.apply("Flatten", {b.apply("Relu", {x})});
        x = b.apply("Gemm", {x, b.constant("fc.weight", small_steps::numbered(81, {5, 24})), b.constant("fc.bias", small_steps::numbered(82, {5}))},
                    {graft::integer_attribute("transB", 1)});
        b.output(x, "logits");
        graft::graph g = b.finish();
        g.at(x).type = graft::dtype::float32;
        g.at(x).has_shape = true;
        g.at(x).extents = {graft::shape::unknown, 5};
        check_equal(small_steps::loaded(std::move(g)), o, {8, 3, 1, 2});
    }
    SUBCASE("more shards, clipping of gradients, averaged weights") {
        o.shards = 32;
        o.optimizer.clip_norm = 0.5f;
        o.optimizer.ema_decay = 0.9;
        check_equal(small_steps::group_norm_dropout(), o, {40, 7});
    }
    SUBCASE("batches in parts") {
        o.micro_batches = 1;
        const std::string alone = bits_after(small_steps::group_norm_dropout(), o, 0, ragged);
        o.micro_batches = 2;
        o.recompute = true;
        for (int replicas : {2, 4})
            for (bool central : {false, true}) CHECK(bits_after(small_steps::group_norm_dropout(), o, replicas, ragged, central) == alone);
    }
    SUBCASE("a loss that is scaled, AdamW") {
        o.loss_scaling = true;
        o.optimizer.kind = graft::optimizer_kind::adamw;
        o.optimizer.weight_decay = 0.05;
        check_equal(architecture("resnet20", 32), o, {16, 3});
    }
}

TEST_CASE("central variables are there once") {
    const graft::graph g = architecture("lenet", 28);
    const auto state_bytes = [&](bool central) {
        graft::step_options o;
        o.central_variables = central;
        graft::replica_options how;
        how.replicas = 4;
        o.replicas = graft::make_replicas(how);
        auto made = graft::training_step::make(g, graft::logits_of(g), graft::parameters_of(g), o);
        REQUIRE(made.ok());
        graft::executor pool;
        auto memory = made->prepare({16, 1, 28, 28}, pool);
        REQUIRE(memory.ok());
        return memory->state;
    };
    CHECK(state_bytes(false) == 4 * state_bytes(true));
}

TEST_CASE("replicas that are too many are refused") {
    graft::step_options o;
    graft::replica_options how;
    how.replicas = 16;
    o.replicas = graft::make_replicas(how);
    const graft::graph g = architecture("lenet", 28);
    const auto made = graft::training_step::make(g, graft::logits_of(g), graft::parameters_of(g), o);
    REQUIRE(!made.ok());
    CHECK(made.error().code() == graft::errc::usage);
    CHECK(std::string(made.error().what()).find("--shards") != std::string::npos);
}
