// Tests the ports of the edges of forests, for their paths and return paths.
#include "controller/forests/edge_ports.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "tests/controller/forests/running_jobs.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

class EdgePortsTest : public RunningJobs {
 protected:
  using RunningJobs::RunningJobs;
};

// RoCE uses one destination port, whatever the listen ports of the ranks.
TEST_F(EdgePortsTest, PlansForRdmaUseRocePorts) {
  Start(Spec("other"));
  JobSpec spec = Spec();
  spec.verbs = true;
  Start(spec);
  ExpectPlannedSpines();
  EXPECT_TRUE(cluster_.host(3).plans.at({"train", 3}).verbs);
  EXPECT_FALSE(cluster_.host(3).plans.at({"other", 3}).verbs);
  EXPECT_NE(cluster_.host(3).plans.at({"train", 3}).listen_port, wire::kRoceV2Port);
  const JobPlan& plan = *JobOf().active;
  for (const TreeEdge& edge : plan.forest->edges) {
    const auto key = cluster_.controller().jobs().KeyOf(plan, edge);
    EXPECT_EQ(key.destination_port, wire::kRoceV2Port);
    EXPECT_EQ(key.protocol, wire::kProtocolUdp);
  }
}

TEST_F(EdgePortsTest, AFailedLinkBringsANewPlanOnUnusedPorts) {
  Start(Spec());
  const auto before = PortsInForce();
  const std::uint64_t version = JobOf().active->version;
  ASSERT_TRUE(cluster_.ChangeLink("leaf1--spine2", IntentAction::kFail).has_value());
  cluster_.Advance(1s);
  ASSERT_EQ(StatusOf(), JobStatus::kReady) << JobOf().problem;
  EXPECT_GT(JobOf().active->version, version);
  ExpectPlannedSpines();
  for (const auto& port : PortsInForce()) EXPECT_FALSE(before.contains(port));
  EXPECT_EQ(ReservedEdges(), JobOf().active->reserved.size());
  for (const bool forward : {true, false}) {
    const auto link = *cluster_.state().topology.FindLink("leaf1--spine2");
    const fabric::DirectedLink direction{link, forward};
    EXPECT_EQ(cluster_.state().flow_paths.assigner().LoadOf(direction.Index()), 0);
  }
  // After a rest the old ports may be chosen again.
  cluster_.Advance(3min);
  for (const auto& [key, port] : before)
    EXPECT_FALSE(cluster_.state().flow_paths.ports().IsTaken(key, port));
}

// The fabric chooses the return path of a connection, which must avoid the dead link too.
TEST_F(EdgePortsTest, WhileALinkIsDeadPortsNeedALiveReturnPath) {
  Start(Spec());
  ASSERT_TRUE(cluster_.ChangeLink("leaf1--spine2", IntentAction::kFail).has_value());
  cluster_.Advance(1s);
  ASSERT_EQ(StatusOf(), JobStatus::kReady) << JobOf().problem;
  ExpectPlannedSpines();
  int near = 0;
  for (std::size_t i = 0; i < JobOf().active->ports.size(); ++i) {
    const TreeEdge& edge = JobOf().active->forest->edges[i];
    if (!edge.crossing || (edge.from / 2 != 1 && edge.to / 2 != 1)) continue;
    ++near;
    EXPECT_NE(cluster_.SpineBack(edge.to, edge.from, JobOf().active->ports[i]), 2);
  }
  EXPECT_GT(near, 0);
}

// Two ranks with one edge in each direction, whose paths and return paths are distinguished.
class EdgePortsOfReturnPaths : public EdgePortsTest {
 protected:
  // The spines of the paths and of the return paths.
  std::pair<std::set<int>, std::set<int>> Spines() {
    std::pair<std::set<int>, std::set<int>> spines;
    const JobPlan& plan = *JobOf().active;
    for (std::size_t i = 0; i < plan.ports.size(); ++i) {
      if (plan.ports[i] == 0) continue;
      const int from = HostOf(plan.edge(i).from);
      const int to = HostOf(plan.edge(i).to);
      spines.first.insert(cluster_.SpineOf(from, to, plan.ports[i]));
      spines.second.insert(cluster_.SpineBack(to, from, plan.ports[i]));
    }
    return spines;
  }
  static int HostOf(std::int32_t rank) { return rank == 0 ? 0 : 2; }  // of leaf 0 and leaf 1
  // A forest that avoids some spines: their links are drained while it is computed.
  void StartOnOneSpine(bool verbs = false) {
    for (const char* link : {"leaf0--spine1", "leaf0--spine2", "leaf0--spine3"}) {
      ASSERT_TRUE(cluster_.ChangeLink(link, IntentAction::kDrain).has_value());
    }
    JobSpec spec = Spec("train", 0);
    spec.ranks = {"h0", "h2"};
    spec.verbs = verbs;
    Start(spec);
    for (const char* link : {"leaf0--spine1", "leaf0--spine2", "leaf0--spine3"}) {
      ASSERT_TRUE(cluster_.ChangeLink(link, IntentAction::kUndrain).has_value());
    }
    cluster_.Advance(1s);
  }
};

