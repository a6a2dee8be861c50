// The batches of a matrix product, as kernels walk them.
#pragma once

#include "../core/shape.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

/// The batches of a product, for kernels that walk two of them: elements from one to the next, of the operands 0 where it is broadcast.
struct product_batches {
    std::int64_t extents[2] = {1, 1}, a_strides[2] = {0, 0}, b_strides[2] = {0, 0};
};
/// Joins neighbouring batch dimensions that both operands walk evenly. False where more than two are left.
inline bool join_batches(const shape& a, const shape& b, const shape& y, product_batches& joined) {
    int used = 0;
    std::int64_t a_step = a.at(-1) * a.at(-2), b_step = b.at(-1) * b.at(-2), a_next = 0, b_next = 0;
    for (int d = 3; d <= y.rank(); ++d) {
        const std::int64_t e = y.at(-d), ae = a.at(-d), be = b.at(-d);
        const std::int64_t as = ae == 1 ? 0 : a_step, bs = be == 1 ? 0 : b_step;
        a_step *= ae, b_step *= be;
        if (e == 1) continue;
        if (used && a_next == as && b_next == bs)
            joined.extents[2 - used] *= e;
        else {
            if (used == 2) return false;
            ++used;
            joined.extents[2 - used] = e, joined.a_strides[2 - used] = as, joined.b_strides[2 - used] = bs;
        }
        a_next = as * e, b_next = bs * e;
    }
    return true;
}

}  // namespace ops
GRAFT_END_NAMESPACE
