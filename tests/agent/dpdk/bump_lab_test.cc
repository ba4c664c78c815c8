// espalier-dpdk between a host and a peer, in network namespaces of the test's own:
//
//   host eth0 --- h0 bump f0 --- eth0 peer      10.0.0.1, fd00::1 | 10.0.0.2, fd00::2
//
// The host sends real RoCEv2 frames, the peer checks each of them; the agent is this process.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <numeric>

#include "agent/dpdk/packet/roce_packet.h"
#include "agent/local/local_server.h"
#include "common/base/unique_fd.h"
#include "tests/agent/dpdk/datapath_process.h"
#include "tests/agent/dpdk/roce_frames.h"
#include "tests/agent/manual_loop.h"
#include "tests/own_network.h"
#include "tests/temporary_folder.h"

namespace espalier::dpdk {
namespace {

UniqueFd CurrentNamespace() { return UniqueFd(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)); }

// All frames of an interface of the namespace that the caller is in.
class FrameSocket {
 public:
  explicit FrameSocket(const char* interface)
      : fd_(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL))) {
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(if_nametoindex(interface));
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    const int on = 1;
    EXPECT_EQ(setsockopt(fd_.get(), SOL_PACKET, PACKET_AUXDATA, &on, sizeof(on)), 0);
  }
  void Send(const Bytes& frame) const {
    EXPECT_EQ(send(fd_.get(), frame.data(), frame.size(), 0), static_cast<ssize_t>(frame.size()));
  }
  // Returns the next RoCEv2 frame that arrives; none after a while.
  std::optional<BuiltFrame> Receive(int milliseconds) {
    pollfd ready{fd_.get(), POLLIN, 0};
    while (poll(&ready, 1, milliseconds) > 0) {
      Bytes bytes = ReceiveAny();
      const RocePacket packet = ParseRoce(bytes.data(), static_cast<std::uint32_t>(bytes.size()));
      if (!packet) continue;
      BuiltFrame frame{.ip = static_cast<std::size_t>(packet.ip - bytes.data()),
                       .udp = static_cast<std::size_t>(packet.udp - bytes.data())};
      frame.end = frame.udp + packet.udp_bytes;
      frame.bytes = std::move(bytes);
      return frame;
    }
    return std::nullopt;
  }
  // The tag of the last frame, which the kernel has stripped.
  std::optional<std::uint16_t> tag() const { return tag_; }

 private:
  Bytes ReceiveAny() {
    Bytes bytes(4096);
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(tpacket_auxdata))> control{};
    iovec part{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t size = recvmsg(fd_.get(), &message, 0);
    bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    tag_.reset();
    const cmsghdr* const header = CMSG_FIRSTHDR(&message);
    if (header != nullptr && header->cmsg_type == PACKET_AUXDATA) {
      tpacket_auxdata data;
      std::memcpy(&data, CMSG_DATA(header), sizeof(data));
      if ((data.tp_status & TP_STATUS_VLAN_VALID) != 0) tag_ = data.tp_vlan_tci;
    }
    return bytes;
  }

  UniqueFd fd_;
  std::optional<std::uint16_t> tag_;
};

