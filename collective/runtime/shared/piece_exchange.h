#pragma once

#include <cstddef>
#include <cstdint>

#include "collective/runtime/shared/shared_context.h"
#include "common/base/result.h"

namespace espalier::runtime {

// Who writes pieces, and who reads them: one rank, or all.
struct Roles {
  int writer = kAllRanks;
  int reader = kAllRanks;
};

// Passes pieces from writers to readers through places that are used over and over.
//
// Problem: copying into a place and copying out of it are to overlap, with one flag for each piece
// instead of a barrier. Idea: every rank counts the pieces of all calls that it has published and
// consumed, in its area; piece n of a call goes to place n modulo the number of places. Invariant:
// a writer is ahead of the slowest reader by no more pieces than there are places, and both
// counters of every rank advance by the number of pieces in every call, whatever its role. The next
// call begins when all have read, so that no piece is waited for at the end. Cost: for each piece,
// a write of a line and a look at one line of each peer. Thread safety: one thread at a time.
class PieceExchange {
 public:
  explicit PieceExchange(SharedContext& context) : context_(context) {}

  // publish(i) fills a place of this rank's with piece i, consume(i) reads those of the writers.
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
      // Of ranks that do not write too: what comes after is counted from there.
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
  std::uint32_t exchanged_ = 0;  // pieces of all calls
};

}  // namespace espalier::runtime
