// Bodies of gpu/lower.hpp.
#pragma once

#include "../../graph/captures.hpp"
#include "../../lower/fuse.hpp"
#include "../../lower/widen.hpp"
#include "../faults.hpp"
#include "even_pads.hpp"
#include "fuse_attention.hpp"
#include "fuse_chains.hpp"
#include "join_updates.hpp"
#include "layouts.hpp"
#include "../libraries/library_rows.hpp"
#include "lower.hpp"
#include "../ops/decompositions.hpp"
#include "../ops/ops.hpp"
#include "query.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

GRAFT_INLINE result<numbers> numbers_of(const device_options& options, const device_traits& on) {
    numbers n;
    n.deterministic = options.deterministic;
    n.tf32 = on.major >= 8;
    const std::string& name = options.precision;
    if (name == "auto") return n;
    if (name == "float32") {
        n.tf32 = false;
        return n;
    }
    if (name == "tf32" || name == "bfloat16") {
        if (on.major < 8)
            return fail(errc::device_unavailable, on.name,
                        name + " needs compute capability 8.0; this device has " + std::to_string(on.major) + "." + std::to_string(on.minor) +
                            ". It has float32 and float16");
        if (name == "bfloat16") n.activations = dtype::bfloat16;
        return n;
    }
    if (name == "float16") {
        n.activations = dtype::float16;
        return n;
    }
    return fail(errc::usage, "precision", "'" + name + "' is none of auto, float32, tf32, float16, bfloat16");
}

namespace detail {

using graft::detail::rewriter;

class lowerer : public rewriter {
public:
    lowerer(graph& target, const lowering& with, const numbers& used, const kernel_question& ask)
        : rewriter(target, with.on), with_(with), used_(used), ask_(ask) {}

    status run() {
        GRAFT_TRY(take_apart());
        GRAFT_TRY(widen());
        GRAFT_TRY(graft::detail::fuser(g, with_).run());
        mark();
        narrow();
        attention_fuser(g, on_, used_.activations, ask_).run();
        stays_.resize(g.values.size(), 0);
        lay_out();
        GRAFT_TRY(feed_libraries());
        finish();
        GRAFT_TRY(even_pads(g, on_, ask_, with_.limit).run());
        GRAFT_TRY(split_epilogues());
        finish();
        guard_updates();
        chains(g, on_).run();
        update_joiner(g, on_).run();
        return {};
    }

private:
    bool convolves(const node& n) const { return here(n) && find_conv_row(n.op_type.c_str(), n.domain.c_str()) != nullptr; }
    bool multiplies(const node& n) const { return here(n) && find_matmul_row(n.op_type.c_str(), n.domain.c_str()) != nullptr; }
    bool attends(const node& n) const { return here(n) && find_attention_row(n.op_type.c_str(), n.domain.c_str()) != nullptr; }
    bool stays(value_id id) const { return stays_[id] != 0; }

    // Networks of halves are fused as those of float32 are, and get their type back where values go to memory.
    status widen() {
        const std::size_t before = g.values.size();
        for (const node& n : g.nodes)
            for (value_id id : n.outputs)
                if (half_ == dtype::float32 && id != no_value && (at(id).type == dtype::float16 || at(id).type == dtype::bfloat16)) half_ = at(id).type;
        GRAFT_TRY(graft::detail::widener(g, with_).run());
        widened_.assign(g.values.size(), 0);
        for (std::size_t i = before; i < g.values.size(); ++i) widened_[i] = 1;
        return {};
    }

    // Where a run may refuse what it is given, its updates ask for that as they do for the loss.
    void guard_updates() {
        bool may = false;
        for (const node& n : g.nodes) may |= here(n) && may_fault(g, n);
        if (!may || g.states.empty()) return;
        for (node& n : g.nodes) {
            const element_rule* rule = here(n) ? find_rule(n.op_type.c_str(), n.domain.c_str()) : nullptr;
            if ((rule && rule->reads & element_rule::state) || row(n).traits.made_once) n.attributes.push_back(integer_attribute("without_faults", 1));
        }
    }