class Bump : public ::testing::Test {
 protected:
  virtual const char* driver() const { return "net_af_packet"; }
  virtual bool MayBeMissing() const { return false; }
  // Devices, ports and more of the configuration.
  virtual std::string Devices() const {
    return fmt::format(R"(eal: "--vdev={0}0,iface=h0" host_port: "{0}0"
                          eal: "--vdev={0}1,iface=f0" fabric_port: "{0}1")",
                       driver());
  }
  // The interface from which the host's frames are sent.
  virtual void OpenHost() {
    Enter("host");
    host_ = std::make_unique<FrameSocket>("eth0");
  }
  void SetUp() override {
    const std::string problem = EnterOwnNetwork();
    if (!problem.empty()) GTEST_SKIP() << problem;
    namespaces_["host"] = CurrentNamespace();
    for (const char* name : {"bump", "peer"}) {
      ASSERT_EQ(unshare(CLONE_NEWNET), 0);
      namespaces_[name] = CurrentNamespace();
    }
    Connect("host", "h0", 1);
    Connect("peer", "f0", 2);
    StartDatapath();
    if (IsSkipped() || HasFatalFailure()) return;
    Enter("peer");
    peer_ = std::make_unique<FrameSocket>("eth0");
    OpenHost();
    Enter("host");
  }

  void TearDown() override { EXPECT_EQ(datapath_.Stop(), 0) << datapath_.Rest(); }

  void Enter(const std::string& name) {
    ASSERT_EQ(setns(namespaces_.at(name).get(), CLONE_NEWNET), 0);
  }
  void In(const std::string& name, const std::string& command) {
    Enter(name);
    EXPECT_EQ(system(command.c_str()), 0) << name << ": " << command;
    Enter("host");
  }
  // Disables checksum offload, so that frames have complete checksums as on a real wire.
  void Connect(const std::string& name, const std::string& bump_port, int number) {
    In(name, fmt::format("ip link add name eth0 type veth peer name {} netns /proc/{}/fd/{}",
                         bump_port, getpid(), namespaces_.at("bump").get()));
    In("bump", fmt::format("echo 1 > /proc/sys/net/ipv6/conf/{0}/disable_ipv6 && "
                           "ip link set {0} up",
                           bump_port));
    In(name, fmt::format("ip addr add 10.0.0.{0}/24 dev eth0 && ip link set lo up && "
                         "ip addr add fd00::{0}/64 dev eth0 nodad && ip link set eth0 up",
                         number));
    Enter(name);
    const UniqueFd control(socket(AF_INET, SOCK_DGRAM, 0));
    ethtool_value off{.cmd = ETHTOOL_STXCSUM, .data = 0};
    ifreq request{};
    std::snprintf(request.ifr_name, sizeof(request.ifr_name), "eth0");
    request.ifr_data = reinterpret_cast<char*>(&off);
    EXPECT_EQ(ioctl(control.get(), SIOCETHTOOL, &request), 0);
    Enter("host");
  }

  void OpenAgent() {
    auto agent =
        agent::LocalServer::Listen(loop_, {.path = folder_.path() + "/agent.sock"}, metrics_);
    ASSERT_TRUE(agent) << agent.error().message;
    agent_ = std::move(*agent);
  }

  void StartDatapath() {
    In("bump", "ip link set lo up");
    Enter("bump");
    datapath_.Start(folder_.path(), Devices());
    Enter("host");
    if (datapath_.ReadUntil("event=ready")) return;
    (void)datapath_.Wait();
    if (!MayBeMissing()) FAIL() << datapath_.said();
    GTEST_SKIP() << datapath_.said();
  }

  // Lets the agent work until this holds, for at most a minute.
  template <typename Condition>
  bool RunAgentUntil(Condition&& condition) {
    pollfd ready{agent_->fd(), POLLIN, 0};
    for (int round = 0; round < 6000 && !condition(); ++round) {
      if (poll(&ready, 1, 10) > 0) agent_->HandleReady();
      loop_.Advance(std::chrono::milliseconds(10));
    }
    return condition();
  }

  // Sends the frame and returns what arrives at the peer.
  BuiltFrame Pass(const RoceFrame& frame) {
    host_->Send(Build(frame).bytes);
    const std::optional<BuiltFrame> came = peer_->Receive(10'000);
    EXPECT_TRUE(came) << datapath_.said();
    if (!came) return {};
    EXPECT_EQ(StoredIcrc(*came), ReferenceIcrc(*came));
    return *came;
  }
  // The same until the flow's packets leave with `port`: it takes the datapath some milliseconds.
  bool PassUntilPort(RoceFrame& frame, std::uint16_t port) {
    for (int i = 0; i < 5000; ++i, ++frame.psn) {
      const BuiltFrame came = Pass(frame);
      if (came.bytes.empty()) return false;
      if (Get16(came.bytes, came.udp) == port) return true;
      usleep(1000);
    }
    return false;
  }

  void SteerTwoFlows();
  void SteerAnswers();
  void SteerWhileTheDeviceRefusesRules();

  TemporaryFolder folder_;
  std::map<std::string, UniqueFd> namespaces_;
  agent::ManualLoop loop_;
  Metrics metrics_;
  std::unique_ptr<agent::LocalServer> agent_;
  std::unique_ptr<FrameSocket> host_;
  std::unique_ptr<FrameSocket> peer_;
  DatapathProcess datapath_;
};

