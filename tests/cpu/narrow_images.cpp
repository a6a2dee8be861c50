// Images and matrices that stay in bfloat16 between operators: each kernel gives what the one of floats gives for the same numbers, rounded.
#include "conv_support.hpp"
#include "products.hpp"

#include <doctest/doctest.h>

#include <graft/cpu/bfloat16_batch.hpp>
#include <graft/cpu/bfloat16_images.hpp>
#include <graft/cpu/pool.hpp>
#include <graft/cpu/reorder.hpp>
#include <graft/cpu/rows.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

using namespace graft;
using namespace graft::cpu;
using namespace kernel_test;

namespace {

constexpr std::int64_t block = bfloat16_block;

std::vector<float> all_rounded(std::vector<float> x) {
    for (float& f : x) f = rounded(f);
    return x;
}

// [n][ceil(c / 32)][pixels][32]. What lies past the channels is finite, as kernels leave it, and would show in a sum.
struct narrow_image {
    std::int64_t n, c, pixels;
    std::vector<std::uint16_t> bits;

    narrow_image(std::int64_t images, std::int64_t channels, std::int64_t area)
        : n(images), c(channels), pixels(area), bits(static_cast<std::size_t>(n * ((c + block - 1) / block) * pixels * block), to_bfloat16(1e30).bits) {}
    narrow_image(const std::vector<float>& x, std::int64_t images, std::int64_t channels, std::int64_t area) : narrow_image(images, channels, area) {
        std::size_t i = 0;
        each([&](std::uint16_t& to) { to = to_bfloat16(static_cast<double>(x[i++])).bits; });
    }
    template <class F>
    void each(const F& f) {
        for (std::int64_t i = 0; i < n; ++i)
            for (std::int64_t k = 0; k < c; ++k)
                for (std::int64_t p = 0; p < pixels; ++p)
                    f(bits[static_cast<std::size_t>((((i * ((c + block - 1) / block)) + k / block) * pixels + p) * block + k % block)]);
    }
    std::vector<float> planes() {
        std::vector<float> y;
        each([&](std::uint16_t& from) { y.push_back(to_float(bfloat16{from})); });
        return y;
    }
    bool finite() const {
        return std::all_of(bits.begin(), bits.end(), [](std::uint16_t b) { return std::isfinite(to_float(bfloat16{b})); });
    }
};

// Equal but for the last place of a number of bfloat16.
bool near(float a, float b) { return std::fabs(a - b) <= std::fmax(std::fabs(a), std::fabs(b)) / 128; }

void check_same(const std::vector<float>& got, const std::vector<float>& want, bool exactly) {
    REQUIRE(got.size() == want.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i) wrong += exactly ? got[i] != rounded(want[i]) : !near(got[i], want[i]);
    CHECK(wrong == 0);
}

// A convolution of floats that bfloat16 holds, whose residual it holds as well, and the same of narrow images.
void check_conv(isa set, const conv_problem& problem, const char* how, bool narrow_x, bool narrow_y) {
    INFO(describe(set, problem, how), narrow_x ? " narrow x" : "", narrow_y ? " narrow y" : "");
    random_source random;
    conv_problem p = problem;
    p.bfloat16 = true;
    const bool depthwise = p.groups == p.ic;
    const std::int64_t pixels = p.oh * p.ow, in = p.ih * p.iw;
    const std::vector<float> x = all_rounded(random.reals(p.n * p.ic * in)), bias = random.reals(p.oc),
                             residual = all_rounded(random.reals(p.n * p.oc * pixels));
    std::vector<float> w = random.reals(p.oc * p.ic / p.groups * p.kh * p.kw);
    for (float& f : w) f /= std::sqrt(static_cast<float>(p.ic / p.groups * p.kh * p.kw));
    const conv_choice choice = depthwise ? choose_conv(set, p) : choose_bfloat16_conv(p);
    REQUIRE(takes_narrow_images(p, choice, narrow_x, narrow_y));
    buffer packed = room(choice.packed_bytes / 4), space = room(choice.workspace_bytes / 4 + 16);
    pool_executor one(1), three(3);
    const std::int64_t at_once = conv_channels_at_once(set, p, choice, 1), row = static_cast<std::int64_t>(w.size()) / p.oc;
    for (std::int64_t first = 0; first < p.oc; first += at_once)
        pack_conv_weights(set, p, choice, w.data() + first * row, first, std::min(first + at_once, p.oc), packed.data(), one);
    const buffer wide_x = blocked(set, x, p.n, p.ic, in), wide_residual = blocked(set, residual, p.n, p.oc, pixels);
    const float* const from = choice.in == layout::row_major ? x.data() : floats(wide_x);
    buffer y = room(blocked_floats(set, p.n, p.oc, pixels));
    const auto planes = [&] {
        std::vector<float> out(static_cast<std::size_t>(p.n * p.oc * pixels));
        to_nchw(set, floats(y), p.n, p.oc, pixels, out.data(), one);
        return out;
    };
    run_conv(set, p, choice, from, packed.data(), bias.data(), p.ep.residual ? floats(wide_residual) : nullptr, floats(y), space.data(), one);
    const std::vector<float> want = planes();
    for (executor* pool : {static_cast<executor*>(&one), static_cast<executor*>(&three)}) {
        const narrow_image narrow_in(x, p.n, p.ic, in), narrow_residual(residual, p.n, p.oc, pixels);
        narrow_image narrow_out(p.n, p.oc, pixels);
        narrow_images narrow;
        if (narrow_x) narrow.x = narrow_in.bits.data();
        if (narrow_y) narrow.y = narrow_out.bits.data(), narrow.residual = p.ep.residual ? narrow_residual.bits.data() : nullptr;
        run_narrow_conv(set, p, choice, from, packed.data(), bias.data(), p.ep.residual ? floats(wide_residual) : nullptr, floats(y), narrow, space.data(),
                        *pool);
        if (narrow_y)
            check_same(narrow_out.planes(), want, !depthwise);
        else
            CHECK(planes() == want);
    }
}

}  // namespace

