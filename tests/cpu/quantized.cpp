// Convolutions of 8-bit images against plain loops over int32, on every instruction set of this machine, code for code.
#include "../emulated_products.hpp"
#include "../skipped.hpp"
#include "random_source.hpp"
#include "sets.hpp"

#include <doctest/doctest.h>

#include <graft/core/buffer.hpp>
#include <graft/core/executor.hpp>
#include <graft/cpu/dispatch.hpp>
#include <graft/cpu/quantized.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace graft;
using namespace graft::cpu;

namespace {

using kernel_test::random_source;

struct example {
    quantized_conv_problem p;
    std::vector<std::uint8_t> x;
    std::vector<std::int16_t> weights;
    std::vector<float> scale;
    std::vector<std::int32_t> bias;
};

int code_of(std::uint8_t byte, bool is_signed) { return is_signed ? static_cast<std::int8_t>(byte) : byte; }

// A half goes to the even number of steps from the zero point, which is added behind.
int requantised(std::int64_t sum, float scale, const quantized_conv_problem& p) {
    const double steps = std::nearbyint(static_cast<double>(static_cast<float>(sum) * scale)) + p.y_zero;
    return static_cast<int>(std::min<double>(p.high, std::max<double>(p.low, steps)));
}

std::vector<std::uint8_t> wanted_codes(const example& e) {
    const quantized_conv_problem& p = e.p;
    std::vector<std::uint8_t> y;
    const std::int64_t inner = p.ic / p.groups;
    for (std::int64_t n = 0; n < p.n; ++n)
        for (std::int64_t m = 0; m < p.oc; ++m)
            for (std::int64_t oy = 0; oy < p.oh; ++oy)
                for (std::int64_t ox = 0; ox < p.ow; ++ox) {
                    std::int32_t sum = e.bias[static_cast<std::size_t>(m)];
                    for (std::int64_t c = 0; c < inner; ++c)
                        for (int ky = 0; ky < p.kh; ++ky)
                            for (int kx = 0; kx < p.kw; ++kx) {
                                const std::int64_t iy = oy * p.sh - p.pt + ky * p.dh, ix = ox * p.sw - p.pl + kx * p.dw;
                                if (iy < 0 || iy >= p.ih || ix < 0 || ix >= p.iw) continue;
                                const std::int64_t channel = m / (p.oc / p.groups) * inner + c;
                                const std::uint8_t byte = e.x[static_cast<std::size_t>(((n * p.ic + channel) * p.ih + iy) * p.iw + ix)];
                                sum += (code_of(byte, p.x_signed) - p.x_zero) * e.weights[static_cast<std::size_t>(((m * inner + c) * p.kh + ky) * p.kw + kx)];
                            }
                    y.push_back(static_cast<std::uint8_t>(requantised(sum, e.scale[static_cast<std::size_t>(m)], p)));
                }
    return y;
}

std::vector<std::uint8_t> computed_codes(isa set, const example& e, executor& pool) {
    quantized_conv_problem p = e.p;
    p.signed_pixels = p.bytes && !p.tiles && multiplies_signed_pixels(set);
    buffer packed = buffer::allocate(static_cast<std::size_t>(packed_quantized_bytes(p))).value(),
           memory = buffer::allocate(static_cast<std::size_t>(quantized_conv_workspace(p))).value();
    std::vector<std::int32_t> bias;
    const std::size_t inner = e.weights.size() / e.bias.size();
    for (std::int64_t block = 0; block < p.blocks(); ++block)
        pack_quantized_rows(p, block, e.weights.data() + static_cast<std::size_t>(block * p.rows()) * inner, packed.data());
    for (std::size_t m = 0; m < e.bias.size(); ++m) bias.push_back(quantized_bias(p, e.weights.data() + m * inner, e.bias[m]));
    std::vector<std::uint8_t> y(static_cast<std::size_t>(p.n * p.oc * p.oh * p.ow), 77);
    if (!p.bytes) {
        run_quantized_conv(set, p, e.x.data(), packed.data(), e.scale.data(), bias.data(), y.data(), memory.data(), pool);
        return y;
    }
    // What lies behind an image belongs to somebody else.
    const std::int64_t together = p.tiles ? code_pixel : 4;
    const auto stored = [&](std::int64_t channels) { return (channels + together - 1) / together * together; };
    const std::size_t behind = 64, bytes_of_y = static_cast<std::size_t>(p.n * stored(p.oc) * p.oh * p.ow);
    std::vector<std::uint8_t> x_lanes(static_cast<std::size_t>(p.n * stored(p.ic) * p.ih * p.iw)), y_lanes(bytes_of_y + behind, 77);
    (p.tiles ? codes_to_pixels : codes_to_lanes)(set, p.x_signed, e.x.data(), p.n, p.ic, p.ih * p.iw, x_lanes.data(), pool);
    run_quantized_conv(set, p, p.planes ? e.x.data() : x_lanes.data(), packed.data(), e.scale.data(), bias.data(), y_lanes.data(), memory.data(), pool);
    for (std::size_t i = 0; i < behind; ++i) CHECK(y_lanes[bytes_of_y + i] == 77);
    (p.tiles ? pixels_to_codes : lanes_to_codes)(set, p.y_signed, y_lanes.data(), p.n, p.oc, p.oh * p.ow, y.data(), pool);
    return y;
}

// Full-range codes; scales such that sums reach from one bound to the other, powers of two among them, which make exact halves.
// `flat`: one tap, no border, no steps; `grouped`: in groups that are not depthwise.
example draw(random_source& random, bool depthwise, std::int64_t channels = 21, bool flat = false, bool grouped = false) {
    example e;
    quantized_conv_problem& p = e.p;
    p.n = random.between(1, 2);
    p.ic = random.between(1, channels);
    p.oc = depthwise ? p.ic : random.between(1, channels);
    p.groups = depthwise ? static_cast<int>(p.ic) : 1;
    if (depthwise && p.ic == 1) p.ic = p.oc = p.groups = 2;
    if (grouped) {
        p.groups = static_cast<int>(random.between(2, 7));
        p.ic = p.groups * random.between(1, channels), p.oc = p.groups * random.between(p.ic == p.groups ? 2 : 1, channels);
    }
    p.ih = random.between(1, 17), p.iw = random.between(1, 70);
    for (int* size : {&p.kh, &p.kw}) *size = flat ? 1 : static_cast<int>(random.between(1, 5));
    for (int* size : {&p.sh, &p.sw, &p.dh, &p.dw}) *size = flat ? 1 : static_cast<int>(random.between(1, 3));
    const int most_pad = flat ? 0 : 4;
    p.pt = static_cast<int>(random.between(0, most_pad)), p.pl = static_cast<int>(random.between(0, most_pad));
    p.oh = (p.ih + p.pt + random.between(0, most_pad) - (p.kh - 1) * p.dh - 1) / p.sh + 1;
    p.ow = (p.iw + p.pl + random.between(0, most_pad) - (p.kw - 1) * p.dw - 1) / p.sw + 1;
    p.oh = std::max<std::int64_t>(p.oh, 1), p.ow = std::max<std::int64_t>(p.ow, 1);
    p.x_signed = random.between(0, 1) != 0, p.y_signed = random.between(0, 1) != 0;
    p.low = p.y_signed ? -128 : 0, p.high = p.low + 255;
    p.x_zero = static_cast<int>(random.between(0, 255)) - (p.x_signed ? 128 : 0);
    p.y_zero = static_cast<int>(random.between(p.low, p.high));
    if (random.between(0, 2) == 0) p.low = p.y_zero;
    e.x.resize(static_cast<std::size_t>(p.n * p.ic * p.ih * p.iw));
    for (std::uint8_t& byte : e.x) byte = static_cast<std::uint8_t>(random.next() >> 20);
    const bool wide = random.between(0, 2) == 0, extreme = random.between(0, 3) == 0;
    e.weights.resize(static_cast<std::size_t>(p.oc * p.products()));
    for (std::int16_t& w : e.weights)
        w = static_cast<std::int16_t>(wide ? random.between(-255, 254) : extreme ? (random.between(0, 1) ? 127 : -128) : random.between(-128, 127));
    p.bytes = true;
    p.wide = wide;
    for (std::int64_t m = 0; m < p.oc; ++m) {
        const bool halves = random.between(0, 1) != 0;
        e.scale.push_back(halves ? 1.0f / static_cast<float>(1 << random.between(1, 12)) : 0.0005f + 0.01f * std::fabs(random.real()));
        e.bias.push_back(static_cast<std::int32_t>(random.between(-3000, 3000)));
    }
    return e;
}

}  // namespace

