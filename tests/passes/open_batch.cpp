// Networks that were exported for a fixed batch: opened, each sample of three gives what it gave alone; what mixes samples is named.
#include <doctest/doctest.h>
#include <graft/graft.hpp>
#include <graft/passes/open_batch.hpp>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace {

using graft::builder;
using graft::dtype;
using graft::integer_attribute;
using graft::integers_attribute;
using graft::tensor;
using graft::value_id;

tensor random(const graft::shape& extents, int seed) {
    tensor t = tensor::make(dtype::float32, extents);
    std::uint32_t state = static_cast<std::uint32_t>(seed) * 747796405u + 2891336453u;
    for (std::int64_t i = 0; i < t.elements(); ++i) {
        state = state * 1664525u + 1013904223u;
        t.data<float>()[i] = static_cast<float>(state >> 8) / 8388608.0f - 1;
    }
    return t;
}
struct net {
    builder b{"net", 1};
    int constants = 0;
    value_id weight(const graft::shape& extents) { return ++constants, b.constant("w" + std::to_string(constants), random(extents, constants)); }
    value_id integers(const std::vector<std::int64_t>& v) {
        return ++constants, b.constant("i" + std::to_string(constants), tensor::from(v.data(), {static_cast<std::int64_t>(v.size())}));
    }
    value_id integers32(const std::vector<std::int32_t>& v) {
        return ++constants, b.constant("i" + std::to_string(constants), tensor::from(v.data(), {static_cast<std::int64_t>(v.size())}));
    }
    value_id scalar(std::int64_t v) { return ++constants, b.constant("s" + std::to_string(constants), tensor::from(&v, {})); }
    value_id reshape(value_id x, const std::vector<std::int64_t>& to) { return b.apply("Reshape", {x, integers(to)}); }
    value_id linear(value_id x) { return b.apply("MatMul", {reshape(x, {1, 192}), weight({192, 5})}); }
    value_id flat(value_id x) { return b.apply("Flatten", {x}); }
    value_id transpose(value_id x, const std::vector<std::int64_t>& order) { return b.apply("Transpose", {x}, {integers_attribute("perm", order)}); }
    value_id gather(value_id x, value_id indices, std::int64_t axis) { return b.apply("Gather", {x, indices}, {integer_attribute("axis", axis)}); }
    value_id reduce(const char* op, value_id x, const std::vector<std::int64_t>& axes, std::int64_t keep) {
        return b.apply(op, {x}, {integers_attribute("axes", axes), integer_attribute("keepdims", keep)});
    }
    value_id patches(value_id x) {  // [1, 6, 16]
        graft::conv2d_options o;
        o.kernel = o.stride = 2;
        return reshape(b.conv2d(x, 6, o), {1, 6, 16});
    }
};

struct trap {
    const char* name;
    std::function<value_id(net&, value_id)> make;
    const char* blocked;  // the node that the samples cannot pass; null: it opens
    std::int64_t samples = 1;
};

std::vector<std::int64_t> upto(std::int64_t n) {
    std::vector<std::int64_t> v;
    for (std::int64_t i = 0; i < n; ++i) v.push_back(i);
    return v;
}

