// The agent's side of queue pairs, on real ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "agent/verbs/device_report.h"
#include "agent/verbs/live_queue_pair.h"
#include "agent/verbs/queue_pair_flows.h"
#include "common/verbs/source_port.h"
#include "tests/agent/manual_loop.h"
#include "tests/rdma/rdma_machine.h"

namespace espalier::agent {
namespace {

constexpr std::size_t kBytes = 4096;
constexpr int kWrites = 64;

TEST(RdmaDevices, AreReportedByAddress) {
  const std::vector<DeviceReport> reports = ReportDevices();
  ASSERT_EQ(reports.size(), 2U * rdma::kHosts);
  for (const DeviceReport& report : reports) {
    EXPECT_EQ(verbs::DescribePathControl(report.control), "flow label, live by draining");
  }
}

// The loop's time is not that of the device, which drains meanwhile.
void AwaitPort(ManualLoop& loop, QueuePairFlows& flows, std::uint16_t port) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (flows.Flows()[0].source_port != port && std::chrono::steady_clock::now() < end) {
    loop.Advance(std::chrono::milliseconds(1));
    std::this_thread::yield();
  }
  ASSERT_EQ(flows.Flows()[0].source_port, port);
}

TEST(RdmaFlows, MoveUnderTrafficAndShowWhatIsInTheQueue) {
  rdma::Capture capture("", "h0");
  rdma::Pair pair(0, 2, false, 0, 0, kBytes);
  ManualLoop loop;
  Metrics metrics;
  QueuePairFlows flows(loop, metrics);
  const std::uint32_t number = pair.from().pair->qp_num;
  const std::uint32_t remote = pair.to().pair->qp_num;
  QueuePairFlow flow = {.source = rdma::AddressOfHost(0, false),
                        .destination = rdma::AddressOfHost(2, false)};
  flow.members.push_back(
      {.local_number = number,
       .remote_number = remote,
       .path = std::make_unique<LiveQueuePair>(*pair.from().pair, remote, verbs::LiveWay::kDrain)});
  const auto handle = flows.Add(std::move(flow));
  const auto write = [&](int count) {
    for (int i = 0; i < count; ++i) {
      pair.PostWrite(0, kBytes);
      handle.traffic[0].Post(kBytes);
    }
  };
  const auto complete = [&](int count) {
    pair.AwaitWrites(count);
    handle.traffic[0].Complete(static_cast<std::uint64_t>(count) * kBytes);
  };

  std::vector<std::uint16_t> expected = {verbs::SourcePortOf(0, number, remote)};
  EXPECT_EQ(flows.Flows()[0].source_port, expected[0]);
  write(1);
  complete(1);
  for (const std::uint16_t port : std::vector<std::uint16_t>{0xC345, 0xE001}) {
    write(kWrites);
    EXPECT_EQ(flows.Flows()[0].outstanding_bytes, kWrites * kBytes);
    wire::PathSet paths = {.flow = handle.id, .paths = {{.source_port = port}}};
    paths.max_rate_bps = 1'000'000'000;  // soft RoCE has no limits: advice
    ASSERT_TRUE(flows.Apply(paths));
    AwaitPort(loop, flows, port);
    write(1);
    complete(kWrites + 1);
    expected.push_back(port);
  }
  EXPECT_EQ(flows.Flows()[0].sent_bytes, (2 * (kWrites + 1) + 1) * kBytes);
  ASSERT_TRUE(flows.Clear(handle.id));
  AwaitPort(loop, flows, expected[0]);
  write(1);
  complete(1);
  expected.push_back(expected[0]);

  std::vector<std::uint16_t> ports;
  for (const rdma::Packet& packet : capture.Take()) {
    if (packet.remote_number == remote && packet.IsWrite()) ports.push_back(packet.source_port);
  }
  ports.erase(std::unique(ports.begin(), ports.end()), ports.end());
  EXPECT_EQ(ports, expected);
  // A queue pair that has failed keeps its port, and the failure is counted.
  verbs::Break(*pair.from().pair);
  ASSERT_TRUE(flows.Apply({.flow = handle.id, .paths = {{.source_port = 0xC777}}}));
  EXPECT_EQ(flows.Flows()[0].source_port, expected[0]);
  EXPECT_EQ(metrics.MakeCounter("espalier_agent_queue_pair_changes_failed_total", "").Value(), 1);
}

}  // namespace
}  // namespace espalier::agent
