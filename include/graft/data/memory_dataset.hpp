// Labelled pictures that an app holds itself, as a dataset: from a camera, a database, a network.
#pragma once

#include "dataset.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// One labelled picture in memory.
struct labelled_picture {
    sample_bytes contents;  ///< an encoded file, or pixels; `owner` keeps them alive for as long as a dataset holds them
    int label = 0;          ///< an index into the classes
    std::string name;       ///< stands for it in messages and results
};

/// The pictures as a dataset, in the order given; their contents are shared, not copied. Errors: usage (contents of no bytes, pixels that are not
/// height x width x 1 or 3), data.label_range, data.empty_class (a class without pictures, unless `options.allow_empty`), data.no_classes (no
/// pictures), image.dimensions, image.budget (over `options.limits`), memory.budget. The other options are not looked at.
result<dataset> dataset_of(std::vector<labelled_picture> pictures, const std::vector<std::string>& classes, const dataset_options& options = {});

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE
namespace detail {

inline status check_held(const labelled_picture& p, std::size_t classes, const limits& caps) {
    const sample_bytes& c = p.contents;
    if (p.label < 0 || static_cast<std::size_t>(p.label) >= classes)
        return fail(errc::data_label_range, p.name, "its label is " + std::to_string(p.label) + "; there are " + std::to_string(classes) + " classes");
    if (!c.data || c.size == 0) return fail(errc::usage, p.name, "the picture has no contents");
    if (!c.height) {
        if (static_cast<std::int64_t>(c.size) <= caps.image_bytes) return {};
        return fail(errc::image_budget, p.name, std::to_string(c.size) + " bytes; the limit is " + std::to_string(caps.image_bytes));
    }
    GRAFT_TRY(check_image_size(c.width, c.height, p.name, caps));
    if ((c.channels == 1 || c.channels == 3) && static_cast<std::int64_t>(c.size) == c.height * c.width * c.channels) return {};
    return fail(errc::usage, p.name,
                std::to_string(c.size) + " bytes are not " + std::to_string(c.width) + "x" + std::to_string(c.height) +
                    " pixels of 1 or 3 channels, 8 bits each");
}

}  // namespace detail

GRAFT_INLINE result<dataset> dataset_of(std::vector<labelled_picture> pictures, const std::vector<std::string>& classes,
                                        const dataset_options& options) GRAFT_MEMORY_TRY {
    auto state = std::make_shared<detail::dataset_state>();
    state->caps = options.limits;
    state->classes = classes;
    std::vector<bool> seen(classes.size());
    for (labelled_picture& p : pictures) {
        GRAFT_TRY(detail::check_held(p, classes.size(), options.limits));
        GRAFT_TRY(state->add_file(p.name, p.label, detail::data_part::training));
        seen[static_cast<std::size_t>(p.label)] = true;
        state->held.push_back(std::move(p.contents));
    }
    if (pictures.empty()) return fail(errc::data_no_classes, "dataset", "there are no pictures");
    for (std::size_t c = 0; c < classes.size(); ++c)
        if (!seen[c] && !options.allow_empty) return fail(errc::data_empty_class, classes[c], "the class has no pictures");
    return detail::dataset_views::whole(std::move(state));
}
GRAFT_MEMORY_CATCH("dataset_of")

GRAFT_END_NAMESPACE
#endif
