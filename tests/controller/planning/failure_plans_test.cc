// Flows leave a failure domain by precomputed backup paths.
#include "controller/planning/failure_plans.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/placement/placement.h"
#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr const char* kHits = "espalier_failure_plan_hits_total";
constexpr const char* kMisses = "espalier_failure_plan_misses_total";

// All failure domains.
std::vector<LinkOrSwitch> AllElements(const State& state) {
  std::vector<LinkOrSwitch> all;
  for (std::size_t i = 0; i < state.topology.links().size(); ++i) {
    all.push_back(LinkOrSwitch::Link(fabric::LinkId(static_cast<std::int32_t>(i))));
  }
  for (std::size_t i = 0; i < state.topology.nodes().size(); ++i) {
    all.push_back(LinkOrSwitch::Switch(fabric::NodeId(static_cast<std::int32_t>(i))));
  }
  return all;
}

std::string NameOf(const State& state, LinkOrSwitch domain) {
  return domain.IsLink() ? state.topology.link(domain.link()).id
                         : state.topology.node(domain.node()).id;
}

class FailurePlansTest : public testing::Test {
 protected:
  void Build(bool plan_ahead = true, const std::function<int(int, int, std::uint16_t)>& hash = {}) {
    cluster_ = std::make_unique<Cluster>(
        fabric::LeafSpineOptions{.spines = 4, .leaves = 4, .hosts_per_leaf = 3},
        ControllerOptions{.plan_ahead = plan_ahead});
    if (hash) cluster_->hash = hash;
    cluster_->ConnectAll();
    for (int host = 0; host < cluster_->hosts(); ++host) {
      cluster_->Open(host, {{.id = 1, .to = (host + 3) % 12}});
    }
    cluster_->Settle();
    cluster_->Advance(1s);
  }
  std::set<int> HostsOn(const std::string& link) {
    const auto id = *cluster_->state().topology.FindLink(link);
    std::set<int> hosts;
    for (const bool forward : {true, false}) {
      const auto index = static_cast<std::uint32_t>(fabric::DirectedLink{id, forward}.Index());
      for (const SubflowId subflow : cluster_->state().flow_paths.assigner().SubflowsOn(index)) {
        const State& state = cluster_->state();
        const Flow& flow = state.flows.At(state.flow_paths.FlowOf(subflow));
        hosts.insert(std::stoi(state.agents.At(flow.agent).name.substr(1)));
      }
    }
    return hosts;
  }
  // Sets all links of the node down in the state alone; returns them and the subflows on them.
  std::pair<std::vector<fabric::LinkId>, std::vector<SubflowId>> FailLinksOf(
      const std::string& name) {
    State& state = cluster_->state();
    const auto node = *state.topology.FindNode(name);
    std::vector<fabric::LinkId> failed;
    for (std::size_t i = 0; i < state.topology.links().size(); ++i) {
      const fabric::LinkId link(static_cast<std::int32_t>(i));
      const fabric::Link& ends = state.topology.link(link);
      if (ends.a != node && ends.b != node) continue;
      state.topology.SetLinkState(link, fabric::LinkState::kDown);
      failed.push_back(link);
    }
    state.view.Refresh();
    const auto affected = state.flow_paths.HandleLinkChange();
    return {failed, {affected.begin(), affected.end()}};
  }
  std::size_t PushesOf(int host) { return cluster_->host(host).pushes.size(); }

  std::unique_ptr<Cluster> cluster_;
};

TEST_F(FailurePlansTest, AreFreshForAllThatCarriesFlows) {
  Build();
  const FailurePlans& plans = cluster_->controller().failure_plans();
  EXPECT_GT(plans.loaded(), 0U);
  EXPECT_EQ(plans.fresh(), plans.loaded());
  // Each flow is on two links, a spine and two leaves.
  EXPECT_EQ(plans.entries(), 12U * 5);
}

