// Which network of a folder to begin with: the one whose features tell the new classes apart best, as they are.
#include "start.hpp"

#include <algorithm>
#include <cstdio>

namespace program {
namespace {

constexpr std::int64_t sample_pictures = 240;
constexpr std::size_t most_networks = 64;

bool is_onnx(const std::string& name) { return name.size() > 5 && name.compare(name.size() - 5, 5, ".onnx") == 0; }

graft::result<std::vector<std::string>> files_of(const std::string& from) {
    graft::folder_entry what;
    GRAFT_TRY_ASSIGN(what, graft::look_at(from, graft::errc::file_open));
    if (what.kind != graft::entry_kind::folder) return std::vector<std::string>{from};
    std::vector<graft::folder_entry> entries;
    GRAFT_TRY_ASSIGN(entries, graft::list_folder(from, graft::errc::file_open));
    std::vector<std::string> files;
    for (const graft::folder_entry& e : entries)
        if (e.kind == graft::entry_kind::file && is_onnx(e.name)) files.push_back(graft::join_path(from, e.name));
    std::sort(files.begin(), files.end());
    if (files.empty()) return graft::fail(graft::errc::file_open, from, "there is no file that ends in .onnx in this folder");
    if (files.size() > most_networks)
        return graft::fail(graft::errc::usage, "--from",
                           "the folder has " + std::to_string(files.size()) + " networks, and at most " + std::to_string(most_networks) + " are tried");
    return files;
}

graft::result<network_choice> look_into(const common_options& common, const std::string& path, const graft::dataset& training) {
    network_choice choice;
    choice.path = path;
    graft::model model;
    GRAFT_TRY_ASSIGN(model, graft::load(path, graft::on_device(nullptr)));
    graft::finetune_options how;
    how.threads = thread_count(common);
    graft::pool_executor pool(how.threads);
    graft::prepared_trunk trunk;
    GRAFT_TRY_ASSIGN(trunk, graft::prepare_trunk(model, training, how, pool));
    const graft::prepared_classifier& prepared = trunk.prepared;
    for (const graft::parameter& p : graft::parameters_of(prepared.graph))
        choice.parameters += static_cast<double>(prepared.graph.at(p.id).constant.elements());
    choice.assumed = !trunk.tried.empty();
    choice.preprocess = choice.assumed ? trunk.tried.front().text : trunk.choice.text;
    graft::preprocess_trial trial;
    GRAFT_TRY_ASSIGN(trial, graft::try_preprocess(prepared.graph, trunk.cut, training.subset(graft::search_sample(training, sample_pictures)), prepared.picture,
                                                  choice.preprocess, how.threads, graft::on_device(nullptr)));
    choice.accuracy = trial.accuracy;
    return choice;
}

}  // namespace

graft::result<std::vector<network_choice>> rank_networks(const common_options& common, const std::string& from, const graft::dataset& training) {
    std::vector<std::string> files;
    GRAFT_TRY_ASSIGN(files, files_of(from));
    std::vector<network_choice> found;
    progress bar("networks", static_cast<std::int64_t>(files.size()), common.quiet || files.size() < 2);
    for (std::size_t i = 0; i < files.size(); ++i) {
        auto looked = look_into(common, files[i], training);
        if (looked.ok()) {
            found.push_back(std::move(looked).value());
        } else if (files.size() == 1) {
            return looked.take_status();
        } else {
            bar.finish();
            warn(common, printable(files[i]) + " is left out: " + looked.error().what());
        }
        bar.step(static_cast<std::int64_t>(i) + 1);
    }
    bar.finish();
    if (found.empty()) return graft::fail(graft::errc::train_head, from, "none of its networks can learn these classes; above is said why of each");
    std::stable_sort(found.begin(), found.end(), [](const network_choice& a, const network_choice& b) { return a.accuracy > b.accuracy; });
    return found;
}

}  // namespace program
