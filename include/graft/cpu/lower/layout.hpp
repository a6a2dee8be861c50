// Layout for the CPU: convolutions and what stands between them work on blocks of channels; weights are packed once.
#pragma once

#include "../bfloat16.hpp"
#include "../conv.hpp"
#include "../ops/conv.hpp"
#include "../ops/matmul.hpp"
#include "../ops/ops.hpp"
#include "../ops/quantized.hpp"
#include "channel_places.hpp"

#include <numeric>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Walks the nodes in order and decides for each whether its output is blocked. A value may be needed in both layouts; each is made
// at most once, by a Reorder behind the first need.
class layouter : public rewriter {
public:
    layouter(graph& target, const lowering& with, const cpu::arithmetic& by)
        : rewriter(target, with.on), with_(with), level_(by.level),
          bfloat16_(by.bfloat16), blocks_{layout::blocked, cpu::vector_width(by.level)}, lanes_{layout::blocked, 4} {}
    inline virtual ~layouter() {}

    status run() {
        std::vector<node> nodes = std::move(g.nodes);
        g.nodes.clear();
        for (const node& n : nodes) convolves_ |= is(n, "Conv", "graft");
        for (node& n : nodes) GRAFT_TRY(place_node(n));
        for (value_id& id : g.outputs) {
            if (at(id).layout == layout::row_major) continue;
            // The caller reads it row-major, under its own name.
            const std::string name = at(id).name;
            at(id).name += "_blocked";
            id = as(id, {});
            at(id).name = name;
        }
        index();
        return {};
    }

protected:
    bool blocked(value_id id) { return id != no_value && at(id).layout == layout::blocked; }

    layout lies(layout::kind as) const { return as == layout::blocked ? blocks_ : layout(); }
    // The value in the layout asked for.
    GRAFT_COLD value_id as(value_id id, layout wanted) {
        if (id == no_value || at(id).layout == wanted) return id;
        other_.resize(g.values.size(), no_value);
        for (value_id other = other_[id]; other != no_value && other != id; other = other_[other])
            if (at(other).layout == wanted) return other;
        const value_id made = like(id, wanted == layout::blocked ? "_blocked" : "_rows");
        at(made).layout = wanted;
        at(made).place = on_;
        node n;
        n.name = at(made).name;
        become(n, "Reorder", "graft");
        // One pixel in whole blocks lies the same way in both layouts.
        const shape& s = at(id).extents;
        if (is_float32(id) && s.rank() == 4 && s[2] * s[3] == 1 && s[1] % blocks_.channels == 0) set(n, "same", std::int64_t(1));
        n.inputs = {id};
        n.outputs = {made};
        g.nodes.push_back(std::move(n));
        other_.resize(g.values.size(), no_value);
        other_[made] = other_[id] == no_value ? id : other_[id];
        other_[id] = made;
        return made;
    }

    // Gives a node its place behind those before it, its inputs in the layout that it reads; training adds cases of its own.
    inline virtual GRAFT_COLD status place_node(node& n) {
        if (!here(n)) return place_other(n);
        if (is(n, "Conv", "graft")) return place_conv(n);
        if (is(n, "Transpose") && transpose_between_layouts(n)) return {};
        if constexpr (cpu::channels_wanted()) {
            bool cut = false;
            GRAFT_TRY(cut_channels(n, cut));
            if (cut) return {};
            if (is(n, "Concat")) GRAFT_TRY(join_channels(n));
        }
        const layout lies = takes_blocks(n) ? blocks_ : layout_of_codes(n);
        for (std::size_t i = 0; i < n.inputs.size(); ++i) {
            const value_id id = n.inputs[i];
            if (id == no_value) continue;
            n.inputs[i] = as(id, follows_layout(n, i) ? lies : layout());
        }
        for (value_id id : n.outputs)
            if (id != no_value) at(id).layout = lies;
        if (lies == layout::blocked) be_on_blocks(n);
        if (is(n, "MatMul", "graft")) GRAFT_TRY(pack_product(n));
        // What bodies capture is read row-major.
        for (attribute& a : n.attributes)
            if (a.graph) {
                std::vector<value_id> rows(g.values.size(), no_value);
                for (const capture& c : a.graph->captures) {
                    const value_id row = as(c.outer, {});
                    rows.resize(g.values.size(), no_value);
                    for (std::size_t i = 0; i < rows.size(); ++i)
                        if (rows[i] == no_value) rows[i] = static_cast<value_id>(i);
                    rows[c.outer] = row;
                }
                if (!a.graph->captures.empty()) rename_captures(n, rows);
            }
        g.nodes.push_back(std::move(n));
        return {};
    }

