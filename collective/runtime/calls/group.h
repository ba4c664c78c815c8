#pragma once

#include <cstddef>
#include <span>

#include "collective/program/collective_spec.h"
#include "collective/reduce/data_type.h"
#include "collective/runtime/calls/collective_plan.h"
#include "collective/runtime/calls/exchange.h"
#include "common/base/result.h"

namespace espalier::runtime {

// One rank's membership of a group, with the calls that it can make. Implementations do the work in
// this process (group/communicator.h) or in the offload service (offload/offloaded_group.h).
class Group {
 public:
  virtual ~Group() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Runs any collective. `count` is the number of elements of one rank's part, as in Operands. A
  // broadcast has one buffer, which is both input and output; only the root of a reduce has an
  // output. alltonext and custom need a plan.
  virtual Result<void> Run(program::CollectiveKind kind, const void* input, void* output,
                           std::size_t count, reduce::DataType type, reduce::ReduceOp op,
                           int root) = 0;
  // Runs an allgather or a reduce_scatter with parts of unequal sizes: rank r gives or gets
  // counts[r] elements, and the other buffer holds all parts in the order of the ranks. An empty
  // part needs no buffer. All ranks pass the same counts. Plans cover equal parts only, so the call
  // ignores a plan in force.
  // Errors, beyond those of calls: kInvalidArgument for another collective, for other than one
  // count per rank, or for a sum that is larger than memory; the group is unaffected.
  virtual Result<void> RunUnequal(program::CollectiveKind kind, const void* input, void* output,
                                  std::span<const std::size_t> counts, reduce::DataType type,
                                  reduce::ReduceOp op) = 0;
  // Runs an exchange. Collective ones (exchange.h) are calls of the group like all others. Messages
  // are no such calls: a send and a receive match by their ranks and tag, in the order in which the
  // sender made them. A send returns when its buffer is free again. It may wait for its receive, so
  // the receiver makes no call before it for which the sender is needed.
  // Errors, beyond those of calls: those of CheckExchange, which leave the group unaffected;
  // kFailedPrecondition, with both ranks and sizes, if a block has another size than its receiver
  // expects; kResourceExhausted if a peer has sent too much under tags that nobody has received
  // (MessageExchange); kUnsupported.
  virtual Result<void> RunExchange(const Exchange& /*exchange*/) {
    return Fail(ErrorCode::kUnsupported,
                "this group cannot exchange messages, as a controller's job or the offload service "
                "makes its calls (create a group through a store, without offload)");
  }
  // Puts a plan in force for calls of its collective and root whose size is in its program's range.
  // It replaces the previous plan for that collective. All ranks call it between the same two
  // calls, with the same program and generation. It returns when all ranks have called it and the
  // plan's connections are open from its source ports.
  // Errors, beyond those of calls: those of CheckCollectivePlan, which leave the group unaffected;
  // kAlreadyExists for a port that is in use, which ends the group.
  virtual Result<void> Use(CollectivePlan plan) = 0;
  // Allocates and frees memory that calls work on with the fewest copies; page-aligned, zeroed. It
  // lives no longer than the group.
  // Errors: kUnsupported; kUnavailable if memory is short; kNotFound for memory that is not from
  // Allocate.
  virtual Result<void*> Allocate(std::size_t bytes) = 0;
  virtual Result<void> Release(void* memory) = 0;
  // Ends the call in progress, if any, and the group, with this cause. May be called from any
  // thread.
  virtual void Interrupt(const Error& cause) = 0;
};

}  // namespace espalier::runtime
