// Recomputation: the same gradients from less memory, and what must run once runs once.
#include "small_net.hpp"

#include <graft/passes/recompute.hpp>
#include <graft/passes/training_mode.hpp>

#include <algorithm>

namespace {

using graft::value_id;
using small_net::net;

// A chain of layers y = tanh(w * x), its loss and its gradients; `forward` is the number of nodes before the gradients'.
struct chain {
    net n;
    std::vector<value_id> weights, gradients;
    std::vector<graft::tensor> inputs;
    std::size_t forward = 0;

    explicit chain(int layers, bool skips = false, bool random = false) {
        value_id x = n.input({4, 64}), before = x;
        inputs.push_back(small_net::numbers({4, 64}, 1));
        for (int i = 0; i < layers; ++i) {
            weights.push_back(n.input({64}));
            inputs.push_back(small_net::numbers({64}, 2 + static_cast<std::uint64_t>(i)));
            const value_id y = n.apply("Tanh", {n.apply("Mul", {x, weights.back()})});
            if (random && i % 4 == 1)
                x = n.apply("Mul", {y, n.apply("RandomUniformLike", {y})});
            else if (skips && i % 3 == 2)
                x = n.apply("Add", {y, before}), before = x;
            else
                x = y;
        }
        n.finish(n.sum(x));
        forward = n.g.nodes.size();
        gradients = n.differentiate(weights);
        n.g.outputs = {n.g.outputs[0]};
    }
    std::vector<std::vector<double>> run(const graft::graph& g) {
        const graft::graph own = n.g;
        n.g = g;
        const std::vector<graft::tensor> values = n.run(inputs);
        n.g = own;
        std::vector<std::vector<double>> all;
        for (value_id id : gradients) all.push_back(net::contents(values, id));
        return all;
    }
};

// The most bytes between two nodes that a later one reads.
std::int64_t most_alive(const graft::graph& g) {
    std::int64_t most = 0;
    for (std::size_t at = 1; at < g.nodes.size(); ++at) {
        std::vector<char> made(g.values.size(), 0), counted(g.values.size(), 0);
        for (std::size_t i = 0; i < at; ++i)
            for (value_id id : g.nodes[i].outputs)
                if (id != graft::no_value) made[gradients::index(id)] = 1;
        std::int64_t bytes = 0;
        for (std::size_t i = at; i < g.nodes.size(); ++i)
            for (value_id id : g.nodes[i].inputs) {
                if (id == graft::no_value || !made[gradients::index(id)] || counted[gradients::index(id)]) continue;
                counted[gradients::index(id)] = 1;
                bytes += 8 * g.values[gradients::index(id)].extents.elements();
            }
        most = std::max(most, bytes);
    }
    return most;
}
std::size_t count(const graft::graph& g, const char* op) {
    return static_cast<std::size_t>(std::count_if(g.nodes.begin(), g.nodes.end(), [&](const graft::node& n) { return n.op_type == op; }));
}

}  // namespace

TEST_CASE("a deep chain is computed again in segments, with the same gradients and a fraction of the memory") {
    for (const bool skips : {false, true}) {
        CAPTURE(skips);
        chain c(36, skips);
        const graft::graph made = graft::recompute(c.n.g, c.forward);
        CHECK(c.run(made) == c.run(c.n.g));
        const std::int64_t before = most_alive(c.n.g), after = most_alive(made);
        MESSAGE("bytes alive at most: " << before << " kept, " << after << " computed again");
        CHECK(after < before / 2);
        // Each forward node runs at most twice.
        CHECK(count(made, "Tanh") <= 2 * count(c.n.g, "Tanh"));
    }
}

TEST_CASE("nodes that draw numbers run once") {
    chain c(36, false, true);
    const graft::graph made = graft::recompute(c.n.g, c.forward);
    CHECK(made.nodes.size() > c.n.g.nodes.size());
    CHECK(count(made, "RandomUniformLike") == count(c.n.g, "RandomUniformLike"));
    CHECK(c.run(made) == c.run(c.n.g));
}

TEST_CASE("a graph without a backward part, or with nothing to save, stays as it is") {
    const chain c(1);
    CHECK(graft::recompute(c.n.g, c.forward).nodes.size() == c.n.g.nodes.size());
    const chain deep(12);
    CHECK(graft::recompute(deep.n.g, deep.n.g.nodes.size()).nodes.size() == deep.n.g.nodes.size());
    CHECK(graft::recompute(deep.n.g, deep.n.g.nodes.size() + 5).nodes.size() == deep.n.g.nodes.size());
    CHECK(graft::recompute(graft::graph(), 0).nodes.empty());
}

TEST_CASE("running statistics are renewed once") {
    net n;
    value_id x = n.input({3, 4, 5, 5});
    std::vector<value_id> wrt;
    std::vector<graft::tensor> inputs{small_net::numbers({3, 4, 5, 5}, 1)};
    for (int i = 0; i < 16; ++i) {
        wrt.push_back(n.input({4})), wrt.push_back(n.input({4}));
        inputs.push_back(small_net::numbers({4}, 20)), inputs.push_back(small_net::numbers({4}, 21));
        const value_id mean = n.constant(small_net::filled({4}, {0.1})), variance = n.constant(small_net::filled({4}, {0.9}));
        x = n.apply("Tanh", {n.apply("BatchNormalization", {x, wrt[wrt.size() - 2], wrt.back(), mean, variance})});
    }
    n.finish(n.sum(x));
    graft::training_mode_options mode;
    mode.learning = wrt;
    auto running = graft::training_mode(n.g, mode);
    REQUIRE(running.ok());
    for (const graft::running_statistic& r : running.value()) n.g.outputs.push_back(r.updated);
    // Shapes of what training mode has added.
    std::vector<graft::tensor_view> views;
    for (const graft::tensor& t : inputs) views.push_back({t.type(), t.shape(), nullptr});
    const graft::limits limit;
    graft::executor serial;
    n.g = graft::specialize(std::move(n.g), views.data(), {limit, serial, nullptr, 7});
    const std::size_t forward = n.g.nodes.size();
    const std::vector<value_id> gradients = n.differentiate(wrt);
    const graft::graph made = graft::recompute(n.g, forward);
    CHECK(count(made, "BatchNormalizationTraining") > 16);
    std::size_t renewals = 0;
    for (const graft::node& m : made.nodes) renewals += m.op_type == "BatchNormalizationTraining" && m.outputs[1] != graft::no_value;
    CHECK(renewals == 16);
    const std::vector<graft::tensor> a = n.run(inputs);
    n.g = made;
    const std::vector<graft::tensor> b = n.run(inputs);
    for (value_id id : gradients) CHECK(net::contents(a, id) == net::contents(b, id));
    for (const graft::running_statistic& r : running.value()) CHECK(net::contents(a, r.updated) == net::contents(b, r.updated));
}
