// Packed weights in a file: the same bits as without, found by the next process, never those of other weights.
#include "../data/made_dataset.hpp"
#include "../emulated_products.hpp"
#include "../file_contents.hpp"
#include "nets.hpp"

#include <doctest/doctest.h>

#include <graft/core/xxhash.hpp>
#include <graft/cpu/dispatch.hpp>
#include <graft/lower/packed_file.hpp>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#if !defined(_WIN32)
#include <sys/stat.h>

namespace {

std::string told;
void tell(const char* text) { told += std::string(text) + "\n"; }

struct packed_file {
    made_folder folder;
    std::string path = folder.path + "/net.packed";
    packed_file() { told.clear(); }
    ~packed_file() {
        for (const auto& left : std::filesystem::directory_iterator(folder.path)) CHECK_MESSAGE(left.path() == path, "a temporary file was left behind");
    }
    void write(const std::string& bytes) const { REQUIRE(folder.put("net.packed", bytes) == path); }
};

// Counts what a file gives and takes.
struct counting {
    explicit counting(const std::shared_ptr<const graft::packed_store>& of) : store(std::make_shared<graft::packed_store>(*of)) {
        store->find = [this, of](std::uint64_t constant, std::uint64_t form, std::size_t bytes, graft::executor& pool) {
            graft::buffer got = of->find(constant, form, bytes, pool);
            found += static_cast<bool>(got);
            if (got) CHECK(reinterpret_cast<std::uintptr_t>(got.data()) % graft::buffer::alignment == 0);
            return got;
        };
        store->add = [this, of](std::uint64_t constant, std::uint64_t form, const graft::buffer& packed) {
            ++added;
            contents[form] ^= graft::xxh64(packed.data(), packed.bytes(), constant);
            of->add(constant, form, packed);
        };
    }
    std::shared_ptr<graft::packed_store> store;
    int found = 0, added = 0;
    std::map<std::uint64_t, std::uint64_t> contents;  // by form
};

using graft::builder;
using graft::shape;
using graft::value_id;

// Convolutions by several algorithms, one behind a normalisation that its weights take in, and matrix products of both orders.
graft::graph net(std::uint64_t seed, std::int64_t pixels = 16) {
    nets::numbers random{seed};
    builder b("net", 17);
    int names = 0;
    const auto weights = [&](const shape& s, double low = -0.2, double high = 0.2) {
        return b.constant("w" + std::to_string(++names), nets::random_tensor(s, random, low, high));
    };
    const auto conv = [&](value_id x, const shape& w, std::int64_t step, std::int64_t groups) {
        const std::int64_t pad = w[2] / 2;
        return b.apply("Conv", {x, weights(w)},
                       {graft::integers_attribute("pads", {pad, pad, pad, pad}), graft::integers_attribute("strides", {step, step}),
                        graft::integer_attribute("group", groups)});
    };
    value_id x = b.input("x", graft::dtype::float32, {1, 3, pixels, pixels});
    x = conv(x, {32, 3, 3, 3}, 1, 1);
    x = b.apply("BatchNormalization", {x, weights({32}, 0.5, 2), weights({32}), weights({32}), weights({32}, 0.5, 2)});
    x = b.apply("Relu", {x});
    x = conv(x, {64, 32, 3, 3}, 1, 1);
    x = conv(x, {64, 1, 3, 3}, 1, 64);
    x = conv(x, {48, 64, 1, 1}, 1, 1);
    x = conv(x, {48, 48, 3, 3}, 2, 1);
    x = b.apply("GlobalAveragePool", {x});
    x = b.apply("Flatten", {x});
    const value_id square = weights({48, 48});
    x = b.apply("Gemm", {x, square}, {graft::integer_attribute("transB", 1)});
    x = b.apply("Gemm", {x, square});
    b.output(b.apply("MatMul", {x, weights({48, 10})}), "y");
    return b.finish().value();
}

struct outcome {
    graft::tensor y;
    int found = 0, added = 0;
};
outcome run(const graft::graph& g, const std::shared_ptr<const graft::packed_store>& store, const graft::load_options& with = {}) {
    const auto counts = store ? std::make_unique<counting>(store) : nullptr;
    graft::load_options options = with;
    if (!options.opened) options.device = "cpu";
    if (counts) options.packed = counts->store;
    const graft::model m = graft::load(g, options).value();
    const nets::answer a = nets::run(m, nets::inputs_of(m, 7));
    REQUIRE_MESSAGE(a.error.empty(), a.error);
    return {a.outputs[0], counts ? counts->found : 0, counts ? counts->added : 0};
}
std::shared_ptr<const graft::packed_store> open(const packed_file& file) { return graft::open_packed_weights(file.path, tell).value(); }
bool same(const graft::tensor& a, const graft::tensor& b) { return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0; }
ino_t inode(const std::string& path) {
    struct stat about {};
    REQUIRE(::stat(path.c_str(), &about) == 0);
    return about.st_ino;
}

}  // namespace

