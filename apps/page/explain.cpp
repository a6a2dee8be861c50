// Why: the picture under a map of the places that spoke for a class, as `graft explain` writes it.
#include "boundary.hpp"

#include <graft/data/decode.hpp>
#include <graft/data/png_encode.hpp>

namespace page {
namespace {

std::string& map() {
    static std::string png;
    return png;
}

// The explainer is made at the first question, as it takes as much memory as the network again.
graft::status explain(const graft::result<graft::image>& picture, int index, graft::json_writer& w) {
    if (!picture.ok()) return graft::status(picture.error());
    opened_model& opened = current();
    if (!opened.named.ok()) return graft::status(opened.named.error());
    if (!opened.explainer) {
        auto made = graft::explainer::make(opened.named->model(), opened.how);
        if (!made.ok()) return made.take_status();
        opened.explainer.emplace(std::move(made).value());
    }
    auto found = opened.explainer->of(*picture, index);
    if (!found.ok()) return found.take_status();
    GRAFT_TRY_ASSIGN(map(), graft::encode_png(found->picture));
    w.key("at").integer(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(map().data()))).key("size").integer(static_cast<std::int64_t>(map().size()));
    return {};
}

}  // namespace
}  // namespace page

/// The map of a class on the picture of a file's bytes, as PNG: `at, size`, a pointer that holds until the next call.
PAGE_EXPORT(page_explain_file)
const char* page_explain_file(const std::uint8_t* bytes, std::size_t size, const char* name, std::size_t name_size, int index) {
    return page::answered([&](graft::json_writer& w) { return page::explain(graft::decode(bytes, size, page::text_at(name, name_size)), index, w); });
}

/// The same of what a canvas has.
PAGE_EXPORT(page_explain_pixels) const char* page_explain_pixels(const std::uint8_t* rgba, int width, int height, int index) {
    return page::answered([&](graft::json_writer& w) { return page::explain(page::picture_of_canvas(rgba, width, height), index, w); });
}
