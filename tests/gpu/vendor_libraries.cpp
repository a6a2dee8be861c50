// What graft builds with cuDNN and cuBLASLt, held against the vendors' own libraries where they are installed. No GPU is needed: cuDNN
// makes plans for a device of which it only knows the properties. In a process of its own, since the simulator's libraries, which
// have the same names, may be in this one.
#include "library_problem.hpp"
#include "../skipped.hpp"

#include <graft/gpu/libraries/cublaslt.hpp>
#include <graft/gpu/libraries/cudnn_graph.hpp>
#include <graft/gpu/ops/attention.hpp>
#include <graft/gpu/ops/conv.hpp>
#include <graft/ops/gradients.hpp>
#include <graft/ops/ops.hpp>

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>

#if defined(__linux__)
#include <dlfcn.h>
#include <unistd.h>

namespace {

using graft::dtype;
using library_problem::asked;
using library_problem::problem;
namespace api = graft::gpu::api;
namespace cudnn = api::cudnn;
namespace attribute = api::cudnn::attribute;
namespace type = api::cudnn::attribute_type;

void* vendor_library(const char* file) {
    const char* home = std::getenv("CUDA_HOME");
    const std::string path = std::string(home ? home : "/usr/local/cuda") + "/lib64/" + file;
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) say_skipped(path + " is not on this machine");
    return library;
}
// cuDNN remembers a device by its number: one description for each process.
void run_alone(const char* name, const char* capability = "900") {
    char self[4096] = "";
    REQUIRE(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    const int code = std::system(("GRAFT_DESCRIBED_DEVICE=" + std::string(capability) + " '" + self + "' --no-skip --test-case='" + name + "'").c_str());
    CHECK(code == 0);
}

// cuDNN with a device that is described to it; `cudnn` is null where it is not installed, or too old to take a description.
struct described_device {
    api::cudnn_functions functions;
    graft::gpu::cudnn_descriptor description;
    graft::gpu::libraries with;
    graft::gpu::device_traits traits;

    explicit described_device(const char* file_of_simulator = nullptr) {
        const char* named = std::getenv("GRAFT_DESCRIBED_DEVICE");
        const std::string capability = named ? named : "900";
        void* from = file_of_simulator ? dlopen(file_of_simulator, RTLD_NOW | RTLD_LOCAL) : vendor_library("libcudnn.so.9");
        if (!from) return;
#define GRAFT_BIND(result, name, parameters) functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(from, #name));
        GRAFT_CUDNN_FUNCTIONS(GRAFT_BIND)
#undef GRAFT_BIND
        if (functions.cudnnGetVersion() < 91100) {
            say_skipped("cuDNN before 9.11 cannot be told about a device");
            return;
        }
        // Properties of an H100; of others only the capability differs here.
        const std::string json =
            "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,\"multiProcessorCount\":132,\"warpSize\":32,"
            "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":166912,\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,"
            "\"maxCtasPerSM\":32,"
            "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,\"smClockRateKHz\":1755000,"
            "\"memClockRateKHz\":2619000,\"l2CacheSize\":52428800,\"deviceName\":\"described\",\"cudaDeviceId\":0,\"totalGlobalMem\":85000000000,\"driverVer\":"
            "13000,\"deviceVer\":" +
            capability + "}";
        REQUIRE(description.create(functions, cudnn::device_descriptor, "a device").ok());
        REQUIRE(description.set(attribute::device_json, type::text, static_cast<std::int64_t>(json.size()), json.data()).ok());
        const graft::status s = description.finalize();
        const std::string error = s.ok() ? "" : s.error().what();
        REQUIRE_MESSAGE(s.ok(), error);
        with.cudnn = &functions;
        with.cudnn_device = description.raw();
        traits.name = "described";
    }
};

// Engines that compile want a driver that takes what they compiled.
bool load_described_driver() {
#ifdef GRAFT_CUDA_SIMULATOR
    REQUIRE(dlopen(GRAFT_CUDA_SIMULATOR "/described/libcuda.so.1", RTLD_NOW | RTLD_LOCAL));
    return true;
#else
    say_skipped("the described driver is built with the CUDA simulator");
    return false;
#endif
}

// A node graft.Attention of packed values, as the lowering asks for it; `transposed`: Q, K, V are parts of one value [batch, length, 3,
// heads, size], and the result is [batch, length, heads, size].
struct attention_question {
    graft::node n;
    std::vector<graft::tensor_view> in, out;
    graft::limits limit;
    std::vector<graft::layout> rows{5, graft::layout::row_major};

    attention_question(dtype type, std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t queries, std::int64_t keys, std::int64_t size,
                       bool transposed, const graft::shape& mask) {
        const auto place = [&](const char* name, std::int64_t part, std::int64_t of, std::int64_t length) {
            const std::int64_t inner = transposed ? (name[0] == 'y' ? 1 : 3) * heads * size : size;
            const std::int64_t first = transposed && name[0] != 'y' ? part * heads * size : 0, head = transposed ? size : length * size;
            n.attributes.push_back(graft::integers_attribute(name, {first, (transposed ? inner : of * size) * length, head, inner}));
        };
        n.op_type = "Attention";
        n.domain = "graft";
        n.attributes.push_back(graft::integers_attribute("extents", {batch, heads, kv_heads, queries, keys, size, size}));
        place("q", 0, heads, queries);
        place("k", 1, kv_heads, keys);
        place("v", 2, kv_heads, keys);
        place("y", 0, heads, queries);
        n.attributes.push_back(graft::real_attribute("scale", 0.125f));
        const auto value = [&](std::int64_t of, std::int64_t length) {
            return graft::tensor_view{type, transposed ? graft::shape{batch, length, 3, of, size} : graft::shape{batch, of, length, size}, nullptr};
        };
        in = {value(heads, queries), value(kv_heads, keys), value(kv_heads, keys)};
        if (mask.rank()) in.push_back({type, mask, nullptr});
        out = {{type, transposed ? graft::shape{batch, queries, heads, size} : graft::shape{batch, heads, queries, size}, nullptr}};
        for (std::size_t i = 0; i < in.size(); ++i) n.inputs.push_back(static_cast<graft::value_id>(i));
        n.outputs = {10};
    }
    graft::gpu::kernel_query query(const graft::gpu::device_traits& on) {
        return {{n, in.data(), static_cast<int>(in.size()), out.data(), 1, limit}, rows.data(), rows.data(), on, {}};
    }
};

// How many engines are proposed for softmax(scale * q k^T) v, with maximum + log(sum) computed or not; -1: it is no graph.
int proposed_for_attention(const graft::gpu::libraries& with, std::int64_t key_heads, std::int64_t size, bool statistic) {
    namespace mode = api::cudnn::pointwise;
    graft::gpu::cudnn_graph g(with);
    const std::int64_t heads = 4, rows = 40, keys = 48;
    const auto add = [&](std::int64_t id, dtype type, const graft::shape& s, bool is_virtual, bool turned = false) {
        std::int64_t steps[] = {s[1] * s[2] * s[3], s[2] * s[3], s[3], 1};
        if (turned) steps[2] = 1, steps[3] = s[2];
        return g.add_strided(id, type, s, steps, is_virtual).ok();
    };
    const auto pointwise = [&](int how, std::int64_t x, std::int64_t b, std::int64_t y) {
        graft::gpu::pointwise_operation o;
        o.mode = how;
        return g.add_pointwise(o, x, b, y).ok();
    };
    const graft::shape full{2, heads, rows, keys}, row{2, heads, rows, 1};
    bool ok = add(1, dtype::float16, {2, heads, rows, size}, false) && add(2, dtype::float16, {2, key_heads, size, keys}, false, true) &&
              add(3, dtype::float16, {2, key_heads, keys, size}, false) && add(4, dtype::float16, {2, heads, rows, size}, false) && g.add_scalar(5, 0.5f).ok();
    for (std::int64_t id = 10; id < 14; ++id) ok = ok && add(id, dtype::float32, full, true);
    for (std::int64_t id = 14; id < 18; ++id) ok = ok && add(id, dtype::float32, row, true);
    ok = ok && add(18, dtype::float16, full, true) && g.add_matmul(1, 2, 10).ok() && pointwise(mode::multiply, 10, 5, 11) &&
         g.add_reduction(api::cudnn::reduce::maximum, 11, 14).ok() && pointwise(mode::subtract, 11, 14, 12) && pointwise(mode::exp, 12, 0, 13) &&
         g.add_reduction(api::cudnn::reduce::add, 13, 15).ok();
    if (statistic) ok = ok && pointwise(mode::log, 15, 0, 16) && pointwise(mode::add, 14, 16, 17);
    ok = ok && pointwise(mode::divide, 13, 15, 18) && g.add_matmul(18, 3, 4).ok() && g.finalize().ok();
    std::vector<graft::gpu::cudnn_descriptor> configs;
    return ok && g.propose(api::cudnn::heuristic::a, configs).ok() ? static_cast<int>(configs.size()) : -1;
}

const graft::op_row* op_row_of(const std::string& op, const std::string& domain) {
    return domain.empty() ? graft::ops::find_op("", op.c_str(), graft::newest_opset) : graft::ops::find_training_op("graft", op.c_str(), 1);
}

// Uses of descriptors, right and wrong: each gives the first code that is not success.
struct misuse {
    const char* what;
    std::function<int(const api::cudnn_functions&)> use;
};

struct raw_descriptor {
    const api::cudnn_functions& f;
    void* raw = nullptr;
    int first = 0;
    raw_descriptor(const api::cudnn_functions& functions, int kind) : f(functions) { first = f.cudnnBackendCreateDescriptor(kind, &raw); }
    ~raw_descriptor() {
        if (raw) f.cudnnBackendDestroyDescriptor(raw);
    }
    raw_descriptor(const raw_descriptor&) = delete;
    raw_descriptor& operator=(const raw_descriptor&) = delete;
    raw_descriptor& set(int name, int as, std::int64_t count, const void* values) {
        const int code = f.cudnnBackendSetAttribute(raw, name, as, count, values);
        if (!first) first = code;
        return *this;
    }
    raw_descriptor& integers(int name, std::vector<std::int64_t> v) { return set(name, type::int64, static_cast<std::int64_t>(v.size()), v.data()); }
    raw_descriptor& enumerator(int name, int as, int v) { return set(name, as, 1, &v); }
    raw_descriptor& descriptor(int name, const raw_descriptor& d) { return set(name, type::descriptor, 1, &d.raw); }
    int finish() {
        const int code = f.cudnnBackendFinalize(raw);
        if (!first) first = code;
        return first;
    }
};

struct raw_tensor : raw_descriptor {
    raw_tensor(const api::cudnn_functions& functions, std::int64_t id, std::vector<std::int64_t> extents, std::vector<std::int64_t> strides,
               std::int64_t alignment = 16, bool is_virtual = false)
        : raw_descriptor(functions, cudnn::tensor_descriptor) {
        enumerator(attribute::tensor_data_type, type::data_type, cudnn::data::float32);
        integers(attribute::tensor_dimensions, std::move(extents)).integers(attribute::tensor_strides, std::move(strides));
        integers(attribute::tensor_byte_alignment, {alignment}).integers(attribute::tensor_unique_id, {id});
        set(attribute::tensor_is_virtual, type::boolean, 1, &is_virtual);
        finish();
    }
    raw_tensor(const api::cudnn_functions& functions, std::int64_t id, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w, bool is_virtual = false)
        : raw_tensor(functions, id, {n, c, h, w}, {h * w * c, 1, w * c, c}, 16, is_virtual) {}
};
struct raw_convolution : raw_descriptor {
    raw_convolution(const api::cudnn_functions& functions, std::vector<std::int64_t> pads, std::vector<std::int64_t> strides,
                    std::vector<std::int64_t> dilations, std::int64_t rank = 2)
        : raw_descriptor(functions, cudnn::convolution_descriptor) {
        integers(attribute::convolution_spatial_dims, {rank})
            .integers(attribute::convolution_pre_paddings, pads)
            .integers(attribute::convolution_post_paddings, pads);
        integers(attribute::convolution_dilations, std::move(dilations)).integers(attribute::convolution_strides, std::move(strides));
        enumerator(attribute::convolution_mode, type::convolution_mode, cudnn::convolution::cross_correlation);
        enumerator(attribute::convolution_compute_type, type::data_type, cudnn::data::float32);
        finish();
    }
};
struct raw_forward : raw_descriptor {
    raw_forward(const api::cudnn_functions& functions, const raw_descriptor& x, const raw_descriptor& w, const raw_descriptor& y, const raw_descriptor& c)
        : raw_descriptor(functions, cudnn::convolution_forward_descriptor) {
        const float alpha = 1, beta = 0;
        descriptor(attribute::convolution_forward_x, x).descriptor(attribute::convolution_forward_w, w).descriptor(attribute::convolution_forward_y, y);
        descriptor(attribute::convolution_forward_convolution, c);
        set(attribute::convolution_forward_alpha, type::float32, 1, &alpha).set(attribute::convolution_forward_beta, type::float32, 1, &beta);
        finish();
    }
};

int forward(const api::cudnn_functions& f, const raw_tensor& x, const raw_tensor& w, const raw_tensor& y) {
    const raw_convolution c(f, {1, 1}, {1, 1}, {1, 1});
    return raw_forward(f, x, w, y, c).first;
}
int graph(const api::cudnn_functions& f, std::vector<void*> operations) {
    raw_descriptor g(f, cudnn::operation_graph_descriptor);
    return g.set(attribute::operation_graph_operations, type::descriptor, static_cast<std::int64_t>(operations.size()), operations.data()).finish();
}

std::vector<misuse> misuses() {
    using F = const api::cudnn_functions&;
    return {
        {"a tensor as it should be", [](F f) { return raw_tensor(f, 1, 2, 8, 4, 4).first; }},
        {"an alignment that is no multiple of the elements",
         [](F f) {
             return raw_tensor(f, 1, {2, 8}, {8, 1}, 3).first;
         }},
        {"an alignment of 0",
         [](F f) {
             return raw_tensor(f, 1, {2, 8}, {8, 1}, 0).first;
         }},
        {"a negative extent",
         [](F f) {
             return raw_tensor(f, 1, {2, -8}, {8, 1}).first;
         }},
        {"a negative stride",
         [](F f) {
             return raw_tensor(f, 1, {2, 8}, {8, -1}).first;
         }},
        {"too few strides",
         [](F f) {
             return raw_tensor(f, 1, {2, 8}, {8}).first;
         }},
        {"no extents", [](F f) { return raw_tensor(f, 1, {}, {}).first; }},
        {"an attribute of another type",
         [](F f) { return raw_descriptor(f, cudnn::tensor_descriptor).enumerator(attribute::tensor_unique_id, type::data_type, 1).first; }},
        {"an attribute of another descriptor",
         [](F f) {
             return raw_descriptor(f, cudnn::tensor_descriptor).integers(attribute::convolution_strides, {1, 1}).first;
         }},
        {"an attribute that nobody has", [](F f) { return raw_descriptor(f, cudnn::tensor_descriptor).integers(99999, {1}).first; }},
        {"two ids",
         [](F f) {
             return raw_descriptor(f, cudnn::tensor_descriptor).integers(attribute::tensor_unique_id, {1, 2}).first;
         }},
        {"an attribute from nowhere",
         [](F f) { return raw_descriptor(f, cudnn::tensor_descriptor).set(attribute::tensor_dimensions, type::int64, 4, nullptr).first; }},
        {"an attribute behind completion", [](F f) { return raw_tensor(f, 1, 2, 8, 4, 4).integers(attribute::tensor_unique_id, {2}).first; }},
        {"completing twice", [](F f) { return raw_tensor(f, 1, 2, 8, 4, 4).finish(); }},
        {"a descriptor that is none", [](F f) { return f.cudnnBackendDestroyDescriptor(nullptr); }},
        {"a convolution as it should be",
         [](F f) {
             return raw_convolution(f, {1, 1}, {1, 1}, {1, 1}).first;
         }},
        {"a stride of 0",
         [](F f) {
             return raw_convolution(f, {1, 1}, {0, 1}, {1, 1}).first;
         }},
        {"a dilation of 0",
         [](F f) {
             return raw_convolution(f, {1, 1}, {1, 1}, {0, 1}).first;
         }},
        {"a negative padding",
         [](F f) {
             return raw_convolution(f, {-1, 1}, {1, 1}, {1, 1}).first;
         }},
        {"three pads for two axes",
         [](F f) {
             return raw_convolution(f, {1, 1, 1}, {1, 1}, {1, 1}).first;
         }},
        {"three strides for two axes",
         [](F f) {
             return raw_convolution(f, {1, 1}, {1, 1, 1}, {1, 1}).first;
         }},
        {"a forward convolution as it should be",
         [](F f) {
             return forward(f, {f, 1, 2, 8, 4, 4}, {f, 2, 6, 8, 3, 3}, {f, 3, 2, 6, 4, 4});
         }},
        {"groups",
         [](F f) {
             return forward(f, {f, 1, 2, 8, 4, 4}, {f, 2, 8, 2, 3, 3}, {f, 3, 2, 8, 4, 4});
         }},
        {"an output of another height",
         [](F f) {
             return forward(f, {f, 1, 2, 8, 4, 4}, {f, 2, 6, 8, 3, 3}, {f, 3, 2, 6, 5, 4});
         }},
        {"an output of another batch",
         [](F f) {
             return forward(f, {f, 1, 2, 8, 4, 4}, {f, 2, 6, 8, 3, 3}, {f, 3, 1, 6, 4, 4});
         }},
        {"an output of other channels",
         [](F f) {
             return forward(f, {f, 1, 2, 8, 4, 4}, {f, 2, 6, 8, 3, 3}, {f, 3, 2, 5, 4, 4});
         }},
        {"channels that make no groups",
         [](F f) {
             return forward(f, {f, 1, 2, 8, 4, 4}, {f, 2, 6, 3, 3, 3}, {f, 3, 2, 6, 4, 4});
         }},
        {"filters that make no groups",
         [](F f) {
             return forward(f, {f, 1, 2, 8, 4, 4}, {f, 2, 6, 2, 3, 3}, {f, 3, 2, 6, 4, 4});
         }},
        {"an operation without its tensors", [](F f) { return raw_descriptor(f, cudnn::convolution_forward_descriptor).finish(); }},
        {"a graph of nothing", [](F f) { return raw_descriptor(f, cudnn::operation_graph_descriptor).finish(); }},
        {"a graph as it should be",
         [](F f) {
             const raw_tensor x(f, 1, 2, 8, 4, 4), w(f, 2, 6, 8, 3, 3), y(f, 3, 2, 6, 4, 4);
             const raw_convolution c(f, {1, 1}, {1, 1}, {1, 1});
             const raw_forward o(f, x, w, y, c);
             return o.first ? o.first : graph(f, {o.raw});
         }},
        {"two operations that write one tensor",
         [](F f) {
             const raw_tensor x(f, 1, 2, 8, 4, 4), w(f, 2, 6, 8, 3, 3), y(f, 3, 2, 6, 4, 4);
             const raw_convolution c(f, {1, 1}, {1, 1}, {1, 1});
             const raw_forward o(f, x, w, y, c), again(f, x, w, y, c);
             return graph(f, {o.raw, again.raw});
         }},
        {"an operation that is not complete",
         [](F f) {
             const raw_descriptor o(f, cudnn::convolution_forward_descriptor);
             return graph(f, {o.raw});
         }},
        {"a pack with fewer ids than pointers",
         [](F f) {
             const void* two[] = {f.cudnnGetVersion ? &f : nullptr, &f};
             return raw_descriptor(f, cudnn::variant_pack_descriptor)
                 .set(attribute::variant_pack_data_pointers, type::void_pointer, 2, two)
                 .set(attribute::variant_pack_workspace, type::void_pointer, 1, two)
                 .integers(attribute::variant_pack_unique_ids, {1})
                 .finish();
         }},
    };
}

// What of a list a library refuses.
std::map<std::string, bool> refusals(const api::cudnn_functions& f) {
    std::map<std::string, bool> refused;
    for (const misuse& m : misuses()) refused[m.what] = m.use(f) != 0;
    return refused;
}

}  // namespace

