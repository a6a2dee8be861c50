// graft export --header: a network as a C++ header of an app's own.
#include "header.hpp"

#include "../pictures.hpp"
#include "header_text.hpp"

#include <graft/core/file.hpp>

#include <nlohmann/json.hpp>

#include <cstdio>

namespace program {
namespace {

graft::result<std::string> wanted_namespace(const header_options& options) {
    if (options.name_space.empty()) return namespace_of(options.header);
    if (is_namespace(options.name_space)) return options.name_space;
    return graft::fail(graft::errc::usage, "--namespace",
                       "\"" + printable(options.name_space) + "\" is no name that C++ takes for a namespace; say flowers, or shop::flowers");
}

}  // namespace

graft::result<int> export_header(const common_options& common, const header_options& options) {
    header_names names{base_name(options.header), base_name(options.model), "", options.output};
    GRAFT_TRY_ASSIGN(names.name_space, wanted_namespace(options));
    embedded_network network;
    GRAFT_TRY_ASSIGN(network, embed_network(common, options));
    if (network.unfit)
        warn(common, options.model + " is no classifier, so that the header runs it on arrays: " + network.unfit->where() + ": " + network.unfit->detail());
    else
        warn_where_assumed(common, network.preprocessing);

    graft::atomic_file file;
    std::int64_t bytes = 0;
    GRAFT_TRY(file.open(options.header));
    GRAFT_TRY(header_text(network, names, [&](const std::string& text) {
        bytes += static_cast<std::int64_t>(text.size());
        return file.write(text.data(), text.size());
    }));
    GRAFT_TRY(file.commit());

    const auto model_bytes = static_cast<std::int64_t>(network.bytes.size());
    if (common.json) {
        json object{
            {"file", options.header}, {"bytes", bytes}, {"model_bytes", model_bytes}, {"namespace", names.name_space}, {"operators", network.operators}};
        object["classes"] = network.unfit ? json(nullptr) : json(network.classes);
        print(object);
        return exit_done;
    }
    std::string operators;
    for (const std::string& one : network.operators) operators += (operators.empty() ? "" : ", ") + one;
    const std::string what = network.unfit ? "a network" : "a classifier of " + std::to_string(network.classes) + " classes";
    const terminal screen = look_at(stdout, common.color);
    const auto row = [&](const char* key, const std::string& value) {
        std::printf("%s  %s\n", styled(screen, style::dim, padded(key, 9)).c_str(), value.c_str());
    };
    row("header", styled(screen, style::bold, printable(options.header)) + ", " + what + " that takes " + bytes_text(model_bytes) + " of a program");
    row("include", "#include \"" + printable(names.file) + "\"");
    row("call", names.name_space + (network.unfit ? "::run(inputs)" : "::classify(\"photo.png\")"));
    row("compile", "g++ -std=c++17 -Os -I<where graft/graft.hpp lies> app.cpp -pthread");
    row("operators", operators);
    return exit_done;
}

}  // namespace program
