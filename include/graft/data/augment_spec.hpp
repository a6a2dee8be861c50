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
    double horizontal_flip = 0, vertical_flip = 0;  ///< probabilities
    double rotation[2] = {0, 0};                    ///< degrees, from and to
    auto_augment policy;
    /// ColorJitter: factors from max(0, 1 - v) to 1 + v, hue from -v to v, in random order.
    double brightness = 0, contrast = 0, saturation = 0, hue = 0;
    double grayscale = 0;                    ///< probability
    filter interpolation = filter::nearest;  ///< of rotations, shears and translations: nearest or bilinear
    int fill = 0;                            ///< of corners that come in, 0..255
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
/// before, `default` stands for `text(default_augmentation())`. Keys: those of `augmentation_kinds` (`random_` may be left out).
/// Errors: usage, naming the item.
result<augmentation> parse_augmentation(const std::string& spec);
/// The text that `parse_augmentation` reads back to the same augmentation; "none" where nothing is changed.
std::string text(const augmentation& augment);
/// Whether anything random is done to single pictures or batches.
bool is_random(const augmentation& augment) noexcept;

/// What is written behind the name of a change: numbers, or one of its words.
struct augmentation_value {
    double number[5] = {};
    int count = 0;  ///< of the numbers; 0 without a word: the change is not made
    int word = -1;  ///< among the kind's words
};

/// A kind of change, or a setting of other kinds: all that is known of it, in one row.
struct augmentation_kind {
    struct range {
        double low = 0, high = 0;
    };
    const char* form;      ///< its name, and what is written behind it: "random_horizontal_flip=P"
    const char* alone;     ///< the value that the name alone stands for; null: it needs one
    const char* example;   ///< a specification that shows it well; null: it is a setting of others
    range ranges[5];       ///< of its numbers, as many as it takes
    bool whole;            ///< whether they are integers, and written as such
    const char* words[2];  ///< that may stand in place of numbers
    /// Takes a value whose numbers are within their ranges; false where they do not go together.
    bool (*take)(const augmentation_value& value, augmentation& a);
    /// What is written of an augmentation; nothing where the change is not made.
    void (*give)(const augmentation& a, augmentation_value& value);
    /// Changes a picture behind its crop and before normalisation; null: the change has another place (sample_maker, mix).
    status (*change)(image& picture, const augmentation& a, double drawn, random_sequence& random);
    bool draws_ahead;  ///< whether `drawn` is a number of [0, 1) that is drawn in any case; a kind that comes later must not: it would move what others draw
};
/// Rows that hold as long as the program.
struct augmentation_table {
    const augmentation_kind* rows;
    int count;
    const augmentation_kind* begin() const noexcept { return rows; }
    const augmentation_kind* end() const noexcept { return rows + count; }
};

/// All kinds, in the order in which they are done and written.
augmentation_table augmentation_kinds() noexcept;

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "preprocess_spec.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// A change with one number, which is 0 where it is not made.
template <double augmentation::*Member>
inline bool take_number(const augmentation_value& v, augmentation& a) {
    a.*Member = v.number[0];
    return true;
}
template <double augmentation::*Member>
inline void give_number(const augmentation& a, augmentation_value& v) {
    v.number[0] = a.*Member;
    v.count = a.*Member != 0;
}

// SMIN:SMAX or SMIN:SMAX:RMIN:RMAX, from number `first` on.
inline bool take_box(const augmentation_value& v, int first, double (&scale)[2], double (&ratio)[2]) {
    for (int i = 0; i < 2; ++i) {
        scale[i] = v.number[first + i];
        if (v.count == first + 4) ratio[i] = v.number[first + 2 + i];
    }
    return (v.count == first + 2 || v.count == first + 4) && scale[0] > 0 && scale[0] <= scale[1] && ratio[0] <= ratio[1];
}
inline void give_box(const double (&scale)[2], const double (&ratio)[2], int first, augmentation_value& v) {
    const double box[] = {scale[0], scale[1], ratio[0], ratio[1]};
    for (int i = 0; i < 4; ++i) v.number[first + i] = box[i];
    v.count = first + 4;
}

