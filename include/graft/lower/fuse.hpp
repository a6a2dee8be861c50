// Fusion for the CPU: batch normalisation into weights; activations and residual sums into the kernels that make their input.
#pragma once

#include "../graph/activation.hpp"
#include "../core/number_text.hpp"
#include "../ops/channel_affine.hpp"
#include "../ops/product_batches.hpp"
#include "pattern.hpp"

#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Weights [rows][channels][inner] times a factor for each channel, or one for all. Made when they are packed, one layer after another, and not at all where
// they have been.
class scaled_weights final : public buffer::maker {
public:
    scaled_weights(tensor weight, tensor factors, std::int64_t channels, std::int64_t inner, std::shared_ptr<memory_budget> budget)
        : weight_(std::move(weight)), factors_(std::move(factors)), channels_(channels), inner_(inner), budget_(std::move(budget)) {}
    GRAFT_COLD ~scaled_weights() override {}
    result<buffer> make() const override {
        buffer made;
        GRAFT_TRY_ASSIGN(made, buffer::allocate(weight_.bytes(), budget_));
        if (!weight_.bytes()) return made;
        std::memcpy(made.data(), weight_.storage().unaligned(), weight_.bytes());
        weight_.storage().let_go();
        float *w = reinterpret_cast<float*>(made.data()), *const end = w + weight_.elements();
        const float* const by = factors_.data<float>();
        const std::int64_t step = factors_.elements() == 1 ? 0 : 1;
        while (w < end)
            for (std::int64_t c = 0; c < channels_; ++c)
                for (std::int64_t i = 0; i < inner_; ++i) *w++ *= by[c * step];
        return made;
    }

private:
    tensor weight_, factors_;
    std::int64_t channels_, inner_;
    std::shared_ptr<memory_budget> budget_;
};

// Lowered operators that end in an epilogue; attributes "activation", "alpha", "beta", "residual" (1: before the activation,
// 2: after it), the residual itself as the last input.
//   graft.Conv(X, W, B?, R?)          as Conv
//   graft.MatMul(A, B, bias?, R?)     Y = A * B (+ bias along the last axis); attributes transA, transB
//   graft.ScaleShift(X, scale, shift) per channel (axis 1)
//   graft.Sum(A, B)                   same shapes
// A value whose shape only a run can tell has no type here either (specialize takes it away), so what is float32 has a known shape.
class fuser : public rewriter {
public:
    fuser(graph& target, const lowering& with) : rewriter(target, with.on), with_(with) {}

    // Errors: memory.oom; the graph is of no use then.
    GRAFT_COLD status run() {
        static constexpr rewrite<fuser> pools[] = {{"ReduceMean", "", &fuser::mean_over_planes}};
        // The lowered operators that take an epilogue.
        static constexpr rewrite<fuser> linear_forms[] = {
            {"Conv", "", &fuser::conv},
            {"MatMul", "", &fuser::matmul},
            {"Gemm", "", &fuser::gemm},
            {"BatchNormalization", "", &fuser::batch_norm},
        };
        // Weights that learn, as torch's linear layers keep them: [columns, rows].
        static constexpr rewrite<fuser> turned_weights[] = {{"MatMul", "graft", &fuser::turned_weight}};
        // Products and sums with per-channel constants behind a convolution or a matrix product go into its weights and bias; on their
        // own, between images, they become ScaleShift, which works in either layout.
        static constexpr rewrite<fuser> scales[] = {{"ScaleShift", "graft", &fuser::affine}, {"Mul", "", &fuser::product}, {"Add", "", &fuser::sum}};
        // A sum goes into the later of the two nodes that make its terms; sums of equal shapes that are left take an epilogue themselves.
        static constexpr rewrite<fuser> residuals[] = {{"Add", "", &fuser::residual}, {"Sum", "", &fuser::residual}};
        sweep(*this, pools);
        if constexpr (wanted("Mul")) composites();
        sweep(*this, linear_forms);
        if constexpr (wanted("Transpose")) sweep(*this, turned_weights);
        sweep(*this, scales);
        activations();
        sweep(*this, residuals);
        activations();
        return std::move(failure_);
    }

private:
    // ReduceMean over height and width is a global average pool.
    GRAFT_COLD void mean_over_planes(node& n) {
        if (n.inputs.empty() || !is_float32(n.inputs[0]) || at(n.inputs[0]).extents.rank() != 4) return;
        std::int64_t axes[2] = {0, 0};
        const attribute* a = n.find("axes");
        if (a && a->integers.size() == 2)
            axes[0] = a->integers[0], axes[1] = a->integers[1];
        else if (!a && n.inputs.size() > 1 && is_constant(n.inputs[1]) && at(n.inputs[1]).constant.elements() == 2)
            for (int k = 0; k < 2; ++k) axes[k] = element_as_int64(at(n.inputs[1]).type, at(n.inputs[1]).constant.raw(), k);
        else
            return;
        for (std::int64_t& axis : axes)
            if (axis < 0) axis += 4;
        if (!((axes[0] == 2 && axes[1] == 3) || (axes[0] == 3 && axes[1] == 2)) || !ops::find_op("", "GlobalAveragePool", newest_opset)) return;
        const bool keep = integer(n, "keepdims", 1) == 1;
        const value_id y = n.outputs[0];
        const shape source = at(n.inputs[0]).extents;
        const value_id x = n.inputs[0];
        if (!keep && !ops::find_op("", "Flatten", newest_opset)) return;
        const value_id pooled = keep ? y : like(y, "_pooled");
        edit(n, [&] {
            become(n, "GlobalAveragePool", "");
            n.inputs = {x};
            n.outputs = {pooled};
            n.attributes.clear();
        });
        if (keep) return;
        at(pooled).extents = {source[0], source[1], 1, 1};
        node flatten;
        flatten.name = n.name;
        become(flatten, "Flatten", "");
        flatten.inputs = {pooled};
        flatten.outputs = {y};
        insert_behind(n, std::move(flatten));
    }

