// graft export: a model in a form that needs no file beside it.
#include "header.hpp"
#include "html.hpp"

#include "../verb.hpp"

namespace program {
namespace {

struct export_options {
    header_options header;  // the model too, and what is said of it
    html_options html;
};

graft::result<int> export_model(const common_options& common, export_options o) {
    if (o.header.header.empty() == o.html.html.empty())
        return graft::fail(graft::errc::usage, "export", "what is to be written is said by --header FILE or --html FILE, one of them");
    if (!o.header.header.empty()) return export_header(common, o.header);
    o.html.model = o.header.model, o.html.labels = o.header.labels, o.html.preprocess = o.header.preprocess;
    return export_html(common, o.html);
}

action declare(option_list& list) {
    auto o = std::make_shared<export_options>();
    list.add("MODEL", o->header.model, "The model").required();
    list.add("--header", o->header.header, "Write a C++ header that holds the model, and functions that run it", "FILE");
    list.add("--html", o->html.html, "Write a page that runs and teaches the model in a browser", "FILE");
    list.add("--labels", o->header.labels, "Names of the classes, one a line (default: the model's own)", "FILE");
    list.add("--preprocess", o->header.preprocess, "How pictures become tensors (default: the model's own)", "SPEC");
    list.group("Of a header");
    list.add("--namespace", o->header.name_space, "Its namespace (default: by its file's name)", "NAME").needs("--header");
    list.add("--output", o->header.output, "The output that names classes (default: the first)", "NAME").needs("--header");
    list.add("--float16", o->header.float16, "Store weights in half precision: half the bytes, and answers that differ in their last digits").needs("--header");
    list.add("--keep-names", o->header.keep_names, "Keep the names of nodes and of values between them, which only messages use").needs("--header");
    list.group("Of a page");
    list.add("--page", o->html.page, "The page without a model that scripts/page builds (default: the one beside the program)", "FILE").needs("--html");
    return [o](const common_options& common) { return export_model(common, *o); };
}

}  // namespace

verb export_verb() { return {"A model as a C++ header of an app's own, or as one page for the browser", declare}; }

}  // namespace program
