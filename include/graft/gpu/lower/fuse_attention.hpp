// Attention as exporters write it, a product, a softmax and a product with movements around them, becomes one node and its kernel.
#pragma once

#include "../../tensor/convert.hpp"
#include "../ops/attention.hpp"
#include "query.hpp"
#include "strided_view.hpp"

#include <algorithm>

GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// Runs behind the choice of types and before that of layouts. What cuDNN does not take stays as it is: it is asked first.
class attention_fuser : public view_finder {
public:
    attention_fuser(graph& target, place_id on, dtype activations, const kernel_question& ask)
        : view_finder(target, on), activations_(activations), ask_(ask) {}

    void run() {
        bool any = false;
        for (std::size_t i = 0; i < g.nodes.size(); ++i) {
            attention a;
            if (!read(g.nodes[i], a) || !ask(a)) continue;
            put_in(i, a);
            any = true;
        }
        if (any) drop_unread();
        finish();
    }

private:
    struct attention {
        strided_view q, k, v, y;  // [batch, heads, rows, columns]
        tensor mask;              // [1 or batch, 1 or heads, queries, keys], null for none
        double scale = 1, mask_scale = 1;
        dtype type = dtype::undefined;
        value_id result = no_value;
        int behind = -1;                 // the transposition of the result that the kernel does as well
        std::int64_t multiply_adds = 0;  // of both products
    };

    bool is_product(const node& n) const { return here(n) && n.op_type == "MatMul" && (n.domain.empty() || n.domain == "graft"); }

    // The node that makes a value which nobody else reads; null where there is none.
    node* only_for_one(value_id id) {
        node* n = id != no_value && used_once(id) ? maker(id) : nullptr;
        return n && here(*n) && n->outputs.size() == 1 ? n : nullptr;
    }
    // A node that passes its input's elements on in their order, rows of the last axis as they are.
    bool passes_rows(const node& n) {
        if (ops::row_of(n).traits.moves != motion::same) return false;
        return is_float(at(n.inputs[0]).type) && is_float(at(n.outputs[0]).type) && at(n.inputs[0]).extents.rank() &&
               at(n.inputs[0]).extents.back() == at(n.outputs[0]).extents.back();
    }
    node* through_rows(value_id& id) {
        node* n = only_for_one(id);
        while (n && passes_rows(*n)) n = only_for_one(id = n->inputs[0]);
        return n;
    }
    // A chain that ends in the product `n`.
    bool read(const node& n, attention& a) {
        if (!is_product(n) || !plain(n) || integer(n, "transB", 0) || real(n, "scale", 1) != 1) return false;
        value_id weights = n.inputs[0];
        const node* softmax = through_rows(weights);
        if (!softmax || !is(*softmax, "Softmax")) return false;
        const shape& s = at(softmax->inputs[0]).extents;
        const std::int64_t axis = integer(*softmax, "axis", softmax->version < 13 ? 1 : -1);
        if (s.rank() < 2 || (axis != -1 && axis != s.rank() - 1)) return false;
        value_id scores = softmax->inputs[0];
        const node* product = scores_of(scores, a);
        if (!product) return false;
        a.scale *= static_cast<double>(real(*product, "scale", 1));
        a.multiply_adds = n.multiply_adds + product->multiply_adds;
        return set_type(n, a) && set_factors(*product, n, a) && set_result(a) && (!a.mask || mask_fits(a));
    }
    // A product with nothing behind it but what `scores_of` reads.
    bool plain(const node& n) {
        if (integer(n, "transA", 0) || integer(n, "activation", 0) || integer(n, "residual", 0)) return false;
        return n.inputs.size() < 3 || n.inputs[2] == no_value;
    }
    // From the softmax's input up to the product, by numbers that the scores are multiplied with and one constant that is added to them.
    node* scores_of(value_id scores, attention& a) {
        for (;;) {
            node* n = through_rows(scores);
            value_id other = no_value;
            double by = 1;
            if (!n) return nullptr;
            if (scales(*n, other, by)) {
                a.scale *= by;
            } else if (is(*n, "Add") || is(*n, "Sum", "graft")) {
                if (n->inputs.size() != 2) return nullptr;
                const std::size_t side = is_constant(n->inputs[0]) ? 1 : 0;
                if (!add_mask(n->inputs[1 - side], at(n->outputs[0]).extents, a)) return nullptr;
                other = n->inputs[side];
                if (at(other).extents != at(n->outputs[0]).extents) return nullptr;
            } else if (is_product(*n)) {
                const bool added = integer(*n, "residual", 0) == 1 && !integer(*n, "activation", 0) && n->inputs.size() > 3;
                if (added && !add_mask(n->inputs[3], at(n->outputs[0]).extents, a)) return nullptr;
                return integer(*n, "transA", 0) || (!added && !plain(*n)) || (added && n->inputs[2] != no_value) ? nullptr : n;
            } else {
                return nullptr;
            }
            scores = other;
        }
    }
    bool add_mask(value_id id, const shape& scores, attention& a) {
        if (!is_constant(id) || a.mask || !is_float(at(id).type) || at(id).extents.rank() > scores.rank() || scores.rank() > 4) return false;
        a.mask = at(id).constant;
        a.mask_scale = a.scale;
        shape aligned = at(id).extents;
        while (aligned.rank() < 4) aligned.insert(0, 1);
        // Of three axes the first is that of the heads here, and of the batch in the product.
        if (scores.rank() == 3) std::swap(aligned[0], aligned[1]);
        mask_extents_ = aligned;
        scores_ = scores;
        return true;
    }

