// Which known name a misspelt one may mean.
#pragma once

#include "../config.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// Of these names the one that `given` is nearest to: one letter off in a word of up to four, two in a longer one; "" where none is.
std::string nearest_name(const std::string& given, const std::vector<std::string>& names);
/// "a, b or c", where `last` is "or".
std::string joined_names(const std::vector<std::string>& names, const char* last);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// The least number of letters to insert, delete, change or swap with their neighbour between two words.
inline std::size_t edit_distance(const std::string& a, const std::string& b) {
    std::vector<std::size_t> before, row(b.size() + 1), next(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        next[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] != b[j - 1])});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) next[j] = std::min(next[j], before[j - 2] + 1);
        }
        before = row;
        row = next;
    }
    return row[b.size()];
}

// "a, b or c", with "; did you mean b?" behind it where one is near.
inline std::string names_and_nearest(const std::string& given, const std::vector<std::string>& names, const char* last) {
    const std::string meant = nearest_name(given, names);
    return joined_names(names, last) + (meant.empty() ? "" : "; did you mean " + meant + "?");
}

}  // namespace detail

GRAFT_INLINE std::string nearest_name(const std::string& given, const std::vector<std::string>& names) {
    std::string best;
    if (given.size() > 64) return best;
    std::size_t least = given.size() <= 4 ? 2 : 3;
    for (const std::string& name : names) {
        const std::size_t off = detail::edit_distance(given, name);
        if (off < least) best = name, least = off;
    }
    return best;
}

GRAFT_INLINE std::string joined_names(const std::vector<std::string>& names, const char* last) {
    std::string all;
    for (std::size_t i = 0; i < names.size(); ++i) all += (i == 0 ? "" : i + 1 < names.size() ? ", " : std::string(" ") + last + " ") + names[i];
    return all;
}

GRAFT_END_NAMESPACE
#endif
