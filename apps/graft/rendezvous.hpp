// How processes meet that a launcher has told of each other by variables alone, as torchrun does.
#pragma once

#include "program.hpp"

#include <graft/core/communicator.hpp>
#include <graft/core/error.hpp>

#include <memory>
#include <optional>

namespace program {

/// Who this process is by RANK and WORLD_SIZE; none where WORLD_SIZE is not set, or 1. Errors: usage, naming the variable.
struct told_rank {
    int rank = 0, size = 1;
};
graft::result<std::optional<told_rank>> rank_by_variables();

/// Joins the others at MASTER_ADDR and MASTER_PORT, and by NCCL. Errors: usage (a variable that is missing or cannot be), dist.address_in_use, dist.*,
/// device.*.
graft::result<std::shared_ptr<graft::communicator>> join_by_variables(const common_options& common, const told_rank& own, double timeout);
/// Whether this process has joined others so.
bool joined_by_variables();
/// Tells the others that this process ends with an error, and goes.
void leave_by_variables(const graft::error& why) noexcept;
/// Parts from the others at the end of all work. Errors: dist.*.
graft::status part_by_variables();

}  // namespace program
