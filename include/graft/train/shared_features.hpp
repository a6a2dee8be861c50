// What a network makes of a dataset, computed by several members: each its pictures, and all rows for everybody.
#pragma once

#include "feature_cache.hpp"
#include "members.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// What could not be read by all members, in their order, added to `all`.
inline status gather_bad(run_members& members, const std::vector<bad_sample>& own, std::vector<bad_sample>& all) {
    std::int64_t most = static_cast<std::int64_t>(own.size());
    GRAFT_TRY(members.largest(most));
    for (int m = 0; most > 0 && m < members.size(); ++m) {
        named_texts told;
        if (m == members.rank())
            for (const bad_sample& b : own) {
                told.emplace_back(b.name, b.detail);
                told.emplace_back(std::to_string(b.index), std::to_string(static_cast<int>(b.code)));
            }
        GRAFT_TRY(members.share(told, m));
        for (std::size_t i = 0; i + 1 < told.size(); i += 2)
            all.push_back({std::strtoll(told[i + 1].first.c_str(), nullptr, 10), told[i].first, static_cast<errc>(std::atoi(told[i + 1].second.c_str())),
                           told[i].second});
    }
    return {};
}
// What may be bad is judged of the whole.
inline status judge_bad(const std::vector<bad_sample>& bad, double share, std::int64_t samples) {
    const std::int64_t count = static_cast<std::int64_t>(bad.size());
    if (count == 0 || count <= allowed_bad(share, samples)) return {};
    return fail(errc::data_too_many_bad, bad[0].name,
                std::to_string(count) + " of " + std::to_string(samples) + " pictures cannot be read, " + std::to_string(allowed_bad(share, samples)) +
                    " may. This one: " + text(bad[0].code) + ": " + bad[0].detail + "; `graft check` lists them all");
}

// Rows of pictures of all members, in the order of the dataset; those of this one have been computed.
class row_gatherer {
public:
    explicit row_gatherer(run_members& members) : members_(members) {}

    status run(cached_features& own) {
        const std::int64_t count = static_cast<std::int64_t>(own.labels.size());
        std::int64_t most = count, width = count ? own.rows.elements() / own.rows.shape()[0] : 0;
        GRAFT_TRY(members_.largest(most));
        GRAFT_TRY(members_.largest(width));
        cached_features all;
        GRAFT_TRY(gather_bad(members_, own.bad, all.bad));
        if (most == 0) return own = std::move(all), status();
        if (count && width != own.rows.elements() / own.rows.shape()[0]) return fail(errc::dist_mismatch, "features", "members have rows of different lengths");
        std::vector<std::int64_t> counts;
        GRAFT_TRY(members_.gather(&count, 1, 1, counts));
        shape extents = count ? own.rows.shape() : shape{0, width};
        extents[0] = 0;
        for (std::int64_t n : counts) extents[0] += n;
        // The extents of a row are those of the first member that has one.
        std::vector<std::int64_t> row(1 + shape::max_rank, 0), rows;
        if (count) {
            row[0] = extents.rank();
            for (int i = 1; i < extents.rank(); ++i) row[static_cast<std::size_t>(i)] = extents[i];
        }
        GRAFT_TRY(members_.gather(row.data(), static_cast<std::int64_t>(row.size()), static_cast<std::int64_t>(row.size()), rows));
        for (std::size_t m = 0; m < counts.size(); ++m)
            if (counts[m]) {
                shape found{extents[0]};
                for (int i = 1; i < rows[m * row.size()]; ++i) found.push_back(rows[m * row.size() + static_cast<std::size_t>(i)]);
                extents = found;
                break;
            }
        std::vector<float> values;
        GRAFT_TRY(members_.gather(count ? own.rows.data<float>() : nullptr, count * width, most * width, values));
        std::vector<std::int32_t> labels;
        GRAFT_TRY(members_.gather(own.labels.data(), count, most, labels));
        std::vector<std::int64_t> indices;
        GRAFT_TRY(members_.gather(own.indices.data(), count, most, indices));
        GRAFT_TRY_ASSIGN(all.rows, tensor::make(dtype::float32, extents));
        float* to = all.rows.data<float>();
        for (std::size_t m = 0; m < counts.size(); ++m) {
            const std::size_t from = m * static_cast<std::size_t>(most), n = static_cast<std::size_t>(counts[m]), each = static_cast<std::size_t>(width);
            if (n > 0 && each > 0) std::memcpy(to, values.data() + from * each, n * each * sizeof(float));
            to += n * each;
            all.labels.insert(all.labels.end(), labels.begin() + static_cast<std::ptrdiff_t>(from), labels.begin() + static_cast<std::ptrdiff_t>(from + n));
            all.indices.insert(all.indices.end(), indices.begin() + static_cast<std::ptrdiff_t>(from), indices.begin() + static_cast<std::ptrdiff_t>(from + n));
        }
        own = std::move(all);
        return {};
    }

private:
    run_members& members_;
};

// cache_features among members: each runs whole batches of its own, a run of them, and gets the rows of all. What may be bad is judged of the whole.
inline result<cached_features> share_features(run_members& members, const graph& network, const dataset& data, loader_options how, int threads,
                                              void (*progress)(void*, std::int64_t, std::int64_t), void* context, const load_options& loading) {
    if (!members.several()) return cache_features(network, data, how, threads, progress, context, loading);
    const double bad_share = how.bad_share;
    how.bad_share = 1;
    const std::int64_t batches = (data.size() + how.batch_size - 1) / how.batch_size;
    const std::int64_t first = std::min(data.size(), communicator::first_of(batches, members.rank(), members.size()) * how.batch_size);
    const std::int64_t last = std::min(data.size(), communicator::first_of(batches, members.rank() + 1, members.size()) * how.batch_size);
    std::vector<std::int64_t> own;
    for (std::int64_t i = first; i < last; ++i) own.push_back(i);
    cached_features made;
    if (!own.empty()) GRAFT_TRY_ASSIGN(made, cache_features(network, data.subset(own), how, threads, progress, context, loading));
    for (std::int64_t& i : made.indices) i += first;
    for (bad_sample& b : made.bad) b.index += first;
    GRAFT_TRY(row_gatherer(members).run(made));
    GRAFT_TRY(judge_bad(made.bad, bad_share, data.size()));
    return made;
}

}  // namespace detail
GRAFT_END_NAMESPACE
