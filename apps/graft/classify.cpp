// graft classify: names what is in pictures, and puts them into folders by what they show.
#include "csv.hpp"
#include "picture_namer.hpp"
#include "verb.hpp"

#include <graft/core/directory.hpp>
#include <graft/core/fnv1a.hpp>
#include <graft/core/read_file.hpp>
#include <graft/train/members.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <optional>

namespace program {
namespace {

struct classify_options {
    std::string model, labels, preprocess, output, csv, sort_into;  ///< csv: a file, "-" for standard output, or nothing
    std::vector<std::string> images;
    double unsure = 0;          ///< least probability of what is sure
    int top = 0, preview = -1;  ///< 0 and -1: as suits the output
    spread_options spread;
};

json to_json(const named_picture& p, const classify_options& options) {
    if (p.failed) return {{"image", p.path}, {"error", error_json(*p.failed)}};
    json object{{"image", p.path}, {"top", predictions_json(p.top)}};
    if (options.unsure > 0) object["unsure"] = p.unsure;
    if (!p.sorted.empty()) object["sorted"] = p.sorted;
    return object;
}

// A path on a card: whole where there is room or nobody looks, else its last part.
std::string card_title(const terminal& screen, const std::string& path, const std::string& sides, int columns) {
    std::string whole = printable(path) + sides;
    if (!screen.interactive || display_width(whole) <= columns) return whole;
    return shortened(printable(base_name(path)) + sides, columns);
}

// A picture beside its names and their bars, `columns` wide.
std::vector<std::string> card(const terminal& screen, const named_picture& p, const graft::image& pixels, int preview, int columns, std::size_t shown) {
    const std::vector<std::string> picture = preview ? small_picture(screen, pixels, preview) : std::vector<std::string>();
    const int left = picture.empty() ? 0 : preview + 3;
    const std::string sides = pixels ? "  " + std::to_string(pixels.width) + "x" + std::to_string(pixels.height) : "";
    std::vector<std::string> text{styled(screen, style::dim, card_title(screen, p.path, sides, columns - left - (p.unsure ? 8 : 0))) +
                                  (p.unsure ? styled(screen, style::yellow, "  unsure") : "")};
    if (p.failed)
        text.push_back(
            styled(screen, style::red, shortened(std::string(graft::text(p.failed->code())) + ": " + printable(p.failed->detail()), columns - left)));
    int label_columns = 8;
    for (const graft::prediction& one : p.top) label_columns = std::max(label_columns, std::min(28, display_width(printable(one.label))));
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
        std::string line = picture.empty() ? "" : r < picture.size() ? picture[r] + "   " : std::string(static_cast<std::size_t>(left), ' ');
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
    head.push_back("");
    text_table table(head);
    for (const named_picture& p : all) {
        std::vector<std::string> row{printable(p.path)};
        if (p.failed) row.push_back(std::string(graft::text(p.failed->code())));
        for (std::size_t i = 0; i < p.top.size() && i < static_cast<std::size_t>(top); ++i) {
            const std::string share = percent_text(p.top[i].probability);
            row.push_back(printable(p.top[i].label));
            row.push_back(share.substr(0, share.size() - 2));
        }
        row.resize(head.size());
        if (p.unsure) row.back() = "unsure";
        table.add(row);
    }
    table.print(screen);
}

// The first label's column is called as a dataset's is, so that the table can be read as one.
std::string csv_table(const std::vector<named_picture>& all, const classify_options& options) {
    std::size_t most = 1;
    for (const named_picture& p : all) most = std::max(most, p.top.size());
    std::string out = "path";
    for (std::size_t i = 1; i <= most; ++i) {
        const std::string number = i > 1 ? "_" + std::to_string(i) : "";
        out += ",label" + number + ",probability" + number;
    }
    out += options.unsure > 0 ? ",unsure,error\n" : ",error\n";
    for (const named_picture& p : all) {
        out += csv_field(p.path);
        for (std::size_t i = 0; i < most; ++i)
            out += i < p.top.size() && !p.failed ? "," + csv_field(p.top[i].label) + "," + formatted("%.9g", p.top[i].probability) : ",,";
        if (options.unsure > 0) out += p.failed ? "," : p.unsure ? ",true" : ",false";
        out += "," + (p.failed ? csv_field(std::string(graft::text(p.failed->code())) + ": " + p.failed->detail()) : "") + "\n";
    }
    return out;
}

graft::status check_csv(const classify_options& options, bool json) {
    const std::string& name = options.csv;
    const bool file = name.size() > 4 && (name.compare(name.size() - 4, 4, ".csv") == 0 || name.compare(name.size() - 4, 4, ".CSV") == 0);
    if (!name.empty() && name != "-" && !file)
        return graft::fail(graft::errc::usage, "--csv",
                           "it takes a file whose name ends in .csv, or nothing, and then stands last or before another option; \"" + printable(name) +
                               "\" is neither");
    if (name == "-" && json) return graft::fail(graft::errc::usage, "--csv", "standard output holds JSON or CSV, not both; give --csv FILE.csv");
    return {};
}

// Copies of pictures in a folder for each label, "unsure" for those that are.
class picture_sorter {
public:
    explicit picture_sorter(const classify_options& options) : options_(options) {}

