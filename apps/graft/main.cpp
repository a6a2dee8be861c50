// graft, the program: reads the command line, calls the verb, turns every failure into one line and an exit code.
#include "command_line.hpp"
#include "interrupt.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

// A verb stands here, in the order of --help, and in the file of its name.
// clang-format off
#define GRAFT_VERBS(VERB) \
    VERB(doctor) \
    VERB(monitor) \
    VERB(info) \
    VERB(run) \
    VERB(classify) \
    VERB(explain) \
    VERB(start) \
    VERB(finetune) \
    VERB(train) \
    VERB(evaluate) \
    VERB(compare) \
    VERB(serve) \
    VERB(quantize) \
    VERB(export) \
    VERB(check) \
    VERB(fix) \
    VERB(augment) \
    VERB(bench) \
    VERB(decode) \
    VERB(preprocess)
// clang-format on

namespace program {
#define GRAFT_DECLARE(name) verb name##_verb();
GRAFT_VERBS(GRAFT_DECLARE)
}  // namespace program

namespace {

using namespace program;

struct named_verb {
    const char* name;
    verb (*made)();
};
#define GRAFT_NAMED(name) {#name, name##_verb},
constexpr named_verb verbs[] = {GRAFT_VERBS(GRAFT_NAMED)};

graft::status unknown_verb(const std::string& given) {
    std::vector<std::string> names;
    for (const named_verb& v : verbs) names.push_back(v.name);
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    const std::string meant = graft::nearest_name(given, names);
    return graft::fail(graft::errc::usage, given,
                       meant.empty() ? "there is no such verb; the verbs are " + all : "there is no such verb; did you mean " + meant + "?");
}

// What other programs call these options.
constexpr const char* known_elsewhere[][2] = {
    {"learning-rate", "lr"}, {"learning_rate", "lr"},  {"bs", "batch"},        {"batch_size", "batch"}, {"num-epochs", "epochs"},
    {"model", "from"},       {"weights", "from"},      {"pretrained", "from"}, {"wd", "weight-decay"},  {"num-workers", "workers"},
    {"save-dir", "out"},     {"output-folder", "out"}, {"topk", "top"},        {"gpu", "device"},       {"dtype", "precision"},
};

graft::status unknown_option(const CLI::App& verb, const std::string& given) {
    std::vector<std::string> names;
    for (const CLI::Option* option : verb.get_options())
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    std::string meant;
    for (const auto& k : known_elsewhere)
        if (given == std::string("--") + k[0] && verb.get_option_no_throw(std::string("--") + k[1])) meant = std::string("--") + k[1];
    if (meant.empty()) meant = graft::nearest_name(given, names);
    for (const std::string& name : names)  // --freeze-trunk
        if (meant.empty() && given.compare(0, name.size() + 1, name + "-") == 0) meant = name;
    return graft::fail(graft::errc::usage, given,
                       "graft " + verb.get_name() + " has no such option" +
                           (meant.empty() ? "; graft " + verb.get_name() + " --help lists them" : "; did you mean " + meant + "?"));
}

// The first word of the command line that should be an option of the verb and is none. CLI11 would first say what is missing, or take
// the option's value for an argument.
graft::status check_options(CLI::App& app, int argc, char** argv) {
    if (argc < 3 || argv[1][0] == '-') return {};
    CLI::App& verb = *app.get_subcommand(argv[1]);
    for (int i = 2; i < argc; ++i) {
        const std::string word = argv[i];
        if (word == "--") break;
        if (word.size() < 2 || word[0] != '-' || (word[1] >= '0' && word[1] <= '9') || word[1] == '.') continue;
        const std::size_t equals = word.find('=');
        const std::string name = word[1] == '-' ? word.substr(0, equals) : word.substr(0, 2);
        const CLI::Option* option = verb.get_option_no_throw(name);
        if (!option) return unknown_option(verb, name);
        const bool inside = word[1] == '-' ? equals != std::string::npos : word.size() > 2;
        if (!inside && option->get_items_expected_min() > 0) ++i;
    }
    return {};
}

void add_common(option_list& list, common_options& common) {
    list.group("Common options");
    list.add("--json", common.json, "Print one JSON object");
    list.add("-q,--quiet", common.quiet, "No progress and no warnings");
    list.add("--threads", common.threads, "Threads (default: GRAFT_NUM_THREADS, OMP_NUM_THREADS, what the machine gives)", "N").within(0, 1024);
    list.add("--seed", common.seed, "Seed of everything random", "N");
    list.add("--device", common.device,
             "auto, cpu, cuda, cuda:N; several, as cuda:0,1, to train, evaluate, classify and bench (default: GRAFT_DEVICE, else auto)", "D");
    list.add("--precision", common.precision,
             "Of a GPU: auto (tf32 where it has it), float32, tf32, float16 or bfloat16; of a CPU: auto (float32), bfloat16 with AVX-512 BF16 or AMX", "P")
        .one_of({"auto", "float32", "tf32", "float16", "bfloat16"});
    list.add("--memory-limit", common.memory_limit, "What a GPU's memory may be used up to, such as 4GiB", "SIZE");
    list.add("--deterministic", common.deterministic, "On a GPU, only algorithms that give the same bits every time");
    list.add("--strict-placement", common.strict_placement, "Fail where an operator would run on the CPU beside a GPU");
    list.add("--exact", common.exact, "No algorithms that reorder sums, such as Winograd's");
    list.add("--packed", common.packed_file, "File that weights are kept in as kernels read them, so that the next start need not pack them", "FILE");
    list.add("--color", common.color, "auto, always or never", "WHEN").one_of({"auto", "always", "never"});
}

// The action of the verb that the command line names. Only such a verb's options are declared: those of all of them take longer than what
// many a command does.
std::vector<action> declare(CLI::App& app, int argc, char** argv, common_options& common) {
    app.name("graft");
    app.set_version_flag("--version", std::string("graft ") + graft::version());
    app.require_subcommand(1);
    app.footer("Exit codes: 0 done, 1 failed, 2 wrong usage. graft VERB --help says more about a verb.\n"
               "graft --man [VERB] prints a manual page, graft --completions bash|fish|zsh what teaches a shell all of this.");
    std::vector<action> actions;
    for (const named_verb& v : verbs) {
        const verb made = v.made();
        CLI::App* parsed = app.add_subcommand(v.name, made.what);
        actions.emplace_back();
        if (std::none_of(argv, argv + argc, [&](const char* word) { return !std::strcmp(word, v.name); })) continue;
        option_list common_list(*parsed), own_list(*parsed);
        add_common(common_list, common);
        actions.back() = made.declare(own_list);
    }
    return actions;
}

// What all verbs declare.
command_line declared() {
    command_line all;
    CLI::App taking;
    common_options common;
    option_list list(taking);
    add_common(list, common);
    all.common = list.texts();
    for (const named_verb& v : verbs) {
        const verb made = v.made();
        CLI::App parsed;
        option_list options(parsed);
        made.declare(options);
        all.verbs.push_back({v.name, made.what, options.texts()});
    }
    return all;
}

// `graft --man [VERB]` and `graft --completions SHELL`.
graft::result<int> print_described(int argc, char** argv) {
    const bool manual = !std::strcmp(argv[1], "--man");
    if (argc > 3 || (argc == 2 && !manual))
        return graft::fail(graft::errc::usage, argv[1], manual ? "it takes a verb, or nothing" : "it takes a shell: bash, fish or zsh");
    const std::string about = argc == 3 ? argv[2] : "";
    std::string text;
    GRAFT_TRY_ASSIGN(text, manual ? manual_page(declared(), about) : shell_completions(declared(), about));
    std::fputs(text.c_str(), stdout);
    return exit_done;
}

// The exit code: nothing is done that could not be printed.
int ended(graft::result<int> done) {
    if (done.ok() && (std::fflush(stdout) != 0 || std::ferror(stdout)))
        done = graft::fail(graft::errc::file_write, "standard output", graft::detail::system_message());
    return done.ok() ? done.value() : report(done.error());
}

// The command line for a shell: as it was typed, or so that it goes on with the run that it began.
std::string typed(int argc, char** argv, bool going_on) {
    std::string line;
    bool resumes = !going_on;
    const auto add = [&](const std::string& word) { line += (line.empty() ? "" : " ") + shell_quoted(word); };
    for (int i = 0; i < argc; ++i) {
        const std::string word = argv[i];
        if (going_on && word == "--overwrite") continue;
        if (!resumes && word == "--") add("--resume"), resumes = true;
        resumes |= word == "--resume";
        add(word);
    }
    if (!resumes) add("--resume");
    return line;
}

// Does what a command line says, and gives the exit code.
int run_line(int argc, char** argv) {
    if (argc > 1 && argv[1][0] != '-' && std::none_of(std::begin(verbs), std::end(verbs), [&](const named_verb& v) { return !std::strcmp(v.name, argv[1]); }))
        return report(unknown_verb(argv[1]).error());
    if (argc > 1 && (!std::strcmp(argv[1], "--man") || !std::strcmp(argv[1], "--completions"))) return ended(print_described(argc, argv));
    CLI::App app("Runs image models from ONNX files, and trains them.");
    common_options common;
    common.command = typed(argc, argv, false);
    common.resume_command = typed(argc, argv, true);
    const std::vector<action> actions = declare(app, argc, argv, common);
    if (argc == 1) {
        std::fprintf(stderr, "%s", app.help().c_str());
        return report(graft::fail(graft::errc::usage, "graft", "a verb is missing").error());
    }
    const graft::status known = check_options(app, argc, argv);
    if (!known.ok()) return report(known.error());
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e);  // --help and --version
        const auto asked = app.get_subcommands();
        return report(graft::fail(graft::errc::usage, asked.empty() ? "graft" : asked.front()->get_name(), e.what()).error());
    }
    std::size_t chosen = 0;
    while (!app.got_subcommand(verbs[chosen].name)) ++chosen;
    return ended(perform(actions[chosen], common));
}

}  // namespace

namespace program {

int run_command(std::vector<std::string> words) {
    words.insert(words.begin(), "graft");
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(&word[0]);
    arguments.push_back(nullptr);
    return run_line(static_cast<int>(words.size()), arguments.data());
}

}  // namespace program

int main(int argc, char** argv) {
    try {
        return run_line(argc, argv);
    } catch (const graft::error& e) {
        return program::report(e);
    } catch (const std::bad_alloc&) {
        return program::report(graft::status::no_memory().error());
    } catch (const std::exception& e) {
        return program::report(graft::fail(graft::errc::internal, "graft", e.what()).error());
    }
}
