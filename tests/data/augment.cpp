// Augmentations against torchvision: pixels where a parameter is given, moments where it is drawn.
#include "golden_augment.hpp"
#include "pictures.hpp"

#include <graft/data/augment.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <set>

using namespace graft;

namespace {

// The same bytes as `slopes` in scripts/golden/augment.py.
image slopes(int height, int width, int channels) {
    image made = image::make(height, width, channels).value();
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x)
            for (int c = 0; c < channels; ++c) made.row(y)[x * channels + c] = static_cast<std::uint8_t>(30 + (7 * x + 3 * y + 41 * c + x * y % 31) % 190);
    return made;
}

image colours() {
    image made = image::make(52 * 52 * 52, 1, 3).value();
    std::uint8_t* p = made.data();
    for (int r = 0; r < 256; r += 5)
        for (int g = 0; g < 256; g += 5)
            for (int b = 0; b < 256; b += 5) {
                *p++ = static_cast<std::uint8_t>(r);
                *p++ = static_cast<std::uint8_t>(g);
                *p++ = static_cast<std::uint8_t>(b);
            }
    return made;
}

image picture_named(const std::string& name) {
    return name == "noise" ? noise(37, 53, 3) : name == "slopes" ? slopes(40, 40, 3) : name == "gray" ? slopes(31, 45, 1) : colours();
}

result<image> changed(const golden_change& golden, const image& p) {
    const std::string op = golden.op;
    const double* v = golden.parameters;
    if (op == "brightness") return adjust_brightness(p, v[0]);
    if (op == "contrast") return adjust_contrast(p, v[0]);
    if (op == "saturation") return adjust_saturation(p, v[0]);
    if (op == "sharpness") return adjust_sharpness(p, v[0]);
    if (op == "hue") return adjust_hue(p, v[0]);
    if (op == "posterize") return posterize(p, static_cast<int>(v[0]));
    if (op == "solarize") return solarize(p, v[0]);
    if (op == "autocontrast") return autocontrast(p);
    if (op == "equalize") return equalize(p);
    if (op == "invert") return invert(p);
    if (op == "rotate") return rotate(p, v[0], v[1] != 0 ? filter::bilinear : filter::nearest, static_cast<int>(v[2]));
    if (op.compare(0, 12, "resized_crop") == 0) {
        int height = 0, width = 0;
        REQUIRE(std::sscanf(golden.op, "resized_crop %d %d", &height, &width) == 2);
        const crop_box box = {static_cast<std::int64_t>(v[0]), static_cast<std::int64_t>(v[1]), static_cast<std::int64_t>(v[2]),
                              static_cast<std::int64_t>(v[3])};
        const filter kernel = static_cast<filter>(static_cast<int>(v[4]));
        const image made = resized_crop(p, box, height, width, kernel).value();
        const image plain = resize(crop(p, box.top, box.left, box.height, box.width).value(), height, width, kernel).value();
        CHECK(crc_of(made) == crc_of(plain));
        return made;
    }
    REQUIRE(op.compare(0, 6, "policy") == 0);
    auto_augment policy;
    policy.kind = op[7] == '0' ? auto_augment::policy::rand_augment : auto_augment::policy::trivial_augment_wide;
    const auto which = static_cast<augment_op>(static_cast<int>(v[0]));
    CHECK(op.substr(9) == text(which));
    const double magnitude = augment_magnitude(policy, which, static_cast<int>(v[1]), p.height, p.width) * v[2];
    CHECK(magnitude == doctest::Approx(v[3]).epsilon(1e-7));
    return apply(which, p, magnitude, v[4] != 0 ? filter::bilinear : filter::nearest);
}

// Means within five standard errors of torchvision's (both are drawn), deviations within 3 %.
void check_moments(const golden_draw& golden, int count, const std::vector<std::vector<double>>& values) {
    for (int k = 0; k < count; ++k) {
        double sum = 0, squares = 0;
        for (const auto& v : values) sum += v[static_cast<std::size_t>(k)], squares += v[static_cast<std::size_t>(k)] * v[static_cast<std::size_t>(k)];
        const double n = static_cast<double>(values.size()), mean = sum / n, deviation = std::sqrt(squares / n - mean * mean);
        const double* expected = golden.moments[k];
        INFO(std::string(golden.kind), " ", golden.parameters[0], "x", golden.parameters[1], " number ", k);
        CHECK(std::fabs(mean - expected[0]) <= 5 * std::sqrt(expected[2] * expected[2] + expected[1] * expected[1] / n) + 1e-9);
        CHECK(deviation == doctest::Approx(expected[1]).epsilon(0.03));
    }
}

}  // namespace

