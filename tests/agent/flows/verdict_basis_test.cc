#include "agent/flows/guard/verdict_basis.h"

#include <gmock/gmock.h>

#include "agent/flows/guard/path_guard.h"
#include "tests/agent/flows/fake_transports.h"
#include "tests/agent/flows/path_guard_fixture.h"

namespace espalier::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::PathBasis;
using wire::PathVerdict;

constexpr TcpSocket kStuckSocket = {
    .user = kUser, .cookie = 1, .repeats = 3, .timeouts = 2, .unacknowledged = 5};

// What an agent reports of a flow without progress.
class VerdictBasisTest : public PathGuardTest {
 protected:
  void Flow(std::uint8_t protocol, std::uint16_t destination_port) {
    AgentOptions options;
    options.guard.transports = transports_.Readers();
    Sync(options);
    FlowSample& flow = Open(1);
    flow.announced.user = kUser;
    flow.user = kUser;
    flow.protocol = protocol;
    flow.destination_port = destination_port;
    Push(Difference(1, 1, {Set(1, 50'000)}));
    bus_.sent.clear();
  }
  // The flow stands still, and its program says that it repeats what it sent. Returns the basis of
  // the one local reroute of which the controller hears then.
  PathBasis ClaimRetries() {
    Live(200 * kMs);
    Retry();
    for (int i = 0; i < 100 && PortOf(1) == 50'000; ++i) {
      if (device_waits_) ++transports_.devices[Sample().source].timeouts;
      Live(10 * kMs);
    }
    EXPECT_NE(PortOf(1), 50'000);
    const auto health = Health();
    EXPECT_THAT(health, SizeIs(1));
    if (health.empty()) return PathBasis::kProbed;
    EXPECT_EQ(health[0].verdict, PathVerdict::kLocallyRerouted);
    EXPECT_EQ(health[0].left_port, 50'000);
    return health[0].basis;
  }
  FlowSample& Sample() { return source_.flows.at(wire::LocalFlowId(1)); }

  FakeTransports transports_;
  bool device_waits_ = false;  // again and again, while the program claims retries
};

TEST_F(VerdictBasisTest, IsProbesThatStayUnansweredWhileOthersAreAnswered) {
  Flow(wire::kProtocolTcp, wire::kRoceV2Port);
  transports_.sockets[50'000] = kStuckSocket;
  probes_.dead_ports = {50'000};
  Live(500 * kMs);
  const auto health = Health();
  ASSERT_THAT(health, SizeIs(1));
  EXPECT_EQ(health[0].basis, PathBasis::kProbed);
  EXPECT_THAT(transports_.read, IsEmpty());
}

// A program that lies about its retries moves its own flow, and no more than that.
TEST_F(VerdictBasisTest, IsAClaimWhenTheKernelKnowsNoSuchSocket) {
  Flow(wire::kProtocolTcp, 2'049);
  EXPECT_EQ(ClaimRetries(), PathBasis::kClaimed);
}

TEST_F(VerdictBasisTest, IsAClaimWhenOnlyRetriesCountForAQueuePair) {
  Flow(wire::kProtocolUdp, wire::kRoceV2Port);
  probes_.answers = false;
  EXPECT_EQ(ClaimRetries(), PathBasis::kClaimed);
}

TEST_F(VerdictBasisTest, IsTheKernelWhenItsSocketWaitsInVain) {
  Flow(wire::kProtocolTcp, 2'049);
  transports_.sockets[50'000] = kStuckSocket;
  EXPECT_EQ(ClaimRetries(), PathBasis::kKernel);
  ASSERT_FALSE(transports_.read.empty());
  const TcpConnection& read = transports_.read.front();
  EXPECT_EQ(read.source, Sample().source);
  EXPECT_EQ(read.destination, Sample().destination);
  EXPECT_EQ(read.source_port, 50'000);
  EXPECT_EQ(read.destination_port, 2'049);
}

TEST_F(VerdictBasisTest, IsAClaimWhenTheSocketIsAnotherUsers) {
  Flow(wire::kProtocolTcp, 2'049);
  transports_.sockets[50'000] = kStuckSocket;
  transports_.sockets[50'000].user = kOtherUser;
  EXPECT_EQ(ClaimRetries(), PathBasis::kClaimed);
}

// The kernel has one number for all users that a namespace does not have.
TEST_F(VerdictBasisTest, IsAClaimWhenTheOwnerHasNoNumberOfItsOwn) {
  for (const std::uint32_t user : {65'534U, kUnknownUser}) {
    VerdictBasis basis(transports_.Readers());
    transports_.sockets[50'000] = kStuckSocket;
    transports_.sockets[50'000].user = user;
    const FlowSample flow{
        .announced = {.user = user}, .user = user, .protocol = wire::kProtocolTcp};
    EXPECT_EQ(basis.Find(loop_.Now(), flow, 50'000, kSecond), PathBasis::kClaimed) << user;
  }
}

TEST_F(VerdictBasisTest, IsAClaimWhenTheSocketIsWell) {
  Flow(wire::kProtocolTcp, 2'049);
  transports_.sockets[50'000] = kStuckSocket;
  transports_.sockets[50'000].timeouts = 0;  // it has repeated, and that was acknowledged
  EXPECT_EQ(ClaimRetries(), PathBasis::kClaimed);
}

TEST_F(VerdictBasisTest, IsAClaimWhenTheSocketHasNothingInFlight) {
  Flow(wire::kProtocolTcp, 2'049);
  transports_.sockets[50'000] = kStuckSocket;
  transports_.sockets[50'000].unacknowledged = 0;
  EXPECT_EQ(ClaimRetries(), PathBasis::kClaimed);
}

TEST_F(VerdictBasisTest, IsTheDeviceWhenItHasWaitedSinceTheFlowsProgress) {
  Flow(wire::kProtocolUdp, 4'792);
  Sample().local_qpn = 17;
  Live(600 * kMs);
  Sample().sent_bytes += 1'000;
  device_waits_ = true;
  EXPECT_EQ(ClaimRetries(), PathBasis::kDevice);
}

TEST_F(VerdictBasisTest, IsAClaimWhenTheDeviceHasWaitedBeforeTheFlowsProgress) {
  Flow(wire::kProtocolUdp, 4'792);
  Sample().local_qpn = 17;
  Live(300 * kMs);
  transports_.devices[Sample().source].timeouts = 4;
  Live(300 * kMs);
  Sample().sent_bytes += 1'000;
  EXPECT_EQ(ClaimRetries(), PathBasis::kClaimed);
}

TEST_F(VerdictBasisTest, IsAClaimWhenTheDeviceHasOnlyHeardOfGaps) {
  Flow(wire::kProtocolUdp, 4'792);
  Sample().local_qpn = 17;
  Live(600 * kMs);
  Sample().sent_bytes += 1'000;
  Live(200 * kMs);
  transports_.devices[Sample().source].out_of_sequence = 4;  // who answers so is there
  EXPECT_EQ(ClaimRetries(), PathBasis::kClaimed);
}

TEST_F(VerdictBasisTest, IsAClaimWhenAnotherDeviceHasWaited) {
  Flow(wire::kProtocolUdp, 4'792);
  Sample().local_qpn = 17;
  Open(2).source = Address("10.0.0.2");
  source_.flows.at(wire::LocalFlowId(2)).local_qpn = 18;
  source_.flows.at(wire::LocalFlowId(2)).movable = false;
  Live(600 * kMs);
  Sample().sent_bytes += 1'000;
  Live(200 * kMs);
  transports_.devices[Address("10.0.0.2")].timeouts = 4;
  EXPECT_EQ(ClaimRetries(), PathBasis::kClaimed);
}

TEST_F(VerdictBasisTest, IsAClaimForAFlowThatIsNoQueuePair) {
  Flow(wire::kProtocolUdp, 4'792);
  Open(2).local_qpn = 17;  // so that the device is read
  Live(600 * kMs);
  Sample().sent_bytes += 1'000;
  device_waits_ = true;
  EXPECT_EQ(ClaimRetries(), PathBasis::kClaimed);
}

// A short check needs two missed probes. One of them and a claim are no more than a claim, also to
// the other flows of the host.
TEST_F(VerdictBasisTest, IsAClaimWhenOneProbeIsMissedAndTheProgramClaimsTheRest) {
  AgentOptions options;
  options.guard.transports = transports_.Readers();
  Sync(options);
  FlowSample& flow = Open(1);
  flow.announced.user = kUser;
  flow.user = kUser;
  flow.protocol = wire::kProtocolTcp;
  flow.rtt_us = 60'000;  // it is checked from 180 ms on, by checks of 100 ms
  wire::PathSet set = Set(1, 50'000);
  set.paths[0].links = {1, 2};
  set.paths.push_back(
      {.source_port = 50'003, .weight = 0, .path_id = 3, .encoding = {}, .links = {3, 4}});
  wire::PathSet same = set;  // of an idle flow over the same links
  same.flow = wire::LocalFlowId(2);
  same.paths[0].source_port = 50'010;
  same.paths[1].source_port = 50'013;
  Open(2).destination = Address("10.1.0.2");
  Push(Difference(1, 1, {set, same}));
  source_.flows.at(wire::LocalFlowId(2)).remaining_bytes = 0;
  Retry();
  probes_.dead_ports = {50'000};
  while (PortOf(1) == 50'000 && loop_.Now() < TimePoint(5 * kSecond)) Live(10 * kMs);
  const auto health = Health();
  ASSERT_THAT(health, SizeIs(1));
  EXPECT_EQ(health[0].source_port, 50'003);
  EXPECT_FALSE(health[0].answered);
  std::size_t of_path = 0;
  for (const Probe& probe : probes_.sent) of_path += probe.source_port == 50'000 ? 1 : 0;
  EXPECT_EQ(of_path, 1U);
  EXPECT_EQ(health[0].basis, PathBasis::kClaimed);
  Live(200 * kMs);
  for (const Probe& probe : probes_.sent) EXPECT_NE(probe.source_port, 50'010);
}

TEST_F(VerdictBasisTest, IsOfEachPathThatASplitFlowLeaves) {
  AgentOptions options;
  options.guard.transports = transports_.Readers();
  Sync(options);
  FlowSample& flow = Open(1, std::uint64_t{1} << 40);
  flow.announced.user = kUser;
  flow.user = kUser;
  flow.protocol = wire::kProtocolTcp;
  flow.destination_port = 2'049;
  wire::PathSet set = Set(1, 50'000);
  set.paths.push_back({.source_port = 50'001, .path_id = 9, .encoding = {}});
  Push(Difference(1, 1, {set}));
  for (const wire::FlowPath& path : set.paths) {
    Sample().ports.push_back({.source_port = path.source_port, .outstanding_bytes = 1'000'000});
  }
  transports_.sockets[50'001] = kStuckSocket;
  bus_.sent.clear();
  Live(200 * kMs);
  ++Sample().ports[0].retries;
  ++Sample().ports[1].retries;
  Live(300 * kMs);
  const auto health = Health();
  ASSERT_THAT(health, SizeIs(2));
  EXPECT_EQ(health[0].left_port, 50'000);
  EXPECT_EQ(health[0].basis, PathBasis::kClaimed);
  EXPECT_EQ(health[1].left_port, 50'001);
  EXPECT_EQ(health[1].basis, PathBasis::kKernel);
}

TEST_F(VerdictBasisTest, GoesWithAPathThatTheFlowCannotLeave) {
  Flow(wire::kProtocolTcp, 2'049);
  transports_.sockets[50'000] = kStuckSocket;
  actuator_.refused = {wire::LocalFlowId(1)};
  Retry();
  Live(kSecond);
  const auto health = Health();
  ASSERT_THAT(health, SizeIs(1));
  EXPECT_EQ(health[0].verdict, PathVerdict::kDead);
  EXPECT_EQ(health[0].basis, PathBasis::kKernel);
}

// Programs decide how many verdicts there are.
TEST_F(VerdictBasisTest, ReadsFewSocketsASecondAndLeavesSomeToEachUser) {
  VerdictBasis basis(transports_.Readers());
  transports_.sockets[50'000] = kStuckSocket;
  const auto find = [&](std::uint32_t user) {
    transports_.sockets[50'000].user = user;
    const FlowSample flow{
        .announced = {.user = user}, .user = user, .protocol = wire::kProtocolTcp};
    return basis.Find(loop_.Now(), flow, 50'000, kSecond);
  };
  loop_.Advance(10 * kSecond);
  for (std::size_t i = 0; i < VerdictBasis::kMostReadsOfUser; ++i) {
    ASSERT_EQ(find(kOtherUser), PathBasis::kKernel) << i;
  }
  EXPECT_EQ(find(kOtherUser), PathBasis::kClaimed);
  EXPECT_EQ(find(kUser), PathBasis::kKernel);
  for (std::uint32_t user = 2'000; user < 4'000; ++user) find(user);
  EXPECT_THAT(transports_.read, SizeIs(VerdictBasis::kMostReads));
  EXPECT_EQ(find(kUser), PathBasis::kClaimed);
  loop_.Advance(kSecond);
  EXPECT_EQ(find(kOtherUser), PathBasis::kKernel);
}

TEST_F(VerdictBasisTest, ReadsADeviceOnceForManyVerdicts) {
  VerdictBasis basis(transports_.Readers());
  const FlowSample flow{.source = Address("10.0.0.1"), .local_qpn = 7, .remaining_bytes = 1};
  const FlowMeasure measure{.sample = &flow};
  basis.HandleMeasures(loop_.Now(), std::span(&measure, 1));
  transports_.devices[flow.source].timeouts = 1;
  loop_.Advance(100 * kMs);
  for (int i = 0; i < 1'000; ++i) {
    EXPECT_EQ(basis.Find(loop_.Now(), flow, 50'000, kSecond), PathBasis::kDevice);
  }
  EXPECT_EQ(transports_.device_reads, 2);
}

TEST_F(VerdictBasisTest, IsAClaimWhenTheDevicesCountsAreSetBack) {
  VerdictBasis basis(transports_.Readers());
  const FlowSample flow{.source = Address("10.0.0.1"), .local_qpn = 7, .remaining_bytes = 1};
  const FlowMeasure measure{.sample = &flow};
  transports_.devices[flow.source].timeouts = 9;
  basis.HandleMeasures(loop_.Now(), std::span(&measure, 1));
  transports_.devices[flow.source].timeouts = 0;
  loop_.Advance(100 * kMs);
  EXPECT_EQ(basis.Find(loop_.Now(), flow, 50'000, kSecond), PathBasis::kClaimed);
}

TEST(BasisName, HasAWordForEach) {
  EXPECT_THAT((std::vector{BasisName(PathBasis::kClaimed), BasisName(PathBasis::kProbed),
                           BasisName(PathBasis::kKernel), BasisName(PathBasis::kDevice)}),
              ElementsAre("claimed", "probed", "kernel", "device"));
}

}  // namespace
}  // namespace espalier::agent
