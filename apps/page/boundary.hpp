// What passes between the page's script and the engine: pointers into the engine's memory, numbers, and JSON as text.
#pragma once

#include <graft/core/clock.hpp>
#include <graft/core/json.hpp>
#include <graft/train.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#if defined(__EMSCRIPTEN__)
#define PAGE_EXPORT(name) extern "C" __attribute__((export_name(#name)))
#else
#error "the engine of the page is compiled by em++: scripts/page"
#endif

/// Is told how far training is, as JSON.
extern "C" void page_tell(const char* text, std::size_t size);
/// Is given a model, as the bytes of an ONNX file, that scored better than those before it.
extern "C" void page_offer(const std::uint8_t* bytes, std::size_t size);

namespace page {

/// Where the answer to the last call is kept.
std::string& answer();

/// Text that the script has put into memory.
inline std::string text_at(const char* text, std::size_t size) { return std::string(text, size); }

/// RGB pixels of the RGBA that a canvas has; alpha is dropped, as `graft::decode` does it. Errors: image.dimensions, image.budget, memory.oom.
graft::result<graft::image> picture_of_canvas(const std::uint8_t* rgba, std::int64_t width, std::int64_t height);

/// `code`, `where` and `detail` of an error, as an object.
inline void write_error(graft::json_writer& w, const graft::error& e) {
    w.key("error").begin_object().key("code").string(graft::text(e.code())).key("where").string(e.where()).key("detail").string(e.detail()).end_object();
}

/// The answer to one call of the script: what `write` puts into an object, or {"error": {code, where, detail}}.
template <class Write>
const char* answered(const Write& write) {
    graft::json_writer w;
    w.begin_object();
    const graft::status done = graft::detail::or_out_of_memory<graft::status>("page", [&]() -> graft::status { return write(w); });
    if (!done.ok()) {
        w = graft::json_writer();
        w.begin_object();
        write_error(w, done.error());
    }
    w.end_object();
    answer() = w.text();
    return answer().c_str();
}

/// The model that is looked at and learnt from.
struct opened_model {
    std::string bytes;  ///< of its file
    graft::classifier_options how;
    graft::result<graft::classifier> named = graft::fail(graft::errc::usage, "page", "no model was opened");
    std::optional<graft::explainer> explainer;
};
opened_model& current();

}  // namespace page
