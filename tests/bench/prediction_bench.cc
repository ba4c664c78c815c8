// Measures the time from an event (flow arrivals, link failures) to the decision if it is
// precomputed, and the cost of precomputation. All figures are of the controller's own work on one
// thread, without messages.
#include <benchmark/benchmark.h>

#include <chrono>
#include <random>

#include "common/base/log.h"
#include "controller/placement/placement.h"
#include "controller/planning/failure_plans.h"
#include "controller/planning/start_predictor.h"
#include "tests/bench/hashed_fabric.h"

namespace espalier::controller {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// A controller's state and modules, without messages. The switches' hashes are known, so all ports
// are predicted and no probes are needed.
class World {
 public:
  World(int spines, int leaves, int hosts_per_leaf)
      : state_(bench::MakeHashedLeafSpine(spines, leaves, hosts_per_leaf)),
        learner_(state_.topology, state_.paths, state_.path_map, {}, metrics_),
        predictor_(state_, learner_, options_, metrics_),
        plans_(state_, learner_, metrics_),
        placement_(state_, learner_, options_, metrics_),
        hosts_(leaves * hosts_per_leaf) {
    SetLogLevel(LogLevel::kError);
    for (int host = 0; host < hosts_; ++host) {
      agents_.push_back(state_.agents.Intern(bench::HostName(host)));
      addresses_.push_back(bench::AddressOf(state_.topology, host));
    }
  }

  FlowSlot Open(int from, int to, const std::string& job) {
    Flow flow;
    flow.agent = agents_[static_cast<std::size_t>(from)];
    flow.local = wire::LocalFlowId(++next_id_);
    flow.job = state_.flows.JobIndex(job, flow.agent);
    flow.source_address = addresses_[static_cast<std::size_t>(from)];
    flow.destination_address = addresses_[static_cast<std::size_t>(to)];
    flow.protocol = wire::kProtocolUdp;
    flow.key.destination_port = wire::kRoceV2Port;
    const FlowSlot slot = state_.flows.Open(std::move(flow));
    placement_.Admit(slot, {});
    return slot;
  }
  void Close(FlowSlot slot) {
    predictor_.HandleClosed(slot, now_);
    placement_.Release(slot);
    state_.flows.Close(slot);
  }
  void AddLiveFlows(int count) {
    std::mt19937 random(1);
    for (int i = 0; i < count; ++i) {
      const int from = i % hosts_;
      Open(from,
           (from + 1 + static_cast<int>(random() % (static_cast<unsigned>(hosts_) - 1))) % hosts_,
           "live");
    }
    placement_.PlaceNew(predictor_, options_.moves_per_start);
  }

