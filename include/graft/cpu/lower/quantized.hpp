// Lowering of quantised networks: DequantizeLinear, an operator and QuantizeLinear become that operator on 8-bit integers.
#pragma once

#include "../ops/conv.hpp"
#include "../ops/quantized.hpp"
#include "quantized_pairs.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

//   QuantizeLinear(act?(Conv(DequantizeLinear(x), DequantizeLinear(W), B?)))    graft.QuantizedConv(x)
//   QLinearConv(x, ...)                                                         graft.QuantizedConv(x); of one dimension or three, reals
//   QuantizeLinear(act?(Gemm or MatMul(DequantizeLinear(x), DequantizeLinear(W), B?)))  graft.QuantizedConv(x), where bytes are multiplied
//   the same with an Add of a bias for each column behind a MatMul
//   QuantizeLinear(act?(Add(DequantizeLinear(a), DequantizeLinear(b))))         graft.QuantizedSum(a, b)
//   QuantizeLinear(act?(Mul(DequantizeLinear(a), DequantizeLinear(b))))         graft.QuantizedProduct(a, b)
//   QuantizeLinear(act?(GlobalAveragePool(DequantizeLinear(x))))                graft.QuantizedGlobalAveragePool(x); so ReduceMean over height and width
//   QuantizeLinear(act?(AveragePool(DequantizeLinear(x))))                      graft.QuantizedConv(x), depthwise, where all windows count as many numbers
//   what moves numbers: quantized_pairs.hpp
// where scales, zero points and weights are constants and nobody else reads the reals between. act is Relu or Clip: what it cuts off are codes. Pairs are
// left to reals where integers are no faster.
class quantized_lowering : public quantized_pairs {
public:
    quantized_lowering(graph& target, const lowering& with, cpu::isa level) : quantized_pairs(target, with), level_(level) {}

    // Whether pairs become integers, where they can.
    bool pays() { return cpu::pairs_of_16_bits_pay(level_) || (cpu::multiplies_bytes(level_) && most_fit_bytes()); }
    // `pays`: what that said. Errors: memory.oom; the graph is of no use then.
    status run(bool pays) {
        pairs_pay_ = pays;
        static constexpr rewrite<quantized_lowering> rows[] = {{"QuantizeLinear", "", &quantized_lowering::pair},
                                                               {"QLinearConv", "", &quantized_lowering::qlinear_conv}};
        sweep(*this, rows);
        return std::move(failure_);
    }

private:
    // Whether three quarters of what the convolutions and quantised matrices multiply have weights of bytes. By 16 bits, as others would have it, integers are
    // no faster than reals there; and where both stand side by side, every change costs a pass over the image.
    bool most_fit_bytes() {
        double all = 0, bytes = 0;
        for (const node& n : g.nodes) {
            const bool conv = is(n, "Conv"), integers = is(n, "QLinearConv");
            if ((!conv && !integers && !is(n, "Gemm") && !is(n, "MatMul")) || n.inputs.size() < (integers ? 8 : 2)) continue;
            const value& w = at(n.inputs[integers ? 3 : 1]);
            if (!conv && !integers && !w.integers) continue;  // other products stay reals, wherever these are
            const double products = static_cast<double>(n.multiply_adds);
            all += products;
            const bool told = w.constant && w.integers && w.integers->floats.watches(w.constant.storage());
            if (integers ? w.constant && ops::is_byte(w.type) : told && ops::is_byte(w.integers->integers.type())) bytes += products;
        }
        return bytes > 0 && bytes >= 0.75 * all;
    }