TEST_F(FailurePlansTest, OnlyFlowsOnAFailedLinkArePushedAndMoveByThePlan) {
  for (const bool plan_ahead : {true, false}) {
    Build(plan_ahead);
    const std::set<int> on_link = HostsOn("leaf1--spine2");
    ASSERT_FALSE(on_link.empty());
    std::vector<std::size_t> before;
    for (int host = 0; host < 12; ++host) before.push_back(PushesOf(host));
    const auto outcome = cluster_->ChangeLink("leaf1--spine2", IntentAction::kFail);
    ASSERT_TRUE(outcome.has_value());
    EXPECT_EQ(outcome->moves.size(), on_link.size());
    cluster_->Settle();
    for (int host = 0; host < 12; ++host) {
      const bool is_told = PushesOf(host) > before[static_cast<std::size_t>(host)];
      EXPECT_EQ(is_told, on_link.contains(host)) << host;
      if (!on_link.contains(host)) continue;
      EXPECT_NE(cluster_->AppliedSpine(host, 1, (host + 3) % 12), 2);
      EXPECT_EQ(cluster_->FlowOf(host, 1).origin,
                plan_ahead ? DecisionOrigin::kFailure : DecisionOrigin::kReactive);
      EXPECT_EQ(cluster_->host(host).sets.at(1).reason, wire::PathReason::kPathDead);
    }
    const auto moved = static_cast<std::int64_t>(on_link.size());
    EXPECT_EQ(cluster_->CounterValue(kHits), plan_ahead ? moved : 0);
    EXPECT_EQ(cluster_->CounterValue(kMisses), plan_ahead ? 0 : moved);
  }
}

TEST_F(FailurePlansTest, FlowsOfAFailedSwitchAreSpreadEvenly) {
  Build();
  ASSERT_TRUE(cluster_->ChangeNode("spine1", IntentAction::kFail).has_value());
  cluster_->Settle();
  EXPECT_GT(cluster_->CounterValue(kHits), 0);
  EXPECT_EQ(cluster_->CounterValue(kMisses), 0);
  EXPECT_EQ(cluster_->state().flow_paths.assigner().MaxLoad(),
            (Load{1, 1}));  // three flows a leaf, three spines
}

TEST_F(FailurePlansTest, SurvivesASecondFailureBeforePlansAreRefreshed) {
  Build();
  // No background work runs between them.
  for (const char* link : {"leaf0--spine0", "leaf1--spine1", "leaf2--spine2", "leaf1--spine0"}) {
    ASSERT_TRUE(cluster_->ChangeLink(link, IntentAction::kFail).has_value());
  }
  cluster_->Settle();
  for (int host = 0; host < 12; ++host) {
    const Flow& flow = cluster_->FlowOf(host, 1);
    const auto path = cluster_->state().flow_paths.PathOf(flow.subflows[0]);
    ASSERT_TRUE(path) << host;
    EXPECT_TRUE(fabric::IsUsable(cluster_->state().topology,
                                 cluster_->state().PathsOf(flow)[path->Index()]));
  }
}

TEST_F(FailurePlansTest, ARestoreMovesNoFlowAndALaterFailureIsPlannedAgain) {
  Build();
  ASSERT_TRUE(cluster_->ChangeLink("leaf1--spine2", IntentAction::kFail).has_value());
  ASSERT_TRUE(cluster_->ChangeLink("leaf1--spine2", IntentAction::kRestore).has_value());
  cluster_->Advance(1s);
  const auto hits = cluster_->CounterValue(kHits);
  const std::set<int> on_link = HostsOn("leaf1--spine3");
  ASSERT_TRUE(cluster_->ChangeLink("leaf1--spine3", IntentAction::kFail).has_value());
  EXPECT_EQ(cluster_->CounterValue(kHits) - hits, static_cast<std::int64_t>(on_link.size()));
  const auto again = cluster_->ChangeLink("leaf1--spine3", IntentAction::kFail);
  EXPECT_FALSE(again.has_value());  // it has failed already
}

