// numpy's .npy files: one array, read from versions 1 to 3, written as version 1.
#pragma once

#include "../core/limits.hpp"
#include "../tensor/tensor.hpp"

#include <string>

GRAFT_BEGIN_NAMESPACE

/// The array in the bytes of an .npy file; Fortran order is turned to C order. `name` stands in error messages.
/// Errors: npy.malformed, npy.dtype (big-endian, complex, string, object, structured), memory.budget, memory.oom.
result<tensor> read_npy(const void* bytes, std::size_t size, const std::string& name, const limits& caps = {});
/// Reads a file; more errors: file.open.
result<tensor> read_npy_file(const std::string& path, const limits& caps = {});
/// The header that stands before the elements of an array, a multiple of 64 bytes. Errors: npy.dtype, for types that .npy lacks
/// (bfloat16, the 8-bit floats, those below one byte).
result<std::string> npy_header(dtype type, const shape& extents);
/// Writes an array, replacing the file. Errors: npy.dtype, file.write.
status write_npy(const std::string& path, const tensor& array);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/file.hpp"

#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace detail {

struct npy_type {
    char text[4];
    dtype type;
};

// Little-endian; "|" stands for types of one byte.
inline const npy_type* npy_types() noexcept {
    static constexpr npy_type types[] = {{"<f4", dtype::float32}, {"<f2", dtype::float16}, {"<f8", dtype::float64}, {"|u1", dtype::uint8},
                                         {"|i1", dtype::int8},    {"<u2", dtype::uint16},  {"<i2", dtype::int16},   {"<u4", dtype::uint32},
                                         {"<i4", dtype::int32},   {"<u8", dtype::uint64},  {"<i8", dtype::int64},   {"|b1", dtype::boolean},
                                         {"", dtype::undefined}};
    return types;
}

// Reads the header's Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class npy_dictionary {
public:
    npy_dictionary(const char* p, const char* end, const std::string& name) : p_(p), end_(end), name_(name) {}
    std::string descr;
    bool fortran = false;
    shape extents;

    status read() {
        if (!next('{')) return malformed("the header is not a dictionary");
        int seen = 0;
        while (!next('}')) {
            std::string key;
            if (!quoted(key) || !next(':')) return malformed("a key of the header is not well formed");
            const int bit = key == "descr" ? 1 : key == "fortran_order" ? 2 : key == "shape" ? 4 : 0;
            if (!bit || (seen & bit)) return malformed("the header has an unknown key, or one twice");
            seen |= bit;
            if (bit == 1) {
                skip();
                if (p_ < end_ && (*p_ == '[' || *p_ == '{' || *p_ == '(')) return fail(errc::npy_dtype, name_, "structured arrays are not supported");
                if (!quoted(descr)) return malformed("`descr` is not a string");
            }
            if (bit == 2 && !(fortran = literal("True")) && !literal("False")) return malformed("`fortran_order` is neither True nor False");
            if (bit == 4) GRAFT_TRY(read_shape());
            if (!next(',')) {
                if (!next('}')) return malformed("the header's dictionary does not end");
                break;
            }
        }
        skip();
        if (p_ != end_ || seen != 7) return malformed("the header is not complete, or goes on behind its end");
        return {};
    }

private:
    GRAFT_COLD status malformed(const char* what) const { return fail(errc::npy_malformed, name_, what); }
    void skip() noexcept {
        while (p_ < end_ && (*p_ == ' ' || *p_ == '\n' || *p_ == '\t' || *p_ == '\r')) ++p_;
    }
    bool next(char c) noexcept {
        skip();
        if (p_ == end_ || *p_ != c) return false;
        ++p_;
        return true;
    }
    bool literal(const char* word) noexcept {
        skip();
        const std::size_t n = std::strlen(word);
        if (static_cast<std::size_t>(end_ - p_) < n || std::memcmp(p_, word, n) != 0) return false;
        p_ += n;
        return true;
    }
    bool quoted(std::string& out) {
        skip();
        if (p_ == end_ || (*p_ != '\'' && *p_ != '"')) return false;
        const char* close = static_cast<const char*>(std::memchr(p_ + 1, *p_, static_cast<std::size_t>(end_ - p_ - 1)));
        if (!close) return false;
        out.assign(p_ + 1, close);
        p_ = close + 1;
        return true;
    }
    status read_shape() {
        if (!next('(')) return malformed("`shape` is not a tuple");
        while (!next(')')) {
            skip();
            std::int64_t extent = 0;
            const char* first = p_;
            for (; p_ < end_ && *p_ >= '0' && *p_ <= '9'; ++p_) {
                if (extent > (INT64_MAX - 9) / 10) return malformed("an extent of the shape overflows");
                extent = extent * 10 + (*p_ - '0');
            }
            if (p_ == first) return malformed("an extent of the shape is not a number");
            if (p_ < end_ && *p_ == 'L') ++p_;  // as Python 2 wrote it
            if (extents.rank() == shape::max_rank) return malformed("the shape has more than 16 dimensions");
            extents.push_back(extent);
            const bool comma = next(',');
            skip();
            if (!comma && (extents.rank() == 1 || p_ == end_ || *p_ != ')')) return malformed("the shape is not a tuple");
        }
        return {};
    }
    const char *p_, *end_;
    const std::string& name_;
};

