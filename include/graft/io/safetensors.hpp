// safetensors files: read so that nothing in them is believed before it was checked, and written byte for byte alike.
#pragma once

#include "../core/error.hpp"
#include "../core/limits.hpp"
#include "../tensor/tensor.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// A tensor in a safetensors file.
struct safetensors_entry {
    std::string name;
    std::string type_name;               ///< as the file writes it: "F32"
    dtype type = dtype::undefined;       ///< undefined: a type that no tensor of graft holds
    std::vector<std::int64_t> extents;   ///< outermost first; none for a scalar
    const std::uint8_t* data = nullptr;  ///< little-endian, row-major; alive as long as the file's `owner`
    std::size_t bytes = 0;
};

/// The contents of a safetensors file.
struct safetensors {
    std::vector<safetensors_entry> tensors;  ///< in the order of their data
    std::vector<std::pair<std::string, std::string>> metadata;
    std::shared_ptr<const void> owner;

    const safetensors_entry* find(const std::string& name) const noexcept;
    const std::string* find_metadata(const std::string& key) const noexcept;
    /// The tensor of an entry, in memory of its own. Errors: tensor.dtype, tensor.shape, memory.oom.
    result<tensor> load(const safetensors_entry& entry) const;
};

/// Reads a file that lies in memory; `owner` keeps the bytes alive (null: the caller does). `name` stands for it in messages.
/// Errors: safetensors.malformed, json.malformed, tensor.overflow, tensor.bytes, tensor.dtype, graph.duplicate for names given
/// twice.
result<safetensors> read_safetensors(const void* bytes, std::size_t size, const std::string& name, const limits& limit, std::shared_ptr<const void> owner);
/// Reads a file, which stays mapped as long as the result lives. Errors: file.open and those of `read_safetensors`.
result<safetensors> read_safetensors_file(const std::string& path, const limits& limit = {});

/// The tensors that `write_safetensors` takes.
using named_tensors = std::vector<std::pair<std::string, tensor>>;
using named_texts = std::vector<std::pair<std::string, std::string>>;

/// Writes tensors and metadata into memory, replacing what `out` held: equal input gives equal bytes. Wide types come first, then
/// by name, and the data begin at a multiple of 64. Errors: tensor.dtype (types the format lacks), graph.duplicate.
status write_safetensors(const named_tensors& tensors, const named_texts& metadata, std::vector<std::uint8_t>& out);
/// Writes them to a file: a temporary in its folder, synced and renamed. Errors: those of `write_safetensors`, file.write.
status write_safetensors_file(const named_tensors& tensors, const named_texts& metadata, const std::string& path);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "../core/file.hpp"
#include "../core/json.hpp"
#include "../core/name_table.hpp"

#include <algorithm>
#include <cstring>
GRAFT_BEGIN_NAMESPACE
namespace detail {

struct safetensors_type {
    const char* name;
    int bits;
    dtype type;
};

inline const safetensors_type* safetensors_types(int& count) noexcept {
    static constexpr safetensors_type types[] = {{"F64", 64, dtype::float64},
                                                 {"I64", 64, dtype::int64},
                                                 {"U64", 64, dtype::uint64},
                                                 {"C64", 64, dtype::undefined},
                                                 {"F32", 32, dtype::float32},
                                                 {"I32", 32, dtype::int32},
                                                 {"U32", 32, dtype::uint32},
                                                 {"F16", 16, dtype::float16},
                                                 {"BF16", 16, dtype::bfloat16},
                                                 {"I16", 16, dtype::int16},
                                                 {"U16", 16, dtype::uint16},
                                                 {"I8", 8, dtype::int8},
                                                 {"U8", 8, dtype::uint8},
                                                 {"BOOL", 8, dtype::boolean},
                                                 {"F8_E5M2", 8, dtype::float8e5m2},
                                                 {"F8_E4M3", 8, dtype::float8e4m3fn},
                                                 {"F8_E5M2FNUZ", 8, dtype::float8e5m2fnuz},
                                                 {"F8_E4M3FNUZ", 8, dtype::float8e4m3fnuz},
                                                 {"F8_E8M0", 8, dtype::float8e8m0},
                                                 {"F6_E2M3", 6, dtype::undefined},
                                                 {"F6_E3M2", 6, dtype::undefined},
                                                 {"F4", 4, dtype::undefined}};
    count = static_cast<int>(sizeof types / sizeof types[0]);
    return types;
}

class safetensors_reader {
public:
    safetensors_reader(const std::uint8_t* bytes, std::size_t size, const std::string& name, const limits& limit, safetensors& out)
        : bytes_(bytes), size_(size), name_(name), limit_(limit), out_(out) {}
    status read();

private:
    struct range {
        std::uint64_t first, last;
        std::size_t entry;
    };
    status fault(const char* what) const { return graft::fail(errc::safetensors_malformed, name_, what); }
    status fault(errc code, const std::string& tensor, const char* what) const { return graft::fail(code, name_ + ": tensor '" + tensor + "'", what); }
    status read_header(json_reader& r);
    status read_metadata(json_reader& r);
    status read_entry(json_reader& r);
    status read_integers(json_reader& r, const std::string& tensor, std::vector<std::int64_t>& out);
    status place_data(std::size_t data_at);

