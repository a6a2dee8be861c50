// Pictures of how a network does: its confusion matrix, and what it is most wrong about. TensorBoard gets them at the end of a run.
#pragma once

#include "../core/number_text.hpp"
#include "../data/dataset.hpp"
#include "evaluate.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// The pictures that were answered wrongly, at most `most` of them, those with the highest loss first.
std::vector<scored_picture> most_wrong(const evaluation_result& scored, std::size_t most);

/// The confusion matrix, RGB: rows are the true classes, columns what they were taken for; green is right, orange wrong, the stronger the larger
/// the share of the row. Up to 60 classes have their names (their numbers where a name is not Latin), up to 25 their counts. Errors:
/// labels.count (`classes` and the metrics disagree), usage (more than 4096 classes, one pixel each), memory.oom.
result<image> confusion_image(const classification_metrics& metrics, const std::vector<std::string>& classes);

/// A sheet of pictures of a dataset with what they are and what they were taken for, RGB, four in a row. Those that cannot be read are left
/// out; no picture at all is an image without sides. Errors: data.label_range, memory.oom.
result<image> wrong_pictures_image(const dataset& data, const std::vector<scored_picture>& wrong);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../data/resize.hpp"
#include "draw_text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

GRAFT_BEGIN_NAMESPACE
namespace detail {

constexpr color ink_color = {29, 33, 37}, paper_color = {255, 255, 255}, right_color = {42, 138, 99}, wrong_color = {212, 89, 31};

inline color mixed(color strong, double strength) noexcept {
    const auto part = [strength](std::uint8_t c) { return static_cast<std::uint8_t>(std::lround(255 + strength * (c - 255))); };
    return {part(strong.red), part(strong.green), part(strong.blue)};
}

// Where the parts of a confusion matrix lie in its picture.
struct matrix_layout {
    std::int64_t classes, cell, names;  // names: pixels on the left and above; 0: none
    bool counts;
    explicit matrix_layout(const classification_metrics& m, const std::vector<std::string>& drawn) : classes(m.classes()) {
        std::int64_t most = 1;
        for (std::int64_t t = 0; t < classes && classes <= 25; ++t)
            for (std::int64_t p = 0; p < classes; ++p) most = std::max(most, m.confusion(t, p));
        const auto digits = static_cast<std::int64_t>(std::to_string(most).size());
        counts = classes <= 25;
        cell = counts ? std::max<std::int64_t>(classes <= 12 ? 40 : 28, digits * font_width + 6)
                      : std::max<std::int64_t>(1, (classes <= 60 ? 900 : 1024) / classes);
        int longest = 0;
        for (const std::string& name : drawn) longest = std::max(longest, letters_in(name));
        names = classes <= 60 ? longest * font_width + 8 : 0;
    }
    std::int64_t top() const noexcept { return names + font_height + 8; }
    std::int64_t left() const noexcept { return names + 4; }
};

// Text that is read from below: drawn from the left to the right, then turned.
inline status draw_upward(image& to, std::int64_t bottom, std::int64_t left, const std::string& text) {
    image line;
    GRAFT_TRY_ASSIGN(line, image::make(font_height, std::max(1, letters_in(text) * font_width), 3));
    fill(line, 0, 0, line.height, line.width, paper_color);
    draw_text(line, 0, 0, text, ink_color);
    GRAFT_TRY_ASSIGN(line, orient(line, 8));
    paste(to, bottom - line.height, left, line);
    return {};
}

inline void draw_confusion_cell(image& to, const matrix_layout& at, std::int64_t truth, std::int64_t predicted, std::int64_t count, std::int64_t support) {
    const std::int64_t gap = at.cell >= 8 ? 1 : 0, y = at.top() + truth * at.cell, x = at.left() + predicted * at.cell;
    const double share = support ? static_cast<double>(count) / static_cast<double>(support) : 0, strength = count ? 0.12 + 0.88 * std::sqrt(share) : 0;
    const color c = count ? mixed(truth == predicted ? right_color : wrong_color, strength) : color{244, 244, 242};
    fill(to, y, x, at.cell - gap, at.cell - gap, c);
    if (!at.counts || !count) return;
    const std::string text = std::to_string(count);
    draw_text(to, y + (at.cell - gap - font_height) / 2, x + (at.cell - gap - static_cast<std::int64_t>(text.size()) * font_width) / 2 + 1, text,
              strength > 0.6 ? paper_color : ink_color);
}

}  // namespace detail

GRAFT_INLINE std::vector<scored_picture> most_wrong(const evaluation_result& scored, std::size_t most) {
    std::vector<scored_picture> wrong;
    for (const scored_picture& p : scored.pictures)
        if (p.label != p.predicted) wrong.push_back(p);
    std::stable_sort(wrong.begin(), wrong.end(), [](const scored_picture& a, const scored_picture& b) { return a.loss > b.loss; });
    if (wrong.size() > most) wrong.resize(most);
    return wrong;
}

