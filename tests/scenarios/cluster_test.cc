// The real controller and real agents under virtual time: the behaviour of a cluster from start to
// end, and when parts of it fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/scenarios/sim_cluster.h"
#include "tests/seeds.h"

namespace espalier::scenarios {
namespace {

using namespace std::chrono_literals;
using controller::IntentAction;
using fabric::LinkState;
using FlowRef = SimCluster::FlowRef;

constexpr std::uint64_t kGigabyte = 1'000'000'000;
constexpr std::uint64_t kEndless = 1'000'000 * kGigabyte;

// The flows whose path passes this link.
std::set<std::size_t> FlowsOn(SimCluster& cluster, const std::vector<FlowRef>& flows,
                              const std::string& link) {
  std::set<std::size_t> found;
  const auto id = cluster.fabric().topology().FindLink(link);
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const auto flow = cluster.host(flows[i].host).FabricFlow(flows[i].flow);
    const auto route = cluster.fabric().Trace(cluster.fabric().TupleOf(flow));
    if (std::any_of(route.hops.begin(), route.hops.end(),
                    [&](const auto& hop) { return hop.link == *id; })) {
      found.insert(i);
    }
  }
  return found;
}

std::set<std::size_t> Changed(const std::vector<std::uint16_t>& before,
                              const std::vector<std::uint16_t>& after) {
  std::set<std::size_t> changed;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] != after[i]) changed.insert(i);
  }
  return changed;
}

bool AnyStandsStill(SimCluster& cluster, const std::vector<FlowRef>& flows) {
  return std::any_of(flows.begin(), flows.end(),
                     [&](const FlowRef& flow) { return cluster.StandsStill(flow); });
}

// A cluster whose flows never end and do not share links.
class SteadyCluster {
 public:
  explicit SteadyCluster(const ClusterOptions& options) : cluster(options) {
    cluster.StartAll();
    flows = cluster.StartPermutation(1, kEndless);
    EXPECT_TRUE(cluster.RunUntil([&] { return cluster.AllRouted(flows); }, 60s));
    EXPECT_EQ(cluster.MaxLinkFlows(), 1);
    ports = cluster.PortsOf(flows);
  }

  bool NothingMoved() { return cluster.PortsOf(flows) == ports; }

  SimCluster cluster;
  std::vector<FlowRef> flows;
  std::vector<std::uint16_t> ports;  // at the beginning
};

TEST(Cluster, SteersAPermutationApart) {
  for (const bool knows_hash : {true, false}) {
    SimCluster cluster({.controller_knows_hash = knows_hash});
    cluster.StartAll();
    cluster.world().RunFor(1s);
    // 16 GB at 100 Gbit/s: 1.28 s when alone.
    const auto flows = cluster.StartPermutation(1, 16 * kGigabyte);
    EXPECT_GT(cluster.MaxLinkFlows(), 1);
    ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllRouted(flows); }, 1s)) << knows_hash;
    EXPECT_EQ(cluster.MaxLinkFlows(), 1);
    const auto all_ended = [&] {
      return std::all_of(flows.begin(), flows.end(),
                         [&](const FlowRef& flow) { return cluster.PortOf(flow) == 0; });
    };
    EXPECT_TRUE(cluster.RunUntil(all_ended, 1500ms)) << knows_hash;
    cluster.world().RunFor(1s);
    EXPECT_EQ(cluster.controller().state().flows.size(), 0u);
  }
}

TEST(Cluster, ALinkThatTheOperatorFailsIsLeftByTheFlowsOnItAndNoOther) {
  SteadyCluster steady({});
  SimCluster& cluster = steady.cluster;
  const auto on_link = FlowsOn(cluster, steady.flows, "leaf2--spine1");
  ASSERT_FALSE(on_link.empty());
  const auto outcome = cluster.ChangeLink("leaf2--spine1", IntentAction::kFail, {.reason = "test"});
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->moves.size(), on_link.size());
  cluster.world().RunFor(5s);
  EXPECT_TRUE(FlowsOn(cluster, steady.flows, "leaf2--spine1").empty());
  EXPECT_EQ(Changed(steady.ports, cluster.PortsOf(steady.flows)), on_link);
}