  Metrics metrics_;
  ControllerOptions options_;
  State state_;
  PathLearner learner_;
  StartPredictor predictor_;
  FailurePlans plans_;
  Placement placement_;
  int hosts_;
  std::vector<AgentId> agents_;       // by host
  std::vector<IpAddress> addresses_;  // by host
  std::uint64_t next_id_ = 0;
  TimePoint now_{std::chrono::hours(1)};
};

// The arrival of `flows` flows that was precomputed (1) or not (0), among 2,048 running flows of
// other jobs: from the arrival to paths and ports.
void BM_StartsOfASet(benchmark::State& bench) {
  const auto flows = static_cast<int>(bench.range(0));
  const bool planned = bench.range(1) != 0;
  World world(32, 64, 32);
  world.AddLiveFlows(2'048);
  std::vector<FlowSlot> slots;
  struct Round {
    double seconds = 0;
    std::size_t planned = 0;
  };
  const auto run = [&] {
    for (const FlowSlot slot : slots) world.Close(slot);
    world.now_ += std::chrono::seconds(1);
    world.predictor_.Tick(world.now_);
    while (planned && world.predictor_.PlanNext(world.now_)) {
    }
    slots.clear();
    const auto start = Clock::now();
    for (int i = 0; i < flows; ++i)
      slots.push_back(world.Open(32 * i % 2'048 + i % 32, (32 * i + 32 + i) % 2'048, "job"));
    world.predictor_.HandleOpened(slots);
    for (const FlowSlot slot : slots) world.predictor_.HandleBusy(slot, world.now_);
    const auto placed = world.placement_.PlaceNew(world.predictor_, world.options_.moves_per_start);
    return Round{Seconds(Clock::now() - start), placed.planned};
  };
  // The first start cannot be predicted. It also makes the lists of paths and ports.
  for (int round = 0; round < 3; ++round) run();
  std::size_t hits = 0;
  std::int64_t rounds = 0;
  for ([[maybe_unused]] auto _ : bench) {
    const Round round = run();
    bench.SetIterationTime(round.seconds);
    hits += round.planned;
    ++rounds;
  }
  bench.counters["planned_flows"] = static_cast<double>(hits) / static_cast<double>(rounds);
}
BENCHMARK(BM_StartsOfASet)
    ->ArgsProduct({{1, 16, 128, 448}, {0, 1}})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond)
    ->Iterations(200);

// All failure plans of a fabric with 16,384 running flows, from scratch.
void BM_AllFailurePlans(benchmark::State& bench) {
  World world(static_cast<int>(bench.range(0)), static_cast<int>(bench.range(1)),
              2'048 / static_cast<int>(bench.range(1)));
  world.AddLiveFlows(16'384);
  while (world.plans_.RefreshNext()) {  // computes the ports, once
  }
  for ([[maybe_unused]] auto _ : bench) {
    FailurePlans plans(world.state_, world.learner_, world.metrics_);
    const auto start = Clock::now();
    while (plans.RefreshNext()) {
    }
    bench.SetIterationTime(Seconds(Clock::now() - start));
    bench.counters["elements"] = static_cast<double>(plans.fresh());
    bench.counters["entries"] = static_cast<double>(plans.entries());
  }
}
BENCHMARK(BM_AllFailurePlans)
    ->Args({8, 12})
    ->Args({64, 64})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(10);

// The failure of a link under 16,384 running flows: the change of link states, and new paths and
// ports for the flows on it, with a failure plan (1) or by examining all flows (0).
void BM_LinkFails(benchmark::State& bench) {
  World world(static_cast<int>(bench.range(0)), static_cast<int>(bench.range(1)),
              2'048 / static_cast<int>(bench.range(1)));
  const bool planned = bench.range(2) != 0;
  world.AddLiveFlows(16'384);
  std::int32_t next = 0;
  std::size_t moved = 0;
  std::size_t failures = 0;
  for ([[maybe_unused]] auto _ : bench) {
    ++failures;
    while (planned && world.plans_.RefreshNext()) {
    }
    fabric::LinkId link(next++);
    const auto is_switch_link = [&](fabric::LinkId id) {
      return world.state_.view.IsSwitchLink(
          static_cast<std::uint32_t>(fabric::DirectedLink{id, true}.Index()));
    };
    while (!is_switch_link(link)) link = fabric::LinkId(next++);
    const auto start = Clock::now();
    world.state_.topology.SetLinkState(link, fabric::LinkState::kDown);
    world.state_.view.Refresh();
    const auto stranded = world.state_.flow_paths.HandleLinkChange();
    const std::vector<SubflowId> subflows(stranded.begin(), stranded.end());
    if (planned) {
      const std::vector<fabric::LinkId> failed{link};
      moved +=
          world.placement_
              .TakeFailurePlan(world.plans_, *world.plans_.Find(failed), subflows, [](AgentId) {})
              .size();
    } else {
      moved += world.placement_.HandleLinkChange().size();
    }
    bench.SetIterationTime(Seconds(Clock::now() - start));
    world.state_.topology.SetLinkState(link, fabric::LinkState::kUp);
    world.state_.view.Refresh();
    world.state_.flow_paths.HandleLinkChange();
    world.placement_.HandleLinkChange();
  }
  bench.counters["moved_flows"] = static_cast<double>(moved) / static_cast<double>(failures);
}
BENCHMARK(BM_LinkFails)
    ->Args({8, 12, 1})
    ->Args({8, 12, 0})
    ->Args({64, 64, 1})
    ->Args({64, 64, 0})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond)
    ->Iterations(50);

}  // namespace
}  // namespace espalier::controller

BENCHMARK_MAIN();
