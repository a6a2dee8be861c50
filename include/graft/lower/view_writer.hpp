// A rewriting pass that writes nodes which move elements, or only give them another shape.
#pragma once

#include "rewriter.hpp"

#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// What it makes has the name of the value it is like, or of the node it stands before, and a suffix. `failure_`: memory.oom; the graph is of no use then.
class view_writer : public rewriter {
protected:
    using rewriter::rewriter;

    GRAFT_COLD value_id made(value_id like_this, const shape& extents, const char* suffix) {
        const value_id id = like(like_this, suffix);
        at(id).extents = extents;
        return id;
    }
    GRAFT_COLD value_id extents_of(const node& n, const shape& s) {
        auto made = tensor::from(s.begin(), {s.rank()});
        if (!made.ok()) return failure_ = made.take_status(), no_value;
        return g.add_constant(n.name + "_shape", std::move(made).value());
    }
    GRAFT_COLD value_id reshaped(const node& before, value_id x, const shape& to, const char* suffix) {
        node n;
        become(n, "Reshape", "");
        n.name = before.name;
        n.inputs = {x, extents_of(before, to)};
        n.outputs = {made(x, to, suffix)};
        return put_before(before, std::move(n));
    }
    GRAFT_COLD value_id transposed(const node& before, value_id x, const std::vector<std::int64_t>& perm, const char* suffix) {
        node n;
        become(n, "Transpose", "");
        n.name = before.name;
        n.inputs = {x};
        n.attributes = {integers_attribute("perm", perm)};
        shape to = at(x).extents;
        for (int d = 0; d < to.rank(); ++d) to[d] = at(x).extents[static_cast<int>(perm[static_cast<std::size_t>(d)])];
        n.outputs = {made(x, to, suffix)};
        return put_before(before, std::move(n));
    }
    GRAFT_COLD value_id put_before(const node& before, node n) {
        const value_id made = n.outputs[0];
        insert_before(before, std::move(n));
        return made;
    }

    status failure_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