    // Other places have layouts of their own; what is copied to them lies row-major.
    GRAFT_COLD status place_other(node& n) {
        for (value_id& id : n.inputs)
            if (id != no_value && at(id).place == on_ && !at(id).constant) id = as(id, {});
        g.nodes.push_back(std::move(n));
        return {};
    }

    // Whether input i has to lie as the output does; per-channel constants and numbers stay as they are.
    bool follows_layout(const node& n, std::size_t i) {
        cpu::quantized_conv_problem p;
        if (is(n, "QuantizedConv", "graft")) return i == 4 || (i == 0 && !(cpu::problem_in(n, p) && p.planes));
        if (is(n, "ScaleShift", "graft")) return i == 0;
        const shape& x = at(n.inputs[i]).extents;
        return x.rank() == 4 && (x.elements() != 1 || !broadcasts(n));
    }

    // Whether a node should work on blocks: it can, and an input already lies so.
    bool takes_blocks(const node& n) {
        if (n.outputs.size() != 1 || n.inputs.empty()) return false;
        bool any = false;
        for (std::size_t i = 0; i < n.inputs.size(); ++i) {
            const value_id id = n.inputs[i];
            if (id == no_value) continue;
            any |= blocked(id);
            if (!is_float32(id) && follows_layout(n, i)) return false;
        }
        const shape& y = at(n.outputs[0]).extents;
        if (!any || y.rank() != 4 || !is_float32(n.outputs[0])) return false;
        return may_take_blocks(n) && kernel_on(n, blocks_);
    }
    // Whether a node works on codes in lanes of four channels or in pixels of 64: a convolution of bytes does, others as the first input that lies so.
    layout layout_of_codes(const node& n) {
        if constexpr (!cpu::quantized_conv_wanted()) return {};
        cpu::quantized_conv_problem p;
        if (is(n, "QuantizedConv", "graft"))
            return !cpu::problem_in(n, p) || !p.bytes || p.matrix ? layout() : p.tiles ? layout(layout::blocked, cpu::code_pixel) : lanes_;
        layout lies;
        for (const value_id id : n.inputs)
            if (lies == layout() && blocked(id) && !is_float32(id)) lies = at(id).layout;
        if (lies == layout() || n.outputs.size() != 1 || at(n.outputs[0]).extents.rank() != 4) return {};
        bool may = false;
        for (const char* op : {"QuantizedSum", "QuantizedProduct", "QuantizedGlobalAveragePool", "LookupTable"}) may |= is(n, op, "graft");
        may = may || (is(n, "MaxPool") && pool_on_blocks(n)) || (is(n, "Concat") && concat_on(n, lies)) ||
              ((is(n, "Resize") || is(n, "Upsample")) && resize_on_blocks(n));
        return may && kernel_on(n, lies) ? lies : layout();
    }
    // Images put together are another operator where they lie in blocks.
    void be_on_blocks(node& n) {
        if (is(n, "Concat")) become(n, "Concat", "graft");
    }
    // Whether there is a kernel for it then: what else keeps one away, such as an attribute of an older operator set, the kernel itself knows.
    bool kernel_on(node n, layout lies) {
        be_on_blocks(n);
        std::vector<layout> lie;
        for (std::size_t i = 0; i < n.inputs.size(); ++i) lie.push_back(n.inputs[i] != no_value && follows_layout(n, i) ? lies : layout());
        lie.push_back(lies);
        return kernel_for(n, lie, cpu::choose_kernel);
    }
    // Whether `choose` finds one for a node as it is, its values lying as they do.
    bool takes(const node& n, decltype(&cpu::choose_kernel) choose) {
        std::vector<layout> lie;
        for (const std::vector<value_id>* ids : {&n.inputs, &n.outputs})
            for (value_id id : *ids) lie.push_back(id == no_value ? layout() : at(id).layout);
        return kernel_for(n, lie, choose);
    }
    // Whether `choose` finds one for a node whose inputs, and behind them outputs, lie so.
    GRAFT_COLD bool kernel_for(const node& n, const std::vector<layout>& lie, decltype(&cpu::choose_kernel) choose) {
        std::vector<tensor_view> views;
        for (const std::vector<value_id>* ids : {&n.inputs, &n.outputs})
            for (value_id id : *ids) views.push_back(id == no_value ? tensor_view{} : view_at_hand(at(id)));
        const std::size_t inputs = n.inputs.size();
        const cpu::kernel_query query{{n, views.data(), static_cast<int>(inputs), views.data() + inputs, static_cast<int>(n.outputs.size()), with_.limit},
                                      lie.data(),
                                      lie.data() + inputs,
                                      level_,
                                      with_.exact};
        cpu::kernel_choice choice;
        const char* refusal = nullptr;
        return choose(query, choice, refusal) != nullptr;
    }
    // Numbers are one operand of these, wherever the other lies.
    bool broadcasts(const node& n) {
        for (const char* op : {"Mul", "Add", "Sub", "Div", "Max", "Min"})
            if (is(n, op)) return true;
        return false;
    }
    bool may_take_blocks(const node& n) {
        static constexpr struct {
            const char *op, *domain;
            bool (layouter::*fits)(const node&);  // null: always
        } rows[] = {{"Activation", "graft", nullptr},
                    {"ScaleShift", "graft", nullptr},
                    {"Sum", "graft", nullptr},
                    {"GatherChannels", "graft", nullptr},
                    {"GlobalAveragePool", "", nullptr},
                    {"GlobalMaxPool", "", nullptr},
                    {"MaxPool", "", &layouter::pool_on_blocks},
                    {"AveragePool", "", &layouter::pool_on_blocks},
                    {"Mul", "", &layouter::binary_on_blocks},
                    {"Add", "", &layouter::binary_on_blocks},
                    {"Sub", "", &layouter::binary_on_blocks},
                    {"Div", "", &layouter::binary_on_blocks},
                    {"Max", "", &layouter::binary_on_blocks},
                    {"Min", "", &layouter::binary_on_blocks},
                    {"Resize", "", &layouter::resize_on_blocks},
                    {"Upsample", "", &layouter::resize_on_blocks},
                    {"Concat", "", &layouter::concat_on_blocks}};
        for (const auto& row : rows)
            if (is(n, row.op, row.domain)) return !row.fits || (this->*row.fits)(n);
        return false;
    }
    bool pool_on_blocks(const node& n) {
        const attribute* order = n.find("storage_order");
        return !(order && order->integer);
    }
    // What the caller reads lies in planes: the smaller image is brought into them.
    bool resize_on_blocks(const node& n) {
        const value_id y = n.outputs[0];
        return !is_output(y) || at(y).extents.elements() <= at(n.inputs[0]).extents.elements();
    }
    // [N,C,H,W] with [N,C,H,W], [N,C,1,1], [1,C,1,1], [C,1,1] in whole blocks, or one number, in either order.
    bool binary_on_blocks(const node& n) {
        if (n.inputs.size() != 2) return false;
        const shape& y = at(n.outputs[0]).extents;
        for (value_id id : n.inputs) {
            const shape& s = at(id).extents;
            const int r = s.rank();
            const bool number = s.elements() == 1, per_channel = r >= 3 && s[r - 3] == y[1] && s[r - 2] == 1 && s[r - 1] == 1 &&
                                                                 (r == 3 ? y[1] % blocks_.channels == 0 : s[0] == y[0] || s[0] == 1);
            if (s != y && !number && !per_channel) return false;
        }
        return true;
    }
    bool concat_on_blocks(const node& n) { return concat_on(n, blocks_); }
    bool concat_on(const node& n, layout lies) {
        if (!along_channels(n, 1)) return false;
        for (std::size_t i = 0; i < n.inputs.size(); ++i) {
            const shape& s = at(n.inputs[i]).extents;
            if (s.rank() != 4 || (i + 1 < n.inputs.size() && s[1] % lies.channels != 0)) return false;
        }
        return true;
    }

