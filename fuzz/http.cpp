// What clients send to `graft serve`: requests come out of it whole and in their limits, or it is refused, however it is cut.
#include "../apps/graft/serve/http_framing.hpp"
#include "target.hpp"

#include <vector>

namespace {

using program::framed_request;
using program::request_reader;

struct heard {
    std::vector<framed_request> requests;
    int refused = 0;  // with this status
};

program::http_limits small_limits() {
    program::http_limits l;
    l.body_bytes = 2000;
    l.head_bytes = 1500, l.line_bytes = 400, l.target_bytes = 100, l.fields = 12;
    return l;
}

// As a connection hears it: `step` bytes at a time.
heard hear(std::string_view said, std::size_t step) {
    heard all;
    request_reader reader(small_limits());
    std::string in;
    for (std::size_t at = 0; at < said.size() && !all.refused; at += step) {
        in += said.substr(at, step);
        for (bool more = true; more && !all.refused;) {
            const auto state = reader.read(in);
            static_cast<void>(reader.wants_continue());
            more = state == request_reader::state::whole;
            if (more) all.requests.push_back(reader.take());
            if (state == request_reader::state::refused) all.refused = reader.refused().status;
        }
        fuzz::require(reader.held() <= 2000 + 1500 + 400 + step, "more of a request is held than it may have");
    }
    return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view said = fuzz::text_of(data, size);
    const heard whole = hear(said, said.size() + 1);
    for (const std::size_t step : {std::size_t(1), std::size_t(7)}) {
        const heard parts = hear(said, step);
        fuzz::require(parts.refused == whole.refused && parts.requests.size() == whole.requests.size(), "requests differ by how they are cut");
        for (std::size_t i = 0; i < parts.requests.size(); ++i)
            fuzz::require(parts.requests[i].bytes == whole.requests[i].bytes, "a request differs by how it is cut");
    }
    fuzz::require(whole.refused == 0 || (whole.refused >= 400 && whole.refused < 600), "a refusal without a status");
    for (const framed_request& r : whole.requests) {
        fuzz::require(r.bytes.size() - r.head <= 2000, "a body past its limit");
        fuzz::require(r.bytes.find("\r\n\r\n") + 4 == r.head, "a head that ends twice");
        fuzz::require(r.bytes.find('\0') >= r.head, "a head with a byte of 0");
    }
    return 0;
}
