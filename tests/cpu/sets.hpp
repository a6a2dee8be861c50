// The instruction sets of this machine, for the tests of kernels.
#pragma once

#include <graft/cpu/isa.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace kernel_test {

inline std::vector<graft::cpu::isa> sets() {
    std::vector<graft::cpu::isa> all;
#define GRAFT_X(id, width, here) \
    if (graft::cpu::available(graft::cpu::isa::id)) all.push_back(graft::cpu::isa::id);
    GRAFT_ISA_LIST(GRAFT_X)
#undef GRAFT_X
    return all;
}

template <class F>
void on_every_isa(const F& f) {
    for (graft::cpu::isa set : sets()) {
        INFO("instruction set " << std::string(graft::cpu::name(set)));
        f(set);
    }
}

}  // namespace kernel_test
