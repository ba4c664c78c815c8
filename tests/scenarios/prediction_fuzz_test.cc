// Overlapping failures and restores, flapping links, and jobs that start and end, from random
// seeds: checks invariants that must always hold.
#include <gtest/gtest.h>

#include <random>

#include "tests/scenarios/sim_cluster.h"
#include "tests/seeds.h"

namespace espalier::scenarios {
namespace {

using namespace std::chrono_literals;
using controller::IntentAction;
using fabric::LinkState;

TEST(Detection, AFarLinkThatTestsFindDeadIsTakenOutOfUse) {
  SimCluster cluster({.agents_test_links = true});
  cluster.StartAll();
  auto flows = cluster.StartPermutation(1, 1'000'000'000'000'000);
  const auto more = cluster.StartPermutation(2, 1'000'000'000'000'000);
  flows.insert(flows.end(), more.begin(), more.end());
  ASSERT_TRUE(cluster.RunUntil([&] { return cluster.AllRouted(flows); }, 60s));
  const auto link = *cluster.fabric().topology().FindLink("leaf2--spine1");
  cluster.fabric().SetLink(link, LinkState::kDown);
  const auto state = [&] { return cluster.controller().state().topology.link(link).state; };
  ASSERT_TRUE(cluster.RunUntil([&] { return state() == LinkState::kDown; }, 30s));
  for (const fabric::Link& other : cluster.controller().state().topology.links()) {
    const LinkState expected = other.id == "leaf2--spine1" ? LinkState::kDown : LinkState::kUp;
    EXPECT_EQ(other.state, expected) << other.id;
  }
  cluster.fabric().SetLink(link, LinkState::kUp);
  EXPECT_TRUE(cluster.RunUntil([&] { return state() == LinkState::kUp; }, 60s));
}

class Fuzz {
 public:
  explicit Fuzz(std::uint64_t seed)
      : random_(seed),
        cluster_({.shape = {.spines = 3, .leaves = 3, .hosts_per_leaf = 3}, .seed = seed}) {
    cluster_.StartAll();
  }

  void Run(Duration time) {
    const TimePoint end = cluster_.world().Now() + time;
    while (cluster_.world().Now() < end) {
      Step();
      cluster_.world().RunFor(std::chrono::milliseconds(random_() % 300));
      Check();
    }
  }

 private:
  static constexpr std::size_t kMaxFlows = 30;

  std::size_t Draw(std::size_t below) { return static_cast<std::size_t>(random_() % below); }
  std::string SwitchLink() {
    return "leaf" + std::to_string(Draw(3)) + "--spine" + std::to_string(Draw(3));
  }
  fabric::LinkId Find(const std::string& link) {
    return *cluster_.fabric().topology().FindLink(link);
  }

  void Step() {
    const std::string link = SwitchLink();
    switch (Draw(10)) {
      case 0:
        Act(link, IntentAction::kFail);
        break;
      case 1:
        Act(link, IntentAction::kRestore);
        break;
      case 2:  // the next action before the current one is durable
        Act(link, IntentAction::kDrain);
        Act(SwitchLink(), IntentAction::kFail);
        Act(link, IntentAction::kUndrain);
        break;
      case 3:
        cluster_.fabric().SetLink(Find(link), Draw(2) == 0 ? LinkState::kDown : LinkState::kUp);
        break;
      case 4:
        cluster_.controller().links().health.HandleFeedReport(Find(link), Draw(2) == 0, "fuzz");
        break;
      case 5:
        cluster_.KillController();
        cluster_.StartController();
        break;
      default:
        StartJob();
    }
  }
  void Act(const std::string& link, IntentAction action) {
    cluster_.controller().actions().ChangeLink(link, action, {.reason = "fuzz"},
                                               [](const auto&) {});
  }
  void StartJob() {
    if (cluster_.controller().state().flows.size() > kMaxFlows) return;
    // A few jobs repeat, some with different sizes each time.
    const std::size_t job = Draw(4);
    for (std::size_t i = 0; i < 9; ++i) {
      const auto to = static_cast<int>((i + 3 + job) % 9);
      const std::uint64_t bytes = job == 3 ? random_() % 100'000'000'000 : 500'000'000;
      cluster_.host(static_cast<int>(i))
          .Open({.destination = cluster_.host(to).address(),
                 .bytes = bytes + 1,
                 .job = "job" + std::to_string(job)});
    }
  }

  // Checks that no subflow of a routed flow is on a link that the controller considers down, that
  // its loads match its paths, and that it keeps no state of flows that are gone.
  void Check() {
    const controller::State& state = cluster_.controller().state();
    state.flow_paths.CheckInvariants();
    std::uint64_t fingerprint = 0;
    for (const controller::FlowSlot slot : state.flows.All()) {
      const controller::Flow& flow = state.flows.At(slot);
      for (const controller::Subflow& subflow : flow.subflows) {
        const auto path = state.flow_paths.PathOf(subflow);
        if (!path) continue;
        fingerprint += FingerprintOf(state.view, flow, subflow, path->value());
        ASSERT_TRUE(fabric::IsUsable(state.topology, state.PathsOf(flow)[path->Index()]))
            << state.FlowName(flow);
      }
    }
    ASSERT_EQ(state.flow_paths.fingerprint(), fingerprint);
    ASSERT_LE(cluster_.controller().failure_plans().entries(),
              16U * state.flow_paths.owner_count());
    ASSERT_LE(cluster_.controller().predictor().Jobs().size(), 4U);
  }

  std::mt19937_64 random_;
  SimCluster cluster_;
};

TEST(PredictionFuzz, KeepsPathsUsableAndStateConsistent) {
  for (const std::uint64_t seed : SeedsToTry(1, 4)) {
    SCOPED_TRACE(seed);
    Fuzz(seed).Run(20s);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace espalier::scenarios