    // Sequences that exporters write for one function of x: x * sigmoid(x), x * hard_sigmoid(x), and the orders of 0.5 * x * (1 + f(x)), where f is
    // erf(x / sqrt 2) or what stands in for it, tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)).
    GRAFT_COLD void composites() {
        struct composite {
            pattern form;
            activation act;
            bool (fuser::*holds)(const node&, const pattern::match&);
        };
        static constexpr const char* orders[][2] = {{"Mul(0.5, Mul(x, Add(1, ", ")))"}, {"Mul(Mul(0.5, x), Add(1, ", "))"}, {"Mul(x, Mul(0.5, Add(1, ", ")))"}};
        static constexpr struct {
            const char* text;
            activation act;
        } functions[] = {
            {"Erf(Div(x, 1.4142135623730951))", activation::gelu},
            {"Erf(Mul(x, 0.70710678118654752))", activation::gelu},
            {"Tanh(Mul(0.7978845608028654, Add(x, Mul(0.044715, Mul(x, Mul(x, x))))))", activation::gelu_tanh},
            {"Tanh(Mul(0.7978845608028654, Add(x, Mul(0.044715, Pow(x, 3)))))", activation::gelu_tanh},
            {"Tanh(Mul(Mul(0.7978845608028654, x), Add(1, Mul(Mul(0.044715, x), x))))", activation::gelu_tanh},
        };
        std::vector<composite> known;
        for (const auto& f : functions)
            for (const auto& order : orders)
                if (activation_wanted(f.act)) known.push_back({pattern((std::string(order[0]) + f.text + order[1]).c_str()), f.act, &fuser::same_shape});
        known.push_back({pattern("Mul(x, Sigmoid(x))"), activation::silu, &fuser::same_shape});
        known.push_back({pattern("Mul(x, HardSigmoid(x))"), activation::hard_swish, &fuser::by_sixths});
        pattern::match m;
        for (node& n : g.nodes)
            for (const composite& c : known) {
                if (!is_float32(n.outputs.empty() ? no_value : n.outputs[0]) || !c.form.matches(*this, n, m) || !(this->*c.holds)(n, m)) continue;
                for (node* inner : m.inner()) drop(*inner);
                activation_node(n, m['x'], c.act, 0, 0);
                break;
            }
        finish();
    }
    bool same_shape(const node& n, const pattern::match& m) { return at(m['x']).extents == at(n.outputs[0]).extents; }
    bool by_sixths(const node&, const pattern::match& m) {
        epilogue e;
        return is_activation(*m.inner()[0], e) && std::fabs(e.alpha - 1.0f / 6) < 1e-5f && e.beta == 0.5f;
    }
    void activation_node(node& n, value_id x, activation kind, float alpha, float beta) {
        edit(n, [&] {
            n.inputs = {x};
            n.attributes.clear();
            become(n, "Activation", "graft");
        });
        set_activation(n, kind, alpha, beta);
    }
    static void set_activation(node& n, activation kind, float alpha, float beta) {
        set(n, "activation", static_cast<std::int64_t>(kind));
        set(n, "alpha", alpha);
        set(n, "beta", beta);
    }

