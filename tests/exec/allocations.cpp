// No allocation in a run whose shape is planned: every way into the heap is counted.
#include "nets.hpp"

#include <graft/core/directory.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <new>

#if defined(__GLIBC__)
#include <malloc.h>
#include <unistd.h>
#endif

#include "../sanitized.hpp"
#include "../skipped.hpp"

// Sanitizers bring allocators of their own; what they check is not what is counted here.
#ifndef GRAFT_TEST_SANITIZED

namespace {
std::atomic<long> allocations{0};
std::atomic<bool> counting{false};
void count() noexcept {
    if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
}
#if defined(__GLIBC__)
std::atomic<std::int64_t> held{0}, most_held{0};
// Of memory aligned to whole huge pages malloc reserves more than it is asked for, which nobody touches: what was asked for counts.
std::atomic<void*> aligned[64];
std::int64_t asked[64];
// Every allocation of the whole program comes by: only what may be in the list is looked for there.
bool may_be_listed(void* memory) noexcept { return reinterpret_cast<std::uintptr_t>(memory) % 4096 == 0; }
std::int64_t bytes_of(void* memory) noexcept {
    if (may_be_listed(memory))
        for (int i = 0; i < 64; ++i)
            if (aligned[i] == memory) return asked[i];
    return static_cast<std::int64_t>(malloc_usable_size(memory));
}
void* took(void* memory, std::size_t alignment = 0, std::size_t bytes = 0) noexcept {
    if (!memory) return memory;
    for (int i = 0; i < 64 && alignment > 4096; ++i) {
        void* free_place = nullptr;
        if (!aligned[i].compare_exchange_strong(free_place, memory)) continue;
        asked[i] = static_cast<std::int64_t>(bytes);
        break;
    }
    const std::int64_t now = held += bytes_of(memory);
    for (std::int64_t seen = most_held; now > seen && !most_held.compare_exchange_weak(seen, now);) {
    }
    return memory;
}
void gave(void* memory) noexcept {
    if (!memory) return;
    held -= bytes_of(memory);
    if (!may_be_listed(memory)) return;
    for (std::atomic<void*>& place : aligned)
        if (place == memory) place = nullptr;
}
#endif
}  // namespace

#if defined(__GLIBC__)
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);
void* malloc(std::size_t bytes) noexcept { return count(), took(__libc_malloc(bytes)); }
void* calloc(std::size_t n, std::size_t bytes) noexcept { return count(), took(__libc_calloc(n, bytes)); }
void* realloc(void* old, std::size_t bytes) noexcept { return count(), gave(old), took(__libc_realloc(old, bytes)); }
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept { return count(), took(__libc_memalign(alignment, bytes), alignment, bytes); }
void* memalign(std::size_t alignment, std::size_t bytes) noexcept { return count(), took(__libc_memalign(alignment, bytes), alignment, bytes); }
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) noexcept {
    count();
    *out = took(__libc_memalign(alignment, bytes), alignment, bytes);
    return *out ? 0 : 12;
}
void free(void* memory) noexcept { gave(memory), __libc_free(memory); }
}
#endif

namespace {

// Allocations of `runs` runs behind two that plan and warm up.
long allocations_of(const graft::model& m, const std::vector<graft::tensor>& inputs, int threads, int runs) {
    graft::session s(m, {threads, nullptr});
    const auto once = [&] {
        bool ok = true;
        for (std::size_t i = 0; i < inputs.size(); ++i) ok &= s.set_input(i, inputs[i]).ok();
        return ok && s.run().ok();
    };
    REQUIRE(once());
    REQUIRE(once());
    allocations = 0;
    counting = true;
    bool ok = true;
    for (int i = 0; i < runs; ++i) ok &= once();
    counting = false;
    CHECK(ok);
    return allocations;
}

}  // namespace

TEST_CASE("the counter sees what allocates") {
    allocations = 0;
    counting = true;
    graft::tensor t = graft::tensor::make(graft::dtype::float32, {1000});
    std::vector<int> v(100, 1);
    counting = false;
    CHECK(allocations >= 2);
    CHECK(v[50] + static_cast<int>(t.bytes()) == 4001);
}

TEST_CASE("a planned shape of the demo's model and of built networks runs without an allocation") {
    graft::model demo = graft::load(nets::demo_model());
    for (const int threads : {1, 2, 4}) CHECK(allocations_of(demo, nets::inputs_of(demo, 1), threads, 20) == 0);
    nets::numbers random{2};
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
        graft::model m = graft::load(nets::residual_net(seed));
        CHECK(allocations_of(m, {nets::random_tensor({2, 3, 24, 17}, random)}, 2, 20) == 0);
    }
}

