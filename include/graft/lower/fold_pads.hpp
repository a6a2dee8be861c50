// Zeros that a Pad puts round an image, as pads of what reads it.
#pragma once

#include "../ops/pad.hpp"
#include "rewriter.hpp"

#include <algorithm>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

//   Conv(Pad(x))           Conv(x), with the pads of both
//   AveragePool(Pad(x))    AveragePool(x), where pads are counted
// where Pad adds zeros along the axes of a window alone, and all that read it are such. Exporters write a Pad of its own where a framework's padding is not
// the same on both sides, as "same" is with steps of two.
class pad_folder : public rewriter {
public:
    pad_folder(graph& target, const lowering& with) : rewriter(target, with.on), with_(with) {}

    GRAFT_COLD void run() {
        static constexpr rewrite<pad_folder> rows[] = {{"Pad", "", &pad_folder::fold}};
        sweep(*this, rows);
    }

private:
    void fold(node& n) {
        const value_id x = n.inputs[0], padded = n.outputs[0];
        std::vector<std::int64_t> pads;
        if (!used_at_all(padded) || !is_float32(x) || !at(x).has_shape || !zeros_round_image(n, pads)) return;
        const std::vector<int> by = readers(padded);
        for (int i : by)
            if (!takes_pads(g.nodes[static_cast<std::size_t>(i)], padded)) return;
        if (is_output(padded)) return;
        for (int i : by) add_pads(g.nodes[static_cast<std::size_t>(i)], x, pads);
        drop(n);
    }
    // The pads of the axes behind the channels, those of the beginnings first; false where it does more, or where one is not known.
    bool zeros_round_image(const node& n, std::vector<std::int64_t>& pads) {
        std::vector<tensor_view> in;
        for (value_id id : n.inputs) in.push_back(id == no_value ? tensor_view{} : view_at_hand(at(id)));
        for (std::size_t i = 1; i < in.size(); ++i)
            if (n.inputs[i] != no_value && !in[i].data) return false;
        const op_context c{n, in.data(), static_cast<int>(in.size()), nullptr, 0, with_.limit};
        const int rank = in[0].extents.rank();
        ops::border_list border;
        shape out;
        const double filled = c.has(2) ? c.in[2].real(0) : static_cast<double>(real(n, "value", 0));
        if (rank < 3 || filled != 0 || !c.is("mode", "constant", "constant") || !ops::read_pads(c, border, out).ok()) return false;
        for (int d = 0; d < rank; ++d) {
            constexpr std::int64_t most = 1 << 20;
            if (border.begin[d] < 0 || border.end[d] < 0 || border.begin[d] > most || border.end[d] > most) return false;
            if (d < 2 && border.begin[d] + border.end[d] > 0) return false;
        }
        pads.assign(border.begin + 2, border.begin + rank);
        pads.insert(pads.end(), border.end + 2, border.end + rank);
        return true;
    }
    bool takes_pads(const node& n, value_id padded) const {
        const bool conv = is(n, "Conv");
        if (!conv && !(is(n, "AveragePool") && integer(n, "count_include_pad", 0) == 1 && integer(n, "ceil_mode", 0) == 0)) return false;
        const attribute* automatic = n.find("auto_pad");
        if (automatic && automatic->string != "NOTSET" && automatic->string != "VALID") return false;
        return n.inputs[0] == padded && std::count(n.inputs.begin(), n.inputs.end(), padded) == 1;
    }
    void add_pads(node& n, value_id x, const std::vector<std::int64_t>& pads) {
        edit(n, [&] {
            n.inputs[0] = x;
            std::vector<std::int64_t> both = pads;
            // Beside auto_pad, which is VALID here, pads mean nothing.
            const attribute* automatic = n.find("auto_pad");
            if (const attribute* own = n.find("pads"); own && !(automatic && automatic->string == "VALID"))
                for (std::size_t i = 0; i < both.size() && i < own->integers.size(); ++i) both[i] += own->integers[i];
            const auto replaced = [](const attribute& a) { return a.name == "pads" || a.name == "auto_pad"; };
            n.attributes.erase(std::remove_if(n.attributes.begin(), n.attributes.end(), replaced), n.attributes.end());
            n.attributes.push_back(integers_attribute("pads", std::move(both)));
        });
    }

    const lowering& with_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
