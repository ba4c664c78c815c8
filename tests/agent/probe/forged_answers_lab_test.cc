// A stranger who can send ICMP, against the real agent: in network namespaces of its own it knows
// every probe but what is drawn for each, and forges answers on a raw socket.
//
//   host (agent, controller) --- stranger, which is the route to the destination and forwards
//   nothing
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/ethernet.h>
#include <netpacket/packet.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/bus/zmq_router_bus.h"
#include "common/http/http_client.h"
#include "common/os/command.h"
#include "proto/decode.h"
#include "proto/encode.h"
#include "tests/common/loop/asio_harness.h"
#include "tests/own_network.h"
#include "tests/temporary_folder.h"

namespace espalier::agent {
namespace {

using namespace std::chrono_literals;
using Packet = std::vector<std::uint8_t>;

constexpr std::size_t kQuoteBytes = 28;  // IP header and 8 bytes
constexpr std::size_t kNonceAt = 20 + 8 + 12;

IpAddress Address(const char* text) { return IpAddress::Parse(text).value(); }

std::uint16_t Word(const Packet& packet, std::size_t at) {
  return static_cast<std::uint16_t>(packet[at] << 8 | packet[at + 1]);
}

void Put(Packet& packet, std::size_t at, std::uint32_t word) {
  packet[at] = static_cast<std::uint8_t>(word >> 8);
  packet[at + 1] = static_cast<std::uint8_t>(word);
}

// "Time exceeded" with this quote, from the ICMP header on.
Packet TimeExceeded(const Packet& quote) {
  Packet message = {11, 0, 0, 0, 0, 0, 0, 0};
  message.insert(message.end(), quote.begin(), quote.end());
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < message.size(); i += 2) sum += Word(message, i);
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  Put(message, 2, ~sum & 0xFFFF);
  return message;
}

class ForgedAnswers : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string problem = EnterOwnNetwork();
    if (!problem.empty()) GTEST_SKIP() << problem;
    const UniqueFd host = Namespace();
    ASSERT_EQ(unshare(CLONE_NEWNET), 0);
    Run(
        fmt::format("ip link set lo up && ip link add eth0 type veth peer name eth0 netns "
                    "/proc/{}/fd/{} && ip addr add 10.0.0.2/24 dev eth0 && ip link set eth0 up",
                    getpid(), host.get()));
    seen_ =
        UniqueFd(socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETHERTYPE_IP)));
    raw_ = UniqueFd(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP));
    ASSERT_TRUE(seen_ && raw_);
    ASSERT_EQ(setns(host.get(), CLONE_NEWNET), 0);
    Run("ip link set lo up && ip addr add 10.0.0.1/24 dev eth0 && ip link set eth0 up && "
        "ip route add default via 10.0.0.2");
    StartAgent();
  }

  static UniqueFd Namespace() { return UniqueFd(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)); }
  static void Run(const std::string& command) { ASSERT_EQ(system(command.c_str()), 0) << command; }

  // Starts the agent, and welcomes it as its controller.
  void StartAgent() {
    bus_ = io::ZmqRouterBus::Bind(loop_, {.endpoint = "tcp://127.0.0.1:*"}).value();
    bus_->SetHandlers(
        {.on_message = [this](PeerId from, std::string_view bytes) { HandleMessage(from, bytes); },
         .on_peer_gone = [](PeerId) {}});
    const std::string config = folder_.path() + "/a.conf";
    std::ofstream(config) << "name: \"h0\" nic: \"eth0\" log_level: \"error\" controller: \""
                          << bus_->endpoint() << "\" insecure_plaintext: true http: \"" << Http()
                          << "\" local_socket: \"" << folder_.path() << "/agent.sock\"";
    auto agent =
        ChildProcess::Start({.argv = {ESPALIER_PROGRAMS "/espalier-agent", "--config", config}});
    ASSERT_TRUE(agent) << agent.error().message;
    agent_.emplace(std::move(*agent));
    ASSERT_TRUE(io::RunUntil(loop_, [this] { return is_welcome_; }));
  }

  void HandleMessage(PeerId from, std::string_view bytes) {
    wire::Decoder decoder;
    const auto message = decoder.Decode(bytes);
    ASSERT_TRUE(message) << message.error().message;
    peer_ = from;
    if (std::holds_alternative<wire::Hello>((*message)->body)) {
      Tell(wire::Welcome{.accepted = true, .epoch = 1, .heartbeat_interval_us = 2'000'000});
      is_welcome_ = true;
    } else if (std::holds_alternative<wire::Heartbeat>((*message)->body)) {
      Tell(wire::Heartbeat{.epoch = 1});
    } else if (const auto* report = std::get_if<wire::ProbeReport>(&(*message)->body)) {
      for (const wire::ProbeAnswer& answer : report->answers) answered_.insert(answer.source_port);
      error_ += report->error;
      is_done_ = is_done_ || report->done;
    }
  }
  void Tell(wire::Body body) {
    bus_->Send(peer_, wire::Encode({.sender_instance = 7, .body = std::move(body)}));
  }

  // Orders probes, and returns them as they arrive at the stranger, by their ports.
  std::map<std::uint16_t, Packet> Probe(std::size_t ports) {
    wire::ProbeOrder order{.order = 1,
                           .source = Address("10.0.0.1"),
                           .destination = Address("10.1.0.1"),
                           .ttls = {2},
                           .timeout_us = 10'000'000};
    for (std::size_t i = 0; i < ports; ++i) {
      order.source_ports.push_back(static_cast<std::uint16_t>(50'000 + i));
    }
    Tell(order);
    std::map<std::uint16_t, Packet> probes;
    EXPECT_TRUE(io::RunUntil(loop_, [&] {
      Packet packet(2048);
      ssize_t size = 0;
      while ((size = recv(seen_.get(), packet.data(), packet.size(), 0)) > 0) {
        const bool is_probe = size > 44 && packet[9] == IPPROTO_UDP && Word(packet, 22) == 4791;
        if (!is_probe) continue;
        probes[Word(packet, 20)] = Packet(packet.begin(), packet.begin() + size);
      }
      return probes.size() == ports || is_done_;
    }));
    return probes;
  }

  void Send(const Packet& quote) {
    const Packet message = TimeExceeded(quote);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = inet_addr("10.0.0.1");
    EXPECT_EQ(sendto(raw_.get(), message.data(), message.size(), 0,
                     reinterpret_cast<const sockaddr*>(&to), sizeof(to)),
              static_cast<ssize_t>(message.size()));
  }

  // What the stranger knows without having seen the probe, with guesses for the rest: for every
  // second guess, identification and checksum are right.
  void Forge(Packet probe, std::uint32_t guess) {
    if (guess % 2 == 0) {
      Put(probe, 4, Word(probe, 4) ^ (1 + guess % 0xFFFF));
      if (guess % 4 == 0) Put(probe, 26, guess * 31);
      if (guess % 8 == 0) probe.resize(kQuoteBytes);
    } else {
      Put(probe, kNonceAt + 2, Word(probe, kNonceAt + 2) ^ (1 + guess % 0xFFFF));
    }
    Send(probe);
  }

  std::string Http() const { return "unix:" + folder_.path() + "/http.sock"; }
  std::int64_t Metric(const std::string& name) {
    const auto answer = io::HttpFetch(Http(), "GET", "/metrics", "", 60s);
    const std::size_t at = answer ? answer->body.find("\n" + name + " ") : std::string::npos;
    return at == std::string::npos ? -1 : std::stoll(answer->body.substr(at + name.size() + 2));
  }

  TemporaryFolder folder_;
  io::AsioEventLoop loop_;
  std::unique_ptr<io::ZmqRouterBus> bus_;
  std::optional<ChildProcess> agent_;
  UniqueFd seen_;
  UniqueFd raw_;
  PeerId peer_{0};
  bool is_welcome_ = false;
  bool is_done_ = false;
  std::set<std::uint16_t> answered_;
  std::string error_;
};

TEST_F(ForgedAnswers, AreCountedAndNotBelievedBesideGenuineOnes) {
  constexpr std::size_t kPorts = 8;
  constexpr std::uint32_t kGuesses = 500;
  const std::map<std::uint16_t, Packet> probes = Probe(kPorts);
  ASSERT_EQ(probes.size(), kPorts) << error_;
  std::set<std::uint32_t> marks;
  for (const auto& [port, probe] : probes) {
    marks.insert(static_cast<std::uint32_t>(Word(probe, 4)) << 16 | Word(probe, 26));
    for (std::uint32_t guess = 0; guess < kGuesses; ++guess) Forge(probe, guess);
  }
  EXPECT_EQ(marks.size(), kPorts) << "no two probes have one mark";
  // Half of the probes are answered in truth: two in full, two by a switch that quotes 8 bytes.
  std::set<std::uint16_t> genuine;
  for (const auto& [port, probe] : probes) {
    if (port % 2 != 0) continue;
    genuine.insert(port);
    Send(port % 4 == 0 ? probe : Packet(probe.begin(), probe.begin() + kQuoteBytes));
  }
  ASSERT_TRUE(io::RunUntil(loop_, [&] { return answered_.size() >= genuine.size(); }));
  EXPECT_EQ(answered_, genuine) << error_;
  EXPECT_EQ(Metric("espalier_agent_probes_answered_total"), static_cast<std::int64_t>(kPorts / 2));
  // The kernel may have dropped some.
  EXPECT_GT(Metric("espalier_agent_probe_answers_forged_total"), kPorts * kGuesses / 4);
  // The others were not answered by the forgeries, and still wait.
  for (const auto& [port, probe] : probes) {
    if (!genuine.contains(port)) Send(probe);
  }
  ASSERT_TRUE(io::RunUntil(loop_, [&] { return is_done_; }));
  EXPECT_EQ(answered_.size(), kPorts) << error_;
}

}  // namespace
}  // namespace espalier::agent
