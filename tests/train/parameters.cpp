// Which constants of a network are its weights, in which order, and which running statistics belong to them.
#include "small_steps.hpp"

#include <algorithm>

namespace {

std::vector<std::string> names_of(const std::vector<graft::parameter>& parameters) {
    std::vector<std::string> names;
    for (const graft::parameter& p : parameters) names.push_back(p.name);
    return names;
}

}  // namespace

TEST_CASE("Weights are in the order in which the network reads them") {
    std::vector<std::string> wanted;
    for (const char* layer : {"conv1", "conv2", "fc1", "fc2", "fc3"})
        for (const char* kind : {".weight", ".bias"}) wanted.push_back(std::string(layer) + kind);
    CHECK(names_of(graft::parameters_of(small_steps::architecture("lenet"))) == wanted);
}

TEST_CASE("Statistics, limits and single numbers are no weights; weights are found behind Transpose and Reshape") {
    graft::builder b("net");
    graft::value_id x = b.input("input", graft::dtype::float32, {"N", 6});
    const float half = 0.5f;
    x = b.apply("Mul", {x, b.constant("half", graft::tensor::from(&half, {}))});
    x = b.apply("MatMul", {x, b.apply("Transpose", {b.constant("turned", small_steps::numbered(1, {4, 6}))}, {graft::integers_attribute("perm", {1, 0})})});
    const std::int64_t flat[] = {4};
    x = b.apply("Add", {x, b.apply("Reshape", {b.constant("bias", small_steps::numbered(2, {1, 4})), b.constant("shape", graft::tensor::from(flat, {1}))})});
    std::vector<graft::value_id> norm{x};
    for (const char* name : {"scale", "shift", "mean", "var"}) norm.push_back(b.constant(name, small_steps::numbered(3 + norm.size(), {4}, 0.1, 1)));
    x = b.apply("BatchNormalization", norm);
    const float low = 0, high = 6;
    x = b.apply("Clip", {x, b.constant("low", graft::tensor::from(&low, {})), b.constant("high", graft::tensor::from(&high, {}))});
    b.output(x, "logits");
    const graft::graph g = small_steps::loaded(b.finish());
    const std::vector<graft::parameter> found = graft::parameters_of(g);
    std::string joined;
    for (const std::string& name : names_of(found)) joined += name + " ";
    CHECK(joined == "turned bias scale shift ");
    const auto statistics_of = [&](const char* learning) {
        std::vector<graft::value_id> ids;
        for (const graft::parameter& p : found)
            if (p.name == learning) ids.push_back(p.id);
        std::vector<std::string> names;
        for (graft::value_id id : graft::running_statistics(g, ids)) names.push_back(g.at(id).name);
        return names;
    };
    CHECK(statistics_of("scale") == std::vector<std::string>{"mean", "var"});
    CHECK(statistics_of("shift").empty());
}

TEST_CASE("One number with an axis is a weight, unless a Constant node or an exporter made it") {
    const auto one = [](float v, const graft::shape& s) {
        graft::tensor t = graft::tensor::make(graft::dtype::float32, s);
        t.data<float>()[0] = v;
        return t;
    };
    graft::builder b("net");
    graft::value_id x = b.input("input", graft::dtype::float32, {"N", 1, 4, 4});
    // Layers of one channel: all of their vectors are of one element.
    x = b.apply("Conv", {x, b.constant("conv.weight", small_steps::numbered(1, {1, 1, 3, 3})), b.constant("conv.bias", one(0.1f, {1}))});
    std::vector<graft::value_id> norm{x};
    for (const char* name : {"scale", "shift", "mean", "var"}) norm.push_back(b.constant(name, one(1, {1})));
    x = b.apply("PRelu", {b.apply("BatchNormalization", norm), b.constant("slope", one(0.25f, {1, 1, 1}))});
    x = b.apply("Mul", {x, b.constant("factor", one(1.5f, {1}))});
    // A formula's numbers.
    graft::attribute value;
    value.name = "value";
    value.kind = graft::attribute_kind::tensor;
    value.tensor = one(0.5f, {1});
    x = b.apply("Mul", {x, b.apply("Constant", {}, {value})});
    for (const char* name : {"/attn/Sqrt_output_0", "val_12"}) x = b.apply("Mul", {x, b.constant(name, one(0.3f, {1}))});
    x = b.apply("Add", {x, b.constant("three", one(3, {}))});
    // A normalisation without a bias, as PyTorch's exporter writes it.
    value.tensor = graft::tensor::zeros(graft::dtype::float32, {2});
    x = b.apply("LayerNormalization", {x, b.constant("layer.scale", small_steps::numbered(3, {2})), b.apply("Constant", {}, {value})});
    // Folded weights have such names too.
    x = b.apply("MatMul", {x, b.constant("val_13", small_steps::numbered(4, {2, 2}))});
    x = b.apply("Flatten", {x});
    graft::graph g =
        small_steps::finished(b, b.apply("Gemm", {x, b.constant("fc.weight", small_steps::numbered(2, {4, 1})), b.constant("fc.bias", one(0, {1}))}), 1);
    graft::constants_to_initializers(g);
    const std::vector<graft::parameter> found = graft::parameters_of(g);
    CHECK(names_of(found) ==
          std::vector<std::string>{"conv.weight", "conv.bias", "scale", "shift", "slope", "factor", "layer.scale", "val_13", "fc.weight", "fc.bias"});
    CHECK(graft::running_statistics(g, {found[2].id}).size() == 2);
    graft::step_options o;
    o.optimizer.kind = graft::optimizer_kind::sgd;
    o.loss.kind = graft::loss_of("mse");
    small_steps::trained net(g, o, found);
    REQUIRE_MESSAGE(net.run(0, 4, 1, 0.1), net.error());
    for (std::size_t k = 0; k < found.size(); ++k) CHECK(std::memcmp(net.step.state()[k].value.raw(), g.at(found[k].id).constant.raw(), sizeof(float)) != 0);
}