    bool makes_float32(const node& n) { return !n.outputs.empty() && is_float32(n.outputs[0]); }

    // Kernels count in int what a window spans.
    static bool small_window(const node& n, const shape& w) {
        constexpr std::int64_t most = 1 << 27;
        const attribute *dilations = n.find("dilations"), *group = n.find("group");
        for (const char* name : {"strides", "dilations", "pads"})
            if (const attribute* a = n.find(name))
                for (std::int64_t v : a->integers)
                    if (v > most) return false;
        for (std::size_t i = 0; i < 2; ++i)
            if (w[static_cast<int>(i) + 2] > most ||
                (dilations && dilations->integers.size() == 2 && (w[static_cast<int>(i) + 2] - 1) * dilations->integers[i] > most))
                return false;
        return w[2] * w[3] <= most && !(group && group->integer > most);
    }
    GRAFT_COLD void conv(node& n) {
        if (!makes_float32(n)) return;
        const shape &x = at(n.inputs[0]).extents, &w = at(n.inputs[1]).extents, &y = at(n.outputs[0]).extents;
        if (x.rank() == 4 && x.elements() && w.elements() && y.elements() && small_window(n, w)) become(n, "Conv", "graft");
    }
    GRAFT_COLD void matmul(node& n) {
        if (!makes_float32(n)) return;
        const shape &a = at(n.inputs[0]).extents, &b = at(n.inputs[1]).extents;
        const shape& y = at(n.outputs[0]).extents;
        ops::product_batches batches;
        if (a.rank() >= 2 && b.rank() >= 2 && y.elements() && a.back() && ops::join_batches(a, b, y, batches)) become(n, "MatMul", "graft");
    }

    // A matrix B that was turned just before is read as it lay.
    GRAFT_COLD void turned_weight(node& n) {
        const node* const turn = maker(n.inputs[1]);
        if (!turn || !turns_matrix(*turn)) return;
        const value_id as_it_lay = turn->inputs[0];
        edit(n, [&] { n.inputs[1] = as_it_lay; });
        set(n, "transB", std::int64_t(integer(n, "transB", 0) ? 0 : 1));
    }

    // Gemm whose bias runs along the columns, and whose factors can be folded into constants.
    GRAFT_COLD void gemm(node& n) {
        const float alpha = real(n, "alpha", 1), beta = real(n, "beta", 1);
        const bool bias = n.inputs.size() > 2 && n.inputs[2] != no_value;
        if (!makes_float32(n) || n.version < 7 || at(n.inputs[0]).extents.rank() != 2 || !at(n.inputs[0]).extents.elements() ||
            !at(n.outputs[0]).extents.elements())
            return;
        const std::int64_t columns = at(n.outputs[0]).extents[1];
        if (bias) {
            const shape& c = at(n.inputs[2]).extents;
            if (!is_float32(n.inputs[2]) || c.rank() < 1 || c.back() != columns || c.elements() != columns) return;
        }
        const bool scales_bias = bias && beta != 1, scales_weight = alpha != 1;
        // Nothing is scaled before it is known that all can be: what stays a Gemm applies both factors itself.
        if ((scales_bias && !is_constant(n.inputs[2])) || (scales_weight && !is_constant(n.inputs[1]))) return;
        bool scaled = true;
        edit(n, [&] { scaled = (!scales_bias || scale_constant(n.inputs[2], beta)) && (!scales_weight || scale_constant(n.inputs[1], alpha)); });
        if (!scaled) return;
        const std::int64_t trans_a = integer(n, "transA", 0), trans_b = integer(n, "transB", 0);
        n.attributes.clear();
        become(n, "MatMul", "graft");
        if (trans_a) set(n, "transA", trans_a);
        if (trans_b) set(n, "transB", trans_b);
    }
    // Replaces an input by a scaled copy of its constant.
    bool scale_constant(value_id& id, float factor) {
        tensor made;
        if (!copy_floats(id, made)) return false;
        float* const floats = made.data<float>();
        for (std::int64_t i = 0, n = made.elements(); i < n; ++i) floats[i] *= factor;
        derive(made, "times " + shortest_text(static_cast<double>(factor), true), {&at(id).constant});
        id = g.add_constant(at(id).name + "_scaled", std::move(made));
        return true;
    }
    // What is not fused for want of memory would give other sums than are promised, or none at all.
    bool give_up(status why) {
        failure_ = std::move(why);
        return false;
    }
    bool copy_floats(value_id id, tensor& out) {
        if (!is_constant(id) || at(id).type != dtype::float32) return false;
        const tensor& source = at(id).constant;
        auto made = tensor::make(dtype::float32, source.shape(), with_.budget);
        if (!made.ok()) return give_up(made.take_status());
        if (made->bytes()) std::memcpy(made->raw(), source.storage().unaligned(), made->bytes());
        out = std::move(made).value();
        return true;
    }
    // What is made of constants here is made again for every plan; what is packed of it is shared.
    void derive(const tensor& made, const std::string& how, std::initializer_list<const tensor*> sources) {
        if (with_.packed) with_.packed->derive(made, how, sources);
    }

