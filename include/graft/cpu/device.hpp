// The CPU as a device: the fastest kernels that it has for a node, else the operator's reference kernel, on the host's memory.
#pragma once

#include "../lower/backend.hpp"
#include "../lower/einsum_products.hpp"
#include "../lower/fold_pads.hpp"
#include "../lower/fuse.hpp"
#include "../lower/turned_products.hpp"
#include "../lower/widen.hpp"
#include "../passes/specialize.hpp"
#include "../plan/host_context.hpp"
#include "dispatch.hpp"
#include "kernel.hpp"

#include <cstring>
#include <memory>
#include <string>

GRAFT_BEGIN_NAMESPACE
namespace cpu {

/// What a program compiles of the CPU: to infer, or to train as well.
struct kernel_set {
    /// The kernel that runs a lowered node; null, with the reason, where the reference kernel has to.
    const kernel_row* (*choose)(const kernel_query&, kernel_choice&, const char*& refusal);
    /// Fusion across the forward and the backward part of a step; may be null.
    void (*fuse)(graph&, place_id on);
    /// Blocks of channels, and packed weights.
    status (*lay_out)(graph&, const lowering&, const arithmetic& by);
    bool bfloat16 = false;  ///< whether it has kernels of bfloat16
    /// Operators between DequantizeLinear and QuantizeLinear, in integers; may be null.
    status (*to_integers)(graph&, const lowering&, isa level) = nullptr;
};

/// A kernel of an instruction set, with what it decided about its node.
class fast_kernel final : public host_kernel {
public:
    const kernel_row* row = nullptr;
    kernel_choice choice;
    isa level = isa::baseline;

    inline status run(const host_call& c) const override {
        const kernel_call call{c.in, c.inputs, c.out, c.outputs, choice, c.workspace, c.around.pool, level, c.around.group};
        row->run(call);
        return std::move(call.failed);
    }
};

/// The kernel of the operator's row.
class reference_kernel final : public host_kernel {
public:
    inline status run(const host_call& c) const override {
        const run_environment& around = c.around;
        run_context with{
            {c.n, c.in, c.inputs, c.out, c.outputs, around.limit}, around.pool, around.bodies, nullptr, c.seed, around.scratch, around.budget, around.group};
        return c.n.op->run(with);
    }
};

/// Copies a value, row-major on both sides.
class transfer_kernel final : public host_kernel {
public:
    inline status run(const host_call& c) const override {
        if (const std::int64_t bytes = bytes_of(c.out->type, c.out->extents)) std::memcpy(c.out->data, c.in->data, static_cast<std::size_t>(bytes));
        return {};
    }
};

/// The cores and the memory of this machine. Several may be open in a process: each is a place with an arena of its own.
class cpu_device final : public device {
public:
    cpu_device(std::string name, const arithmetic& by, const kernel_set& kernels) : name_(std::move(name)), by_(by), kernels_(kernels) {}

    inline const std::string& name() const noexcept override { return name_; }
    inline bool in_host_memory() const noexcept override { return true; }
    inline const char* precision() const noexcept override { return by_.bfloat16 ? "bfloat16" : "float32"; }
    inline const char* refuse(const op_context& node) const override {
        return node.n.op && node.n.op->run ? nullptr : "the operator is not compiled into this build (GRAFT_OPS)";
    }
    inline status lower(graph& g, const lowering& with) override {
        if (kernels_.to_integers && !with.exact) GRAFT_TRY(kernels_.to_integers(g, with, by_.level));
        GRAFT_TRY(graft::detail::widener(g, with).run());
        if constexpr (wanted("Pad")) graft::detail::pad_folder(g, with).run();
        if constexpr (wanted("Einsum") && wanted("MatMul") && wanted("Transpose") && wanted("Reshape"))
            if (!with.exact) GRAFT_TRY(graft::detail::einsum_products(g, with).run());
        if constexpr (wanted("MatMul") && wanted("Transpose") && wanted("Reshape"))
            if (!with.exact) GRAFT_TRY(graft::detail::turned_products(g, with).run());
        GRAFT_TRY(graft::detail::fuser(g, with).run());
        if (kernels_.fuse) kernels_.fuse(g, with.on);
        GRAFT_TRY(kernels_.lay_out(g, with, by_));
        drop_unread(g);  // weights that were packed
        return {};
    }
    inline result<std::shared_ptr<const device_kernel>> prepare(const device_query& node) override {
        if (node.n.op_type == "Transfer" && node.n.domain == "graft") return with_note(std::make_shared<transfer_kernel>(), "copy", "");
        const kernel_query query{node, node.in_layout, node.out_layout, by_.level, node.exact};
        const char* refusal = "";
        if (!node.reference) {
            auto fast = std::make_shared<fast_kernel>();
            fast->row = kernels_.choose(query, fast->choice, refusal);
            fast->level = by_.level;
            if (fast->row) {
                fast->workspace_bytes = fast->choice.workspace_bytes;
                fast->in_place = fast->row->in_place && !node.shares_memory(0);
                const char* note = fast->choice.note;
                return with_note(std::move(fast), note, "");
            }
        }
        if (!node.n.op->run) return fail(errc::op_unsupported, location(node.n), "this build does not hold the operator; GRAFT_OPS leaves it out");
        if (!query.all_row_major()) return fail(errc::internal, location(node.n), "a blocked layout met an operator without a kernel for it");
        auto reference = std::make_shared<reference_kernel>();
        // They compute in doubles: copies of what they read and of what they make, and places among them.
        for (int i = 0; i < node.inputs; ++i)
            if (node.has(i)) reference->scratch_bytes += 16 * std::max<std::int64_t>(0, node.in[i].extents.elements());
        for (int i = 0; i < node.outputs; ++i)
            if (node.wants(i)) reference->scratch_bytes += 16 * std::max<std::int64_t>(0, node.out[i].extents.elements());
        return with_note(std::move(reference), "reference", refusal);
    }
    inline result<std::shared_ptr<const device_program>> load(const plan&, place_id, executor&) override { return std::shared_ptr<const device_program>(); }
    inline result<std::unique_ptr<device_context>> make_context(std::shared_ptr<const plan> p, place_id place, device_state*) override {
        return std::unique_ptr<device_context>(new host_context(std::move(p), place));
    }
    inline result<std::unique_ptr<device_state>> make_state() override { return std::unique_ptr<device_state>(); }

private:
    template <class Kernel>
    static std::shared_ptr<const device_kernel> with_note(std::shared_ptr<Kernel> made, const char* note, const char* refusal) {
        made->note = note;
        made->refusal = refusal;
        return made;
    }

    std::string name_;
    arithmetic by_;
    const kernel_set& kernels_;
};

/// Opens the CPU with the instruction set of this process. Errors: cpu.isa, device.unavailable (this machine has no kernels of the precision).
inline result<std::shared_ptr<device>> open(const std::string& name, const device_options& options, const kernel_set& kernels) {
    arithmetic by;
    GRAFT_TRY_ASSIGN(by.level, active_isa());
    by.bfloat16 = options.precision == "bfloat16";
    if (by.bfloat16 && !(kernels.bfloat16 && bfloat16_products(by.level)))
        return fail(errc::device_unavailable, "precision",
                    "bfloat16 on a CPU takes one that multiplies it (AVX-512 BF16: AMD's since 2022; with AMX, Intel's Xeons since 2023), and " +
                        std::string(cpu::name(by.level)) + " is what runs here: leave it out, or take a GPU (--device cuda)");
    return std::shared_ptr<device>(std::make_shared<cpu_device>(name, by, kernels));
}

}  // namespace cpu
GRAFT_END_NAMESPACE
