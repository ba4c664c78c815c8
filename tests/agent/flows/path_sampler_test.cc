#include "agent/flows/guard/path_sampler.h"

#include <gmock/gmock.h>

#include <map>

#include "tests/agent/agent_fixture.h"
#include "tests/agent/flows/fake_transports.h"

namespace espalier::agent {
namespace {

using ::testing::Each;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::PathBasis;

class PathSamplerTest : public AgentTest {
 protected:
  void Sync() {
    AgentOptions options;
    options.sampler.transports = transports_.Readers();
    options.guard.dead_after = std::chrono::hours(1);  // its verdicts use the same message
    options.guard.slow_fraction = 0;
    AgentTest::Sync(options);
  }
  FlowSample& Sample(std::uint64_t id = 1) { return source_.flows.at(wire::LocalFlowId(id)); }
  // Opens flows that have ports of their own from 50,000 on and something to send.
  void OpenWithPorts(std::uint64_t first, std::uint64_t last, std::uint32_t user,
                     std::uint8_t protocol) {
    for (std::uint64_t id = first; id <= last; ++id) {
      FlowSample& flow = Open(id);
      flow.announced.user = user;
      flow.user = user;
      flow.protocol = protocol;
      flow.local_qpn = protocol == wire::kProtocolUdp ? static_cast<std::uint32_t>(100 + id) : 0U;
      flow.outstanding_bytes = 1 << 20;
      const auto port = static_cast<std::uint16_t>(50'000 + id - 1);
      transports_.sockets[port] = {.user = user, .cookie = id};
      push_.sets.push_back(Set(id, port));
    }
    ++push_.generation;
    Push(push_);
    Live(kSecond);
    bus_.sent.clear();
  }
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

  FakeTransports transports_;
  wire::PathPush push_ = Full(1, 0, {});
};

TEST_F(PathSamplerTest, FlowsThatRepeatNothingCostNoMessage) {
  Sync();
  OpenWithPorts(1, 10, kUser, wire::kProtocolTcp);
  OpenWithPorts(11, 20, kUser, wire::kProtocolUdp);
  Send(3 * kSecond, 1'000);
  EXPECT_THAT(Health(), IsEmpty());
}

TEST_F(PathSamplerTest, ReportsWhatTheKernelHasSentAgainSinceTheLastReport) {
  Sync();
  OpenWithPorts(1, 1, kUser, wire::kProtocolTcp);
  transports_.sockets[50'000].repeats = 3;
  transports_.sockets[50'000].rtt_us = 21;
  Live(2 * kSecond);
  auto health = Health();
  ASSERT_THAT(health, SizeIs(1));
  EXPECT_EQ(health[0].verdict, wire::PathVerdict::kGood);
  EXPECT_EQ(health[0].source_port, 50'000);
  EXPECT_EQ(health[0].path_id, 50'000U % 4);
  EXPECT_EQ(health[0].retries, 3U);
  EXPECT_EQ(health[0].rtt_us, 21U);
  EXPECT_EQ(health[0].basis, PathBasis::kKernel);
  for (int i = 0; i < 200; ++i) {
    ++transports_.sockets[50'000].repeats;
    Live(10 * kMs);
  }
  health = Health();
  EXPECT_GE(health.size(), 3U);
  EXPECT_LE(health.size(), 5U);  // at most twice a second
}

// The kernel knows better than a program that lies about its retries.
TEST_F(PathSamplerTest, RetriesThatTheKernelDoesNotKnowAreNotReported) {
  Sync();
  OpenWithPorts(1, 1, kUser, wire::kProtocolTcp);
  Sample().retries = 1'000;
  Live(2 * kSecond);
  EXPECT_THAT(Health(), IsEmpty());
}

TEST_F(PathSamplerTest, RetriesOfAConnectionThatIsAnothersOrNonesAreClaims) {
  Sync();
  OpenWithPorts(1, 2, kUser, wire::kProtocolTcp);
  transports_.sockets[50'000].user = kOtherUser;
  transports_.sockets.erase(50'001);
  Live(kSecond);
  transports_.sockets[50'000].repeats = 7;
  for (const std::uint64_t id : {1, 2}) Sample(id).retries = 5;
  Live(2 * kSecond);
  const auto health = Health();
  EXPECT_THAT(health, SizeIs(2));
  EXPECT_THAT(health, Each(Field(&wire::FlowHealth::basis, PathBasis::kClaimed)));
  EXPECT_THAT(health, Each(Field(&wire::FlowHealth::retries, 5U)));
}

TEST_F(PathSamplerTest, FlowsOnEcmpHaveNoPathToReport) {
  Sync();
  Open(1).announced.user = kUser;
  Sample().protocol = wire::kProtocolTcp;
  transports_.sockets[40'001] = {.user = kUser, .cookie = 1};
  Live(kSecond);
  Sample().retries = 5;
  transports_.sockets[40'001].repeats = 5;
  bus_.sent.clear();
  Live(2 * kSecond);
  EXPECT_THAT(Health(), IsEmpty());
}

TEST_F(PathSamplerTest, DealsOutWhatADeviceCountsToItsBusyQueuePairs) {
  Sync();
  OpenWithPorts(1, 5, kUser, wire::kProtocolUdp);
  Sample(5).source = Address("10.0.0.2");
  Sample(4).remaining_bytes = Sample(4).outstanding_bytes = 0;
  Live(2 * kSecond);
  bus_.sent.clear();
  transports_.devices[Address("10.0.0.1")].out_of_sequence = 8;
  Live(2 * kSecond);
  std::map<std::uint64_t, std::uint32_t> parts;
  for (const wire::FlowHealth& health : Health()) {
    EXPECT_EQ(health.basis, PathBasis::kDevice);
    parts[health.flow.value()] += health.retries;
  }
  EXPECT_THAT(parts, SizeIs(3));
  EXPECT_EQ(parts[1] + parts[2] + parts[3], 8U);
  for (const auto& [flow, part] : parts) EXPECT_GE(part, 2U) << flow;
}

// A program that announces many queue pairs draws no more doubt to their paths.
TEST_F(PathSamplerTest, DealsOutWhatADeviceCountsToUsersFirst) {
  Sync();
  OpenWithPorts(1, 1, kUser, wire::kProtocolUdp);
  OpenWithPorts(2, 20, kOtherUser, wire::kProtocolUdp);
  std::uint32_t of_user = 0;
  std::uint32_t of_other = 0;
  for (int i = 0; i < 20; ++i) {
    transports_.devices[Address("10.0.0.1")].out_of_sequence += 3;
    Live(500 * kMs);
  }
  Live(kSecond);
  for (const wire::FlowHealth& health : Health()) {
    (health.flow == wire::LocalFlowId(1) ? of_user : of_other) += health.retries;
  }
  EXPECT_EQ(of_user + of_other, 60U);
  EXPECT_NEAR(of_user, 30, 2);
}

TEST_F(PathSamplerTest, ADeviceWhoseCountsAreSetBackSaysNothing) {
  Sync();
  transports_.devices[Address("10.0.0.1")].out_of_sequence = 1'000;
  OpenWithPorts(1, 1, kUser, wire::kProtocolUdp);
  transports_.devices[Address("10.0.0.1")].out_of_sequence = 0;
  Live(2 * kSecond);
  EXPECT_THAT(Health(), IsEmpty());
}

// Counts how many entries of two users there are: the first has one flow, the other many.
class CrowdedSamplerTest : public PathSamplerTest {
 protected:
  void Count(std::uint8_t protocol, auto repeat) {
    Sync();
    OpenWithPorts(1, 1, kUser, protocol);
    OpenWithPorts(2, 200, kOtherUser, protocol);
    if (protocol == wire::kProtocolUdp) transports_.sockets.clear();
    for (int i = 0; i < 20; ++i) {
      for (std::uint64_t id = 1; id <= 200; ++id) repeat(id);
      Live(500 * kMs);
    }
    for (const wire::PathHealth& message : bus_.Take<wire::PathHealth>()) {
      std::size_t of_other = 0;
      for (const wire::FlowHealth& health : message.flows) {
        const bool is_first = health.flow == wire::LocalFlowId(1);
        of_first_ += is_first ? 1 : 0;
        of_other += is_first ? 0 : 1;
        ++reports_[health.flow];
      }
      most_of_other_ = std::max(most_of_other_, of_other);
    }
  }
  std::size_t of_first_ = 0;
  std::size_t most_of_other_ = 0;
  std::map<wire::LocalFlowId, int> reports_;
};

TEST_F(CrowdedSamplerTest, OneUserDoesNotOutvoteOthersByTheKernelsSockets) {
  Count(wire::kProtocolTcp, [this](std::uint64_t id) {
    ++transports_.sockets[static_cast<std::uint16_t>(50'000 + id - 1)].repeats;
  });
  EXPECT_GE(of_first_, 18U);
  EXPECT_EQ(most_of_other_, PathSampler::kMostVotesOfUser);
  EXPECT_GE(reports_.size(), 190U);  // others each time
}

TEST_F(CrowdedSamplerTest, OneUserDoesNotOutvoteOthersByClaims) {
  Count(wire::kProtocolUdp, [this](std::uint64_t id) { ++Sample(id).retries; });
  EXPECT_GE(of_first_, 18U);
  EXPECT_EQ(most_of_other_, PathSampler::kMostVotesOfUser / 4);
}

TEST_F(PathSamplerTest, ReportsTheRatesOfPathsWithUnequalParts) {
  Sync();
  Open(1).keeps_weights = true;
  wire::PathSet set = Set(1, 50'000);
  set.max_rate_bps = 30'000'000;
  set.paths[0].weight = 2;
  set.paths.push_back({.source_port = 50'001, .weight = 1, .path_id = 1, .encoding = {}});
  Push(Difference(1, 1, {set}));
  Sample().ports = {{.source_port = 50'000, .outstanding_bytes = 1'000},
                    {.source_port = 50'001, .outstanding_bytes = 1'000}};
  Sample().outstanding_bytes = 2'000;
  const auto run = [this] {
    bus_.sent.clear();
    for (int i = 0; i < 120; ++i) {
      Sample().ports[0].sent_bytes += 30'000;
      Sample().ports[1].sent_bytes += 10'000;
      Send(10 * kMs, 4'000);
    }
    return Health();
  };
  Sample().ports[1].retries = 2;
  run();
  const auto health = run();
  ASSERT_GE(health.size(), 4U);
  ASSERT_LE(health.size(), 6U);
  const wire::FlowHealth& first = health[health.size() - 2];
  const wire::FlowHealth& second = health.back();
  EXPECT_EQ(first.source_port, 50'000);
  EXPECT_EQ(second.source_port, 50'001);
  EXPECT_NEAR(static_cast<double>(first.achieved_bps), 24e6, 3e6);
  EXPECT_NEAR(static_cast<double>(second.achieved_bps), 8e6, 1e6);
  EXPECT_EQ(first.planned_bps, 20'000'000U);
  EXPECT_EQ(second.retries, 0U);  // none since the last report
  // Equal parts need no watch, and a path with nothing to send says nothing of its part.
  Sample().ports[1].outstanding_bytes = 0;
  Live(kSecond);
  for (const wire::FlowHealth& each : run()) EXPECT_EQ(each.source_port, 50'000);
  set.paths[0].weight = 1;
  Push(Difference(1, 2, {set}));
  Live(kSecond);
  EXPECT_THAT(run(), IsEmpty());
}

}  // namespace
}  // namespace espalier::agent