// Pictures are [samples, 3, 8, 8].
const std::vector<trap>& traps() {
    static const std::vector<trap> all{
        {"a Reshape that holds the batch", [](net& n, value_id x) { return n.linear(x); }, nullptr},
        {"a Reshape for four samples",
         [](net& n, value_id x) {
             return n.b.apply("MatMul", {n.reshape(x, {4, 192}), n.weight({192, 5})});
         },
         nullptr, 4},
        {"tokens and a class token",
         [](net& n, value_id x) {
             const value_id tokens = n.transpose(n.patches(x), {0, 2, 1});
             const value_id joined = n.b.apply("Concat", {n.weight({1, 1, 6}), tokens}, {integer_attribute("axis", 1)});
             const value_id placed = n.b.apply("Add", {joined, n.weight({1, 17, 6})});
             return n.b.apply("MatMul", {n.gather(placed, n.scalar(0), 1), n.weight({6, 5})});
         },
         nullptr},
        {"attention with heads folded into the batch",
         [](net& n, value_id x) {
             const value_id t = n.transpose(n.patches(x), {0, 2, 1});  // [1, 16, 6]
             const auto heads = [&](value_id v) { return n.reshape(n.transpose(n.reshape(v, {1, 16, 2, 3}), {0, 2, 1, 3}), {2, 16, 3}); };
             const value_id q = heads(n.b.apply("MatMul", {t, n.weight({6, 6})})), k = heads(n.b.apply("MatMul", {t, n.weight({6, 6})}));
             const value_id scores = n.b.softmax(n.b.apply("MatMul", {q, n.transpose(k, {0, 2, 1})}));
             const value_id y = n.b.apply("MatMul", {scores, heads(t)});
             return n.reduce("ReduceMean", n.reshape(n.transpose(n.reshape(y, {1, 2, 16, 3}), {0, 2, 1, 3}), {1, 16, 6}), {1}, 0);
         },
         nullptr},
        {"windows with a mask",
         [](net& n, value_id x) {
             const value_id w = n.reshape(n.transpose(n.reshape(n.transpose(x, {0, 2, 3, 1}), {1, 2, 4, 2, 4, 3}), {0, 1, 3, 2, 4, 5}), {4, 16, 3});
             const value_id masked = n.b.apply("Add", {w, n.weight({4, 16, 3})});
             const value_id back = n.reshape(n.transpose(n.reshape(masked, {1, 2, 2, 4, 4, 3}), {0, 1, 3, 2, 4, 5}), {1, 8, 8, 3});
             return n.reduce("ReduceMean", back, {1, 2}, 0);
         },
         nullptr},
        {"the first elements of the flattened batch",
         [](net& n, value_id x) {
             const value_id flat = n.reshape(n.reduce("ReduceMean", x, {2, 3}, 0), {-1});
             return n.b.apply("MatMul", {n.reshape(n.gather(flat, n.integers(upto(3)), 0), {1, 3}), n.weight({3, 5})});
         },
         nullptr},
        {"some elements of the flattened batch, out of order",
         [](net& n, value_id x) {
             const value_id flat = n.reshape(x, {192});
             return n.b.apply("MatMul", {n.reshape(n.gather(flat, n.integers({5, 3, 190, -1}), 0), {1, 4}), n.weight({4, 5})});
         },
         nullptr},
        {"the sample itself, without its batch",
         [](net& n, value_id x) {
             const value_id one = n.gather(x, n.scalar(0), 0);
             return n.reduce("ReduceSum", n.b.apply("Relu", {n.reshape(one, {1, 3, 64})}), {2}, 0);
         },
         nullptr},
        {"Squeeze and Unsqueeze of the batch",
         [](net& n, value_id x) {
             const value_id one = n.b.apply("Squeeze", {n.patches(x), n.integers({0})});
             const value_id y = n.b.apply("MatMul", {one, n.weight({16, 5})});
             return n.reduce("ReduceMean", n.b.apply("Unsqueeze", {y, n.integers({0})}), {1}, 0);
         },
         nullptr},
        {"Expand to the batch",
         [](net& n, value_id x) {
             const value_id mean = n.reduce("ReduceMean", x, {2, 3}, 1);
             return n.flat(n.b.apply("Mul", {x, n.b.apply("Expand", {mean, n.integers({1, 3, 8, 8})})}));
         },
         nullptr},
        {"sizes of a Resize",
         [](net& n, value_id x) {
             const value_id none = graft::no_value;
             graft::attribute mode;
             mode.name = "mode", mode.kind = graft::attribute_kind::string, mode.string = "nearest";
             return n.flat(n.b.apply("Resize", {x, none, none, n.integers({1, 3, 4, 16})}, {mode}));
         },
         nullptr},
        {"a Slice of all samples by lists of 32 bits",
         [](net& n, value_id x) {
             return n.flat(n.b.apply("Slice", {x, n.integers32({0, 1}), n.integers32({1, 7}), n.integers32({0, 2}), n.integers32({1, 2})}));
         },
         nullptr},
        {"a Slice of all samples",
         [](net& n, value_id x) {
             return n.flat(n.b.apply("Slice", {x, n.integers({0, 1}), n.integers({1, 7}), n.integers({0, 2}), n.integers({1, 2})}));
         },
         nullptr},
        {"Tile and a mean over what was tiled",
         [](net& n, value_id x) {
             const value_id t = n.b.apply("Tile", {n.reduce("ReduceMean", x, {2, 3}, 0), n.integers({4, 2})});
             return n.reduce("ReduceMax", n.reshape(t, {4, 1, 6}), {0}, 0);
         },
         nullptr},
        {"an LSTM over rows",
         [](net& n, value_id x) {
             const value_id rows = n.transpose(n.reshape(n.reduce("ReduceMean", x, {1}, 0), {1, 8, 8}), {1, 0, 2});
             graft::attribute hidden = integer_attribute("hidden_size", 4);
             const std::vector<value_id> y = n.b.apply_all(
                 "LSTM", {rows, n.weight({1, 16, 8}), n.weight({1, 16, 4}), graft::no_value, graft::no_value, n.weight({1, 1, 4}), n.weight({1, 1, 4})},
                 {hidden}, 3);
             return n.b.apply("Squeeze", {y[1], n.integers({0})});
         },
         nullptr},
        {"Einsum over channels",
         [](net& n, value_id x) {
             graft::attribute equation;
             equation.name = "equation", equation.kind = graft::attribute_kind::string, equation.string = "bchw,kc->bkh";
             return n.flat(n.b.apply("Einsum", {x, n.weight({5, 3})}, {equation}));
         },
         nullptr},
        {"columns of a matrix",
         [](net& n, value_id x) {  // W x with the samples as columns
             return n.transpose(n.b.apply("MatMul", {n.weight({5, 192}), n.transpose(n.reshape(x, {1, 192}), {1, 0})}), {1, 0});
         },
         nullptr},
        {"an output without its batch",
         [](net& n, value_id x) {
             return n.b.apply("Squeeze", {n.linear(x), n.integers({0})});
         },
         nullptr},
        {"a choice that leads nowhere",
         [](net& n, value_id x) {
             // [1, 3, 8, 8] to [1, 1, 3, 64]: the samples fit two axes, and the first of them is summed over.
             const value_id y = n.b.apply("Unsqueeze", {n.reshape(x, {1, 3, 64}), n.integers({0})});
             const value_id z = n.reshape(n.reshape(y, {192}), {1, 1, 192});
             return n.b.apply("MatMul", {n.reduce("ReduceSum", z, {0}, 0), n.weight({192, 5})});
         },
         nullptr},

        {"a mean over all axes",
         [](net& n, value_id x) {
             return n.b.apply("Mul", {n.reshape(x, {1, 192}), n.reduce("ReduceMean", x, {0, 1, 2, 3}, 1)});
         },
         "ReduceMean"},
        {"an order turned round",
         [](net& n, value_id x) {
             return n.flat(n.b.apply("Slice", {x, n.integers({-1}), n.integers({-5}), n.integers({0}), n.integers({-1})}));
         },
         "Slice"},
        {"a batch that is padded",
         [](net& n, value_id x) {
             return n.flat(n.b.apply("Pad", {x, n.integers({1, 0, 0, 0, 0, 0, 0, 0})}));
         },
         "Pad"},
        {"weights made of the sample",
         [](net& n, value_id x) {
             const value_id kernel = n.reshape(n.gather(n.reshape(x, {192}), n.integers(upto(6)), 0), {2, 3, 1, 1});
             return n.flat(n.b.apply("Conv", {x, kernel}));
         },
         "Conv"},
        {"products between samples",
         [](net& n, value_id x) {
             const value_id rows = n.reshape(x, {1, 192});
             return n.b.apply("MatMul", {rows, n.transpose(rows, {1, 0})});
         },
         "MatMul"},
        {"a sum along the batch",
         [](net& n, value_id x) {
             return n.flat(n.b.apply("CumSum", {x, n.scalar(0)}));
         },
         "CumSum"},
        {"a scale of the whole batch",
         [](net& n, value_id x) {
             const std::vector<value_id> q = n.b.apply_all("DynamicQuantizeLinear", {x}, {}, 3);
             return n.flat(n.b.apply("DequantizeLinear", {q[0], q[1], q[2]}));
         },
         "DynamicQuantizeLinear"},
        {"a constant for each of four samples",
         [](net& n, value_id x) {
             return n.reshape(n.b.apply("Mul", {x, n.weight({4, 1, 1, 1})}), {4, 192});
         },
         "Mul", 4},
    };
    return all;
}

