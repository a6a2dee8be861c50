// Exchanges with the other members of a run, by NCCL.
#pragma once

#include "../libraries/nccl.hpp"
#include "../runtime/handles.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The exchanges of ops/collective.hpp, where the members have agreed on NCCL (attribute by_device): see cuda_device::join. AllReduce and AllGather stand on
/// the stream of the step; between AllReduceStart and AllReduceEnd a bucket is added up beside it.
library_table collective_rows();

}  // namespace gpu
GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
GRAFT_BEGIN_NAMESPACE
namespace gpu {
namespace detail {

class exchange_kernel final : public library_kernel {
public:
    exchange_kernel(const kernel_query& q, bool gathers) : gathers_(gathers) {
        exchanges = true;
        note = "NCCL";
        for (int i = 0; i < q.inputs; ++i) counts_.push_back(q.in[i].elements());
    }
    inline status enqueue(const library_call& call) const override {
        nccl_member& with = *static_cast<nccl_member*>(call.group->of_device.get());
        const int arrays = static_cast<int>(counts_.size());
        std::vector<device_address> in(call.in, call.in + arrays);
        // Nothing that a member without samples gives may count: it gives zeros, from where its own part of the answer will be.
        for (int i = 0; i < arrays && call.group->idle(); ++i) {
            const std::size_t at = static_cast<std::size_t>(i), bytes = static_cast<std::size_t>(counts_[at]) * sizeof(float);
            in[at] = call.out[i] + (gathers_ ? static_cast<std::size_t>(call.group->rank()) * bytes : 0);
            if (bytes) GRAFT_GPU_TRY(*call.with.driver, cuMemsetD8Async(in[at], 0, bytes, call.stream), "NCCL", "clearing what is given");
        }
        return gathers_ ? with.all_gather(in.data(), call.out, counts_.data(), arrays, call.stream)
                        : with.all_reduce(in.data(), call.out, counts_.data(), arrays, call.stream);
    }

private:
    bool gathers_;
    std::vector<std::int64_t> counts_;
};

// The copies stand on the step's stream, so that the gradients may go behind them; the bucket lives until it is handed out.
class start_kernel final : public library_kernel {
public:
    explicit start_kernel(const kernel_query& q) {
        exchanges = true;
        note = "NCCL, beside the nodes behind it";
        for (int i = 0; i < q.inputs; ++i) counts_.push_back(q.in[i].elements());
        count_ = q.out[0].elements();
        name_ = q.n.name;
    }
    inline status enqueue(const library_call& call) const override {
        const api::driver_functions& d = *call.with.driver;
        if (!count_) return {};
        const device_address bucket = call.out[0];
        device_address to = bucket;
        if (call.group->idle())
            GRAFT_GPU_TRY(d, cuMemsetD8Async(bucket, 0, static_cast<std::size_t>(count_) * sizeof(float), call.stream), "NCCL", "clearing what is given");
        for (std::size_t i = 0; i < counts_.size() && !call.group->idle(); ++i) {
            const std::size_t bytes = static_cast<std::size_t>(counts_[i]) * sizeof(float);
            if (bytes) GRAFT_GPU_TRY(d, cuMemcpyDtoDAsync_v2(to, call.in[i], bytes, call.stream), "NCCL", "filling a bucket");
            to += bytes;
        }
        return static_cast<nccl_member*>(call.group->of_device.get())->start(bucket, count_, call.stream, name_.c_str());
    }

private:
    std::vector<std::int64_t> counts_;
    std::int64_t count_;
    std::string name_;
};
class end_kernel final : public library_kernel {
public:
    explicit end_kernel(const kernel_query& q) {
        exchanges = true;
        note = "NCCL, waited for";
        count_ = q.in[0].elements();
        const integer_list ranks = q.integers("ranks"), extents = q.integers("extents");
        for (int i = 0, at = 0; i < ranks.size; ++i) {
            std::int64_t n = 1;
            for (std::int64_t d = 0; d < ranks[i]; ++d) n *= extents[at++];
            counts_.push_back(n);
            wanted_.push_back(q.wants(i) ? 1 : 0);
        }
    }
    inline status enqueue(const library_call& call) const override {
        if (!count_) return {};
        GRAFT_TRY(static_cast<nccl_member*>(call.group->of_device.get())->await(call.in[0], call.stream));
        device_address from = call.in[0];
        for (std::size_t i = 0; i < counts_.size(); ++i) {
            const std::size_t bytes = static_cast<std::size_t>(counts_[i]) * sizeof(float);
            if (bytes && wanted_[i])
                GRAFT_GPU_TRY(*call.with.driver, cuMemcpyDtoDAsync_v2(call.out[i], from, bytes, call.stream), "NCCL", "handing out a bucket");
            from += bytes;
        }
        return {};
    }

private:
    std::vector<std::int64_t> counts_;
    std::vector<char> wanted_;
    std::int64_t count_;
};

inline const char* refuse_exchange(const kernel_query& q) {
    if (!q.integer("by_device", 0)) return "the members of the run exchange by the host";
    for (int i = 0; i < q.inputs; ++i)
        if (q.in[i].type != dtype::float32) return "what members exchange is float32";
    return nullptr;
}
template <bool Gathers>
result<std::unique_ptr<library_kernel>> make_exchange(const kernel_query& q, const libraries&) {
    return std::unique_ptr<library_kernel>(new exchange_kernel(q, Gathers));
}
template <class Kernel>
result<std::unique_ptr<library_kernel>> make_half(const kernel_query& q, const libraries&) {
    return std::unique_ptr<library_kernel>(new Kernel(q));
}

}  // namespace detail

GRAFT_INLINE library_table collective_rows() {
    static constexpr library_row rows[] = {{"AllReduce", "graft", detail::refuse_exchange, detail::make_exchange<false>},
                                           {"AllGather", "graft", detail::refuse_exchange, detail::make_exchange<true>},
                                           {"AllReduceStart", "graft", detail::refuse_exchange, detail::make_half<detail::start_kernel>},
                                           {"AllReduceEnd", "graft", detail::refuse_exchange, detail::make_half<detail::end_kernel>}};
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