    // y = scale * x + shift with scale = gamma / sqrt(variance + epsilon), in double.
    GRAFT_COLD void batch_norm(node& n) {
        if (integer(n, "training_mode", 0) || integer(n, "spatial", 1) == 0 || at(n.inputs[0]).extents.rank() < 2 || n.inputs.size() < 5) return;
        const std::int64_t channels = at(n.inputs[0]).extents[1];
        for (int i = 1; i < 5; ++i)
            if (!is_constant(n.inputs[static_cast<std::size_t>(i)]) || !is_float32(n.inputs[static_cast<std::size_t>(i)]) ||
                at(n.inputs[static_cast<std::size_t>(i)]).constant.elements() != channels)
                return;
        for (std::size_t i = 1; i < n.outputs.size(); ++i)
            if (n.outputs[i] != no_value) return;
        auto scale = tensor::make(dtype::float32, {channels}), shift = tensor::make(dtype::float32, {channels});
        if (!scale.ok() || !shift.ok()) {
            give_up(scale.ok() ? shift.take_status() : scale.take_status());
            return;
        }
        const double epsilon = static_cast<double>(real(n, "epsilon", 1e-5f));
        const auto p = [&](int i, std::int64_t c) { return static_cast<double>(at(n.inputs[static_cast<std::size_t>(i)]).constant.data<float>()[c]); };
        for (std::int64_t c = 0; c < channels; ++c) {
            const ops::channel_affine y = ops::normalized_channel(p(1, c), p(2, c), p(3, c), p(4, c), epsilon);
            scale->data<float>()[c] = static_cast<float>(y.scale);
            shift->data<float>()[c] = static_cast<float>(y.shift);
        }
        const auto constant = [&](int i) { return &at(n.inputs[static_cast<std::size_t>(i)]).constant; };
        derive(*scale, "batch normalisation's scale " + shortest_text(epsilon, false), {constant(1), constant(4)});
        derive(*shift, "batch normalisation's shift", {constant(2), constant(3), &*scale});
        edit(n, [&] {
            n.inputs = {n.inputs[0], g.add_constant(n.name + "_scale", std::move(scale).value()), g.add_constant(n.name + "_shift", std::move(shift).value())};
            n.outputs.resize(1);
            n.attributes.clear();
            become(n, "ScaleShift", "graft");
        });
    }

    // The factor of output channel c that a constant operand gives, where it is one number or one number a channel.
    bool per_channel(value_id id, const shape& y, int axis) {
        if (!is_constant(id) || at(id).type != dtype::float32) return false;
        const shape& s = at(id).extents;
        if (s.elements() == 1 && s.rank() <= y.rank()) return true;
        for (int d = 1; d <= s.rank(); ++d)
            if (s[s.rank() - d] != 1 && (y.rank() - d != axis || s[s.rank() - d] != y[axis])) return false;
        return s.rank() <= y.rank();
    }