tensor run(const graft::model& m, const tensor& x) {
    graft::session s(m);
    auto y = s.run(x);
    REQUIRE_MESSAGE(y.ok(), std::string(y.ok() ? "" : y.error().what()));
    return *y;
}
graft::graph made(const trap& t) {
    net n;
    const value_id x = n.b.input("picture", dtype::float32, {t.samples, 3, 8, 8});
    n.b.output(t.make(n, x), "row");
    auto g = n.b.finish();
    REQUIRE_MESSAGE(g.ok(), std::string(g.ok() ? "" : g.error().what()));
    auto m = graft::load(std::move(g).value());
    REQUIRE_MESSAGE(m.ok(), std::string(m.ok() ? "" : m.error().what()));
    return m->graph();
}

}  // namespace

TEST_CASE("A network for a fixed batch takes any, and each sample is computed as it was alone") {
    graft::executor serial;
    for (const trap& t : traps()) {
        INFO(std::string(t.name));
        const graft::graph fixed = made(t);
        const graft::shape batch{t.samples, 3, 8, 8};
        CHECK(!graft::takes_any_batch(fixed, batch, serial).ok());
        auto opened = graft::open_batch(fixed, batch, serial);
        if (t.blocked) {
            REQUIRE(!opened.ok());
            CHECK(opened.error().code() == graft::errc::graph_fixed_batch);
            CHECK_MESSAGE(opened.error().where().find(t.blocked) != std::string::npos, opened.error().what());
            continue;
        }
        REQUIRE_MESSAGE(opened.ok(), std::string(opened.ok() ? "" : opened.error().what()));
        CHECK(graft::takes_any_batch(*opened, batch, serial).ok());
        // Opened, it stays as it is.
        auto again = graft::open_batch(*opened, batch, serial);
        REQUIRE(again.ok());
        CHECK(again->nodes.size() == opened->nodes.size());

        const graft::model alone = graft::load(fixed), together = graft::load(std::move(opened).value());
        CHECK(together.outputs()[0].name == "row");
        const std::int64_t times = 3, samples = times * t.samples;
        const tensor all = random({samples, 3, 8, 8}, 99);
        const tensor y = run(together, all);
        CHECK(y.shape()[0] == samples);
        for (std::int64_t i = 0; i < times; ++i) {
            const tensor part = tensor::from(all.data<float>() + i * t.samples * 192, batch);
            const tensor want = run(alone, part);
            REQUIRE(want.elements() * times == y.elements());
            for (std::int64_t k = 0; k < want.elements(); ++k) {
                const double w = static_cast<double>(want.data<float>()[k]), got = static_cast<double>(y.data<float>()[i * want.elements() + k]);
                REQUIRE(std::fabs(w - got) <= 1e-5 * (1 + std::fabs(w)));
            }
        }
    }
}