    const std::uint8_t* bytes_;
    std::size_t size_;
    const std::string& name_;
    const limits& limit_;
    safetensors& out_;
    std::vector<range> ranges_;
};

inline GRAFT_COLD status safetensors_reader::read() {
    if (size_ < 8) return fault("the file is shorter than 8 bytes");
    std::uint64_t header = 0;
    std::memcpy(&header, bytes_, 8);
    if (header > static_cast<std::uint64_t>(limit_.json_bytes)) return fault("the header is longer than the limit");
    if (header > size_ - 8) return fault("the header is longer than the file");
    if (header < 2) return fault("there is no header");
    if (bytes_[8] != '{') return fault("the header does not start with '{'");
    json_reader r({reinterpret_cast<const char*>(bytes_) + 8, static_cast<std::size_t>(header)}, name_, limit_);
    GRAFT_TRY(read_header(r));
    return place_data(8 + static_cast<std::size_t>(header));
}

inline status safetensors_reader::read_header(json_reader& r) {
    bool has_metadata = false;
    r.next();
    json_token t;
    while ((t = r.next()) == json_token::key) {
        if (r.string() == "__metadata__") {
            if (has_metadata) return fault("__metadata__ is given twice");
            has_metadata = true;
            GRAFT_TRY(read_metadata(r));
        } else
            GRAFT_TRY(read_entry(r));
    }
    if (t == json_token::end_object) r.next();
    GRAFT_TRY(r.finish());
    name_table names;
    for (const safetensors_entry& e : out_.tensors)
        if (!names.insert(e.name, 0)) return fault(errc::graph_duplicate, e.name, "two tensors have this name");
    return {};
}

inline status safetensors_reader::read_metadata(json_reader& r) {
    if (r.next() != json_token::begin_object) return r.finish().ok() ? fault("__metadata__ is no object") : r.finish();
    while (r.next() == json_token::key) {
        std::string key = std::move(r.string());
        if (r.next() != json_token::string) return r.finish().ok() ? fault("a value in __metadata__ is no string") : r.finish();
        out_.metadata.emplace_back(std::move(key), std::move(r.string()));
    }
    GRAFT_TRY(r.finish());
    name_table keys;
    for (const auto& m : out_.metadata)
        if (!keys.insert(m.first, 0)) return fault("a key in __metadata__ is given twice");
    return {};
}

inline status safetensors_reader::read_integers(json_reader& r, const std::string& tensor, std::vector<std::int64_t>& out) {
    json_token t = r.next();
    if (t == json_token::begin_array)
        while ((t = r.next()) == json_token::number) {
            std::int64_t value = 0;
            if (!r.integer(value) || value < 0) return fault(errc::safetensors_malformed, tensor, "a number is negative, too large or no plain integer");
            out.push_back(value);
        }
    GRAFT_TRY(r.finish());
    return t == json_token::end_array ? status() : fault(errc::safetensors_malformed, tensor, "shape or data_offsets is no list of numbers");
}

inline status safetensors_reader::read_entry(json_reader& r) {
    safetensors_entry e;
    e.name = std::move(r.string());
    if (r.next() != json_token::begin_object) return r.finish().ok() ? fault(errc::safetensors_malformed, e.name, "its description is no object") : r.finish();
    std::vector<std::int64_t> offsets;
    const safetensors_type* type = nullptr;
    int seen = 0;
    while (r.next() == json_token::key) {
        const int bit = r.string() == "dtype" ? 1 : r.string() == "shape" ? 2 : r.string() == "data_offsets" ? 4 : 0;
        if (seen & bit) return fault(errc::safetensors_malformed, e.name, "a part of its description is given twice");
        seen |= bit;
        if (bit == 0) {
            r.skip(r.next());
        } else if (bit == 1) {
            if (r.next() != json_token::string) return r.finish().ok() ? fault(errc::tensor_dtype, e.name, "its dtype is no string") : r.finish();
            e.type_name = r.string();
            int count = 0;
            const safetensors_type* types = safetensors_types(count);
            for (int i = 0; i < count; ++i)
                if (e.type_name == types[i].name) type = types + i;
            if (!type) return fault(errc::tensor_dtype, e.name, "its dtype is unknown");
            e.type = type->type;
        } else
            GRAFT_TRY(read_integers(r, e.name, bit == 2 ? e.extents : offsets));
    }
    GRAFT_TRY(r.finish());
    if (seen != 7) return fault(errc::safetensors_malformed, e.name, "dtype, shape or data_offsets is missing");
    if (offsets.size() != 2 || offsets[1] < offsets[0]) return fault(errc::safetensors_malformed, e.name, "data_offsets are not a begin and an end");
    std::int64_t bits = type->bits;
    bool empty = false;
    for (const std::int64_t d : e.extents) {
        empty |= d == 0;
        if (d > 0 && (bits = checked_mul(bits, d)) < 0) return fault(errc::tensor_overflow, e.name, "the size of the shape overflows");
    }
    if (empty) bits = 0;
    if (bits % 8 || bits / 8 != offsets[1] - offsets[0])
        return fault(errc::tensor_bytes, e.name, "data_offsets do not span the bytes that dtype and shape need");
    e.bytes = static_cast<std::size_t>(bits / 8);
    ranges_.push_back({static_cast<std::uint64_t>(offsets[0]), static_cast<std::uint64_t>(offsets[1]), out_.tensors.size()});
    out_.tensors.push_back(std::move(e));
    return {};
}

// The data must lie end to end, from the header to the end of the file.
inline status safetensors_reader::place_data(std::size_t data_at) {
    std::sort(ranges_.begin(), ranges_.end(), [](const range& a, const range& b) {
        return a.first != b.first ? a.first < b.first : a.last != b.last ? a.last < b.last : a.entry < b.entry;
    });
    const std::uint64_t size = size_ - data_at;
    std::uint64_t at = 0;
    std::vector<safetensors_entry> sorted;
    sorted.reserve(ranges_.size());
    for (const range& r : ranges_) {
        safetensors_entry& e = out_.tensors[r.entry];
        if (r.first != at)
            return fault(errc::safetensors_malformed, e.name, r.first < at ? "its data overlap another tensor's" : "there is a hole before its data");
        if (r.last > size) return fault(errc::safetensors_malformed, e.name, "its data reach past the end of the file");
        e.data = bytes_ + data_at + r.first;
        at = r.last;
        sorted.push_back(std::move(e));
    }
    if (at != size) return fault("bytes follow the last tensor");
    out_.tensors = std::move(sorted);
    return {};
}

}  // namespace detail

