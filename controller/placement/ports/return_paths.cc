#include "controller/placement/ports/return_paths.h"

#include <algorithm>
#include <array>
#include <utility>

#include "controller/paths/models/return_key.h"

namespace espalier::controller {

bool ReturnPaths::HasDeadLink() {
  if (std::exchange(seen_version_, state_.topology.version()) != state_.topology.version()) {
    has_dead_link_ = std::ranges::any_of(state_.topology.links(), [](const fabric::Link& link) {
      return link.state == fabric::LinkState::kDown;
    });
  }
  return has_dead_link_;
}

bool ReturnPaths::IsDead(const Flow& flow, std::uint16_t port) {
  if (flow.protocol != wire::kProtocolTcp || port == 0 || !HasDeadLink()) return false;
  return FateOf(flow.key, port) == Fate::kDead;
}

std::optional<fabric::PathIndex> ReturnPaths::Of(const Flow& flow, std::uint16_t port) const {
  if (flow.protocol != wire::kProtocolTcp || port == 0) return std::nullopt;
  return PathOf(flow.key, port);
}

std::optional<fabric::PathIndex> ReturnPaths::PathOf(const fabric::PortKey& key,
                                                     std::uint16_t port) const {
  const auto predicted = learner_.PredictReturn(key, port);
  if (!predicted.is_learned && (predicted.path || predicted.is_lost)) return predicted.path;
  if (!learner_.CanProbe(key)) return std::nullopt;
  const auto seen = state_.path_map.Find(ReturnKeyOf(key, port), key.destination_port);
  const bool is_sure = seen && seen->trust == fabric::PortTrust::kVerified;
  if (predicted.path && !is_sure) return predicted.path;
  return seen ? std::optional(seen->path) : std::nullopt;
}

ReturnPaths::Fate ReturnPaths::FateOf(const fabric::PortKey& key, std::uint16_t port) const {
  if (learner_.PredictReturn(key, port).is_lost) return Fate::kDead;
  const auto path = PathOf(key, port);
  const auto from = state_.paths.FindAttachment(key.destination);
  const auto to = state_.paths.FindAttachment(key.source);
  if (!path || !from || !to) return Fate::kUnknown;
  const auto paths = state_.paths.Between(from->leaf, to->leaf);
  if (path->Index() >= paths.size()) return Fate::kUnknown;
  const fabric::Path& back = paths[path->Index()];
  if (!fabric::IsAlive(state_.topology, back)) return Fate::kDead;
  return fabric::IsUsable(state_.topology, back) ? Fate::kAlive : Fate::kDrained;
}

bool ReturnPaths::IsBetterPortKnown(const fabric::PortKey& key, fabric::PathIndex path,
                                    std::uint16_t port) const {
  const Fate present = FateOf(key, port);
  return std::ranges::any_of(state_.path_map.Ports(key), [&](const fabric::PortEntry& entry) {
    return entry.path == path && entry.port >= fabric::kFirstRocePort &&
           !state_.flow_paths.ports().IsTaken(key, entry.port) && FateOf(key, entry.port) < present;
  });
}

void ReturnPaths::Ask(const fabric::PortKey& key, std::uint16_t port) {
  if (port == 0 || !learner_.CanProbe(key)) return;
  const auto predicted = learner_.PredictReturn(key, port);
  if (predicted.path && !predicted.is_learned) return;
  const fabric::PortKey back = ReturnKeyOf(key, port);
  const auto seen = state_.path_map.Find(back, key.destination_port);
  if (seen && seen->trust == fabric::PortTrust::kVerified) return;
  learner_.VerifyOnce(back, key.destination_port);
}

void ReturnPaths::AskSpares(const fabric::PortKey& key) {
  std::array<int, kMostPaths> asked{};
  for (const fabric::PortEntry& entry : state_.path_map.Ports(key)) {
    if (entry.port < fabric::kFirstRocePort || entry.path.Index() >= kMostPaths) continue;
    if (asked[entry.path.Index()]++ < kSpares && !learner_.PredictReturn(key, entry.port).path) {
      Ask(key, entry.port);
    }
  }
}

}  // namespace espalier::controller
