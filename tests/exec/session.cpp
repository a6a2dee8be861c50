// Sessions: inputs by name and place, open shapes, defaults, named errors, outputs that are held, memory given back.
#include "nets.hpp"

#include <doctest/doctest.h>

#include <utility>

using graft::dtype;
using graft::errc;
using nets::floats;

namespace {

// y = a - 2 b, z = b; w is an initializer that is an input too.
graft::graph two_inputs() {
    graft::builder b;
    const auto x = b.input("a", dtype::float32, {"N"}), y = b.input("b", dtype::float32, {"N"});
    const auto w = b.constant("w", floats({2}));
    b.output(b.apply("Sub", {x, b.apply("Mul", {y, w})}), "y");
    b.output(b.apply("Identity", {y}), "z");
    graft::graph g = b.finish();
    g.inputs.push_back(w);
    return g;
}

template <class R>
errc code_of(const R& r) {
    REQUIRE(!r.ok());
    return r.error().code();
}

}  // namespace

TEST_CASE("inputs are given by name in any order and outputs come with their names") {
    graft::model m = graft::load(two_inputs());
    graft::session s(m, {1, nullptr});
    auto out = s.run({{"b", floats({1, 2, 3})}, {"a", floats({10, 20, 30})}});
    REQUIRE(out.ok());
    REQUIRE(out->size() == 2);
    CHECK((*out)[0].name == "y");
    CHECK((*out)[1].name == "z");
    CHECK(nets::values<float>((*out)[0].value) == std::vector<float>{8, 16, 24});
    CHECK(nets::values<float>((*out)[1].value) == std::vector<float>{1, 2, 3});
}

TEST_CASE("a default serves where nothing is given and gives way where something is") {
    graft::model m = graft::load(two_inputs());
    REQUIRE(m.inputs().size() == 3);
    CHECK(m.inputs()[2].has_default);
    graft::session s(m, {1, nullptr});
    const auto a = floats({10}), b = floats({1});
    const auto first = [&](const std::vector<graft::named_tensor>& given) { return nets::values<float>(s.run(given).value()[0].value); };
    CHECK(first({{"a", a}, {"b", b}}) == std::vector<float>{8});
    CHECK(first({{"a", a}, {"b", b}, {"w", floats({5})}}) == std::vector<float>{5});
    CHECK(first({{"a", a}, {"b", b}}) == std::vector<float>{8});
}

TEST_CASE("batch and image size may change from run to run") {
    graft::model m = graft::load(nets::residual_net(1));
    graft::session s(m, {2, nullptr}), alone(m, {1, nullptr});
    nets::numbers random{3};
    for (const graft::shape& size : {graft::shape{2, 3, 16, 16}, {1, 3, 17, 9}, {5, 3, 8, 31}, {2, 3, 16, 16}}) {
        const graft::tensor x = nets::random_tensor(size, random);
        auto all = s.run(x);
        REQUIRE(all.ok());
        REQUIRE(all->shape() == graft::shape{size[0], 10});
        // Each image of the batch is what it is on its own, bit for bit.
        for (std::int64_t i = 0; i < size[0]; ++i) {
            const std::int64_t area = size.product(1, 4);
            auto one = alone.run(graft::tensor::borrow(x.data<float>() + i * area, {1, 3, size[2], size[3]}));
            REQUIRE(one.ok());
            CHECK(std::memcmp(one->data<float>(), all->data<float>() + i * 10, 40) == 0);
        }
    }
}

TEST_CASE("wrong names, shapes and types of inputs are named errors, and the session goes on") {
    graft::model m = graft::load(nets::residual_net(2));
    graft::session s(m, {1, nullptr});
    nets::numbers random{4};
    const graft::tensor good = nets::random_tensor({1, 3, 8, 8}, random);
    CHECK(code_of(s.run({{"picture", good}})) == errc::input_name);
    CHECK(code_of(s.run(std::vector<graft::named_tensor>{})) == errc::input_name);
    CHECK(code_of(s.run(nets::random_tensor({1, 4, 8, 8}, random))) == errc::input_shape);
    CHECK(code_of(s.run(nets::random_tensor({3, 8, 8}, random))) == errc::input_shape);
    CHECK(code_of(s.run(nets::random_tensor({1, 3, 8, 8}, random, 0, 1, dtype::float64))) == errc::input_dtype);
    CHECK(code_of(s.set_input(1, good)) == errc::input_name);
    auto wrong = s.run(nets::random_tensor({1, 4, 8, 8}, random));
    const std::string text = wrong.error().what();
    CHECK(text.find("image") != std::string::npos);
    CHECK(text.find("[1,4,8,8]") != std::string::npos);
    CHECK(s.run(good).ok());
    // Sizes that leave nothing to convolve end in an error or an empty result, never in a crash.
    const graft::tensor nothing = graft::tensor::make(dtype::float32, {0, 3, 8, 8});
    auto none = s.run(nothing);
    if (none.ok()) CHECK(none->shape() == graft::shape{0, 10});
    CHECK(s.run(good).ok());
}

