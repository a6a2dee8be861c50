// Softmax and normalisations: every problem of the op table in both layouts, and sizes that take the kernels' other ways.
#include "table_problems.hpp"

#include <graft/gpu/ops/norm.hpp>
#include <graft/gpu/ops/norm_training.hpp>
#include <graft/gpu/ops/softmax.hpp>

using namespace generated;

TEST_CASE("Softmax and normalisations give the reference's answers on their problems of the op table, in any layouts") {
    std::vector<example> all;
    add_rows(all, graft::gpu::softmax_rows());
    add_rows(all, graft::gpu::norm_rows());
    add_rows(all, graft::gpu::norm_training_rows());
    CHECK(all.size() > 100);
    MESSAGE(all.size(), " programs");
    expect_all(all);
}

TEST_CASE("Softmax of many sizes gives the reference's answers in both layouts") {
    std::vector<example> all;
    for (const char* op : {"Softmax", "LogSoftmax"}) {
        add(all, "", op, "f32[2,70000]");
        add(all, "", op, "f16[5,1000]");
        add(all, "", op, "bf16[300,8]");
        add(all, "", op, "f32[3,700] axis=0");
        add(all, "", op, "f16[2,24,6,5] axis=1", last, last);
        add(all, "", op, "f16[2,24,6,5] axis=1", last, plain);
        add(all, "", op, "f32[2,24,6,5] axis=1", plain, plain);
        add(all, "", op, "f32[2,8,6,5] axis=2 @12", last, last);
        add(all, "", op, "f32[2,8,6,5] axis=0 @12", last, plain);
        add(all, "", op, "f64[40,3]");
        add(all, "", op, "f32[1,6]~80:90");
        add(all, "", op, "f32[3000,64] axis=0");
    }
    MESSAGE(all.size(), " programs");
    expect_all(all);
    expect_compiled(all);
}

TEST_CASE("Normalisations of many sizes give the reference's answers in both layouts") {
    std::vector<example> all;
    for (const layout in : {plain, last})
        for (const layout out : {plain, last}) {
            const std::string c = " f32[24] f32[24] f32[24] f32[24]~0.1:2", x = "f16[6,24,9,7]";
            add(all, "graft", "BatchNormalizationTraining", x + c + " " + x + " activation=1", in, out, 5);
            add(all, "graft", "BatchNormalizationTraining", "f32[9,24,20,19]~100:101" + c, in, out, 5);
            add(all, "graft", "BatchNormalizationGrad", x + " " + x + " f32[24] f32[24] f32[24]~0.1:2 " + x + " activation=1", in, out, 4);
            add(all, "graft", "BatchNormalizationGrad", "f32[9,24,20,19] f32[9,24,20,19] f32[24] f32[24] f32[24]~0.1:2", in, out, 3);
            add(all, "", "InstanceNormalization", "f16[2,24,9,7] f16[24] f16[24]", in, out);
            add(all, "", "GroupNormalization", "f32[2,24,9,7] f32[24] f32[24] num_groups=3", in, out);
            add(all, "", "GroupNormalization", "f16[2,24,9,8] f16[6] f16[6] num_groups=6 @18", in, out);
            add(all, "", "LayerNormalization", "f16[2,24,9,8] f16[24,9,8] f16[8] axis=1", in, out, 3);
            add(all, "", "MeanVarianceNormalization", "f16[2,24,9,8]", in, out);
            add(all, "", "LpNormalization", "f32[2,24,9,8] axis=1", in, out);
            add(all, "", "LRN", "f16[2,24,9,8] size=5", in, out);
            add(all, "", "BatchNormalization", "bf16[2,24,9,8] f32[24] f32[24] f32[24] f32[24]~0.1:2", in, out);
        }
    add(all, "", "LayerNormalization", "f32[2,70000] f32[70000] f32[70000]", plain, plain, 3);
    add(all, "", "LayerNormalization", "bf16[50,768]~100:101 bf16[768] bf16[768]", plain, plain, 3);
    add(all, "", "RMSNormalization", "f16[5,200] f16[200]");
    add(all, "", "InstanceNormalization", "f32[1,2,200,201] f32[2] f32[2]", plain, plain);
    add(all, "", "InstanceNormalization", "f32[1,2,200,201] f32[2] f32[2]", last, last);
    add(all, "graft", "BatchNormalizationTraining", "f32[1,3] f32[3] f32[3] f32[3] f32[3]~0.1:2", plain, plain, 5);
    for (const char* half : {"f16", "bf16"}) {
        const std::string t = half, rows = t + "[6,50,192] " + t + "[6,50,192]", image = t + "[2,24,9,7] " + t + "[2,24,9,7] f32[2,1,1,1] f32[2,1,1,1]~0.1:2";
        add(all, "graft", "LayerNormalizationGrad", rows + " f32[6,50,1] f32[6,50,1]~0.1:2 f32[192]");
        add(all, "graft", "LayerNormalizationGrad", image + " f32[24,1,1] axis=1", last, last);
        add(all, "graft", "LayerNormalizationGradScale", rows + " f32[6,50,1] f32[6,50,1]~0.1:2", plain, plain, 2);
        add(all, "graft", "LayerNormalizationGradScale", rows + " - f32[6,50,1]~0.1:2", plain, plain, 1);
        add(all, "graft", "SoftmaxGrad", t + "[4,3,50,50] " + t + "[4,3,50,50]~0:0.1");
        add(all, "graft", "SoftmaxGrad", t + "[4,3,50,50] " + t + "[4,3,50,50]~0:0.1 axis=1", last, plain);
    }
    add(all, "graft", "LayerNormalizationGrad", "f32[2,70000] f32[2,70000] f32[2,1] f32[2,1]~0.1:2 f32[70000]");
    add(all, "graft", "LayerNormalizationGradScale", "f32[3000,8] f32[3000,8] f32[3000,1] f32[3000,1]~0.1:2", plain, plain, 2);
    add(all, "graft", "SoftmaxGrad", "f32[40,1000] f32[40,1000]~0:0.1");
    MESSAGE(all.size(), " programs");
    expect_all(all);
    expect_compiled(all);
}
