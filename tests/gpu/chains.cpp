// Which operators become one kernel on a device, and that the answers stay the same.
#include "simulated_backend.hpp"

#include <functional>

namespace {

using graft::builder;
using graft::value_id;

struct network {
    std::vector<graft::shape> inputs;
    std::function<void(builder&, const std::vector<value_id>&)> write;
};

graft::graph graph_of(const network& net) {
    builder b("net", 2);
    std::vector<value_id> x;
    for (std::size_t i = 0; i < net.inputs.size(); ++i) {
        const graft::shape& s = net.inputs[i];
        const std::string name = "x" + std::to_string(i);
        x.push_back(s.rank() == 1   ? b.input(name, graft::dtype::float32, {s[0]})
                    : s.rank() == 2 ? b.input(name, graft::dtype::float32, {s[0], s[1]})
                                    : b.input(name, graft::dtype::float32, {s[0], s[1], s[2]}));
    }
    net.write(b, x);
    return b.finish();
}

struct answer {
    graft::session session;
    std::vector<graft::tensor> outputs;  // memory of the session
};

answer run(const graft::model& m, const network& net) {
    answer a{graft::session(m, {1, nullptr}), {}};
    for (std::size_t i = 0; i < net.inputs.size(); ++i) {
        graft::tensor t = graft::tensor::make(graft::dtype::float32, net.inputs[i]);
        for (std::int64_t k = 0; k < t.elements(); ++k)
            t.data<float>()[k] = static_cast<float>((k * 2654435761 + static_cast<std::int64_t>(i) * 40503) % 1000) / 400.0f - 1.25f;
        REQUIRE(a.session.set_input(i, t).ok());
    }
    const graft::status ran = a.session.run();
    const std::string error = ran.ok() ? "" : ran.error().what();
    REQUIRE_MESSAGE(ran.ok(), error);
    for (std::size_t i = 0; i < m.outputs().size(); ++i) a.outputs.push_back(a.session.output(i));
    return a;
}

/// The kernels that a network has on the device, copies aside; its answers are held against the CPU's.
std::vector<std::string> kernels(const network& net) {
    const graft::model host = graft::load(graph_of(net)), device = graft::load(graph_of(net), graft::on_device(simulated::exact_device()));
    const answer want = run(host, net), got = run(device, net);
    for (std::size_t i = 0; i < want.outputs.size(); ++i) CHECK(difference(got.outputs[i], want.outputs[i]) <= 2e-5);
    std::vector<std::string> all;
    auto placed = device.placements(device.inputs());
    REQUIRE(placed.ok());
    for (const graft::placement& p : placed.value())
        if (p.kernel != "copy") all.push_back(p.kernel);
    return all;
}

}  // namespace

TEST_CASE("a sum that is normalised and goes on besides is one kernel with its normalisation") {
    const network net = {{{4, 7, 48}, {4, 7, 48}, {48}, {48}}, [](builder& b, const std::vector<value_id>& x) {
                             const value_id sum = b.apply("Add", {x[0], x[1]});
                             const value_id n = b.apply("LayerNormalization", {sum, x[2], x[3]});
                             b.output(b.apply("Mul", {b.apply("Sigmoid", {n}), n}), "y");
                             b.output(b.apply("Neg", {sum}), "z");
                         }};
    const std::vector<std::string> all = kernels(net);
    REQUIRE(all.size() == 2);  // and the one behind that reads the sum
    CHECK(all[0] == "sums along memory, 1 launch");
}

TEST_CASE("what is computed element by element goes into the sum over it, and what follows goes behind") {
    const network net = {{{6, 5, 64}, {6, 5, 64}}, [](builder& b, const std::vector<value_id>& x) {
                             const value_id product = b.apply("Mul", {b.apply("Tanh", {x[0]}), x[1]});
                             const value_id p = b.apply("Softmax", {product}, {graft::integer_attribute("axis", -1)});
                             b.output(b.apply("Mul", {p, x[1]}), "y");
                         }};
    CHECK(kernels(net) == std::vector<std::string>{"sums along memory, 1 launch"});
}

TEST_CASE("two reductions are two kernels, with what lies between them in one of the two") {
    const network net = {{{3, 9, 32}}, [](builder& b, const std::vector<value_id>& x) {
                             const value_id first = b.apply("Softmax", {b.apply("Neg", {x[0]})}, {graft::integer_attribute("axis", -1)});
                             const value_id second = b.apply("LogSoftmax", {b.apply("Exp", {first})}, {graft::integer_attribute("axis", -1)});
                             b.output(b.apply("Abs", {second}), "y");
                         }};
    CHECK(kernels(net).size() == 2);
}

TEST_CASE("a value that something before the group's end reads stays outside of the group") {
    // The mean of the sum goes into what is normalised with the sum: one kernel of both would wait for itself.
    const network net = {{{5, 40}, {5, 40}}, [](builder& b, const std::vector<value_id>& x) {
                             const value_id sum = b.apply("Add", {x[0], x[1]});
                             const value_id most = b.apply("ReduceMax", {sum}, {graft::integer_attribute("keepdims", 1)});
                             b.output(b.apply("Softmax", {b.apply("Sub", {sum, most})}, {graft::integer_attribute("axis", -1)}), "y");
                         }};
    kernels(net);
}

TEST_CASE("a chain whose middle is an output is still one loop") {
    const network net = {{{3, 50}, {3, 50}}, [](builder& b, const std::vector<value_id>& x) {
                             const value_id sum = b.apply("Add", {x[0], x[1]});
                             b.output(sum, "sum");
                             b.output(b.apply("Tanh", {b.apply("Mul", {sum, x[1]})}), "y");
                         }};
    CHECK(kernels(net) == std::vector<std::string>{"3 operators in one loop"});
}

TEST_CASE("statistics of a reduction are outputs of the kernel that goes on with it") {
    const network net = {{{4, 6, 24}, {24}, {24}}, [](builder& b, const std::vector<value_id>& x) {
                             const std::vector<value_id> n = b.apply_all("LayerNormalization", {x[0], x[1], x[2]}, {}, 3);
                             b.output(b.apply("Relu", {n[0]}), "y");
                             b.output(n[1], "mean");
                             b.output(n[2], "deviation");
                         }};
    CHECK(kernels(net) == std::vector<std::string>{"sums along memory, 1 launch"});
}
