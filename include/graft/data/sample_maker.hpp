// One sample of a batch: read, decoded, cut, augmented and normalised straight into its place. No state: any thread may make any.
#pragma once

#include "augment.hpp"
#include "dataset.hpp"
#include "image_cache.hpp"
#include "preprocess.hpp"

GRAFT_BEGIN_NAMESPACE

/// How samples become tensors.
struct sample_options {
    preprocess_spec preprocess;  ///< what is left open is taken from `format`
    input_format format;         ///< of the model; nothing known: NCHW, float32, and the specification says the size
    augmentation augment;        ///< default: nothing, which is what evaluation and prediction see
    std::uint64_t seed = 0;      ///< of the augmentations
    /// Where decoded pictures are kept between epochs and runs; null: nowhere. With it every value stays the same, bit for bit.
    std::shared_ptr<image_cache> cache;
    /// Whether pictures are made smaller, once, before random crops are cut from them: the shorter side to `shrunk_side`. Saves
    /// time and room in the cache; pixels change a little, as pictures are resized twice. Without random crops it has no meaning.
    bool shrink = false;
};

/// The shorter side that `shrink` leaves: ceil(longer side of the crop / sqrt(least scale)), so that square crops are not
/// enlarged.
std::int64_t shrunk_side(const augmentation& augment, std::int64_t crop_height, std::int64_t crop_width) noexcept;

/// Makes samples of a dataset. Immutable, safe to use from many threads.
class sample_maker {
public:
    /// Errors: usage.preprocess (also where pictures would come out in different sizes), usage (erasing or mixing of integers),
    /// input.shape, input.dtype.
    static result<sample_maker> make(const dataset& data, const sample_options& options);

    const preprocess_spec& preprocess() const noexcept { return spec_; }
    dtype type() const noexcept { return spec_.type; }
    bool nchw() const noexcept { return spec_.layout == preprocess_spec::axes::nchw; }
    std::int64_t channels() const noexcept { return spec_.order == preprocess_spec::channels::gray ? 1 : 3; }
    std::int64_t height() const noexcept { return height_; }
    std::int64_t width() const noexcept { return width_; }
    /// The shape of a batch of n samples, and the bytes of one.
    shape batch_shape(std::int64_t n) const noexcept;
    std::int64_t sample_bytes() const noexcept;

    /// Sample `index` as 8-bit pixels, as the network sees it in `epoch`, but for normalisation and erasing. Errors: those of
    /// dataset::fetch and decode, preprocess.crop, image.budget, memory.oom.
    result<image> pixels(std::int64_t index, std::int64_t epoch) const;
    /// The same, normalised and erased, into `out`, `sample_bytes()` long.
    status write(std::int64_t index, std::int64_t epoch, std::byte* out) const;

private:
    result<image> source(std::int64_t index) const;
    result<image> made(std::int64_t index, const graft::sample_bytes& contents) const;
    void normalize(const image& picture, std::byte* out) const;

    dataset data_;
    sample_options options_;
    preprocess_spec spec_;
    std::string rule_;  // of what is kept in the cache
    std::int64_t height_ = 0, width_ = 0;
    tensor tables_;  // (3, 256): the value of each pixel value, for each channel of the output
};

namespace detail {
// What is drawn for one thing does not move what is drawn for another.
constexpr std::uint64_t draws_of_pixels = 64, draws_of_erasing = 4096;
}  // namespace detail

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Interleaved pixels to planes: the common case, three channels in one pass over the picture.
template <class Element>
inline void look_up_planes(const std::uint8_t* in, std::int64_t n, Element* out, const Element* tables, bool backwards) noexcept {
    Element *r = out + (backwards ? 2 * n : 0), *g = out + n, *b = out + (backwards ? 0 : 2 * n);
    const Element *tr = tables + (backwards ? 512 : 0), *tg = tables + 256, *tb = tables + (backwards ? 0 : 512);
    for (std::int64_t i = 0; i < n; ++i, in += 3) {
        r[i] = tr[in[0]];
        g[i] = tg[in[1]];
        b[i] = tb[in[2]];
    }
}

}  // namespace detail

