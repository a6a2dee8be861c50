// What the members of a run of training agree on: the same settings, the same steps, the same end.
#pragma once

#include "../core/communicator.hpp"
#include "checkpoint.hpp"
#include "member_record.hpp"
#include "step.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#ifndef _WIN32
#include <unistd.h>
#endif

GRAFT_BEGIN_NAMESPACE
namespace detail {

// As the system calls the machine; "unknown" where it has no name.
inline std::string host_name() {
    char name[64] = "";
#ifdef _WIN32
    if (const char* told = std::getenv("COMPUTERNAME")) std::snprintf(name, sizeof name, "%s", told);
#else
    if (gethostname(name, sizeof name - 1) != 0) name[0] = 0;
#endif
    return name[0] ? name : "unknown";
}

// The members of a run, one process each; without a group there is one, and nothing is said. The first, rank 0, writes the files.
class run_members {
public:
    explicit run_members(std::shared_ptr<communicator> group) : group_(std::move(group)) {}

    bool several() const { return group_ != nullptr; }
    bool leads() const { return rank() == 0; }
    int rank() const { return group_ ? group_->rank() : 0; }
    int size() const { return group_ ? group_->size() : 1; }
    // This member's part of a batch of n samples.
    std::int64_t begin(std::int64_t n, int shards) const { return group_ ? member_shards::of(group_->rank(), group_->size(), shards).begin(n, shards) : 0; }
    std::int64_t end(std::int64_t n, int shards) const { return group_ ? member_shards::of(group_->rank(), group_->size(), shards).end(n, shards) : n; }

    // Behind a step: what this member saw, and then what all did.
    struct news {
        std::int64_t step = 0;     // steps so far; the same for all
        std::int64_t correct = 0;  // of the samples; then of all members'
        std::int64_t stop = 0;     // wanted by one of them
        std::int64_t save = 0;     // wanted by the first
        double waiting_share = 0;  // of the epoch so far; then the mean of all members'
    };
    status exchange(news& own) {
        if (!group_) return {};
        std::vector<news> all(static_cast<std::size_t>(group_->size()));
        GRAFT_TRY(group_->all_gather(&own, sizeof own, all.data()));
        own.correct = own.stop = 0;
        own.waiting_share = 0;
        for (std::size_t r = 0; r < all.size(); ++r) {
            if (all[r].step != all[0].step)
                return fail(errc::dist_mismatch, "step",
                            "member " + std::to_string(r) + " is at step " + std::to_string(all[r].step) + ", and member 0 at " + std::to_string(all[0].step));
            own.correct += all[r].correct;
            own.stop |= all[r].stop;
            own.waiting_share += all[r].waiting_share / static_cast<double>(all.size());
        }
        own.save = all[0].save;
        return {};
    }
    // Seconds that this member has waited for others so far.
    double waited() const { return group_ ? group_->all_waited_seconds() : 0; }
    // This member's record becomes those of all, by rank; where there is one member, what is there stays.
    status gather(std::vector<member_record>& own) {
        if (!group_ || own.empty()) return {};
        struct packed {
            std::int64_t samples = 0;
            std::int64_t bytes = 0;
            double seconds = 0, waited = 0;
            char host[64] = {}, device[32] = {};
        };
        packed mine;
        mine.samples = own[0].samples, mine.seconds = own[0].seconds, mine.waited = own[0].waited, mine.bytes = own[0].bytes;
        std::snprintf(mine.host, sizeof mine.host, "%s", own[0].host.c_str());
        std::snprintf(mine.device, sizeof mine.device, "%s", own[0].device.c_str());
        std::vector<packed> all(static_cast<std::size_t>(group_->size()));
        GRAFT_TRY(group_->all_gather(&mine, sizeof mine, all.data()));
        own.clear();
        for (const packed& p : all) own.push_back({static_cast<int>(own.size()), p.host, p.samples, p.seconds, p.waited, p.device, p.bytes});
        return {};
    }
    // The largest of what the members give.
    status largest(std::int64_t& v) {
        if (!group_) return {};
        std::vector<std::int64_t> all;
        GRAFT_TRY(gather(&v, 1, 1, all));
        v = *std::max_element(all.begin(), all.end());
        return {};
    }

    // Returns when all are here.
    status barrier() { return group_ ? group_->barrier() : status(); }

    // Whether all members were told the same as the first. Errors: dist.mismatch, which names the setting and who differs.
    status agree(const named_texts& settings) {
        if (!group_) return {};
        named_texts first = settings;
        GRAFT_TRY(share(first));
        struct finding {
            char setting[64] = {}, own[96] = {};
        };
        finding mine;
        for (std::size_t i = 0; i < settings.size() && !mine.setting[0]; ++i)
            if (i >= first.size() || settings[i] != first[i]) {
                std::snprintf(mine.setting, sizeof mine.setting, "%s", settings[i].first.c_str());
                std::snprintf(mine.own, sizeof mine.own, "%s", settings[i].second.c_str());
            }
        std::vector<finding> all(static_cast<std::size_t>(group_->size()));
        GRAFT_TRY(group_->all_gather(&mine, sizeof mine, all.data()));
        std::string who;
        const finding* differs = nullptr;
        for (std::size_t r = 0; r < all.size(); ++r)
            if (all[r].setting[0]) {
                who += (who.empty() ? "" : ", ") + std::to_string(r);
                if (!differs) differs = &all[r];
            }
        if (!differs) return {};
        std::string of_first;
        for (const auto& s : first)
            if (s.first == differs->setting) of_first = s.second;
        return fail(errc::dist_mismatch, differs->setting,
                    "member " + who + " has \"" + differs->own + "\", and member 0 has \"" + of_first.substr(0, 95) + "\"" +
                        (std::string(differs->setting) == "isa" ? ": GRAFT_ISA names one that all machines have" : ""));
    }