TEST_CASE("the convolutions of the test problems have engines in NVIDIA's cuDNN" * doctest::skip(true)) {
    described_device on;
    if (!on.with.cudnn) return;
    int made = 0, split = 0;
    for (const graft::gpu::library_row& row : graft::gpu::conv_rows()) {
        const std::string op = row.op, domain = row.domain;
        if (op == "Conv" && domain == "graft") continue;
        for (const std::string& text : problems::split(op_row_of(op, domain)->problems, ';'))
            for (const dtype t : {dtype::float32, dtype::float16, dtype::bfloat16}) {
                const problem p = library_problem::of(*op_row_of(op, domain), text, t, graft::layout::channels_last);
                const asked a(p, on.traits, {});
                if (row.refuse(a.query) || graft::gpu::find_uneven_pads(a.query).rank) continue;
                auto kernel = row.make(a.query, on.with);
                const std::string error = kernel.ok() ? "" : kernel.error().what(), name = graft::name(t);
                INFO(op, " ", text, " ", name, ": ", error);
                // A bias behind a gradient is compiled when it is asked for, which takes a driver.
                const bool needs_driver = op == "ConvTranspose" && p.inputs.size() > 2;
                CHECK((kernel.ok() || needs_driver));
                if (!kernel.ok()) CHECK(kernel.error().code() == graft::errc::op_unsupported);
                made += kernel.ok();
                split += !kernel.ok();
            }
    }
    CHECK(made >= 58);
    CHECK(split <= 3);
}

