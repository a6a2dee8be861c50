// A query of a family, made of what planning asks, or of a node in its graph.
#pragma once

#include "../../graph/memory_roots.hpp"
#include "../kernel.hpp"

#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// Who makes the kernel of a node: asked of nodes that could be split into smaller ones.
struct kernel_question {
    void* context;
    /// Whether kernels of our own do, all that the node does in one.
    bool (*own)(void* context, const node& n, const graph& g);
    /// Whether a library's row does.
    bool (*makes)(void* context, const node& n, const graph& g);
};

namespace detail {

// Layouts as families have them, kept beside the query that points at them.
class asked {
public:
    // Layouts may be null: row-major. `memory` as in kernel_query.
    asked(const op_context& c, const layout* in, const layout* out, const device_traits& on, kernel_options options, const value_id* memory = nullptr)
        : in_(in ? std::vector<layout>(in, in + c.inputs) : std::vector<layout>(static_cast<std::size_t>(c.inputs))),
          out_(out ? std::vector<layout>(out, out + c.outputs) : std::vector<layout>(static_cast<std::size_t>(c.outputs))), query_{c,  nullptr, nullptr,
                                                                                                                                   on, options, memory} {
        point();
    }
    asked(const asked& other) : in_(other.in_), out_(other.out_), query_(other.query_) { point(); }
    asked& operator=(const asked&) = delete;
    // As lowering will have it: what a library convolves lies channels last.
    void channels_last() {
        for (std::size_t i = 0; i < in_.size(); ++i)
            if (query_.in[i].extents.rank() > 2) in_[i] = layout::channels_last;
        for (std::size_t i = 0; i < out_.size(); ++i)
            if (query_.out[i].extents.rank() > 2) out_[i] = layout::channels_last;
    }
    const kernel_query& query() const { return query_; }

private:
    void point() {
        query_.in_layout = in_.data();
        query_.out_layout = out_.data();
    }
    std::vector<layout> in_, out_;
    kernel_query query_;
};

// A value of another graph with the type, extents and layout of this one, appended to `to`.
inline value_id copy_value(graph& to, const value& from) {
    const value_id made = to.add_value(from.name);
    value& v = to.values.back();
    v.type = from.type;
    v.has_shape = true;
    v.extents = from.extents;
    v.layout = from.layout;
    return made;
}

// A node of a graph under change, asked as planning will ask for it. The graph stays as it is meanwhile.
class asked_in_graph {
public:
    // `roots`: the graph's memory_roots, where more than whether there is a kernel is asked.
    asked_in_graph(const graph& g, const node& n, const limits& limit, const std::vector<value_id>* roots = nullptr) {
        if (roots) memory_ = graft::detail::memory_of_inputs(n, *roots);
        for (int side = 0; side < 2; ++side)
            for (value_id id : side ? n.outputs : n.inputs) {
                const value* v = id == no_value ? nullptr : &g.at(id);
                views_[side].push_back(v ? view_at_hand(*v) : tensor_view{});
                layouts_[side].push_back(v ? v->layout : layout());
            }
        context_.reset(new op_context{n, views_[0].data(), static_cast<int>(views_[0].size()), views_[1].data(), static_cast<int>(views_[1].size()), limit});
    }
    const op_context& context() const { return *context_; }
    asked on(const device_traits& traits, kernel_options options) const {
        return asked(*context_, layouts_[0].data(), layouts_[1].data(), traits, options, memory_.empty() ? nullptr : memory_.data());
    }

private:
    std::vector<tensor_view> views_[2];
    std::vector<layout> layouts_[2];
    std::vector<value_id> memory_;
    std::unique_ptr<op_context> context_;
};

}  // namespace detail
}  // namespace gpu
GRAFT_END_NAMESPACE
