// graft evaluate: how well a model knows a dataset.
#include "progress.hpp"
#include "replicas.hpp"
#include "verb.hpp"

#include <graft/data/splits.hpp>
#include <graft/train.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>

namespace program {
namespace {

struct evaluate_options {
    std::string model, data, labels, preprocess, output;
    int batch = 32;
    double bad_share = 0.01;
    spread_options spread;
};

constexpr std::int64_t shown = 40;  // rows of the table; --json has all

void print_table(const terminal& screen, const std::vector<std::string>& classes, const graft::classification_metrics& m) {
    text_table table({"class", ">pictures", ">precision", ">recall", ">F1", "mostly taken for"});
    std::int64_t rows = 0, present = 0;
    for (std::int64_t c = 0; c < m.classes(); ++c) {
        const graft::class_score s = m.score(c);
        if (!s.support && !s.predicted) continue;
        if (++present > shown) continue;
        ++rows;
        std::int64_t most = -1;
        for (std::int64_t p = 0; p < m.classes(); ++p)
            if (p != c && m.confusion(c, p) > 0 && (most < 0 || m.confusion(c, p) > m.confusion(c, most))) most = p;
        table.add({shortened(printable(classes[static_cast<std::size_t>(c)]), std::max(12, screen.columns / 4)), std::to_string(s.support),
                   percent_text(s.precision), percent_text(s.recall), percent_text(s.f1),
                   most < 0 ? ""
                            : shortened(printable(classes[static_cast<std::size_t>(most)]), std::max(12, screen.columns / 4)) + " (" +
                                  std::to_string(m.confusion(c, most)) + ")"});
    }
    table.print(screen);
    if (present > shown) std::printf("... and %lld classes more; --json has all\n", static_cast<long long>(present - shown));
    std::printf("\n");
}

void print_matrix(const terminal& screen, const std::vector<std::string>& classes, const graft::classification_metrics& m) {
    int width = 6, names = 8;
    for (const std::string& c : classes) names = std::max(names, std::min(16, display_width(printable(c))));
    if (m.classes() > 20 || names + 2 + static_cast<int>(m.classes()) * width > screen.columns) return;
    std::string head = padded("true \\ taken for", names) + "  ";
    for (std::int64_t c = 0; c < m.classes(); ++c) head += padded(shortened(printable(classes[static_cast<std::size_t>(c)]), width - 1), width, true);
    std::printf("%s\n", styled(screen, style::dim, head).c_str());
    for (std::int64_t t = 0; t < m.classes(); ++t) {
        std::string line = padded(shortened(printable(classes[static_cast<std::size_t>(t)]), names), std::max(names, 16)) + "  ";
        for (std::int64_t p = 0; p < m.classes(); ++p) {
            const std::int64_t n = m.confusion(t, p);
            line += styled(screen, t == p ? style::green : n ? style::yellow : style::dim, padded(n ? std::to_string(n) : ".", width, true));
        }
        std::printf("%s\n", line.c_str());
    }
    std::printf("\n");
}

graft::result<int> evaluate(const common_options& common, const evaluate_options& options, const std::shared_ptr<graft::communicator>& group) {
    std::vector<std::shared_ptr<graft::device>> devices;
    GRAFT_TRY_ASSIGN(devices, replica_devices(common, options.spread, group.get()));
    std::vector<classifier_replica> replicas;
    GRAFT_TRY_ASSIGN(replicas,
                     load_classifiers(common, options.spread, group.get(), devices, options.model, options.labels, options.preprocess, options.output));
    graft::classifier& classifier = replicas[0].classifier;
    std::vector<graft::model> models;
    for (const classifier_replica& r : replicas) models.push_back(r.classifier.model());
    graft::dataset_options opening;
    opening.allow_empty = true;
    graft::dataset data;
    GRAFT_TRY_ASSIGN(data, graft::open_dataset(options.data, opening));
    for (const graft::dataset_problem& p : data.problems()) warn(common, p.path + ": " + p.detail);
    std::vector<std::string> classes;
    GRAFT_TRY_ASSIGN(classes, classifier.class_names());
    std::vector<std::int64_t> outputs;
    GRAFT_TRY_ASSIGN(outputs, graft::match_classes(data.classes(), classes, options.data));

    progress bar("evaluate", data.size(), common.quiet);
    graft::evaluation_options how;
    how.batch = options.batch;
    how.threads = thread_count(common);
    how.bad_share = options.bad_share;
    how.output = classifier.output();
    how.progress = [](void* context, std::int64_t done, std::int64_t) { static_cast<progress*>(context)->step(done); };
    how.context = &bar;
    how.group = group;
    const double begun = now_ms();
    graft::evaluation_result found;
    GRAFT_TRY_ASSIGN(found, graft::evaluate(models, data, classifier.preprocessing().spec, outputs, how));
    const double seconds = (now_ms() - begun) / 1e3;
    bar.finish();
    for (const graft::bad_sample& b : found.bad) warn(common, b.name + ": left out: " + b.detail);
    const graft::classification_metrics& m = found.metrics;
    if (m.samples() == 0) return graft::fail(graft::errc::data_too_many_bad, options.data, "none of its pictures can be read");
    std::string device;
    GRAFT_TRY_ASSIGN(device, devices_of_world(devices, group));
    if (group && group->rank() != 0) return exit_done;
    const double rate = seconds > 0 ? static_cast<double>(m.samples()) / seconds : 0;
    if (common.json) {
        json confusion = json::array(), scores = json::array();
        for (std::int64_t t = 0; t < m.classes(); ++t) {
            json row = json::array();
            for (std::int64_t p = 0; p < m.classes(); ++p) row.push_back(m.confusion(t, p));
            confusion.push_back(std::move(row));
            const graft::class_score s = m.score(t);
            scores.push_back({{"precision", s.precision}, {"recall", s.recall}, {"f1", s.f1}, {"images", s.support}});
        }
        print(json{{"top1", m.top1()},
                   {"top5", m.top_k()},
                   {"loss", m.loss()},
                   {"images", m.samples()},
                   {"classes", classes},
                   {"confusion", confusion},
                   {"scores", scores},
                   {"macro_f1", m.macro_f1()},
                   {"balanced_accuracy", m.balanced_accuracy()},
                   {"majority", m.majority()},
                   {"never_predicted", named(classes, m.never_predicted())},
                   {"calibration_error", m.calibration_error()},
                   {"bad_images", found.bad.size()},
                   {"images_per_s", rate},
                   {"device", device}});
        return exit_done;
    }
    const terminal screen = look_at(stdout, common.color);
    print_table(screen, classes, m);
    print_matrix(screen, classes, m);
    char text[200];
    std::snprintf(text, sizeof text, "  top-5 %s  loss %.4f  macro F1 %.3f  calibration error %.4f", percent_text(m.top_k()).c_str(), m.loss(), m.macro_f1(),
                  m.calibration_error());
    const bool uneven = graft::is_imbalanced(m.supports());
    std::printf("%s%s%s\n", styled(screen, style::bold, "top-1 " + percent_text(m.top1())).c_str(),
                uneven ? uneven_text(m.balanced_accuracy(), m.majority()).c_str() : "", text);
    const std::vector<std::string> never = named(classes, m.never_predicted());
    std::string some;
    for (std::size_t i = 0; i < never.size() && i < 10; ++i) some += (i ? ", " : "") + printable(never[i]);
    if (!never.empty()) std::printf("never answered: %s%s\n", some.c_str(), never.size() > 10 ? ", ..." : "");
    std::printf("%lld pictures in %s on %s, %.0f a second%s\n", static_cast<long long>(m.samples()), milliseconds_text(seconds * 1e3).c_str(), device.c_str(),
                rate, found.bad.empty() ? "" : (", " + std::to_string(found.bad.size()) + " could not be read").c_str());
    return exit_done;
}

action declare(option_list& list) {
    auto o = std::make_shared<evaluate_options>();
    list.add("MODEL", o->model, "The model").required();
    list.add("DATA", o->data, "Image folder, IDX or CIFAR files, or a CSV file").required();
    list.add("--labels", o->labels, "Names of the model's classes, one a line (default: the model's own)", "FILE");
    list.add("--preprocess", o->preprocess, "How pictures become tensors (default: the model's own)", "SPEC");
    list.add("--output", o->output, "The output that names classes (default: the first)", "NAME");
    list.add("--batch", o->batch, "Pictures at once (default: 32)", "B").within(1, 1 << 20);
    list.add("--bad-share", o->bad_share, "Share of the pictures that may be unreadable (default: 0.01, and one at least)", "SHARE").within(0.0, 1.0);
    declare_replicas(list, o->spread);
    return [o](const common_options& common) {
        return with_world(common, o->spread.timeout,
                          [&](const common_options& own, const std::shared_ptr<graft::communicator>& group) { return evaluate(own, *o, group); });
    };
}

}  // namespace

verb evaluate_verb() { return {"Scores a model on labelled pictures, each exactly once", declare}; }

}  // namespace program
