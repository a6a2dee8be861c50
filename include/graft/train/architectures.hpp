// Networks to train from scratch: LeNet, a residual network for CIFAR, MobileNetV2.
#pragma once

#include "../graph/builder.hpp"
#include "initializers.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// What a network is built for.
struct architecture_options {
    std::int64_t classes = 10;
    std::int64_t channels = 0, height = 0, width = 0;  ///< of its pictures; 0: what the architecture was made for
    std::uint64_t seed = 0;                            ///< of its weights
};

/// Builds an architecture by name, its batch open ("N"), its input "input" and its output "logits":
///   lenet         5x5x6, pool, 5x5x16, pool, 120, 84, with ReLU and without padding (LeCun et al., 1998), for 1x28x28; torch's initial weights
///   resnet20      He et al. (2016), section 4.2: three stages of 3 blocks of 16, 32 and 64 channels; where the channels change the
///                 shortcut is a 1x1 convolution (option B); for 3x32x32; Kaiming normal by fan-out
///   mobilenet_v2  Sandler et al. (2018), width 1, for 3x224x224; torchvision's layers and initial weights
/// Errors: usage (no such name), op.shape (pictures too small for it).
result<graph> build_architecture(const std::string& name, const architecture_options& options);

/// The names that it takes.
std::vector<std::string> architecture_names();

/// How pictures become tensors for an architecture where nothing else is said: a SPEC of preprocessing; "" for an unknown one.
const char* default_preprocess(const std::string& architecture);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE
namespace detail {

// A builder whose weights come from initializers, each from a stream of its own.
class architect {
public:
    architect(const char* name, const architecture_options& o) : b(name, o.seed), seed_(o.seed) {}

    value_id conv(value_id x, const std::string& name, std::int64_t channels, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                  std::int64_t groups, bool bias, initializer kind) {
        conv2d_options o;
        o.kernel = kernel, o.stride = stride, o.padding = padding, o.groups = groups, o.bias = bias, o.name = name;
        const std::int64_t inputs = b.shape_of(x).rank() == 4 ? b.shape_of(x)[1] / groups : 1;
        o.weight = draw(kind, {channels, inputs, kernel, kernel});
        if (bias) o.bias_values = draw(kind == initializer::torch_default ? kind : initializer::zeros, {channels}, inputs * kernel * kernel);
        return b.conv2d(x, channels, o);
    }
    value_id norm(value_id x, const std::string& name) {
        batch_norm_options o;
        o.name = name;
        return b.batch_norm(x, o);
    }
    value_id linear(value_id x, const std::string& name, std::int64_t features, initializer kind) {
        linear_options o;
        o.name = name;
        const std::int64_t inputs = b.shape_of(x).rank() == 2 ? b.shape_of(x)[1] : 1;
        o.weight = draw(kind, {features, inputs});
        o.bias_values = draw(kind == initializer::torch_default ? kind : initializer::zeros, {features}, inputs);
        return b.linear(x, features, o);
    }
    builder b;
    status failed;  // the last weight that could not be made

private:
    tensor draw(initializer kind, const shape& extents, std::int64_t fan_in = 0) {
        auto made = initial(kind, extents, seed_, ++stream_, fan_in);
        if (made.ok()) return std::move(made).value();
        failed = made.take_status();
        return {};
    }
    std::uint64_t seed_, stream_ = 0;
};

inline void build_lenet(architect& a, value_id x, std::int64_t classes) {
    constexpr initializer kind = initializer::torch_default;
    builder& b = a.b;
    x = b.max_pool(b.relu(a.conv(x, "conv1", 6, 5, 1, 0, 1, true, kind)));
    x = b.max_pool(b.relu(a.conv(x, "conv2", 16, 5, 1, 0, 1, true, kind)));
    x = b.flatten(x);
    x = b.relu(a.linear(x, "fc1", 120, kind));
    x = b.relu(a.linear(x, "fc2", 84, kind));
    b.output(a.linear(x, "fc3", classes, kind), "logits");
}

inline void build_resnet20(architect& a, value_id x, std::int64_t classes) {
    constexpr initializer kind = initializer::kaiming_normal_fan_out;
    builder& b = a.b;
    x = b.relu(a.norm(a.conv(x, "conv1", 16, 3, 1, 1, 1, false, kind), "bn1"));
    std::int64_t channels = 16;
    for (int stage = 0; stage < 3; ++stage)
        for (int block = 0; block < 3; ++block) {
            const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(block);
            const std::int64_t wide = std::int64_t(16) << stage, stride = stage > 0 && block == 0 ? 2 : 1;
            value_id y = b.relu(a.norm(a.conv(x, name + ".conv1", wide, 3, stride, 1, 1, false, kind), name + ".bn1"));
            y = a.norm(a.conv(y, name + ".conv2", wide, 3, 1, 1, 1, false, kind), name + ".bn2");
            if (wide != channels) x = a.norm(a.conv(x, name + ".downsample.0", wide, 1, stride, 0, 1, false, kind), name + ".downsample.1");
            channels = wide;
            x = b.relu(b.add(y, x));
        }
    b.output(a.linear(b.flatten(b.global_average_pool(x)), "fc", classes, initializer::torch_default), "logits");
}

inline void build_mobilenet_v2(architect& a, value_id x, std::int64_t classes) {
    constexpr initializer kind = initializer::kaiming_normal_fan_out;
    builder& b = a.b;
    const auto unit = [&](value_id v, const std::string& name, std::int64_t channels, std::int64_t kernel, std::int64_t stride, std::int64_t groups) {
        return b.clip(a.norm(a.conv(v, name + ".0", channels, kernel, stride, kernel / 2, groups, false, kind), name + ".1"), 0, 6);
    };
    struct stage {
        int expansion, channels, blocks, stride;
    };
    static constexpr stage stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    x = unit(x, "features.0", 32, 3, 2, 1);
    std::int64_t channels = 32;
    int index = 1;
    for (const stage& s : stages)
        for (int block = 0; block < s.blocks; ++block, ++index) {
            const std::string name = "features." + std::to_string(index) + ".conv";
            const std::int64_t stride = block == 0 ? s.stride : 1, hidden = channels * s.expansion;
            value_id y = x;
            int part = 0;
            if (s.expansion != 1) y = unit(y, name + "." + std::to_string(part++), hidden, 1, 1, 1);
            y = unit(y, name + "." + std::to_string(part++), hidden, 3, stride, hidden);
            y = a.conv(y, name + "." + std::to_string(part), s.channels, 1, 1, 0, 1, false, kind);
            y = a.norm(y, name + "." + std::to_string(part + 1));
            x = stride == 1 && channels == s.channels ? b.add(x, y) : y;
            channels = s.channels;
        }
    x = unit(x, "features." + std::to_string(index), 1280, 1, 1, 1);
    x = b.flatten(b.global_average_pool(x));
    b.output(a.linear(x, "classifier.1", classes, initializer::normal_001), "logits");
}

}  // namespace detail

