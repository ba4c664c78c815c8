// Measures how soon tests by probe trains find a link that loses packets, on a simulated fabric of
// 64 leaves, 32 spines and 2,048 hosts, and what they cost the controller.
//
// No agents run: a model of the fabric draws what each ordered train loses, and reports it as
// agents would. All ports are known. Prints medians over seeds of the simulated time from the
// beginning of the losses to the finding, how often another link was found, and the processor time
// of the controller for each train.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/random.h"
#include "common/fabric/builders.h"
#include "common/fabric/ecmp/train_token.h"
#include "common/sim/sim_world.h"
#include "controller/link_tests/link_tester.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using fabric::DirectedLink;
using fabric::NodeId;

constexpr std::uint16_t kFirstPort = 50'000;  // of the path 0
constexpr Duration kTick = 100ms;
constexpr Duration kReportEvery = 1s;  // LinkTesterOptions::report_interval of agents
constexpr Duration kLongest = 120s;

double ProcessorSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The fabric, and the ports that trains need.
class Fabric {
 public:
  Fabric(int leaves, int spines)
      : state_(*fabric::Topology::Build(*fabric::BuildLeafSpine(
            {.spines = spines, .leaves = leaves, .hosts_per_leaf = kHostsPerLeaf}))) {
    for (std::size_t i = 0; i < state_.topology.nodes().size(); ++i) {
      const NodeId nic(static_cast<std::int32_t>(i));
      if (!state_.paths.FindAttachment(nic)) continue;
      const AgentId agent = state_.agents.Intern(state_.topology.node(nic).id);
      state_.agents.Connect(agent, PeerId(i + 1));
      state_.agents.At(agent).features = {"link_tests"};
      agents_[nic] = agent;
    }
    const TestRoutes routes(state_, learner_, false);
    for (const TestPair& pair : routes.pairs()) {
      const fabric::PortKey key = routes.KeyOf(pair.first_route, wire::kProtocolUdp);
      for (std::size_t path = 0; path < pair.paths.size(); ++path) {
        state_.path_map.Observe(key, static_cast<std::uint16_t>(kFirstPort + path),
                                fabric::PathIndex(static_cast<std::int32_t>(path)));
      }
    }
  }
  State& state() { return state_; }
  PathLearner& learner() { return learner_; }
  std::optional<AgentId> AgentOf(NodeId nic) const {
    const auto found = agents_.find(nic);
    return found == agents_.end() ? std::nullopt : std::optional(found->second);
  }
  DirectedLink Direction(const std::string& from, const std::string& to) const {
    for (const DirectedLink link : state_.topology.Outgoing(*state_.topology.FindNode(from))) {
      if (state_.topology.node(state_.topology.To(link)).id == to) return link;
    }
    std::abort();
  }

 private:
  static constexpr int kHostsPerLeaf = 32;
  State state_;
  Metrics metrics_;
  PathLearner learner_{state_.topology, state_.paths, state_.path_map, {}, metrics_};
  std::map<NodeId, AgentId> agents_;
};

struct Outcome {
  double seconds = -1;    // until the link was found; -1: it was not
  std::size_t wrong = 0;  // other links that were found
  double probes = 0;      // over the link, in a second
  double cost = 0;        // seconds of the controller for a train
};

// One run: losses begin once all ports are known.
class Run {
 public:
  Run(Fabric& fabric, std::uint64_t seed)
      : fabric_(fabric),
        random_(seed),
        tester_(
            fabric.state(), *loop_, fabric.learner(), {.seed = seed}, false,
            {.find_prober = [&fabric](NodeId nic) { return fabric.AgentOf(nic); },
             .send = [this](AgentId agent, const wire::TrainOrder& order) { Carry(agent, order); },
             .request_turn = [] {},
             .on_fault = [this](const LinkFault& fault) { Find(fault); }},
            metrics_) {}

  Outcome Measure(DirectedLink lossy, double part) {
    lossy_ = lossy;
    for (int i = 0; i < 200; ++i) tester_.Tick();  // reads all ports
    Pass(4s);                                      // delays become known
    part_ = part;
    const TimePoint since = loop_->Now();
    crossed_ = 0;
    while (!found_ && loop_->Now() - since < kLongest) Pass(kTick);
    const double seconds = SecondsOf(loop_->Now() - since);
    return {.seconds = found_ ? seconds : -1,
            .wrong = wrong_.size(),
            .probes = 8 * static_cast<double>(crossed_) / seconds,
            .cost = cost_ / static_cast<double>(std::max<std::size_t>(1, trains_))};
  }