TEST_CASE("bias and residual and ReLU are one graph in NVIDIA's cuDNN and its engine is found again" * doctest::skip(true)) {
    described_device on;
    if (!on.with.cudnn) return;
    std::map<std::string, std::string> kept;
    on.with.choices.context = &kept;
    on.with.choices.recall = [](void* self, const std::string& key) { return (*static_cast<std::map<std::string, std::string>*>(self))[key]; };
    on.with.choices.remember = [](void* self, const std::string& key, const std::string& choice) {
        (*static_cast<std::map<std::string, std::string>*>(self))[key] = choice;
    };
    std::vector<std::string> notes;
    for (const dtype t : {dtype::float32, dtype::float16, dtype::bfloat16})
        for (const bool tf32 : {true, false}) {
            problem p = library_problem::of(*op_row_of("Conv", ""), "f32[1,64,6,6] f32[64,64,3,3] f32[64] pads=1,1,1,1", t, graft::layout::channels_last);
            p.n.domain = "graft";
            p.inputs.push_back(library_problem::numbers(t, {1, 64, 6, 6}, 9));
            p.n.inputs.push_back(9);
            p.n.attributes.push_back(graft::integer_attribute("activation", static_cast<std::int64_t>(graft::activation::relu)));
            p.n.attributes.push_back(graft::integer_attribute("residual", 1));
            graft::gpu::kernel_options options;
            options.tf32 = tf32;
            const asked a(p, on.traits, options);
            const auto rows = graft::gpu::conv_rows();
            auto first = rows.rows[1].make(a.query, on.with), again = rows.rows[1].make(a.query, on.with);
            const std::string error = first.ok() ? "" : first.error().what();
            REQUIRE_MESSAGE(first.ok(), error);
            REQUIRE(again.ok());
            CHECK(first.value()->note == again.value()->note);
            CHECK(first.value()->workspace_bytes == again.value()->workspace_bytes);
            notes.push_back(first.value()->note);
        }
    CHECK(notes[0] != notes[1]);  // float32 with TF32, and without
    CHECK(notes[2] == notes[3]);
    CHECK(kept.size() == 4);
}

