// The source port on the wire, for every way to choose one.
#include "common/verbs/source_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <thread>

#include "common/verbs/path_control.h"
#include "common/verbs/rate_limit.h"
#include "tests/rdma/rdma_machine.h"

namespace espalier::rdma {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::SizeIs;
using verbs::LivePortChange;
using verbs::PortChangeMethod;

using Ports = std::vector<std::uint16_t>;

constexpr std::size_t kWriteBytes = 4096;
constexpr int kWrites = 16;

TEST(RdmaDevices, AreFoundWithTheirAddressesAndWhatTheyCanDo) {
  const auto addresses = verbs::ListRoceAddresses();
  ASSERT_EQ(addresses.size(), 2U * kHosts);
  for (int host = 0; host < kHosts; ++host) {
    for (const bool ipv6 : {false, true}) {
      const verbs::RoceAddress address = RoceAddressOf(host, ipv6);
      EXPECT_EQ(address.interface, "h" + std::to_string(host));
      EXPECT_EQ(address.path_mtu_bytes, 4096);
      if (host != 0) continue;
      const auto control = verbs::TryPathControl(address);
      ASSERT_TRUE(control) << control.error().message;
      EXPECT_TRUE(control->at_connect) << control->why_not;
      EXPECT_EQ(control->live, PortChangeMethod::kDrain);
    }
  }
}

// The ports of all packets from `source` to that queue pair, in the order of arrival.
std::vector<std::uint16_t> PortsTo(const std::vector<Packet>& packets, const Pair::End& end,
                                   const IpAddress& source) {
  std::vector<std::uint16_t> ports;
  for (const Packet& packet : packets) {
    if (packet.remote_number != end.pair->qp_num || packet.source != source) continue;
    EXPECT_EQ(packet.destination, end.address.address);
    ports.push_back(packet.source_port);
  }
  return ports;
}

class SourcePortOnTheWire : public ::testing::TestWithParam<bool> {};

TEST_P(SourcePortOnTheWire, IsThatOfTheFlowLabelEachWay) {
  Capture capture("", "h0");
  for (const std::uint16_t port : Ports{0xC000, 0xC001, 0xD5A7, 0xFFFF}) {
    const auto answer_port = static_cast<std::uint16_t>(port ^ 0x0F0F);
    Pair pair(0, 2, GetParam(), *verbs::FlowLabelFor(port), *verbs::FlowLabelFor(answer_port),
              kWrites * kWriteBytes);
    for (int i = 0; i < kWrites; ++i) {
      pair.PostWrite(static_cast<std::size_t>(i) * kWriteBytes, kWriteBytes);
    }
    pair.AwaitWrites(kWrites);
    EXPECT_EQ(pair.from().memory, pair.to().memory);
    const auto packets = capture.Take();
    const auto requests = PortsTo(packets, pair.to(), pair.from().address.address);
    EXPECT_GE(requests.size(), kWrites * kWriteBytes / 1024);
    EXPECT_THAT(requests, Each(port));
    const auto answers = PortsTo(packets, pair.from(), pair.to().address.address);
    EXPECT_GE(answers.size(), 1U);
    EXPECT_THAT(answers, Each(answer_port));
  }
  // Label 0 selects the hash that the agent predicts.
  Pair pair(0, 2, GetParam(), 0, 0, kWriteBytes);
  pair.PostWrite(0, kWriteBytes);
  pair.AwaitWrites(1);
  EXPECT_THAT(PortsTo(capture.Take(), pair.to(), pair.from().address.address),
              AllOf(SizeIs(Ge(4U)), Each(verbs::SourcePortOf(0, pair.from().pair->qp_num,
                                                             pair.to().pair->qp_num))));
}

TEST_P(SourcePortOnTheWire, ChangesUnderTrafficByDraining) {
  constexpr int kInFlight = 64;
  constexpr std::uint16_t kFirstPort = 0xC100;
  Capture capture("", "h1");
  Pair pair(1, 3, GetParam(), *verbs::FlowLabelFor(kFirstPort), 1, kInFlight * kWriteBytes);
  std::vector<std::uint16_t> expected = {kFirstPort};
  for (const std::uint16_t port : Ports{0xC201, 0xC000, 0xFFFE}) {
    for (int i = 0; i < kInFlight; ++i) {
      pair.PostWrite(static_cast<std::size_t>(i) * kWriteBytes, kWriteBytes);
    }
    LivePortChange change(*pair.from().pair, PortChangeMethod::kDrain, port);
    ASSERT_TRUE(change.Start());
    while (true) {
      const auto done = change.Continue();
      ASSERT_TRUE(done) << done.error().message;
      if (*done) break;
      std::this_thread::yield();
    }
    pair.PostWrite(0, kWriteBytes);
    pair.AwaitWrites(kInFlight + 1);
    expected.push_back(port);
  }
  EXPECT_EQ(pair.from().memory, pair.to().memory);
  // An old port never comes back, and there are no other ports.
  auto ports = PortsTo(capture.Take(), pair.to(), pair.from().address.address);
  EXPECT_GE(ports.size(), 3U * kInFlight * kWriteBytes / 1024);
  ports.erase(std::unique(ports.begin(), ports.end()), ports.end());
  EXPECT_EQ(ports, expected);
}

TEST_P(SourcePortOnTheWire, DecidesThePath) {
  // The switches' hash maps every port to one spine, and at least one port to each spine.
  constexpr int kMaxPorts = 200;
  std::set<int> spines_taken;
  std::vector<Capture> spines;
  for (int spine = 0; spine < kSpines; ++spine) {
    spines.emplace_back("spine" + std::to_string(spine), "l0");
  }
  for (int i = 0; i < kMaxPorts && spines_taken.size() < kSpines; ++i) {
    const auto port = static_cast<std::uint16_t>(0xC400 + 37 * i);
    Pair pair(0, 3, GetParam(), *verbs::FlowLabelFor(port), 1, 4 * kWriteBytes);
    pair.PostWrite(0, 4 * kWriteBytes);
    pair.AwaitWrites(1);
    int taken = 0;
    for (int spine = 0; spine < kSpines; ++spine) {
      const auto packets = spines[static_cast<std::size_t>(spine)].Take();
      if (PortsTo(packets, pair.to(), pair.from().address.address).empty()) continue;
      spines_taken.insert(spine);
      ++taken;
    }
    EXPECT_EQ(taken, 1) << port;
  }
  EXPECT_EQ(spines_taken.size(), static_cast<std::size_t>(kSpines));
}

INSTANTIATE_TEST_SUITE_P(Families, SourcePortOnTheWire, ::testing::Values(false, true),
                         [](const auto& test) { return test.param ? "IPv6" : "IPv4"; });

TEST(LivePortChange, RefusesWhatTheDeviceCannotDo) {
  Pair pair(0, 1, false, 1, 1, kWriteBytes);
  ibv_qp& from = *pair.from().pair;
  EXPECT_EQ(LivePortChange(from, PortChangeMethod::kNone, 0xC001).Start().error().code,
            ErrorCode::kUnsupported);
  EXPECT_EQ(LivePortChange(from, PortChangeMethod::kDrain, 4791).Start().error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(LivePortChange(from, PortChangeMethod::kSetUdpPort, 0xC001).Start().error().code,
            ErrorCode::kUnsupported);
  EXPECT_EQ(verbs::LimitRate(from, 1'000'000'000), EOPNOTSUPP);
  verbs::Break(from);
  EXPECT_EQ(LivePortChange(from, PortChangeMethod::kDrain, 0xC001).Start().error().code,
            ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace espalier::rdma
