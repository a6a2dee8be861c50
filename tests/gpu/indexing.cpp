// Operators that pick and write elements by index, and that select: every problem of the op table in any layouts, and larger ones.
#include "table_problems.hpp"

#include <graft/gpu/ops/gather.hpp>
#include <graft/gpu/ops/scatter.hpp>
#include <graft/gpu/ops/selection.hpp>
#include <graft/gpu/ops/unfold.hpp>

#include <cmath>

using namespace generated;

namespace {

// In every pair of layouts.
void add_laid_out(std::vector<example>& all, const char* op, const std::string& problem, int outputs = 1, const char* domain = "") {
    for (const layout in : {plain, last})
        for (const layout out : {plain, last}) add(all, domain, op, problem, in, out, outputs);
}

// With the contents of input 1 changed behind the reference's back.
example with_indices(const char* op, const std::string& problem, const std::vector<std::int64_t>& wrong) {
    std::vector<example> one;
    add(one, "", op, problem);
    REQUIRE(one.size() == 1);
    for (std::size_t i = 0; i < wrong.size(); ++i) one[0].in[1].data<std::int64_t>()[i] = wrong[i];
    one[0].faulty = true;
    return std::move(one[0]);
}

// Their texts differ in types alone: NVRTC need not see each.
std::vector<example> every(std::size_t n, const std::vector<example>& all) {
    std::vector<example> some;
    for (std::size_t i = 0; i < all.size(); i += n) some.push_back(all[i]);
    return some;
}

}  // namespace

TEST_CASE("Gathers, scatters and TopK give the reference's answers on their problems of the op table, in any layouts") {
    std::vector<example> all;
    add_rows(all, graft::gpu::gather_rules());
    add_rows(all, graft::gpu::scatter_rows());
    add_rows(all, graft::gpu::scatter_rules());
    add_rows(all, graft::gpu::selection_rows());
    add_rows(all, graft::gpu::unfold_rows());
    MESSAGE(all.size(), " programs");
    expect_all(all);
}

TEST_CASE("Gathers by indices that are computed in a run give the reference's answers") {
    std::vector<example> all;
    for (const std::string type : {"f32", "f16", "bf16", "i64", "u8", "f64"})
        for (const std::string of : {"i64", "i32"}) {
            add_laid_out(all, "Gather", type + "[7,16] " + of + "[3,5]~-7:7");
            add_laid_out(all, "Gather", type + "[2,8,5,6] " + of + "[4]~-5:5 axis=2");
            add_laid_out(all, "Gather", type + "[2,8,5] " + of + "[2,3]~-8:8 axis=1");
            add_laid_out(all, "Gather", type + "[2,8,5] " + of + "[1]~-5:5 axis=-1");
            add_laid_out(all, "GatherElements", type + "[4,8,5] " + of + "[4,11,3]~-8:8 axis=1");
            add_laid_out(all, "GatherElements", type + "[3,8] " + of + "[3,8]~-8:8 axis=-1");
        }
    add_laid_out(all, "ReverseSequence", "f16[4,5,8] i64[5]~0:5");
    add_laid_out(all, "ReverseSequence", "f32[4,5,8] i64[4]~0:6 batch_axis=0 time_axis=1");
    add_laid_out(all, "GatherND", "f32[4,5,6,8] i64[7,2]~-4:4");
    add_laid_out(all, "GatherND", "bf16[4,5,6,8] i64[4,3,1]~-5:5 batch_dims=1");
    add_laid_out(all, "GatherND", "u8[4,5,6] i64[4,5,2,1]~-6:6 batch_dims=2");
    add_laid_out(all, "GatherND", "f16[4,5,6] i64[9,3]~-4:4");
    add(all, "", "Gather", "f32[1000,64] i64[300]~-1000:1000");
    MESSAGE(all.size(), " programs");
    expect_all(all);
    expect_compiled(every(7, all));
}