    GRAFT_COLD void pair(node& n) {
        if (!pairs_pay_) return;
        codes y;
        if (integer(n, "block_size", 0) || integer(n, "precision", 0) || !codes_of(at(n.outputs[0]).type, n.inputs[1], input_of(n, 2), y)) return;
        value_id real = n.inputs[0];
        int low = 0, high = 0;
        if (!is_float32(real) || !bounds(real, y, low, high) || !used_once(real)) return;
        const node* m = maker(real);
        if (!m) return;
        static constexpr struct {
            const char* op;
            void (quantized_lowering::*lower)(node&, const node&, const codes&, int, int);
        } operators[] = {{"Conv", &quantized_lowering::conv},           {"Gemm", &quantized_lowering::product},
                         {"MatMul", &quantized_lowering::product},      {"Add", &quantized_lowering::sum},
                         {"Mul", &quantized_lowering::element_product}, {"GlobalAveragePool", &quantized_lowering::mean},
                         {"ReduceMean", &quantized_lowering::mean},     {"AveragePool", &quantized_lowering::average}};
        for (const auto& one : operators)
            if (is(*m, one.op)) return (this->*one.lower)(n, *m, y, low, high);
        if (low != y.low() || high != y.high()) return;
        if (is(*m, "Split"))
            slice_codes(n, *m, y);
        else if (moves_numbers(*m))
            move_codes(n, *m, y);
    }

    GRAFT_COLD void sum(node& n, const node& add, const codes& y, int low, int high) {
        codes a, b;
        const value_id from_a = dequantized_from(add.inputs[0], a), from_b = dequantized_from(add.inputs[1], b);
        if (from_a == no_value || from_b == no_value) {
            for (const std::size_t i : {0, 1})
                if (const node* m = maker(add.inputs[i]); m && is(*m, "MatMul") && used_once(add.inputs[i]))
                    return product_with(add.inputs[1 - i], n, *m, y, low, high);
            return;
        }
        const shape& s = at(n.outputs[0]).extents;
        if (at(from_a).extents != s || at(from_b).extents != s || s.elements() == 0) return;
        cpu::quantized_sum_problem p;
        p.a_signed = a.is_signed, p.b_signed = b.is_signed, p.y_signed = y.is_signed;
        p.a_zero = a.zero, p.b_zero = b.zero, p.y_zero = y.zero;
        p.a_scale = a.scale, p.b_scale = b.scale, p.y_scale = y.scale;
        p.low = low, p.high = high;
        edit(n, [&] {
            become(n, "QuantizedSum", "graft");
            n.inputs = {from_a, from_b};
            n.attributes.clear();
            cpu::set_problem(n, p);
        });
    }

    // Of equal shapes, or an image by one number a channel.
    GRAFT_COLD void element_product(node& n, const node& mul, const codes& y, int low, int high) {
        codes a, b;
        value_id from_a = dequantized_from(mul.inputs[0], a), from_b = dequantized_from(mul.inputs[1], b);
        if (from_a == no_value || from_b == no_value) return;
        const shape& s = at(n.outputs[0]).extents;
        if (at(from_a).extents != s) std::swap(from_a, from_b), std::swap(a, b);
        const shape& other = at(from_b).extents;
        const bool of_channels = other != s;
        if (at(from_a).extents != s || s.elements() == 0) return;
        if (of_channels && (s.rank() != 4 || other != shape{s[0], s[1], 1, 1})) return;
        cpu::quantized_product_problem p;
        p.a_signed = a.is_signed, p.b_signed = b.is_signed, p.y_signed = y.is_signed;
        p.a_zero = a.zero, p.b_zero = b.zero, p.y_zero = y.zero;
        p.scale = a.scale * b.scale / y.scale;
        p.low = low, p.high = high;
        p.of_channels = of_channels;
        if (!std::isnormal(p.scale)) return;
        edit(n, [&] {
            become(n, "QuantizedProduct", "graft");
            n.inputs = {from_a, from_b};
            n.attributes.clear();
            cpu::set_problem(n, p);
        });
    }

    GRAFT_COLD void mean(node& n, const node& from, const codes& y, int low, int high) {
        codes x;
        const value_id image = dequantized_from(from.inputs[0], x);
        if (image == no_value) return;
        const shape &in = at(image).extents, &out = at(n.outputs[0]).extents;
        // Sums stay in int32.
        if (in.rank() != 4 || out != shape{in[0], in[1], 1, 1} || in.elements() == 0 || in.product(2, 4) > 1 << 22) return;
        cpu::quantized_mean_problem p;
        p.x_signed = x.is_signed, p.y_signed = y.is_signed, p.x_zero = x.zero, p.y_zero = y.zero;
        p.x_scale = x.scale, p.y_scale = y.scale, p.low = low, p.high = high;
        edit(n, [&] {
            become(n, "QuantizedGlobalAveragePool", "graft");
            n.inputs = {image};
            n.attributes.clear();
            cpu::set_problem(n, p);
        });
    }

