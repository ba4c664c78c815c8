#include "controller/placement/return_paths.h"

#include <array>

#include "controller/paths/return_key.h"

namespace espalier::controller {

std::optional<fabric::PathIndex> ReturnPaths::PathOf(const fabric::PortKey& key,
                                                     std::uint16_t port) const {
  if (const auto predicted = learner_.PredictReturn(key, port).path) return predicted;
  if (!PathLearner::CanProbe(key)) return std::nullopt;
  const auto seen = state_.path_map.Find(ReturnKeyOf(key, port), key.destination_port);
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
  return fabric::IsAlive(state_.topology, paths[path->Index()]) ? Fate::kAlive : Fate::kDead;
}

void ReturnPaths::Ask(const fabric::PortKey& key, std::uint16_t port) {
  if (port == 0 || !PathLearner::CanProbe(key) || learner_.PredictReturn(key, port).path) return;
  const fabric::PortKey back = ReturnKeyOf(key, port);
  const auto seen = state_.path_map.Find(back, key.destination_port);
  if (seen && seen->trust == fabric::PortTrust::kVerified) return;
  learner_.VerifyOnce(back, key.destination_port);
}

void ReturnPaths::AskSpares(const fabric::PortKey& key) {
  std::array<int, kMostPaths> asked{};
  for (const fabric::PortEntry& entry : state_.path_map.Ports(key)) {
    if (entry.port < fabric::kFirstRocePort || entry.path.Index() >= kMostPaths) continue;
    if (asked[entry.path.Index()]++ < kSpares) Ask(key, entry.port);
  }
}

}  // namespace espalier::controller
