// BitCast: a copy of memory. The conversions, Cast and CastLike, are rules of elementwise.hpp.
#pragma once

#include "../codegen/loop.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// BitCast of ops/cast.hpp. It is no rule, as what is computed of halves and NaN has not their bits.
generated_table cast_rows();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

inline dtype bits_type(dtype type) noexcept {
    constexpr dtype by_size[] = {dtype::uint8, dtype::uint16, dtype::uint32, dtype::uint64};
    std::size_t size = size_of(type), i = 0;
    for (; size > 1; size /= 2) ++i;
    return by_size[i];
}

// The loop of Identity over unsigned integers; a truth value is any bit that is set.
inline const char* generate_bit_cast(const kernel_query& q, program& p) {
    if (!is_generated(q.in[0].type) || !is_generated(q.out[0].type)) return "an element type that generated kernels do not take";
    if (size_of(q.in[0].type) != size_of(q.out[0].type)) return "its types differ in size";
    const bool truth = q.out[0].type == dtype::boolean;
    node n = q.n;
    n.op_type = truth ? "Cast" : "Identity";
    n.attributes.clear();
    if (truth) n.attributes.push_back(integer_attribute("to", static_cast<std::int64_t>(dtype::boolean)));
    const tensor_view in{bits_type(q.in[0].type), q.in[0].extents, q.in[0].data};
    tensor_view out{truth ? dtype::boolean : bits_type(q.out[0].type), q.out[0].extents, nullptr};
    const op_context c{n, &in, 1, &out, 1, q.limit};
    const char* why = generate_loop({c, q.in_layout, q.out_layout, q.on, q.options}, p);
    p.note = "a copy of bits";
    return why;
}

}  // namespace detail

GRAFT_INLINE generated_table cast_rows() {
    static constexpr generated_row rows[] = {{"BitCast", "", detail::generate_bit_cast}};
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
