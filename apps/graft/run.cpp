// graft run: any model on arrays, arrays out.
#include "profile.hpp"
#include "verb.hpp"
#include "world.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>

namespace program {
namespace {

struct run_options {
    std::string model, output_dir;
    std::vector<std::string> inputs;
    spread_options spread;
    profile_options profile;
};

// The file of an output: / and : in its name become _.
graft::result<std::string> file_of(const std::string& directory, const std::string& output) {
    if (output.find('\0') != std::string::npos) return graft::fail(graft::errc::file_write, output, "a name with a zero byte cannot be a file's");
    std::string file = output;
    for (char& c : file)
        if (c == '/' || c == ':') c = '_';
    return (std::filesystem::path(directory) / (file + ".npy")).string();
}

std::string range_of(const graft::tensor& t) {
    const std::int64_t n = t.elements();
    if (n == 0) return "empty";
    double least = std::numeric_limits<double>::infinity(), most = -least, sum = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        const double v = graft::element_as_double(t.type(), t.raw(), i);
        least = std::min(least, v), most = std::max(most, v), sum += v;
    }
    char text[96];
    std::snprintf(text, sizeof text, "%.4g .. %.4g, mean %.4g", least, most, sum / static_cast<double>(n));
    return text;
}

graft::result<int> run(const common_options& common, const run_options& options) {
    std::vector<graft::named_tensor> inputs;
    for (const std::string& given : options.inputs) {
        const std::size_t at = given.rfind('=');
        if (at == std::string::npos || at + 1 == given.size()) return graft::fail(graft::errc::usage, "--input " + given, "it has to be NAME=FILE.npy");
        graft::named_tensor input;
        input.name = given.substr(0, at);
        for (const graft::named_tensor& other : inputs)
            if (other.name == input.name) return graft::fail(graft::errc::usage, "--input " + given, "this input was given twice");
        GRAFT_TRY_ASSIGN(input.value, graft::read_npy_file(given.substr(at + 1)));
        inputs.push_back(std::move(input));
    }
    graft::load_options with;
    GRAFT_TRY_ASSIGN(with, load_options_of(common, options.spread));
    std::unique_ptr<profiling> profile;
    GRAFT_TRY_ASSIGN(profile, profiling::begin(options.profile, with.trace));
    graft::model model;
    GRAFT_TRY_ASSIGN(model, graft::load(options.model, with));
    for (const graft::value_info& output : model.outputs())
        if (output.type != graft::dtype::undefined) {
            const auto header = graft::npy_header(output.type, {});
            if (!header.ok()) return graft::fail(header.error().code(), output.name, header.error().detail());
        }

    graft::session session(model, {common.threads, nullptr});
    const double begun = now_ms();
    std::vector<graft::named_tensor> outputs;
    GRAFT_TRY_ASSIGN(outputs, session.run(inputs));
    const double latency = now_ms() - begun;

    std::error_code problem;
    std::filesystem::create_directories(options.output_dir, problem);
    if (!std::filesystem::is_directory(options.output_dir))
        return graft::fail(graft::errc::file_write, options.output_dir, "the folder cannot be made" + (problem ? ": " + problem.message() : std::string()));
    json files = json::object();
    text_table table({"output", "dtype", "shape", "values", "file"});
    std::vector<std::string> written;
    for (const graft::named_tensor& output : outputs) {
        std::string file;
        GRAFT_TRY_ASSIGN(file, file_of(options.output_dir, output.name));
        if (std::find(written.begin(), written.end(), file) != written.end())
            return graft::fail(graft::errc::file_write, file, "two outputs would go to this file");
        GRAFT_TRY(graft::write_npy(file, output.value));
        written.push_back(file);
        files[output.name] = file;
        if (!common.json)
            table.add({printable(output.name), graft::name(output.value.type()), graft::text(output.value.shape()), range_of(output.value), printable(file)});
    }
    // The run above planned and met cold memory: what is recorded are others behind it, for a second at most.
    if (profile) GRAFT_TRY(profile->record(common, session, 20, 1));
    if (common.json) {
        json object{{"outputs", files}, {"device", model.device()}, {"latency_ms", latency}};
        if (profile) profile->add_to(object);
        print(object);
    } else {
        table.print(look_at(stdout, common.color));
        std::printf("%s on %s, %d threads\n", milliseconds_text(latency).c_str(), model.device(), thread_count(common));
        if (profile) profile->print(common);
    }
    return exit_done;
}

action declare(option_list& list) {
    auto o = std::make_shared<run_options>();
    list.add("MODEL", o->model, "The model").required();
    list.add("-i,--input", o->inputs, "An input and its array; once for each input", "NAME=FILE.npy").repeatable();
    list.add("-o,--output-dir", o->output_dir, "Folder for <output name>.npy; made if it is not there", "DIR").required();
    declare_stages(list, o->spread, "1");
    declare_profile(list, o->profile);
    return [o](const common_options& common) { return run(common, *o); };
}

}  // namespace

verb run_verb() { return {"Runs any model on arrays", declare}; }

}  // namespace program