TEST_CASE("a model with two inputs asks for their names") {
    graft::model m = graft::load(two_inputs());
    graft::session s(m);
    CHECK(code_of(s.run(floats({1}))) == errc::input_name);
}

TEST_CASE("shapes that only a run can find to disagree are errors with the node's name") {
    graft::model m = graft::load(two_inputs());
    graft::session s(m, {1, nullptr});
    auto out = s.run({{"a", floats({1, 2, 3})}, {"b", floats({1, 2})}});
    CHECK(code_of(out) == errc::op_shape);
    CHECK(std::string(out.error().what()).find("Sub") != std::string::npos);
    CHECK(s.run({{"a", floats({1, 2})}, {"b", floats({1, 2})}}).ok());
}

TEST_CASE("outputs stay as they are while they are held") {
    graft::model m = graft::load(nets::residual_net(3));
    graft::session s(m, {2, nullptr});
    nets::numbers random{5};
    const graft::tensor x = nets::random_tensor({1, 3, 12, 12}, random), other = nets::random_tensor({1, 3, 12, 12}, random);
    const graft::tensor held = s.run(x);
    const std::vector<float> then = nets::values<float>(held);
    const graft::tensor second = s.run(other);
    CHECK(nets::values<float>(held) == then);
    CHECK(nets::values<float>(second) != then);
    const graft::tensor again = s.run(x);
    CHECK(nets::same_bits(again, held));
    s.trim();
    CHECK(nets::values<float>(held) == then);
    CHECK(nets::same_bits(s.run(x).value(), held));
}

TEST_CASE("what is held outlives its session and its model") {
    graft::tensor held;
    nets::numbers random{6};
    const graft::tensor x = nets::random_tensor({1, 3, 10, 10}, random);
    {
        graft::model m = graft::load(nets::residual_net(4));
        graft::session s(m, {1, nullptr});
        m = graft::model();  // the session keeps what it needs
        graft::session moved = std::move(s);
        held = moved.run(x);
    }
    graft::model m = graft::load(nets::residual_net(4));
    graft::session s(m, {1, nullptr});
    CHECK(nets::same_bits(s.run(x).value(), held));
}

TEST_CASE("an output may be an input, a constant, or twice the same value") {
    graft::graph g;
    g.opsets.push_back({"", 17});
    const auto x = g.add_value("x"), k = g.add_constant("k", floats({7, 8})), y = g.add_value("y");
    g.values[0].type = dtype::float32;
    g.values[0].has_shape = true;
    g.values[0].extents = {graft::shape::unknown};
    g.inputs = {x};
    graft::node n;
    n.op_type = "Neg";
    n.inputs = {x};
    n.outputs = {y};
    g.nodes.push_back(n);
    g.outputs = {x, k, y, y};
    auto m = graft::load(g);
    REQUIRE(m.ok());
    graft::session s(*m, {1, nullptr});
    for (int round = 0; round < 2; ++round) {
        auto out = s.run({{"x", floats({1, -2, 3})}});
        REQUIRE(out.ok());
        CHECK(nets::values<float>((*out)[0].value) == std::vector<float>{1, -2, 3});
        CHECK(nets::values<float>((*out)[1].value) == std::vector<float>{7, 8});
        CHECK(nets::values<float>((*out)[2].value) == std::vector<float>{-1, 2, -3});
        CHECK(nets::values<float>((*out)[3].value) == std::vector<float>{-1, 2, -3});
    }
}

TEST_CASE("an app's own executor runs the loops, with the same bits") {
    struct backwards final : graft::executor {
        int loops = 0;
        int threads() const noexcept override { return 3; }
        void run(std::int64_t tasks, void (*body)(void*, std::int64_t), void* context) override {
            ++loops;
            for (std::int64_t i = tasks; i-- > 0;) body(context, i);
        }
    } own;
    graft::model m = graft::load(nets::residual_net(5));
    graft::session theirs(m, {0, &own}), ours(m, {1, nullptr});
    nets::numbers random{7};
    const graft::tensor x = nets::random_tensor({2, 3, 20, 20}, random);
    CHECK(nets::same_bits(theirs.run(x).value(), ours.run(x).value()));
    CHECK(own.loops > 0);
}

