// Threads that may not be had: the system has a limit on them, and each takes memory.
#pragma once

#include "../config.hpp"

#include <new>
#include <system_error>
#include <thread>
#include <utility>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Makes `thread` one that runs f, or leaves it as it is and says false where the system gives none. Without exceptions want of a thread ends
// the program, as want of memory does.
template <class F>
inline bool start_thread(std::thread& thread, F f) {
#ifdef GRAFT_NO_EXCEPTIONS
    thread = std::thread(std::move(f));
    return true;
#else
    try {
        thread = std::thread(std::move(f));
        return true;
    } catch (const std::system_error&) {
    } catch (const std::bad_alloc&) {
    }
    return false;
#endif
}

}  // namespace detail
GRAFT_END_NAMESPACE
