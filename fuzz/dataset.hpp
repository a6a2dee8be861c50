// What the targets of datasets share: opening what was written into a folder, and reading some of it.
#pragma once

#include "target.hpp"

#include <graft/data/dataset.hpp>

#include <algorithm>

namespace fuzz {

/// Opens a dataset and reads the first samples and the last one. Whether it was taken.
inline bool open(const std::string& path) {
    graft::dataset_options options;
    options.limits = small_limits();
    options.together = false;
    options.threads = 1;
    const auto data = graft::open_dataset(path, options);
    if (!accepted(data)) return false;
    const std::int64_t n = data->size();
    for (std::int64_t i = 0; i < n; i = i < 3 || i + 1 == n ? i + 1 : n - 1) {
        require(data->label(i) >= 0 && static_cast<std::size_t>(data->label(i)) < data->classes().size(), "a label is no class");
        (void)data->name(i);
        accepted(data->read(i));
        accepted(data->tag(i));
    }
    return true;
}

}  // namespace fuzz
