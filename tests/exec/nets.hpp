// Networks, inputs and comparisons that the tests of planning and execution share.
#pragma once

#include "../difference.hpp"
#include "../ops/problems.hpp"

#include <graft/graft.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace nets {

using problems::numbers;

inline const char* demo_model() { return GRAFT_SOURCE_DIR "/apps/graft/demo/model.onnx"; }

/// The folder that GRAFT_SHARED names, or ../shared; "" where there is none.
inline std::string shared() {
    const char* named = std::getenv("GRAFT_SHARED");
    std::string folder = named ? named : GRAFT_SOURCE_DIR "/../shared";
    std::FILE* there = std::fopen((folder + "/pack/models/mnist-8.onnx").c_str(), "rb");
    if (!there) return "";
    std::fclose(there);
    return folder;
}

inline graft::tensor random_tensor(const graft::shape& extents, numbers& random, double low = -1, double high = 1, graft::dtype type = graft::dtype::float32) {
    graft::tensor t = graft::tensor::make(type, extents);
    for (std::int64_t i = 0; i < t.elements(); ++i) {
        const double v = random.uniform(low, high);
        graft::store_from_double(type, t.raw(), i, 1, &v);
    }
    return t;
}

inline graft::tensor floats(const std::vector<float>& values) { return graft::tensor::from(values.data(), {static_cast<std::int64_t>(values.size())}); }
inline graft::tensor integers(const std::vector<std::int64_t>& values) {
    return graft::tensor::from(values.data(), {static_cast<std::int64_t>(values.size())});
}
template <class T>
std::vector<T> values(const graft::tensor& t) {
    return std::vector<T>(t.data<T>(), t.data<T>() + t.elements());
}

/// Inputs for a model; open extents become `open`, that of the first axis `samples` where it is not 0.
inline std::vector<graft::tensor> inputs_of(const graft::model& m, std::uint64_t seed, std::int64_t open = 1, std::int64_t samples = 0) {
    numbers random{seed};
    std::vector<graft::tensor> all;
    for (const graft::value_info& i : m.inputs()) {
        graft::shape s = i.extents;
        for (int d = 0; d < s.rank(); ++d)
            if (s[d] < 0) s[d] = d == 0 && samples ? samples : open;
        all.push_back(i.has_default ? graft::tensor() : random_tensor(s, random, 0, 1, i.type));
    }
    return all;
}

struct answer {
    std::vector<graft::tensor> outputs;
    std::string error;
};

inline answer run(graft::session& session, const graft::model& m, const std::vector<graft::tensor>& inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        graft::status given = session.set_input(i, inputs[i]);
        if (!given.ok()) return {{}, given.error().what()};
    }
    graft::status ran = session.run();
    if (!ran.ok()) return {{}, ran.error().what()};
    answer a;
    for (std::size_t i = 0; i < m.outputs().size(); ++i) a.outputs.push_back(session.output(i));
    return a;
}
inline answer run(const graft::model& m, const std::vector<graft::tensor>& inputs, int threads = 2) {
    graft::session session(m, {threads, nullptr});
    return run(session, m, inputs);
}