TEST_CASE("the attention of vision transformers has fused engines in NVIDIA's cuDNN" * doctest::skip(true)) {
    if (!load_described_driver()) return;
    described_device on;
    if (!on.with.cudnn) return;
    const int major = std::atoi(std::getenv("GRAFT_DESCRIBED_DEVICE")) / 100;
    on.traits.major = major;
    const graft::gpu::library_row& row = graft::gpu::attention_rows().rows[0];
    std::map<std::string, std::string> kept;
    on.with.choices.context = &kept;
    on.with.choices.recall = [](void* self, const std::string& key) { return (*static_cast<std::map<std::string, std::string>*>(self))[key]; };
    on.with.choices.remember = [](void* self, const std::string& key, const std::string& choice) {
        (*static_cast<std::map<std::string, std::string>*>(self))[key] += choice;
    };
    const auto expect = [&](attention_question a) {
        const graft::gpu::kernel_query q = a.query(on.traits);
        const char* refused = row.refuse(q);
        REQUIRE_MESSAGE(!refused, refused);
        auto kernel = row.make(q, on.with);
        const std::string error = kernel.ok() ? "" : kernel.error().what(), shape = graft::text(a.in[0].extents), type = graft::name(a.in[0].type);
        INFO(type, " ", shape, ": ", error);
        REQUIRE(kernel.ok());
        CHECK(kernel.value()->workspace_bytes <= 256);
    };
    for (const dtype t : {dtype::float16, dtype::bfloat16}) {
        // ViT-Ti, packed and as one projection gives them; masks; heads that share keys; ViT-S/14 at 518 pixels; windows of Swin.
        for (const std::int64_t batch : {1, 8, 64, 256}) expect({t, batch, 3, 3, 197, 197, 64, batch > 8, {}});
        expect({t, 8, 3, 3, 197, 197, 64, true, {1, 3, 197, 200}});
        expect({t, 8, 3, 3, 197, 197, 64, false, {8, 1, 197, 200}});
        expect({t, 8, 6, 2, 197, 77, 64, false, {}});
        expect({t, 2, 6, 6, 1370, 1370, 64, true, {}});
        expect({t, 512, 3, 3, 49, 49, 32, true, {1, 3, 49, 56}});
        for (const std::int64_t size : {8, 72, 128}) expect({t, 8, 3, 3, 196, 196, size, true, {}});
        expect({t, 8, 3, 3, 1, 197, 64, false, {}});
    }
    // The text of a plan, with the kernel that was compiled, makes the plan again: nothing is chosen anew.
    const std::map<std::string, std::string> before = kept;
    expect({dtype::float16, 8, 3, 3, 197, 197, 64, false, {}});
    CHECK(kept == before);
    for (const auto& plan : kept) CHECK(plan.second.compare(0, 5, "plan ") == 0);
}

