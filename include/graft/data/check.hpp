// What is wrong with a dataset, found out before training: every picture is read and decoded once.
#pragma once

#include "../core/executor.hpp"
#include "dataset.hpp"

GRAFT_BEGIN_NAMESPACE

/// What a check found.
struct dataset_report {
    /// Pictures that are copies of others, by where the two lie: in one class of one part, in two classes, in two parts.
    enum class overlap { in_class, across_classes, across_parts };
    struct copy {
        std::string path, of;  ///< the copy, and what it is a copy of, which comes first
        overlap where = overlap::in_class;
        bool exact = false;  ///< the same contents or the same pixels; else nearly the same
    };
    static constexpr std::size_t most_copies = 1000;  ///< that are listed of each overlap

    std::int64_t images = 0;    ///< samples of all parts
    std::int64_t readable = 0;  ///< those of them that can be decoded
    double bad_share = 0;       ///< the largest share of a part to learn from or to score by that cannot be decoded
    std::vector<std::string> classes;
    /// Samples of each class in each part, readable or not, in the order of `classes`.
    std::vector<std::int64_t> training, validation, test;
    std::vector<copy> copies;                                ///< in the order of the dataset: training, validation, test
    std::int64_t exact_copies[3] = {}, near_copies[3] = {};  ///< how many there are, by `overlap`
    bool near_searched = true;  ///< whether near copies were looked for: not among more than 2^18 pictures, or too many that are alike
    /// Of the readable samples to learn from: the share of the largest class, and how many times the samples of the smallest one it has; 0
    /// where there are none.
    double majority = 0, ratio = 0;
    std::size_t largest = 0, smallest = 0;  ///< these classes: indices into `classes`
    bool imbalanced = false;                ///< as is_imbalanced has it
    /// Everything found: first about the dataset, then about single samples in their order, then copies across classes and across parts.
    std::vector<dataset_problem> problems;
    /// Fails where nothing is left to train on: data.open, data.format, ..., data.no_classes (pictures of fewer than two
    /// classes), data.too_many_bad (no picture can be read).
    status verdict;
};

/// Opens a dataset as `open_splits` does, but goes on past what is wrong with it; decodes every sample on the threads of `pool`;
/// and looks for copies, exact ones and near ones (re-encoded, resized, slightly brighter): across parts they are problems data.leak (the
/// score would be too good), across classes data.label_conflict (one of the labels is wrong). Class names that are all numbers with some left out are
/// `data.empty_class`. The report does not depend on the threads.
dataset_report check_dataset(const std::string& path, const dataset_options& options, executor& pool, const dataset_progress& progress = {});

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "dataset_state.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace detail {

class dataset_checker {
public:
    dataset_checker(const std::string& path, const dataset_options& options) : path_(path), options_(options) {}

