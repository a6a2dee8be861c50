// Features of a frozen trunk: computed once for each picture, so that epochs train the head alone.
#pragma once

#include "../data/batches_ahead.hpp"
#include "../exec/session.hpp"
#include "batch_parts.hpp"
#include "head.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// What a trunk makes of a dataset: a row for each picture that could be read.
struct cached_features {
    tensor rows;                        ///< float32 [pictures, ...]
    std::vector<std::int64_t> indices;  ///< of each row in the dataset
    std::vector<std::int32_t> labels;
    std::vector<bad_sample> bad;
};

/// A network cut in two at its features: `trunk` makes them, `head` has them as its input. Values keep their ids in both.
struct cut_network {
    graph trunk, head;
};
cut_network cut_at(const graph& g, value_id features);

/// Runs the trunk over a dataset. Errors: memory.budget (the features are over the limit of memory), those of the loader and of a run.
result<cached_features> cache_features(const graph& trunk, const dataset& data, const loader_options& how, int threads,
                                       void (*progress)(void*, std::int64_t, std::int64_t), void* context, const load_options& loading = on_device(nullptr));

/// Whether what lies before `features` gives the same for the same picture in training as afterwards.
bool is_fixed_before(const graph& g, value_id features);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include <cstring>

GRAFT_BEGIN_NAMESPACE

GRAFT_INLINE cut_network cut_at(const graph& g, value_id features) {
    cut_network cut{g, g};
    cut.trunk.outputs = {features};
    drop_unread(cut.trunk);
    graph& head = cut.head;
    std::vector<node> kept;
    for (node& n : head.nodes) {
        bool makes = false;
        for (value_id id : n.outputs) makes |= id == features;
        if (!makes) kept.push_back(std::move(n));
    }
    head.nodes = std::move(kept);
    head.inputs = {features};
    head.at(features).type = dtype::float32;
    drop_unread(head);
    return cut;
}

GRAFT_INLINE bool is_fixed_before(const graph& g, value_id features) {
    for (const node& n : cut_at(g, features).trunk.nodes) {
        const op_row& row = ops::row_of(n);
        if (row.is(op_flag::random) || row.traits.role == op_role::drop) return false;
    }
    return true;
}

GRAFT_INLINE result<cached_features> cache_features(const graph& trunk, const dataset& data, const loader_options& how, int threads,
                                                    void (*progress)(void*, std::int64_t, std::int64_t), void* context,
                                                    const load_options& loading) GRAFT_MEMORY_TRY {
    model network;
    GRAFT_TRY_ASSIGN(network, load(trunk, loading));
    session run(network, {threads, nullptr});
    loader_options batches_of = how;
    // A network that is fixed to one batch is fed by it.
    const value_info& picture = network.inputs()[0];
    const std::int64_t fixed = picture.extents.rank() > 0 ? picture.extents[0] : 0;
    if (fixed > 0) batches_of.batch_size = fixed;
    loader source;
    GRAFT_TRY_ASSIGN(source, loader::make(data, batches_of));
    GRAFT_TRY(source.start(0));
    cached_features made;
    std::int64_t filled = 0;
    batches_ahead<loader> batches(source, source.batches(), std::strcmp(network.device(), "cpu") != 0);
    for (std::int64_t i = 0; i < source.batches(); ++i) {
        GRAFT_TRY(batches.advance());
        batch& b = batches.current();
        for (const bad_sample& s : b.bad) made.bad.push_back(s);
        const std::int64_t n = static_cast<std::int64_t>(b.labels.size());
        if (n == 0) continue;
        if (fixed > n) GRAFT_TRY(detail::filled_up(view(b.inputs), fixed, true, b.inputs));
        tensor features;
        GRAFT_TRY_ASSIGN(features, run.run(b.inputs, batches.next()));
        if (features.type() != dtype::float32 || features.shape().rank() < 1 || features.shape()[0] != b.inputs.shape()[0])
            return fail(errc::train_head, network.outputs()[0].name,
                        "the trunk gives " + text(features.shape()) + " for a batch of " + std::to_string(b.inputs.shape()[0]) +
                            "; a row for each picture is needed");
        const std::int64_t row = features.elements() / features.shape()[0];
        if (!made.rows) {
            shape all = features.shape();
            all[0] = data.size();
            const std::int64_t bytes = bytes_of(dtype::float32, all);
            if (bytes < 0 || bytes > limits().memory_bytes)
                return fail(errc::memory_budget, network.outputs()[0].name, "the features of all pictures would take " + std::to_string(bytes) + " bytes");
            GRAFT_TRY_ASSIGN(made.rows, tensor::make(dtype::float32, all));
        }
        if (made.rows.elements() / made.rows.shape()[0] != row)
            return fail(errc::train_head, network.outputs()[0].name, "the trunk gives features of different sizes");
        std::memcpy(made.rows.data<float>() + filled * row, features.raw(), static_cast<std::size_t>(n * row) * sizeof(float));
        filled += n;
        made.indices.insert(made.indices.end(), b.indices.begin(), b.indices.end());
        made.labels.insert(made.labels.end(), b.labels.begin(), b.labels.end());
        if (progress) progress(context, filled, data.size());
    }
    if (!made.rows)
        return fail(errc::data_too_many_bad, made.bad.empty() ? "the dataset" : made.bad[0].name, "no picture can be read, of which features would be kept");
    return made;
}
GRAFT_MEMORY_CATCH("cache_features")

GRAFT_END_NAMESPACE
#endif
