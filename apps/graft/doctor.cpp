// graft doctor: what this machine and this build can do.
#include "gpus.hpp"
#include "verb.hpp"

#include <graft/cpu/isa.hpp>

#include <CLI/Version.hpp>
#include <nlohmann/json.hpp>

#if GRAFT_HAS_LIBJPEG
#include <cstdio>
#include <jpeglib.h>
#endif
#if GRAFT_HAS_LIBWEBP
#include <webp/decode.h>
#endif
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace program {
namespace {

std::string processor_name() {
    std::string name;
    if (std::FILE* file = std::fopen("/proc/cpuinfo", "r")) {
        char line[512];
        while (name.empty() && std::fgets(line, sizeof line, file))
            if (std::strncmp(line, "model name", 10) == 0)
                if (const char* colon = std::strchr(line, ':')) name = colon + 1;
        std::fclose(file);
    }
    const std::size_t first = name.find_first_not_of(" \t"), last = name.find_last_not_of(" \t\n");
    return first == std::string::npos ? "" : name.substr(first, last - first + 1);
}

std::string compiler() {
#if defined(__clang__)
    return "clang " __clang_version__;
#elif defined(__GNUC__)
    return "g++ " __VERSION__;
#else
    return "another compiler";
#endif
}

json library(const char* name, const std::string& version, bool used, const char* what) {
    return {{"name", name}, {"version", version}, {"used", used}, {"for", what}};
}

json webp_library() {
#if GRAFT_HAS_LIBWEBP
    const int version = WebPGetDecoderVersion();
    return library("libwebp", std::to_string(version >> 16) + "." + std::to_string(version >> 8 & 255) + "." + std::to_string(version & 255), true, "WebP");
#else
    return library("libwebp", "", false, "WebP; install libwebp-dev and build again");
#endif
}

json libraries() {
    json list = json::array();
#if GRAFT_HAS_LIBJPEG && defined(LIBJPEG_TURBO_VERSION)
#define GRAFT_TEXT_OF(x) #x
#define GRAFT_TEXT(x) GRAFT_TEXT_OF(x)
    list.push_back(library("libjpeg-turbo", GRAFT_TEXT(LIBJPEG_TURBO_VERSION), true, "JPEG"));
#elif GRAFT_HAS_LIBJPEG
    list.push_back(library("libjpeg", std::to_string(JPEG_LIB_VERSION), true, "JPEG"));
#elif __has_include(<stb_image.h>) || __has_include(<stb/stb_image.h>)
    list.push_back(library("stb_image", "", true, "JPEG"));
#else
    list.push_back(library("stb_image", "", false, "JPEG: neither libjpeg nor stb_image was there when this program was built"));
#endif
    list.push_back(webp_library());
    list.push_back(library("CLI11", CLI11_VERSION, true, "the command line"));
    list.push_back(library("nlohmann/json",
                           std::to_string(NLOHMANN_JSON_VERSION_MAJOR) + "." + std::to_string(NLOHMANN_JSON_VERSION_MINOR) + "." +
                               std::to_string(NLOHMANN_JSON_VERSION_PATCH),
                           true, "JSON output"));
    for (const auto* report : graft::gpu::library_reports()) list.push_back(gpu_library_json(*report));
    return list;
}

// All has been told; a device that was asked for and cannot be had is a failure all the same.
graft::result<int> ending(graft::result<std::shared_ptr<graft::device>>& opened) {
    if (!opened.ok()) return opened.take_status();
    return exit_done;
}

graft::result<int> doctor(const common_options& common) {
    graft::cpu::isa active{};
    GRAFT_TRY_ASSIGN(active, graft::cpu::active_isa());
    std::string wanted;
    GRAFT_TRY_ASSIGN(wanted, wanted_device(common));
    common_options quietly = common;
    quietly.quiet = true;  // why it is the CPU is said below
    auto opened = open_device(quietly);
    if (!opened.ok() && opened.error().code() == graft::errc::usage) return opened.take_status();

    const unsigned cores = std::thread::hardware_concurrency();
    json isas = json::array();
#define GRAFT_X(id, width, here) \
    if (graft::cpu::available(graft::cpu::isa::id)) isas.push_back(#id);
    GRAFT_ISA_LIST(GRAFT_X)
#undef GRAFT_X
    const json all = libraries();
    json gpus = json::array();
    auto devices = graft::gpu::list_devices();
    if (devices.ok())
        for (const auto& d : devices.value()) gpus.push_back(gpu_json(d));
    const graft::status usable = graft::gpu::available();
    const bool jpeg = all[0]["used"].get<bool>(), webp = all[1]["used"].get<bool>();
    const int threads = thread_count(common);
    json verdicts = json::array();
    verdicts.push_back({{"ok", true},
                        {"what", std::string("models run on the CPU with ") + graft::cpu::name(active) + " kernels, " + std::to_string(threads) +
                                     (threads == 1 ? " thread" : " threads")}});
    verdicts.push_back({{"ok", jpeg},
                        {"what", std::string(jpeg ? "JPEG, " : "") + (webp ? "PNG, BMP, PNM and WebP" : "PNG, BMP and PNM") + " pictures can be read" +
                                     (jpeg ? "" : "; for JPEG install libjpeg-dev or libstb-dev and build again")}});
    verdicts.push_back({{"ok", usable.ok()}, {"what", gpu_verdict(usable)}});
    if (active == graft::cpu::isa::baseline)
        verdicts.push_back({{"ok", false}, {"what", "only the baseline instruction set is in use: expect a fraction of the usual speed"}});

    if (common.json) {
        print(json{{"version", graft::version()},
                   {"compiler", compiler()},
                   {"build", GRAFT_BUILD_TYPE},
                   {"cpu",
                    {{"name", processor_name()},
                     {"isa", graft::cpu::name(active)},
                     {"isas", isas},
                     {"bfloat16", graft::cpu::has_tiles() || graft::cpu::has_bfloat16_pairs()},
                     {"cores", cores},
                     {"threads", threads}}},
                   {"gpus", gpus},
                   {"device", opened.ok() ? json(device_name(*opened)) : json()},
                   {"libraries", all},
                   {"verdicts", verdicts}});
        return ending(opened);
    }
    const terminal screen = look_at(stdout, common.color);
    const auto row = [&](const char* key, const std::string& value) {
        std::printf("%s  %s\n", styled(screen, style::dim, padded(key, 9)).c_str(), value.c_str());
    };
    row("graft", std::string(graft::version()) + ", " + GRAFT_BUILD_TYPE + " build by " + compiler());
    row("processor",
        printable(processor_name()) + ", " + std::to_string(cores) + " cores, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads") + " used");
    std::string sets;
    for (const auto& name : isas) {
        const std::string set = name.get<std::string>();
        sets += (sets.empty() ? "" : " ") + (set == graft::cpu::name(active) ? styled(screen, style::bold, "[" + set + "]") : set);
    }
    row("kernels", sets +
                       (graft::cpu::has_tiles()            ? ", tiles of bfloat16 for --precision bfloat16 (AMX)"
                        : graft::cpu::has_bfloat16_pairs() ? ", pairs of bfloat16 for --precision bfloat16 (AVX-512 BF16)"
                                                           : "") +
                       (std::getenv("GRAFT_ISA") ? "  (GRAFT_ISA)" : ""));
    if (gpus.empty()) row("GPUs", "none");
    if (devices.ok())
        for (const auto& d : devices.value())
            row("GPU", gpu_title(d) + ", compute capability " + std::to_string(d.major) + "." + std::to_string(d.minor) + ", " + bytes_text(d.memory_bytes) +
                           (d.free_bytes < 0 ? "" : ", " + bytes_text(d.free_bytes) + " free") + ", " + printable(d.pci_bus_id));
    for (const auto& l : all)
        if (!l.contains("verdict"))
            row("library", l["name"].get<std::string>() + (l["version"].get<std::string>().empty() ? "" : " ") + l["version"].get<std::string>() +
                               (l["used"].get<bool>() ? ": " : " missing: ") + l["for"].get<std::string>());
    print_gpu_libraries(screen);
    row("device", wanted + (opened.ok() ? ": models run on " + device_title(*opened) : " cannot be had"));
    for (const auto& v : verdicts)
        std::printf("%s %s\n", v["ok"].get<bool>() ? styled(screen, style::green, "ok").c_str() : styled(screen, style::yellow, "--").c_str(),
                    v["what"].get<std::string>().c_str());
    return ending(opened);
}

action declare(option_list&) {
    return [](const common_options& common) { return doctor(common); };
}

}  // namespace

verb doctor_verb() { return {"What this machine and this build can do", declare}; }

}  // namespace program
