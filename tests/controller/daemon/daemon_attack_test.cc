// An attacker that may connect, against the real controller: it speaks ZMTP over a raw socket.
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "proto/decode.h"
#include "proto/encode.h"
#include "tests/attack/zmtp.h"
#include "tests/controller/daemon/daemon_fixture.h"

namespace espalier::controller {
namespace {

using attack::ZmtpDealer;

class DaemonUnderAttack : public Daemon {
 protected:
  // The attacker sends no heartbeats: what disconnects it here is what it does, not its silence.
  DaemonUnderAttack() { WriteConfig("insecure_plaintext: true\nmissed_heartbeats: 600\n"); }

  static std::string Say(wire::Body body) {
    return wire::Encode({.sender_instance = 666, .body = std::move(body)});
  }
  // Registers as the agent of "h1" with this many flows.
  void Join(ZmtpDealer& attacker, std::uint64_t flows) {
    ASSERT_TRUE(attacker.Send(Say(wire::Hello{.name = "h1", .features = {}, .nics = {}})));
    const auto answer = attacker.Receive();
    ASSERT_TRUE(answer.has_value());
    wire::Decoder decoder;
    const auto welcome = decoder.Decode(*answer);
    ASSERT_TRUE(welcome.has_value());
    ASSERT_TRUE(std::get<wire::Welcome>((*welcome)->body).accepted);
    wire::FlowReport report{.full = true, .sequence = 1, .jobs = {"j"}};
    report.addresses = {IpAddress::FromV4(0x0a000002), IpAddress::FromV4(0x0a000001)};
    for (std::uint64_t id = 1; id <= flows; ++id) {
      report.opened.push_back({.id = wire::LocalFlowId(id), .destination = 1, .path_ports = {}});
    }
    ASSERT_TRUE(attacker.Send(Say(report)));
  }
  static wire::PathHealth Verdicts(std::uint64_t flows, int times) {
    wire::PathHealth health;
    for (int time = 0; time < times; ++time) {
      for (std::uint64_t id = 1; id <= flows; ++id) {
        health.flows.push_back({.flow = wire::LocalFlowId(id),
                                .source_port = static_cast<std::uint16_t>(50'000 + time),
                                .verdict = wire::PathVerdict::kLocallyRerouted});
      }
    }
    return health;
  }
  std::int64_t Metric(const std::string& name) {
    const auto answer = io::HttpFetch("unix:" + Path("api.sock"), "GET", "/metrics", "", 60s);
    EXPECT_TRUE(answer);
    const std::size_t at = answer ? answer->body.find("\n" + name + " ") : std::string::npos;
    if (at == std::string::npos) return -1;
    return std::stoll(answer->body.substr(at + name.size() + 2));
  }
  void AwaitMetric(const std::string& name, std::int64_t least) {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (Metric(name) < least) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << name << " is " << Metric(name);
      std::this_thread::sleep_for(5ms);
    }
  }
  std::size_t CountEvents(const std::string& kind) {
    const std::string events = Events();
    const std::string key = "\"" + kind + "\"";
    std::size_t count = 0;
    for (auto at = events.find(key); at != std::string::npos; at = events.find(key, at + 1)) {
      ++count;
    }
    return count;
  }
};

TEST_F(DaemonUnderAttack, AMessageThatNamesOneFlowWithoutEndIsRefused) {
  Start();
  ZmtpDealer attacker(bus_port_);
  Join(attacker, 1);
  const std::string lie = Say(Verdicts(1, 16'384));
  for (int i = 0; i < 60; ++i) attacker.Send(lie);
  AwaitMetric("espalier_controller_bad_messages_total", 60);
  EXPECT_EQ(CountEvents("flow_locally_rerouted"), 0U);
  EXPECT_EQ(CountEvents("controller_started"), 1U);
}

TEST_F(DaemonUnderAttack, AnAgentWithTooMuchWorkIsDisconnectedAndTheHistoryStays) {
  // What one message may cost at most; the second one below costs more. So the outcome does not
  // depend on how fast messages are handled.
  WriteConfig("insecure_plaintext: true\nmax_entries_per_second: 300000\n");
  Start();
  ASSERT_EQ(Act("links/fail?id=leaf0--spine0").status, 200);
  ZmtpDealer attacker(bus_port_);
  Join(attacker, 256);
  ASSERT_TRUE(attacker.Send(Say(Verdicts(256, 16))));
  const std::string lie = Say(Verdicts(256, 64));
  // The attacker continues after it was disconnected.
  for (int i = 0; i < 60 && attacker.Send(lie); ++i) continue;
  AwaitEvent("max_entries_per_second");
  EXPECT_GE(Metric("espalier_controller_agents_over_limit_total"), 1);
  EXPECT_EQ(CountEvents("link_failed"), 1U);
  EXPECT_EQ(CountEvents("controller_started"), 1U);
  EXPECT_LE(CountEvents("flow_locally_rerouted"), 256U);
  EXPECT_GT(Metric("espalier_controller_events_dropped"), 0);
  EXPECT_EQ(CallUnix("GET", "status").status, 200);
}

// What programs without rights make an honest agent report: thousands of flows between two NICs.
TEST_F(DaemonUnderAttack, AFloodOfFlowsOfOnePairIsRefusedBeyondThePortsOfThePair) {
  Start();
  ZmtpDealer attacker(bus_port_);
  Join(attacker, 16'000);
  AwaitMetric("espalier_controller_flows_open", 16'000);
  AwaitEvent("pair_full");
  EXPECT_EQ(CountEvents("pair_full"), 1U);
  AwaitMetric("espalier_controller_flows_placed_total", 4'096);
  EXPECT_EQ(Metric("espalier_controller_flows_placed_total"), 4'096);
  AwaitMetric("espalier_controller_agents_connected", 1);
  EXPECT_EQ(CallUnix("GET", "status").status, 200);
  EXPECT_EQ(CountEvents("agent_gone"), 0U);
}

// A program of the agent's local API by hand: a hello, the memory file that comes back, and flows
// that it opens and ends in one place of that memory as quickly as it can.
class ChurningProgram {
 public:
  explicit ChurningProgram(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    std::memcpy(to.sun_path, path.data(), path.size());
    const std::uint32_t hello = 1;
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) return;
    if (::send(socket_, &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) return;
    std::array<char, 16> welcome{};
    std::array<char, CMSG_SPACE(sizeof(int))> control{};
    iovec part{welcome.data(), welcome.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (::recvmsg(socket_, &message, MSG_CMSG_CLOEXEC) < 16) return;
    const cmsghdr* const head = CMSG_FIRSTHDR(&message);
    if (head == nullptr) return;
    int file = -1;
    std::memcpy(&file, CMSG_DATA(head), sizeof file);
    void* const mapped = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (mapped == MAP_FAILED) return;
    memory_ = static_cast<char*>(mapped);
    Put<std::uint32_t>(4, 1);  // one slot was used
    std::array<char, 120> flow{};
    flow[0] = 'j';
    for (const std::size_t address : {64, 80}) flow[address + 10] = flow[address + 11] = '\xff';
    const std::array<unsigned char, 4> from{10, 0, 0, 2};
    const std::array<unsigned char, 4> to_host{10, 0, 0, 1};
    std::memcpy(&flow[64 + 12], from.data(), 4);
    std::memcpy(&flow[80 + 12], to_host.data(), 4);
    flow[96] = 17;
    flow[97] = 1;
    flow[98] = 1;
    const std::uint16_t port = 4791;
    std::memcpy(&flow[100], &port, 2);
    const std::uint64_t bytes = std::uint64_t{1} << 30U;
    std::memcpy(&flow[112], &bytes, 8);
    std::memcpy(memory_ + kSlot + 64, flow.data(), flow.size());
    Put(kSlot + 8, bytes);
  }
  ~ChurningProgram() {
    if (memory_ != nullptr) ::munmap(memory_, kBytes);
    ::close(socket_);
  }
  ChurningProgram(const ChurningProgram&) = delete;
  ChurningProgram& operator=(const ChurningProgram&) = delete;

  bool is_welcome() const { return memory_ != nullptr; }
  // The flow that was there ends, and another begins.
  void OpenNext() {
    Put(kSlot, ++serial_);
    const std::uint32_t wake = 0x454b4157;
    ::send(socket_, &wake, sizeof wake, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

 private:
  static constexpr std::size_t kSlot = 64;
  static constexpr std::size_t kBytes = 64 + 320 * 1'024;
  template <typename Value>
  void Put(std::size_t at, Value value) {
    std::atomic_ref(*reinterpret_cast<Value*>(memory_ + at)).store(value);
  }

  int socket_;
  char* memory_ = nullptr;
  std::uint32_t serial_ = 0;
};

TEST_F(DaemonUnderAttack, AProgramThatOpensFlowsWithoutAPauseKeepsItsHostOnTheController) {
  // So low that a slow machine exceeds it too; the agent is told.
  WriteConfig("insecure_plaintext: true\nmax_messages_per_second: 200\n");
  Start();
  const std::string agent_http = "127.0.0.1:" + std::to_string(BoundPort().number());
  std::ofstream(Path("a.conf")) << "name: \"h1\" nic: \"lo\" no_probing: true log_level: \"error\" "
                                << "controller: \"tcp://127.0.0.1:" << bus_port_ << "\" "
                                << "insecure_plaintext: true http: \"" << agent_http << "\" "
                                << "local_socket: \"" << Path("agent.sock") << "\"";
  auto agent = ChildProcess::Start(
      {.argv = {ESPALIER_PROGRAMS "/espalier-agent", "--config", Path("a.conf")}});
  ASSERT_TRUE(agent) << agent.error().message;
  AwaitMetric("espalier_controller_agents_connected", 1);
  ChurningProgram program(Path("agent.sock"));
  ASSERT_TRUE(program.is_welcome());
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  const auto reports = [&] {
    const auto answer = io::HttpFetch(agent_http, "GET", "/metrics", "", 60s);
    const std::string name = "\nespalier_agent_flow_reports_sent_total ";
    const std::size_t at = answer ? answer->body.find(name) : std::string::npos;
    return at == std::string::npos ? 0 : std::stoll(answer->body.substr(at + name.size()));
  };
  while (reports() < 300 && std::chrono::steady_clock::now() < deadline) {
    for (int i = 0; i < 20'000; ++i) program.OpenNext();
  }
  EXPECT_GE(reports(), 100);
  AwaitMetric("espalier_controller_flows_open", 1);
  EXPECT_EQ(Metric("espalier_controller_agents_connected"), 1);
  EXPECT_EQ(Metric("espalier_controller_peers_refused_total"), 0);
  EXPECT_EQ(CountEvents("agent_up"), 1U);
}

TEST_F(DaemonUnderAttack, NoiseOfOnePeerCausesABoundedNumberOfEvents) {
  Start();
  ZmtpDealer attacker(bus_port_);
  for (int i = 0; i < 3'000; ++i) attacker.Send("no message of ours");
  AwaitMetric("espalier_controller_bad_messages_total", 3'000);
  EXPECT_LE(CountEvents("bad_message"), 256U);
  EXPECT_GE(CountEvents("bad_message"), 1U);
}

}  // namespace
}  // namespace espalier::controller