std::vector<RoceFrame> TwoFlows() {
  RoceFrame v4{.source = "10.0.0.1", .destination = "10.0.0.2", .destination_qpn = 0x21};
  RoceFrame v6{
      .source = "fd00::1", .destination = "fd00::2", .udp_checksum = true, .destination_qpn = 0x22};
  return {v4, v6};
}

void Bump::SteerTwoFlows() {
  OpenAgent();
  std::vector<RoceFrame> flows = TwoFlows();
  for (RoceFrame& flow : flows) {
    flow.opcode = 0x06;
    flow.payload = Reth(64 << 20, 512);
    const BuiltFrame first = Pass(flow);
    EXPECT_EQ(Get16(first.bytes, first.udp), 50'000);
    flow.opcode = 0x07;
    flow.payload = Bytes(1024, 0x77);
    ++flow.psn;
  }
  ASSERT_TRUE(RunAgentUntil([this] { return agent_->Flows().size() == 2; })) << datapath_.said();
  std::map<std::string, std::uint16_t> ports;
  for (const agent::FlowSample& sample : agent_->Flows()) {
    EXPECT_GT(sample.remaining_bytes, 60U << 20);
    EXPECT_EQ(sample.source_port, 50'000);
    EXPECT_TRUE(sample.remote_qpn == 0x21 || sample.remote_qpn == 0x22);
    const std::uint16_t port = sample.remote_qpn == 0x21 ? 61'001 : 61'002;
    ports[sample.source.ToString()] = port;
    ASSERT_TRUE(agent_->Apply({.flow = sample.id, .paths = {{.source_port = port}}}));
  }
  EXPECT_EQ(ports,
            (std::map<std::string, std::uint16_t>{{"10.0.0.1", 61'001}, {"fd00::1", 61'002}}));
  for (RoceFrame& flow : flows) ASSERT_TRUE(PassUntilPort(flow, ports.at(flow.source)));
  int chosen = 0;
  for (int i = 0; i < 500; ++i) {
    for (RoceFrame& flow : flows) {
      ++flow.psn;
      flow.payload.resize(static_cast<std::size_t>(4 * (i % 300)), 0x5C);
      const BuiltFrame came = Pass(flow);
      ASSERT_FALSE(came.bytes.empty());
      chosen += Get16(came.bytes, came.udp) == ports.at(flow.source) ? 1 : 0;
      if (flow.udp_checksum) {
        EXPECT_EQ(Get16(came.bytes, came.udp + 6), ReferenceUdpChecksum(came));
      }
    }
  }
  EXPECT_EQ(chosen, 1000);
  const auto all_sent = [this] {
    const std::span<const agent::FlowSample> samples = agent_->Flows();
    return std::all_of(samples.begin(), samples.end(), [](const agent::FlowSample& sample) {
      return sample.sent_bytes > 250'000 && sample.retries == 0 && sample.source_port > 61'000;
    });
  };
  EXPECT_TRUE(RunAgentUntil(all_sent));
  // Flows keep their ports while the agent is away, and the next agent learns of them.
  agent_.reset();
  for (RoceFrame& flow : flows) {
    ++flow.psn;
    const BuiltFrame came = Pass(flow);
    ASSERT_FALSE(came.bytes.empty());
    EXPECT_EQ(Get16(came.bytes, came.udp), ports.at(flow.source));
  }
  OpenAgent();
  ASSERT_TRUE(RunAgentUntil([this] { return agent_->Flows().size() == 2; }));
  for (RoceFrame& flow : flows) EXPECT_TRUE(PassUntilPort(flow, ports.at(flow.source)));
}

TEST_F(Bump, GivesEveryPacketOfAFlowThePortThatTheAgentChose) { SteerTwoFlows(); }

// The peer sends data, and the host acknowledges each message. Both queue pairs' packets begin with
// the same numbers.
void Bump::SteerAnswers() {
  OpenAgent();
  std::vector<RoceFrame> data = TwoFlows();
  std::vector<RoceFrame> answers = data;
  for (std::size_t i = 0; i < data.size(); ++i) {
    std::swap(data[i].source, data[i].destination);
    data[i].destination_qpn = 0x50 + static_cast<std::uint32_t>(i);
    answers[i].opcode = 0x11;
    answers[i].payload = Aeth(0);
  }
  const auto pass_message = [&](std::size_t i) {
    for (int packet = 0; packet < 64; ++packet, ++data[i].psn) {
      data[i].opcode = packet == 0 ? 0x06 : 0x07;
      data[i].payload = packet == 0 ? Reth(64 << 10, 1024) : Bytes(1024, 0x77);
      peer_->Send(Build(data[i]).bytes);
    }
    // It acknowledges what has arrived.
    for (int packet = 0; packet < 64; ++packet) {
      if (!host_->Receive(10'000)) ADD_FAILURE() << "data did not arrive: " << datapath_.said();
    }
    answers[i].psn = data[i].psn - 1;
    return Pass(answers[i]);
  };
  const auto pass_until = [&](auto&& condition) {
    return RunAgentUntil([&] {
      for (std::size_t i = 0; i < data.size(); ++i) (void)pass_message(i);
      return condition();
    });
  };
  ASSERT_TRUE(pass_until([this] { return agent_->Flows().size() == 2; })) << datapath_.said();
  std::map<std::string, std::uint16_t> ports;
  for (const agent::FlowSample& sample : agent_->Flows()) {
    const bool is_v4 = sample.source.IsV4();
    EXPECT_EQ(sample.local_qpn, is_v4 ? 0x50U : 0x51U);
    EXPECT_EQ(sample.remote_qpn, is_v4 ? 0x21U : 0x22U);
    const std::uint16_t port = is_v4 ? 61'001 : 61'002;
    ports[sample.source.ToString()] = port;
    ASSERT_TRUE(agent_->Apply({.flow = sample.id, .paths = {{.source_port = port}}}));
  }
  ASSERT_EQ(ports.size(), 2U);
  for (RoceFrame& answer : answers) ASSERT_TRUE(PassUntilPort(answer, ports.at(answer.source)));
  for (int round = 0; round < 20; ++round) {
    for (std::size_t i = 0; i < data.size(); ++i) {
      const BuiltFrame came = pass_message(i);
      ASSERT_FALSE(came.bytes.empty());
      EXPECT_EQ(Get16(came.bytes, came.udp), ports.at(answers[i].source));
    }
  }
}

TEST_F(Bump, GivesAcknowledgementsThePortThatTheAgentChose) { SteerAnswers(); }

// The datapath asks the device for a rule once it knows the flow's acknowledgements, which the peer
// sends.
void Bump::SteerWhileTheDeviceRefusesRules() {
  OpenAgent();
  RoceFrame flow = TwoFlows()[0];
  flow.opcode = 0x06;
  flow.payload = Reth(64 << 20, 512);
  (void)Pass(flow);
  flow.opcode = 0x07;
  ++flow.psn;
  ASSERT_TRUE(RunAgentUntil([this] { return agent_->Flows().size() == 1; })) << datapath_.said();
  const auto id = agent_->Flows()[0].id;
  ASSERT_TRUE(agent_->Apply({.flow = id, .paths = {{.source_port = 61'001}}}));
  ASSERT_TRUE(PassUntilPort(flow, 61'001));
  RoceFrame acknowledgement{.source = flow.destination,
                            .destination = flow.source,
                            .opcode = 0x11,
                            .destination_qpn = 0x99,
                            .payload = Aeth(0)};
  for (int i = 0; i < 20; ++i) {
    ++flow.psn;
    (void)Pass(flow);
    acknowledgement.psn = flow.psn;
    peer_->Send(Build(acknowledgement).bytes);
    usleep(5000);
  }
  EXPECT_TRUE(datapath_.ReadUntil("event=offload_unsupported family=ipv4 what=\"port 0: "))
      << datapath_.said();
  for (int i = 0; i < 100; ++i) {
    ++flow.psn;
    const BuiltFrame came = Pass(flow);
    ASSERT_FALSE(came.bytes.empty());
    EXPECT_EQ(Get16(came.bytes, came.udp), 61'001);
  }
}

class OffloadingBump : public Bump {
 protected:
  std::string Devices() const override {
    return Bump::Devices() + " offload: ICRC_CORRECTED_BY_DEVICE";
  }
};

TEST_F(OffloadingBump, SteersByCoresWhereTheDeviceRefusesRules) {
  SteerWhileTheDeviceRefusesRules();
}

// Uses a tap as the host's port, whose driver has rules, but none that change ports.
class TapBump : public Bump {
 protected:
  void SetUp() override {
    if (access("/dev/net/tun", R_OK | W_OK) != 0) GTEST_SKIP() << "no /dev/net/tun here";
    Bump::SetUp();
  }
  void TearDown() override {
    if (!namespaces_.empty()) Bump::TearDown();
  }
  std::string Devices() const override {
    return R"(eal: "--vdev=net_tap0,iface=tap" host_port: "net_tap0"
              eal: "--vdev=net_af_packet1,iface=f0" fabric_port: "net_af_packet1"
              offload: ICRC_CORRECTED_BY_DEVICE)";
  }
  void OpenHost() override {
    Enter("bump");
    host_ = std::make_unique<FrameSocket>("tap");
  }
};

TEST_F(TapBump, GivesEveryPacketOfAFlowThePortThatTheAgentChose) { SteerTwoFlows(); }
TEST_F(TapBump, SteersByCoresWhereTheDeviceRefusesRules) { SteerWhileTheDeviceRefusesRules(); }

// Uses AF_XDP, which not every kernel has.
class XdpBump : public Bump {
 protected:
  // Its driver, which is unloaded by then, never frees what it knew of its sockets: 10 KB, at the
  // end of the process.
  void SetUp() override {
    const char* const options = std::getenv("ASAN_OPTIONS");
    const std::string before = options == nullptr ? "" : options;
    setenv("ASAN_OPTIONS", (before + ":detect_leaks=0").c_str(), 1);
    Bump::SetUp();
    setenv("ASAN_OPTIONS", before.c_str(), 1);
  }
  const char* driver() const override { return "net_af_xdp"; }
  bool MayBeMissing() const override { return true; }
};

TEST_F(XdpBump, GivesEveryPacketOfAFlowThePortThatTheAgentChose) { SteerTwoFlows(); }

// Sends bytes over a TCP connection to the other end of the bump; true when all came as they were.
bool MoveBytes(int client, int listener) {
  const UniqueFd server(accept(listener, nullptr, nullptr));
  Bytes sent(200'000);
  std::iota(sent.begin(), sent.end(), std::uint8_t{1});
  Bytes received(sent.size());
  std::size_t to_send = 0;
  std::size_t got = 0;
  while (got < sent.size()) {
    if (to_send < sent.size()) {
      const ssize_t size =
          send(client, &sent[to_send], std::min<std::size_t>(8192, sent.size() - to_send), 0);
      if (size <= 0) return false;
      to_send += static_cast<std::size_t>(size);
    }
    const ssize_t size = recv(server.get(), &received[got], received.size() - got, 0);
    if (size <= 0) return false;
    got += static_cast<std::size_t>(size);
  }
  return received == sent;
}

// To RoCE's own port number, but TCP; ARP and neighbour discovery go before it.
TEST_F(Bump, LetsOtherTrafficThrough) {
  for (const char* destination : {"::ffff:10.0.0.2", "fd00::2"}) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(4791);
    Enter("peer");
    const UniqueFd listener(socket(AF_INET6, SOCK_STREAM, 0));
    const int on = 1;
    ASSERT_EQ(setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(listen(listener.get(), 1), 0);
    Enter("host");
    const UniqueFd client(socket(AF_INET6, SOCK_STREAM, 0));
    ASSERT_EQ(inet_pton(AF_INET6, destination, &address.sin6_addr), 1);
    ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0)
        << destination;
    EXPECT_TRUE(MoveBytes(client.get(), listener.get())) << destination;
  }
}

TEST_F(Bump, KeepsTagsAndSaysWhenAPortVanishes) {
  RoceFrame tagged = TwoFlows()[0];
  tagged.vlan_types = {0x8100};
  (void)Pass(tagged);
  EXPECT_EQ(peer_->tag(), 7);
  tagged.vlan_types = {};
  (void)Pass(tagged);
  EXPECT_FALSE(peer_->tag());
  In("bump", "ip link del f0");
  EXPECT_TRUE(datapath_.ReadUntil("event=port_vanished port=net_af_packet1")) << datapath_.said();
  EXPECT_EQ(datapath_.Wait(), 1);
}

}  // namespace
}  // namespace espalier::dpdk
