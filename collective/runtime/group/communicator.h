#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collective/program/collective_spec.h"
#include "collective/reduce/data_type.h"
#include "collective/runtime/calls/backend.h"
#include "collective/runtime/calls/group.h"
#include "collective/runtime/calls/medium.h"
#include "collective/runtime/program/active_plan.h"
#include "collective/transport/base/rendezvous_store.h"
#include "collective/transport/base/transport.h"
#include "collective/transport/rendezvous/group_credentials.h"
#include "common/base/result.h"

namespace espalier::runtime {

struct CommunicatorOptions {
  Medium medium = Medium::kShared;
  // Of joining, and of every call, from its beginning.
  std::chrono::milliseconds timeout{30'000};
  // TCP: the address that the others reach this rank at; verbs: that of its RoCEv2 device. Both:
  // connections to each peer for large data.
  std::string address = "127.0.0.1";
  int connections = 1;
  // TCP and verbs: by what the ranks know one another; without a key the address must be a loopback
  // address.
  transport::GroupCredentials members;
  // TCP: where this rank takes the connections of plans, so that a plan can know whole paths; 0:
  // any.
  std::uint16_t plan_port = 0;
  // Rank 0: a file of costs (docs/formats.md) by which all ranks choose algorithms for the sizes of
  // calls; empty: costs of a usual machine.
  std::string costs_file;
  // Does the calls of its collective, whatever their size, and wherever it can: an algorithm's name
  // over a transport; "small", "staged", "staged-streaming" or "single-copy" in shared memory. Empty: chosen by
  // size, and what is only copied by what takes least time.
  std::string algorithm;
  // Where the group's own memory comes from over TCP (slots of connections, scratch and staging of
  // programs); must outlive the group.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
  // Of the verification of plans (VerifyOptions): larger ones are refused.
  std::int64_t verification_budget = program::VerifyOptions().budget;
};

// A rank's membership of a group of ranks that do collectives together. All ranks make the same
// calls in the same order. Buffers may have any alignment and hold no elements; input and output
// are the same address (in place: see Operands) or do not overlap.
//
// Errors: kInvalidArgument, at once and with no effect on the group, for a buffer that is null,
// too large, or overlaps the other, or a root that is not there. All others end the group, for
// every rank, within the timeout: kFailedPrecondition where ranks make different calls;
// kUnavailable where a rank has died, has left or does not come; kPermissionDenied where one has
// another job key; kResourceExhausted where a rank
// has not the memory that a call needs. The message names the rank. Every later call gets the same
// error; make a new group, under another name, to go on. A rank that only sends (the root of a
// broadcast over TCP) may learn it in its next call. Outputs are then undefined, but nothing
// outside of them is ever written. Thread safety: one thread at a time; the calling thread does the
// work.
class Communicator : public Group {
 public:
  // The store must outlive the communicator.
  static Result<std::unique_ptr<Communicator>> Join(transport::RendezvousStore& store,
                                                    const std::string& name, int rank, int size,
                                                    const CommunicatorOptions& options);

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  // `count`: of elements in each buffer.
  Result<void> AllReduce(const void* input, void* output, std::size_t count, reduce::DataType type,
                         reduce::ReduceOp op);
  // Only the root has an output; the others' is ignored.
  Result<void> Reduce(const void* input, void* output, std::size_t count, reduce::DataType type,
                      reduce::ReduceOp op, int root);
  Result<void> Broadcast(void* buffer, std::size_t count, reduce::DataType type, int root);
  // `count`: of elements that one rank gives or gets, or one gets from another. The other buffer
  // has as many times `size` elements, in the order of the ranks.
  Result<void> AllGather(const void* input, void* output, std::size_t count, reduce::DataType type);
  Result<void> ReduceScatter(const void* input, void* output, std::size_t count,
                             reduce::DataType type, reduce::ReduceOp op);
  Result<void> AllToAll(const void* input, void* output, std::size_t count, reduce::DataType type);
  Result<void> Barrier();

  Result<void> Use(CollectivePlan plan) override;
  Result<void> Run(program::CollectiveKind kind, const void* input, void* output, std::size_t count,
                   reduce::DataType type, reduce::ReduceOp op,
                   int root = program::kNoRoot) override;
  Result<void> RunUnequal(program::CollectiveKind kind, const void* input, void* output,
                          std::span<const std::size_t> counts, reduce::DataType type,
                          reduce::ReduceOp op) override;
  // The generation of the plan for that collective; 0: none.
  std::uint64_t GenerationOf(program::CollectiveKind kind) const;

  // A registered buffer: calls between such buffers (or parts of them) need no copies on the way.
  // Any rank may allocate at any time, but only a call gains where all ranks' inputs are registered
  // and the outputs that others write (of a reduce, a broadcast, an allreduce). Errors:
  // kUnsupported over TCP too.
  Result<void*> Allocate(std::size_t bytes) override;
  Result<void> Release(void* memory) override;

  void Interrupt(const Error& cause) override;

 private:
  Communicator(transport::RendezvousStore& store, std::string name,
               std::unique_ptr<Backend> backend, int rank, int size,
               const CommunicatorOptions& options);

  Result<void> Call(program::CollectiveKind kind, const Operands& operands, int root);
  Result<void> Prepare(CollectivePlan plan);
  ActivePlan* FindPlan(const CallSignature& call) const;
  transport::WaitLimit OfOneCall() const;
  Error GiveUp(Error error);
  Result<void> CheckWait();

  transport::RendezvousStore& store_;
  std::string name_;
  std::unique_ptr<Backend> backend_;
  int rank_;
  int size_;
  CommunicatorOptions options_;
  std::shared_ptr<const UniqueFd> plan_listener_;
  std::vector<std::unique_ptr<ActivePlan>> plans_;  // one for a collective at most
  std::uint32_t calls_ = 0;
  std::uint32_t uses_ = 0;
  std::optional<Error> failure_;
  std::mutex interruption_mutex_;
  std::optional<Error> interruption_;  // guarded
  std::atomic<bool> is_interrupted_ = false;
};

}  // namespace espalier::runtime
