#include "agent/flows/path_sampler.h"

#include <gmock/gmock.h>

#include "tests/agent/agent_fixture.h"

namespace espalier::agent {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class PathSamplerTest : public AgentTest {
 protected:
  FlowSample& Sample() { return source_.flows.at(wire::LocalFlowId(1)); }
  // The flow sends steadily for this long.
  void Send(Duration span, std::uint64_t bytes_per_ms) {
    for (Duration passed{}; passed < span; passed += 10 * kMs) {
      Sample().sent_bytes += 10 * bytes_per_ms;
      Live(10 * kMs);
    }
  }
  std::vector<wire::FlowHealth> Health() {
    std::vector<wire::FlowHealth> all;
    for (const wire::PathHealth& health : bus_.Take<wire::PathHealth>()) {
      all.insert(all.end(), health.flows.begin(), health.flows.end());
    }
    return all;
  }
};

TEST_F(PathSamplerTest, MeasuresBusyFlowsTwiceASecond) {
  Sync();
  Open(1);
  Push(Difference(1, 1, {Set(1, 50'000)}));
  Sample().outstanding_bytes = 1 << 20;
  Sample().retries = 3;
  Sample().rtt_us = 21;
  bus_.sent.clear();
  Send(2 * kSecond, 1'000);
  const auto health = Health();
  ASSERT_GE(health.size(), 3U);
  EXPECT_LE(health.size(), 4U);
  EXPECT_EQ(health.back().verdict, wire::PathVerdict::kGood);
  EXPECT_EQ(health.back().source_port, 50'000);
  EXPECT_EQ(health.back().retries, 3U);
  EXPECT_EQ(health.back().rtt_us, 21U);
  EXPECT_NEAR(static_cast<double>(health.back().achieved_bps), 8e6, 1e6);
}

TEST_F(PathSamplerTest, DoesNotMeasureIdleFlowsOrThoseOnEcmp) {
  Sync();
  Open(1);
  Sample().outstanding_bytes = 1 << 20;
  bus_.sent.clear();
  Send(2 * kSecond, 1'000);
  EXPECT_THAT(Health(), IsEmpty());
  Push(Difference(1, 1, {Set(1, 50'000)}));
  Sample().outstanding_bytes = Sample().remaining_bytes = 0;
  bus_.sent.clear();
  Send(2 * kSecond, 1'000);
  EXPECT_THAT(Health(), IsEmpty());
}

TEST_F(PathSamplerTest, MeasuresEachPathOfASplitFlow) {
  Sync();
  Open(1);
  wire::PathSet set = Set(1, 50'000);
  set.paths.push_back({.source_port = 50'001, .path_id = 1, .encoding = {}});
  Push(Difference(1, 1, {set}));
  bus_.sent.clear();
  Sample().ports = {{.source_port = 50'000, .outstanding_bytes = 1'000},
                    {.source_port = 50'001, .outstanding_bytes = 1'000, .retries = 2}};
  Sample().outstanding_bytes = 2'000;
  for (int i = 0; i < 120; ++i) {
    Sample().ports[0].sent_bytes += 30'000;
    Sample().ports[1].sent_bytes += 10'000;
    Send(10 * kMs, 4'000);
  }
  const auto health = Health();
  ASSERT_GE(health.size(), 2U);
  const wire::FlowHealth& first = health[health.size() - 2];
  const wire::FlowHealth& second = health.back();
  EXPECT_EQ(first.source_port, 50'000);
  EXPECT_EQ(second.source_port, 50'001);
  EXPECT_NEAR(static_cast<double>(first.achieved_bps), 24e6, 3e6);
  EXPECT_NEAR(static_cast<double>(second.achieved_bps), 8e6, 1e6);
  EXPECT_EQ(second.retries, 2U);
}

// The counters of the NIC's device go with the samples of its flows.
TEST(PathSampler, AddsTheCountersOfTheDevice) {
  struct : FlowActuator {
    Result<void> Apply(const wire::PathSet&) override { return {}; }
    Result<void> Clear(wire::LocalFlowId) override { return {}; }
  } actuator;
  PortTable ports(actuator);
  wire::PathHealth health;
  PathSampler sampler({.read_device =
                           [](const IpAddress&) {
                             return DeviceCounters{5, 7};
                           }},
                      ports, [&](const wire::PathHealth& sampled) { health = sampled; });
  FlowSample sample{.id = wire::LocalFlowId(1)};
  ports.HandleFlows(std::span(&sample, 1));
  wire::PathPush push{.epoch = 1, .generation = 1};
  push.sets.push_back({.flow = sample.id, .paths = {{.source_port = 50'000, .encoding = {}}}});
  ports.HandlePush(push);
  const FlowMeasure measure{.sample = &sample, .achieved_bps = 9, .busy = true};
  sampler.HandleMeasures(TimePoint(kSecond), std::span(&measure, 1));
  EXPECT_THAT(health.flows, IsEmpty());
  sampler.HandleMeasures(TimePoint(2 * kSecond), std::span(&measure, 1));
  ASSERT_THAT(health.flows, SizeIs(1));
  EXPECT_EQ(health.flows[0].out_of_sequence, 5U);
  EXPECT_EQ(health.flows[0].cnp, 7U);
}

}  // namespace
}  // namespace espalier::agent
