// Exchanges with the other members of a run, by NCCL.
#pragma once

#include "../libraries/nccl.hpp"
#include "../runtime/handles.hpp"

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// AllReduce and AllGather of ops/collective.hpp, where the members have agreed on NCCL (attribute by_device): see cuda_device::join.
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

}  // namespace detail

GRAFT_INLINE library_table collective_rows() {
    static constexpr library_row rows[] = {{"AllReduce", "graft", detail::refuse_exchange, detail::make_exchange<false>},
                                           {"AllGather", "graft", detail::refuse_exchange, detail::make_exchange<true>}};
    return rows;
}

}  // namespace gpu
GRAFT_END_NAMESPACE
#endif
