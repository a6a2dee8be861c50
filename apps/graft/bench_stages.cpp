// graft bench of a network in stages: how long each computes, and how much of the time it waits.
#include "bench.hpp"

#include <graft/train/stages.hpp>

#include <nlohmann/json.hpp>

#include <limits>
#include <numeric>

namespace program {

stage_figures::stage_figures(std::vector<graft::stage_use> after, const std::vector<graft::stage_use>& before, const std::vector<double>& latency,
                             std::int64_t parts)
    : stages_(std::move(after)), parts_(parts) {
    if (stages_.empty()) return;
    const double rounds = static_cast<double>(latency.size());
    run_ = std::accumulate(latency.begin(), latency.end(), 0.0) / 1e3 / rounds;
    double busy = 0;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
        double& own = stages_[s].busy_seconds;
        if (own >= 0) own = (own - before[s].busy_seconds) / rounds;
        busy = own < 0 ? std::numeric_limits<double>::quiet_NaN() : busy + own;
    }
    bubble_ = 1 - busy / (run_ * static_cast<double>(stages_.size()));
    for (const graft::stage_use& s : stages_)
        lines_.push_back(s.device + ": " + count_text(s.multiply_adds) + " MACs, " + bytes_text(s.bytes) +
                         (s.busy_seconds < 0 ? "" : ", computes " + milliseconds_text(s.busy_seconds * 1e3) + " of " + milliseconds_text(run_ * 1e3)));
    const double formula = graft::pipeline_bubble(static_cast<int>(stages_.size()), static_cast<int>(parts_));
    lines_.push_back(std::to_string(parts_) + (parts_ == 1 ? " part" : " parts") +
                     (bubble_ == bubble_ ? ", stages wait " + percent_text(bubble_) + " of the time" : "") + " (" + percent_text(formula) +
                     " where all turns take as long)");
}

void stage_figures::add_to(json& object) const {
    if (none()) return;
    json list = stages_json(stages_);
    for (std::size_t s = 0; s < stages_.size(); ++s) {
        const double busy = stages_[s].busy_seconds;
        list[s]["busy_ms"] = busy < 0 ? json(nullptr) : json(busy * 1e3);
        list[s]["waiting_share"] = busy < 0 ? json(nullptr) : json(1 - busy / run_);
    }
    object["stages"] = list;
    object["parts"] = parts_;
    object["bubble"] = bubble_ == bubble_ ? json(bubble_) : json(nullptr);
    object["bubble_formula"] = graft::pipeline_bubble(static_cast<int>(stages_.size()), static_cast<int>(parts_));
}

}  // namespace program
