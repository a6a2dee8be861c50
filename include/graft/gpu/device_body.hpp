// Bodies of gpu/device.hpp.
#pragma once

#include "codegen/prelude.hpp"
#include "context.hpp"
#include "runtime/kernel_files.hpp"
#include "lower/query.hpp"
#include "nccl_communicator.hpp"

#include <cstring>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

// Networks repeat themselves, and lowering asks before planning does: what was chosen is at hand also where there is no folder to keep it.
GRAFT_INLINE std::string cuda_device::recall_choice(void* self, const std::string& problem) {
    std::string& choice = static_cast<cuda_device*>(self)->chosen_[problem];
    if (choice.empty()) choice = kept_file(problem, ".choice");
    return choice;
}
GRAFT_INLINE void cuda_device::remember_choice(void* self, const std::string& problem, const std::string& choice) {
    static_cast<cuda_device*>(self)->chosen_[problem] = choice;
    keep_file(problem, ".choice", choice);
}

GRAFT_INLINE status cuda_device::describe() {
    const api::driver_functions& d = driver();
    GRAFT_GPU_TRY(d, cuDeviceGet(&device_, ordinal_), name_, "finding the device");
    char text[256] = {};
    std::size_t bytes = 0;
    GRAFT_GPU_TRY(d, cuDeviceGetName(text, sizeof text - 1, device_), name_, "asking for its name");
    GRAFT_GPU_TRY(d, cuDeviceTotalMem_v2(&bytes, device_), name_, "asking for its memory");
    traits_.name = text;
    traits_.memory_bytes = static_cast<std::int64_t>(bytes);
    namespace attribute = api::driver::attribute;
    int shared = 0;
    const std::pair<int, int*> asked[] = {{attribute::compute_capability_major, &traits_.major},
                                          {attribute::compute_capability_minor, &traits_.minor},
                                          {attribute::multiprocessors, &traits_.multiprocessors},
                                          {attribute::max_threads_per_multiprocessor, &traits_.threads_per_multiprocessor},
                                          {attribute::max_shared_bytes_per_block, &shared}};
    for (const auto& a : asked) GRAFT_GPU_TRY(d, cuDeviceGetAttribute(a.second, a.first, device_), name_, "asking for its properties");
    traits_.shared_bytes = shared;
    if (traits_.major < 7)
        return fail(errc::device_unavailable, name_,
                    traits_.name + " has compute capability " + std::to_string(traits_.major) + "." + std::to_string(traits_.minor) + "; 7.0 is the least");
    return {};
}

GRAFT_INLINE result<std::shared_ptr<cuda_device>> cuda_device::open(const device_functions& functions, int ordinal, const device_options& options,
                                                                    void (*warn)(const char*)) {
    std::shared_ptr<cuda_device> made(new cuda_device());
    made->functions_ = functions;
    made->warn_ = warn;
    made->ordinal_ = ordinal;
    made->name_ = "cuda:" + std::to_string(ordinal);
    const api::driver_functions& d = made->driver();
    GRAFT_TRY(made->describe());
    GRAFT_TRY_ASSIGN(made->numbers_, numbers_of(options, made->traits_));
    GRAFT_GPU_TRY(d, cuDevicePrimaryCtxRetain(&made->context_, made->device_), made->name_, "opening the device");
    made->pool_ = memory_pool::make(d, made->context_, made->name_, options.memory_bytes);
    made->modules_.reset(new module_cache(d, *functions.nvrtc, made->context_, made->traits_, made->name_));
    return made;
}

GRAFT_INLINE cuda_device::~cuda_device() {
    if (!context_) return;
    {
        current_context now(driver(), context_);
        more_handles_.reset();
        if (handles_.cudnn_handle) functions_.cudnn->cudnnDestroy(handles_.cudnn_handle);
        if (handles_.cublaslt_handle) functions_.cublaslt->cublasLtDestroy(handles_.cublaslt_handle);
        modules_.reset();
        pool_.reset();
    }
    driver().cuDevicePrimaryCtxRelease_v2(device_);
}

