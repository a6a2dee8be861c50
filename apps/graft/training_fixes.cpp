// fixes.csv of a run: what the best network, and the pictures themselves, say against the dataset.
#include "training.hpp"

#include <graft/data/check.hpp>
#include <graft/train/evaluate.hpp>
#include <graft/train/feature_cache.hpp>

#include <algorithm>
#include <map>
#include <set>

namespace program {
namespace {

// Up to `most` indices of `pictures`, as far from each other as they can be, so that every class is among them.
std::vector<std::int64_t> spread_over(std::int64_t pictures, std::int64_t most) {
    std::vector<std::int64_t> some;
    const std::int64_t n = std::min(most, pictures);
    for (std::int64_t i = 0; i < n; ++i) some.push_back(i * pictures / n);
    return some;
}

// One pass of the network over pictures that it learnt from.
graft::result<graft::evaluation_result> look_again(const common_options& common, const graft::trainer_options& with, const graft::training_result& found,
                                                   const graft::dataset& pictures) {
    graft::model network;
    GRAFT_TRY_ASSIGN(network, graft::load(found.network, load_options_of(common, with.step.on)));
    graft::evaluation_options how;
    how.batch = with.batch;
    how.threads = with.threads;
    how.bad_share = 1;
    how.cache = with.cache;
    progress bar("fixes", pictures.size(), common.quiet);
    how.progress = [](void* context, std::int64_t done, std::int64_t) { static_cast<progress*>(context)->step(done); };
    how.context = &bar;
    return graft::evaluate(network, pictures, with.preprocess, {}, how);
}

// Rows of features behind those of other pictures, with what they are of.
struct gathered_features {
    std::vector<float> rows;
    std::int64_t width = 0;
    std::vector<std::int32_t> labels;
    std::vector<std::string> paths;
};

graft::status gather_features(const common_options& common, const training_setup& setup, const graft::trainer_options& with, const graft::dataset& pictures,
                              gathered_features& to) {
    const graft::cut_network cut = graft::cut_at(setup.network.graph, setup.network.features);
    graft::loader_options how;
    how.batch_size = with.batch;
    how.workers = with.workers ? with.workers : with.threads;
    how.shuffle = false;
    how.bad_share = 1;
    how.sample.preprocess = with.preprocess;
    how.sample.format = input_of(setup.network.graph);
    how.sample.cache = with.cache;
    progress bar("neighbours", pictures.size(), common.quiet);
    graft::cached_features made;
    GRAFT_TRY_ASSIGN(made, graft::cache_features(
                               cut.trunk, pictures, how, with.threads,
                               [](void* context, std::int64_t done, std::int64_t) { static_cast<progress*>(context)->step(done); }, &bar,
                               load_options_of(common, with.step.on)));
    const auto n = static_cast<std::int64_t>(made.labels.size());
    if (n == 0) return {};
    to.width = made.rows.elements() / made.rows.shape()[0];
    to.rows.insert(to.rows.end(), made.rows.data<float>(), made.rows.data<float>() + n * to.width);
    to.labels.insert(to.labels.end(), made.labels.begin(), made.labels.end());
    for (const std::int64_t i : made.indices) to.paths.push_back(below(folder_of_dataset(setup.data), pictures.name(i)));
    return {};
}

// What the labels of alike pictures say, alike to the trunk as it was before the run: it was told none of these labels. Returns the votes on pictures
// that were learnt from, by their indices in the training part.
graft::result<std::vector<graft::scored_picture>> ask_neighbours(const common_options& common, const training_setup& setup, const graft::dataset_splits& data,
                                                                 const graft::trainer_options& with, const std::vector<std::int64_t>& some,
                                                                 fix_proposer& proposer) {
    gathered_features all;
    GRAFT_TRY(gather_features(common, setup, with, data.training.subset(some), all));
    const std::set<std::string> learnt_from(all.paths.begin(), all.paths.end());
    GRAFT_TRY(gather_features(common, setup, with, data.validation, all));
    std::vector<graft::scored_picture> votes, learnt;
    if (all.labels.empty()) return learnt;
    graft::pool_executor pool(with.threads);
    GRAFT_TRY_ASSIGN(votes, graft::vote_of_neighbours(all.rows.data(), all.width, all.labels, pool));
    proposer.add_votes(all.paths, data.training.classes(), votes, learnt_from);
    std::map<std::string, std::int64_t> places;
    for (const std::int64_t i : some) places[below(folder_of_dataset(setup.data), data.training.name(i))] = i;
    for (std::size_t i = 0; i < votes.size(); ++i) {
        const auto place = places.find(all.paths[i]);
        if (place == places.end()) continue;
        learnt.push_back(votes[i]);
        learnt.back().index = place->second;
    }
    return learnt;
}

}  // namespace

graft::result<training_fixes> find_fixes(const common_options& common, const training_options& options, const training_setup& setup,
                                         const graft::dataset_splits& data, const graft::trainer_options& with, const graft::training_result& found) {
    training_fixes out;
    if (!has_files(data.training)) return out;
    const double begun = seconds_now();
    fix_proposer proposer(options.data);
    const std::vector<std::int64_t> some = spread_over(data.training.size(), options.fixes);
    out.by_neighbours = !some.empty() && setup.network.features != graft::no_value;
    if (out.by_neighbours) GRAFT_TRY_ASSIGN(out.learnt, ask_neighbours(common, setup, data, with, some, proposer));
    proposer.add_scored(data.validation, found.validation.pictures, "validation");
    if (!some.empty() && !out.by_neighbours) {
        graft::evaluation_result scored;
        GRAFT_TRY_ASSIGN(scored, look_again(common, with, found, data.training.subset(some)));
        out.learnt = std::move(scored.pictures);
        for (graft::scored_picture& p : out.learnt) p.index = some[static_cast<std::size_t>(p.index)];
        proposer.add_scored(data.training, out.learnt, "training");
    }
    if (options.fixes > 0 && data.training.size() + data.validation.size() <= options.fixes) {
        graft::dataset_options opening;
        opening.allow_empty = options.allow_empty;
        graft::pool_executor pool(with.threads);
        std::set<std::string> samples;
        for (const graft::dataset* part : {&data.training, &data.validation})
            for (std::int64_t i = 0; i < part->size(); ++i) samples.insert(part->name(i));
        dataset_bar bar("copies", common.quiet);
        proposer.add_report(graft::check_dataset(options.data, opening, pool, bar.told()), samples);
    }
    out.fixes = proposer.take();
    out.file = graft::join_path(with.out, "fixes.csv");
    GRAFT_TRY(write_fixes(out.fixes, out.file));
    out.seconds = seconds_now() - begun;
    return out;
}

}  // namespace program
