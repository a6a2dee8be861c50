// Factors on learning rates, by name and by stage.
#include "small_steps.hpp"

#include <cmath>
#include <limits>

namespace {

double rate(const std::vector<graft::parameter>& parameters, const std::string& name) {
    for (const graft::parameter& p : parameters)
        if (p.name == name) return p.rate;
    FAIL_CHECK("no parameter " << name);
    return -1;
}

}  // namespace

TEST_CASE("The rate of a weight is the factor of the last entry that names it") {
    const graft::graph g = small_steps::architecture("lenet");
    std::vector<graft::parameter> p = graft::parameters_of(g);
    CHECK(graft::rates_text(p).empty());
    const std::string first = p[0].name, second = p[1].name;
    REQUIRE(graft::scale_rates(p, {{{first, second}, 0.1}, {{second}, 3}}).ok());
    CHECK(rate(p, first) == 0.1);
    CHECK(rate(p, second) == 3);
    CHECK(p[2].rate == 1);
    CHECK(graft::rates_text(p) == "1 weight at 0.1, 1 at 3, " + std::to_string(p.size() - 2) + " at 1");
    CHECK(graft::scale_rates(p, {{{"nowhere"}, 1}}).error().code() == graft::errc::usage);
    for (const double wrong : {-1.0, std::numeric_limits<double>::infinity(), std::nan("")}) CHECK(!graft::scale_rates(p, {{{first}, wrong}}).ok());
}

TEST_CASE("Layer decay lowers the rate stage by stage, counted from the head, as freezing counts them") {
    const graft::graph g = small_steps::architecture("resnet20");
    const graft::shape input{2, 3, 32, 32};
    graft::executor serial;
    std::vector<graft::parameter> p = graft::parameters_of(g);
    REQUIRE(graft::scale_rates(p, {{{"layer2.0.conv1.weight"}, 2}}).ok());
    REQUIRE(graft::decay_rates(g, p, 0.5, {"fc.weight", "fc.bias"}, input, serial).ok());
    // timm: decay^(layers above); fc, layer3, layer2, and what comes before layer2 halves the picture.
    CHECK(rate(p, "fc.weight") == 1);
    CHECK(rate(p, "fc.bias") == 1);
    CHECK(rate(p, "layer3.2.conv2.weight") == 0.5);
    CHECK(rate(p, "layer3.0.downsample.0.weight") == 0.5);
    CHECK(rate(p, "layer2.0.conv1.weight") == 0.5);  // 2 * 0.25
    CHECK(rate(p, "layer2.0.conv2.weight") == 0.25);
    CHECK(rate(p, "layer1.0.conv1.weight") == 0.125);
    CHECK(rate(p, "conv1.weight") == 0.125);
    // Without a head apart the last stage has the whole rate.
    p = graft::parameters_of(g);
    REQUIRE(graft::decay_rates(g, p, 0.5, {}, input, serial).ok());
    CHECK(rate(p, "fc.weight") == 1);
    CHECK(rate(p, "layer3.0.conv1.weight") == 1);
    CHECK(rate(p, "conv1.weight") == 0.25);
    for (const double wrong : {0.0, 1.5, -0.5, std::nan("")}) CHECK(graft::decay_rates(g, p, wrong, {}, input, serial).error().code() == graft::errc::usage);
}