TEST_CASE("bfloat16: convolutions read and write narrow images, where they lie or gathered") {
    on_all_products([](isa set) {
        for (const auto& [narrow_x, narrow_y] : {std::pair<bool, bool>{true, true}, {true, false}, {false, true}}) {
            const auto with = [&, x = narrow_x, y = narrow_y](const char* how, std::int64_t n, std::int64_t ic, std::int64_t h, std::int64_t w, std::int64_t oc,
                                                              int k, int s, int pad, epilogue ep = {}) {
                conv_problem p;
                p.n = n, p.ic = ic, p.ih = h, p.iw = w, p.oc = oc, p.kh = p.kw = k, p.sh = p.sw = s, p.pt = p.pl = pad, p.ep = ep;
                size_output(p, pad, pad);
                check_conv(set, p, how, x, y);
            };
            with("1x1, whole tiles", 1, 64, 8, 8, 64, 1, 1, 0);
            with("1x1, a last tile of 17", 2, 64, 7, 7, 96, 1, 1, 0);
            with("1x1, a last tile of 4", 2, 32, 6, 6, 32, 1, 1, 0);
            with("1x1, fewer pixels than a tile", 2, 64, 3, 4, 40, 1, 1, 0);
            with("1x1, blocks that are not full", 2, 70, 7, 9, 50, 1, 1, 0);
            with("1x1 with steps", 1, 40, 9, 8, 33, 1, 2, 0);
            with("3x3", 2, 40, 7, 9, 33, 3, 1, 1);
            with("3x3 with steps", 1, 64, 11, 10, 17, 3, 2, 1);
            for (const bool late : {false, true})
                for (const activation act : {activation::none, activation::relu, activation::clip, activation::silu}) {
                    epilogue ep;
                    ep.act = act, ep.alpha = -0.25f, ep.beta = 0.5f, ep.residual = true, ep.residual_after_activation = late;
                    with("with a residual", 1, 24, 6, 7, 35, 3, 1, 1, ep);
                    ep.residual = false;
                    with("with an activation", 2, 24, 7, 7, 16, 1, 1, 0, ep);
                }
        }
        conv_problem groups;
        groups.n = 2, groups.ic = 128, groups.oc = 64, groups.groups = 2, groups.ih = groups.iw = 9, groups.kh = groups.kw = 3, groups.pt = groups.pl = 1;
        size_output(groups, 1, 1);
        check_conv(set, groups, "groups", true, true);
        // A group's half block is read among floats alone.
        groups.groups = 4, groups.ic = 192;
        conv_choice choice = choose_bfloat16_conv(groups);
        CHECK(!takes_narrow_images(groups, choice, true, false));
        CHECK(!takes_narrow_images(groups, choice, false, true));
        conv_problem planes;
        planes.ic = 3, planes.ih = 21, planes.iw = 40, planes.oc = 33, planes.kh = planes.kw = 7, planes.sh = planes.sw = 2, planes.pt = planes.pl = 3;
        planes.in = layout::row_major;
        size_output(planes, 3, 3);
        check_conv(set, planes, "planes", false, true);
    });
}

