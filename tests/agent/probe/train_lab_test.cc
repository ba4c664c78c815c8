// Tests probe trains by real sockets between two network namespaces:
//
//   host --- peer     10.0.0.1 | .2 and fd00::1 | ::2
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

#include "agent/probe/sockets/raw_train_socket.h"
#include "common/base/unique_fd.h"
#include "common/fabric/ecmp/train_token.h"
#include "tests/own_network.h"

namespace espalier::agent {
namespace {

constexpr std::uint16_t kPort = 4'900;
constexpr std::uint8_t kPackets = 8;
constexpr std::string_view kKey = "0123456789abcdef";

IpAddress Address(const char* text) { return IpAddress::Parse(text).value(); }

UniqueFd CurrentNamespace() { return UniqueFd(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)); }

class TrainLab : public testing::Test {
 protected:
  void SetUp() override {
    const std::string problem = EnterOwnNetwork();
    if (!problem.empty()) GTEST_SKIP() << problem;
    peer_ = CurrentNamespace();
    ASSERT_EQ(unshare(CLONE_NEWNET), 0);
    host_ = CurrentNamespace();
    Run(fmt::format("ip link add name eth0 type veth peer name eth0 netns /proc/{}/fd/{}", getpid(),
                    peer_.get()));
    Run(Addresses("10.0.0.1", "fd00::1"));
    Enter(peer_);
    Run(Addresses("10.0.0.2", "fd00::2"));
    receiver_ = Open();
    Enter(host_);
    sender_ = Open();
  }

  static std::string Addresses(const char* v4, const char* v6) {
    return fmt::format(
        "ip link set lo up && ip link set eth0 up && ip addr add {}/24 dev eth0 && "
        "ip addr add {}/64 dev eth0 nodad",
        v4, v6);
  }
  static void Run(const std::string& command) { EXPECT_EQ(system(command.c_str()), 0) << command; }
  static void Enter(const UniqueFd& network) { ASSERT_EQ(setns(network.get(), CLONE_NEWNET), 0); }
  static std::unique_ptr<RawTrainSocket> Open() {
    auto socket = RawTrainSocket::Open();
    EXPECT_TRUE(socket) << socket.error().message;
    return std::move(*socket);
  }
  Result<void> ListenAtPeer(std::uint16_t port) {
    Enter(peer_);
    const Result<void> listening = receiver_->Listen(port);
    Enter(host_);
    return listening;
  }

  static bool HasIpv6() { return access("/proc/sys/net/ipv6", F_OK) == 0; }

  static TrainPacket Packet(bool is_v4, std::uint8_t protocol, std::uint8_t index,
                            std::uint8_t ecn = kEcnCapable) {
    return {.source = Address(is_v4 ? "10.0.0.1" : "fd00::1"),
            .destination = Address(is_v4 ? "10.0.0.2" : "fd00::2"),
            .source_port = 0xC001,
            .destination_port = kPort,
            .protocol = protocol,
            .traffic_class = static_cast<std::uint8_t>(26 << 2 | ecn),
            .number = 77,
            .index = index,
            .token = fabric::TrainToken(kKey, 77, index)};
  }
  void Send(const TrainPacket& packet) {
    const Result<void> sent = sender_->Send(packet);
    EXPECT_TRUE(sent) << sent.error().message;
  }
  // Returns what the peer receives until so many packets have come, or nothing comes any more.
  std::vector<TrainArrival> Receive(std::size_t wanted, int patience_ms = 10'000) {
    std::vector<TrainArrival> arrivals;
    receiver_->OnArrival([&](const TrainArrival& arrival) { arrivals.push_back(arrival); });
    pollfd ready{receiver_->fd(), POLLIN, 0};
    while (arrivals.size() < wanted && poll(&ready, 1, patience_ms) > 0) receiver_->HandleReady();
    receiver_->OnArrival({});
    return arrivals;
  }
  void CheckTrain(bool is_v4, std::uint8_t protocol) {
    std::uint64_t digest = 0;
    for (std::uint8_t i = 0; i < kPackets; ++i) {
      Send(Packet(is_v4, protocol, i, i == 3 ? kEcnExperienced : kEcnCapable));
      digest ^= fabric::TrainToken(kKey, 77, i);
    }
    std::uint32_t seen = 0;
    for (const TrainArrival& arrival : Receive(kPackets)) {
      seen |= 1U << arrival.payload.index;
      digest ^= arrival.payload.token;
      EXPECT_EQ(arrival.payload.number, 77U);
      EXPECT_GT(arrival.payload.sent_ns, 0);
      EXPECT_GE(arrival.arrived_ns, arrival.payload.sent_ns);
      EXPECT_EQ(arrival.is_marked, arrival.payload.index == 3);
      EXPECT_EQ(arrival.source, Packet(is_v4, protocol, 0).source);
      EXPECT_EQ(arrival.destination, Packet(is_v4, protocol, 0).destination);
      EXPECT_EQ(arrival.protocol, protocol);
    }
    EXPECT_EQ(seen, 0xFFU);
    EXPECT_EQ(digest, 0U);
    EXPECT_EQ(receiver_->Dropped(), 0U);
  }

