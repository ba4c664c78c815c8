#pragma once

#include <cstddef>

#include "collective/reduce/reduce.h"
#include "collective/runtime/shared/piece_exchange.h"
#include "collective/runtime/shared/shared_context.h"
#include "collective/runtime/shared/shared_protocol.h"

namespace espalier::runtime {

// Calls whose data goes through slots of shared memory, piece by piece.
//
// Problem: ranks that cannot reach one another's buffers copy in and copy out, and a vector that is
// copied as a whole crosses memory twice more. Idea: pieces are as small as the slots, which stay
// in the caches; each rank copies into its slot what others need, reduces its share of every rank's
// piece, and copies out the other shares, all three at work on successive pieces at the same time.
// Invariant: memory sees each input and each output once; a place is written again only when all
// have read it (PieceExchange; an all-reduce has a barrier after each piece instead). Cost: one
// copy in and one out, in the caches; a flag or a barrier for each piece.
class StagedCollectives : public SharedProtocol {
 public:
  // `stores`: into slots. What lies in a writer's own cache is slow to fetch, and on some machines
  // what another core has written at all: so there are as many places as its cache has room for,
  // and what is streamed goes past the caches. All that use slots of a context share an exchange.
  StagedCollectives(SharedContext& context, PieceExchange& exchange, reduce::Stores stores)
      : context_(context),
        exchange_(exchange),
        slot_stores_(stores),
        rank_(context.rank()),
        size_(context.size()) {}

  Result<void> Run(const Operands& operands, const CallSignature& call) override;

 private:
  // How pieces of the parts of a call go around in a rank's slots.
  struct Ring {
    std::size_t piece;   // bytes of each part
    std::size_t stride;  // between places, which have a piece of each
    std::size_t depth;   // places
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