    // By weights of one, whose scale is one over their number.
    GRAFT_COLD void average(node& n, const node& from, const codes& y, int low, int high) {
        if constexpr (!cpu::quantized_conv_wanted()) return;
        codes x;
        const value_id image = dequantized_from(from.inputs[0], x);
        if (image == no_value) return;
        const shape &in = at(image).extents, &out = at(n.outputs[0]).extents;
        std::int64_t kernel[2];
        if (in.rank() != 4 || out.elements() == 0 || !cpu::window_list(from, "kernel_shape", 2, 1, kernel)) return;
        node window = from;
        window.attributes.push_back(integer_attribute("group", in[1]));
        const shape w{in[1], 1, kernel[0], kernel[1]};
        cpu::conv_problem p{};
        if (!cpu::conv_problem_of(window, in, w, out, p) || std::int64_t(p.kh) * p.kw > cpu::quantized_taps) return;
        // What is outside of the image counts as zero, or not at all, as what only ceil_mode has does.
        const bool outside = p.pt > 0 || p.pl > 0 || (p.oh - 1) * p.sh + std::int64_t(p.kh - 1) * p.dh - p.pt >= p.ih ||
                             (p.ow - 1) * p.sw + std::int64_t(p.kw - 1) * p.dw - p.pl >= p.iw;
        if (outside && (!integer(from, "count_include_pad", 0) || integer(from, "ceil_mode", 0))) return;
        auto weight = tensor::make(dtype::int8, w, with_.budget), scale = tensor::make(dtype::float32, shape{1}, with_.budget);
        for (auto* made : {&weight, &scale})
            if (!made->ok()) return void(failure_ = made->take_status());
        std::fill_n(weight->data<std::int8_t>(), w.elements(), std::int8_t(1));
        scale->data<float>()[0] = 1 / static_cast<float>(p.kh * p.kw);
        make_conv(n, window, image, x, y, {*weight, *scale, tensor(), tensor()}, low, high);
    }

    GRAFT_COLD void conv(node& n, const node& from, const codes& y, int low, int high) {
        codes x;
        const value_id image = dequantized_from(from.inputs[0], x);
        const value& weight = at(from.inputs[1]);
        const value_id bias = input_of(from, 2);
        if (image == no_value || !weight.constant || !weight.integers || !weight.integers->floats.watches(weight.constant.storage())) return;
        const dequantized& w = *weight.integers;
        if (w.axis != 0 && w.axis != -4 && w.scale.elements() != 1) return;
        if (bias != no_value && (!is_constant(bias) || at(bias).type != dtype::float32)) return;
        make_conv(n, from, image, x, y, {w.integers, w.scale, w.zero_point, bias == no_value ? tensor() : at(bias).constant}, low, high);
    }
    void product(node& n, const node& from, const codes& y, int low, int high) {
        product_with(is(from, "Gemm") ? input_of(from, 2) : no_value, n, from, y, low, high);
    }
    // Rows of x by constant columns, as a convolution of one tap over pixels that are the rows.
    GRAFT_COLD void product_with(value_id bias, node& n, const node& from, const codes& y, int low, int high) {
        codes x;
        const bool gemm = is(from, "Gemm"), transposed = gemm && integer(from, "transB", 0) != 0;
        const value_id matrix = dequantized_from(from.inputs[0], x);
        const value& weight = at(from.inputs[1]);
        if (!cpu::multiplies_bytes(level_) || matrix == no_value || !weight.constant || !weight.integers) return;
        if (!weight.integers->floats.watches(weight.constant.storage())) return;
        if (gemm && (integer(from, "transA", 0) || real(from, "alpha", 1) != 1 || (bias != no_value && real(from, "beta", 1) != 1))) return;
        const dequantized& w = *weight.integers;
        const shape &in = at(matrix).extents, &extents = w.integers.shape();
        if (in.rank() < 2 || extents.rank() != 2 || !ops::is_byte(w.integers.type()) || w.scale.type() != dtype::float32) return;
        const int of_channels = transposed ? 0 : 1;
        if (w.axis != of_channels && w.axis != of_channels - 2 && w.scale.elements() != 1) return;
        if (bias != no_value &&
            (!is_constant(bias) || at(bias).type != dtype::float32 || at(bias).extents.rank() == 0 || at(bias).extents.back() != at(bias).extents.elements()))
            return;
        cpu::quantized_conv_problem p;
        p.ic = in.back(), p.oc = extents[of_channels], p.iw = p.ow = in.product(0, in.rank() - 1), p.matrix = true;
        p.x_signed = x.is_signed, p.y_signed = y.is_signed, p.x_zero = x.zero, p.y_zero = y.zero, p.low = low, p.high = high;
        const constants k{w.integers, w.scale, w.zero_point, bias == no_value ? tensor() : at(bias).constant};
        if (p.oc < 1 || extents[1 - of_channels] != p.ic || !cpu::takes_quantized_conv(p) || !fit_channels(k, p.oc)) return;
        pack_conv(n, from, matrix, p, x, y, k, transposed ? p.ic : 0);
    }
    GRAFT_COLD void qlinear_conv(node& n) {
        codes x, y;
        if (!codes_of(at(n.inputs[0]).type, n.inputs[1], n.inputs[2], x) || !codes_of(at(n.outputs[0]).type, n.inputs[6], n.inputs[7], y)) return;
        const value_id bias = input_of(n, 8);
        for (const std::size_t i : {3, 4, 5})
            if (!is_constant(n.inputs[i])) return;
        if (bias != no_value && !is_constant(bias)) return;
        const node from = n;
        const constants k{at(n.inputs[3]).constant, at(n.inputs[4]).constant, at(n.inputs[5]).constant, bias == no_value ? tensor() : at(bias).constant};
        make_conv(n, from, n.inputs[0], x, y, k, y.low(), y.high());
        if (failure_.ok() && n.domain.empty() && n.op_type == "QLinearConv") failure_ = conv_of_whole_numbers(n, x, y, k);
    }

