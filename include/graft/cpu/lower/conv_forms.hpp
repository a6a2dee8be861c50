// Convolutions that no fast kernel takes as they are, in forms that one does.
#pragma once

#include "../ops/conv.hpp"
#include "../../lower/view_writer.hpp"

#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

//   Conv(x, W, B)    Reshape(Transpose(MatMul(Reshape(Transpose(Reshape(x))), W, B)))
// where every pixel of x is in one window alone, and windows have more taps than the tables of the convolutions' kernels hold: patches of 32 x 32 pixels,
// of which vision transformers make their tokens. A row of the product's left operand is a patch.
//   Conv(x, W, B)    Conv(Gather(x), W, B)
// where each channel has a group of its own that makes a few channels, fewer than a vector has: of an image that has each channel as often, a depthwise
// convolution.
class conv_forms : public view_writer {
public:
    conv_forms(graph& target, const lowering& with, cpu::isa level) : view_writer(target, with.on), level_(level) {}

    // Errors: memory.oom; the graph is of no use then.
    GRAFT_COLD status run() {
        if constexpr (wanted("Reshape") && wanted("Transpose")) {
            static constexpr rewrite<conv_forms> rows[] = {{"Conv", "graft", &conv_forms::patches}};
            sweep(*this, rows);
        }
        if constexpr (wanted("Gather")) {
            static constexpr rewrite<conv_forms> rows[] = {{"Conv", "graft", &conv_forms::channel_multiplier}};
            sweep(*this, rows);
        }
        return std::move(failure_);
    }

private:
    void channel_multiplier(node& n) {
        const value_id x = n.inputs[0];
        cpu::conv_problem p{};
        if (!cpu::conv_problem_of(n, at(x).extents, at(n.inputs[1]).extents, at(n.outputs[0]).extents, p)) return;
        if (p.groups < 2 || p.groups != p.ic || p.oc <= p.ic || p.oc >= p.ic * cpu::vector_width(level_)) return;
        // Steps may leave little of an image: it is not made many times as large for that.
        if (p.oc * p.ih * p.iw > 4 * (p.ic * p.ih * p.iw + p.oc * p.oh * p.ow)) return;
        auto of = tensor::make(dtype::int64, shape{p.oc});
        if (!of.ok()) return void(failure_ = of.take_status());
        for (std::int64_t c = 0; c < p.oc; ++c) of->data<std::int64_t>()[c] = c * p.ic / p.oc;
        node gather;
        become(gather, "Gather", "");
        gather.name = n.name;
        gather.attributes = {integer_attribute("axis", 1)};
        gather.inputs = {x, g.add_constant(n.name + "_channels", std::move(of).value())};
        gather.outputs = {made(x, shape{p.n, p.oc, p.ih, p.iw}, "_multiplied")};
        edit(n, [&] {
            n.inputs[0] = gather.outputs[0];
            set(n, "group", p.oc);
        });
        insert_before(n, std::move(gather));
    }
    void patches(node& n) {
        const value_id x = n.inputs[0], weight = n.inputs[1], y = n.outputs[0];
        cpu::conv_problem p{};
        if (!is_constant(weight) || n.find("residual") || !cpu::conv_problem_of(n, at(x).extents, at(weight).extents, at(y).extents, p)) return;
        if (p.groups != 1 || std::int64_t(p.kh) * p.kw <= cpu::detail::conv_max_taps || p.kh != p.sh || p.kw != p.sw || p.dh != 1 || p.dw != 1) return;
        if (p.pt || p.pl || p.oh * p.kh != p.ih || p.ow * p.kw != p.iw) return;
        const std::int64_t patch = p.ic * p.kh * p.kw, pixels = p.oh * p.ow;

        const value_id cut = reshaped(n, x, shape{p.n, p.ic, p.oh, p.kh, p.ow, p.kw}, "_cut");
        const value_id turned = transposed(n, cut, {0, 2, 4, 1, 3, 5}, "_turned"), rows = reshaped(n, turned, shape{p.n, pixels, patch}, "_patches");
        const value_id columns = g.add_constant(at(weight).name + "_rows", at(weight).constant.reshaped(shape{p.oc, patch}));
        node product;
        become(product, "MatMul", "graft");
        product.name = n.name;
        product.multiply_adds = n.multiply_adds;
        product.inputs = {rows, columns};
        if (n.inputs.size() > 2) product.inputs.push_back(n.inputs[2]);
        for (const char* of_epilogue : {"activation", "alpha", "beta"})
            if (const attribute* a = n.find(of_epilogue)) product.attributes.push_back(*a);
        set(product, "transB", std::int64_t(1));
        product.outputs = {made(y, shape{p.n, pixels, p.oc}, "_products")};
        const value_id products = product.outputs[0];
        insert_before(n, std::move(product));
        const value_id channels = transposed(n, products, {0, 2, 1}, "_channels");
        edit(n, [&] {
            become(n, "Reshape", "");
            n.inputs = {channels, extents_of(n, at(y).extents)};
            n.attributes.clear();
            n.multiply_adds = 0;
        });
    }

    cpu::isa level_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