TEST_CASE("Scatters give the reference's answers, with many updates of one element and more updates than a block sorts") {
    std::vector<example> all;
    for (const std::string reduction : {"", " reduction=add", " reduction=mul", " reduction=max", " reduction=min"}) {
        for (const std::string type : {"f32", "f16", "bf16", "i32", "u8", "f64"}) {
            add_laid_out(all, "ScatterElements", type + "[3,8,5] i64[3,4,5]~-8:8 " + type + "[3,4,5]" + reduction + " axis=1");
            add_laid_out(all, "ScatterND", type + "[6,8,4] i64[5,1]~-6:6 " + type + "[5,8,4]" + reduction);
            add_laid_out(all, "ScatterND", type + "[6,4,8] i64[2,3,2]~-4:4 " + type + "[2,3,8]" + reduction);
        }
        // past 2048 updates a block's sort is merged with others
        add(all, "", "ScatterND", "f32[40,8] i64[3000,1]~-40:40 f32[3000,8]~0.9:1.1" + reduction);
        add(all, "", "ScatterElements", "i64[5000] i64[9000]~-5000:5000 i64[9000]" + reduction);
    }
    add(all, "", "ScatterND", "f32[4,3] i64[0,1] f32[0,3] reduction=add");
    add(all, "", "ScatterND", "f32[4,3] i64[2,0,1] f32[2,0,3]");
    add(all, "", "ScatterElements", "f32[4,3] i64[2,0] f32[2,0] reduction=max");
    add(all, "", "ScatterElements", "b[4] i64{1,1} b[2]");
    add_laid_out(all, "TensorScatter", "f16[3,6,8] f16[3,2,8] i64{0,4,2}");
    add_laid_out(all, "TensorScatter", "f32[3,2,6,8] f32[3,2,2,8] i64[3]~0:4 mode=linear");
    add_laid_out(all, "TensorScatter", "bf16[3,6,8] bf16[3,4,8] i64[3]~0:20 mode=circular");
    add_laid_out(all, "Col2Im", "f16[2,18,18] i64{6,7} i64{3,3} pads=1,0,1,0 strides=1,2 dilations=1,1");
    add_laid_out(all, "Col2Im", "i32[2,8,36] i64{9,9} i64{2,2} pads=0,1,0,0 dilations=3,4");
    add_laid_out(all, "MaxUnpool", "f32[1,1,2,2] i64[1,1,2,2]~0:16 i64{1,1,5,5} kernel_shape=2,2 strides=2,2 @11");
    MESSAGE(all.size(), " programs");
    expect_all(all);
    expect_compiled(every(7, all));
}

TEST_CASE("TopK gives the reference's answers on lines of any length") {
    std::vector<example> all;
    for (const std::string type : {"f32", "f16", "bf16", "f64", "i32", "u8", "i64", "u64", "i8"})
        for (const std::string largest : {"0", "1"}) {
            add_laid_out(all, "TopK", type + "[3,17,5] i64{4} axis=1 largest=" + largest, 2);
            add_laid_out(all, "TopK", type + "[2,3,40] i64{40} largest=" + largest, 2);
            add(all, "", "TopK", type + "[2,2500] i64{100} largest=" + largest, plain, plain, 2);
        }
    // rounds of tiles, and lines that are sorted whole
    add(all, "", "TopK", "f32[2,9000] i64{1000}", plain, plain, 2);
    add(all, "", "TopK", "f32[9000,2] i64{3} axis=0", plain, plain, 2);
    add(all, "", "TopK", "f32[5000,2] i64{3000} axis=0", plain, plain, 2);
    add(all, "", "TopK", "f64[1,5000] i64{2000}", plain, plain, 2);
    add(all, "", "TopK", "f32[8] i64{3}", plain, plain, 1);
    example infinite;
    std::vector<example> one;
    add(one, "", "TopK", "f32[2,8] i64{8}", plain, plain, 2);
    infinite = std::move(one[0]);
    float* x = infinite.in[0].data<float>();
    const float inf = HUGE_VALF, none = std::nanf("");
    const float odd[] = {0.0f, -0.0f, inf, -inf, none, 1, -1, none, 5, 5, -0.0f, 0.0f, 5, -inf, -inf, inf};
    for (int i = 0; i < 16; ++i) x[i] = odd[i];
    REQUIRE(reference(infinite).empty());
    all.push_back(std::move(infinite));
    MESSAGE(all.size(), " programs");
    expect_all(all);
    expect_compiled(every(7, all));
}

TEST_CASE("An index that is computed and out of range is reported, reads nothing and writes nothing") {
    const float none = std::nanf("");
    std::vector<example> all;
    for (const char* op : {"Gather", "GatherElements"}) {
        all.push_back(with_indices(op, "f32[4] i64[4]~0:4", {4, -5, INT64_MAX, INT64_MIN}));
        for (int i = 0; i < 4; ++i) all.back().want[0].data<float>()[i] = none;
        all.push_back(with_indices(op, "i32[4] i64[3]~0:4", {INT64_MIN, 1ll << 32, -100}));
        for (int i = 0; i < 3; ++i) all.back().want[0].data<std::int32_t>()[i] = 0;
    }
    all.push_back(with_indices("GatherND", "f32[2,3] i64[2,2]~0:2", {0, 3, -3, 0}));
    for (int i = 0; i < 2; ++i) all.back().want[0].data<float>()[i] = none;
    all.push_back(with_indices("ReverseSequence", "f32[4,2] i64[2]~0:4", {-1, 5}));
    for (int i = 0; i < 8; ++i) all.back().want[0].data<float>()[i] = none;
    for (const char* reduction : {"", " reduction=add"}) {
        all.push_back(with_indices("ScatterElements", std::string("f32[4] i64[3]~0:4 f32[3]") + reduction, {4, -5, INT64_MAX}));
        all.back().want[0] = all.back().in[0];
        all.push_back(with_indices("ScatterND", std::string("f32[4,2] i64[3,1]~0:4 f32[3,2]") + reduction, {4, -5, 1ll << 40}));
        all.back().want[0] = all.back().in[0];
    }
    expect_all(all);
}
