// graft explain: where in a picture a network looks, as pictures.
#include "pictures.hpp"
#include "verb.hpp"

#include <graft/core/directory.hpp>
#include <graft/data/png_encode.hpp>
#include <graft/explain.hpp>

#include <nlohmann/json.hpp>

#include <cstdio>

namespace program {
namespace {

struct explain_options {
    std::string model, labels, preprocess, output, out, label;  ///< label: a class by its name or its index; empty: the likeliest
    std::vector<std::string> images;
    int top = 1;
};

struct explained_picture {
    std::string path, file;
    graft::prediction answer;
    std::optional<graft::error> failed;
};

// The class that --label means; -1 where there is none.
graft::result<int> wanted_class(const graft::classifier& named, const std::string& label) {
    if (label.empty()) return -1;
    const std::vector<std::string>& names = named.labels();
    for (std::size_t i = 0; i < names.size(); ++i)
        if (names[i] == label) return static_cast<int>(i);
    if (label.size() < 8 && label.find_first_not_of("0123456789") == std::string::npos) {
        const int index = std::stoi(label);
        if (names.empty() || index < static_cast<int>(names.size())) return index;
    }
    std::string some;
    for (std::size_t i = 0; i < names.size() && i < 10; ++i) some += (i ? ", " : "") + printable(shortened(names[i], 40));
    return graft::fail(
        graft::errc::usage, "--label",
        "\"" + printable(label) + "\" is none of the model's classes" +
            (names.empty() ? "; it has no names, give an index"
                           : ": " + some + (names.size() > 10 ? ", ..." : "") + "; an index from 0 to " + std::to_string(names.size() - 1) + " will do too"));
}

graft::status check_device(const common_options& common) {
    std::string device;
    GRAFT_TRY_ASSIGN(device, wanted_device(common));
    if (device.compare(0, 4, "cuda") == 0)
        return graft::fail(graft::errc::usage, "--device",
                           "maps are made on the CPU, not on " + printable(device) + "; leave --device and GRAFT_DEVICE out, or say cpu");
    return {};
}

std::string without_suffix(const std::string& name) {
    const std::size_t dot = name.rfind('.');
    return dot == std::string::npos || dot == 0 ? name : name.substr(0, dot);
}

class picture_explainer {
public:
    picture_explainer(graft::explainer& explainer, const explain_options& options, int label) : explainer_(explainer), options_(options), label_(label) {}

    // One entry a map, or one with an error.
    void add(const std::string& path, const graft::result<graft::image>& decoded, std::vector<explained_picture>& all) {
        if (!decoded.ok()) return all.push_back({path, "", {}, decoded.error()});
        const graft::image& picture = decoded.value();
        std::vector<graft::explanation> found;
        if (label_ >= 0) {
            auto one = explainer_.of(picture, label_);
            if (!one.ok()) return all.push_back({path, "", {}, one.error()});
            found.push_back(std::move(one).value());
        } else {
            auto best = explainer_.best(picture, options_.top);
            if (!best.ok()) return all.push_back({path, "", {}, best.error()});
            found = std::move(best).value();
        }
        for (graft::explanation& e : found) {
            explained_picture p{path, "", e.answer, {}};
            // Several maps of a picture are told apart by their classes.
            const std::string name = without_suffix(base_name(path)) + (options_.top > 1 ? "." + legal_name(e.answer.label) : "") + ".png";
            auto written = write(name, e.picture);
            if (written.ok())
                p.file = std::move(written).value();
            else
                p.failed = written.error();
            all.push_back(std::move(p));
        }
    }

private:
    graft::result<std::string> write(const std::string& name, const graft::image& picture) {
        std::string png;
        GRAFT_TRY_ASSIGN(png, graft::encode_png(picture));
        return files_.write(options_.out, name, png);
    }

