// From a picture to the tensor that a model takes: gray, resize, crop, and normalisation by table.
#pragma once

#include "../tensor/tensor.hpp"
#include "preprocess_spec.hpp"

GRAFT_BEGIN_NAMESPACE

/// The input of a model, as far as preprocessing needs it: its element type and its extents, unknown ones -1.
struct input_format {
    dtype type = dtype::undefined;
    shape extents;
    bool known = false;  ///< false: there is no model
};

/// The specification with everything decided that it leaves to the model: crop, order of channels, layout and type. Without a
/// model: NCHW, float32, and a crop or `resize=HxW` is needed. Errors: usage.preprocess, input.shape, input.dtype.
result<preprocess_spec> complete(const preprocess_spec& spec, const input_format& model = {});

/// The first half: the picture made gray where asked for, resized and cropped, still 8 bits. Errors: preprocess.crop (smaller
/// than the crop), image.budget, memory.oom, and those of `complete`.
result<image> resize_and_crop(const image& picture, const preprocess_spec& spec, const input_format& model = {}, const limits& caps = {});

/// The second half: (pixel - mean) / std in float32, rounded half to even and clamped for integers; shape (1, C, H, W) or
/// (1, H, W, C). Errors: image.dimensions (no picture), usage.preprocess (three means for one channel), memory.oom, and those of `complete`.
result<tensor> to_tensor(const image& picture, const preprocess_spec& spec, const input_format& model = {});

/// Both halves: a picture to a batch of one.
result<tensor> preprocess(const image& picture, const preprocess_spec& spec, const input_format& model = {}, const limits& caps = {});

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace detail {

inline bool is_nhwc(const shape& extents) noexcept {
    const auto is_channels = [](std::int64_t e) { return e == 1 || e == 3; };
    return extents.rank() == 4 && is_channels(extents[3]) && !is_channels(extents[1]);
}

// The shorter side becomes n, the longer one follows, rounded half to even.
inline void shorter_side(const image& picture, std::int64_t n, std::int64_t& height, std::int64_t& width) {
    const auto longer = [n](std::int64_t l, std::int64_t s) {
        return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(n * l) / static_cast<double>(s)));
    };
    height = picture.height <= picture.width ? n : longer(picture.height, picture.width);
    width = picture.height <= picture.width ? longer(picture.width, picture.height) : n;
}

// The 256 values that a channel can have, as elements of the tensor.
inline bool fill_table(const preprocess_spec& spec, int channel, std::byte* table) {
    double values[256], low = 0, high = 0;
    switch (spec.type) {
    case dtype::uint8: high = 255; break;
    case dtype::int8: low = -128, high = 127; break;
    case dtype::uint16: high = 65535; break;
    case dtype::int16: low = -32768, high = 32767; break;
    case dtype::int32:
    case dtype::int64: low = -2147483648.0, high = 2147483647.0; break;
    case dtype::float32:
    case dtype::float64:
    case dtype::float16:
    case dtype::bfloat16: break;
    default: return false;
    }
    for (int p = 0; p < 256; ++p) {
        const float centred = static_cast<float>(p) - spec.mean[channel];
        const float value = spec.multiply ? centred * spec.std[channel] : centred / spec.std[channel];
        values[p] = static_cast<double>(value);
        if (high > 0) {
            values[p] = std::nearbyint(values[p]);
            values[p] = values[p] < low ? low : values[p] > high ? high : values[p];
        }
    }
    store_from_double(spec.type, table, 0, 256, values);
    return true;
}

// Pixels, `step` bytes apart, to elements, `hop` elements apart.
template <class Element>
inline void look_up(const std::uint8_t* in, std::int64_t step, std::byte* out, std::int64_t first, std::int64_t hop, std::int64_t n, const std::byte* table) {
    Element* to = reinterpret_cast<Element*>(out) + first;
    const Element* values = reinterpret_cast<const Element*>(table);
    for (std::int64_t i = 0; i < n; ++i) to[i * hop] = values[in[i * step]];
}

}  // namespace detail

GRAFT_INLINE result<preprocess_spec> complete(const preprocess_spec& spec, const input_format& model) GRAFT_MEMORY_TRY {
    preprocess_spec whole = spec;
    const shape& e = model.extents;
    if (model.known && e.rank() != 4) return fail(errc::input_shape, "preprocess", "pictures go into an input of 4 dimensions; this one is " + text(e));
    const bool nhwc = model.known && detail::is_nhwc(e);
    const std::int64_t height = !model.known ? -1 : e[nhwc ? 1 : 2], width = !model.known ? -1 : e[nhwc ? 2 : 3];
    if (whole.crop == preprocess_spec::crop_rule::model) {
        const bool exact = whole.resize == preprocess_spec::size_rule::exact;
        if (height >= 1 && width >= 1) {
            whole.crop = preprocess_spec::crop_rule::exact;
            whole.crop_height = height;
            whole.crop_width = width;
        } else if (exact)
            whole.crop = preprocess_spec::crop_rule::none;
        else
            return fail(errc::usage_preprocess, text(spec), "`crop` or `resize=HxW` is needed, as no model says how large its input is");
    }
    if (whole.crop == preprocess_spec::crop_rule::none && whole.resize == preprocess_spec::size_rule::fraction)
        return fail(errc::usage_preprocess, text(spec), "`fraction` needs a crop; say `resize=`");
    if (whole.order == preprocess_spec::channels::model)
        whole.order = model.known && e[nhwc ? 3 : 1] == 1 ? preprocess_spec::channels::gray : preprocess_spec::channels::rgb;
    if (whole.layout == preprocess_spec::axes::model) whole.layout = nhwc ? preprocess_spec::axes::nhwc : preprocess_spec::axes::nchw;
    if (whole.type == dtype::undefined) whole.type = model.known && model.type != dtype::undefined ? model.type : dtype::float32;
    alignas(8) std::byte table[256 * 8];
    if (!detail::fill_table(whole, 0, table)) return fail(errc::input_dtype, "preprocess", std::string("no picture becomes a tensor of ") + name(whole.type));
    return whole;
}
GRAFT_MEMORY_CATCH("complete")

