#include "agent/verbs/queue_pair_flows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "agent/verbs/device_report.h"
#include "tests/agent/manual_loop.h"

namespace espalier::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A device that takes `steps` looks to change a port.
struct FakeDevice {
  int steps = 0;
  ErrorCode refusal = ErrorCode::kInternal;  // of Start
  bool refuses = false;
  bool fails_later = false;
  bool limits_rates = true;
  std::vector<std::uint16_t> started;
  std::vector<std::uint64_t> rates;
};

class FakePath : public QueuePairPath {
 public:
  explicit FakePath(FakeDevice& device) : device_(device) {}
  std::uint16_t OwnPort() const override { return 0xC00F; }
  Result<void> Start(std::uint16_t port) override {
    if (device_.refuses) return Fail(device_.refusal, "refused");
    device_.started.push_back(port);
    left_ = device_.steps;
    return {};
  }
  Result<bool> Continue() override {
    if (device_.fails_later) return Fail(ErrorCode::kUnavailable, "it has failed");
    return left_-- == 0;
  }
  Result<void> LimitRate(std::uint64_t rate) override {
    if (!device_.limits_rates) return Fail(ErrorCode::kUnsupported, "no limits");
    device_.rates.push_back(rate);
    return {};
  }

 private:
  FakeDevice& device_;
  int left_ = 0;
};

class QueuePairFlowsTest : public ::testing::Test {
 protected:
  QueuePairFlows::Handle Add(int queue_pairs) {
    QueuePairFlow flow = {.job = "a"};
    for (int i = 0; i < queue_pairs; ++i) {
      flow.members.push_back({.local_number = 17U + static_cast<std::uint32_t>(i),
                              .remote_number = 99,
                              .path = std::make_unique<FakePath>(device_)});
    }
    return flows_.Add(std::move(flow));
  }
  static wire::PathSet Paths(wire::LocalFlowId flow, const std::vector<std::uint16_t>& ports) {
    wire::PathSet set = {.flow = flow};
    for (const std::uint16_t port : ports) set.paths.push_back({.source_port = port});
    return set;
  }
  std::uint16_t PortOf(wire::LocalFlowId flow) {
    for (const FlowSample& sample : flows_.Flows()) {
      if (sample.id == flow) return sample.source_port;
    }
    return 0;
  }
  std::int64_t Failures() {
    return metrics_.MakeCounter("espalier_agent_queue_pair_changes_failed_total", "").Value();
  }

  FakeDevice device_;
  ManualLoop loop_;
  Metrics metrics_;
  QueuePairFlows flows_{loop_, metrics_};
};

TEST_F(QueuePairFlowsTest, TellsHowFullQueuesAre) {
  int changes = 0;
  flows_.OnChange([&] { ++changes; });
  const auto first = Add(2);
  const auto second = Add(1);
  loop_.Advance(Duration(0));
  EXPECT_EQ(changes, 2);
  first.traffic[0].Announce(100);
  first.traffic[0].Post(55);
  first.traffic[1].Post(5);
  first.traffic[0].Complete(25);
  first.traffic[0].Retry();
  const auto samples = flows_.Flows();
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].id, first.id);
  EXPECT_EQ(samples[0].remaining_bytes, 40U);
  EXPECT_EQ(samples[0].outstanding_bytes, 35U);
  EXPECT_EQ(samples[0].sent_bytes, 25U);
  EXPECT_EQ(samples[0].retries, 1U);
  EXPECT_EQ(samples[0].max_paths, 2);
  EXPECT_EQ(samples[0].local_qpn, 17U);
  EXPECT_EQ(samples[0].source_port, 0xC00F);
  ASSERT_EQ(samples[0].ports.size(), 2U);
  EXPECT_EQ(samples[0].ports[0].source_port, 0xC00F);
  EXPECT_EQ(samples[0].ports[0].outstanding_bytes, 30U);
  EXPECT_EQ(samples[0].ports[0].sent_bytes, 25U);
  EXPECT_EQ(samples[0].ports[0].retries, 1U);
  EXPECT_EQ(samples[0].ports[1].outstanding_bytes, 5U);
  EXPECT_TRUE(samples[1].ports.empty());
  EXPECT_TRUE(samples[0].movable);
  EXPECT_EQ(samples[1].outstanding_bytes, 0U);
  flows_.Remove(first.id);
  flows_.Remove(first.id);
  loop_.Advance(Duration(0));
  EXPECT_EQ(changes, 3);
  ASSERT_EQ(flows_.Flows().size(), 1U);
  EXPECT_EQ(flows_.Flows()[0].id, second.id);
}

// Whatever is posted without having been announced, by a thread that never waits.
TEST_F(QueuePairFlowsTest, NeverShowsNonsenseWhileOthersCount) {
  const auto flow = Add(1);
  std::thread poster([&] {
    for (int i = 0; i < 100'000; ++i) {
      flow.traffic[0].Post(10);
      flow.traffic[0].Complete(10);
    }
  });
  for (int i = 0; i < 1000; ++i) {
    const FlowSample sample = flows_.Flows()[0];
    ASSERT_EQ(sample.remaining_bytes, 0U);
    ASSERT_LE(sample.outstanding_bytes, 1'000'000U);
  }
  poster.join();
  EXPECT_EQ(flows_.Flows()[0].sent_bytes, 1'000'000U);
}

