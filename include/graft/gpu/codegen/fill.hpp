// Text with names that are filled in: what kernels written by hand are made of.
#pragma once

#include "text.hpp"

#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// What `$name` stands for, by name.
using fillings = std::vector<std::pair<const char*, std::string>>;

/// `text` with every `$name` (small letters and _) replaced. A name that is not listed stays as it is, and does not compile.
std::string fill(const char* text, const fillings& names);

/// A count, as text.
inline std::string decimal(std::int64_t n) { return std::to_string(n); }

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE
namespace gpu {

GRAFT_INLINE std::string fill(const char* text, const fillings& names) {
    std::string out;
    for (; *text; ++text) {
        if (*text != '$') {
            out += *text;
            continue;
        }
        std::string name;
        while ((text[1] >= 'a' && text[1] <= 'z') || text[1] == '_') name += *++text;
        const std::string* found = nullptr;
        for (const auto& n : names)
            if (name == n.first) found = &n.second;
        out += found ? *found : "$" + name;
    }
    return out;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