    // float16 or bfloat16, which the result has in memory, or would have if it were not the caller's alone.
    bool set_type(const node& n, attention& a) {
        a.result = n.outputs[0];
        const bool given = at(a.result).type == dtype::float32 && readers(a.result).empty();
        a.type = given ? activations_ : at(a.result).type;
        return is_half(a.type);
    }
    bool set_factors(const node& product, const node& n, attention& a) {
        const bool rows = integer(product, "transB", 0) != 0;
        if (!view_of(product.inputs[0], 3, a.q) || !view_of(product.inputs[1], rows ? 3 : 2, a.k) || !view_of(n.inputs[1], 3, a.v)) return false;
        if (!rows) {
            std::swap(a.k.extents[2], a.k.extents[3]);
            std::swap(a.k.steps[2], a.k.steps[3]);
        }
        a.scale *= a.q.scale * a.k.scale;
        const shape &q = a.q.extents, &k = a.k.extents, &v = a.v.extents;
        const bool fits = q[0] == k[0] && k[0] == v[0] && k[1] == v[1] && (k[1] == q[1] || k[1] == 1) && q[3] == k[3] && k[2] == v[2];
        return fits && a.v.scale == 1 && std::isfinite(a.scale) && (!a.mask || scores_ == scores_extents(a, scores_.rank()));
    }
    static shape scores_extents(const attention& a, int rank) {
        shape s{a.q.extents[0], a.q.extents[1], a.q.extents[2], a.k.extents[2]};
        for (; s.rank() > rank; s.erase(rank == 3 ? 1 : 0))
            if (s[rank == 3 ? 1 : 0] != 1) break;
        return s;
    }

    // Where the result goes: also into the order of a transposition behind it that leaves rows whole.
    void move_result(int position, attention& a) {
        const node& t = g.nodes[static_cast<std::size_t>(position)];
        const attribute* perm = t.find("perm");
        if (!is(t, "Transpose") || !perm || perm->integers.size() != 4 || perm->integers[3] != 3) return;
        const value_id y = t.outputs[0];
        if (at(y).type != a.type && !readers(y).empty()) return;
        const shape steps = packed_steps(at(y).extents);
        for (int d = 0; d < 4; ++d) a.y.steps[static_cast<int>(perm->integers[static_cast<std::size_t>(d)])] = steps[d];
        a.result = y;
        a.behind = position;
    }
    bool set_result(attention& a) {
        a.y.extents = at(a.result).extents;
        a.y.steps = packed_steps(a.y.extents);
        if (used_once(a.result) && a.y.extents.rank() == 4 && readers(a.result).size() == 1) move_result(readers(a.result).front(), a);
        return four_axes(a.y) && a.y.extents == shape{a.q.extents[0], a.q.extents[1], a.q.extents[2], a.v.extents[3]};
    }

