// A clock that only goes on, whatever becomes of the time of day.
#pragma once

#include "../config.hpp"

#include <chrono>

GRAFT_BEGIN_NAMESPACE
namespace detail {

inline double seconds_now() noexcept { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace detail
GRAFT_END_NAMESPACE
