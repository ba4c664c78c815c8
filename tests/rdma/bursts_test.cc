// Programs of others that keep their queue pairs and send in bursts: what the agent sees of them,
// compared with what passes the sender's interface.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/flows/flow_groups.h"
#include "agent/flows/flow_meter.h"
#include "agent/local/local_server.h"
#include "tests/agent/manual_loop.h"
#include "tests/rdma/bursting_programs.h"
#include "tests/rdma/rdma_machine.h"
#include "tests/rdma/wire_pauses.h"

namespace espalier::agent {
namespace {

using rdma::BurstingProgram;
using rdma::Pause;

constexpr const char* kSocket = "/run/bursts_test.sock";

// Two hosts; the flow from one to the other.
using Hosts = std::pair<int, int>;

// The agent of all hosts: its source of flows, groups and meter, without a controller.
class Observer {
 public:
  explicit Observer(Duration idle_after)
      : meter_({.elephant_bytes = 1, .edges = {.idle_after = idle_after}}) {
    auto server = LocalServer::Listen(loop_, {.path = kSocket}, metrics_);
    EXPECT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    groups_ = std::make_unique<FlowGroups>(loop_, *server_, *server_);
  }

  void Look() {
    server_->HandleReady();
    const TimePoint now = rdma::Now();
    loop_.Advance(now - last_look_);
    last_look_ = now;
    for (const FlowMeasure& flow : meter_.Measure(now, groups_->Flows())) Note(flow);
  }

  // What was told of the flow between two hosts.
  struct Told {
    wire::LocalFlowId id;
    std::size_t most_queue_pairs = 0;
    std::vector<Pause> pauses;
    std::size_t unknown = 0;     // edges that one look missed
    std::size_t duty_looks = 0;  // looks at which it was told as a duty cycle
    std::uint32_t edges = 0;     // at the last look
    TimePoint last_edge{};
  };
  const Told& told(const Hosts& hosts) {
    return told_[{rdma::AddressOfHost(hosts.first, false),
                  rdma::AddressOfHost(hosts.second, false)}];
  }

 private:
  void Note(const FlowMeasure& flow) {
    Told& told = told_[{flow.sample->source, flow.sample->destination}];
    const std::size_t size = groups_->MembersOf(flow.sample->id).size();
    if (size < told.most_queue_pairs) return;  // the program opens its queue pairs, or ends
    if (flow.sample->id != told.id) {
      told = {.id = flow.sample->id, .most_queue_pairs = size, .pauses = {}};
    }
    const Activity& activity = flow.activity;
    if (activity.duty_permille != 0) ++told.duty_looks;
    if (activity.edges == told.edges) return;
    const bool is_next = told.edges != 0 && activity.edges == told.edges + 1;
    const bool is_busy = activity.edges % 2 == 1;
    if (is_next && is_busy)
      told.pauses.push_back({.from = told.last_edge, .to = activity.last_edge});
    if (told.edges != 0 && !is_next) ++told.unknown;
    told.edges = activity.edges;
    told.last_edge = activity.last_edge;
  }

