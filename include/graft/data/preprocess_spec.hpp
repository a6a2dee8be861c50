// The text form of preprocessing: "crop=224,fraction=0.875,imagenet" to a specification and back.
#pragma once

#include "../core/dtype.hpp"
#include "../core/number_text.hpp"
#include "resize.hpp"

#include <string>

GRAFT_BEGIN_NAMESPACE

/// How a picture becomes a tensor. Default: everything by the model, resized so that 0.875 of it is cropped, values 0..255.
struct preprocess_spec {
    enum class size_rule { fraction, shorter, exact, none };
    enum class crop_rule { model, exact, none };
    enum class channels { model, rgb, bgr, gray };
    enum class axes { model, nchw, nhwc };

    size_rule resize = size_rule::fraction;
    std::int64_t resize_height = 0, resize_width = 0;  ///< pixels; both the same number for `shorter`
    double fraction = 0.875;                           ///< of the resized picture's shorter side that the crop takes
    crop_rule crop = crop_rule::model;
    std::int64_t crop_height = 0, crop_width = 0;  ///< pixels
    filter kernel = filter::bilinear;
    channels order = channels::model;
    int mean_count = 1, std_count = 1;  ///< 1: one value for all channels; 3: one for each
    float mean[3] = {0, 0, 0};          ///< subtracted; in the order of the output's channels, for pixels of 0..255
    float std[3] = {1, 1, 1};           ///< divided by, or multiplied by where `multiply` says so
    bool multiply = false;              ///< whether `std` holds factors (`scale=`)
    axes layout = axes::model;
    dtype type = dtype::undefined;  ///< undefined: the model's
};

/// Reads a specification: items `NAME` or `KEY=VALUE`, separated by commas; later ones win. Names: imagenet, unit, signed, raw,
/// caffe. Keys: resize, fraction, crop, filter, order, mean, std, scale, layout, dtype. Errors: usage.preprocess, naming the
/// item.
result<preprocess_spec> parse_preprocess(const std::string& spec);
/// The text that `parse_preprocess` reads back to the same specification; keys that are left to the model are left out.
std::string text(const preprocess_spec& spec);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// A decimal number with an optional exponent, nothing before or behind it; locales have no say.
inline bool read_decimal(const char* begin, const char* end, double& value) {
    const char* p = begin;
    int digits = 0;
    const auto skip_digits = [&p, end, &digits] {
        for (; p < end && *p >= '0' && *p <= '9'; ++p) ++digits;
    };
    if (p < end && (*p == '-' || *p == '+')) ++p;
    const char* magnitude = p;
    skip_digits();
    if (p < end && *p == '.') {
        ++p;
        skip_digits();
    }
    if (!digits || end - begin > 64) return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        ++p;
        if (p < end && (*p == '-' || *p == '+')) ++p;
        digits = 0;
        skip_digits();
        if (!digits) return false;
    }
    if (p != end) return false;
#if defined(__cpp_lib_to_chars) && __cpp_lib_to_chars >= 201611L
    const auto read = std::from_chars(magnitude, end, value);
    if (read.ec != std::errc()) return false;
#else
    const std::string copy(magnitude, end);
    const char* stop = nullptr;
    value = read_number(copy.c_str(), &stop);
    if (*stop) return false;
#endif
    if (*begin == '-') value = -value;
    return std::isfinite(value);
}

struct word {
    const char* text;
    int value;
};

