// Which of the named specifications a network was trained with, where nothing says: the one whose features tell the new classes apart best.
#pragma once

#include "../data/dataset.hpp"
#include "../data/preprocess_choice.hpp"
#include "../exec/session.hpp"
#include "trunk.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// A specification that was tried, and how well a linear classifier on the network's features did with it.
struct preprocess_trial {
    std::string text;     ///< as --preprocess takes it
    double error = 0;     ///< mean squared error over pictures left out one at a time: 0 is perfect, 1 - 1 / classes is chance
    double accuracy = 0;  ///< share of those that were named right
    double chance = 0;    ///< the error of one that knows nothing: 1 - 1 / classes
};

/// The pictures that a search looks at: up to `most`, of up to an eighth as many classes, evenly drawn. The same for the same dataset.
std::vector<std::int64_t> search_sample(const dataset& data, std::int64_t most = 96);

/// How well the features of a network tell the classes of `data` apart, its pictures prepared as `text` says: the features that the classifier reads go
/// into ridge regression on the labels, and every picture is told by what was learnt from the others (the closed form of leave-one-out, as of Golub, Heath
/// and Wahba 1979). All pictures are used: `search_sample` draws some. The time grows with the cube of their number. `picture` is the network's input.
/// Errors: usage.preprocess, those of the loader and of a run.
result<preprocess_trial> try_preprocess(const graph& network, const trunk_cut& cut, const dataset& data, const input_format& picture, const std::string& text,
                                        int threads, const load_options& loading);

/// Tries the named specifications that fit the input `picture` of a network on some of the pictures, and returns them, best first. How sure a network
/// is of its own answers is no guide: inputs that are far too large make it surest. Errors: those of the loader and of a run.
result<std::vector<preprocess_trial>> search_preprocess(const graph& network, const trunk_cut& cut, const dataset& data, const input_format& picture,
                                                        int threads, const load_options& loading);

namespace detail {
/// The squared error and the accuracy of ridge regression when each row of `features` (n x d, row-major) is left out in turn; the best of
/// four strengths.
preprocess_trial leave_one_out(std::vector<double> features, const std::vector<std::int32_t>& labels, std::size_t width, std::size_t classes);
}  // namespace detail

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "feature_cache.hpp"

#include <algorithm>
#include <cmath>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// The inverse of a symmetric positive definite matrix, in place, by Cholesky's factors.
inline void invert(std::vector<double>& a, std::size_t n) {
    for (std::size_t j = 0; j < n; ++j) {
        for (std::size_t k = 0; k < j; ++k)
            for (std::size_t i = j; i < n; ++i) a[i * n + j] -= a[i * n + k] * a[j * n + k];
        const double root = std::sqrt(std::max(a[j * n + j], 1e-300));
        for (std::size_t i = j; i < n; ++i) a[i * n + j] /= root;
    }
    // The inverse of the lower factor, then its product with itself.
    for (std::size_t j = 0; j < n; ++j) {
        a[j * n + j] = 1 / a[j * n + j];
        for (std::size_t i = j + 1; i < n; ++i) {
            double sum = 0;
            for (std::size_t k = j; k < i; ++k) sum += a[i * n + k] * a[k * n + j];
            a[i * n + j] = -sum / a[i * n + i];
        }
    }
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j <= i; ++j) {
            double sum = 0;
            for (std::size_t k = i; k < n; ++k) sum += a[k * n + i] * a[k * n + j];
            a[j * n + i] = sum;  // the upper half: the lower one is still needed
        }
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < i; ++j) a[i * n + j] = a[j * n + i];
}

inline preprocess_trial leave_one_out(std::vector<double> x, const std::vector<std::int32_t>& labels, std::size_t width, std::size_t classes) {
    const std::size_t n = labels.size();
    // Features about zero and of one size, so that a strength means the same for all networks.
    double square = 0;
    for (std::size_t k = 0; k < width; ++k) {
        double mean = 0;
        for (std::size_t i = 0; i < n; ++i) mean += x[i * width + k] / static_cast<double>(n);
        for (std::size_t i = 0; i < n; ++i) x[i * width + k] -= mean, square += x[i * width + k] * x[i * width + k];
    }
    const double scale = 1 / std::max(square / static_cast<double>(n), 1e-300);
    constexpr double bias = 9;  // of a constant feature, hardly held back
    std::vector<double> products(n * n);
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j <= i; ++j) {
            double sum = 0;
            for (std::size_t k = 0; k < width; ++k) sum += x[i * width + k] * x[j * width + k];
            products[i * n + j] = products[j * n + i] = sum * scale + bias;
        }
    preprocess_trial best;
    best.error = HUGE_VAL;
    const double share = 1 / static_cast<double>(classes);
    for (const double strength : {1e-3, 1e-2, 1e-1, 1.0}) {
        std::vector<double> inverse = products;
        for (std::size_t i = 0; i < n; ++i) inverse[i * n + i] += strength;
        invert(inverse, n);
        preprocess_trial now;
        now.chance = 1 - share;
        for (std::size_t i = 0; i < n; ++i) {
            std::size_t named = 0;
            double most = -HUGE_VAL;
            for (std::size_t c = 0; c < classes; ++c) {
                double sum = 0;
                for (std::size_t j = 0; j < n; ++j) sum += inverse[i * n + j] * ((static_cast<std::size_t>(labels[j]) == c ? 1.0 : 0.0) - share);
                const double off = sum / inverse[i * n + i], told = (static_cast<std::size_t>(labels[i]) == c ? 1.0 : 0.0) - share - off;
                now.error += off * off / static_cast<double>(n);
                if (told > most) most = told, named = c;
            }
            now.accuracy += (named == static_cast<std::size_t>(labels[i]) ? 1.0 : 0.0) / static_cast<double>(n);
        }
        if (now.error < best.error) best = now;
    }
    return best;
}

