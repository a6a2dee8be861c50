// Bodies of passes/microsoft_operators.hpp.
#pragma once

#include "graph_queries.hpp"
#include "microsoft_operators.hpp"
#include "node_writer.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// What each means is the kernel of ONNX Runtime 1.31 and what docs/ContribOperators.md there says of it. What has no form in the operator set that the file
// imports, or is asked of in a way that is not known here, stays as it is and is refused by name later.
class microsoft_operators {
public:
    // `known`: operators that the app brings along, which stay.
    microsoft_operators(graph& g, op_table known) : g_(g), known_(known), write_(g, "written_out") {}

    // Errors: memory.oom, model.too_large (more nodes than the limit).
    GRAFT_COLD status run(const limits& limit) {
        std::vector<node> all = std::move(g_.nodes);
        g_.nodes.clear();
        for (node& n : all) {
            const form* f = form_of(n);
            const bool takes = f && n.inputs.size() >= f->inputs && n.inputs[0] != no_value && !n.outputs.empty() && n.outputs[0] != no_value;
            if (!takes || !(this->*f->write)(n, f->as)) g_.nodes.push_back(std::move(n));
            if (static_cast<std::int64_t>(g_.nodes.size()) > limit.nodes)
                return fail(errc::model_too_large, "graph '" + g_.name + "'",
                            "with operators of com.microsoft written out it has more nodes than the limit of " + std::to_string(limit.nodes));
        }
        if (!has(g_)) g_.opsets.erase(std::remove_if(g_.opsets.begin(), g_.opsets.end(), [](const opset& o) { return o.domain == domain; }), g_.opsets.end());
        return std::move(write_.failure);
    }

    static bool has(const graph& g) {
        return std::any_of(g.nodes.begin(), g.nodes.end(), [](const node& n) { return n.domain == domain || is_early_norm(n); });
    }

private:
    using attributes = std::vector<attribute>;
    using member = bool (microsoft_operators::*)(const node&, const char* as);
    struct form {
        const char* op;
        std::size_t inputs;  // at least, of which the first is given
        const char* as;      // the operator of ONNX
        member write;        // false: not in this form; nothing was written
    };
    static constexpr const char* domain = "com.microsoft";

    const form* form_of(const node& n) const {
        static constexpr form forms[] = {
            {"QLinearAdd", 7, "Add", &microsoft_operators::quantized_pair},
            {"QLinearMul", 7, "Mul", &microsoft_operators::quantized_pair},
            {"QLinearSigmoid", 4, "Sigmoid", &microsoft_operators::quantized_one},
            {"QLinearLeakyRelu", 4, "LeakyRelu", &microsoft_operators::quantized_one},
            {"QLinearSoftmax", 4, "Softmax", &microsoft_operators::quantized_one},
            {"QLinearGlobalAveragePool", 4, "GlobalAveragePool", &microsoft_operators::quantized_one},
            {"QLinearAveragePool", 4, "AveragePool", &microsoft_operators::quantized_one},
            {"QLinearConcat", 5, "Concat", &microsoft_operators::quantized_concat},
            {"QLinearWhere", 8, "Where", &microsoft_operators::quantized_where},
            {"QLinearConv", 8, "QLinearConv", &microsoft_operators::quantized_conv},
            {"QGemm", 6, "Gemm", &microsoft_operators::quantized_gemm},
            {"MatMulIntegerToFloat", 4, "MatMul", &microsoft_operators::integer_product},
            {"DynamicQuantizeMatMul", 3, "MatMul", &microsoft_operators::dynamic_product},
            {"NhwcMaxPool", 1, "MaxPool", &microsoft_operators::channels_last},
            {"FusedConv", 2, "Conv", &microsoft_operators::fused_conv},
            {"FusedGemm", 2, "Gemm", &microsoft_operators::fused_gemm},
            {"FusedMatMul", 2, "MatMul", &microsoft_operators::fused_matmul},
            {"TransposeMatMul", 2, "MatMul", &microsoft_operators::fused_matmul},
            {"Gelu", 1, "Gelu", &microsoft_operators::gelu},
            {"BiasGelu", 2, "Gelu", &microsoft_operators::gelu},
            {"FastGelu", 1, "Gelu", &microsoft_operators::fast_gelu},
            {"QuickGelu", 1, "Sigmoid", &microsoft_operators::quick_gelu},
            {"SkipLayerNormalization", 3, "LayerNormalization", &microsoft_operators::skip_norm},
            {"Attention", 2, "MatMul", &microsoft_operators::attention},
            {"MultiHeadAttention", 3, "MatMul", &microsoft_operators::multi_head_attention},
            {"QuantizeLinear", 2, "QuantizeLinear", &microsoft_operators::same},
            {"DequantizeLinear", 2, "DequantizeLinear", &microsoft_operators::same},
            {"GridSample", 2, "GridSample", &microsoft_operators::same},
            {"Trilu", 1, "Trilu", &microsoft_operators::same},
            {"Pad", 2, "Pad", &microsoft_operators::same},
        };
        static constexpr form early_norm = {"LayerNormalization", 2, "LayerNormalization", &microsoft_operators::norm};
        if (is_early_norm(n)) return &early_norm;
        if (n.domain != domain) return nullptr;
        for (const op_row& row : known_)
            if (n.domain == row.domain && n.op_type == row.name) return nullptr;
        const form* f = std::find_if(std::begin(forms), std::end(forms), [&](const form& one) { return n.op_type == one.op; });
        return f != std::end(forms) ? f : nullptr;
    }
    // ONNX Runtime writes LayerNormalization into files of operator sets that do not have it yet.
    static bool is_early_norm(const node& n) { return n.domain.empty() && n.op_type == "LayerNormalization" && n.version < 17; }

