// Operators that sample pictures at places that are computed: grids and regions, and their gradients.
#include "table_problems.hpp"

#include <graft/gpu/ops/deform_conv.hpp>
#include <graft/gpu/ops/detection.hpp>
#include <graft/gpu/ops/grid.hpp>

using namespace generated;

namespace {

void add_laid_out(std::vector<example>& all, const char* domain, const char* op, const std::string& problem, int outputs = 1) {
    for (const layout in : {plain, last})
        for (const layout out : {plain, last}) add(all, domain, op, problem, in, out, outputs);
}

// Their texts differ in types and layouts alone: NVRTC need not see each.
std::vector<example> every(std::size_t n, const std::vector<example>& all) {
    std::vector<example> some;
    for (std::size_t i = 0; i < all.size(); i += n) some.push_back(all[i]);
    return some;
}

}  // namespace

TEST_CASE("Grids and regions give the reference's answers on their problems of the op table, in any layouts") {
    std::vector<example> all;
    add_rows(all, graft::gpu::grid_rules());
    add_rows(all, graft::gpu::grid_rows());
    add_rows(all, graft::gpu::detection_rows());
    MESSAGE(all.size(), " programs");
    expect_all(all);
}

TEST_CASE("GridSample and its gradients give the reference's answers in every mode") {
    std::vector<example> all;
    for (const std::string mode : {"linear", "nearest", "cubic"})
        for (const std::string padding : {"zeros", "border", "reflection"})
            for (const std::string corners : {"0", "1"}) {
                const std::string how = " mode=" + mode + " padding_mode=" + padding + " align_corners=" + corners;
                const layout in = all.size() % 4 < 2 ? plain : last, out = all.size() % 2 ? plain : last;
                add(all, "", "GridSample", "f32[2,8,7,9] f32[2,5,6,2]~-2:2" + how, in, out);
                add(all, "graft", "GridSampleGrad", "f32[2,8,5,6] f32[2,8,7,9] f32[2,5,6,2]~-2:2" + how, in, out, 2);
                add(all, "", "GridSample", "f32[1,2,4,5,6] f32[1,3,2,4,3]~-1.2:1.2" + how, out, in);
                add(all, "graft", "GridSampleGrad", "f32[2,3,9] f32[2,3,11] f32[2,9,1]~-1.5:1.5" + how, out, in, 2);
                add(all, "", "GridSample", "f64[2,4,1,3] f64[2,3,3,2]~-9:9" + how, in, out);
            }
    add_laid_out(all, "", "GridSample", "f16[2,16,8,8] f16[2,9,9,2]~-1:1");
    add_laid_out(all, "", "GridSample", "bf16[2,16,8,8] f32[2,9,9,2]~-1:1");
    add_laid_out(all, "", "GridSample", "u8[1,3,8,8]~0:255 f32[1,9,9,2]~-1:1 mode=nearest");
    add_laid_out(all, "", "GridSample", "i64[1,3,8,8] f32[1,9,9,2]~-1:1 mode=nearest");
    add_laid_out(all, "graft", "GridSampleGrad", "f16[2,16,9,9] f16[2,16,8,8] f32[2,9,9,2]~-1:1", 2);
    add_laid_out(all, "graft", "GridSampleGrad", "f32[2,8,20,30] f32[2,8,16,16] f32[2,20,30,2]~-1:1", 2);
    add(all, "graft", "GridSampleGrad", "f32[2,8,20,30] f32[2,8,16,16] f32[2,20,30,2]~-1:1", last, last, 1);
    add(all, "", "AffineGrid", "f16[3,2,3] i64{3,1,6,7} align_corners=1");
    add(all, "", "AffineGrid", "f32[3,3,4] i64{3,1,1,6,7} align_corners=1");
    MESSAGE(all.size(), " programs");
    expect_all(all);
    expect_compiled(every(3, all));
}

TEST_CASE("RoiAlign, its gradient and MaxRoiPool give the reference's answers on regions of any size") {
    std::vector<example> all;
    for (const std::string type : {"f32", "f16", "bf16", "f64"}) {
        add_laid_out(all, "", "RoiAlign", type + "[2,8,12,14] " + type + "[9,4]~-2:16 i64[9]~0:2 output_height=3 output_width=4");
        add_laid_out(all, "", "RoiAlign",
                     type + "[2,8,12,14] " + type + "[9,4]~0:30 i64[9]~0:2 output_height=3 output_width=2 sampling_ratio=2 spatial_scale=0.5 mode=max");
        add_laid_out(all, "", "RoiAlign",
                     type + "[2,8,12,14] " + type +
                         "[9,4]~0:30 i64[9]~0:2 output_height=3 output_width=2 spatial_scale=0.5 coordinate_transformation_mode=output_half_pixel");
        add_laid_out(all, "", "MaxRoiPool", type + "[2,8,12,14] " + type + "[9,5]~0:1.9 pooled_shape=3,2 spatial_scale=7");
        add_laid_out(all, "graft", "RoiAlignGrad", type + "[9,8,3,4] " + type + "[9,4]~-2:16 i64[9]~0:2 shape=2,8,12,14");
        add_laid_out(all, "graft", "RoiAlignGrad",
                     type + "[9,8,2,2] " + type +
                         "[9,4]~0:30 i64[9]~0:2 shape=2,8,12,14 sampling_ratio=3 spatial_scale=0.5 coordinate_transformation_mode=output_half_pixel");
    }
    MESSAGE(all.size(), " programs");
    expect_all(all);
    expect_compiled(every(3, all));
}