// The features of each picture as a row: maps and tokens by their mean.
inline std::vector<double> pooled_rows(const tensor& rows, const trunk_cut& cut) {
    const shape& e = rows.shape();
    const std::int64_t n = e[0], channels = e[cut.channel_axis];
    std::int64_t before = 1, behind = 1;
    for (int a = 1; a < cut.channel_axis; ++a) before *= e[a];
    for (int a = cut.channel_axis + 1; a < e.rank(); ++a) behind *= e[a];
    std::vector<double> made(static_cast<std::size_t>(n * channels));
    const float* x = rows.data<float>();
    for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t b = 0; b < before; ++b)
            for (std::int64_t c = 0; c < channels; ++c)
                for (std::int64_t k = 0; k < behind; ++k)
                    made[static_cast<std::size_t>(i * channels + c)] +=
                        static_cast<double>(x[((i * before + b) * channels + c) * behind + k]) / static_cast<double>(before * behind);
    return made;
}

}  // namespace detail

GRAFT_INLINE std::vector<std::int64_t> search_sample(const dataset& data, std::int64_t most_pictures) {
    const std::size_t most = static_cast<std::size_t>(std::max<std::int64_t>(most_pictures, 16)), most_classes = most / 8;
    std::vector<std::vector<std::int64_t>> members(data.classes().size());
    for (std::int64_t i = 0; i < data.size(); ++i) members[static_cast<std::size_t>(data.label(i))].push_back(i);
    members.erase(std::remove_if(members.begin(), members.end(), [](const auto& m) { return m.empty(); }), members.end());
    const std::size_t taken = std::min(members.size(), most_classes);
    std::vector<std::int64_t> chosen;
    for (std::size_t k = 0; k < taken; ++k) {
        const std::vector<std::int64_t>& of = members[k * members.size() / taken];
        const std::size_t wanted = std::min(of.size(), most / taken);
        for (std::size_t i = 0; i < wanted; ++i) chosen.push_back(of[i * of.size() / wanted]);
    }
    std::sort(chosen.begin(), chosen.end());
    return chosen;
}

GRAFT_INLINE result<preprocess_trial> try_preprocess(const graph& network, const trunk_cut& cut, const dataset& data, const input_format& picture,
                                                     const std::string& text, int threads, const load_options& loading) GRAFT_MEMORY_TRY {
    loader_options how;
    how.batch_size = 16;
    how.workers = threads;
    how.shuffle = false;
    how.bad_share = 1;
    how.sample.format = picture;
    GRAFT_TRY_ASSIGN(how.sample.preprocess, parse_preprocess(text));
    cached_features features;
    GRAFT_TRY_ASSIGN(features, cache_features(cut_at(network, cut.features).trunk, data, how, threads, nullptr, nullptr, loading));
    if (features.labels.size() < 2)
        return fail(errc::data_too_many_bad, "preprocess",
                    "too few of the pictures can be read to tell how they have to be prepared; --preprocess SPEC says it");
    // Classes are counted among what was drawn.
    std::vector<std::int32_t> labels = features.labels, present = features.labels;
    std::sort(present.begin(), present.end());
    present.erase(std::unique(present.begin(), present.end()), present.end());
    for (std::int32_t& l : labels) l = static_cast<std::int32_t>(std::lower_bound(present.begin(), present.end(), l) - present.begin());
    shape rows = features.rows.shape();
    rows[0] = static_cast<std::int64_t>(labels.size());
    preprocess_trial trial = detail::leave_one_out(detail::pooled_rows(tensor(dtype::float32, rows, features.rows.storage()), cut), labels,
                                                   static_cast<std::size_t>(rows[cut.channel_axis]), present.size());
    trial.text = text;
    return trial;
}
GRAFT_MEMORY_CATCH("try_preprocess")

GRAFT_INLINE result<std::vector<preprocess_trial>> search_preprocess(const graph& network, const trunk_cut& cut, const dataset& data,
                                                                     const input_format& picture, int threads, const load_options& loading) GRAFT_MEMORY_TRY {
    const shape& e = picture.extents;
    const bool nhwc = detail::is_nhwc(e), gray = e[nhwc ? 3 : 1] == 1, open = e[nhwc ? 1 : 2] < 1 || e[nhwc ? 2 : 3] < 1;
    const dataset some = data.subset(search_sample(data));
    std::vector<preprocess_trial> tried;
    for (const char* name : {"imagenet", "signed", "unit", "caffe", "raw"}) {
        const std::string of = name;
        if (gray && (of == "imagenet" || of == "caffe")) continue;  // those tell colours apart
        const std::string text = of + (gray ? ",order=gray" : "") + (open ? ",crop=224" : "");
        preprocess_trial trial;
        GRAFT_TRY_ASSIGN(trial, try_preprocess(network, cut, some, picture, text, threads, loading));
        tried.push_back(std::move(trial));
    }
    std::stable_sort(tried.begin(), tried.end(), [](const preprocess_trial& a, const preprocess_trial& b) { return a.error < b.error; });
    return tried;
}
GRAFT_MEMORY_CATCH("search_preprocess")

GRAFT_END_NAMESPACE
#endif
