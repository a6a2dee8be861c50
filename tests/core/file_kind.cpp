// What a file is, told where something else was wanted: by its content, whatever its name.
#include "../data/made_dataset.hpp"
#include "../file_contents.hpp"

#include <graft/core/suggest.hpp>
#include <graft/train.hpp>

#include <doctest/doctest.h>

namespace {

std::string zip_of(const std::string& name) { return "PK\3\4" + std::string(26, '\1') + name + std::string(40, '\2'); }
std::string tar() { return "net/" + std::string(253, '\0') + "ustar" + std::string(250, '\0'); }
const std::string png = file_contents(GRAFT_SOURCE_DIR "/apps/graft/demo/pictures/fish-1.png"),
                  onnx = file_contents(GRAFT_SOURCE_DIR "/apps/graft/demo/model.onnx");

struct given {
    std::string bytes;
    const char *is, *helps;  // what is said of it, and what helps where a model is wanted
};
const std::vector<given>& files() {
    static const std::vector<given> all{
        {png, "a PNG picture", "before the pictures"},
        {"\xff\xd8\xff\xe0" + std::string(200, '\1'), "a JPEG picture", "before the pictures"},
        {zip_of("net/data.pkl"), "a PyTorch file", "torch.onnx.export"},
        {"\x80\2}q" + std::string(100, '\1'), "a Python pickle", "torch.onnx.export"},
        {"\x89HDF\r\n\x1a\n" + std::string(100, '\0'), "an HDF5 file", "export(\"model.onnx\""},
        {zip_of("metadata.jsonPKconfig.json"), "a Keras model", "export(\"model.onnx\""},
        {std::string("\x1c\0\0\0TFL3", 8) + std::string(100, '\0'), "a TensorFlow Lite model", "tf2onnx.convert --tflite"},
        {std::string("\x40\0\0\0\0\0\0\0{\"w\":{\"dtype\"", 21) + std::string(80, ' '), "a safetensors file", "torch.onnx.export"},
        {zip_of("pictures/cat/1.jpg"), "a ZIP archive", "`unzip "},
        {tar(), "a tar archive", "`tar xf "},
        {"\x1f\x8b\x08" + std::string(100, '\1'), "a gzip archive", "`tar xzf "},
        {"cats\ndogs\n", "text", "an ONNX file"},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a pointer of Git LFS", "git lfs pull"},
        {"<!DOCTYPE html><html>", "XML or HTML", "an ONNX file"},
    };
    return all;
}

std::string said(const graft::error& e, graft::errc code) {
    CHECK(e.code() == code);
    return e.what();
}

}  // namespace

TEST_CASE("What is no ONNX file is named where a model is wanted, with what makes one of it") {
    const made_folder folder;
    for (const given& g : files()) {
        CAPTURE(g.is);
        folder.put("model.onnx", g.bytes);
        const auto read = graft::load(folder.path + "/model.onnx");
        REQUIRE(!read.ok());
        const std::string text = said(read.error(), graft::errc::model_malformed);
        CHECK(contains(text, std::string("this is ") + g.is));
        CHECK_MESSAGE(contains(text, g.helps), text);
    }
    CHECK(contains(graft::load(folder.path).error().what(), "this is a folder"));
    folder.put("saved_model.pb", "x");
    CHECK(contains(graft::load(folder.path).error().what(), "tf2onnx.convert --saved-model"));
    CHECK(graft::load(onnx.data(), onnx.size()).ok());
}

TEST_CASE("What is no dataset and what is no picture is named too") {
    const made_folder folder;
    std::vector<given> all = files();
    all.push_back({onnx, "an ONNX model", ""});
    for (const given& g : all) {
        CAPTURE(g.is);
        if (contains(g.is, "gzip")) continue;  // IDX and CIFAR may be packed: looked at inside
        folder.put("given", g.bytes);
        const auto data = graft::open_splits(folder.path + "/given");
        REQUIRE(!data.ok());
        const std::string text = said(data.error(), graft::errc::data_format);
        const bool words = contains("text, a pointer of Git LFS, XML or HTML", g.is);  // which CSV is as well
        if (!words) CHECK_MESSAGE(contains(text, std::string("this is ") + g.is), text);
        CHECK(contains(text, contains(g.is, "archive") ? "unpack it" : "path,label"));
        if (contains(g.is, "picture")) continue;
        const auto picture = graft::decode(g.bytes.data(), g.bytes.size(), "given");
        CHECK_MESSAGE(contains(said(picture.error(), graft::errc::image_unsupported), std::string("this is ") + g.is), picture.error().what());
    }
    CHECK(contains(graft::decode_file(folder.path).error().what(), "this is a folder"));
}

TEST_CASE("The known name that a misspelt one is nearest to") {
    const std::vector<std::string> names{"sgd", "adam", "adamw"};
    CHECK(graft::nearest_name("admw", names) == "adamw");
    CHECK(graft::nearest_name("Adam", names) == "adam");
    CHECK(graft::nearest_name("rmsprop", names).empty());
    CHECK(graft::nearest_name("", names).empty());
    CHECK(graft::nearest_name("--epohcs", {"--epochs", "--batch"}) == "--epochs");
    CHECK(graft::nearest_name(std::string(1000, 'a'), names).empty());
    CHECK(contains(graft::optimizer_of("admw").error().what(), "did you mean adamw?"));
    CHECK(contains(graft::loss_of("cross_entopy").error().what(), "did you mean cross_entropy?"));
    CHECK(contains(graft::build_architecture("resnet50", {}).error().what(), "graft finetune DATA --from MODEL.onnx"));
    for (const std::string& name : graft::architecture_names()) CHECK(contains(graft::build_architecture("resnet50", {}).error().what(), name));
}