GRAFT_INLINE result<image> resize_and_crop(const image& picture, const preprocess_spec& spec, const input_format& model, const limits& caps) GRAFT_MEMORY_TRY {
    preprocess_spec s;
    GRAFT_TRY_ASSIGN(s, complete(spec, model));
    if (!picture) return fail(errc::image_dimensions, "preprocess", "the picture is empty");
    image source = picture;
    if (s.order == preprocess_spec::channels::gray) GRAFT_TRY_ASSIGN(source, to_gray(picture));
    std::int64_t height = source.height, width = source.width;
    if (s.resize == preprocess_spec::size_rule::exact) {
        height = s.resize_height;
        width = s.resize_width;
    } else if (s.resize != preprocess_spec::size_rule::none) {
        std::int64_t n = s.resize_height;
        if (s.resize == preprocess_spec::size_rule::fraction)
            n = static_cast<std::int64_t>(
                std::nearbyint(std::fmin(static_cast<double>(s.crop_height < s.crop_width ? s.crop_height : s.crop_width) / s.fraction, 1 << 27)));
        detail::shorter_side(source, n, height, width);
    }
    const bool whole = s.crop == preprocess_spec::crop_rule::none;
    const std::int64_t window_height = whole ? height : s.crop_height, window_width = whole ? width : s.crop_width;
    if (height < window_height || width < window_width)
        return fail(errc::preprocess_crop, "preprocess",
                    "a picture of " + detail::size_text(picture.height, picture.width) + " (height x width), resized to " + detail::size_text(height, width) +
                        ", is smaller than the crop of " + detail::size_text(window_height, window_width));
    if (height > (1 << 27) || width > (1 << 27) || window_height * window_width > caps.image_pixels)
        return fail(errc::image_budget, "preprocess",
                    "resized to " + detail::size_text(height, width) + " the picture is over the limit of " + std::to_string(caps.image_pixels) + " pixels");
    return resize_window(source, height, width, s.kernel, (height - window_height) / 2, (width - window_width) / 2, window_height, window_width);
}
GRAFT_MEMORY_CATCH("resize_and_crop")

GRAFT_INLINE result<tensor> to_tensor(const image& picture, const preprocess_spec& spec, const input_format& model) GRAFT_MEMORY_TRY {
    if (!picture) return fail(errc::image_dimensions, "preprocess", "the picture is empty");
    preprocess_spec s = spec;
    // Here the picture has its size already.
    if (s.crop == preprocess_spec::crop_rule::model) s.crop = preprocess_spec::crop_rule::none;
    if (s.resize == preprocess_spec::size_rule::fraction) s.resize = preprocess_spec::size_rule::none;
    GRAFT_TRY_ASSIGN(s, complete(s, model));
    const bool gray = s.order == preprocess_spec::channels::gray;
    if (gray && (s.mean_count == 3 || s.std_count == 3))
        return fail(errc::usage_preprocess, s.mean_count == 3 ? "mean" : s.multiply ? "scale" : "std", "three values, but a gray picture has one channel");
    image source = picture;
    if (gray) GRAFT_TRY_ASSIGN(source, to_gray(picture));
    const std::int64_t channels = gray ? 1 : 3, h = source.height, w = source.width, pixels = h * w;
    const bool nchw = s.layout == preprocess_spec::axes::nchw;
    tensor out;
    GRAFT_TRY_ASSIGN(out, tensor::make(s.type, nchw ? shape{1, channels, h, w} : shape{1, h, w, channels}));
    for (std::int64_t c = 0; c < channels; ++c) {
        alignas(8) std::byte table[256 * 8];
        detail::fill_table(s, static_cast<int>(c), table);
        const std::int64_t channel = source.channels == 1 ? 0 : s.order == preprocess_spec::channels::bgr ? 2 - c : c;
        const std::uint8_t* in = source.data() + channel;
        const std::int64_t first = nchw ? c * pixels : c, hop = nchw ? 1 : channels;
        switch (size_of(s.type)) {
        case 1: detail::look_up<std::uint8_t>(in, source.channels, out.raw(), first, hop, pixels, table); break;
        case 2: detail::look_up<std::uint16_t>(in, source.channels, out.raw(), first, hop, pixels, table); break;
        case 4: detail::look_up<std::uint32_t>(in, source.channels, out.raw(), first, hop, pixels, table); break;
        default: detail::look_up<std::uint64_t>(in, source.channels, out.raw(), first, hop, pixels, table);
        }
    }
    return out;
}
GRAFT_MEMORY_CATCH("to_tensor")

GRAFT_INLINE result<tensor> preprocess(const image& picture, const preprocess_spec& spec, const input_format& model, const limits& caps) GRAFT_MEMORY_TRY {
    image ready;
    GRAFT_TRY_ASSIGN(ready, resize_and_crop(picture, spec, model, caps));
    return to_tensor(ready, spec, model);
}
GRAFT_MEMORY_CATCH("preprocess")

GRAFT_END_NAMESPACE
#endif