TEST_F(FailurePlansTest, PortsOfBackupPathsAreKnownBeforeTheFailure) {
  Build();
  const std::set<int> on_link = HostsOn("leaf2--spine0");
  for (int host = 0; host < 12; ++host) cluster_->host(host).answers_probes = false;
  ASSERT_TRUE(cluster_->ChangeLink("leaf2--spine0", IntentAction::kFail).has_value());
  cluster_->Settle();
  for (const int host : on_link) {
    EXPECT_EQ(cluster_->FlowOf(host, 1).status, FlowStatus::kRouted) << host;
  }
}

TEST_F(FailurePlansTest, BackupPathsHavePorts) {
  Build(/*plan_ahead=*/true, [](int, int, std::uint16_t port) { return 1 + port % 3; });
  // Plans are made again, and ask for more ports, until so many are known that none of spine 0 is
  // to be expected.
  for (std::uint64_t flow = 2; flow < 10; ++flow) {
    cluster_->Open(0, {{.id = flow, .to = 6}});
    cluster_->Advance(2s);
  }
  const State& state = cluster_->state();
  const int spine0 = 0;  // which no port takes
  FailurePlans& plans = const_cast<FailurePlans&>(cluster_->controller().failure_plans());
  int backups = 0;
  for (const LinkOrSwitch domain : AllElements(state)) {
    plans.ForEachBackupPath(domain, [&](SubflowId, std::int32_t, std::int32_t to) {
      EXPECT_NE(to, spine0) << NameOf(state, domain);
      ++backups;
    });
  }
  EXPECT_GT(backups, 12);
}

TEST_F(FailurePlansTest, AreTheSameForAnySizeOfSteps) {
  Build();
  Metrics metrics;
  State& state = cluster_->state();
  PathLearner learner(state.topology, state.paths, state.path_map, {}, metrics);
  FailurePlans at_once(state, learner, metrics);
  while (at_once.RefreshNext(1'000'000)) {
  }
  FailurePlans one_by_one(state, learner, metrics);
  while (one_by_one.RefreshNext(1)) {
  }
  EXPECT_GT(at_once.entries(), 0U);
  EXPECT_EQ(one_by_one.entries(), at_once.entries());
  EXPECT_EQ(one_by_one.fresh(), at_once.fresh());
  for (const LinkOrSwitch domain : AllElements(state)) {
    for (std::uint32_t i = 0; i < state.flow_paths.owner_count(); ++i) {
      const SubflowId subflow(i);
      EXPECT_EQ(one_by_one.BackupPathFor(domain, subflow), at_once.BackupPathFor(domain, subflow));
    }
  }
}

// By failure domain: the subflows on its links between switches.
std::map<LinkOrSwitch, std::size_t> LoadsOf(const State& state) {
  std::map<LinkOrSwitch, std::size_t> loads;
  for (std::size_t i = 0; i < state.topology.links().size(); ++i) {
    const fabric::LinkId id(static_cast<std::int32_t>(i));
    for (const bool forward : {true, false}) {
      const auto link = static_cast<std::uint32_t>(fabric::DirectedLink{id, forward}.Index());
      const std::size_t subflows = state.flow_paths.assigner().SubflowsOn(link).size();
      loads[LinkOrSwitch::Link(id)] += subflows;
      loads[LinkOrSwitch::Switch(state.topology.link(id).a)] += subflows;
      loads[LinkOrSwitch::Switch(state.topology.link(id).b)] += subflows;
    }
  }
  return loads;
}

