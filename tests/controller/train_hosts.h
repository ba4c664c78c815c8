#pragma once

#include <memory>
#include <vector>

#include "agent/probe/link_tester.h"
#include "agent/sim/sim_trains.h"
#include "common/base/metrics.h"
#include "common/sim/link_troubles.h"
#include "tests/controller/cluster.h"

namespace espalier::controller {

// Lets the hosts of a cluster test links: each has the feature "link_tests", and carries out orders
// of probe trains by the agents' own code. Packets take the links that Cluster::RouteOf gives. To
// be made before the hosts connect; the cluster must outlive it.
class TrainHosts {
 public:
  explicit TrainHosts(Cluster& cluster);
  ~TrainHosts() { cluster_.on_train_order = {}; }
  TrainHosts(const TrainHosts&) = delete;
  TrainHosts& operator=(const TrainHosts&) = delete;

  // What packets meet on the links, those of hosts included.
  sim::LinkTroubles& troubles() { return troubles_; }
  sim::SimTrainSocket& socket(int host) { return *At(host).socket; }
  // Drops the orders of a host, as an agent does when it connects to another controller.
  void Forget(int host) { At(host).tester->ForgetController(); }
  // Changes a host's reports before they are sent, as a host that lies does. Empty: none does.
  std::function<void(int host, wire::TrainReport& report)> forge;

 private:
  struct Host {
    std::unique_ptr<sim::SimTrainSocket> socket;
    std::unique_ptr<agent::LinkTester> tester;
  };
  Host& At(int host) { return hosts_[static_cast<std::size_t>(host)]; }
  void AddHost(int number);

  Cluster& cluster_;
  sim::LinkTroubles troubles_;
  sim::SimTrains trains_;
  Metrics metrics_;
  std::vector<Host> hosts_;
};

}  // namespace espalier::controller
