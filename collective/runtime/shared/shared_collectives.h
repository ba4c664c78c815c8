#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "collective/runtime/calls/backend.h"
#include "collective/runtime/choice/cost_model.h"
#include "collective/runtime/shared/area/shared_context.h"
#include "collective/runtime/shared/area/shared_protocol_kind.h"
#include "collective/runtime/shared/piece_exchange.h"
#include "collective/runtime/shared/protocol_choice.h"
#include "collective/runtime/shared/single_copy_collectives.h"
#include "collective/runtime/shared/small_collectives.h"
#include "collective/runtime/shared/staged_collectives.h"
#include "collective/runtime/shared/zero_copy_collectives.h"
#include "collective/transport/shm/shared_group.h"
#include "collective/transport/shm/shm_transport.h"

namespace espalier::runtime {

// Runs the collectives of the ranks of one host in memory that all of them share.
//
// Problem: the cost of a call depends on how often its data crosses memory and how often ranks wait
// for each other, and no protocol is best in both for all sizes. Idea: several protocols, each in a
// class of its own, with a common entry. Each rank describes its call in its area (signature,
// buffers, choice of protocol), raises a flag, and waits for the flags of the others. All ranks
// then see the same descriptions and decide alike:
//   small (small_collectives.h): the data travels with the flag. One step.
//   zero-copy (zero_copy_collectives.h): between registered buffers, which all ranks map, without
//     intermediate copies. One barrier.
//   single-copy (single_copy_collectives.h): the kernel copies between processes. One barrier.
//   staged (staged_collectives.h), also with streaming stores: piece by piece through slots that
//     stay in the caches; memory sees each input and each output once.
// Invariant: a rank touches another rank's memory only between entry and the final barrier of a
// call. Inputs are reduced in the order of the ranks in one pass (16-bit floats are rounded once),
// so results are bit-identical on every rank, in every run and with every protocol.
// Among staged, streaming and single-copy, online tuning chooses for long calls
// (protocol_choice.h).
//
// Memory beyond the caller's: 4 slots of 1 MiB and 2 small ones for each rank, and the slots of
// messages between two ranks, as far as used.
// A failed call returns when no other rank reads or writes its memory any more. It waits at most 5
// s for a rank that is stopped, and its error then names that rank. Waiting: spins for some
// microseconds if every rank has a core, then yields, then sleeps.
class SharedCollectives : public Backend {
 public:
  // The bytes of shared memory that a group of `size` ranks needs.
  static std::size_t MemoryOf(int size);
  // The group must have MemoryOf(size) bytes. `costs` decide which allreduces use the small
  // protocol. `forced`: a protocol for all calls that can use it.
  SharedCollectives(std::unique_ptr<transport::SharedGroup> group, const Costs& costs,
                    std::optional<SharedProtocolKind> forced);

  Result<void> Run(const Operands& operands, const CallSignature& call,
                   const transport::WaitLimit& limit) override;
  Result<void> Enter(const CallSignature& call, const transport::WaitLimit& limit) override;
  MessagePath Messages() override { return {*messages_, 0}; }
  Result<void> Check() override { return context_.group().CheckPeers(); }
  void Abort(const Error& cause) override { context_.group().Abort(cause); }
  Result<std::byte*> Allocate(std::size_t bytes) override {
    return context_.registered().Allocate(bytes);
  }
  Result<void> Release(std::byte* memory) override { return context_.registered().Release(memory); }

 private:
  Result<void> RunCall(const Operands& operands, const CallSignature& call);
  // Writes this rank's description of a call that is not small.
  void DescribeCall(const Operands& operands, const CallSignature& call);
  Result<void> EnterWith(const Operands& operands, const CallSignature& call, bool is_small);
  // Runs a long call by the protocol that all ranks take.
  Result<void> RunLong(const Operands& operands, const CallSignature& call,
                       SharedProtocolKind protocol);
  Result<void> RunWithRemoteAccess(SharedProtocol& protocol, const Operands& operands,
                                   const CallSignature& call);

  SharedContext context_;
  std::unique_ptr<transport::Transport> messages_;  // in the group's memory
  ProtocolChoice choice_;
  PieceExchange exchange_;
  SmallCollectives small_;
  ZeroCopyCollectives zero_copy_;
  SingleCopyCollectives single_copy_;
  StagedCollectives staged_;
  StagedCollectives staged_streaming_;
};

}  // namespace espalier::runtime
