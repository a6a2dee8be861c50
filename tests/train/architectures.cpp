// Networks to train from scratch: numbers of weights and names as their papers and torchvision have them, and that they learn.
#include "small_steps.hpp"

namespace {

std::int64_t weights(const graft::graph& g) {
    std::int64_t n = 0;
    for (const graft::parameter& p : graft::parameters_of(g)) n += g.at(p.id).constant.elements();
    return n;
}

}  // namespace

TEST_CASE("Architectures have the numbers of weights that they are known for") {
    CHECK(weights(small_steps::architecture("lenet")) == 44426);
    // 269,722 with shortcuts that copy, and 2,752 for those that are convolutions.
    CHECK(weights(small_steps::architecture("resnet20")) == 272474);
    // torchvision.models.mobilenet_v2.
    CHECK(weights(small_steps::architecture("mobilenet_v2", 0, 1000)) == 3504872);
}

TEST_CASE("Architectures take other pictures and classes, and the same seed gives the same bytes") {
    graft::architecture_options o;
    o.channels = 1, o.height = 20, o.width = 24, o.classes = 3;
    const graft::graph g = small_steps::loaded(graft::build_architecture("resnet20", o));
    const graft::model net = graft::load(g);
    graft::session session(net);
    const graft::tensor y = session.run(small_steps::numbered(1, {2, 1, 20, 24}));
    CHECK(y.shape() == graft::shape{2, 3});
    const graft::tensor again =
        graft::session(graft::load(small_steps::loaded(graft::build_architecture("resnet20", o)))).run(small_steps::numbered(1, {2, 1, 20, 24}));
    CHECK(std::memcmp(y.raw(), again.raw(), y.bytes()) == 0);
    CHECK(graft::build_architecture("alexnet", o).error().code() == graft::errc::usage);
    o.classes = 0;
    CHECK(graft::build_architecture("lenet", o).error().code() == graft::errc::usage);
    o = {};
    o.height = o.width = 6;
    CHECK(!graft::build_architecture("lenet", o).ok());
    CHECK(std::string(graft::default_preprocess("lenet")) != "");
    CHECK(std::string(graft::default_preprocess("alexnet")) == "");
}

TEST_CASE("Architectures learn a batch by heart") {
    const struct {
        const char* name;
        std::int64_t side;
        int steps;
        double rate;
    } nets[] = {{"lenet", 0, 60, 2e-3}, {"resnet20", 16, 15, 5e-3}, {"mobilenet_v2", 32, 15, 2e-3}};
    for (const auto& net : nets) {
        INFO(std::string(net.name));
        small_steps::trained t(small_steps::architecture(net.name, net.side), {});
        REQUIRE_MESSAGE(t.run(0, 8, 2, net.rate), t.error());
        const double first = t.step.loss();
        for (int i = 1; i < net.steps; ++i) REQUIRE_MESSAGE(t.run(0, 8, 2, net.rate), t.error());
        CHECK(t.step.loss() < 0.5 * first);
    }
}
