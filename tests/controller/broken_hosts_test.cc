// Hosts that lie or are broken, and links that fail in any order: tests the effect on other jobs,
// and the invariants.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "common/base/log.h"
#include "tests/controller/cluster.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kMaxQuantity = std::numeric_limits<std::int64_t>::max();

enum class Lie {
  kNone,
  kSizesTenfold,
  kClock,
  kDuplicates,
  kDisorder,
  kUnknownFlows,
  kAbsurdSizes,
  kInventedJobs,
  kInventedKeys
};

// Four leaves of four hosts each; h0 to h14 train, h15 lies about a job of its own.
class Scene {
 public:
  explicit Scene(Lie lie)
      : lie_(lie),
        cluster_(fabric::LeafSpineOptions{.spines = 4, .leaves = 4, .hosts_per_leaf = 4},
                 {.learner = {.max_keys_per_source = 32}}) {
    cluster_.ConnectAll();
  }

  // Starts the job once, with reports of the liar before and during the start. Returns how many of
  // its 15 flows got a precomputed path.
  int Iterate() {
    ++round_;
    Tell();
    cluster_.Settle();
    cluster_.Advance(50ms);
    const std::uint64_t id = 100 + round_;
    for (int host = 0; host < kLiar; ++host) {
      cluster_.Open(host, {{.id = id, .to = (host + 4) % 16, .job = "train"}});
    }
    cluster_.Settle();
    int planned = 0;
    for (int host = 0; host < kLiar; ++host) {
      planned += cluster_.FlowOf(host, id).origin == DecisionOrigin::kPredicted ? 1 : 0;
    }
    cluster_.Advance(400ms);
    for (int host = 0; host < kLiar; ++host) cluster_.End(host, id);
    cluster_.Settle();
    cluster_.Advance(550ms);
    return planned;
  }
  StartPredictor::JobView Training() {
    for (const StartPredictor::JobView& job : cluster_.controller().predictor().Jobs()) {
      if (job.job == "train") return job;
    }
    return {};
  }
  State& state() { return cluster_.state(); }
  const StartPredictor& predictor() { return cluster_.controller().predictor(); }
  std::size_t LiarsFlows() {
    return cluster_.state().flows.CountOfAgent(*cluster_.state().agents.FindByName("h15"));
  }

 private:
  static constexpr int kLiar = 15;