GRAFT_INLINE const char* default_preprocess(const std::string& architecture) {
    if (architecture == "lenet") return "resize=28x28,order=gray,unit";
    if (architecture == "resnet20") return "imagenet,resize=32x32";
    return architecture == "mobilenet_v2" ? "imagenet,crop=224" : "";
}

namespace detail {
struct known_architecture {
    const char* name;
    std::int64_t channels, side;
    void (*build)(architect&, value_id, std::int64_t);
};
constexpr known_architecture known_architectures[] = {
    {"lenet", 1, 28, build_lenet}, {"resnet20", 3, 32, build_resnet20}, {"mobilenet_v2", 3, 224, build_mobilenet_v2}};

}  // namespace detail

GRAFT_INLINE std::vector<std::string> architecture_names() {
    std::vector<std::string> names;
    for (const detail::known_architecture& k : detail::known_architectures) names.push_back(k.name);
    return names;
}

GRAFT_INLINE result<graph> build_architecture(const std::string& name, const architecture_options& o) GRAFT_MEMORY_TRY {
    if (o.classes < 1 || o.classes > (1 << 20)) return fail(errc::usage, name, "a network for " + std::to_string(o.classes) + " classes cannot be built");
    for (const detail::known_architecture& k : detail::known_architectures) {
        if (name != k.name) continue;
        detail::architect a(k.name, o);
        const value_id x =
            a.b.input("input", dtype::float32, {"N", o.channels ? o.channels : k.channels, o.height ? o.height : k.side, o.width ? o.width : k.side});
        k.build(a, x, o.classes);
        GRAFT_TRY(std::move(a.failed));
        return a.b.finish();
    }
    return fail(errc::usage, name,
                "there is no such architecture; there are lenet, resnet20 and mobilenet_v2. A network that was trained elsewhere comes as an ONNX file: graft "
                "finetune DATA --from MODEL.onnx");
}
GRAFT_MEMORY_CATCH(name)

GRAFT_END_NAMESPACE
#endif
