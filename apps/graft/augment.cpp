// graft augment: a sheet of what a network sees of a dataset while it learns, as PNG.
#include "verb.hpp"

#include <graft/core/file.hpp>
#include <graft/data/dataset.hpp>
#include <graft/data/mix.hpp>
#include <graft/data/png_encode.hpp>
#include <graft/data/sample_maker.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace program {
namespace {

struct augment_options {
    std::string data, preview, augment, preprocess;
    int images = 6;
};

constexpr std::int64_t gap = 6, caption_height = 18, draws = 7, tallest_cell = 128;

// Seven rows of five pixels for each letter, '@' plus the row's bits; small letters look like capitals.
const char* glyph(char c) {
    static constexpr const char* letters[] = {"NQQ_QQQ", "^QQ^QQ^", "NQPPPQN", "^QQQQQ^", "_PP^PP_", "_PP^PPP", "NQPWQQN", "QQQ_QQQ", "NDDDDDN",
                                              "GBBBBRL", "QRTXTRQ", "PPPPPP_", "Q[UUQQQ", "QYUSQQQ", "NQQQQQN", "^QQ^PPP", "NQQQURM", "^QQ^TRQ",
                                              "OPPNAA^", "_DDDDDD", "QQQQQQN", "QQQQQJD", "QQQUUUJ", "QQJDJQQ", "QQJDDDD", "_ABDHP_"};
    static constexpr const char* digits[] = {"NQSUYQN", "DLDDDDN", "NQAFHP_", "NQAFAQN", "BFJR_BB", "_P^AAQN", "NPP^QQN", "_ABDHHH", "NQQNQQN", "NQQOAAN"};
    if (c >= 'a' && c <= 'z') return letters[c - 'a'];
    if (c >= '0' && c <= '9') return digits[c - '0'];
    switch (c) {
    case '=': return "@@_@_@@";
    case ':': return "@LL@LL@";
    case '.': return "@@@@@LL";
    case ',': return "@@@@LDH";
    case '-': return "@@@_@@@";
    case '_': return "@@@@@@_";
    default: return "@@@@@@@";
    }
}

void write_text(graft::image& sheet, std::int64_t top, std::int64_t left, const std::string& text) {
    for (const char c : text) {
        if (left + 6 > sheet.width) return;
        const char* rows = glyph(c);
        for (std::int64_t y = 0; y < 7; ++y)
            for (std::int64_t x = 0; x < 5; ++x)
                if (rows[y] >> (4 - x) & 1) std::memset(sheet.row(top + y) + (left + x) * 3, 40, 3);
        left += 6;
    }
}

void paste(graft::image& sheet, std::int64_t top, std::int64_t left, const graft::image& cell) {
    for (std::int64_t y = 0; y < cell.height; ++y) std::memcpy(sheet.row(top + y) + left * 3, cell.row(y), static_cast<std::size_t>(cell.stride()));
}

// One sample of a batch as a picture again: normalisation undone, channels in the order of the eye.
graft::result<graft::image> seen(const graft::sample_maker& samples, const float* values) {
    const graft::preprocess_spec& spec = samples.preprocess();
    const std::int64_t n = samples.height() * samples.width(), channels = samples.channels();
    graft::image picture;
    GRAFT_TRY_ASSIGN(picture, graft::image::make(samples.height(), samples.width(), 3));
    for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t c = 0; c < 3; ++c) {
            const std::int64_t from = channels == 1 ? 0 : spec.order == graft::preprocess_spec::channels::bgr ? 2 - c : c;
            const float value = values[samples.nchw() ? from * n + i : i * channels + from];
            const float pixel = (spec.multiply ? value / spec.std[from] : value * spec.std[from]) + spec.mean[from];
            picture.data()[3 * i + c] = static_cast<std::uint8_t>(std::min(255.0f, std::max(0.0f, pixel + 0.5f)));
        }
    const std::int64_t side = std::max(picture.height, picture.width);
    if (side <= tallest_cell) return picture;
    return graft::resize(picture, std::max<std::int64_t>(1, picture.height * tallest_cell / side),
                         std::max<std::int64_t>(1, picture.width * tallest_cell / side));
}

// A row of the sheet: one picture as evaluation sees it, and as the first epochs do.
struct sheet_row {
    std::string caption;
    graft::augmentation augment;
    std::int64_t index;
};

graft::status make_row(const graft::dataset& data, graft::sample_options options, const sheet_row& row, std::vector<graft::image>& cells) {
    const auto add = [&cells](const graft::sample_maker& samples, const graft::tensor& batch) -> graft::status {
        cells.emplace_back();
        GRAFT_TRY_ASSIGN(cells.back(), seen(samples, batch.data<float>()));
        return {};
    };
    graft::sample_maker plain, changed;
    options.augment = {};
    GRAFT_TRY_ASSIGN(plain, graft::sample_maker::make(data, options));
    options.augment = row.augment;
    GRAFT_TRY_ASSIGN(changed, graft::sample_maker::make(data, options));
    graft::tensor batch;
    GRAFT_TRY_ASSIGN(batch, graft::tensor::make(graft::dtype::float32, plain.batch_shape(2)));
    GRAFT_TRY(plain.write(row.index, 0, batch.raw()));
    GRAFT_TRY(add(plain, batch));
    for (std::int64_t epoch = 0; epoch < draws; ++epoch) {
        // The other half of a mixture is the next picture.
        const std::int64_t other = row.index + 1 < data.size() ? row.index + 1 : 0;
        GRAFT_TRY(changed.write(row.index, epoch, batch.raw()));
        GRAFT_TRY(changed.write(other, epoch, batch.raw() + changed.sample_bytes()));
        graft::random_sequence random(graft::data_stream(options.seed, graft::random_purpose::batch, epoch, 0));
        GRAFT_TRY(graft::mix(batch, graft::draw_mix(row.augment, changed.height(), changed.width(), random), changed.nchw()));
        GRAFT_TRY(add(changed, batch));
    }
    return {};
}

