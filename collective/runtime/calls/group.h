#pragma once

#include <cstddef>
#include <span>

#include "collective/program/collective_spec.h"
#include "collective/reduce/data_type.h"
#include "collective/runtime/calls/collective_plan.h"
#include "common/base/result.h"

namespace espalier::runtime {

// The calls of a rank's membership of a group, wherever the work is done: in this process
// (communicator.h) or in another one (offload/offloaded_group.h).
class Group {
 public:
  virtual ~Group() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // A call of any kind. Buffers are as the collective has them; `count` counts the elements of one
  // rank's share, as in Operands. A broadcast has one buffer, its input and its output; only the
  // root of a reduce has an output. alltonext and custom are done by plans alone.
  virtual Result<void> Run(program::CollectiveKind kind, const void* input, void* output,
                           std::size_t count, reduce::DataType type, reduce::ReduceOp op,
                           int root) = 0;
  // An allgather or a reduce_scatter of parts of unequal sizes: counts[r] elements are what rank r
  // gives or gets; the other buffer has all parts, in the order of the ranks. A part of nothing
  // needs no buffer. All ranks give the same counts. Plans know equal parts only: where one is in
  // force for the collective, the call goes as if there were none.
  // Errors, beyond those of calls: kInvalidArgument for another collective, other than one count a
  // rank, or a sum that is larger than memory, with no effect on the group.
  virtual Result<void> RunUnequal(program::CollectiveKind kind, const void* input, void* output,
                                  std::span<const std::size_t> counts, reduce::DataType type,
                                  reduce::ReduceOp op) = 0;
  // From now on calls of the plan's collective and root go by it, where their size is one that its
  // program is meant for. It takes the place of the plan for that collective before it. All ranks
  // call it between the same two calls, with the same program and generation; it returns when all
  // have and the plan's connections are open, from the source ports that it names.
  // Errors, beyond those of calls: those of CheckCollectivePlan, with no effect on the group;
  // kAlreadyExists for a port that another connection has, which ends it.
  virtual Result<void> Use(CollectivePlan plan) = 0;
  // Memory that calls work on with the fewest copies; page-aligned, zero. Goes with the group.
  // Errors: kUnsupported, kUnavailable for want of memory; kNotFound for what Allocate did not
  // give.
  virtual Result<void*> Allocate(std::size_t bytes) = 0;
  virtual Result<void> Release(void* memory) = 0;
  // From any thread: ends the call under way, if there is one, and the group, for this cause.
  virtual void Interrupt(const Error& cause) = 0;
};

}  // namespace espalier::runtime
