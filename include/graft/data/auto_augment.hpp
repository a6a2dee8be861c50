// The operations of RandAugment and TrivialAugment with torchvision's magnitudes.
#pragma once

#include "augment_color.hpp"
#include "augment_geometry.hpp"
#include "sampler.hpp"

GRAFT_BEGIN_NAMESPACE

/// The operations that both policies draw from, in torchvision's order.
enum class augment_op {
    identity,
    shear_x,
    shear_y,
    translate_x,
    translate_y,
    rotate,
    brightness,
    color,
    contrast,
    sharpness,
    posterize,
    solarize,
    autocontrast,
    equalize
};
constexpr int augment_ops = 14;

/// torchvision's name of the operation, "ShearX" and so on. Static storage.
const char* text(augment_op op) noexcept;

/// A policy: RandAugment (Cubuk et al. 2019) applies `num_ops` operations of one magnitude, TrivialAugmentWide (Müller and Hutter
/// 2021) one of a random magnitude.
struct auto_augment {
    enum class policy { none, rand_augment, trivial_augment_wide };
    policy kind = policy::none;
    int num_ops = 2;
    int magnitude = 9;  ///< of RandAugment; 0 <= magnitude < num_magnitude_bins
    int num_magnitude_bins = 31;
};

/// The magnitude at `bin` of the policy's scale, before its sign is drawn, as torchvision has it in float32; 0 for operations
/// without one. RandAugment's translations grow with the picture.
double augment_magnitude(const auto_augment& policy, augment_op op, int bin, std::int64_t height, std::int64_t width);
/// Whether a policy may turn the magnitude's sign.
bool augment_is_signed(augment_op op) noexcept;

/// One operation with its magnitude, as torchvision's `_apply_op`.
result<image> apply(augment_op op, const image& picture, double magnitude, filter kernel = filter::nearest, int fill = 0);
/// The policy with random numbers drawn from `random`.
result<image> apply(const auto_augment& policy, const image& picture, random_sequence& random, filter kernel = filter::nearest, int fill = 0);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE
namespace detail {

// torch.linspace in float32: counted from the nearer end.
inline double linspace(double first, double last, int steps, int i) noexcept {
    const float from = static_cast<float>(first), to = static_cast<float>(last);
    if (steps == 1) return static_cast<double>(from);
    const float step = (to - from) / static_cast<float>(steps - 1);
    return static_cast<double>(i < steps / 2 ? from + step * static_cast<float>(i) : to - step * static_cast<float>(steps - 1 - i));
}

}  // namespace detail

GRAFT_INLINE const char* text(augment_op op) noexcept {
    static constexpr const char* names[] = {"Identity", "ShearX",   "ShearY",    "TranslateX", "TranslateY", "Rotate",       "Brightness",
                                            "Color",    "Contrast", "Sharpness", "Posterize",  "Solarize",   "AutoContrast", "Equalize"};
    return names[static_cast<int>(op)];
}

GRAFT_INLINE bool augment_is_signed(augment_op op) noexcept { return op >= augment_op::shear_x && op <= augment_op::sharpness; }

GRAFT_INLINE double augment_magnitude(const auto_augment& policy, augment_op op, int bin, std::int64_t height, std::int64_t width) {
    const bool wide = policy.kind == auto_augment::policy::trivial_augment_wide;
    const int bins = policy.num_magnitude_bins;
    const auto scale = [bins, bin](double first, double last) { return detail::linspace(first, last, bins, bin); };
    switch (op) {
    case augment_op::shear_x:
    case augment_op::shear_y: return scale(0, wide ? 0.99 : 0.3);
    case augment_op::translate_x: return scale(0, wide ? 32.0 : 150.0 / 331.0 * static_cast<double>(width));
    case augment_op::translate_y: return scale(0, wide ? 32.0 : 150.0 / 331.0 * static_cast<double>(height));
    case augment_op::rotate: return scale(0, wide ? 135 : 30);
    case augment_op::brightness:
    case augment_op::color:
    case augment_op::contrast:
    case augment_op::sharpness: return scale(0, wide ? 0.99 : 0.9);
    case augment_op::posterize: {
        const double levels = (bins - 1) / (wide ? 6.0 : 4.0);
        return bins == 1 ? 8 : 8 - std::nearbyint(static_cast<double>(static_cast<float>(bin) / static_cast<float>(levels)));
    }
    case augment_op::solarize: return scale(255, 0);
    default: return 0;
    }
}

GRAFT_INLINE result<image> apply(augment_op op, const image& picture, double magnitude, filter kernel, int fill) GRAFT_MEMORY_TRY {
    const auto shear = [magnitude] { return std::atan(magnitude) * 180 / 3.14159265358979323846; };
    const double x = static_cast<double>(picture.width) * 0.5, y = static_cast<double>(picture.height) * 0.5;
    switch (op) {
    case augment_op::shear_x: return affine(picture, inverse_affine(0, 0, 0, 0, 0, shear(), 0), kernel, fill);
    case augment_op::shear_y: return affine(picture, inverse_affine(0, 0, 0, 0, 0, 0, shear()), kernel, fill);
    case augment_op::translate_x: return affine(picture, inverse_affine(x, y, 0, std::trunc(magnitude), 0, 0, 0), kernel, fill);
    case augment_op::translate_y: return affine(picture, inverse_affine(x, y, 0, 0, std::trunc(magnitude), 0, 0), kernel, fill);
    case augment_op::rotate: return rotate(picture, magnitude, kernel, fill);
    case augment_op::brightness: return adjust_brightness(picture, 1.0 + magnitude);
    case augment_op::color: return adjust_saturation(picture, 1.0 + magnitude);
    case augment_op::contrast: return adjust_contrast(picture, 1.0 + magnitude);
    case augment_op::sharpness: return adjust_sharpness(picture, 1.0 + magnitude);
    case augment_op::posterize: return posterize(picture, static_cast<int>(magnitude));
    case augment_op::solarize: return solarize(picture, magnitude);
    case augment_op::autocontrast: return autocontrast(picture);
    case augment_op::equalize: return equalize(picture);
    default: return picture;
    }
}
GRAFT_MEMORY_CATCH("apply")

GRAFT_INLINE result<image> apply(const auto_augment& policy, const image& picture, random_sequence& random, filter kernel, int fill) GRAFT_MEMORY_TRY {
    const bool wide = policy.kind == auto_augment::policy::trivial_augment_wide;
    image out = picture;
    for (int i = 0; i < (policy.kind == auto_augment::policy::none ? 0 : wide ? 1 : policy.num_ops); ++i) {
        const auto op = static_cast<augment_op>(random.below(augment_ops));
        const int bin = wide ? static_cast<int>(random.below(static_cast<std::uint64_t>(policy.num_magnitude_bins))) : policy.magnitude;
        double magnitude = augment_magnitude(policy, op, bin, picture.height, picture.width);
        if (random.below(2) && augment_is_signed(op)) magnitude = -magnitude;
        GRAFT_TRY_ASSIGN(out, apply(op, out, magnitude, kernel, fill));
    }
    return out;
}
GRAFT_MEMORY_CATCH("apply")

GRAFT_END_NAMESPACE
#endif