GRAFT_INLINE result<const libraries*> cuda_device::handles() {
    std::lock_guard<std::mutex> guard(making_);
    if (handles_made_) return static_cast<const libraries*>(&handles_);
    current_context now(driver(), context_);
    GRAFT_TRY(driver_status(driver(), now.result(), name_, "using its context"));
    handles_.driver = functions_.driver;
    handles_.driver_context = context_;
    if (functions_.cudnn && !handles_.cudnn_handle) {
        const int result = functions_.cudnn->cudnnCreate(&handles_.cudnn_handle);
        if (result) return fail(errc::device_unavailable, name_, std::string("cuDNN cannot be started: ") + functions_.cudnn->cudnnGetErrorString(result));
        handles_.cudnn = functions_.cudnn;
        more_handles_.reset(new cudnn_handles(*functions_.cudnn));
        handles_.more_handles = more_handles_.get();
    }
    if (functions_.cublaslt && !handles_.cublaslt_handle) {
        const int result = functions_.cublaslt->cublasLtCreate(&handles_.cublaslt_handle);
        if (result) return fail(errc::device_unavailable, name_, "cuBLASLt cannot be started: status " + std::to_string(result));
        handles_.cublaslt = functions_.cublaslt;
    }
    handles_.choices.context = this;
    handles_.choices.milliseconds = measure_on_device;
    handles_.choices.recall = recall_choice;
    handles_.choices.remember = remember_choice;
    handles_made_ = true;
    return static_cast<const libraries*>(&handles_);
}

GRAFT_INLINE nccl_offer cuda_device::offer() const {
    nccl_offer own;
    int version = 0;
    if (functions_.nccl && !functions_.nccl->ncclGetVersion(&version)) own.version = version;
    api::driver::uuid id;
    if (own.version && driver().cuDeviceGetUuid_v2(&id, device_)) own.version = 0;
    std::memcpy(own.device, &id, sizeof own.device);
    return own;
}
GRAFT_INLINE status cuda_device::agree_on_nccl(communicator& group, bool& agreed) {
    const nccl_offer own = offer();
    std::vector<nccl_offer> all(static_cast<std::size_t>(group.size()));
    GRAFT_TRY(group.all_gather(&own, sizeof own, all.data()));
    agreed = nccl_offer::agree(all.data(), group.size());
    return {};
}
GRAFT_INLINE status cuda_device::join(communicator& group) {
    if (group.of_device) {
        const std::string& joined = static_cast<nccl_member*>(group.of_device.get())->device();
        return joined == name_ ? status() : fail(errc::usage, name_, "this member has joined the others in NCCL with " + joined);
    }
    std::shared_ptr<nccl_member> made;
    const double began = graft::detail::seconds_now();
    GRAFT_TRY_ASSIGN(made, nccl_member::join(*functions_.nccl, driver(), context(), group, name_));
    group.add_device_wait(graft::detail::seconds_now() - began);
    made->on = shared_from_this();
    made->count_for(group);
    group.of_device = std::move(made);
    return {};
}

GRAFT_INLINE result<std::shared_ptr<communicator>> cuda_device::join_nccl(std::shared_ptr<control_plane> notices) {
    const nccl_offer own = offer();
    std::vector<nccl_offer> all(static_cast<std::size_t>(notices->size()));
    GRAFT_TRY(notices->all_gather(&own, sizeof own, all.data()));
    if (const std::string why = nccl_offer::disagreement(all.data(), notices->size()); !why.empty()) return fail(errc::dist_mismatch, name_, why);
    return nccl_communicator::join(std::move(notices), shared_from_this(), *functions_.nccl);
}

GRAFT_INLINE const char* cuda_device::refuse_node(const op_context& node) const {
    const decomposition_row* row = find_decomposition(node);
    if (!row) return refuse_kernel(node);
    graph parts;
    if (const char* why = decompose(*row, node, parts)) return why;
    for (const graft::node& part : parts.nodes)
        if (const char* why = refuse_kernel(detail::asked_in_graph(parts, part, node.limit).on(traits_, numbers_.options()).query())) return why;
    return nullptr;
}

