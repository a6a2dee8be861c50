// The wire format of Protocol Buffers: a reader that believes nothing, and a writer.
#pragma once

#include "error.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#if defined(__BYTE_ORDER__) && defined(__ORDER_LITTLE_ENDIAN__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "graft reads and writes files as they lie in memory: it needs a little-endian machine"
#endif

GRAFT_BEGIN_NAMESPACE

/// A run of bytes in a file that is being read; not owned.
struct wire_bytes {
    const std::uint8_t* data = nullptr;
    std::size_t size = 0;
    std::string_view text() const noexcept { return {reinterpret_cast<const char*>(data), size}; }
    std::string string() const { return std::string(text()); }
};

/// The whole that readers of parts report about.
struct wire_source {
    wire_bytes bytes;
    std::string name;  ///< of the file, for messages
    int nesting = 64;  ///< groups in groups that unknown fields may hold
};

/// Reads the fields of one message, one after the other. The first fault ends it; `finish` then tells what it was.
/// Errors: model.truncated where the file ends too early, model.too_deep, else model.malformed; all with the offset.
class wire_reader {
public:
    wire_reader(const wire_source& source, wire_bytes part) noexcept : source_(source), next_(part.data), end_(part.data + part.size), start_(part.data) {}

    /// Goes to the next field and takes its value in; groups are unknown to us and skipped. False at the end and after a fault.
    bool next();
    std::uint32_t field() const noexcept { return field_; }
    /// The value of a field of that kind; any other wire type is a fault.
    bool integer(std::int64_t& value);
    bool real(float& value);
    bool bytes(wire_bytes& value);
    bool text(std::string& value);
    /// One more part of a message that may be given in parts, or one more element of a repeated field.
    bool add(std::vector<wire_bytes>& list);
    /// Elements of a repeated field, packed or not.
    bool add(std::vector<std::int64_t>& list);
    bool add(std::vector<float>& list);
    /// Counts the elements of a repeated number field: `width` 0 for varints, else the bytes of one.
    bool count(int width, std::int64_t& elements);
    /// The raw value of the field, for those who look at packed data themselves.
    int type() const noexcept { return type_; }
    std::uint64_t number() const noexcept { return number_; }
    wire_bytes view() const noexcept { return view_; }
    bool fault(const char* what);

    status finish() const;

private:
    bool varint(std::uint64_t& value);
    bool take();
    bool skip_group();

    const wire_source& source_;
    const std::uint8_t *next_, *end_, *start_;
    std::uint32_t field_ = 0;
    int type_ = 0;
    std::uint64_t number_ = 0;
    wire_bytes view_;
    errc code_ = errc::model_malformed;
    const char* fault_ = nullptr;
};

/// One number off the front of packed varints; false where there is none or it is too long.
bool take_varint(wire_bytes& from, std::uint64_t& value) noexcept;

