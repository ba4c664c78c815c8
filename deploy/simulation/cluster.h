#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent.h"
#include "agent/sim/sim_host.h"
#include "agent/sim/sim_trains.h"
#include "common/base/metrics.h"
#include "common/fabric/topology.h"
#include "common/sim/sim_fabric.h"
#include "common/sim/sim_network.h"
#include "common/sim/sim_world.h"
#include "controller/controller.h"
#include "controller/store/memory_store.h"
#include "deploy/simulation/path_changes.h"

namespace espalier::simulation {

struct ClusterOptions {
  // The fabric, with the hash of every switch. CheckFabric must accept it.
  fabric::TopologySpec fabric;
  // Whether the controller's topology has the hashes, too; otherwise it must learn by probes.
  bool controller_knows_hashes = true;
  std::uint64_t seed = 1;
  sim::LinkFaults faults;
  // Whether agents can test links by probe trains.
  bool agents_test_links = false;
  controller::ControllerOptions controller;
};

// The NICs of a fabric, in the order of the topology: the hosts of a cluster.
std::vector<fabric::NodeId> ListNics(const fabric::Topology& topology);

// Whether a cluster can be simulated on this fabric: every switch has a hash, and every host one
// NIC with an address, on one switch.
// Errors: kInvalidArgument for what is not so; those of Topology::Build and MakeEcmpHash.
Result<void> CheckFabric(const fabric::TopologySpec& fabric);

// A whole cluster in one process, under virtual time from a seed. The controller and the agents are
// real; each acts as a process (with a loop and a bus) that can die and come back. The network, the
// hosts and the fabric are simulated and survive that. Nobody runs at first.
//
// Hosts have the numbers of their NICs in the order of the topology, and the names of the topology.
// The clock of stored records shows virtual time.
// Thread safety: one thread.
class Cluster {
 public:
  explicit Cluster(ClusterOptions options);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  sim::SimWorld& world() { return world_; }
  const sim::SimWorld& world() const { return world_; }
  sim::SimNetwork& network() { return network_; }
  sim::SimFabric& fabric() { return *fabric_; }
  const sim::SimFabric& fabric() const { return *fabric_; }
  controller::Controller& controller();
  const controller::Controller& controller() const;
  agent::Agent& agent(int host);
  sim::SimHost& host(int number) { return *hosts_[Index(number)]; }
  sim::SimTrainSocket& trains(int host) { return *train_sockets_[Index(host)]; }
  int host_count() const { return static_cast<int>(hosts_.size()); }
  const std::string& HostName(int host) const { return names_[Index(host)]; }
  fabric::NodeId NicOf(int host) const { return nics_[Index(host)]; }

  void StartController();
  void KillController();  // its saved state stays
  bool has_controller() const { return controller_ != nullptr; }
  void StartAgent(int host);
  void KillAgent(int host);
  bool has_agent(int host) const { return processes_[Index(host)] != nullptr; }
  void StartAll();

  // The stored state, whether a controller runs or not.
  const controller::MemoryDisk& disk() const { return disk_; }
  // How agents have changed the paths of flows, over all agents that ran.
  const PathChanges& path_changes() const { return path_changes_; }
  // A counter of all controllers, or of all agents, that ran.
  std::int64_t ControllerCounter(const std::string& name) const;
  std::int64_t AgentCounter(const std::string& name) const;

  struct FlowRef {
    int host = 0;
    wire::LocalFlowId flow;
  };
  // The ports of all its connections; none if the flow has ended.
  std::vector<std::uint16_t> AllPortsOf(const FlowRef& flow);
  // True if any of its connections makes no progress.
  bool StandsStill(const FlowRef& flow);
  // Tests the condition every 5 ms of virtual time, as evaluating it may cost more than the steps
  // between. False: it does not hold within the limit.
  bool RunUntil(const std::function<bool()>& done, Duration limit);

 private:
  struct ControllerProcess;
  struct AgentProcess;

  static std::size_t Index(int host) { return static_cast<std::size_t>(host); }
  fabric::Topology ControllersTopology() const;
  WallTime WallNow() const;

  const ClusterOptions options_;
  sim::SimWorld world_;
  Random random_;
  sim::SimNetwork network_;
  std::unique_ptr<EventLoop> hardware_loop_;
  std::unique_ptr<sim::SimFabric> fabric_;
  sim::SimTrains trains_;
  controller::MemoryDisk disk_;
  // Shared by all processes of a kind, so that counters outlive them.
  mutable Metrics controller_metrics_;
  mutable Metrics agent_metrics_;
  PathChanges path_changes_;
  std::vector<fabric::NodeId> nics_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<sim::SimHost>> hosts_;
  std::vector<std::unique_ptr<sim::SimTrainSocket>> train_sockets_;
  std::vector<std::unique_ptr<PathChangeCounter>> actuators_;
  std::unique_ptr<ControllerProcess> controller_;
  std::vector<std::unique_ptr<AgentProcess>> processes_;
};

}  // namespace espalier::simulation
