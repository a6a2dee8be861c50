// The kinds of products of bfloat16 that a test goes through.
#pragma once

#include "../emulated_products.hpp"
#include "../skipped.hpp"
#include "in_bfloat16.hpp"
#include "sets.hpp"

#include <doctest/doctest.h>

#include <graft/cpu/bfloat16_kernels.hpp>
#include <graft/cpu/dispatch.hpp>

namespace kernel_test {

// With vectors in place of the instructions on every set, or on the best one; with the instructions where the machine has them.
template <class F>
void on_all_products(const F& f, bool every_set = false) {
    bool any = false;
    for (const char* emulated : {"amx", "avx512_bf16", ""}) {
        const emulated_products with(emulated);
        for (graft::cpu::isa set : sets())
            if (graft::cpu::bfloat16_products(set) && (every_set || set == sets().back())) {
                INFO(graft::cpu::name(set), graft::cpu::bfloat16_products(set)->tiles ? ", tiles" : ", pairs", *emulated ? ", emulated" : "");
                any = true;
                f(set);
            }
    }
    if (!any) say_skipped("neither this machine nor this build multiplies bfloat16");
}

}  // namespace kernel_test
