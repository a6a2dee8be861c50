// What the programs of bench/gpu share: the device, JSON lines, networks at a batch, and inputs that are the same in Python.
#pragma once

#include "../tests/difference.hpp"

#include <graft/core/json.hpp>
#include <graft/gpu.hpp>
#include <graft/gpu/device.hpp>
#include <graft/passes/specialize.hpp>
#include <graft/train.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace bench {

using gpu_runtime = graft::runtime<graft::backends::cuda, graft::backends::cpu>;

inline double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// One line of JSON on stdout: line("latency").text("network", name).number("ms", 3).print().
class line {
public:
    explicit line(const char* kind) {
        json_.begin_object();
        text("kind", kind);
    }
    line& text(const char* key, const std::string& value) { return json_.key(key).string(value), *this; }
    line& number(const char* key, double value) {
        return std::isfinite(value) ? json_.key(key).number(value) : json_.key(key).string(std::to_string(value)), *this;
    }
    line& integer(const char* key, std::int64_t value) { return json_.key(key).integer(value), *this; }
    line& yes(const char* key, bool value) { return json_.key(key).boolean(value), *this; }
    line& numbers(const char* key, const std::vector<double>& values) {
        json_.key(key).begin_array();
        for (double v : values) json_.number(v);
        json_.end_array();
        return *this;
    }
    void print() {
        json_.end_object();
        std::printf("%s\n", json_.text().c_str());
        std::fflush(stdout);
    }

private:
    graft::json_writer json_;
};

/// The device of a name, opened for a precision; null for the CPU.
inline graft::result<std::shared_ptr<graft::device>> open(const std::string& name, const std::string& precision, bool deterministic = false,
                                                          std::int64_t memory_bytes = 0) {
    graft::device_options how;
    how.precision = precision;
    how.deterministic = deterministic;
    how.memory_bytes = memory_bytes;
    return gpu_runtime::open(name, how, nullptr);
}

/// The pool of a device; null for the CPU.
inline graft::gpu::memory_pool* pool_of(const std::shared_ptr<graft::device>& on) {
    return on && on->name().compare(0, 4, "cuda") == 0 ? &static_cast<graft::gpu::cuda_device&>(*on).pool() : nullptr;
}

/// Numbers in [-2, 2.02), the same on every machine; gpu_networks.py has them too.
inline void fill(float* to, std::int64_t n, std::int64_t seed) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<float>((i * 7919 + seed * 104729) % 257) / 64.0f - 2.0f;
}

inline const graft::value_info* first_input(const graft::model& net) {
    for (const graft::value_info& v : net.inputs())
        if (!v.has_default) return &v;
    return nullptr;
}

/// The first input's shape with every open extent but the batch known. Errors: input.shape.
inline graft::result<graft::shape> batch_shape(const graft::model& net, std::int64_t batch) {
    const graft::value_info* v = first_input(net);
    if (!v || v->type != graft::dtype::float32 || v->extents.rank() < 1)
        return graft::fail(graft::errc::input_dtype, "model", "a float32 input with a batch is needed");
    graft::shape s = v->extents;
    s[0] = batch;
    if (!s.known()) return graft::fail(graft::errc::input_shape, v->name, "only its batch may be open");
    return s;
}

inline double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const std::size_t n = values.size();
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

inline bool same_bits(const graft::tensor& a, const graft::tensor& b) {
    return a.type() == b.type() && a.shape() == b.shape() && (a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}

using ::difference;

/// A network that learns, its step, and a batch that has something to be learnt: the mean of a picture tells its class.
struct trained {
    graft::training_step step;
    graft::shape shape;
    std::int64_t classes = 0;
    graft::tensor input, targets;
    graft::step_input in;

    /// `shape` of the batch is that of the network's first input. Errors: those of making and preparing a step.
    static graft::result<std::unique_ptr<trained>> make(const graft::graph& network, std::int64_t batch, const graft::step_options& options,
                                                        graft::executor& pool) {
        graft::graph g = network;
        graft::constants_to_initializers(g);
        graft::model net;
        GRAFT_TRY_ASSIGN(net, graft::load(std::move(g)));
        g = net.graph();
        auto made = std::make_unique<trained>();
        GRAFT_TRY_ASSIGN(made->shape, batch_shape(net, batch));
        const graft::value_id logits = graft::logits_of(g);
        graft::graph known;
        GRAFT_TRY_ASSIGN(known, graft::specialize_first_input(g, made->shape, pool, {}));
        const graft::shape scores = known.at(logits).extents;
        if (scores.rank() != 2) return graft::fail(graft::errc::train_head, g.name, "the loss is taken of [N, classes]");
        made->classes = scores[1];
        graft::value& v = g.at(logits);
        v.has_shape = true;
        v.extents = {graft::shape::unknown, made->classes};
        std::vector<graft::parameter> parameters = graft::parameters_of(g);
        GRAFT_TRY_ASSIGN(made->step, graft::training_step::make(std::move(g), logits, std::move(parameters), options));
        GRAFT_TRY_ASSIGN(made->input, graft::tensor::make(graft::dtype::float32, made->shape));
        GRAFT_TRY_ASSIGN(made->targets, graft::tensor::make(graft::dtype::float32, {batch, made->classes}));
        made->batch_number(0, options.loss);
        made->in.inputs = &made->input;
        made->in.targets = &made->targets;
        made->in.scale = 1.0 / static_cast<double>(batch);
        made->in.learning_rate = 0.01;
        return made;
    }
    /// Writes batch i over the last one.
    void batch_number(std::int64_t i, const graft::loss_options& loss) {
        const std::int64_t n = shape[0], one = input.elements() / n;
        fill(input.data<float>(), input.elements(), i + 1);
        for (std::int64_t s = 0; s < n; ++s) {
            const std::int64_t label = (s * 5 + i) % classes;
            for (std::int64_t k = 0; k < one; ++k) input.data<float>()[s * one + k] += 3 * (static_cast<float>(label) / static_cast<float>(classes) - 0.5f);
            graft::write_target(loss, label, 1, classes, targets.data<float>() + s * classes, false);
        }
    }
};

/// Words of the command line: value("--device", "cpu").
struct arguments {
    std::vector<std::string> words;
    arguments(int count, char** given) : words(given + 1, given + count) {}
    std::string value(const std::string& option, const std::string& otherwise) const {
        for (std::size_t i = 0; i + 1 < words.size(); ++i)
            if (words[i] == option) return words[i + 1];
        return otherwise;
    }
    /// Every value of an option that may come again.
    std::vector<std::string> values(const std::string& option) const {
        std::vector<std::string> all;
        for (std::size_t i = 0; i + 1 < words.size(); ++i)
            if (words[i] == option) all.push_back(words[i + 1]);
        return all;
    }
};

}  // namespace bench
