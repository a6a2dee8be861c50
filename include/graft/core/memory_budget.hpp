// A budget of bytes that whoever allocates for a model or a session shares.
#pragma once

#include "../config.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

GRAFT_BEGIN_NAMESPACE

/// Bytes that may be taken, and those that are. Counts only; from any number of threads at once.
class memory_budget {
public:
    /// `beside`: another budget of the same limit or none, whose bytes count here too: for a session's those of its model.
    explicit memory_budget(std::int64_t limit, std::shared_ptr<const memory_budget> beside = nullptr) noexcept : limit_(limit), beside_(std::move(beside)) {}
    memory_budget(const memory_budget&) = delete;
    memory_budget& operator=(const memory_budget&) = delete;

    std::int64_t limit() const noexcept { return limit_; }
    std::int64_t taken() const noexcept { return taken_.load(std::memory_order_relaxed); }
    /// Takes so many bytes; false, and takes nothing, where they would be over the limit.
    bool take(std::int64_t bytes) noexcept {
        const std::int64_t room = limit_ - (beside_ ? beside_->taken() : 0);
        std::int64_t before = taken();
        do {
            if (bytes > room - before) return false;
        } while (!taken_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
        return true;
    }
    void give_back(std::int64_t bytes) noexcept { taken_.fetch_sub(bytes, std::memory_order_relaxed); }

private:
    std::int64_t limit_;
    std::shared_ptr<const memory_budget> beside_;
    std::atomic<std::int64_t> taken_{0};
};

/// Bytes of a budget, given back at its end. Moves, does not copy.
class memory_charge {
public:
    memory_charge() noexcept = default;
    memory_charge(memory_charge&& other) noexcept : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}
    memory_charge& operator=(memory_charge&& other) noexcept {
        std::swap(budget_, other.budget_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~memory_charge() {
        if (budget_) budget_->give_back(bytes_);
    }
    /// Takes so many bytes in place of those it holds; false, and it is as before, where they would be over the limit. No budget: anything.
    bool take(const std::shared_ptr<memory_budget>& budget, std::int64_t bytes) noexcept {
        if (budget && !budget->take(bytes - (budget == budget_ ? bytes_ : 0))) return false;
        if (budget_ && budget_ != budget) budget_->give_back(bytes_);
        budget_ = budget;
        bytes_ = bytes;
        return true;
    }

private:
    std::shared_ptr<memory_budget> budget_;
    std::int64_t bytes_ = 0;
};

GRAFT_END_NAMESPACE
