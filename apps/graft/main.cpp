// graft, the program: reads the command line, calls the verb, turns every failure into one line and an exit code.
#include "interrupt.hpp"
#include "program.hpp"
#include "training_flags.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

namespace {

using namespace program;

struct all_options {
    std::vector<const char*> words; // of the command line
    common_options common;
    doctor_options doctor;
    monitor_options monitor;
    info_options info;
    run_options run;
    classify_options classify;
    explain_options explain;
    bench_options bench;
    decode_options decode;
    preprocess_options preprocess;
    check_options check;
    augment_options augment;
    evaluate_options evaluate;
    training_options finetune, train;
};

constexpr const char* verb_names[] = {"doctor",   "monitor", "info",  "run",     "classify", "explain",   "finetune",
                                      "train",    "evaluate", "bench", "check",   "augment",  "decode",    "preprocess"};

graft::status unknown_verb(const std::string& given) {
    const std::string meant = graft::nearest_name(given, {std::begin(verb_names), std::end(verb_names)});
    std::string all;
    for (const char* name : verb_names) all += std::string(all.empty() ? "" : ", ") + name;
    return graft::fail(graft::errc::usage, given,
                       meant.empty() ? "there is no such verb; the verbs are " + all
                                     : "there is no such verb; did you mean " + meant + "?");
}

// What other programs call these options.
constexpr const char* known_elsewhere[][2] = {
    {"learning-rate", "lr"}, {"learning_rate", "lr"}, {"bs", "batch"}, {"batch_size", "batch"}, {"num-epochs", "epochs"},
    {"model", "from"}, {"weights", "from"}, {"pretrained", "from"}, {"wd", "weight-decay"}, {"num-workers", "workers"},
    {"save-dir", "out"}, {"output-folder", "out"}, {"topk", "top"}, {"gpu", "device"}, {"dtype", "precision"},
};

graft::status unknown_option(const CLI::App& verb, const std::string& given) {
    std::vector<std::string> names;
    for (const CLI::Option* option : verb.get_options())
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    std::string meant;
    for (const auto& k : known_elsewhere)
        if (given == std::string("--") + k[0] && verb.get_option_no_throw(std::string("--") + k[1])) meant = std::string("--") + k[1];
    if (meant.empty()) meant = graft::nearest_name(given, names);
    for (const std::string& name : names) // --freeze-trunk
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

void add_common(CLI::App& verb, common_options& common) {
    const char* group = "Common options";
    verb.add_flag("--json", common.json, "Print one JSON object")->group(group);
    verb.add_flag("-q,--quiet", common.quiet, "No progress and no warnings")->group(group);
    verb.add_option("--threads", common.threads, "Threads (default: GRAFT_NUM_THREADS, OMP_NUM_THREADS, what the machine gives)")
        ->group(group)
        ->type_name("N")
        ->check(CLI::Range(0, 1024));
    verb.add_option("--seed", common.seed, "Seed of everything random")->group(group)->type_name("N");
    verb.add_option("--device", common.device, "auto, cpu, cuda or cuda:N: one device (default: GRAFT_DEVICE, else auto)")
        ->group(group)
        ->type_name("D");
    verb.add_option("--precision", common.precision, "Numbers of a GPU: auto (tf32 where it has it), float32, tf32, float16 or bfloat16")
        ->group(group)
        ->type_name("P")
        ->check(one_of({"auto", "float32", "tf32", "float16", "bfloat16"}));
    verb.add_option("--memory-limit", common.memory_limit, "What a GPU's memory may be used up to, such as 4GiB")
        ->group(group)
        ->type_name("SIZE");
    verb.add_flag("--deterministic", common.deterministic, "On a GPU, only algorithms that give the same bits every time")->group(group);
    verb.add_flag("--strict-placement", common.strict_placement, "Fail where an operator would run on the CPU beside a GPU")
        ->group(group);
    verb.add_flag("--exact", common.exact, "No algorithms that reorder sums, such as Winograd's")->group(group);
    verb.add_option("--color", common.color, "auto, always or never")
        ->group(group)
        ->type_name("WHEN")
        ->check(one_of({"auto", "always", "never"}));
}

// The verb, for its options; null where no word of the command line is its name: declaring the options of all of them takes longer than
// what many a command does.
CLI::App* add_verb(CLI::App& app, const char* name, const char* what, all_options& o) {
    CLI::App* verb = app.add_subcommand(name, what);
    if (std::none_of(o.words.begin(), o.words.end(), [&](const char* word) { return !std::strcmp(word, name); })) return nullptr;
    add_common(*verb, o.common);
    return verb;
}

void declare(CLI::App& app, all_options& o) {
    app.name("graft");
    app.set_version_flag("--version", std::string("graft ") + graft::version());
    app.require_subcommand(1);
    app.footer("Exit codes: 0 done, 1 failed, 2 wrong usage. graft VERB --help says more about a verb.");

    add_verb(app, "doctor", "What this machine and this build can do", o);

    if (CLI::App* v = add_verb(app, "monitor", "How the GPUs are doing: use, memory, power, temperature", o)) {
        v->add_option("--interval", o.monitor.interval, "Time between samples (default: 1)")
            ->type_name("SECONDS")
            ->check(CLI::Range(0.05, 86400.0));
        v->add_option("--count", o.monitor.count, "Samples (default: one with --json, else until stopped)")
            ->type_name("N")
            ->check(CLI::Range(1, 1 << 30));
    }
    if (CLI::App* v = add_verb(app, "info", "What is in a model (ONNX) or a tensor file (safetensors)", o)) {
        v->add_option("FILE", o.info.file, "The file")->required();
        v->add_flag("--ops", o.info.ops, "Print the GRAFT_OPS list of a build for this model alone");
        v->add_option("--train", o.info.train, "Also the memory of a training step of N samples, where all of the network learns")
            ->type_name("N")
            ->check(CLI::Range(1, 1 << 20));
        v->add_flag("--placement", o.info.placement, "Print which kernel each node gets, and why not a faster one");
    }
    if (CLI::App* v = add_verb(app, "run", "Runs any model on arrays", o)) {
        v->add_option("MODEL", o.run.model, "The model")->required();
        v->add_option("-i,--input", o.run.inputs, "An input and its array; once for each input")
            ->type_name("NAME=FILE.npy")
            ->expected(1)
            ->take_all()
            ->allow_extra_args(false);
        v->add_option("-o,--output-dir", o.run.output_dir, "Folder for <output name>.npy; made if it is not there")
            ->type_name("DIR")
            ->required();
    }
    if (CLI::App* v = add_verb(app, "classify", "Names what is in pictures", o)) {
        v->add_option("MODEL", o.classify.model, "The model")->required();
        v->add_option("IMAGE", o.classify.images, "JPEG, PNG, BMP, PNM or WebP files, and folders of them")->required();
        v->add_option("--labels", o.classify.labels, "Names of the classes, one a line (default: the model's own)")
            ->type_name("FILE");
        v->add_option("--top", o.classify.top, "How many names a picture (default: 5)")
            ->type_name("K")
            ->check(CLI::Range(1, 1 << 20));
        v->add_option("--preprocess", o.classify.preprocess, "How pictures become tensors (default: the model's own)")
            ->type_name("SPEC");
        v->add_option("--output", o.classify.output, "The output that names classes (default: the first)")->type_name("NAME");
        v->add_option("--preview", o.classify.preview, "Columns of the picture beside the names, 0 for none")
            ->type_name("N")
            ->check(CLI::Range(0, 200));
        v->add_option("--csv", o.classify.csv, "A table as CSV into FILE.csv, or, without it, to standard output")
            ->type_name("[FILE.csv]")
            ->expected(0, 1)
            ->default_str("-");
        v->add_option("--sort-into", o.classify.sort_into, "Copy each picture into DIR/LABEL/, under its own name; nothing there is overwritten")
            ->type_name("DIR");
        v->add_option("--unsure", o.classify.unsure, "Mark pictures whose best probability is below P, and sort them into DIR/unsure/")
            ->type_name("P")
            ->check(CLI::Range(0.0, 1.0));
    }
    if (CLI::App* v = add_verb(app, "explain", "Where in a picture a network looks, as pictures (Grad-CAM)", o)) {
        v->add_option("MODEL", o.explain.model, "The model")->required();
        v->add_option("IMAGE", o.explain.images, "JPEG, PNG, BMP, PNM or WebP files, and folders of them")->required();
        v->add_option("--out", o.explain.out, "The folder for the pictures; nothing there is overwritten")->type_name("DIR")->required();
        CLI::Option* which = v->add_option("--label", o.explain.label, "The class to explain, by name or index (default: the likeliest)")->type_name("NAME|INDEX");
        v->add_option("--top", o.explain.top, "Explain the K likeliest classes of each picture (default: 1)")
            ->type_name("K")
            ->check(CLI::Range(1, 1 << 20))
            ->excludes(which);
        v->add_option("--labels", o.explain.labels, "Names of the classes, one a line (default: the model's own)")->type_name("FILE");
        v->add_option("--preprocess", o.explain.preprocess, "How pictures become tensors (default: the model's own)")->type_name("SPEC");
        v->add_option("--output", o.explain.output, "The output that names classes (default: the first)")->type_name("NAME");
    }
    if (CLI::App* v = add_verb(app, "finetune", "Turns a model and labelled pictures into a model of their classes", o)) declare_training(*v, o.finetune);
    o.train.from_scratch = true;
    if (CLI::App* v = add_verb(app, "train", "Trains an architecture from random weights", o)) declare_training(*v, o.train);

    if (CLI::App* v = add_verb(app, "evaluate", "Scores a model on labelled pictures, each exactly once", o)) {
        v->add_option("MODEL", o.evaluate.model, "The model")->required();
        v->add_option("DATA", o.evaluate.data, "Image folder, IDX or CIFAR files, or a CSV file")->required();
        v->add_option("--labels", o.evaluate.labels, "Names of the model's classes, one a line (default: the model's own)")
            ->type_name("FILE");
        v->add_option("--preprocess", o.evaluate.preprocess, "How pictures become tensors (default: the model's own)")
            ->type_name("SPEC");
        v->add_option("--output", o.evaluate.output, "The output that names classes (default: the first)")->type_name("NAME");
        v->add_option("--batch", o.evaluate.batch, "Pictures at once (default: 32)")->type_name("B")->check(CLI::Range(1, 1 << 20));
        v->add_option("--bad-share", o.evaluate.bad_share, "Share of the pictures that may be unreadable (default: 0.01, and one at least)")
            ->type_name("SHARE")
            ->check(CLI::Range(0.0, 1.0));
    }
    if (CLI::App* v = add_verb(app, "check", "What is wrong with a dataset, before training", o)) {
        v->add_option("DATA", o.check.data, "Image folder, IDX or CIFAR files, or a CSV file")->required();
        v->add_flag("--allow-empty", o.check.allow_empty, "Take classes without pictures");
    }
    if (CLI::App* v = add_verb(app, "augment", "A sheet of what a network sees while it learns, as PNG", o)) {
        v->add_option("DATA", o.augment.data, "Image folder, IDX or CIFAR files, or a CSV file")->required();
        v->add_option("--preview", o.augment.preview, "The sheet")->type_name("FILE.png")->required();
        v->add_option("--augment", o.augment.augment, "Random changes, or each for all there are (default: those of finetune)")
            ->type_name("SPEC");
        v->add_option("--preprocess", o.augment.preprocess, "How pictures become tensors (default: imagenet,crop=224)")
            ->type_name("SPEC");
        v->add_option("--images", o.augment.images, "Rows of the sheet (default: 6)")->type_name("N")->check(CLI::Range(1, 64));
    }
    if (CLI::App* v = add_verb(app, "bench", "Measures a model on random input", o)) {
        CLI::Option* measured = v->add_option("MODEL", o.bench.model, "The model");
        CLI::Option* scope =
            v->add_option("--train", o.bench.train, "A training step instead of a run: full, or head for the last layer alone")
                ->type_name("SCOPE")
                ->check(one_of({"full", "head"}));
        v->add_option("--arch", o.bench.arch, "lenet, resnet20 or mobilenet_v2 in place of MODEL")
            ->type_name("NAME")
            ->check(architecture())
            ->needs(scope)
            ->excludes(measured);
        v->add_option("--batch", o.bench.batch, "Batch size, or auto: the fastest that fits (default: the model's, else 1)")
            ->type_name("B")
            ->transform(batch_or_auto());
        v->add_option("--rounds", o.bench.rounds, "Timed runs, after a warm-up")
            ->type_name("R")
            ->check(CLI::Range(1, 10000000))
            ->capture_default_str();
    }
    if (CLI::App* v = add_verb(app, "decode", "The pixels of a picture as an array, uint8 (H, W, 3)", o)) {
        v->add_option("IMAGE", o.decode.image, "The picture")->required();
        v->add_option("-o,--output", o.decode.output, "The array")->type_name("FILE.npy")->required();
    }
    if (CLI::App* v = add_verb(app, "preprocess", "The tensor that a model sees of a picture", o)) {
        v->add_option("IMAGE", o.preprocess.image, "The picture")->required();
        v->add_option("--model", o.preprocess.model, "The model whose input it is to fit")->type_name("MODEL");
        v->add_option("--preprocess", o.preprocess.preprocess, "How (default: the model's own)")->type_name("SPEC");
        v->add_option("-o,--output", o.preprocess.output, "The array")->type_name("FILE.npy")->required();
    }
}

graft::result<int> call(const CLI::App& app, const all_options& o) {
    const std::string verb = app.get_subcommands().front()->get_name();
    if (verb == "doctor") return doctor(o.common, o.doctor);
    if (verb == "monitor") return monitor(o.common, o.monitor);
    if (verb == "info") return info(o.common, o.info);
    if (verb == "run") return run(o.common, o.run);
    if (verb == "classify") return classify(o.common, o.classify);
    if (verb == "explain") return explain(o.common, o.explain);
    if (verb == "bench" && o.bench.model.empty() && o.bench.arch.empty())
        return graft::fail(graft::errc::usage, "bench", "MODEL is required");
    if (verb == "bench") return o.bench.train.empty() ? bench(o.common, o.bench) : bench_training(o.common, o.bench);
    if (verb == "finetune") return train(o.common, o.finetune);
    if (verb == "train") return train(o.common, o.train);
    if (verb == "evaluate") return evaluate(o.common, o.evaluate);
    if (verb == "check") return check(o.common, o.check);
    if (verb == "augment") return augment(o.common, o.augment);
    if (verb == "decode") return decode(o.common, o.decode);
    return preprocess(o.common, o.preprocess);
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

int start(int argc, char** argv) {
    if (argc > 1 && argv[1][0] != '-' &&
        std::none_of(std::begin(verb_names), std::end(verb_names), [&](const char* name) { return !std::strcmp(name, argv[1]); }))
        return report(unknown_verb(argv[1]).error());
    CLI::App app("Runs image models from ONNX files, and trains them.");
    all_options options;
    options.words.assign(argv, argv + argc);
    declare(app, options);
    options.train.command = typed(argc, argv, false);
    options.train.resume_command = typed(argc, argv, true);
    options.finetune.command = options.train.command;
    options.finetune.resume_command = options.train.resume_command;
    if (argc == 1) {
        std::fprintf(stderr, "%s", app.help().c_str());
        return report(graft::fail(graft::errc::usage, "graft", "a verb is missing").error());
    }
    const graft::status known = check_options(app, argc, argv);
    if (!known.ok()) return report(known.error());
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e); // --help and --version
        const auto verbs = app.get_subcommands();
        return report(graft::fail(graft::errc::usage, verbs.empty() ? "graft" : verbs.front()->get_name(), e.what()).error());
    }
    graft::result<int> done = call(app, options);
    if (!done.ok()) return report(done.error());
    if (std::fflush(stdout) != 0 || std::ferror(stdout))
        return report(graft::fail(graft::errc::file_write, "standard output", std::strerror(errno)).error());
    return done.value();
}

} // namespace

int main(int argc, char** argv) {
    try {
        return start(argc, argv);
    } catch (const graft::error& e) {
        return program::report(e);
    } catch (const std::bad_alloc&) {
        return program::report(graft::status::no_memory().error());
    } catch (const std::exception& e) {
        return program::report(graft::fail(graft::errc::internal, "graft", e.what()).error());
    }
}
