// Images and matrices that stay in bfloat16 from one convolution or product to the next.
#pragma once

#include "narrow_values.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Where tiles multiply, a convolution rounds what it reads; what is rounded once where it is made is half as many bytes, and lies as tiles read it. All images
// in blocks may be narrow, and all row-major values that products alone read.
class narrow_layouter : public narrow_values {
public:
    using narrow_values::narrow_values;

    GRAFT_COLD status run() {
        GRAFT_TRY(layouter::run());
        for (node& n : g.nodes)
            if (here(n) && is(n, "MatMul", "graft") && !n.find("packed") && multiplies_tiles(n)) set(n, "bfloat16", std::int64_t(1));
        make_narrow(cpu::choose_kernel, [&](value_id id) { return may_be_narrow(id); });
        return {};
    }

private:
    // Whether a product of two matrices that are made at every run is worth packing one of them.
    GRAFT_COLD bool multiplies_tiles(const node& n) {
        cpu::gemm_problem p;
        if (!cpu::gemm_problem_of(n, at(n.inputs[0]).extents, at(n.inputs[1]).extents, at(n.outputs[0]).extents, p)) return false;
        return cpu::takes_bfloat16_batch(p);
    }
    GRAFT_COLD bool may_be_narrow(value_id id) {
        const node* made = maker(id);
        const shape& s = at(id).extents;
        if (!made || !here(*made) || !is_float32(id)) return false;
        if (at(id).layout == blocks_) return s.rank() == 4 && s[2] * s[3] > 1;
        if (at(id).layout != layout::row_major || !(is(*made, "MatMul", "graft") || is(*made, "LayerNormalization"))) return false;
        const std::vector<int> reading = readers(id);
        for (int i : reading) {
            const node& n = g.nodes[static_cast<std::size_t>(i)];
            if (!is(n, "MatMul", "graft") || n.inputs[0] != id || std::count(n.inputs.begin(), n.inputs.end(), id) != 1) return false;
        }
        return !reading.empty() && !is_output(id);
    }
};

}  // namespace detail
GRAFT_END_NAMESPACE