TEST_CASE("every change gives torchvision's pixels") {
    int n = 0;
    for (const golden_change& golden : golden_changes) {
        const image picture = picture_named(golden.picture);
        const std::uint32_t before = crc_of(picture);
        const image made = changed(golden, picture).value();
        INFO(std::string(golden.op), " of ", std::string(golden.picture), " by ", golden.parameters[0], " ", golden.parameters[1], " ", golden.parameters[2]);
        CHECK(crc_of(made) == golden.crc);
        REQUIRE(crc_of(picture) == before);
        ++n;
    }
    CHECK(n > 500);
}

TEST_CASE("random crops and erased boxes are distributed as torchvision's") {
    for (const golden_draw& golden : golden_draws) {
        const double* p = golden.parameters;
        const std::string kind = golden.kind;
        if (kind == "cutmix") continue;  // in mix.cpp
        const auto height = static_cast<std::int64_t>(p[0]), width = static_cast<std::int64_t>(p[1]);
        const double scale[2] = {p[2], p[3]}, ratio[2] = {p[4], p[5]};
        std::vector<std::vector<double>> values;
        for (int i = 0; i < (kind == "crop" ? 50000 : 20000); ++i) {
            random_sequence random(data_stream(7, random_purpose::sample, 0, i));
            if (kind == "crop") {
                const crop_box box = random_crop_box(height, width, scale, ratio, random);
                REQUIRE((box.top >= 0 && box.left >= 0 && box.top + box.height <= height && box.left + box.width <= width));
                values.push_back({double(box.top), double(box.left), double(box.height), double(box.width)});
                continue;
            }
            augmentation a;
            a.random_erasing = 1;
            std::vector<float> sample(static_cast<std::size_t>(height * width), 1.0f);
            erase(sample.data(), 1, height, width, true, a, random);
            std::int64_t top = height, left = width, bottom = -1, right = -1;
            for (std::int64_t y = 0; y < height; ++y)
                for (std::int64_t x = 0; x < width; ++x) {
                    if (sample[static_cast<std::size_t>(y * width + x)] != 0) continue;
                    top = std::min(top, y), left = std::min(left, x), bottom = std::max(bottom, y), right = std::max(right, x);
                }
            if (bottom >= 0) values.push_back({double(top), double(left), double(bottom - top + 1), double(right - left + 1)});
        }
        check_moments(golden, 4, values);
    }
}

TEST_CASE("erasing touches the same box in every channel and in either layout") {
    augmentation a;
    a.random_erasing = 1;
    std::vector<float> planar(3 * 20 * 30, 5.0f), interleaved = planar;
    random_sequence first(data_stream(1, random_purpose::sample, 0, 3)), second(data_stream(1, random_purpose::sample, 0, 3));
    erase(planar.data(), 3, 20, 30, true, a, first);
    erase(interleaved.data(), 3, 20, 30, false, a, second);
    int erased = 0;
    for (int i = 0; i < 600; ++i)
        for (int c = 0; c < 3; ++c) {
            erased += planar[static_cast<std::size_t>(c * 600 + i)] == 0;
            CHECK(planar[static_cast<std::size_t>(c * 600 + i)] == interleaved[static_cast<std::size_t>(i * 3 + c)]);
        }
    CHECK(erased > 0);
    CHECK(erased % 3 == 0);
    a.erasing_noise = true;
    random_sequence third(data_stream(1, random_purpose::sample, 0, 3));
    erase(planar.data(), 3, 20, 30, true, a, third);
    std::set<float> values(planar.begin(), planar.end());
    CHECK(values.size() == static_cast<std::size_t>(erased + 1));
}

