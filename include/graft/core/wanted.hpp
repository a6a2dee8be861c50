// Which operators this build holds: all, or those that GRAFT_OPS names.
#pragma once

#include "../config.hpp"

GRAFT_BEGIN_NAMESPACE

/// Whether the operator `name` is compiled in: GRAFT_OPS is a comma-separated list, matched by whole items.
/// A row that says `wanted("Conv") ? &conv : nullptr` keeps the body out of builds that do not want it.
constexpr bool wanted(const char* name) noexcept {
#ifdef GRAFT_OPS
    const char* list = GRAFT_OPS;
    while (*list) {
        const char* n = name;
        while (*n && *list == *n) ++n, ++list;
        if (!*n && (!*list || *list == ',')) return true;
        while (*list && *list != ',') ++list;
        if (*list) ++list;
    }
    return false;
#else
    return name != nullptr;
#endif
}

GRAFT_END_NAMESPACE