    struct constants {
        tensor weight, scale, zero, bias;  // the bias in int32, or in reals
    };

    // A QLinearConv that the kernels of integers do not take, as one of other dimensions than two: sums of whole numbers in float32, which has faster kernels
    // than the reference.
    //   QuantizeLinear(Conv(DequantizeLinear(x, 1), W - zero, B) * scales, 1)
    GRAFT_COLD status conv_of_whole_numbers(node& n, const codes& x, const codes& y, const constants& k) {
        const shape w = k.weight.shape();
        const std::int64_t channels = w.rank() > 2 ? w[0] : 0;
        if (channels < 1 || w.elements() == 0 || !ops::is_byte(k.weight.type()) || k.scale.type() != dtype::float32 || !fit_channels(k, channels)) return {};
        for (const char* op : {"DequantizeLinear", "Conv", "Mul", "QuantizeLinear"})
            if (const op_row* needed = ops::find_op("", op, newest_opset); !needed || !needed->run) return {};
        const std::int64_t per_channel = w.elements() / channels;
        tensor weights, scales, bias, one;
        shape along = shape::filled(w.rank(), 1);
        along[1] = channels;
        GRAFT_TRY_ASSIGN(weights, tensor::make(dtype::float32, w, with_.budget));
        GRAFT_TRY_ASSIGN(scales, tensor::make(dtype::float32, along, with_.budget));
        GRAFT_TRY_ASSIGN(bias, tensor::zeros(dtype::float32, {channels}));
        GRAFT_TRY_ASSIGN(one, tensor::make(dtype::float32, shape{}));
        one.data<float>()[0] = 1;
        for (std::int64_t m = 0; m < channels; ++m) {
            scales.data<float>()[m] = x.scale * k.scale.data<float>()[k.scale.elements() == 1 ? 0 : m] / y.scale;
            if (k.bias) bias.data<float>()[m] = static_cast<float>(element_as_double(k.bias.type(), k.bias.raw(), m));
            for (std::int64_t i = m * per_channel; i < (m + 1) * per_channel; ++i)
                weights.data<float>()[i] = static_cast<float>(element_as_double(k.weight.type(), k.weight.raw(), i) - zero_of(k, m));
        }
        const value_id unit = g.add_constant(n.name + "_one", std::move(one)), y_zero = n.inputs[7];
        const auto before = [&](const char* op, value_id like_this, std::vector<value_id> inputs) {
            node made;
            become(made, op, "");
            made.name = n.name;
            made.inputs = std::move(inputs);
            made.outputs = {like(like_this, "_whole")};
            at(made.outputs[0]).type = dtype::float32;
            return made;
        };
        const node codes_of_x = before("DequantizeLinear", n.inputs[0], {n.inputs[0], unit, n.inputs[2]});
        node conv = before("Conv", n.outputs[0],
                           {codes_of_x.outputs[0], g.add_constant(n.name + "_weights", std::move(weights)), g.add_constant(n.name + "_bias", std::move(bias))});
        conv.attributes = n.attributes;
        conv.multiply_adds = n.multiply_adds;
        const node scaled = before("Mul", n.outputs[0], {conv.outputs[0], g.add_constant(n.name + "_scales", std::move(scales))});
        insert_before(n, codes_of_x);
        insert_before(n, std::move(conv));
        insert_before(n, scaled);
        edit(n, [&] {
            become(n, "QuantizeLinear", "");
            n.inputs = {scaled.outputs[0], unit, y_zero};
            n.attributes.clear();
            n.multiply_adds = 0;
        });
        return {};
    }
    GRAFT_COLD void make_conv(node& n, const node& from, value_id image, const codes& x, const codes& y, const constants& k, int low, int high) {
        const shape &in = at(image).extents, w = k.weight.shape(), &out = at(n.outputs[0]).extents;
        cpu::conv_problem window{};
        if (in.rank() != 4 || w.rank() != 4 || out.elements() == 0 || !ops::is_byte(k.weight.type()) || k.scale.type() != dtype::float32) return;
        if (!cpu::conv_problem_of(from, in, w, out, window)) return;
        cpu::quantized_conv_problem p;
        p.n = window.n, p.ic = window.ic, p.ih = window.ih, p.iw = window.iw, p.oc = window.oc, p.oh = window.oh, p.ow = window.ow;
        p.groups = window.groups, p.kh = window.kh, p.kw = window.kw, p.sh = window.sh, p.sw = window.sw;
        p.dh = window.dh, p.dw = window.dw, p.pt = window.pt, p.pl = window.pl;
        p.x_signed = x.is_signed, p.y_signed = y.is_signed, p.x_zero = x.zero, p.y_zero = y.zero, p.low = low, p.high = high;
        if (!cpu::takes_quantized_conv(p)) return;
        if (fit_channels(k, p.oc)) pack_conv(n, from, image, p, x, y, k, w.product(1, 4));
    }
    // One scale and zero point for all channels or one for each, and a bias for each.
    static bool fit_channels(const constants& k, std::int64_t channels) {
        const std::int64_t scales = k.scale.elements(), zeros = k.zero ? k.zero.elements() : 0;
        return (scales == 1 || scales == channels) && (zeros <= 1 || zeros == channels) && (!k.bias || k.bias.elements() == channels);
    }
    // `per_channel`: weights of an output channel, which lie side by side; 0: they are a column of a matrix.
    void pack_conv(node& n, const node& from, value_id image, const cpu::quantized_conv_problem& p, const codes& x, const codes& y, const constants& k,
                   std::int64_t per_channel) {
        const std::int64_t multiply_adds = from.multiply_adds;
        failure_ = pack(n, image, p, x, y, k, per_channel);
        if (n.domain == "graft") n.multiply_adds = multiply_adds;
    }

