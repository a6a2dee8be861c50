// Batches one after the other, with the one behind at hand.
#pragma once

#include "loader.hpp"

#include <utility>

GRAFT_BEGIN_NAMESPACE

/// Goes through the batches of a source that was started. Where `ahead` says so, the one behind is there while one is worked on, so
/// that a device can bring it over; that keeps two in memory.
template <class Source>
class batches_ahead {
public:
    /// `count`: how many the source has left. The source must outlive this.
    batches_ahead(Source& from, std::int64_t count, bool ahead) noexcept : from_(from), left_(count), ahead_(ahead) {}

    /// Goes on to the next batch. Errors: the source's, for that batch; what was found bad in it is in current() all the same.
    status advance() {
        status made;
        if (has_next_)
            std::swap(current_, next_), made = std::move(made_next_);
        else
            made = from_.next(current_);
        has_next_ = ahead_ && --left_ > 0 && made.ok();
        if (has_next_) made_next_ = from_.next(next_);
        return made;
    }
    batch& current() noexcept { return current_; }
    /// Inputs of the batch behind, which stay as they are and where they are until it has been worked on; null where that is not known.
    const tensor* next() const noexcept { return has_next_ && made_next_.ok() && !next_.labels.empty() ? &next_.inputs : nullptr; }

private:
    Source& from_;
    std::int64_t left_;
    bool ahead_, has_next_ = false;
    batch current_, next_;
    status made_next_;
};

GRAFT_END_NAMESPACE
