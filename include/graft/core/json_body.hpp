// Bodies of core/json.hpp.
#pragma once

#include "json.hpp"
#include "utf8.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>

GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE json_reader::json_reader(std::string_view text, std::string name, const limits& limit)
    : text_(text), name_(std::move(name)), most_depth_(static_cast<std::size_t>(limit.json_depth)) {
    if (text.size() > static_cast<std::size_t>(limit.json_bytes)) fault("the text is longer than the limit");
}

GRAFT_INLINE GRAFT_COLD json_token json_reader::fault(const char* what) {
    if (!fault_) fault_ = what, fault_at_ = at_;
    state_ = state::done;
    return json_token::end;
}

GRAFT_INLINE status json_reader::finish() const {
    if (!fault_) return {};
    return fail(errc::json_malformed, name_, std::string(fault_) + " at byte " + std::to_string(fault_at_));
}

GRAFT_INLINE void json_reader::space() noexcept {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) ++at_;
}

GRAFT_INLINE json_token json_reader::value_done(json_token token) {
    state_ = state::after;
    return token;
}

GRAFT_INLINE json_token json_reader::begin(char bracket, json_token token) {
    if (open_.size() >= most_depth_) return fault("arrays and objects nest deeper than the limit");
    ++at_;
    open_.push_back(bracket);
    state_ = bracket == '{' ? state::first_key : state::first_item;
    return token;
}

GRAFT_INLINE json_token json_reader::close(char bracket, json_token token) {
    if (open_.back() != bracket) return fault("a bracket closes what is not open");
    ++at_;
    open_.pop_back();
    return value_done(token);
}

GRAFT_INLINE json_token json_reader::next() {
    if (fault_) return json_token::end;
    space();
    if (state_ == state::after) {
        if (open_.empty()) {
            if (at_ != text_.size()) return fault("something follows the value");
            state_ = state::done;
            return json_token::end;
        }
        const char c = at_ < text_.size() ? text_[at_] : '\0';
        if (c == '}') return close('{', json_token::end_object);
        if (c == ']') return close('[', json_token::end_array);
        if (c != ',') return fault("a comma or a closing bracket is missing");
        ++at_;
        space();
        state_ = open_.back() == '{' ? state::key : state::value;
    }
    if (state_ == state::done) return json_token::end;
    if (at_ >= text_.size()) return fault("the text ends too early");
    const char c = text_[at_];
    if (state_ == state::first_item && c == ']') return close('[', json_token::end_array);
    if (state_ == state::first_key && c == '}') return close('{', json_token::end_object);
    if (state_ == state::first_key || state_ == state::key) {
        if (c != '"') return fault("a key is missing");
        if (!read_string()) return json_token::end;
        space();
        if (at_ >= text_.size() || text_[at_] != ':') return fault("a colon is missing");
        ++at_;
        state_ = state::value;
        return json_token::key;
    }
    if (c == '{') return begin('{', json_token::begin_object);
    if (c == '[') return begin('[', json_token::begin_array);
    return scalar();
}

GRAFT_INLINE bool json_reader::word(std::string_view w) {
    if (text_.substr(at_, w.size()) != w) return false;
    at_ += w.size();
    return true;
}

GRAFT_INLINE json_token json_reader::scalar() {
    const char c = text_[at_];
    if (c == '"') return read_string() ? value_done(json_token::string) : json_token::end;
    if (c == '-' || (c >= '0' && c <= '9')) return read_number() ? value_done(json_token::number) : json_token::end;
    if (word("null")) return value_done(json_token::null);
    if ((boolean_ = word("true")) || word("false")) return value_done(json_token::boolean);
    return fault("this is no value");
}

GRAFT_INLINE bool json_reader::read_number() {
    const std::size_t start = at_;
    const auto digits = [&] {
        const std::size_t from = at_;
        while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
        return at_ - from;
    };
    if (text_[at_] == '-') ++at_;
    const std::size_t first = at_, whole = digits();
    if (!whole || (whole > 1 && text_[first] == '0')) return fault("a number is not well formed"), false;
    if (at_ < text_.size() && text_[at_] == '.') {
        ++at_;
        if (!digits()) return fault("a number is not well formed"), false;
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
        ++at_;
        if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
        if (!digits()) return fault("a number is not well formed"), false;
    }
    number_ = text_.substr(start, at_ - start);
    return true;
}

GRAFT_INLINE bool json_reader::integer(std::int64_t& value) const noexcept {
    const auto read = std::from_chars(number_.data(), number_.data() + number_.size(), value);
    return read.ec == std::errc() && read.ptr == number_.data() + number_.size();
}

GRAFT_INLINE double json_reader::real() const noexcept {
#if defined(__cpp_lib_to_chars)
    double value = 0;
    const auto read = std::from_chars(number_.data(), number_.data() + number_.size(), value);
    if (read.ec == std::errc()) return value;
#endif
    // Too large, too small, or a library without from_chars for doubles.
    return detail::read_number(std::string(number_).c_str());
}

GRAFT_INLINE bool json_reader::read_hex(std::uint32_t& unit) {
    unit = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
        const char c = at_ < text_.size() ? text_[at_] : '\0';
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0) return fault("an escape is not well formed"), false;
        unit = unit * 16 + static_cast<std::uint32_t>(digit);
    }
    return true;
}

