// A shared object that holds graft stays in the process once a thread that never ends runs its code.
#pragma once

#include "../config.hpp"

#if defined(_WIN32)
struct HINSTANCE__;
#elif !defined(__EMSCRIPTEN__)
#include <dlfcn.h>
#endif

GRAFT_BEGIN_NAMESPACE
#if defined(_WIN32)
// What is used of windows.h, declared as it does. Included, it would leave its macros (near, far, ...) to every user of graft, and
// NOMINMAX or WIN32_LEAN_AND_MEAN would be decided here.
namespace windows {
#if defined(NO_STRICT)
using module = void*;
#else
using module = HINSTANCE__*;
#endif
constexpr unsigned long by_address = 4, uncounted = 2, for_ever = 1;  // GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, _UNCHANGED_REFCOUNT, _PIN
extern "C" __declspec(dllimport) int __stdcall GetModuleHandleExA(unsigned long flags, const char* name, module* found);
}  // namespace windows
#endif
namespace detail {

// Keeps the shared object that this is compiled into loaded until the process ends, whatever closes it: dlclose(), FreeLibrary().
GRAFT_COLD inline void keep_loaded() noexcept {
    static const char within = 0;
#if defined(_WIN32)
    windows::module module = nullptr;
    (void)windows::GetModuleHandleExA(windows::by_address | windows::for_ever, &within, &module);
#elif !defined(__EMSCRIPTEN__)
    // Of a program itself, which stays by itself, nothing comes of it.
    Dl_info about;
    if (dladdr(&within, &about) && about.dli_fname) (void)dlopen(about.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
#endif
}

}  // namespace detail
GRAFT_END_NAMESPACE
