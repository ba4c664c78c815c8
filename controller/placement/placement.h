#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "controller/paths/path_learner.h"
#include "controller/placement/load_summary.h"
#include "controller/placement/reassigner.h"
#include "controller/planning/failure_plans.h"
#include "controller/planning/foresight.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"

namespace espalier::controller {

// One flow that an action moves (or would).
struct FlowMove {
  std::string flow;
  std::string job;
  std::string from;  // State::Via; "" = ECMP
  std::string to;
  std::int64_t bytes_in_flight = 0;  // of its ways that move, by the last report
};

// Decides paths and ports of every flow. New flows and those whose path broke are placed one by one
// on what is there (LivePaths): a new flow may move a few live ones where a link of its leaves
// would carry more than an even share otherwise, one whose path broke moves nobody. Recompute
// assigns all anew on the operator's word (Assigner). A live flow that moves keeps its port until
// one is known that takes the new path, unless its path is dead.
//
// All decisions end in State (status, paths, ports, dirty); nothing is sent here.
// Thread safety: the controller's loop thread.
class Placement {
 public:
  Placement(State& state, PathLearner& learner, const ControllerOptions& options);

  // A flow was just opened: finds its ends and whether it needs paths. `steered_ports`: what an
  // earlier controller gave it (or its agent drew), in the order of its paths (0: unknown); it
  // keeps those paths that a probe can tell.
  void Admit(FlowSlot slot, std::span<const std::uint16_t> steered_ports);
  // The flow ends: gives back paths and ports.
  void Release(FlowSlot slot);

  struct Placed {
    std::size_t flows = 0;    // new ones that were looked at
    std::size_t planned = 0;  // of them those that a plan was ready for
    std::size_t moved = 0;    // live ones that made room for them
  };
  // Assigns paths to all new flows at once, by job and then flow, and ports where the map knows
  // them. First those for which a plan holds, then the others on top of them, each of which may
  // move `most_moves` live ways. What carries more than an even share since flows ended is brought
  // down, too, by as many moves for each end and what is left of the starts'.
  Placed PlaceNew(Foresight& foresight, std::size_t most_moves);
  // The map has learned something of this key: gives ports to flows that wait for one, and other
  // ports to flows whose port turned out to lead elsewhere.
  void Revisit(const fabric::PortKey& key);
  // Adopting flows that no probe has found: they are placed like new ones.
  void EndAdoption(AgentId agent);

  // A flow that has left its paths; all that there is to tell of it, as it may end before that.
  struct Rerouted {
    FlowSlot slot;
    AgentId agent;
    wire::LocalFlowId local;
    std::shared_ptr<const std::string> job;
    fabric::NodeId source_leaf;
    fabric::NodeId destination_leaf;
    // By index into PathTable::Between: those that it left, then those that it took.
    std::array<std::int32_t, 2 * kMaxWays> paths{};
    std::size_t left = 0;
    std::size_t all = 0;

    std::span<const std::int32_t> from() const { return std::span(paths).first(left); }
    std::span<const std::int32_t> to() const { return std::span(paths).subspan(left, all - left); }
  };
  // This element has just failed, and left these ways stranded: those with a plan take it. Those
  // without are left to HandleLinkChange. Agent by agent, each of which is `decided` then: it need
  // not wait for the others. O(stranded log stranded).
  std::vector<Rerouted> TakeFailurePlan(FailurePlans& plans, FailurePlans::Element element,
                                        std::span<const LivePaths::Way> stranded,
                                        const std::function<void(AgentId)>& decided);
  // For operators, at any time later; with the bytes in flight of those that are still open.
  std::vector<FlowMove> Describe(std::span<const Rerouted> rerouted);
  // The loads of the flows that are open now, were the links as in `topology` and had these flows
  // not left their paths, as far as all of these were usable then. O(flows + links).
  LoadSummary SummarizeBefore(const fabric::Topology& topology, std::span<const Rerouted> rerouted);
  // Has those ports of the flow looked at that no probe has found to lead to their paths in the
  // fabric as it is.
  void VerifyPorts(FlowSlot slot);
  // Links have changed (State::topology). Paths that are no longer usable are given up, and their
  // flows placed anew: at once where the path is dead, at a message boundary where it is drained.
  std::vector<Rerouted> HandleLinkChange();
  // A link is usable again: flows that had no path are placed.
  void RetryUnroutable();

  struct Recomputation {
    std::vector<FlowMove> moves;
    LoadSummary before;
    LoadSummary after;
  };
  // Assigns all flows anew, from an empty fabric, by the algorithm of the options, and moves those
  // whose path differs, where that lowers the maximum load or (at the same load) makes the slower
  // jobs faster, by these weights; else nothing moves. Of assignments that are as good the one with
  // fewer bytes in flight to move, and never more than `max_moved_bytes` of them: where all anew
  // would take more, what there is is repaired as far as that goes. With dry_run only tells.
  Recomputation Recompute(const IntentById& weights, bool dry_run,
                          std::int64_t max_moved_bytes = Reassigner::kNoLimit);

