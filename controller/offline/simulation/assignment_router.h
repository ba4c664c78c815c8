#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "controller/offline/simulation/simulator.h"
#include "controller/routing/fabric/fabric_view.h"
#include "controller/routing/model/assignment.h"

namespace espalier::offline {

// A simulation's router that uses an assigner: every flow in progress is a commodity of `subflows`
// subflows.
// Thread safety: one thread. The workload and the view must outlive it.
class AssignmentRouter : public Router {
 public:
  // Assigns paths to commodities; flows[i] is the number of commodity i's flow in the workload.
  using Assign = std::function<controller::Assignment(
      std::span<const controller::Commodity> commodities, std::span<const std::uint32_t> flows)>;

  AssignmentRouter(const Workload& workload, controller::FabricView& view, std::uint32_t subflows,
                   Assign assign);

  std::vector<std::vector<PathShare>> Route(std::span<const std::uint32_t> live) override;

  std::span<const controller::Commodity> commodities() const { return commodities_; }  // by flow

 private:
  std::vector<PathShare> PathsOf(const controller::Commodity& commodity,
                                 std::span<const std::int32_t> paths) const;

  controller::FabricView& view_;
  Assign assign_;
  std::vector<controller::Commodity> commodities_;  // by flow
};

}  // namespace espalier::offline
