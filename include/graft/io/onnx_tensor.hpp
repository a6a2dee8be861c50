// TensorProto to tensor: every way ONNX writes elements down, checked before anything is allocated.
#pragma once

#include "../core/protobuf.hpp"
#include "../tensor/tensor.hpp"
#include "onnx_external.hpp"
#include "onnx_schema.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// What the parts of the reader share while one model is read.
struct onnx_context {
    wire_source source;
    const limits& limit;
    std::string directory;                               ///< for external data
    std::shared_ptr<const void> owner;                   ///< keeps the bytes of `source` alive; null: tensors are copied
    void (*let_go)(const void*, std::size_t) = nullptr;  ///< is told which of them were read
    external_files external;
    std::int64_t nodes = 0;        ///< read so far, bodies included; what calls add is counted before any is written out
    std::int64_t copied = 0;       ///< bytes of tensors that could not be shared with the file
    int calls = 0;                 ///< of functions, for fresh names
    std::int64_t written_out = 0;  ///< bytes that writing functions out has read again or copied

    onnx_context(const limits& l) : limit(l) {}
    GRAFT_COLD status fail(errc code, const std::string& what, const std::string& detail) const { return graft::fail(code, source.name + ": " + what, detail); }
    // A function is told once and called often, so what a call costs is charged to it: four times the file, and what limits allow.
    status write_out(const std::string& location, std::size_t bytes) {
        written_out += static_cast<std::int64_t>(bytes);
        if (written_out / 4 <= static_cast<std::int64_t>(source.bytes.size) + limit.load_work / 64) return {};
        return fail(errc::memory_budget, location,
                    "written out, the functions of this file take too much (limits::load_work is " + std::to_string(limit.load_work) + ")");
    }
};

// Dims of a file as a shape: none negative (`open` allows -1), rank held, the product of those that are not 0 in range.
inline GRAFT_COLD status check_extents(const onnx_context& c, const std::string& what, const std::vector<std::int64_t>& dims, bool open, shape& out) {
    if (dims.size() > static_cast<std::size_t>(shape::max_rank))
        return c.fail(errc::tensor_shape, what, "rank " + std::to_string(dims.size()) + " is over " + std::to_string(shape::max_rank));
    out = shape{};
    std::int64_t product = 8;
    for (const std::int64_t d : dims) {
        if (d < 0 && !(open && d == -1)) return c.fail(errc::tensor_shape, what, "an extent is " + std::to_string(d));
        if (d > 0 && (product = checked_mul(product, d)) < 0) return c.fail(errc::tensor_overflow, what, "the size of the shape overflows");
        out.push_back(d);
    }
    return {};
}

// Two or four elements out of each byte, first the low bits; signed ones extended.
inline void unpack_elements(dtype type, const std::uint8_t* packed, std::int64_t elements, std::uint8_t* out) noexcept {
    const int bits = static_cast<int>(file_bits(type)), per_byte = 8 / bits, mask = (1 << bits) - 1;
    const bool is_signed = type == dtype::int4 || type == dtype::int2;
    for (std::int64_t i = 0; i < elements; ++i) {
        int code = packed[i / per_byte] >> (static_cast<int>(i % per_byte) * bits) & mask;
        if (is_signed && code >> (bits - 1)) code -= 1 << bits;
        out[i] = static_cast<std::uint8_t>(code);
    }
}

// The field that holds elements of a type where raw_data does not.
inline std::uint32_t typed_field(dtype type) noexcept {
    switch (type) {
    case dtype::float32: return onnx_schema::tensor::float_data;
    case dtype::int64: return onnx_schema::tensor::int64_data;
    case dtype::float64: return onnx_schema::tensor::double_data;
    case dtype::uint32:
    case dtype::uint64: return onnx_schema::tensor::uint64_data;
    default: return onnx_schema::tensor::int32_data;
    }
}

