// The agent's RDMA functions on real devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "agent/host/device_report.h"
#include "agent/host/queue_pair_list.h"
#include "agent/host/unobserved_watch.h"
#include "common/base/metrics.h"
#include "tests/agent/manual_loop.h"
#include "tests/rdma/rdma_machine.h"

namespace espalier::agent {
namespace {

TEST(RdmaDevices, AreReportedByAddress) {
  const std::vector<DeviceReport> reports = ReportDevices();
  ASSERT_EQ(reports.size(), 2U * rdma::kHosts);
  for (const DeviceReport& report : reports) {
    EXPECT_EQ(verbs::DescribePathControl(report.control), "flow label, live by draining");
  }
}

TEST(RdmaDevices, AreReportedWhereTheyHaveNoAddress) {
  rdma::Shell(
      "ip link add bare0 type veth peer name bare1 && rdma link add bare type rxe netdev bare0");
  const std::vector<DeviceReport> reports = ReportDevices();
  rdma::Shell("ip link del bare0");
  ASSERT_EQ(reports.size(), 2U * rdma::kHosts + 1);
  EXPECT_EQ(reports.back().address.device, "bare");
  EXPECT_EQ(verbs::DescribePathControl(reports.back().control),
            "path control unsupported: it has no address for RoCEv2");
}

std::optional<KernelQueuePair> Listed(const rdma::Pair::End& end) {
  const auto pairs = ListQueuePairs();
  EXPECT_TRUE(pairs) << pairs.error().message;
  const auto found = std::find_if(pairs->begin(), pairs->end(), [&](const KernelQueuePair& pair) {
    return pair.device == end.address.device && pair.number == end.pair->qp_num;
  });
  if (found == pairs->end()) return std::nullopt;
  return *found;
}

TEST(RdmaQueuePairs, AreListedByTheKernel) {
  rdma::Pair pair(0, 2, false, 1, 1, 4096);
  const auto before = Listed(pair.from());
  ASSERT_TRUE(before);
  EXPECT_EQ(before->remote_number, pair.to().pair->qp_num);
  EXPECT_EQ(before->process, static_cast<std::uint32_t>(::getpid()));
  pair.PostWrite(0, 4096);
  pair.AwaitWrites(1);
  EXPECT_EQ((Listed(pair.from())->next_packet - before->next_packet) & 0xFFFFFF, 4U);
  verbs::Break(*pair.from().pair);
  EXPECT_FALSE(Listed(pair.from()));
}

class OneFlow : public FlowSource {
 public:
  std::span<const FlowSample> Flows() override { return {&flow, 1}; }
  void OnChange(std::function<void()> /*callback*/) override {}
  FlowSample flow;
};

TEST(RdmaQueuePairs, AreUnobservedWhereTheyAreNoFlows) {
  ManualLoop loop;
  Metrics metrics;
  OneFlow flows;
  Gauge& count = metrics.MakeGauge("espalier_agent_unobserved_queue_pairs", "");
  const UnobservedWatch watch(loop, flows, metrics);
  const auto look = [&] { loop.Advance(std::chrono::seconds(5)); };
  {
    rdma::Pair pair(0, 2, false, 1, 1, 64);
    flows.flow.source = pair.from().address.address;
    flows.flow.local_qpn = pair.from().pair->qp_num;
    flows.flow.remote_qpn = pair.to().pair->qp_num;
    look();
    EXPECT_EQ(count.Value(), 0);  // the queue pair may still be connecting
    look();
    // The other end only sends acknowledgements, which the kernel does not count.
    EXPECT_EQ(count.Value(), 1);
    flows.flow = {};
    look();
    look();
    EXPECT_EQ(count.Value(), 2);
  }
  look();
  EXPECT_EQ(count.Value(), 0);
}

}  // namespace
}  // namespace espalier::agent
