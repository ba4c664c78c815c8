#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "collective/runtime/calls/backend.h"
#include "collective/runtime/choice/cost_model.h"
#include "collective/runtime/choice/timed_choice.h"
#include "collective/runtime/shared/peer_memory.h"
#include "collective/runtime/shared/registered_memory.h"
#include "collective/runtime/shared/shared_way.h"
#include "collective/transport/shm/shared_group.h"

namespace espalier::runtime {

// What ranks have in the memory of all (shared_area.h).
struct SharedCall;
struct RankArea;

// Collectives of the ranks of one host, straight over memory that all of them see, five ways:
//   small: each rank writes its vector and a flag, and reduces all of them. One step.
//   slots: data goes through slots that stay in the caches, piece by piece. Each rank copies into
//     its slot what others need, reduces its share of every rank's piece, and copies out the other
//     shares: memory sees each input and each output once. Copying in, reducing and copying out
//     work on successive pieces at the same time.
//   streamed: the same, with stores past the caches into the slots.
//   read: each rank reads its peers' memory where it is (peer_memory.h), if all ranks may; one
//     barrier. A broadcast's root writes meanwhile the last part of each. Not for an alltoall in
//     place, nor for what all reduce.
//   direct, between registered buffers, which all ranks have mapped (what a kind needs: IsDirect):
//     each rank reads its peers' inputs where they are, and writes what it has reduced to all
//     outputs that have it. No copies on the way; one barrier.
// Inputs are reduced in the order of the ranks, in one pass (16-bit floats are rounded once), so
// that results are the same bits on every rank, in every run and whichever way is taken.
// Long calls go by the faster of two of slots, streamed and read, which one rank finds out in the
// calls (timed_choice.h).
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
                    std::optional<SharedWay> way);

  Result<void> Run(const Operands& operands, const CallSignature& call,
                   const transport::Patience& patience) override;
  Result<void> Check() override { return group_->CheckPeers(); }
  void Abort(const Error& cause) override { group_->Abort(cause); }
  Result<std::byte*> Allocate(std::size_t bytes) override { return registered_.Allocate(bytes); }
  Result<void> Release(std::byte* memory) override { return registered_.Release(memory); }

 private:
  struct Pieces;
  struct Ring;
  static constexpr int kAll = -1;
  // One rank, or all.
  struct Roles {
    int writer = kAll;
    int reader = kAll;
  };

  RankArea& area(int rank) const;
  // What a rank says of the call under way.
  SharedCall& call_of(int rank) const;
  std::byte* slot(int rank, std::size_t piece) const;
  std::byte* result_slot(int rank, std::size_t piece) const;

  Result<void> Enter(const Operands& operands, const CallSignature& call, bool is_small);
  void FetchPeers(std::size_t bytes) const;
  Result<void> AwaitPeer(transport::Counter& counter, std::uint32_t value, int peer);
  Result<void> Meet();
  void MeetMemories();
  bool IsSmall(const Operands& operands, const CallSignature& call) const;
  bool IsDirect(const CallSignature& call) const;
  Result<void> RunCall(const Operands& operands, const CallSignature& call);
  Result<void> RunDirect(const Operands& operands, const CallSignature& call);
  void ReduceSmall(const Operands& operands);
  // Between registered buffers (shared_mapped.cc).
  Result<const std::byte*> ReachInput(const Operands& operands, int peer);
  Result<std::byte*> ReachOutput(const Operands& operands, int peer);
  Result<void> RunMapped(const Operands& operands, const CallSignature& call);
  Result<void> CopyMapped(const Operands& operands, program::CollectiveKind kind);
  Result<void> SpreadMapped(const Operands& operands, int root);
  Result<void> ReduceMapped(const Operands& operands, const CallSignature& call);
  Result<void> AllReduceBySlots(const Operands& operands);
  // Writers publish and readers consume piece after piece: publish(i) fills a place of this rank's,
  // consume(i) reads those of the writers.
  template <typename Publish, typename Consume>
  Result<void> Exchange(std::size_t pieces, std::size_t depth, Roles roles, const Publish& publish,
                        const Consume& consume);
  // The longest of the ranks' parts, in pieces that fit so many bytes.
  Pieces LongestPart(const Operands& operands, std::size_t slot_bytes) const;
  reduce::Stores SlotStores() const;
  // For outputs of a part from each rank.
  reduce::Stores CopyStores(std::size_t part_bytes) const;
  Ring RingFor(std::size_t part_bytes, std::size_t parts) const;
  std::byte* place(int rank, const Ring& ring, std::size_t piece) const;
  Result<void> RunLong(const Operands& operands, const CallSignature& call);
  // The rank whose choice of a way all follow, and what it chooses.
  int ChooserOf(const CallSignature& call) const;
  SharedWay ChooseWay(const Operands& operands, const CallSignature& call);
  SharedWay WayOfAll(const CallSignature& call) const;
  Result<void> RunByReading(const Operands& operands, const CallSignature& call);
  Result<void> Collect(const Operands& operands, int root);
  Result<void> ReadParts(const Operands& operands, program::CollectiveKind kind);
  Result<void> Spread(const Operands& operands, int root);
  Result<void> AllGather(const Operands& operands);
  Result<void> Scatter(const Operands& operands, bool reduces);
  Result<void> Broadcast(const Operands& operands, int root);
  Result<void> ReduceToRoot(const Operands& operands, int root);

  std::unique_ptr<transport::SharedGroup> group_;
  RegisteredMemory registered_;
  PeerMemory memories_;
  Costs costs_;
  std::optional<SharedWay> way_;
  int rank_;
  int size_;
  std::size_t level2_bytes_ = 0;  // of rank 0's core
  std::uint32_t calls_ = 0;       // entered
  std::uint32_t meetings_ = 0;
  std::uint32_t exchanged_ = 0;  // pieces
  TimedChoice choice_;
  bool is_timed_ = false;  // this call is
  SharedWay long_way_ = SharedWay::kSlots;
  transport::Patience patience_{transport::Deadline()};
  CallSignature call_;
  reduce::Reduction reduction_;
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
};

}  // namespace espalier::runtime
