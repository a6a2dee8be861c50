// Batches whose samples go alone through most of a network: what each gives by itself, whatever the threads, the memory and the executor.
#include "nets.hpp"

#include <graft/passes/sample_cut.hpp>

#include <doctest/doctest.h>

#include <atomic>

namespace {

using graft::tensor;

tensor batch_of(std::int64_t samples, std::uint64_t seed) {
    nets::numbers random{seed};
    return nets::random_tensor({samples, 16, 32, 32}, random);
}
tensor sample_of(const tensor& batch, std::int64_t i) {
    graft::shape one = batch.shape();
    one[0] = 1;
    return tensor::borrow(batch.data<float>() + i * one.elements(), one);
}
// Row i of an output is that of the sample alone: the features to the bit, what all of them go through together to a rounding.
void check_rows(const nets::answer& all, const nets::answer& one, std::int64_t i) {
    REQUIRE_MESSAGE(all.error.empty(), all.error);
    REQUIRE_MESSAGE(one.error.empty(), one.error);
    CHECK(nets::same_bits(sample_of(all.outputs[1], i), one.outputs[1]));
    CHECK(nets::difference(sample_of(all.outputs[0], i), one.outputs[0]) < 1e-6);
}

graft::sample_cut cut_of(const graft::model& m, const graft::shape& batch) {
    graft::executor serial;
    const graft::tensor_view input{graft::dtype::float32, batch, nullptr};
    return graft::cut_by_sample(m.graph(), &input, {graft::limits(), serial, nullptr, 0}).value();
}

// Runs loops in an order of its own, on one thread, and has no executor for a task's own loops.
class backwards final : public graft::executor {
public:
    int threads() const noexcept override { return 5; }
    void run(std::int64_t tasks, void (*body)(void*, std::int64_t), void* context) override {
        for (std::int64_t i = tasks; i-- > 0;) body(context, i);
    }
};

}  // namespace

TEST_CASE("each sample of a batch gets the answer that it gets alone") {
    for (const std::string& isa : nets::isas()) {
        const nets::forced_isa forced(isa);
        INFO(isa);
        const graft::model m = graft::load(nets::sampled_net(41));
        const tensor batch = batch_of(5, 41);
        const nets::answer all = nets::run(m, {batch});
        for (std::int64_t i = 0; i < 5; ++i) check_rows(all, nets::run(m, {sample_of(batch, i)}), i);
    }
}

TEST_CASE("the threads change no bit of a batch, whether samples have one each, or teams, or all of them") {
    const graft::model m = graft::load(nets::sampled_net(42));
    for (const std::int64_t samples : {2, 3, 5, 8}) {
        const tensor batch = batch_of(samples, 42);
        const nets::answer one = nets::run(m, {batch}, 1);
        REQUIRE_MESSAGE(one.error.empty(), one.error);
        for (const int threads : {2, 3, 4, 5, 8, 16}) {
            INFO(samples, " samples, ", threads, " threads");
            graft::session s(m, {threads, nullptr});
            for (int again = 0; again < 2; ++again) CHECK(nets::same_bits(nets::run(s, m, {batch}), one));
        }
        backwards own;
        graft::session s(m, {0, &own});
        CHECK(nets::same_bits(nets::run(s, m, {batch}), one));
    }
}

TEST_CASE("batches of several sizes share the memory of their samples, and it is given back") {
    const graft::model m = graft::load(nets::sampled_net(43));
    graft::session s(m, {2, nullptr});
    const tensor batch = batch_of(6, 43);
    const nets::answer first = nets::run(s, m, {batch});
    for (const std::int64_t samples : {1, 4, 2, 7, 6, 3}) REQUIRE(nets::run(s, m, {batch_of(samples, 44)}).error.empty());
    s.trim();
    CHECK(nets::same_bits(nets::run(s, m, {batch}), first));
}

TEST_CASE("a batch needs the memory of as many samples as run at once, and runs one by one where there is no more") {
    graft::load_options options;
    const graft::model free = graft::load(nets::sampled_net(45));
    const auto needed = [&](std::int64_t samples) {
        graft::value_info input = free.inputs()[0];
        input.extents[0] = samples;
        return free.memory({input}).value();
    };
    const std::int64_t between = 2 * 32 * 16 * 16 * 4;  // of each sample's features, and those as a row
    CHECK(needed(64).arena - needed(32).arena <= 33 * between);
    CHECK(needed(64).multiply_adds == 64 * needed(1).multiply_adds);
    const tensor batch = batch_of(8, 45);
    const nets::answer want = nets::run(free, {batch}, 8);
    // Room for one sample less at once, each time, until there is none.
    int fewer = 0;
    for (options.limits.memory_bytes = 9 * needed(1).arena + needed(8).constants * 3 + needed(8).outputs * 2;; options.limits.memory_bytes -= needed(1).arena) {
        const auto tight = graft::load(nets::sampled_net(45), options);
        if (!tight.ok()) break;
        const nets::answer got = nets::run(*tight, {batch}, 8);
        if (!got.error.empty()) {
            CHECK(got.error.find("memory.budget") != std::string::npos);
            break;
        }
        CHECK(nets::same_bits(got, want));
        ++fewer;
    }
    CHECK(fewer >= 8);
}

