// Bodies of data/dataset.hpp: what is learnt from, and what it is scored by.
#pragma once

#include "copies.hpp"
#include "dataset.hpp"
#include "splits.hpp"

#include <algorithm>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Whether samples may be large enough to be compared by how they look.
inline bool can_look_alike(const dataset_state& state) noexcept {
    bool can = state.in_files();
    for (const raw_block& b : state.blocks) can |= b.height >= picture_print::side && b.width >= picture_print::side;
    for (const sample_bytes& s : state.held) can |= !s.height || (s.height >= picture_print::side && s.width >= picture_print::side);
    return can;
}

inline std::string too_few_classes(const std::vector<std::string>& classes) {
    if (classes.empty()) return "there are no classes; at least two are needed to learn from";
    return "there is only one class, \"" + escape(classes[0]) + "\"; at least two are needed to learn from";
}

// For each i in [0, n) on the threads of a pool, telling how many are done.
template <class F>
inline void in_blocks(executor& pool, std::int64_t n, const dataset_progress& progress, const F& f) {
    constexpr std::int64_t block = 256;
    if (progress.report) progress.report(progress.context, 0, n);
    for (std::int64_t from = 0; from < n; from += block) {
        const std::int64_t count = std::min(block, n - from);
        parallel_for(pool, count, [&](std::int64_t k) { f(from + k); });
        if (progress.report) progress.report(progress.context, from + count, n);
    }
}

inline bool same_contents(const dataset& one, std::int64_t i, const dataset& other, std::int64_t k) {
    auto a = one.fetch(i), b = other.fetch(k);
    return a.ok() && b.ok() && a->size == b->size && std::memcmp(a->data, b->data, a->size) == 0;
}

// Validation pictures whose contents are learnt from, told in one problem. What cannot be read is told when it is used.
inline void note_leaks(const dataset& training, const dataset& validation, executor& pool, std::vector<dataset_problem>& problems) {
    std::vector<std::pair<std::uint64_t, std::int64_t>> learnt(static_cast<std::size_t>(training.size())), scored(static_cast<std::size_t>(validation.size()));
    const auto tag = [](const dataset& of, std::vector<std::pair<std::uint64_t, std::int64_t>>& to, std::int64_t i) {
        auto read = of.tag(i);
        to[static_cast<std::size_t>(i)] = {read.ok() ? *read : 0, read.ok() ? i : -1};
    };
    in_blocks(pool, training.size(), {}, [&](std::int64_t i) { tag(training, learnt, i); });
    in_blocks(pool, validation.size(), {}, [&](std::int64_t i) { tag(validation, scored, i); });
    std::sort(learnt.begin(), learnt.end());
    std::int64_t leaks = 0, leaked = -1, of = -1;
    for (const auto& s : scored) {
        auto at = std::lower_bound(learnt.begin(), learnt.end(), std::make_pair(s.first, std::int64_t(0)));
        for (; s.second >= 0 && at != learnt.end() && at->first == s.first; ++at) {
            if (!same_contents(validation, s.second, training, at->second)) continue;
            if (!leaks++) leaked = s.second, of = at->second;
            break;
        }
    }
    if (!leaks) return;
    const std::string others = leaks == 1 ? "" : ", and so for " + std::to_string(leaks - 1) + " others";
    problems.push_back(
        {validation.name(leaked), errc::data_leak,
         "the same contents as " + escape(training.name(of)) + ", which is learnt from" + others + ": the score is too good by them; `graft check` lists them",
         false});
}

// The groups of copies among pictures, for a draw that keeps each on one side.
inline picture_copies find_copies(const dataset& data, bool by_looks, executor& pool, const dataset_progress& progress) {
    copy_finder finder(data.size(), by_looks);
    in_blocks(pool, data.size(), progress, [&](std::int64_t i) {
        // What cannot be read has no copies, and is told when it is used.
        (void)or_out_of_memory<status>("copies", [&]() -> status {
            sample_bytes contents;
            GRAFT_TRY_ASSIGN(contents, data.fetch(i));
            if (!by_looks && contents.height) return finder.add(i, contents, nullptr);
            image picture;
            GRAFT_TRY_ASSIGN(picture, dataset::decode(contents, data.name(i), data.caps()));
            return finder.add(i, contents, &picture);
        });
    });
    return finder.find(pool);
}

}  // namespace detail

GRAFT_INLINE result<dataset_splits> draw_splits(const dataset& all, const dataset_options& options) GRAFT_MEMORY_TRY {
    const std::vector<std::string>& classes = all.classes();
    if (classes.size() < 2) return fail(errc::data_no_classes, "dataset", detail::too_few_classes(classes));
    dataset_splits out;
    std::vector<int> labels;
    for (std::int64_t i = 0; i < all.size(); ++i) labels.push_back(all.label(i));
    std::vector<std::int64_t> groups;
    if (options.together && options.validation_fraction > 0) {
        pool_executor pool(options.threads);
        picture_copies found = detail::find_copies(all, detail::can_look_alike(detail::dataset_views::state_of(all)), pool, options.progress);
        out.copies = static_cast<std::int64_t>(found.copies.size());
        groups = std::move(found.groups);
    }
    split_indices drawn;
    GRAFT_TRY_ASSIGN(drawn, stratified_split(labels, classes, options.validation_fraction, options.seed, groups));
    out.validation = all.subset(drawn.validation);
    out.training = all.subset(drawn.training);
    return out;
}
GRAFT_MEMORY_CATCH("draw_splits")

GRAFT_INLINE result<dataset_splits> open_splits(const std::string& path, const dataset_options& options) GRAFT_MEMORY_TRY {
    auto state = std::make_shared<detail::dataset_state>();
    GRAFT_TRY(detail::load_dataset(path, options, *state));
    GRAFT_TRY(detail::first_refusal(path, *state));
    if (state->classes.size() < 2) return fail(errc::data_no_classes, path, detail::too_few_classes(state->classes));
    if (state->count(detail::data_part::training) == 0)
        return fail(errc::data_no_classes, path, "the dataset holds a part to score by, but no pictures to learn from");
    dataset_splits out;
    out.training = detail::dataset_views::part(state, detail::data_part::training);
    out.validation = detail::dataset_views::part(state, detail::data_part::validation);
    if (out.validation.size() == 0) return draw_splits(out.training, options);
    out.validation_given = true;
    pool_executor pool(options.threads);
    detail::note_leaks(out.training, out.validation, pool, state->problems);
    return out;
}
GRAFT_MEMORY_CATCH(path)

GRAFT_END_NAMESPACE
