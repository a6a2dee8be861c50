// A network as a C++ header of an app's own.
#pragma once

#include "embedded_network.hpp"

#include <string>

namespace program {

/// Where the header goes, and what it is called by.
struct header_options : embedding_options {
    std::string header, name_space;  ///< name_space: "flowers", "shop::flowers"; empty: by the header's name
};

/// Writes the header, and says what is in it. Errors: usage (the namespace), those of `embed_network`, file.write.
graft::result<int> export_header(const common_options& common, const header_options& options);

}  // namespace program
