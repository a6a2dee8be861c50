// Segments: the steps of a plan cut where its place changes, whom each waits for, and what may therefore run at the same time.
#pragma once

#include "plan.hpp"

#include <algorithm>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Cuts the steps of a plan into segments. Places run beside each other, each its own segments in their order, so "before" and "behind" hold between
// two segments only where one waits for the other, over however many others.
class segment_order {
public:
    // `memory`: of each value the one whose memory it lies in. `in_order`: a segment also ends behind what leaves its place, so that who waits for it need not
    // wait for what comes next there.
    segment_order(plan& p, const std::vector<value_id>& memory, bool in_order) : p_(p), memory_(memory) {
        cut(in_order);
        join();
        follow();
    }

    // The first step of place `own` that surely runs behind step `i` of another, or the number of steps: what `i` reads there stays until then.
    int behind(place_id own, int i) const {
        const int from = segment_of_[static_cast<std::size_t>(i)];
        for (std::size_t k = static_cast<std::size_t>(from) + 1; k < p_.segments.size(); ++k)
            if (p_.segments[k].place == own && ended_[k][p_.segments[static_cast<std::size_t>(from)].place] >= from) return p_.segments[k].first;
        return static_cast<int>(p_.steps.size());
    }
    // The first step of place `own` that may run at the same time as step `i` of another, or `i`: what `i` writes there is its own from then on.
    int beside(place_id own, int i) const {
        const int to = segment_of_[static_cast<std::size_t>(i)];
        for (std::size_t k = static_cast<std::size_t>(ended_[static_cast<std::size_t>(to)][own] + 1); k < p_.segments.size(); ++k)
            if (p_.segments[k].place == own) return std::min(i, p_.segments[k].first);
        return i;
    }

private:
    void cut(bool in_order) {
        bool left = false;
        for (std::size_t i = 0; i < p_.steps.size(); ++i) {
            const node& n = p_.lowered.nodes[static_cast<std::size_t>(p_.steps[i].node)];
            const bool leaves = in_order && p_.steps[i].place && n.outputs[0] != no_value && p_.lowered.at(n.outputs[0]).place != p_.steps[i].place;
            const bool ended = left && !leaves;
            left = leaves;
            if (p_.segments.empty() || ended || p_.segments.back().place != p_.steps[i].place)
                p_.segments.push_back({p_.steps[i].place, static_cast<int>(i), 0, {}});
            p_.segments.back().last = static_cast<int>(i) + 1;
            segment_of_.push_back(static_cast<int>(p_.segments.size()) - 1);
        }
    }
    // A segment waits for those whose values it reads, and where it changes state for those that read it as it was.
    GRAFT_COLD void join() {
        const graph& g = p_.lowered;
        std::vector<int> made(g.values.size(), -1);  // by value: the segment that makes it
        std::vector<std::vector<int>> readers(g.values.size());
        std::vector<value_id> state_before(g.values.size(), no_value);
        for (const state_pair& s : g.states)
            if (s.output >= 0) state_before[g.outputs[s.output]] = g.inputs[s.input];
        for (std::size_t i = 0; i < p_.steps.size(); ++i) {
            const node& n = g.nodes[static_cast<std::size_t>(p_.steps[i].node)];
            const int k = segment_of_[i];
            for (value_id id : n.inputs) {
                if (id == no_value) continue;
                const std::size_t lies = static_cast<std::size_t>(memory_[id]);
                wait(k, made[lies]);
                if (readers[lies].empty() || readers[lies].back() != k) readers[lies].push_back(k);
            }
            for (value_id id : n.outputs) {
                if (id == no_value) continue;
                made[id] = k;
                if (state_before[id] == no_value) continue;
                for (int reader : readers[static_cast<std::size_t>(memory_[state_before[id]])]) wait(k, reader);
            }
        }
    }
    // Of each place the last segment is enough: the ones before it have ended with it.
    void wait(int k, int other) {
        if (other < 0 || p_.segments[static_cast<std::size_t>(other)].place == p_.segments[static_cast<std::size_t>(k)].place) return;
        std::vector<int>& after = p_.segments[static_cast<std::size_t>(k)].after;
        for (int& known : after)
            if (p_.segments[static_cast<std::size_t>(known)].place == p_.segments[static_cast<std::size_t>(other)].place) {
                known = std::max(known, other);
                return;
            }
        after.push_back(other);
    }
    // Vector clocks (Mattern, "Virtual Time and Global States of Distributed Systems", 1989).
    void follow() {
        const std::size_t places = p_.places.size();
        std::vector<int> latest(places, -1);
        for (std::size_t k = 0; k < p_.segments.size(); ++k) {
            const plan_segment& s = p_.segments[k];
            ended_.emplace_back(places, -1);
            const auto learn = [&](int other) {
                if (other < 0) return;
                const std::vector<int>& theirs = ended_[static_cast<std::size_t>(other)];
                for (std::size_t i = 0; i < places; ++i) ended_[k][i] = std::max(ended_[k][i], theirs[i]);
                int& own = ended_[k][p_.segments[static_cast<std::size_t>(other)].place];
                own = std::max(own, other);
            };
            learn(latest[s.place]);
            for (int other : s.after) learn(other);
            latest[s.place] = static_cast<int>(k);
        }
    }

    plan& p_;
    const std::vector<value_id>& memory_;
    std::vector<int> segment_of_;          // by step
    std::vector<std::vector<int>> ended_;  // by segment and place: the last one there that has ended when it starts; -1: none
};

}  // namespace detail
GRAFT_END_NAMESPACE