TEST_CASE("cpu quantized: convolutions give the codes of a loop over int32, on every set and any number of threads") {
    random_source random;
    pool_executor three(3);
    executor alone;
    int bytes = 0, checked = 0;
    for (int round = 0; round < 160; ++round) {
        const bool grouped = round % 3 == 1;
        const example e = draw(random, round % 3 == 0, grouped ? 18 : 21, round % 4 == 1, grouped);
        INFO("round " << round << ", " << e.p.ic << " to " << e.p.oc << " channels in " << e.p.groups << " groups, " << e.p.ih << "x" << e.p.iw << " to "
                      << e.p.oh << "x" << e.p.ow << ", kernel " << e.p.kh << "x" << e.p.kw << ", strides " << e.p.sh << "x" << e.p.sw << ", dilations "
                      << e.p.dh << "x" << e.p.dw << ", pads " << e.p.pt << "," << e.p.pl);
        REQUIRE(takes_quantized_conv(e.p));
        const std::vector<std::uint8_t> wanted = wanted_codes(e);
        kernel_test::on_every_isa([&](isa set) {
            example pairs = e;
            pairs.p.bytes = pairs.p.wide = false;
            CHECK(computed_codes(set, pairs, alone) == wanted);
            CHECK(computed_codes(set, pairs, three) == wanted);
            for (const char* emulated : {"avx512_vnni", ""}) {
                const emulated_products with(emulated);
                if (!e.p.bytes || !multiplies_bytes(set)) continue;
                INFO("bytes", *emulated ? ", emulated" : "");
                CHECK(computed_codes(set, e, alone) == wanted);
                CHECK(computed_codes(set, e, three) == wanted);
                ++bytes;
                if (e.p.groups != 1) continue;
                example few = e;
                few.p.few = true;
                CHECK(computed_codes(set, few, alone) == wanted);
                CHECK(computed_codes(set, few, three) == wanted);
            }
            ++checked;
        });
    }
    CHECK(checked >= 160);
    if (has_byte_products(isa::avx512) || has_byte_products(isa::avx2)) CHECK(bytes > 40);
}

