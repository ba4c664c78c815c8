#pragma once

#include <cstdint>
#include <optional>

#include "common/fabric/ecmp/path_map.h"
#include "common/fabric/paths.h"
#include "controller/paths/path_learner.h"
#include "controller/state/state.h"

namespace espalier::controller {

// The paths that the acknowledgements of TCP flows take. They leave from the server's fixed port,
// so that the flow's source port decides about both directions. The return path of a port is known
// if the topology file names the hashes on the way, or, where switches hash TCP as they hash
// probes, if a probe from the other end was answered that has the addresses and ports of the
// acknowledgements, or if such probes have shown that the hash is linear (LinearReturns).
//
// Paths are indices among those of the opposite direction. Silence means unknown, not dead.
// Thread safety: the controller's loop thread. The references must outlive it.
class ReturnPaths {
 public:
  ReturnPaths(const State& state, PathLearner& learner) : state_(state), learner_(learner) {}

  // Whether any link is down. O(1), but O(links) after a change of the topology.
  bool HasDeadLink();
  // Whether the acknowledgements of this flow, if it is of TCP, would come over a link that is
  // down, if the flow had this port.
  bool IsDead(const Flow& flow, std::uint16_t port);
  // The return path of a TCP flow's port, if it is known; none but for TCP.
  std::optional<fabric::PathIndex> Of(const Flow& flow, std::uint16_t port) const;
  // As Ask, if the flow is of TCP.
  void AskFor(const Flow& flow, std::uint16_t port) {
    if (flow.protocol == wire::kProtocolTcp) Ask(flow.key, port);
  }

  // The return path of this port as it is known, perhaps from before the last change of links.
  std::optional<fabric::PathIndex> PathOf(const fabric::PortKey& key, std::uint16_t port) const;
  // What becomes of packets on the return path, from best to worst.
  enum class Fate : std::uint8_t {
    kAlive,
    kDrained,  // alive, but one of its links is DRAINED
    kUnknown,
    kDead,  // it takes a link that is DOWN, or comes to a switch without any other
  };
  Fate FateOf(const fabric::PortKey& key, std::uint16_t port) const;
  // Whether a free source port of this path is known that has a better return path than `port`.
  // O(known ports of the key).
  bool IsBetterPortKnown(const fabric::PortKey& key, fabric::PathIndex path,
                         std::uint16_t port) const;
  // Orders a probe from the other end, unless the return path is known, or was asked for since
  // links changed. What a recognised hash predicts is probed all the same.
  void Ask(const fabric::PortKey& key, std::uint16_t port);
  // Asks for the return paths of kSpares ports of each path of the key, of its first kMostPaths
  // paths, so that a good port is known when one is needed; not for those that are predicted.
  // O(known ports of the key).
  void AskSpares(const fabric::PortKey& key);
  static constexpr int kSpares = 2;
  static constexpr std::size_t kMostPaths = 16;

 private:
  const State& state_;
  PathLearner& learner_;
  std::int64_t seen_version_ = -1;  // version of the topology for which has_dead_link_ was computed
  bool has_dead_link_ = false;
};

}  // namespace espalier::controller
