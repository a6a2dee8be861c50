// What cutting, joining and mixing images along their channels is: a list of which channel each one comes from.
#pragma once

#include "../../lower/rewriter.hpp"
#include "../../ops/slice.hpp"

#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Whether a Split or a Concat goes along the channels of images; `otherwise` is its axis where none is given.
inline bool along_channels(const node& n, std::int64_t otherwise) {
    const std::int64_t axis = rewriter::integer(n, "axis", otherwise);
    return axis == 1 || axis == -3;
}

// The first channel of each output of a Split or a Slice that leaves the other axes of an image alone; false where it is none.
inline GRAFT_COLD bool cuts_channels(rewriter& r, const node& n, const limits& limit, std::vector<std::int64_t>& starts) {
    starts.clear();
    std::int64_t start = 0;
    if (r.is(n, "Slice")) {
        std::vector<tensor_view> in;
        for (value_id id : n.inputs) {
            if (!in.empty() && id != no_value && !r.is_constant(id)) return false;
            in.push_back(id == no_value ? tensor_view{} : view_at_hand(r.at(id)));
        }
        ops::slice_range range;
        if (!ops::read_slice({n, in.data(), static_cast<int>(in.size()), nullptr, 0, limit}, range).ok()) return false;
        for (int d = 0; d < range.n.rank(); ++d)
            if (range.step[d] != 1 || (d != 1 && range.n[d] != in[0].extents[d])) return false;
        start = range.first[1];
    } else if (!r.is(n, "Split") || !along_channels(n, 0)) {
        return false;
    }
    for (value_id id : n.outputs) {
        if (id == no_value || r.at(id).extents.rank() != 4 || r.at(id).extents.elements() == 0) return false;
        starts.push_back(start);
        start += r.at(id).extents[1];
    }
    return true;
}

// A node that makes `to` of images: its channel c is channel from[c] of them, counted from one to the next. Those of which it takes none are left out. Errors:
// memory.oom.
inline GRAFT_COLD result<node> gather_channels(rewriter& r, std::vector<value_id> images, std::vector<std::int64_t> from, value_id to) {
    std::int64_t before = 0;
    for (std::size_t i = 0; i < images.size();) {
        const std::int64_t end = before + r.at(images[i]).extents[1];
        bool any = false;
        for (std::int64_t c : from) any |= c >= before && c < end;
        if (any) {
            before = end, ++i;
            continue;
        }
        for (std::int64_t& c : from)
            if (c >= end) c -= end - before;
        images.erase(images.begin() + static_cast<std::ptrdiff_t>(i));
    }
    node n;
    r.become(n, "GatherChannels", "graft");
    n.name = r.at(to).name;
    tensor places;
    GRAFT_TRY_ASSIGN(places, tensor::from(from.data(), {static_cast<std::int64_t>(from.size())}));
    n.inputs = std::move(images);
    n.inputs.insert(n.inputs.begin(), r.g.add_constant(n.name + "_places", std::move(places)));
    n.outputs = {to};
    return n;
}

}  // namespace detail
GRAFT_END_NAMESPACE
