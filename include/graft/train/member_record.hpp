// What the members of a run did, processes or replicas: their pace, how long they waited for each other, and who holds up the others.
#pragma once

#include "../core/error.hpp"

#include <cstdint>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// What one member of a run did in the training part of an epoch, or of several.
struct member_record {
    int rank = 0;
    std::string host;          ///< where the process ran; empty for a replica
    std::int64_t samples = 0;  ///< that it computed
    double seconds = 0;        ///< of the epoch's training, the same for all members but for the moments between their clocks
    double waited = 0;         ///< of these, the seconds that it waited for other members or for what they sent
    std::string device = "";   ///< that computed its steps: "cpu", "cuda:0"
    std::int64_t bytes = 0;    ///< of memory that a step takes there as planned, the host's and the device's; 0: not known

    double busy_seconds() const noexcept { return seconds > waited ? seconds - waited : 0; }  ///< its own work, reading pictures included
    double waiting_share() const noexcept { return seconds > 0 ? (waited < seconds ? waited / seconds : 1) : 0; }
    double images_per_s() const noexcept { return busy_seconds() > 0 ? static_cast<double>(samples) / busy_seconds() : 0; }  ///< while it worked
};

/// What one stage of a pipeline did in the training part of an epoch, or of several.
struct stage_record {
    std::string device;
    double seconds = 0;      ///< of the epoch's training
    double busy = 0;         ///< of these, the seconds that it computed; below 0 where its device does not measure it
    std::int64_t bytes = 0;  ///< of its memory that a step takes as planned, weights and what is kept of them included

    double waiting_share() const noexcept { return busy < 0 || seconds <= 0 ? -1 : busy < seconds ? 1 - busy / seconds : 0; }  ///< below 0: not measured
};
/// Adds what stages did in another epoch, stage by stage.
void add_stages(std::vector<stage_record>& to, const std::vector<stage_record>& more);

/// What so many members reach: measured, or predicted from what was.
struct scaling_row {
    int members = 1;
    bool measured = false;
    double least_images_per_s = 0, most_images_per_s = 0;  ///< equal where measured
    double least_efficiency = 0, most_efficiency = 0;      ///< the share of so many times what one reaches alone
};
/// 1, 2, 4 and so on members, up to four times as many as there were, and those that there were. The others are predicted by the model of bench/scaling, each
/// member having as many samples a step as now: a step takes the work of one, and the exchange, which is all that members waited. Of the two ends of that
/// model, an exchange that is all bytes, (p - 1) / p, and one that is all messages, p - 1, a row has the better and the worse. Empty where there were
/// fewer than two members, or nothing was measured.
std::vector<scaling_row> scaling_table(const std::vector<member_record>& members);

/// "rank 3 (host b)", "replica 2".
std::string member_name(const member_record& member);

/// The share of all members' time in which they waited for each other, 0..1; 0 without members.
double waiting_share(const std::vector<member_record>& members);

/// The samples a second that members would compute if nobody ever waited: the sum of their paces.
double unhindered_images_per_s(const std::vector<member_record>& members);
/// The samples a second that they did compute together.
double reached_images_per_s(const std::vector<member_record>& members);
/// The second as a share of the first: 1 where nobody waited; 0 without members.
double scaling_efficiency(const std::vector<member_record>& members);

/// Adds what was done in another epoch, member by member.
void add_members(std::vector<member_record>& to, const std::vector<member_record>& more);

/// The member that holds up the others: whose own work takes more than 1.3 times the median of the others' and a second more than that.
struct straggler {
    int rank = -1;       ///< -1: nobody
    double times = 0;    ///< as long as the others
    double others = 0;   ///< the median of the others' own work, in seconds
    bool share = false;  ///< whether it has so many samples more than the others that it works no slower than they
};
straggler find_straggler(const std::vector<member_record>& members);
/// A sentence about it: who, by how much, and what to look at; empty where there is none.
std::string straggler_text(const std::vector<member_record>& members);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/number_text.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE std::string member_name(const member_record& m) {
    return m.host.empty() ? "replica " + std::to_string(m.rank) : "rank " + std::to_string(m.rank) + " (host " + m.host + ")";
}

GRAFT_INLINE double waiting_share(const std::vector<member_record>& members) {
    double waited = 0, all = 0;
    for (const member_record& m : members) waited += m.waiting_share() * m.seconds, all += m.seconds;
    return all > 0 ? waited / all : 0;
}

GRAFT_INLINE double unhindered_images_per_s(const std::vector<member_record>& members) {
    double sum = 0;
    for (const member_record& m : members) sum += m.images_per_s();
    return sum;
}

GRAFT_INLINE double reached_images_per_s(const std::vector<member_record>& members) {
    double samples = 0, seconds = 0;
    for (const member_record& m : members) samples += static_cast<double>(m.samples), seconds = std::max(seconds, m.seconds);
    return seconds > 0 ? samples / seconds : 0;
}