TEST_CASE("Packed weights are found by the next process, and give the same bits") {
    const packed_file file;
    const graft::graph g = net(1);
    const graft::tensor expected = run(g, nullptr).y;
    const outcome first = run(g, open(file));
    CHECK(first.found == 0);
    CHECK(first.added >= 6);
    CHECK(same(first.y, expected));
    const ino_t written = inode(file.path);
    const outcome second = run(g, open(file));
    CHECK(second.found == first.added);
    CHECK(second.added == 0);
    CHECK(same(second.y, expected));
    CHECK(inode(file.path) == written);
    CHECK(told.empty());
}

TEST_CASE("Another shape adds to the file, and other weights take their place in it") {
    const packed_file file;
    const graft::graph g = net(1), larger = net(1, 64), other = net(2);
    const outcome small = run(g, open(file));
    const outcome large = run(larger, open(file));
    CHECK(large.found + large.added == small.added);
    CHECK(run(g, open(file)).added == 0);
    CHECK(run(larger, open(file)).added == 0);
    const std::size_t bytes = file_contents(file.path).size();
    const outcome changed = run(other, open(file));
    CHECK(changed.found == 0);
    CHECK(same(changed.y, run(other, nullptr).y));
    CHECK(file_contents(file.path).size() <= bytes);
    CHECK(run(g, open(file)).found == 0);
    CHECK(told.empty());
}

TEST_CASE("A model of open shapes and models that share a file keep one of everything") {
    const packed_file file;
    const graft::graph g = net(1);
    const auto shared = open(file);
    const outcome first = run(g, shared), second = run(g, shared);
    CHECK(second.found == first.added);
    CHECK(second.added == 0);
    CHECK(same(first.y, second.y));
    const outcome exact = [&] {
        graft::load_options options;
        options.exact = true;
        return run(g, shared, options);
    }();
    CHECK(exact.found + exact.added == first.added);
    CHECK(run(g, open(file)).added == 0);
}

TEST_CASE("What was packed for bfloat16 is not taken for float32") {
    if (!graft::cpu::bfloat16_products(graft::cpu::active_isa().value())) return;
    const packed_file file;
    const graft::graph g = net(1);
    graft::load_options narrow;
    graft::device_options how;
    how.precision = "bfloat16";
    narrow.opened = graft::runtime<graft::backends::cpu>::open("cpu", how).value();
    const graft::tensor expected = run(g, nullptr, narrow).y;
    const outcome wide = run(g, open(file)), first = run(g, open(file), narrow), second = run(g, open(file), narrow);
    CHECK(first.added > 0);
    CHECK(second.added == 0);
    CHECK(same(second.y, expected));
    CHECK(same(run(g, open(file)).y, wide.y));
}

// Files of an earlier graft are read by the number that their header has. Who changes the order in which kernels read weights, or what a name of a form
// means, raises detail::packed_order and writes the numbers that are printed down here.
TEST_CASE("Weights are packed in the order that the number of the file's header stands for") {
    static const std::map<std::string, std::uint64_t> known = {
        {"avx512", 1796673457056868465u}, {"avx2", 17641676790058827535u}, {"baseline", 4043746228763412642u}};
    CHECK(graft::detail::packed_order == 1);
    const packed_file file;
    const counting counts(open(file));
    graft::load_options options;
    options.device = "cpu";
    options.packed = counts.store;
    REQUIRE(graft::load(net(1), options).ok());
    std::uint64_t all = 0;
    for (const auto& form : counts.contents) all ^= graft::xxh64(&form.second, sizeof form.second, form.first);
    const auto expected = known.find(graft::cpu::name(graft::cpu::active_isa().value()));
    if (expected == known.end()) return;
    INFO(expected->first << " " << all);
    CHECK(all == expected->second);
}