inline bool take_crop(const augmentation_value& v, augmentation& a) { return take_box(v, 0, a.scale, a.ratio) && (a.random_resized_crop = true); }
inline void give_crop(const augmentation& a, augmentation_value& v) {
    if (a.random_resized_crop) give_box(a.scale, a.ratio, 0, v);
}

inline status flip_across(image& picture, const augmentation& a, double drawn, random_sequence&) {
    if (drawn < a.horizontal_flip) GRAFT_TRY_ASSIGN(picture, flip_horizontal(picture));
    return {};
}
inline status flip_over(image& picture, const augmentation& a, double drawn, random_sequence&) {
    if (drawn < a.vertical_flip) GRAFT_TRY_ASSIGN(picture, flip_vertical(picture));
    return {};
}

inline bool take_rotation(const augmentation_value& v, augmentation& a) {
    a.rotation[0] = v.count == 2 ? v.number[0] : -v.number[0];
    a.rotation[1] = v.number[v.count - 1];
    return a.rotation[0] <= a.rotation[1];
}
inline void give_rotation(const augmentation& a, augmentation_value& v) {
    for (int i = 0; i < 2; ++i) v.number[i] = a.rotation[i];
    v.count = a.rotation[0] != 0 || a.rotation[1] != 0 ? 2 : 0;
}
inline status turn(image& picture, const augmentation& a, double drawn, random_sequence&) {
    if (a.rotation[0] == 0 && a.rotation[1] == 0) return {};
    GRAFT_TRY_ASSIGN(picture, rotate(picture, a.rotation[0] + (a.rotation[1] - a.rotation[0]) * drawn, a.interpolation, a.fill));
    return {};
}

inline bool take_rand_augment(const augmentation_value& v, augmentation& a) {
    a.policy = {};
    a.policy.kind = auto_augment::policy::rand_augment;
    int* const to[] = {&a.policy.num_ops, &a.policy.magnitude, &a.policy.num_magnitude_bins};
    for (int i = 0; i < v.count; ++i) *to[i] = static_cast<int>(v.number[i]);
    return a.policy.magnitude < a.policy.num_magnitude_bins;
}
inline void give_rand_augment(const augmentation& a, augmentation_value& v) {
    if (a.policy.kind != auto_augment::policy::rand_augment) return;
    const int from[] = {a.policy.num_ops, a.policy.magnitude, a.policy.num_magnitude_bins};
    for (const int number : from) v.number[v.count++] = number;
}
inline bool take_trivial_augment(const augmentation_value& v, augmentation& a) {
    a.policy = {};
    a.policy.kind = auto_augment::policy::trivial_augment_wide;
    a.policy.num_magnitude_bins = static_cast<int>(v.number[0]);
    return true;
}
inline void give_trivial_augment(const augmentation& a, augmentation_value& v) {
    v.number[0] = a.policy.num_magnitude_bins;
    v.count = a.policy.kind == auto_augment::policy::trivial_augment_wide;
}
// Of either policy: an augmentation has one.
inline status apply_policy(image& picture, const augmentation& a, double, random_sequence& random) {
    GRAFT_TRY_ASSIGN(picture, apply(a.policy, picture, random, a.interpolation, a.fill));
    return {};
}

inline bool take_jitter(const augmentation_value& v, augmentation& a) {
    a.brightness = v.number[0], a.contrast = v.number[1], a.saturation = v.number[2], a.hue = v.number[3];
    return true;
}
inline void give_jitter(const augmentation& a, augmentation_value& v) {
    const double from[] = {a.brightness, a.contrast, a.saturation, a.hue};
    for (int i = 0; i < 4; ++i) {
        v.number[i] = from[i];
        if (from[i] != 0) v.count = 4;
    }
}
inline status jitter(image& picture, const augmentation& a, double, random_sequence& random) {
    if (a.brightness > 0 || a.contrast > 0 || a.saturation > 0 || a.hue > 0)
        GRAFT_TRY_ASSIGN(picture, color_jitter(picture, a.brightness, a.contrast, a.saturation, a.hue, random));
    return {};
}

inline status take_color(image& picture, const augmentation& a, double drawn, random_sequence&) {
    if (drawn < a.grayscale) GRAFT_TRY_ASSIGN(picture, adjust_saturation(picture, 0));
    return {};
}

