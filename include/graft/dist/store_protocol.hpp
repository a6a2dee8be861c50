// What goes over a connection to the store, and how much of it there may be.
#pragma once

#include "../config.hpp"

#include <cstdint>
#include <cstring>
#include <string>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// The protocol. Numbers are little-endian. Who connects says 24 bytes: `store_magic`, its RANK and its WORLD_SIZE, 4 bytes each. The store answers with
// `store_magic`; from there on both send frames:
//     4 bytes  length of what follows, 9 to store_limits::frame
//     1 byte   kind
//     8 bytes  number of the request, which its answer repeats
//     the rest body
// Keyed bodies begin with the key: its length in 2 bytes, and its text. The store says `welcome` when all ranks have come, or `refused`; before that
// nobody asks for anything. A rank has one request open at a time; a new one takes the place of an older one. A connection that ends before `goodbye` is
// a rank that is lost, and all others are told so by `left`. Nothing is encrypted or proven: it is for networks whose machines trust each other.
enum class store_kind {
    set = 1,       // key, value -> done
    get = 2,       // key -> done with the value, when there is one
    add = 3,       // key, 8 bytes -> done with the sum, 8 bytes; what is not there counts as 0
    erase = 4,     // key -> done
    leave = 5,     // why; has no answer
    goodbye = 6,   // -> done, when all ranks have said it
    done = 16,     // value
    refused = 17,  // store_refusal, text
    welcome = 18,  // number 0
    left = 19,     // number 0; rank in 4 bytes, text
};
enum class store_refusal { mismatch = 1, late = 2, lost = 3, full = 4 };

constexpr char store_magic[17] = "graft store 01\r\n";
constexpr std::size_t store_magic_bytes = 16, store_hello_bytes = 24;
constexpr std::size_t store_magic_name = 12;  // bytes that do not depend on the version

struct store_limits {
    static constexpr std::size_t key = 256, value = 65536, text = 1000;
    static constexpr std::size_t frame = 1 + 8 + 2 + key + value;
    static constexpr std::size_t keys = 65536, bytes = std::size_t(64) << 20;  // of all keys together, at once
    static constexpr std::size_t unsent = std::size_t(1) << 20;                // to a rank that does not read
    static constexpr std::size_t strangers = 64;                               // connections that have not said who they are, at once
    static constexpr int ranks = 4096;
    static constexpr double hello_seconds = 10;
};

template <class T>
void put_number(std::string& to, T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) to += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 255);
}
template <class T>
T number_at(const char* from) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<std::uint64_t>(static_cast<unsigned char>(from[i])) << (8 * i);
    return static_cast<T>(value);
}

struct store_frame {
    store_kind kind = store_kind::done;
    std::uint64_t number = 0;
    std::string body;
};

inline void put_frame(std::string& to, store_kind kind, std::uint64_t number, const std::string& body) {
    put_number(to, static_cast<std::uint32_t>(9 + body.size()));
    put_number(to, static_cast<std::uint8_t>(kind));
    put_number(to, number);
    to += body;
}
// Takes the next frame from what has come; false where it has not come as a whole, or where it is none, which is said in `wrong`.
inline bool take_frame(std::string& in, store_frame& frame, const char*& wrong) {
    if (in.size() < 4) return false;
    const std::size_t length = number_at<std::uint32_t>(in.data());
    if (length < 9 || length > store_limits::frame) {
        wrong = "a frame of an impossible length";
        return false;
    }
    if (in.size() < 4 + length) return false;
    frame.kind = static_cast<store_kind>(static_cast<unsigned char>(in[4]));
    frame.number = number_at<std::uint64_t>(in.data() + 5);
    frame.body.assign(in, 13, length - 9);
    in.erase(0, 4 + length);
    return true;
}

inline std::string keyed(const std::string& key, const std::string& value = "") {
    std::string body;
    put_number(body, static_cast<std::uint16_t>(key.size()));
    return body + key + value;
}
inline bool take_key(const std::string& body, std::string& key, std::string& value) {
    if (body.size() < 2) return false;
    const std::size_t length = number_at<std::uint16_t>(body.data());
    if (!length || length > store_limits::key || body.size() < 2 + length || body.size() - 2 - length > store_limits::value) return false;
    key.assign(body, 2, length);
    value.assign(body, 2 + length, std::string::npos);
    return true;
}

// What a peer says is shown to people: no control characters, and not without end.
inline std::string store_text(const std::string& said) {
    std::string text = said.substr(0, store_limits::text);
    for (char& c : text)
        if (static_cast<unsigned char>(c) < 32 || c == 127) c = ' ';
    return text;
}

}  // namespace detail
GRAFT_END_NAMESPACE
