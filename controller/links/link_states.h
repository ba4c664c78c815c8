#pragma once

#include <span>
#include <vector>

#include "common/fabric/topology.h"
#include "controller/intents/intent.h"
#include "controller/links/link_health.h"
#include "controller/state/state.h"

namespace espalier::controller {

// The state of every link as it follows from the topology file, the operators' intents and the
// health of links; the one that brings State::topology there.
// Thread safety: the controller's loop thread. The references must outlive it.
class LinkStates {
 public:
  LinkStates(State& state, const LinkHealth& health);

  // By link, as the topology file has them.
  std::span<const fabric::LinkState> in_file() const { return in_file_; }
  // The state of a link if these were the intents.
  fabric::LinkState StateUnder(const Intents& intents, fabric::LinkId link) const;
  // The fabric if these were the intents; none: it would be as it is.
  std::optional<fabric::Topology> TopologyUnder(const Intents& intents) const;

  // Brings every link to the state that it should have now, and has OnlineAssigner take notice. The
  // links that changed. O(links + ways on lost links).
  std::vector<fabric::LinkId> Apply();
  // The ways whose path became unusable by the last Apply, ascending.
  std::span<const SubflowId> affected() const { return affected_; }

 private:
  State& state_;
  const LinkHealth& health_;
  const std::vector<fabric::LinkState> in_file_;
  std::vector<SubflowId> affected_;
};

}  // namespace espalier::controller
