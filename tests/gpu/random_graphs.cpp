// Graphs drawn at random, of views, movements, broadcasts, reductions and residuals with several outputs, on the CUDA simulator: the answers
// are the CPU's, and no kernel writes what its other threads still read. The same for steps of training. The environment may ask for more
// (scripts/random_graphs): GRAFT_TEST_GRAPHS=COUNT, GRAFT_TEST_FIRST=SEED.
#include "learning.hpp"

#include "../cuda_simulator/simulated.hpp"
#include "../ops/problems.hpp"

#include <graft/graph/emitter.hpp>

#include <cstdlib>

namespace {

using graft::shape;
using graft::tensor;
using graft::value_id;

std::uint64_t asked(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

class dice {
public:
    explicit dice(std::uint64_t seed) : random_{seed * 1000003} {}
    int draw(int n) { return static_cast<int>(random_.next() % static_cast<std::uint64_t>(n)); }
    template <class T>
    T& one_of(std::vector<T>& all) {
        return all[static_cast<std::size_t>(draw(static_cast<int>(all.size())))];
    }
    std::vector<std::int64_t> permutation(int rank) {
        std::vector<std::int64_t> p;
        for (int i = 0; i < rank; ++i) p.insert(p.begin() + draw(i + 1), i);
        return p;
    }

private:
    problems::numbers random_;
};

/// Draws a graph whose values are small and mostly of few shapes, so that residuals meet views of the same memory.
class random_graph : dice {
public:
    explicit random_graph(std::uint64_t seed) : dice(seed), e_(g_, graft::ops::find_training_op, limit_) {
        g_.name = "graph " + std::to_string(seed);
        static const shape shapes[] = {{6, 6}, {4, 4, 4}, {2, 8, 8}, {1, 12, 12}, {3, 5}, {2, 3, 4, 4}, {8, 1, 8}, {40}};
        const shape s = shapes[draw(8)];
        live_.push_back(e_.apply("Tanh", {input(s)}));
        if (draw(2)) live_.push_back(e_.apply("Neg", {input(s)}));
        for (int nodes = 4 + draw(8); nodes > 0; --nodes) step();
    }
    graft::graph finish() {
        REQUIRE_MESSAGE(e_.failure.ok(), g_.name);
        std::vector<value_id> outputs = {live_.back()};
        while (outputs.size() < live_.size() && draw(3) == 0) {
            const value_id other = one_of(live_);
            if (std::find(outputs.begin(), outputs.end(), other) == outputs.end()) outputs.push_back(other);
        }
        g_.outputs = outputs;
        g_.opsets = {{"", graft::newest_opset}, {"graft", 1}};
        return std::move(g_);
    }

private:
    value_id input(const shape& extents) {
        const value_id id = g_.add_value("x" + std::to_string(g_.inputs.size()));
        graft::value& v = g_.at(id);
        v.type = graft::dtype::float32;
        v.has_shape = true;
        v.extents = extents;
        g_.inputs.push_back(id);
        return id;
    }
    // Late values more often, as networks do.
    value_id pick() { return draw(2) ? live_.back() : one_of(live_); }
    value_id of_shape(const shape& s) {
        std::vector<value_id> same;
        for (value_id v : live_)
            if (e_.extents(v) == s) same.push_back(v);
        return same.empty() ? graft::no_value : one_of(same);
    }
    // Something to broadcast with a value of this shape: of the same shape mostly, else of some extents 1 or less rank.
    value_id partner(const shape& s) {
        const value_id same = of_shape(s);
        if (same != graft::no_value && draw(4)) return same;
        std::vector<value_id> fit;
        for (value_id v : live_)
            if (broadcasts(e_.extents(v), s)) fit.push_back(v);
        if (!fit.empty() && draw(4)) return one_of(fit);
        shape b = s;
        for (int d = 0; d < b.rank(); ++d)
            if (draw(2)) b[d] = 1;
        return input(b);
    }
    static bool broadcasts(const shape& a, const shape& to) {
        if (a.rank() > to.rank()) return false;
        for (int d = 1; d <= a.rank(); ++d)
            if (a[a.rank() - d] != 1 && a[a.rank() - d] != to[to.rank() - d]) return false;
        return true;
    }
    // The same elements in other extents.
    value_id view(value_id x) {
        const shape s = e_.extents(x);
        const int rank = s.rank(), at = draw(rank + 1);
        switch (draw(4)) {
        case 0: return e_.apply("Unsqueeze", {x, e_.integers({at})});
        case 1: return e_.apply("Flatten", {x}, {graft::integer_attribute("axis", at)});
        case 2: return e_.reshape(x, {s.elements()});
        default: {
            for (value_id v : live_)
                if (e_.extents(v).elements() == s.elements() && e_.extents(v) != s && draw(2)) return e_.reshape(x, e_.extents(v));
            shape to = s;
            for (int d = 0; d < rank; ++d)
                if (s[d] % 2 == 0 && rank < 5) {
                    to = shape::filled(rank + 1, 1);
                    for (int k = 0, from = 0; k <= rank; ++k) to[k] = k == d ? 2 : k == d + 1 ? s[from++] / 2 : s[from++];
                    break;
                }
            return e_.reshape(x, to);
        }
        }
    }
    // What meets a view of itself whose elements stand in another order; no_value where its extents do not allow that.
    value_id beside_itself(value_id x, const char* op) {
        const shape s = e_.extents(x);
        std::vector<std::int64_t> order = permutation(s.rank());
        for (int d = 0; d < s.rank(); ++d)
            if (s[static_cast<int>(order[static_cast<std::size_t>(d)])] != s[d]) return graft::no_value;
        for (std::int64_t& d : order) ++d;
        order.insert(order.begin(), 0);
        // What comes first is the first input of what they become.
        const value_id read = draw(3) ? e_.apply("Sigmoid", {x}) : x, v = e_.apply("Unsqueeze", {x, e_.integers({0})}), other = draw(3) ? read : v;
        const value_id moved = e_.apply("Transpose", {v}, {graft::integers_attribute("perm", order)});
        return draw(2) ? e_.apply(op, {other, moved}) : e_.apply(op, {moved, other});
    }
    void step() {
        static const char* unary[] = {"Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Softplus", "Sin"};
        static const char* binary[] = {"Add", "Sub", "Mul", "Max", "Min"};
        const value_id x = pick();
        const shape s = e_.extents(x);
        const int rank = s.rank(), axis = rank ? draw(rank) : 0;
        value_id y = graft::no_value;
        switch (draw(17)) {
        case 0:
        case 1: y = e_.apply(unary[draw(7)], {x}); break;
        case 2:
        case 3:
        case 4:
        case 5: y = draw(2) ? e_.apply(binary[draw(5)], {x, partner(s)}) : e_.apply(binary[draw(5)], {partner(s), x}); break;
        case 6:
        case 7: y = view(x); break;
        case 8:
        case 9:
            // Of what stands there as a view, so that the same memory is read in two orders.
            y = e_.apply("Transpose", {x}, {graft::integers_attribute("perm", permutation(rank))});
            break;
        case 10:
            if (rank && s[axis] > 1) y = e_.apply("Slice", {x, e_.integers({s[axis] - 1}), e_.integers({-100}), e_.integers({axis}), e_.integers({-1})});
            break;
        case 11:
            if (rank) y = e_.apply("Concat", {x, x}, {graft::integer_attribute("axis", axis)});
            break;
        case 12:
            if (rank) y = e_.apply(draw(2) ? "ReduceMean" : "ReduceMax", {x, e_.integers({axis})}, {graft::integer_attribute("keepdims", draw(2))});
            break;
        case 13:
        case 14:
        case 15: y = beside_itself(x, binary[draw(5)]); break;
        default:
            if (rank) y = e_.apply("Softmax", {x}, {graft::integer_attribute("axis", axis)});
        }
        if (y != graft::no_value && e_.extents(y).elements() <= 2000 && e_.extents(y).rank() <= 6) live_.push_back(y);
    }

    graft::limits limit_;
    graft::graph g_;
    graft::emitter e_;
    std::vector<value_id> live_;
};

std::vector<tensor> answers(const graft::graph& g, const graft::load_options& how) {
    auto model = graft::load(g, how);
    REQUIRE_MESSAGE(model.ok(), std::string(model.ok() ? "" : model.error().what()));
    graft::session session(model.value(), {1, nullptr});
    std::vector<tensor> all;
    // Twice: the second run finds in its arena what the first one left there.
    for (std::uint64_t run = 0; run < 2; ++run) {
        for (std::size_t i = 0; i < g.inputs.size(); ++i) REQUIRE(session.set_input(i, small_steps::numbered(10 * run + i, g.at(g.inputs[i]).extents, 2)).ok());
        const graft::status ran = session.run();
        REQUIRE_MESSAGE(ran.ok(), std::string(ran.ok() ? "" : ran.error().what()));
        for (std::size_t i = 0; i < model->outputs().size(); ++i) all.push_back(session.output(i));
    }
    return all;
}

// While it lives, the simulator looks for races in the kernels that are compiled, which are not those of other tests.
struct race_search {
    race_search() {
        simulated::exact_device();
        setenv("GRAFT_SIMULATOR_RACES", "1", 1);
        setenv("GRAFT_CACHE_DIR", GRAFT_CUDA_SIMULATOR "/cache_races", 1);
        simulated::reset();
    }
    ~race_search() {
        unsetenv("GRAFT_SIMULATOR_RACES");
        simulated::prepare();
    }
    std::string found() const { return simulated::count("kernel_race") ? simulated::report() : ""; }
};

// Parameters of 8 by 8 that meet rearranged views of themselves and of each other on the way to the logits: their gradients read the state
// that the update in the same kernel may be about to write.
class random_step : dice {
public:
    explicit random_step(std::uint64_t seed) : dice(seed), b_("step " + std::to_string(seed), seed) {}

    graft::graph finish() {
        value_id h = b_.input("input", graft::dtype::float32, {"N", 8});
        std::vector<value_id> parameters;
        for (int i = 0; i < 1 + draw(3); ++i)
            parameters.push_back(b_.constant("w" + std::to_string(i), small_steps::numbered(100 + static_cast<std::uint64_t>(i), {8, 8}, 0.5)));
        for (int layers = 1 + draw(2); layers > 0; --layers) {
            value_id w = itself(one_of(parameters));
            for (int terms = 1 + draw(3); terms > 0; --terms) {
                const value_id other = rearranged(one_of(parameters));
                w = b_.apply(draw(3) ? "Mul" : draw(2) ? "Add" : "Sub", {w, other});
                if (draw(3) == 0) w = b_.apply("Sigmoid", {w});
            }
            h = b_.apply("MatMul", {h, w});
            if (layers > 1 && draw(2)) h = b_.apply("Tanh", {h});
        }
        for (value_id p : parameters)  // each of them learns
            h = b_.apply("Add", {h, b_.apply("ReduceMean", {b_.apply("Mul", {itself(p), rearranged(p)})},
                                             {graft::integers_attribute("axes", {0}), graft::integer_attribute("keepdims", 1)})});
        b_.output(h, "logits");
        graft::graph g = b_.finish();
        graft::value& logits = g.at(g.outputs[0]);
        logits.type = graft::dtype::float32;
        logits.has_shape = true;
        logits.extents = {shape::unknown, 8};
        return small_steps::loaded(std::move(g));
    }

private:
    value_id reshaped(value_id x, const std::vector<std::int64_t>& to) {
        return b_.apply("Reshape", {x, b_.constant("to" + std::to_string(shapes_++), tensor::from(to.data(), {static_cast<std::int64_t>(to.size())}))});
    }
    // The same elements in the same order, now and then as another value.
    value_id itself(value_id w) { return draw(2) ? w : b_.apply("Flatten", {w}); }
    value_id rearranged(value_id w) {
        static const std::vector<std::int64_t> shapes[] = {{64}, {1, 8, 8}, {2, 4, 8}, {8, 2, 4}, {4, 2, 2, 4}};
        if (draw(2)) return b_.apply("Transpose", {itself(w)});
        const std::vector<std::int64_t>& s = shapes[draw(5)];
        return reshaped(b_.apply("Transpose", {reshaped(w, s)}, {graft::integers_attribute("perm", permutation(static_cast<int>(s.size())))}), {8, 8});
    }

    graft::builder b_;
    int shapes_ = 0;
};

}  // namespace

TEST_CASE("random graphs answer alike by the reference, on the CPU and on a device, whose kernels do not race") {
    const race_search races;
    const std::uint64_t first = asked("GRAFT_TEST_FIRST", 1), count = asked("GRAFT_TEST_GRAPHS", 300);
    graft::load_options reference;
    reference.reference = true;
    std::vector<std::uint64_t> seeds = {4844, 6432};  // a row of one element, normalised in place
    for (std::uint64_t seed = first; seed < first + count; ++seed) seeds.push_back(seed);
    for (const std::uint64_t seed : seeds) {
        CAPTURE(seed);
        const graft::graph g = random_graph(seed).finish();
        const std::vector<tensor> want = answers(g, reference), host = answers(g, {}), device = answers(g, graft::on_device(simulated::exact_device()));
        for (std::size_t i = 0; i < want.size(); ++i) {
            CAPTURE(i);
            CHECK(difference(host[i], want[i]) <= 2e-5);
            CHECK(difference(device[i], want[i]) <= 2e-5);
        }
        REQUIRE(races.found() == "");
    }
}

TEST_CASE("random steps of training change their state alike on the CPU and on a device, whose kernels do not race") {
    const race_search races;
    const std::uint64_t first = asked("GRAFT_TEST_FIRST", 1), count = asked("GRAFT_TEST_GRAPHS", 300) / 10;
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
        CAPTURE(seed);
        const graft::graph g = random_step(seed).finish();
        const auto kind = seed % 2 ? graft::optimizer_kind::sgd : graft::optimizer_kind::adamw;
        learning::trained host(g, learning::with(kind, nullptr)), device(g, learning::with(kind, simulated::exact_device()));
        for (std::int64_t i = 0; i < 2; ++i) {
            REQUIRE(host.run(i, 4));
            const bool ran = device.run(i, 4);
            REQUIRE_MESSAGE(ran, device.error());
        }
        CHECK(learning::distance(learning::numbers_of(device), learning::numbers_of(host)) <= (kind == graft::optimizer_kind::sgd ? 1e-4 : 5e-3));
        REQUIRE(races.found() == "");
    }
}
