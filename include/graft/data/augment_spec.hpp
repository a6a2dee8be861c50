// Which random changes are made to training pictures, as text and back: "random_resized_crop=0.35:1,random_horizontal_flip".
#pragma once

#include "auto_augment.hpp"

#include <string>

GRAFT_BEGIN_NAMESPACE

/// What is changed at random, in the order in which it is done. Default: nothing.
struct augmentation {
    /// RandomResizedCrop: a part with a share of the area within `scale` and a width to height within `ratio`. Without it the
    /// picture is prepared as for evaluation.
    bool random_resized_crop = false;
    double scale[2] = {0.08, 1.0}, ratio[2] = {3.0 / 4.0, 4.0 / 3.0};
    double horizontal_flip = 0, vertical_flip = 0; ///< probabilities
    double rotation[2] = {0, 0};                   ///< degrees, from and to
    auto_augment policy;
    /// ColorJitter: factors from max(0, 1 - v) to 1 + v, hue from -v to v, in random order.
    double brightness = 0, contrast = 0, saturation = 0, hue = 0;
    double grayscale = 0;                   ///< probability
    filter interpolation = filter::nearest; ///< of rotations, shears and translations: nearest or bilinear
    int fill = 0;                           ///< of corners that come in, 0..255
    /// RandomErasing, after normalisation: probability, share of the area, height to width, and the value, or normal noise.
    double random_erasing = 0;
    double erasing_scale[2] = {0.02, 0.33}, erasing_ratio[2] = {0.3, 3.3};
    double erasing_value = 0;
    bool erasing_noise = false;
    /// MixUp and CutMix of whole batches: Beta(alpha, alpha); 0 for none. With both, each batch draws one of them.
    double mixup = 0, cutmix = 0;
};

/// What `finetune` and `train` do unless they are told: random crops of at least 0.35 of the area, and horizontal flips.
augmentation default_augmentation();

/// Reads a specification: items `NAME` or `KEY=VALUE[:VALUE...]`, separated by commas; later ones win. `none` forgets what came
/// before, `default` stands for `text(default_augmentation())`. Keys: random_resized_crop, random_horizontal_flip,
/// random_vertical_flip, random_rotation, random_erasing, random_grayscale (`random_` may be left out), color_jitter,
/// rand_augment, trivial_augment_wide, mixup, cutmix, interpolation, fill, erasing_value. Errors: usage, naming the item.
result<augmentation> parse_augmentation(const std::string& spec);
/// The text that `parse_augmentation` reads back to the same augmentation; "none" where nothing is changed.
std::string text(const augmentation& augment);
/// Whether anything random is done to single pictures or batches.
bool is_random(const augmentation& augment) noexcept;

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "preprocess_spec.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// "0.08:1": up to six numbers.
inline bool read_numbers(const std::string& value, double (&out)[6], int& count) {
    count = 0;
    for (std::size_t at = 0;;) {
        std::size_t end = value.find(':', at);
        if (end == std::string::npos) end = value.size();
        if (count == 6 || !read_decimal(value.data() + at, value.data() + end, out[count])) return false;
        ++count;
        if (end == value.size()) return true;
        at = end + 1;
    }
}

inline bool set_probability(double value, int count, double& out) {
    out = value;
    return count == 1 && value >= 0 && value <= 1;
}

// SMIN:SMAX or SMIN:SMAX:RMIN:RMAX.
inline bool set_box(const double* values, int count, double (&scale)[2], double (&ratio)[2]) {
    if (count != 2 && count != 4) return false;
    for (int i = 0; i < 2; ++i) {
        scale[i] = values[i];
        if (count == 4) ratio[i] = values[2 + i];
    }
    return scale[0] > 0 && scale[0] <= scale[1] && scale[1] <= 1 && ratio[0] >= 0.01 && ratio[0] <= ratio[1] && ratio[1] <= 100;
}

inline bool set_policy(auto_augment& policy, auto_augment::policy kind, const double* values, int count) {
    policy = {};
    policy.kind = kind;
    const bool wide = kind == auto_augment::policy::trivial_augment_wide;
    for (int i = 0; i < count; ++i)
        if (values[i] != std::floor(values[i]) || values[i] < 0 || values[i] > 1000) return false;
    if (wide) {
        if (count == 1) policy.num_magnitude_bins = static_cast<int>(values[0]);
        return count <= 1 && policy.num_magnitude_bins >= 2;
    }
    if (count >= 1) policy.num_ops = static_cast<int>(values[0]);
    if (count >= 2) policy.magnitude = static_cast<int>(values[1]);
    if (count >= 3) policy.num_magnitude_bins = static_cast<int>(values[2]);
    return count <= 3 && policy.num_ops >= 1 && policy.num_ops <= 20 && policy.num_magnitude_bins >= 2 &&
           policy.magnitude < policy.num_magnitude_bins;
}

