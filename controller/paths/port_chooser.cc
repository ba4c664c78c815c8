#include "controller/paths/port_chooser.h"

#include <algorithm>

namespace espalier::controller {

using fabric::PortEntry;
using fabric::PortKey;
using fabric::PortTrust;

bool PortsInUse::Take(const PortKey& key, std::uint16_t port) {
  std::vector<std::uint16_t>& taken = ports_[key];
  if (std::find(taken.begin(), taken.end(), port) != taken.end()) return false;
  taken.push_back(port);
  return true;
}

void PortsInUse::Release(const PortKey& key, std::uint16_t port) {
  const auto found = ports_.find(key);
  if (found == ports_.end()) return;
  std::erase(found->second, port);
  if (found->second.empty()) ports_.erase(found);
}

bool PortsInUse::Exchange(const PortKey& key, std::uint16_t from, std::uint16_t to) {
  std::vector<std::uint16_t>& taken = ports_[key];
  if (std::find(taken.begin(), taken.end(), to) != taken.end()) return false;
  const auto left = from == 0 ? taken.end() : std::find(taken.begin(), taken.end(), from);
  if (left == taken.end()) {
    taken.push_back(to);
  } else {
    *left = to;
  }
  return true;
}

bool PortsInUse::IsTaken(const PortKey& key, std::uint16_t port) const {
  const auto found = ports_.find(key);
  return found != ports_.end() &&
         std::find(found->second.begin(), found->second.end(), port) != found->second.end();
}

namespace {

// Lower is better.
int Rank(const PortEntry& entry, std::uint16_t current) {
  if (entry.port == current && entry.trust != PortTrust::kReverify) return 0;
  switch (entry.trust) {
    case PortTrust::kVerified:
      return 1;
    case PortTrust::kPredicted:
      return 2;
    case PortTrust::kReverify:
      return 3;
  }
  return 4;
}

}  // namespace

std::optional<PortEntry> ChoosePort(const fabric::PathMap& map, const PortKey& key,
                                    fabric::PathIndex path, const PortsInUse& in_use, PortNeed need,
                                    std::uint16_t current,
                                    const std::function<int(std::uint16_t)>& doubt_of) {
  constexpr int kPerDoubt = 8;  // more than every rank
  std::optional<PortEntry> best;
  int best_rank = 0;
  for (const PortEntry& entry : map.Ports(key)) {
    if (entry.path != path) continue;
    // The own port of a flow that is not steered, which other flows may not be able to use.
    if (entry.port < fabric::kFirstRocePort && entry.port != current) continue;
    if (entry.trust == PortTrust::kReverify && need == PortNeed::kSure) continue;
    int rank = Rank(entry, current);
    if (best && rank >= best_rank) continue;
    if (in_use.IsTaken(key, entry.port)) continue;
    if (doubt_of) rank += kPerDoubt * doubt_of(entry.port);
    if (best && rank >= best_rank) continue;
    best = entry;
    best_rank = rank;
  }
  return best;
}

}  // namespace espalier::controller
