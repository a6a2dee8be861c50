// graft info: what is in a model or a safetensors file.
#include "operators.hpp"
#include "training.hpp"

#include <graft/io/safetensors.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace program {
namespace {

struct info_options {
    std::string file;                ///< the first
    std::vector<std::string> files;  ///< more than one with --ops alone
    bool ops = false, placement = false;
    spread_options spread;
    int train = 0;  ///< samples of the training step whose memory is told; 0: none
};

// A safetensors file begins with the length of its JSON, 64 bits, which no real file fills beyond the fifth byte, and a brace.
bool looks_like_safetensors(const std::string& path) {
    std::error_code problem;
    if (!std::filesystem::is_regular_file(path, problem)) return false;
    std::FILE* file = std::fopen(path.c_str(), "rb");
    if (!file) return false;
    unsigned char head[9] = {};
    const std::size_t n = std::fread(head, 1, sizeof head, file);
    std::fclose(file);
    const auto zero = [&](int first) { return std::all_of(head + first, head + 8, [](unsigned char c) { return c == 0; }); };
    return n >= 8 && (zero(4) || (n == 9 && head[8] == '{' && zero(6)));
}

json values_json(const std::vector<graft::value_info>& values, bool defaults) {
    json list = json::array();
    for (const graft::value_info& v : values)
        if (v.has_default == defaults) list.push_back({{"name", v.name}, {"dtype", graft::name(v.type)}, {"shape", shape_json(v)}});
    return list;
}

std::string wrapped(const std::string& text, int indent, int columns) {
    std::string out, line;
    const auto flush = [&] {
        if (!out.empty()) out += "\n" + std::string(static_cast<std::size_t>(indent), ' ');
        out += line;
        line.clear();
    };
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t end = std::min(text.find(", ", i), text.size() - 1) + 1;
        const std::string word = text.substr(i, end - i + (end < text.size() ? 1 : 0));
        if (!line.empty() && display_width(line + word) > columns - indent) flush();
        line += word;
        i += word.size();
    }
    if (!line.empty()) flush();
    return out;
}

graft::result<int> info_safetensors(const common_options& common, const info_options& options) {
    graft::safetensors file;
    GRAFT_TRY_ASSIGN(file, graft::read_safetensors_file(options.file));
    json tensors = json::array(), metadata = json::object();
    text_table table({"tensor", "dtype", "shape", ">bytes"});
    std::int64_t elements = 0, bytes = 0;
    for (const graft::safetensors_entry& t : file.tensors) {
        // Types that no tensor of graft holds keep the name that the file gives them.
        const std::string type = t.type == graft::dtype::undefined ? t.type_name : graft::name(t.type);
        std::int64_t n = 1;
        std::string shape;
        for (std::int64_t e : t.extents) n *= e, shape += (shape.empty() ? "" : ",") + std::to_string(e);
        tensors.push_back({{"name", t.name}, {"dtype", type}, {"shape", t.extents}});
        if (!common.json) table.add({shortened(printable(t.name), 60), printable(type), "[" + shape + "]", bytes_text(static_cast<std::int64_t>(t.bytes))});
        elements += n;
        bytes += static_cast<std::int64_t>(t.bytes);
    }
    for (const auto& m : file.metadata) metadata[m.first] = m.second;
    if (common.json) {
        print(json{{"format", "safetensors"}, {"tensors", tensors}, {"metadata", metadata}, {"parameters", elements}});
        return exit_done;
    }
    const terminal screen = look_at(stdout, common.color);
    std::printf("%s: safetensors, %zu tensors, %s elements, %s\n", printable(options.file).c_str(), file.tensors.size(), count_text(elements).c_str(),
                bytes_text(bytes).c_str());
    for (const auto& m : file.metadata)
        std::printf("%s  %s\n", styled(screen, style::dim, shortened(printable(m.first), 30)).c_str(),
                    shortened(printable(m.second), screen.columns - 34).c_str());
    if (!table.empty()) table.print(screen);
    return exit_done;
}

void print_placement(const terminal& screen, const std::vector<graft::placement>& places, const std::string& on) {
    std::printf("on %s\n", on.c_str());
    text_table table({"node", "operator", "device", "kernel", "why not a faster one"});
    for (const graft::placement& p : places)
        table.add({shortened(printable(p.node), 40), printable(p.op_type), p.device, printable(p.kernel), printable(p.reason)});
    table.print(screen);
}