TEST_F(QueuePairFlowsTest, GivesEachQueuePairAPathOfTheSet) {
  const auto flow = Add(3);
  ASSERT_TRUE(flows_.Apply(Paths(flow.id, {0xC111, 0xC222})));
  EXPECT_THAT(device_.started, ElementsAre(0xC111, 0xC222, 0xC111));
  EXPECT_EQ(PortOf(flow.id), 0xC111);
  // Again: nothing is to be done.
  ASSERT_TRUE(flows_.Apply(Paths(flow.id, {0xC111, 0xC222})));
  EXPECT_EQ(device_.started.size(), 3U);
  ASSERT_TRUE(flows_.Clear(flow.id));
  EXPECT_EQ(PortOf(flow.id), 0xC00F);
  ASSERT_TRUE(flows_.Apply(Paths(flow.id, {0xC333})));
  ASSERT_TRUE(flows_.Apply(Paths(flow.id, {})));
  EXPECT_EQ(PortOf(flow.id), 0xC00F);
}

TEST_F(QueuePairFlowsTest, LetsAChangeEndBeforeTheNextAndSkipsThoseBetween) {
  device_.steps = 3;
  const auto flow = Add(1);
  ASSERT_TRUE(flows_.Apply(Paths(flow.id, {0xC111})));
  EXPECT_EQ(PortOf(flow.id), 0xC00F);
  ASSERT_TRUE(flows_.Apply(Paths(flow.id, {0xC222})));
  ASSERT_TRUE(flows_.Apply(Paths(flow.id, {0xC333})));
  loop_.Advance(std::chrono::milliseconds(20));
  EXPECT_THAT(device_.started, ElementsAre(0xC111, 0xC333));
  EXPECT_EQ(PortOf(flow.id), 0xC333);
  EXPECT_EQ(Failures(), 0);
  // One that ends while it changes is forgotten.
  ASSERT_TRUE(flows_.Apply(Paths(flow.id, {0xC444})));
  flows_.Remove(flow.id);
  loop_.Advance(std::chrono::milliseconds(20));
  EXPECT_THAT(flows_.Flows(), IsEmpty());
}

TEST_F(QueuePairFlowsTest, KeepsThePortWhereAChangeFails) {
  const auto flow = Add(1);
  device_.refuses = true;
  ASSERT_TRUE(flows_.Apply(Paths(flow.id, {0xC111})));
  EXPECT_EQ(PortOf(flow.id), 0xC00F);
  EXPECT_EQ(Failures(), 1);
  device_.refuses = false;
  device_.fails_later = true;
  ASSERT_TRUE(flows_.Apply(Paths(flow.id, {0xC222})));
  loop_.Advance(std::chrono::milliseconds(20));
  EXPECT_EQ(Failures(), 2);
  EXPECT_EQ(PortOf(flow.id), 0xC00F);
  device_.fails_later = false;
  ASSERT_TRUE(flows_.Apply(Paths(flow.id, {0xC222})));
  EXPECT_EQ(PortOf(flow.id), 0xC222);
}

TEST_F(QueuePairFlowsTest, SaysWhereNothingCanBeDone) {
  QueuePairFlow fixed;
  fixed.members.push_back({.local_number = 1, .remote_number = 2, .port = 0, .path = nullptr});
  const auto flow = flows_.Add(std::move(fixed));
  EXPECT_FALSE(flows_.Flows()[0].movable);
  EXPECT_EQ(flows_.Apply(Paths(flow.id, {0xC111})).error().code, ErrorCode::kUnsupported);
  EXPECT_TRUE(flows_.Clear(flow.id));
  const wire::LocalFlowId unknown{777};
  EXPECT_EQ(flows_.Apply(Paths(unknown, {0xC111})).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(flows_.Clear(unknown).error().code, ErrorCode::kNotFound);
}

TEST_F(QueuePairFlowsTest, SharesTheRateAmongQueuePairs) {
  const auto flow = Add(2);
  wire::PathSet paths = Paths(flow.id, {0xC111});
  paths.max_rate_bps = 10'000;
  ASSERT_TRUE(flows_.Apply(paths));
  ASSERT_TRUE(flows_.Apply(paths));
  EXPECT_THAT(device_.rates, ElementsAre(5000U, 5000U));
  ASSERT_TRUE(flows_.Clear(flow.id));
  EXPECT_THAT(device_.rates, ElementsAre(5000U, 5000U, 0U, 0U));
  device_.limits_rates = false;
  EXPECT_TRUE(flows_.Apply(paths));
  EXPECT_EQ(PortOf(flow.id), 0xC111);
}

TEST(DeviceReport, KnowsEveryAddress) {
  EXPECT_EQ(ReportDevices().size(), verbs::ListRoceAddresses().size());
}

}  // namespace
}  // namespace espalier::agent
