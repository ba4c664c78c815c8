#pragma once

#include <cstddef>
#include <cstdint>

#include "collective/runtime/shared/area/shared_context.h"
#include "common/base/result.h"

namespace espalier::runtime {

// The ranks that write pieces and those that read them: one rank, or all.
struct Roles {
  int writer = kAllRanks;
  int reader = kAllRanks;
};

// Passes pieces from writers to readers through places that are reused in turn.
//
// Problem: copies into and out of places should overlap, with one flag for each piece instead of a
// barrier. Idea: every rank counts in its area the pieces that it has published and consumed in all
// calls; piece n of a call uses place n modulo the number of places. Invariant: a writer is ahead
// of the slowest reader by at most the number of places, and both counters of every rank advance by
// the number of pieces in every call, whatever its role. The next call starts only after all ranks
// have arrived in it and thus read everything, so a call does not end with a wait. Cost: for each
// piece, one cache line written and one line read for each peer. Thread safety: one thread at a
// time.
class PieceExchange {
 public:
  explicit PieceExchange(SharedContext& context) : context_(context) {}

  // publish(i) copies piece i into a place of this rank; consume(i) reads piece i of all writers.
  // Errors: those of SharedContext::AwaitPeer.
  template <typename Publish, typename Consume>
  Result<void> Run(std::size_t pieces, std::size_t places, Roles roles, const Publish& publish,
                   const Consume& consume) {
    const std::uint32_t before = exchanged_;
    exchanged_ += static_cast<std::uint32_t>(pieces);
    const int rank = context_.rank();
    const auto number = [&](std::size_t piece) {
      return before + static_cast<std::uint32_t>(piece) + 1;
    };
    const bool writes = roles.writer == kAllRanks || roles.writer == rank;
    const bool reads = roles.reader == kAllRanks || roles.reader == rank;
    for (std::size_t i = 0; i <= pieces && pieces > 0; ++i) {
      if (writes && i < pieces) {
        if (i >= places) {
          auto free = Await(roles.reader, &RankArea::consumed, number(i - places));
          if (!free) return free;
        }
        publish(i);
      }
      // Ranks that do not write advance their counters, too, as later calls count from there.
      if (i < pieces) context_.area(rank).published.Set(number(i));
      if (i == 0) continue;
      if (reads) {
        auto there = Await(roles.writer, &RankArea::published, number(i - 1));
        if (!there) return there;
        consume(i - 1);
      }
      context_.area(rank).consumed.Set(number(i - 1));
    }
    return {};
  }

 private:
  Result<void> Await(int who, transport::Signal RankArea::*counter, std::uint32_t number) {
    for (int peer = 0; peer < context_.size(); ++peer) {
      if (peer == context_.rank() || (who != kAllRanks && peer != who)) continue;
      auto done = context_.AwaitPeer(context_.area(peer).*counter, number, peer);
      if (!done) return done;
    }
    return {};
  }

  SharedContext& context_;
  std::uint32_t exchanged_ = 0;  // pieces in all calls so far
};

}  // namespace espalier::runtime