  ManualLoop loop_;
  Metrics metrics_;
  std::unique_ptr<LocalServer> server_;
  std::unique_ptr<FlowGroups> groups_;
  FlowMeter meter_;
  TimePoint last_look_ = rdma::Now();
  std::map<std::pair<IpAddress, IpAddress>, Told> told_;
};

// The sums over all flows of a program.
struct Outcome {
  rdma::PauseErrors errors;
  std::size_t flows = 0;    // with pauses
  std::size_t grouped = 0;  // of these, whose queue pairs all count as one flow
  std::size_t unknown = 0;
  std::size_t duty_looks = 0;
};

// Runs the program to its end, and compares.
Outcome Observe(const BurstingProgram& program, Duration idle_after) {
  std::vector<rdma::Capture> captures;
  for (int host = 0; host < rdma::kHosts; ++host)
    captures.emplace_back("", fmt::format("h{}", host));
  std::vector<rdma::WirePauses> wires;
  for (const auto& [from, to] : program.flows) wires.emplace_back(from, to);
  Observer observer(idle_after);
  auto running = std::async(std::launch::async, [&] { return rdma::Shell(program.command); });
  const auto take = [&] {
    for (std::size_t host = 0; host < captures.size(); ++host) {
      const std::vector<rdma::Packet> packets = captures[host].Take();
      for (std::size_t i = 0; i < wires.size(); ++i) {
        if (program.flows[i].first == static_cast<int>(host)) wires[i].Take(packets);
      }
    }
  };
  while (running.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    observer.Look();
    take();
  }
  take();
  const std::string output = running.get();
  Outcome outcome;
  for (std::size_t i = 0; i < wires.size(); ++i) {
    const Observer::Told& told = observer.told(program.flows[i]);
    if (told.pauses.empty()) {
      fmt::print(
          "nothing was told of {} to {}, with {} queue pairs and {} pauses on the wire\n{}\n",
          program.flows[i].first, program.flows[i].second, told.most_queue_pairs,
          wires[i].all().size(), output);
      continue;
    }
    ++outcome.flows;
    if (told.most_queue_pairs == program.queue_pairs) ++outcome.grouped;
    outcome.unknown += told.unknown;
    outcome.duty_looks += told.duty_looks;
    const rdma::PauseErrors errors = rdma::Compare(wires[i].all(), told.pauses, 3 * idle_after);
    outcome.errors.starts.insert(outcome.errors.starts.end(), errors.starts.begin(),
                                 errors.starts.end());
    outcome.errors.ends.insert(outcome.errors.ends.end(), errors.ends.begin(), errors.ends.end());
    outcome.errors.clear += errors.clear;
    outcome.errors.missed += errors.missed;
    outcome.errors.invented += errors.invented;
  }
  const auto micros = [](const std::vector<double>& errors, double share) {
    return 1e6 * rdma::Quantile(errors, share);
  };
  // The acceptance test reads this line.
  fmt::print(
      "edges {{\"program\": \"{}\", \"flows\": {}, \"grouped\": {}, \"queue_pairs\": {}, "
      "\"pauses\": {}, \"clear\": {}, \"missed\": {}, \"invented\": {}, \"unknown\": {}, "
      "\"duty_looks\": {}, \"busy_p50_us\": {:.0f}, \"busy_p99_us\": {:.0f}, \"idle_p50_us\": "
      "{:.0f}, \"idle_p99_us\": {:.0f}}}\n",
      program.job, outcome.flows, outcome.grouped, program.queue_pairs,
      outcome.errors.starts.size(), outcome.errors.clear, outcome.errors.missed,
      outcome.errors.invented, outcome.unknown, outcome.duty_looks,
      micros(outcome.errors.ends, 0.5), micros(outcome.errors.ends, 0.99),
      micros(outcome.errors.starts, 0.5), micros(outcome.errors.starts, 0.99));
  return outcome;
}

std::string OneSocket(int /*host*/) { return kSocket; }

void ExpectSeen(const BurstingProgram& program, const Outcome& outcome) {
  EXPECT_EQ(outcome.flows, program.flows.size());
  EXPECT_EQ(outcome.grouped, program.flows.size());
  EXPECT_GE(outcome.errors.clear, 4 * program.flows.size());
  EXPECT_LE(outcome.errors.missed, outcome.errors.clear / 5);
  EXPECT_LE(outcome.errors.invented, outcome.errors.starts.size() / 4);
}

// The emulated machine often does nothing for some ten milliseconds in the middle of a burst.
constexpr Duration kIdleAfter = std::chrono::milliseconds(100);

TEST(RdmaBursts, EdgesOfFioAreThoseOnTheWire) {
  const BurstingProgram program = rdma::FioBursts(OneSocket, 8);
  if (!program.can_run) GTEST_SKIP() << "fio is not installed (deploy/setup installs it)";
  ExpectSeen(program, Observe(program, kIdleAfter));
}

TEST(RdmaBursts, LongEdgesOfAnMpiProgramAreThoseOnTheWire) {
  const BurstingProgram program = rdma::MpiBursts(OneSocket, 10);
  if (!program.can_run) GTEST_SKIP() << "LAMMPS is not installed (deploy/setup installs it)";
  ExpectSeen(program, Observe(program, kIdleAfter));
}

}  // namespace
}  // namespace espalier::agent
