// Replicas of a model: their devices, their threads, and the classifiers on them.
#include "replicas.hpp"

#include <algorithm>

namespace program {

graft::result<std::vector<std::shared_ptr<graft::device>>> replica_devices(common_options common, const spread_options& options,
                                                                           const graft::communicator* group) {
    common.device = device_of_world(common, group);
    std::vector<std::shared_ptr<graft::device>> devices;
    GRAFT_TRY_ASSIGN(devices, open_devices(common));
    if (options.stages > 0) return devices;
    int replicas = 1;
    GRAFT_TRY_ASSIGN(replicas, replica_count(options, group, static_cast<int>(devices.size())));
    const std::size_t given = devices.size();
    for (std::size_t i = given; i < static_cast<std::size_t>(replicas); ++i) devices.push_back(devices[i % given]);
    return devices;
}

std::string devices_text(const std::vector<std::shared_ptr<graft::device>>& devices) {
    std::string all, kind;
    std::vector<std::string> seen;
    for (const std::shared_ptr<graft::device>& d : devices) {
        const std::string name = device_name(d), own = name.substr(0, name.find(':'));
        if (std::find(seen.begin(), seen.end(), name) != seen.end()) continue;
        all += seen.empty() ? name : "," + (own == kind ? name.substr(name.find(':') + 1) : name);
        kind = own;
        seen.push_back(name);
    }
    return all;
}

graft::result<std::string> devices_of_world(const std::vector<std::shared_ptr<graft::device>>& own, const std::shared_ptr<graft::communicator>& group) {
    std::vector<std::string> texts, seen;
    GRAFT_TRY_ASSIGN(texts, gather_texts(group, devices_text(own)));
    std::string all;
    for (const std::string& text : texts) {
        if (std::find(seen.begin(), seen.end(), text) != seen.end()) continue;
        all += (seen.empty() ? "" : ", ") + text;
        seen.push_back(text);
    }
    return all;
}

graft::result<std::vector<classifier_replica>> load_classifiers(const common_options& common, const spread_options& spread, const graft::communicator* group,
                                                                const std::vector<std::shared_ptr<graft::device>>& devices, const std::string& model,
                                                                const std::string& labels, const std::string& preprocess, const std::string& output) {
    std::vector<classifier_replica> replicas;
    const int count = spread.stages > 0 ? 1 : static_cast<int>(devices.size()), threads = thread_count(common);
    for (int r = 0; r < count; ++r) {
        const std::shared_ptr<graft::device>& on = devices[static_cast<std::size_t>(r)];
        graft::classifier_options with;
        GRAFT_TRY_ASSIGN(with, classifier_options_of(common, on, labels, preprocess, output));
        GRAFT_TRY(load_in_stages(common, spread, group, devices, 4 * spread.stages, with.load));
        std::unique_ptr<graft::executor> own;
        if (count > 1) own = std::make_unique<graft::dedicated_executor>(graft::detail::share_of_threads(threads, count, r));
        with.session.pool = own.get();
        const auto same = std::find(devices.begin(), devices.begin() + r, on);
        const bool there = same != devices.begin() + r;
        auto made = there ? graft::classifier::make(replicas[static_cast<std::size_t>(same - devices.begin())].classifier.model(), with)
                          : graft::classifier::load(model, with);
        if (!made.ok()) return made.take_status();
        if (r == 0) warn_where_assumed(common, made->preprocessing());
        replicas.push_back({std::move(own), std::move(made).value()});
    }
    return replicas;
}

}  // namespace program
