// A classifier in one page of HTML that runs it, and teaches it, in any browser.
#pragma once

#include "../program.hpp"

#include <string>

namespace program {

/// Which model, and where the page goes.
struct html_options {
    std::string model, labels, preprocess;  ///< labels: a file with one name a line; both empty: as the model says
    std::string html;
    std::string page;  ///< the page without a model; empty: graft_page.html beside the program, or where it is installed
};

/// Writes the page with the model in it, and says how large it is. Errors: those of `load_classifier`; file.open (there is no page without a model),
/// usage (what --page names is none), model.too_large, file.write.
graft::result<int> export_html(const common_options& common, const html_options& options);

}  // namespace program