 private:
  // The controller's own processor time is that of `work` without Carry.
  template <typename Work>
  void Count(Work work) {
    const double before = ProcessorSeconds();
    const double carried = carrying_;
    work();
    cost_ += ProcessorSeconds() - before - (carrying_ - carried);
  }
  void Pass(Duration time) {
    for (Duration passed{}; passed < time; passed += kTick) {
      world_.RunFor(kTick);
      const auto end = reports_.upper_bound(loop_->Now());
      for (auto report = reports_.begin(); report != end; ++report) {
        Count([&] { tester_.HandleReport(report->second.first, report->second.second); });
      }
      reports_.erase(reports_.begin(), end);
      Count([&] { tester_.Tick(); });
    }
  }
  void Carry(AgentId sender, const wire::TrainOrder& order) {
    const double before = ProcessorSeconds();
    const State& state = fabric_.state();
    wire::TrainReport sent;
    std::map<AgentId, wire::TrainReport> received;
    for (const wire::Train& train : order.trains) {
      const auto from =
          *state.paths.FindAttachment(*state.topology.FindNic(order.addresses[train.source]));
      const NodeId nic = *state.topology.FindNic(order.addresses[train.destination]);
      const auto paths = state.paths.Between(from.leaf, state.paths.FindAttachment(nic)->leaf);
      const auto& hops = paths[train.source_port - kFirstPort].hops;
      const bool crosses = std::find(hops.begin(), hops.end(), lossy_) != hops.end();
      ++trains_;
      crossed_ += crosses ? 1 : 0;
      sent.sent.push_back({train.number, 0xFF, 70});
      wire::ReceivedTrain& report = received[*fabric_.AgentOf(nic)].received.emplace_back(
          wire::ReceivedTrain{.number = train.number});
      for (std::uint8_t i = 0; i < 8; ++i) {
        if (crosses && random_.Chance(part_)) continue;
        report.arrived_mask = static_cast<std::uint16_t>(report.arrived_mask | 1U << i);
        report.digest ^= fabric::TrainToken(order.key, train.number, i);
        report.delays_us.push_back(5);
      }
    }
    const TimePoint due = loop_->Now() + (order.urgent ? 200ms : kReportEvery + 600ms);
    reports_.emplace(due, std::pair(sender, std::move(sent)));
    for (auto& [agent, report] : received) reports_.emplace(due, std::pair(agent, report));
    carrying_ += ProcessorSeconds() - before;
  }
  void Find(const LinkFault& fault) {
    if (fault.direction == lossy_) {
      found_ = true;
    } else {
      wrong_.insert(fault.direction.Index());
    }
  }

  Fabric& fabric_;
  sim::SimWorld world_{1};
  std::unique_ptr<EventLoop> loop_ = world_.MakeLoop();
  Metrics metrics_;
  Random random_;
  DirectedLink lossy_;
  double part_ = 0;
  bool found_ = false;
  std::set<std::size_t> wrong_;
  std::multimap<TimePoint, std::pair<AgentId, wire::TrainReport>> reports_;
  std::size_t trains_ = 0;
  std::size_t crossed_ = 0;
  double cost_ = 0;
  double carrying_ = 0;
  LinkTester tester_;
};

double At(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  const auto last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(part * last + 0.5)];
}

int Main(int argc, char** argv) {
  const int seeds = argc > 1 ? std::atoi(argv[1]) : 5;
  const int leaves = argc > 2 ? std::atoi(argv[2]) : 64;
  const int spines = argc > 3 ? std::atoi(argv[3]) : 32;
  Fabric fabric(leaves, spines);
  fmt::print("{} leaves, {} spines, {} hosts, {} seeds; spine1>leaf1 loses packets\n", leaves,
             spines, 32 * leaves, seeds);
  fmt::print("{:>6} {:>9} {:>6} {:>6} {:>6} {:>6} {:>12} {:>12}\n", "loss", "median s", "p95",
             "most", "not", "wrong", "probes/s", "us a train");
  for (const double part : {0.01, 0.02, 0.05, 0.1}) {
    std::vector<double> seconds;
    std::vector<double> probes;
    std::vector<double> cost;
    std::size_t wrong = 0;
    int missed = 0;
    for (int seed = 1; seed <= seeds; ++seed) {
      Run run(fabric, static_cast<std::uint64_t>(seed));
      const Outcome outcome = run.Measure(fabric.Direction("spine1", "leaf1"), part);
      wrong += outcome.wrong;
      missed += outcome.seconds < 0 ? 1 : 0;
      seconds.push_back(outcome.seconds < 0 ? SecondsOf(kLongest) : outcome.seconds);
      probes.push_back(outcome.probes);
      cost.push_back(1e6 * outcome.cost);
    }
    fmt::print("{:>5}% {:>9.1f} {:>6.1f} {:>6.1f} {:>6} {:>6} {:>12.0f} {:>12.1f}\n", 100 * part,
               At(seconds, 0.5), At(seconds, 0.95), At(seconds, 1), missed, wrong, At(probes, 0.5),
               At(cost, 0.5));
  }
  return 0;
}

}  // namespace
}  // namespace espalier::controller

int main(int argc, char** argv) { return espalier::controller::Main(argc, argv); }
