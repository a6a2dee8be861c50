// What the verbs share: errors, printing, the choice of a device, assumed shapes, measuring.
#include "gpus.hpp"

#include <graft/core/utf8.hpp>
#include <graft/cpu/isa.hpp>
#include <graft/gpu.hpp>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#if !defined(_WIN32)
#include <sys/resource.h>
#endif

namespace program {

int report(const graft::error& e) {
    const std::string code = graft::text(e.code()), where = e.where().empty() ? "graft" : e.where();
    std::fflush(stdout);
    std::fprintf(stderr, "graft: error: %s: %s: %s\n", code.c_str(), shortened(printable(where), 400).c_str(), printable(e.detail()).c_str());
    return code.compare(0, 5, "usage") == 0 ? exit_usage : exit_failed;
}

void warn(const common_options& common, const std::string& text) {
    if (!common.quiet) std::fprintf(stderr, "graft: warning: %s\n", printable(text).c_str());
}

void print(const json& object) { std::printf("%s\n", json_text(object).c_str()); }

// Names from files need not be UTF-8.
std::string json_text(const json& object) { return object.dump(-1, ' ', false, json::error_handler_t::replace); }

std::string utf8_text(const std::string& text) { return graft::is_utf8(text) ? text : printable(text); }

json predictions_json(const std::vector<graft::prediction>& predictions) {
    json list = json::array();
    for (const graft::prediction& one : predictions) list.push_back({{"index", one.index}, {"label", one.label}, {"probability", one.probability}});
    return list;
}

json error_json(const graft::error& e) { return {{"code", graft::text(e.code())}, {"detail", e.detail()}}; }

json shape_json(const graft::shape& extents) {
    json list = json::array();
    for (std::int64_t e : extents) list.push_back(e);
    return list;
}

json shape_json(const graft::value_info& value) {
    if (!value.has_shape) return nullptr;
    json list = json::array();
    for (int i = 0; i < value.extents.rank(); ++i) {
        const std::size_t at = static_cast<std::size_t>(i);
        if (value.extents[i] >= 0)
            list.push_back(value.extents[i]);
        else
            list.push_back(at < value.dimensions.size() && !value.dimensions[at].empty() ? value.dimensions[at] : std::string("?"));
    }
    return list;
}

namespace {

graft::result<std::shared_ptr<graft::device>> open_by_name(const common_options& common, std::string wanted) {
    const char* gpu = std::getenv("GRAFT_REQUIRE_GPU");
    const bool required = gpu && *gpu && std::strcmp(gpu, "0") != 0;
    if (required && wanted == "cpu")
        return graft::fail(graft::errc::device_unavailable, "GRAFT_REQUIRE_GPU", "a GPU is asked for, and --device or GRAFT_DEVICE asks for the CPU");
    if (required && wanted == "auto") wanted = "cuda";
    graft::device_options how;
    how.precision = common.precision;
    how.deterministic = common.deterministic;
    if (!common.memory_limit.empty()) GRAFT_TRY_ASSIGN(how.memory_bytes, size_of_text(common.memory_limit, "--memory-limit"));
    return graft::runtime<graft::backends::cuda, graft::backends::cpu>::open(wanted, how, common.quiet ? nullptr : graft::warn_on_stderr);
}

}  // namespace

graft::result<std::vector<std::shared_ptr<graft::device>>> open_devices(const common_options& common) {
    std::vector<std::string> names;
    GRAFT_TRY_ASSIGN(names, wanted_devices(common));
    std::vector<std::shared_ptr<graft::device>> opened(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) GRAFT_TRY_ASSIGN(opened[i], open_by_name(common, names[i]));
    return opened;
}
graft::result<std::shared_ptr<graft::device>> open_device(const common_options& common) {
    std::string wanted;
    GRAFT_TRY_ASSIGN(wanted, wanted_device(common));
    return open_by_name(common, wanted);
}

std::string device_name(const std::shared_ptr<graft::device>& device) { return device ? device->name() : "cpu"; }

bool on_gpu(const std::shared_ptr<graft::device>& device) { return device && !device->in_host_memory(); }

std::string device_title(const std::shared_ptr<graft::device>& device) {
    if (!on_gpu(device)) {
        auto level = graft::cpu::active_isa();
        return std::string("cpu, ") + (level.ok() ? graft::cpu::name(*level) : "unknown");
    }
    auto devices = graft::gpu::list_devices();
    if (devices.ok())
        for (const auto& d : devices.value())
            if ("cuda:" + std::to_string(d.ordinal) == device->name()) return gpu_title(d);
    return device->name();
}

std::string device_and_precision(const common_options& common, const std::shared_ptr<graft::device>& device) {
    return device_title(device) + (device && common.precision != "auto" ? ", " + common.precision : "");
}

graft::load_options load_options_of(const common_options& common, std::shared_ptr<graft::device> on) {
    graft::load_options options = graft::on_device(std::move(on));
    options.strict_placement = common.strict_placement;
    options.exact = common.exact;
    options.seed = common.seed;
    options.threads = common.threads;
    options.packed = common.packed;
    return options;
}
graft::result<graft::load_options> load_options_of(const common_options& common) {
    std::shared_ptr<graft::device> on;
    GRAFT_TRY_ASSIGN(on, open_device(common));
    return load_options_of(common, std::move(on));
}

graft::result<graft::classifier_options> classifier_options_of(const common_options& common, std::shared_ptr<graft::device> on, const std::string& labels,
                                                               const std::string& preprocess, const std::string& output) {
    graft::classifier_options with;
    with.load = load_options_of(common, std::move(on));
    with.session.threads = common.threads;
    with.labels = labels;
    with.preprocess = preprocess;
    with.output = output;
    // A wrong specification is wrong usage, whatever the model is.
    if (!preprocess.empty()) {
        auto spec = graft::parse_preprocess(preprocess);
        if (!spec.ok()) return spec.take_status();
    }
    return with;
}

graft::result<graft::classifier> load_classifier(const common_options& common, const std::string& model, const std::string& labels,
                                                 const std::string& preprocess, const std::string& output) {
    std::shared_ptr<graft::device> on;
    GRAFT_TRY_ASSIGN(on, open_device(common));
    graft::classifier_options with;
    GRAFT_TRY_ASSIGN(with, classifier_options_of(common, std::move(on), labels, preprocess, output));
    auto loaded = graft::classifier::load(model, with);
    if (loaded.ok()) warn_where_assumed(common, loaded.value().preprocessing());
    return loaded;
}

void warn_where_assumed(const common_options& common, const graft::preprocess_choice& choice) {
    if (choice.source == graft::preprocess_source::assumed)
        warn(common, "the model does not say how pictures are to be prepared; " + choice.text + " is assumed; --preprocess SPEC says otherwise");
}

std::vector<graft::value_info> assumed_inputs(const graft::model& model, std::int64_t batch) {
    std::vector<graft::value_info> inputs;
    for (graft::value_info input : model.inputs()) {
        if (input.has_default) continue;
        graft::shape& extents = input.extents;
        const int rank = extents.rank();
        // The channels tell which of the other dimensions are pixels.
        const bool last = rank == 4 && (extents[3] == 1 || extents[3] == 3) && extents[1] != 1 && extents[1] != 3;
        for (int i = 0; i < rank; ++i)
            if (extents[i] < 0) {
                const bool pixels = rank == 4 && (last ? i == 1 || i == 2 : i >= 2), channels = rank == 4 && i == (last ? 3 : 1);
                extents[i] = i == 0 ? batch : pixels ? 224 : channels ? 3 : 1;
            }
        inputs.push_back(std::move(input));
    }
    return inputs;
}

graft::dataset_progress dataset_bar::told() {
    graft::dataset_progress told;
    told.context = this;
    told.report = [](void* context, std::int64_t done, std::int64_t total) {
        dataset_bar& b = *static_cast<dataset_bar*>(context);
        if (!b.bar_) b.bar_ = std::make_unique<progress>(b.what_, total, b.quiet_);
        b.bar_->step(done);
    };
    return told;
}

std::vector<std::string> named(const std::vector<std::string>& classes, const std::vector<std::int64_t>& indices) {
    std::vector<std::string> names;
    for (const std::int64_t i : indices) names.push_back(classes[static_cast<std::size_t>(i)]);
    return names;
}

double now_ms() { return seconds_now() * 1e3; }

double peak_rss_mb() {
    // VmHWM begins anew with the program; ru_maxrss may still hold the peak of what started it.
    if (std::FILE* file = std::fopen("/proc/self/status", "r")) {
        char line[256];
        long kilobytes = 0;
        while (std::fgets(line, sizeof line, file))
            if (std::sscanf(line, "VmHWM: %ld", &kilobytes) == 1) break;
        std::fclose(file);
        if (kilobytes > 0) return static_cast<double>(kilobytes) / 1024;
    }
#if !defined(_WIN32)
    rusage use{};
    getrusage(RUSAGE_SELF, &use);
#if defined(__APPLE__)
    return static_cast<double>(use.ru_maxrss) / (1 << 20);
#else
    return static_cast<double>(use.ru_maxrss) / 1024;
#endif
#else
    return 0;
#endif
}

}  // namespace program
