#pragma once

#include <span>
#include <vector>

#include "common/fabric/topology.h"
#include "controller/intents/intent.h"
#include "controller/links/link_health.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Computes the state of every link from the topology file, the operators' intents and the health of
// links, and alone applies it to State::topology. A lossy link (State::link_faults) is DRAINED.
// Thread safety: the controller's loop thread. The references must outlive it.
class LinkStates {
 public:
  LinkStates(State& state, const LinkHealth& health);

  // The states in the topology file, by link.
  std::span<const fabric::LinkState> in_file() const { return in_file_; }
  // The state of a link under these intents.
  fabric::LinkState StateUnder(const Intents& intents, fabric::LinkId link) const;
  // The fabric under these intents; none: it would not change.
  std::optional<fabric::Topology> TopologyUnder(const Intents& intents) const;

  // Applies to every link the state that it should have, and updates OnlineAssigner. Returns the
  // links that changed. O(links + subflows on lost links).
  std::vector<fabric::LinkId> Apply();
  // The subflows whose path the last Apply made unusable, ascending.
  std::span<const SubflowId> affected() const { return affected_; }
  // Those of the links that the last Apply changed which went down or came back. Only then do
  // switches hash over other links than before: of a drain, only the controller knows.
  std::span<const fabric::LinkId> lost_or_returned() const { return lost_or_returned_; }

 private:
  State& state_;
  const LinkHealth& health_;
  const std::vector<fabric::LinkState> in_file_;
  std::vector<SubflowId> affected_;
  std::vector<fabric::LinkId> lost_or_returned_;
};

}  // namespace espalier::controller