TEST_CASE("flips and jitter happen as often as they are asked for") {
    augmentation a;
    a.horizontal_flip = 0.25;
    a.vertical_flip = 0.5;
    a.grayscale = 0.1;
    const image picture = noise(4, 5, 3);
    const image across = flip_horizontal(picture).value(), down = flip_vertical(picture).value();
    CHECK(down.row(3)[2] == picture.row(0)[2]);
    CHECK(across.row(1)[0] == picture.row(1)[12]);
    int plain = 0, horizontal = 0, vertical = 0, both = 0, gray = 0;
    const int n = 20000;
    for (int i = 0; i < n; ++i) {
        random_sequence random(data_stream(3, random_purpose::sample, 1, i));
        const image made = augment_pixels(picture, a, random).value();
        const std::uint32_t crc = crc_of(made);
        plain += crc == crc_of(picture);
        horizontal += crc == crc_of(across);
        vertical += crc == crc_of(down);
        both += crc == crc_of(orient(picture, 3).value());
        gray += made.data()[0] == made.data()[1] && made.data()[1] == made.data()[2];
    }
    CHECK(std::fabs(gray - 0.1 * n) < 5 * std::sqrt(0.09 * n));
    CHECK(plain + horizontal + vertical + both + gray == n);
    CHECK(std::fabs(horizontal - 0.25 * 0.5 * 0.9 * n) < 5 * std::sqrt(0.1 * n));
    CHECK(std::fabs(both - 0.25 * 0.5 * 0.9 * n) < 5 * std::sqrt(0.1 * n));
    CHECK(std::fabs(plain - 0.75 * 0.5 * 0.9 * n) < 5 * std::sqrt(0.22 * n));

    // Jitter of brightness alone on a flat picture: the factor can be read off, and is uniform.
    image flat = image::make(1, 1, 1).value();
    flat.data()[0] = 100;
    double sum = 0;
    int least = 255, most = 0;
    for (int i = 0; i < n; ++i) {
        random_sequence random(data_stream(4, random_purpose::sample, 0, i));
        const int v = color_jitter(flat, 0.4, 0, 0, 0, random).value().data()[0];
        sum += v, least = std::min(least, v), most = std::max(most, v);
    }
    CHECK(sum / n == doctest::Approx(99.5).epsilon(0.01));
    CHECK(least == 60);
    CHECK((most == 139 || most == 140));
}

TEST_CASE("an augmentation depends on seed, epoch and index, and on nothing else") {
    const augmentation a = parse_augmentation("random_resized_crop,random_horizontal_flip,color_jitter=0.4:0.4:0.4:0.1,random_rotation=30").value();
    const image picture = noise(16, 16, 3);
    const auto once = [&](std::uint64_t seed, std::int64_t epoch, std::int64_t index) {
        random_sequence random(data_stream(seed, random_purpose::sample, epoch, index));
        return crc_of(augment_pixels(picture, a, random).value());
    };
    CHECK(once(1, 2, 3) == once(1, 2, 3));
    CHECK(once(1, 2, 3) != once(2, 2, 3));
    CHECK(once(1, 2, 3) != once(1, 3, 3));
    CHECK(once(1, 2, 3) != once(1, 2, 4));
}

TEST_CASE("policies draw every operation") {
    const image picture = slopes(40, 40, 3);
    for (const char* spec : {"trivial_augment_wide", "rand_augment", "rand_augment=1:14:31"}) {
        const augmentation a = parse_augmentation(spec).value();
        std::set<std::uint32_t> seen;
        for (int i = 0; i < 300; ++i) {
            random_sequence random(data_stream(5, random_purpose::sample, 0, i));
            seen.insert(crc_of(augment_pixels(picture, a, random).value()));
        }
        INFO(std::string(spec), ": ", seen.size());
        CHECK(seen.size() >= (a.policy.num_ops == 1 ? 14u : 100u));
    }
}

TEST_CASE("a crop far from every allowed ratio is still inside the picture") {
    const double scale[2] = {0.9, 1}, ratio[2] = {50, 100};
    for (std::int64_t height : {1, 2, 500})
        for (std::int64_t width : {1, 2, 500}) {
            random_sequence random(data_stream(0, random_purpose::sample, 0, height * 1000 + width));
            const crop_box box = random_crop_box(height, width, scale, ratio, random);
            CHECK((box.height >= 1 && box.width >= 1 && box.top >= 0 && box.left >= 0));
            CHECK((box.top + box.height <= height && box.left + box.width <= width));
        }
}