    // Operators without a kernel of their own become those that placement has asked about.
    status take_apart() {
        std::vector<node> old = std::move(g.nodes);
        g.nodes.clear();
        for (node& n : old) {
            const asked_in_graph asked(g, n, with_.limit);
            const decomposition_row* row = here(n) ? find_decomposition(asked.context()) : nullptr;
            graph parts;
            if (row)
                if (const char* why = decompose(*row, asked.context(), parts)) return fail(errc::internal, graft::location(n), why);
            if (row)
                splice(n, parts, row->float32);
            else
                g.nodes.push_back(std::move(n));
        }
        index();
        return {};
    }
    void splice(const node& n, graph& parts, bool float32) {
        std::vector<value_id> here(parts.values.size(), no_value);
        const auto meet = [&](const std::vector<value_id>& theirs, const std::vector<value_id>& ours) {
            for (std::size_t i = 0; i < theirs.size(); ++i)
                if (theirs[i] != no_value) here[static_cast<std::size_t>(theirs[i])] = ours[i];
        };
        meet(parts.inputs, n.inputs);
        meet(parts.outputs, n.outputs);
        for (std::size_t i = 0; i < here.size(); ++i) {
            if (here[i] != no_value) continue;
            here[i] = static_cast<value_id>(g.values.size());
            g.values.push_back(std::move(parts.values[i]));
            if (float32) exact_.push_back(here[i]);
        }
        // What the node was counted with is done by its first product, or by several together: one of them tells it.
        const auto product = std::find_if(parts.nodes.begin(), parts.nodes.end(), [](const node& part) { return part.op_type == "MatMul"; });
        if (!parts.nodes.empty()) (product == parts.nodes.end() ? parts.nodes.front() : *product).multiply_adds = n.multiply_adds;
        for (node& part : parts.nodes) {
            for (std::vector<value_id>* ids : {&part.inputs, &part.outputs})
                for (value_id& id : *ids)
                    if (id != no_value) id = here[id];
            part.place = on_;
            g.nodes.push_back(std::move(part));
        }
    }

    // What another place or the caller reads, new state among it, stays as it is.
    void mark() {
        stays_.assign(g.values.size(), 0);
        for (value_id id : g.outputs) stays_[id] = 1;
        for (value_id id : exact_) stays_[id] = 1;
        std::vector<value_id> ids;
        for (const node& n : g.nodes) {
            const bool bits = row(n).is(op_flag::reads_bits);
            if (here(n) && !bits) continue;
            ids = n.inputs;
            if (bits) ids.insert(ids.end(), n.outputs.begin(), n.outputs.end());
            append_captures(n, ids);
            for (value_id id : ids)
                if (id != no_value) stays_[id] = 1;
        }
    }

    // By value: whether it is a place in a picture, or one is computed of it element by element. 16 bits would be off by pixels.
    std::vector<char> find_places() const {
        std::vector<char> found(g.values.size(), 0);
        const auto mark_place = [&](value_id id) {
            if (id != no_value) found[id] = 1;
        };
        for (std::size_t i = g.nodes.size(); i-- > 0;) {
            const node& n = g.nodes[i];
            const std::uint8_t exact = row(n).traits.exact_inputs;
            bool makes = false;
            for (value_id id : n.outputs) makes |= id != no_value && found[id];
            makes = makes && here(n) && fusable(n);
            for (std::size_t k = 0; k < n.inputs.size(); ++k)
                if (makes || in_mask(exact, k)) mark_place(n.inputs[k]);
        }
        return found;
    }
    // What optimisers read: a gradient that the loss's scale was taken out of may be too small for 16 bits.
    void find_gradients(std::vector<char>& found) const {
        for (const node& n : g.nodes)
            for (std::size_t i = 0; i < n.inputs.size() && here(n) && is_optimizer(n); ++i)
                if (n.inputs[i] != no_value) found[n.inputs[i]] = 1;
    }
    // Values between operators in the type that was chosen. Places, statistics, losses, gradients of weights, what leaves the device and all
    // state stay float32; a softmax that products and its gradient alone read is rounded once in its kernel in place of on the way to them.
    void narrow() {
        widened_.resize(g.values.size(), 0);
        std::vector<char> factor(g.values.size(), 1);
        for (const node& n : g.nodes)
            for (std::size_t i = 0; i < n.inputs.size(); ++i)
                if (n.inputs[i] != no_value && (i > 1 || !(multiplies(n) || n.op_type == "SoftmaxGrad"))) factor[n.inputs[i]] = 0;
        std::vector<char> exact = find_places();
        find_gradients(exact);
        for (const node& n : g.nodes) {
            if (!here(n)) continue;
            const op_traits& traits = ops::row_of(n).traits;
            const bool rounded = traits.role == op_role::softmax && n.outputs[0] != no_value && factor[n.outputs[0]];
            for (std::size_t i = 0; i < n.outputs.size(); ++i) {
                const value_id id = n.outputs[i];
                if ((in_mask(traits.exact_outputs, i) && !rounded) || !is_float32(id) || at(id).extents.rank() < 2 || stays(id) || exact[id]) continue;
                at(id).type = used_.activations != dtype::float32 ? used_.activations : widened_[id] ? half_ : dtype::float32;
            }
        }
    }