GRAFT_INLINE std::int64_t shrunk_side(const augmentation& augment, std::int64_t crop_height, std::int64_t crop_width) noexcept {
    const auto side = static_cast<double>(crop_height > crop_width ? crop_height : crop_width);
    return static_cast<std::int64_t>(std::fmin(std::ceil(side / std::sqrt(augment.scale[0])), 1 << 27));
}

GRAFT_INLINE result<sample_maker> sample_maker::make(const dataset& data, const sample_options& options) GRAFT_MEMORY_TRY {
    sample_maker maker;
    maker.data_ = data;
    maker.options_ = options;
    preprocess_spec& s = maker.spec_;
    GRAFT_TRY_ASSIGN(s, complete(options.preprocess, options.format));
    const bool crops = s.crop == preprocess_spec::crop_rule::exact;
    if (!crops && s.resize != preprocess_spec::size_rule::exact)
        return fail(errc::usage_preprocess, text(s), "pictures of a batch must have one size; say `crop=` or `resize=HxW`");
    maker.height_ = crops ? s.crop_height : s.resize_height;
    maker.width_ = crops ? s.crop_width : s.resize_width;
    const augmentation& a = options.augment;
    if (s.type != dtype::float32 && (a.random_erasing > 0 || a.mixup > 0 || a.cutmix > 0))
        return fail(errc::usage, text(a), std::string("erasing and mixing are for float32; this model takes ") + name(s.type));
    // The tables are what normalisation makes of a picture that holds every value.
    image ramp;
    GRAFT_TRY_ASSIGN(ramp, image::make(1, 256, static_cast<int>(maker.channels())));
    for (std::int64_t i = 0; i < ramp.bytes(); ++i) ramp.data()[i] = static_cast<std::uint8_t>(i / ramp.channels);
    preprocess_spec planes = s;
    planes.layout = preprocess_spec::axes::nchw;
    planes.resize = preprocess_spec::size_rule::none;
    planes.crop = preprocess_spec::crop_rule::none;
    GRAFT_TRY_ASSIGN(maker.tables_, to_tensor(ramp, planes));

    preprocess_spec geometry = s;
    geometry.mean_count = geometry.std_count = 1;
    geometry.mean[0] = 0;
    geometry.std[0] = 1;
    geometry.multiply = false;
    geometry.layout = preprocess_spec::axes::nchw;
    geometry.type = dtype::uint8;
    if (geometry.order == preprocess_spec::channels::bgr) geometry.order = preprocess_spec::channels::rgb;
    const std::string shrunk = !options.shrink ? "" : ", shorter side at most " + std::to_string(shrunk_side(a, maker.height_, maker.width_));
    maker.rule_ = std::string("rule 1, ") + (GRAFT_HAS_LIBJPEG ? "libjpeg" : "stb") + ", " + (a.random_resized_crop ? "whole" + shrunk : text(geometry));
    return maker;
}
GRAFT_MEMORY_CATCH("sample_maker::make")

GRAFT_INLINE shape sample_maker::batch_shape(std::int64_t n) const noexcept {
    return nchw() ? shape{n, channels(), height_, width_} : shape{n, height_, width_, channels()};
}

GRAFT_INLINE std::int64_t sample_maker::sample_bytes() const noexcept { return bytes_of(spec_.type, batch_shape(1)); }

// What the cache keeps: the picture ready but for augmentation where its geometry is fixed, else the picture that crops are cut
// from.
GRAFT_INLINE result<image> sample_maker::made(std::int64_t index, const graft::sample_bytes& contents) const GRAFT_MEMORY_TRY {
    image picture;
    GRAFT_TRY_ASSIGN(picture, dataset::decode(contents, data_.name(index), data_.caps()));
    if (!options_.augment.random_resized_crop) return resize_and_crop(picture, spec_, {}, data_.caps());
    const std::int64_t shorter = picture.height < picture.width ? picture.height : picture.width;
    const std::int64_t side = shrunk_side(options_.augment, height_, width_);
    if (!options_.shrink || shorter <= side) return picture;
    std::int64_t height = 0, width = 0;
    detail::shorter_side(picture, side, height, width);
    return resize(picture, height, width, spec_.kernel);
}
GRAFT_MEMORY_CATCH("sample_maker::made")

