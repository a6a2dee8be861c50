// A model's golden sample: one input and the output it has to give, small enough for the model's metadata.
#pragma once

#include "../core/error.hpp"
#include "../core/limits.hpp"
#include "../core/number_text.hpp"
#include "../tensor/tensor.hpp"

#include <string>
#include <string_view>

GRAFT_BEGIN_NAMESPACE

/// The key of a golden sample in a model's metadata.
inline constexpr const char* golden_key = "graft.golden";

/// One input of a model and the output that belongs to it.
struct golden_sample {
    std::string input_name, output_name;
    tensor input;             ///< float32, uint8 or int8
    tensor output;            ///< float32
    double tolerance = 1e-4;  ///< of the output's range (largest less smallest): how far another run may be off
};

/// The sample as a JSON text: shapes, types other than float32, and data as base64 of zlib of the bytes, all first bytes of the elements
/// before all second ones. Errors: tensor.dtype.
result<std::string> encode_golden(const golden_sample& sample);
/// Reads it back, exact to the bit. `name` stands for the model in messages. Errors: model.malformed, memory.budget where a
/// tensor is larger than `limit.fold_bytes`, memory.oom, tensor.overflow.
result<golden_sample> decode_golden(std::string_view text, const std::string& name, const limits& limit = {});
/// Whether an output is the sample's, within its tolerance. Errors: op.value, with the largest difference; op.shape.
status check_golden(const golden_sample& sample, const tensor& output);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/json.hpp"
#include "../data/deflate.hpp"
#include "../data/inflate.hpp"
#include "base64.hpp"

#include <cmath>
#include <cstring>
GRAFT_BEGIN_NAMESPACE
namespace detail {

inline void write_golden_tensor(json_writer& w, const char* key, const std::string& name, const tensor& t) {
    w.key(key).begin_object().key("name").string(name).key("shape").begin_array();
    for (const std::int64_t d : t.shape()) w.integer(d);
    // Neighbours differ in their low bytes and agree in their high ones: apart, they compress.
    const std::size_t n = static_cast<std::size_t>(t.elements()), size = static_cast<std::size_t>(size_of(t.type()));
    std::string planes(n * size, '\0');
    const auto* bytes = reinterpret_cast<const char*>(t.raw());
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t b = 0; b < size; ++b) planes[b * n + i] = bytes[i * size + b];
    w.end_array();
    if (t.type() != dtype::float32) w.key("dtype").string(graft::name(t.type()));
    w.key("data").string(base64_encode(zlib_compress(planes.data(), planes.size()))).end_object();
}

// Where inflated bytes go: as many as are expected, and not one more.
struct golden_sink {
    std::string bytes;
    std::size_t most;
};
inline bool fill_golden(void* context, const std::uint8_t* bytes, std::size_t n) {
    auto& sink = *static_cast<golden_sink*>(context);
    if (n > sink.most - sink.bytes.size()) return false;
    sink.bytes.append(reinterpret_cast<const char*>(bytes), n);
    return true;
}

inline status read_golden_tensor(const json* part, const std::string& where, const limits& limit, std::string& name, tensor& out) {
    const auto fault = [&where](const char* what) { return fail(errc::model_malformed, where, what); };
    const json *given = part ? part->find("name") : nullptr, *extents = part ? part->find("shape") : nullptr;
    const json* data = part ? part->find("data") : nullptr;
    if (!given || given->type != json::kind::string || !extents || extents->type != json::kind::array || !data || data->type != json::kind::string ||
        extents->items.size() > static_cast<std::size_t>(shape::max_rank))
        return fault("its golden sample lacks a name, a shape or data");
    std::int64_t dims[shape::max_rank] = {};
    int rank = 0;
    for (const json& d : extents->items) {
        if (!d.is_integer || d.integer < 0) return fault("a shape in its golden sample is not legal");
        dims[rank++] = d.integer;
    }
    dtype type = dtype::float32;
    if (const json* named = part->find("dtype")) {
        for (dtype t : {dtype::uint8, dtype::int8})
            if (named->type == json::kind::string && named->string == graft::name(t)) type = t;
        if (type == dtype::float32) return fault("a type in its golden sample is not known");
    }
    const shape extent = shape::from(dims, dims + rank);
    const std::int64_t bytes = bytes_of(type, extent);
    if (bytes < 0) return fail(errc::tensor_overflow, where, "the size of a shape in its golden sample overflows");
    if (bytes > limit.fold_bytes) return fail(errc::memory_budget, where, "its golden sample is larger than the limit");
    std::string packed;
    if (!base64_decode(data->string, packed) || packed.size() < 6) return fault("the data of its golden sample are no base64 of zlib");
    golden_sink sink{{}, static_cast<std::size_t>(bytes)};
    // zlib's two bytes at the front; its Adler-32 behind is weaker than the comparison that the sample is for.
    inflater stream(reinterpret_cast<const std::uint8_t*>(packed.data()) + 2, packed.size() - 2, fill_golden, &sink);
    const inflate_end end = stream.run();
    if (end == inflate_end::no_memory) return fail(errc::memory_oom, where, "there is no memory to unpack its golden sample");
    if (end != inflate_end::done || sink.bytes.size() != sink.most) return fault("the data of its golden sample do not fill its shape");
    GRAFT_TRY_ASSIGN(out, tensor::make(type, extent));
    const std::size_t size = static_cast<std::size_t>(size_of(type)), n = sink.most / size;
    auto* to = reinterpret_cast<char*>(out.raw());
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t b = 0; b < size; ++b) to[i * size + b] = sink.bytes[b * n + i];
    name = given->string;
    return {};
}

}  // namespace detail