GRAFT_INLINE const char* cuda_device::refuse_kernel(const op_context& node) const {
    detail::asked a(node, nullptr, nullptr, traits_, numbers_.options());
    const char *why = "no kernel of this device has the operator", *const op = node.n.op_type.c_str(), *const domain = node.n.domain.c_str();
    if (const library_row* row = find_conv_row(op, domain)) {
        detail::asked convolution = a;
        convolution.channels_last();
        if (takes_depthwise(convolution.query())) return nullptr;
        return functions_.cudnn ? row->refuse(convolution.query()) : "cuDNN was not found";
    }
    if (const library_row* row = find_collective_row(op, domain)) return row->refuse(a.query());
    if (const library_row* product = find_matmul_row(op, domain)) why = functions_.cublaslt ? product->refuse(a.query()) : "cuBLASLt was not found";
    if (!why) return nullptr;
    if (const generated_row generated = find_generated(op, domain); generated.generate) {
        program unused;
        why = generated.generate(a.query(), unused);
    }
    return why;
}

// The library's kernel of a node; null where no row takes it, and `why` says so then, and where a kernel of our own is better.
GRAFT_INLINE result<std::unique_ptr<library_kernel>> cuda_device::library_kernel_of(const kernel_query& q, const char*& why) {
    const char *const op = q.n.op_type.c_str(), *const domain = q.n.domain.c_str();
    const library_row* row = find_conv_row(op, domain);
    if (!row) row = find_matmul_row(op, domain);
    if (!row) row = find_attention_row(op, domain);
    if (!row) row = find_collective_row(op, domain);
    if (takes_depthwise(q)) row = nullptr;
    if (row) why = row->refuse(q);
    if (!row || why) return std::unique_ptr<library_kernel>();
    const libraries* with = nullptr;
    GRAFT_TRY_ASSIGN(with, handles());
    current_context now(driver(), context_);
    std::lock_guard<std::mutex> guard(enqueueing_);
    auto made = row->make(q, *with);
    // Where a kernel that was measured has cost the device, the library says only that all of them failed.
    if (!made.ok() && made.error().code() == errc::device_unavailable)
        if (const int ended = driver().cuCtxSynchronize(); is_lost(ended)) return driver_status(driver(), ended, name_, "measuring kernels");
    return made;
}

GRAFT_INLINE bool cuda_device::own_makes(void* self, const node& n, const graph& g) {
    const cuda_device& on = *static_cast<cuda_device*>(self);
    const limits limit;
    return takes_depthwise(detail::asked_in_graph(g, n, limit).on(on.traits_, on.numbers_.options()).query());
}
GRAFT_INLINE bool cuda_device::library_makes(void* self, const node& n, const graph& g) {
    cuda_device& on = *static_cast<cuda_device*>(self);
    const limits limit;
    const char* why = nullptr;
    auto made = on.library_kernel_of(detail::asked_in_graph(g, n, limit).on(on.traits_, on.numbers_.options()).query(), why);
    return made.ok() && made.value() != nullptr;
}

GRAFT_INLINE result<std::shared_ptr<const device_kernel>> cuda_device::prepare_node(const device_query& node) {
    auto made = std::make_shared<cuda_kernel>();
    if (node.n.op_type == "Transfer" && node.n.domain == "graft") {
        made->copies = true;
        made->note = "copy";
        return std::shared_ptr<const device_kernel>(std::move(made));
    }
    const detail::asked a(node, node.in_layout, node.out_layout, traits_, numbers_.options(), node.memory);
    const char* why = "no kernel of this device has the operator";
    GRAFT_TRY_ASSIGN(made->library, library_kernel_of(a.query(), why));
    if (made->library) {
        made->workspace_bytes = made->library->workspace_bytes;
        made->note = made->library->note;
        return std::shared_ptr<const device_kernel>(std::move(made));
    }
    const char *const op = node.n.op_type.c_str(), *const domain = node.n.domain.c_str();
    const bool left_to_library = find_conv_row(op, domain) && !takes_depthwise(a.query());
    if (const generated_row generated = find_generated(op, domain); generated.generate && !left_to_library) {
        why = generated.generate(a.query(), made->generated);
        if (!why) {
            made->generated.source = prelude() + made->generated.source;
            made->workspace_bytes = made->generated.workspace_bytes;
            made->in_place = made->generated.in_place;
            made->note = made->generated.note;
            return std::shared_ptr<const device_kernel>(std::move(made));
        }
    }
    return fail(errc::op_unsupported, graft::location(node.n), name_ + ": " + why);
}

}  // namespace gpu
GRAFT_END_NAMESPACE
