// Attention as exporters write it: products that read their matrices out of others, beside reference kernels, and those that have to stay as they are.
#include "../cpu_in_bfloat16.hpp"
#include "../exec/nets.hpp"

#include <doctest/doctest.h>

#include <graft/graft.hpp>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace {

using graft::value_id;
using order = std::vector<std::int64_t>;

constexpr std::int64_t batch = 2, tokens = 36, heads = 3, width = 32;

// A graph with an input of [2, 36, 288]: what three times three heads of 32 numbers are taken from.
struct network {
    graft::builder b{"attention", 1};
    value_id x = b.input("x", graft::dtype::float32, {batch, tokens, 3 * heads* width});
    int constants = 0;

    value_id constant(graft::tensor t) { return b.constant("constant" + std::to_string(++constants), std::move(t)); }
    value_id number(float f) { return constant(graft::tensor::from(&f, {})); }
    value_id reshape(value_id of, const order& to) { return b.apply("Reshape", {of, constant(nets::integers(to))}); }
    value_id turn(value_id of, const order& perm) { return b.apply("Transpose", {of}, {graft::integers_attribute("perm", perm)}); }
    std::vector<value_id> split(value_id of, std::int64_t axis, int parts, std::int64_t each) {
        return b.apply_all("Split", {of, constant(nets::integers(order(static_cast<std::size_t>(parts), each)))}, {graft::integer_attribute("axis", axis)},
                           parts);
    }
    value_id product(value_id a, value_id of) { return b.apply("MatMul", {a, of}); }
    value_id squeeze(value_id of, std::int64_t axis) { return b.apply("Squeeze", {of, constant(nets::integers({axis}))}); }
    value_id times(value_id of, float by) { return b.apply("Mul", {of, number(by)}); }
};

// Runs it with the CPU's kernels and with reference kernels; how many products read matrices where they lie.
int strided(const std::function<value_id(network&)>& build) {
    network n;
    n.b.output(build(n), "y");
    const graft::graph g = n.b.finish();
    nets::numbers random{3};
    const graft::tensor x = nets::random_tensor({batch, tokens, 3 * heads * width}, random);
    graft::load_options slow, fast;
    slow.device = fast.device = "cpu";
    slow.reference = true;
    const graft::model reference = graft::load(g, slow), model = graft::load(g, fast);
    const auto want = nets::run(reference, {x}), got = nets::run(model, {x}, 1), same = nets::run(model, {x}, 3);
    CHECK(want.error == "");
    CHECK(got.error == "");
    CHECK(nets::same_bits(got, same));
    CHECK(difference(got.outputs[0], want.outputs[0]) < 2e-6);
    if (multiplies_bfloat16()) {
        fast.on_device.precision = "bfloat16";
        const auto narrow = nets::run(graft::load(g, fast), {x});
        CHECK(narrow.error == "");
        CHECK(difference(narrow.outputs[0], want.outputs[0]) < 0.03);
    }
    int count = 0;
    for (const graft::placement& p : model.placements(model.inputs()).value()) count += p.op_type == "graft.StridedMatMul";
    return count;
}

}  // namespace

TEST_CASE("strided products: queries, keys and values are read where they lie, and heads written side by side") {
    // All three in one matrix, [batch, tokens, 3, heads, width], as timm and torchvision have it.
    CHECK(strided([](network& n) {
              const value_id all = n.turn(n.reshape(n.x, {batch, tokens, 3, heads, width}), {2, 0, 3, 1, 4});
              const auto parts = n.split(all, 0, 3, 1);
              const value_id q = n.squeeze(parts[0], 0), k = n.squeeze(parts[1], 0), v = n.squeeze(parts[2], 0);
              const value_id scores = n.b.softmax(n.product(n.times(q, 0.4f), n.times(n.turn(k, {0, 1, 3, 2}), 0.4f)));
              return n.reshape(n.turn(n.product(scores, v), {0, 2, 1, 3}), {batch, tokens, heads * width});
          }) == 2);
    // One part of the channels each, the scores divided behind the product, and a mask added to them.
    CHECK(strided([](network& n) {
              const auto parts = n.split(n.x, -1, 3, heads * width);
              const auto in_heads = [&](int i, const order& perm) {
                  return n.turn(n.reshape(parts[static_cast<std::size_t>(i)], {batch, tokens, heads, width}), perm);
              };
              nets::numbers random{8};
              const value_id mask = n.constant(nets::random_tensor({batch, heads, tokens, tokens}, random));
              const value_id scores = n.b.softmax(n.b.apply("Add", {n.times(n.product(in_heads(0, {0, 2, 1, 3}), in_heads(1, {0, 2, 3, 1})), 0.2f), mask}));
              return n.turn(n.product(scores, in_heads(2, {0, 2, 1, 3})), {0, 2, 1, 3});
          }) == 2);
    // Channels by channels, as cross-covariance attention has it: the keys' tokens are summed over, and the columns of A are its rows.
    CHECK(strided([](network& n) {
              const auto parts = n.split(n.x, 2, 3, heads * width);
              const auto channels_first = [&](int i) {
                  return n.turn(n.reshape(parts[static_cast<std::size_t>(i)], {batch, tokens, heads, width}), {0, 2, 3, 1});
              };
              const value_id q = channels_first(0), k = n.turn(channels_first(1), {0, 1, 3, 2});
              return n.product(q, k);
          }) == 1);
    // Scaled behind the product, and columns of that side by side: the product of the matrices turned.
    CHECK(strided([](network& n) {
              const auto parts = n.split(n.x, 2, 9, width);
              return n.turn(n.times(n.product(parts[1], n.turn(parts[7], {0, 2, 1})), 0.3f), {0, 2, 1});
          }) == 1);
    // Batches of matrices alone.
    CHECK(strided([](network& n) {
              const auto parts = n.split(n.x, 2, 9, width);
              return n.product(parts[1], n.turn(parts[7], {0, 2, 1}));
          }) == 1);
}

TEST_CASE("strided products: what is more than a matter of places stays a copy") {
    // The product's copy is an output of its own, or read twice.
    CHECK(strided([](network& n) {
              const auto parts = n.split(n.x, 2, 3, heads * width);
              const value_id y = n.product(parts[0], n.turn(parts[1], {0, 2, 1}));
              return n.b.apply("Add", {n.turn(y, {0, 2, 1}), y});
          }) == 1);
    // So is what is multiplied by a number.
    CHECK(strided([](network& n) {
              const value_id y = n.product(n.x, n.turn(n.x, {0, 2, 1}));
              return n.b.apply("Add", {n.times(y, 0.5f), y});
          }) == 1);
    // Heads that are rows of one matrix: no distance leads from each to the next.
    CHECK(strided([](network& n) {
              const value_id mixed = n.reshape(n.turn(n.x, {0, 2, 1}), {batch, heads * tokens, 3 * width});
              return n.product(mixed, n.turn(mixed, {0, 2, 1}));
          }) == 1);  // the second Transpose alone
    // One matrix for all of a batch.
    CHECK(strided([](network& n) {
              const auto parts = n.split(n.x, 2, 3, heads * width);
              const value_id one = n.b.apply("ReduceMean", {n.turn(parts[0], {0, 2, 1})}, {graft::integers_attribute("axes", {0})});
              return n.product(parts[1], one);
          }) == 0);
}
