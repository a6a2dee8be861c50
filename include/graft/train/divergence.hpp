// Small parts of the training step: sums of parts, and the search for the first value that is not finite.
#pragma once

#include "../exec/context.hpp"
#include "batch_parts.hpp"
#include "execution.hpp"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

inline bool same_shapes(const std::vector<tensor>& a, const std::vector<tensor>& b) {
    bool same = a.size() == b.size();
    for (std::size_t i = 0; same && i < a.size(); ++i) same = a[i].type() == b[i].type() && a[i].shape() == b[i].shape();
    return same;
}

// a += b, element by element; `b` without contents stands for zeros, which take the sign from a -0 as they do in the tree of shards.
inline status add_into(tensor& a, const tensor& b, executor& pool) {
    if (a.type() != dtype::float32) return fail(errc::op_type, "a batch in parts", std::string("its sums have to be float32, and one is ") + name(a.type()));
    constexpr std::int64_t piece = 1 << 16;
    float* to = a.data<float>();
    const float* from = b ? b.data<float>() : nullptr;
    const std::int64_t n = a.elements();
    parallel_for(pool, (n + piece - 1) / piece, [&](std::int64_t p) {
        for (std::int64_t i = p * piece; i < std::min(n, (p + 1) * piece); ++i) to[i] += from ? from[i] : 0.0f;
    });
    return {};
}

// NaN, and infinities apart from it.
struct finiteness {
    bool nan = false, infinite = false;
    bool finite() const noexcept { return !nan && !infinite; }
};
inline finiteness finiteness_of(const tensor_view& v) {
    finiteness f;
    const std::int64_t n = is_float(v.type) && v.data ? v.extents.elements() : 0;
    for (std::int64_t i = 0; i < n; ++i) {
        const double x = v.type == dtype::float32 ? static_cast<double>(static_cast<const float*>(v.data)[i]) : element_as_double(v.type, v.data, i);
        f.nan |= std::isnan(x);
        f.infinite |= std::isinf(x);
    }
    return f;
}
inline bool all_finite(const tensor_view& v) {
    if (v.type != dtype::float32 || !v.data) return finiteness_of(v).finite();
    // By the bits, in runs of a length that compilers know and so take vectors for: every step looks at all weights. Adding one to the
    // exponent carries into the sign's place where all its bits are set.
    constexpr std::uint32_t exponent = 0x7f800000, one = 0x00800000, sign = 0x80000000;
    constexpr int run = 16;
    const auto* bytes = static_cast<const unsigned char*>(v.data);
    const std::int64_t n = v.extents.elements();
    std::uint32_t found[run] = {}, bits[run] = {};
    for (std::int64_t i = 0; i < n; i += run) {
        if (n - i >= run)
            std::memcpy(bits, bytes + 4 * i, sizeof bits);
        else
            std::memcpy(bits, bytes + 4 * i, static_cast<std::size_t>(4 * (n - i)));
        for (int k = 0; k < run; ++k) found[k] |= (bits[k] & exponent) + one;
    }
    for (int k = 1; k < run; ++k) found[0] |= found[k];
    return !(found[0] & sign);
}

// The first value in the order of the nodes that holds NaN or infinity, as "'value' of Op 'node'"; "" where none does. Infinities that
// come from a constant, as those of masks do, are meant. The nodes are run again with their outputs kept, as many at a time as take
// little memory.
inline result<std::string> first_not_finite(const graph& forward, const std::vector<tensor_view>& inputs, const limits& limit, std::uint64_t seed,
                                            executor& pool) {
    constexpr std::int64_t most = std::int64_t(64) << 20;
    std::vector<char> meant(forward.values.size(), 0);
    for (std::size_t i = 0; i < meant.size(); ++i)
        if (forward.values[i].constant && finiteness_of(view(forward.values[i].constant)).infinite) meant[i] = 1;
    for (std::size_t next = 0; next < forward.nodes.size();) {
        executable again;
        again.graph = forward;
        again.graph.outputs.clear();
        GRAFT_TRY_ASSIGN(again.how, host_execution(limit, seed));
        std::vector<std::size_t> made_by;
        for (std::int64_t bytes = 0; next < forward.nodes.size() && bytes < most; ++next)
            for (value_id id : forward.nodes[next].outputs) {
                if (id == no_value || !is_float(forward.at(id).type)) continue;
                again.graph.outputs.push_back(id);
                made_by.push_back(next);
                bytes += std::max<std::int64_t>(0, bytes_of(forward.at(id).type, forward.at(id).extents));
            }
        if (made_by.empty()) continue;
        context run(again, pool);
        GRAFT_TRY(run.run(inputs.data()));
        for (std::size_t i = 0; i < made_by.size(); ++i) {
            const node& n = forward.nodes[made_by[i]];
            const value_id id = again.graph.outputs[i];
            const finiteness found = finiteness_of(view(run.output(i)));
            if (found.finite()) continue;
            bool from_meant = false;
            for (value_id in : n.inputs) from_meant |= in != no_value && meant[static_cast<std::size_t>(in)];
            if (found.nan || !from_meant) {
                const std::string of = n.name.empty() ? n.op_type : n.op_type + " '" + n.name + "'";
                return "'" + forward.at(id).name + "' of " + of;
            }
            meant[id] = 1;
        }
    }
    return std::string();
}

}  // namespace detail
GRAFT_END_NAMESPACE
