// graft start: from a folder of pictures to a model, in steps that show the commands they stand for.
#include "interrupt.hpp"
#include "start.hpp"

#include <graft/data/check.hpp>

#include <algorithm>
#include <cstdio>

namespace program {
namespace {

constexpr const char* get_networks = "docs/networks.md lists where networks can be had";

struct start_options {
    std::string data, from, out;
    int epochs = 0;
    double minutes = 5;
};

// Tells what is done, and how to do it alone.
class steps {
public:
    steps(const common_options& common, int all) : shown_(!common.quiet && !common.json), color_(common.color), all_(all) {}
    void begin(const std::string& what, const std::string& command) {
        ++now_;
        if (!shown_) return;
        const terminal screen = look_at(stdout, color_);
        std::printf("%s%s\n", now_ > 1 ? "\n" : "", styled(screen, style::bold, std::to_string(now_) + " of " + std::to_string(all_) + ": " + what).c_str());
        if (!command.empty()) std::printf("%s\n", styled(screen, style::dim, "$ " + command).c_str());
        std::fflush(stdout);
    }
    void tell(const std::string& text) {
        if (shown_) std::printf("%s\n", text.c_str());
        std::fflush(stdout);
    }
    bool shown() const { return shown_; }
    terminal screen() const { return look_at(stdout, color_); }

private:
    bool shown_;
    std::string color_;
    int all_, now_ = 0;
};

std::string command_of(const std::vector<std::string>& words) {
    std::string line = "graft";
    for (const std::string& word : words) line += " " + shell_quoted(word);
    return line;
}

graft::status check_pictures(const common_options& common, const start_options& o, steps& told) {
    told.begin("what the pictures are like", command_of({"check", o.data}));
    graft::pool_executor pool(thread_count(common));
    graft::dataset_report report;
    {
        dataset_bar bar("check", common.quiet);
        report = graft::check_dataset(o.data, graft::dataset_options(), pool, bar.told());
    }
    GRAFT_TRY(std::move(report.verdict));
    told.tell(std::to_string(report.images) + " pictures of " + std::to_string(report.classes.size()) + " classes, " + std::to_string(report.readable) +
              " can be read; " + (report.problems.empty() ? "nothing is wrong" : "problems: " + std::to_string(report.problems.size())));
    constexpr std::size_t most_shown = 5;
    for (std::size_t i = 0; i < report.problems.size() && i < most_shown; ++i)
        told.tell("  " + printable(report.problems[i].path) + ": " + printable(report.problems[i].detail));
    if (report.problems.size() > most_shown) told.tell("  ... the command above lists all");
    return {};
}

// The one to begin with. Its preprocessing goes into `words` where the file does not say it.
graft::status choose_network(const common_options& common, const start_options& o, const graft::dataset& training, steps& told, training_options& learning,
                             std::vector<std::string>& words) {
    told.begin("which network to begin with", "");
    std::vector<network_choice> networks;
    GRAFT_TRY_ASSIGN(networks, rank_networks(common, o.from, training));
    if (told.shown()) {
        text_table table({"network", ">weights", ">features name", "pictures are prepared by"});
        for (const network_choice& n : networks)
            table.add({printable(n.path), count_text(static_cast<std::int64_t>(n.parameters)), percent_text(n.accuracy),
                       n.preprocess + (n.assumed ? " (tried)" : "")});
        table.print(told.screen());
    }
    const network_choice& best = networks.front();
    told.tell("features: of pictures left out one at a time, the share that the others' features name rightly, before anything is learnt");
    learning.from = best.path;
    words.insert(words.end(), {"--from", best.path});
    if (best.assumed) {
        learning.preprocess = best.preprocess;
        words.insert(words.end(), {"--preprocess", best.preprocess});
    }
    return {};
}

// What there is to learn from nothing, by how large the pictures are.
graft::status choose_architecture(const graft::dataset& training, steps& told, training_options& learning, std::vector<std::string>& words) {
    told.begin("which network to begin with", "");
    std::vector<std::int64_t> sides;
    for (std::int64_t i : graft::search_sample(training)) {
        auto read = training.read(i);
        if (read.ok()) sides.push_back(std::max(read->width, read->height));
    }
    if (sides.empty()) return graft::fail(graft::errc::data_too_many_bad, "start", "none of the pictures that were looked at can be read");
    std::nth_element(sides.begin(), sides.begin() + static_cast<std::ptrdiff_t>(sides.size() / 2), sides.end());
    const std::int64_t side = sides[sides.size() / 2];
    learning.from_scratch = true;
    learning.arch = side <= 28 ? "lenet" : side <= 64 ? "resnet20" : "mobilenet_v2";
    words.insert(words.end(), {"--arch", learning.arch});
    told.tell("no --from: " + learning.arch + " from random weights, for pictures of " + std::to_string(side) + " pixels");
    told.tell("one that has learnt from photographs needs far fewer pictures: " + std::string(get_networks));
    return {};
}

graft::status choose_settings(const common_options& common, const start_options& o, const training_options& learning, const graft::dataset& training,
                              steps& told, std::vector<std::string>& words) {
    graft::dataset_splits part;
    GRAFT_TRY_ASSIGN(part, trial_part(training, common.seed));
    told.begin("which settings, by short runs on " + std::to_string(part.training.size() + part.validation.size()) + " of the pictures to learn from", "");
    std::vector<setting_trial> trials;
    GRAFT_TRY_ASSIGN(trials, try_settings(common, learning, part, o.minutes * 60));
    if (trials.empty()) {
        told.tell("there are too few pictures to try any: the defaults are taken");
        return {};
    }
    const setting_trial& chosen = chosen_setting(trials, part.validation.size());
    if (told.shown()) {
        const terminal screen = told.screen();
        text_table table({"settings", ">top-1", ">loss", ">s"});
        for (const setting_trial& t : trials) {
            std::string name;
            for (const std::string& word : t.words) name += (name.empty() ? "" : " ") + word;
            if (name.empty()) name = "the defaults";
            table.add({&t == &chosen ? styled(screen, style::bold, name + " *") : name, percent_text(t.top1), formatted("%.3f", t.loss),
                       formatted("%.1f", t.seconds)});
        }
        table.print(screen);
    }
    told.tell("* taken: the defaults stay where nothing beats them by more than chance may on " + std::to_string(part.validation.size()) + " pictures");
    words.insert(words.end(), chosen.words.begin(), chosen.words.end());
    return {};
}

// The options of the command line that every verb takes.
void add_common_words(const common_options& common, std::vector<std::string>& words) {
    const common_options plain;
    if (common.json) words.push_back("--json");
    if (common.quiet) words.push_back("--quiet");
    if (common.exact) words.push_back("--exact");
    if (common.deterministic) words.push_back("--deterministic");
    if (common.strict_placement) words.push_back("--strict-placement");
    const auto add = [&](const char* option, const std::string& value, const std::string& without) {
        if (value != without) words.insert(words.end(), {option, value});
    };
    add("--threads", std::to_string(common.threads), std::to_string(plain.threads));
    add("--seed", std::to_string(common.seed), std::to_string(plain.seed));
    add("--device", common.device, plain.device);
    add("--precision", common.precision, plain.precision);
    add("--memory-limit", common.memory_limit, plain.memory_limit);
    add("--color", common.color, plain.color);
}

graft::result<int> start(const common_options& common, const start_options& o) {
    GRAFT_TRY(graft::check_out(o.out, false, false));
    steps told(common, 4);
    GRAFT_TRY(check_pictures(common, o, told));
    graft::dataset_options opening;
    opening.seed = common.seed;
    opening.threads = thread_count(common);
    graft::dataset_splits data;
    GRAFT_TRY_ASSIGN(data, graft::open_splits(o.data, opening));
    training_options learning;
    learning.data = o.data;
    std::vector<std::string> words{o.from.empty() ? "train" : "finetune", o.data};
    if (o.from.empty())
        GRAFT_TRY(choose_architecture(data.training, told, learning, words));
    else
        GRAFT_TRY(choose_network(common, o, data.training, told, learning, words));
    words.insert(words.end(), {"--out", o.out});
    GRAFT_TRY(choose_settings(common, o, learning, data.training, told, words));
    if (o.epochs > 0) words.insert(words.end(), {"--epochs", std::to_string(o.epochs)});
    add_common_words(common, words);
    told.begin("the run itself", command_of(words));
    return run_command(words);
}

action declare(option_list& list) {
    auto o = std::make_shared<start_options>();
    list.add("DATA", o->data, "Image folder, IDX or CIFAR files, or a CSV file").required();
    list.add("--from", o->from,
             "A network to begin with, or a folder of ONNX files, of which the one is taken that tells the classes apart best (default: none)", "MODEL|FOLDER");
    list.add("-o,--out", o->out, "Folder for the run, as finetune writes it", "DIR").required();
    list.add("--epochs", o->epochs, "Passes over the training part (default: those of finetune or train)", "N").within(1, 1000000);
    list.add("--minutes", o->minutes, "Time that short runs of other settings may take", "M").within(0.0, 1e6).shows_default();
    return [o](const common_options& common) { return start(common, *o); };
}

}  // namespace

verb start_verb() { return {"From pictures to a model: checks them, chooses a network and settings, and trains", declare}; }

}  // namespace program
