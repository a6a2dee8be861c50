// What the threads of a run did when: spans of time, and the file that shows them.
#pragma once

#include "clock.hpp"
#include "error.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// What a step of a plan does each time that it runs: made once a step, shared by its spans.
struct trace_task {
    std::string op, node;            ///< the operator and its node, names cut to 256 bytes
    std::string device, kernel;      ///< where it runs, and by which algorithm
    std::string shapes;              ///< of inputs and outputs: "float32[1,3,8,8] float32[4,3,3,3] -> float32[1,4,8,8]"
    int threads = 1;                 ///< that it may use
    std::int64_t multiply_adds = 0;  ///< of the convolutions and matrix products in it, as papers count them, whatever the algorithm; two FLOP each
    std::int64_t read_bytes = 0;     ///< of its inputs, constants among them
    std::int64_t made_bytes = 0;     ///< of its outputs
};

/// A stretch of time that a thread spent on one thing.
struct trace_span {
    int member = 0;                          ///< the rank of whose thread it was; of inference, the number of the session
    int thread = 0;                          ///< trace_recorder::compute or ::exchange, or one behind these
    std::string name, op, node;              ///< what is shown; the operator and its node. Empty where `task` tells
    double begin = 0, end = 0;               ///< seconds of detail::seconds_now
    std::int64_t bytes = 0;                  ///< that it made or exchanged
    std::shared_ptr<const trace_task> task;  ///< of the steps of a plan; null: it was something else
};

/// Steps that ran where nobody measures how long they take.
struct unmeasured_task {
    std::shared_ptr<const trace_task> task;
    std::int64_t calls = 0;
};

/// Takes spans down while it records, from any thread. Of more than it has room for the last are left out, and counted.
class trace_recorder {
public:
    static constexpr int compute = 0;   ///< the thread that runs the nodes of a step
    static constexpr int exchange = 1;  ///< the thread that exchanges with other members beside it
    /// The operator of a span that is a whole run of a session, around those of its steps.
    static constexpr const char* whole_run = "run";

    /// Room for `most_spans`.
    explicit trace_recorder(std::int64_t most_spans = 100000) : most_(most_spans) {}

    /// Begins to record; times count from here.
    void start();
    void stop() noexcept { recording_.store(false); }
    /// Goes on where `stop` has ended; times count from where they did.
    void resume() noexcept { recording_.store(true); }
    bool recording() const noexcept { return recording_.load(std::memory_order_relaxed); }
    /// Takes one down, while it records. Where memory is wanting it is left out, and counted.
    void add(const trace_span& span) noexcept;
    /// Counts a run of a step that is not measured, while it records; of more than it has room for the last are left out, and counted.
    void add_unmeasured(const std::shared_ptr<const trace_task>& task) noexcept;
    /// The number of a member that has none yet: sessions take theirs when they are first recorded.
    int new_member() noexcept { return members_.fetch_add(1, std::memory_order_relaxed); }
    /// How many spans were left out.
    std::int64_t left_out() const;
    /// The spans so far, in the order in which they ended.
    std::vector<trace_span> spans() const;
    /// The steps so far that were not measured.
    std::vector<unmeasured_task> unmeasured() const;
    /// The spans so far as trace events of Chrome ("X" events, in microseconds), behind each other with commas between: what `trace_file` takes of each member.
    std::string events() const;
    /// The whole of it as a file for Perfetto and chrome://tracing, of a program that infers: a process for each session, in it a thread for each place
    /// that its steps ran on.
    std::string file() const;

private:
    void add_or_count(status kept) noexcept;