TEST_F(EdgePortsOfReturnPaths, ADeadLinkOnTheReturnPathBringsAnUrgentPlanWithOtherPorts) {
  StartOnOneSpine();
  const auto before = PortsInForce();
  const auto forest = JobOf().active->forest;
  const std::uint64_t version = JobOf().active->version;
  const auto [there, back] = Spines();
  const int spine = there.contains(*back.begin()) ? *back.rbegin() : *back.begin();
  ASSERT_FALSE(there.contains(spine));
  // A link of other leaves changes nothing.
  const std::string name = "spine" + std::to_string(spine);
  ASSERT_TRUE(cluster_.ChangeLink("leaf3--" + name, IntentAction::kFail).has_value());
  cluster_.Advance(2s);
  ASSERT_EQ(JobOf().active->version, version);
  ASSERT_TRUE(cluster_.ChangeLink("leaf1--" + name, IntentAction::kFail).has_value());
  cluster_.Advance(2s);
  ASSERT_EQ(StatusOf(), JobStatus::kReady) << JobOf().problem;
  EXPECT_GT(JobOf().active->version, version);
  EXPECT_TRUE(cluster_.host(0).plans.at({"train", 0}).urgent);
  EXPECT_TRUE(*JobOf().active->forest == *forest);
  for (const auto& port : PortsInForce()) EXPECT_FALSE(before.contains(port));
  EXPECT_FALSE(Spines().second.contains(spine));
  const auto events = cluster_.state().history.Since(0, 1'000);
  EXPECT_EQ(std::ranges::count(events, "job_return_path_dead", &HistoryEvent::kind), 1);
  // It has no further effect, and neither has its end.
  const std::uint64_t after = JobOf().active->version;
  ASSERT_TRUE(cluster_.ChangeLink("leaf1--" + name, IntentAction::kRestore).has_value());
  cluster_.Advance(5s);
  EXPECT_EQ(JobOf().active->version, after);
}

// A link on no path or return path, as the probe answers show.
TEST_F(EdgePortsOfReturnPaths, ADeadLinkOnNoPathChangesNothing) {
  StartOnOneSpine();
  const std::uint64_t version = JobOf().active->version;
  const auto [there, back] = Spines();
  int spine = 0;
  while (there.contains(spine) || back.contains(spine)) ++spine;
  ASSERT_LT(spine, 4);
  // Twice, as the second failure puts the findings after the first one in doubt.
  for (const char* leaf : {"leaf0--spine", "leaf1--spine"}) {
    const std::string link = leaf + std::to_string(spine);
    ASSERT_TRUE(cluster_.ChangeLink(link, IntentAction::kFail).has_value());
    cluster_.Advance(2s);
    EXPECT_EQ(JobOf().active->version, version) << link;
  }
}

class VerifiedEdgePorts : public EdgePortsTest {
 protected:
  static ControllerOptions Verifying() {
    ControllerOptions options = Options();
    options.verification.interval = 100ms;
    return options;
  }
  VerifiedEdgePorts() : EdgePortsTest(Verifying()) {}
};

TEST_F(VerifiedEdgePorts, APortThatLeadsElsewhereIsReplaced) {
  Start(Spec());
  const std::uint64_t version = JobOf().active->version;
  const auto& edges = JobOf().active->forest->edges;
  const auto edge = *std::find_if(edges.begin(), edges.end(),
                                  [](const TreeEdge& each) { return each.crossing.has_value(); });
  cluster_.hash = [hash = cluster_.hash, edge](int from, int to, std::uint16_t port) {
    const bool changed = from == edge.from && to == edge.to;
    return (hash(from, to, port) + (changed ? 1 : 0)) % 4;
  };
  cluster_.Advance(60s);
  EXPECT_GT(JobOf().active->version, version);
  EXPECT_EQ(StatusOf(), JobStatus::kReady);
  ExpectPlannedSpines();
}

}  // namespace
}  // namespace espalier::controller