GRAFT_INLINE result<std::string> encode_golden(const golden_sample& sample) GRAFT_MEMORY_TRY {
    const dtype in = sample.input.type();
    if ((in != dtype::float32 && in != dtype::uint8 && in != dtype::int8) || sample.output.type() != dtype::float32)
        return fail(errc::tensor_dtype, golden_key, "a golden sample holds float32, and 8-bit pictures");
    json_writer w;
    w.begin_object().key("version").integer(1).key("tolerance").number(sample.tolerance);
    detail::write_golden_tensor(w, "input", sample.input_name, sample.input);
    detail::write_golden_tensor(w, "output", sample.output_name, sample.output);
    w.end_object();
    return w.text();
}
GRAFT_MEMORY_CATCH("encode_golden")

GRAFT_INLINE result<golden_sample> decode_golden(std::string_view text, const std::string& name, const limits& limit) GRAFT_MEMORY_TRY {
    auto parsed = parse_json(text, name, limit);
    if (!parsed.ok()) return fail(errc::model_malformed, name, "its golden sample is no JSON: " + parsed.error().detail());
    const json *version = parsed->find("version"), *tolerance = parsed->find("tolerance");
    if (!version || !version->is_integer || version->integer != 1 || !tolerance || tolerance->type != json::kind::number)
        return fail(errc::model_malformed, name, "its golden sample is of an unknown version, or has no tolerance");
    golden_sample sample;
    sample.tolerance = tolerance->real;
    GRAFT_TRY(detail::read_golden_tensor(parsed->find("input"), name, limit, sample.input_name, sample.input));
    GRAFT_TRY(detail::read_golden_tensor(parsed->find("output"), name, limit, sample.output_name, sample.output));
    return sample;
}
GRAFT_MEMORY_CATCH(name)

GRAFT_INLINE status check_golden(const golden_sample& sample, const tensor& output) GRAFT_MEMORY_TRY {
    const std::string where = "output '" + sample.output_name + "'";
    if (output.type() != dtype::float32 || output.shape() != sample.output.shape())
        return fail(errc::op_shape, where, "it is " + text(output.shape()) + ", the golden output " + text(sample.output.shape()));
    const float *want = sample.output.data<float>(), *got = output.data<float>();
    double low = 0, high = 0, worst = 0;
    bool finite = true;
    for (std::int64_t i = 0; i < output.elements(); ++i) {
        const double w = want[i], g = got[i];
        low = i == 0 || w < low ? w : low;
        high = i == 0 || w > high ? w : high;
        finite = finite && std::isfinite(g) && std::isfinite(w);
        worst = std::fabs(g - w) > worst ? std::fabs(g - w) : worst;
    }
    // An output of one number, or of equal ones, has no range: its own size stands in.
    const double range = high > low ? high - low : std::fabs(high) > 0 ? std::fabs(high) : 1;
    if (finite && worst <= sample.tolerance * range) return {};
    if (!finite) return fail(errc::op_value, where, "it, or the golden output, is not finite");
    return fail(errc::op_value, where,
                "the largest difference from the golden output is " + detail::number_text("%.3g", worst) + "; " +
                    detail::number_text("%.3g", sample.tolerance * range) + " is allowed");
}
GRAFT_MEMORY_CATCH("check_golden")

GRAFT_END_NAMESPACE
#endif
