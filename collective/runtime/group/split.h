#pragma once

#include <memory>

#include "collective/runtime/group/communicator.h"
#include "common/base/result.h"

namespace espalier::runtime {

// The color of a rank that joins no group.
constexpr int kNoColor = -1;

// Splits a group: the ranks that pass the same color, from 0 on, form a new group with its own
// calls. They are numbered by their keys, and by their ranks in the old group if keys are equal.
// All ranks of the group call it between the same two calls. Returns null for kNoColor. The new
// group uses the old one's store, which must outlive it, its medium and timeout, but no plan, no
// forced algorithm and no fixed port for plans. Neither group depends on the other afterwards.
// Errors: those of calls and of Communicator::Join; kInvalidArgument, on every rank, if one passes
// another negative color (the group is unaffected). Complexity: an allgather, and a join.
// Thread safety: as Communicator.
Result<std::unique_ptr<Communicator>> Split(Communicator& group, int color, int key);

// The options of a group of some ranks of another one, which are given in the order of their new
// numbers.
CommunicatorOptions OptionsOfPart(const Communicator& whole, const std::vector<int>& ranks);

}  // namespace espalier::runtime
