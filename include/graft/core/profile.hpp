// Where the time of recorded runs went: a trace summed up by operator and by node.
#pragma once

#include "trace.hpp"

#include <cstdint>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// All runs of an operator, or of one of its nodes.
struct profile_row {
    std::string op;
    std::string node, device, kernel, shapes;  ///< of nodes only
    int threads = 1;                           ///< that it could use at most
    std::int64_t calls = 0;
    double seconds = 0;              ///< of all calls, without the steps that ran inside of them (the bodies of loops)
    std::int64_t multiply_adds = 0;  ///< of all calls, two FLOP each; 0: it has no convolution and no matrix product
    std::int64_t bytes = 0;          ///< of the inputs and outputs of all calls, each once
};

/// What a trace says of the runs in it.
struct run_profile {
    std::int64_t runs = 0;
    double seconds = 0;                     ///< of all runs, of every session
    double outside_seconds = 0;             ///< of these, in which none of its steps ran: dispatch, copies of outputs, and steps that are not measured
    std::vector<profile_row> operators;     ///< longest first
    std::vector<profile_row> nodes;         ///< longest first
    std::vector<profile_row> not_measured;  ///< by operator and device, of places that do not say how long steps take: `seconds` says nothing
    std::int64_t left_out = 0;              ///< spans that the trace had no room for: if there are any, nothing here is whole
};

/// Sums up what was recorded of inference: whole runs, and the steps in them. `fastest`, in (0, 1]: only that share of the runs, and one at least; what a
/// busy machine holds up is in the others. Steps of runs that failed are left out, and what is not measured is counted of all runs. Errors: memory.oom.
result<run_profile> profile_of(const trace_recorder& trace, double fastest = 1);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

GRAFT_BEGIN_NAMESPACE
namespace detail {

using span_list = std::vector<const trace_span*>;  // into one array

// By session and thread, and there by begin; what ran inside of another stands behind it, also where a coarse clock gives both the same times: what is
// around ends, and is taken down, later.
inline GRAFT_COLD void sort_by_track(span_list& spans) {
    std::sort(spans.begin(), spans.end(), [](const trace_span* a, const trace_span* b) {
        const auto track = [](const trace_span* s) { return std::make_tuple(s->member, s->thread, s->begin, -s->end); };
        return track(a) != track(b) ? track(a) < track(b) : a > b;
    });
}
// The fastest of some runs, by session and begin.
inline GRAFT_COLD span_list fastest_of(span_list runs, double share) {
    const auto most = static_cast<std::size_t>(std::ceil(std::max(0.0, std::min(1.0, share)) * static_cast<double>(runs.size())));
    std::sort(runs.begin(), runs.end(), [](const trace_span* a, const trace_span* b) { return a->end - a->begin < b->end - b->begin; });
    if (!runs.empty()) runs.resize(std::max<std::size_t>(1, most));
    sort_by_track(runs);
    return runs;
}
// The steps that ran inside of them.
inline GRAFT_COLD span_list steps_of(const span_list& runs, const span_list& steps) {
    span_list inside;
    for (const trace_span* s : steps) {
        const auto begins_later = [](const trace_span* a, const trace_span* b) {
            return std::make_pair(a->member, a->begin) < std::make_pair(b->member, b->begin);
        };
        const auto behind = std::upper_bound(runs.begin(), runs.end(), s, begins_later);
        if (behind == runs.begin()) continue;
        const trace_span& run = **(behind - 1);
        if (run.member == s->member && s->end <= run.end) inside.push_back(s);
    }
    return inside;
}
// Seconds of each span less those of the spans right inside of it.
inline GRAFT_COLD std::vector<double> own_seconds(const span_list& sorted) {
    std::vector<double> own(sorted.size());
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
        const trace_span& s = *sorted[i];
        const auto around = [&](const trace_span& o) { return o.member == s.member && o.thread == s.thread && o.end >= s.end; };
        while (!open.empty() && !around(*sorted[open.back()])) open.pop_back();
        own[i] = s.end - s.begin;
        if (!open.empty()) own[open.back()] -= own[i];
        open.push_back(i);
    }
    return own;
}
// Seconds in which at least one of a session's steps ran, of all sessions.
inline GRAFT_COLD double covered_seconds(span_list steps) {
    std::sort(steps.begin(), steps.end(),
              [](const trace_span* a, const trace_span* b) { return std::make_pair(a->member, a->begin) < std::make_pair(b->member, b->begin); });
    double total = 0, until = 0;
    int member = -1;
    for (const trace_span* s : steps) {
        if (s->member != member) member = s->member, until = s->begin;
        if (s->end > until) total += s->end - std::max(until, s->begin), until = s->end;
    }
    return total;
}
inline GRAFT_COLD void add_call(profile_row& to, const trace_task& t, double seconds, std::int64_t calls) {
    to.op = t.op;
    to.threads = std::max(to.threads, t.threads);
    to.calls += calls;
    to.seconds += seconds;
    to.multiply_adds += t.multiply_adds * calls;
    to.bytes += (t.read_bytes + t.made_bytes) * calls;
}
template <class Map>
std::vector<profile_row> rows_longest_first(Map& from) {
    std::vector<profile_row> rows;
    for (auto& each : from) rows.push_back(std::move(each.second));
    std::stable_sort(rows.begin(), rows.end(), [](const profile_row& a, const profile_row& b) { return a.seconds > b.seconds; });
    return rows;
}

}  // namespace detail

GRAFT_INLINE GRAFT_COLD result<run_profile> profile_of(const trace_recorder& trace, double fastest) GRAFT_MEMORY_TRY {
    run_profile made;
    made.left_out = trace.left_out();
    const std::vector<trace_span> spans = trace.spans();
    detail::span_list runs, all;
    for (const trace_span& s : spans)
        if (s.task) (s.task->op == trace_recorder::whole_run ? runs : all).push_back(&s);
    runs = detail::fastest_of(std::move(runs), fastest);
    all = detail::steps_of(runs, all);
    made.runs = static_cast<std::int64_t>(runs.size());
    for (const trace_span* run : runs) made.seconds += run->end - run->begin;
    made.outside_seconds = std::max(0.0, made.seconds - detail::covered_seconds(all));
    detail::sort_by_track(all);
    const std::vector<double> own = detail::own_seconds(all);
    std::map<std::string, profile_row> operators;
    std::map<std::tuple<std::string, std::string, std::string, std::string>, profile_row> nodes;
    std::map<std::pair<std::string, std::string>, profile_row> not_measured;
    for (std::size_t i = 0; i < all.size(); ++i) {
        const trace_task& t = *all[i]->task;
        detail::add_call(operators[t.op], t, own[i], 1);
        profile_row& node = nodes[std::make_tuple(t.op, t.node, t.device, t.shapes)];
        detail::add_call(node, t, own[i], 1);
        node.node = t.node, node.device = t.device, node.kernel = t.kernel, node.shapes = t.shapes;
    }
    for (const unmeasured_task& u : trace.unmeasured()) {
        profile_row& row = not_measured[std::make_pair(u.task->op, u.task->device)];
        detail::add_call(row, *u.task, 0, u.calls);
        row.device = u.task->device;
    }
    made.operators = detail::rows_longest_first(operators);
    made.nodes = detail::rows_longest_first(nodes);
    made.not_measured = detail::rows_longest_first(not_measured);
    return made;
}
GRAFT_MEMORY_CATCH("a profile")

GRAFT_END_NAMESPACE
#endif
