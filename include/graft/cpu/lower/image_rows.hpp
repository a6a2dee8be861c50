// Rows of pixels that become images, and images that become rows: transpositions that can go between them and blocks of channels at once.
#pragma once

#include "../../lower/view_writer.hpp"

#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

//   Reshape(Transpose(x, 0 2 1), N C H W)     Transpose(Reshape(x, N H W C), 0 3 1 2)
//   Transpose(Reshape(y, N C HW), 0 2 1)      Reshape(Transpose(y, 0 2 3 1), N HW C)
// as vision transformers have them round their convolutions. Where the images lie in blocks of channels, no planes are made in between.
class image_rows : public view_writer {
public:
    image_rows(graph& target, const lowering& with) : view_writer(target, with.on) {}

    // Errors: memory.oom; the graph is of no use then.
    GRAFT_COLD status run() {
        for (node& n : g.nodes) {
            if (!here(n) || n.inputs.empty() || n.outputs.size() != 1) continue;
            node* before = maker(n.inputs[0]);
            if (!before || !here(*before) || !used_once(n.inputs[0]) || !is_float32(n.inputs[0])) continue;
            if (swaps(*before) && row(n).is(op_flag::view))
                to_images(*before, n);
            else if (swaps(n) && row(*before).is(op_flag::view))
                to_rows(*before, n);
        }
        finish();
        return std::move(failure_);
    }

private:
    static bool swaps(const node& n) {
        const attribute* perm = n.find("perm");
        return n.op_type == "Transpose" && n.domain.empty() && perm && perm->integers == std::vector<std::int64_t>{0, 2, 1};
    }
    void to_images(node& transpose, node& view) {
        const shape rows = at(transpose.inputs[0]).extents, y = at(view.outputs[0]).extents;
        if (y.rank() != 4 || y.elements() == 0 || y[0] != rows[0] || y[1] != rows[2] || y[2] * y[3] != rows[1]) return;
        exchange(transpose, view, true, {0, 3, 1, 2}, shape{y[0], y[2], y[3], y[1]});
    }
    void to_rows(node& view, node& transpose) {
        const shape x = at(view.inputs[0]).extents, rows = at(transpose.outputs[0]).extents;
        if (x.rank() != 4 || x.elements() == 0 || x[0] != rows[0] || x[1] != rows[2] || x[2] * x[3] != rows[1]) return;
        exchange(view, transpose, false, {0, 2, 3, 1}, shape{x[0], x[2], x[3], x[1]});
    }
    // Each of two nodes becomes of the other's kind, and the first one a Reshape or the second; between them are pixels with their channels last.
    void exchange(node& first, node& second, bool reshapes_first, std::vector<std::int64_t> perm, const shape& pixels) {
        const shape& to = reshapes_first ? pixels : at(second.outputs[0]).extents;
        const value_id told = extents_of(first, to), x = first.inputs[0], between = second.inputs[0];
        if (told == no_value) return;
        edit({&first, &second}, [&] {
            node &reshape = reshapes_first ? first : second, &turn = reshapes_first ? second : first;
            become(reshape, "Reshape", "");
            become(turn, "Transpose", "");
            first.inputs = {x}, second.inputs = {between};
            reshape.inputs.push_back(told);
            reshape.attributes.clear();
            turn.attributes = {integers_attribute("perm", std::move(perm))};
            at(between).extents = pixels;
        });
    }
};

}  // namespace detail
GRAFT_END_NAMESPACE
