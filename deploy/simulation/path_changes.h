#pragma once

#include <cstdint>
#include <map>

#include "agent/flows/flow_actuator.h"
#include "agent/sim/sim_host.h"
#include "common/sim/sim_fabric.h"

namespace espalier::simulation {

// How often connections took another path in the fabric because an agent gave them another port.
struct PathChanges {
  std::map<wire::PathReason, std::int64_t> by_reason;
  std::int64_t to_ecmp = 0;  // the connection went back to its own port

  std::int64_t Total() const;
};

// "assigned", "predicted", ...
std::string_view ReasonName(wire::PathReason reason);

// A host's actuator that counts the changes of paths. Another port with the same path is none.
// Thread safety: the thread of the fabric's loop. The references must outlive it.
class PathChangeCounter : public agent::FlowActuator {
 public:
  PathChangeCounter(sim::SimFabric& fabric, sim::SimHost& host, PathChanges& changes)
      : fabric_(fabric), host_(host), changes_(changes) {}

  Result<void> Apply(const wire::PathSet& paths) override;
  Result<void> Clear(wire::LocalFlowId flow) override;

 private:
  using Routes = std::vector<std::vector<fabric::DirectedLink>>;

  Routes RoutesOf(wire::LocalFlowId flow);
  static std::int64_t CountDifferent(const Routes& before, const Routes& after);

  sim::SimFabric& fabric_;
  sim::SimHost& host_;
  PathChanges& changes_;
};

}  // namespace espalier::simulation
