// graft export --html: puts a classifier into the page that scripts/page builds.
#include "html.hpp"

#include "../operators.hpp"

#include <graft/core/file.hpp>
#include <graft/core/read_file.hpp>
#include <graft/data/deflate.hpp>
#include <graft/data/preprocess.hpp>
#include <graft/io/onnx_write.hpp>
#include <graft/train/base64.hpp>
#include <graft/train/report_charts.hpp>
#include <graft/train/training_files.hpp>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>
#include <system_error>

namespace program {
namespace {

constexpr const char* slot = "<script type=\"application/octet-stream\" id=\"model\" data-name=\"\"></script>";
constexpr std::int64_t most_page = std::int64_t(64) << 20;  // of the page without a model
constexpr std::size_t most_model = std::size_t(256) << 20;  // browsers hold no text that is much longer

// Where the page without a model is: beside the program in a build, below the prefix where it is installed.
std::string find_page() {
    std::error_code none;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", none);
    if (none) return "";
    const std::filesystem::path folder = program.parent_path();
    for (const std::filesystem::path& at : {folder / "graft_page.html", folder.parent_path() / "share" / "graft" / "graft_page.html"})
        if (std::filesystem::is_regular_file(at, none)) return at.string();
    return "";
}

graft::result<std::string> read_page(const std::string& given) {
    const std::string path = given.empty() ? find_page() : given;
    if (path.empty())
        return graft::fail(
            graft::errc::file_open, "graft_page.html",
            "the page without a model is neither beside the program nor installed; scripts/page builds it (it needs emscripten), and --page FILE "
            "says where it is");
    std::string text;
    GRAFT_TRY_ASSIGN(text, graft::read_file(path, most_page, graft::errc::file_open, graft::errc::usage));
    if (text.find(slot) == std::string::npos) return graft::fail(graft::errc::usage, path, "this is not the page without a model that scripts/page builds");
    return text;
}

// The model's file with what the command line says of it; a browser opens nothing that lies beside it.
graft::result<std::vector<std::uint8_t>> model_bytes(const html_options& options, const graft::classifier& named) {
    graft::model model;
    GRAFT_TRY_ASSIGN(model, graft::load(options.model, graft::on_device(nullptr)));
    graft::graph g = model.graph();
    if (!options.labels.empty() || !options.preprocess.empty()) {
        graft::input_format format;
        for (const graft::value_info& v : named.model().inputs())
            if (!v.has_default) format = {v.type, v.extents, true};
        graft::preprocess_spec spec;
        GRAFT_TRY_ASSIGN(spec, graft::complete(named.preprocessing().spec, format));
        graft::describe_classifier(g, named.labels(), spec);
        if (named.labels().empty())
            for (const char* key : {"graft.labels", "class_names"}) g.drop_metadata(key);
    }
    std::vector<std::uint8_t> bytes;
    GRAFT_TRY(graft::write_onnx(g, bytes));
    if (bytes.size() > most_model)
        return graft::fail(graft::errc::model_too_large, options.model,
                           bytes_text(static_cast<std::int64_t>(bytes.size())) + "; a page holds " + bytes_text(static_cast<std::int64_t>(most_model)) +
                               " at most");
    return bytes;
}

}  // namespace

graft::result<int> export_html(const common_options& common, const html_options& options) {
    std::string page;
    GRAFT_TRY_ASSIGN(page, read_page(options.page));
    common_options on_cpu = common;
    on_cpu.device = "cpu";
    auto loaded = load_classifier(on_cpu, options.model, options.labels, options.preprocess, "");
    if (!loaded.ok()) return loaded.take_status();
    const graft::classifier& named = loaded.value();
    warn_where_assumed(common, named.preprocessing());
    std::vector<std::uint8_t> bytes;
    GRAFT_TRY_ASSIGN(bytes, model_bytes(options, named));
    const std::string packed = graft::base64_encode(graft::zlib_compress(bytes.data(), bytes.size()));
    const std::string name = std::filesystem::path(options.model).filename().string();
    const std::string element =
        "<script type=\"application/octet-stream\" id=\"model\" data-name=\"" + graft::detail::html_text(name) + "\">" + packed + "</script>";
    page.replace(page.find(slot), std::char_traits<char>::length(slot), element);
    graft::atomic_file file;
    GRAFT_TRY(file.open(options.html));
    GRAFT_TRY(file.write(page.data(), page.size()));
    GRAFT_TRY(file.commit());

    operator_census census;
    census.add(named.model().graph());
    const auto size = static_cast<std::int64_t>(page.size());
    if (common.json)
        print(json{{"html", options.html}, {"bytes", size}, {"model_bytes", bytes.size()}, {"operators", census.names()}});
    else
        std::printf("%s: %s, of which the model is %s\nOpen it in a browser: it names pictures and can be taught other classes, and sends nothing anywhere.\n",
                    printable(options.html).c_str(), bytes_text(size).c_str(), bytes_text(static_cast<std::int64_t>(packed.size())).c_str());
    return exit_done;
}

}  // namespace program
