// Random changes of one training picture. Names, parameters and maths are torchvision's.
#pragma once

#include "augment_spec.hpp"

GRAFT_BEGIN_NAMESPACE

/// The rectangle that RandomResizedCrop draws: ten tries, then the largest one in the middle whose ratio is allowed.
crop_box random_crop_box(std::int64_t height, std::int64_t width, const double (&scale)[2], const double (&ratio)[2], random_sequence& random);
/// Everything that comes behind the crop and before normalisation.
result<image> augment_pixels(const image& picture, const augmentation& augment, random_sequence& random);
/// RandomErasing of one sample in place, float32, `channels` planes (nchw) or interleaved.
void erase(float* sample, std::int64_t channels, std::int64_t height, std::int64_t width, bool nchw, const augmentation& augment, random_sequence& random);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <algorithm>
#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Half to even, as Python rounds.
inline std::int64_t rounded(double v) noexcept { return static_cast<std::int64_t>(std::nearbyint(v)); }

}  // namespace detail

GRAFT_INLINE crop_box random_crop_box(std::int64_t height, std::int64_t width, const double (&scale)[2], const double (&ratio)[2], random_sequence& random) {
    const double h = static_cast<double>(height), w = static_cast<double>(width), area = h * w;
    const double low = std::log(ratio[0]), high = std::log(ratio[1]);
    for (int attempt = 0; attempt < 10; ++attempt) {
        const double target = area * random.uniform(scale[0], scale[1]), aspect = std::exp(random.uniform(low, high));
        const std::int64_t box_width = detail::rounded(std::sqrt(target * aspect)), box_height = detail::rounded(std::sqrt(target / aspect));
        if (box_width < 1 || box_height < 1 || box_width > width || box_height > height) continue;
        const std::uint64_t top = random.below(static_cast<std::uint64_t>(height - box_height + 1));
        const std::uint64_t left = random.below(static_cast<std::uint64_t>(width - box_width + 1));
        return {static_cast<std::int64_t>(top), static_cast<std::int64_t>(left), box_height, box_width};
    }
    crop_box box = {0, 0, height, width};
    // A very thin picture, with a ratio far from what is allowed, could round to nothing.
    if (w / h < ratio[0]) box.height = std::max<std::int64_t>(1, detail::rounded(w / ratio[0]));
    if (w / h > ratio[1]) box.width = std::max<std::int64_t>(1, detail::rounded(h * ratio[1]));
    box.top = (height - box.height) / 2;
    box.left = (width - box.width) / 2;
    return box;
}

GRAFT_INLINE result<image> augment_pixels(const image& picture, const augmentation& a, random_sequence& random) GRAFT_MEMORY_TRY {
    image out = picture;
    // Every number of theirs is drawn whether it is needed or not: one setting changed leaves the others' draws as they were.
    random_sequence ahead = random;
    for (const augmentation_kind& kind : augmentation_kinds())
        if (kind.draws_ahead) random.uniform();
    for (const augmentation_kind& kind : augmentation_kinds()) {
        const double drawn = kind.draws_ahead ? ahead.uniform() : 0;
        if (kind.change) GRAFT_TRY(kind.change(out, a, drawn, random));
    }
    return out;
}
GRAFT_MEMORY_CATCH("augment_pixels")

GRAFT_INLINE void erase(float* sample, std::int64_t channels, std::int64_t height, std::int64_t width, bool nchw, const augmentation& a,
                        random_sequence& random) {
    if (!(random.uniform() < a.random_erasing)) return;
    const double area = static_cast<double>(height) * static_cast<double>(width);
    const double low = std::log(a.erasing_ratio[0]), high = std::log(a.erasing_ratio[1]);
    for (int attempt = 0; attempt < 10; ++attempt) {
        const double target = area * random.uniform(a.erasing_scale[0], a.erasing_scale[1]), aspect = std::exp(random.uniform(low, high));
        const std::int64_t h = detail::rounded(std::sqrt(target * aspect)), w = detail::rounded(std::sqrt(target / aspect));
        if (h >= height || w >= width) continue;
        const auto top = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(height - h + 1)));
        const auto left = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(width - w + 1)));
        for (std::int64_t c = 0; c < channels; ++c)
            for (std::int64_t y = top; y < top + h; ++y)
                for (std::int64_t x = left; x < left + w; ++x)
                    sample[nchw ? (c * height + y) * width + x : (y * width + x) * channels + c] =
                        static_cast<float>(a.erasing_noise ? random.normal() : a.erasing_value);
        return;
    }
}

GRAFT_END_NAMESPACE
#endif
