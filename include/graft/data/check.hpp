// What is wrong with a dataset, found out before training: every picture is read and decoded once.
#pragma once

#include "../core/executor.hpp"
#include "dataset.hpp"

GRAFT_BEGIN_NAMESPACE

/// What a check found.
struct dataset_report {
    std::int64_t images = 0;   ///< samples of all parts
    std::int64_t readable = 0; ///< those of them that can be decoded
    std::vector<std::string> classes;
    /// Samples of each class in each part, readable or not, in the order of `classes`.
    std::vector<std::int64_t> training, validation, test;
    /// Everything found: first about the dataset, then about single samples in their order, then samples that two parts share.
    std::vector<dataset_problem> problems;
    /// Fails where nothing is left to train on: data.open, data.format, ..., data.no_classes (pictures of fewer than two
    /// classes), data.too_many_bad (no picture can be read).
    status verdict;
};

/// Told from time to time, on the calling thread, how many samples are done.
struct check_progress {
    void (*report)(void* context, std::int64_t done, std::int64_t total) = nullptr;
    void* context = nullptr;
};

/// Opens a dataset as `open_splits` does, but goes on past what is wrong with it; decodes every sample on the threads of `pool`;
/// and looks for samples of one part that lie, byte for byte, in another one as well (data.leak: the score would be too good).
/// Class names that are all numbers with some left out are `data.empty_class`. The report does not depend on the threads.
dataset_report check_dataset(const std::string& path, const dataset_options& options, executor& pool, const check_progress& progress = {});

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/fnv1a.hpp"
#include "dataset_state.hpp"

#include <algorithm>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace detail {

class dataset_checker {
public:
    dataset_checker(const std::string& path, const dataset_options& options) : path_(path), options_(options) {}

    dataset_report run(executor& pool, const check_progress& progress) {
        auto state = std::make_shared<dataset_state>();
        status opened = load_dataset(path_, options_, *state);
        report_.problems = state->problems;
        if (!opened.ok()) {
            report_.verdict = std::move(opened);
            note(report_.verdict.error());
            return std::move(report_);
        }
        state_ = state;
        samples_ = dataset_views::whole(state_);
        report_.images = samples_.size();
        report_.classes = state_->classes;
        if (state_->blocks.empty()) find_missing_numbers();
        decode_all(pool, progress);
        count();
        find_leaks();
        judge();
        return std::move(report_);
    }

private:
    void note(std::string path, errc code, std::string detail) { report_.problems.push_back({std::move(path), code, std::move(detail), false}); }
    void note(const error& e) {
        for (const dataset_problem& p : report_.problems)
            if (p.code == e.code() && p.path == e.where()) return;
        note(e.where(), e.code(), e.detail());
    }
    bool has_parts() const { return state_->count(state_->parts.empty() ? data_part::training : state_->parts[0]) != state_->size(); }

    // Numbers left out among class names that are numbers: most often a class that was lost on the way here.
    void find_missing_numbers() {
        std::vector<std::int64_t> numbers;
        for (const std::string& name : state_->classes) {
            numbers.push_back(label_number(name));
            if (numbers.back() < 0) return;
        }
        std::sort(numbers.begin(), numbers.end());
        std::string some;
        std::int64_t missing = 0, told = 0;
        for (std::size_t i = 1; i < numbers.size(); ++i) {
            missing += numbers[i] - numbers[i - 1] - 1;
            for (std::int64_t n = numbers[i - 1] + 1; n < numbers[i] && told < 10; ++n, ++told) some += (told ? ", " : "") + std::to_string(n);
        }
        if (missing)
            note(path_, errc::data_empty_class,
                 "classes are named by numbers from " + std::to_string(numbers.front()) + " to " + std::to_string(numbers.back()) +
                     ", but there is no " + some + (missing > told ? ", ... (" + std::to_string(missing) + " are missing)" : ""));
    }

    void decode_all(executor& pool, const check_progress& progress) {
        constexpr std::int64_t block = 256;
        const std::size_t n = static_cast<std::size_t>(report_.images);
        const bool compare = has_parts();
        good_.assign(n, 0);
        if (compare) hashes_.assign(n, 0);
        std::vector<status> results(block);
        if (progress.report) progress.report(progress.context, 0, report_.images);
        for (std::int64_t from = 0; from < report_.images; from += block) {
            const std::int64_t count = std::min(block, report_.images - from);
            parallel_for(pool, count, [&](std::int64_t k) { results[static_cast<std::size_t>(k)] = look_at_sample(from + k, compare); });
            for (std::int64_t k = 0; k < count; ++k) {
                const status& done = results[static_cast<std::size_t>(k)];
                if (!done.ok()) note(samples_.name(from + k), done.error().code(), done.error().detail());
                good_[static_cast<std::size_t>(from + k)] = done.ok();
            }
            if (progress.report) progress.report(progress.context, from + count, report_.images);
        }
    }
    status look_at_sample(std::int64_t i, bool compare) {
        sample_bytes contents;
        GRAFT_TRY_ASSIGN(contents, samples_.fetch(i));
        if (compare) hashes_[static_cast<std::size_t>(i)] = fnv1a(contents.data, contents.size);
        if (contents.height) return {}; // raw pixels were checked as a whole
        image picture;
        GRAFT_TRY_ASSIGN(picture, dataset::decode(contents, samples_.name(i), state_->caps));
        return {};
    }