TEST_CASE("shapes that come in turn run without an allocation once each was seen") {
    graft::model m = graft::load(nets::residual_net(1));
    nets::numbers random{7};
    std::vector<graft::tensor> pictures;
    for (const graft::shape& s : {graft::shape{2, 3, 24, 17}, graft::shape{1, 3, 8, 8}, graft::shape{3, 3, 16, 9}})
        pictures.push_back(nets::random_tensor(s, random));
    graft::session session(m, {2, nullptr});
    const auto round = [&] {
        bool ok = true;
        for (const graft::tensor& p : pictures) ok &= session.set_input(0, p).ok() && session.run().ok();
        return ok;
    };
    for (int i = 0; i < 3; ++i) REQUIRE(round());
    allocations = 0;
    counting = true;
    bool ok = true;
    for (int i = 0; i < 5; ++i) ok &= round();
    counting = false;
    CHECK(ok);
    CHECK(allocations == 0);
}

TEST_CASE("reference kernels of common operators run without an allocation too") {
    graft::load_options options;
    options.reference = true;
    graft::model m = graft::load(nets::residual_net(3), options);
    nets::numbers random{3};
    CHECK(allocations_of(m, {nets::random_tensor({1, 3, 8, 8}, random)}, 1, 3) == 0);
}

TEST_CASE("a batch whose samples go alone runs without an allocation") {
    graft::model m = graft::load(nets::sampled_net(5));
    nets::numbers random{5};
    for (const int threads : {1, 2, 4}) CHECK(allocations_of(m, {nets::random_tensor({5, 16, 32, 32}, random)}, threads, 5) == 0);
}

TEST_CASE("a transformer block runs without an allocation") {
    graft::builder b("block", 4);
    nets::numbers random{4};
    const auto x = b.input("x", graft::dtype::float32, {1, 7, 24});
    const auto weight = [&](const char* name, std::int64_t from, std::int64_t to) {
        return b.constant(name, nets::random_tensor({from, to}, random, -0.3, 0.3));
    };
    const auto heads = [&](graft::value_id v, std::vector<std::int64_t> perm) {
        const auto split = b.apply("Reshape", {v, b.constant("", nets::integers({1, 7, 3, 8}))});
        return b.apply("Transpose", {split}, {graft::integers_attribute("perm", std::move(perm))});
    };
    const auto norm =
        b.apply("LayerNormalization", {x, b.constant("s", nets::random_tensor({24}, random)), b.constant("t", nets::random_tensor({24}, random))});
    const auto q = heads(b.apply("MatMul", {norm, weight("q", 24, 24)}), {0, 2, 1, 3}), k = heads(b.apply("MatMul", {norm, weight("k", 24, 24)}), {0, 2, 3, 1}),
               v = heads(b.apply("MatMul", {norm, weight("v", 24, 24)}), {0, 2, 1, 3});
    const auto attention = b.apply("Softmax", {b.apply("MatMul", {q, k})});
    const auto joined = b.apply("Reshape", {b.apply("Transpose", {b.apply("MatMul", {attention, v})}, {graft::integers_attribute("perm", {0, 2, 1, 3})}),
                                            b.constant("", nets::integers({1, 7, 24}))});
    b.output(b.apply("Add", {x, b.apply("MatMul", {joined, weight("o", 24, 24)})}), "y");
    auto built = b.finish();
    REQUIRE(built.ok());
    auto m = graft::load(std::move(built).value());
    REQUIRE(m.ok());
    CHECK(allocations_of(*m, {nets::random_tensor({1, 7, 24}, random)}, 2, 20) == 0);
}

#if defined(__GLIBC__)
namespace {

// Bytes that a session and two runs of it hold at most, beyond what model::memory says; a session's own lists are a few kilobytes.
std::int64_t over_what_is_said(const graft::model& m) {
    const std::vector<graft::tensor> inputs = nets::inputs_of(m, 3, 32, 2);
    std::vector<graft::value_info> shapes = m.inputs();
    for (std::size_t i = 0; i < shapes.size(); ++i)
        if (inputs[i]) shapes[i].extents = inputs[i].shape();
    auto said = m.memory(shapes);
    REQUIRE(said.ok());
    const std::int64_t before = held;
    most_held = before;
    {
        graft::session session(m, {2, nullptr});
        for (int i = 0; i < 2; ++i) CHECK(nets::run(session, m, inputs).error.empty());
    }
    // An arena of eight megabytes or more is rounded up to whole huge pages.
    const std::int64_t rounded = said->arena < std::int64_t(8) << 20 ? 0 : std::int64_t(2) << 20;
    return most_held - before - said->arena - rounded - said->scratch - said->outputs;
}

}  // namespace

TEST_CASE("a session holds no more than model::memory says") {
    graft::load_options reference;
    reference.reference = true;
    CHECK(over_what_is_said(graft::load(nets::demo_model())) < 100000);
    CHECK(over_what_is_said(graft::load(nets::residual_net(2))) < 100000);
    CHECK(over_what_is_said(graft::load(nets::residual_net(2), reference)) < 100000);
    const std::string shared = nets::shared();
    if (shared.empty()) return say_skipped("the models of GRAFT_SHARED are not here");
    const std::vector<graft::folder_entry> files = graft::list_folder(shared + "/pack/models", graft::errc::file_open);
    for (const graft::folder_entry& file : files) {
        if (file.name.size() < 5 || file.name.compare(file.name.size() - 5, 5, ".onnx") != 0) continue;
        INFO(file.name);
        CHECK(over_what_is_said(graft::load(shared + "/pack/models/" + file.name)) < 100000);
    }
}