inline bool same_bits(const graft::tensor& a, const graft::tensor& b) {
    return a.type() == b.type() && a.shape() == b.shape() && (!a.bytes() || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}
inline bool same_bits(const answer& a, const answer& b) {
    bool same = a.error.empty() && b.error.empty() && a.outputs.size() == b.outputs.size();
    for (std::size_t i = 0; same && i < a.outputs.size(); ++i) same = same_bits(a.outputs[i], b.outputs[i]);
    return same;
}

using ::difference;
inline double difference(const answer& got, const answer& want) {
    if (!got.error.empty() || !want.error.empty() || got.outputs.size() != want.outputs.size()) return HUGE_VAL;
    double worst = 0;
    for (std::size_t i = 0; i < want.outputs.size(); ++i) worst = larger_error(worst, difference(got.outputs[i], want.outputs[i]));
    return worst;
}

/// The instruction sets of this machine.
inline std::vector<std::string> isas() {
    std::vector<std::string> all;
    for (const std::string& isa : problems::split(graft::cpu::available_isas(), ',')) all.push_back(isa.substr(isa.find_first_not_of(' ')));
    return all;
}
/// GRAFT_ISA for as long as it lives.
struct forced_isa {
    explicit forced_isa(const std::string& isa) { setenv("GRAFT_ISA", isa.c_str(), 1); }
    ~forced_isa() { unsetenv("GRAFT_ISA"); }
};

/// A residual network with depthwise convolutions and channel counts that are no multiple of any vector: [N,3,H,W] to [N,10].
inline graft::graph residual_net(std::uint64_t seed) {
    graft::builder b("residual", seed);
    graft::conv2d_options three, down, depthwise;
    three.kernel = 3, three.padding = 1;
    down = three;
    down.stride = 2;
    depthwise = three;
    depthwise.groups = 21;
    auto x = b.input("image", graft::dtype::float32, {"N", 3, "H", "W"});
    x = b.relu(b.batch_norm(b.conv2d(x, 13, down)));
    const auto left = b.conv2d(b.relu(b.conv2d(x, 21, three)), 13);
    x = b.relu(b.add(left, x));
    x = b.clip(b.conv2d(b.conv2d(x, 21), 21, depthwise), 0, 6);
    x = b.concat({x, b.max_pool(x, {3, 1, 1, false, false})});
    x = b.global_average_pool(b.conv2d(x, 35, down));
    b.output(b.softmax(b.linear(b.flatten(x), 10)), "probabilities");
    return b.finish();
}

/// A network whose samples are enough work to go alone: [N,16,32,32] to the features of each, [N,32,16,16], and, by matrices that all of them go
/// through together, to [N,10]. `samples`: of a network for that batch alone, whose Reshape says so.
inline graft::graph sampled_net(std::uint64_t seed, std::int64_t samples = 0) {
    graft::builder b("sampled", seed);
    graft::conv2d_options three, down;
    three.kernel = 3, three.padding = 1;
    down = three;
    down.stride = 2;
    auto x = samples ? b.input("image", graft::dtype::float32, {samples, 16, 32, 32}) : b.input("image", graft::dtype::float32, {"N", 16, 32, 32});
    x = b.relu(b.conv2d(x, 32, three));
    x = b.relu(b.conv2d(x, 32, three));
    const auto features = b.relu(b.conv2d(x, 32, down));
    x = samples ? b.apply("Reshape", {features, b.constant("rows", integers({samples, 8192}))}) : b.flatten(features);
    graft::linear_options first;
    numbers random{seed};
    first.weight = random_tensor({64, 8192}, random, -0.02, 0.02);
    first.bias_values = random_tensor({64}, random);
    x = samples ? b.apply("Gemm", {x, b.constant("first", first.weight), b.constant("bias", first.bias_values)}, {graft::integer_attribute("transB", 1)})
                : b.linear(x, 64, first);
    graft::linear_options second;
    second.weight = random_tensor({10, 64}, random);
    x = b.relu(x);
    b.output(samples ? b.apply("Gemm", {x, b.constant("second", second.weight)}, {graft::integer_attribute("transB", 1)}) : b.linear(x, 10, second), "scores");
    b.output(features, "features");
    return b.finish();
}

/// A body under construction: a builder whose captures are declared as inputs and moved when it is done.
struct body_builder {
    graft::builder b;
    std::vector<graft::capture> captures;
    explicit body_builder(const char* name) : b(name) {}
    graft::value_id capture(graft::dtype type, graft::value_id outer) {
        const graft::value_id id = b.input("captured" + std::to_string(captures.size()), type, {});
        captures.push_back({id, outer});
        return id;
    }
    graft::graph finish() {
        graft::graph g = b.finish();
        for (const graft::capture& c : captures) {
            g.inputs.erase(std::find(g.inputs.begin(), g.inputs.end(), c.inner));
            g.at(c.inner).has_shape = false;
            g.at(c.inner).type = graft::dtype::undefined;
        }
        g.captures = captures;
        return g;
    }
};

}  // namespace nets