// What a build has to hold that runs several models.
graft::result<int> operators_of_all(const common_options& common, const std::vector<std::string>& files) {
    operator_census all;
    for (const std::string& file : files) {
        graft::model model;
        GRAFT_TRY_ASSIGN(model, graft::load(file, graft::on_device(nullptr)));
        all.add(model.graph());
        GRAFT_TRY(all.look_at_file(file));
    }
    if (common.json)
        print(json{{"ops", all.list()}});
    else
        std::printf("%s\n", all.list().c_str());
    return exit_done;
}

graft::result<int> info(const common_options& common, const info_options& options) {
    if (looks_like_safetensors(options.file)) return info_safetensors(common, options);
    std::string device;
    if (!options.spread.stages) GRAFT_TRY_ASSIGN(device, wanted_device(common));
    graft::load_options with = graft::on_device(nullptr);
    with.exact = common.exact, with.seed = common.seed;
    // Nothing runs here: `auto` need not look for a GPU unless it is asked where nodes would run.
    if (options.placement || options.spread.stages > 0 || options.spread.parts > 0 || device.compare(0, 4, "cuda") == 0 || common.precision != "auto")
        GRAFT_TRY_ASSIGN(with, load_options_of(common, options.spread));
    graft::model model;
    GRAFT_TRY_ASSIGN(model, graft::load(options.file, with));
    const graft::graph& g = model.graph();
    operator_census all;
    all.add(g);
    if (options.ops) GRAFT_TRY(all.look_at_file(options.file));
    const std::string ops = all.list();
    if (options.ops && !common.json) {
        std::printf("%s\n", ops.c_str());
        return exit_done;
    }

    // Open extents are guessed; a guess that does not suit the model is no fault of the file.
    const std::vector<graft::value_info> assumed = assumed_inputs(model, 1);
    const auto use = model.memory(assumed);
    json peak = nullptr, macs = nullptr, arena = nullptr, constants = nullptr, device_bytes = nullptr;
    if (use.ok()) {
        const graft::model::memory_use& m = use.value();
        peak = m.arena + m.scratch + m.constants + m.outputs;
        macs = m.multiply_adds;
        arena = m.arena + m.scratch;
        constants = m.constants;
        device_bytes = m.device;
    }
    graft::step_memory step;
    if (options.train) GRAFT_TRY_ASSIGN(step, training_memory(common, g, options.file, options.train));
    std::vector<graft::stage_use> stages;
    if (options.spread.stages > 0) GRAFT_TRY_ASSIGN(stages, model.stages(assumed));
    std::vector<graft::placement> places;
    std::string no_places;
    if (options.placement) {
        auto found = model.placements(assumed);
        if (found.ok())
            places = std::move(found).value();
        else
            no_places = found.error().what();
    }

    if (common.json) {
        json operators = json::object(), metadata = json::object(), opsets = json::object(), shapes = json::object();
        for (const auto& entry : all.by_number()) operators[entry.first] = entry.second;
        for (const auto& entry : g.metadata) metadata[entry.first] = entry.second;
        for (const graft::opset& o : g.opsets) opsets[o.domain.empty() ? "ai.onnx" : o.domain] = o.version;
        for (const graft::value_info& v : assumed) shapes[v.name] = shape_json(v.extents);
        json object{{"format", "onnx"},
                    {"name", g.name},
                    {"ir_version", g.ir_version},
                    {"opset", g.version_of("")},
                    {"opsets", opsets},
                    {"producer", g.producer_name},
                    {"inputs", values_json(model.inputs(), false)},
                    {"outputs", values_json(model.outputs(), false)},
                    {"defaults", values_json(model.inputs(), true)},
                    {"operators", operators},
                    {"parameters", all.parameters},
                    {"macs", macs},
                    {"peak_bytes", peak},
                    {"arena_bytes", arena},
                    {"constant_bytes", constants},
                    {"device", model.device()},
                    {"device_bytes", device_bytes},
                    {"assumed", shapes},
                    {"metadata", metadata}};
        if (options.ops) object["ops"] = ops;
        if (options.train)
            object["training"] = {{"batch", options.train},
                                  {"peak_bytes", step.total()},
                                  {"activation_bytes", step.activations},
                                  {"state_bytes", step.state},
                                  {"constant_bytes", step.constants}};
        if (!stages.empty()) object["stages"] = stages_json(stages);
        if (options.placement) {
            json list = json::array();
            for (const graft::placement& p : places)
                list.push_back({{"node", p.node}, {"operator", p.op_type}, {"device", p.device}, {"kernel", p.kernel}, {"reason", p.reason}});
            object["placement"] = no_places.empty() ? list : json(nullptr);
        }
        print(object);
        return exit_done;
    }

    const terminal screen = look_at(stdout, common.color);
    const auto row = [&](const std::string& key, const std::string& value) {
        std::printf("%s  %s\n", styled(screen, style::dim, padded(key, 10)).c_str(), wrapped(value, 12, std::max(40, screen.columns)).c_str());
    };
    std::string origin = "ONNX, IR " + std::to_string(g.ir_version) + ", opset " + std::to_string(g.version_of(""));
    if (!g.producer_name.empty()) origin += ", by " + printable(g.producer_name) + (g.producer_version.empty() ? "" : " " + printable(g.producer_version));
    row("model", styled(screen, style::bold, printable(options.file)) + "  (" + origin + ")");
    const auto list = [&](const char* one, const std::vector<graft::value_info>& values, bool defaults) {
        for (const graft::value_info& v : values)
            if (v.has_default == defaults) row(one, printable(v.name) + "  " + graft::name(v.type) + " " + printable(graft::shape_text(v)));
    };
    list("input", model.inputs(), false);
    list("default", model.inputs(), true);
    list("output", model.outputs(), false);
    row("parameters", count_text(all.parameters) + "  (" + bytes_text(all.parameter_bytes) + ")");
    std::string guess;
    for (const graft::value_info& v : assumed) guess += (guess.empty() ? "" : ", ") + printable(v.name) + " " + graft::text(v.extents);
    if (use.ok()) {
        const graft::model::memory_use& m = use.value();
        row("MACs", count_text(m.multiply_adds) + "  at " + guess);
        row("memory", bytes_text(m.arena + m.scratch + m.constants + m.outputs) + "  (" + bytes_text(m.constants) + " constants, " +
                          bytes_text(m.arena + m.scratch) + " intermediates, " + bytes_text(m.outputs) + " outputs)");
        if (on_gpu(with.opened)) row("GPU", bytes_text(m.device) + " of the memory of " + device_title(with.opened));
        for (std::size_t s = 0; s < stages.size(); ++s)
            row(s ? "" : "stages", stages[s].device + ": " + count_text(stages[s].multiply_adds) + " MACs, " + bytes_text(stages[s].bytes));
    } else
        row("memory", "not known: " + printable(use.error().what()));
    if (options.train)
        row("training", bytes_text(step.total()) + "  (a step of " + std::to_string(options.train) + ": " + bytes_text(step.activations) +
                            " activations and gradients, " + bytes_text(step.state) + " weights, averages and optimiser)");
    std::string operators;
    for (const auto& entry : all.by_number()) operators += (operators.empty() ? "" : ", ") + printable(entry.first) + " " + std::to_string(entry.second);
    row("operators", operators);
    for (const auto& entry : g.metadata) row("metadata", printable(entry.first) + ": " + shortened(printable(entry.second), 2 * screen.columns));
    if (options.placement) {
        std::printf("\n");
        if (no_places.empty())
            print_placement(screen, places, stages.empty() ? device_title(with.opened) : std::to_string(stages.size()) + " stages");
        else
            std::printf("placement is not known: %s\n", printable(no_places).c_str());
    }
    return exit_done;
}

action declare(option_list& list) {
    auto o = std::make_shared<info_options>();
    list.add("FILE", o->files, "The file; several with --ops").required();
    list.add("--ops", o->ops, "Print the GRAFT_OPS list of a build for this model, or these, alone");
    list.add("--train", o->train, "Also the memory of a training step of N samples, where all of the network learns", "N").within(1, 1 << 20);
    list.add("--placement", o->placement, "Print which kernel each node gets, and why not a faster one");
    declare_stages(list, o->spread, "1");
    return [o](const common_options& common) -> graft::result<int> {
        o->file = o->files[0];
        if (o->files.size() == 1) return info(common, *o);
        if (!o->ops || o->train || o->placement || o->spread.stages || o->spread.parts)
            return graft::fail(graft::errc::usage, printable(o->files[1]), "several files are told of with --ops alone");
        return operators_of_all(common, o->files);
    };
}

}  // namespace

verb info_verb() { return {"What is in a model (ONNX) or a tensor file (safetensors)", declare}; }

}  // namespace program