TEST_CASE("the memory of a run is known before it, and over the limit it does not begin") {
    graft::load_options options;
    options.limits.memory_bytes = 1 << 20;
    auto m = graft::load(nets::residual_net(6), options);
    REQUIRE(m.ok());
    graft::value_info size = m->inputs()[0];
    size.extents = {1, 3, 32, 32};
    auto use = m->memory({size});
    REQUIRE(use.ok());
    CHECK(use->arena > 0);
    CHECK(use->outputs == 40);
    CHECK(use->multiply_adds > 100000);
    graft::session s(*m, {1, nullptr});
    nets::numbers random{8};
    CHECK(s.run(nets::random_tensor({1, 3, 32, 32}, random)).ok());
    CHECK(code_of(s.run(nets::random_tensor({64, 3, 64, 64}, random))) == errc::memory_budget);
    CHECK(s.run(nets::random_tensor({1, 3, 32, 32}, random)).ok());
    CHECK(code_of(m->memory({m->inputs()[0]})) == errc::input_shape);
}

TEST_CASE("a device that this build lacks is a named error") {
    graft::load_options options;
    options.device = "cuda:0";
    CHECK(code_of(graft::load(nets::residual_net(7), options)) == errc::device_unavailable);
    options.device = "cpu";
    CHECK(graft::load(nets::residual_net(7), options).ok());
}

TEST_CASE("models come from files and from memory alike") {
    std::vector<char> bytes;
    std::FILE* file = std::fopen(nets::demo_model(), "rb");
    REQUIRE(file);
    char part[4096];
    for (std::size_t n; (n = std::fread(part, 1, sizeof part, file)) > 0;) bytes.insert(bytes.end(), part, part + n);
    std::fclose(file);
    graft::model from_file = graft::load(nets::demo_model());
    graft::model from_memory = graft::load(bytes.data(), bytes.size());
    std::fill(bytes.begin(), bytes.end(), '\0');  // only read during the call
    const auto inputs = nets::inputs_of(from_file, 9);
    CHECK(nets::same_bits(nets::run(from_file, inputs), nets::run(from_memory, inputs)));
    CHECK(code_of(graft::load("no/such/model.onnx")) == errc::file_open);
}

TEST_CASE("the outputs of a network written in code have the types that are made, also when it was saved") {
    graft::builder b("types");
    const auto x = b.input("x", graft::dtype::float32, {"N", 4});
    b.output(b.apply("ArgMax", {x}), "best");
    b.output(b.apply("NonZero", {x}), "where");
    b.output(b.apply("Cast", {b.apply("NonZero", {x})}, {graft::integer_attribute("to", 11)}), "as double");
    b.output(b.apply("Greater", {x, b.constant("", nets::floats({1}))}), "large");
    b.output(b.apply("Relu", {x}), "relu");
    const graft::model made = graft::load(b.finish());
    const graft::dtype wanted[] = {graft::dtype::int64, graft::dtype::int64, graft::dtype::float64, graft::dtype::boolean, graft::dtype::float32};
    std::vector<std::uint8_t> file;
    REQUIRE(graft::write_onnx(made.graph(), file).ok());
    const graft::model again = graft::load(file.data(), file.size());
    const float numbers[] = {0, 1, 2, 3, 3, 2, 1, 0};
    for (const graft::model* m : {&made, &again}) {
        graft::session session(*m);
        const auto out = session.run({{"x", graft::tensor::from(numbers, {2, 4})}});
        REQUIRE_MESSAGE(out.ok(), std::string(out.ok() ? "" : out.error().what()));
        for (std::size_t i = 0; i < 5; ++i) {
            CHECK(m->outputs()[i].type == wanted[i]);
            CHECK((*out)[i].value.type() == wanted[i]);
        }
    }
}

TEST_CASE("an output that a file declares with another type than what makes it gives is refused") {
    struct {
        const char* op;  // the second's output has a shape that only a run tells
        graft::dtype gives;
    } const cases[] = {{"Relu", graft::dtype::float32}, {"NonZero", graft::dtype::int64}};
    for (const auto& c : cases) {
        graft::builder b("declared");
        const graft::value_id x = b.input("x", graft::dtype::float32, {"N", 3});
        b.output(b.apply(c.op, {x}), "y");
        const graft::graph g = b.finish();
        for (const graft::dtype type : {graft::dtype::float32, graft::dtype::int64, graft::dtype::float64}) {
            graft::graph declared = g;
            declared.at(declared.outputs[0]).type = type;
            std::vector<std::uint8_t> file;
            REQUIRE(graft::write_onnx(declared, file).ok());
            const graft::model m = graft::load(file.data(), file.size());
            graft::session s(m, {1, nullptr});
            const auto y = s.run(graft::tensor::zeros(graft::dtype::float32, {2, 3}).value());
            CHECK(y.ok() == (type == c.gives));
            if (!y.ok()) CHECK(y.error().code() == graft::errc::op_type);
        }
    }
}
