// graft decode: a picture's pixels as .npy.
#include "verb.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>

namespace program {
namespace {

struct decode_options {
    std::string image, output;
};

graft::result<int> decode(const common_options& common, const decode_options& options) {
    graft::image picture;
    GRAFT_TRY_ASSIGN(picture, graft::decode_file(options.image));
    const graft::tensor pixels(graft::dtype::uint8, {picture.height, picture.width, picture.channels}, picture.pixels);
    GRAFT_TRY(graft::write_npy(options.output, pixels));
    if (common.json)
        print(json{{"image", options.image}, {"shape", shape_json(pixels.shape())}, {"dtype", graft::name(pixels.type())}, {"output", options.output}});
    else {
        for (const std::string& line : small_picture(look_at(stdout, common.color), picture, 48)) std::printf("%s\n", line.c_str());
        std::printf("%s: uint8 %s, from %s\n", printable(options.output).c_str(), graft::text(pixels.shape()).c_str(), printable(options.image).c_str());
    }
    return exit_done;
}

action declare(option_list& list) {
    auto o = std::make_shared<decode_options>();
    list.add("IMAGE", o->image, "The picture").required();
    list.add("-o,--output", o->output, "The array", "FILE.npy").required();
    return [o](const common_options& common) { return decode(common, *o); };
}

}  // namespace

verb decode_verb() { return {"The pixels of a picture as an array, uint8 (H, W, 3)", declare}; }

}  // namespace program