    void affine(node& n) { scale(n, n.inputs[0], n.inputs[1], n.inputs[2], true); }
    void product(node& n) {
        for (std::size_t side = 0; side < 2 && is(n, "Mul"); ++side) scale(n, n.inputs[side], n.inputs[1 - side], no_value, false);
    }
    void sum(node& n) {
        for (std::size_t side = 0; side < 2 && is(n, "Add"); ++side) scale(n, n.inputs[side], no_value, n.inputs[1 - side], false);
        if constexpr (wanted("MatMul"))
            for (std::size_t side = 0; side < 2 && is(n, "Add"); ++side) learning_bias(n, n.inputs[side], n.inputs[1 - side]);
    }
    // A bias that learns is none of the weights, but the product's kernel adds it where it stands.
    GRAFT_COLD void learning_bias(node& n, value_id x, value_id bias) {
        node* const m = maker(x);
        const shape& y = at(n.outputs[0]).extents;
        if (!m || !is(*m, "MatMul", "graft") || !used_once(x) || m->inputs.size() > 2 || m->find("activation") || m->find("residual") || at(x).extents != y)
            return;
        if (!is_float32(bias) || is_constant(bias) || at(bias).extents != shape{y.back()} || maker(bias)) return;
        edit(*m, [&] { m->inputs.push_back(bias); });
        replace(n, *m);
    }
    GRAFT_COLD void scale(node& n, value_id x, value_id factor, value_id term, bool affine) {
        const shape& y = at(n.outputs[0]).extents;
        if (!is_float32(x) || !is_float32(n.outputs[0]) || at(x).extents != y) return;
        node* m = maker(x);
        // Channels that a transposition has brought from the last place to the second, or rows that were others before.
        node* through = nullptr;
        const bool forward = m && is(*m, "Transpose") && brings_channels_forward(*m);
        const bool rows = m && affine && y.rank() == 2 && row(*m).is(op_flag::view) && keeps_columns(*m);
        if ((forward || rows) && used_once(x)) {
            through = m;
            m = used_once(m->inputs[0]) ? maker(m->inputs[0]) : nullptr;
        }
        const bool conv = m && !through && is(*m, "Conv", "graft"), product = m && is(*m, "MatMul", "graft");
        const int axis = conv || affine || through ? 1 : y.rank() - 1;
        if ((conv || (product && (through || !affine || y.rank() == 2))) && used_once(x) && !m->find("activation") && !m->find("residual") &&
            fits_channels(factor, y, axis, affine) && fits_channels(term, y, axis, affine) && absorb(*m, conv, y[axis], factor, term)) {
            replace(n, through ? *through : *m);
            return;
        }
        const value_id constant = factor != no_value ? factor : term;
        if (!affine && y.rank() == 4 && is_constant(constant) && fits_channels(constant, y, 1, false) && at(constant).constant.elements() == y[1] && y[1] > 1) {
            edit(n, [&] {
                n.inputs = {x, factor, term};
                n.attributes.clear();
                become(n, "ScaleShift", "graft");
            });
        }
    }
    // Rows of a matrix, whatever they were rows of before.
    bool keeps_columns(const node& n) {
        const shape &from = at(n.inputs[0]).extents, &to = at(n.outputs[0]).extents;
        return from.rank() > 0 && is_float32(n.inputs[0]) && from.back() == to.back();
    }
    static bool brings_channels_forward(const node& n) {
        const attribute* perm = n.find("perm");
        return perm && perm->integers.size() == 4 && perm->integers[0] == 0 && perm->integers[1] == 3 && perm->integers[2] == 1 && perm->integers[3] == 2;
    }
    bool fits_channels(value_id id, const shape& y, int axis, bool known) { return id == no_value || known || per_channel(id, y, axis); }

