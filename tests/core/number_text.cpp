// Numbers as text under a locale whose point is a comma.
#include "../skipped.hpp"
#include "comma_locale.hpp"

#include <graft/core/json.hpp>
#include <graft/core/number_text.hpp>
#include <graft/gpu/codegen/text.hpp>
#include <graft/train.hpp>

#include <doctest/doctest.h>

#include <cstdio>

using graft::detail::number_text;
using graft::detail::read_number;

TEST_CASE("numbers are written and read with a point in any locale") {
    const comma_locale here;
    if (!here.set) return say_skipped("no locale with a comma can be made here");
    char foreign[16];
    std::snprintf(foreign, sizeof foreign, "%.1f", 2.5);
    REQUIRE(std::string(foreign) == "2,5");

    CHECK(number_text("%a", 1.5) == "0x1.8p+0");
    CHECK(number_text("about %.3f %%", 12.25) == "about 12.250 %");
    CHECK(number_text("%.6g", 3.0) == "3");
    CHECK(graft::detail::shortest_text(0.1, false) == "0.1");
    CHECK(graft::detail::shortest_text(static_cast<double>(0.1f), true) == "0.1");
    const char* end = nullptr;
    for (const char* text : {"0.5 and", "0x1.8p+0 and", "-2.5e-3 and", "7 and", ".25 and"}) {
        CAPTURE(text);
        const double value = read_number(text, &end);
        CHECK(std::string(end) == " and");
        CHECK(value == (text[0] == '0' && text[1] == 'x' ? 1.5 : text[0] == '-' ? -0.0025 : text[0] == '7' ? 7 : text[0] == '.' ? 0.25 : 0.5));
    }
    CHECK(read_number("2,5", &end) == 2);
    CHECK(std::string(end) == ",5");
    for (const double value : {0.1, 1.0 / 3, 1e300, -5e-324, 123456789.25}) CHECK(read_number(number_text("%a", value).c_str()) == value);
}

TEST_CASE("specifications, settings, JSON and kernels' texts are the same in a locale with a comma") {
    const auto texts = [] {
        std::vector<std::string> all;
        auto spec = graft::parse_preprocess("fraction=0.875,crop=64x48,mean=0.485:0.456:0.406,std=0.229:0.224:0.225");
        all.push_back(spec.ok() ? graft::text(*spec) : spec.error().what());
        auto changes = graft::parse_augmentation("random_resized_crop=0.35:1,color_jitter=0.3:0.25:0.5:0.04,mixup=0.2");
        all.push_back(changes.ok() ? graft::text(*changes) : changes.error().what());
        auto rate = graft::parse_schedule("onecycle=0.013:0.3");
        all.push_back(rate.ok() ? graft::text(*rate) : rate.error().what());
        graft::json_writer json;
        all.push_back(json.begin_array().number(0.25).number(1e-7).end_array().text());
        all.push_back(graft::gpu::literal(graft::dtype::float32, 0.1) + graft::gpu::literal(graft::dtype::float64, 1.0 / 3));
        const float numbers[] = {1.5f, -0.125f};
        all.push_back(graft::to_string(graft::tensor::from(numbers, {2})));
        for (const graft::training_setting& s : graft::training_settings()) all.push_back(s.by_default);
        return all;
    };
    const std::vector<std::string> plain = texts();
    const comma_locale here;
    if (!here.set) return say_skipped("no locale with a comma can be made here");
    const std::vector<std::string> foreign = texts();
    REQUIRE(foreign.size() == plain.size());
    for (std::size_t i = 0; i < plain.size(); ++i) CHECK(foreign[i] == plain[i]);
}
