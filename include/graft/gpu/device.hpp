// A GPU that was opened: its context, its memory, its kernels and the handles of its libraries.
#pragma once

#include "../lower/backend.hpp"
#include "runtime/handles.hpp"
#include "lower/lower.hpp"
#include "runtime/memory_pool.hpp"
#include "runtime/modules.hpp"
#include "libraries/library_rows.hpp"
#include "ops/ops.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace gpu {

/// The functions that a device is driven by; those of cuDNN, cuBLASLt and NCCL may be null, and what needs them is refused then. They
/// outlive every device.
struct device_functions {
    const api::driver_functions* driver = nullptr;
    const api::nvrtc_functions* nvrtc = nullptr;
    const api::cudnn_functions* cudnn = nullptr;
    const api::cublaslt_functions* cublaslt = nullptr;
    const api::nccl_functions* nccl = nullptr;
};

/// What a device runs for a node: a program of its own kernels, a call of a library, or a copy (Transfer).
class cuda_kernel final : public device_kernel {
public:
    bool copies = false;
    program generated;                        ///< source with its prelude; empty for the others
    std::unique_ptr<library_kernel> library;  ///< null for the others
};

/// A constant of a network in the device's memory, and the host's copy that it was made of.
struct resident_constant {
    tensor host;
    device_memory memory;
};

/// A GPU. Contexts and models share it; safe from many threads, one of which enqueues work at a time.
class cuda_device final : public device, public std::enable_shared_from_this<cuda_device> {
public:
    /// Opens the device that the driver numbers `ordinal`; `warn` as in backend::open. Errors: device.unavailable, usage (an unknown
    /// precision).
    static result<std::shared_ptr<cuda_device>> open(const device_functions& functions, int ordinal, const device_options& options,
                                                     void (*warn)(const char*) = nullptr);
    ~cuda_device();

    inline const std::string& name() const noexcept override { return name_; }
    inline const device_traits& traits() const noexcept { return traits_; }
    inline const api::driver_functions& driver() const noexcept { return *functions_.driver; }
    inline void* context() const noexcept { return context_; }
    inline memory_pool& pool() noexcept { return *pool_; }
    /// The handles of its libraries, made when they are first asked for. Errors: device.unavailable, memory.oom.
    result<const libraries*> handles();
    /// The same where they were made; else null.
    const libraries* open_handles() const noexcept { return handles_made_ ? &handles_ : nullptr; }
    /// Tells whoever opened the device; not while something is held that the hearer may need.
    void warn(const std::string& text) const {
        if (warn_) warn_((name_ + ": " + text).c_str());
    }
    /// Whoever puts work on a stream holds this: handles are for one thread at a time.
    std::mutex& enqueueing() noexcept { return enqueueing_; }

    inline const char* refuse(const op_context& node) const override { return refuse_node(node); }
    inline status lower(graph& g, const lowering& with) override { return lower_for_gpu(g, with, numbers_, {this, own_makes, library_makes}); }
    inline result<std::shared_ptr<const device_kernel>> prepare(const device_query& node) override { return prepare_node(node); }
    inline result<std::shared_ptr<const device_program>> load(const plan& p, place_id place, executor& pool) override { return load_plan(p, place, pool); }
    inline result<std::unique_ptr<device_context>> make_context(std::shared_ptr<const plan> p, place_id place, device_state* state) override;
    inline result<std::unique_ptr<device_state>> make_state() override;
    inline status exchanges(communicator& group, bool& itself) override { return agree_on_nccl(group, itself); }
    inline result<std::shared_ptr<communicator>> make_communicator(const std::shared_ptr<control_plane>& notices) override { return join_nccl(notices); }
    /// Joins the others in NCCL, where that was agreed on and not done yet; all members call it at once. Errors: dist.*, device.unavailable.
    status join(communicator& group);

private:
    cuda_device() = default;
    const char* refuse_node(const op_context& node) const;
    const char* refuse_kernel(const op_context& node) const;
    result<std::shared_ptr<const device_kernel>> prepare_node(const device_query& node);
    result<std::shared_ptr<const device_program>> load_plan(const plan& p, place_id place, executor& pool);
    result<std::unique_ptr<library_kernel>> library_kernel_of(const kernel_query& q, const char*& why);
    status describe();
    nccl_offer offer() const;
    status agree_on_nccl(communicator& group, bool& agreed);
    result<std::shared_ptr<communicator>> join_nccl(std::shared_ptr<control_plane> notices);
    static bool own_makes(void* self, const node& n, const graph& g);
    static std::string recall_choice(void* self, const std::string& problem);
    static void remember_choice(void* self, const std::string& problem, const std::string& choice);
    static bool library_makes(void* self, const node& n, const graph& g);
    result<std::shared_ptr<const resident_constant>> resident(const tensor& host, void* stream);

    device_functions functions_;
    std::string name_;
    void (*warn_)(const char*) = nullptr;
    int ordinal_ = 0, device_ = 0;
    device_traits traits_;
    numbers numbers_;
    void* context_ = nullptr;
    std::shared_ptr<memory_pool> pool_;
    std::unique_ptr<module_cache> modules_;
    std::map<std::string, std::string> chosen_;  // among a library's kernels, by problem; guarded by enqueueing_
    libraries handles_;
    std::unique_ptr<cudnn_handles> more_handles_;
    bool handles_made_ = false;
    std::mutex enqueueing_, making_;
    std::vector<std::weak_ptr<const resident_constant>> constants_;
};

}  // namespace gpu
GRAFT_END_NAMESPACE
