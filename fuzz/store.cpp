// What a store of processes and its ranks say to each other: whatever comes is frames within their limits or is refused, however it is cut, and
// what was taken is written as it came.
#include "target.hpp"

#include <graft/dist/store_protocol.hpp>

#include <vector>

namespace {

using graft::detail::store_frame;
using graft::detail::store_limits;

struct heard {
    std::vector<store_frame> frames;
    bool refused = false;
};

// As a connection hears it: `step` bytes at a time.
heard hear(std::string_view said, std::size_t step) {
    heard all;
    std::string in;
    const char* wrong = nullptr;
    for (std::size_t at = 0; at < said.size() && !wrong; at += step) {
        in += said.substr(at, step);
        for (store_frame frame; graft::detail::take_frame(in, frame, wrong);) all.frames.push_back(frame);
    }
    all.refused = wrong != nullptr;
    return all;
}

void hold(const store_frame& frame, std::string& written) {
    graft::detail::put_frame(written, frame.kind, frame.number, frame.body);
    std::string key, value;
    if (graft::detail::take_key(frame.body, key, value)) {
        fuzz::require(!key.empty() && key.size() <= store_limits::key && value.size() <= store_limits::value, "a key or a value past its limit");
        fuzz::require(graft::detail::keyed(key, value) == frame.body, "a key that is written is another one");
    }
    const std::string shown = graft::detail::store_text(frame.body);
    fuzz::require(shown.size() <= store_limits::text, "a text past its limit");
    for (const char c : shown) fuzz::require(static_cast<unsigned char>(c) >= 32 && c != 127, "a control character is shown");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view said = fuzz::text_of(data, size);
    const heard whole = hear(said, size ? size : 1), slowly = hear(said, 1 + size % 7);
    fuzz::require(whole.refused == slowly.refused && whole.frames.size() == slowly.frames.size(), "how bytes were cut is heard");
    std::string written;
    for (std::size_t i = 0; i < whole.frames.size(); ++i) {
        const store_frame &a = whole.frames[i], &b = slowly.frames[i];
        fuzz::require(a.kind == b.kind && a.number == b.number && a.body == b.body, "a frame that comes slowly is another one");
        hold(a, written);
    }
    fuzz::require(said.substr(0, written.size()) == written, "frames are written otherwise than they came");
    return 0;
}
