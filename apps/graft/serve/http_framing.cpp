// Heads of requests, line by line, and bodies by their length or in chunks.
#include "http_framing.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>

namespace program {

http_answer refusal(int status, const std::string& code, const std::string& detail) {
    http_answer answer;
    answer.status = status;
    answer.body =
        nlohmann::ordered_json{{"error", {{"code", code}, {"detail", detail}}}}.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
    if (status == 503) answer.fields.emplace_back("Retry-After", "1");
    return answer;
}

std::string in_small_letters(std::string text) {
    for (char& c : text)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
    return text;
}

std::int64_t whole_number(const std::string& text) {
    if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos) return -1;
    return std::strtoll(text.c_str(), nullptr, 10);
}

namespace {

constexpr const char* malformed = "http.malformed";

// RFC 9110, section 5.6.2.
bool is_token(const std::string& text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c && std::strchr("!#$%&'*+-.^_`|~", c));
    });
}

std::string trimmed(const std::string& text) {
    const std::size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
    return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

int hex_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

// Whether percent signs stand before two digits, and mean no control character.
bool percents_are_sound(const std::string& target) {
    for (std::size_t i = 0; i < target.size(); ++i) {
        if (target[i] != '%') continue;
        const int high = i + 2 < target.size() ? hex_digit(target[i + 1]) : -1, low = i + 2 < target.size() ? hex_digit(target[i + 2]) : -1;
        if (high < 0 || low < 0 || high * 16 + low < 0x20 || high * 16 + low == 0x7f) return false;
        i += 2;
    }
    return true;
}

// What handlers read; all else stays here.
bool is_handed_on(const std::string& name) {
    static const char* const known[] = {"content-type", "inference-header-content-length"};
    return std::any_of(std::begin(known), std::end(known), [&](const char* k) { return name == k; });
}

}  // namespace

bool request_reader::refuse(int status, const char* code, const std::string& detail) {
    refused_ = refusal(status, code, detail);
    return false;
}

request_reader::state request_reader::stop(int status, const char* code, const std::string& detail) {
    refuse(status, code, detail);
    return state::refused;
}

bool request_reader::next_line(std::string& in, std::string& line) {
    const std::size_t end = in.find('\n');
    const std::size_t taken = end == std::string::npos ? in.size() : end + 1;
    line_.append(in, 0, taken);
    in.erase(0, taken);
    if (end == std::string::npos) return false;
    line = std::exchange(line_, std::string());
    return true;
}