TEST_CASE("attention that NVIDIA's cuDNN has no engine for has none in the simulator" * doctest::skip(true)) {
    if (!load_described_driver()) return;
    const struct {
        std::int64_t key_heads, size;
        bool statistic;
        int sign;
    } cases[] = {{4, 64, true, 1}, {2, 64, true, 1}, {1, 64, true, 1}, {3, 64, true, -1}, {4, 12, true, 0}, {4, 64, false, 0}};
    const bool old = std::string(std::getenv("GRAFT_DESCRIBED_DEVICE")) == "750";
    const auto check = [&](const described_device& on) {
        if (!on.with.cudnn) return;
        for (const auto& c : cases) {
            const int n = proposed_for_attention(on.with, c.key_heads, c.size, c.statistic);
            CAPTURE(c.key_heads);
            CAPTURE(c.size);
            CAPTURE(c.statistic);
            CHECK((n > 0 ? 1 : n) == (old ? std::min(c.sign, 0) : c.sign));
        }
    };
    check(described_device());
#ifdef GRAFT_CUDA_SIMULATOR
    check(described_device(GRAFT_CUDA_SIMULATOR "/libcudnn.so.9"));
#endif
}

TEST_CASE("what NVIDIA's cuDNN refuses is refused by the simulator too" * doctest::skip(true)) {
    described_device real;
    if (!real.with.cudnn) return;
    const std::map<std::string, bool> by_vendor = refusals(real.functions);
    int wrong = 0;
    for (const auto& r : by_vendor) {
        const bool should_be = r.first.find("as it should be") != std::string::npos || r.first == "groups";
        CHECK_MESSAGE(r.second != should_be, r.first);
        wrong += r.second;
    }
    CHECK(wrong >= 26);
#ifdef GRAFT_CUDA_SIMULATOR
    described_device simulated(GRAFT_CUDA_SIMULATOR "/libcudnn.so.9");
    REQUIRE(simulated.with.cudnn);
    CHECK(refusals(simulated.functions) == by_vendor);
#endif
}