    GRAFT_COLD bool absorb(node& m, bool conv, std::int64_t channels, value_id factor, value_id term) {
        const value_id bias_id = m.inputs.size() > 2 ? m.inputs[2] : no_value;
        if (bias_id != no_value && (!is_constant(bias_id) || at(bias_id).constant.elements() != channels)) return false;
        tensor bias, weight;
        auto zeros = tensor::zeros(dtype::float32, {channels});
        if (!zeros.ok()) return give_up(zeros.take_status());
        bias = std::move(zeros).value();
        if (bias_id != no_value) std::memcpy(bias.raw(), at(bias_id).constant.raw(), bias.bytes());
        const auto element = [&](value_id id, std::int64_t c) {
            const tensor& t = at(id).constant;
            return t.data<float>()[t.elements() == 1 ? 0 : c];
        };
        if (factor != no_value) {
            const shape& extents = at(m.inputs[1]).extents;
            // Convolutions have the output channel first; matrix products last, or first of two where B is transposed.
            const bool first = conv || integer(m, "transB", 0);
            const char* const how = first ? "scaled by rows" : "scaled by columns";
            const std::initializer_list<const tensor*> sources = {&at(m.inputs[1]).constant, &at(factor).constant};
            if (with_.packed && is_constant(m.inputs[1])) weight = with_.packed->derived(how, sources);
            if (!weight) {
                if (!is_constant(m.inputs[1]) || at(m.inputs[1]).type != dtype::float32) return false;
                const tensor& from = at(m.inputs[1]).constant;
                auto made =
                    buffer::on_demand(from.bytes(), std::unique_ptr<const buffer::maker>(new scaled_weights(
                                                        from, at(factor).constant, channels, first ? extents.product(1, extents.rank()) : 1, with_.budget)));
                if (!made.ok()) return give_up(made.take_status());
                weight = tensor(dtype::float32, extents, std::move(made).value());
                derive(weight, how, sources);
            }
            for (std::int64_t c = 0; c < channels; ++c) bias.data<float>()[c] *= element(factor, c);
            edit(m, [&] { m.inputs[1] = g.add_constant(at(m.inputs[1]).name + "_scaled", std::move(weight)); });
        }
        if (term != no_value)
            for (std::int64_t c = 0; c < channels; ++c) bias.data<float>()[c] += element(term, c);
        const bool needed = term != no_value || bias_id != no_value;
        if (needed)
            edit(m, [&] {
                m.inputs.resize(std::max<std::size_t>(m.inputs.size(), 3), no_value);
                m.inputs[2] = g.add_constant(m.name + "_bias", std::move(bias));
            });
        return true;
    }

    // Whether a node is an activation, and which.
    GRAFT_COLD bool is_activation(const node& n, epilogue& e) {
        const activation_reader reads = row(n).traits.activates;
        if (!reads || n.inputs.empty() || n.outputs.size() != 1 || !is_float32(n.inputs[0])) return false;
        std::vector<tensor_view> in;
        for (value_id id : n.inputs) in.push_back(id == no_value ? tensor_view{} : view_at_hand(at(id)));
        return reads({n, in.data(), static_cast<int>(in.size()), nullptr, 0, with_.limit}, e);
    }

    // An activation goes into the node that makes its input; what is left becomes graft.Activation, so that one kernel serves all.
    GRAFT_COLD void activations() {
        for (node& n : g.nodes) {
            epilogue e;
            if (!is_activation(n, e)) continue;
            // Where numbers are brought elsewhere in between, it is all the same when.
            value_id x = n.inputs[0];
            node* const last = maker(x);
            node* m = last;
            while (m && used_once(x) && (row(*m).is(op_flag::view) || is(*m, "Transpose"))) m = maker(x = m->inputs[0]);
            if (m && row(*m).is(op_flag::takes_activation) && used_once(x) && !m->find("activation") && integer(*m, "residual", 0) != 2) {
                set_activation(*m, e.act, e.alpha, e.beta);
                replace(n, *last);
            } else if (!is(n, "Activation", "graft"))
                activation_node(n, n.inputs[0], e.act, e.alpha, e.beta);
        }
        finish();
    }

    // Which input of a node is a residual that its kernel adds; 0: it adds none.
    std::size_t residual_slot(const node& n) const {
        const op_traits& traits = row(n).traits;
        // A normalisation's kernel has its activation behind the sum.
        return traits.statistics && n.find("activation") ? 0 : traits.residual_input;
    }

    GRAFT_COLD void residual(node& n) {
        if (n.inputs.size() != 2 || n.inputs[0] == n.inputs[1] || !is_float32(n.outputs[0])) return;
        const shape& y = at(n.outputs[0]).extents;
        if (at(n.inputs[0]).extents != y || at(n.inputs[1]).extents != y) return;
        const std::size_t late = position(n.inputs[0]) > position(n.inputs[1]) ? 0 : 1;
        for (const std::size_t side : {late, 1 - late}) {
            const value_id x = n.inputs[side], other = n.inputs[1 - side];
            node* m = maker(x);
            const std::size_t slot = m ? residual_slot(*m) : 0;
            if (!slot || !used_once(x) || m->find("residual") || position(other) > position(x) || is_constant(other)) continue;
            set(*m, "residual", std::int64_t(m->find("activation") ? 2 : 1));
            replace(n, *m);
            edit(*m, [&] {
                m->inputs.resize(std::max(m->inputs.size(), slot + 1), no_value);
                m->inputs[slot] = other;
            });
            return;
        }
        n.attributes.clear();
        become(n, "Sum", "graft");
    }

    const lowering& with_;
    status failure_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