// Pictures spread over the dataset, under one augmentation, or under each there is.
graft::result<std::vector<sheet_row>> rows_of(const graft::dataset& data, const std::string& spec, int images) {
    std::vector<std::string> specs;
    if (spec == "each") {
        for (const graft::augmentation_kind& kind : graft::augmentation_kinds())
            if (kind.example) specs.push_back(kind.example);
    } else
        specs.assign(static_cast<std::size_t>(std::min<std::int64_t>(images, data.size())), spec.empty() ? "default" : spec);
    std::vector<sheet_row> rows;
    for (std::size_t i = 0; i < specs.size(); ++i) {
        graft::augmentation augment;
        GRAFT_TRY_ASSIGN(augment, graft::parse_augmentation(specs[i]));
        const std::int64_t index = static_cast<std::int64_t>(i) * data.size() / static_cast<std::int64_t>(specs.size());
        const std::string caption = spec == "each" ? specs[i] : data.classes()[static_cast<std::size_t>(data.label(index))];
        rows.push_back({caption, augment, index});
    }
    return rows;
}

graft::result<int> augment(const common_options& common, const augment_options& options) {
    graft::sample_options sample;
    GRAFT_TRY_ASSIGN(sample.preprocess, graft::parse_preprocess(options.preprocess.empty() ? "imagenet,crop=224" : options.preprocess));
    sample.preprocess.type = graft::dtype::float32;
    sample.seed = common.seed;
    if (options.augment != "each" && !options.augment.empty()) {
        const auto parsed = graft::parse_augmentation(options.augment);  // wrong usage, whatever the dataset is
        if (!parsed.ok()) return graft::status(parsed.error());
    }
    graft::dataset_options opening;
    opening.seed = common.seed;
    opening.together = false;  // a sheet of a few pictures need not read all of them
    graft::dataset_splits splits;
    GRAFT_TRY_ASSIGN(splits, graft::open_splits(options.data, opening));
    std::vector<sheet_row> rows;
    GRAFT_TRY_ASSIGN(rows, rows_of(splits.training, options.augment, options.images));

    graft::image sheet;
    std::int64_t top = caption_height, shown = 0;
    for (const sheet_row& row : rows) {
        std::vector<graft::image> cells;
        const graft::status made = make_row(splits.training, sample, row, cells);
        if (!made.ok()) {
            warn(common, std::string(made.error().what()) + "; left out");
            continue;
        }
        const std::int64_t height = cells[0].height, width = cells[0].width, step = height + caption_height;
        if (!sheet) {
            GRAFT_TRY_ASSIGN(sheet, graft::image::make(caption_height + static_cast<std::int64_t>(rows.size()) * step, gap + (draws + 1) * (width + gap), 3));
            std::memset(sheet.data(), 255, static_cast<std::size_t>(sheet.bytes()));
            for (std::int64_t c = 0; c <= draws; ++c) write_text(sheet, gap, gap + c * (width + gap), c == 0 ? "evaluation" : "epoch " + std::to_string(c));
        }
        for (std::size_t c = 0; c < cells.size(); ++c) paste(sheet, top, gap + static_cast<std::int64_t>(c) * (width + gap), cells[c]);
        std::string caption = row.caption;
        for (char& c : caption) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
        write_text(sheet, top + height + 3, gap, caption);
        top += step;
        ++shown;
    }
    if (!shown) return graft::fail(graft::errc::data_too_many_bad, options.data, "none of the pictures chosen for the sheet can be read");
    GRAFT_TRY_ASSIGN(sheet, graft::crop(sheet, 0, 0, top, sheet.width));
    GRAFT_TRY(graft::write_png(options.preview, sheet));
    const std::string text = options.augment == "each" ? "each" : graft::text(rows[0].augment);
    if (common.json)
        print(json{{"images", shown}, {"preview", options.preview}, {"augment", text}});
    else {
        for (const std::string& line : small_picture(look_at(stdout, common.color), sheet, 96)) std::printf("%s\n", line.c_str());
        std::printf("%s: %lld pictures of %s, %s\n", printable(options.preview).c_str(), static_cast<long long>(shown), printable(options.data).c_str(),
                    text.c_str());
    }
    return exit_done;
}

action declare(option_list& list) {
    auto o = std::make_shared<augment_options>();
    list.add("DATA", o->data, "Image folder, IDX or CIFAR files, or a CSV file").required();
    list.add("--preview", o->preview, "The sheet", "FILE.png").required();
    list.add("--augment", o->augment, "Random changes, or each for all there are (default: those of finetune)", "SPEC");
    list.add("--preprocess", o->preprocess, "How pictures become tensors (default: imagenet,crop=224)", "SPEC");
    list.add("--images", o->images, "Rows of the sheet (default: 6)", "N").within(1, 64);
    return [o](const common_options& common) { return augment(common, *o); };
}

}  // namespace

verb augment_verb() { return {"A sheet of what a network sees while it learns, as PNG", declare}; }

}  // namespace program
