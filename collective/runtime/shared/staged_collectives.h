#pragma once

#include <cstddef>

#include "collective/reduce/reduce.h"
#include "collective/runtime/shared/area/shared_context.h"
#include "collective/runtime/shared/piece_exchange.h"
#include "collective/runtime/shared/shared_protocol.h"

namespace espalier::runtime {

// Runs calls whose data goes through slots of shared memory, piece by piece.
//
// Problem: ranks that cannot access each other's buffers copy data in and out, and copying a whole
// vector at once would cross memory twice more. Idea: pieces are as small as the slots, which stay
// in the caches. Each rank copies into its slots what others need, reduces its share of every
// rank's piece, and copies the other shares out; the three stages work on successive pieces.
// Invariant: memory sees each input and each output once, and a place is reused only after all
// ranks have read it (by PieceExchange, or in an allreduce by a barrier after each piece). Cost:
// one copy in and one out, within the caches, and a flag or a barrier for each piece.
class StagedCollectives : public SharedProtocol {
 public:
  // `stores`: the kind of stores into slots. Data in the writer's own cache is slow to fetch, so
  // there are only as many places as that cache holds. On some machines fetching anything that
  // another core has written is slow; streaming stores then bypass the caches. All protocols that
  // use the slots of one context must share `exchange`.
  StagedCollectives(SharedContext& context, PieceExchange& exchange, reduce::Stores stores)
      : context_(context),
        exchange_(exchange),
        slot_stores_(stores),
        rank_(context.rank()),
        size_(context.size()) {}

  Result<void> Run(const Operands& operands, const CallSignature& call) override;

 private:
  // The division of a rank's slots into places that pieces use in turn.
  struct Ring {
    std::size_t piece;   // bytes of each part in one place
    std::size_t stride;  // bytes of a place, which has a piece of every part
    std::size_t depth;   // number of places
  };

  std::size_t ranks() const { return static_cast<std::size_t>(size_); }
  Ring RingFor(std::size_t part_bytes, std::size_t parts) const;
  std::byte* place(int rank, const Ring& ring, std::size_t piece) const {
    return context_.area(rank).slots + piece % ring.depth * ring.stride;
  }
  Result<void> AllReduce(const Operands& operands);
  Result<void> AllGather(const Operands& operands);
  Result<void> Scatter(const Operands& operands, bool reduces);
  Result<void> Broadcast(const Operands& operands, int root);
  Result<void> ReduceToRoot(const Operands& operands, int root);

  SharedContext& context_;
  PieceExchange& exchange_;
  const reduce::Stores slot_stores_;
  const int rank_;
  const int size_;
};

}  // namespace espalier::runtime
