// Generated kernels: every problem of the op table against the reference kernels, and chains of operators fused at random.
#include "fused.hpp"
#include "../skipped.hpp"

namespace {

void expect_all(const std::vector<generated::example>& examples) {
#if defined(GRAFT_CUDA_SIMULATOR)
    const std::vector<std::string> wrong = generated::run_all(examples);
    for (std::size_t i = 0; i < wrong.size() && i < 20; ++i) CHECK_MESSAGE(false, wrong[i]);
    CHECK(wrong.empty());
#else
    say_skipped("the CUDA simulator is not built here: " + std::to_string(examples.size()) + " programs");
#endif
}

}  // namespace

TEST_CASE("Generated kernels give the reference's answers on every problem of the op table, on the CUDA simulator") {
    std::vector<std::string> refusals;
    const std::vector<generated::example> all = generated::table_examples(refusals);
    for (const std::string& text : refusals) MESSAGE("refused: ", text);
    MESSAGE(all.size(), " programs of the op table's problems");
    CHECK(all.size() > 500);
    expect_all(all);
}

TEST_CASE("Chains of operators that are fused at random compute what their nodes do, on the CUDA simulator") {
    const std::vector<generated::example> all = generated::fused_examples(300, 5);
    CHECK(all.size() == 300);
    expect_all(all);
}

namespace {

// One node over float32 tensors, row-major.
generated::example node_of(const char* op, const std::vector<graft::shape>& in, const graft::shape& out, std::vector<graft::attribute> attributes = {}) {
    generated::example x;
    x.name = op;
    x.n.op_type = op;
    x.n.version = 13;
    x.n.attributes = std::move(attributes);
    for (std::size_t i = 0; i < in.size(); ++i) {
        x.n.inputs.push_back(static_cast<graft::value_id>(i));
        x.in.push_back(graft::tensor::zeros(graft::dtype::float32, in[i]));
    }
    x.n.outputs = {100};
    x.want.push_back(graft::tensor::zeros(graft::dtype::float32, out));
    x.constant.assign(x.in.size(), false);
    x.in_layout.assign(x.in.size() + 1, generated::layout::row_major);
    x.out_layout.assign(2, generated::layout::row_major);
    return x;
}
bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("Elements that are walked through as they lie are read in packs, and cost no division") {
    generated::example x = node_of("Add", {{2, 8, 4, 4}, {2, 8, 4, 4}}, {2, 8, 4, 4});
    for (const generated::layout l : {generated::layout::row_major, generated::layout::channels_last}) {
        x.in_layout.assign(3, l);
        x.out_layout.assign(2, l);
        generated::generate(x, 0);
        REQUIRE(!x.refused);
        CHECK(has(x.made.source, "load_pack<float, 4, 4>(in0 + i)"));
        CHECK(has(x.made.source, "load_pack<float, 4, 4>(in1 + i)"));
        CHECK(!has(x.made.source, " / "));
        CHECK(!has(x.made.source, " % "));
        CHECK(x.made.in_place);
    }
    x.in_layout[1] = generated::layout::row_major;
    generated::generate(x, 0);
    CHECK(has(x.made.source, " % "));
}

TEST_CASE("A vector of channels is read in packs where channels are last, and once a pack where they are not") {
    generated::example x = node_of("Mul", {{2, 8, 4, 4}, {8, 1, 1}}, {2, 8, 4, 4});
    generated::generate(x, 0);
    CHECK(has(x.made.source, "load(in1 + "));
    x.in_layout[0] = x.out_layout[0] = generated::layout::channels_last;
    generated::generate(x, 0);
    CHECK(has(x.made.source, "load_pack<float, 4, 4>(in1 + "));
}

TEST_CASE("What is read twice is loaded once") {
    generated::example x = node_of("Mul", {{4, 8}, {4, 8}}, {4, 8});
    x.n.inputs = {0, 0};
    generated::generate(x, 0);
    CHECK(has(x.made.source, "(in0 + i)"));
    CHECK(!has(x.made.source, "in1"));
    CHECK(x.made.launches[0].arguments.size() == 2);
}

TEST_CASE("Indices have 64 bits where a tensor has 2^31 elements or more") {
    const graft::limits limit;
    graft::node n;
    n.op_type = "Relu";
    n.version = 14;
    n.inputs = {0};
    n.outputs = {1};
    for (const std::int64_t rows : {std::int64_t(1) << 10, std::int64_t(1) << 16}) {
        graft::tensor_view in{graft::dtype::float16, {rows, 1 << 15}, nullptr}, out = in;
        const generated::layout plain[1] = {generated::layout::row_major};
        graft::gpu::program p;
        REQUIRE(!graft::gpu::generate_loop({{n, &in, 1, &out, 1, limit}, plain, plain, {}, {}}, p));
        CHECK(has(p.source, rows > 1 << 12 ? "typedef long long index_t" : "typedef int index_t"));
    }
}

TEST_CASE("An operator that cannot be emitted exactly is refused with a reason") {
    generated::example gather = node_of("Gather", {{4, 8}, {3}}, {3, 8});
    gather.in[1] = graft::tensor::zeros(graft::dtype::int64, {3});
    gather.constant[1] = true;
    generated::generate(gather, 0);
    CHECK(!gather.refused);
    gather.in[1].data<std::int64_t>()[2] = 4;
    generated::generate(gather, 0);
    REQUIRE(gather.refused);
    CHECK(has(gather.refused, "out of range"));
    generated::example missing = node_of("Fusion", {{4}}, {4});
    missing.n.op = graft::gpu::fusion_row();
    generated::generate(missing, 0);
    REQUIRE(missing.refused);
    CHECK(has(missing.refused, "without a body"));
}

TEST_CASE("Literals are exact") {
    using graft::dtype;
    using graft::gpu::literal;
    CHECK(literal(dtype::float32, 0.5) == "0.5f");
    CHECK(literal(dtype::float32, 1.0) == "1.0f");
    CHECK(literal(dtype::float64, 0.1) == "0.1");
    CHECK(literal(dtype::float32, 1.0 / 3) == "0x1.555556p-2f");
    CHECK(literal(dtype::float16, -HUGE_VAL) == "-infinity<float>()");
    CHECK(literal(dtype::float64, std::nan("")) == "not_a_number<double>()");
    CHECK(literal(dtype::int64, INT64_MIN) == "(-9223372036854775807ll - 1)");
    CHECK(literal(dtype::uint64, std::int64_t(-1)) == "18446744073709551615ull");
    CHECK(literal(dtype::int8, std::int64_t(200)) == "-56");
}

TEST_CASE("What its row calls an activation is generated and fused without a rule of its own") {
    int count = 0;
    for (const graft::op_table& table : graft::ops::all_op_tables())
        for (const graft::op_row& row : table) {
            if (!row.traits.activates) continue;
            INFO(std::string(row.name));
            ++count;
            graft::node n;
            n.op_type = row.name, n.domain = row.domain;
            CHECK(graft::gpu::fusable(n));
            const graft::gpu::generated_row found = graft::gpu::find_generated(n.op_type.c_str(), n.domain.c_str());
            CHECK((found.generate != nullptr));
            CHECK(found.op == n.op_type);
            CHECK(found.domain == n.domain);
        }
    CHECK(count >= 12);
    CHECK(!graft::gpu::find_rule("Conv", ""));
    CHECK(!graft::gpu::find_rule("Relu", "my.app"));
}

TEST_CASE("An empty output needs no launch") {
    generated::example x = node_of("Relu", {{0, 4}}, {0, 4});
    generated::generate(x, 0);
    CHECK(!x.refused);
    CHECK(x.made.launches.empty());
}