// Copies elements whose first index runs fastest to row-major order.
inline void from_fortran(const std::uint8_t* in, std::byte* out, const shape& extents, std::size_t element) noexcept {
    std::int64_t index[shape::max_rank] = {}, strides[shape::max_rank] = {}, step = 1, from = 0;
    const int rank = extents.rank();
    for (int i = 0; i < rank; ++i) {
        strides[i] = step;
        step *= extents[i];
    }
    for (std::int64_t n = extents.elements(), to = 0; to < n; ++to) {
        std::memcpy(out + static_cast<std::size_t>(to) * element, in + static_cast<std::size_t>(from) * element, element);
        for (int i = rank - 1; i >= 0; --i) {
            from += strides[i];
            if (++index[i] < extents[i]) break;
            from -= strides[i] * extents[i];
            index[i] = 0;
        }
    }
}

}  // namespace detail

GRAFT_INLINE result<tensor> read_npy(const void* data, std::size_t size, const std::string& name, const limits& caps) GRAFT_MEMORY_TRY {
    const auto* bytes = static_cast<const std::uint8_t*>(data);
    if (size < 10 || std::memcmp(bytes, "\x93NUMPY", 6) != 0) return fail(errc::npy_malformed, name, "not an .npy file");
    const int version = bytes[6];
    if (version < 1 || version > 3) return fail(errc::npy_malformed, name, "version " + std::to_string(version) + " of the format is not known");
    const std::size_t start = version == 1 ? 10 : 12;
    if (size < start) return fail(errc::npy_malformed, name, "the file ends within its header");
    std::size_t length = bytes[8] | std::size_t(bytes[9]) << 8;
    if (version > 1) length |= std::size_t(bytes[10]) << 16 | std::size_t(bytes[11]) << 24;
    if (length > size - start) return fail(errc::npy_malformed, name, "the file ends within its header");
    const char* text_start = reinterpret_cast<const char*>(bytes) + start;
    detail::npy_dictionary header(text_start, text_start + length, name);
    GRAFT_TRY(header.read());
    std::string descr = header.descr;
    if (descr.size() == 3 && descr[2] == '1' && (descr[0] == '<' || descr[0] == '>' || descr[0] == '=')) descr[0] = '|';
    const detail::npy_type* known = detail::npy_types();
    while (*known->text && descr != known->text) ++known;
    if (!*known->text)
        return fail(errc::npy_dtype, name, "arrays of '" + escape(header.descr) + "' are not supported; little-endian floats, integers and bool are");
    const std::int64_t need = bytes_of(known->type, header.extents);
    if (need < 0) return fail(errc::npy_malformed, name, "the shape " + text(header.extents) + " overflows");
    if (static_cast<std::uint64_t>(need) > size - start - length)
        return fail(errc::npy_malformed, name,
                    "the shape " + text(header.extents) + " needs " + std::to_string(need) + " bytes; the file holds " + std::to_string(size - start - length));
    if (need > caps.memory_bytes) return fail(errc::memory_budget, name, std::to_string(need) + " bytes are over the limit");
    tensor out;
    GRAFT_TRY_ASSIGN(out, tensor::make(known->type, header.extents));
    const std::uint8_t* elements = bytes + start + length;
    if (need && header.fortran && header.extents.rank() > 1)
        detail::from_fortran(elements, out.raw(), header.extents, size_of(known->type));
    else if (need)
        std::memcpy(out.raw(), elements, static_cast<std::size_t>(need));
    for (std::int64_t i = 0; known->type == dtype::boolean && i < need; ++i) out.raw()[i] = std::byte(out.raw()[i] != std::byte(0));
    return out;
}
GRAFT_MEMORY_CATCH(name)

GRAFT_INLINE result<tensor> read_npy_file(const std::string& path, const limits& caps) GRAFT_MEMORY_TRY {
    auto file = mapped_file::open(path, caps.memory_bytes, errc::memory_budget);
    if (!file.ok()) return file.take_status();
    return read_npy((*file)->data(), (*file)->size(), path, caps);
}
GRAFT_MEMORY_CATCH(path)

GRAFT_INLINE result<std::string> npy_header(dtype type, const shape& extents) GRAFT_MEMORY_TRY {
    const detail::npy_type* known = detail::npy_types();
    while (*known->text && known->type != type) ++known;
    if (!*known->text) return fail(errc::npy_dtype, name(type), "this element type has no .npy form");
    std::string dictionary = std::string("{'descr': '") + known->text + "', 'fortran_order': False, 'shape': (";
    for (int i = 0; i < extents.rank(); ++i) dictionary += std::to_string(extents[i]) + (extents.rank() == 1 ? "," : i + 1 < extents.rank() ? ", " : "");
    dictionary += "), }";
    while ((10 + dictionary.size() + 1) % 64) dictionary += ' ';
    dictionary += '\n';
    std::string header("\x93NUMPY\1\0", 8);
    header += static_cast<char>(dictionary.size() & 255);
    header += static_cast<char>(dictionary.size() >> 8);
    return header + dictionary;
}
GRAFT_MEMORY_CATCH("npy_header")

GRAFT_INLINE status write_npy(const std::string& path, const tensor& array) GRAFT_MEMORY_TRY {
    std::string header;
    GRAFT_TRY_ASSIGN(header, npy_header(array.type(), array.shape()));
    atomic_file file;
    GRAFT_TRY(file.open(path));
    GRAFT_TRY(file.write(header.data(), header.size()));
    if (array.bytes()) GRAFT_TRY(file.write(array.raw(), array.bytes()));
    return file.commit();
}
GRAFT_MEMORY_CATCH(path)

GRAFT_END_NAMESPACE
#endif
