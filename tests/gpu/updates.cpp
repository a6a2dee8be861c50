// Kernels of many tensors, and the updates that lowering makes them of.
#include "learning.hpp"

#include "../cuda_simulator/simulated.hpp"
#include "table_problems.hpp"

#include <graft/gpu/lower/fuse_chains.hpp>
#include <graft/gpu/lower/join_updates.hpp>
#include <graft/graph/emitter.hpp>

#include <algorithm>
#include <cstring>

using namespace generated;

namespace {

using graft::integer_attribute;
using graft::real_attribute;
using graft::value_id;

/// Sizes on both sides of packs and of chunks.
const graft::shape sizes[] = {{3}, {4}, {2, 9}, {1024}, {1025}, {5, 3, 3, 3}, {4099}, {8, 16, 1, 1}, {40000}};

/// What writes the node of one tensor of that shape, and says what it makes.
class tensors {
public:
    tensors() : e(g, graft::ops::find_training_op, limit_) {}

    value_id input(const graft::shape& extents, double low = -2, double high = 2, graft::dtype type = graft::dtype::float32) {
        const value_id id = g.add_value("x" + std::to_string(g.inputs.size()));
        graft::value& v = g.values[at(id)];
        v.type = type;
        v.has_shape = true;
        v.extents = extents;
        g.inputs.push_back(id);
        tensor t = tensor::make(type, extents);
        for (std::int64_t k = 0; k < t.elements(); ++k) {
            const double x = random_.uniform(low, high);
            graft::store_from_double(type, t.raw(), k, 1, &x);
        }
        in_.push_back(t);
        return id;
    }
    /// The one node that lowering makes of all that were emitted, with what the reference makes.
    example finish() {
        REQUIRE(e.failure.ok());
        std::vector<tensor> values(g.values.size());
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = g.values[i].constant;
        for (std::size_t i = 0; i < in_.size(); ++i) values[at(g.inputs[i])] = in_[i];
        graft::executor serial;
        for (graft::node& n : g.nodes) {
            std::vector<graft::tensor_view> views;
            for (value_id id : n.inputs) views.push_back(id == graft::no_value ? graft::tensor_view{} : graft::view(values[at(id)]));
            std::vector<tensor> made;
            const graft::status s = graft::run_reference(n, views.data(), static_cast<int>(views.size()), made, {limit_, serial, nullptr, 7});
            REQUIRE(s.ok());
            for (std::size_t k = 0; k < made.size(); ++k) {
                values[at(n.outputs[k])] = made[k];
                if (n.op_type != "Mul") g.outputs.push_back(n.outputs[k]);
            }
            n.place = 1;
        }
        example x;
        x.name = g.nodes.back().op_type;
        graft::gpu::detail::chains(g, 1).run();
        graft::gpu::detail::update_joiner(g, 1).run();
        REQUIRE(g.nodes.size() == 1);
        x.n = g.nodes[0];
        CHECK(x.n.op_type == "MultiTensor");
        for (value_id id : x.n.inputs) x.in.push_back(values[at(id)]);
        for (value_id id : x.n.outputs) x.want.push_back(values[at(id)]);
        x.constant.assign(x.in.size(), false);
        x.in_layout.assign(x.in.size() + 1, plain);
        x.out_layout.assign(x.want.size() + 1, plain);
        return x;
    }

