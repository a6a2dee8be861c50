// What the server counts, as Prometheus reads it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace program {

/// A histogram with fixed bounds.
class histogram {
public:
    explicit histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
    void add(double value);
    /// Its lines: NAME_bucket, NAME_sum, NAME_count. `labels`: as in `model="a"`, or nothing.
    void print(std::string& to, const std::string& name, const std::string& labels) const;

private:
    std::vector<double> bounds_;
    std::vector<std::uint64_t> counts_;  // of each bucket alone; the last is of what is above all bounds
    double sum_ = 0;
};

/// What is true at the moment, of a model that is served.
struct model_gauge {
    std::string name, device;
    int version = 0;
};
/// What is true at the moment.
struct server_gauges {
    std::size_t connections = 0, requests_waiting = 0, requests_answering = 0, batches_waiting = 0;
    double start_time = 0;  ///< seconds since 1970
    std::vector<model_gauge> models;
};

/// Counts what goes through the server. For any number of threads.
class server_metrics {
public:
    server_metrics();
    void count_request(const std::string& path, int status, double seconds);
    void count_batch(std::int64_t samples, double seconds);
    void count_pictures(const std::string& model, std::int64_t pictures);
    void count_reload(const std::string& model, bool done);
    /// Text format 0.0.4.
    std::string text(const server_gauges& now) const;

private:
    mutable std::mutex lock_;
    std::map<std::pair<std::string, int>, std::uint64_t> requests_;
    std::map<std::string, histogram> seconds_;
    std::map<std::string, std::uint64_t> pictures_;
    std::map<std::pair<std::string, bool>, std::uint64_t> reloads_;
    histogram batch_samples_, batch_seconds_;
};

}  // namespace program