    // Channels last from the convolutions on, through everything that keeps the axes.
    void lay_out() {
        for (const node& n : g.nodes) {
            if (!here(n)) continue;
            bool last = convolves(n);
            for (value_id id : n.inputs) last |= id != no_value && at(id).layout == layout::channels_last;
            for (value_id id : n.outputs) {
                if (id == no_value || !last || (n.op->flags & op_flag::view) || multiplies(n) || attends(n)) continue;
                value& v = at(id);
                const bool axes = v.extents.rank() >= 3 && v.extents.rank() <= 5 && is_float(v.type) && ops::row_of(n).traits.moves != motion::permute;
                if (axes && !stays(id)) v.layout = layout::channels_last;
            }
        }
    }

    // Libraries take factors of one type, in one layout.
    status feed_libraries() {
        std::vector<node> old = std::move(g.nodes);
        g.nodes.clear();
        for (node& n : old) {
            if (attends(n)) {
                GRAFT_TRY(feed_attention(std::move(n)));
                continue;
            }
            const bool last = convolves(n);
            if (!last && !multiplies(n)) {
                g.nodes.push_back(std::move(n));
                continue;
            }
            dtype factors = integer(n, "exact", 0) ? dtype::float32 : used_.activations;
            for (value_id id : n.inputs)
                if (id != no_value && (at(id).type == dtype::float16 || at(id).type == dtype::bfloat16)) factors = at(id).type;
            for (std::size_t i = 0; i < n.inputs.size(); ++i) {
                value_id& id = n.inputs[i];
                if (id == no_value || !is_float(at(id).type)) continue;
                const layout lies = last && at(id).extents.rank() >= 3 ? layout::channels_last : layout::row_major;
                // C of Gemm has the type of what it is added to.
                const dtype wanted = n.op_type == "Gemm" && i == 2 ? at(n.outputs[0]).type : is_float32(id) ? factors : at(id).type;
                GRAFT_TRY_ASSIGN(id, as(id, wanted, lies));
            }
            // A result that has to stay row-major gets its order behind the kernel. cuDNN gives gradients of weights in the type of the
            // factors; kernels of our own store the sums as they are.
            const bool narrow_result = n.op_type == "ConvGradWeight" && !ask_.own(ask_.context, n, g);
            std::vector<std::pair<value_id, value_id>> behind;
            for (value_id& id : n.outputs) {
                if (id == no_value || !last || at(id).extents.rank() < 3) continue;
                const dtype type = narrow_result && is_float(at(id).type) ? at(n.inputs[0]).type : at(id).type;
                if (is_channels_last(at(id).extents, at(id).layout) && at(id).type == type) continue;
                const value_id made = like(id, "_channels_last");
                at(made).type = type;
                at(made).layout = layout::channels_last;
                behind.emplace_back(made, id);
                id = made;
            }
            g.nodes.push_back(std::move(n));
            for (const auto& b : behind) identity(b.first, b.second);
        }
        return {};
    }
    // All of one half, row-major; a result that the caller reads is widened behind the kernel.
    status feed_attention(node n) {
        const value_id y = n.outputs[0];
        const dtype type = is_float32(y) ? used_.activations : at(y).type;
        for (value_id& id : n.inputs) GRAFT_TRY_ASSIGN(id, as(id, type, layout::row_major));
        const bool wide = at(y).type != type;
        if (wide) {
            n.outputs[0] = like(y, "_half");
            at(n.outputs[0]).type = type;
        }
        const value_id made = n.outputs[0];
        g.nodes.push_back(std::move(n));
        if (wide) identity(made, y);
        return {};
    }
    void identity(value_id from, value_id to) {
        node n;
        n.name = at(to).name;
        become(n, at(from).type == at(to).type ? "Identity" : "Cast", "");
        if (at(from).type != at(to).type) set(n, "to", static_cast<std::int64_t>(at(to).type));
        n.inputs = {from};
        n.outputs = {to};
        g.nodes.push_back(std::move(n));
    }
    // The value in that type and layout: itself, or a copy that is made once.
    result<value_id> as(value_id id, dtype type, layout lies) {
        if (at(id).type == type && (at(id).layout == lies || layouts_agree(at(id).extents))) return id;
        for (const copy& c : copies_)
            if (c.from == id && c.type == type && c.lies == lies) return c.to;
        const value_id made = like(id, lies == layout::channels_last ? "_channels_last" : "_row_major");
        at(made).type = type;
        at(made).layout = lies;
        if (at(id).constant)
            GRAFT_TRY_ASSIGN(at(made).constant, arranged(at(id).constant, type, lies));
        else
            identity(id, made);
        copies_.push_back({id, type, lies, made});
        return made;
    }
    // A constant as it lies on the device; shared by the plans of a model.
    result<tensor> arranged(const tensor& from, dtype type, layout lies) {
        const std::string key = std::string("device ") + name(type) + (lies == layout::channels_last ? " channels last" : "");
        const auto fill = [&](tensor& made) -> status {
            tensor read;
            GRAFT_TRY_ASSIGN(read, from.to_read_once());
            const shape& s = from.shape();
            const std::int64_t outer = s.rank() ? s[0] : 1, channels = s.rank() > 1 ? s[1] : 1, inner = s.rank() > 2 ? s.product(2, s.rank()) : 1;
            std::vector<double> row(static_cast<std::size_t>(channels * inner)), turned(row.size());
            for (std::int64_t o = 0; o < outer; ++o) {
                load_as_double(from.type(), read.raw(), o * channels * inner, channels * inner, row.data());
                for (std::int64_t c = 0; c < channels; ++c)
                    for (std::int64_t i = 0; i < inner; ++i)
                        turned[static_cast<std::size_t>(lies == layout::channels_last ? i * channels + c : c * inner + i)] =
                            row[static_cast<std::size_t>(c * inner + i)];
                store_from_double(type, made.raw(), o * channels * inner, channels * inner, turned.data());
            }
            return {};
        };
        return packed_once(with_, from, key, type, from.shape(), fill);
    }