TEST_CASE("A file that is damaged anywhere gives the same answers, and is mended") {
    const packed_file file;
    const graft::graph g = net(1);
    const graft::tensor expected = run(g, nullptr).y;
    const int all = run(g, open(file)).added;
    const std::string whole = file_contents(file.path);
    for (const std::size_t at : {std::size_t(20), std::size_t(45), std::size_t(50), std::size_t(60), std::size_t(64), std::size_t(80), std::size_t(90),
                                 whole.size() / 3, whole.size() / 2}) {
        INFO("byte " << at);
        std::string bent = whole;
        bent[at] = static_cast<char>(bent[at] ^ 0x55);
        file.write(bent);
        told.clear();
        const outcome o = run(g, open(file));
        CHECK(same(o.y, expected));
        // A byte between two entries is nobody's; another version of graft is no damage.
        CHECK(o.found + o.added == all);
        if (o.added && at > 40) CHECK(told.find("damaged") != std::string::npos);
        if (o.added) CHECK(file_contents(file.path).size() == whole.size());
    }
    for (const std::size_t length : {std::size_t(0), std::size_t(20), std::size_t(63), std::size_t(64), std::size_t(100), whole.size() / 2, whole.size() - 1}) {
        INFO("cut to " << length);
        file.write(whole.substr(0, length));
        auto opened = graft::open_packed_weights(file.path, tell);
        if (length > 0 && length < 64) {
            CHECK(opened.error().code() == graft::errc::file_open);
            continue;
        }
        CHECK(same(run(g, opened.value()).y, expected));
        CHECK(file_contents(file.path).size() == whole.size());
    }
}

TEST_CASE("A file that is something else is not written over, and one that cannot be written is done without") {
    const packed_file file;
    const std::string model = file_contents(nets::demo_model());
    REQUIRE(!model.empty());
    file.write(model);
    const auto opened = graft::open_packed_weights(file.path, tell);
    REQUIRE(!opened.ok());
    CHECK(opened.error().code() == graft::errc::file_open);
    CHECK(file_contents(file.path) == model);
    CHECK(!graft::open_packed_weights(file.folder.path, tell).ok());

    const graft::graph g = net(1);
    auto nowhere = graft::open_packed_weights(file.folder.path + "/missing/net.packed", tell).value();
    CHECK(same(run(g, nowhere).y, run(g, nullptr).y));
    CHECK(told.find("are not kept") != std::string::npos);
}

TEST_CASE("A quantised matrix that is read by rows and by columns is packed for both") {
    const emulated_products products("avx512_vnni");
    nets::numbers random{3};
    builder b("net", 17);
    const auto scalar = [&](const char* name, graft::dtype type, double v) {
        graft::tensor t = graft::tensor::make(type, shape{}).value();
        graft::store_from_double(type, t.raw(), 0, 1, &v);
        return b.constant(name, std::move(t));
    };
    const value_id scale = scalar("scale", graft::dtype::float32, 0.05), zero = scalar("zero", graft::dtype::uint8, 128),
                   fine = scalar("fine", graft::dtype::float32, 0.02), none = scalar("none", graft::dtype::int8, 0);
    const auto coded = [&](value_id x) { return b.apply("DequantizeLinear", {b.apply("QuantizeLinear", {x, scale, zero}), scale, zero}); };
    const value_id square = b.constant("square", nets::random_tensor({64, 64}, random, -100, 100, graft::dtype::int8));
    value_id x = coded(b.input("x", graft::dtype::float32, {4, 64}));
    for (const std::int64_t transposed : {1, 0})
        x = coded(b.apply("Gemm", {x, b.apply("DequantizeLinear", {square, fine, none})}, {graft::integer_attribute("transB", transposed)}));
    b.output(x, "y");
    const graft::graph g = b.finish().value();
    graft::load_options reference;
    reference.reference = true;
    const graft::tensor expected = run(g, nullptr, reference).y;
    const packed_file file;
    for (int i = 0; i < 2; ++i) {
        const graft::tensor y = run(g, open(file)).y;
        // A code of the first product that is rounded otherwise moves some of the second by up to two.
        for (std::int64_t k = 0; k < y.elements(); ++k) CHECK(std::fabs(y.data<float>()[k] - expected.data<float>()[k]) < 0.26f);
    }
}
#endif