inline const word* preprocess_words(const std::string& key) {
    using spec = preprocess_spec;
    static constexpr word filters[] = {{"nearest", int(filter::nearest)},
                                       {"box", int(filter::box)},
                                       {"bilinear", int(filter::bilinear)},
                                       {"hamming", int(filter::hamming)},
                                       {"bicubic", int(filter::bicubic)},
                                       {"lanczos", int(filter::lanczos)},
                                       {nullptr, 0}};
    static constexpr word orders[] = {{"rgb", int(spec::channels::rgb)}, {"bgr", int(spec::channels::bgr)}, {"gray", int(spec::channels::gray)}, {nullptr, 0}};
    static constexpr word layouts[] = {{"nchw", int(spec::axes::nchw)}, {"nhwc", int(spec::axes::nhwc)}, {nullptr, 0}};
    static constexpr word types[] = {
        {"float32", int(dtype::float32)}, {"float16", int(dtype::float16)}, {"uint8", int(dtype::uint8)}, {"int8", int(dtype::int8)}, {nullptr, 0}};
    return key == "filter" ? filters : key == "order" ? orders : key == "layout" ? layouts : key == "dtype" ? types : nullptr;
}

// "N" or "HxW", each in 1..16384.
inline bool read_size(const std::string& value, std::int64_t& height, std::int64_t& width, bool& both) {
    std::int64_t sides[2] = {0, 0};
    int n = 0, digits = 0;
    for (char c : value) {
        if (c == 'x' && n == 0 && digits) {
            n = 1;
            digits = 0;
        } else if (c >= '0' && c <= '9' && ++digits <= 5)
            sides[n] = sides[n] * 10 + (c - '0');
        else
            return false;
    }
    both = n == 1;
    height = sides[0];
    width = both ? sides[1] : sides[0];
    return digits && height >= 1 && width >= 1 && height <= 16384 && width <= 16384;
}

// One number or three, separated by colons; as floats they are finite, and not zero where that is asked for.
inline bool read_list(const std::string& value, float* out, int& count, bool zero_allowed) {
    count = 0;
    for (std::size_t at = 0;;) {
        std::size_t end = value.find(':', at);
        if (end == std::string::npos) end = value.size();
        double number = 0;
        if (count == 3 || !read_decimal(value.data() + at, value.data() + end, number) || std::fabs(number) > 3e38) return false;
        out[count] = static_cast<float>(number);
        if (!zero_allowed && out[count] == 0) return false;
        ++count;
        if (end == value.size()) break;
        at = end + 1;
    }
    if (count == 1) out[1] = out[2] = out[0];
    return count != 2;
}

inline bool apply_preprocess_pair(const std::string& key, const std::string& value, preprocess_spec& spec) {
    bool both = false;
    if (key == "resize" || key == "crop") {
        std::int64_t height = 0, width = 0;
        if (value != "none" && !read_size(value, height, width, both)) return false;
        if (key == "resize") {
            spec.resize = value == "none" ? preprocess_spec::size_rule::none : both ? preprocess_spec::size_rule::exact : preprocess_spec::size_rule::shorter;
            spec.resize_height = height;
            spec.resize_width = width;
        } else {
            spec.crop = value == "none" ? preprocess_spec::crop_rule::none : preprocess_spec::crop_rule::exact;
            spec.crop_height = height;
            spec.crop_width = width;
        }
        return true;
    }
    if (key == "fraction") {
        spec.resize = preprocess_spec::size_rule::fraction;
        spec.resize_height = spec.resize_width = 0;
        return read_decimal(value.data(), value.data() + value.size(), spec.fraction) && spec.fraction > 0 && spec.fraction <= 1;
    }
    if (key == "mean") return read_list(value, spec.mean, spec.mean_count, true);
    if (key == "std" || key == "scale") {
        spec.multiply = key == "scale";
        return read_list(value, spec.std, spec.std_count, spec.multiply);
    }
    const word* words = preprocess_words(key);
    while (words && words->text && value != words->text) ++words;
    if (!words || !words->text) return false;
    if (key == "filter") spec.kernel = static_cast<filter>(words->value);
    if (key == "order") spec.order = static_cast<preprocess_spec::channels>(words->value);
    if (key == "layout") spec.layout = static_cast<preprocess_spec::axes>(words->value);
    if (key == "dtype") spec.type = static_cast<dtype>(words->value);
    return true;
}