inline bool take_interpolation(const augmentation_value& v, augmentation& a) {
    a.interpolation = v.word == 1 ? filter::bilinear : filter::nearest;
    return true;
}
inline void give_interpolation(const augmentation& a, augmentation_value& v) { v.word = a.interpolation == filter::bilinear ? 1 : -1; }

inline bool take_fill(const augmentation_value& v, augmentation& a) {
    a.fill = static_cast<int>(v.number[0]);
    return a.fill == v.number[0];
}
inline void give_fill(const augmentation& a, augmentation_value& v) {
    v.number[0] = a.fill;
    v.count = a.fill != 0;
}

inline bool take_erasing(const augmentation_value& v, augmentation& a) {
    a.random_erasing = v.number[0];
    return v.count == 1 || take_box(v, 1, a.erasing_scale, a.erasing_ratio);
}
inline void give_erasing(const augmentation& a, augmentation_value& v) {
    v.number[0] = a.random_erasing;
    if (a.random_erasing != 0) give_box(a.erasing_scale, a.erasing_ratio, 1, v);
}
inline bool take_erasing_value(const augmentation_value& v, augmentation& a) {
    a.erasing_noise = v.word == 0;
    if (v.count) a.erasing_value = v.number[0];
    return true;
}
inline void give_erasing_value(const augmentation& a, augmentation_value& v) {
    v.number[0] = a.erasing_value;
    v.count = !a.erasing_noise && a.erasing_value != 0;
    if (a.erasing_noise) v.word = 0;
}

// The order is that of checkpoints: who adds a row puts it where the change is done.
inline augmentation_table augmentation_rows() noexcept {
    using a = augmentation;
    static constexpr augmentation_kind rows[] = {
        {"random_resized_crop=MIN:MAX[:RMIN:RMAX]",
         "0.08:1:0.75:1.3333333333333333",
         "random_resized_crop",
         {{0, 1}, {0, 1}, {0.01, 100}, {0.01, 100}},
         false,
         {},
         take_crop,
         give_crop,
         nullptr,
         false},
        {"random_horizontal_flip=P",
         "0.5",
         "random_horizontal_flip",
         {{0, 1}},
         false,
         {},
         take_number<&a::horizontal_flip>,
         give_number<&a::horizontal_flip>,
         flip_across,
         true},
        {"random_vertical_flip=P",
         "0.5",
         "random_vertical_flip",
         {{0, 1}},
         false,
         {},
         take_number<&a::vertical_flip>,
         give_number<&a::vertical_flip>,
         flip_over,
         true},
        {"random_rotation=DEGREES|FROM:TO", nullptr, "random_rotation=30", {{-3600, 3600}, {-3600, 3600}}, false, {}, take_rotation, give_rotation, turn, true},
        {"rand_augment=OPS:MAGNITUDE[:BINS]",
         "2",
         "rand_augment",
         {{1, 20}, {0, 1000}, {2, 1000}},
         true,
         {},
         take_rand_augment,
         give_rand_augment,
         apply_policy,
         false},
        {"trivial_augment_wide[=BINS]", "31", "trivial_augment_wide", {{2, 1000}}, true, {}, take_trivial_augment, give_trivial_augment, nullptr, false},
        {"color_jitter=B:C:S:H",
         nullptr,
         "color_jitter=0.4:0.4:0.4:0.1",
         {{0, 100}, {0, 100}, {0, 100}, {0, 0.5}},
         false,
         {},
         take_jitter,
         give_jitter,
         jitter,
         false},
        {"random_grayscale=P", "0.1", "random_grayscale=0.5", {{0, 1}}, false, {}, take_number<&a::grayscale>, give_number<&a::grayscale>, take_color, true},
        {"interpolation=nearest|bilinear", nullptr, nullptr, {}, false, {"nearest", "bilinear"}, take_interpolation, give_interpolation, nullptr, false},
        {"fill=0..255", nullptr, nullptr, {{0, 255}}, false, {}, take_fill, give_fill, nullptr, false},
        {"random_erasing=P[:MIN:MAX[:RMIN:RMAX]]",
         "0.5",
         "random_erasing=1",
         {{0, 1}, {0, 1}, {0, 1}, {0.01, 100}, {0.01, 100}},
         false,
         {},
         take_erasing,
         give_erasing,
         nullptr,
         false},
        {"erasing_value=NUMBER|random", nullptr, nullptr, {{-3e38, 3e38}}, false, {"random"}, take_erasing_value, give_erasing_value, nullptr, false},
        {"mixup=ALPHA", "1", "mixup", {{0, 1000}}, false, {}, take_number<&a::mixup>, give_number<&a::mixup>, nullptr, false},
        {"cutmix=ALPHA", "1", "cutmix", {{0, 1000}}, false, {}, take_number<&a::cutmix>, give_number<&a::cutmix>, nullptr, false},
    };
    return {rows, static_cast<int>(sizeof rows / sizeof rows[0])};
}

