// All of it: unmodified programs, the shim, an agent for each host, the controller, and the fabric.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/io/topology_file.h"
#include "deploy/lab/lab_plan.h"
#include "tests/rdma/rdma_machine.h"

namespace espalier {
namespace {

using ::testing::ContainsRegex;

constexpr const char* kFolder = "/run/steering";

void Write(const std::string& name, const std::string& text) {
  std::ofstream(fmt::format("{}/{}", kFolder, name)) << text;
}

void Await(const std::string& what, const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!done()) {
    ASSERT_LT(std::chrono::steady_clock::now(), end)
        << what << "\n"
        << rdma::Shell(fmt::format("tail -n 20 {}/*.log", kFolder));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// A program in the background, until the end of the test.
class Process {
 public:
  Process(const std::string& name, const std::string& words) {
    const std::string pid = rdma::Shell(fmt::format(
        "setsid bash -c 'exec env {}' >{}/{}.log 2>&1 & echo $!", words, kFolder, name));
    group_ = std::stoi(pid);
  }
  ~Process() { rdma::Shell(fmt::format("kill -9 -- -{} 2>/dev/null; true", group_)); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  bool Lives() const {
    return rdma::Shell(fmt::format("kill -0 {} 2>/dev/null && echo yes; true", group_)) == "yes\n";
  }

 private:
  int group_ = 0;
};

std::string SocketOf(int host) { return fmt::format("{}/h{}.sock", kFolder, host); }

// The controller, and an agent for each host.
class Daemons {
 public:
  Daemons() {
    rdma::Shell(fmt::format("mkdir -p {}", kFolder));
    const auto plan = lab::LabPlan::Make(
        {.spines = rdma::kSpines, .leaves = 2, .hosts_per_leaf = rdma::kHostsPerLeaf});
    Write("topology.json", io::FormatTopology(*plan->MakeTopology()));
    Write("controller.conf", fmt::format("topology_file: \"{0}/topology.json\"\n"
                                         "state_file: \"{0}/store.db\"\n"
                                         "http: \"unix:{0}/api.sock\"\n"
                                         "insecure_plaintext: true\n",
                                         kFolder));
    Start("controller", "espalier-controller");
    for (int host = 0; host < rdma::kHosts; ++host) {
      const std::string name = fmt::format("h{}", host);
      Write(name + ".conf", fmt::format("name: \"{1}\"\n"
                                        "local_socket: \"{2}\"\n"
                                        "nic: \"{1}\"\n"
                                        "http: \"unix:{0}/{1}.http\"\n"
                                        "insecure_plaintext: true\n",
                                        kFolder, name, SocketOf(host)));
      Start(name, "espalier-agent");
    }
    Await("all agents are up", [] {
      return rdma::Shell(fmt::format("cat {}/h?.log | grep -c to=synced; true", kFolder)) ==
             fmt::format("{}\n", rdma::kHosts);
    });
  }

  static std::string Operator(const std::string& words) {
    return rdma::Shell(fmt::format("{}/espalier {} --controller unix:{}/api.sock",
                                   ESPALIER_PROGRAMS, words, kFolder));
  }

 private:
  void Start(const std::string& name, const std::string& program) {
    processes_.push_back(std::make_unique<Process>(
        name, fmt::format("{}/{} --config {}/{}.conf", ESPALIER_PROGRAMS, program, kFolder, name)));
  }
  std::vector<std::unique_ptr<Process>> processes_;
};

// ib_write_bw from one host to another, for ever. Few and short writes: soft RoCE fails with many.
class Stream {
 public:
  Stream(int from, int to) : port_(18610 + from) {
    server_ = Start(to, "");
    rdma::Shell(fmt::format("until ss -Hltn sport = :{} | grep -q .; do sleep 0.1; done", port_));
    client_ = Start(from, "127.0.0.1");
  }
  bool Lives() const { return client_->Lives(); }

 private:
  std::unique_ptr<Process> Start(int host, const std::string& server) const {
    const auto address = rdma::RoceAddressOf(host, false);
    return std::make_unique<Process>(
        fmt::format("stream{}", host),
        fmt::format("LD_PRELOAD={} ESPALIER_AGENT_SOCKET={} ESPALIER_VERBS_ANNOUNCE_BYTES=1048576 "
                    "ESPALIER_VERBS_WAIT_MS=60000 ib_write_bw -d {} -x {} -F -t 4 -s 8192 "
                    "--run_infinitely -D 2 -p {} {}",
                    ESPALIER_VERBS_SHIM, SocketOf(host), address.device, address.gid_index, port_,
                    server));
  }

  int port_;
  std::unique_ptr<Process> server_;
  std::unique_ptr<Process> client_;
};

// What passes from the first leaf to each spine.
class Spines {
 public:
  Spines() {
    for (int spine = 0; spine < rdma::kSpines; ++spine) {
      captures_.emplace_back(fmt::format("spine{}", spine), "l0");
    }
  }

  // Writes from a host over a spine, and the ports that they came from.
  struct Count {
    int packets = 0;
    std::set<std::uint16_t> ports;
  };
  Count& at(int spine, int host) {
    return counts_[static_cast<std::size_t>(spine) * 2 + static_cast<std::size_t>(host)];
  }
  void Clear() {
    Look();
    counts_ = {};
  }
  void Look() {
    for (int spine = 0; spine < rdma::kSpines; ++spine) {
      for (const rdma::Packet& packet : captures_[static_cast<std::size_t>(spine)].Take()) {
        for (int host = 0; host < rdma::kHostsPerLeaf; ++host) {
          if (!packet.IsWrite() || packet.source != rdma::AddressOfHost(host, false)) continue;
          ++at(spine, host).packets;
          at(spine, host).ports.insert(packet.source_port);
        }
      }
    }
  }

 private:
  std::vector<rdma::Capture> captures_;
  std::array<Count, static_cast<std::size_t>(rdma::kSpines) * rdma::kHostsPerLeaf> counts_;
};

TEST(RdmaSteering, LongKeepsProgramsApartAndOffALinkThatFails) {
  constexpr int kEnough = 200;
  const Daemons daemons;
  Spines spines;
  const Stream first(0, 2);
  const Stream second(1, 3);
  const auto packets = [&](int host) {
    return spines.at(0, host).packets + spines.at(1, host).packets;
  };
  Await("both write", [&] {
    spines.Look();
    return packets(0) >= kEnough && packets(1) >= kEnough;
  });
  // Each keeps to one spine, from one port, and not to the same one.
  const int victim = spines.at(0, 0).packets > 0 ? 0 : 1;
  EXPECT_EQ(spines.at(0, 1 - victim).packets, 0);
  EXPECT_EQ(spines.at(1, victim).packets, 0);
  const std::string flows = Daemons::Operator("flows");
  for (int host = 0; host < 2; ++host) {
    const auto& count = spines.at(host == victim ? 0 : 1, host);
    ASSERT_EQ(count.ports.size(), 1U);
    EXPECT_THAT(flows, ContainsRegex(fmt::format("h{} +h{} +ROUTED +spine{} +{} ", host, host + 2,
                                                 host == victim ? 0 : 1, *count.ports.begin())));
  }
  // The controller knows how full their send queues are.
  Await("bytes are outstanding", [] {
    return ::testing::Matches(ContainsRegex("\"outstanding_bytes\": *[1-9]"))(
        Daemons::Operator("flows --json"));
  });
  // The far link of one fails: its source's leaf sees nothing of that.
  spines.Clear();
  Daemons::Operator("fail link leaf1--spine0");
  Await("it moves", [&] {
    spines.Look();
    return spines.at(1, victim).packets >= kEnough;
  });
  rdma::Shell("ip -n spine0 rule add pref 1 ipproto udp dport 4791 blackhole");
  spines.Clear();
  Await("both go on", [&] {
    spines.Look();
    return spines.at(1, 0).packets >= kEnough && spines.at(1, 1).packets >= kEnough;
  });
  EXPECT_EQ(spines.at(0, 0).packets + spines.at(0, 1).packets, 0);
  EXPECT_TRUE(first.Lives() && second.Lives());
  rdma::Shell("ip -n spine0 rule del pref 1");
}

}  // namespace
}  // namespace espalier
