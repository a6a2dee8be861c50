// Holds declarations of ours against a vendor's: types that a C call passes alike, and symbols that a library has.
#pragma once

#include "../../skipped.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <vector>

/// What a type is to a call of C: enumerations are int, handles (pointers to structs, to void and to pointers) are void*, other
/// pointers are pointers to what they point to, integers are their size and sign, structs are their size and alignment.
template <class T, bool Enum = std::is_enum<T>::value, bool Integer = std::is_integral<T>::value>
struct abi {
    using type = T;
};
template <class T>
struct abi<T, true, false> {
    static_assert(sizeof(T) == sizeof(int), "an enumeration that is not passed as an int");
    using type = int;
};
template <std::size_t Size, bool Signed>
struct integer;
template <class T>
struct abi<T, false, true> {
    using type = std::conditional_t<std::is_same<T, char>::value, char, integer<sizeof(T), std::is_signed<T>::value>>;
};
template <class T>
struct pointee {
    using bare = std::remove_cv_t<T>;
    static constexpr bool opaque = std::is_void<bare>::value || std::is_class<bare>::value || std::is_pointer<bare>::value;
    using type = std::conditional_t<opaque, void*, typename abi<bare>::type*>;
};
template <class T>
struct abi<T*, false, false> {
    using type = typename pointee<T>::type;
};
// an enumeration and the int that stands for it
template <>
struct abi<int, false, true> {
    using type = int;
};

// a struct by value, which is complete where one that is pointed to may not be
template <std::size_t Size, std::size_t Alignment>
struct plain_bytes;
template <class T, bool Struct = std::is_class<T>::value>
struct passed {
    using type = typename abi<T>::type;
};
template <class T>
struct passed<T, true> {
    static_assert(std::is_trivially_copyable<T>::value, "a struct that C does not pass by value");
    using type = plain_bytes<sizeof(T), alignof(T)>;
};

template <class T>
struct call_abi;
template <class Result, class... Parameters>
struct call_abi<Result (*)(Parameters...)> {
    using type = typename abi<Result>::type (*)(typename passed<Parameters>::type...);
};
template <class Ours, class Theirs>
constexpr bool same_call() {
    return std::is_same<typename call_abi<Ours>::type, typename call_abi<Theirs>::type>::value;
}

static_assert(same_call<int (*)(void*, const char*), int (*)(const void*, char*)>(), "constness is not passed");
static_assert(!same_call<int (*)(int*), int (*)(float*)>() && !same_call<int (*)(int*), int (*)(void*)>(), "what is pointed to counts");
static_assert(!same_call<int (*)(int), int (*)(long long)>() && !same_call<int (*)(int), void (*)(int)>(), "sizes and results count");
static_assert(!same_call<int (*)(int), int (*)(int, int)>() && !same_call<int (*)(unsigned), int (*)(int)>(), "and so do numbers and signs");
struct eight_chars {
    char c[8];
};
struct two_ints {
    int a, b;
};
static_assert(same_call<int (*)(eight_chars), int (*)(const eight_chars)>() && !same_call<int (*)(eight_chars), int (*)(two_ints)>(), "as do structs");

#define SAME_CALL(result, name, parameters) static_assert(same_call<result(*) parameters, decltype(&::name)>(), #name " is declared otherwise by the vendor");
#define SAME_VALUE(ours, theirs) static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs), #ours " is not " #theirs)

/// The names of a list's functions.
#define NAME_OF_CALL(result, name, parameters) #name,

/// The names that the library `file` of the toolkit lacks; says so in a line where there is no such library.
inline std::vector<std::string> missing_symbols(const char* file, const std::vector<const char*>& names) {
    const char* home = std::getenv("CUDA_HOME");
    const std::string path = std::string(home ? home : "/usr/local/cuda") + "/lib64/" + file;
    std::vector<std::string> missing;
    void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        say_skipped("symbols of " + path + ", which this machine lacks");
        return missing;
    }
    for (const char* name : names)
        if (!dlsym(library, name)) missing.push_back(name);
    return missing;
}