TEST_CASE("cpu quantized: convolutions by tiles give the same codes, of any numbers of channels") {
    random_source random;
    pool_executor three(3);
    executor alone;
    int checked = 0, of_planes = 0, depthwise = 0;
    for (int round = 0; round < 120; ++round) {
        example e = draw(random, round % 4 == 0, round % 4 == 1 ? 4 : 150, round % 4 == 2);
        if (!e.p.bytes || e.p.ih * e.p.iw * (e.p.depthwise() ? 1 : e.p.ic) * e.p.oc > 3000000) continue;
        e.p.tiles = true;
        REQUIRE(takes_quantized_tiles(e.p));
        e.p.planes = round % 4 == 1 && takes_quantized_planes(e.p);
        of_planes += e.p.planes, depthwise += e.p.depthwise();
        INFO("round " << round << ", " << e.p.ic << " to " << e.p.oc << " channels, " << e.p.oh << "x" << e.p.ow << ", kernel " << e.p.kh << "x" << e.p.kw);
        const std::vector<std::uint8_t> wanted = wanted_codes(e);
        for (const char* emulated : {"amx", ""}) {
            const emulated_products with(emulated);
            kernel_test::on_every_isa([&](isa set) {
                if (!byte_tiles(set)) return;
                CHECK(computed_codes(set, e, alone) == wanted);
                CHECK(computed_codes(set, e, three) == wanted);
                ++checked;
            });
        }
    }
    if (checked == 0) return say_skipped("neither this machine nor this build has tiles of bytes");
    CHECK(checked >= 40);
    CHECK(of_planes >= 3);
    CHECK(depthwise >= 10);
}

TEST_CASE("cpu quantized: many channels and pixels, so that tasks share an image") {
    random_source random;
    pool_executor three(3);
    example e;
    quantized_conv_problem& p = e.p;
    p.ic = 70, p.oc = 130, p.ih = p.iw = p.oh = p.ow = 19, p.kh = p.kw = 3, p.pt = p.pl = 1, p.x_zero = 131, p.y_zero = 9;
    for (std::int64_t i = 0; i < p.ic * p.ih * p.iw; ++i) e.x.push_back(static_cast<std::uint8_t>(random.between(0, 255)));
    for (std::int64_t i = 0; i < p.oc * p.ic * 9; ++i) e.weights.push_back(static_cast<std::int16_t>(random.between(-128, 127)));
    e.scale.assign(130, 0.0003f);
    e.bias.assign(130, -700);
    const std::vector<std::uint8_t> wanted = wanted_codes(e);
    kernel_test::on_every_isa([&](isa set) {
        for (const bool bytes : {false, true}) {
            if (bytes && !multiplies_bytes(set)) continue;
            p.bytes = bytes;
            CHECK(computed_codes(set, e, three) == wanted);
        }
    });
}

