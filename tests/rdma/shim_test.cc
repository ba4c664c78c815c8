// Unmodified programs through the shim, on real queue pairs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "agent/local/local_server.h"
#include "tests/agent/manual_loop.h"
#include "tests/rdma/rdma_machine.h"

namespace espalier::agent {
namespace {

using ::testing::Each;
using ::testing::Ge;
using ::testing::SizeIs;
using Ports = std::vector<std::uint16_t>;

constexpr int kServer = 2;  // hosts
constexpr int kClient = 0;

// The agent of both hosts, which is controlled by the test.
class Agent {
 public:
  // The observed flows of one host.
  struct Seen {
    std::set<wire::LocalFlowId> flows;
    std::uint64_t most_outstanding = 0;
    std::uint64_t most_sent = 0;
  };

  Agent() {
    auto server = LocalServer::Listen(loop_, {.path = kSocket}, metrics_);
    EXPECT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }

  // Each flow's port when it opens, and after it has sent some bytes.
  std::uint16_t first_port(int host) const { return static_cast<std::uint16_t>(0xC100 + host); }
  std::uint64_t move_after_bytes = UINT64_MAX;
  static constexpr std::uint16_t kSecondPort = 0xE777;
  std::function<void()> on_turn;

  void TurnUntil(const std::function<bool()>& done) {
    while (!done()) {
      server_->HandleReady();
      loop_.Advance(std::chrono::milliseconds(1));
      for (const FlowSample& flow : server_->Flows()) Look(flow);
      if (on_turn) on_turn();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  std::size_t OpenFlows() { return server_->Flows().size(); }
  const Seen& seen(int host) { return seen_[rdma::AddressOfHost(host, false)]; }

  static constexpr const char* kSocket = "/run/shim_test.sock";

 private:
  void Look(const FlowSample& flow) {
    Seen& seen = seen_[flow.source];
    const int host = flow.source == rdma::AddressOfHost(kClient, false) ? kClient : kServer;
    if (seen.flows.insert(flow.id).second) Order(flow, first_port(host));
    seen.most_outstanding = std::max(seen.most_outstanding, flow.outstanding_bytes);
    seen.most_sent = std::max(seen.most_sent, flow.sent_bytes);
    if (flow.sent_bytes >= move_after_bytes && moved_.insert(flow.id).second) {
      Order(flow, kSecondPort);
    }
  }
  void Order(const FlowSample& flow, std::uint16_t port) {
    wire::PathSet set;
    set.flow = flow.id;
    set.paths.push_back({.source_port = port, .encoding = {}});
    ASSERT_TRUE(server_->Apply(set));
  }

  ManualLoop loop_;
  Metrics metrics_;
  std::unique_ptr<LocalServer> server_;
  std::map<IpAddress, Seen> seen_;
  std::set<wire::LocalFlowId> moved_;
};

// A shell command that waits until a TCP socket listens on the port.
std::string AwaitListener(int port) {
  return fmt::format("until ss -Hltn sport = :{} | grep -q .; do sleep 0.1; done", port);
}

// Runs a server and a client through the shim; `at` names the device and the index of its address.
class Programs {
 public:
  explicit Programs(std::string at) : at_(std::move(at)) {}

  // `await` is a shell command that waits until the server listens.
  void Run(Agent& agent, const std::string& server, const std::string& client,
           const std::string& await) {
    const auto words = [&](int host, const std::string& program) {
      const auto address = rdma::RoceAddressOf(host, false);
      const std::string device = fmt::format(fmt::runtime(at_), address.device, address.gid_index);
      const std::string command = fmt::format(
          "{}={} ESPALIER_AGENT_SOCKET={} ESPALIER_VERBS_ANNOUNCE_BYTES=1048576 "
          "ESPALIER_VERBS_WAIT_MS=60000 {} 2>&1",
          way_.first, way_.second, Agent::kSocket, fmt::format(fmt::runtime(program), device));
      return fmt::format(fmt::runtime(within_), command);
    };
    auto serving =
        std::async(std::launch::async, [&] { return rdma::Shell(words(kServer, server)); });
    auto asking = std::async(std::launch::async, [&] {
      rdma::Shell(await);
      return rdma::Shell(words(kClient, client));
    });
    const auto done = [&](auto& future) {
      return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    };
    agent.TurnUntil([&] { return done(serving) && done(asking); });
    output = serving.get() + asking.get();
  }

  void Load(const char* variable, const std::string& value) { way_ = {variable, value}; }
  // Lets programs see another root, with the folder of the shim as /opt/espalier/reach.
  void RunIn(const std::string& root, const std::string& reach) {
    within_ = fmt::format(
        "unshare -m sh -c 'for f in dev sys run; do mount --rbind /$f {0}/$f; done; "
        "mount --bind {1} {0}/opt/espalier/reach; exec chroot {0} sh -c \"{{}}\"'",
        root, reach);
    Load("LD_PRELOAD", "/opt/espalier/reach/libespalier-verbs.so");
  }

  std::string output;

 private:
  std::string at_;
  std::string within_ = "{}";
  std::pair<std::string, std::string> way_ = {"LD_PRELOAD", ESPALIER_VERBS_SHIM};
};

Ports PortsOf(const std::vector<rdma::Packet>& packets, int from, int to) {
  Ports ports;
  for (const rdma::Packet& packet : packets) {
    // Communication management uses queue pair 1 and other ports.
    if (packet.remote_number == 1) continue;
    if (packet.source == rdma::AddressOfHost(from, false) &&
        packet.destination == rdma::AddressOfHost(to, false)) {
      ports.push_back(packet.source_port);
    }
  }
  return ports;
}

// Expects that each host sent only from the port that was chosen for it.
void ExpectChosenPorts(rdma::Capture& capture, Agent& agent, std::size_t packets) {
  const auto captured = capture.Take();
  EXPECT_THAT(PortsOf(captured, kClient, kServer),
              ::testing::AllOf(SizeIs(Ge(packets)), Each(agent.first_port(kClient))));
  EXPECT_THAT(PortsOf(captured, kServer, kClient),
              ::testing::AllOf(SizeIs(Ge(1U)), Each(agent.first_port(kServer))));
}

// The port changes during the writes. There are few short ones at a time, as soft RoCE fails with
// many long ones.
TEST(RdmaShim, SteersIbWriteBwAndMovesIt) {
  rdma::Capture capture("", "h0");
  Agent agent;
  agent.move_after_bytes = 2 << 20;
  Programs programs("-d {} -x {} -F -t 4 -s 8192 -n 1000 -p 18600");
  programs.Run(agent, "ib_write_bw {}", "ib_write_bw {} 127.0.0.1", AwaitListener(18600));
  Ports ports = PortsOf(capture.Take(), kClient, kServer);
  EXPECT_GE(ports.size(), 1000U * 2);
  ports.erase(std::unique(ports.begin(), ports.end()), ports.end());
  EXPECT_EQ(ports, (Ports{agent.first_port(kClient), Agent::kSecondPort})) << programs.output;
  const Agent::Seen& seen = agent.seen(kClient);
  EXPECT_EQ(seen.flows.size(), 1U);
  EXPECT_GE(seen.most_outstanding, 8192U);
  EXPECT_EQ(seen.most_outstanding % 8192, 0U);
  EXPECT_GE(seen.most_sent, 2U << 20);
  EXPECT_LE(seen.most_sent, 1010U * 8192);
}

// Its queue pairs are extended ones, to which it posts with ibv_wr_*.
TEST(RdmaShim, SteersPingPongThatPostsInTheNewWay) {
  rdma::Capture capture("", "h0");
  Agent agent;
  Programs programs("-d {} -g {} -n 100 -N -p 18603");
  programs.Run(agent, "ibv_rc_pingpong {}", "ibv_rc_pingpong {} 127.0.0.1", AwaitListener(18603));
  ExpectChosenPorts(capture, agent, 100);
  EXPECT_GE(agent.seen(kServer).most_sent, 4096U) << programs.output;
}

// The server sends the bytes without posting, from the port that its agent has chosen.
TEST(RdmaShim, SteersIbReadBw) {
  rdma::Capture capture("", "h0");
  Agent agent;
  Programs programs("-d {} -x {} -F -t 4 -s 8192 -n 100 -p 18601");
  programs.Run(agent, "ib_read_bw {}", "ib_read_bw {} 127.0.0.1", AwaitListener(18601));
  ExpectChosenPorts(capture, agent, 30);
  EXPECT_EQ(agent.seen(kServer).flows.size(), 1U);
  EXPECT_EQ(agent.seen(kClient).most_sent, 0U);
}

// Four queue pairs with a shared receive queue, each with its own flow.
TEST(RdmaShim, SteersQueuePairsThatShareAReceiveQueue) {
  rdma::Capture capture("", "h0");
  Agent agent;
  Programs programs("-d {} -g {} -n 40 -q 4 -p 18604");
  programs.Run(agent, "ibv_srq_pingpong {}", "ibv_srq_pingpong {} 127.0.0.1", AwaitListener(18604));
  ExpectChosenPorts(capture, agent, 40);
  EXPECT_EQ(agent.seen(kServer).flows.size(), 4U) << programs.output;
}

// librdmacm connects them; its own messages, to queue pair 1, are not steered. The server reads
// from the client and writes to it.
TEST(RdmaShim, SteersRping) {
  rdma::Capture capture("", "h0");
  Agent agent;
  Programs programs("");
  programs.Run(agent, "rping -s -a 10.1.0.1 -p 18608 -C 20 -S 4096{}",
               "rping -c -a 10.1.0.1 -I 10.0.0.1 -p 18608 -C 20 -S 4096{}",
               "until rdma resource show cm_id | grep -q 'LISTEN.*:18608'; do sleep 0.1; done");
  ExpectChosenPorts(capture, agent, 80);
  EXPECT_EQ(agent.seen(kClient).flows.size(), 1U) << programs.output;
  EXPECT_EQ(agent.seen(kServer).flows.size(), 1U);
}

// UCX with its transport of reliable connections only. Its server uses the client's device. It
// spins where other programs wait, which is slow on the emulated machine.
TEST(RdmaShim, SteersUcxPerftest) {
  rdma::Capture capture("", "h0");
  Agent agent;
  Programs programs("env UCX_IB_GID_INDEX={1} ucx_perftest -d {0}:1 -x rc_verbs -p 18607");
  programs.Run(agent, "{}", "{} 127.0.0.1 -t put_bw -D zcopy -s 4096 -n 200 -w 1",
               AwaitListener(18607));
  EXPECT_THAT(PortsOf(capture.Take(), kClient, kClient),
              ::testing::AllOf(SizeIs(Ge(200U)), Each(agent.first_port(kClient))))
      << programs.output;
  EXPECT_GE(agent.seen(kClient).most_sent, 100U * 4096);
}

// The device is deleted while programs use it, and the kernel removes it when they have ended. They
// end without an error or with their own. The agent continues and finds the new device.
TEST(RdmaShim, OutlivesADeviceThatVanishes) {
  Agent agent;
  const auto address = rdma::RoceAddressOf(kServer, false);
  Programs programs("-d {} -x {} -F -t 4 -s 8192 -n 1500 -p 18606");
  std::future<void> vanishing;
  agent.on_turn = [&] {
    if (vanishing.valid() || agent.seen(kClient).most_sent < 1 << 20) return;
    vanishing =
        std::async(std::launch::async, [&] { rdma::Shell("rdma link delete " + address.device); });
  };
  programs.Run(agent, "ib_write_bw {}", "ib_write_bw {} 127.0.0.1", AwaitListener(18606));
  ASSERT_TRUE(vanishing.valid()) << programs.output;
  vanishing.wait();
  EXPECT_FALSE(verbs::FindRoceAddress(address.address));
  agent.TurnUntil([&] { return agent.OpenFlows() == 0; });
  rdma::Shell(
      fmt::format("rdma link add {} type rxe netdev {}", address.device, address.interface));
  agent.on_turn = nullptr;
  programs.Run(agent, "ib_write_bw {}", "ib_write_bw {} 127.0.0.1", AwaitListener(18606));
  EXPECT_EQ(agent.seen(kClient).flows.size(), 2U) << programs.output;
}

// The roots of tests/acceptance/reach, whose programs and libraries are of other releases.
TEST(RdmaShim, LongSteersIbWriteBwInRootsOfOtherReleases) {
  namespace fs = std::filesystem;
  const char* const cache = std::getenv("ESPALIER_REACH_ROOTS");
  const fs::path roots = cache != nullptr ? cache : "/root/.cache/espalier/reach-roots";
  const bool portable = fs::exists(ESPALIER_PORTABLE_REACH "/libespalier-engine.so");
  int tried = 0;
  for (const char* const release : {"bullseye", "bookworm", "trixie", "sid"}) {
    const bool is_old = std::string(release) == "bullseye";  // the release build's engine is not
    if (!fs::exists(roots / release / "opt/espalier/reach") || (is_old && !portable)) continue;
    SCOPED_TRACE(release);
    ++tried;
    rdma::Capture capture("", "h0");
    Agent agent;
    Programs programs("-d {} -x {} -F -t 4 -s 8192 -n 300 -p 18610");
    programs.RunIn(roots / release, portable ? ESPALIER_PORTABLE_REACH : ESPALIER_REACH);
    programs.Run(agent, "ib_write_bw {}", "ib_write_bw {} 127.0.0.1", AwaitListener(18610));
    EXPECT_THAT(PortsOf(capture.Take(), kClient, kServer),
                ::testing::AllOf(SizeIs(Ge(300U * 2)), Each(agent.first_port(kClient))))
        << programs.output;
  }
  if (tried == 0) GTEST_SKIP() << "there are no roots (tests/acceptance/reach makes them)";
}

// The program finds the shim by the name of the real library, and waits for completions by events.
TEST(RdmaShim, SteersPingPongByTheLibraryPath) {
  rdma::Capture capture("", "h0");
  Agent agent;
  Programs programs("-d {} -g {} -n 20 -e -p 18602");
  programs.Load("LD_LIBRARY_PATH", ESPALIER_VERBS_FOLDER);
  programs.Run(agent, "ibv_rc_pingpong {}", "ibv_rc_pingpong {} 127.0.0.1", AwaitListener(18602));
  ExpectChosenPorts(capture, agent, 20);
  EXPECT_GE(agent.seen(kServer).flows.size(), 1U);
}

}  // namespace
}  // namespace espalier::agent