TEST_CASE("DeformConv gives the reference's answers, with more pixels, maps and depth than a block's slice") {
    std::vector<example> all;
    add_rows(all, graft::gpu::deform_conv_rows());
    for (const std::string t : {"f32", "f16", "bf16", "f64"}) {
        add_laid_out(all, "", "DeformConv",
                     t + "[2,4,9,11] " + t + "[6,2,3,3] " + t + "[2,36,9,11] " + t + "[6] " + t + "[2,18,9,11] group=2 offset_group=2 pads=1,1,1,1");
        add_laid_out(all, "", "DeformConv", t + "[1,24,7,7] " + t + "[70,24,2,3] " + t + "[1,12,3,2]~-9:9 strides=2,2 dilations=1,2");
    }
    MESSAGE(all.size(), " programs");
    expect_all(all);
    expect_compiled(every(3, all));
}

TEST_CASE("The gradients of DeformConv are the reference's, at whole offsets and between, with more of everything than a block's slice") {
    std::vector<example> all;
    add_rows(all, graft::gpu::deform_conv_rows());
    for (const std::string t : {"f32", "f16", "bf16", "f64"}) {
        const auto add_gradients = [&](const std::string& dy, const std::string& x, const std::string& w, const std::string& offset, const std::string& mask,
                                       const std::string& how) {
            const std::string text = t + dy + " " + t + x + " " + t + w + " " + t + offset + (mask.empty() ? "" : " " + t + mask) + " " + how;
            add_laid_out(all, "graft", "DeformConvGrad", text, mask.empty() ? 3 : 4);
        };
        add_gradients("[2,6,9,11]", "[2,4,9,11]", "[6,2,3,3]", "[2,36,9,11]~-2:2", "[2,18,9,11]", "group=2 offset_group=2 pads=1,1,1,1");
        add_gradients("[1,70,3,2]", "[1,24,7,7]", "[70,24,2,3]", "[1,12,3,2]~-9:9", "", "strides=2,2 dilations=1,2");
        // Zero offsets: every sample lies on an element, and its slopes are those behind it.
        add_gradients("[3,8,6,7]", "[3,40,6,7]", "[8,40,3,3]", "[3,18,6,7]~0:0", "[3,9,6,7]~1:1", "pads=1,1,1,1");
        add_gradients("[2,4,8,8]", "[2,12,8,8]", "[4,6,1,1]", "[2,6,8,8]~-1e-12:1e-9", "", "group=2 offset_group=3");
    }
    add(all, "graft", "DeformConvGrad", "f32[2,3,40,40] f32[2,3,40,40] f32[3,3,3,3] f32[2,18,40,40]~-1:1 f32[2,9,40,40] pads=1,1,1,1", last, last, 4);
    add(all, "graft", "DeformConvGrad", "f32[2,3,4,4] f32[2,3,4,4] f32[3,3,3,3] f32[2,18,4,4]~-1:1 pads=1,1,1,1", last, plain, 1);
    MESSAGE(all.size(), " programs");
    expect_all(all);
    expect_compiled(every(3, all));
}

TEST_CASE("A region that the reference refuses is reported and gives NaN, and the others what they give") {
    std::vector<example> one;
    add(one, "", "RoiAlign", "f32[2,4,6,6] f32[3,4]~0:5 i64[3]~0:2 output_height=2 output_width=2");
    one[0].in[2].data<std::int64_t>()[0] = 2;
    one[0].in[1].data<float>()[4] = std::nanf("");
    add(one, "", "MaxRoiPool", "f32[2,4,6,6] f32[3,5]~0:1.9 pooled_shape=2,2 spatial_scale=3");
    one[1].in[1].data<float>()[0] = -1;
    one[1].in[1].data<float>()[6] = 1e30f;
    for (example& x : one) x.faulty = true;
    for (example& x : one)
        for (int i = 0; i < 32; ++i) x.want[0].data<float>()[i] = std::nanf("");
    expect_all(one);
}
