// Lowering of quantised networks: by tiles, a convolution adds where it stores.
#pragma once

#include "../ops/quantized.hpp"
#include "../../lower/rewriter.hpp"

#include <utility>

GRAFT_BEGIN_NAMESPACE
namespace detail {

//   graft.QuantizedSum(graft.QuantizedConv(x), b)    graft.QuantizedConv(x, b)
// where nobody else reads what is added to.
class quantized_sums : public rewriter {
public:
    quantized_sums(graph& target, const lowering& with) : rewriter(target, with.on) {}

    void run() {
        static constexpr rewrite<quantized_sums> rows[] = {{"QuantizedSum", "graft", &quantized_sums::sum}};
        sweep(*this, rows);
    }

private:
    // The convolution takes the sum's place, where both operands are there.
    void sum(node& n) {
        cpu::quantized_sum_problem sum;
        if (!cpu::problem_in(n, sum) || !sum.fits_int32() || n.inputs[0] == n.inputs[1]) return;
        for (const std::size_t operand : {0, 1}) {
            const node* conv = maker(n.inputs[operand]);
            cpu::quantized_conv_problem p;
            if (!conv || !is(*conv, "QuantizedConv", "graft") || !used_once(n.inputs[operand]) || !cpu::problem_in(*conv, p)) continue;
            if (!p.tiles || p.depthwise() || p.adds) continue;
            const cpu::quantized_sum_problem ordered = operand == 0 ? sum : sum.turned();
            if (ordered.a_signed != p.y_signed || ordered.a_zero != p.y_zero) continue;
            p.adds = true;
            p.sum = ordered.in_lanes();
            node both = *conv;
            both.name = n.name;
            both.inputs.push_back(n.inputs[1 - operand]);
            both.outputs = n.outputs;
            cpu::set_problem(both, p);
            return edit(n, [&] { n = std::move(both); });
        }
    }
};

}  // namespace detail
GRAFT_END_NAMESPACE
