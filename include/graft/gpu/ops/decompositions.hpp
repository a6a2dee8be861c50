// The operators that are written as others: every family.
#pragma once

#include "../decompose.hpp"

#if GRAFT_HAS_BODIES
#include "attention.hpp"
#include "einsum.hpp"
#include "linear_attention.hpp"
#include "loss.hpp"
#include "recurrent.hpp"

#include <cstring>
GRAFT_BEGIN_NAMESPACE
namespace gpu {

GRAFT_INLINE const decomposition_row* find_decomposition(const char* op, const char* domain) {
    const decomposition_table families[] = {
        attention_decompositions(),
        einsum_decompositions(),
        linear_attention_decompositions(),
        loss_decompositions(),
        recurrent_decompositions(),
    };
    for (const decomposition_table& family : families)
        for (int i = 0; i < family.size; ++i)
            if (!std::strcmp(family.rows[i].op, op) && !std::strcmp(family.rows[i].domain, domain)) return family.rows + i;
    return nullptr;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