    graft::explainer& explainer_;
    const explain_options& options_;
    int label_;
    new_files files_;
};

json to_json(const explained_picture& p) {
    if (p.failed) return {{"image", p.path}, {"error", error_json(*p.failed)}};
    return {{"image", p.path}, {"file", p.file}, {"index", p.answer.index}, {"label", p.answer.label}, {"probability", p.answer.probability}};
}

void print_rows(const terminal& screen, const std::vector<explained_picture>& all) {
    text_table table({"picture", "class", ">%", "map"});
    for (const explained_picture& p : all) {
        const std::string share = percent_text(p.answer.probability);
        if (p.failed)
            table.add({printable(p.path), graft::text(p.failed->code())});
        else
            table.add({printable(p.path), printable(p.answer.label), share.substr(0, share.size() - 2), printable(p.file)});
    }
    table.print(screen);
}

graft::result<int> explain(const common_options& common, const explain_options& options) {
    GRAFT_TRY(check_device(common));
    common_options on_cpu = common;
    on_cpu.device = "cpu";
    std::shared_ptr<graft::device> cpu;
    GRAFT_TRY_ASSIGN(cpu, open_device(on_cpu));  // null; says what it cannot do
    graft::classifier_options with;
    GRAFT_TRY_ASSIGN(with, classifier_options_of(on_cpu, std::move(cpu), options.labels, options.preprocess, options.output));
    auto made = graft::explainer::load(options.model, with);
    if (!made.ok()) return made.take_status();
    graft::explainer explainer = std::move(made).value();
    warn_where_assumed(common, explainer.named().preprocessing());
    const graft::model& model = explainer.named().model();
    if (model.outputs().size() > 1 && options.output.empty())
        warn(common, "the model has " + std::to_string(model.outputs().size()) + " outputs; what is explained is the first, " +
                         printable(model.outputs()[0].name) + "; --output NAME takes another");
    int label = -1;
    GRAFT_TRY_ASSIGN(label, wanted_class(explainer.named(), options.label));

    const std::vector<picture_argument> pictures = pictures_of(common, options.images, options.out);
    std::vector<explained_picture> all;
    progress bar("explain", static_cast<std::int64_t>(pictures.size()), common.quiet);
    picture_explainer work(explainer, options, label);
    {
        decoded_ahead ahead(pictures, thread_count(common));
        for (std::size_t i = 0; i < pictures.size(); ++i) {
            work.add(pictures[i].path, ahead.next(), all);
            bar.step(static_cast<std::int64_t>(i + 1));
        }
    }
    bar.finish();
    if (common.json) {
        json results = json::array();
        for (const explained_picture& p : all) results.push_back(to_json(p));
        print(json{{"results", results}, {"model", options.model}, {"features", explainer.features_name()}});
    } else
        print_rows(look_at(stdout, common.color), all);
    int failures = 0;
    for (const explained_picture& p : all)
        if (p.failed) ++failures, report(graft::error(p.failed->code(), p.path, p.failed->detail()));
    return failures ? exit_failed : exit_done;
}

action declare(option_list& list) {
    auto o = std::make_shared<explain_options>();
    list.add("MODEL", o->model, "The model").required();
    list.add("IMAGE", o->images, "JPEG, PNG, BMP, PNM or WebP files, and folders of them").required();
    list.add("--out", o->out, "The folder for the pictures; nothing there is overwritten", "DIR").required();
    list.add("--label", o->label, "The class to explain, by name or index (default: the likeliest)", "NAME|INDEX");
    list.add("--top", o->top, "Explain the K likeliest classes of each picture (default: 1)", "K").within(1, 1 << 20).excludes("--label");
    list.add("--labels", o->labels, "Names of the classes, one a line (default: the model's own)", "FILE");
    list.add("--preprocess", o->preprocess, "How pictures become tensors (default: the model's own)", "SPEC");
    list.add("--output", o->output, "The output that names classes (default: the first)", "NAME");
    return [o](const common_options& common) { return explain(common, *o); };
}

}  // namespace

verb explain_verb() { return {"Where in a picture a network looks, as pictures (Grad-CAM)", declare}; }

}  // namespace program
