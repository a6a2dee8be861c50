// What the threads of a run did when: spans of time, and the file that shows them.
#pragma once

#include "clock.hpp"
#include "error.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// A stretch of time that a thread spent on one thing.
struct trace_span {
    int member = 0;              ///< the rank of whose thread it was
    int thread = 0;              ///< trace_recorder::compute or ::exchange
    std::string name, op, node;  ///< what is shown; the operator and its node
    double begin = 0, end = 0;   ///< seconds of detail::seconds_now
    std::int64_t bytes = 0;      ///< that it made or exchanged
};

/// Takes spans down while it records, from any thread. Of more than it has room for the last are left out, and counted.
class trace_recorder {
public:
    static constexpr int compute = 0;   ///< the thread that runs the nodes of a step
    static constexpr int exchange = 1;  ///< the thread that exchanges with other members beside it

    /// Room for `most_spans`.
    explicit trace_recorder(std::int64_t most_spans = 100000) : most_(most_spans) {}

    /// Begins to record; times count from here.
    void start();
    void stop() noexcept { recording_.store(false); }
    bool recording() const noexcept { return recording_.load(std::memory_order_relaxed); }
    /// Takes one down, while it records. Where memory is wanting it is left out, and counted.
    void add(const trace_span& span) noexcept;
    /// How many spans were left out.
    std::int64_t left_out() const;
    /// The spans so far as trace events of Chrome ("X" events, in microseconds), behind each other with commas between: what `trace_file` takes of each member.
    std::string events() const;

private:
    const std::int64_t most_;
    std::atomic<bool> recording_{false};
    mutable std::mutex lock_;
    std::vector<trace_span> spans_;
    double zero_ = 0;
    std::int64_t left_out_ = 0;
};

namespace detail {
// Takes down that `bytes` of the node `node` were added up over all members beside the step of this one, in these seconds.
void add_exchange(trace_recorder& to, int member, const char* node, double begin, double end, std::int64_t bytes) noexcept;
}  // namespace detail

/// A file in Chrome's trace event format, which Perfetto and chrome://tracing show: a process for each of `members` members, with a thread that computes and
/// one that exchanges. `events`: what trace_recorder::events gave, of all members behind each other with commas between, or nothing.
std::string trace_file(int members, const std::string& events);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "json.hpp"

#include <new>

GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE void trace_recorder::start() {
    const std::lock_guard<std::mutex> guard(lock_);
    zero_ = detail::seconds_now();
    recording_.store(true);
}

GRAFT_INLINE void trace_recorder::add(const trace_span& span) noexcept {
    if (!recording()) return;
    const status kept = detail::or_out_of_memory<status>("a trace", [&]() -> status {
        const std::lock_guard<std::mutex> guard(lock_);
        if (static_cast<std::int64_t>(spans_.size()) < most_)
            spans_.push_back(span);
        else
            ++left_out_;
        return {};
    });
    if (kept.ok()) return;
    const std::lock_guard<std::mutex> guard(lock_);
    ++left_out_;
}

GRAFT_INLINE void detail::add_exchange(trace_recorder& to, int member, const char* node, double begin, double end, std::int64_t bytes) noexcept {
    (void)or_out_of_memory<status>("a trace", [&]() -> status {
        trace_span s;
        s.member = member, s.thread = trace_recorder::exchange;
        s.op = "AllReduce", s.node = node;
        s.name = s.op + " " + s.node;
        s.begin = begin, s.end = end;
        s.bytes = bytes;
        to.add(s);
        return {};
    });
}

GRAFT_INLINE std::int64_t trace_recorder::left_out() const {
    const std::lock_guard<std::mutex> guard(lock_);
    return left_out_;
}

GRAFT_INLINE std::string trace_recorder::events() const {
    const std::lock_guard<std::mutex> guard(lock_);
    json_writer w;
    w.begin_array();
    for (const trace_span& s : spans_) {
        w.begin_object().key("ph").string("X").key("name").string(s.name).key("cat").string(s.thread == exchange ? "exchange" : "compute");
        w.key("pid").integer(s.member).key("tid").integer(s.thread);
        w.key("ts").number((s.begin - zero_) * 1e6).key("dur").number((s.end - s.begin) * 1e6);
        w.key("args").begin_object().key("op").string(s.op).key("node").string(s.node).key("bytes").integer(s.bytes).end_object().end_object();
    }
    const std::string& text = w.end_array().text();
    return text.substr(1, text.size() - 2);
}

GRAFT_INLINE std::string trace_file(int members, const std::string& events) {
    json_writer w;
    w.begin_object().key("displayTimeUnit").string("ms").key("traceEvents").begin_array();
    const auto describe = [&](int member, int thread, const char* what, const std::string& name) {
        w.begin_object().key("ph").string("M").key("name").string(what).key("pid").integer(member).key("tid").integer(thread);
        w.key("args").begin_object().key("name").string(name).end_object().end_object();
    };
    for (int m = 0; m < members; ++m) {
        describe(m, trace_recorder::compute, "process_name", "rank " + std::to_string(m));
        describe(m, trace_recorder::compute, "thread_name", "compute");
        describe(m, trace_recorder::exchange, "thread_name", "exchange");
    }
    std::string text = w.text();
    if (!events.empty()) text += (members > 0 ? "," : "") + events;
    return text + "]}\n";
}

GRAFT_END_NAMESPACE
#endif