TEST(Cluster, AFarLinkThatDiesIsLeftWhenTheOperatorSaysSo) {
  SteadyCluster steady({});
  SimCluster& cluster = steady.cluster;
  const auto on_link = FlowsOn(cluster, steady.flows, "leaf2--spine1");
  cluster.fabric().SetLink(*cluster.fabric().topology().FindLink("leaf2--spine1"),
                           LinkState::kDown);
  EXPECT_TRUE(AnyStandsStill(cluster, steady.flows));
  ASSERT_TRUE(cluster.ChangeLink("leaf2--spine1", IntentAction::kFail, {.reason = "test"}));
  ASSERT_TRUE(cluster.RunUntil([&] { return !AnyStandsStill(cluster, steady.flows); }, 100ms));
  cluster.world().RunFor(5s);
  EXPECT_FALSE(AnyStandsStill(cluster, steady.flows));
  EXPECT_TRUE(cluster.AllRouted(steady.flows));
  // leaf2 itself notices the failure and hashes over fewer links, so its own flows may need other
  // ports, too.
  for (const std::size_t flow : Changed(steady.ports, cluster.PortsOf(steady.flows))) {
    EXPECT_TRUE(on_link.contains(flow) || flow / 4 == 2) << flow;
  }
}

TEST(Cluster, AgentsLeaveADeadFarLinkByThemselves) {
  SteadyCluster steady({});
  SimCluster& cluster = steady.cluster;
  cluster.KillController();
  std::set<std::size_t> into_leaf2 = FlowsOn(cluster, steady.flows, "leaf2--spine1");
  std::erase_if(into_leaf2, [](std::size_t flow) { return flow / 4 == 2; });
  ASSERT_FALSE(into_leaf2.empty());
  cluster.fabric().SetLink(*cluster.fabric().topology().FindLink("leaf2--spine1"),
                           LinkState::kDown);
  ASSERT_TRUE(cluster.RunUntil([&] { return !AnyStandsStill(cluster, steady.flows); }, 30s));
  EXPECT_EQ(Changed(steady.ports, cluster.PortsOf(steady.flows)), into_leaf2);
}

TEST(Cluster, NothingMovesWhenTheControllerDiesAndComesBack) {
  SteadyCluster steady({});
  SimCluster& cluster = steady.cluster;
  ASSERT_TRUE(cluster.ChangeLink("leaf0--spine3", IntentAction::kFail, {.reason = "broken"}));
  ASSERT_TRUE(cluster.RunUntil(
      [&] {
        return cluster.AllRouted(steady.flows) &&
               FlowsOn(cluster, steady.flows, "leaf0--spine3").empty();
      },
      10s));
  const auto ports = cluster.PortsOf(steady.flows);
  const std::uint64_t epoch = cluster.disk().epoch;
  cluster.KillController();
  cluster.world().RunFor(30s);
  EXPECT_EQ(cluster.PortsOf(steady.flows), ports);
  for (int i = 0; i < cluster.host_count(); ++i) {
    EXPECT_EQ(cluster.agent(i).state(), agent::AgentState::kOrphan);
  }
  cluster.StartController();
  EXPECT_GT(cluster.disk().epoch, epoch);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllRouted(steady.flows); }, 60s));
  cluster.world().RunFor(10s);
  EXPECT_EQ(cluster.PortsOf(steady.flows), ports);
  const auto link = cluster.fabric().topology().FindLink("leaf0--spine3");
  EXPECT_EQ(cluster.controller().state().topology.link(*link).state, LinkState::kDown);
}

// The ports of all subflows of flows that are split in two, in order for each flow.
std::vector<std::vector<std::uint16_t>> AllPorts(SimCluster& cluster,
                                                 const std::vector<FlowRef>& flows) {
  std::vector<std::vector<std::uint16_t>> ports;
  for (const FlowRef& flow : flows) ports.push_back(cluster.AllPortsOf(flow));
  return ports;
}

TEST(Cluster, EveryPathOfEverySplitFlowIsKeptOverARestart) {
  SimCluster cluster({});
  cluster.StartAll();
  const auto flows = cluster.StartPermutation(1, kEndless, 2);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllRouted(flows); }, 60s));
  const auto ports = AllPorts(cluster, flows);
  for (const auto& of_flow : ports) {
    ASSERT_EQ(of_flow.size(), 2U);
    EXPECT_NE(of_flow[0], of_flow[1]);
  }
  EXPECT_EQ(cluster.MaxLinkFlows(), 2);  // halves of flows
  cluster.KillController();
  cluster.world().RunFor(10s);
  cluster.StartController();
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllRouted(flows); }, 60s));
  EXPECT_EQ(AllPorts(cluster, flows), ports);
  cluster.world().RunFor(10s);
  EXPECT_EQ(AllPorts(cluster, flows), ports);
  EXPECT_EQ(cluster.controller().state().flow_paths.assigner().MaxLoad(), (controller::Load{1, 1}));
}

