// The mutator of the fuzz targets for ONNX: what it makes are files that can mostly be read, and models that often load.
#include "../../fuzz/onnx_mutator.hpp"
#include "../exec/nets.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <set>

namespace {

using bytes = std::vector<std::uint8_t>;

bytes small_network() {
    graft::builder b("small", 1);
    graft::conv2d_options three;
    three.kernel = 3, three.padding = 1;
    auto x = b.input("image", graft::dtype::float32, {"N", 3, 6, 6});
    x = b.relu(b.batch_norm(b.conv2d(x, 4, three)));
    b.output(b.softmax(b.linear(b.flatten(b.max_pool(x)), 3)), "probabilities");
    bytes out;
    REQUIRE(graft::write_onnx(b.finish(), out).ok());
    return out;
}

bool loads(const bytes& file) {
    graft::load_options options;
    options.limits.memory_bytes = 16 << 20;
    options.limits.fold_bytes = 1 << 20;
    options.device = "cpu";
    return graft::load(file.data(), file.size(), options).ok();
}

}  // namespace

TEST_CASE("A model's tree is written as the bytes that it was read from") {
    const bytes file = small_network();
    fuzz::field model;
    REQUIRE(fuzz::read_tree(file.data(), file.size(), model));
    CHECK(fuzz::write_tree(model) == file);
    // Packed extents are taken apart, which means the same.
    std::ifstream demo(nets::demo_model(), std::ios::binary);
    const std::string whole((std::istreambuf_iterator<char>(demo)), std::istreambuf_iterator<char>());
    REQUIRE(fuzz::read_tree(reinterpret_cast<const std::uint8_t*>(whole.data()), whole.size(), model));
    CHECK(loads(fuzz::write_tree(model)));
}

TEST_CASE("What is no protobuf message makes no tree") {
    const bytes file{0xff, 0xff, 0xff};
    fuzz::field model;
    CHECK(!fuzz::read_tree(file.data(), file.size(), model));
    CHECK(!fuzz::read_tree(nullptr, 0, model));
}

TEST_CASE("Bent models can be read, one in four loads, and each seed makes the same one") {
    const bytes file = small_network();
    constexpr int count = 2000;
    int read = 0, loaded = 0;
    std::set<bytes> different;
    for (int seed = 0; seed < count; ++seed) {
        fuzz::field model, again;
        REQUIRE(fuzz::read_tree(file.data(), file.size(), model));
        fuzz::onnx_mutator(model, static_cast<std::uint64_t>(seed)).mutate();
        const bytes bent = fuzz::write_tree(model);
        read += fuzz::read_tree(bent.data(), bent.size(), again);
        loaded += loads(bent);
        different.insert(bent);
    }
    MESSAGE(read, " of ", count, " are read, ", loaded, " load, ", different.size(), " differ");
    CHECK(read >= count * 99 / 100);
    CHECK(loaded >= count / 4);
    CHECK(different.size() >= static_cast<std::size_t>(count * 8 / 10));

    fuzz::field one, two;
    REQUIRE(fuzz::read_tree(file.data(), file.size(), one));
    REQUIRE(fuzz::read_tree(file.data(), file.size(), two));
    fuzz::onnx_mutator(one, 77).mutate();
    fuzz::onnx_mutator(two, 77).mutate();
    CHECK(fuzz::write_tree(one) == fuzz::write_tree(two));
}

TEST_CASE("A model takes parts of another one") {
    const bytes file = small_network();
    std::ifstream demo(nets::demo_model(), std::ios::binary);
    const std::string whole((std::istreambuf_iterator<char>(demo)), std::istreambuf_iterator<char>());
    fuzz::field other;
    REQUIRE(fuzz::read_tree(reinterpret_cast<const std::uint8_t*>(whole.data()), whole.size(), other));
    int changed = 0, read = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        fuzz::field model, again;
        REQUIRE(fuzz::read_tree(file.data(), file.size(), model));
        fuzz::onnx_mutator(model, seed).cross(other);
        const bytes made = fuzz::write_tree(model);
        changed += made != file;
        read += fuzz::read_tree(made.data(), made.size(), again);
    }
    CHECK(changed >= 150);
    CHECK(read == 200);
}