GRAFT_INLINE bool json_reader::read_escape() {
    const char c = ++at_ < text_.size() ? text_[at_] : '\0';
    ++at_;
    switch (c) {
    case '"':
    case '\\':
    case '/': string_ += c; return true;
    case 'b': string_ += '\b'; return true;
    case 'f': string_ += '\f'; return true;
    case 'n': string_ += '\n'; return true;
    case 'r': string_ += '\r'; return true;
    case 't': string_ += '\t'; return true;
    case 'u': break;
    default: return fault("an escape is not well formed"), false;
    }
    std::uint32_t unit = 0, low = 0;
    if (!read_hex(unit)) return false;
    if (unit >= 0xd800 && unit < 0xe000) {
        if (unit >= 0xdc00 || !word("\\u") || !read_hex(low) || low < 0xdc00 || low >= 0xe000) return fault("half of a surrogate pair"), false;
        unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    }
    append_utf8(string_, unit);
    return true;
}

GRAFT_INLINE bool json_reader::read_string() {
    string_.clear();
    ++at_;
    for (;;) {
        if (at_ >= text_.size()) return fault("a string has no end"), false;
        const auto c = static_cast<std::uint8_t>(text_[at_]);
        if (c == '"') return ++at_, true;
        if (c < 32) return fault("a string holds a control character"), false;
        if (c == '\\') {
            if (!read_escape()) return false;
            continue;
        }
        const std::size_t n = c < 128 ? 1 : utf8_length(text_.substr(at_, 4));
        if (!n) return fault("a string is not UTF-8"), false;
        string_.append(text_.data() + at_, n);
        at_ += n;
    }
}

GRAFT_INLINE bool json_reader::skip(json_token first) {
    if (first != json_token::begin_object && first != json_token::begin_array) return !fault_;
    for (const std::size_t level = depth(); depth() >= level;)
        if (next() == json_token::end) return false;
    return true;
}

GRAFT_INLINE const json* json::find(std::string_view key) const noexcept {
    for (std::size_t i = keys.size(); i-- > 0;)
        if (keys[i] == key) return &items[i];
    return nullptr;
}

GRAFT_INLINE result<json> parse_json(std::string_view text, const std::string& name, const limits& limit) GRAFT_MEMORY_TRY {
    json_reader r(text, name, limit);
    json root;
    std::vector<json*> open;
    json* into = &root;
    for (json_token t = r.next(); t != json_token::end; t = r.next()) {
        if (t == json_token::end_object || t == json_token::end_array) {
            open.pop_back();
            continue;
        }
        if (t == json_token::key) {
            open.back()->keys.push_back(std::move(r.string()));
            continue;
        }
        if (!open.empty()) {
            open.back()->items.emplace_back();
            into = &open.back()->items.back();
        }
        switch (t) {
        case json_token::begin_object: into->type = json::kind::object; break;
        case json_token::begin_array: into->type = json::kind::array; break;
        case json_token::string: into->type = json::kind::string, into->string = std::move(r.string()); break;
        case json_token::boolean: into->type = json::kind::boolean, into->boolean = r.boolean(); break;
        case json_token::number:
            into->type = json::kind::number;
            into->real = r.real();
            into->is_integer = r.integer(into->integer);
            if (!(into->real - into->real == 0)) r.fault("a number is out of range");
            break;
        default: break;
        }
        if (t == json_token::begin_object || t == json_token::begin_array) open.push_back(into);
    }
    GRAFT_TRY(r.finish());
    return root;
}
GRAFT_MEMORY_CATCH(name)

GRAFT_INLINE void append_json_string(std::string& out, std::string_view text) {
    out += '"';
    while (!text.empty()) {
        const auto c = static_cast<std::uint8_t>(text.front());
        const std::size_t n = utf8_length(text);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += static_cast<char>(c);
        } else if (c < 32 || c == 127) {
            char escaped[8];
            std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
            out += escaped;
        } else if (n)
            out.append(text.data(), n);
        else
            out += "\xef\xbf\xbd";
        text.remove_prefix(n ? n : 1);
    }
    out += '"';
}

GRAFT_INLINE void append_json_number(std::string& out, double value) {
    if (!(value - value == 0)) {
        out += "null";
        return;
    }
#if defined(__cpp_lib_to_chars)
    char digits[40];
    const auto written = std::to_chars(digits, digits + sizeof digits, value);
    out.append(digits, static_cast<std::size_t>(written.ptr - digits));
#else
    out += detail::number_text("%.17g", value);
#endif
}

GRAFT_INLINE void json_writer::comma() {
    if (!first_) out_ += ',';
    first_ = false;
}
GRAFT_INLINE json_writer& json_writer::open(char bracket) {
    comma();
    out_ += bracket;
    first_ = true;
    return *this;
}
GRAFT_INLINE json_writer& json_writer::close(char bracket) {
    out_ += bracket;
    first_ = false;
    return *this;
}
GRAFT_INLINE json_writer& json_writer::key(std::string_view name) {
    comma();
    append_json_string(out_, name);
    out_ += ':';
    first_ = true;
    return *this;
}
GRAFT_INLINE json_writer& json_writer::string(std::string_view value) {
    comma();
    append_json_string(out_, value);
    return *this;
}
GRAFT_INLINE json_writer& json_writer::number(double value) {
    comma();
    append_json_number(out_, value);
    return *this;
}
GRAFT_INLINE json_writer& json_writer::integer(std::int64_t value) {
    comma();
    out_ += std::to_string(value);
    return *this;
}
GRAFT_INLINE json_writer& json_writer::boolean(bool value) {
    comma();
    out_ += value ? "true" : "false";
    return *this;
}
GRAFT_INLINE json_writer& json_writer::null() {
    comma();
    out_ += "null";
    return *this;
}

GRAFT_END_NAMESPACE
