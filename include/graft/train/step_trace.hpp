// The trace of a run: a few steps behind the first ones, of all members in one file.
#pragma once

#include "../core/file.hpp"
#include "../core/trace.hpp"
#include "members.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Records `steps` steps behind `warm_up` others, which plan and fill caches, and has rank 0 write what all members took down. All members make the same calls.
class step_trace {
public:
    static constexpr std::int64_t warm_up = 3, steps = 20, most_spans = 200000;

    // `tracks`: how many members the file shows: processes, or replicas of this one. No file: nothing is recorded.
    step_trace(std::string file, int tracks, run_members& members) : file_(std::move(file)), tracks_(tracks), members_(members) {
        if (!file_.empty()) recorder_ = std::make_shared<trace_recorder>(std::max<std::int64_t>(1000, most_spans / members.size()));
    }
    const std::shared_ptr<trace_recorder>& recorder() const { return recorder_; }

    // A file that cannot be written is told before the first step.
    status begin() { return recorder_ ? put("") : status(); }
    // `left`: steps of the run that are not done, with the one that comes.
    status before_step(std::int64_t left) {
        if (!recorder_ || over_) return {};
        if (seen_ == 0) first_ = std::min(warm_up, std::max<std::int64_t>(0, left - 1));
        if (seen_ == first_) {
            // Clocks of machines differ: all count from where they meet.
            GRAFT_TRY(members_.barrier());
            recorder_->start();
        }
        ++seen_;
        return {};
    }
    status behind_step() { return recorder_ && seen_ == first_ + steps ? finish() : status(); }
    // Writes the file, unless that was done.
    status finish() {
        if (!recorder_ || over_ || !recorder_->recording()) return {};
        over_ = true;
        recorder_->stop();
        std::string all = recorder_->events();
        left_out_ = recorder_->left_out();
        GRAFT_TRY(members_.largest(left_out_));
        if (members_.several()) {
            std::vector<char> texts;
            std::vector<std::int64_t> counts;
            GRAFT_TRY(members_.gather_all(all.data(), static_cast<std::int64_t>(all.size()), texts, counts));
            all.clear();
            std::size_t at = 0;
            for (const std::int64_t count : counts) {
                if (count) all += (all.empty() ? "" : ",") + std::string(texts.data() + at, static_cast<std::size_t>(count));
                at += static_cast<std::size_t>(count);
            }
        }
        return put(all);
    }
    // Spans that there was no room for, of the member that had most of them.
    std::int64_t left_out() const { return left_out_; }

private:
    status put(const std::string& events) const {
        if (!members_.leads()) return {};
        const std::string text = trace_file(tracks_, events);
        atomic_file to;
        GRAFT_TRY(to.open(file_));
        GRAFT_TRY(to.write(text.data(), text.size()));
        return to.commit();
    }

    const std::string file_;
    const int tracks_;
    run_members& members_;
    std::shared_ptr<trace_recorder> recorder_;
    std::int64_t seen_ = 0, first_ = 0, left_out_ = 0;
    bool over_ = false;
};

}  // namespace detail
GRAFT_END_NAMESPACE
