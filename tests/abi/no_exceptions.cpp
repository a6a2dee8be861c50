// The unit that is compiled with -fno-exceptions -fno-rtti: an error that is forced open ends in GRAFT_FATAL.
#include <cstdlib>
static const char* forced = nullptr;
#define GRAFT_FATAL(text) (forced = (text), std::exit(3))
#include <graft/graft.hpp>

#ifndef GRAFT_NO_EXCEPTIONS
#error "exceptions are on"
#endif

const char* exceptions_here(const char* model) {
    if (graft::load(std::string("no such file")).ok()) return "a missing file was loaded";
    return graft::load(std::string(model)).ok() ? nullptr : "the unit without exceptions cannot load";
}