    // -- what is written --

    int version() const { return g_.version_of(""); }
    bool exists(const char* op) const { return ops::find_op("", op, version()) != nullptr; }
    static value_id in(const node& n, std::size_t i) { return i < n.inputs.size() ? n.inputs[i] : no_value; }
    // By value, as every new node moves the graph's values; empty where it is none.
    tensor constant(value_id id) const { return id != no_value ? g_.at(id).constant : tensor(); }
    std::string stem(const node& n) const { return g_.at(n.outputs[0]).name; }
    static std::int64_t integer(const node& n, const char* name, std::int64_t otherwise) {
        const attribute* a = n.find(name);
        return a ? a->integer : otherwise;
    }
    static float real(const node& n, const char* name, float otherwise) {
        const attribute* a = n.find(name);
        return a ? a->real : otherwise;
    }
    // The node's attributes but for those that ONNX's operator does not have.
    static attributes without(const node& n, std::initializer_list<const char*> names) {
        attributes kept;
        for (const attribute& a : n.attributes)
            if (std::none_of(names.begin(), names.end(), [&](const char* name) { return a.name == name; })) kept.push_back(a);
        return kept;
    }
    // The rank of a value as far as the file tells; 0: it does not.
    int rank(value_id id) const {
        if (id == no_value) return 0;
        const value& v = g_.at(id);
        return v.constant ? v.constant.shape().rank() : v.has_shape ? v.extents.rank() : 0;
    }
    GRAFT_COLD value_id add(const node& n, const char* op, std::vector<value_id> inputs, attributes with = {}) {
        return write_.add(op, stem(n), trimmed(std::move(inputs)), std::move(with));
    }
    // The last node, which makes what `n` did.
    GRAFT_COLD bool finish(const node& n, const char* op, std::vector<value_id> inputs, attributes with = {}) {
        node last;
        last.name = n.name;
        last.inputs = trimmed(std::move(inputs));
        last.outputs = {n.outputs[0]};
        last.attributes = std::move(with);
        write_.become(last, op);
        g_.nodes.push_back(std::move(last));
        return true;
    }
    static std::vector<value_id> trimmed(std::vector<value_id> inputs) {
        while (!inputs.empty() && inputs.back() == no_value) inputs.pop_back();
        return inputs;
    }

    // -- in eight bits --

