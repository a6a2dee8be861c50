// The rule of graft.Dropout: the same random bits as the reference, wherever an element is computed.
#pragma once

#include "../codegen/element.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The rules of ops/random.hpp: graft.Dropout, and Dropout where it is a copy.
rule_table random_rules();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

// The upper 53 bits of the random number of an element: number (first sample's place + sample) * (elements of a sample) + element.
inline operand dropout_bits(const rule_call& r) {
    element_emitter& e = r.e;
    const operand step = r.in(1, walk({2}, layout::row_major, index_of(0))), sample = r.in(1, walk({2}, layout::row_major, index_of(1)));
    const std::string seed = literal(dtype::uint64, r.c.integer("seed", 0)), of_sample = literal(dtype::uint64, r.at.extents.elements() / r.at.extents.at(0));
    const operand before = e.make(dtype::uint64, ("(unsigned long long)% * " + of_sample).c_str(), {sample});
    if (!before || !step) return {};
    const index number = e.number(r.at);
    const std::string first = before.text + " + (unsigned long long)" + number.text;
    const std::string lanes = number.consecutive ? std::to_string(e.lanes()) : "1";
    const level where = number.level < level::pack ? level::pack : number.level;
    const std::string drawn = e.define("p", "pack<unsigned long long, " + lanes + ">",
                                       "random_numbers<" + lanes + ">(" + seed + ", (unsigned long long)" + step.text + ", " + first + ")", where);
    const level element = number.consecutive ? level::lane : where;
    return {e.define("v", "unsigned long long", drawn + (number.consecutive ? ".at[lane]" : ".at[0]"), element), dtype::uint64, element};
}
inline operand emit_dropout(const rule_call& r) {
    const double ratio = static_cast<double>(r.c.real("ratio", 0.5f));
    if (!(ratio >= 0 && ratio < 1)) return r.e.refuse("its ratio is not in [0, 1)");
    // bits * 2^-53 >= ratio, in whole numbers
    const auto least = static_cast<std::int64_t>(std::ceil(ratio * 9007199254740992.0));
    const dtype type = r.output ? dtype::float32 : r.type();
    const operand kept = r.e.number(type, static_cast<double>(static_cast<float>(1 / (1 - ratio))));
    const operand mask =
        least == 0 ? kept : r.e.make(type, ("% >= " + literal(dtype::uint64, least) + " ? % : %").c_str(), {dropout_bits(r), kept, r.e.number(type, 0)});
    return r.output ? mask : r.e.make(type, "% * %", {r.in(0), mask});
}
// ONNX's Dropout where it drops nothing; its mask is all ones.
inline operand emit_dropout_copy(const rule_call& r) {
    const bool trains = r.c.has(2) && !(r.c.in[2].data && !r.c.in[2].integer(0)) && !(r.c.has(1) && r.c.in[1].data && r.c.in[1].real(0) == 0);
    if (trains) return r.e.refuse("it may drop elements at random, by a seed of the run");
    return r.output ? r.e.number(r.c.out[1].type, 1) : r.in(0);
}

}  // namespace detail

GRAFT_INLINE rule_table random_rules() {
    static constexpr element_rule rows[] = {
        {"Dropout", "graft", element_rule::same, detail::emit_dropout, ""},
        {"Dropout", "", element_rule::same, detail::emit_dropout_copy, ""},
    };
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
