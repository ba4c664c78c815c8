#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "controller/forests/tree_jobs.h"
#include "tests/controller/cluster.h"

namespace espalier::controller {

// Host links are fast, so that the links between switches are the bottleneck.
constexpr fabric::LeafSpineOptions kFastHosts{.spines = 4,
                                              .leaves = 4,
                                              .hosts_per_leaf = 2,
                                              .host_rate = BitsPerSecond{800'000'000'000},
                                              .fabric_rate = BitsPerSecond{100'000'000'000}};

// A cluster whose ranks "h0" to "h7" run jobs on forests.
class RunningJobs : public testing::Test {
 protected:
  static ControllerOptions Options() {
    ControllerOptions options;
    options.fabric_hashes_protocol = false;  // what UDP probes learn holds for TCP
    options.verification.interval = {};
    return options;
  }
  explicit RunningJobs(ControllerOptions options = Options())
      : cluster_(kFastHosts, std::move(options)) {
    cluster_.ConnectAll();
  }

  static JobSpec Spec(const std::string& name = "train", int ranks = 8) {
    JobSpec spec{.name = name, .ranks = {}};
    for (int i = 0; i < ranks; ++i) spec.ranks.push_back("h" + std::to_string(i));
    return spec;
  }
  const TreeJob& JobOf(const std::string& name = "train") {
    return cluster_.controller().jobs().all().at(name);
  }
  JobStatus StatusOf(const std::string& name = "train") {
    return cluster_.controller().jobs().StatusOf(JobOf(name));
  }
  void Start(const JobSpec& spec) {
    const auto started = cluster_.StartJob(spec);
    ASSERT_TRUE(started.has_value()) << started.error().message;
    cluster_.Settle();
    ASSERT_EQ(StatusOf(spec.name), JobStatus::kReady);
  }
  // Checks that every edge of the plans that agents hold is on the spine of the forest.
  void ExpectPlannedSpines(const std::string& name = "train") {
    const TreeJob& job = JobOf(name);
    int crossing = 0;
    for (std::size_t i = 0; i < job.active->ports.size(); ++i) {
      const TreeEdge& edge = job.active->forest->edges[i];
      const auto& plan =
          cluster_.host(edge.from).plans.at({name, static_cast<std::uint32_t>(edge.from)});
      EXPECT_EQ(plan.version, job.active->version);
      if (!edge.crossing) continue;
      ++crossing;
      std::uint16_t port = 0;
      for (const wire::PeerPorts& peer : plan.peers) {
        if (peer.rank != static_cast<std::uint32_t>(edge.to)) continue;
        EXPECT_EQ(peer.address, cluster_.Address(edge.to));
        for (std::size_t c = 0; c < peer.channels.size(); ++c) {
          if (peer.channels[c] == static_cast<std::uint32_t>(edge.channel)) {
            port = peer.source_ports[c];
          }
        }
      }
      EXPECT_EQ(port, job.active->ports[i]);
      EXPECT_EQ(cluster_.SpineOf(edge.from, edge.to, port), edge.crossing->path.value())
          << edge.from << " to " << edge.to << " channel " << edge.channel << " port " << port;
    }
    EXPECT_GT(crossing, 0);
  }
  std::set<std::pair<fabric::PortKey, std::uint16_t>> PortsInForce() {
    std::set<std::pair<fabric::PortKey, std::uint16_t>> ports;
    const JobPlan& plan = *JobOf().active;
    for (std::size_t i = 0; i < plan.ports.size(); ++i) {
      const auto key = cluster_.controller().jobs().KeyOf(plan, plan.forest->edges[i]);
      if (plan.ports[i] != 0) ports.emplace(key, plan.ports[i]);
    }
    return ports;
  }
  std::size_t ReservedEdges() { return cluster_.state().edges.all().size(); }

  Cluster cluster_;
};

}  // namespace espalier::controller
