// Counters, histograms and gauges in Prometheus' text format.
#include "metrics.hpp"

#include <graft/version.hpp>

#include <cstdio>

namespace program {
namespace {

std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", value);
    return text;
}
std::string number(std::uint64_t value) { return std::to_string(value); }

// A label's value: backslashes, quotes and line ends are escaped.
std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) out += c == '\\' ? "\\\\" : c == '"' ? "\\\"" : c == '\n' ? "\\n" : std::string(1, c);
    return out + "\"";
}

void head(std::string& to, const char* name, const char* kind, const char* what) {
    to += std::string("# HELP ") + name + " " + what + "\n# TYPE " + name + " " + kind + "\n";
}
template <class Value>
void line(std::string& to, const std::string& name, const std::string& labels, Value value) {
    to += name + (labels.empty() ? "" : "{" + labels + "}") + " " + number(value) + "\n";
}

// Resident bytes; 0 where the system does not tell them.
double resident_bytes() {
    double kilobytes = 0;
    if (std::FILE* file = std::fopen("/proc/self/status", "r")) {
        char text[256];
        while (std::fgets(text, sizeof text, file))
            if (std::sscanf(text, "VmRSS: %lf", &kilobytes) == 1) break;
        std::fclose(file);
    }
    return kilobytes * 1024;
}

const std::vector<double> second_bounds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};

}  // namespace

void histogram::add(double value) {
    std::size_t at = 0;
    while (at < bounds_.size() && value > bounds_[at]) ++at;
    ++counts_[at];
    sum_ += value;
}

void histogram::print(std::string& to, const std::string& name, const std::string& labels) const {
    std::uint64_t so_far = 0;
    const std::string before = labels.empty() ? "" : labels + ",";
    for (std::size_t i = 0; i < counts_.size(); ++i) {
        so_far += counts_[i];
        line(to, name + "_bucket", before + "le=\"" + (i < bounds_.size() ? number(bounds_[i]) : "+Inf") + "\"", so_far);
    }
    line(to, name + "_sum", labels, sum_);
    line(to, name + "_count", labels, so_far);
}

server_metrics::server_metrics() : batch_samples_({1, 2, 4, 8, 16, 32, 64}), batch_seconds_(second_bounds) {}

void server_metrics::count_request(const std::string& path, int status, double seconds) {
    const std::lock_guard<std::mutex> hold(lock_);
    ++requests_[{path, status}];
    seconds_.emplace(path, second_bounds).first->second.add(seconds);
}
void server_metrics::count_batch(std::int64_t samples, double seconds) {
    const std::lock_guard<std::mutex> hold(lock_);
    batch_samples_.add(static_cast<double>(samples));
    batch_seconds_.add(seconds);
}
void server_metrics::count_pictures(const std::string& model, std::int64_t pictures) {
    const std::lock_guard<std::mutex> hold(lock_);
    pictures_[model] += static_cast<std::uint64_t>(pictures);
}
void server_metrics::count_reload(const std::string& model, bool done) {
    const std::lock_guard<std::mutex> hold(lock_);
    ++reloads_[{model, done}];
}

std::string server_metrics::text(const server_gauges& now) const {
    std::string to;
    const std::lock_guard<std::mutex> hold(lock_);
    head(to, "graft_requests_total", "counter", "Requests that were answered, by path and status.");
    for (const auto& r : requests_)
        line(to, "graft_requests_total", "path=" + quoted(r.first.first) + ",status=\"" + std::to_string(r.first.second) + "\"", r.second);
    head(to, "graft_request_seconds", "histogram", "Seconds from a request that was read whole to its answer.");
    for (const auto& s : seconds_) s.second.print(to, "graft_request_seconds", "path=" + quoted(s.first));
    head(to, "graft_pictures_total", "counter", "Pictures that were named, by model.");
    for (const auto& p : pictures_) line(to, "graft_pictures_total", "model=" + quoted(p.first), p.second);
    head(to, "graft_batch_samples", "histogram", "Samples that ran together.");
    batch_samples_.print(to, "graft_batch_samples", "");
    head(to, "graft_batch_seconds", "histogram", "Seconds that a network took for a batch.");
    batch_seconds_.print(to, "graft_batch_seconds", "");
    head(to, "graft_reloads_total", "counter", "Models that were read anew, by whether they took the place of the one before.");
    for (const auto& r : reloads_)
        line(to, "graft_reloads_total", "model=" + quoted(r.first.first) + ",done=\"" + (r.first.second ? "true" : "false") + "\"", r.second);
    head(to, "graft_connections", "gauge", "Connections that are open.");
    line(to, "graft_connections", "", static_cast<std::uint64_t>(now.connections));
    head(to, "graft_requests_waiting", "gauge", "Requests that were read and wait for a thread.");
    line(to, "graft_requests_waiting", "", static_cast<std::uint64_t>(now.requests_waiting));
    head(to, "graft_requests_answering", "gauge", "Requests that threads are at work on.");
    line(to, "graft_requests_answering", "", static_cast<std::uint64_t>(now.requests_answering));
    head(to, "graft_queue_length", "gauge", "Inputs that wait for a network.");
    line(to, "graft_queue_length", "", static_cast<std::uint64_t>(now.batches_waiting));
    head(to, "graft_model_info", "gauge", "Models that are served: 1 for each, with its version and its device.");
    for (const model_gauge& m : now.models)
        line(to, "graft_model_info", "model=" + quoted(m.name) + ",version=\"" + std::to_string(m.version) + "\",device=" + quoted(m.device), std::uint64_t(1));
    head(to, "graft_build_info", "gauge", "The version of graft.");
    line(to, "graft_build_info",
         std::string("version=") +
             quoted(std::to_string(GRAFT_VERSION_MAJOR) + "." + std::to_string(GRAFT_VERSION_MINOR) + "." + std::to_string(GRAFT_VERSION_PATCH)),
         std::uint64_t(1));
    head(to, "process_resident_memory_bytes", "gauge", "Resident memory.");
    line(to, "process_resident_memory_bytes", "", resident_bytes());
    head(to, "process_start_time_seconds", "gauge", "When the process began, in seconds since 1970.");
    line(to, "process_start_time_seconds", "", now.start_time);
    return to;
}

}  // namespace program