TEST_CASE("bfloat16: depthwise convolutions of narrow images") {
    on_all_products(
        [](isa set) {
            const auto with = [&](const char* how, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w, int kh, int kw, int s, int d, int pad,
                                  activation act = activation::none) {
                conv_problem p;
                p.n = n, p.ic = p.oc = c, p.groups = static_cast<int>(c), p.ih = h, p.iw = w, p.kh = kh, p.kw = kw, p.sh = p.sw = s, p.dh = p.dw = d;
                p.pt = p.pl = pad, p.ep.act = act, p.ep.alpha = -0.25f, p.ep.beta = 0.5f;
                size_output(p, pad, pad);
                check_conv(set, p, how, true, true);
            };
            with("3x3", 2, 32, 9, 11, 3, 3, 1, 1, 1);
            with("3x3, a block that is not full", 2, 58, 9, 11, 3, 3, 1, 1, 1);
            with("3x3, half a block", 1, 16, 20, 20, 3, 3, 1, 1, 1, activation::clip);
            with("3x3 with steps", 1, 33, 15, 16, 3, 3, 2, 1, 1, activation::silu);
            with("5x5", 1, 40, 14, 14, 5, 5, 1, 1, 2, activation::relu);
            with("5x5 with steps", 1, 40, 15, 15, 5, 5, 2, 1, 2);
            with("7x7", 1, 35, 9, 9, 7, 7, 1, 1, 3);
            with("holes", 1, 35, 12, 13, 3, 3, 1, 2, 2);
            with("steps of three", 1, 35, 22, 23, 3, 3, 3, 1, 1);
            with("a few columns", 3, 35, 9, 4, 3, 3, 1, 1, 1, activation::hard_swish);
            with("no border", 1, 35, 9, 9, 2, 3, 1, 1, 0);
            with("more padding than image", 1, 35, 2, 2, 3, 3, 1, 1, 4);
            with("more rows than are copied at once", 1, 32, 60, 60, 3, 3, 1, 1, 1);
        },
        true);
}

