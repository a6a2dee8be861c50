// Conversions between element types: Cast, CastLike, BitCast.
#pragma once

#include "gradient_common.hpp"

GRAFT_BEGIN_NAMESPACE
namespace ops {

// float8e8m0 holds powers of two, codes 0 to 254, and NaN; only the exponent of |d| counts.
inline std::uint8_t double_to_e8m0(double d, char mode, bool saturate) noexcept {
    if (d != d || (std::isinf(d) && !saturate)) return 255;
    if (d == 0) return 0;
    if (std::isinf(d)) return 254;
    int exponent = 0;
    const double mantissa = 2 * std::frexp(std::fabs(d), &exponent);  // in [1, 2)
    const int code = exponent - 1 + 127 + (mode == 'u' ? mantissa > 1 : mode == 'n' ? mantissa >= 1.5 : 0);
    return static_cast<std::uint8_t>(code < 0 ? 0 : code <= 254 ? code : saturate ? 254 : 255);
}

struct cast_mode {
    bool saturate = true;
    char rounding = 'u';  // of float8e8m0: up, down, nearest
};

// 64-bit integers as doubles that keep what a narrower float needs to be rounded once: bits past the 53rd are joined into one.
inline double sticky_double(std::int64_t v, bool unsigned64) noexcept {
    if (!unsigned64 && v > -(std::int64_t(1) << 53) && v < std::int64_t(1) << 53) return static_cast<double>(v);
    if (!unsigned64) return static_cast<double>((v & ~std::int64_t(2047)) | (v & 2047 ? 2048 : 0));
    const auto u = static_cast<std::uint64_t>(v);
    return static_cast<double>(u < std::uint64_t(1) << 53 ? u : (u & ~std::uint64_t(2047)) | (u & 2047 ? 2048u : 0u));
}

GRAFT_NOINLINE inline void store_cast(const tensor_view& y, std::int64_t first, int n, const double* block, cast_mode mode) noexcept {
    if (type_class(y.type) != accept::small || !is_float(y.type)) return store_from_double(y.type, y.data, first, n, block);
    auto* to = static_cast<std::uint8_t*>(y.data) + first;
    for (int i = 0; i < n; ++i)
        to[i] = y.type == dtype::float8e8m0 ? double_to_e8m0(block[i], mode.rounding, mode.saturate) : double_to_small_float(y.type, block[i], mode.saturate);
}

GRAFT_NOINLINE inline status convert_elements(run_context& c, cast_mode mode) {
    const tensor_view x = c.in[0], y = c.out[0];
    if (x.type == y.type) return copy_input(c);
    const bool from_whole = !is_float(x.type), to_whole = !is_float(y.type), unsigned64 = x.type == dtype::uint64;
    for_blocks(c.pool, y.elements(), [&](std::int64_t first, int n) {
        double block[block_size];
        std::int64_t whole[block_size];
        if (!from_whole) {
            load_as_double(x.type, x.data, first, n, block);
            return store_cast(y, first, n, block, mode);
        }
        load_as_int64(x.type, x.data, first, n, whole);
        if (to_whole) return store_from_int64(y.type, y.data, first, n, whole);
        for (int i = 0; i < n; ++i)
            block[i] = y.type != dtype::float64 ? sticky_double(whole[i], unsigned64)
                       : unsigned64             ? static_cast<double>(static_cast<std::uint64_t>(whole[i]))
                                                : static_cast<double>(whole[i]);
        store_cast(y, first, n, block, mode);
    });
    return {};
}

inline status read_cast_mode(const op_context& c, cast_mode& mode) {
    mode.saturate = c.integer("saturate", 1) != 0;
    mode.rounding = c.string("round_mode", "up")[0];
    if (c.is("round_mode", "up", "up") || c.is("round_mode", "down", "up") || c.is("round_mode", "nearest", "up")) return {};
    return c.fail(errc::op_attribute, "round_mode must be up, down or nearest");
}
inline status cast_kernel(run_context& c) {
    cast_mode mode;
    GRAFT_TRY(read_cast_mode(c, mode));
    return convert_elements(c, mode);
}

// The type of Cast-1, which names it: "FLOAT", "INT64", ...
inline dtype type_named(const char* text) noexcept {
    static constexpr const char* names[] = {"FLOAT",  "UINT8", "INT8",    "UINT16", "INT16",  "INT32", "INT64",
                                            "STRING", "BOOL",  "FLOAT16", "DOUBLE", "UINT32", "UINT64"};
    for (int i = 0; i < 13; ++i)
        if (!std::strcmp(text, names[i])) return static_cast<dtype>(i + 1);
    return dtype::undefined;
}

// Cast-1,6,9,13,19,21,23,24,25,28: y = x in the type `to`. Floats to integers are cut toward zero, too large integers wrap,
// floats round once, half to even; floats of 8 bits and less saturate unless saturate = 0.
inline status cast_infer(infer_context& c) {
    dtype to = dtype::undefined;
    cast_mode mode;
    GRAFT_TRY(check_type(c, 0, accept::any));
    GRAFT_TRY(read_cast_mode(c, mode));
    if (!c.has_attribute("to")) return c.fail(errc::op_attribute, "the attribute 'to' is missing");
    GRAFT_TRY(type_attribute(c, "to", dtype::undefined, accept::any, to));
    return c.set(0, to, c.in[0].extents);
}
inline status named_cast_infer(infer_context& c) {
    GRAFT_TRY(check_type(c, 0, accept::any));
    const dtype to = type_named(c.string("to", ""));
    if (!size_of(to)) return c.fail(errc::op_unsupported, "the element type that 'to' names is not supported");
    return c.set(0, to, c.in[0].extents);
}

// CastLike-15,19,21,23,24,25: y = x in the type of the second input
inline status cast_like_infer(infer_context& c) {
    cast_mode mode;
    GRAFT_TRY(check_type(c, 0, accept::any));
    GRAFT_TRY(check_type(c, 1, accept::any));
    GRAFT_TRY(read_cast_mode(c, mode));
    return c.set(0, c.in[1].type, c.in[0].extents);
}

// BitCast-26: the bits of x read as the type `to`, which has as many
inline status bit_cast_infer(infer_context& c) {
    dtype to = dtype::undefined;
    GRAFT_TRY(check_type(c, 0, accept::any));
    if (!c.has_attribute("to")) return c.fail(errc::op_attribute, "the attribute 'to' is missing");
    GRAFT_TRY(type_attribute(c, "to", dtype::undefined, accept::any, to));
    if (file_bits(to) != file_bits(c.in[0].type))
        return c.fail(errc::op_type, "a type of %lld bits cannot be read as one of %lld bits", static_cast<std::int64_t>(file_bits(c.in[0].type)),
                      static_cast<std::int64_t>(file_bits(to)));
    return c.set(0, to, c.in[0].extents);
}
inline status bit_cast_run(run_context& c) {
    const dtype to = c.out[0].type;
    GRAFT_TRY(copy_input(c));
    // A tensor holds integers below a byte extended to one, floats below a byte with their upper bits zero, and bools as 0 or 1.
    if (file_bits(to) >= 8 && to != dtype::boolean) return {};
    auto* p = c.out[0].as<std::uint8_t>();
    const unsigned bits = static_cast<unsigned>(file_bits(to)), mask = (1u << bits) - 1, sign = 1u << (bits - 1);
    for (std::int64_t i = 0, n = c.out[0].elements(); i < n; ++i) {
        const unsigned v = p[i] & mask;
        if (to == dtype::boolean)
            p[i] = p[i] != 0;
        else
            p[i] = static_cast<std::uint8_t>((to == dtype::int4 || to == dtype::int2) && (v & sign) ? v | ~mask : v);
    }
    return {};
}

// Integers and bools let nothing through.
inline bool cast_flows(const node& n, std::size_t) {
    const attribute* to = n.find("to");
    return !to || to->integer <= 0 || to->integer >= 64 || is_float(static_cast<dtype>(to->integer));
}
// Floats to floats: back to the type it came from.
inline status cast_gradient(gradient_context& c) {
    c.give(0, cast_to(c, c.dy(), c.build.type(c.in(0))));
    return {};
}

// How they carry a batch: see batch_rules.hpp.
// The second input of CastLike only names a type.
inline bool carry_cast_like(batch_carrier& c) { return carry_elements(c, 1); }

inline op_table cast_ops() {
    static constexpr op_row rows[] = {
        onnx("Cast")
            .opsets(1, 5)
            .inputs(1)
            .functions(named_cast_infer, cast_kernel)
            .elementwise()
            .converts()
            .attributes("to:s")
            .problems("f32[3,17] to=INT64; i32[5] to=FLOAT; b[0] to=FLOAT16"),
        onnx("Cast")
            .opsets(6)
            .inputs(1)
            .functions(cast_infer, cast_kernel)
            .elementwise()
            .converts()
            .attributes("round_mode:s saturate:i to:i")
            .problems("f32[3,17] to=7; f32[3,17]~-300:300 to=3; i64[7] to=1; f32{0,-0.5,nan} to=9; f32[9] to=10; f16[0] to=11; u8[] "
                      "to=16; f32{500,-1,0.3} to=17 saturate=0; f32{5,9,-3} to=22"),
        onnx("CastLike")
            .opsets(15)
            .inputs(2)
            .functions(cast_like_infer, cast_kernel)
            .carries(carry_cast_like)
            .elementwise()
            .attributes("round_mode:s saturate:i")
            .problems("f32[3,17] i64[1]; i32[5] f16[]; b[0] f32[2]"),
        onnx("BitCast")
            .opsets(26)
            .inputs(1)
            .functions(bit_cast_infer, bit_cast_run)
            .elementwise()
            .reads_bits()
            .attributes("to:i")
            .problems("f32[3,5] to=6; i64[4] to=11; u8[5] to=9; f16[0] to=16"),
    };
    static_assert(all_have_problems(rows), "every operator needs test problems");
    return rows;
}

inline gradient_table cast_gradients() {
    static constexpr gradient_row rows[] = {{"Cast", "", cast_gradient, cast_flows}, {"CastLike", "", cast_gradient}};
    return rows;
}

}  // namespace ops
GRAFT_END_NAMESPACE