GRAFT_INLINE const safetensors_entry* safetensors::find(const std::string& name) const noexcept {
    for (const safetensors_entry& e : tensors)
        if (e.name == name) return &e;
    return nullptr;
}

GRAFT_INLINE const std::string* safetensors::find_metadata(const std::string& key) const noexcept {
    for (const auto& m : metadata)
        if (m.first == key) return &m.second;
    return nullptr;
}

GRAFT_INLINE result<tensor> safetensors::load(const safetensors_entry& entry) const GRAFT_MEMORY_TRY {
    if (entry.type == dtype::undefined)
        return fail(errc::tensor_dtype, "tensor '" + entry.name + "'", "elements of type " + entry.type_name + " are not supported");
    if (entry.extents.size() > static_cast<std::size_t>(shape::max_rank)) return fail(errc::tensor_shape, "tensor '" + entry.name + "'", "its rank is over 16");
    tensor made;
    GRAFT_TRY_ASSIGN(made, tensor::make(entry.type, shape::from(entry.extents.begin(), entry.extents.end())));
    if (entry.bytes) std::memcpy(made.raw(), entry.data, entry.bytes);
    if (entry.type == dtype::boolean)
        for (std::size_t i = 0; i < entry.bytes; ++i) made.data<bool>()[i] = entry.data[i] != 0;
    return made;
}
GRAFT_MEMORY_CATCH("safetensors::load")