    dataset_report run(executor& pool, const dataset_progress& progress) {
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
        find_copies(pool);
        weigh_classes();
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
                 "classes are named by numbers from " + std::to_string(numbers.front()) + " to " + std::to_string(numbers.back()) + ", but there is no " +
                     some + (missing > told ? ", ... (" + std::to_string(missing) + " are missing)" : ""));
    }

    void decode_all(executor& pool, const dataset_progress& progress) {
        const std::size_t n = static_cast<std::size_t>(report_.images);
        good_.assign(n, 0);
        // Copies are told with the sample of the earlier part, whatever the order of a manifest.
        for (const data_part part : {data_part::training, data_part::validation, data_part::test})
            for (std::size_t i = 0; i < n; ++i)
                if (state_->parts[i] == part) in_parts_.push_back(static_cast<std::int64_t>(i));
        std::vector<std::int64_t> place(n);
        for (std::size_t k = 0; k < n; ++k) place[static_cast<std::size_t>(in_parts_[k])] = static_cast<std::int64_t>(k);
        finder_.reset(new copy_finder(report_.images, can_look_alike(*state_)));
        std::vector<status> results(n);
        in_blocks(pool, report_.images, progress,
                  [&](std::int64_t i) { results[static_cast<std::size_t>(i)] = look_at_sample(i, place[static_cast<std::size_t>(i)]); });
        for (std::size_t i = 0; i < n; ++i) {
            good_[i] = results[i].ok();
            if (!good_[i]) note(samples_.name(static_cast<std::int64_t>(i)), results[i].error().code(), results[i].error().detail());
        }
    }
    status look_at_sample(std::int64_t i, std::int64_t place) {
        sample_bytes contents;
        GRAFT_TRY_ASSIGN(contents, samples_.fetch(i));
        if (contents.height && !can_look_alike(*state_)) return finder_->add(place, contents, nullptr);  // raw pixels were checked as a whole
        image picture;
        GRAFT_TRY_ASSIGN(picture, dataset::decode(contents, samples_.name(i), state_->caps));
        return finder_->add(place, contents, &picture);
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
        for (const data_part part : {data_part::training, data_part::validation}) {
            std::int64_t all = 0, bad = 0;
            for (std::size_t i = 0; i < good_.size(); ++i)
                if (state_->parts[i] == part) ++all, bad += !good_[i];
            if (all) report_.bad_share = std::max(report_.bad_share, static_cast<double>(bad) / static_cast<double>(all));
        }
        const std::vector<std::int64_t>& base = base_ == data_part::training     ? report_.training
                                                : base_ == data_part::validation ? report_.validation
                                                                                 : report_.test;
        for (std::size_t c = 0; c < base.size(); ++c)
            if (base[c] && !readable_[c]) note(path_, errc::data_empty_class, "no picture of class \"" + escape(report_.classes[c]) + "\" can be read");
    }

    void find_copies(executor& pool) {
        using overlap = dataset_report::overlap;
        const picture_copies found = finder_->find(pool);
        report_.near_searched = found.near_searched;
        for (const picture_copy& c : found.copies) {
            const std::size_t later = static_cast<std::size_t>(in_parts_[static_cast<std::size_t>(c.index)]),
                              first = static_cast<std::size_t>(in_parts_[static_cast<std::size_t>(c.of)]);
            const bool other_class = state_->labels[later] != state_->labels[first];
            const overlap where = state_->parts[later] != state_->parts[first] ? overlap::across_parts
                                  : other_class                                ? overlap::across_classes
                                                                               : overlap::in_class;
            const std::size_t kind = static_cast<std::size_t>(where);
            ++(c.exact ? report_.exact_copies : report_.near_copies)[kind];
            if (report_.exact_copies[kind] + report_.near_copies[kind] > static_cast<std::int64_t>(dataset_report::most_copies)) continue;
            report_.copies.push_back({samples_.name(static_cast<std::int64_t>(later)), samples_.name(static_cast<std::int64_t>(first)), where, c.exact});
            const dataset_report::copy& told = report_.copies.back();
            const std::string what = (c.exact ? "the same picture as " : "nearly the same picture as ") + escape(told.of);
            const std::string label = other_class ? ", which has another label" : "";
            if (where == overlap::across_parts)
                note(told.path, errc::data_leak, what + " in another part" + label + "; keep it in one of them");
            else if (where == overlap::across_classes)
                note(told.path, errc::data_label_conflict, what + label + "; keep it in one class");
        }
    }

    // Among the readable ones to learn from.
    void weigh_classes() {
        std::int64_t all = 0;
        std::size_t& most = report_.largest;
        std::size_t& least = report_.smallest;
        for (std::size_t c = 0; c < readable_.size(); ++c) {
            all += readable_[c];
            if (readable_[c] > readable_[most]) most = c;
            if (readable_[c] && (!readable_[least] || readable_[c] < readable_[least])) least = c;
        }
        if (!all) return;
        report_.majority = static_cast<double>(readable_[most]) / static_cast<double>(all);
        report_.ratio = static_cast<double>(readable_[most]) / static_cast<double>(readable_[least]);
        report_.imbalanced = is_imbalanced(readable_);
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
    std::unique_ptr<copy_finder> finder_;
    std::vector<std::int64_t> in_parts_;  // samples, training first
    std::vector<std::int64_t> readable_;  // of the part that is learnt from, by class
};

}  // namespace detail

GRAFT_INLINE dataset_report check_dataset(const std::string& path, const dataset_options& options, executor& pool, const dataset_progress& progress) {
    return detail::dataset_checker(path, options).run(pool, progress);
}

GRAFT_END_NAMESPACE
#endif
