// Where a run of training takes its batches from: the loader, or features that were computed once.
#pragma once

#include "../data/loader.hpp"
#include "feature_cache.hpp"

#include <algorithm>
#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace detail {

// Batches for training: pictures from the loader, or rows of cached features in the same order.
class batch_source {
public:
    inline virtual ~batch_source() {}
    inline virtual std::int64_t batches() const = 0;
    inline virtual status start(std::int64_t epoch, std::int64_t first) = 0;
    inline virtual status next(batch& b) = 0;
    // All samples of the batch that was given last, where only those of one member were made.
    inline virtual status whole(batch&) { return {}; }
    inline virtual double waited() const = 0;
};

class loader_source final : public batch_source {
public:
    explicit loader_source(loader from) : from_(std::move(from)) {}
    inline std::int64_t batches() const override { return from_.batches(); }
    inline status start(std::int64_t epoch, std::int64_t first) override { return from_.start(epoch, first); }
    inline status next(batch& b) override { return from_.next(b); }
    inline status whole(batch& b) override { return from_.whole(b); }
    inline double waited() const override { return from_.waited_seconds(); }

private:
    loader from_;
};

class feature_source final : public batch_source {
public:
    feature_source(cached_features from, std::int64_t size, std::uint64_t seed) : from_(std::move(from)), size_(size), seed_(seed) {}
    inline std::int64_t batches() const override { return (rows() + size_ - 1) / size_; }
    inline status start(std::int64_t epoch, std::int64_t first) override {
        order_ = epoch_order(seed_, epoch, rows());
        next_ = first * size_;
        return {};
    }
    inline status next(batch& b) override {
        b.labels.clear();
        b.indices.clear();
        b.bad.clear();
        const std::int64_t n = std::min(size_, rows() - next_), row = from_.rows.elements() / from_.rows.shape()[0];
        shape extents = from_.rows.shape();
        extents[0] = n;
        if (!b.inputs || b.inputs.shape() != extents) GRAFT_TRY_ASSIGN(b.inputs, tensor::make(dtype::float32, extents));
        for (std::int64_t i = 0; i < n; ++i, ++next_) {
            const std::int64_t from = order_[static_cast<std::size_t>(next_)];
            std::memcpy(b.inputs.data<float>() + i * row, from_.rows.data<float>() + from * row, static_cast<std::size_t>(row) * 4);
            b.labels.push_back(from_.labels[from]);
            b.indices.push_back(from_.indices[from]);
        }
        return {};
    }
    inline double waited() const override { return 0; }

private:
    std::int64_t rows() const { return static_cast<std::int64_t>(from_.labels.size()); }
    cached_features from_;
    std::int64_t size_, next_ = 0;
    std::uint64_t seed_;
    std::vector<std::int64_t> order_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