TEST_CASE("a long chain of nodes that a run shapes takes little beyond the limit of memory") {
    graft::builder b("chain");
    auto x = b.input("x", graft::dtype::float32, {4, 4});
    for (int i = 0; i < 3000; ++i) x = b.apply("Cast", {b.apply("NonZero", {x})}, {graft::integer_attribute("to", 1)});
    b.output(x, "y");
    auto built = b.finish();
    REQUIRE(built.ok());
    graft::load_options options;
    options.limits.memory_bytes = std::int64_t(16) << 20;
    auto m = graft::load(std::move(built).value(), options);
    REQUIRE(m.ok());
    const float ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const graft::tensor input = graft::tensor::from(ones, {4, 4});
    const std::int64_t before = held;
    most_held = before;
    graft::session session(*m, {1, nullptr});
    auto out = session.run(input);
    REQUIRE(!out.ok());
    CHECK(out.error().code() == graft::errc::memory_budget);  // each link is larger than the one before
    CHECK(most_held - before < options.limits.memory_bytes + (std::int64_t(32) << 20));
}

namespace {

// Two convolutions and two matrix products, of which one is most of the network: 27 MB in all.
graft::graph heavy_net(std::int64_t samples) {
    nets::numbers random{3};
    graft::builder b("heavy");
    auto x = b.input("x", graft::dtype::float32, {samples, 64, 4, 4});
    const auto weight = [&](const graft::shape& s) { return b.constant("", nets::random_tensor(s, random, -0.1, 0.1)); };
    x = b.apply("Relu", {b.apply("Conv", {x, weight({256, 64, 3, 3}), weight({256})}, {graft::integers_attribute("pads", {1, 1, 1, 1})})});
    x = b.apply("Conv", {x, weight({256, 256, 3, 3})}, {graft::integers_attribute("pads", {1, 1, 1, 1})});
    x = b.apply("Gemm", {b.apply("Flatten", {x}), weight({1001, 4096}), weight({1001})}, {graft::integer_attribute("transB", 1)});
    b.output(b.apply("MatMul", {x, weight({1001, 2000})}), "y");
    return b.finish().value();
}

}  // namespace

TEST_CASE("loading a file holds its weights once, as the kernels want them") {
    char name[] = "/tmp/graft_heavy_XXXXXX";
    const std::string folder = ::mkdtemp(name), path = folder + "/m.onnx";
    int same = 0;
    // The samples of a batch go alone, by plans of two networks.
    for (const std::int64_t samples : {1, 4}) {
        const graft::graph net = heavy_net(samples);
        std::int64_t weights = 0;
        for (const graft::value& v : net.values) weights += static_cast<std::int64_t>(v.constant.bytes());
        nets::numbers random{3};
        const std::vector<graft::tensor> inputs = {nets::random_tensor({samples, 64, 4, 4}, random)};
        const nets::answer wanted = nets::run(graft::load(net), inputs);
        // A name of another length moves all of them to other addresses.
        for (const char* moved : {"", "a", "ab", "abc"}) {
            INFO(std::string(moved));
            graft::graph g = net;
            g.producer_name = moved;
            REQUIRE(graft::write_onnx_file(g, path).ok());
            const std::int64_t before = held;
            most_held = before;
            auto m = graft::load(path);
            REQUIRE(m.ok());
            CHECK(most_held - before < weights + weights / 4 + (std::int64_t(4) << 20));
            CHECK(nets::same_bits(nets::run(*m, inputs), wanted));
            // Who asks for the graph gets its numbers.
            for (const graft::value& read : m->graph().values)
                for (const graft::value& written : net.values)
                    if (read.constant && written.constant) same += nets::same_bits(read.constant, written.constant);
        }
    }
    CHECK(same == 2 * 4 * 6);
    ::unlink(path.c_str());
    ::rmdir(folder.c_str());
}
#endif

TEST_CASE("the pack's networks run without an allocation") {
    const std::string shared = nets::shared();
    if (shared.empty()) {
        say_skipped("the models of GRAFT_SHARED are not here");
        return;
    }
    for (const char* name : {"mnist-8", "mobilenetv1_025_128_fp32_op10", "mobilenetv1_025_128_qdq_op13", "mlperftiny_resnet8_int8_op13",
                             "winml_squeezenet_fp16", "resnet20_cifar10_fp32_bn_unfused_op15"}) {
        INFO(std::string(name));
        auto m = graft::load(shared + "/pack/models/" + name + ".onnx");
        REQUIRE(m.ok());
        CHECK(allocations_of(*m, nets::inputs_of(*m, 5), 2, 3) == 0);
    }
}

#endif