// Half of a flow continues, and only the other half leaves its path, without a controller.
TEST(Cluster, AgentsLeaveOneDeadPathOfSeveral) {
  SimCluster cluster({});
  cluster.StartAll();
  const auto flows = cluster.StartPermutation(1, kEndless, 2);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllRouted(flows); }, 60s));
  const auto ports = AllPorts(cluster, flows);
  cluster.KillController();
  cluster.fabric().SetLink(*cluster.fabric().topology().FindLink("leaf2--spine1"),
                           LinkState::kDown);
  std::set<std::uint16_t> dead;
  std::size_t half_dead = 0;
  for (const FlowRef& flow : flows) {
    std::size_t standing = 0;
    for (const sim::SimFlowId part : cluster.host(flow.host).FabricFlows(flow.flow)) {
      if (!cluster.fabric().ProgressOf(part).stands_still) continue;
      ++standing;
      dead.insert(cluster.fabric().TupleOf(part).source_port);
    }
    half_dead += standing == 1 ? 1 : 0;
  }
  ASSERT_GT(half_dead, 0U);
  const auto none_stands = [&] { return !AnyStandsStill(cluster, flows); };
  ASSERT_TRUE(cluster.RunUntil(none_stands, 30s));
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const auto now = cluster.AllPortsOf(flows[i]);
    for (std::size_t part = 0; part < 2; ++part) {
      if (now[part] != ports[i][part]) {
        EXPECT_TRUE(dead.contains(ports[i][part])) << i;
      }
    }
  }
  // The restarted controller keeps all paths, including those that agents chose.
  const auto after = AllPorts(cluster, flows);
  cluster.StartController();
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllRouted(flows); }, 60s));
  EXPECT_EQ(AllPorts(cluster, flows), after);
}

TEST(Cluster, FlowsWhosePathsNoProbeFindsAgainAreNotForgottenAfterARestart) {
  SteadyCluster steady({});
  SimCluster& cluster = steady.cluster;
  cluster.KillController();
  cluster.fabric().SetAnswersProbes(false);
  cluster.StartController();
  // New flows keep the controller busy until the time for adoption is over.
  for (int i = 0; i < 400; ++i) {
    cluster.host(0).Open({.destination = cluster.host(15).address(), .bytes = 10'000'000});
    cluster.world().RunFor(10ms);
  }
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllRouted(steady.flows); }, 10s));
  EXPECT_EQ(cluster.MaxLinkFlows(), 1);
}

TEST(Cluster, WithoutAControllerFlowsGoBackToEcmpAfterTheLease) {
  SteadyCluster steady({});
  SimCluster& cluster = steady.cluster;
  cluster.KillController();
  cluster.world().RunFor(9min);
  EXPECT_TRUE(steady.NothingMoved());
  cluster.world().RunFor(2min);
  for (const std::uint16_t port : cluster.PortsOf(steady.flows)) EXPECT_EQ(port, 0xC000);
}

TEST(Cluster, AnAgentThatIsKilledAndComesBackMovesNothing) {
  SteadyCluster steady({});
  SimCluster& cluster = steady.cluster;
  for (const int host : {0, 5, 6}) cluster.KillAgent(host);
  cluster.world().RunFor(10s);
  EXPECT_TRUE(steady.NothingMoved());
  for (const int host : {0, 5, 6}) cluster.StartAgent(host);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllRouted(steady.flows); }, 30s));
  EXPECT_EQ(cluster.MaxLinkFlows(), 1);
}

TEST(Cluster, APartitionMovesNothing) {
  SteadyCluster steady({});
  SimCluster& cluster = steady.cluster;
  for (const int host : {1, 2, 9}) cluster.network().Partition(SimCluster::HostName(host));
  cluster.world().RunFor(20s);
  EXPECT_EQ(cluster.agent(2).state(), agent::AgentState::kOrphan);
  EXPECT_EQ(cluster.agent(3).state(), agent::AgentState::kSynced);
  for (const int host : {1, 2, 9}) cluster.network().Heal(SimCluster::HostName(host));
  ASSERT_TRUE(cluster.RunUntil(
      [&] {
        return cluster.agent(1).state() == agent::AgentState::kSynced &&
               cluster.agent(2).state() == agent::AgentState::kSynced &&
               cluster.agent(9).state() == agent::AgentState::kSynced;
      },
      30s));
  cluster.world().RunFor(5s);
  EXPECT_TRUE(cluster.AllRouted(steady.flows));
  EXPECT_TRUE(steady.NothingMoved());
}