GRAFT_INLINE result<image> sample_maker::source(std::int64_t index) const GRAFT_MEMORY_TRY {
    graft::sample_bytes contents;
    GRAFT_TRY_ASSIGN(contents, data_.fetch(index));
    // Raw pixels are as good as cached.
    if (!options_.cache || contents.height) return made(index, contents);
    const image_cache::key key = image_cache::key_of(contents.data, contents.size, rule_);
    if (image found = options_.cache->find(key)) return found;
    image fresh;
    GRAFT_TRY_ASSIGN(fresh, made(index, contents));
    options_.cache->put(key, fresh);
    return fresh;
}
GRAFT_MEMORY_CATCH("sample_maker::source")

GRAFT_INLINE result<image> sample_maker::pixels(std::int64_t index, std::int64_t epoch) const GRAFT_MEMORY_TRY {
    const augmentation& a = options_.augment;
    image picture;
    GRAFT_TRY_ASSIGN(picture, source(index));
    const random_stream stream = data_stream(options_.seed, random_purpose::sample, epoch, index);
    if (a.random_resized_crop) {
        random_sequence random(stream);
        const crop_box box = random_crop_box(picture.height, picture.width, a.scale, a.ratio, random);
        // Gray is taken before the resize, as in `resize_and_crop`; only of what is needed.
        if (channels() == 1 && picture.channels == 3) {
            GRAFT_TRY_ASSIGN(picture, crop(picture, box.top, box.left, box.height, box.width));
            GRAFT_TRY_ASSIGN(picture, to_gray(picture));
            GRAFT_TRY_ASSIGN(picture, resize(picture, height_, width_, spec_.kernel));
        } else
            GRAFT_TRY_ASSIGN(picture, resized_crop(picture, box, height_, width_, spec_.kernel));
    }
    random_sequence random(stream, detail::draws_of_pixels);
    return augment_pixels(picture, a, random);
}
GRAFT_MEMORY_CATCH("sample_maker::pixels")

GRAFT_INLINE void sample_maker::normalize(const image& picture, std::byte* out) const {
    const std::int64_t n = picture.height * picture.width, step = picture.channels, c = channels();
    const std::size_t size = size_of(spec_.type);
    const bool bgr = spec_.order == preprocess_spec::channels::bgr;
    const std::uint8_t* in = picture.data();
    const std::byte* tables = tables_.raw();
    if (nchw() && step == 3 && size == 4)
        return detail::look_up_planes(in, n, reinterpret_cast<std::uint32_t*>(out), reinterpret_cast<const std::uint32_t*>(tables), bgr);
    for (std::int64_t k = 0; k < c; ++k, tables += 256 * size) {
        const std::uint8_t* from = in + (step == 1 ? 0 : bgr ? 2 - k : k);
        const std::int64_t first = nchw() ? k * n : k, hop = nchw() ? 1 : c;
        switch (size) {
        case 1: detail::look_up<std::uint8_t>(from, step, out, first, hop, n, tables); break;
        case 2: detail::look_up<std::uint16_t>(from, step, out, first, hop, n, tables); break;
        case 4: detail::look_up<std::uint32_t>(from, step, out, first, hop, n, tables); break;
        default: detail::look_up<std::uint64_t>(from, step, out, first, hop, n, tables);
        }
    }
}

GRAFT_INLINE status sample_maker::write(std::int64_t index, std::int64_t epoch, std::byte* out) const GRAFT_MEMORY_TRY {
    image picture;
    GRAFT_TRY_ASSIGN(picture, pixels(index, epoch));
    normalize(picture, out);
    if (options_.augment.random_erasing > 0) {
        random_sequence random(data_stream(options_.seed, random_purpose::sample, epoch, index), detail::draws_of_erasing);
        erase(reinterpret_cast<float*>(out), channels(), height_, width_, nchw(), options_.augment, random);
    }
    return {};
}
GRAFT_MEMORY_CATCH("sample_maker::write")

GRAFT_END_NAMESPACE
#endif
