// What doctor and monitor tell of NVIDIA GPUs and the libraries that graft needs for them.
#include "gpus.hpp"

#include <nlohmann/json.hpp>

namespace program {

std::string gpu_title(const graft::gpu::device_info& device) {
    std::string title = "cuda:" + std::to_string(device.ordinal) + " " + printable(device.name);
    if (device.physical >= 0 && device.physical != device.ordinal) title += " (GPU " + std::to_string(device.physical) + " of nvidia-smi)";
    return title;
}

json gpu_json(const graft::gpu::device_info& d) {
    const auto known = [](std::int64_t number) { return number < 0 ? json() : json(number); };
    return {{"device", "cuda:" + std::to_string(d.ordinal)},
            {"ordinal", d.ordinal},
            {"physical", known(d.physical)},
            {"name", printable(d.name)},
            {"uuid", printable(d.uuid)},
            {"pci_bus_id", printable(d.pci_bus_id)},
            {"compute_capability", std::to_string(d.major) + "." + std::to_string(d.minor)},
            {"multiprocessors", d.multiprocessors},
            {"memory_bytes", d.memory_bytes},
            {"free_bytes", known(d.free_bytes)},
            {"driver", d.driver}};
}

json gpu_library_json(const graft::gpu::library_report& r) {
    json tried = json::array();
    for (const std::string& place : r.tried) tried.push_back(printable(place));
    return {{"name", r.name},
            {"version", printable(r.version)},
            {"used", r.ok},
            {"for", r.needed_for},
            {"path", printable(r.path)},
            {"verdict", printable(r.verdict)},
            {"required", r.required},
            {"tried", tried}};
}

std::string gpu_verdict(const graft::status& available) {
    if (available.ok()) return "all that work on NVIDIA GPUs needs is here";
    std::string missing;
    for (const auto* r : graft::gpu::library_reports())
        if (r->required && !r->ok) missing += (missing.empty() ? "" : ", ") + std::string(r->name);
    return "NVIDIA GPUs cannot be used: " + (missing.empty() ? printable(available.error().detail()) : "see what is said of " + missing);
}

void print_gpu_libraries(const terminal& screen) {
    text_table table({"for NVIDIA", "version", "verdict", "found"});
    const auto reports = graft::gpu::library_reports();
    for (const auto* r : reports)
        table.add({r->name, printable(r->version),
                   r->ok             ? printable(r->verdict)
                   : r->path.empty() ? "missing"
                                     : "refused",
                   r->path.empty() ? "" : printable(r->path)});
    table.print(screen);
    for (const auto* r : reports)
        if (!r->ok) std::printf("%s %s (%s): %s\n", styled(screen, style::yellow, "--").c_str(), r->name, r->needed_for, printable(r->verdict).c_str());
}

}  // namespace program
