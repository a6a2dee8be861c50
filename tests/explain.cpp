// The explainer: answers with their maps, in code.
#include <graft/explain.hpp>
#include <graft/graft.hpp>

#include <doctest/doctest.h>

#include <algorithm>

namespace {

const std::string demo = GRAFT_SOURCE_DIR "/apps/graft/demo/";

}  // namespace

TEST_CASE("a classifier's answers come with maps of what spoke for them") {
    graft::classifier_options options;
    options.load = graft::on_device(nullptr);
    options.session.threads = 2;
    graft::explainer explain = graft::explainer::load(demo + "model.onnx", options);
    CHECK(explain.features().channels == 96);
    CHECK(explain.features().height == 8);
    const graft::image fish = graft::decode_file(demo + "pictures/fish-1.png");
    const std::vector<graft::explanation> two = explain.best(fish, 2);
    REQUIRE(two.size() == 2);
    CHECK(two[0].answer.label == "fish");
    CHECK(two[0].answer.probability > 0.9);
    REQUIRE(two[0].map.shape() == graft::shape{8, 8});
    // The fish swims in the middle; its map has nothing in the corners.
    const float* map = two[0].map.data<float>();
    const std::int64_t hottest = std::max_element(map, map + 64) - map;
    CHECK(hottest / 8 >= 2);
    CHECK(hottest / 8 <= 5);
    CHECK(hottest % 8 >= 1);
    CHECK(hottest % 8 <= 6);
    for (int corner : {0, 7, 56, 63}) CHECK(map[corner] < 0.5f * map[hottest]);
    CHECK(two[0].picture.width == 256);
    CHECK(two[0].picture.channels == 3);

    const graft::explanation again = explain.of(fish, two[1].answer.index);
    CHECK(again.answer.label == two[1].answer.label);
    CHECK(again.answer.probability == two[1].answer.probability);
    CHECK(std::equal(again.map.data<float>(), again.map.data<float>() + 64, two[1].map.data<float>()));
    const auto wrong = explain.of(fish, 8);
    REQUIRE(!wrong.ok());
    CHECK(wrong.error().code() == graft::errc::data_label_range);
    CHECK(!explain.of(fish, -1).ok());
}

TEST_CASE("a classifier that answers in codes of 8 bits is explained by the numbers that they stand for") {
    graft::classifier_options options;
    options.load = graft::on_device(nullptr);
    graft::model m = graft::load(demo + "model.onnx", options.load);
    graft::graph g = m.graph();
    const float scale = 1.0f / 256;
    const std::uint8_t none = 0;
    graft::node n;
    n.op_type = "QuantizeLinear";
    n.version = g.version_of("");
    n.inputs = {g.outputs[0], g.add_constant("scale", graft::tensor::from(&scale, {}).value()), g.add_constant("zero", graft::tensor::from(&none, {}).value())};
    const graft::value_id codes = g.add_value("codes");
    g.at(codes).type = graft::dtype::uint8;
    n.outputs = {codes};
    g.nodes.push_back(std::move(n));
    g.outputs = {codes};
    graft::explainer explain = graft::explainer::make(graft::load(std::move(g), options.load), options);
    graft::explainer before = graft::explainer::make(m, options);
    const graft::image fish = graft::decode_file(demo + "pictures/fish-1.png");
    const std::vector<graft::explanation> now = explain.best(fish), then = before.best(fish);
    CHECK(now[0].answer.label == "fish");
    REQUIRE(now[0].map.shape() == then[0].map.shape());
    for (int i = 0; i < 64; ++i) CHECK(now[0].map.data<float>()[i] == doctest::Approx(then[0].map.data<float>()[i]));
}