  void Tell() {
    if (lie_ == Lie::kNone) return;
    if (!cluster_.state().agents.At(*cluster_.state().agents.FindByName("h15")).peer) {
      cluster_.Connect(kLiar);
    }
    const std::uint64_t id = 1'000 + round_;
    wire::FlowReport report = Cluster::Opening(
        cluster_, kLiar, {{.id = id, .to = static_cast<int>(round_ % 15), .job = "liar"}});
    wire::FlowProgress& progress = report.progress[0];
    report.ended = {wire::LocalFlowId(id - 1)};
    switch (lie_) {
      case Lie::kNone:
        break;
      case Lie::kSizesTenfold:
        progress.remaining_bytes = round_ % 2 == 0 ? 10'000'000'000 : 100'000'000;
        break;
      case Lie::kClock:
        report.opened[0].age_us = (round_ % 60) * 60'000'000;
        break;
      case Lie::kDuplicates:
        for (int i = 0; i < 3; ++i) cluster_.Report(kLiar, report);
        break;
      case Lie::kDisorder:  // the end comes first, and numbers jump to and fro
        report.sequence = round_ % 3 == 0 ? 900 : 1;
        cluster_.End(kLiar, id);
        break;
      case Lie::kUnknownFlows:
        for (std::uint64_t other = 1; other < 50; ++other) {
          report.progress.push_back({.id = wire::LocalFlowId(other * 7'919), .remaining_bytes = 9});
          report.ended.emplace_back(other * 104'729);
        }
        break;
      case Lie::kAbsurdSizes:
        progress.remaining_bytes = progress.outstanding_bytes = kMaxQuantity;
        progress.achieved_bps = progress.sent_bytes = kMaxQuantity;
        break;
      case Lie::kInventedJobs:
        for (std::uint64_t n = 0; n < 200; ++n) TellOfOneFlow("lie" + std::to_string(200 * id + n));
        break;
      case Lie::kInventedKeys:
        for (int n = 0; n < 50; ++n) TellOfOneFlow("liar");
        break;
    }
    cluster_.Report(kLiar, report);
  }

  // A flow to a new port, open for a moment.
  void TellOfOneFlow(const std::string& job) {
    const std::uint64_t id = 1'000'000 + ++told_;
    wire::FlowReport report = Cluster::Opening(cluster_, kLiar, {{.id = id, .to = 3, .job = job}});
    report.opened[0].destination_port = static_cast<std::uint16_t>(told_);
    cluster_.Report(kLiar, report);
    cluster_.Settle();
    cluster_.End(kLiar, id);
  }

  const Lie lie_;
  Cluster cluster_;
  std::uint64_t round_ = 0;
  std::uint64_t told_ = 0;
};

TEST(LyingHost, DoesNotWorsenThePredictionsOfOtherJobs) {
  const auto run = [](Lie lie) {
    Scene scene(lie);
    int planned = 0;
    for (int i = 0; i < 20; ++i) planned += scene.Iterate();
    EXPECT_LE(scene.LiarsFlows(), 20U);
    // Exact to some microseconds, as the times of reports are.
    EXPECT_LT(scene.Training().start_error_p90, 1e-4);
    return std::tuple(planned, scene.Training().predicted_starts, scene.Training().is_on);
  };
  const auto honest = run(Lie::kNone);
  EXPECT_EQ(std::get<1>(honest), 18U);  // all but the first two, before a period is known
  for (const Lie lie : {Lie::kSizesTenfold, Lie::kClock, Lie::kDuplicates, Lie::kDisorder,
                        Lie::kUnknownFlows, Lie::kAbsurdSizes}) {
    EXPECT_EQ(run(lie), honest) << static_cast<int>(lie);
  }
}

TEST(LyingHost, InventedJobsDisplaceOnlyItsOwn) {
  Scene scene(Lie::kInventedJobs);
  for (int i = 0; i < 20; ++i) scene.Iterate();
  EXPECT_EQ(scene.Training().predicted_starts, 18U);
  EXPECT_LE(scene.state().flows.jobs().size(), 2 * JobNames::kMaxIdle);
  EXPECT_LE(scene.predictor().Jobs().size(), 1 + JobNames::kMaxIdle);
  // The push log has the names that the jobs had then.
  std::set<std::string> named;
  for (const PushedPath& entry : scene.state().push_log.entries()) named.insert(*entry.job);
  EXPECT_GT(named.size(), 3'000U);
}

TEST(LyingHost, InventedPortsAreNotAllKept) {
  Scene scene(Lie::kInventedKeys);
  for (int i = 0; i < 20; ++i) {
    scene.Iterate();
    // One for each of the 15 that train.
    EXPECT_LE(scene.state().path_map.KeyCount(), 15U + 3 * 32 + 50);
  }
  EXPECT_EQ(scene.Training().predicted_starts, 18U);
}

TEST(LyingHost, UnknownHostNamesAreLimited) {
  Cluster cluster(fabric::LeafSpineOptions{.spines = 2, .leaves = 2, .hosts_per_leaf = 1});
  cluster.ConnectAll();
  for (int i = 0; i < 2'000; ++i) {
    cluster.SayHello(1, wire::Hello{.name = "none" + std::to_string(i)});
    cluster.Settle();
  }
  EXPECT_LE(cluster.state().agents.size(), 2U + 1'024);
  cluster.Connect(1);
  cluster.Open(1, {{.id = 1, .to = 0}});
  cluster.Settle();
  EXPECT_EQ(cluster.FlowOf(1, 1).status, FlowStatus::kRouted);
}

// Three leaves of two hosts; h0 to h4 run jobs that repeat, and h5 reports anything.
class Chaos {
 public:
  explicit Chaos(std::uint64_t seed)
      : random_(seed),
        cluster_(fabric::LeafSpineOptions{.spines = 3, .leaves = 3, .hosts_per_leaf = 2},
                 {.heartbeat = {.interval = 5s},
                  .verification = {.interval = 10s},
                  .max_flows_per_agent = kFlows}) {
    cluster_.ConnectAll();
  }

  void Run(std::chrono::minutes time) {
    for (Duration spent{}; spent < time;) {
      const Duration step = std::chrono::milliseconds(50 * (1 + Draw(400)));
      Step();
      cluster_.Settle();
      CheckBooks();
      cluster_.Advance(step);
      CheckBooks();
      if (step >= 1s) CheckAtRest();
      if (testing::Test::HasFailure()) return;
      spent += step;
    }
    TakeCounts();
    EXPECT_GT(left_by_plan_, 0);  // else it did not try what it is for
    EXPECT_GT(expected_, 0);
  }

 private:
  static constexpr int kHosts = 6;
  static constexpr int kLiar = 5;
  static constexpr std::size_t kFlows = 24;

  std::size_t Draw(std::size_t below) { return static_cast<std::size_t>(random_() % below); }
  std::string Link() {
    return "leaf" + std::to_string(Draw(3)) + "--spine" + std::to_string(Draw(3));
  }
  void Act(IntentAction action, const std::string& link) {
    cluster_.controller().actions().ChangeLink(link, action, {.reason = "chaos"},
                                               [](const auto&) {});
  }

  void TakeCounts() {
    left_by_plan_ += cluster_.CounterValue("espalier_failure_plan_hits_total");
    for (const char* const outcome : {"hits", "stale_hits", "misses"}) {
      expected_ += cluster_.CounterValue(fmt::format("espalier_prediction_plan_{}_total", outcome));
    }
  }
  void Restart() {
    TakeCounts();  // they end with the controller
    cluster_.RestartController();
  }
  void Step() {
    for (int host = 0; host < kHosts; ++host) {
      cluster_.host(host).pushes.clear();
      const auto agent = cluster_.state().agents.FindByName(cluster_.host(host).name);
      if (!agent || !cluster_.state().agents.At(*agent).peer) Reconnect(host);
    }
    switch (Draw(16)) {
      case 0: {  // twice the same, and back before the first is durable
        const std::string link = Link();
        Act(IntentAction::kFail, link);
        Act(IntentAction::kFail, link);
        if (Draw(2) == 0) Act(IntentAction::kRestore, link);
        break;
      }
      case 1:
        for (int i = 0; i < 2; ++i) Act(IntentAction::kFail, Link());
        break;
      case 2:
      case 3:
      case 4:
        for (int i = 0; i < 3; ++i) {
          Act(Draw(3) != 0 ? IntentAction::kRestore : IntentAction::kUndrain, Link());
        }
        break;
      case 5:
        Act(IntentAction::kDrain, Link());
        break;
      case 6:
        cluster_.controller().links().health.HandleFeedReport(
            *cluster_.state().topology.FindLink(Link()), Draw(3) != 0, "chaos");
        break;
      case 7:
        if (Draw(50) == 0) Restart();
        break;
      case 8:
      case 9:
      case 10:
        Lie();
        break;
      default:
        Train();
    }
  }
  // All flows of the host are gone, as after its restart.
  void Reconnect(int host) {
    open_[host] = 0;
    cluster_.Connect(host);
  }
  void Train() {
    for (int host = 0; host < kLiar; ++host) {
      wire::FlowReport report;
      if (open_[host] == 0) {
        open_[host] = ++next_id_;
        report = Cluster::Opening(cluster_, host,
                                  {{.id = open_[host], .to = (host + 2) % kHosts, .job = "train"}});
      } else {
        report.ended = {wire::LocalFlowId(std::exchange(open_[host], 0))};
      }
      cluster_.Report(host, report);
    }
  }
  void Lie() {
    std::vector<Cluster::NewFlow> flows;
    for (std::size_t i = Draw(6); i > 0; --i) {
      flows.push_back({.id = 1 + 100 * i + Draw(100),
                       .to = static_cast<int>(Draw(kLiar)),
                       .job = "lie" + std::to_string(Draw(2'000)),
                       .max_paths = static_cast<std::uint8_t>(1 + Draw(3))});
    }
    wire::FlowReport report = Cluster::Opening(cluster_, kLiar, flows, Draw(8) == 0);
    for (wire::OpenedFlow& opened : report.opened) opened.age_us = Draw(3'600'000'000);
    for (wire::FlowProgress& row : report.progress) {
      row.remaining_bytes = Draw(2) == 0 ? kMaxQuantity : Draw(1'000'000'000'000);
      row.outstanding_bytes = Draw(2) == 0 ? kMaxQuantity : 0;
      row.achieved_bps = Draw(2) == 0 ? kMaxQuantity : 0;
    }
    for (std::size_t i = Draw(8); i > 0; --i) {
      report.progress.push_back({.id = wire::LocalFlowId(10'000 + Draw(1'000)), .sent_bytes = 1});
      report.ended.emplace_back(1 + Draw(700));
    }
    if (Draw(20) == 0) report.sequence = Draw(1'000);  // a gap: it has to begin again
    for (std::size_t i = Draw(3) + 1; i > 0; --i) cluster_.Report(kLiar, report);
    wire::PathHealth health;
    health.flows.push_back({.flow = wire::LocalFlowId(1 + Draw(700)),
                            .path_id = static_cast<std::uint32_t>(Draw(9)),
                            .verdict = wire::PathVerdict::kDead});
    cluster_.Deliver(cluster_.host(kLiar).peer, cluster_.host(kLiar).instance, health);
    cluster_.DeliverBytes(cluster_.host(kLiar).peer, "no message");
  }

  // Checks the invariants: each subflow is counted on its path, the path is usable, and a flow
  // without a path has no usable one.
  void CheckBooks() {
    State& state = cluster_.state();
    std::vector<std::int64_t> loads(2 * state.topology.links().size());
    std::uint64_t fingerprint = 0;
    for (const FlowSlot slot : state.flows.All()) {
      const Flow& flow = state.flows.At(slot);
      const auto paths =
          flow.subflows.empty() ? std::span<const fabric::Path>() : state.PathsOf(flow);
      const auto usable = [&](const fabric::Path& path) {
        return fabric::IsUsable(state.topology, path);
      };
      for (const Subflow& subflow : flow.subflows) {
        const auto path = state.flow_paths.PathOf(subflow);
        if (!path) {
          EXPECT_TRUE(std::none_of(paths.begin(), paths.end(), usable)) << state.FlowName(flow);
          continue;
        }
        EXPECT_TRUE(usable(paths[path->Index()])) << state.FlowName(flow);
        fingerprint += FingerprintOf(state.view, flow, subflow, path->value());
        for (const fabric::DirectedLink hop : paths[path->Index()].hops) {
          loads[hop.Index()] += kLoadUnit / static_cast<std::int64_t>(flow.subflows.size());
        }
      }
    }
    EXPECT_EQ(state.flow_paths.fingerprint(), fingerprint);
    state.flow_paths.CheckInvariants();
    for (std::size_t link = 0; link < loads.size(); ++link) {
      if (!state.view.IsSwitchLink(static_cast<std::uint32_t>(link))) continue;
      EXPECT_EQ(state.flow_paths.assigner().LoadOf(link), loads[link]) << link;
    }
    CheckLimits();
  }
  void CheckLimits() {
    State& state = cluster_.state();
    EXPECT_LE(state.flows.size(), kHosts * kFlows);
    EXPECT_LE(cluster_.controller().predictor().Jobs().size(), 1'024U);
    // Each subflow is on two links, a spine and two leaves.
    EXPECT_LE(cluster_.controller().failure_plans().entries(), 5 * 3 * kHosts * kFlows);
  }
  // Checks, after some quiet time, that hosts have the decided ports, that these lead to their
  // paths, and that failure plans are up to date.
  void CheckAtRest() {
    State& state = cluster_.state();
    const FailurePlans& plans = cluster_.controller().failure_plans();
    // The hold-down of a link may have ended at this moment.
    for (int i = 0; i < 10 && plans.fresh() != plans.loaded(); ++i) cluster_.Advance(10ms);
    EXPECT_EQ(plans.fresh(), plans.loaded());
    for (int host = 0; host < kHosts; ++host) {
      const auto agent = state.agents.FindByName(cluster_.host(host).name);
      if (!agent || !state.agents.At(*agent).peer) continue;
      for (const FlowSlot slot : state.flows.OfAgent(*agent)) {
        const Flow& flow = state.flows.At(slot);
        if (flow.status != FlowStatus::kRouted) continue;
        const auto to =
            static_cast<int>(std::stoi(state.topology.node(flow.key.destination).id.substr(1)));
        std::vector<int> decided;
        for (const Subflow& subflow : flow.subflows)
          decided.push_back(state.flow_paths.PathOf(subflow)->value());
        EXPECT_EQ(cluster_.AppliedSpines(host, flow.local.value(), to), decided)
            << state.FlowName(flow);
      }
    }
  }

  std::mt19937_64 random_;
  Cluster cluster_;
  std::map<int, std::uint64_t> open_;
  std::uint64_t next_id_ = 10'000;
  std::int64_t left_by_plan_ = 0;
  std::int64_t expected_ = 0;
};

void RunChaos(std::uint64_t first_seed, std::uint64_t runs) {
  SetLogLevel(LogLevel::kError);
  for (const std::uint64_t seed : SeedsToTry(first_seed, runs)) {
    SCOPED_TRACE(seed);
    Chaos(seed).Run(100min);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Chaos, BooksAreEvenAndFlowsAreOnUsablePathsFor1000Minutes) { RunChaos(1, 10); }

TEST(LongChaos, BooksAreEvenAndFlowsAreOnUsablePathsFor10000Minutes) { RunChaos(1'001, 100); }

}  // namespace
}  // namespace espalier::controller
