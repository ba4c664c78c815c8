#include "collective/transport/tcp/late_rank.h"

#include <algorithm>

namespace espalier::transport {

std::optional<int> FindLateRank(int rank, int ranks, std::span<const PeerInCall> peers) {
  const auto is_present = [&](int one) {
    return one == rank || std::ranges::any_of(peers, [&](const PeerInCall& peer) {
             return peer.peer == one && peer.has_entered;
           });
  };
  std::optional<int> late;
  for (const PeerInCall& peer : peers) {
    if (!peer.is_awaited) continue;
    const std::optional<int> one = peer.has_entered ? peer.named : peer.peer;
    if (!one || *one < 0 || *one >= ranks || is_present(*one)) continue;
    late = std::min(late.value_or(*one), *one);
  }
  return late;
}

}  // namespace espalier::transport