class onnx_tensor_reader {
public:
    onnx_tensor_reader(onnx_context& c, const std::vector<wire_bytes>& parts) : c_(c), parts_(parts) {}
    /// `text` is set, and `out` left empty, where the tensor holds strings.
    status read(std::string& name, tensor& out, bool& text);

private:
    status scan();
    status raw(wire_bytes data, std::shared_ptr<const void> owner, void (*let_go)(const void*, std::size_t), const std::uint8_t* end, tensor& out);
    status charge();
    status allocate(tensor& out);
    status external(tensor& out);
    status typed(tensor& out);
    status store(wire_reader& r, std::uint8_t* to, std::int64_t& at, std::int64_t stored);
    status fail(errc code, const std::string& detail) const { return c_.fail(code, "tensor '" + name_ + "'", detail); }

    onnx_context& c_;
    const std::vector<wire_bytes>& parts_;
    std::string name_;
    std::vector<std::int64_t> dims_;
    std::int64_t data_type_ = 0, location_ = 0, counts_[16] = {};
    wire_bytes raw_;
    std::vector<wire_bytes> external_;
    bool has_segment_ = false;
    dtype type_ = dtype::undefined;
    shape extents_;
    std::int64_t elements_ = 0, file_bytes_ = 0;
};

inline GRAFT_COLD status onnx_tensor_reader::scan() {
    using field = onnx_schema::tensor;
    for (const wire_bytes& part : parts_) {
        wire_reader r(c_.source, part);
        wire_bytes ignored;
        while (r.next()) switch (r.field()) {
            case field::dims: r.add(dims_); break;
            case field::data_type: r.integer(data_type_); break;
            case field::segment: has_segment_ = true; break;
            case field::float_data: r.count(4, counts_[field::float_data]); break;
            case field::int32_data: r.count(0, counts_[field::int32_data]); break;
            case field::int64_data: r.count(0, counts_[field::int64_data]); break;
            case field::uint64_data: r.count(0, counts_[field::uint64_data]); break;
            case field::double_data: r.count(8, counts_[field::double_data]); break;
            case field::string_data: r.bytes(ignored), ++counts_[field::string_data]; break;
            case field::name: r.text(name_); break;
            case field::raw_data: r.bytes(raw_); break;
            case field::external_data: r.add(external_); break;
            case field::data_location: r.integer(location_); break;
            default: break;
            }
        GRAFT_TRY(r.finish());
    }
    return {};
}

inline GRAFT_COLD status onnx_tensor_reader::read(std::string& name, tensor& out, bool& text) {
    using field = onnx_schema::tensor;
    GRAFT_TRY(scan());
    name = name_;
    text = false;
    if (has_segment_) return fail(errc::op_unsupported, "tensors in segments are not supported");
    if (data_type_ <= 0 || data_type_ > static_cast<std::int64_t>(dtype::int2))
        return fail(errc::tensor_dtype, "element type " + std::to_string(data_type_) + " does not exist");
    type_ = static_cast<dtype>(data_type_);
    GRAFT_TRY(check_extents(c_, "tensor '" + name_ + "'", dims_, false, extents_));
    elements_ = elements_of(extents_);
    if (type_ == dtype::string) {
        if (raw_.size || location_) return fail(errc::tensor_dtype, "strings can only be given in string_data");
        if (counts_[field::string_data] != elements_) return fail(errc::tensor_bytes, "string_data has not as many strings as the shape asks for");
        text = true;
        return {};
    }
    if (!size_of(type_)) return fail(errc::tensor_dtype, std::string("elements of type ") + graft::name(type_) + " are not supported");
    const auto bits = static_cast<std::int64_t>(file_bits(type_));
    file_bytes_ = bits < 8 ? elements_ / (8 / bits) + (elements_ % (8 / bits) != 0) : elements_ * (bits / 8);
    int given = raw_.size != 0;
    for (const std::int64_t n : counts_) given += n != 0;
    if (location_ != 0 && location_ != 1) return fail(errc::tensor_bytes, "data_location is neither here nor external");
    if (location_ == 1) return given ? fail(errc::tensor_bytes, "the data are said to be external, and are given here too") : external(out);
    if (given > 1) return fail(errc::tensor_bytes, "the data are given in more than one field");
    if (raw_.size || !given) return raw(raw_, c_.owner, c_.let_go, c_.source.bytes.data + c_.source.bytes.size, out);
    return typed(out);
}