    const std::int64_t most_;
    std::atomic<bool> recording_{false};
    std::atomic<int> members_{0};
    mutable std::mutex lock_;
    std::vector<trace_span> spans_;
    std::vector<unmeasured_task> unmeasured_;
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

#include <algorithm>
#include <new>
#include <utility>

GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE void trace_recorder::start() {
    const std::lock_guard<std::mutex> guard(lock_);
    zero_ = detail::seconds_now();
    recording_.store(true);
}

GRAFT_INLINE void trace_recorder::add_or_count(status kept) noexcept {
    if (kept.ok()) return;
    const std::lock_guard<std::mutex> guard(lock_);
    ++left_out_;
}
GRAFT_INLINE void trace_recorder::add(const trace_span& span) noexcept {
    if (!recording()) return;
    add_or_count(detail::or_out_of_memory<status>("a trace", [&]() -> status {
        const std::lock_guard<std::mutex> guard(lock_);
        if (static_cast<std::int64_t>(spans_.size()) < most_)
            spans_.push_back(span);
        else
            ++left_out_;
        return {};
    }));
}
GRAFT_INLINE void trace_recorder::add_unmeasured(const std::shared_ptr<const trace_task>& task) noexcept {
    if (!recording() || !task) return;
    add_or_count(detail::or_out_of_memory<status>("a trace", [&]() -> status {
        const std::lock_guard<std::mutex> guard(lock_);
        for (unmeasured_task& u : unmeasured_)
            if (u.task == task) {
                ++u.calls;
                return {};
            }
        if (static_cast<std::int64_t>(unmeasured_.size()) < most_)
            unmeasured_.push_back({task, 1});
        else
            ++left_out_;
        return {};
    }));
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

GRAFT_INLINE std::vector<trace_span> trace_recorder::spans() const {
    const std::lock_guard<std::mutex> guard(lock_);
    return spans_;
}
GRAFT_INLINE std::vector<unmeasured_task> trace_recorder::unmeasured() const {
    const std::lock_guard<std::mutex> guard(lock_);
    return unmeasured_;
}

namespace detail {
// What is only known of some steps is left out of the others.
inline GRAFT_COLD void write_task(json_writer& w, const trace_task& t) {
    w.key("shapes").string(t.shapes).key("device").string(t.device).key("kernel").string(t.kernel).key("threads").integer(t.threads);
    w.key("read_bytes").integer(t.read_bytes);
    if (t.multiply_adds > 0) w.key("flop").number(2.0 * static_cast<double>(t.multiply_adds));
}
inline GRAFT_COLD void name_track(json_writer& w, int member, int thread, const char* what, const std::string& name) {
    w.begin_object().key("ph").string("M").key("name").string(what).key("pid").integer(member).key("tid").integer(thread);
    w.key("args").begin_object().key("name").string(name).end_object().end_object();
}
}  // namespace detail

GRAFT_INLINE std::string trace_recorder::events() const {
    const std::lock_guard<std::mutex> guard(lock_);
    json_writer w;
    w.begin_array();
    for (const trace_span& s : spans_) {
        const std::string &op = s.task ? s.task->op : s.op, &node = s.task ? s.task->node : s.node;
        const bool beside = s.thread == exchange && !s.task;
        w.begin_object().key("ph").string("X").key("name").string(!s.task ? s.name : node.empty() ? op : op + " " + node);
        w.key("cat").string(beside ? "exchange" : "compute").key("pid").integer(s.member).key("tid").integer(s.thread);
        w.key("ts").number((s.begin - zero_) * 1e6).key("dur").number((s.end - s.begin) * 1e6);
        w.key("args").begin_object().key("op").string(op).key("node").string(node).key("bytes").integer(s.bytes);
        if (s.task) detail::write_task(w, *s.task);
        w.end_object().end_object();
    }
    const std::string& text = w.end_array().text();
    return text.substr(1, text.size() - 2);
}

GRAFT_INLINE std::string trace_recorder::file() const {
    json_writer w;
    w.begin_object().key("displayTimeUnit").string("ms").key("traceEvents").begin_array();
    std::vector<std::pair<int, int>> named;
    for (const trace_span& s : spans()) {
        const std::pair<int, int> track(s.member, s.thread);
        if (!s.task || std::find(named.begin(), named.end(), track) != named.end()) continue;
        if (std::none_of(named.begin(), named.end(), [&](const auto& other) { return other.first == s.member; }))
            detail::name_track(w, s.member, compute, "process_name", "session " + std::to_string(s.member));
        detail::name_track(w, s.member, s.thread, "thread_name", s.task->device);
        named.push_back(track);
    }
    std::string text = w.text();
    const std::string all = events();
    if (!all.empty()) text += (named.empty() ? "" : ",") + all;
    return text + "]}\n";
}

GRAFT_INLINE std::string trace_file(int members, const std::string& events) {
    json_writer w;
    w.begin_object().key("displayTimeUnit").string("ms").key("traceEvents").begin_array();
    for (int m = 0; m < members; ++m) {
        detail::name_track(w, m, trace_recorder::compute, "process_name", "rank " + std::to_string(m));
        detail::name_track(w, m, trace_recorder::compute, "thread_name", "compute");
        detail::name_track(w, m, trace_recorder::exchange, "thread_name", "exchange");
    }
    std::string text = w.text();
    if (!events.empty()) text += (members > 0 ? "," : "") + events;
    return text + "]}\n";
}

GRAFT_END_NAMESPACE
#endif
