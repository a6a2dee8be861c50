// graft preprocess: the tensor that a model sees of a picture, as .npy.
#include "verb.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>

namespace program {
namespace {

struct preprocess_options {
    std::string image, model, preprocess, output;
};

// What the model's one input asks for, and what its metadata say; the file is read, not loaded.
graft::status read_format(const std::string& path, graft::input_format& format, std::string& metadata) {
    graft::graph g;
    GRAFT_TRY_ASSIGN(g, graft::read_onnx_file(path));
    int pictures = 0;
    for (graft::value_id id : g.inputs) {
        const graft::value& v = g.at(id);
        if (v.constant) continue;
        ++pictures;
        format = {v.type, v.extents, true};
    }
    if (pictures != 1)
        return graft::fail(graft::errc::input_name, path, "the model asks for " + std::to_string(pictures) + " inputs; one picture is what it can be given");
    if (const std::string* own = g.find_metadata("graft.preprocess")) metadata = *own;
    return {};
}

graft::result<int> preprocess(const common_options& common, const preprocess_options& options) {
    graft::input_format format;
    graft::preprocess_choice choice;
    std::string metadata;
    if (options.model.empty()) {
        if (options.preprocess.empty()) return graft::fail(graft::errc::usage, "preprocess", "--preprocess or --model is needed");
        GRAFT_TRY_ASSIGN(choice.spec, graft::parse_preprocess(options.preprocess));
    } else {
        // A wrong specification is wrong usage, whatever the model is.
        if (!options.preprocess.empty()) GRAFT_TRY_ASSIGN(choice.spec, graft::parse_preprocess(options.preprocess));
        GRAFT_TRY(read_format(options.model, format, metadata));
        GRAFT_TRY_ASSIGN(choice, graft::choose_preprocess(options.preprocess, metadata, format));
    }
    warn_where_assumed(common, choice);
    GRAFT_TRY_ASSIGN(choice.spec, graft::complete(choice.spec, format));

    graft::image picture;
    graft::tensor values;
    GRAFT_TRY_ASSIGN(picture, graft::decode_file(options.image));
    auto made = graft::preprocess(picture, choice.spec, format);
    // The message names the picture: the library was given only its pixels.
    if (!made.ok()) return graft::fail(made.error().code(), options.image, made.error().detail());
    values = std::move(made).value();
    GRAFT_TRY(graft::write_npy(options.output, values));
    const std::string spec = graft::text(choice.spec);
    if (common.json)
        print(json{{"image", options.image},
                   {"shape", shape_json(values.shape())},
                   {"dtype", graft::name(values.type())},
                   {"preprocess", spec},
                   {"output", options.output}});
    else
        std::printf("%s: %s %s, by %s\n", printable(options.output).c_str(), graft::name(values.type()), graft::text(values.shape()).c_str(), spec.c_str());
    return exit_done;
}

action declare(option_list& list) {
    auto o = std::make_shared<preprocess_options>();
    list.add("IMAGE", o->image, "The picture").required();
    list.add("--model", o->model, "The model whose input it is to fit", "MODEL");
    list.add("--preprocess", o->preprocess, "How (default: the model's own)", "SPEC");
    list.add("-o,--output", o->output, "The array", "FILE.npy").required();
    return [o](const common_options& common) { return preprocess(common, *o); };
}

}  // namespace

verb preprocess_verb() { return {"The tensor that a model sees of a picture", declare}; }

}  // namespace program