    // What this process does in an epoch from now on, as one of several members or by its replicas.
    class epoch_work {
    public:
        // `device` and `bytes` are those of this process's steps.
        epoch_work(const run_members& among, const training_step& step, std::string device, std::int64_t bytes)
            : among_(among), step_(step), replicas_(step.replicas()), stages_(step.stages()), waited_(among.waited()),
              host_(among.several() ? host_name() : ""), device_(std::move(device)), bytes_(bytes) {}
        void count(std::int64_t samples) { samples_ += samples; }
        // One record for each replica, or one of this process among several; none where it trains alone.
        std::vector<member_record> records(double seconds) const {
            std::vector<member_record> found;
            if (among_.several()) {
                if (among_.size() > 1) found.push_back({among_.rank(), host_, samples_, seconds, among_.waited() - waited_, device_, bytes_});
                return found;
            }
            const std::vector<replica_work> now = step_.replicas();
            for (std::size_t r = 0; r < now.size() && now.size() > 1; ++r) {
                const replica_work before = r < replicas_.size() ? replicas_[r] : replica_work();
                found.push_back({static_cast<int>(r), "", now[r].samples - before.samples, seconds, now[r].waited_seconds - before.waited_seconds,
                                 now[r].device, now[r].bytes});
            }
            return found;
        }
        // One for each stage of a pipeline.
        std::vector<stage_record> stages(double seconds) const {
            std::vector<stage_record> found;
            const std::vector<stage_work> now = step_.stages();
            for (std::size_t s = 0; s < now.size(); ++s) {
                const double before = s < stages_.size() ? stages_[s].busy_seconds : 0;
                found.push_back({now[s].device, seconds, now[s].busy_seconds < 0 ? -1 : now[s].busy_seconds - before, now[s].bytes});
            }
            return found;
        }

    private:
        const run_members& among_;
        const training_step& step_;
        const std::vector<replica_work> replicas_;
        const std::vector<stage_work> stages_;
        const double waited_;
        const std::string host_, device_;
        const std::int64_t bytes_;
        std::int64_t samples_ = 0;
    };

    // `count` numbers of each member, in their order, each with room for `most`.
    template <class T>
    status gather(const T* own, std::int64_t count, std::int64_t most, std::vector<T>& all) {
        std::vector<T> mine(static_cast<std::size_t>(most));
        if (count) std::memcpy(mine.data(), own, static_cast<std::size_t>(count) * sizeof(T));
        all.resize(mine.size() * static_cast<std::size_t>(size()));
        return group_->all_gather(mine.data(), mine.size() * sizeof(T), all.data());
    }
    // What every member has, however many: behind each other in the order of the ranks, and how many each gave.
    template <class T>
    status gather_all(const T* own, std::int64_t count, std::vector<T>& all, std::vector<std::int64_t>& counts) {
        GRAFT_TRY(gather(&count, 1, 1, counts));
        const std::int64_t most = *std::max_element(counts.begin(), counts.end());
        all.clear();
        if (!most) return {};
        std::vector<T> padded;
        GRAFT_TRY(gather(own, count, most, padded));
        for (std::size_t m = 0; m < counts.size(); ++m) {
            const auto from = padded.begin() + static_cast<std::ptrdiff_t>(m) * most;
            all.insert(all.end(), from, from + counts[m]);
        }
        return {};
    }
    // One member's, the first's, for all.
    status share(named_texts& texts, int from = 0) {
        if (!group_) return {};
        std::string packed;
        for (const auto& t : texts)
            for (const std::string* s : {&t.first, &t.second}) packed += std::to_string(s->size()) + ":" + *s;
        std::int64_t size = static_cast<std::int64_t>(packed.size());
        GRAFT_TRY(group_->broadcast(&size, sizeof size, from));
        packed.resize(static_cast<std::size_t>(size));
        GRAFT_TRY(group_->broadcast(&packed[0], packed.size(), from));
        std::vector<std::string> words;
        for (std::size_t at = 0; at < packed.size();) {
            const std::size_t colon = packed.find(':', at), length = std::strtoull(packed.c_str() + at, nullptr, 10);
            words.push_back(packed.substr(colon + 1, length));
            at = colon + 1 + length;
        }
        texts.clear();
        for (std::size_t i = 0; i + 1 < words.size(); i += 2) texts.emplace_back(std::move(words[i]), std::move(words[i + 1]));
        return {};
    }
    status share(std::vector<training_state>& state) {
        for (training_state& s : state)
            if (group_ && s.value.bytes()) GRAFT_TRY(group_->broadcast(s.value.raw(), s.value.bytes(), 0));
        return {};
    }
    status share(bool& v) {
        char c = v ? 1 : 0;
        if (group_) GRAFT_TRY(group_->broadcast(&c, 1, 0));
        v = c != 0;
        return {};
    }

    // This member ends for a reason of its own.
    void leave(const error& why) noexcept {
        if (group_) group_->leave(why);
    }

private:
    std::shared_ptr<communicator> group_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
