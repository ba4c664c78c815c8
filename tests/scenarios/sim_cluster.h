#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "agent/sim/sim_host.h"
#include "common/base/metrics.h"
#include "common/fabric/builders.h"
#include "common/sim/sim_fabric.h"
#include "common/sim/sim_network.h"
#include "common/sim/sim_world.h"
#include "controller/controller.h"
#include "tests/controller/memory_store.h"

namespace espalier::scenarios {

struct ClusterOptions {
  fabric::LeafSpineOptions shape{.spines = 4, .leaves = 4, .hosts_per_leaf = 4};
  std::uint64_t seed = 1;
  // The hash that the switches really use; each has its own seed.
  std::string hash = "crc32";
  // Whether the controller's topology file names it; otherwise the controller must learn by probes.
  bool controller_knows_hash = true;
  sim::LinkFaults faults;
  controller::ControllerOptions controller;
};

// A whole cluster in one process, under virtual time from a seed. The controller and the agents are
// real; each acts as a process (with a loop and a bus) that can die and come back. The network, the
// hosts and the fabric are simulated and survive that.
class SimCluster {
 public:
  explicit SimCluster(const ClusterOptions& options);
  ~SimCluster();

  sim::SimWorld& world() { return world_; }
  sim::SimNetwork& network() { return network_; }
  sim::SimFabric& fabric() { return *fabric_; }
  controller::Controller& controller();
  agent::Agent& agent(int host);
  sim::SimHost& host(int number) { return *hosts_[Index(number)]; }
  int host_count() const { return static_cast<int>(hosts_.size()); }
  static std::string HostName(int host) { return "h" + std::to_string(host); }

  void StartController();
  void KillController();  // its saved state stays
  void StartAgent(int host);
  void KillAgent(int host);
  void StartAll();

  // Performs an operator's action and returns when it is answered.
  Result<controller::ActionOutcome> ChangeLink(const std::string& link,
                                               controller::IntentAction action,
                                               controller::OperatorRequest request);
  // The stored state, whether a controller runs or not.
  const controller::MemoryDisk& disk() const { return disk_; }

  struct FlowRef {
    int host = 0;
    wire::LocalFlowId flow;
  };
  // Starts one elephant flow from each host to the host at the same position under the leaf `shift`
  // further. All begin with the same source port, which is the worst case of ECMP for equal hashes.
  // Each is split over `paths` connections.
  std::vector<FlowRef> StartPermutation(int shift, std::uint64_t bytes, std::uint8_t paths = 1);
  // The port in use; 0 if the flow has ended.
  std::uint16_t PortOf(const FlowRef& flow);
  std::vector<std::uint16_t> PortsOf(const std::vector<FlowRef>& flows);
  // The ports of all its connections.
  std::vector<std::uint16_t> AllPortsOf(const FlowRef& flow);
  // True if any of its connections makes no progress.
  bool StandsStill(const FlowRef& flow);

  // The maximum number of flows on one direction of a link between switches.
  int MaxLinkFlows();
  // True if every open flow of these uses the ports that the controller gave it.
  bool AllRouted(const std::vector<FlowRef>& flows);
  bool RunUntil(const std::function<bool()>& done, Duration limit);

 private:
  struct ControllerProcess;
  struct AgentProcess;

  std::size_t Index(int host) const { return static_cast<std::size_t>(host); }

  const ClusterOptions options_;
  sim::SimWorld world_;
  Random random_;
  sim::SimNetwork network_;
  std::unique_ptr<EventLoop> hardware_loop_;
  std::unique_ptr<sim::SimFabric> fabric_;
  controller::MemoryDisk disk_;
  std::vector<std::unique_ptr<sim::SimHost>> hosts_;
  std::unique_ptr<ControllerProcess> controller_;
  std::vector<std::unique_ptr<AgentProcess>> processes_;
};

}  // namespace espalier::scenarios
