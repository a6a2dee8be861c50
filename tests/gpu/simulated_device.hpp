// One device of the CUDA simulator with a stream and the libraries' handles, for tests of single library kernels.
#pragma once

#include "../cuda_simulator/simulated.hpp"
#include "library_problem.hpp"

#include <graft/ops/gradients.hpp>
#include <graft/ops/ops.hpp>

#include <cstring>
#include <memory>

namespace simulated {

/// Everything is given back at the end. What the simulator reports meanwhile is counted from here on.
class device {
public:
    device() {
        set("COMPUTE", nullptr);
        fail(nullptr);
        reset();
        live_before = count("live");
        REQUIRE(cuda().cuInit(0) == 0);
        REQUIRE(cuda().cuDevicePrimaryCtxRetain(&context, 0) == 0);
        REQUIRE(cuda().cuCtxPushCurrent_v2(context) == 0);
        REQUIRE(cuda().cuStreamCreate(&stream, driver::flag::stream_non_blocking) == 0);
        with.cudnn = &dnn();
        with.cublaslt = &blas();
        with.driver = &cuda();
        REQUIRE(dnn().cudnnCreate(&with.cudnn_handle) == 0);
        REQUIRE(blas().cublasLtCreate(&with.cublaslt_handle) == 0);
        traits.name = "simulator";
    }
    ~device() {
        fail(nullptr);
        CHECK(dnn().cudnnDestroy(with.cudnn_handle) == 0);
        CHECK(blas().cublasLtDestroy(with.cublaslt_handle) == 0);
        CHECK(cuda().cuStreamDestroy_v2(stream) == 0);
        void* popped = nullptr;
        CHECK(cuda().cuCtxPopCurrent_v2(&popped) == 0);
        CHECK(cuda().cuDevicePrimaryCtxRelease_v2(0) == 0);
        set("COMPUTE", nullptr);
        const std::string text = report();
        CHECK_MESSAGE(count("problems") == 0, text);
        CHECK_MESSAGE(count("live") == live_before, text);
        reset();
    }
    device(const device&) = delete;
    device& operator=(const device&) = delete;

    std::uint64_t memory(std::size_t bytes) const {
        std::uint64_t at = 0;
        REQUIRE(cuda().cuMemAlloc_v2(&at, bytes ? bytes : 1) == 0);
        return at;
    }

    /// Runs a kernel on a problem's inputs; `output` gets its first output, row-major, in the problem's type.
    graft::status run(const library_problem::problem& p, const graft::gpu::library_kernel& kernel, graft::tensor& output) const {
        std::vector<std::uint64_t> in;
        std::vector<std::vector<unsigned char>> held;
        for (std::size_t i = 0; i < p.inputs.size(); ++i) {
            in.push_back(p.inputs[i] ? memory(p.inputs[i].bytes()) : 0);
            if (!p.inputs[i]) continue;
            held.push_back(library_problem::laid_out(p.inputs[i], p.in_layout[i], false));
            REQUIRE(cuda().cuMemcpyHtoDAsync_v2(in[i], held.back().data(), held.back().size(), stream) == 0);
        }
        graft::tensor result = graft::tensor::make(p.result, p.wanted[0].shape());
        const std::uint64_t out = memory(result.bytes()), workspace = kernel.workspace_bytes ? memory(static_cast<std::size_t>(kernel.workspace_bytes)) : 0;
        graft::status status = kernel.enqueue({with, stream, in.data(), &out, workspace});
        if (status.ok()) REQUIRE(cuda().cuMemcpyDtoHAsync_v2(result.raw(), out, result.bytes(), stream) == 0);
        REQUIRE(cuda().cuStreamSynchronize(stream) == 0);
        in.push_back(out);
        in.push_back(workspace);
        for (const std::uint64_t at : in)
            if (at) REQUIRE(cuda().cuMemFree_v2(at) == 0);
        if (!status.ok()) return status;
        const std::vector<unsigned char> rows = library_problem::laid_out(result, p.out_layout[0], true);
        output = graft::tensor::make(p.result, p.wanted[0].shape());
        std::memcpy(output.raw(), rows.data(), rows.size());
        return {};
    }

    graft::gpu::libraries with;
    graft::gpu::device_traits traits;
    void *context = nullptr, *stream = nullptr;
    long live_before = 0;  // what other tests of this process hold
};

/// The row of a family for a node, or null.
inline const graft::gpu::library_row* row_of(graft::gpu::library_table rows, const char* op, const char* domain) {
    for (const graft::gpu::library_row& row : rows)
        if (!std::strcmp(row.op, op) && !std::strcmp(row.domain, domain)) return &row;
    return nullptr;
}
/// The row of the op table, or of those of training, for an operator of a library.
inline const graft::op_row* op_row_of(const std::string& op, const std::string& domain) {
    return domain.empty() ? graft::ops::find_op("", op.c_str(), graft::newest_opset) : graft::ops::find_training_op("graft", op.c_str(), 1);
}

/// The kernel that a family makes for a problem.
inline graft::result<std::unique_ptr<graft::gpu::library_kernel>> make(graft::gpu::library_table rows, const library_problem::problem& p, const device& on,
                                                                       graft::gpu::kernel_options options) {
    const library_problem::asked a(p, on.traits, options);
    const graft::gpu::library_row* row = row_of(rows, p.n.op_type.c_str(), p.n.domain.c_str());
    REQUIRE(row);
    return row->make(a.query, on.with);
}
/// The difference of its answer, or the reason why there is none.
inline double answered(graft::gpu::library_table rows, const library_problem::problem& p, const device& on, std::string& why,
                       graft::gpu::kernel_options options, std::string* note = nullptr) {
    auto kernel = make(rows, p, on, options);
    if (!kernel.ok()) {
        why = kernel.error().what();
        return HUGE_VAL;
    }
    if (note) *note = kernel.value()->note;
    graft::tensor got;
    const graft::status s = on.run(p, *kernel.value(), got);
    if (!s.ok()) why = s.error().what();
    return s.ok() ? library_problem::difference(got, p.wanted[0]) : HUGE_VAL;
}
/// Whether the kernel of a problem gives the same bits each time.
inline bool repeats(graft::gpu::library_table rows, const library_problem::problem& p, const device& on, graft::gpu::kernel_options options) {
    auto kernel = make(rows, p, on, options);
    REQUIRE(kernel.ok());
    graft::tensor first, next;
    bool equal = true;
    REQUIRE(on.run(p, *kernel.value(), first).ok());
    for (int i = 0; i < 3; ++i) {
        REQUIRE(on.run(p, *kernel.value(), next).ok());
        equal = equal && !std::memcmp(first.raw(), next.raw(), first.bytes());
    }
    return equal;
}

}  // namespace simulated