TEST(Cluster, ANetworkThatLosesAndRepeatsMessagesOnlyDelays) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SimCluster cluster(
        {.seed = seed, .faults = {.delay = 200us, .jitter = 5ms, .loss = 0.1, .duplication = 0.1}});
    cluster.StartAll();
    const auto flows = cluster.StartPermutation(1, kEndless);
    ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllRouted(flows); }, 120s)) << seed;
    EXPECT_EQ(cluster.MaxLinkFlows(), 1) << seed;
  }
}

// All kinds of failures happen, by the seed; then the cluster is left alone and must recover.
std::uint64_t RunStorm(std::uint64_t seed) {
  SimCluster cluster({.seed = seed, .faults = {.jitter = 2ms, .loss = 0.02, .duplication = 0.02}});
  cluster.StartAll();
  Random random(seed);
  const auto flows = cluster.StartPermutation(1 + static_cast<int>(seed % 3), kEndless);
  std::set<int> dead_agents;
  bool controller_lives = true;
  for (int event = 0; event < 40; ++event) {
    const int host = static_cast<int>(random.Below(16));
    switch (random.Below(6)) {
      case 0:
        controller_lives ? cluster.KillController() : cluster.StartController();
        controller_lives = !controller_lives;
        break;
      case 1:
        dead_agents.contains(host) ? cluster.StartAgent(host) : cluster.KillAgent(host);
        if (!dead_agents.insert(host).second) dead_agents.erase(host);
        break;
      case 2:
        cluster.network().Partition(SimCluster::HostName(host));
        break;
      case 3:
        cluster.network().Heal(SimCluster::HostName(host));
        break;
      case 4:
        cluster.network().Break(SimCluster::HostName(host));
        break;
      default:
        break;
    }
    cluster.world().RunFor(Duration(static_cast<Duration::rep>(random.Below(4'000'000'000))));
  }
  if (!controller_lives) cluster.StartController();
  for (const int host : dead_agents) cluster.StartAgent(host);
  for (int i = 0; i < 16; ++i) cluster.network().Heal(SimCluster::HostName(i));
  cluster.network().SetFaults({});
  EXPECT_TRUE(cluster.RunUntil([&] { return cluster.AllRouted(flows); }, 120s)) << "seed " << seed;
  EXPECT_FALSE(AnyStandsStill(cluster, flows)) << "seed " << seed;
  return cluster.world().TraceHash();
}

TEST(Cluster, ComesRightAfterAnyStorm) {
  for (const std::uint64_t seed : SeedsToTry(1, 12)) RunStorm(seed);
}

TEST(Cluster, TheSameSeedGivesTheSameTrace) {
  const std::uint64_t first = RunStorm(3);
  EXPECT_EQ(RunStorm(3), first);
  EXPECT_NE(RunStorm(4), first);
}

// 1,024 agents with hashes that no model knows, so that the controller learns by probes only.
TEST(LargeCluster, SteersAThousandFlowsApart) {
  SimCluster cluster({.shape = {.spines = 32, .leaves = 32, .hosts_per_leaf = 32},
                      .hash = "jenkins",
                      .controller_knows_hash = false});
  cluster.StartAll();
  cluster.world().RunFor(1s);
  const auto flows = cluster.StartPermutation(7, kEndless);
  EXPECT_GT(cluster.MaxLinkFlows(), 2);
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllRouted(flows); }, 10s));
  EXPECT_EQ(cluster.MaxLinkFlows(), 1);
  const auto ports = cluster.PortsOf(flows);
  const auto on_link = FlowsOn(cluster, flows, "leaf9--spine4");
  ASSERT_TRUE(cluster.ChangeLink("leaf9--spine4", IntentAction::kFail, {}));
  cluster.world().RunFor(1s);
  EXPECT_EQ(Changed(ports, cluster.PortsOf(flows)), on_link);
  EXPECT_TRUE(cluster.AllRouted(flows));
}

}  // namespace
}  // namespace espalier::scenarios
