// What members say that they call, so that those who call different things hear of it.
#pragma once

#include "error.hpp"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// What a member says that it calls, at the head of the first message of a call.
struct member_call {
    enum kinds : std::uint32_t { gather = 1, cast, reduce, reduce_one, scatter, meet, end };
    std::uint32_t protocol = 0x67310002, kind = meet;
    std::uint64_t sequence = 0, size = 0, lengths = 0;  // bytes or elements; a hash of the arrays' lengths
    std::int32_t from = 0, arrays = 0;
    char unused[24] = {};

    static std::uint64_t hash_of(const std::int64_t* counts, int arrays) {
        std::uint64_t hash = 14695981039346656037u;
        for (int i = 0; i < arrays; ++i) hash = (hash ^ std::uint64_t(counts[i])) * 1099511628211u;
        return hash;
    }
    std::string text() const {
        static constexpr const char* names[] = {"nothing", "all_gather", "broadcast", "all_reduce", "reduce", "reduce_scatter", "barrier", "the end"};
        std::string said = names[kind <= end ? kind : 0];
        if (kind >= gather && kind <= scatter) said += " of " + std::to_string(size) + (kind <= cast ? " bytes" : " elements");
        if (kind == cast || kind == reduce_one) said += (kind == cast ? " from member " : " to member ") + std::to_string(from);
        if ((kind != reduce && kind != reduce_one) || arrays == 1) return said;
        char hash[24];
        std::snprintf(hash, sizeof hash, "%08x", static_cast<unsigned>(lengths ^ lengths >> 32));
        return said + " in " + std::to_string(arrays) + " arrays (lengths " + hash + ")";
    }
};
static_assert(sizeof(member_call) == 64, "without gaps: calls are compared as bytes");

inline bool alike(const member_call& a, const member_call& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// "member 3", "members 0, 2".
inline std::string member_list(const std::vector<int>& ranks) {
    std::string text = ranks.size() == 1 ? "member " : "members ";
    for (std::size_t i = 0; i < ranks.size() && i < 16; ++i) text += (i ? ", " : "") + std::to_string(ranks[i]);
    return ranks.size() > 16 ? text + " ..." : text;
}

// The error of members that make different calls; `calls` is what each said, `own` what this one did.
inline GRAFT_COLD status calls_differ(const std::vector<member_call>& calls, const member_call& own, const std::string& where) {
    const int size = static_cast<int>(calls.size());
    std::string said;
    std::vector<char> named(calls.size(), 0);
    for (int kinds = 0, q = 0; q < size && kinds < 4; ++q) {
        if (named[std::size_t(q)]) continue;
        std::vector<int> same;
        for (int other = q; other < size; ++other)
            if (alike(calls[std::size_t(other)], calls[std::size_t(q)])) same.push_back(other), named[std::size_t(other)] = 1;
        said += (kinds++ ? "; " : "") + member_list(same) + (same.size() == 1 ? " calls " : " call ") + calls[std::size_t(q)].text();
        if (calls[std::size_t(q)].protocol != own.protocol) said += " of another version of graft";
        if (calls[std::size_t(q)].sequence != own.sequence) said += " as call " + std::to_string(calls[std::size_t(q)].sequence);
    }
    return fail(errc::dist_mismatch, where, "in call " + std::to_string(own.sequence) + ": " + said);
}

}  // namespace detail
GRAFT_END_NAMESPACE