TEST_CASE("a network that was exported for a batch is cut as one that takes any") {
    const graft::model fixed = graft::load(nets::sampled_net(46, 4)), any = graft::load(nets::sampled_net(46));
    CHECK(cut_of(fixed, {4, 16, 32, 32}).samples == 4);
    const tensor batch = batch_of(4, 46);
    const nets::answer got = nets::run(fixed, {batch}), want = nets::run(any, {batch});
    CHECK(nets::difference(got, want) < 1e-6);
}

TEST_CASE("what is cut: convolutions go alone, matrices that are used once go together") {
    const graft::model m = graft::load(nets::sampled_net(47));
    const graft::sample_cut cut = cut_of(m, {8, 16, 32, 32});
    CHECK(cut.samples == 8);
    CHECK(cut.each.nodes.size() == 7);  // three convolutions, three ReLU, Flatten
    CHECK(cut.together.nodes.size() == 3);
    CHECK(cut.each.outputs.size() == 2);
    for (const graft::value_id id : cut.each.outputs) CHECK(cut.each.at(id).extents[0] == 1);
    CHECK(cut_of(m, {1, 16, 32, 32}).samples == 0);

    graft::builder b("mixes");
    auto x = b.input("image", graft::dtype::float32, {"N", 16, 32, 32});
    graft::conv2d_options three;
    three.kernel = 3, three.padding = 1;
    x = b.conv2d(b.conv2d(x, 32, three), 32, three);
    x = b.apply("Sub", {x, b.apply("ReduceMean", {x}, {graft::integers_attribute("axes", {0})})});
    b.output(x, "centred");
    const graft::model mixes = graft::load(b.finish().value());
    CHECK(cut_of(mixes, {8, 16, 32, 32}).samples == 0);
    CHECK(nets::run(mixes, {batch_of(3, 47)}).error.empty());

    const graft::model small = graft::load(nets::residual_net(47));
    CHECK(cut_of(small, {8, 3, 24, 24}).samples == 0);
}

TEST_CASE("a step that fails for one sample fails the batch, and the next batch runs") {
    graft::builder b("gathers");
    graft::conv2d_options three;
    three.kernel = 3, three.padding = 1;
    const auto x = b.input("image", graft::dtype::float32, {"N", 16, 32, 32});
    const auto rows = b.conv2d(b.conv2d(x, 32, three), 32, three);
    const auto corner =
        b.apply("Slice", {x, b.constant("from", nets::integers({0, 0})), b.constant("to", nets::integers({1, 1})), b.constant("axes", nets::integers({2, 3}))});
    const auto index = b.apply("Cast", {corner}, {graft::integer_attribute("to", 7)});  // [N,16,1,1] of int64
    const auto all = b.apply("Reshape", {index, b.constant("flat", nets::integers({0, 16}))});
    b.output(b.apply("GatherElements", {b.apply("GlobalAveragePool", {rows}), index}, {graft::integer_attribute("axis", 1)}), "chosen");
    b.output(all, "indices");
    const graft::model m = graft::load(b.finish().value());
    REQUIRE(cut_of(m, {4, 16, 32, 32}).samples == 4);
    tensor batch = batch_of(4, 48);
    for (std::int64_t i = 0; i < batch.elements(); ++i) batch.data<float>()[i] = static_cast<float>(i % 31);
    graft::session s(m, {2, nullptr});
    const nets::answer fine = nets::run(s, m, {batch});
    REQUIRE_MESSAGE(fine.error.empty(), fine.error);
    const float before = batch.data<float>()[2 * 16 * 1024];
    batch.data<float>()[2 * 16 * 1024] = 1000;
    CHECK(nets::run(s, m, {batch}).error.find("GatherElements") != std::string::npos);
    batch.data<float>()[2 * 16 * 1024] = before;
    CHECK(nets::same_bits(nets::run(s, m, {batch}), fine));
}