bool request_reader::read_request_line(const std::string& line) {
    const std::size_t first = line.find(' '), last = line.rfind(' ');
    const std::string version = last == std::string::npos ? "" : line.substr(last + 1);
    if (first == last || version.compare(0, 5, "HTTP/") != 0) return refuse(400, malformed, "the first line is no request line of HTTP");
    request_.method = line.substr(0, first);
    request_.target = line.substr(first + 1, last - first - 1);
    if (!is_token(request_.method) || request_.method.size() > 16) return refuse(400, malformed, "the method is no word");
    if (version != "HTTP/1.1" && version != "HTTP/1.0") return refuse(505, "http.version", "HTTP/1.1 and HTTP/1.0 are spoken here");
    http_1_0_ = version == "HTTP/1.0";
    const std::string& target = request_.target;
    if (target.size() > limits_.target_bytes)
        return refuse(414, "http.too_large", "the target is longer than " + std::to_string(limits_.target_bytes) + " bytes");
    const bool visible = std::all_of(target.begin(), target.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
    if (target.empty() || target[0] != '/' || !visible || !percents_are_sound(target)) return refuse(400, malformed, "the target is no path");
    return true;
}

bool request_reader::read_field(const std::string& line) {
    if (++fields_ > limits_.fields) return refuse(431, "http.too_large", "the head has more than " + std::to_string(limits_.fields) + " fields");
    const std::size_t colon = line.find(':');
    const std::string name = in_small_letters(line.substr(0, colon)), value = colon == std::string::npos ? "" : trimmed(line.substr(colon + 1));
    if (colon == std::string::npos || !is_token(name)) return refuse(400, malformed, "a line of the head is no field");
    const auto is_control = [](unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7f; };
    if (std::any_of(value.begin(), value.end(), is_control)) return refuse(400, malformed, "a field of the head has control characters");
    if (name == "host" && ++hosts_ > 1) return refuse(400, malformed, "the head names two hosts");
    if (name == "content-length") {
        left_ = whole_number(value);
        if (++lengths_ > 1 || left_ < 0) return refuse(400, malformed, "Content-Length is no number, or is told twice");
    }
    if (name == "transfer-encoding") {
        if (chunked_ || http_1_0_) return refuse(400, malformed, "Transfer-Encoding is told twice, or by a client of HTTP/1.0");
        if (in_small_letters(value) != "chunked") return refuse(501, "http.coding", "chunked is the one transfer coding that is read here");
        chunked_ = true;
    }
    if (name == "content-encoding" && in_small_letters(value) != "identity")
        return refuse(415, "http.type", "compressed bodies are not read here: send the picture as it is");
    if (name == "connection") {
        close_ |= in_small_letters(value).find("close") != std::string::npos;
        stay_ |= in_small_letters(value).find("keep-alive") != std::string::npos;
    }
    if (name == "expect") {
        if (in_small_letters(value) != "100-continue") return refuse(417, malformed, "100-continue is the one thing that may be expected");
        continue_ = true;
    }
    if (is_handed_on(name)) passed_on_ += name + ": " + value + "\r\n";
    return true;
}

bool request_reader::finish_head() {
    if (!http_1_0_ && hosts_ == 0) return refuse(400, malformed, "the head names no host");
    if (chunked_ && lengths_) return refuse(400, malformed, "the head tells a length and chunks");
    if (left_ > limits_.body_bytes)
        return refuse(413, "http.too_large",
                      "the body has " + std::to_string(left_) + " bytes; up to " + std::to_string(limits_.body_bytes) + " are taken (--max-body)");
    request_.keep_alive = http_1_0_ ? stay_ && !close_ : !close_;
    request_.bytes.clear();
    return true;
}

request_reader::state request_reader::read_head(std::string& in) {
    std::string line;
    for (;;) {
        // What may still come of this line: what is wrong within it is told before that it is too long, however the bytes are cut.
        const std::size_t room = std::min(limits_.line_bytes, limits_.head_bytes - head_bytes_ + line_.size()), had = in.size();
        const bool whole = next_line(in, line);
        const std::string& so_far = whole ? line : line_;
        head_bytes_ += had - in.size();
        begun_ |= had > 0;
        // What cannot become a request is told at once, as whoever sent it may wait for an answer.
        if (!request_line_ && !so_far.empty() && so_far[0] != '\r' && !is_token(so_far.substr(0, 1)))
            return stop(400, malformed, "this is no request of HTTP (TLS is not spoken here)");
        if (so_far.find('\0') < room) return stop(400, malformed, "the head has a byte of 0");
        if (so_far.size() > room)
            return request_line_ ? stop(431, "http.too_large", "the head is too long") : stop(414, "http.too_large", "the first line is too long");
        if (!whole) return state::more;
        if (line.size() < 2 || line[line.size() - 2] != '\r' || line.find('\r') != line.size() - 2)
            return stop(400, malformed, "a line of the head does not end in CR LF");
        line.resize(line.size() - 2);
        if (line.empty() && !request_line_) {
            // RFC 9112, section 2.2: an empty line or two before a request are passed over.
            if (head_bytes_ > 8) return stop(400, malformed, "there are empty lines in place of a request");
            continue;
        }
        if (line.empty()) {
            if (!finish_head()) return state::refused;
            phase_ = chunked_ ? phase::chunk_head : phase::counted;
            return read_body(in);
        }
        if (!(request_line_ ? read_field(line) : read_request_line(line))) return state::refused;
        request_line_ = true;
    }
}

request_reader::state request_reader::read_body(std::string& in) {
    std::string& body = request_.bytes;
    std::string line;
    const auto take = [&] {
        const std::size_t some = static_cast<std::size_t>(std::min<std::int64_t>(left_, static_cast<std::int64_t>(in.size())));
        body.append(in, 0, some);
        in.erase(0, some);
        left_ -= static_cast<std::int64_t>(some);
        return left_ == 0;
    };
    const auto line_is_wrong = [&](const std::string& l) { return l.size() < 2 || l[l.size() - 2] != '\r' || l.size() > 256; };
    for (;;) switch (phase_) {
        case phase::counted:
            if (!take()) return state::more;
            return state::whole;
        case phase::chunk_head: {
            if (!next_line(in, line)) {
                if (line_.size() > 256) return stop(400, malformed, "the line before a chunk is too long");
                return state::more;
            }
            // RFC 9112, section 7.1: digits, and extensions behind a semicolon that nobody here reads.
            std::size_t digits = 0;
            std::int64_t bytes = 0;
            while (digits < line.size() && hex_digit(line[digits]) >= 0 && digits < 12) bytes = bytes * 16 + hex_digit(line[digits++]);
            if (line_is_wrong(line) || digits == 0 || (line[digits] != '\r' && line[digits] != ';')) return stop(400, malformed, "a chunk has no length");
            if (bytes > limits_.body_bytes - static_cast<std::int64_t>(body.size()))
                return stop(413, "http.too_large", "the chunks have more than " + std::to_string(limits_.body_bytes) + " bytes (--max-body)");
            left_ = bytes;
            phase_ = bytes ? phase::chunk_data : phase::trailer;
            break;
        }
        case phase::chunk_data:
            if (!take()) return state::more;
            phase_ = phase::chunk_end;
            break;
        case phase::chunk_end:
            if (in.size() < 2) return state::more;
            if (in.compare(0, 2, "\r\n") != 0) return stop(400, malformed, "a chunk is longer than it says");
            in.erase(0, 2);
            phase_ = phase::chunk_head;
            break;
        case phase::trailer: {
            const bool whole = next_line(in, line);
            if ((whole ? line.size() : line_.size()) > 256 || (whole && ++fields_ > limits_.fields))
                return stop(431, "http.too_large", "what stands behind the chunks is too long");
            if (!whole) return state::more;
            if (line == "\r\n") return state::whole;
            if (line_is_wrong(line)) return stop(400, malformed, "what stands behind the chunks is no field");
            break;
        }
        case phase::head: return state::more;
        }
}

request_reader::state request_reader::read(std::string& in) { return phase_ == phase::head ? read_head(in) : read_body(in); }

framed_request request_reader::take() {
    framed_request whole = std::move(request_);
    std::string head = whole.method + " " + whole.target + " HTTP/1.1\r\nhost: graft\r\n" + passed_on_;
    if (whole.method != "GET" && whole.method != "HEAD") head += "content-length: " + std::to_string(whole.bytes.size()) + "\r\n";
    head += "\r\n";
    whole.head = head.size();
    whole.bytes.insert(0, head);
    *this = request_reader(limits_);
    return whole;
}

}  // namespace program
