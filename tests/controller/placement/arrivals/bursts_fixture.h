#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/controller/cluster.h"

namespace espalier::controller {

using namespace std::chrono_literals;

inline constexpr const char* kUndecided = "espalier_bursts_without_decision_total";
inline constexpr const char* kDecided = "espalier_bursts_decided_total";
inline constexpr const char* kMovedIdle = "espalier_idle_flows_moved_total";
inline constexpr const char* kPlans = "espalier_phase_plans_computed_total";

// Three leaves with four hosts each and two spines. A job sends from host i to host i + 4: first
// hosts 0 and 1, then hosts 2 and 3. Each phase fits on the spines with one flow a link, but all
// four connections together put two on each.
class BurstsTest : public testing::Test {
 protected:
  explicit BurstsTest(ControllerOptions options = {})
      : cluster_(fabric::LeafSpineOptions{.spines = 2, .leaves = 3, .hosts_per_leaf = 4},
                 std::move(options)) {
    cluster_.ConnectAll();
  }

  // Opens the job's connections in an order that puts both flows of a phase on one spine.
  void OpenConnections() {
    for (const int host : {0, 2, 1, 3}) OpenBusy(host);
    for (const int host : {0, 1, 2, 3}) Toggle(host);
    cluster_.Settle();
  }
  // Opens the job's connection of this host, which has bytes to send.
  void OpenBusy(int host) {
    wire::FlowReport report = Cluster::Opening(cluster_, host, {{.id = 1, .to = host + 4}});
    report.progress = {Row(++edges_[host])};
    cluster_.Report(host, report);
    cluster_.Settle();
  }
  static wire::FlowProgress Row(std::uint32_t edges) {
    const bool busy = edges % 2 == 1;
    return {.id = wire::LocalFlowId(1),
            .outstanding_bytes = busy ? 1'000'000U : 0U,
            .state = busy ? wire::FlowState::kActive : wire::FlowState::kIdle,
            .edges = edges,
            .edge_age_us = 100};
  }
  void Toggle(int host) {
    wire::FlowReport report;
    report.progress = {Row(++edges_[host])};
    cluster_.Report(host, report);
  }
  void RunPhase(const std::vector<int>& hosts, Duration duration) {
    for (const int host : hosts) Toggle(host);
    cluster_.Settle();
    cluster_.Advance(duration / 2);
    max_load_ = std::max(max_load_, cluster_.state().flow_paths.assigner().MaxLoad());
    cluster_.Advance(duration - duration / 2);
    for (const int host : hosts) Toggle(host);
    cluster_.Settle();
  }
  void RunPeriods(int count, const std::vector<std::vector<int>>& phases = {{0, 1}, {2, 3}}) {
    max_load_ = {};
    for (int i = 0; i < count; ++i) {
      for (const std::vector<int>& hosts : phases) {
        RunPhase(hosts, 200ms);
        cluster_.Advance(&hosts == &phases.back() ? 500ms : 100ms);
      }
    }
    cluster_.state().flow_paths.CheckInvariants();
  }
  // The host's agent has rerouted its flow to this port.
  void RerouteLocally(int host, std::uint16_t port) {
    cluster_.host(host).ports[1] = port;
    wire::FlowPath& path = cluster_.host(host).sets.at(1).paths[0];
    path.source_port = port;
    cluster_.Deliver(cluster_.host(host).peer, cluster_.host(host).instance,
                     wire::PathHealth{.flows = {{.flow = wire::LocalFlowId(1),
                                                 .path_id = path.path_id,
                                                 .source_port = port,
                                                 .verdict = wire::PathVerdict::kLocallyRerouted}}});
    cluster_.Settle();
  }
  // Two flows of another job leave the third leaf over one spine, though each could have its own.
  void OpenTwoOnOneSpine() {
    for (const int host : {8, 9, 10}) {
      cluster_.Open(host, {{.id = 1, .to = host - 8, .job = "other"}});
      cluster_.Settle();
    }
    const int third = cluster_.AppliedSpine(10, 1, 2);
    cluster_.End(cluster_.AppliedSpine(8, 1, 0) == third ? 9 : 8, 1);
    cluster_.Settle();
  }
  std::size_t PushesSoFar() {
    std::size_t pushes = 0;
    for (int host = 0; host < cluster_.hosts(); ++host) pushes += cluster_.host(host).pushes.size();
    return pushes;
  }

  Cluster cluster_;
  std::map<int, std::uint32_t> edges_;  // by host
  Load max_load_;                       // the highest in the middle of a phase
};

}  // namespace espalier::controller
