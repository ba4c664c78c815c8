#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "collective/runtime/calls/backend.h"
#include "collective/runtime/choice/cost_model.h"
#include "collective/runtime/shared/piece_exchange.h"
#include "collective/runtime/shared/protocol_choice.h"
#include "collective/runtime/shared/shared_context.h"
#include "collective/runtime/shared/shared_protocol_kind.h"
#include "collective/runtime/shared/single_copy_collectives.h"
#include "collective/runtime/shared/small_collectives.h"
#include "collective/runtime/shared/staged_collectives.h"
#include "collective/runtime/shared/zero_copy_collectives.h"
#include "collective/transport/shm/shared_group.h"

namespace espalier::runtime {

// Collectives of the ranks of one host, straight over memory that all of them see.
//
// Problem: what a call costs is how often its data crosses memory and how often ranks wait for one
// another, and no protocol has the least of both for all sizes. Idea: several protocols, each in a
// class of its own, and one entry that all of them share: a rank writes what it says of the call
// (its signature, where its buffers are, what way it chooses) into its area, raises a flag, and
// waits for the flags of the others; after that all ranks see the same, and decide alike:
//   small (small_collectives.h): the data comes along with the flag. One step.
//   mapped (mapped_collectives.h): between registered buffers, which all ranks have mapped: no
//     copies on the way. One barrier.
//   read (reading_collectives.h): each rank has the kernel read its peers' memory. One barrier.
//   slots (slot_collectives.h), and streamed, the same with stores past the caches: piece by piece
//     through slots that stay in the caches; memory sees each input and each output once.
// Invariant: a rank touches another's memory only between entry and the barrier of one call.
// Inputs are reduced in the order of the ranks, in one pass (16-bit floats are rounded once), so
// that results are the same bits on every rank, in every run and whichever way is taken.
// Which of slots, streamed and read a long call takes is found out in the calls (way_choice.h).
//
// Memory beyond the caller's: 4 slots of 1 MiB a rank and 2 small ones, as far as they are used.
// A call that fails returns when no other rank reads or writes its memory any more (one that is
// stopped is waited for no longer than 5 s, and named).
// Waiting: spins for some microseconds if every rank has a core, gives way, then sleeps.
class SharedCollectives : public Backend {
 public:
  // Bytes of shared memory that a group of so many ranks works in.
  static std::size_t MemoryOf(int size);
  // The group has that memory. Allreduces go by the way that costs say is faster, or always by
  // `way` where they can.
  SharedCollectives(std::unique_ptr<transport::SharedGroup> group, const Costs& costs,
                    std::optional<SharedProtocolKind> way);

  Result<void> Run(const Operands& operands, const CallSignature& call,
                   const transport::WaitLimit& patience) override;
  Result<void> Check() override { return context_.group().CheckPeers(); }
  void Abort(const Error& cause) override { context_.group().Abort(cause); }
  Result<std::byte*> Allocate(std::size_t bytes) override {
    return context_.registered().Allocate(bytes);
  }
  Result<void> Release(std::byte* memory) override { return context_.registered().Release(memory); }

 private:
  Result<void> RunCall(const Operands& operands, const CallSignature& call);
  // What this rank says of a call that is not small.
  void DescribeCall(const Operands& operands, const CallSignature& call);
  Result<void> Enter(const Operands& operands, const CallSignature& call, bool is_small);
  // The way that all ranks take.
  Result<void> RunLong(const Operands& operands, const CallSignature& call, SharedProtocolKind way);
  Result<void> RunBetweenPrograms(SharedProtocol& protocol, const Operands& operands,
                                  const CallSignature& call);

  SharedContext context_;
  ProtocolChoice choice_;
  PieceExchange exchange_;
  SmallCollectives small_;
  ZeroCopyCollectives mapped_;
  SingleCopyCollectives reading_;
  StagedCollectives slots_;
  StagedCollectives streamed_;
};

}  // namespace espalier::runtime