/// Appends fields to a message under construction.
class wire_writer {
public:
    explicit wire_writer(std::vector<std::uint8_t>& out) noexcept : out_(out) {}
    void varint(std::uint64_t value);
    void tag(std::uint32_t field, int type) { varint(std::uint64_t(field) << 3 | static_cast<unsigned>(type)); }
    void integer(std::uint32_t field, std::int64_t value) { tag(field, 0), varint(static_cast<std::uint64_t>(value)); }
    void real(std::uint32_t field, float value);
    void bytes(std::uint32_t field, const void* data, std::size_t size);
    void text(std::uint32_t field, const std::string& value) { bytes(field, value.data(), value.size()); }
    /// As `text`, but left out where it is empty.
    void text_if(std::uint32_t field, const std::string& value) {
        if (!value.empty()) text(field, value);
    }
    void raw(const void* data, std::size_t size);
    /// A message between `begin` and `end`, whose length is filled in then; what `begin` returned goes to `end`.
    std::size_t begin(std::uint32_t field);
    void end(std::size_t mark);

private:
    std::vector<std::uint8_t>& out_;
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE bool take_varint(wire_bytes& from, std::uint64_t& value) noexcept {
    value = 0;
    for (unsigned i = 0; i < 10 && i < from.size; ++i) {
        const std::uint8_t byte = from.data[i];
        value |= std::uint64_t(byte & 127) << (7 * i);
        if (byte < 128) {
            from.data += i + 1;
            from.size -= i + 1;
            return true;
        }
    }
    return false;
}

GRAFT_INLINE GRAFT_COLD bool wire_reader::fault(const char* what) {
    if (!fault_) fault_ = what;
    next_ = end_;
    return false;
}

GRAFT_INLINE bool wire_reader::varint(std::uint64_t& value) {
    wire_bytes rest{next_, static_cast<std::size_t>(end_ - next_)};
    if (take_varint(rest, value)) {
        next_ = rest.data;
        return true;
    }
    if (rest.size < 10) {
        if (end_ == source_.bytes.data + source_.bytes.size) code_ = errc::model_truncated;
        return fault("a number has no end");
    }
    return fault("a number is longer than ten bytes");
}

// The value behind a tag, by its wire type; not groups.
GRAFT_INLINE bool wire_reader::take() {
    std::uint64_t size = 0;
    switch (type_) {
    case 0: view_ = {}; return varint(number_);
    case 1: size = 8; break;
    case 5: size = 4; break;
    case 2:
        if (!varint(size)) return false;
        break;
    default: return fault("a field has a wire type that does not exist");
    }
    if (size > static_cast<std::uint64_t>(end_ - next_)) {
        if (size > static_cast<std::uint64_t>(source_.bytes.data + source_.bytes.size - next_)) code_ = errc::model_truncated;
        return fault("a field is longer than what is left");
    }
    view_ = {next_, static_cast<std::size_t>(size)};
    number_ = 0;
    if (type_ != 2) std::memcpy(&number_, next_, static_cast<std::size_t>(size));
    next_ += size;
    return true;
}

GRAFT_INLINE bool wire_reader::skip_group() {
    std::vector<std::uint32_t> open(1, field_);
    while (!open.empty()) {
        std::uint64_t key = 0;
        if (next_ == end_) {
            if (end_ == source_.bytes.data + source_.bytes.size) code_ = errc::model_truncated;
            return fault("a group has no end");
        }
        if (!varint(key)) return false;
        const auto number = static_cast<std::uint32_t>(key >> 3);
        if (key >> 32 || !number) return fault("a field number is out of range");
        type_ = static_cast<int>(key & 7);
        if (type_ == 3) {
            if (static_cast<int>(open.size()) >= source_.nesting) {
                code_ = errc::model_too_deep;
                return fault("groups nest deeper than the limit");
            }
            open.push_back(number);
        } else if (type_ == 4) {
            if (open.back() != number) return fault("a group ends that did not begin");
            open.pop_back();
        } else if (!take())
            return false;
    }
    return true;
}

GRAFT_INLINE bool wire_reader::next() {
    while (next_ != end_) {
        start_ = next_;
        std::uint64_t key = 0;
        if (!varint(key)) return false;
        field_ = static_cast<std::uint32_t>(key >> 3);
        type_ = static_cast<int>(key & 7);
        if (key >> 32 || !field_) return fault("a field number is out of range");
        if (type_ == 4) return fault("a group ends that did not begin");
        if (type_ != 3) return take();
        if (!skip_group()) return false;
    }
    return false;
}

GRAFT_INLINE bool wire_reader::integer(std::int64_t& value) {
    if (type_ != 0) return fault("a field is of another wire type than the schema says");
    value = static_cast<std::int64_t>(number_);
    return true;
}
GRAFT_INLINE bool wire_reader::real(float& value) {
    if (type_ != 5) return fault("a field is of another wire type than the schema says");
    std::memcpy(&value, view_.data, sizeof value);
    return true;
}
GRAFT_INLINE bool wire_reader::bytes(wire_bytes& value) {
    if (type_ != 2) return fault("a field is of another wire type than the schema says");
    value = view_;
    return true;
}
GRAFT_INLINE bool wire_reader::text(std::string& value) {
    wire_bytes b;
    if (!bytes(b)) return false;
    value.assign(reinterpret_cast<const char*>(b.data), b.size);
    return true;
}
GRAFT_INLINE bool wire_reader::add(std::vector<wire_bytes>& list) {
    wire_bytes b;
    if (!bytes(b)) return false;
    list.push_back(b);
    return true;
}
GRAFT_INLINE bool wire_reader::add(std::vector<std::int64_t>& list) {
    if (type_ == 0) {
        list.push_back(static_cast<std::int64_t>(number_));
        return true;
    }
    wire_bytes b;
    if (!bytes(b)) return false;
    while (b.size) {
        std::uint64_t value = 0;
        if (!take_varint(b, value)) return fault("a packed list of numbers is cut or holds one that is too long");
        list.push_back(static_cast<std::int64_t>(value));
    }
    return true;
}
GRAFT_INLINE bool wire_reader::add(std::vector<float>& list) {
    std::int64_t n = 0;
    if (!count(4, n)) return false;
    const std::size_t old = list.size();
    list.resize(old + static_cast<std::size_t>(n));
    if (n) std::memcpy(&list[old], view_.data, static_cast<std::size_t>(n) * 4);
    return true;
}
GRAFT_INLINE bool wire_reader::count(int width, std::int64_t& elements) {
    if (type_ == (width == 0 ? 0 : width == 4 ? 5 : 1)) {
        elements += 1;
        return true;
    }
    if (type_ != 2) return fault("a field is of another wire type than the schema says");
    if (width) {
        if (view_.size % static_cast<std::size_t>(width)) return fault("a packed list of numbers is cut");
        elements += static_cast<std::int64_t>(view_.size) / width;
        return true;
    }
    for (std::size_t i = 0; i < view_.size; ++i) elements += view_.data[i] < 128;
    return true;
}

GRAFT_INLINE status wire_reader::finish() const {
    if (!fault_) return {};
    const auto offset = static_cast<long long>(start_ - source_.bytes.data);
    return fail(code_, source_.name, std::string(fault_) + ", in the field at byte " + std::to_string(offset));
}

GRAFT_INLINE void wire_writer::varint(std::uint64_t value) {
    for (; value >= 128; value >>= 7) out_.push_back(static_cast<std::uint8_t>(value | 128));
    out_.push_back(static_cast<std::uint8_t>(value));
}
GRAFT_INLINE void wire_writer::raw(const void* data, std::size_t size) {
    const auto* p = static_cast<const std::uint8_t*>(data);
    if (size) out_.insert(out_.end(), p, p + size);
}
GRAFT_INLINE void wire_writer::real(std::uint32_t field, float value) {
    tag(field, 5);
    raw(&value, sizeof value);
}
GRAFT_INLINE std::size_t wire_writer::begin(std::uint32_t field) {
    tag(field, 2);
    out_.resize(out_.size() + 10);  // room for the longest length
    return out_.size();
}
GRAFT_INLINE void wire_writer::end(std::size_t mark) {
    const std::size_t body = out_.size() - mark;
    std::uint8_t length[10];
    std::size_t n = 0;
    for (std::uint64_t rest = body;; rest >>= 7) {
        length[n++] = static_cast<std::uint8_t>(rest >= 128 ? rest | 128 : rest);
        if (rest < 128) break;
    }
    std::uint8_t* at = out_.data() + mark - 10;
    std::memcpy(at, length, n);
    if (body) std::memmove(at + n, at + 10, body);
    out_.resize(mark - 10 + n + body);
}
GRAFT_INLINE void wire_writer::bytes(std::uint32_t field, const void* data, std::size_t size) {
    tag(field, 2);
    varint(size);
    raw(data, size);
}

GRAFT_END_NAMESPACE
#endif