inline std::size_t augmentation_name_end(const augmentation_kind& kind) noexcept { return std::strcspn(kind.form, "=["); }

// "0.08:1": numbers within their ranges, or a word.
inline bool read_value(const augmentation_kind& kind, const std::string& text, augmentation_value& v) {
    for (int i = 0; i < 2; ++i)
        if (kind.words[i] && text == kind.words[i]) return v.word = i, true;
    for (std::size_t at = 0;; at = text.find(':', at) + 1) {
        if (v.count == 5) return false;
        const augmentation_kind::range r = kind.ranges[v.count];
        double& number = v.number[v.count++];
        if (r.low == r.high || !read_decimal(text.data() + at, text.data() + std::min(text.find(':', at), text.size()), number)) return false;
        if (!(number >= r.low && number <= r.high) || (kind.whole && number != std::floor(number))) return false;
        if (text.find(':', at) == std::string::npos) return true;
    }
}

inline bool apply_augmentation(const std::string& item, augmentation& a) {
    if (item == "none") return a = {}, true;
    if (item == "default") return a = default_augmentation(), true;
    const auto bare = [](const std::string& name) { return name.compare(0, 7, "random_") == 0 ? name.substr(7) : name; };
    const std::size_t equals = item.find('=');
    for (const augmentation_kind& kind : augmentation_rows()) {
        if (bare(item.substr(0, equals)) != bare(std::string(kind.form, augmentation_name_end(kind)))) continue;
        augmentation_value v;
        if (equals == std::string::npos) return kind.alone && read_value(kind, kind.alone, v) && kind.take(v, a);
        return read_value(kind, item.substr(equals + 1), v) && kind.take(v, a);
    }
    return false;
}

}  // namespace detail

GRAFT_INLINE augmentation_table augmentation_kinds() noexcept { return detail::augmentation_rows(); }

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
        if (!detail::apply_augmentation(item, parsed)) {
            std::string known = "not an augmentation; known are none, default, ";
            for (const augmentation_kind& kind : augmentation_kinds()) known += std::string(kind.form) + ", ";
            return fail(errc::usage, item.empty() ? "empty item" : item, known + "separated by commas");
        }
        if (end == spec.size()) return parsed;
        at = end + 1;
    }
}
GRAFT_MEMORY_CATCH("parse_augmentation")

GRAFT_INLINE std::string text(const augmentation& a) {
    std::string out;
    for (const augmentation_kind& kind : augmentation_kinds()) {
        augmentation_value v;
        kind.give(a, v);
        if (v.count == 0 && v.word < 0) continue;
        out += (out.empty() ? "" : ",") + std::string(kind.form, detail::augmentation_name_end(kind)) + "=";
        if (v.word >= 0) out += kind.words[v.word];
        for (int i = 0; i < v.count; ++i)
            out += (i ? ":" : "") + (kind.whole ? std::to_string(static_cast<int>(v.number[i])) : detail::shortest_text(v.number[i], false));
    }
    return out.empty() ? "none" : out;
}

GRAFT_INLINE bool is_random(const augmentation& a) noexcept {
    for (const augmentation_kind& kind : augmentation_kinds()) {
        augmentation_value v;
        kind.give(a, v);
        if (kind.example && v.count) return true;
    }
    return false;
}

GRAFT_END_NAMESPACE
#endif
