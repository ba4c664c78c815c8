#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "agent/flows/flow_actuator.h"
#include "agent/flows/flow_source.h"
#include "proto/messages.h"

namespace espalier::agent {

// Holds the path set of each flow: what the controller pushed, and what is in force.
//
// Pushes are fenced by epoch and generation. A push of an epoch below the highest seen is stale.
// A difference applies only on top of the preceding generation, or in a new epoch on top of an
// empty table. Otherwise the agent asks for a full push. A generation that was applied before is
// acknowledged again and changes nothing.
//
// A full push leaves the paths of flows alone whose pushed paths it repeats. So a controller that
// restarts moves nothing, and local reroutes survive. A difference overrides, unless it only brings
// other standby paths. Standby paths are kept here, and the actuator never sees them.
// Thread safety: one thread. Complexity: O(log flows) for each path set.
class PortTable {
 public:
  explicit PortTable(FlowActuator& actuator) : actuator_(actuator) {}

  wire::Ack HandlePush(const wire::PathPush& push);
  // Forgets flows that have ended, and applies paths that were pushed before their flow opened.
  // Paths that an earlier agent gave a flow and that are still in force count as pushed, so that a
  // controller can adopt them or withdraw them by a full push, or their lease can expire. Input:
  // all open flows, ascending by id.
  void HandleFlows(std::span<const FlowSample> flows);
  // Puts paths in force that the agent chose itself. Standby paths that the flow leaves are none
  // any more, until the next push. On an error (those of FlowActuator::Apply) nothing changes.
  Result<void> RerouteLocally(const wire::PathSet& paths);
  // The flows that have been taken off dead paths since the last call, by the controller or
  // locally.
  std::vector<wire::LocalFlowId> TakeMovedOffDead() { return std::exchange(moved_off_dead_, {}); }
  // Lifts all rate limits, which nobody adapts any more; paths stay. The next push sets them again.
  // Returns the number of flows that had one.
  std::size_t LiftRates();
  // Returns a flow to plain ECMP, as the controller does not know it any more.
  void Withdraw(wire::LocalFlowId flow);
  // Returns all flows to plain ECMP; the next push has to be full. Returns the number of flows.
  std::size_t Expire();

  // The number of flows with a rate limit in force.
  std::size_t CountRates() const;
  // Returns the paths in force; nullptr if the flow is on plain ECMP.
  const wire::PathSet* Find(wire::LocalFlowId flow) const;
  // The flow's standby paths (wire::FlowPath::IsStandby), as they were last pushed, on which it is
  // not already.
  std::vector<wire::FlowPath> StandbysOf(wire::LocalFlowId flow) const;
  bool HasStandby(wire::LocalFlowId flow) const;
  // True if operators do not want this flow steered: it stays on plain ECMP, also while the
  // controller is silent, and is not rerouted locally.
  bool IsUnsteered(wire::LocalFlowId flow) const { return unsteered_.contains(flow); }
  std::size_t CountUnsteered() const { return unsteered_.size(); }
  // True if the controller pushed this port and the flow has paths in force.
  bool IsSteered(wire::LocalFlowId flow, std::uint16_t port) const;

  std::uint64_t highest_epoch() const { return epoch_; }
  // The last generation applied in that epoch; 0 if the next push has to be full.
  std::uint64_t applied_generation() const { return has_base_ ? generation_ : 0; }

 private:
  struct Entry {
    wire::PathSet pushed;    // with standbys; empty: the agent rerouted a flow without a push
    wire::PathSet in_force;  // without standbys; empty: the flow has not opened yet
  };

  // Whether the flow may go to this path.
  static bool IsFreeStandby(const Entry& entry, const wire::FlowPath& path);
  void Adopt(std::span<const FlowSample> flows);
  bool ApplySet(const wire::PathSet& set, bool full);
  // Copies what a push has told of the links of paths to the paths in force, also to those that the
  // agent chose itself.
  static void TellLinks(Entry& entry, bool full);
  // Changes only the rate limit, also of paths that the agent chose itself.
  bool SetRate(Entry& entry, std::uint64_t bits_per_second);
  void NoteUnsteered(const wire::PathPush& push);
  bool HasPushed() const;

  FlowActuator& actuator_;
  std::uint64_t epoch_ = 0;
  std::uint64_t generation_ = 0;
  bool has_base_ = true;  // the table is at generation_; false: only a full push applies
  std::map<wire::LocalFlowId, Entry> entries_;
  std::vector<wire::LocalFlowId> moved_off_dead_;
  std::set<wire::LocalFlowId> unsteered_;  // without entries
};

}  // namespace espalier::agent