TEST_CASE("cpu quantized: Winograd's convolutions give the codes of a loop over int32, extreme numbers among them") {
    random_source random;
    pool_executor three(3);
    executor alone;
    for (int round = 0; round < 60; ++round) {
        example e;
        quantized_conv_problem& p = e.p;
        p.n = random.between(1, 2), p.ic = random.between(16, 37), p.oc = random.between(16, 29);
        p.kh = p.kw = 3, p.pt = static_cast<int>(random.between(0, 3)), p.pl = static_cast<int>(random.between(0, 3));
        p.ih = random.between(3, 19), p.iw = random.between(3, round % 5 ? 19 : 120);
        // Pads at the ends are whatever the outputs reach.
        p.oh = p.ih + p.pt - 2 + random.between(0, 2), p.ow = p.iw + p.pl - 2 + random.between(0, 2);
        p.x_signed = random.between(0, 1) != 0, p.y_signed = random.between(0, 1) != 0;
        p.x_zero = static_cast<int>(random.between(p.x_signed ? -128 : 0, p.x_signed ? 127 : 255));
        p.y_zero = static_cast<int>(random.between(p.y_signed ? -128 : 0, p.y_signed ? 127 : 255));
        p.low = p.y_signed ? -128 : 0, p.high = p.low + 255;
        const bool extreme = round % 4 == 0;
        for (std::int64_t i = 0; i < p.n * p.ic * p.ih * p.iw; ++i)
            e.x.push_back(static_cast<std::uint8_t>(extreme ? 255 * random.between(0, 1) : random.between(0, 255)));
        for (std::int64_t i = 0; i < p.oc * p.ic * 9; ++i)
            e.weights.push_back(static_cast<std::int16_t>(extreme ? 510 * random.between(0, 1) - 255 : random.between(-255, 255)));
        for (std::int64_t m = 0; m < p.oc; ++m) {
            e.scale.push_back(extreme ? 0.00001f : 0.0003f);
            e.bias.push_back(static_cast<std::int32_t>(random.between(-3000, 3000)));
        }
        INFO("round " << round << ", " << p.ic << " to " << p.oc << " channels, " << p.ih << "x" << p.iw << " to " << p.oh << "x" << p.ow << ", pads " << p.pt
                      << "," << p.pl);
        REQUIRE(takes_quantized_conv(p));
        REQUIRE(takes_quantized_winograd(p));
        const std::vector<std::uint8_t> wanted = wanted_codes(e);
        p.winograd = true;
        kernel_test::on_every_isa([&](isa set) {
            CHECK(computed_codes(set, e, alone) == wanted);
            CHECK(computed_codes(set, e, three) == wanted);
        });
    }
}

TEST_CASE("cpu quantized: depthwise convolutions whose images are computed in bands, of rows wide and narrow") {
    random_source random;
    pool_executor three(3);
    for (int round = 0; round < 40; ++round) {
        example e;
        quantized_conv_problem& p = e.p;
        p.ic = p.oc = p.groups = 3;
        p.kh = round % 3 ? 3 : static_cast<int>(random.between(1, 7)), p.kw = round % 3 ? 3 : static_cast<int>(random.between(1, 7));
        p.sh = p.sw = round % 2 ? 2 : 1;
        p.pt = static_cast<int>(random.between(0, 3)), p.pl = static_cast<int>(random.between(0, 20));
        p.iw = round % 4 ? random.between(8, 40) : random.between(300, 700);
        p.ih = round % 4 ? random.between(350, 600) : random.between(20, 60);
        p.oh = (p.ih + p.pt - p.kh) / p.sh + 1, p.ow = (p.iw + p.pl - p.kw) / p.sw + 1;
        p.x_signed = round % 5 < 2, p.x_zero = static_cast<int>(random.between(0, 255)) - (p.x_signed ? 128 : 0), p.y_zero = 7;
        for (std::int64_t i = 0; i < p.ic * p.ih * p.iw; ++i) e.x.push_back(static_cast<std::uint8_t>(random.between(0, 255)));
        for (int i = 0; i < 3 * p.kh * p.kw; ++i) e.weights.push_back(static_cast<std::int16_t>(random.between(-255, 255)));
        e.scale = {0.002f, 0.0007f, 0.01f};
        e.bias = {-3000, 0, 900};
        INFO("round " << round << ", window " << p.kh << "x" << p.kw << ", " << p.ih << "x" << p.iw << " to " << p.oh << "x" << p.ow << ", left " << p.pl);
        REQUIRE(takes_quantized_conv(p));
        const std::vector<std::uint8_t> wanted = wanted_codes(e);
        kernel_test::on_every_isa([&](isa set) { CHECK(computed_codes(set, e, three) == wanted); });
    }
}