    // Channels cut out of a blocked value: copies of runs of memory where they are whole blocks, else of lanes.
    // `cut`: whether the node is one that does so, which its parts then stand for.
    GRAFT_COLD status cut_channels(const node& n, bool& cut) {
        std::vector<std::int64_t> starts;
        const value_id source = n.inputs.empty() ? no_value : n.inputs[0];
        if (!blocked(source) || !cuts_channels(*this, n, with_.limit, starts)) return {};
        const layout lies = at(source).layout;
        std::vector<node> parts;
        for (std::size_t i = 0; i < starts.size(); ++i) {
            const value_id id = n.outputs[i];
            node part;
            become(part, "SliceChannels", "graft");
            part.name = at(id).name;
            part.inputs = {source};
            part.outputs = {id};
            set(part, "start", starts[i]);
            if (!kernel_for(part, {lies, lies}, cpu::choose_kernel)) {
                if (lies != blocks_) return {};
                std::vector<std::int64_t> from(static_cast<std::size_t>(at(id).extents[1]));
                std::iota(from.begin(), from.end(), starts[i]);
                GRAFT_TRY_ASSIGN(part, gather_channels(*this, {source}, std::move(from), id));
            }
            parts.push_back(std::move(part));
        }
        for (node& part : parts) {
            at(part.outputs[0]).layout = lies;
            g.nodes.push_back(std::move(part));
        }
        cut = true;
        return {};
    }
    // Images in blocks that are put together where blocks are not whole.
    GRAFT_COLD status join_channels(node& n) {
        if (!along_channels(n, 1) || concat_on_blocks(n) || is_output(n.outputs[0])) return {};
        for (value_id id : n.inputs)
            if (at(id).layout != blocks_ || !is_float32(id)) return {};
        std::vector<std::int64_t> from(static_cast<std::size_t>(at(n.outputs[0]).extents[1]));
        std::iota(from.begin(), from.end(), std::int64_t(0));
        GRAFT_TRY_ASSIGN(n, gather_channels(*this, n.inputs, std::move(from), n.outputs[0]));
        return {};
    }

