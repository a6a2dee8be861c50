// What the folders of runs hold, read without belief, and how two runs differ.
#include "compare.hpp"
#include "csv.hpp"
#include "pictures.hpp"

#include <graft/core/json.hpp>
#include <graft/core/read_file.hpp>

#include <algorithm>
#include <set>

namespace program {
namespace {

constexpr std::int64_t most_bytes = std::int64_t(256) << 20;
constexpr std::size_t most_answers = std::size_t(1) << 22;

double number_of(const graft::json& object, const char* key) {
    const graft::json* v = object.find(key);
    return v && v->type == graft::json::kind::number ? v->real : compared_run::none;
}
std::int64_t count_of(const graft::json& object, const char* key) {
    const graft::json* v = object.find(key);
    return v && v->is_integer ? v->integer : 0;
}
std::string text_of(const graft::json& object, const char* key) {
    const graft::json* v = object.find(key);
    return v && v->type == graft::json::kind::string ? v->string : "";
}

// metrics.jsonl, line by line; one that is not whole ends it.
void read_metrics(compared_run& run) {
    auto text = graft::read_file(graft::join_path(run.folder, "metrics.jsonl"), most_bytes, graft::errc::file_open, graft::errc::memory_budget);
    if (!text.ok()) {
        run.notes.push_back("no metrics.jsonl: " + text.error().detail());
        return;
    }
    for (std::size_t from = 0; from < text->size();) {
        const std::size_t end = text->find('\n', from);
        auto line = graft::parse_json(text->substr(from, end - from), "metrics.jsonl");
        if (end == std::string::npos || !line.ok() || line->type != graft::json::kind::object) {
            run.notes.push_back("metrics.jsonl ends within a line, or holds something else from there on");
            return;
        }
        from = end + 1;
        const auto epoch = static_cast<double>(count_of(*line, "epoch"));
        const std::string split = text_of(*line, "split");
        const double loss = number_of(*line, "loss"), top1 = number_of(*line, "top1");
        if (split == "train") {
            run.training_loss.emplace_back(epoch, loss), run.training_top1.emplace_back(epoch, top1);
            run.learning_rate.emplace_back(epoch, number_of(*line, "lr"));
        } else if (split == "val") {
            run.validation_loss.emplace_back(epoch, loss), run.validation_top1.emplace_back(epoch, top1);
        }
    }
    if (text->empty()) run.notes.push_back("metrics.jsonl is empty: no epoch was done");
}

void read_record(compared_run& run) {
    const std::string path = graft::join_path(run.folder, "run.json");
    auto text = graft::read_file(path, most_bytes, graft::errc::file_open, graft::errc::memory_budget);
    if (!text.ok()) {
        run.notes.push_back("no run.json: the run is not over, or was made before graft wrote one");
        return;
    }
    auto record = graft::parse_json(*text, path);
    if (!record.ok() || record->type != graft::json::kind::object) {
        run.notes.push_back("run.json cannot be read: " + (record.ok() ? "it is no object" : record.error().detail()));
        return;
    }
    run.finished = true;
    run.top1 = number_of(*record, "best_top1"), run.loss = number_of(*record, "best_loss");
    run.seconds = number_of(*record, "seconds"), run.images_per_s = number_of(*record, "images_per_s"), run.peak_rss_mb = number_of(*record, "peak_rss_mb");
    run.best_epoch = count_of(*record, "best_epoch"), run.epochs = count_of(*record, "epochs");
    run.device = text_of(*record, "device"), run.data = text_of(*record, "data");
    if (const graft::json* classes = record->find("classes"))
        for (const graft::json& c : classes->items) run.classes.push_back(c.string);
    for (const char* key : {"network", "data"}) run.settings.emplace_back(key, text_of(*record, key));
    for (const char* key : {"training_images", "validation_images"}) run.settings.emplace_back(key, std::to_string(count_of(*record, key)));
    if (const graft::json* settings = record->find("settings"))
        for (std::size_t i = 0; i < std::min(settings->keys.size(), settings->items.size()); ++i)
            run.settings.emplace_back(settings->keys[i], settings->items[i].string);
    run.settings.emplace_back("device", run.device);
    run.settings.emplace_back("graft", text_of(*record, "graft"));
}

void read_answers(compared_run& run) {
    auto records = read_csv(graft::join_path(run.folder, "predictions.csv"), most_bytes, most_answers);
    const std::vector<std::string> head = {"path", "label", "predicted", "probability", "loss"};
    if (!records.ok() || records->empty() || (*records)[0] != head) {
        run.notes.push_back("no predictions.csv: its pictures and classes are not compared");
        return;
    }
    for (std::size_t i = 1; i < records->size(); ++i) {
        std::vector<std::string>& r = (*records)[i];
        run.answers[std::move(r[0])] = {r[1], r[2], std::atof(r[3].c_str())};
    }
}

// Of a run that is not over: the best epoch by its validation accuracy.
void take_best_of_log(compared_run& run) {
    run.epochs = run.validation_top1.empty() ? 0 : static_cast<std::int64_t>(run.validation_top1.back().first);
    for (std::size_t i = 0; i < run.validation_top1.size(); ++i)
        if (run.best_epoch == 0 || run.validation_top1[i].second > run.top1) {
            run.top1 = run.validation_top1[i].second, run.loss = run.validation_loss[i].second;
            run.best_epoch = static_cast<std::int64_t>(run.validation_top1[i].first);
        }
}

template <class F>
void for_shared(const compared_run& first, const compared_run& other, const F& f) {
    for (const auto& a : first.answers) {
        const auto b = other.answers.find(a.first);
        if (b != other.answers.end() && b->second.label == a.second.label) f(a.first, a.second, b->second);
    }
}

}  // namespace

compared_run read_run(const std::string& folder) {
    compared_run run;
    run.folder = folder;
    if (auto there = graft::look_at(folder, graft::errc::file_open); !there.ok() || there->kind != graft::entry_kind::folder) {
        run.notes.push_back("there is no such folder");
        return run;
    }
    read_metrics(run);
    read_record(run);
    if (run.finished)
        read_answers(run);
    else
        take_best_of_log(run);
    return run;
}

void name_runs(std::vector<compared_run>& runs) {
    std::map<std::string, int> named;
    for (compared_run& r : runs) {
        std::string path = r.folder;
        while (path.size() > 1 && path.back() == '/') path.pop_back();
        r.name = base_name(path);
        ++named[r.name];
    }
    for (compared_run& r : runs)
        if (named[r.name] > 1) r.name = r.folder;
}

std::vector<setting_difference> differing_settings(const std::vector<compared_run>& runs) {
    std::vector<setting_difference> out;
    std::set<std::string> seen;
    for (const compared_run& r : runs)
        for (const auto& s : r.settings) {
            if (!seen.insert(s.first).second) continue;
            setting_difference d{s.first, {}};
            std::set<std::string> values;
            for (const compared_run& other : runs) {
                const auto at = std::find_if(other.settings.begin(), other.settings.end(), [&](const auto& o) { return o.first == s.first; });
                d.values.push_back(at == other.settings.end() ? "" : at->second);
                if (other.finished) values.insert(d.values.back());  // of the others nothing is known
            }
            if (values.size() > 1) out.push_back(std::move(d));
        }
    return out;
}

changed_answers changes_to(const compared_run& first, const compared_run& other) {
    changed_answers out;
    for_shared(first, other, [&](const std::string& path, const compared_answer& a, const compared_answer& b) {
        const bool was = a.predicted == a.label, is = b.predicted == b.label;
        ++out.shared, out.was += was, out.right += is;
        if (is && !was) out.won.push_back(path);
        if (was && !is) out.lost.push_back(path);
    });
    return out;
}

std::vector<class_comparison> compare_classes(const std::vector<compared_run>& runs) {
    std::map<std::string, class_comparison> classes;
    if (runs.empty()) return {};
    const auto told = std::count_if(runs.begin(), runs.end(), [](const compared_run& r) { return !r.answers.empty(); });
    for (const auto& a : runs[0].answers) {
        std::vector<const compared_answer*> all;
        for (const compared_run& r : runs) {
            if (r.answers.empty()) continue;  // it told nothing, and keeps nobody from being compared
            const auto b = r.answers.find(a.first);
            if (b != r.answers.end() && b->second.label == a.second.label) all.push_back(&b->second);
        }
        if (static_cast<std::ptrdiff_t>(all.size()) != told) continue;
        class_comparison& c = classes[a.second.label];
        c.name = a.second.label;
        c.found.resize(runs.size(), -1);
        ++c.pictures;
        for (std::size_t r = 0, k = 0; r < runs.size(); ++r) {
            if (runs[r].answers.empty()) continue;
            c.found[r] = std::max<std::int64_t>(c.found[r], 0) + (all[k]->predicted == all[k]->label);
            ++k;
        }
    }
    std::vector<class_comparison> out;
    for (auto& c : classes) out.push_back(std::move(c.second));
    return out;
}

std::vector<changed_confusion> changed_confusions(const compared_run& first, const compared_run& other) {
    std::map<std::pair<std::string, std::string>, changed_confusion> pairs;
    const auto at = [&](const compared_answer& a) -> changed_confusion& {
        changed_confusion& c = pairs[{a.label, a.predicted}];
        c.label = a.label, c.predicted = a.predicted;
        return c;
    };
    for_shared(first, other, [&](const std::string&, const compared_answer& a, const compared_answer& b) {
        if (a.predicted != a.label) ++at(a).was;
        if (b.predicted != b.label) ++at(b).now;
    });
    std::vector<changed_confusion> out;
    for (auto& p : pairs)
        if (p.second.was != p.second.now) out.push_back(std::move(p.second));
    std::stable_sort(out.begin(), out.end(),
                     [](const changed_confusion& a, const changed_confusion& b) { return std::abs(a.now - a.was) > std::abs(b.now - b.was); });
    return out;
}

}  // namespace program
