// What lowering makes of a step across its two parts: the operators it leaves, and the reference's weights after a step.
#include "../difference.hpp"
#include "small_steps.hpp"

#include <graft/passes/differentiate.hpp>
#include <graft/passes/specialize.hpp>
#include <graft/lower/fuse.hpp>
#include <graft/cpu/lower/training_patterns.hpp>

#include <algorithm>
#include <cmath>

using graft::value_id;
using small_steps::numbered;
using small_steps::trained;

namespace {

// Pictures [3, 19, 19]; convolutions with an activation, max pooling, two branches that are joined, and a global maximum.
graft::graph two_branches(bool clipped, bool summed) {
    graft::builder b("net", 5);
    int made = 0;
    const auto activated = [&](value_id x, std::int64_t channels, std::int64_t kernel) {
        graft::conv2d_options o;
        o.kernel = kernel, o.padding = kernel / 2, o.name = "conv" + std::to_string(++made);
        x = b.conv2d(x, channels, o);
        return clipped ? b.clip(x, 0, 0.4f) : b.relu(x);
    };
    graft::pool_options pool;
    pool.kernel = 3, pool.stride = 2, pool.padding = 1;
    value_id x = b.max_pool(activated(b.input("input", graft::dtype::float32, {"N", 3, 19, 19}), 32, 3), pool);
    x = activated(x, 16, 1);
    x = b.concat({activated(x, 16, 1), activated(x, 32, 3)});
    x = b.apply("Flatten", {b.apply("GlobalMaxPool", {x})});
    x = b.apply("Gemm", {x, b.constant("fc.weight", numbered(72, {4, 48}, 0.2))}, {graft::integer_attribute("transB", 1)});
    if (summed) x = b.apply("ReduceSum", {x}, {graft::integer_attribute("keepdims", 0)});
    b.output(x, "y");
    graft::graph g = b.finish();
    graft::value& y = g.at(x);
    y.type = graft::dtype::float32;
    y.has_shape = true;
    y.extents = summed ? graft::shape{} : graft::shape{graft::shape::unknown, 4};
    return small_steps::loaded(std::move(g));
}

std::ptrdiff_t count(const graft::graph& g, const char* op) {
    return std::count_if(g.nodes.begin(), g.nodes.end(), [&](const graft::node& n) { return n.op_type == op; });
}

}  // namespace

TEST_CASE("masks pass pooling and joins, and pooling keeps places instead of pictures") {
    for (bool clipped : {false, true}) {
        graft::executor alone;
        graft::graph g = graft::specialize_first_input(two_branches(clipped, true), {2, 3, 19, 19}, alone, {}).value();
        std::vector<value_id> weights;
        for (const graft::parameter& p : graft::parameters_of(g)) weights.push_back(p.id);
        const value_id loss = g.outputs[0];
        g.outputs = graft::differentiate(g, loss, weights, 8, {}).value();
        const char* mask = clipped ? "ClipGrad" : "ReluGrad";
        CHECK(count(g, mask) == 4);
        CHECK(count(g, "MaxPoolGrad") == 2);
        const graft::limits caps;
        const graft::lowering with{caps, alone, nullptr, false};
        graft::must(graft::detail::fuser(g, with).run());
        graft::detail::training_fuser(g, 0).run();
        CHECK(count(g, mask) == 3);
        CHECK(count(g, "MaxPoolGrad") == 0);
        CHECK(count(g, "MaxPoolGradPlaces") == 2);
        CHECK(count(g, "MaxPool") == 0);
        // The global maximum stays, and its places are found before its gradient.
        CHECK(count(g, "MaxPoolPlaces") == 2);
        CHECK(count(g, "GlobalMaxPool") == 1);
        std::vector<char> made(g.values.size(), 0);
        for (const graft::node& n : g.nodes) {
            for (value_id id : n.inputs)
                if (id != graft::no_value && !g.at(id).constant && id != g.inputs[0]) CHECK(made[id]);
            for (value_id id : n.outputs)
                if (id != graft::no_value) made[id] = 1;
        }
    }
}

TEST_CASE("a step with masks across pooling and joins gives the reference's weights") {
    for (bool clipped : {false, true}) {
        const graft::graph g = two_branches(clipped, false);
        const auto weights = [&](bool reference, bool recompute, int threads) {
            graft::step_options o;
            o.optimizer.kind = graft::optimizer_kind::sgd;
            o.optimizer.momentum = 0;
            o.optimizer.weight_decay = 0;
            o.reference = reference;
            o.recompute = recompute;
            trained t(g, o);
            REQUIRE_MESSAGE(t.run(0, 6, threads, 0.5), t.error());
            return std::pair<std::vector<graft::training_state>, std::string>(t.step.state(), t.bits());
        };
        const auto fast = weights(false, false, 1), slow = weights(true, false, 1);
        CHECK(fast.second == weights(false, false, 3).second);
        CHECK(fast.second == weights(false, true, 2).second);
        for (std::size_t i = 0; i < fast.first.size(); ++i) {
            const graft::tensor &a = fast.first[i].value, &b = slow.first[i].value;
            const std::string name = fast.first[i].name;
            INFO(name);
            double worst = 0, largest = 0;
            for (std::int64_t k = 0; k < a.elements(); ++k) {
                worst = larger_error(worst, std::fabs(static_cast<double>(a.data<float>()[k]) - static_cast<double>(b.data<float>()[k])));
                largest = std::max(largest, std::fabs(static_cast<double>(b.data<float>()[k])));
            }
            CHECK(worst <= 2e-6 * largest);
        }
    }
}