    graft::graph g;
    graft::limits limit_;
    graft::emitter e;

private:
    std::vector<tensor> in_;
    problems::numbers random_{23};
};

/// Every kind of update, with and without what it may leave out, alone and behind what scales the gradient and ahead of a running average.
std::vector<example> update_examples() {
    std::vector<example> all;
    for (int kind = 0; kind < 10; ++kind) {
        tensors t;
        const value_id rate = t.input({}, 0.01, 0.02), loss = kind % 2 ? t.input({}, 1, 2) : graft::no_value, step = t.input({}, 7, 7, graft::dtype::int64);
        for (const graft::shape& s : sizes) {
            const value_id w = t.input(s);
            value_id gradient = t.input(s);
            std::vector<value_id> made;
            if (kind > 7) gradient = t.e.mul(gradient, rate);
            if (kind < 2 || kind == 8)
                made = t.e.apply_all("graft", "SGD", {w, gradient, t.input(s), rate, loss},
                                     {real_attribute("momentum", 0.9f), integer_attribute("nesterov", kind), real_attribute("weight_decay", 0.01f)}, 2);
            else if (kind == 2)
                t.e.apply_all("graft", "SGD", {w, gradient, graft::no_value, rate, loss}, {}, 1);
            else if (kind < 5 || kind == 9)
                made = t.e.apply_all("graft", "Adam", {w, gradient, t.input(s), t.input(s, 0, 1), rate, step, loss},
                                     {integer_attribute("decoupled", kind % 2), real_attribute("weight_decay", 0.01f)}, 3);
            else if (kind == 5)
                t.e.apply_graft("ExponentialMovingAverage", {w, gradient, loss, step}, {real_attribute("decay", 0.9f)});
            else if (kind == 6)
                t.e.apply_graft("ScaleByNorm", {gradient, rate}, {real_attribute("max_norm", 0.01f)});
            else {
                t.g.states.push_back({static_cast<int>(t.g.inputs.size()) - 2, -1});
                t.e.apply("Cast", {w}, {integer_attribute("to", static_cast<std::int64_t>(graft::dtype::bfloat16))});
            }
            if (kind > 7) t.e.apply_graft("ExponentialMovingAverage", {t.input(s), made[0], loss, step}, {real_attribute("decay", 0.9f)});
        }
        all.push_back(t.finish());
        all.back().name += " " + std::to_string(kind);
        generate(all.back(), kind % 3 ? 132 : 1);
        CHECK_MESSAGE(!all.back().refused, all.back().name, ": ", all.back().refused);
    }
    return all;
}

}  // namespace

#if defined(GRAFT_CUDA_SIMULATOR)

namespace {

/// The network's step with these options, after three runs; `launches` are those of the last.
struct run_steps {
    run_steps(const graft::graph& g, const graft::step_options& o, std::int64_t batch) : t(g, o) {
        t.step.scaling().factor = 64;
        for (std::int64_t i = 0; i < 3; ++i) {
            const long before = simulated::count("launches");
            const bool ran = t.run(i, batch);
            REQUIRE_MESSAGE(ran, t.error());
            launches = simulated::count("launches") - before;
        }
    }
    learning::trained t;
    long launches = 0;
};

graft::step_options optimizer(graft::optimizer_kind kind, double clip_norm, double ema_decay, std::shared_ptr<graft::device> on) {
    graft::step_options o;
    o.optimizer.kind = kind;
    o.optimizer.clip_norm = clip_norm;
    o.optimizer.ema_decay = ema_decay;
    o.on = std::move(on);
    return o;
}

}  // namespace

TEST_CASE("Kernels of many tensors update them as the reference does") { expect_all(update_examples()); }

TEST_CASE("Kernels of many tensors give the bits that each tensor's own loop gives") {
    for (const example& many : update_examples()) {
        CAPTURE(many.name);
        const std::vector<tensor> together = answers(many);
        const graft::graph& body = *many.n.find("body")->graph;
        std::size_t output = 0;
        for (const graft::node& n : body.nodes) {
            example one;
            one.name = many.name;
            one.n = n;
            for (const value_id id : n.inputs) {
                const auto place = std::find(body.inputs.begin(), body.inputs.end(), id);
                one.in.push_back(place == body.inputs.end() ? tensor() : many.in[static_cast<std::size_t>(place - body.inputs.begin())]);
            }
            one.constant.assign(one.in.size(), false);
            one.want.assign(many.want.begin() + static_cast<std::ptrdiff_t>(output),
                            many.want.begin() + static_cast<std::ptrdiff_t>(output + n.outputs.size()));
            one.in_layout.assign(one.in.size() + 1, plain);
            one.out_layout.assign(one.want.size() + 1, plain);
            generate(one, 132);
            REQUIRE(!one.refused);
            for (const tensor& alone : answers(one)) {
                CHECK(std::memcmp(alone.raw(), together[output].raw(), alone.bytes()) == 0);
                ++output;
            }
        }
    }
}

