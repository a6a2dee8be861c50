// Vectors in place of a machine's products of bfloat16 and of bytes, for the life of a value: builds with tests have them (GRAFT_EMULATED_PRODUCTS).
#pragma once

#include <cstdlib>

/// "amx", "avx512_bf16", "avx512_vnni", or "" for the machine's own.
struct emulated_products {
    explicit emulated_products(const char* what) {
        if (*what) setenv("GRAFT_EMULATED_PRODUCTS", what, 1);
    }
    ~emulated_products() { unsetenv("GRAFT_EMULATED_PRODUCTS"); }
    emulated_products(const emulated_products&) = delete;
    emulated_products& operator=(const emulated_products&) = delete;
};
