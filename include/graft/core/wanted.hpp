// Which operators this build holds: all, or those that GRAFT_OPS names.
#pragma once

#include "../config.hpp"

GRAFT_BEGIN_NAMESPACE

namespace detail {
constexpr bool in_name(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

// Whether a list names `name`. What is no part of a name stands between names: commas, spaces, and the quotes of a string.
constexpr bool names(const char* list, const char* name) noexcept {
    while (*list) {
        const char* n = name;
        while (*n && *list == *n) ++n, ++list;
        if (!*n && !in_name(*list)) return true;
        while (in_name(*list)) ++list;
        while (*list && !in_name(*list)) ++list;
    }
    return false;
}
constexpr bool has_letter(const char* list) noexcept {
    while (*list && (!in_name(*list) || *list <= '9')) ++list;
    return *list != 0;
}
}  // namespace detail

// GRAFT_OPS as text, whether it is a string or the bare names that a shell leaves of one.
#define GRAFT_TEXT_OF(...) #__VA_ARGS__
#define GRAFT_TEXT(...) GRAFT_TEXT_OF(__VA_ARGS__)

/// Whether the operator `name` is compiled in: GRAFT_OPS is a list of names, matched by whole names.
/// A row that says `wanted("Conv") ? &conv : nullptr` keeps the body out of builds that do not want it.
constexpr bool wanted(const char* name) noexcept {
#ifdef GRAFT_OPS
    return detail::names(GRAFT_TEXT(GRAFT_OPS), name);
#else
    return name != nullptr;
#endif
}

#ifdef GRAFT_OPS
static_assert(detail::has_letter(GRAFT_TEXT(GRAFT_OPS)), "GRAFT_OPS names no operator; it is a list such as Conv,Relu,Gemm");
#endif
#undef GRAFT_TEXT
#undef GRAFT_TEXT_OF

GRAFT_END_NAMESPACE