TEST_CASE("A batch is opened only where there is one input") {
    builder b("two inputs");
    b.output(b.add(b.input("a", dtype::float32, {1, 4}), b.input("b", dtype::float32, {1, 4})), "y");
    const graft::model m = graft::load(b.finish());
    graft::executor serial;
    CHECK(graft::open_batch(m.graph(), {1, 4}, serial).error().code() == graft::errc::input_name);
}

TEST_CASE("A batch is opened only where its samples have elements") {
    graft::executor serial;
    const auto refused = [&](const graft::shape& input, bool flat, graft::errc code, const std::string& why) {
        net n;
        value_id x = n.b.input("x", dtype::float32, {input[0], input[1]});
        if (!flat) {  // [2, 0], then its samples behind the extent of zero
            const value_id none = n.b.apply("Slice", {x, n.integers({3}), n.integers({3}), n.integers({1})});
            x = n.transpose(none, {1, 0});
        }
        n.b.output(n.b.relu(x), "y");
        const graft::model m = graft::load(n.b.finish());
        const auto opened = graft::open_batch(m.graph(), input, serial);
        REQUIRE(!opened.ok());
        CHECK(opened.error().code() == code);
        CHECK_MESSAGE(opened.error().detail().find(why) != std::string::npos, opened.error().what());
    };
    refused({2, 3}, false, graft::errc::graph_fixed_batch, "what it makes has no elements");
    refused({2, 0}, true, graft::errc::input_shape, "a sample has to have elements");
}

