// Pools and their gradients: every problem of the op table in both layouts, and windows that overlap, hang over and skip.
#include "table_problems.hpp"

#include <graft/gpu/ops/pool.hpp>

using namespace generated;

TEST_CASE("Pools give the reference's answers on their problems of the op table, in any layouts") {
    std::vector<example> all;
    add_rows(all, graft::gpu::pool_rows());
    CHECK(all.size() > 80);
    MESSAGE(all.size(), " programs");
    expect_all(all);
}

TEST_CASE("Pools of vectorised channels and odd windows give the reference's answers") {
    std::vector<example> all;
    for (const layout in : {plain, last})
        for (const layout out : {plain, last}) {
            add(all, "", "MaxPool", "f16[2,24,9,11] kernel_shape=3,3 strides=2,2 pads=1,1,1,1", in, out, 2);
            add(all, "", "MaxPool", "bf16[2,16,9,11] kernel_shape=2,3 strides=2,1 dilations=2,2 storage_order=1", in, out, 2);
            add(all, "", "MaxPool", "f32[1,3,5,6,7] kernel_shape=2,2,3 strides=2,1,2 ceil_mode=1", in, out, 2);
            add(all, "", "MaxPool", "u8[2,32,7,7] kernel_shape=3,3 strides=3,3 ceil_mode=1", in, out, 2);
            add(all, "", "AveragePool", "f32[2,8,7,7] kernel_shape=7,7", in, out);
            add(all, "", "AveragePool", "f16[2,8,7,9] kernel_shape=3,3 strides=2,2 pads=1,1,1,1 dilations=2,1 count_include_pad=1", in, out);
            add(all, "", "AveragePool", "f32[2,4,17] kernel_shape=4 strides=3 pads=1,3 ceil_mode=1", in, out);
            add(all, "", "LpPool", "f32[2,8,6,6] kernel_shape=3,2 strides=1,2 p=3", in, out);
            add(all, "", "GlobalLpPool", "f32[2,8,6,6] p=1", in, out);
            add(all, "graft", "MaxPoolGrad", "f16[2,8,5,6] f16[2,8,9,11] f16[2,8,5,6] kernel_shape=3,3 strides=2,2 pads=1,1,1,1", in, out);
            add(all, "graft", "MaxPoolGrad", "f32[1,4,4,4] f32[1,4,9,9] f32[1,4,4,4] kernel_shape=3,3 strides=2,2 dilations=2,2 pads=1,1,1,1", in, out);
            add(all, "graft", "MaxPoolGrad", "f32[1,4,2,2] f32[1,4,40,40]~0:0 f32[1,4,2,2] kernel_shape=20,20 strides=20,20", in, out);
            add(all, "graft", "AveragePoolGrad", "f32[2,8,1,1] shape=2,8,7,5 kernel_shape=7,5", in, out);
            add(all, "graft", "AveragePoolGrad", "bf16[2,8,4,4] shape=2,8,9,9 kernel_shape=3,3 strides=2,2 dilations=2,2 pads=1,1,1,1 count_include_pad=1", in,
                out);
        }
    // a gradient whose windows leave pixels out
    add(all, "graft", "MaxPoolGrad", "f32[1,2,2,2] f32[1,2,7,7] f32[1,2,2,2] kernel_shape=2,2 strides=4,4");
    MESSAGE(all.size(), " programs");
    expect_all(all);
    expect_compiled(all);
}