TEST_CASE("bfloat16: what stands between convolutions works on narrow images") {
    on_all_products(
        [](isa set) {
            random_source random;
            pool_executor pool(3);
            const std::int64_t n = 2, c = 58, h = 9, w = 11, area = h * w, width = vector_width(set), vectors = (c + width - 1) / width;
            const std::vector<float> x = all_rounded(random.reals(n * c * area)), other = all_rounded(random.reals(n * c * area));
            const narrow_image in(x, n, c, area), second(other, n, c, area);
            const buffer wide = blocked(set, x, n, c, area);

            for (const bool largest : {true, false}) {
                INFO((largest ? "max pool" : "average pool"));
                pool_problem p;
                p.n = n, p.c = c, p.ih = h, p.iw = w, p.kh = p.kw = 3, p.sh = p.sw = 2, p.pt = p.pl = p.pb = p.pr = 1, p.oh = 5, p.ow = 6;
                buffer y = room(blocked_floats(set, n, c, p.oh * p.ow));
                (largest ? run_max_pool : run_average_pool)(set, p, floats(wide), floats(y), pool);
                std::vector<float> want(static_cast<std::size_t>(n * c * p.oh * p.ow));
                to_nchw(set, floats(y), n, c, p.oh * p.ow, want.data(), pool);
                narrow_image got(n, c, p.oh * p.ow);
                run_narrow_pool(set, largest, p, in.bits.data(), got.bits.data(), pool);
                check_same(got.planes(), want, true);
                CHECK(got.finite());
            }
            {
                buffer means = room(n * vectors * width);
                run_narrow_global_average(set, n, c, area, in.bits.data(), floats(means), pool);
                for (std::int64_t i = 0; i < n * c; ++i) {
                    double sum = 0;
                    for (std::int64_t p = 0; p < area; ++p) sum += double(x[static_cast<std::size_t>(i * area + p)]);
                    CHECK(floats(means)[i / c * vectors * width + i % c] == doctest::Approx(sum / double(area)).epsilon(1e-5));
                }
            }
            {
                channel_problem p;
                p.n = n, p.c = c, p.area = area, p.scale_image = vectors * width, p.ep.act = activation::relu;
                const std::vector<float> scale = random.reals(n * vectors * width), shift = random.reals(c);
                narrow_image got(n, c, area);
                run_narrow_channel(set, p, in.bits.data(), scale.data(), shift.data(), got.bits.data(), pool);
                std::vector<float> want;
                for (std::int64_t i = 0; i < n * c * area; ++i) {
                    const std::int64_t channel = i / area % c, image = i / area / c;
                    want.push_back(std::fmax(0.0f, std::fma(x[static_cast<std::size_t>(i)], scale[static_cast<std::size_t>(image * vectors * width + channel)],
                                                            shift[static_cast<std::size_t>(channel)])));
                }
                check_same(got.planes(), want, false);
                CHECK(got.finite());
                p.ep = {};
                run_narrow_channel(set, p, in.bits.data(), nullptr, nullptr, got.bits.data(), pool);
                CHECK(got.planes() == x);
            }
            {
                epilogue ep;
                ep.act = activation::clip, ep.alpha = -0.5f, ep.beta = 0.75f;
                narrow_image got(n, c, area);
                run_narrow_sum(set, ep, in.bits.data(), second.bits.data(), static_cast<std::int64_t>(in.bits.size()), got.bits.data(), pool);
                std::vector<float> want;
                for (std::size_t i = 0; i < x.size(); ++i) want.push_back(std::clamp(x[i] + other[i], -0.5f, 0.75f));
                check_same(got.planes(), want, true);
            }
            std::vector<float> planes(x.size());
            narrow_to_nchw(set, in.bits.data(), n, c, area, planes.data(), pool);
            CHECK(planes == x);
        },
        true);
}

TEST_CASE("bfloat16: batches of products of two matrices that are made at every run equal sums in double of rounded operands") {
    on_all_products([](isa set) {
        random_source random;
        const auto with = [&](std::int64_t outer, std::int64_t inner, std::int64_t m, std::int64_t n, std::int64_t k, bool transposed, bool shared,
                              epilogue ep = {}) {
            INFO(outer, " ", inner, " ", m, " ", n, " ", k, transposed ? " transposed" : "");
            gemm_problem p;
            p.m = m, p.n = n, p.k = k, p.trans_b = transposed, p.bfloat16 = true, p.ep = ep;
            p.batch[0] = outer, p.batch[1] = inner;
            p.a_strides[1] = m * k, p.a_strides[0] = inner * m * k, p.b_strides[1] = shared ? 0 : n * k, p.b_strides[0] = shared ? n * k : inner * n * k;
            p.c_strides[1] = p.residual_strides[1] = m * n, p.c_strides[0] = p.residual_strides[0] = inner * m * n;
            REQUIRE(takes_bfloat16_batch(p));
            const std::int64_t batch = outer * inner;
            const std::vector<float> a = random.reals(batch * m * k), b = random.reals(batch * n * k), residual = random.reals(batch * m * n);
            buffer space = room(bfloat16_batch_workspace(p) / 4);
            std::vector<std::vector<float>> results;
            for (const int threads : {1, 3}) {
                pool_executor pool(threads);
                std::vector<float> c = residual;
                run_bfloat16_batch(set, p, a.data(), b.data(), nullptr, ep.residual ? c.data() : nullptr, c.data(), space.data(), pool);
                results.push_back(c);
            }
            CHECK(std::memcmp(results[0].data(), results[1].data(), results[0].size() * sizeof(float)) == 0);
            double most = 0;
            for (std::int64_t i = 0; i < batch * m; ++i)
                for (std::int64_t j = 0; j < n; ++j) {
                    const std::int64_t of_b = i / m / inner * p.b_strides[0] + i / m % inner * p.b_strides[1];
                    double sum = 0, size = 1e-30;
                    for (std::int64_t l = 0; l < k; ++l) {
                        const double product = double(rounded(a[static_cast<std::size_t>(i * k + l)])) *
                                               double(rounded(b[static_cast<std::size_t>(of_b + (transposed ? j * k + l : l * n + j))]));
                        sum += product, size += std::fabs(product);
                    }
                    const double more = ep.residual ? double(residual[static_cast<std::size_t>(i * n + j)]) : 0;
                    const double off = std::fabs(double(results[0][static_cast<std::size_t>(i * n + j)]) - activate(ep, sum + more)) / (size + std::fabs(more));
                    if (!(off <= most)) most = off;  // NaN too
                }
            CHECK(most < 1e-6);
        };
        with(1, 3, 65, 65, 64, true, false);
        with(2, 3, 40, 64, 65, false, false);
        with(2, 2, 33, 32, 32, false, true);
        epilogue ep;
        ep.act = activation::relu, ep.residual = true;
        with(2, 2, 50, 35, 40, false, false, ep);
        with(40, 3, 197, 33, 64, true, false);  // more than are computed together
        gemm_problem large;
        large.m = 1 << 16, large.n = large.k = 64, large.batch[1] = 2, large.b_strides[1] = 64 * 64;
        CHECK(!takes_bfloat16_batch(large));
    });
}

