#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
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
#include "collective/runtime/calls/exchange.h"
#include "collective/runtime/calls/group.h"
#include "collective/runtime/calls/medium.h"
#include "collective/runtime/exchange/message_exchange.h"
#include "collective/runtime/program/active_plan.h"
#include "collective/transport/base/rendezvous_store.h"
#include "collective/transport/base/send_observer.h"
#include "collective/transport/base/transport.h"
#include "collective/transport/hosts/host_map.h"
#include "collective/transport/rendezvous/group_credentials.h"
#include "common/base/address/ip_address.h"
#include "common/base/result.h"

namespace espalier::runtime {

struct CommunicatorOptions {
  Medium medium = Medium::kShared;
  // Limits joining, and each call from its begin.
  std::chrono::milliseconds timeout{30'000};
  // Limits joining instead, for a join that is a part of another one.
  std::optional<transport::Deadline> join_by;
  // TCP: the address at which other ranks reach this one; verbs: that of its RoCEv2 device.
  std::string address = "127.0.0.1";
  // Hosts: by what ranks of the same host recognise each other. Empty: by their address.
  std::string host;
  // TCP and verbs: connections to each peer for large data.
  int connections = 1;
  // TCP and verbs: by what the ranks recognise each other. Without a key the address must be a
  // loopback address.
  transport::GroupCredentials members;
  // TCP: the port where this rank accepts the connections of plans. A plan can choose source ports
  // for a path only if it knows this port. 0: any.
  std::uint16_t plan_port = 0;
  // Rank 0: a file of costs (docs/formats.md) by which all ranks choose algorithms for call sizes.
  // Empty: the costs of a typical machine.
  std::string costs_file;
  // Forces an algorithm for its collective at every size where it can run: an algorithm's name over
  // a transport, or "small", "staged", "staged-streaming" or "single-copy" in shared memory. Empty:
  // chosen by size, and in shared memory also by online tuning.
  std::string algorithm;
  // TCP: source of the group's own memory (slots of connections, scratch and staging of programs);
  // must outlive the group.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
  // TCP: is told when the connections of plans send; must outlive the group. Null: nobody.
  transport::SendObserver* observer = nullptr;
  // The budget for the verification of plans (VerifyOptions); larger plans are refused.
  std::int64_t verification_budget = program::VerifyOptions().budget;
};

// A rank's membership of a group whose collectives run in this process. All ranks make the same
// calls in the same order. Buffers may have any alignment and may be empty. Input and output are
// the same memory (in place: see Operands) or do not overlap. A broadcast is always in place; it is
// the only call in place that RetryingGroup can repeat.
//
// Errors: kInvalidArgument, at once and without effect on the group, for a buffer that is null, too
// large or overlaps the other, and for a root that is not a rank. All other errors end the group on
// every rank within the timeout: kFailedPrecondition if ranks make different calls; kUnavailable if
// a rank has died, has left or is missing; kPermissionDenied if a rank has another job key;
// kResourceExhausted if a rank lacks memory for a call. The message names the rank. Later calls
// return the same error; to go on, join a new group under another name. A rank that only sends (the
// root of a broadcast over TCP) may get the error in its next call. Outputs are then undefined, but
// memory outside of them is never written.
// Thread safety: one thread at a time; the calling thread does the work.
class Communicator : public Group {
 public:
  // The store must outlive the communicator.
  static Result<std::unique_ptr<Communicator>> Join(transport::RendezvousStore& store,
                                                    const std::string& name, int rank, int size,
                                                    const CommunicatorOptions& options);

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  // `count`: elements in each buffer.
  Result<void> AllReduce(const void* input, void* output, std::size_t count, reduce::DataType type,
                         reduce::ReduceOp op);
  // Only the root has an output; `output` of other ranks is ignored.
  Result<void> Reduce(const void* input, void* output, std::size_t count, reduce::DataType type,
                      reduce::ReduceOp op, int root);
  Result<void> Broadcast(void* buffer, std::size_t count, reduce::DataType type, int root);
  // `count`: elements of one rank's part; in an alltoall, of what one rank gets from another one.
  // The other buffer (both, in an alltoall) holds `size` parts, in the order of the ranks.
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
  Result<void> RunExchange(const Exchange& exchange) override;
  // The generation of the plan in force for that collective; 0: none.
  std::uint64_t GenerationOf(program::CollectiveKind kind) const;

  // Allocates a registered buffer. Calls between such buffers, or parts of them, need no
  // intermediate copies. Any rank may allocate at any time, but a call gains only if all ranks'
  // inputs are registered, and also the outputs that other ranks write (of a reduce, broadcast or
  // allreduce). Errors: kUnsupported over TCP and verbs.
  Result<void*> Allocate(std::size_t bytes) override;
  Result<void> Release(void* memory) override;

  void Interrupt(const Error& cause) override;

  // For groups that are made of this one (split.h, reform.h).
  transport::RendezvousStore& store() const { return store_; }
  const std::string& name() const { return name_; }
  const CommunicatorOptions& options() const { return options_; }
  // The number of calls that all ranks have begun.
  std::uint32_t calls() const { return calls_; }
  // Whether a rank has certainly ended or left; false if that is unknown. Also after a failure.
  bool HasLost(int peer) const { return backend_->Messages().transport.HasLost(peer); }

 private:
  Communicator(transport::RendezvousStore& store, std::string name,
               std::unique_ptr<Backend> backend, int rank, int size,
               const CommunicatorOptions& options, transport::HostMap hosts);

  // `deadline`: none: the timeout from now.
  Result<void> Call(program::CollectiveKind kind, const Operands& operands, int root,
                    std::optional<transport::Deadline> deadline = {});
  Result<void> Prepare(CollectivePlan plan);
  Result<void> ListenFor(const CollectivePlan& plan);
  ActivePlan* FindPlan(const CallSignature& call) const;
  transport::WaitLimit OfOneCall() const;
  Error GiveUp(Error error);
  Result<void> CheckWait();

  transport::RendezvousStore& store_;
  std::string name_;
  std::unique_ptr<Backend> backend_;
  MessageExchange exchange_;  // over the backend's transport
  int rank_;
  int size_;
  CommunicatorOptions options_;
  transport::HostMap hosts_;
  std::shared_ptr<const UniqueFd> plan_listener_;
  std::map<IpAddress, std::shared_ptr<const UniqueFd>> more_listeners_;  // of plans, same port
  std::vector<std::unique_ptr<ActivePlan>> plans_;  // at most one for each collective
  std::uint32_t calls_ = 0;
  std::uint32_t uses_ = 0;
  std::optional<Error> failure_;
  std::mutex interruption_mutex_;
  std::optional<Error> interruption_;  // guarded
  std::atomic<bool> is_interrupted_ = false;
};

}  // namespace espalier::runtime
