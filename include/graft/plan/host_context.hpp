// Runs host kernels, one after the other, on the memory of a place.
#pragma once

#include "plan.hpp"

GRAFT_BEGIN_NAMESPACE

/// A place whose kernels read and write the host's memory. The host's own arena is the caller's; any other place has one of its own, from its
/// first run on.
class host_context final : public device_context {
public:
    host_context(std::shared_ptr<const plan> p, place_id place) : plan_(std::move(p)), place_(place) {
        std::size_t most = 0;
        for (const step& s : plan_->steps)
            if (s.place == place_) most = std::max(most, std::max(s.in.size(), s.out.size()));
        in_.resize(most);
        out_.resize(most);
    }

    inline status run(int first, int last, const run_environment& around) override {
        const auto bytes = static_cast<std::size_t>(plan_->places[place_].arena_bytes);
        if (place_ && arena_.bytes() < bytes) GRAFT_TRY_ASSIGN(arena_, buffer::allocate(bytes, around.budget));
        std::byte* const arena = place_ ? arena_.data() : around.arena;
        const auto resolve = [&](const slot& s) -> tensor_view {
            return {s.prototype.type, s.prototype.extents, s.kind == slot_kind::arena && s.place == place_ ? arena + s.index : around.address(s)};
        };
        for (int i = first; i < last; ++i) {
            const step& s = plan_->steps[static_cast<std::size_t>(i)];
            for (std::size_t k = 0; k < s.in.size(); ++k) in_[k] = resolve(s.in[k]);
            for (std::size_t k = 0; k < s.out.size(); ++k) out_[k] = resolve(s.out[k]);
            GRAFT_TRY(static_cast<const host_kernel&>(*s.kernel).run({plan_->lowered.nodes[static_cast<std::size_t>(s.node)], in_.data(),
                                                                      static_cast<int>(s.in.size()), out_.data(), static_cast<int>(s.out.size()),
                                                                      arena + s.workspace_offset, s.seed, around}));
        }
        return {};
    }

private:
    std::shared_ptr<const plan> plan_;
    place_id place_;
    buffer arena_;
    std::vector<tensor_view> in_, out_;
};

GRAFT_END_NAMESPACE