TEST_CASE("A node without its first output stops the samples") {
    builder b("net", 1);
    b.output(b.apply_all("Dropout", {b.input("x", dtype::float32, {5, 5})}, {}, 2)[1], "kept");
    graft::graph g = b.finish().value();
    g.nodes[0].outputs[0] = graft::no_value;
    graft::executor serial;
    const graft::model m = graft::load(std::move(g));
    const auto opened = graft::open_batch(m.graph(), {5, 5}, serial);
    REQUIRE(!opened.ok());
    CHECK(opened.error().detail().find("its first output is left out") == 0);
}

TEST_CASE("A network that says that its batch is open, and holds it all the same, is opened") {
    net n;
    const value_id x = n.b.input("picture", dtype::float32, {"N", 3, 8, 8});
    n.b.output(n.b.apply("MatMul", {n.reshape(x, {1, 192}), n.weight({192, 5})}), "row");
    const graft::model m = graft::load(n.b.finish());
    graft::executor serial;
    CHECK(!graft::takes_any_batch(m.graph(), {1, 3, 8, 8}, serial).ok());
    const graft::graph g = graft::open_batch(m.graph(), {1, 3, 8, 8}, serial);
    CHECK(graft::takes_any_batch(g, {1, 3, 8, 8}, serial).ok());
}

TEST_CASE("what was opened is tried with three times the samples, whatever the rules said of it") {
    // A sum over the samples, of which a wrong rule says that it carries them.
    builder b("net", 1);
    const value_id x = b.input("x", dtype::float32, {1, 4});
    b.output(b.apply("ReduceMean", {x}, {integers_attribute("axes", {0}), integer_attribute("keepdims", 1)}), "y");
    graft::executor serial;
    const graft::model loaded = graft::load(b.finish().value()).value();
    graft::graph fixed = loaded.graph(), opened = fixed;
    const value_id y = fixed.outputs[0];
    fixed.at(y).extents = {1, 4};
    fixed.at(y).has_shape = true;
    opened.at(fixed.inputs[0]).extents[0] = -1;
    std::vector<int> axes(fixed.values.size(), -1);
    axes[fixed.inputs[0]] = 0;
    CHECK(graft::detail::check_opened(fixed, opened, {1, 4}, axes, serial, {}).ok());
    axes[y] = 0;
    const graft::status tried = graft::detail::check_opened(fixed, opened, {1, 4}, axes, serial, {});
    REQUIRE(!tried.ok());
    CHECK(tried.error().code() == graft::errc::graph_fixed_batch);
    CHECK(tried.error().detail().find("for three times the samples its shape is [1,4] and not [3,4]") == 0);
}