  // What HandleLinkChange and then (with `new_weights`) Recompute would do if the fabric were as
  // `trial`, which differs from the present one in its links' states only. O(flows), as all that is
  // there is tried on a copy.
  Recomputation TryLinkChange(const fabric::Topology& trial, const IntentById* new_weights);

  // The agent left a dead path by itself and draws its own port: finds out where it is now. The
  // port that it left is not chosen for it again (its last kMostLeftPorts are not): more than the
  // path may have been wrong with it, as acknowledgements go their own way back.
  void HandleRedraw(FlowSlot slot, std::uint32_t left_path, std::uint16_t port, TimePoint now);
  // A drawn port leads anywhere, also to where another flow is. Where flows that were redrawn some
  // time ago carry a link above an even share, others make room by at most `most_moves` for each:
  // rather those that were not redrawn, which have not just found a path that works. The time is
  // for hosts to tell whether the path that was left, which looks free now, is dead for all: less
  // where some link is known to be. How many flows moved. To be called now and then; O(flows that
  // were redrawn).
  std::size_t MakeRoomForRedrawn(TimePoint now, std::size_t most_moves);

 private:
  std::vector<FlowSlot> InOrder(std::vector<FlowSlot> slots) const;
  void SetStatus(FlowSlot slot, FlowStatus status);

  // Paths.
  void AddWay(FlowSlot slot, std::uint32_t index);
  void PlaceWay(const FlowWay& way, std::int32_t path);
  void RemoveWay(FlowWay& way);
  // From now on it counts as live when others need room.
  void SetLive(const Flow& flow);
  // By the plan, if that holds or is within limits; the flows that moved for it go to `others`.
  bool TakePlanned(FlowSlot slot, const Foresight::Planned& planned, std::set<FlowSlot>& others);
  // Finds paths for all ways of these flows that have none; each may move `most_moves` live ways
  // to other paths. The other flows that moved.
  std::set<FlowSlot> FindPaths(std::span<const FlowSlot> slots, std::size_t most_moves);

  // Brings links down that carry more than an even share since others ended, by at most so many
  // moves. The flows that moved.
  std::set<FlowSlot> Repair(std::size_t most_moves);

  // Ports.
  bool LeadsToItsPath(const Flow& flow, const FlowWay& way) const;
  void SetPort(Flow& flow, FlowWay& way, std::uint16_t port);
  std::optional<fabric::PortEntry> FindPort(const Flow& flow, const FlowWay& way,
                                            std::uint16_t preferred);
  // kRouted if the map knows a port for each of the flow's paths, else kLearning and a probe is
  // asked for.
  void ChoosePorts(FlowSlot slot, wire::PathReason reason);
  // Has its ways look for other ports where theirs were given up; whether there are such.
  bool LeavePortsGivenUp(Flow& flow);
  // A way that leaves a broken path takes the port of its escape, if that is free and is known to
  // lead to its path.
  bool TakePort(Flow& flow, FlowWay& way, const FailurePlans::Escape& escape);
  // Its paths are decided: ports for them, or back to ECMP where there is none.
  void Settle(FlowSlot slot, wire::PathReason reason);
  // Takes over the paths of its ways that are being adopted, where their ports' are known; whether
  // all are.
  bool Adopt(FlowSlot slot);

  // Moves (controller/placement/placement_moves.cc).
  // As the fabric is (State::view has been told), and as it would be.
  bool IsOnBrokenPath(const Flow& flow);
  bool IsOnBrokenPath(const Flow& flow, const fabric::Topology& topology);
  // By way; those without a path stay where they are.
  Rerouted TakeEscapes(FlowSlot slot, std::span<const FailurePlans::Escape> escapes);
  void GiveUpUnusable(Flow& flow);
  // What there is to tell of a flow, before it leaves its paths and when it has others.
  Rerouted BeginMove(FlowSlot slot) const;
  void EndMove(Rerouted& moved) const;
  bool IsStillOpen(const Rerouted& moved) const;
  FlowMove DescribeMove(FlowSlot slot, std::string from);
  // Where flows would be: an entry for each of their ways, kNoPath where it has none.
  using PathsBySlot = std::map<FlowSlot, std::vector<std::int32_t>>;
  // Of those whose paths break if the fabric becomes `trial`.
  PathsBySlot PathsAfter(const fabric::Topology& trial, FabricView& view);

  // Redraws (controller/placement/placement_redraws.cc).
  // A link of its paths carries more than an even share.
  bool IsTight(const Flow& flow) const;
  // Not to be moved by others' chains.
  void Hold(const Flow& flow, bool holds);

  struct Redrawn {
    std::optional<TimePoint> since;          // nobody has looked yet whether it needs room
    std::deque<std::uint16_t> left_ports{};  // taken, so that nobody gets them
  };

  State& state_;
  PathLearner& learner_;
  const ControllerOptions& options_;
  Reassigner reassigner_;
  std::size_t ends_ = 0;                 // of flows since the last assignment of new ones
  std::map<FlowSlot, Redrawn> redrawn_;  // flows that are open
};

}  // namespace espalier::controller
