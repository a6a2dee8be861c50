// Colours of even steps, and maps laid over pictures.
#include <doctest/doctest.h>
#include <graft/train/heat_map.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

// The lightness L* of CIELAB, from the sRGB standard's luminance.
double lightness(const std::uint8_t rgb[3]) {
    const auto linear = [](std::uint8_t b) {
        const double v = b / 255.0;
        return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
    };
    const double y = 0.2126 * linear(rgb[0]) + 0.7152 * linear(rgb[1]) + 0.0722 * linear(rgb[2]);
    return 116 * std::cbrt(y) - 16;
}

graft::image even(std::int64_t height, std::int64_t width, int channels, std::uint8_t value) {
    graft::image made = graft::image::make(height, width, channels).value();
    for (std::int64_t i = 0; i < made.bytes(); ++i) made.data()[i] = value;
    return made;
}

}  // namespace

TEST_CASE("Heat grows lighter evenly, by the lightness of CIELAB") {
    double last = -1, least = 100, most = 0;
    for (int i = 0; i <= 20; ++i) {
        std::uint8_t rgb[3];
        graft::heat_color(i / 20.0, rgb);
        const double l = lightness(rgb);
        CHECK(l > last);
        if (i > 1) least = std::fmin(least, l - last), most = std::fmax(most, l - last);
        last = l;
    }
    CHECK(least > 2);
    CHECK(most < 7);
    std::uint8_t low[3], high[3];
    graft::heat_color(std::numeric_limits<double>::quiet_NaN(), low);
    graft::heat_color(0, high);
    CHECK(low[0] == high[0]);
    graft::heat_color(7, low);
    graft::heat_color(1, high);
    CHECK(low[2] == high[2]);
}

TEST_CASE("A map colours the picture where it is large and leaves it gray where it is small") {
    const graft::image picture = even(8, 12, 3, 100);
    const float map[] = {0, 1};
    const graft::image out = graft::overlay_heat_map(picture, map, 1, 2, 1).value();
    CHECK(out.height == 8);
    CHECK(out.width == 12);
    std::uint8_t hottest[3];
    graft::heat_color(1, hottest);
    for (int c = 0; c < 3; ++c) {
        CHECK(out.row(3)[c] == 100);
        CHECK(out.row(3)[11 * 3 + c] == hottest[c]);
    }
    const float flat[] = {4, 4, 4, std::numeric_limits<float>::quiet_NaN()};
    const graft::image none = graft::overlay_heat_map(even(3, 3, 1, 50), flat, 2, 2).value();
    CHECK(none.channels == 3);
    for (std::int64_t i = 0; i < none.bytes(); ++i) CHECK(none.data()[i] == 50);
    CHECK(!graft::overlay_heat_map(graft::image(), map, 1, 2).ok());
    CHECK(!graft::overlay_heat_map(picture, map, 0, 2).ok());
}