GRAFT_INLINE result<image> confusion_image(const classification_metrics& metrics, const std::vector<std::string>& classes) GRAFT_MEMORY_TRY {
    const std::int64_t n = metrics.classes();
    if (static_cast<std::int64_t>(classes.size()) != n)
        return fail(errc::labels_count, "confusion matrix", std::to_string(classes.size()) + " names for " + std::to_string(n) + " classes");
    if (n < 1 || n > 4096) return fail(errc::usage, "confusion matrix", "a picture has room for 1 to 4096 classes, not " + std::to_string(n));
    std::vector<std::string> drawn;
    for (std::size_t i = 0; i < classes.size(); ++i) drawn.push_back(detail::cut_text(detail::drawn_name(classes[i], static_cast<std::int64_t>(i)), 18));
    const detail::matrix_layout at(metrics, drawn);
    const std::string title = "rows: true, columns: predicted";
    const std::int64_t side = n * at.cell;
    image made;
    GRAFT_TRY_ASSIGN(made,
                     image::make(at.top() + side + 4, std::max(at.left() + side + 4, static_cast<std::int64_t>(title.size()) * detail::font_width + 8), 3));
    detail::fill(made, 0, 0, made.height, made.width, detail::paper_color);
    detail::draw_text(made, 2, 4, title, {102, 112, 121});
    for (std::int64_t t = 0; t < n; ++t) {
        if (at.names) {
            const std::string& name = drawn[static_cast<std::size_t>(t)];
            const std::int64_t middle = t * at.cell + (at.cell - detail::font_height) / 2;
            detail::draw_text(made, at.top() + middle, at.left() - 4 - detail::letters_in(name) * detail::font_width, name, detail::ink_color);
            GRAFT_TRY(detail::draw_upward(made, at.top() - 3, at.left() + middle, name));
        }
        const std::int64_t support = metrics.score(t).support;
        for (std::int64_t p = 0; p < n; ++p) detail::draw_confusion_cell(made, at, t, p, metrics.confusion(t, p), support);
    }
    return made;
}
GRAFT_MEMORY_CATCH("confusion_image")

GRAFT_INLINE result<image> wrong_pictures_image(const dataset& data, const std::vector<scored_picture>& wrong) GRAFT_MEMORY_TRY {
    constexpr std::int64_t across = 4, side = 208, gap = 8;
    std::vector<image> cards;
    for (const scored_picture& w : wrong) {
        const auto classes = static_cast<std::int64_t>(data.classes().size());
        if (w.index < 0 || w.index >= data.size() || w.label < 0 || w.label >= classes || w.predicted < 0 || w.predicted >= classes)
            return fail(errc::data_label_range, "picture " + std::to_string(w.index), "it or its class is none of the dataset's");
        auto read = data.read(w.index);
        if (!read.ok()) continue;
        const image& whole = read.value();
        const double scale = static_cast<double>(side) / static_cast<double>(std::max(whole.height, whole.width));
        const auto scaled = [scale](std::int64_t v) { return std::max<std::int64_t>(1, std::llround(static_cast<double>(v) * scale)); };
        image small, card;
        // Small pictures show their pixels.
        GRAFT_TRY_ASSIGN(small, resize(whole, scaled(whole.height), scaled(whole.width), scale > 1 ? filter::nearest : filter::bilinear));
        GRAFT_TRY_ASSIGN(card, image::make(side, side, 3));
        detail::fill(card, 0, 0, side, side, {244, 244, 242});
        detail::paste(card, (side - small.height) / 2, (side - small.width) / 2, small);
        const auto name = [&data](std::int32_t c) { return detail::drawn_name(data.classes()[static_cast<std::size_t>(c)], c); };
        const std::string share = detail::number_text(" %.0f %%", 100 * static_cast<double>(w.probability));
        const int room = static_cast<int>((side - 8) / detail::font_width - static_cast<std::int64_t>(share.size()));
        GRAFT_TRY_ASSIGN(card, detail::with_caption(card, {name(w.label), detail::cut_text("taken for " + name(w.predicted), room) + share}));
        cards.push_back(std::move(card));
    }
    if (cards.empty()) return image();
    const auto count = static_cast<std::int64_t>(cards.size()), columns = std::min(count, across), rows = (count + across - 1) / across;
    image made;
    GRAFT_TRY_ASSIGN(made, image::make(gap + rows * (cards[0].height + gap), gap + columns * (side + gap), 3));
    detail::fill(made, 0, 0, made.height, made.width, detail::paper_color);
    for (std::int64_t i = 0; i < count; ++i)
        detail::paste(made, gap + i / across * (cards[0].height + gap), gap + i % across * (side + gap), cards[static_cast<std::size_t>(i)]);
    return made;
}
GRAFT_MEMORY_CATCH("wrong_pictures_image")

GRAFT_END_NAMESPACE
#endif
