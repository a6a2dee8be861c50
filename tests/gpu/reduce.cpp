// Reductions: every problem of the op table in both layouts, and sizes that take the kernels' other ways.
#include "table_problems.hpp"

#include <graft/gpu/ops/cumulative.hpp>
#include <graft/gpu/ops/global_norm.hpp>
#include <graft/gpu/ops/reduce.hpp>

using namespace generated;

TEST_CASE("Reductions give the reference's answers on their problems of the op table, in any layouts") {
    std::vector<example> all;
    add_rows(all, graft::gpu::reduce_rows());
    add_rows(all, graft::gpu::cumulative_rows());
    add_rows(all, graft::gpu::global_norm_rows());
    CHECK(all.size() > 300);
    MESSAGE(all.size(), " programs");
    expect_all(all);
}

TEST_CASE("Reductions of many sizes give the reference's answers in both layouts") {
    std::vector<example> all;
    for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceLogSumExp", "ReduceL2"}) {
        add(all, "", op, "f32[1,70000] i64{1}", plain, plain);
        add(all, "", op, "f32[70000,2] i64{0}", plain, plain);
        add(all, "", op, "f16[3,5,17,19] i64{0,2,3}", last, plain);
        add(all, "", op, "f16[3,5,17,19] i64{0,2,3}", plain, last);
        add(all, "", op, "f32[4,8,6,6] i64{2,3} keepdims=0", last, plain);
        add(all, "", op, "f32[300,64] i64{0}", plain, plain);
        add(all, "", op, "bf16[2,16,5,4] i64{1}", last, last);
        add(all, "", op, "f64[3,4000] i64{-1}", plain, plain);
        add(all, "", op, "f32[200,2100] i64{1}", plain, plain);
        add(all, "", op, "i32[5,333]~1:9 i64{0} @18", plain, plain);
        add(all, "", op, "i64[3,1300]~1:9 i64{1} @18", plain, plain);
        add(all, "", op, "f32[2,3,4,5,6] i64{0,2,4}", last, plain);
        add(all, "", op, "f32[1,1,1] i64{1}", last, last);
        add(all, "", op, "f32[37,1] i64{1}", plain, plain);
    }
    for (const char* op : {"ArgMax", "ArgMin"}) {
        add(all, "", op, "f32[2,70000] axis=1", plain, plain);
        add(all, "", op, "i8[9000,3] axis=0 select_last_index=1", plain, plain);
        add(all, "", op, "i8[3,9001] axis=1", plain, plain);
        add(all, "", op, "f16[2,21,6,5] axis=1", last, plain);
        add(all, "", op, "f16[2,21,6,5] axis=2 keepdims=0", last, plain);
    }
    for (const char* op : {"GlobalAveragePool", "GlobalMaxPool"}) {
        add(all, "", op, "f16[2,64,7,7]", last, last);
        add(all, "", op, "f32[2,3,61,67]", plain, plain);
        add(all, "", op, "f32[2,3,61,67]", last, plain);
    }
    add(all, "graft", "SumTo", "f32[64,10] shape=", plain, plain);
    add(all, "graft", "SumTo", "f16[8,24,13,11] shape=1,24,1,1", last, plain);
    add(all, "graft", "SumTo", "f32[8,24,13,11] shape=24,1,1", plain, plain);
    std::string many = "f16[40000] f32[3,0]";
    for (int i = 0; i < 300; ++i) many += " f32[7,33]";
    add(all, "graft", "GlobalNorm", many);
    add(all, "graft", "GlobalNorm", "f16[2,3] f64[20000]");
    add(all, "", "CumSum", "f16[3,70,6,5] i64(1)", last, last);
    add(all, "", "CumProd", "f32[3,7,6,5]~0.5:1.5 i64(2) reverse=1", last, plain);
    MESSAGE(all.size(), " programs");
    expect_all(all);
    expect_compiled(all);
}

TEST_CASE("What is summed up, and in which order, does not depend on the device") {
    int launches = 0;
    for (const char* problem :
         {"BatchNormalizationTraining f32[9,24,20,19] f32[24] f32[24] f32[24] f32[24]", "SumTo f32[128,200,30] shape=30", "SumTo f32[2,90000] shape="}) {
        const std::string text = problem;
        std::vector<example> all;
        add(all, "graft", text.substr(0, text.find(' ')).c_str(), text.substr(text.find(' ') + 1), last, last, text[0] == 'B' ? 5 : 1);
        REQUIRE(all.size() == 1);
        const graft::gpu::program large = all[0].made;
        generate(all[0], 1);
        const graft::gpu::program& small = all[0].made;
        REQUIRE(large.launches.size() == small.launches.size());
        CHECK(large.workspace_bytes == small.workspace_bytes);
        CHECK(large.source.substr(0, large.source.find("graft_map")) == small.source.substr(0, small.source.find("graft_map")));
        for (std::size_t i = 0; i < large.launches.size(); ++i) {
            if (large.launches[i].entry == "graft_map") continue;
            ++launches;
            CHECK(large.launches[i].grid[0] == small.launches[i].grid[0]);
            CHECK(large.launches[i].grid[1] == small.launches[i].grid[1]);
        }
    }
    CHECK(launches == 6);  // each in parts that a second launch adds up
}
