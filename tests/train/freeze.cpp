// Rules of freezing, on networks whose stages are known.
#include "small_steps.hpp"

#include <algorithm>

namespace {

struct frozen {
    std::vector<graft::parameter> parameters;
    graft::status done;

    frozen(const graft::graph& g, const std::string& rule, const std::vector<std::string>& head, const std::vector<std::string>& named,
           const graft::shape& input)
        : parameters(graft::parameters_of(g)) {
        graft::executor serial;
        done = graft::freeze(g, parameters, rule, head, named, input, serial);
    }
    bool learns(const std::string& name) const {
        for (const graft::parameter& p : parameters)
            if (p.name == name) return p.learns;
        FAIL_CHECK("no parameter " << name);
        return false;
    }
    std::size_t learning() const {
        return static_cast<std::size_t>(std::count_if(parameters.begin(), parameters.end(), [](const graft::parameter& p) { return p.learns; }));
    }
};

}  // namespace

TEST_CASE("Freezing takes none, trunk, a number of stages, or names") {
    const graft::graph g = small_steps::architecture("resnet20");
    const graft::shape input{2, 3, 32, 32};
    const std::vector<std::string> head = {"fc.weight", "fc.bias"};
    const frozen none(g, "none", head, {}, input);
    CHECK(none.done.ok());
    CHECK(none.learning() == none.parameters.size());
    const frozen trunk(g, "trunk", head, {}, input);
    CHECK(trunk.done.ok());
    CHECK(trunk.learning() == 2);
    CHECK(trunk.learns("fc.weight"));
    const frozen named(g, "names", head, {"conv1.weight", "bn1.weight"}, input);
    CHECK(named.done.ok());
    CHECK(named.learning() == named.parameters.size() - 2);
    CHECK(!named.learns("bn1.weight"));
    CHECK(!named.learns("conv1.weight"));
}

TEST_CASE("Stages end where the picture gets smaller") {
    const graft::graph g = small_steps::architecture("resnet20");
    const graft::shape input{2, 3, 32, 32};
    const std::vector<std::string> head = {"fc.weight", "fc.bias"};
    const frozen zero(g, "0", head, {}, input);
    CHECK(zero.learning() == zero.parameters.size());
    const frozen one(g, "1", head, {}, input);
    CHECK(!one.learns("conv1.weight"));
    CHECK(!one.learns("layer1.2.conv2.weight"));
    CHECK(one.learns("layer2.0.conv1.weight"));
    const frozen two(g, "2", head, {}, input);
    CHECK(!two.learns("layer2.2.conv2.weight"));
    CHECK(!two.learns("layer2.0.downsample.0.weight"));
    CHECK(two.learns("layer3.0.conv1.weight"));
    const frozen all(g, "3", head, {}, input);
    CHECK(all.learning() == 2);
    // MobileNetV2 halves five times.
    const graft::graph mobile = small_steps::architecture("mobilenet_v2");
    graft::executor serial;
    const std::vector<int> stages = graft::stages_of(mobile, graft::parameters_of(mobile), {1, 3, 224, 224}, serial);
    CHECK(stages.front() == 1);
    CHECK(stages.back() == 5);
}

TEST_CASE("Freezing refuses what leaves nothing to learn, stages that are not there, and other words") {
    const graft::graph g = small_steps::architecture("resnet20");
    const graft::shape input{2, 3, 32, 32};
    CHECK(frozen(g, "4", {"fc.weight"}, {}, input).done.error().code() == graft::errc::train_freeze);
    CHECK(frozen(g, "trunk", {}, {}, input).done.error().code() == graft::errc::train_freeze);
    CHECK(frozen(g, "3", {}, {}, input).done.error().code() == graft::errc::train_freeze);
    CHECK(frozen(g, "half", {}, {}, input).done.error().code() == graft::errc::usage);
    CHECK(frozen(g, "-1", {}, {}, input).done.error().code() == graft::errc::usage);
}