    // Between blocks of channels and channels last, pixels are copied in whole blocks, with no planes in between.
    GRAFT_COLD bool transpose_between_layouts(node& n) {
        const attribute* perm = n.find("perm");
        if (!perm || perm->integers.size() != 4 || !is_float32(n.inputs[0]) || at(n.inputs[0]).extents.elements() == 0) return false;
        const std::int64_t* p = perm->integers.data();
        const bool to_last = p[0] == 0 && p[1] == 2 && p[2] == 3 && p[3] == 1 && blocked(n.inputs[0]);
        const bool from_last = p[0] == 0 && p[1] == 3 && p[2] == 1 && p[3] == 2 && !blocked(n.inputs[0]) && convolves_;
        if (!to_last && !from_last) return false;
        at(n.outputs[0]).layout = from_last ? blocks_ : layout();
        g.nodes.push_back(std::move(n));
        return true;
    }

    GRAFT_COLD status place_conv(node& n) {
        cpu::conv_problem problem{};
        if (!cpu::conv_problem_of(n, at(n.inputs[0]).extents, at(n.inputs[1]).extents, at(n.outputs[0]).extents, problem))
            return fail(errc::internal, location(n), "a convolution without legal parameters reached lowering");
        problem.exact = with_.exact;
        problem.bfloat16 = bfloat16_;
        problem.in = at(n.inputs[0]).layout.as;
        problem.out = layout::blocked;
        const cpu::conv_choice choice = cpu::choose_conv(level_, problem);
        n.inputs.resize(std::max<std::size_t>(n.inputs.size(), 4), no_value);
        problem.bfloat16 = choice.algorithm == cpu::conv_algorithm::bfloat16;
        problem.in = choice.in;
        problem.out = choice.out;
        n.inputs[0] = as(n.inputs[0], lies(choice.in));
        n.inputs[3] = as(n.inputs[3], lies(choice.out));
        if (n.inputs[2] != no_value) n.inputs[2] = as(n.inputs[2], {});
        cpu::set_problem(n, problem);
        GRAFT_TRY(pack_conv(n, problem, choice));
        at(n.outputs[0]).layout = lies(choice.out);
        g.nodes.push_back(std::move(n));
        return {};
    }

    GRAFT_COLD status pack_conv(node& n, const cpu::conv_problem& problem, const cpu::conv_choice& choice) {
        const value_id weight = as(n.inputs[1], {});
        const value_id packed = g.add_value(at(weight).name + "_packed");
        at(packed).type = dtype::uint8;
        at(packed).has_shape = true;
        at(packed).extents = {choice.packed_bytes};
        node pack;
        pack.name = n.name;
        become(pack, "PackConvWeights", "graft");
        cpu::set_problem(pack, problem);
        pack.inputs = {weight};
        pack.outputs = {packed};
        n.inputs[1] = packed;
        if (!is_constant(weight)) {
            g.nodes.push_back(std::move(pack));
            return {};
        }
        // A folded PackConvWeights, shared with the other plans of the model.
        const tensor source = at(weight).constant;
        const std::string key = cpu::conv_pack_key(level_, problem, choice);
        const auto fill = [&](tensor& data) -> status {
            const std::int64_t at_once = cpu::conv_channels_at_once(level_, problem, choice, floats_at_once);
            for (std::int64_t first = 0; first < problem.oc; first += at_once) {
                const std::int64_t last = std::min(first + at_once, problem.oc), row = static_cast<std::int64_t>(source.bytes()) / problem.oc;
                buffer weights;
                GRAFT_TRY_ASSIGN(weights, source.storage().to_read_once(static_cast<std::size_t>(first * row), static_cast<std::size_t>((last - first) * row)));
                cpu::pack_conv_weights(level_, problem, choice, reinterpret_cast<const float*>(weights.data()), first, last, data.raw(), with_.pool);
            }
            return {};
        };
        GRAFT_TRY_ASSIGN(at(packed).constant, packed_once(with_, source, key, dtype::uint8, {choice.packed_bytes}, fill));
        let_go(weight);
        return {};
    }
    // A weight that only the packed one is made of: a network's weights do not lie there twice while they are packed.
    void let_go(value_id weight) {
        if (used_once(weight)) at(weight).constant = tensor();
    }

