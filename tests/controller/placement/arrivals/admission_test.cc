// Arriving flows, some with ports that an earlier controller chose, and departing ones.
#include "controller/placement/arrivals/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/controller/four_flows.h"
#include "tests/controller/placement/placed_flows.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using testing::UnorderedElementsAre;

class AdmissionTest : public Split {};

TEST_F(AdmissionTest, NeverHasMorePathsThanThereAre) {
  Start(16);
  for (int host = 0; host < 3; ++host) EXPECT_THAT(Spines(host), UnorderedElementsAre(0, 1));
}

// A rank plan has their path, and the reservation of its edge stands for their load.
TEST_F(AdmissionTest, FlowsWithFixedPathsAreOnlyWatched) {
  Cluster cluster({.spines = 1, .leaves = 2, .hosts_per_leaf = 1});
  cluster.ConnectAll();
  const std::vector<Cluster::NewFlow> flows{{.id = 1, .to = 1, .port = 50'001, .path_fixed = true}};
  cluster.Open(0, flows);
  cluster.Advance(1s);
  const auto check = [&] {
    EXPECT_EQ(cluster.FlowOf(0, 1).status, FlowStatus::kFixed);
    EXPECT_FALSE(cluster.host(0).sets.contains(1));
    EXPECT_EQ(cluster.state().flow_paths.assigner().MaxLoad(), Load());
  };
  check();
  const std::uint32_t job = cluster.FlowOf(0, 1).job;
  const auto tell = [&](std::uint32_t edges) {
    wire::FlowReport report;
    report.progress = {
        {.id = wire::LocalFlowId(1), .remaining_bytes = edges % 2 * 1'000, .edges = edges}};
    cluster.Report(0, report);
    cluster.Settle();
  };
  tell(2);
  cluster.Advance(1s);
  const auto rounds = [&] { return cluster.state().rounds.Count(job, cluster.controller().Now()); };
  const std::uint64_t before = rounds();
  tell(3);
  tell(4);
  cluster.Advance(1s);
  EXPECT_EQ(rounds(), before + 1);
  cluster.RestartController();
  cluster.ConnectAll();
  cluster.Report(0, Cluster::Opening(cluster, 0, flows, /*full=*/true));
  cluster.Advance(1s);
  check();
}

TEST_F(AdmissionTest, KeepsAllPathsOverARestart) {
  Start(2);
  std::vector<wire::PathSet> before;
  for (int i = 0; i < 3; ++i) before.push_back(cluster_.host(i).sets.at(1));
  Restart(/*with_all_ports=*/true);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(cluster_.host(i).sets.at(1).paths, before[static_cast<std::size_t>(i)].paths) << i;
    EXPECT_EQ(cluster_.FlowOf(i, 1).status, FlowStatus::kRouted);
  }
  EXPECT_EQ(cluster_.state().flow_paths.assigner().MaxLoad(), (Load{3, 2}));
}

TEST_F(AdmissionTest, KeepsTheFirstPathsOfAgentsThatReportOnlyThose) {
  Start(2);
  std::vector<std::uint16_t> before;
  for (int i = 0; i < 3; ++i) before.push_back(cluster_.host(i).ports.at(1));
  Restart(/*with_all_ports=*/false);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(cluster_.host(i).ports.at(1), before[static_cast<std::size_t>(i)]) << i;
    EXPECT_THAT(Spines(i), UnorderedElementsAre(0, 1));
  }
}

// The agent has left one path by a local reroute: the other one is kept, and the flow gets a second
// path again.
TEST_F(AdmissionTest, KeepsPathsThatTheAgentHasNotLeft) {
  Start(2);
  const wire::PathSet set = cluster_.host(0).sets.at(1);
  cluster_.RestartController();
  wire::Hello hello;
  hello.name = "h0";
  hello.highest_epoch = cluster_.host(0).epoch;
  cluster_.SayHello(0, hello);
  cluster_.Settle();
  cluster_.Report(0, Cluster::Opening(cluster_, 0,
                                      {{.id = 1,
                                        .to = 3,
                                        .port = 60'000,
                                        .max_paths = 2,
                                        .path_ports = {0, set.paths[1].source_port}}},
                                      /*full=*/true));
  cluster_.Advance(3s);
  const Flow& flow = cluster_.FlowOf(0, 1);
  EXPECT_EQ(flow.status, FlowStatus::kRouted);
  EXPECT_EQ(flow.subflows[1].port, set.paths[1].source_port);
  EXPECT_THAT(Spines(0), UnorderedElementsAre(0, 1));
}

TEST_F(AdmissionTest, GivesBackAllPathsAndPortsAtTheEnd) {
  Start(2);
  for (int host = 0; host < 3; ++host) cluster_.End(host, 1);
  cluster_.Settle();
  EXPECT_EQ(cluster_.state().flow_paths.assigner().MaxLoad(), (Load{0, 1}));
  EXPECT_TRUE(cluster_.state().flow_paths.pairs().empty());
}

// After an agent's restart, a program announces its flow only when the agent has sent its report.
TEST(AdmissionOfCluster, AdoptsAFlowThatKeptItsPortWhileItsAgentRestarted) {
  Cluster cluster(kFourLeaves);
  cluster.ConnectAll();
  cluster.Open(0, {{.id = 1, .to = 4, .port = 50'000, .steered = true}});
  cluster.Advance(3s);
  const Flow& flow = cluster.FlowOf(0, 1);
  EXPECT_EQ(flow.status, FlowStatus::kRouted);
  ASSERT_EQ(flow.subflows.size(), 1U);
  EXPECT_EQ(flow.subflows[0].port, 50'000);
}

TEST(AdmissionOfCluster, PlacesFlowsThatNoProbeCouldAdopt) {
  Cluster cluster(kFourLeaves);
  cluster.host(0).answers_probes = false;
  wire::Hello hello;
  hello.name = "h0";
  hello.highest_epoch = 1;
  cluster.SayHello(0, hello);
  cluster.Settle();  // agents wait for their Welcome
  cluster.Report(0,
                 Cluster::Opening(cluster, 0, {{.id = 1, .to = 4, .port = 50'000, .steered = true}},
                                  /*full=*/true));
  cluster.Settle();
  EXPECT_EQ(cluster.FlowOf(0, 1).status, FlowStatus::kAdopting);
  EXPECT_TRUE(cluster.host(0).pushes.empty());
  cluster.host(0).answers_probes = true;
  cluster.Advance(10s);
  EXPECT_EQ(cluster.FlowOf(0, 1).status, FlowStatus::kRouted);
}

TEST(AdmissionOfCluster, GivesLocalFlowsAndUnknownEndsNoPort) {
  Cluster cluster(kFourLeaves);
  cluster.ConnectAll();
  cluster.Open(0, {{.id = 1, .to = 1}});
  wire::FlowReport stranger = Cluster::Opening(cluster, 0, {{.id = 2, .to = 5}});
  stranger.addresses[1] = *IpAddress::Parse("192.0.2.1");
  cluster.Report(0, stranger);
  wire::FlowReport not_its_own = Cluster::Opening(cluster, 3, {{.id = 3, .to = 5}});
  cluster.Report(0, not_its_own);
  cluster.Settle();
  EXPECT_EQ(cluster.FlowOf(0, 1).status, FlowStatus::kLocal);
  EXPECT_EQ(cluster.FlowOf(0, 2).status, FlowStatus::kUnroutable);
  EXPECT_EQ(cluster.FlowOf(0, 3).status, FlowStatus::kUnroutable);
  EXPECT_TRUE(cluster.host(0).ports.empty());
}

}  // namespace
}  // namespace espalier::controller