TEST_F(FailurePlansTest, AMemoryLimitDropsPlansOfTheLeastLoadedDomains) {
  Build();
  for (int host = 0; host < 3; ++host) {  // of leaf0: its links carry more
    cluster_->Open(host, {{.id = 2, .to = host + 6}, {.id = 3, .to = host + 9}});
  }
  cluster_->Settle();
  State& state = cluster_->state();
  for (const std::size_t limit : {10U, 30U, 60U}) {
    Metrics metrics;
    PathLearner learner(state.topology, state.paths, state.path_map, {}, metrics);
    FailurePlans plans(state, learner, metrics, limit);
    for (int host = 3; host < 6; ++host) {  // and stays so when loads change
      while (plans.RefreshNext()) {
      }
      EXPECT_LE(plans.entries(), limit);
      EXPECT_GT(plans.entries(), 0U);
      // A domain without a plan would not fit besides those that carry more.
      const std::map<LinkOrSwitch, std::size_t> loads = LoadsOf(state);
      for (const auto& [without, load] : loads) {
        if (load == 0 || plans.EntriesOf(without) > 0) continue;
        std::size_t most = load;
        for (const auto& [with, other] : loads) {
          const bool counts = other >= load && plans.EntriesOf(with) > 0;
          most += counts ? other : 0;
        }
        EXPECT_GT(most, limit) << NameOf(state, without);
      }
      cluster_->Open(host, {{.id = 5, .to = host + 6}, {.id = 6, .to = (host + 3) % 12}});
      cluster_->Settle();
    }
  }
}

TEST_F(FailurePlansTest, APortThatAnotherFlowHasTakenIsNotTakenTwice) {
  Build();
  // Flows of one key are on one link, so their plans may name the same port.
  for (std::uint64_t id = 10; id < 26; ++id) cluster_->Open(0, {{.id = id, .to = 3}});
  cluster_->Settle();
  cluster_->Advance(1s);
  ASSERT_TRUE(cluster_->ChangeNode("spine0", IntentAction::kFail).has_value());
  cluster_->Settle();
  std::set<std::uint16_t> ports;
  for (std::uint64_t id = 10; id < 26; ++id) {
    EXPECT_NE(cluster_->AppliedSpine(0, id, 3), 0) << id;
    for (const Subflow& subflow : cluster_->FlowOf(0, id).subflows) {
      EXPECT_TRUE(subflow.port == 0 || ports.insert(subflow.port).second) << subflow.port;
    }
  }
}

TEST_F(FailurePlansTest, APortThatTakesAnotherPathIsNotTaken) {
  for (const bool are_refreshed : {false, true}) {
    Build();
    State& state = cluster_->state();
    Metrics metrics;
    PathLearner learner(state.topology, state.paths, state.path_map, {}, metrics);
    FailurePlans plans(state, learner, metrics);
    while (plans.RefreshNext()) {
    }
    const FlowSlot slot = *state.flows.Find(*state.agents.FindByName("h0"), wire::LocalFlowId(1));
    const Flow& flow = state.flows.At(slot);
    const auto subflow = *flow.subflows[0].id;
    const std::string spine = state.Via(flow);
    const auto domain = LinkOrSwitch::Switch(*state.topology.FindNode(spine));
    const auto planned = plans.BackupPathFor(domain, subflow);
    ASSERT_TRUE(planned && planned->leads_there && planned->port != 0);
    const fabric::PathIndex elsewhere((planned->path + 1) % 4);
    ASSERT_FALSE(state.path_map.Observe(flow.key, planned->port, elsewhere));
    EXPECT_FALSE(plans.BackupPathFor(domain, subflow)->leads_there);
    if (are_refreshed) {
      // All plans are outdated.
      state.flow_paths.Unreserve(
          state.flow_paths.Reserve(flow.source_leaf, flow.destination_leaf, 0, 1));
      while (plans.RefreshNext()) {
      }
      EXPECT_NE(plans.BackupPathFor(domain, subflow)->port, planned->port);
      EXPECT_TRUE(plans.BackupPathFor(domain, subflow)->leads_there);
    }
    const ControllerOptions options;
    Placement placement(state, learner, options, metrics);
    placement.TakeFailurePlan(plans, domain, FailLinksOf(spine).second, [](AgentId) {});
    EXPECT_EQ(state.flow_paths.PathOf(flow.subflows[0]), fabric::PathIndex(planned->path));
    EXPECT_NE(flow.subflows[0].port, planned->port);
    if (flow.subflows[0].port == 0) continue;  // none is known
    EXPECT_EQ(state.path_map.Find(flow.key, flow.subflows[0].port)->path,
              state.flow_paths.PathOf(flow.subflows[0]));
  }
}