  UniqueFd host_;
  UniqueFd peer_;
  std::unique_ptr<RawTrainSocket> sender_;
  std::unique_ptr<RawTrainSocket> receiver_;
};

TEST_F(TrainLab, TrainsArriveOverIpv4) {
  ASSERT_TRUE(ListenAtPeer(kPort));
  CheckTrain(true, IPPROTO_UDP);
  CheckTrain(true, IPPROTO_TCP);
}

TEST_F(TrainLab, TrainsArriveOverIpv6) {
  if (!HasIpv6()) GTEST_SKIP() << "no IPv6 here";
  ASSERT_TRUE(ListenAtPeer(kPort));
  CheckTrain(false, IPPROTO_UDP);
  CheckTrain(false, IPPROTO_TCP);
}

// Nothing of a train makes the receiving kernel answer: no ICMP for UDP, no RST for TCP.
TEST_F(TrainLab, TrainsAreNotAnswered) {
  ASSERT_TRUE(ListenAtPeer(kPort));
  const UniqueFd icmp(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_ICMP));
  const UniqueFd tcp(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  ASSERT_TRUE(icmp && tcp);
  CheckTrain(true, IPPROTO_UDP);
  CheckTrain(true, IPPROTO_TCP);
  std::array<char, 256> answer;
  EXPECT_LT(recv(icmp.get(), answer.data(), answer.size(), 0), 0);
  EXPECT_LT(recv(tcp.get(), answer.data(), answer.size(), 0), 0);
  // To show that the sockets would have heard it: without a listener, the kernel answers UDP.
  ASSERT_TRUE(ListenAtPeer(0));
  Send(Packet(true, IPPROTO_UDP, 0));
  pollfd ready{icmp.get(), POLLIN, 0};
  EXPECT_EQ(poll(&ready, 1, 10'000), 1);
}

TEST_F(TrainLab, OnlyTheOrderedPortIsHeard) {
  ASSERT_TRUE(ListenAtPeer(kPort + 1));
  ASSERT_TRUE(ListenAtPeer(kPort));
  for (const std::uint8_t protocol : {std::uint8_t{IPPROTO_UDP}, std::uint8_t{IPPROTO_TCP}}) {
    TrainPacket other = Packet(true, protocol, 1);
    other.destination_port = kPort + 1;
    Send(other);
    Send(Packet(true, protocol, 2));
    const auto arrivals = Receive(1);
    ASSERT_EQ(arrivals.size(), 1U);
    EXPECT_EQ(arrivals[0].payload.index, 2);
  }
}

TEST_F(TrainLab, APortOfAnotherProgramIsRefused) {
  Enter(peer_);
  const UniqueFd program(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(kPort);
  ASSERT_EQ(bind(program.get(), reinterpret_cast<sockaddr*>(&any), sizeof(any)), 0);
  const Result<void> refused = ListenAtPeer(kPort);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(ListenAtPeer(kPort + 1));
}

TEST_F(TrainLab, PacketsThatDoNotFitIntoTheBufferAreCounted) {
  ASSERT_TRUE(ListenAtPeer(kPort));
  constexpr std::uint64_t kMany = 40'000;
  for (std::uint64_t i = 0; i < kMany; ++i) (void)sender_->Send(Packet(true, IPPROTO_UDP, 0));
  const std::uint64_t dropped = receiver_->Dropped();
  EXPECT_GT(dropped, 0U);
  const auto arrived = Receive(kMany, 100);
  EXPECT_LE(arrived.size() + dropped, kMany);
  EXPECT_GT(arrived.size(), 100U);
  ASSERT_TRUE(ListenAtPeer(0));
  EXPECT_GE(receiver_->Dropped(), dropped);
}

TEST_F(TrainLab, PacketsFromForeignAddressesAreNotSent) {
  TrainPacket packet = Packet(true, IPPROTO_UDP, 0);
  packet.source = Address("10.0.0.3");
  EXPECT_EQ(sender_->Send(packet).error().code, ErrorCode::kInvalidArgument);
  packet = Packet(true, IPPROTO_UDP, 0);
  packet.destination = Address("fd00::2");
  EXPECT_EQ(sender_->Send(packet).error().code, ErrorCode::kInvalidArgument);
  packet = Packet(true, IPPROTO_ICMP, 0);
  EXPECT_EQ(sender_->Send(packet).error().code, ErrorCode::kInvalidArgument);
  packet = Packet(true, IPPROTO_UDP, 0);
  packet.ttl = 0;
  EXPECT_EQ(sender_->Send(packet).error().code, ErrorCode::kInvalidArgument);
  packet = Packet(true, IPPROTO_UDP, 0);
  packet.destination = Address("10.0.0.255");
  EXPECT_EQ(sender_->Send(packet).error().code, ErrorCode::kPermissionDenied);
  packet.destination = Address("10.9.9.9");
  EXPECT_EQ(sender_->Send(packet).error().code, ErrorCode::kFailedPrecondition);
}

TEST_F(TrainLab, TheLeastRecentlyUsedSourceIsClosed) {
  for (int i = 10; i < 14; ++i) Run(fmt::format("ip addr add 10.0.0.{}/24 dev eth0", i));
  SourceSockets sockets(2);
  const auto send = [&](const char* source) {
    TrainPacket packet = Packet(true, IPPROTO_UDP, 0);
    packet.source = Address(source);
    return sockets.Send(packet.source, packet.destination, BuildTrainPacket(packet, 0));
  };
  for (const char* source : {"10.0.0.10", "10.0.0.11", "10.0.0.10", "10.0.0.12"}) {
    EXPECT_TRUE(send(source)) << source;
  }
  EXPECT_EQ(sockets.size(), 2U);
  // An open socket keeps an address that the host no longer has; a closed one cannot be opened.
  for (int i = 10; i < 12; ++i) Run(fmt::format("ip addr del 10.0.0.{}/24 dev eth0", i));
  EXPECT_TRUE(send("10.0.0.10"));
  EXPECT_FALSE(send("10.0.0.11"));
}

}  // namespace
}  // namespace espalier::agent
