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
  // What the switches really do; each has a seed of its own.
  std::string hash = "crc32";
  // Does the controller's topology file say so? Else it has to find out by probes.
  bool controller_knows_hash = true;
  sim::LinkFaults faults;
  controller::ControllerOptions controller;
};

// A whole cluster in one process, under virtual time from a seed: the real controller and real
// agents, each a process of its own (a loop, a bus) that can die and come back, on a simulated
// network, hosts and fabric, which live on whatever dies.
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
  void KillController();  // with what it had saved
  void StartAgent(int host);
  void KillAgent(int host);
  void StartAll();

  // An operator's action, with all that it takes until it is answered.
  Result<controller::ActionOutcome> ChangeLink(const std::string& link,
                                               controller::IntentAction action,
                                               controller::OperatorRequest request);
  // What is stored, whether a controller runs or not.
  const controller::MemoryDisk& disk() const { return disk_; }

  struct FlowRef {
    int host = 0;
    wire::LocalFlowId flow;
  };
  // One elephant from each host to the host of the same place under the leaf `shift` further on.
  // They all begin with the same source port: ECMP at its worst, or what the hashes make of it.
  // Each is split over `paths` connections.
  std::vector<FlowRef> StartPermutation(int shift, std::uint64_t bytes, std::uint8_t paths = 1);
  // Port in use; 0 where the flow has ended.
  std::uint16_t PortOf(const FlowRef& flow);
  std::vector<std::uint16_t> PortsOf(const std::vector<FlowRef>& flows);
  // Of all its connections.
  std::vector<std::uint16_t> AllPortsOf(const FlowRef& flow);
  // Does any connection?
  bool StandsStill(const FlowRef& flow);

  // The most flows that share a direction of a link between switches.
  int MaxLinkFlows();
  // Does every open flow of these run on the ports that the controller gave?
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
