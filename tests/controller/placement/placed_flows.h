#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "tests/controller/cluster.h"

namespace espalier::controller {

// Small fabrics with flows on known paths, for the tests of placement.

// Four leaves with a host each, two spines. Host 2's flow to host 3 is on spine 1, host 0's flow to
// host 1 on spine 0. A flow from host 0 to host 3 finds both spines taken, one at each end.
class Corner : public testing::Test {
 protected:
  void Build(const ControllerOptions& options, bool movable = true) {
    cluster_ = std::make_unique<Cluster>(
        fabric::LeafSpineOptions{.spines = 2, .leaves = 4, .hosts_per_leaf = 1}, options);
    cluster_->hash = [this](int from, int, std::uint16_t port) {
      return from == 2 && only_spine_1_ ? 1 : port % 2;
    };
    cluster_->ConnectAll();
    Open(2, {.id = 1, .to = 0});
    Open(2, {.id = 2, .to = 3, .movable = movable});
    cluster_->End(2, 1);
    Open(0, {.id = 1, .to = 1});
    ASSERT_EQ(cluster_->AppliedSpine(2, 2, 3), 1);
    ASSERT_EQ(cluster_->AppliedSpine(0, 1, 1), 0);
  }
  void Open(int from, const Cluster::NewFlow& flow) {
    cluster_->Open(from, {flow});
    cluster_->Settle();
  }
  Load MaxLoad() { return cluster_->state().flow_paths.assigner().MaxLoad(); }

  bool only_spine_1_ = false;
  std::unique_ptr<Cluster> cluster_;
};

// Three flows leave a leaf with two spines.
class Split : public testing::Test {
 protected:
  void Start(std::uint8_t paths) {
    cluster_.ConnectAll();
    for (int i = 0; i < 3; ++i) cluster_.Open(i, {{.id = 1, .to = 3 + i, .max_paths = paths}});
    cluster_.Settle();
  }
  std::vector<int> Spines(int host) const { return cluster_.AppliedSpines(host, 1, 3 + host); }
  // What agents report to a new controller: all paths, or, as old agents do, the first path only.
  void Restart(bool with_all_ports) {
    cluster_.RestartController();
    for (int i = 0; i < 3; ++i) {
      const wire::PathSet set = cluster_.host(i).sets.at(1);
      wire::Hello hello;
      hello.name = cluster_.host(i).name;
      hello.highest_epoch = cluster_.host(i).epoch;
      cluster_.SayHello(i, hello);
      cluster_.Settle();
      Cluster::NewFlow flow{
          .id = 1, .to = 3 + i, .port = set.paths[0].source_port, .steered = true, .max_paths = 2};
      for (const wire::FlowPath& path : set.paths) {
        if (with_all_ports) flow.path_ports.push_back(path.source_port);
      }
      cluster_.Report(i, Cluster::Opening(cluster_, i, {flow}, /*full=*/true));
    }
    cluster_.Advance(std::chrono::seconds(3));
  }

  Cluster cluster_{{.spines = 2, .leaves = 2, .hosts_per_leaf = 3}};
};

// Two leaves with four hosts each and four spines. Each flow is alone on its path.
class LocalReroute : public testing::Test {
 protected:
  LocalReroute() {
    cluster_.ConnectAll();
    for (int host = 0; host < 4; ++host) cluster_.Open(host, {{.id = 1, .to = host + 4}});
    cluster_.Settle();
  }
  int SpineOf(int host) const { return cluster_.AppliedSpine(host, 1, host + 4); }
  std::uint16_t PortOf(int host) { return cluster_.FlowOf(host, 1).subflows[0].port; }
  // The host's agent reroutes its flow to a path over this spine.
  std::uint16_t RerouteLocally(int host, int spine) {
    std::uint16_t port = 60'000;
    while (cluster_.SpineOf(host, host + 4, port) != spine || port == PortOf(host)) ++port;
    cluster_.host(host).ports[1] = port;
    const wire::PathSet set = cluster_.host(host).sets.at(1);
    cluster_.host(host).sets.at(1).paths[0].source_port = port;
    cluster_.Deliver(cluster_.host(host).peer, cluster_.host(host).instance,
                     wire::PathHealth{.flows = {{.flow = wire::LocalFlowId(1),
                                                 .path_id = set.paths[0].path_id,
                                                 .source_port = port,
                                                 .verdict = wire::PathVerdict::kLocallyRerouted}}});
    cluster_.Settle();
    return port;
  }
  Load MaxLoad() { return cluster_.state().flow_paths.assigner().MaxLoad(); }

  Cluster cluster_{{.spines = 4, .leaves = 2, .hosts_per_leaf = 4}};
};

}  // namespace espalier::controller