inline const char* preprocess_named(const std::string& name) {
    static constexpr const char* named[][2] = {
        {"imagenet", "fraction=0.875,order=rgb,mean=123.675:116.28:103.53,std=58.395:57.12:57.375"},
        {"unit", "mean=0,std=255"},
        {"signed", "mean=127.5,std=127.5"},
        {"raw", "mean=0,std=1"},
        {"caffe", "order=bgr,mean=103.939:116.779:123.68,std=1"},
    };
    for (const auto& pair : named)
        if (name == pair[0]) return pair[1];
    return nullptr;
}

inline status apply_preprocess(const std::string& items, preprocess_spec& spec, bool names) {
    for (std::size_t at = 0;;) {
        std::size_t end = items.find(',', at);
        if (end == std::string::npos) end = items.size();
        const std::string item = items.substr(at, end - at);
        const std::size_t equals = item.find('=');
        const char* named = names && equals == std::string::npos ? preprocess_named(item) : nullptr;
        if (named)
            GRAFT_TRY(apply_preprocess(named, spec, false));
        else if (equals == std::string::npos || !apply_preprocess_pair(item.substr(0, equals), item.substr(equals + 1), spec))
            return fail(errc::usage_preprocess, item.empty() ? "empty item" : item,
                        "not an item; known are imagenet, unit, signed, raw, caffe, resize=N|HxW|none, fraction=0..1, "
                        "crop=N|HxW|none, filter=, order=rgb|bgr|gray, "
                        "mean=, std= (not 0) and scale= with a number or three, as 0.485:0.456:0.406, layout=nchw|nhwc, dtype=float32|float16|uint8|int8, "
                        "separated by commas");
        if (end == items.size()) return {};
        at = end + 1;
    }
}

inline std::string size_text(std::int64_t height, std::int64_t width) { return std::to_string(height) + "x" + std::to_string(width); }

inline std::string list_text(const float* values, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += (i ? ":" : "") + shortest_text(static_cast<double>(values[i]), true);
    return out;
}

inline std::string word_text(const char* key, int value) {
    for (const word* w = preprocess_words(key); w->text; ++w)
        if (w->value == value) return std::string(",") + key + "=" + w->text;
    return "";
}

}  // namespace detail

GRAFT_INLINE result<preprocess_spec> parse_preprocess(const std::string& spec) GRAFT_MEMORY_TRY {
    preprocess_spec parsed;
    GRAFT_TRY(detail::apply_preprocess(spec, parsed, true));
    return parsed;
}
GRAFT_MEMORY_CATCH("parse_preprocess")

GRAFT_INLINE std::string text(const preprocess_spec& spec) {
    using rule = preprocess_spec::size_rule;
    std::string out;
    if (spec.resize == rule::fraction) out = "fraction=" + detail::shortest_text(spec.fraction, false);
    if (spec.resize == rule::shorter) out = "resize=" + std::to_string(spec.resize_height);
    if (spec.resize == rule::exact) out = "resize=" + detail::size_text(spec.resize_height, spec.resize_width);
    if (spec.resize == rule::none) out = "resize=none";
    if (spec.crop == preprocess_spec::crop_rule::exact) out += ",crop=" + detail::size_text(spec.crop_height, spec.crop_width);
    if (spec.crop == preprocess_spec::crop_rule::none) out += ",crop=none";
    out += detail::word_text("filter", static_cast<int>(spec.kernel)) + detail::word_text("order", static_cast<int>(spec.order));
    out += ",mean=" + detail::list_text(spec.mean, spec.mean_count) + (spec.multiply ? ",scale=" : ",std=") + detail::list_text(spec.std, spec.std_count);
    return out + detail::word_text("layout", static_cast<int>(spec.layout)) + detail::word_text("dtype", static_cast<int>(spec.type));
}

GRAFT_END_NAMESPACE
#endif