    // Whether scales are one number, or may be told along an axis.
    GRAFT_COLD bool scales(value_id scale, bool along_axis) const {
        const tensor t = constant(scale);
        return !t || t.elements() == 1 || (along_axis && version() >= 13);
    }
    GRAFT_COLD value_id dequantized(const node& n, value_id codes, value_id scale, value_id zero, std::int64_t axis = 1) {
        const tensor t = constant(scale);
        return add(n, "DequantizeLinear", {codes, scale, zero}, t && t.elements() > 1 ? attributes{integer_attribute("axis", axis)} : attributes());
    }
    value_id dequantized_at(const node& n, std::size_t i) { return dequantized(n, in(n, i), in(n, i + 1), in(n, i + 2)); }
    bool quantize(const node& n, value_id y, value_id scale, value_id zero) { return finish(n, "QuantizeLinear", {y, scale, zero}); }
    GRAFT_COLD bool quantized_pair(const node& n, const char* as) {
        const value_id a = dequantized_at(n, 0), b = dequantized_at(n, 3);
        return quantize(n, add(n, as, {a, b}), in(n, 6), in(n, 7));
    }
    GRAFT_COLD bool quantized_one(const node& n, const char* as) {
        attributes with = without(n, {"channels_last", "opset"});
        if (!exists(as)) return false;
        // Of old, all axes from `axis` on were one.
        if (n.op_type == "QLinearSoftmax" && (integer(n, "opset", 13) < 13) != (version() < 13) && integer(n, "axis", -1) != -1) return false;
        const bool last = integer(n, "channels_last", 0) != 0;
        int axes = rank(n.inputs[0]);
        if (const attribute* kernel = n.find("kernel_shape")) axes = static_cast<int>(kernel->integers.size()) + 2;
        if (last && axes < 3) return false;
        value_id x = dequantized_at(n, 0);
        if (last) x = turned(n, x, axes, true);
        value_id y = add(n, as, {x}, std::move(with));
        if (last) y = turned(n, y, axes, false);
        return quantize(n, y, in(n, 3), in(n, 4));
    }
    GRAFT_COLD bool quantized_concat(const node& n, const char* as) {
        if ((n.inputs.size() - 2) % 3 != 0) return false;
        std::vector<value_id> parts;
        for (std::size_t i = 2; i < n.inputs.size(); i += 3) parts.push_back(dequantized_at(n, i));
        return quantize(n, add(n, as, std::move(parts), n.attributes), in(n, 0), in(n, 1));
    }
    GRAFT_COLD bool quantized_where(const node& n, const char* as) {
        const value_id a = dequantized_at(n, 1), b = dequantized_at(n, 4);
        return quantize(n, add(n, as, {in(n, 0), a, b}), in(n, 7), in(n, 8));
    }
    GRAFT_COLD bool quantized_conv(const node& n, const char* as) {
        if (!integer(n, "channels_last", 0)) return finish(n, as, n.inputs, without(n, {"channels_last"}));
        const int axes = rank(in(n, 3));
        if (axes < 3) return false;
        std::vector<value_id> inputs = n.inputs;
        inputs[0] = turned(n, inputs[0], axes, true);
        return finish_turned(n, add(n, as, std::move(inputs), without(n, {"channels_last"})), axes);
    }
    GRAFT_COLD bool quantized_gemm(const node& n, const char* as) {
        const bool turned_b = integer(n, "transB", 0) != 0;
        if (!scales(in(n, 1), false) || !scales(in(n, 4), true)) return false;
        const value_id a = dequantized_at(n, 0), b = dequantized(n, in(n, 3), in(n, 4), in(n, 5), turned_b ? 0 : 1);
        value_id bias = in(n, 6);
        if (bias != no_value) {
            bias = add(n, "Cast", {bias}, {integer_attribute("to", static_cast<std::int64_t>(dtype::float32))});
            bias = add(n, "Mul", {bias, add(n, "Mul", {in(n, 1), in(n, 4)})});
        }
        attributes with = n.attributes;
        with.push_back(real_attribute("beta", real(n, "alpha", 1)));
        if (in(n, 7) == no_value) return finish(n, as, {a, b, bias}, std::move(with));
        return quantize(n, add(n, as, {a, b, bias}, std::move(with)), in(n, 7), in(n, 8));
    }
    // Y = A * B + bias, in reals, of what codes stand for.
    GRAFT_COLD bool integer_product(const node& n, const char* as) {
        const tensor b = constant(in(n, 1));
        if (!scales(in(n, 2), false) || !scales(in(n, 3), bool(b))) return false;
        const value_id x = dequantized(n, in(n, 0), in(n, 2), in(n, 4));
        return product_of(n, as, x, dequantized(n, in(n, 1), in(n, 3), in(n, 5), b ? b.shape().rank() - 1 : 1), in(n, 6));
    }
    GRAFT_COLD bool dynamic_product(const node& n, const char* as) {
        const tensor b = constant(in(n, 1));
        if (!exists("DynamicQuantizeLinear") || !scales(in(n, 2), bool(b))) return false;
        const value_id codes = add(n, "DynamicQuantizeLinear", {in(n, 0)});
        const std::string name = g_.at(codes).name;
        const value_id scale = g_.add_value(name + "_scale"), zero = g_.add_value(name + "_zero_point");
        g_.nodes.back().outputs = {codes, scale, zero};
        const value_id x = dequantized(n, codes, scale, zero);
        return product_of(n, as, x, dequantized(n, in(n, 1), in(n, 2), in(n, 3), b ? b.shape().rank() - 1 : 1), in(n, 4));
    }
    GRAFT_COLD bool product_of(const node& n, const char* as, value_id a, value_id b, value_id bias) {
        return bias == no_value ? finish(n, as, {a, b}) : finish(n, "Add", {add(n, as, {a, b}), bias});
    }

