// What the members of a run of training agree on: the same settings, the same steps, the same end.
#pragma once

#include "../core/communicator.hpp"
#include "checkpoint.hpp"
#include "step.hpp"

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

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
    };
    status exchange(news& own) {
        if (!group_) return {};
        std::vector<news> all(static_cast<std::size_t>(group_->size()));
        GRAFT_TRY(group_->all_gather(&own, sizeof own, all.data()));
        own.correct = own.stop = 0;
        for (std::size_t r = 0; r < all.size(); ++r) {
            if (all[r].step != all[0].step)
                return fail(errc::dist_mismatch, "step",
                            "member " + std::to_string(r) + " is at step " + std::to_string(all[r].step) + ", and member 0 at " + std::to_string(all[0].step));
            own.correct += all[r].correct;
            own.stop |= all[r].stop;
        }
        own.save = all[0].save;
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

    // `count` numbers of each member, in their order, each with room for `most`.
    template <class T>
    status gather(const T* own, std::int64_t count, std::int64_t most, std::vector<T>& all) {
        std::vector<T> mine(static_cast<std::size_t>(most));
        if (count) std::memcpy(mine.data(), own, static_cast<std::size_t>(count) * sizeof(T));
        all.resize(mine.size() * static_cast<std::size_t>(size()));
        return group_->all_gather(mine.data(), mine.size() * sizeof(T), all.data());
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
