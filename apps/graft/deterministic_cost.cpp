// What --deterministic costs.
#include "deterministic_cost.hpp"

#include <algorithm>

namespace program {

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t n = values.size();
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

graft::result<any_algorithm> any_algorithm::prepare(const common_options& common, bool on_gpu,
                                                    const std::function<graft::result<work>(const common_options&)>& make) {
    any_algorithm made;
    if (!on_gpu || !common.deterministic) return made;
    common_options any = common;
    any.deterministic = false;
    any.quiet = true;
    const auto warmed = [&]() -> graft::status {
        GRAFT_TRY_ASSIGN(made.work_, make(any));
        // The run that loads, and the one that is recorded.
        for (int i = 0; i < 2; ++i) GRAFT_TRY(made.work_());
        return {};
    };
    graft::status ready = warmed();
    if (ready.ok()) return made;
    const graft::errc code = ready.error().code();
    if (code == graft::errc::memory_oom || code == graft::errc::memory_budget) return any_algorithm();
    return ready;
}

graft::status any_algorithm::run() {
    if (!work_) return {};
    const double start = now_ms();
    GRAFT_TRY(work_());
    ms_.push_back(now_ms() - start);
    return {};
}

double any_algorithm::cost(const std::vector<double>& deterministic_ms) const {
    return ms_.empty() || deterministic_ms.empty() ? 0 : median(deterministic_ms) / median(ms_);
}

}  // namespace program
