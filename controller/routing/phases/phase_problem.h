#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "controller/routing/fabric/fabric_view.h"
#include "controller/routing/fabric/load.h"

namespace espalier::controller {

// A flow, or a subflow of one, whose job is known to use it in some phases and not in others.
struct PhaseFlow {
  static constexpr std::uint32_t kNoGroup = 0xFFFF'FFFF;

  std::uint32_t source = 0;        // leaf, as FabricView numbers them
  std::uint32_t destination = 0;   // leaf; the same one: takes no path
  std::int64_t share = kLoadUnit;  // its load on each link of its path while it is busy
  std::int32_t path = kNoPath;     // the present one
  bool movable = true;             // false: it keeps its path
  std::uint32_t group = kNoGroup;  // subflows of one flow have the same group
};

// A training job as sets of flows (indices) that are busy together. A flow may be in several.
struct PhasedJob {
  std::vector<std::vector<std::uint32_t>> phases;
};

// The input of AssignPhases as flat arrays: the usable routes of each flow, and the phases that can
// decide a load.
//
// Flows in no phase count as busy all the time: they form a further job of one phase. Phases that
// are part of another phase of their job are left out, as they are never the maximum. Flows without
// a usable route, within one leaf, or unmovable on an unusable path are left out of all phases.
// Memory: O(pairs x routes + phases' sizes). The view must outlive it.
class PhaseProblem {
 public:
  static constexpr std::uint32_t kNoRoute = 0xFFFF'FFFF;

  // A usable path between two leaves. `color`: its spine in a Clos, else its path.
  struct Route {
    std::int32_t path = kNoPath;
    std::uint32_t color = 0;
    std::uint32_t first_hop = 0;
    std::uint32_t hop_count = 0;
  };

  // `spines`: in a Clos, only routes through these (ascending) are usable; empty: all are.
  PhaseProblem(const FabricView& view, std::span<const std::int64_t> base_loads,
               std::span<const PhaseFlow> flows, std::span<const PhasedJob> jobs,
               std::span<const std::uint32_t> spines = {});

  const FabricView& view() const { return view_; }
  std::uint32_t flow_count() const { return static_cast<std::uint32_t>(flows_.size()); }
  const PhaseFlow& FlowAt(std::uint32_t flow) const { return flows_[flow]; }
  // The usable routes of a flow by ascending path. Routes are numbered from 0 for each flow.
  std::span<const Route> RoutesOf(std::uint32_t flow) const {
    const std::uint32_t pair = pair_of_[flow];
    return std::span(routes_).subspan(first_route_[pair],
                                      first_route_[pair + 1] - first_route_[pair]);
  }
  std::span<const std::uint32_t> LinksOf(const Route& route) const {
    return std::span(hops_).subspan(route.first_hop, route.hop_count);
  }
  std::span<const std::uint32_t> LinksOf(std::uint32_t flow, std::uint32_t route) const {
    return LinksOf(RoutesOf(flow)[route]);
  }
  // The route of its present path; kNoRoute: none, or not usable.
  std::uint32_t HomeOf(std::uint32_t flow) const { return home_[flow]; }
  // Its route of this colour; kNoRoute: it has none.
  std::uint32_t RouteOfColor(std::uint32_t flow, std::uint32_t color) const;
  // The routes of some flow, if this is a 2-tier Clos with equal links and all flows that take part
  // have routes of the same colours; else none.
  std::span<const Route> CommonRoutes() const;
  // Whether it takes part: it has a usable route and, if it is not movable, is on one.
  bool IsPlaced(std::uint32_t flow) const { return is_placed_[flow]; }
  bool IsMovable(std::uint32_t flow) const { return flows_[flow].movable; }
  // Whether another subflow of its group has the path of this route, by the routes of all flows.
  bool Clashes(std::uint32_t flow, std::uint32_t route,
               std::span<const std::uint32_t> routes) const;

  // Phases are numbered over all jobs, those of a job one after the other.
  std::uint32_t phase_count() const { return static_cast<std::uint32_t>(job_of_.size()); }
  std::uint32_t job_count() const { return static_cast<std::uint32_t>(first_phase_.size()) - 1; }
  std::uint32_t JobOf(std::uint32_t phase) const { return job_of_[phase]; }
  std::uint32_t FirstPhaseOf(std::uint32_t job) const { return first_phase_[job]; }
  std::uint32_t PhaseCountOf(std::uint32_t job) const {
    return first_phase_[job + 1] - first_phase_[job];
  }
  std::span<const std::uint32_t> FlowsOf(std::uint32_t phase) const {
    return std::span(members_).subspan(first_member_[phase],
                                       first_member_[phase + 1] - first_member_[phase]);
  }
  std::span<const std::uint32_t> PhasesOf(std::uint32_t flow) const {  // ascending
    return std::span(phases_).subspan(first_phase_of_[flow],
                                      first_phase_of_[flow + 1] - first_phase_of_[flow]);
  }

  // The load that others put on a link between switches; 0 for a link that is not usable.
  std::int64_t BaseOf(std::uint32_t link) const { return base_[link]; }
  std::uint32_t link_count() const { return static_cast<std::uint32_t>(base_.size()); }

 private:
  void FindRoutes(std::span<const std::uint32_t> spines);
  void AppendRoutes(std::span<const std::uint32_t> spines, std::uint32_t source,
                    std::uint32_t destination);
  void AppendRoute(std::int32_t path, std::uint32_t color, std::span<const std::uint32_t> links);
  void FindGroups();
  void TakeJobs(std::span<const PhasedJob> jobs);
  void AddJob(std::vector<std::vector<std::uint32_t>> phases);
  void IndexPhasesByFlow();

  const FabricView& view_;
  std::span<const PhaseFlow> flows_;
  std::vector<std::int64_t> base_;
  std::vector<std::uint32_t> pair_of_;  // by flow: its pair of leaves
  std::vector<std::uint32_t> first_route_;
  std::vector<Route> routes_;
  std::vector<std::uint32_t> hops_;
  std::vector<std::uint32_t> home_;
  std::vector<bool> is_placed_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> groups_;  // (group, flow), sorted
  std::vector<std::uint32_t> first_phase_{0};
  std::vector<std::uint32_t> job_of_;
  std::vector<std::uint32_t> first_member_{0};
  std::vector<std::uint32_t> members_;
  std::vector<std::uint32_t> first_phase_of_;
  std::vector<std::uint32_t> phases_;
};

}  // namespace espalier::controller
