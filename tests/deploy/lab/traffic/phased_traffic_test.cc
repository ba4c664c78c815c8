// Hosts that run a phased job over the loopback interface, steered by a fake agent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <set>
#include <string>

#include "deploy/lab/traffic/traffic_host.h"
#include "deploy/lab/workload/phase_outcome.h"
#include "tests/deploy/lab/traffic/fake_agent.h"
#include "tests/temporary_folder.h"

namespace espalier::traffic {
namespace {

using testing::Contains;
using testing::SizeIs;

constexpr std::int64_t kBytes = 55'000;
constexpr int kIterations = 6;
constexpr std::uint16_t kChosenPort = 49'300;

// Loopback addresses of this process alone, so that tests can run in parallel.
IpAddress Loopback(int host) {
  const auto process = static_cast<std::uint32_t>(::getpid()) & 0xFFFF;
  return IpAddress::FromV4(0x7F000000U | process << 8 | static_cast<std::uint32_t>(host));
}

// Two hosts, of which the first sends in the first phase and both in the second.
class PhasedTraffic : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("ESPALIER_AGENT_SOCKET", (folder_.path() + "/agent.sock").c_str(), 1);
    workload_.segment_bytes = 10'000;
    workload_.phased_jobs = {{.id = "P",
                              .iterations = kIterations,
                              .phases = {{.compute_seconds = 0.01, .bursts = {{"a", "b", kBytes}}},
                                         {.compute_seconds = 0.01,
                                          .bursts = {{"a", "b", kBytes}, {"b", "a", kBytes}}}}}};
  }

  std::vector<HostReport> Run(bool use_agent) {
    fabric::TopologySpec spec;
    spec.nodes = {{.id = "a", .addresses = {Loopback(11)}},
                  {.id = "b", .addresses = {Loopback(12)}}};
    const auto topology = fabric::Topology::Build(spec);
    EXPECT_TRUE(topology.has_value());
    std::vector<std::unique_ptr<TrafficHost>> hosts;
    for (const char* name : {"a", "b"}) {
      auto host = TrafficHost::Make(
          loop_, {.host = name, .use_agent = use_agent, .barrier = folder_.path() + "/w"},
          workload_, *topology);
      EXPECT_TRUE(host.has_value()) << host.error().message;
      hosts.push_back(std::move(*host));
    }
    std::size_t done = 0;
    for (const auto& host : hosts) {
      host->Start([&] {
        if (++done == hosts.size()) loop_.Stop();
      });
    }
    const TimerPtr limit = loop_.After(std::chrono::seconds(30), [&] { loop_.Stop(); });
    loop_.Run();
    EXPECT_EQ(done, hosts.size());
    return {hosts[0]->Report(), hosts[1]->Report()};
  }

  TemporaryFolder folder_;
  io::AsioEventLoop loop_;
  Workload workload_;
};

TEST_F(PhasedTraffic, RunsAllIterationsOnConnectionsThatStay) {
  workload_.phased_jobs[0].queue_pairs = 2;
  const std::vector<HostReport> reports = Run(/*use_agent=*/false);
  EXPECT_EQ(reports[0].sent[0].bytes, kIterations * 2 * kBytes);
  EXPECT_EQ(reports[1].sent[0].bytes, kIterations * kBytes);
  EXPECT_EQ(reports[1].received[0].bytes, kIterations * 2 * kBytes);
  EXPECT_EQ(reports[1].received[0].duplicates, 0);
  EXPECT_THAT(reports[0].sent[0].ports, SizeIs(2));
  EXPECT_THAT(reports[0].bursts, SizeIs(2 * kIterations));
  EXPECT_THAT(reports[1].bursts, SizeIs(kIterations));
  // No host begins a phase before all bursts of the phase before have arrived.
  const BurstTime& other = reports[1].bursts[0];
  EXPECT_EQ(other.phase, 1);
  EXPECT_GE(other.start_ns, reports[0].bursts[0].end_ns);
  EXPECT_GE(reports[0].bursts[2].start_ns, other.end_ns);
  const auto outcomes = SummarisePhases(workload_, reports);
  EXPECT_THAT(outcomes[0].iterations, SizeIs(kIterations));
}

// The agent sees only what is posted, that is, at most one segment more than TCP has taken, and a
// port that it gives to an idle flow is in use when the next burst begins.
TEST_F(PhasedTraffic, TellsTheAgentWhatIsPostedAndFollowsItsPortsWhileIdle) {
  // Bursts that last longer than the time between two looks of the agent.
  constexpr std::int64_t kLongBytes = 20'000'000;
  workload_.segment_bytes = 1'000'000;
  for (Phase& phase : workload_.phased_jobs[0].phases) {
    for (Burst& burst : phase.bursts) burst.bytes = kLongBytes;
  }
  std::atomic<bool> has_been_busy = false;
  std::atomic<std::uint64_t> most_remaining = 0;
  FakeAgent agent(folder_.path() + "/agent.sock",
                  [&](const agent::FlowSample& flow) -> std::optional<wire::PathSet> {
                    most_remaining = std::max(most_remaining.load(), flow.remaining_bytes);
                    if (flow.outstanding_bytes > 0) has_been_busy = true;
                    if (flow.source != Loopback(11) || flow.sent_bytes < 2 * kLongBytes ||
                        flow.outstanding_bytes > 0 || flow.source_port == kChosenPort) {
                      return std::nullopt;
                    }
                    return OnePath(flow, kChosenPort, wire::PathReason::kAssigned);
                  });
  const std::vector<HostReport> reports = Run(/*use_agent=*/true);
  EXPECT_TRUE(has_been_busy);
  EXPECT_EQ(most_remaining, 0U);
  const SentFlow& sent = reports[0].sent[0];
  EXPECT_EQ(sent.bytes, kIterations * 2 * kLongBytes);
  EXPECT_EQ(sent.abandoned, 0);
  ASSERT_THAT(sent.ports, SizeIs(2));
  EXPECT_EQ(sent.ports[1].port, kChosenPort);
  EXPECT_TRUE(sent.ports[1].steered);
  EXPECT_THAT(reports[0].bursts.back().ports, Contains(kChosenPort));
}

}  // namespace
}  // namespace espalier::traffic