    // The zero point of an output channel's weights.
    static int zero_of(const constants& k, std::int64_t channel) {
        if (!k.zero || k.zero.elements() == 0) return 0;
        return static_cast<int>(element_as_double(k.zero.type(), k.zero.raw(), k.zero.elements() == 1 ? 0 : channel));
    }
    template <class T>
    static void subtract(const T* from, std::int64_t count, int zero, std::int16_t* to) {
        constexpr int together = 32;
        for (std::int64_t i = 0; i < count; i += together) {
            // Copies, as bytes may be a part of anything: so compilers make vectors of it.
            T some[together] = {};
            std::int16_t made[together];
            const std::size_t n = static_cast<std::size_t>(std::min<std::int64_t>(together, count - i));
            std::memcpy(some, from + i, n);
            for (int j = 0; j < together; ++j) made[j] = static_cast<std::int16_t>(some[j] - zero);
            std::memcpy(to + i, made, n * sizeof *made);
        }
    }
    // Whether all differences from `zero` are signed bytes; `parts` 2: the sums of two.
    template <class T>
    static bool fit_bytes(const T* from, std::int64_t count, int zero, int parts) {
        constexpr std::int64_t together = 64;
        const int least = zero - 128 * parts, most = zero + 127 * parts;
        if (least <= std::numeric_limits<T>::min() && most >= std::numeric_limits<T>::max()) return true;
        const auto outside = [&](T w) { return static_cast<unsigned>(w < least) | static_cast<unsigned>(w > most); };
        unsigned any = 0;
        std::int64_t i = 0;
        for (; i + together <= count; i += together)
            for (std::int64_t j = 0; j < together; ++j) any |= outside(from[i + j]);
        for (; i < count; ++i) any |= outside(from[i]);
        return any == 0;
    }
    // The same of all channels.
    bool fit_bytes(const constants& k, const tensor& weight, std::int64_t channels, std::int64_t per_channel, int parts) {
        std::atomic<bool> all{true};
        parallel_for(with_.pool, channels, [&](std::int64_t m) {
            const auto fit = [&](const auto* from) { return fit_bytes(from + m * per_channel, per_channel, zero_of(k, m), parts); };
            if (!(k.weight.type() == dtype::int8 ? fit(weight.data<std::int8_t>()) : fit(weight.data<std::uint8_t>()))) all = false;
        });
        return all;
    }
    // Biases up to here leave room for what any convolution sums. Others are those of channels that hardly look at their input, whose scale is small.
    static constexpr double most_steps = 1 << 30;
    static bool stays_in_int32(const constants& k, const tensor& weight, std::int64_t channel, std::int64_t per_channel, double steps) {
        double most = std::fabs(steps);
        if (most <= most_steps) return true;
        // The products, and as much for what the bias is less by where pixels are unsigned.
        for (std::int64_t i = channel * per_channel; i < (channel + 1) * per_channel; ++i)
            most += 2 * 255 * std::fabs(element_as_double(weight.type(), weight.raw(), i) - zero_of(k, channel));
        return most <= std::numeric_limits<std::int32_t>::max();
    }
    // The bytes of [rows][columns] as [columns][rows].
    result<tensor> turned(const tensor& from, std::int64_t rows, std::int64_t columns) {
        tensor to;
        GRAFT_TRY_ASSIGN(to, tensor::make(from.type(), {columns, rows}, with_.budget));
        const std::byte* const a = from.raw();
        std::byte* const b = to.raw();
        parallel_for(with_.pool, columns, [&](std::int64_t c) {
            for (std::int64_t r = 0; r < rows; ++r) b[c * rows + r] = a[r * columns + c];
        });
        return to;
    }
    GRAFT_COLD status pack(node& n, value_id image, cpu::quantized_conv_problem p, const codes& x, const codes& y, const constants& k,
                           std::int64_t per_channel) {
        const std::int64_t scales = k.scale.elements(), zeros = k.zero ? k.zero.elements() : 0;
        tensor weight, scale, bias;
        GRAFT_TRY_ASSIGN(weight, k.weight.to_read_once());
        const bool columns = per_channel == 0;
        if (columns) {
            per_channel = p.ic;
            GRAFT_TRY_ASSIGN(weight, turned(weight, p.ic, p.oc));
        }
        GRAFT_TRY_ASSIGN(scale, tensor::make(dtype::float32, {p.oc}, with_.budget));
        GRAFT_TRY_ASSIGN(bias, tensor::make(dtype::int32, {p.oc}, with_.budget));
        bool steps_fit = true, large = false;
        for (std::int64_t m = 0; m < p.oc; ++m) {
            const float of_weight = k.scale.data<float>()[scales == 1 ? 0 : m], of_sum = x.scale * of_weight;
            double steps = 0;
            if (k.bias) steps = element_as_double(k.bias.type(), k.bias.raw(), m);
            if (k.bias && k.bias.type() == dtype::float32) steps = std::nearbyint(steps / (static_cast<double>(x.scale) * static_cast<double>(of_weight)));
            scale.data<float>()[m] = of_sum / y.scale;
            // What leaves int32, or has no scale, is the reals' to compute.
            if (!std::isnormal(of_sum) || of_sum < 0 || !std::isnormal(scale.data<float>()[m]) || !stays_in_int32(k, weight, m, per_channel, steps)) return {};
            large |= std::fabs(steps) > most_steps;
            bias.data<std::int32_t>()[m] = static_cast<std::int32_t>(steps);
            steps_fit &= cpu::steps_fit_int32(p, scale.data<float>()[m], std::fabs(steps));
        }
        p.tiles = !p.matrix && !p.grouped() && cpu::multiplies_tiles(level_) && cpu::prefers_tiles(p);
        const bool may = steps_fit && cpu::multiplies_bytes(level_) && (!p.tiles || cpu::takes_quantized_tiles(p)),
                   fit = may && fit_bytes(k, weight, p.oc, per_channel, 1);
        p.wide = may && !fit;
        p.bytes = fit || (p.wide && cpu::takes_quantized_conv(p) && fit_bytes(k, weight, p.oc, per_channel, 2));
        p.wide &= p.bytes;
        if (large && !p.bytes) return {};
        p.tiles &= p.bytes;
        p.signed_pixels = p.bytes && !p.tiles && cpu::multiplies_signed_pixels(level_);
        p.planes = p.tiles && cpu::takes_quantized_planes(p);
        if (p.matrix && !p.bytes) return {};
        p.few = p.matrix || cpu::prefers_few_pixels(p);
        p.winograd = cpu::takes_quantized_winograd(p);
        std::string key = "quantized conv " + std::to_string(p.bytes) + std::to_string(p.tiles) + std::to_string(p.planes) + std::to_string(p.wide) +
                          std::to_string(p.few) + std::to_string(p.winograd) + std::to_string(p.matrix) + std::to_string(columns) + " " +
                          std::to_string(p.groups);
        for (std::int64_t m = 0; m < (zeros > 1 ? p.oc : 1); ++m) key += " " + std::to_string(zero_of(k, m));
        // Differences of all rows, which the bias may be less the sum of; `to` (or null): where they are packed.
        const auto read_rows = [&](void* to) {
            parallel_for(with_.pool, p.blocks(), [&](std::int64_t block) {
                const std::int64_t first = block * p.rows(), last = std::min<std::int64_t>(first + p.rows(), p.oc);
                std::vector<std::int16_t> differences(static_cast<std::size_t>((last - first) * per_channel));
                for (std::int64_t m = first; m < last; ++m) {
                    std::int16_t* const row = differences.data() + (m - first) * per_channel;
                    k.weight.type() == dtype::int8 ? subtract(weight.data<std::int8_t>() + m * per_channel, per_channel, zero_of(k, m), row)
                                                   : subtract(weight.data<std::uint8_t>() + m * per_channel, per_channel, zero_of(k, m), row);
                    bias.data<std::int32_t>()[m] = cpu::quantized_bias(p, row, bias.data<std::int32_t>()[m]);
                }
                if (to) cpu::pack_quantized_rows(p, block, differences.data(), to);
            });
        };
        bool found = true;
        const auto fill = [&](tensor& data) -> status {
            read_rows(data.raw());
            found = false;
            return {};
        };
        tensor packed;
        GRAFT_TRY_ASSIGN(packed, packed_once(with_, k.weight, key, dtype::uint8, {cpu::packed_quantized_bytes(p)}, fill));
        if (found && p.unsigned_pixels()) read_rows(nullptr);
        const value_id weights = g.add_constant(n.name + "_packed", std::move(packed)), scale_id = g.add_constant(n.name + "_scale", std::move(scale)),
                       bias_id = g.add_constant(n.name + "_bias", std::move(bias));
        edit(n, [&] {
            become(n, "QuantizedConv", "graft");
            n.inputs = {image, weights, scale_id, bias_id};
            n.attributes.clear();
            cpu::set_problem(n, p);
        });
        return {};
    }

    cpu::isa level_;
    bool pairs_pay_ = false;
};

}  // namespace detail
GRAFT_END_NAMESPACE