TEST_CASE("NVIDIA's cuBLASLt takes the descriptions of products" * doctest::skip(true)) {
    void* from = vendor_library("libcublasLt.so.13");
    if (!from) return;
    api::cublaslt_functions f;
#define GRAFT_BIND(result, name, parameters) f.name = reinterpret_cast<decltype(f.name)>(dlsym(from, #name));
    GRAFT_CUBLASLT_FUNCTIONS(GRAFT_BIND)
#undef GRAFT_BIND
    namespace lt = api::cublaslt;
    const int types[][3] = {{lt::data::float32, lt::compute::float32_fast_tf32, lt::data::float32},
                            {lt::data::float32, lt::compute::float32, lt::data::float32},
                            {lt::data::float16, lt::compute::float32, lt::data::float32},
                            {lt::data::bfloat16, lt::compute::float32, lt::data::float32},
                            {lt::data::float64, lt::compute::float64, lt::data::float64}};
    for (const auto& t : types) {
        graft::gpu::cublaslt_object layout, operation, wishes;
        REQUIRE(layout.create_layout(f, t[0], 12, 5, 12).ok());
        CHECK(layout.set(lt::layout::batch_count, std::int32_t(3)).ok());
        CHECK(layout.set(lt::layout::batch_stride, std::int64_t(60)).ok());
        CHECK(layout.set(lt::layout::batch_stride, std::int64_t(0)).ok());
        CHECK(!layout.set(lt::layout::batch_count, std::int64_t(3)).ok());  // another size
        REQUIRE(operation.create_operation(f, t[1], t[2]).ok());
        for (const std::int32_t way : {lt::operation::none, lt::operation::transpose}) {
            CHECK(operation.set(lt::matmul::transpose_a, way).ok());
            CHECK(operation.set(lt::matmul::transpose_b, way).ok());
        }
        for (const int epilogue :
             {lt::epilogue::none, lt::epilogue::bias, lt::epilogue::relu, lt::epilogue::relu_bias, lt::epilogue::gelu, lt::epilogue::gelu_bias})
            CHECK(operation.set(lt::matmul::epilogue, static_cast<std::uint32_t>(epilogue)).ok());
        CHECK(operation.set(lt::matmul::bias_type, static_cast<std::int32_t>(t[0])).ok());
        CHECK(operation.set(lt::matmul::bias_pointer, static_cast<const void*>(&f)).ok());
        CHECK(!operation.set(lt::matmul::epilogue, std::uint8_t(1)).ok());
        REQUIRE(wishes.create_preference(f).ok());
        CHECK(wishes.set(lt::preference::max_workspace_bytes, std::uint64_t(1 << 20)).ok());
        for (const int which :
             {lt::preference::min_alignment_a, lt::preference::min_alignment_b, lt::preference::min_alignment_c, lt::preference::min_alignment_d})
            CHECK(wishes.set(which, std::uint32_t(16)).ok());
    }
}

TEST_CASE("what graft builds with cuDNN and cuBLASLt is held against NVIDIA's own libraries") {
    for (const char* capability : {"800", "900", "1000"}) run_alone("the convolutions of the test problems have engines in NVIDIA*s cuDNN", capability);
    for (const char* capability : {"800", "900", "1000"}) run_alone("the attention of vision transformers has fused engines in NVIDIA*s cuDNN", capability);
    for (const char* capability : {"750", "800", "900"}) run_alone("attention that NVIDIA*s cuDNN has no engine for has none in the simulator", capability);
    run_alone("bias and residual and ReLU are one graph in NVIDIA*s cuDNN and its engine is found again");
    run_alone("what NVIDIA*s cuDNN refuses is refused by the simulator too");
    run_alone("NVIDIA*s cuBLASLt takes the descriptions of products");
}
#endif