TEST_CASE("bfloat16: products and layer normalisations read and write narrow matrices") {
    on_all_products([](isa set) {
        random_source random;
        for (const std::int64_t m : {1, 31, 32, 50, 70, 197, 6000}) {  // the last are more than are gathered at once
            CAPTURE(m);
            gemm_problem p;
            p.m = m, p.n = 64, p.k = 96, p.trans_b = true, p.packed_b = p.bfloat16 = true, p.ep.act = activation::gelu;
            REQUIRE(takes_narrow_matrices(p, true, true));
            const std::vector<float> a = all_rounded(random.reals(m * p.k)), b = random.reals(p.n * p.k);
            buffer packed = room(packed_bfloat16_bytes(bfloat16_weights_of(p)) / 4), space = room(bfloat16_product_workspace(p) / 4);
            std::vector<float> want(static_cast<std::size_t>(m * p.n)), got = want;
            for (const int threads : {1, 3}) {
                pool_executor pool(threads);
                pack_bfloat16(set, bfloat16_weights_of(p), b.data(), 0, p.n, packed.data(), pool);
                run_bfloat16_product(set, p, a.data(), packed.data(), nullptr, nullptr, want.data(), space.data(), pool);
                const std::vector<std::uint16_t> narrow_a = narrowed(a);
                std::vector<std::uint16_t> narrow_c(want.size());
                run_bfloat16_product(set, p, nullptr, packed.data(), nullptr, nullptr, got.data(), space.data(), pool, {narrow_a.data(), nullptr, nullptr});
                CHECK(got == want);
                run_bfloat16_product(set, p, nullptr, packed.data(), nullptr, nullptr, nullptr, space.data(), pool,
                                     {narrow_a.data(), nullptr, narrow_c.data()});
                CHECK(narrow_c == narrowed(want));
            }
            p.k = 90;
            CHECK(!takes_narrow_matrices(p, true, false));
        }
        for (const std::int64_t n : {48, 100, 4096}) {
            const std::int64_t rows = 37;
            const std::vector<float> x = random.reals(rows * n), gamma = random.reals(n), beta = random.reals(n);
            std::vector<float> want(x.size());
            std::vector<std::uint16_t> got(x.size());
            pool_executor pool(3);
            run_layer_norm(set, x.data(), want.data(), rows, n, gamma.data(), beta.data(), 1e-5f, true, nullptr, nullptr, pool);
            run_narrow_layer_norm(set, x.data(), got.data(), rows, n, gamma.data(), beta.data(), 1e-5f, true, pool);
            CHECK(got == narrowed(want));
        }
    });
}
