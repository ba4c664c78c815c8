#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <vector>

#include "common/base/time/event_loop.h"
#include "common/fabric/ecmp/path_map.h"
#include "controller/paths/models/rehash_detector.h"

namespace espalier::controller {

// The pairs of leaves between which some paths have no source port, and which of them to look at
// again: the routes of these paths may have come back, and nothing tells the controller. A few
// pairs have their turn every few seconds, so that in a polarised fabric, where such paths never
// come back, probing stays cheap.
//
// Deterministic: times are arguments. Thread safety: none. Complexity: O(log pairs), Forget
// O(pairs).
class UnreachablePairs {
 public:
  using LeafPair = RehashScope::LeafPair;

  bool Contains(const LeafPair& pair) const { return pairs_.contains(pair); }
  // `key`: of a flow between these leaves, whose known ports show it.
  void Add(const LeafPair& pair, const fabric::PortKey& key) { pairs_.emplace(pair, key); }
  void Forget(const RehashScope& scope);

  // The keys whose turn it is. Forgets the pairs of which this no longer holds.
  using Holds = std::function<bool(const LeafPair&, const fabric::PortKey&)>;
  std::vector<fabric::PortKey> Take(TimePoint now, const Holds& holds);
  // How often keys have had their turn: for a choice of other ports each time.
  std::size_t rounds() const { return rounds_; }

 private:
  std::map<LeafPair, fabric::PortKey> pairs_;
  LeafPair last_;
  std::size_t rounds_ = 0;
  TimePoint next_;
};

}  // namespace espalier::controller
