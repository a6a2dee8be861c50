// The rewriter knows who makes and who reads a value after any change as it would if it looked at the whole graph anew.
#include "../exec/nets.hpp"

#include <graft/lower/rewriter.hpp>

#include <doctest/doctest.h>

namespace {

using graft::graph;
using graft::node;
using graft::value_id;

// A graph of nodes with one or two outputs that read any values before them.
graph drawn(nets::numbers& random, int nodes) {
    graph g;
    g.inputs = {g.add_value("x"), g.add_value("y")};
    for (int i = 0; i < nodes; ++i) {
        node n;
        n.name = "n" + std::to_string(i);
        n.op_type = "Sum";
        for (int k = 1 + static_cast<int>(random.next() % 3); k > 0; --k) n.inputs.push_back(static_cast<value_id>(random.next() % g.values.size()));
        if (random.next() % 5 == 0) n.inputs.push_back(graft::no_value);
        for (int k = 1 + static_cast<int>(random.next() % 2); k > 0; --k) n.outputs.push_back(g.add_value(n.name + "_" + std::to_string(k)));
        g.nodes.push_back(n);
    }
    g.outputs = {g.nodes.back().outputs[0], g.nodes[0].outputs[0]};
    return g;
}

void same(graft::detail::rewriter& changed) {
    graph copy = changed.g;
    graft::detail::rewriter anew(copy);
    for (value_id id = 0; id < static_cast<value_id>(copy.values.size()); ++id) {
        CAPTURE(id);
        REQUIRE(changed.position(id) == anew.position(id));
        REQUIRE(changed.used_once(id) == anew.used_once(id));
        REQUIRE(changed.used_at_all(id) == anew.used_at_all(id));
        REQUIRE(changed.readers(id) == anew.readers(id));
    }
}

node* any(graft::detail::rewriter& r, nets::numbers& random) {
    for (int tries = 0; tries < 50; ++tries) {
        node& n = r.g.nodes[random.next() % r.g.nodes.size()];
        if (!n.op_type.empty()) return &n;
    }
    return nullptr;
}

}  // namespace

TEST_CASE("what the rewriter knows is what it would find if it looked anew, after every change") {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        CAPTURE(seed);
        nets::numbers random{seed};
        graph g = drawn(random, 30);
        graft::detail::rewriter r(g);
        for (int change = 0; change < 60; ++change) {
            node *n = any(r, random), *other = any(r, random);
            if (!n || !other) break;
            CAPTURE(change);
            switch (random.next() % 6) {
            case 0: r.edit(*n, [&] { n->inputs[random.next() % n->inputs.size()] = static_cast<value_id>(random.next() % g.values.size()); }); break;
            case 1: r.drop(*n); break;
            case 2:
                if (n == other) break;
                r.edit({n, other}, [&] { std::swap(n->outputs, other->outputs); });
                break;
            case 3:
                if (n != other) r.replace(*n, *other);
                break;
            case 4: {
                node added = *n;
                added.outputs = {g.add_value("added" + std::to_string(change))};
                if (random.next() % 2)
                    r.insert_before(*n, added);
                else
                    r.insert_behind(*n, added);
                const std::size_t before = g.nodes.size();
                std::size_t dropped = 0;
                for (const node& each : g.nodes) dropped += each.op_type.empty();
                r.finish();
                CHECK(g.nodes.size() == before + 1 - dropped);
                break;
            }
            default: {
                node changed = *n;
                changed.inputs = {static_cast<value_id>(random.next() % g.values.size())};
                r.drop(*n);
                r.put(*n, changed);
            }
            }
            same(r);
        }
    }
}

TEST_CASE("new nodes stand where they were put, in the order in which they came") {
    nets::numbers random{7};
    graph g = drawn(random, 3);
    graft::detail::rewriter r(g);
    node added;
    added.op_type = "Neg";
    for (const char* name : {"a", "b"}) {
        added.name = name;
        r.insert_before(g.nodes[1], added);
    }
    added.name = "c";
    r.insert_behind(g.nodes[2], added);
    r.drop(g.nodes[0]);
    r.finish();
    std::string order;
    for (const node& n : g.nodes) order += n.name + " ";
    CHECK(order == "a b n1 n2 c ");
}

TEST_CASE("a network of many layers is lowered in a time that its length tells, not the square of it") {
    graft::builder b("long");
    nets::numbers random{1};
    const value_id w = b.constant("w", nets::random_tensor({4, 4}, random, -0.3, 0.3));
    value_id x = b.input("x", graft::dtype::float32, {2, 4});
    for (int i = 0; i < 20000; ++i) x = b.apply("Relu", {b.apply("MatMul", {x, w})});
    b.output(x, "y");
    const graft::model m = graft::load(b.finish());
    graft::session s(m);
    const graft::tensor y = s.run(nets::random_tensor({2, 4}, random));
    CHECK(y.shape() == graft::shape{2, 4});
    // As many nodes as products: each Relu has gone into one.
    CHECK(std::vector<graft::placement>(m.placements(m.inputs())).size() == 20000);
}