TEST_F(FailurePlansTest, EachAgentIsDecidedBeforeTheNext) {
  Build();
  State& state = cluster_->state();
  Metrics metrics;
  PathLearner learner(state.topology, state.paths, state.path_map, {}, metrics);
  FailurePlans plans(state, learner, metrics);
  while (plans.RefreshNext()) {
  }
  const ControllerOptions options;
  Placement placement(state, learner, options, metrics);
  const auto leaves_spine = [&](FlowSlot slot) {
    const Flow& flow = state.flows.At(slot);
    return state.Via(flow) != "spine1";
  };
  std::map<AgentId, std::vector<FlowSlot>> concerned;
  for (const FlowSlot slot : state.flows.All()) {
    if (!leaves_spine(slot)) concerned[state.flows.At(slot).agent].push_back(slot);
  }
  ASSERT_GT(concerned.size(), 1U);
  const auto [failed, affected] = FailLinksOf("spine1");
  std::set<AgentId> reported;
  const auto rerouted =
      placement.TakeFailurePlan(plans, *plans.Find(failed), affected, [&](AgentId agent) {
        EXPECT_TRUE(reported.insert(agent).second);
        for (const auto& [other, slots] : concerned) {
          for (const FlowSlot slot : slots) EXPECT_EQ(leaves_spine(slot), reported.contains(other));
        }
      });
  EXPECT_EQ(reported.size(), concerned.size());
  EXPECT_EQ(rerouted.size(), affected.size());  // each flow has one subflow
}

TEST_F(FailurePlansTest, AnActionReportsTheLoadsBeforeIt) {
  Build();
  const LoadSummary before = Summarize(cluster_->state());
  ASSERT_TRUE(before.IsOptimal());
  const auto failed = cluster_->ChangeNode("spine1", IntentAction::kFail);
  ASSERT_TRUE(failed.has_value());
  EXPECT_GT(cluster_->CounterValue(kHits), 0);
  EXPECT_EQ(failed->before.max_load, before.max_load);
  EXPECT_EQ(failed->before.lower_bound, before.lower_bound);
  const LoadSummary between = Summarize(cluster_->state());
  EXPECT_EQ(failed->after.max_load, between.max_load);
  const auto again = cluster_->ChangeNode("spine2", IntentAction::kFail);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->before.max_load, between.max_load);
  EXPECT_EQ(again->before.lower_bound, between.lower_bound);
  EXPECT_GT(again->after.max_load, again->before.max_load);
}

// Ports are verified once the agents have acknowledged, but at most a little later than without
// that.
TEST_F(FailurePlansTest, ProbesWaitForAcknowledgementsForAWhile) {
  for (const bool acknowledge : {true, false}) {
    Build();
    for (int host = 0; host < 12; ++host) {
      cluster_->host(host).acknowledges = acknowledge;
      cluster_->host(host).probes = 0;
    }
    const auto probes = [&] {
      int sum = 0;
      for (int host = 0; host < 12; ++host) sum += cluster_->host(host).probes;
      return sum;
    };
    cluster_->controller().actions().ChangeNode("spine1", IntentAction::kFail, {},
                                                [](const auto&) {});
    cluster_->Settle();
    cluster_->Advance(50ms);
    EXPECT_EQ(probes() > 0, acknowledge);
    cluster_->Advance(100ms);
    EXPECT_GE(probes(), 12);  // the port of each flow
    if (!acknowledge) continue;
    // The next time, too, although the agents have acknowledged before.
    for (int host = 0; host < 12; ++host) cluster_->host(host).acknowledges = false;
    const int before = probes();
    cluster_->controller().actions().ChangeNode("spine2", IntentAction::kFail, {},
                                                [](const auto&) {});
    cluster_->Settle();
    cluster_->Advance(50ms);
    EXPECT_EQ(probes(), before);
    cluster_->Advance(100ms);
    EXPECT_GT(probes(), before);
  }
}