// Elements as they lie in memory. They are shared where they lie well: aligned, and with a cache line behind them that may be read. Large
// ones are shared in any case, since they are packed for the kernels and then seldom read again.
inline GRAFT_COLD status onnx_tensor_reader::raw(wire_bytes from, std::shared_ptr<const void> owner, void (*let_go)(const void*, std::size_t),
                                                 const std::uint8_t* end, tensor& out) {
    constexpr std::size_t large = 4096;
    if (from.size != static_cast<std::size_t>(file_bytes_))
        return fail(errc::tensor_bytes, std::string(graft::name(type_)) + graft::text(extents_) + " needs " + std::to_string(file_bytes_) +
                                            " bytes; there are " + std::to_string(from.size));
    const bool packed = file_bits(type_) < 8;
    const bool lies_well =
        static_cast<std::size_t>(end - from.data) >= from.size + buffer::alignment && reinterpret_cast<std::uintptr_t>(from.data) % size_of(type_) == 0;
    bool odd = false;
    if (type_ == dtype::boolean)
        for (std::size_t i = 0; i < from.size; ++i) odd |= from.data[i] > 1;
    if (owner && from.size >= large && is_float(type_) && !packed) {
        if (!lies_well) GRAFT_TRY(charge());
        buffer lent;
        GRAFT_TRY_ASSIGN(lent, buffer::lend(from.data, from.size, lies_well, std::move(owner), let_go));
        out = tensor(type_, extents_, std::move(lent));
        return {};
    }
    if (owner && from.size && lies_well && !packed && !odd) {
        out = tensor(type_, extents_, buffer::borrow(from.data, from.size, std::move(owner)));
        return {};
    }
    GRAFT_TRY(allocate(out));
    auto* to = reinterpret_cast<std::uint8_t*>(out.raw());
    if (packed)
        unpack_elements(type_, from.data, elements_, to);
    else if (from.size)
        std::memcpy(to, from.data, from.size);
    if (odd)
        for (std::size_t i = 0; i < from.size; ++i) to[i] = to[i] != 0;
    return {};
}

inline GRAFT_COLD status onnx_tensor_reader::charge() {
    const std::int64_t bytes = bytes_of(type_, extents_);
    if (bytes > c_.limit.memory_bytes - c_.copied)
        return fail(errc::memory_budget, "the tensors of the model take more than the limit of " + std::to_string(c_.limit.memory_bytes) + " bytes");
    c_.copied += bytes;
    return {};
}

inline GRAFT_COLD status onnx_tensor_reader::allocate(tensor& out) {
    GRAFT_TRY(charge());
    GRAFT_TRY_ASSIGN(out, tensor::make(type_, extents_));
    return {};
}

// A plain decimal number: digits alone, in range.
inline bool plain_decimal(std::string_view text, std::int64_t& value) noexcept {
    if (text.empty() || text.size() > 19) return false;
    std::uint64_t n = 0;
    for (const char c : text) {
        if (c < '0' || c > '9') return false;
        n = n * 10 + static_cast<std::uint64_t>(c - '0');
    }
    value = static_cast<std::int64_t>(n);
    return n <= static_cast<std::uint64_t>(INT64_MAX);
}