GRAFT_INLINE double scaling_efficiency(const std::vector<member_record>& members) {
    const double most = unhindered_images_per_s(members);
    return most > 0 ? reached_images_per_s(members) / most : 0;
}

GRAFT_INLINE void add_members(std::vector<member_record>& to, const std::vector<member_record>& more) {
    if (to.size() != more.size()) {
        to = more;
        return;
    }
    for (std::size_t i = 0; i < to.size(); ++i)
        to[i].samples += more[i].samples, to[i].seconds += more[i].seconds, to[i].waited += more[i].waited, to[i].bytes = more[i].bytes;
}

GRAFT_INLINE void add_stages(std::vector<stage_record>& to, const std::vector<stage_record>& more) {
    if (to.size() != more.size()) {
        to = more;
        return;
    }
    for (std::size_t s = 0; s < to.size(); ++s) {
        to[s].seconds += more[s].seconds, to[s].bytes = more[s].bytes;
        to[s].busy = to[s].busy < 0 || more[s].busy < 0 ? -1 : to[s].busy + more[s].busy;
    }
}

GRAFT_INLINE std::vector<scaling_row> scaling_table(const std::vector<member_record>& members) {
    const int there = static_cast<int>(members.size());
    const double reached = reached_images_per_s(members), efficiency = scaling_efficiency(members);
    if (there < 2 || !(reached > 0) || !(efficiency > 0)) return {};
    std::vector<int> counts{there};
    for (int p = 1; p <= 4 * there; p *= 2)
        if (p != there) counts.push_back(p);
    std::sort(counts.begin(), counts.end());
    const double one = reached / (efficiency * there);
    std::vector<scaling_row> rows;
    for (const int p : counts) {
        scaling_row row;
        row.members = p;
        row.measured = p == there;
        // Waiting beside the work of a step, as it was, by what it grows with.
        const double messages = static_cast<double>(p - 1) / (there - 1), bytes = messages * there / p;
        const auto with = [&](double growth) { return efficiency / (efficiency + std::max(0.0, 1 - efficiency) * growth); };
        row.least_efficiency = row.measured ? efficiency : std::min(with(messages), with(bytes));
        row.most_efficiency = row.measured ? efficiency : std::max(with(messages), with(bytes));
        row.least_images_per_s = one * p * row.least_efficiency;
        row.most_images_per_s = one * p * row.most_efficiency;
        rows.push_back(row);
    }
    return rows;
}

GRAFT_INLINE straggler find_straggler(const std::vector<member_record>& members) {
    constexpr double longer = 1.3, least_seconds = 1;
    straggler found;
    if (members.size() < 2) return found;
    const auto slowest = std::max_element(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.busy_seconds() < b.busy_seconds(); });
    std::vector<double> seconds, samples;
    for (auto m = members.begin(); m != members.end(); ++m)
        if (m != slowest) seconds.push_back(m->busy_seconds()), samples.push_back(static_cast<double>(m->samples));
    const auto median = [](std::vector<double>& of) {
        std::sort(of.begin(), of.end());
        return (of[(of.size() - 1) / 2] + of[of.size() / 2]) / 2;
    };
    const double own = slowest->busy_seconds(), others = median(seconds), theirs = median(samples);
    if (!(own > longer * others && own - others > least_seconds)) return found;
    found.rank = slowest->rank, found.times = others > 0 ? own / others : 0, found.others = others;
    found.share = static_cast<double>(slowest->samples) * longer * others > own * theirs;
    return found;
}

GRAFT_INLINE std::string straggler_text(const std::vector<member_record>& members) {
    const straggler s = find_straggler(members);
    if (s.rank < 0) return "";
    const auto m = std::find_if(members.begin(), members.end(), [&](const member_record& each) { return each.rank == s.rank; });
    std::int64_t samples = 0;
    for (const member_record& each : members) samples += each.samples;
    const auto seconds = [](double v) { return detail::number_text("%.1f s", v); };
    return member_name(*m) + " takes " + (s.times > 0 && s.times < 100 ? detail::number_text("%.1f", s.times) : std::string("over a hundred")) +
           " times as long as the others: " + seconds(m->busy_seconds()) + " of its own work, they " + seconds(s.others) + ", and wait for it" +
           (s.share ? ". It has " + std::to_string(m->samples) + " of " + std::to_string(samples) +
                          " samples: batches are shared evenly by 2, 4, 8 and so on members"
            : m->host.empty() ? ". Is its device slower than the others', or busy with something else?"
                              : ". Is something else running there, has it fewer or slower cores, or does it read pictures over a slow link?");
}

GRAFT_END_NAMESPACE
#endif