GRAFT_INLINE result<safetensors> read_safetensors(const void* bytes, std::size_t size, const std::string& name, const limits& limit,
                                                  std::shared_ptr<const void> owner) GRAFT_MEMORY_TRY {
    safetensors out;
    out.owner = std::move(owner);
    GRAFT_TRY(detail::safetensors_reader(static_cast<const std::uint8_t*>(bytes), size, name, limit, out).read());
    return out;
}
GRAFT_MEMORY_CATCH(name)

GRAFT_INLINE result<safetensors> read_safetensors_file(const std::string& path, const limits& limit) GRAFT_MEMORY_TRY {
    std::shared_ptr<const mapped_file> file;
    GRAFT_TRY_ASSIGN(file, mapped_file::open(path, INT64_MAX, errc::safetensors_malformed));
    return read_safetensors(file->data(), file->size(), path, limit, file);
}
GRAFT_MEMORY_CATCH(path)

namespace detail {

// The header of a file, its length and padding included, and the order of the tensors behind it.
inline status safetensors_header(const named_tensors& tensors, const named_texts& metadata, std::string& out, std::vector<std::size_t>& order) {
    int count = 0;
    const safetensors_type* types = safetensors_types(count);
    name_table names;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        order.push_back(i);
        if (tensors[i].first == "__metadata__" || !names.insert(tensors[i].first, 0))
            return fail(errc::graph_duplicate, "tensor '" + tensors[i].first + "'", "the name is given twice, or not to be used");
    }
    const named_tensors* list = &tensors;
    std::sort(order.begin(), order.end(), [list](std::size_t a, std::size_t b) {
        const std::size_t wide_a = size_of((*list)[a].second.type()), wide_b = size_of((*list)[b].second.type());
        return wide_a != wide_b ? wide_a > wide_b : (*list)[a].first < (*list)[b].first;
    });
    json_writer w;
    w.begin_object();
    if (!metadata.empty()) {
        w.key("__metadata__").begin_object();
        for (const auto& m : metadata) w.key(m.first).string(m.second);
        w.end_object();
    }
    std::int64_t at = 0;
    for (const std::size_t i : order) {
        const tensor& t = tensors[i].second;
        const char* type = nullptr;
        for (int k = 0; k < count; ++k)
            if (types[k].type == t.type() && t) type = types[k].name;
        if (!type) return fail(errc::tensor_dtype, "tensor '" + tensors[i].first + "'", std::string("safetensors has no type for ") + graft::name(t.type()));
        w.key(tensors[i].first).begin_object().key("dtype").string(type).key("shape").begin_array();
        for (const std::int64_t d : t.shape()) w.integer(d);
        w.end_array().key("data_offsets").begin_array().integer(at);
        at += static_cast<std::int64_t>(t.bytes());
        w.integer(at).end_array().end_object();
    }
    w.end_object();
    out = std::string(8, '\0') + w.text();
    out.resize((out.size() + 63) / 64 * 64, ' ');
    const std::uint64_t length = out.size() - 8;
    std::memcpy(&out[0], &length, 8);
    return {};
}

}  // namespace detail

GRAFT_INLINE status write_safetensors(const named_tensors& tensors, const named_texts& metadata, std::vector<std::uint8_t>& out) GRAFT_MEMORY_TRY {
    std::string header;
    std::vector<std::size_t> order;
    GRAFT_TRY(detail::safetensors_header(tensors, metadata, header, order));
    out.assign(header.begin(), header.end());
    for (const std::size_t i : order) {
        const auto* p = reinterpret_cast<const std::uint8_t*>(tensors[i].second.raw());
        if (tensors[i].second.bytes()) out.insert(out.end(), p, p + tensors[i].second.bytes());
    }
    return {};
}
GRAFT_MEMORY_CATCH("write_safetensors")

GRAFT_INLINE status write_safetensors_file(const named_tensors& tensors, const named_texts& metadata, const std::string& path) GRAFT_MEMORY_TRY {
    std::string header;
    std::vector<std::size_t> order;
    GRAFT_TRY(detail::safetensors_header(tensors, metadata, header, order));
    atomic_file file;
    GRAFT_TRY(file.open(path));
    GRAFT_TRY(file.write(header.data(), header.size()));
    for (const std::size_t i : order) GRAFT_TRY(file.write(tensors[i].second.raw(), tensors[i].second.bytes()));
    return file.commit();
}
GRAFT_MEMORY_CATCH(path)

GRAFT_END_NAMESPACE
#endif
