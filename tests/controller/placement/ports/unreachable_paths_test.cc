// Flows on a fabric of three tiers, some of whose paths no source port takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "controller/paths/models/path_reach.h"
#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

// Two pods of two leaves and two aggregation switches, below four cores: four paths between pods.
// Paths 0 and 1 are those of aggregation switch 0, paths 2 and 3 those of aggregation switch 1.
class UnreachablePaths : public testing::Test {
 protected:
  UnreachablePaths()
      : cluster_(*fabric::BuildPods({.pods = 2,
                                     .leaves_per_pod = 2,
                                     .aggs_per_pod = 2,
                                     .cores = 4,
                                     .hosts_per_leaf = 4}),
                 {.verification = {.interval = 100ms}}) {}

  // Switches of both tiers choose alike: the diagonal of (aggregation switch, core).
  void HashAlike() {
    cluster_.hash = [](int from, int to, std::uint16_t port) {
      return (from * 5 + to * 3 + port / 7 + port) % 2 == 0 ? 0 : 3;
    };
  }
  void HashApart() {
    cluster_.hash = [](int from, int to, std::uint16_t port) {
      return (from * 5 + to * 3 + port / 7 + port) % 4;
    };
  }
  // One flow from each host of leaf 0 to one of leaf 2, which is in the other pod.
  void OpenFour() {
    cluster_.ConnectAll();
    for (int host = 0; host < 4; ++host) cluster_.Open(host, {{.id = 1, .to = 8 + host}});
    for (int i = 0; i < 20; ++i) cluster_.Advance(200ms);
  }
  // How many of these flows are on each path, as the fabric forwards their ports.
  std::map<int, int> FlowsByPath() {
    std::map<int, int> flows;
    for (int host = 0; host < 4; ++host) {
      EXPECT_EQ(cluster_.FlowOf(host, 1).status, FlowStatus::kRouted) << host;
      ++flows[cluster_.AppliedSpine(host, 1, 8 + host)];
    }
    return flows;
  }
  // Whether the controller thinks that no port of the first flow's ends takes this path.
  bool IsUnreachable(int path) {
    const Flow& flow = cluster_.FlowOf(0, 1);
    return controller::IsUnreachable(cluster_.state().path_map, flow.key,
                                     cluster_.state().PathsOf(flow), fabric::PathIndex(path));
  }

  // The events that tell of unreachable paths.
  std::vector<std::string> Told() {
    std::vector<std::string> texts;
    for (const HistoryEvent& event : cluster_.state().history.Since(0, 10'000)) {
      if (event.kind == "paths_unreachable") texts.push_back(event.text);
    }
    return texts;
  }

  Cluster cluster_;
};

TEST_F(UnreachablePaths, LearnsPathsOfBothTiersByOneProbeAPort) {
  HashApart();
  OpenFour();
  std::map<int, int> flows = FlowsByPath();
  EXPECT_EQ(flows[0] + flows[1], 2);
  EXPECT_EQ(flows[2] + flows[3], 2);
  for (int path = 0; path < 4; ++path) EXPECT_FALSE(IsUnreachable(path)) << path;
  // One host tries 64 ports to recognise the hash, the others 16, and ports in use are verified.
  int probes = 0;
  for (int host = 0; host < 4; ++host) probes += cluster_.host(host).probes;
  EXPECT_LE(probes, 220);
}

TEST_F(UnreachablePaths, SpreadsFlowsOverThePathsThatHavePorts) {
  HashAlike();
  OpenFour();
  EXPECT_EQ(FlowsByPath(), (std::map<int, int>{{0, 2}, {3, 2}}));
  int probes = 0;
  for (int host = 0; host < 4; ++host) probes += cluster_.host(host).probes;
  EXPECT_LT(probes, 2'000) << "no search through all 16,384 ports of a key";
}

TEST_F(UnreachablePaths, AreToldOnceForEachLeaf) {
  HashAlike();
  OpenFour();
  const std::string text = "leaf=leaf0 toward=leaf2 unreachable=2 paths=4 via=";
  ASSERT_EQ(Told().size(), 1U);
  EXPECT_EQ(Told().front().substr(0, text.size()), text);
  for (int host = 0; host < 4; ++host) cluster_.Open(host, {{.id = 2, .to = 12 + host}});
  cluster_.Advance(5s);
  EXPECT_EQ(Told().size(), 1U) << "the same leaf, to another one";
  for (int host = 4; host < 8; ++host) cluster_.Open(host, {{.id = 1, .to = 8 + host}});
  for (int i = 0; i < 20; ++i) cluster_.Advance(200ms);
  ASSERT_EQ(Told().size(), 2U);
  EXPECT_EQ(Told().back().find("leaf=leaf1 "), 0U) << Told().back();
}

TEST_F(UnreachablePaths, AreNotToldIfAllPathsHavePorts) {
  HashApart();
  OpenFour();
  EXPECT_TRUE(Told().empty());
}

TEST_F(UnreachablePaths, PromisesThemAgainWhenTheFabricHasChanged) {
  HashAlike();
  OpenFour();
  bool is_one_given_up = false;
  for (int path = 0; path < 4; ++path) is_one_given_up |= IsUnreachable(path);
  EXPECT_TRUE(is_one_given_up);
  HashApart();
  ASSERT_TRUE(cluster_.ChangeLink("agg0--core1", IntentAction::kFail).has_value());
  ASSERT_TRUE(cluster_.ChangeLink("agg0--core1", IntentAction::kRestore).has_value());
  for (int path = 0; path < 4; ++path) EXPECT_FALSE(IsUnreachable(path)) << path;
  for (int host = 0; host < 4; ++host) cluster_.End(host, 1);
  cluster_.Advance(1s);
  for (int host = 0; host < 4; ++host) cluster_.Open(host, {{.id = 2, .to = 8 + host}});
  for (int i = 0; i < 20; ++i) cluster_.Advance(200ms);
  std::set<int> paths;
  for (int host = 0; host < 4; ++host) paths.insert(cluster_.AppliedSpine(host, 2, 8 + host));
  EXPECT_EQ(paths, (std::set<int>{0, 2})) << "path 2 had no ports before";
}

TEST_F(UnreachablePaths, LetsFlowsRestAfterALinkHasReturned) {
  HashAlike();
  OpenFour();
  for (int host = 4; host < 8; ++host) cluster_.Open(host, {{.id = 1, .to = 8 + host}});
  ASSERT_TRUE(cluster_.ChangeLink("agg1--core3", IntentAction::kFail).has_value());
  for (int i = 0; i < 20; ++i) cluster_.Advance(200ms);
  ASSERT_TRUE(cluster_.ChangeLink("agg1--core3", IntentAction::kRestore).has_value());
  for (int i = 0; i < 100; ++i) cluster_.Advance(200ms);
  const std::uint64_t changes = cluster_.state().flow_paths.path_changes();
  for (int i = 0; i < 100; ++i) cluster_.Advance(200ms);
  EXPECT_EQ(cluster_.state().flow_paths.path_changes(), changes);
  std::map<int, int> flows;
  for (int host = 0; host < 8; ++host) ++flows[cluster_.AppliedSpine(host, 1, 8 + host)];
  EXPECT_EQ(flows, (std::map<int, int>{{0, 4}, {3, 4}}));
}

}  // namespace
}  // namespace espalier::controller