    // -- channels last --

    // [N, ..., C] as [N, C, ...], or back.
    value_id turned(const node& n, value_id x, int axes, bool to_second) { return add(n, "Transpose", {x}, {order_of(axes, to_second)}); }
    bool finish_turned(const node& n, value_id y, int axes) { return finish(n, "Transpose", {y}, {order_of(axes, false)}); }
    static attribute order_of(int axes, bool to_second) {
        std::vector<std::int64_t> order{0};
        if (to_second) order.push_back(axes - 1);
        for (int a = 1; a + 1 < axes; ++a) order.push_back(to_second ? a : a + 1);
        if (!to_second) order.push_back(1);
        return integers_attribute("perm", std::move(order));
    }
    GRAFT_COLD bool channels_last(const node& n, const char* as) {
        const attribute* kernel = n.find("kernel_shape");
        if (!kernel) return false;
        const int axes = static_cast<int>(kernel->integers.size()) + 2;
        return finish_turned(n, add(n, as, {turned(n, in(n, 0), axes, true)}, n.attributes), axes);
    }

    // -- several operators in one --

    // An activation by name, and how many numbers it has: alpha and beta, of Clip the bounds.
    struct activation_form {
        const char* op;
        std::size_t numbers;
    };
    static const activation_form* find_activation(const std::string& name) {
        static constexpr activation_form all[] = {{"Relu", 0},      {"Tanh", 0}, {"Sigmoid", 0}, {"Softplus", 0},        {"Softsign", 0},
                                                  {"LeakyRelu", 1}, {"Elu", 1},  {"Clip", 2},    {"ThresholdedRelu", 1}, {"HardSigmoid", 2}};
        const auto* found = std::find_if(std::begin(all), std::end(all), [&](const activation_form& one) { return name == one.op; });
        return found != std::end(all) ? found : nullptr;
    }
    // Of x, as what `n` makes.
    GRAFT_COLD bool activated(const node& n, value_id x, const activation_form& activation, const std::vector<float>& numbers) {
        attributes with;
        const bool clip = std::string(activation.op) == "Clip", old = version() < 11;
        static constexpr const char *names[] = {"alpha", "beta"}, *bounds[] = {"min", "max"};
        std::vector<value_id> inputs{x};
        for (std::size_t i = 0; i < activation.numbers && i < numbers.size(); ++i) {
            if (clip && !old)
                inputs.push_back(write_.number(stem(n), static_cast<double>(numbers[i])));
            else
                with.push_back(real_attribute(clip ? bounds[i] : names[i], numbers[i]));
        }
        return finish(n, activation.op, std::move(inputs), std::move(with));
    }
    static std::string text(const node& n, const char* name) {
        const attribute* a = n.find(name);
        return a ? a->string : std::string();
    }
    // Y = activation(conv(X, W) + B + Z)
    GRAFT_COLD bool fused_conv(const node& n, const char* as) {
        const std::string name = text(n, "activation");
        const activation_form* activation = find_activation(name);
        if (!name.empty() && !activation) return false;
        attributes with = without(n, {"activation", "activation_params"});
        const value_id x = in(n, 0), w = in(n, 1), b = in(n, 2), z = in(n, 3);
        if (name.empty() && z == no_value) return finish(n, as, {x, w, b}, std::move(with));
        const value_id sum = add(n, as, {x, w, b}, std::move(with));
        if (name.empty()) return finish(n, "Add", {sum, z});
        const attribute* numbers = n.find("activation_params");
        return activated(n, z == no_value ? sum : add(n, "Add", {sum, z}), *activation, numbers ? numbers->reals : std::vector<float>());
    }
    GRAFT_COLD bool fused_gemm(const node& n, const char* as) {
        const std::string name = text(n, "activation");
        const activation_form* activation = find_activation(name);
        attributes with = without(n, {"activation", "activation_alpha", "activation_beta", "activation_gamma"});
        if (name.empty()) return finish(n, as, n.inputs, std::move(with));
        if (!activation || name == "Clip") return false;
        std::vector<float> numbers;
        for (const char* number : {"activation_alpha", "activation_beta"})
            if (const attribute* a = n.find(number)) numbers.push_back(a->real);
        return activated(n, add(n, as, n.inputs, std::move(with)), *activation, numbers);
    }
    // Y = alpha * A * B, each perhaps transposed.
    GRAFT_COLD bool fused_matmul(const node& n, const char* as) {
        if (integer(n, "transBatchA", 0) || integer(n, "transBatchB", 0)) return false;
        static constexpr const char* transposed[] = {"transA", "transB"};
        value_id operands[] = {in(n, 0), in(n, 1)};
        for (int i = 0; i < 2; ++i)
            if (integer(n, transposed[i], 0) && rank(operands[i]) == 0) return false;
        for (int i = 0; i < 2; ++i) {
            const int axes = rank(operands[i]);
            if (!integer(n, transposed[i], 0) || axes < 2) continue;
            std::vector<std::int64_t> order;
            for (int a = 0; a + 2 < axes; ++a) order.push_back(a);
            order.push_back(axes - 1), order.push_back(axes - 2);
            operands[i] = add(n, "Transpose", {operands[i]}, {integers_attribute("perm", std::move(order))});
        }
        const double alpha = static_cast<double>(real(n, "alpha", 1));
        if (alpha == 1) return finish(n, as, {operands[0], operands[1]});
        return finish(n, "Mul", {add(n, as, {operands[0], operands[1]}), write_.number(stem(n), alpha)});
    }
    value_id biased(const node& n) { return in(n, 1) == no_value ? in(n, 0) : add(n, "Add", {in(n, 0), in(n, 1)}); }
    value_id times(const node& n, value_id x, double by) { return add(n, "Mul", {x, write_.number(stem(n), by)}); }
    value_id plus(const node& n, value_id x, double by) { return add(n, "Add", {x, write_.number(stem(n), by)}); }
    // x * (1 + erf(x / sqrt 2)) / 2 (Hendrycks and Gimpel, 2016)
    GRAFT_COLD bool gelu(const node& n, const char* as) {
        const value_id x = biased(n);
        if (version() >= 20) return finish(n, as, {x});
        const value_id erf = plus(n, add(n, "Erf", {times(n, x, std::sqrt(0.5))}), 1);
        return finish(n, "Mul", {add(n, "Mul", {x, erf}), write_.number(stem(n), 0.5)});
    }
    // x * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
    GRAFT_COLD bool fast_gelu(const node& n, const char* as) {
        const value_id x = biased(n);
        if (version() >= 20) return finish(n, as, {x}, {string_attribute("approximate", "tanh")});
        constexpr double root = 0.79788456080286536;
        const value_id slope = plus(n, times(n, add(n, "Mul", {x, x}), 0.044715 * root), root);
        const value_id tanh = plus(n, add(n, "Tanh", {add(n, "Mul", {x, slope})}), 1);
        return finish(n, "Mul", {add(n, "Mul", {x, tanh}), write_.number(stem(n), 0.5)});
    }
    GRAFT_COLD bool quick_gelu(const node& n, const char* as) {
        const value_id x = in(n, 0);
        return finish(n, "Mul", {x, add(n, as, {times(n, x, static_cast<double>(real(n, "alpha", 1.702f)))})});
    }

