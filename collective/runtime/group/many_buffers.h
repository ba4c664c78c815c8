#pragma once

#include <cstddef>
#include <span>

#include "collective/reduce/data_type.h"
#include "collective/runtime/calls/group.h"
#include "common/base/result.h"

namespace espalier::runtime {

// Allreduces with several buffers in one call. Thread safety: as Group.

// Reduces all inputs of all ranks, of `count` elements each, and stores the result in every output
// of every rank. Ranks may have different numbers of inputs and outputs, at least one of each. An
// output may be one of the inputs; otherwise they do not overlap. Several inputs are first reduced
// on the rank, in their order. Memory beyond the caller's: `count` elements if there are several
// inputs. Errors, beyond those of calls: kInvalidArgument, with the number of the buffer, without
// effect on the group; also for an average of several inputs, as its divisor would not be clear.
Result<void> AllReduceMany(Group& group, std::span<const void* const> inputs,
                           std::span<void* const> outputs, std::size_t count, reduce::DataType type,
                           reduce::ReduceOp op);

// Reduces each of several buffers by itself, as if there were one allreduce for each, but with the
// latency of one: they are put together. outputs[i] may be inputs[i]; both have counts[i] elements.
// All ranks pass the same counts. Memory beyond the caller's: twice the sum of the inputs' sizes.
// Errors: as above; also for other than one input and one output for each count.
Result<void> AllReduceTogether(Group& group, std::span<const void* const> inputs,
                               std::span<void* const> outputs, std::span<const std::size_t> counts,
                               reduce::DataType type, reduce::ReduceOp op);

}  // namespace espalier::runtime