inline bool set_rotation(const double* values, int count, double (&out)[2]) {
    out[0] = count == 2 ? values[0] : -values[0];
    out[1] = count == 2 ? values[1] : values[0];
    return (count == 1 || count == 2) && out[0] <= out[1] && std::fabs(out[0]) <= 3600 && std::fabs(out[1]) <= 3600;
}

inline bool set_jitter(const double* values, int count, augmentation& a) {
    double* to[4] = {&a.brightness, &a.contrast, &a.saturation, &a.hue};
    for (int i = 0; i < 4; ++i) {
        *to[i] = i < count ? values[i] : 0;
        if (*to[i] < 0 || *to[i] > (i == 3 ? 0.5 : 100)) return false;
    }
    return count <= 4;
}

inline bool apply_augmentation_pair(std::string key, const std::string& value, augmentation& a) {
    if (key.compare(0, 7, "random_") == 0) key.erase(0, 7);
    if (key == "interpolation") {
        a.interpolation = value == "bilinear" ? filter::bilinear : filter::nearest;
        return value == "bilinear" || value == "nearest";
    }
    if (key == "erasing_value") {
        a.erasing_noise = value == "random";
        if (a.erasing_noise) return true;
    }
    double v[6] = {};
    int count = 0;
    if (!read_numbers(value, v, count)) return false;
    if (key == "resized_crop") return set_box(v, count, a.scale, a.ratio) && (a.random_resized_crop = true);
    if (key == "horizontal_flip") return set_probability(v[0], count, a.horizontal_flip);
    if (key == "vertical_flip") return set_probability(v[0], count, a.vertical_flip);
    if (key == "grayscale") return set_probability(v[0], count, a.grayscale);
    if (key == "rotation") return set_rotation(v, count, a.rotation);
    if (key == "color_jitter") return set_jitter(v, count, a);
    if (key == "trivial_augment_wide") return set_policy(a.policy, auto_augment::policy::trivial_augment_wide, v, count);
    if (key == "rand_augment") return set_policy(a.policy, auto_augment::policy::rand_augment, v, count);
    if (key == "erasing")
        return set_probability(v[0], 1, a.random_erasing) &&
               (count == 1 || set_box(v + 1, count - 1, a.erasing_scale, a.erasing_ratio));
    if (key == "erasing_value") return (a.erasing_value = v[0], count == 1 && std::fabs(v[0]) <= 3e38);
    if (key == "fill") return (a.fill = static_cast<int>(v[0] >= 0 && v[0] <= 255 ? v[0] : 0), count == 1 && a.fill == v[0]);
    if (key == "mixup") return (a.mixup = v[0], count == 1 && v[0] >= 0 && v[0] <= 1000);
    if (key == "cutmix") return (a.cutmix = v[0], count == 1 && v[0] >= 0 && v[0] <= 1000);
    return false;
}

// Names that stand alone: each with torchvision's defaults.
inline bool apply_augmentation_name(std::string name, augmentation& a) {
    if (name == "none") a = {};
    if (name == "default") a = default_augmentation();
    if (name == "none" || name == "default") return true;
    if (name.compare(0, 7, "random_") == 0) name.erase(0, 7);
    const augmentation usual;
    if (name == "resized_crop") return apply_augmentation_pair(name, "0.08:1:0.75:" + shortest_text(usual.ratio[1], false), a);
    if (name == "horizontal_flip" || name == "vertical_flip" || name == "erasing") return apply_augmentation_pair(name, "0.5", a);
    if (name == "grayscale") return apply_augmentation_pair(name, "0.1", a);
    if (name == "trivial_augment_wide") return apply_augmentation_pair(name, "31", a);
    if (name == "rand_augment") return apply_augmentation_pair(name, "2", a);
    if (name == "mixup" || name == "cutmix") return apply_augmentation_pair(name, "1", a);
    return false;
}

inline std::string numbers_text(const double* values, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += (i ? ":" : "") + shortest_text(values[i], false);
    return out;
}

} // namespace detail

