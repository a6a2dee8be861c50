// Small networks and batches for tests of the training step.
#pragma once

#include <doctest/doctest.h>
#include <graft/train.hpp>

#include <cstring>
#include <string>
#include <vector>

namespace small_steps {

/// A number in [-1, 1), by place; scripts/record_steps.py has the same.
inline double hashed(std::uint64_t k, std::uint64_t i) {
    std::uint64_t h = (i * 2654435761u + k * 40503u + 12345u) & 0xffffffffu;
    h = ((h ^ h >> 15) * 2246822519u) & 0xffffffffu;
    h = ((h ^ h >> 13) * 3266489917u) & 0xffffffffu;
    h ^= h >> 16;
    return static_cast<double>(h) / 4294967296.0 * 2 - 1;
}
inline graft::tensor numbered(std::uint64_t k, const graft::shape& extents, double scale = 1, double shift = 0) {
    graft::tensor t = graft::tensor::make(graft::dtype::float32, extents);
    for (std::int64_t i = 0; i < t.elements(); ++i) t.data<float>()[i] = static_cast<float>(hashed(k, static_cast<std::uint64_t>(i)) * scale + shift);
    return t;
}

/// The graph as loading leaves it: checked, its nodes bound.
inline graft::graph loaded(graft::graph g) {
    auto m = graft::load(std::move(g));
    REQUIRE_MESSAGE(m.ok(), std::string(m.ok() ? "" : m.error().what()));
    return m->graph();
}
inline graft::graph architecture(const char* name, std::int64_t side = 0, std::int64_t classes = 10) {
    graft::architecture_options o;
    o.height = o.width = side;
    o.classes = classes;
    o.seed = 3;
    return loaded(graft::build_architecture(name, o));
}
/// The graph of a builder that does not know the shape of its logits; of that operator set, where it is not 0.
inline graft::graph finished(graft::builder& b, graft::value_id logits, std::int64_t classes, int opset = 0) {
    b.output(logits, "logits");
    graft::graph g = b.finish();
    g.at(logits).type = graft::dtype::float32;
    g.at(logits).has_shape = true;
    g.at(logits).extents = {graft::shape::unknown, classes};
    if (opset) {
        g.opsets[0].version = opset;
        for (graft::node& n : g.nodes) n.version = opset;
    }
    return loaded(std::move(g));
}

/// A convolution, GroupNormalization, Dropout and a classifier over pictures [3, 8, 8].
inline graft::graph group_norm_dropout() {
    graft::builder b("net", 5);
    graft::value_id x = b.input("input", graft::dtype::float32, {"N", 3, 8, 8});
    graft::conv2d_options conv;
    conv.kernel = 3, conv.padding = 1, conv.name = "conv1";
    x = b.conv2d(x, 8, conv);
    const graft::value_id scale = b.constant("scale", numbered(70, {8}, 0.2, 1)), shift = b.constant("shift", numbered(71, {8}));
    x = b.apply("GroupNormalization", {x, scale, shift}, {graft::integer_attribute("num_groups", 2)});
    x = b.apply("Relu", {x});
    x = b.apply("Flatten", {x});
    const float ratio = 0.25f;
    x = b.apply("Dropout", {x, b.constant("ratio", graft::tensor::from(&ratio, {}))});
    x = b.apply("Gemm", {x, b.constant("fc.weight", numbered(72, {5, 512}, 0.05)), b.constant("fc.bias", numbered(73, {5}))},
                {graft::integer_attribute("transB", 1)});
    return finished(b, x, 5, 21);
}

/// A step over a network, and batches for it.
class trained {
public:
    graft::training_step step;
    graft::status last;
    std::int64_t classes = 10;
    graft::step_options options;

    trained(const graft::graph& g, const graft::step_options& o, std::vector<graft::parameter> parameters = {}) : options(o) {
        if (parameters.empty()) parameters = graft::parameters_of(g);
        const graft::value_id logits = graft::logits_of(g);
        auto made = graft::training_step::make(g, logits, std::move(parameters), o);
        REQUIRE_MESSAGE(made.ok(), std::string(made.ok() ? "" : made.error().what()));
        step = std::move(made).value();
        const graft::value& v = g.at(logits);
        if (v.extents.rank() == 2) classes = v.extents[1];
        for (graft::value_id id : g.inputs)
            if (!g.at(id).constant) sample_ = g.at(id).extents;
    }

    graft::shape batch_shape(std::int64_t n) const {
        graft::shape s = sample_;
        s[0] = n;
        return s;
    }
    /// Step i on n samples, all of them functions of i; false where it failed.
    bool run(std::int64_t i, std::int64_t n, int threads = 1, double rate = 0.01) {
        const graft::tensor x = numbered(200 + static_cast<std::uint64_t>(i), batch_shape(n));
        return run(i, x, threads, rate);
    }
    /// `next`: what the step after this one will be run on.
    bool run(std::int64_t i, const graft::tensor& x, int threads, double rate, const graft::tensor* next = nullptr) {
        const std::int64_t n = x.shape()[0];
        graft::tensor targets = graft::tensor::zeros(graft::dtype::float32, {n, classes});
        double weight = 0;
        for (std::int64_t s = 0; s < n; ++s)
            weight += graft::write_target(options.loss, (7 * s + i) % classes, 1, classes, targets.data<float>() + s * classes, false);
        graft::step_input in;
        in.inputs = &x, in.targets = &targets;
        in.scale = 1 / weight;
        in.learning_rate = rate;
        in.step = i;
        in.next = next;
        graft::pool_executor pool(threads);
        last = step.run(in, pool);
        return last.ok();
    }
    std::string error() const { return last.ok() ? "" : last.error().what(); }

    /// Every byte that the step has made: state, loss, logits.
    std::string bits() const {
        std::string all;
        for (const graft::training_state& s : step.state()) all.append(reinterpret_cast<const char*>(s.value.raw()), s.value.bytes());
        const double loss = step.loss();
        all.append(reinterpret_cast<const char*>(&loss), sizeof loss);
        all.append(reinterpret_cast<const char*>(step.logits().raw()), step.logits().bytes());
        return all;
    }

private:
    graft::shape sample_;
};

}  // namespace small_steps
