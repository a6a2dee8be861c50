// The list of instruction sets, and the environment variable that picks one.
#include <doctest/doctest.h>

#include <graft/cpu/isa.hpp>
#include <graft/core/wanted.hpp>

#include <cstdlib>
#include <string>

using namespace graft;

#if !defined(_WIN32)
TEST_CASE("GRAFT_ISA picks an available set and refuses others by name") {
    const char* old = std::getenv("GRAFT_ISA");
    const std::string before = old ? old : "";
#define GRAFT_X(id, width, here) cpu::isa::id,
    for (cpu::isa set : {GRAFT_ISA_LIST(GRAFT_X)}) {
#undef GRAFT_X
        setenv("GRAFT_ISA", cpu::name(set), 1);
        const auto active = cpu::active_isa();
        CHECK(active.ok() == cpu::available(set));
        if (active.ok())
            CHECK(active.value() == set);
        else
            CHECK(active.error().code() == errc::cpu_isa);
    }
    setenv("GRAFT_ISA", "sse9", 1);
    CHECK(cpu::active_isa().error().code() == errc::cpu_isa);
    CHECK(cpu::active_isa().error().detail().find("baseline") != std::string::npos);
    setenv("GRAFT_ISA", "", 1);
    CHECK(cpu::active_isa().ok());
    unsetenv("GRAFT_ISA");
    const auto best = cpu::active_isa();
    CHECK(best.ok());
    CHECK(cpu::available(best.value()));
    if (old) setenv("GRAFT_ISA", before.c_str(), 1);
}
#endif

TEST_CASE("baseline is always there and every set says how wide it is") {
    CHECK(cpu::available(cpu::isa::baseline));
    CHECK(cpu::available_isas().rfind("baseline", 0) == 0);
    CHECK(cpu::vector_width(cpu::isa::avx512) == 16);
    CHECK(cpu::vector_width(cpu::isa::avx2) == 8);
    CHECK(cpu::vector_width(cpu::isa::neon) == 4);
    CHECK(std::string(cpu::name(cpu::isa::wasm)) == "wasm");
}

TEST_CASE("a build without GRAFT_OPS wants every operator") {
#ifndef GRAFT_OPS
    CHECK(wanted("Conv"));
#endif
}