    // LayerNormalization of x along its last axis (Ba et al., 2016).
    GRAFT_COLD bool normalize(const node& n, value_id x, value_id scale, value_id shift) {
        const float epsilon = real(n, "epsilon", n.domain == domain ? 1e-12f : 1e-5f);
        if (version() >= 17) return finish(n, "LayerNormalization", {x, scale, shift}, {integer_attribute("axis", -1), real_attribute("epsilon", epsilon)});
        const auto mean = [&](value_id of) { return add(n, "ReduceMean", {of}, {integers_attribute("axes", {-1})}); };
        const value_id centred = add(n, "Sub", {x, mean(x)}), two = write_.number(stem(n), 2);
        const value_id deviation = add(n, "Sqrt", {plus(n, mean(add(n, "Pow", {centred, two})), static_cast<double>(epsilon))});
        const value_id scaled = add(n, "Div", {centred, deviation});
        if (shift == no_value) return finish(n, "Mul", {scaled, scale});
        return finish(n, "Add", {add(n, "Mul", {scaled, scale}), shift});
    }
    static bool wants_beyond(const node& n, std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < n.outputs.size() && i < last; ++i)
            if (n.outputs[i] != no_value) return true;
        return false;
    }
    GRAFT_COLD bool norm(const node& n, const char*) {
        const std::int64_t axis = integer(n, "axis", -1);
        const int axes = rank(n.inputs[0]);
        if (wants_beyond(n, 1, n.outputs.size()) || (axis != -1 && axis != axes - 1)) return false;
        return normalize(n, n.inputs[0], n.inputs[1], in(n, 2));
    }
    // The norm of input + skip + bias; that sum is the fourth output.
    GRAFT_COLD bool skip_norm(const node& n, const char*) {
        if (wants_beyond(n, 1, 3)) return false;
        value_id sum = add(n, "Add", {in(n, 0), in(n, 1)});
        if (in(n, 4) != no_value) sum = add(n, "Add", {sum, in(n, 4)});
        if (n.outputs.size() > 3 && n.outputs[3] != no_value) g_.nodes.back().outputs = {sum = n.outputs[3]};
        return normalize(n, sum, in(n, 2), in(n, 3));
    }

    // -- attention (Vaswani et al., 2017) without masks, pasts and presents --

    static bool plain(const node& n, std::size_t from) {
        for (std::size_t i = from; i < n.inputs.size(); ++i)
            if (n.inputs[i] != no_value) return false;
        return !integer(n, "unidirectional", 0) && !integer(n, "do_rotary", 0) && !wants_beyond(n, 1, n.outputs.size());
    }
    value_id reshaped(const node& n, value_id x, const std::vector<std::int64_t>& to) { return add(n, "Reshape", {x, write_.integers(stem(n), to)}); }
    GRAFT_COLD value_id permuted(const node& n, value_id x, std::vector<std::int64_t> order) {
        return add(n, "Transpose", {x}, {integers_attribute("perm", std::move(order))});
    }
    // q [batch, heads, rows, depth], k [batch, heads, depth, columns], v [batch, heads, columns, depth].
    GRAFT_COLD bool attend(const node& n, value_id q, value_id k, value_id v, double scale) {
        const value_id scores = add(n, "Softmax", {times(n, add(n, "MatMul", {q, k}), scale)}, {integer_attribute("axis", -1)});
        const value_id rows = permuted(n, add(n, "MatMul", {scores, v}), {0, 2, 1, 3});
        return finish(n, "Reshape", {rows, write_.integers(stem(n), {0, 0, -1})});
    }
    static double scale_of(const node& n, std::int64_t depth) {
        const double given = static_cast<double>(real(n, "scale", 0));
        return given != 0 ? given : 1 / std::sqrt(static_cast<double>(depth));
    }
    // Input [batch, rows, features] by weights [features, 3 * heads * depth]: queries, keys and values side by side.
    GRAFT_COLD bool attention(const node& n, const char* as) {
        const std::int64_t heads = integer(n, "num_heads", 0);
        const tensor weights = constant(in(n, 1));
        if (heads < 1 || !weights || weights.shape().rank() != 2 || n.find("qkv_hidden_sizes") || !plain(n, 3)) return false;
        const std::int64_t all = weights.shape()[1];
        if (heads > all / 3 || all % (3 * heads) != 0) return false;
        value_id x = add(n, as, {in(n, 0), in(n, 1)});
        if (in(n, 2) != no_value) x = add(n, "Add", {x, in(n, 2)});
        x = reshaped(n, x, {0, 0, 3, heads, all / 3 / heads});
        const auto part = [&](std::int64_t i, std::vector<std::int64_t> order) {
            auto which = tensor::make(dtype::int64, shape{});
            if (!which.ok()) return write_.mistake(which.take_status()), no_value;
            which->data<std::int64_t>()[0] = i;
            return permuted(n, add(n, "Gather", {x, write_.constant(stem(n), std::move(which).value())}, {integer_attribute("axis", 2)}), std::move(order));
        };
        const value_id q = part(0, {0, 2, 1, 3}), k = part(1, {0, 2, 3, 1}), v = part(2, {0, 2, 1, 3});
        return attend(n, q, k, v, scale_of(n, all / 3 / heads));
    }
    // Queries, keys and values [batch, rows, heads * depth] in three inputs, and a bias of all three.
    GRAFT_COLD bool multi_head_attention(const node& n, const char*) {
        const std::int64_t heads = integer(n, "num_heads", 0);
        const tensor bias = constant(in(n, 3));
        if (heads < 1 || in(n, 1) == no_value || in(n, 2) == no_value || !plain(n, 4) || (in(n, 3) != no_value && !bias)) return false;
        if (rank(in(n, 1)) == 4 || rank(in(n, 2)) == 4) return false;
        const value& query = g_.at(in(n, 0));
        const std::int64_t features = bias ? bias.elements() / 3 : query.has_shape && query.extents.rank() == 3 ? query.extents[2] : 0;
        if (features < heads || features % heads != 0 || (bias && (bias.type() != dtype::float32 || bias.elements() != 3 * features))) return false;
        const auto part = [&](std::size_t i, std::vector<std::int64_t> order) {
            value_id x = n.inputs[i];
            if (bias) {
                const float* const from = bias.data<float>() + static_cast<std::int64_t>(i) * features;
                x = add(n, "Add", {x, write_.constant(stem(n), std::vector<float>(from, from + features), shape{features})});
            }
            return permuted(n, reshaped(n, x, {0, 0, heads, features / heads}), std::move(order));
        };
        const value_id q = part(0, {0, 2, 1, 3}), k = part(1, {0, 2, 3, 1}), v = part(2, {0, 2, 1, 3});
        return attend(n, q, k, v, scale_of(n, features / heads));
    }

    // ONNX has the operator under the same name, and has had it since.
    GRAFT_COLD bool same(const node& n, const char* as) {
        const bool old_axis = n.find("axis") && version() < 13;
        return exists(as) && !(old_axis && n.op_type != "Pad") ? finish(n, as, n.inputs, n.attributes) : false;
    }

    graph& g_;
    op_table known_;
    node_writer write_;
};

}  // namespace detail

GRAFT_INLINE GRAFT_COLD bool has_microsoft_operators(const graph& g) { return detail::microsoft_operators::has(g); }
GRAFT_INLINE GRAFT_COLD status write_out_microsoft_operators(graph& g, const op_table& known, const limits& limit) {
    if constexpr (wanted("microsoft"))
        if (has_microsoft_operators(g)) return detail::microsoft_operators(g, known).run(limit);
    return {};
}

GRAFT_END_NAMESPACE
