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

    double busy_seconds() const noexcept { return seconds > waited ? seconds - waited : 0; }  ///< its own work, reading pictures included
    double waiting_share() const noexcept { return seconds > 0 ? (waited < seconds ? waited / seconds : 1) : 0; }
    double images_per_s() const noexcept { return busy_seconds() > 0 ? static_cast<double>(samples) / busy_seconds() : 0; }  ///< while it worked
};

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
    for (std::size_t i = 0; i < to.size(); ++i) to[i].samples += more[i].samples, to[i].seconds += more[i].seconds, to[i].waited += more[i].waited;
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