TEST_CASE("Numbers that only decide a shape are no weights: scales of Resize, factors of extents") {
    graft::builder b("net");
    graft::value_id x = b.input("input", graft::dtype::float32, {"N", 2, 4, 4});
    const float same[] = {1, 1}, twice[] = {2, 2}, none[] = {0.5f, 0};
    x = b.apply("Mul", {x, b.constant("weight", small_steps::numbered(1, {2, 1, 1}))});
    // As PyTorch's exporter writes factors where it folds nothing.
    const graft::value_id factors =
        b.apply("Concat", {b.constant("same", graft::tensor::from(same, {2})), b.constant("twice", graft::tensor::from(twice, {2}))},
                {graft::integer_attribute("axis", 0)});
    x = b.apply("Resize", {x, graft::no_value, factors}, {graft::string_attribute("mode", "nearest")});
    // And where the sizes follow from the input: Cast(Mul(Cast(Shape), factors)), and the same rounded down before.
    for (const bool rounded : {false, true}) {
        const std::string name = rounded ? "rounded" : "cut";
        graft::value_id sizes = b.apply("Cast", {b.apply("Shape", {x})}, {graft::integer_attribute("to", 1)});
        const float quarter[] = {1, 1, 0.5f, 0.5f};
        sizes = b.apply("Mul", {sizes, b.constant(name, graft::tensor::from(quarter, {4}))});
        if (rounded) sizes = b.apply("Floor", {sizes});
        sizes = b.apply("Cast", {sizes}, {graft::integer_attribute("to", 7)});
        x = b.apply("Resize", {x, graft::no_value, graft::no_value, sizes}, {graft::string_attribute("mode", "nearest")});
    }
    // A Cast between floats passes gradients on; what nobody reads is no weight.
    x = b.apply("Add", {x, b.apply("Cast", {b.constant("shift", small_steps::numbered(2, {2, 1, 1}))}, {graft::integer_attribute("to", 1)})});
    b.apply("Mul", {x, b.constant("unread", graft::tensor::from(none, {2, 1, 1}))});
    x = b.apply("Flatten", {b.apply("GlobalAveragePool", {x})});
    const graft::graph g = small_steps::finished(b, b.apply("MatMul", {x, b.constant("classes", small_steps::numbered(3, {2, 3}))}), 3);
    const std::vector<graft::parameter> found = graft::parameters_of(g);
    CHECK(names_of(found) == std::vector<std::string>{"weight", "shift", "classes"});
    auto step = graft::training_step::make(g, graft::logits_of(g), found, {});
    REQUIRE_MESSAGE(step.ok(), std::string(step.ok() ? "" : step.error().what()));
    graft::executor serial;
    CHECK(step->prepare({2, 2, 4, 4}, serial).ok());
}

