// Tests raw probes and NIC events on real interfaces, in network namespaces of its own:
//
//   host --- r1 --- r2 --- peer     10.0.0.1 | .0   172.16.0.0 | .1   10.1.0.0 | .1
//     `------'                      10.0.1.1 | .0 (a second NIC)
//
// and the same over IPv6 as fd00:0::1 | ::2, fd00:2::1 | ::2, fd00:1::2 | ::1.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "agent/host/nic_watch.h"
#include "agent/host/port_routes.h"
#include "agent/probe/sockets/raw_probe_socket.h"
#include "common/base/unique_fd.h"
#include "proto/messages.h"
#include "tests/own_network.h"

namespace espalier::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

IpAddress Address(const char* text) { return IpAddress::Parse(text).value(); }

// The packets that an interface of the present namespace has sent.
long CountSent(const std::string& interface) {
  std::ifstream file("/proc/thread-self/net/dev");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name != interface + ":") continue;
    long value = 0;
    for (int field = 0; field < 10; ++field) words >> value;  // the tenth: packets sent
    return value;
  }
  return -1;
}

UniqueFd CurrentNamespace() { return UniqueFd(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)); }

class SocketLab : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string problem = EnterOwnNetwork();
    if (!problem.empty()) GTEST_SKIP() << problem;
    namespaces_["host"] = CurrentNamespace();
    for (const char* name : {"r1", "r2", "peer"}) {
      ASSERT_EQ(unshare(CLONE_NEWNET), 0);
      namespaces_[name] = CurrentNamespace();
    }
    Connect("host", "eth0", "10.0.0.1/31", "fd00::1/64", "r1", "h0", "10.0.0.0/31", "fd00::2/64");
    Connect("host", "eth1", "10.0.1.1/31", "fd00:9::1/64", "r1", "h1", "10.0.1.0/31",
            "fd00:9::2/64");
    Connect("r1", "s0", "172.16.0.0/31", "fd00:2::1/64", "r2", "l0", "172.16.0.1/31",
            "fd00:2::2/64");
    Connect("peer", "eth0", "10.1.0.1/31", "fd00:1::1/64", "r2", "h0", "10.1.0.0/31",
            "fd00:1::2/64");
    In("host", "ip route add default via 10.0.0.0; ip -6 route add default via fd00::2");
    In("host", "ip route add default via 10.0.1.0 table 100; ip rule add from 10.0.1.1 table 100");
    In("peer", "ip route add default via 10.1.0.0; ip -6 route add default via fd00:1::2");
    In("r1", "ip route add 10.1.0.0/16 via 172.16.0.1; ip -6 route add fd00:1::/64 via fd00:2::2");
    In("r2", "ip route add 10.0.0.0/16 via 172.16.0.0; ip -6 route add fd00::/64 via fd00:2::1");
    for (const char* name : {"r1", "r2", "peer"}) {
      Enter(name);
      std::ofstream("/proc/sys/net/ipv4/ip_forward") << "1";
      std::ofstream("/proc/sys/net/ipv4/icmp_ratemask") << "0";
      std::ofstream("/proc/sys/net/ipv6/conf/all/forwarding") << "1";
      std::ofstream("/proc/sys/net/ipv6/icmp/ratelimit") << "0";
    }
    Enter("host");
  }

  void Enter(const std::string& name) {
    ASSERT_EQ(setns(namespaces_.at(name).get(), CLONE_NEWNET), 0);
  }
  void In(const std::string& name, const std::string& command) {
    Enter(name);
    EXPECT_EQ(system(command.c_str()), 0) << name << ": " << command;
    Enter("host");
  }
  void Connect(const std::string& a, const std::string& a_port, const std::string& a_v4,
               const std::string& a_v6, const std::string& b, const std::string& b_port,
               const std::string& b_v4, const std::string& b_v6) {
    In(a, fmt::format("ip link add name {} type veth peer name {} netns /proc/{}/fd/{}", a_port,
                      b_port, getpid(), namespaces_.at(b).get()));
    const auto configure = [this](const std::string& name, const std::string& port,
                                  const std::string& v4, const std::string& v6) {
      In(name, fmt::format("ip addr add {0} dev {2} && ip link set {2} up && ip link set lo up && "
                           "ip addr add {1} dev {2} nodad",
                           v4, v6, port));
    };
    configure(a, a_port, a_v4, a_v6);
    configure(b, b_port, b_v4, b_v6);
  }

  // Sends the probes and waits for their answers: responder by source port.
  std::map<std::uint16_t, std::string> Ask(RawProbeSocket& socket,
                                           const std::vector<Probe>& probes) {
    std::map<std::uint16_t, std::string> answers;
    socket.OnReply([&](const ProbeReply& reply) {
      for (const Probe& probe : probes) {
        if (probe.source != reply.source || probe.destination != reply.destination ||
            probe.source_port != reply.source_port || probe.ttl != reply.ttl ||
            probe.destination_port != reply.destination_port) {
          continue;
        }
        answers[reply.source_port] =
            reply.responder.ToString() + (reply.from_destination ? " (host)" : "");
      }
    });
    // Neighbours may be unknown when the first probes are sent, so unanswered ones are repeated.
    pollfd ready{socket.fd(), POLLIN, 0};
    for (int round = 0; round < 10 && answers.size() < probes.size(); ++round) {
      for (const Probe& probe : probes) {
        if (answers.contains(probe.source_port)) continue;
        const Result<ProbeMark> sent = socket.Send(probe);
        EXPECT_TRUE(sent) << sent.error().message;
      }
      while (answers.size() < probes.size() && poll(&ready, 1, 1'000) > 0) socket.HandleReady();
    }
    socket.OnReply({});
    return answers;
  }

  static bool IsOwn(const IpAddress& address) {
    return address != Address("10.9.9.9") && !address.IsNone();
  }
  static Probe To(const char* source, const char* destination, std::uint16_t port,
                  std::uint8_t ttl) {
    return {.source = Address(source),
            .destination = Address(destination),
            .source_port = port,
            .ttl = ttl};
  }

  std::map<std::string, UniqueFd> namespaces_;
};

TEST_F(SocketLab, EveryHopAnswersForItself) {
  auto socket = RawProbeSocket::Open(IsOwn);
  ASSERT_TRUE(socket) << socket.error().message;
  EXPECT_THAT(Ask(**socket,
                  {To("10.0.0.1", "10.1.0.1", 50'001, 1), To("10.0.0.1", "10.1.0.1", 50'002, 2),
                   To("10.0.0.1", "10.1.0.1", 50'003, 3), To("10.0.0.1", "10.1.0.1", 50'004, 64)}),
              ElementsAre(Pair(50'001, "10.0.0.0"), Pair(50'002, "172.16.0.1"),
                          Pair(50'003, "10.1.0.1 (host)"), Pair(50'004, "10.1.0.1 (host)")));
  // The second NIC's probes leave by the second NIC.
  EXPECT_THAT(
      Ask(**socket, {To("10.0.1.1", "10.1.0.1", 50'005, 1), To("10.0.0.1", "10.1.0.1", 50'006, 1)}),
      ElementsAre(Pair(50'005, "10.0.1.0"), Pair(50'006, "10.0.0.0")));
}

TEST_F(SocketLab, EveryHopAnswersForItselfOverIpv6) {
  if (access("/proc/sys/net/ipv6", F_OK) != 0) GTEST_SKIP() << "no IPv6 here";
  auto socket = RawProbeSocket::Open(IsOwn);
  ASSERT_TRUE(socket) << socket.error().message;
  EXPECT_THAT(
      Ask(**socket, {To("fd00::1", "fd00:1::1", 50'001, 1), To("fd00::1", "fd00:1::1", 50'002, 2),
                     To("fd00::1", "fd00:1::1", 50'003, 3)}),
      ElementsAre(Pair(50'001, "fd00::2"), Pair(50'002, "fd00:2::2"),
                  Pair(50'003, "fd00:1::1 (host)")));
}

sockaddr_in SocketAddress(const IpAddress& address, std::uint16_t port) {
  sockaddr_in made{};
  made.sin_family = AF_INET;
  made.sin_port = htons(port);
  made.sin_addr.s_addr = htonl(address.V4());
  return made;
}

// Sends the first packet of a socket with the probe's addresses and ports.
void SendByASocket(const Probe& probe) {
  const bool is_tcp = probe.flow_protocol == IPPROTO_TCP;
  const UniqueFd socket(
      ::socket(AF_INET, (is_tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK, probe.flow_protocol));
  const sockaddr_in own = SocketAddress(probe.source, probe.source_port);
  const sockaddr_in to = SocketAddress(probe.destination, probe.destination_port);
  ASSERT_EQ(bind(socket.get(), reinterpret_cast<const sockaddr*>(&own), sizeof(own)), 0);
  (void)connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to));
  if (is_tcp) return;
  ASSERT_EQ(send(socket.get(), "x", 1, 0), 1);
}

// A host with one address and two uplinks, whose hash includes the protocol: raw packets alone
// would all leave by one.
TEST_F(SocketLab, ProbesLeaveByTheUplinkOfTheirFlow) {
  In("host",
     "ip addr add 10.5.0.1/32 dev lo; ip route replace default src 10.5.0.1 "
     "nexthop via 10.0.0.0 dev eth0 nexthop via 10.0.1.0 dev eth1");
  In("r1", "ip route add 10.5.0.1/32 via 10.0.0.1");
  In("r2", "ip route add 10.5.0.0/16 via 172.16.0.0");
  std::ofstream("/proc/sys/net/ipv4/fib_multipath_hash_policy") << "1";
  auto routes = PortRoutes::Open();
  ASSERT_TRUE(routes) << routes.error().message;
  const auto interface_of = [&](const Probe& probe) { return routes->InterfaceOf(probe); };
  EXPECT_EQ(interface_of(To("10.0.1.1", "10.0.1.0", 50'000, 1)).value(), 0U)
      << "one next hop is no choice";
  EXPECT_EQ(interface_of(To("fd00::1", "fd00:1::1", 50'000, 1)).value(), 0U);
  Enter("r1");
  std::ofstream("/proc/sys/net/ipv4/icmp_errors_use_inbound_ifaddr") << "1";
  Enter("host");
  auto socket = RawProbeSocket::Open(IsOwn, interface_of);
  ASSERT_TRUE(socket) << socket.error().message;
  std::map<std::uint8_t, std::map<std::uint16_t, std::string>> by_protocol;
  for (const std::uint8_t protocol : {wire::kProtocolUdp, wire::kProtocolTcp}) {
    std::vector<Probe> probes;
    std::map<std::uint16_t, std::string>& expected = by_protocol[protocol];
    for (std::uint16_t port = 50'000; port < 50'032; ++port) {
      probes.push_back(To("10.5.0.1", "10.1.0.1", port, 1));
      probes.back().flow_protocol = protocol;
      const bool is_first = interface_of(probes.back()).value() == if_nametoindex("eth0");
      expected[port] = is_first ? "10.0.0.0" : "10.0.1.0";
    }
    EXPECT_EQ(Ask(**socket, probes), expected);
    std::set<std::string> uplinks;
    for (const auto& [port, responder] : expected) uplinks.insert(responder);
    EXPECT_EQ(uplinks.size(), 2U);
    // Sockets go the same way as the probes of their ports.
    for (const Probe& probe : probes) {
      const bool is_first = expected[probe.source_port] == "10.0.0.0";
      const long before = CountSent(is_first ? "eth0" : "eth1");
      const long other = CountSent(is_first ? "eth1" : "eth0");
      SendByASocket(probe);
      EXPECT_EQ(CountSent(is_first ? "eth0" : "eth1"), before + 1) << probe.source_port;
      EXPECT_EQ(CountSent(is_first ? "eth1" : "eth0"), other) << probe.source_port;
    }
  }
  std::ofstream("/proc/sys/net/ipv4/fib_multipath_hash_policy") << "3";
  routes = PortRoutes::Open();
  const auto sent = (*socket)->Send(To("10.5.0.1", "10.1.0.1", 50'000, 1));
  ASSERT_FALSE(sent.has_value());
  EXPECT_THAT(sent.error().message, testing::HasSubstr("net.ipv4.fib_multipath_hash_policy to 1"));
  EXPECT_NE(by_protocol[wire::kProtocolUdp], by_protocol[wire::kProtocolTcp]);
}

TEST_F(SocketLab, ProbesThatCannotBeSentAreRefused) {
  auto socket = RawProbeSocket::Open(IsOwn);
  ASSERT_TRUE(socket);
  const auto code = [&](const Probe& probe) { return (*socket)->Send(probe).error().code; };
  EXPECT_EQ(code(To("10.9.9.9", "10.1.0.1", 50'000, 2)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(To("10.0.0.1", "10.1.0.1", 50'000, 0)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(To("10.0.0.1", "fd00::1", 50'000, 2)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(To("::", "10.1.0.1", 50'000, 2)), ErrorCode::kInvalidArgument);
  In("host", "ip route del default");
  EXPECT_EQ(code(To("10.0.0.1", "10.1.0.1", 50'000, 2)), ErrorCode::kFailedPrecondition);
}

// Each source address once kept a socket for good, until there were no more for the host's NIC.
TEST_F(SocketLab, NoNumberOfSourcesStopsTheProbesOfANic) {
  auto of_nic =
      RawProbeSocket::Open([](const IpAddress& address) { return address == Address("10.0.0.1"); });
  ASSERT_TRUE(of_nic);
  auto of_all = RawProbeSocket::Open([](const IpAddress&) { return true; });
  ASSERT_TRUE(of_all);
  const auto count_files = [] {
    const auto files = std::filesystem::directory_iterator("/proc/self/fd");
    return std::distance(begin(files), end(files));
  };
  const auto before = count_files();
  for (int i = 1; i <= 600; ++i) {
    const std::string source = fmt::format("127.0.{}.{}", i / 200, i % 200 + 1);
    const Probe probe = To(source.c_str(), "127.0.0.1", 50'000, 2);
    EXPECT_EQ((*of_nic)->Send(probe).error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE((*of_all)->Send(probe));
  }
  EXPECT_LE(count_files(), before + 256);
  EXPECT_EQ((*of_nic)->Send(To("10.0.1.1", "10.1.0.1", 50'000, 2)).error().code,
            ErrorCode::kInvalidArgument)
      << "not a NIC of the fabric";
  for (RawProbeSocket* socket : {of_nic->get(), of_all->get()}) {
    EXPECT_THAT(Ask(*socket, {To("10.0.0.1", "10.1.0.1", 50'001, 1)}),
                ElementsAre(Pair(50'001, "10.0.0.0")));
  }
}

TEST_F(SocketLab, AnAddressOfTheLoopbackInterfaceCountsOnlyIfItIsNamed) {
  In("host", "ip addr add 10.5.0.1/32 dev lo");
  EXPECT_FALSE((*NicWatch::Open({}))->Has(Address("10.5.0.1")));
  EXPECT_FALSE((*NicWatch::Open({"lo"}))->Has(Address("10.5.0.1")));
  const auto watch = NicWatch::Open({"10.5.0.1"});
  ASSERT_TRUE(watch);
  EXPECT_TRUE((*watch)->Has(Address("10.5.0.1")));
  EXPECT_FALSE((*watch)->Has(Address("127.0.0.1")));
}

TEST_F(SocketLab, LinksThatGoDownAndComeBackAreSeen) {
  auto watch = NicWatch::Open({"eth0", "10.0.1.1"});
  ASSERT_TRUE(watch) << watch.error().message;
  std::vector<std::string> listed;
  for (const wire::Nic& nic : (*watch)->nics()) {
    EXPECT_TRUE(nic.link_up);
    listed.push_back(nic.device + " " + nic.address.ToString());
  }
  EXPECT_THAT(listed,
              testing::UnorderedElementsAre("eth0 10.0.0.1", "eth0 fd00::1", "eth1 10.0.1.1"));
  EXPECT_TRUE((*watch)->Has(Address("10.0.0.1")));
  EXPECT_FALSE((*watch)->Has(Address("127.0.0.1")));
  std::map<std::string, bool> changes;
  (*watch)->OnChange([&](const wire::Nic& nic) { changes[nic.address.ToString()] = nic.link_up; });
  const auto wait_for = [&](const std::string& address, bool up) {
    pollfd ready{(*watch)->fd(), POLLIN, 0};
    while ((!changes.contains(address) || changes[address] != up) && poll(&ready, 1, 10'000) > 0) {
      (*watch)->HandleReady();
    }
    EXPECT_TRUE(changes.contains(address)) << address;
    EXPECT_EQ(changes[address], up) << address;
  };
  In("r1", "ip link set h0 down");
  wait_for("10.0.0.1", false);
  EXPECT_FALSE(changes.contains("10.0.1.1"));
  In("r1", "ip link set h0 up");
  wait_for("10.0.0.1", true);
  In("host", "ip addr del 10.0.1.1/31 dev eth1");
  wait_for("10.0.1.1", false);
  In("host", "ip addr add 10.0.1.1/31 dev eth1");
  wait_for("10.0.1.1", true);
}

}  // namespace
}  // namespace espalier::agent
