#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/fabric/builders.h"
#include "deploy/simulation/cluster.h"

namespace espalier::scenarios {

struct ClusterOptions {
  fabric::LeafSpineOptions shape{.spines = 4, .leaves = 4, .hosts_per_leaf = 4};
  std::uint64_t seed = 1;
  // The hash that the switches really use; each has its own seed.
  std::string hash = "crc32";
  // Whether the controller's topology file names it; otherwise the controller must learn by probes.
  bool controller_knows_hash = true;
  sim::LinkFaults faults;
  bool agents_test_links = false;  // by probe trains
  controller::ControllerOptions controller;
};

// A simulated cluster (deploy/simulation) on a leaf-spine fabric, and what tests ask of it.
class SimCluster : public simulation::Cluster {
 public:
  explicit SimCluster(const ClusterOptions& options);

  static std::string HostName(int host) { return "h" + std::to_string(host); }

  // Performs an operator's action and returns when it is answered.
  Result<controller::ActionOutcome> ChangeLink(const std::string& link,
                                               controller::IntentAction action,
                                               const controller::OperatorRequest& request);

  // Starts one elephant flow from each host to the host at the same position under the leaf `shift`
  // further. All begin with the same source port, which is the worst case of ECMP for equal hashes.
  // Each is split over `paths` connections.
  std::vector<FlowRef> StartPermutation(int shift, std::uint64_t bytes, std::uint8_t paths = 1);
  // The port in use; 0 if the flow has ended.
  std::uint16_t PortOf(const FlowRef& flow);
  std::vector<std::uint16_t> PortsOf(const std::vector<FlowRef>& flows);

  // The maximum number of flows on one direction of a link between switches.
  int MaxLinkFlows();
  // True if every open flow of these uses the ports that the controller gave it.
  bool AllRouted(const std::vector<FlowRef>& flows);

 private:
  const int hosts_per_leaf_;
};

}  // namespace espalier::scenarios
