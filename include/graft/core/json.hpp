// JSON: a strict reader (RFC 8259, UTF-8 checked), a tree on top of it, and writing.
#pragma once

#include "number_text.hpp"
#include "error.hpp"
#include "limits.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// What `json_reader::next` found.
enum class json_token { end, begin_object, end_object, begin_array, end_array, key, string, number, boolean, null };

/// Reads a text token by token. The first fault ends it (`end`), and `finish` tells what it was: json.malformed with the offset.
class json_reader {
public:
    /// `text` must outlive the reader; `name` stands for it in messages.
    json_reader(std::string_view text, std::string name, const limits& limit = {});

    json_token next();
    /// Contents of the key or string that `next` found, escapes resolved.
    const std::string& string() const noexcept { return string_; }
    std::string& string() noexcept { return string_; }
    bool boolean() const noexcept { return boolean_; }
    /// The number as a double; as an integer, false unless it is written as one (no point, no exponent) and in range.
    double real() const noexcept;
    bool integer(std::int64_t& value) const noexcept;
    /// Goes past a whole value whose first token was `first`.
    bool skip(json_token first);
    /// How many arrays and objects are open.
    std::size_t depth() const noexcept { return open_.size(); }
    /// Ends the reading with a fault of the caller's.
    json_token fault(const char* what);
    status finish() const;

private:
    enum class state { value, first_item, first_key, key, after, done };
    json_token begin(char bracket, json_token token);
    json_token close(char bracket, json_token token);
    json_token scalar();
    json_token value_done(json_token token);
    bool read_string();
    bool read_escape();
    bool read_hex(std::uint32_t& unit);
    bool read_number();
    bool word(std::string_view w);
    void space() noexcept;

    std::string_view text_;
    std::string name_, string_;
    std::vector<char> open_;
    std::string_view number_;
    std::size_t at_ = 0, most_depth_;
    state state_ = state::value;
    bool boolean_ = false;
    const char* fault_ = nullptr;
    std::size_t fault_at_ = 0;
};

/// A JSON value with everything in it.
struct json {
    enum class kind { null, boolean, number, string, array, object };
    kind type = kind::null;
    bool boolean = false;
    bool is_integer = false;  ///< a number written without point and exponent, in range of `integer`
    std::int64_t integer = 0;
    double real = 0;
    std::string string;
    std::vector<std::string> keys;  ///< of an object, in the order of the text
    std::vector<json> items;        ///< of an array, or of an object

    /// Member of an object, the last of that name; null where there is none.
    const json* find(std::string_view key) const noexcept;
};

/// Reads a whole text. Errors: json.malformed (also where it is longer or nests deeper than the limits).
result<json> parse_json(std::string_view text, const std::string& name, const limits& limit = {});

/// Appends a string with its quotes. What is not UTF-8 becomes U+FFFD, so that the text is well formed whatever comes in.
void append_json_string(std::string& out, std::string_view text);
/// Appends the shortest form that reads back as the same number; null for infinities and NaN.
void append_json_number(std::string& out, double value);

/// Writes JSON piece by piece; commas are put where they belong.
class json_writer {
public:
    json_writer& begin_object() { return open('{'); }
    json_writer& end_object() { return close('}'); }
    json_writer& begin_array() { return open('['); }
    json_writer& end_array() { return close(']'); }
    json_writer& key(std::string_view name);
    json_writer& string(std::string_view value);
    json_writer& number(double value);
    json_writer& integer(std::int64_t value);
    json_writer& boolean(bool value);
    json_writer& null();
    const std::string& text() const noexcept { return out_; }

private:
    json_writer& open(char bracket);
    json_writer& close(char bracket);
    void comma();
    std::string out_;
    bool first_ = true;
};

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "json_body.hpp"
#endif