    // A constant right operand is packed once; the node keeps its shape.
    GRAFT_COLD status pack_product(node& n) {
        const value_id b = n.inputs[1];
        if (!is_constant(b) || at(b).extents.rank() != 2) return {};
        cpu::gemm_problem p;
        if (!cpu::gemm_problem_of(n, at(n.inputs[0]).extents, at(b).extents, at(n.outputs[0]).extents, p)) return {};
        p.bfloat16 = bfloat16_ && cpu::takes_bfloat16_product(p);
        const tensor source = at(b).constant;
        const std::string key = std::string("product ") + cpu::name(level_) + (p.trans_b ? " transposed" : "") + (p.bfloat16 ? cpu::bfloat16_form(level_) : "");
        const std::int64_t bytes = p.bfloat16 ? cpu::packed_bfloat16_bytes(cpu::bfloat16_weights_of(p)) : cpu::packed_b_bytes(level_, p.n, p.k);
        const auto fill = [&](tensor& packed) { return pack_rows(p, source, packed.data<float>()); };
        tensor data;
        GRAFT_TRY_ASSIGN(data, packed_once(with_, source, key, dtype::float32, {bytes / 4}, fill));
        n.attributes.emplace_back();
        n.attributes.back().name = "unpacked";
        n.attributes.back().kind = attribute_kind::integers;
        n.attributes.back().integers.assign(at(b).extents.begin(), at(b).extents.end());
        set(n, "packed", std::int64_t(1));
        if (p.bfloat16) set(n, "bfloat16", std::int64_t(1));
        n.inputs[1] = g.add_constant(at(b).name + "_packed", data);
        let_go(b);
        return {};
    }

    // A transposed matrix a few megabytes at a time, since the largest may be most of a network; another is packed by columns, and whole.
    GRAFT_COLD status pack_rows(const cpu::gemm_problem& p, const tensor& source, float* packed) {
        const std::int64_t panel = p.bfloat16 ? cpu::bfloat16_block : cpu::packed_b_bytes(level_, 1, 1) / 4,
                           row = static_cast<std::int64_t>(sizeof(float)) * p.k;
        const std::int64_t at_once = p.trans_b && p.k ? std::max<std::int64_t>(1, floats_at_once / (p.k * panel)) * panel : p.n;
        for (std::int64_t first = 0; first < p.n; first += at_once) {
            cpu::gemm_problem part = p;
            part.n = std::min(at_once, p.n - first);
            buffer rows;
            GRAFT_TRY_ASSIGN(rows, source.storage().to_read_once(static_cast<std::size_t>(first * row), static_cast<std::size_t>(part.n * row)));
            const float* const from = reinterpret_cast<const float*>(rows.data());
            if (p.bfloat16)
                cpu::pack_bfloat16(level_, cpu::bfloat16_weights_of(p), from, first, first + part.n, packed, with_.pool);
            else
                cpu::pack_b(level_, part, from, packed + first * p.k, with_.pool);
        }
        return {};
    }

    static constexpr std::int64_t floats_at_once = 1 << 20;  // of weights that are read and packed

    const lowering& with_;
    cpu::isa level_;
    bool bfloat16_;                // operands of convolutions and products, where the kernels take them
    layout blocks_;                // of this instruction set
    layout lanes_;                 // of codes, where bytes are multiplied
    bool convolves_ = false;       // whether the graph has a convolution, so that blocks are wanted
    std::vector<value_id> other_;  // the same value in another layout: a ring of them
};

}  // namespace detail
GRAFT_END_NAMESPACE
