// graft monitor: how the GPUs are doing: a table that is drawn anew on a terminal, a line a sample elsewhere.
#include "gpus.hpp"
#include "verb.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>

namespace program {
namespace {

struct monitor_options {
    double interval = 1;  ///< seconds between samples
    int count = 0;        ///< samples; 0: one with --json, else until the program is stopped
};

using graft::gpu::device_info;
using graft::gpu::device_sample;

std::string time_text(std::time_t now) {
    char text[32] = "";
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing else of the program asks for the time of day
    if (const std::tm* parts = std::localtime(&now)) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", parts);
    return text;
}
// "-" for what a device does not tell
std::string or_dash(bool known, const std::string& text) { return known ? text : "-"; }
std::string memory_text(const device_sample& s) {
    return or_dash(s.memory_used >= 0, bytes_text(s.memory_used)) + " of " + or_dash(s.memory_bytes >= 0, bytes_text(s.memory_bytes));
}
std::string use_text(const device_sample& s) {
    if (s.lost) return "lost";
    return or_dash(s.utilization >= 0, std::to_string(s.utilization) + " %");
}
std::string access_text(const device_sample& s) { return or_dash(s.memory_access >= 0, std::to_string(s.memory_access) + " %"); }
std::string power_text(const device_sample& s) { return or_dash(s.watts >= 0, formatted("%.0f W", s.watts)); }
std::string throttle_text(const device_sample& s) { return name(s.throttled); }
std::string heat_text(const device_sample& s) { return or_dash(s.celsius >= 0, std::to_string(s.celsius) + " C"); }

json sample_json(const device_info& device, const device_sample& s) {
    json out = gpu_json(device);
    out["utilization"] = s.utilization < 0 ? json() : json(s.utilization);
    out["memory_access"] = s.memory_access < 0 ? json() : json(s.memory_access);
    out["memory_used"] = s.memory_used < 0 ? json() : json(s.memory_used);
    out["free_bytes"] = s.memory_used < 0 || s.memory_bytes < 0 ? json() : json(s.memory_bytes - s.memory_used);
    out["power_w"] = s.watts < 0 ? json() : json(s.watts);
    out["lost"] = s.lost;
    out["temperature_c"] = s.celsius < 0 ? json() : json(s.celsius);
    out["throttled"] = s.throttled == graft::gpu::throttle::none ? json() : json(throttle_text(s));
    return out;
}

// The lines that the table takes.
int print_table(const terminal& screen, const std::vector<device_info>& devices, const std::vector<device_sample>& samples) {
    text_table table({"GPU", ">busy", "", ">accesses", ">memory", ">power", ">temperature", "slowed by"});
    for (std::size_t i = 0; i < devices.size(); ++i)
        table.add({gpu_title(devices[i]), use_text(samples[i]), bar(screen, samples[i].utilization / 100.0, 10), access_text(samples[i]),
                   memory_text(samples[i]), power_text(samples[i]), heat_text(samples[i]), throttle_text(samples[i])});
    table.print(screen);
    return static_cast<int>(devices.size()) + 1;
}
void print_line(const std::vector<device_info>& devices, const std::vector<device_sample>& samples) {
    std::string line = time_text(std::time(nullptr));
    for (std::size_t i = 0; i < devices.size(); ++i)
        line += "  cuda:" + std::to_string(devices[i].ordinal) + " " + use_text(samples[i]) + ", " + access_text(samples[i]) + " memory accesses, " +
                memory_text(samples[i]) + ", " + power_text(samples[i]) + ", " + heat_text(samples[i]) +
                (throttle_text(samples[i]).empty() ? "" : ", slowed by " + throttle_text(samples[i]));
    std::printf("%s\n", line.c_str());
}

graft::result<int> monitor(const common_options& common, const monitor_options& o) {
    std::vector<device_info> devices;
    GRAFT_TRY_ASSIGN(devices, graft::gpu::list_devices());
    if (devices.empty()) return graft::fail(graft::errc::device_unavailable, "cuda", "the driver has no device to watch");
    const auto& nvml = graft::gpu::load_nvml();
    if (!nvml) return graft::fail(graft::errc::device_unavailable, "cuda", nvml.report.verdict);

    const graft::gpu::device_watch watch(devices);
    const terminal screen = look_at(stdout, common.color);
    const char* kind = std::getenv("TERM");
    const bool redraw = screen.interactive && !(kind && !std::strcmp(kind, "dumb"));
    const int count = o.count ? o.count : common.json ? 1 : 0;
    int lines = 0;
    for (int done = 0; !count || done < count; ++done) {
        if (done) std::this_thread::sleep_for(std::chrono::duration<double>(o.interval));
        std::vector<device_sample> samples;
        for (std::size_t i = 0; i < devices.size(); ++i) samples.push_back(watch.sample(i));
        if (common.json) {
            json gpus = json::array();
            for (std::size_t i = 0; i < devices.size(); ++i) gpus.push_back(sample_json(devices[i], samples[i]));
            const auto since = std::chrono::system_clock::now().time_since_epoch();
            print(json{{"time", std::chrono::duration<double>(since).count()}, {"gpus", gpus}});
        } else if (redraw) {
            if (lines) std::printf("\x1b[%dF\x1b[J", lines);
            lines = print_table(screen, devices, samples);
        } else {
            print_line(devices, samples);
        }
        // a reader that is gone is noticed here, not after the last of many samples
        if (std::fflush(stdout) != 0) break;
    }
    return exit_done;
}

action declare(option_list& list) {
    auto o = std::make_shared<monitor_options>();
    list.add("--interval", o->interval, "Time between samples (default: 1)", "SECONDS").within(0.05, 86400.0);
    list.add("--count", o->count, "Samples (default: one with --json, else until stopped)", "N").within(1, 1 << 30);
    return [o](const common_options& common) { return monitor(common, *o); };
}

}  // namespace

verb monitor_verb() { return {"How the GPUs are doing: use, memory, power, temperature", declare}; }

}  // namespace program