TEST_F(FailurePlansTest, AnActionCompletesOnceTheAgentsHaveAcknowledged) {
  constexpr const char* kPaths = "espalier_failure_plan_paths_total";
  for (const bool acknowledge : {true, false}) {
    Build();
    const std::set<int> moved = HostsOn("leaf0--spine1");
    ASSERT_FALSE(moved.empty());
    for (int host = 0; host < 12; ++host) cluster_->host(host).acknowledges = acknowledge;
    std::optional<Result<ActionOutcome>> reported;
    const TimePoint start = cluster_->controller().Now();
    cluster_->controller().actions().ChangeLink(
        "leaf0--spine1", IntentAction::kFail, {},
        [&](Result<ActionOutcome> done) { reported = std::move(done); });
    cluster_->Settle();
    for (const int host : moved) {  // pushed, whenever the action completes
      EXPECT_EQ(cluster_->host(host).pushes.back().sets.size(), 1U) << host;
    }
    EXPECT_EQ(reported.has_value(), acknowledge);
    if (acknowledge) {
      EXPECT_LT(cluster_->controller().Now() - start, 1ms);
    } else {
      // The outcome computed meanwhile describes the flows as they were; plans are made later.
      const auto subflows = cluster_->CounterValue(kPaths);
      cluster_->End(*moved.begin(), 1);
      cluster_->Open(*moved.begin(), {{.id = 9, .to = (*moved.begin() + 6) % 12, .job = "next"}});
      cluster_->Advance(50ms);
      EXPECT_FALSE(reported.has_value());
      EXPECT_EQ(cluster_->CounterValue(kPaths), subflows);
      cluster_->Advance(100ms);
    }
    ASSERT_TRUE(reported.has_value() && reported->has_value());
    const ActionOutcome& outcome = **reported;
    EXPECT_EQ(outcome.moves.size(), moved.size());
    std::set<std::string> names;
    for (const FlowMove& move : outcome.moves) {
      names.insert(move.flow);
      EXPECT_EQ(move.job, "job");
      EXPECT_EQ(move.from, "spine1");
      EXPECT_NE(move.to, "spine1");
    }
    for (const int host : moved) EXPECT_TRUE(names.contains("h" + std::to_string(host) + ":1"));
    ASSERT_EQ(cluster_->disk.audit.size(), 1U);
    EXPECT_EQ(cluster_->disk.audit[0].result, AuditResult::kDone);
    EXPECT_EQ(cluster_->disk.audit[0].moves.size(), moved.size());
    cluster_->Advance(1s);
    const FailurePlans& plans = cluster_->controller().failure_plans();
    EXPECT_EQ(plans.fresh(), plans.loaded());
  }
}

TEST_F(FailurePlansTest, WorkIsBoundedHoweverOftenFlowsChange) {
  Build();
  for (int host = 0; host < 12; ++host) {
    for (std::uint64_t id = 10; id < 26; ++id) {
      cluster_->Open(host, {{.id = id, .to = (host + 3) % 12}});
    }
  }
  cluster_->Advance(1s);
  const FailurePlans& plans = cluster_->controller().failure_plans();
  ASSERT_EQ(plans.fresh(), plans.loaded());
  ASSERT_EQ(plans.entries(), 12U * 17 * 5);
  constexpr const char* kPaths = "espalier_failure_plan_paths_total";
  const auto before = cluster_->CounterValue(kPaths);
  constexpr int kMilliseconds = 200;
  for (int i = 0; i < kMilliseconds; ++i) {  // outdates all plans
    cluster_->End(i % 12, 10);
    cluster_->Open(i % 12, {{.id = 10, .to = (i + 3) % 12}});
    cluster_->Advance(1ms);
  }
  const auto subflows = cluster_->CounterValue(kPaths) - before;
  EXPECT_GT(subflows, 1'000);
  EXPECT_LE(subflows, 100 * (kMilliseconds / 2 + 1));  // 100 each 2 ms
  cluster_->Advance(1s);
  EXPECT_EQ(plans.fresh(), plans.loaded());
}

}  // namespace
}  // namespace espalier::controller