    // What a library does not do behind its product becomes nodes of their own.
    status split_epilogues() {
        std::vector<node> old = std::move(g.nodes);
        g.nodes.clear();
        for (node& n : old) {
            const bool splits = (n.domain == "graft" && (convolves(n) || multiplies(n))) || (n.domain.empty() && n.op_type == "ConvTranspose");
            const bool has_more = here(n) && splits && (n.find("activation") || n.find("residual") || (n.inputs.size() > 2 && n.inputs[2] != no_value));
            if (!has_more || ask_.own(ask_.context, n, g) || (!better_split(n) && ask_.makes(ask_.context, n, g)))
                g.nodes.push_back(std::move(n));
            else
                split(std::move(n));
        }
        return {};
    }
    // For a clipped convolution with groups or few channels cuDNN's heuristics have only the engine that takes anything.
    bool better_split(const node& n) {
        if (n.op_type != "Conv" || integer(n, "activation", 0) != static_cast<std::int64_t>(activation::clip)) return false;
        return integer(n, "group", 1) > 1 || at(n.inputs[0]).extents[1] <= 4;
    }
    void split(node n) {
        const std::int64_t residual = integer(n, "residual", 0);
        const bool biased = n.op_type != "ConvGradInput";
        const std::size_t slot = biased ? 3 : 2;
        const value_id y = n.outputs[0], added = residual && n.inputs.size() > slot ? n.inputs[slot] : no_value;
        const value_id bias = biased && n.inputs.size() > 2 ? n.inputs[2] : no_value;
        node activation;
        bool active = false;
        for (const attribute& a : n.attributes)
            if (a.name == "activation" || a.name == "alpha" || a.name == "beta")
                activation.attributes.push_back(a), active |= a.name == "activation" && a.integer;
        n.attributes.erase(
            std::remove_if(n.attributes.begin(), n.attributes.end(),
                           [](const attribute& a) { return a.name == "activation" || a.name == "alpha" || a.name == "beta" || a.name == "residual"; }),
            n.attributes.end());
        n.inputs.resize(std::min<std::size_t>(n.inputs.size(), slot));
        const std::string name = n.name;
        const bool convolution = n.op_type != "MatMul";
        // First without the rest; the bias goes too where even that is not to be had.
        value_id now = n.outputs[0] = stage(y);
        const bool takes_bias = bias == no_value || ask_.makes(ask_.context, n, g);
        if (!takes_bias) n.inputs.resize(2);
        g.nodes.push_back(std::move(n));
        if (!takes_bias) now = binary(now, bias_shape(bias, at(y).extents, convolution), stage(y), name);
        if (residual == 1) now = binary(now, added, stage(y), name);
        if (active) {
            activation.name = name;
            become(activation, "Activation", "graft");
            activation.inputs = {now};
            activation.outputs = {now = stage(y)};
            g.nodes.push_back(std::move(activation));
        }
        if (residual == 2) binary(now, added, stage(y), name);
        g.nodes.back().outputs[0] = y;
    }
    value_id stage(value_id y) {
        const value_id made = like(y, "_part");
        at(made).layout = at(y).layout;
        return made;
    }
    value_id binary(value_id a, value_id b, value_id y, const std::string& name) {
        node n;
        n.name = name;
        become(n, "Add", "");
        n.inputs = {a, b};
        n.outputs = {y};
        g.nodes.push_back(std::move(n));
        return y;
    }
    // A bias for each channel, as Add broadcasts it.
    value_id bias_shape(value_id bias, const shape& y, bool convolution) {
        if (!convolution || y.rank() < 3) return bias;
        const value_id made = like(bias, "_channels");
        shape extents = shape{1, at(bias).extents.elements()};
        for (int d = 2; d < y.rank(); ++d) extents.push_back(1);
        at(made).extents = extents;
        if (at(bias).constant) {
            at(made).constant = at(bias).constant.reshaped(extents);
            return made;
        }
        node n;
        n.name = at(made).name;
        become(n, "Reshape", "");
        n.inputs = {bias, no_value};
        n.outputs = {made};
        const std::int64_t* wanted = extents.begin();
        auto shape_constant = tensor::from(wanted, shape{extents.rank()});
        if (shape_constant.ok()) n.inputs[1] = g.add_constant(at(made).name + "_shape", std::move(shape_constant).value());
        g.nodes.push_back(std::move(n));
        return made;
    }

    struct copy {
        value_id from;
        dtype type;
        layout lies;
        value_id to;
    };
    const lowering& with_;
    const numbers& used_;
    const kernel_question& ask_;
    std::vector<value_id> exact_;  // of operators that have been taken apart, and keep their type
    std::vector<char> stays_;      // by value: its type and layout are not the lowering's to choose
    std::vector<char> widened_;    // by value: it stands for one of the network's halves,
    dtype half_ = dtype::float32;  // of this type
    std::vector<copy> copies_;
};

}  // namespace detail

GRAFT_INLINE status lower_for_gpu(graph& g, const lowering& with, const numbers& used, const kernel_question& ask) {
    return detail::lowerer(g, with, used, ask).run();
}

}  // namespace gpu
GRAFT_END_NAMESPACE