GRAFT_INLINE augmentation default_augmentation() {
    augmentation a;
    a.random_resized_crop = true;
    a.scale[0] = 0.35;
    a.horizontal_flip = 0.5;
    return a;
}

GRAFT_INLINE result<augmentation> parse_augmentation(const std::string& spec) GRAFT_MEMORY_TRY {
    augmentation parsed;
    for (std::size_t at = 0;;) {
        std::size_t end = spec.find(',', at);
        if (end == std::string::npos) end = spec.size();
        const std::string item = spec.substr(at, end - at);
        const std::size_t equals = item.find('=');
        if (!(equals == std::string::npos
                  ? detail::apply_augmentation_name(item, parsed)
                  : detail::apply_augmentation_pair(item.substr(0, equals), item.substr(equals + 1), parsed)))
            return fail(errc::usage, item.empty() ? "empty item" : item,
                        "not an augmentation; known are none, default, random_resized_crop=MIN:MAX[:RMIN:RMAX], "
                        "random_horizontal_flip=P, "
                        "random_vertical_flip=P, random_rotation=DEGREES|FROM:TO, color_jitter=B:C:S:H, random_grayscale=P, "
                        "rand_augment=OPS:MAGNITUDE[:BINS], trivial_augment_wide[=BINS], random_erasing=P[:MIN:MAX[:RMIN:RMAX]], "
                        "erasing_value=NUMBER|random, mixup=ALPHA, cutmix=ALPHA, interpolation=nearest|bilinear, fill=0..255, "
                        "separated by commas");
        if (end == spec.size()) return parsed;
        at = end + 1;
    }
}
GRAFT_MEMORY_CATCH("parse_augmentation")

GRAFT_INLINE std::string text(const augmentation& a) {
    std::string out;
    const auto add = [&out](const char* key, const std::string& value) {
        out += (out.empty() ? "" : ",") + std::string(key) + "=" + value;
    };
    const auto add_number = [&add](const char* key, double value, double usual) {
        if (value != usual) add(key, detail::shortest_text(value, false));
    };
    const auto box = [](const double(&scale)[2], const double(&ratio)[2]) {
        return detail::numbers_text(scale, 2) + ":" + detail::numbers_text(ratio, 2);
    };
    if (a.random_resized_crop) add("random_resized_crop", box(a.scale, a.ratio));
    add_number("random_horizontal_flip", a.horizontal_flip, 0);
    add_number("random_vertical_flip", a.vertical_flip, 0);
    if (a.rotation[0] != 0 || a.rotation[1] != 0) add("random_rotation", detail::numbers_text(a.rotation, 2));
    const std::string bins = std::to_string(a.policy.num_magnitude_bins);
    if (a.policy.kind == auto_augment::policy::trivial_augment_wide) add("trivial_augment_wide", bins);
    if (a.policy.kind == auto_augment::policy::rand_augment)
        add("rand_augment", std::to_string(a.policy.num_ops) + ":" + std::to_string(a.policy.magnitude) + ":" + bins);
    const double jitter[4] = {a.brightness, a.contrast, a.saturation, a.hue};
    if (jitter[0] != 0 || jitter[1] != 0 || jitter[2] != 0 || jitter[3] != 0)
        add("color_jitter", detail::numbers_text(jitter, 4));
    add_number("random_grayscale", a.grayscale, 0);
    if (a.interpolation == filter::bilinear) add("interpolation", "bilinear");
    add_number("fill", a.fill, 0);
    if (a.random_erasing != 0)
        add("random_erasing", detail::shortest_text(a.random_erasing, false) + ":" + box(a.erasing_scale, a.erasing_ratio));
    if (a.erasing_noise)
        add("erasing_value", "random");
    else
        add_number("erasing_value", a.erasing_value, 0);
    add_number("mixup", a.mixup, 0);
    add_number("cutmix", a.cutmix, 0);
    return out.empty() ? "none" : out;
}

GRAFT_INLINE bool is_random(const augmentation& a) noexcept {
    return a.random_resized_crop || a.horizontal_flip > 0 || a.vertical_flip > 0 || a.rotation[0] != 0 || a.rotation[1] != 0 ||
           a.policy.kind != auto_augment::policy::none || a.brightness > 0 || a.contrast > 0 || a.saturation > 0 || a.hue > 0 ||
           a.grayscale > 0 || a.random_erasing > 0 || a.mixup > 0 || a.cutmix > 0;
}

GRAFT_END_NAMESPACE
#endif