    // The mask as the kernel reads it, in its type and with rows of 16 bytes. One that hides all keys of a query stays outside: what
    // cuDNN makes of that is not told.
    bool mask_fits(attention& a) {
        const shape from = mask_extents_, s{a.q.extents[0], a.q.extents[1], a.q.extents[2], a.k.extents[2]};
        for (int d = 0; d < 4; ++d)
            if (from[d] != 1 && from[d] != s[d]) return false;
        const shape to{from[0], from[1], s[2], (s[3] + attention_pack - 1) / attention_pack * attention_pack};
        constexpr std::int64_t most = std::int64_t(1) << 28;
        if (bytes_of(a.type, to) < 0 || bytes_of(a.type, to) > most) return false;
        auto made = tensor::zeros(a.type, to);
        if (!made.ok()) return false;
        const shape steps = packed_steps(from);
        std::vector<double> row(static_cast<std::size_t>(s[3]));
        for (std::int64_t r = 0; r < to[0] * to[1] * to[2]; ++r) {
            const std::int64_t i = r % to[2], rest = r / to[2];
            const std::int64_t begin = rest * steps[1] + (from[2] == 1 ? 0 : i * steps[2]);
            bool seen = false;
            for (std::int64_t j = 0; j < s[3]; ++j) {
                const double x = a.mask_scale * element_as_double(a.mask.type(), a.mask.raw(), begin + (from[3] == 1 ? 0 : j));
                if (!(x < HUGE_VAL)) return false;
                row[static_cast<std::size_t>(j)] = x;
                seen |= x > -most_half;
            }
            if (!seen) return false;
            store_from_double(a.type, made->raw(), r * to[3], s[3], row.data());
        }
        a.mask = std::move(made).value();
        return true;
    }
    static constexpr double most_half = 60000;  // below it float16 is finite

    static std::vector<attribute> attributes_of(const attention& a) {
        const auto place = [](const char* name, const strided_view& v) { return integers_attribute(name, {v.first, v.steps[0], v.steps[1], v.steps[2]}); };
        const shape &q = a.q.extents, &k = a.k.extents;
        return {integers_attribute("extents", {q[0], q[1], k[1], q[2], k[2], q[3], a.v.extents[3]}),
                place("q", a.q),
                place("k", a.k),
                place("v", a.v),
                place("y", a.y),
                real_attribute("scale", static_cast<float>(a.scale))};
    }
    // Asked in a graph of its own: here the values do not have their types yet.
    bool ask(const attention& a) {
        graph asked;
        node n = bare(a, "attention");
        for (value_id id : {a.q.base, a.k.base, a.v.base, a.result}) {
            const value_id made = asked.add_value(at(id).name);
            value& v = asked.values.back();
            v.type = a.type;
            v.has_shape = true;
            v.extents = at(id).extents;
            (n.inputs.size() < 3 ? n.inputs : n.outputs).push_back(made);
        }
        if (a.mask) n.inputs.push_back(asked.add_constant("mask", a.mask));
        return ask_.makes(ask_.context, n, asked);
    }
    node bare(const attention& a, const std::string& name) const {
        node n;
        n.name = name;
        n.op_type = "Attention";
        n.domain = "graft";
        n.op = fused_attention_row();
        n.version = 1;
        n.place = on_;
        n.attributes = attributes_of(a);
        n.multiply_adds = a.multiply_adds;
        return n;
    }

    void put_in(std::size_t i, const attention& a) {
        node n = bare(a, g.nodes[i].name);
        n.inputs = {a.q.base, a.k.base, a.v.base};
        if (a.mask) n.inputs.push_back(g.add_constant(n.name + "_mask", a.mask));
        n.outputs = {a.result};
        if (a.behind >= 0) drop(g.nodes[static_cast<std::size_t>(a.behind)]);
        drop(g.nodes[i]);
        put(g.nodes[i], std::move(n));
    }
    // What was read by the chain alone.
    void drop_unread() {
        for (std::size_t i = g.nodes.size(); i-- > 0;) {
            node& n = g.nodes[i];
            if (n.op_type.empty() || !here(n)) continue;
            bool used = false;
            for (value_id id : n.outputs) used |= id != no_value && used_at_all(id);
            if (!used) drop(n);
        }
    }

    dtype activations_;
    const kernel_question& ask_;
    shape mask_extents_, scores_;
};

}  // namespace detail
}  // namespace gpu
GRAFT_END_NAMESPACE