TEST_CASE("cpu quantized: images that are gathered in several rounds") {
    random_source random;
    pool_executor three(3);
    example e;
    quantized_conv_problem& p = e.p;
    p.ic = 400, p.oc = 16, p.ih = p.oh = 31, p.iw = p.ow = 41, p.kh = p.kw = 3, p.pt = p.pl = 1, p.x_zero = 119, p.y_zero = 9;
    for (std::int64_t i = 0; i < p.ic * p.ih * p.iw; ++i) e.x.push_back(static_cast<std::uint8_t>(random.between(0, 255)));
    for (std::int64_t i = 0; i < p.oc * p.ic * 9; ++i) e.weights.push_back(static_cast<std::int16_t>(random.between(-128, 127)));
    e.scale.assign(16, 0.0001f);
    e.bias.assign(16, -700);
    const std::vector<std::uint8_t> wanted = wanted_codes(e);
    kernel_test::on_every_isa([&](isa set) {
        for (const bool winograd : {false, true}) {
            p.winograd = winograd;
            CHECK(computed_codes(set, e, three) == wanted);
        }
    });
}

TEST_CASE("cpu quantized: Winograd's form is for windows of 3 x 3 with steps of one, and for sums that four times as large fit int32") {
    quantized_conv_problem p;
    p.ic = p.oc = 32, p.ih = p.iw = p.oh = p.ow = 8, p.kh = p.kw = 3, p.pt = p.pl = 1;
    CHECK(takes_quantized_winograd(p));
    const auto refuses = [&](void (*change)(quantized_conv_problem&)) {
        quantized_conv_problem changed = p;
        change(changed);
        return !takes_quantized_winograd(changed);
    };
    CHECK(refuses([](quantized_conv_problem& q) { q.bytes = true; }));
    CHECK(refuses([](quantized_conv_problem& q) { q.groups = 32; }));
    CHECK(refuses([](quantized_conv_problem& q) { q.kh = 5; }));
    CHECK(refuses([](quantized_conv_problem& q) { q.sw = 2; }));
    CHECK(refuses([](quantized_conv_problem& q) { q.dh = 2; }));
    CHECK(refuses([](quantized_conv_problem& q) { q.ic = 8; }));
    CHECK(refuses([](quantized_conv_problem& q) { q.ic = 920; }));
    CHECK(refuses([](quantized_conv_problem& q) { q.iw = q.ow = 513; }));
}

TEST_CASE("cpu quantized: what the kernels do not count is refused") {
    quantized_conv_problem p;
    CHECK(takes_quantized_conv(p));
    const auto refuses = [&](void (*change)(quantized_conv_problem&)) {
        quantized_conv_problem changed = p;
        change(changed);
        return !takes_quantized_conv(changed);
    };
    CHECK(refuses([](quantized_conv_problem& q) { q.ic = 5, q.oc = 4, q.groups = 2; }));
    CHECK(refuses([](quantized_conv_problem& q) { q.ic = 4, q.oc = 5, q.groups = 2; }));
    CHECK(refuses([](quantized_conv_problem& q) { q.groups = 0; }));
    CHECK(refuses([](quantized_conv_problem& q) { q.kh = 17, q.kw = 16; }));
    CHECK(refuses([](quantized_conv_problem& q) { q.ic = 16385; }));
    CHECK(refuses([](quantized_conv_problem& q) { q.ic = 2000, q.kh = q.kw = 3; }));
    CHECK(refuses([](quantized_conv_problem& q) { q.sw = 65; }));
    CHECK(refuses([](quantized_conv_problem& q) { q.ic = q.oc = q.groups = 2, q.iw = q.ow = 9000; }));
    CHECK(refuses([](quantized_conv_problem& q) { q.ih = q.iw = q.oh = q.ow = 0; }));
}
