// Kinds of pictures that are known by their first bytes and not decoded, each with what turns it into one that is.
#pragma once

#include "../core/file_kind.hpp"
#include "image.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// What graft decodes, for sentences.
#if GRAFT_HAS_LIBWEBP
inline const char* decoded_kinds() noexcept { return "JPEG, PNG, BMP, PNM and WebP"; }
#else
inline const char* decoded_kinds() noexcept { return "JPEG, PNG, BMP and PNM"; }
#endif

// What is said of a file that is none of the kinds decoded.
GRAFT_COLD inline status unsupported_image(const std::uint8_t* bytes, std::size_t size, const std::string& name) {
    const file_kind kind = kind_of_file(bytes, size);
    if (kind.family == file_family::unknown)
        return fail(errc::image_unsupported, name, std::string("not a picture of a kind that is known; ") + decoded_kinds() + " can be read");
    if (kind.family != file_family::picture) return fail(errc::image_unsupported, name, wrong_kind(kind, "a picture", ""));
    std::string text = std::string("this is ") + kind.title;
#if !GRAFT_HAS_LIBWEBP
    if (is_webp(bytes, size)) text += ", which takes a graft that was built with libwebp";
#endif
    const std::string command = kind.convert;
    const bool jpeg = command.compare(command.size() - 4, 4, ".jpg") == 0;
    text += "; `" + command + "` makes a " + (jpeg ? "JPEG" : "PNG") + " of it";
    return fail(errc::image_unsupported, name, text);
}

}  // namespace detail
GRAFT_END_NAMESPACE
