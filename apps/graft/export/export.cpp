// graft export: a model in a form that needs no file beside the app.
#include "header.hpp"

#include "../verb.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>

namespace program {
namespace {

action declare(option_list& list) {
    auto o = std::make_shared<header_options>();
    list.add("MODEL", o->model, "The model").required();
    list.add("--header", o->header, "Write a C++ header that holds the model, and functions that run it", "FILE").required();
    list.add("--namespace", o->name_space, "The namespace of that header (default: by its file's name)", "NAME");
    list.add("--labels", o->labels, "Names of the classes, one a line (default: the model's own)", "FILE");
    list.add("--preprocess", o->preprocess, "How pictures become tensors (default: the model's own)", "SPEC");
    list.add("--output", o->output, "The output that names classes (default: the first)", "NAME");
    list.add("--float16", o->float16, "Store weights in half precision: half the bytes, and answers that differ in their last digits");
    list.add("--keep-names", o->keep_names, "Keep the names of nodes and of values between them, which only messages use");
    return [o](const common_options& common) { return export_header(common, *o); };
}

}  // namespace

verb export_verb() { return {"A model as a C++ header of an app's own", declare}; }

}  // namespace program