inline GRAFT_COLD status onnx_tensor_reader::external(tensor& out) {
    std::string_view location;
    std::int64_t offset = 0, length = -1;
    int seen = 0;
    for (const wire_bytes& e : external_) {
        wire_bytes key, value;
        wire_reader r(c_.source, e);
        while (r.next()) {
            if (r.field() == onnx_schema::entry::key) r.bytes(key);
            if (r.field() == onnx_schema::entry::value) r.bytes(value);
        }
        GRAFT_TRY(r.finish());
        const int bit = key.text() == "location" ? 1 : key.text() == "offset" ? 2 : key.text() == "length" ? 4 : 0;
        if (seen & bit) return fail(errc::external_range, key.string() + " is given twice");
        seen |= bit;
        if (bit == 1) location = value.text();
        if ((bit == 2 && !plain_decimal(value.text(), offset)) || (bit == 4 && !plain_decimal(value.text(), length)))
            return fail(errc::external_range, key.string() + " is not a plain decimal number: '" + escape(value.string()) + "'");
    }
    if (!(seen & 1)) return fail(errc::external_path, "external data has no location");
    auto opened = c_.external.open(c_.directory, location, c_.limit);
    if (!opened.ok()) return fail(opened.error().code(), opened.error().where() + ": " + opened.error().detail());
    const std::shared_ptr<const mapped_file> file = std::move(opened).value();
    const auto size = static_cast<std::int64_t>(file->size());
    if (offset > size || (length >= 0 ? length : file_bytes_) > size - offset)
        return fail(errc::external_range, "bytes " + std::to_string(offset) + " + " + std::to_string(length >= 0 ? length : file_bytes_) + " are not in '" +
                                              escape(std::string(location)) + "', which has " + std::to_string(size));
    return raw({file->data() + offset, static_cast<std::size_t>(length >= 0 ? length : file_bytes_)}, file, file->letting_go(), file->data() + size, out);
}

// Stores what one occurrence of the data field holds at element `at`; int32_data of narrow types is cut down to their bits.
inline status onnx_tensor_reader::store(wire_reader& r, std::uint8_t* to, std::int64_t& at, std::int64_t stored) {
    const std::size_t width = size_of(type_);
    if (type_ == dtype::float32 || type_ == dtype::float64) {
        std::memcpy(to + static_cast<std::size_t>(at) * width, r.view().data, r.view().size);
        at += static_cast<std::int64_t>(r.view().size / width);
        return {};
    }
    wire_bytes rest = r.view();
    std::uint64_t n = r.number();
    for (bool single = r.type() == 0; single || rest.size; single = false) {
        if (!single && !take_varint(rest, n)) return fail(errc::model_malformed, "a packed list of numbers is cut or holds one that is too long");
        if (at >= stored) return fail(errc::tensor_bytes, "more elements than were counted");
        const auto value = static_cast<std::int64_t>(n);
        if (width < 4) {
            const std::int64_t span = std::int64_t(1) << (8 * width);
            if (value >= span || value < -span / 2) return fail(errc::tensor_bytes, "value " + std::to_string(value) + " does not fit " + graft::name(type_));
        }
        const std::uint64_t bits = type_ == dtype::boolean ? std::uint64_t(n != 0) : n;
        std::memcpy(to + static_cast<std::size_t>(at++) * width, &bits, width);
    }
    return {};
}

inline status onnx_tensor_reader::typed(tensor& out) {
    const std::uint32_t field = typed_field(type_);
    const bool packed = file_bits(type_) < 8;
    const std::int64_t stored = packed ? file_bytes_ : elements_;
    if (counts_[field] != stored)
        return fail(errc::tensor_bytes, counts_[field] ? std::string("the data field holds ") + std::to_string(counts_[field]) + " values; " +
                                                             graft::name(type_) + graft::text(extents_) + " needs " + std::to_string(stored)
                                                       : std::string("the data are in a field that does not go with ") + graft::name(type_));
    GRAFT_TRY(allocate(out));
    std::vector<std::uint8_t> codes(packed ? static_cast<std::size_t>(stored) : 0);
    auto* to = reinterpret_cast<std::uint8_t*>(out.raw());
    std::int64_t at = 0;
    for (const wire_bytes& part : parts_) {
        wire_reader r(c_.source, part);
        while (r.next())
            if (r.field() == field) GRAFT_TRY(store(r, packed ? codes.data() : to, at, stored));
        GRAFT_TRY(r.finish());
    }
    if (packed) unpack_elements(type_, codes.data(), elements_, to);
    return {};
}

}  // namespace detail
GRAFT_END_NAMESPACE
