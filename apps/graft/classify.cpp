// graft classify: names what is in pictures.
#include "program.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <optional>

namespace program {
namespace {

struct named_picture {
    std::string path;
    std::vector<graft::prediction> top;
    std::optional<graft::error> failed;
};

json to_json(const named_picture& p) {
    if (p.failed)
        return {{"image", p.path}, {"error", {{"code", graft::text(p.failed->code())}, {"detail", p.failed->detail()}}}};
    json top = json::array();
    for (const graft::prediction& one : p.top)
        top.push_back({{"index", one.index}, {"label", one.label}, {"probability", one.probability}});
    return {{"image", p.path}, {"top", top}};
}

std::string base_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

// A picture beside its names and their bars, `columns` wide.
std::vector<std::string> card(const terminal& screen, const named_picture& p, const graft::image& pixels, int preview,
                              int columns, std::size_t shown) {
    const std::vector<std::string> picture = preview ? small_picture(screen, pixels, preview) : std::vector<std::string>();
    const int left = picture.empty() ? 0 : preview + 3;
    const std::string sides = pixels ? "  " + std::to_string(pixels.width) + "x" + std::to_string(pixels.height) : "";
    std::vector<std::string> text{styled(screen, style::dim, shortened(printable(base_name(p.path)) + sides, columns - left))};
    if (p.failed)
        text.push_back(
            styled(screen, style::red,
                   shortened(std::string(graft::text(p.failed->code())) + ": " + printable(p.failed->detail()), columns - left)));
    int label_columns = 8;
    for (const graft::prediction& one : p.top)
        label_columns = std::max(label_columns, std::min(28, display_width(printable(one.label))));
    label_columns = std::max(4, std::min(label_columns, columns - left - 17));
    const int bar_columns = std::max(4, std::min(24, columns - left - label_columns - 11));
    for (std::size_t i = 0; i < p.top.size() && i < shown; ++i) {
        const graft::prediction& one = p.top[i];
        const style how = i ? style::plain : style::bold, color = i ? style::cyan : style::green;
        text.push_back(styled(screen, how, padded(shortened(printable(one.label), label_columns), label_columns)) + "  " +
                       styled(screen, color, bar(screen, one.probability, bar_columns)) + "  " +
                       styled(screen, how, padded(percent_text(one.probability), 7, true)));
    }
    // The text stands in the middle of the picture's height.
    const std::size_t rows = std::max(text.size(), picture.size()), above = (rows - text.size()) / 2;
    std::vector<std::string> lines;
    for (std::size_t r = 0; r < rows; ++r) {
        std::string line = picture.empty()      ? ""
                           : r < picture.size() ? picture[r] + "   "
                                                : std::string(static_cast<std::size_t>(left), ' ');
        if (r >= above && r - above < text.size()) line += text[r - above];
        lines.push_back(line);
    }
    return lines;
}

// Cards beside each other, as many as the terminal has room for.
class card_printer {
public:
    card_printer(int columns, int across) : columns_(columns), across_(static_cast<std::size_t>(across)) {}
    ~card_printer() { flush(); }
    card_printer(const card_printer&) = delete;
    card_printer& operator=(const card_printer&) = delete;
    void add(std::vector<std::string> lines) {
        waiting_.push_back(std::move(lines));
        if (waiting_.size() == across_) flush();
    }
    void flush() {
        std::size_t rows = 0;
        for (const auto& c : waiting_) rows = std::max(rows, c.size());
        for (std::size_t r = 0; r < rows; ++r) {
            std::string line;
            for (std::size_t c = 0; c < waiting_.size(); ++c) {
                const std::string part = r < waiting_[c].size() ? waiting_[c][r] : "";
                line += c + 1 < waiting_.size() ? padded(part, columns_) + "  " : part;
            }
            std::printf("%s\n", line.c_str());
        }
        if (rows) std::printf("\n");
        std::fflush(stdout);
        waiting_.clear();
    }

private:
    int columns_;
    std::size_t across_;
    std::vector<std::vector<std::string>> waiting_;
};

void print_rows(const terminal& screen, const std::vector<named_picture>& all, int top) {
    std::vector<std::string> head{"picture"};
    for (int i = 1; i <= top; ++i) {
        head.push_back(i == 1 ? "top 1" : std::to_string(i));
        head.push_back(">%");
    }
    text_table table(head);
    for (const named_picture& p : all) {
        std::vector<std::string> row{shortened(printable(p.path), 60)};
        if (p.failed) row.push_back(std::string(graft::text(p.failed->code())));
        for (std::size_t i = 0; i < p.top.size() && i < static_cast<std::size_t>(top); ++i) {
            const std::string share = percent_text(p.top[i].probability);
            row.push_back(shortened(printable(p.top[i].label), 28));
            row.push_back(share.substr(0, share.size() - 2));
        }
        table.add(row);
    }
    table.print(screen);
}

} // namespace

graft::result<int> classify(const common_options& common, const classify_options& options) {
    const double begun = now_ms();
    auto loaded = load_classifier(common, options.model, options.labels, options.preprocess, options.output);
    if (!loaded.ok()) return loaded.take_status();
    graft::classifier classifier = std::move(loaded).value();
    const double load_ms = now_ms() - begun;

    const terminal screen = look_at(stdout, common.color);
    const std::size_t images = options.images.size();
    // On a terminal, few pictures are shown large, one below the other; many are small, two beside each other where there is
    // room.
    const bool few = images <= 4, cards = !common.json && (screen.interactive || common.color == "always");
    const int preview = options.preview >= 0 ? options.preview : few ? 24 : 12;
    const int across = !few && screen.columns >= 96 ? 2 : 1, columns = (screen.columns - 2 * (across - 1)) / across;
    const int top = options.top > 0 ? options.top : 5, shown = options.top > 0 ? options.top : cards && few ? 5 : 3;
    std::vector<named_picture> all;
    progress bar("classify", static_cast<std::int64_t>(images), common.quiet || cards);
    card_printer printer(columns, across);
    const double start = now_ms();
    int failures = 0;
    for (const std::string& path : options.images) {
        named_picture p{path, {}, {}};
        auto decoded = graft::decode_file(path);
        graft::image picture;
        if (decoded.ok()) {
            picture = decoded.value();
            auto named = classifier.classify(picture, top);
            if (named.ok())
                p.top = std::move(named).value();
            else
                p.failed = named.error();
        } else
            p.failed = decoded.error();
        failures += p.failed.has_value();
        if (cards) printer.add(card(screen, p, picture, preview, columns, static_cast<std::size_t>(shown)));
        all.push_back(std::move(p));
        bar.step(static_cast<std::int64_t>(all.size()));
    }
    printer.flush();
    bar.finish();
    const double took = now_ms() - start;

    if (common.json) {
        json results = json::array();
        for (const named_picture& p : all) results.push_back(to_json(p));
        print(json{{"results", results}, {"model", options.model}, {"device", classifier.model().device()}, {"load_ms", load_ms}, {"total_ms", took}});
    } else {
        if (!cards) print_rows(screen, all, shown);
        std::printf("%zu %s in %s on %s, after %s of loading\n", images, images == 1 ? "picture" : "pictures",
                    milliseconds_text(took).c_str(), classifier.model().device(), milliseconds_text(load_ms).c_str());
    }
    for (const named_picture& p : all)
        if (p.failed) report(graft::error(p.failed->code(), p.path, p.failed->detail()));
    return failures ? exit_failed : exit_done;
}

} // namespace program