    void count() {
        report_.training.assign(report_.classes.size(), 0);
        report_.validation = report_.test = report_.training;
        readable_.assign(report_.classes.size(), 0);
        // Where there is nothing to learn from by its name, what is there counts: a test set can be checked by itself.
        base_ = state_->count(data_part::training) || state_->parts.empty() ? data_part::training : state_->parts[0];
        for (std::size_t i = 0; i < good_.size(); ++i) {
            const std::size_t label = static_cast<std::size_t>(state_->labels[i]);
            const data_part part = state_->parts[i];
            ++(part == data_part::training ? report_.training : part == data_part::validation ? report_.validation : report_.test)[label];
            report_.readable += good_[i];
            if (part == base_) readable_[label] += good_[i], ++base_images_;
        }
        const std::vector<std::int64_t>& base = base_ == data_part::training     ? report_.training
                                                : base_ == data_part::validation ? report_.validation
                                                                                 : report_.test;
        for (std::size_t c = 0; c < base.size(); ++c)
            if (base[c] && !readable_[c]) note(path_, errc::data_empty_class, "no picture of class \"" + escape(report_.classes[c]) + "\" can be read");
    }

    // Samples of a later part whose contents an earlier part has as well.
    void find_leaks() {
        if (hashes_.empty()) return;
        std::vector<std::int64_t> order;
        for (std::size_t i = 0; i < hashes_.size(); ++i)
            if (good_[i]) order.push_back(static_cast<std::int64_t>(i));
        const auto key = [this](std::int64_t i) { return std::make_pair(hashes_[static_cast<std::size_t>(i)], state_->parts[static_cast<std::size_t>(i)]); };
        std::sort(order.begin(), order.end(), [&key](std::int64_t a, std::int64_t b) { return key(a) != key(b) ? key(a) < key(b) : a < b; });
        std::vector<std::pair<std::int64_t, std::int64_t>> leaks; // the later sample, the earlier one
        for (std::size_t from = 0, i = 0; i < order.size(); ++i) {
            if (key(order[i]).first != key(order[from]).first) from = i;
            if (key(order[i]).second != key(order[from]).second && same_contents(order[from], order[i])) leaks.emplace_back(order[i], order[from]);
        }
        std::sort(leaks.begin(), leaks.end());
        for (const auto& leak : leaks)
            note(samples_.name(leak.first), errc::data_leak,
                 "the same contents as " + escape(samples_.name(leak.second)) + " in another part; keep it in one of them");
    }
    bool same_contents(std::int64_t a, std::int64_t b) const {
        auto one = samples_.fetch(a), other = samples_.fetch(b);
        return one.ok() && other.ok() && one->size == other->size && std::memcmp(one->data, other->data, one->size) == 0;
    }

    void judge() {
        std::int64_t readable = 0, classes = 0;
        for (std::int64_t n : readable_) readable += n, classes += n > 0;
        const status refusal = first_refusal(path_, *state_);
        if ((report_.images == 0 || base_ != data_part::training) && !refusal.ok())
            report_.verdict = fail(refusal.error().code(), refusal.error().where(), refusal.error().detail());
        else if (readable == 0)
            report_.verdict = fail(errc::data_too_many_bad, path_, "none of the " + std::to_string(base_images_) + " pictures to learn from can be read");
        else if (report_.classes.size() < 2 || (classes < 2 && !state_->classes_declared && !options_.allow_empty))
            report_.verdict = fail(errc::data_no_classes, path_, "there are pictures of one class only; at least two are needed to learn from");
        if (!report_.verdict.ok()) note(report_.verdict.error());
    }

    const std::string& path_;
    const dataset_options& options_;
    dataset_report report_;
    std::shared_ptr<const dataset_state> state_;
    dataset samples_;
    data_part base_ = data_part::training;
    std::int64_t base_images_ = 0;
    std::vector<std::uint8_t> good_;
    std::vector<std::uint64_t> hashes_;
    std::vector<std::int64_t> readable_; // of the part that is learnt from, by class
};

} // namespace detail

GRAFT_INLINE dataset_report check_dataset(const std::string& path, const dataset_options& options, executor& pool, const check_progress& progress) {
    return detail::dataset_checker(path, options).run(pool, progress);
}

GRAFT_END_NAMESPACE
#endif
