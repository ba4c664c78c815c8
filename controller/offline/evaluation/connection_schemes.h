#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "controller/offline/simulation/simulator.h"
#include "controller/routing/model/assignment.h"
#include "controller/routing/online/online_assigner.h"

namespace espalier::offline {

// Assigns open connections as a controller does that counts every open connection: those of a job
// that begins get paths, at most kMovesPerArrival others move for each, and those of a job that has
// ended leave. The view must outlive it. Thread safety: one thread.
class ConnectionAssigner {
 public:
  static constexpr std::size_t kMovesPerArrival = 8;

  explicit ConnectionAssigner(controller::FabricView& view) : online_(view) {}

  // commodities[i] is the connection with the number flows[i]; numbers are ascending.
  controller::Assignment Assign(std::span<const controller::Commodity> commodities,
                                std::span<const std::uint32_t> flows);

 private:
  void CloseAllBut(std::span<const std::uint32_t> flows);

  controller::OnlineAssigner online_;
  std::map<std::uint32_t, std::vector<controller::SubflowId>> open_;  // by flow
};

// Assigns open connections for the phases of their jobs, as the controller does that has learned
// them (AssignPhases): one path for all phases, and as few changes as possible. The view and the
// workload must outlive it. Thread safety: one thread.
class PhaseAssigner {
 public:
  PhaseAssigner(const controller::FabricView& view, const Workload& workload)
      : view_(view), workload_(workload) {}

  controller::Assignment Assign(std::span<const controller::Commodity> commodities,
                                std::span<const std::uint32_t> flows);

 private:
  const controller::FabricView& view_;
  const Workload& workload_;
  std::map<std::uint32_t, std::vector<std::int32_t>> paths_;  // of subflows, by open flow
};

// The load of the most loaded link between switches if any phases of different jobs meet, and a
// bound that no assignment of these connections is below, whether paths change between phases or
// not.
struct WorstOverlap {
  controller::Load load;
  controller::Load lower_bound;
};
WorstOverlap ComputeWorstOverlap(const controller::FabricView& view, const Workload& workload,
                                 std::span<const controller::Commodity> commodities,
                                 std::span<const std::uint32_t> flows,
                                 const controller::Assignment& assignment);

}  // namespace espalier::offline