namespace {

// A convolution whose weights are standardised before each use: by BatchNormalization in training, as PyTorch exports it, or by the formula. `gain`: as of
// normaliser-free networks; without, a scale of ones.
graft::graph standardised(bool written_out, bool gain) {
    graft::builder b("net");
    const graft::value_id x = b.input("input", graft::dtype::float32, {"N", 3, 6, 6}), w = b.constant("weight", small_steps::numbered(1, {4, 3, 3, 3}));
    const auto whole_numbers = [&](const char* name, std::vector<std::int64_t> numbers) {
        return b.constant(name, graft::tensor::from(numbers.data(), {static_cast<std::int64_t>(numbers.size())}));
    };
    const graft::value_id gains = gain ? b.constant("gain", small_steps::numbered(2, {4, 1, 1, 1}, 0.3, 1)) : graft::no_value;
    graft::value_id made;
    if (written_out) {
        const graft::value_id over = whole_numbers("axes", {1, 2, 3});
        const auto mean = [&](graft::value_id v) { return b.apply("ReduceMean", {v, over}, {graft::integer_attribute("keepdims", 1)}); };
        const graft::value_id d = b.apply("Sub", {w, mean(w)});
        const float epsilon = 1e-3f;
        made = b.apply("Div", {d, b.apply("Sqrt", {b.apply("Add", {mean(b.apply("Mul", {d, d})), b.constant("epsilon", graft::tensor::from(&epsilon, {}))})})});
        if (gain) made = b.apply("Mul", {made, gains});
    } else {
        const float ones[] = {1, 1, 1, 1}, zeros[] = {0, 0, 0, 0};
        const graft::value_id rows = b.apply("Reshape", {w, whole_numbers("rows", {1, 4, -1})}), zero = b.constant("val_1", graft::tensor::from(zeros, {4}));
        const graft::value_id scale = gain ? b.apply("Reshape", {gains, whole_numbers("flat", {-1})}) : b.constant("val_2", graft::tensor::from(ones, {4}));
        made = b.apply("BatchNormalization", {rows, scale, zero, zero, scale},
                       {graft::real_attribute("epsilon", 1e-3f), graft::integer_attribute("training_mode", 1)});
        made = b.apply("Reshape", {made, b.apply("Shape", {w})});
    }
    graft::value_id y = b.apply("Relu", {b.apply("Conv", {x, made, b.constant("bias", small_steps::numbered(3, {4}))})});
    y = b.apply("Flatten", {b.apply("GlobalAveragePool", {y})});
    return small_steps::finished(b, b.apply("MatMul", {y, b.constant("classes", small_steps::numbered(4, {4, 5}))}), 5);
}

}  // namespace

TEST_CASE("Weights that BatchNormalization standardises learn as by its formula, in parts of a batch as well") {
    for (const bool gain : {false, true}) {
        CAPTURE(gain);
        const graft::graph by_norm = standardised(false, gain), by_formula = standardised(true, gain);
        std::vector<std::string> wanted{"weight", "bias", "classes"};
        if (gain) wanted.insert(wanted.begin() + 1, "gain");
        auto found = names_of(graft::parameters_of(by_norm)), formula = names_of(graft::parameters_of(by_formula));
        std::sort(found.begin(), found.end()), std::sort(formula.begin(), formula.end()), std::sort(wanted.begin(), wanted.end());
        CHECK(found == wanted);
        CHECK(formula == wanted);
        graft::step_options o;
        o.optimizer.kind = graft::optimizer_kind::sgd;
        small_steps::trained whole(by_norm, o), exact(by_formula, o);
        o.micro_batches = 2;
        small_steps::trained parts(by_norm, o);
        for (std::int64_t i = 0; i < 4; ++i)
            for (small_steps::trained* t : {&whole, &exact, &parts}) REQUIRE_MESSAGE(t->run(i, 4, 1, 0.1), t->error());
        CHECK(whole.bits() == parts.bits());
        for (const graft::training_state& s : whole.step.state())
            for (const graft::training_state& e : exact.step.state()) {
                if (s.name != e.name) continue;
                CAPTURE(s.name);
                for (std::int64_t k = 0; k < s.value.elements(); ++k)
                    CHECK(s.value.data<float>()[k] == doctest::Approx(e.value.data<float>()[k]).epsilon(1e-5));
            }
    }
}

TEST_CASE("A normalisation that was written by hand and lacks inputs has no statistics") {
    graft::graph g;
    graft::node n;
    n.op_type = "BatchNormalization";
    n.inputs = {g.add_value("x")};
    n.outputs = {g.add_value("y")};
    g.nodes.push_back(n);
    CHECK(graft::running_statistics(g, {0}).empty());
}

TEST_CASE("A step refuses a network in which nothing learns") {
    const graft::graph g = small_steps::architecture("lenet");
    std::vector<graft::parameter> parameters = graft::parameters_of(g);
    for (graft::parameter& p : parameters) p.learns = false;
    auto made = graft::training_step::make(g, graft::logits_of(g), parameters, {});
    REQUIRE(!made.ok());
    CHECK(made.error().code() == graft::errc::train_freeze);
}

TEST_CASE("Frozen weights and the statistics that belong to them stay as they were") {
    const graft::graph g = small_steps::architecture("resnet20", 16);
    std::vector<graft::parameter> parameters = graft::parameters_of(g);
    for (graft::parameter& p : parameters) p.learns = p.name.rfind("layer3", 0) == 0 || p.name.rfind("fc", 0) == 0;
    small_steps::trained t(g, {}, parameters);
    for (std::int64_t i = 0; i < 2; ++i) REQUIRE_MESSAGE(t.run(i, 4), t.error());
    const graft::graph after = t.step.network();
    std::size_t changed = 0;
    for (std::size_t v = 0; v < g.values.size(); ++v) {
        const graft::tensor &was = g.values[v].constant, &now = after.values[v].constant;
        if (!was || !now) continue;
        const std::string& name = g.values[v].name;
        const bool same = std::memcmp(was.raw(), now.raw(), was.bytes()) == 0;
        const bool may = name.rfind("layer3", 0) == 0 || name.rfind("fc", 0) == 0;
        INFO(name);
        CHECK((may || same));
        changed += !same;
    }
    CHECK(changed > 20);
}
