// Lists of window operators that are there and have no entries mean what lists mean that are not there, to every kernel.
#include "../exec/nets.hpp"

#include <doctest/doctest.h>

TEST_CASE("An empty list of strides, dilations, pads or an output's shape is as good as none") {
    const char* cases[][2] = {
        {"Conv", "f32[1,3,6,5] f32[4,3,3,3] f32[4]"}, {"Conv", "f32[2,8,6,6] f32[16,8,1,1]"},           {"ConvTranspose", "f32[1,3,5,4] f32[3,2,3,3] f32[2]"},
        {"MaxPool", "f32[1,3,6,5] kernel_shape=2,3"}, {"AveragePool", "f32[1,3,6,5] kernel_shape=2,3"},
    };
    for (const auto& c : cases)
        for (const char* list : {"strides", "dilations", "pads", "output_shape", "output_padding"}) {
            const graft::op_row* row = graft::ops::find_op("", c[0], graft::newest_opset);
            REQUIRE(row);
            if (!std::strstr(row->attributes, list)) continue;
            // Pads that differ show whether the empty list beside them is taken for one.
            const std::string pads = std::string(list) == "pads" ? "" : " pads=0,1,1,0";
            problems::problem without = problems::read(*row, c[1] + pads), empty = problems::read(*row, c[1] + pads + " " + list + "=");
            REQUIRE_MESSAGE(empty.error == "", empty.error);
            REQUIRE(empty.g.nodes[0].find(list));
            const graft::model expected = graft::load(without.g), got = graft::load(empty.g);
            INFO(std::string(c[0]), " ", std::string(list));
            const nets::answer answer = nets::run(got, empty.inputs);
            CHECK(answer.error == "");
            CHECK(nets::same_bits(answer, nets::run(expected, without.inputs)));
        }
}

TEST_CASE("An empty list of axes is as good as none to Resize") {
    const graft::op_row* row = graft::ops::find_op("", "Resize", graft::newest_opset);
    REQUIRE(row);
    problems::problem without = problems::read(*row, "f32[1,2,3,5] - f32{1,1,2,2}"), empty = problems::read(*row, "f32[1,2,3,5] - f32{1,1,2,2} axes=");
    REQUIRE(empty.g.nodes[0].find("axes"));
    const nets::answer answer = nets::run(graft::load(empty.g), empty.inputs);
    CHECK(answer.error == "");
    CHECK(nets::same_bits(answer, nets::run(graft::load(without.g), without.inputs)));
}