    graft::result<std::string> sort(const named_picture& p) {
        std::string folder = "unsure";
        // A class of that name has a folder of its own.
        if (!p.unsure) folder = options_.unsure > 0 && p.top[0].label == folder ? "%75nsure" : legal_name(p.top[0].label);
        std::string bytes;
        GRAFT_TRY_ASSIGN(bytes, graft::read_file(p.path, graft::limits().image_bytes, graft::errc::image_open, graft::errc::image_budget));
        return files_.write(graft::join_path(options_.sort_into, folder), base_name(p.path), bytes);
    }

private:
    const classify_options& options_;
    new_files files_;
};

// Whether all processes see the same pictures, and look at them in the same way.
graft::status agree(const std::shared_ptr<graft::communicator>& group, const std::vector<picture_argument>& pictures, const classify_options& options,
                    const graft::classifier& classifier) {
    std::uint64_t paths = graft::fnv1a_basis;
    for (const picture_argument& p : pictures) paths = graft::fnv1a(p.path.c_str(), p.path.size() + 1, paths);
    return graft::detail::run_members(group).agree({{"pictures", std::to_string(pictures.size())},
                                                    {"paths", std::to_string(paths)},
                                                    {"preprocess", graft::text(classifier.preprocessing().spec)},
                                                    {"model", options.model},
                                                    {"top", std::to_string(options.top)}});
}

graft::result<int> classify(const common_options& common, const classify_options& options, const std::shared_ptr<graft::communicator>& group) {
    const double begun = now_ms();
    const bool leads = !group || group->rank() == 0;
    std::vector<std::shared_ptr<graft::device>> devices;
    GRAFT_TRY_ASSIGN(devices, replica_devices(common, options.spread, group.get()));
    std::vector<classifier_replica> replicas;
    GRAFT_TRY_ASSIGN(replicas,
                     load_classifiers(common, options.spread, group.get(), devices, options.model, options.labels, options.preprocess, options.output));
    const double load_ms = now_ms() - begun;

    const terminal screen = look_at(stdout, common.color);
    const std::vector<picture_argument> pictures = pictures_of(common, options.images, options.sort_into);
    const std::size_t images = pictures.size();
    // Of this process.
    std::vector<picture_argument> own;
    for (std::size_t i = 0; i < images; ++i)
        if (!group || i / picture_namer::turn % static_cast<std::size_t>(group->size()) == static_cast<std::size_t>(group->rank())) own.push_back(pictures[i]);
    if (group) GRAFT_TRY(agree(group, pictures, options, replicas[0].classifier));
    // On a terminal, few pictures are shown large, one below the other; many are small, two beside each other where there is
    // room. Pixels that another process has decoded are not shown.
    const bool few = images <= 4, csv = options.csv == "-", cards = !common.json && !csv && (screen.interactive || common.color == "always");
    const int preview = group ? 0 : options.preview >= 0 ? options.preview : few ? 24 : 12;
    const int across = !few && screen.columns >= 96 ? 2 : 1, columns = (screen.columns - 2 * (across - 1)) / across;
    const int top = options.top > 0 ? options.top : 5, shown = options.top > 0 ? options.top : cards && few ? 5 : 3;
    std::vector<named_picture> all;
    progress bar("classify", static_cast<std::int64_t>(images), common.quiet || cards);
    card_printer printer(columns, across);
    picture_sorter sorter(options);
    const double start = now_ms();
    int failures = 0;
    const auto conclude = [&](named_picture p, const graft::image& picture) {
        p.unsure = !p.failed && options.unsure > 0 && !(p.top[0].probability >= options.unsure);
        if (!p.failed && !options.sort_into.empty()) {
            auto copy = sorter.sort(p);
            if (copy.ok())
                p.sorted = std::move(copy).value();
            else
                p.failed = copy.error();
        }
        failures += p.failed.has_value();
        if (cards) printer.add(card(screen, p, picture, preview, columns, static_cast<std::size_t>(shown)));
        all.push_back(std::move(p));
        bar.step(static_cast<std::int64_t>(all.size()));
    };
    picture_namer namer(own, replicas, thread_count(common), top);
    GRAFT_TRY(namer.start());
    while (!group && namer.left()) {
        picture_group some;
        GRAFT_TRY(namer.next(some));
        for (std::size_t i = 0, next = 0; i < some.named.size(); ++i) {
            const bool decoded = next < some.decoded.size() && some.decoded_of[next] == i;
            conclude(std::move(some.named[i]), decoded ? some.decoded[next] : graft::image());
            next += decoded;
        }
    }
    const std::size_t each_turn = group ? picture_namer::turn * static_cast<std::size_t>(group->size()) : images;
    for (std::size_t first = 0; group && first < images; first += each_turn) {
        std::vector<named_picture> mine;
        for (picture_group some; mine.size() < picture_namer::turn && namer.left();) {
            GRAFT_TRY(namer.next(some));
            for (named_picture& p : some.named) mine.push_back(std::move(p));
        }
        std::vector<std::string> told;
        GRAFT_TRY_ASSIGN(told, gather_texts(group, packed(mine)));
        std::vector<named_picture> found;
        for (const std::string& text : told) unpack(text, found);
        if (leads)
            for (named_picture& p : found) conclude(std::move(p), graft::image());
    }
    printer.flush();
    bar.finish();
    const double took = now_ms() - start;
    std::string device;
    GRAFT_TRY_ASSIGN(device, devices_of_world(devices, group));
    if (!leads) return exit_done;

    if (common.json) {
        json results = json::array();
        for (const named_picture& p : all) results.push_back(to_json(p, options));
        print(json{{"results", results}, {"model", options.model}, {"device", device}, {"load_ms", load_ms}, {"total_ms", took}});
    } else if (csv)
        std::fputs(csv_table(all, options).c_str(), stdout);
    else {
        if (!cards) print_rows(screen, all, shown);
        std::printf("%zu %s in %s on %s, after %s of loading\n", images, images == 1 ? "picture" : "pictures", milliseconds_text(took).c_str(), device.c_str(),
                    milliseconds_text(load_ms).c_str());
    }
    if (!options.csv.empty() && !csv) GRAFT_TRY(write_text(csv_table(all, options), options.csv));
    for (const named_picture& p : all)
        if (p.failed) report(graft::error(p.failed->code(), p.path, p.failed->detail()));
    return failures ? exit_failed : exit_done;
}

action declare(option_list& list) {
    auto o = std::make_shared<classify_options>();
    list.add("MODEL", o->model, "The model").required();
    list.add("IMAGE", o->images, "JPEG, PNG, BMP, PNM or WebP files, and folders of them").required();
    list.add("--labels", o->labels, "Names of the classes, one a line (default: the model's own)", "FILE");
    list.add("--top", o->top, "How many names a picture (default: 5)", "K").within(1, 1 << 20);
    list.add("--preprocess", o->preprocess, "How pictures become tensors (default: the model's own)", "SPEC");
    list.add("--output", o->output, "The output that names classes (default: the first)", "NAME");
    list.add("--preview", o->preview, "Columns of the picture beside the names, 0 for none", "N").within(0, 200);
    list.add("--csv", o->csv, "A table as CSV into FILE.csv, or, without it, to standard output", "[FILE.csv]").alone_means("-");
    list.add("--sort-into", o->sort_into, "Copy each picture into DIR/LABEL/, under its own name; nothing there is overwritten", "DIR");
    list.add("--unsure", o->unsure, "Mark pictures whose best probability is below P, and sort them into DIR/unsure/", "P").within(0.0, 1.0);
    declare_replicas(list, o->spread);
    return [o](const common_options& common) -> graft::result<int> {
        GRAFT_TRY(check_csv(*o, common.json));
        return with_world(common, o->spread.timeout,
                          [&](const common_options& own, const std::shared_ptr<graft::communicator>& group) { return classify(own, *o, group); });
    };
}

}  // namespace

verb classify_verb() { return {"Names what is in pictures", declare}; }

}  // namespace program