TEST_CASE("a step's launches do not grow with the parameters that its optimizer updates") {
    const graft::graph g = small_steps::architecture("resnet20", 16);
    const auto device = simulated::exact_device();
    const long plain_steps = run_steps(g, optimizer(graft::optimizer_kind::sgd, 0, 0, device), 2).launches;
    const long all = run_steps(g, optimizer(graft::optimizer_kind::adamw, 1, 0.9, device), 2).launches;
    MESSAGE(graft::parameters_of(g).size() << " parameters: " << plain_steps << " launches a step with SGD, " << all
                                           << " with AdamW, clipping and a running average");
    CHECK(all - plain_steps <= 10);
}

TEST_CASE("clipping, running averages and scaled losses on the CUDA simulator learn what the CPU learns") {
    const graft::graph g = small_steps::architecture("resnet20", 16);
    for (const char* precision : {"float32", "bfloat16", "float16"}) {
        CAPTURE(precision);
        graft::device_options options;
        options.precision = precision;
        graft::step_options o = optimizer(graft::optimizer_kind::sgd, 0.5, 0.9, simulated::open(options));
        o.loss_scaling = options.precision == "float16";
        run_steps device(g, o, 2), host(g, optimizer(graft::optimizer_kind::sgd, 0.5, 0.9, nullptr), 2);
        CHECK(device.t.step.scaling().skipped == 0);
        CHECK(learning::distance(learning::numbers_of(device.t), learning::numbers_of(host.t)) <= (options.precision == "float32" ? 2e-3 : 0.05));
    }
}

TEST_CASE("weights whose gradients read each other, and themselves at other places, learn on the CUDA simulator what the CPU learns") {
    for (const bool by_a_view : {false, true}) {
        CAPTURE(by_a_view);
        graft::builder b("net", 3);
        const value_id x = b.input("input", graft::dtype::float32, {"N", 40});
        const value_id w = b.constant("w", small_steps::numbered(80, {40, 40}, 0.5)), gain = b.constant("gain", small_steps::numbered(81, {40, 40}, 0.5));
        const value_id also = by_a_view ? b.apply("Flatten", {w}) : w;
        const value_id own = b.apply("Mul", {b.apply("Mul", {also, b.apply("Transpose", {w})}), gain});
        const value_id logits = b.apply("MatMul", {b.apply("MatMul", {x, own}), b.constant("v", small_steps::numbered(82, {40, 5}))});
        b.output(logits, "logits");
        graft::graph net = b.finish();
        graft::value& v = net.values[at(logits)];
        v.type = graft::dtype::float32;
        v.has_shape = true;
        v.extents = {graft::shape::unknown, 5};
        const graft::graph g = small_steps::loaded(std::move(net));
        REQUIRE(graft::parameters_of(g).size() == 3);
        for (const graft::optimizer_kind kind : {graft::optimizer_kind::sgd, graft::optimizer_kind::adamw}) {
            learning::trained host(g, optimizer(kind, 0, 0.9, nullptr)), device(g, optimizer(kind, 0, 0.9, simulated::exact_device()));
            for (std::int64_t i = 0; i < 4; ++i) {
                REQUIRE(host.run(i, 6, 1, 0.05));
                const bool ran = device.run(i, 6, 1, 0.05);
                REQUIRE_MESSAGE(ran, device.error());
            }
            CHECK(learning::distance(learning::numbers_of(device), learning::numbers_of(host)) <= 2e-3);
        }
    }
}

#endif

TEST_CASE("NVRTC compiles kernels of many tensors without a warning, and none of them spills") {
    const std::vector<example> all = update_examples();
    expect_compiled(all);
    std::string why;
    const auto* nvrtc = real_nvrtc::functions(why);
    for (const std::string arch : {"sm_75", "sm_80", "sm_90", "sm_100"})
        for (std::size_t i = 0; i < all.size() && nvrtc; ++i) {
            const std::string log = real_nvrtc::compile(*nvrtc, graft::gpu::prelude() + all[i].made.source, arch, "--ptxas-options=-v");
            CHECK_MESSAGE(log.find("0 bytes stack frame, 0 bytes spill stores") != std::string::npos, arch, ": ", all[i].name, ": ", log.substr(0, 2000));
        }
}
