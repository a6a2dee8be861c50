// Steps that go through stages: the bits of a batch in parts on one place, memory that no single stage has, and the order of turns.
#include "small_steps.hpp"

#include <graft/train/stages.hpp>

#include <cmath>
#include <set>

namespace {

using small_steps::architecture;
using small_steps::trained;

// By SGD: Adam's first steps have the size of the rate, however small a gradient is, and whatever its last bits say.
graft::step_options in_parts(int parts, int stages) {
    graft::step_options o;
    o.optimizer.kind = graft::optimizer_kind::sgd;
    o.batch_norm = false;
    o.micro_batches = parts;
    o.stages.resize(static_cast<std::size_t>(stages));
    return o;
}
std::string bits_after(const graft::graph& g, const graft::step_options& o, const std::vector<std::int64_t>& batches) {
    trained t(g, o);
    for (std::size_t i = 0; i < batches.size(); ++i) {
        t.run(static_cast<std::int64_t>(i), batches[i], 2);
        REQUIRE_MESSAGE(t.last.ok(), t.error());
    }
    return t.bits();
}
// The length of the difference of their states, by the length of these.
double distance(const trained& a, const trained& b) {
    double apart = 0, length = 0;
    for (std::size_t s = 0; s < a.step.state().size(); ++s) {
        const graft::tensor &x = a.step.state()[s].value, &y = b.step.state()[s].value;
        for (std::int64_t i = 0; i < x.elements(); ++i) {
            const double one = static_cast<double>(x.data<float>()[i]), other = static_cast<double>(y.data<float>()[i]);
            apart += (one - other) * (one - other), length += one * one;
        }
    }
    return std::sqrt(apart / length);
}
void check_equal(const graft::graph& g, int parts, const std::vector<std::int64_t>& batches) {
    const std::string alone = bits_after(g, in_parts(parts, 0), batches);
    for (const int stages : {2, 3, 4}) {
        INFO(stages << " stages, " << parts << " parts");
        CHECK(bits_after(g, in_parts(parts, stages), batches) == alone);
    }
}

}  // namespace

TEST_CASE("turns of a pipeline: each stage has every part forward and backward once, behind what it waits for, and holds as few as it can") {
    for (const int stages : {1, 2, 3, 4, 7})
        for (const int parts : {1, 2, 4, 8, 16}) {
            CAPTURE(stages);
            CAPTURE(parts);
            const std::vector<graft::pipeline_turn> turns = graft::pipeline_schedule(stages, parts);
            CHECK(turns.size() == static_cast<std::size_t>(2 * stages * parts));
            std::set<std::pair<int, int>> forward, backward;
            std::vector<int> held(static_cast<std::size_t>(stages), 0), most = held;
            for (const graft::pipeline_turn& t : turns) {
                const std::pair<int, int> own{t.stage, t.part};
                int& now = held[static_cast<std::size_t>(t.stage)];
                if (!t.backward) {
                    CHECK((t.stage == 0 || forward.count({t.stage - 1, t.part})));
                    CHECK(forward.insert(own).second);
                    most[static_cast<std::size_t>(t.stage)] = std::max(most[static_cast<std::size_t>(t.stage)], ++now);
                } else {
                    CHECK(forward.count(own) == 1);
                    CHECK((t.stage + 1 == stages || backward.count({t.stage + 1, t.part})));
                    CHECK(backward.insert(own).second);
                    --now;
                }
            }
            for (int s = 0; s < stages; ++s) CHECK(most[static_cast<std::size_t>(s)] == std::min(parts, stages - s));
        }
    CHECK(graft::pipeline_bubble(4, 8) == doctest::Approx(3.0 / 11));
}

TEST_CASE("a step through stages gives the bits of a batch in parts") {
    SUBCASE("convolutions") {
        check_equal(architecture("lenet", 28), 4, {16, 16, 11, 5});
        check_equal(architecture("lenet", 28), 8, {16, 7});
    }
    SUBCASE("dropout and group normalisation") { check_equal(small_steps::group_norm_dropout(), 2, {8, 3, 2}); }
    SUBCASE("clipping of gradients, averaged weights, Adam") {
        graft::step_options o = in_parts(4, 0), staged = in_parts(4, 3);
        for (graft::step_options* each : {&o, &staged}) {
            each->optimizer.kind = graft::optimizer_kind::adamw;
            each->optimizer.clip_norm = 0.5f;
            each->optimizer.ema_decay = 0.9;
        }
        CHECK(bits_after(architecture("lenet", 28), o, {16, 12}) == bits_after(architecture("lenet", 28), staged, {16, 12}));
    }
}

TEST_CASE("where sums over the batch read what crosses between stages, they are equal but for rounding") {
    const graft::graph g = architecture("resnet20", 16);
    for (const int stages : {2, 4}) {
        trained one(g, in_parts(4, 0)), staged(g, in_parts(4, stages));
        for (std::int64_t i = 0; i < 3; ++i) {
            REQUIRE(one.run(i, 8));
            const bool ran = staged.run(i, 8);
            REQUIRE_MESSAGE(ran, staged.error());
            CHECK(staged.step.loss() == doctest::Approx(one.step.loss()).epsilon(1e-6));
        }
        CHECK(distance(one, staged) < 1e-6);
    }
}

TEST_CASE("stages have memory of their own, none of which holds what one place would take") {
    const graft::graph g = architecture("resnet20", 32);
    graft::executor alone;
    trained one(g, in_parts(4, 0));
    const graft::step_memory whole = one.step.prepare(one.batch_shape(32), alone).value();
    // Half of the weights and of what is made for the parts under way.
    graft::step_options o = in_parts(4, 3);
    o.stage_bytes = (whole.activations + whole.state) * 3 / 4;
    trained staged(g, o);
    REQUIRE(one.run(0, 32));
    const bool ran = staged.run(0, 32);
    REQUIRE_MESSAGE(ran, staged.error());
    CHECK(staged.step.loss() == doctest::Approx(one.step.loss()).epsilon(1e-6));
    CHECK(distance(one, staged) < 1e-6);
    MESSAGE("one place takes " << whole.activations + whole.state << " bytes, each of three stages at most " << o.stage_bytes);
    o.stage_bytes /= 64;
    trained none(g, o);
    CHECK(!none.run(0, 32));
    CHECK(none.last.error().code() == graft::errc::memory_budget);
}

TEST_CASE("what cannot be a pipeline is refused by name") {
    const graft::graph g = architecture("lenet", 28);
    graft::step_options o = in_parts(2, 1);
    CHECK(!graft::training_step::make(g, graft::logits_of(g), graft::parameters_of(g), o).ok());
    o = in_parts(2, 60);
    auto made = graft::training_step::make(g, graft::logits_of(g), graft::parameters_of(g), o);
    REQUIRE(made.ok());
    graft::executor alone;
    const auto asked = made->prepare({4, 1, 28, 28}, alone);
    REQUIRE(!asked.ok());
    CHECK(std::string(asked.error().what()).find("cannot be cut into 60 stages") != std::string::npos);
}
