#include "tests/rdma/daemons.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "common/files/topology_file.h"
#include "common/http/http_client.h"
#include "deploy/lab/lab_layout.h"
#include "tests/rdma/rdma_machine.h"

namespace espalier::rdma {
namespace {

constexpr const char* kFolder = "/run/daemons";
constexpr const char* kLogs = "/run/logs";

void Write(const std::string& name, const std::string& text) {
  std::ofstream(fmt::format("{}/{}", kFolder, name)) << text;
}

// Makes one host of the interfaces of each leaf, with a GPU that reaches them faster than they
// send.
void JoinHosts(fabric::TopologySpec& topology) {
  for (int host = 0; host < kHosts / kHostsPerLeaf; ++host) {
    topology.nodes.push_back(
        {.id = fmt::format("h{}/gpu0", host), .host = fmt::format("h{}", host)});
    const fabric::NodeId gpu(static_cast<std::int32_t>(topology.nodes.size()) - 1);
    for (int own = 0; own < kHostsPerLeaf; ++own) {
      const auto name = fmt::format("h{}", host * kHostsPerLeaf + own);
      const auto nic = std::ranges::find(topology.nodes, name, &fabric::Node::id);
      const fabric::NodeId id(static_cast<std::int32_t>(nic - topology.nodes.begin()));
      nic->id = fmt::format("h{}/nic{}", host, own);
      nic->kind = fabric::NodeKind::kNic;
      nic->host = fmt::format("h{}", host);
      const auto uplink = std::ranges::find_if(
          topology.links, [&](const fabric::Link& link) { return link.a == id || link.b == id; });
      uplink->id = fmt::format("{}--leaf{}", nic->id, host);
      const BitsPerSecond rate{10 * uplink->rate.value};
      topology.links.push_back(
          {.id = fmt::format("h{}/gpu0--{}", host, nic->id), .a = gpu, .b = id, .rate = rate});
    }
  }
}

}  // namespace

void Await(const std::string& what, const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!done()) {
    ASSERT_LT(std::chrono::steady_clock::now(), end)
        << what << "\n"
        << Shell(fmt::format("tail -n 20 {}/*.log", kLogs));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Process::Process(const std::string& name, const std::string& words) {
  Shell(fmt::format("mkdir -p {0} && rm -f {0}/{1}.log", kLogs, name));
  const std::string command = fmt::format("exec env {} >{}/{}.log 2>&1", words, kLogs, name);
  process_ = ::fork();
  if (process_ == 0) {
    ::setsid();
    ::execl("/bin/bash", "bash", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  EXPECT_GT(process_, 0);
}

Process::~Process() {
  if (!Lives()) return;
  ::kill(-process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

void Process::Signal(int signal) const { EXPECT_EQ(::kill(-process_, signal), 0); }

bool Process::Lives() {
  if (process_ > 0 && ::waitpid(process_, nullptr, WNOHANG) != 0) process_ = -1;
  return process_ > 0;
}

std::string SocketOf(int host) { return fmt::format("{}/h{}.sock", kFolder, host); }

Daemons::Daemons(const std::string& controller, const std::string& agent, int nics_per_host) {
  const int hosts = kHosts / nics_per_host;
  Shell(fmt::format("rm -rf {0} && mkdir -p {0}", kFolder));
  const auto plan =
      lab::LabLayout::Make({.spines = kSpines, .leaves = 2, .hosts_per_leaf = kHostsPerLeaf});
  auto topology = *plan->MakeTopology();
  if (nics_per_host > 1) JoinHosts(topology);
  Write("topology.json", io::FormatTopology(topology));
  Write("controller.conf", fmt::format("topology_file: \"{0}/topology.json\"\n"
                                       "state_file: \"{0}/store.db\"\n"
                                       "http: \"unix:{0}/api.sock\"\n"
                                       "insecure_plaintext: true\n",
                                       kFolder) +
                               controller);
  Start("controller", "espalier-controller");
  for (int host = 0; host < hosts; ++host) {
    const std::string name = fmt::format("h{}", host);
    std::string nics;
    for (int own = 0; own < nics_per_host; ++own) {
      nics += fmt::format("nic: \"h{}\"\n", host * nics_per_host + own);
    }
    Write(name + ".conf", fmt::format("name: \"{1}\"\n"
                                      "local_socket: \"{2}\"\n"
                                      "{3}"
                                      "http: \"unix:{0}/{1}.http\"\n"
                                      "insecure_plaintext: true\n",
                                      kFolder, name, SocketOf(host), nics) +
                              agent);
    Start(name, "espalier-agent");
  }
  Await("all agents are up", [&] {
    std::string logs;
    for (int host = 0; host < hosts; ++host) logs += fmt::format(" {}/h{}.log", kLogs, host);
    return Shell(fmt::format("cat {} 2>/dev/null | grep -c to=synced; true", logs)) ==
           fmt::format("{}\n", hosts);
  });
}

void Daemons::Start(const std::string& name, const std::string& program) {
  processes_.push_back(std::make_unique<Process>(
      name, fmt::format("{}/{} --config {}/{}.conf", ESPALIER_PROGRAMS, program, kFolder, name)));
}

std::string Daemons::Operator(const std::string& words) {
  return Shell(fmt::format("{}/espalier {} --controller unix:{}/api.sock", ESPALIER_PROGRAMS, words,
                           kFolder));
}

std::string Daemons::Get(const std::string& target) {
  const auto answer = io::HttpFetch(fmt::format("unix:{}/api.sock", kFolder), "GET", target, "",
                                    std::chrono::seconds(30));
  EXPECT_TRUE(answer) << answer.error().message;
  return answer ? answer->body : "";
}

std::string Daemons::MetricsOf(int host) {
  const auto answer = io::HttpFetch(fmt::format("unix:{}/h{}.http", kFolder, host), "GET",
                                    "/metrics", "", std::chrono::seconds(30));
  EXPECT_TRUE(answer) << answer.error().message;
  return answer ? answer->body : "";
}

LeavesAvoidSpine::LeavesAvoidSpine(int spine) { UseAllBut(spine); }
LeavesAvoidSpine::~LeavesAvoidSpine() { UseAllBut(-1); }

void LeavesAvoidSpine::UseAllBut(int avoided) {
  for (int leaf = 0; leaf < 2; ++leaf) {
    std::string hops;
    for (int spine = 0; spine < kSpines; ++spine) {
      if (spine == avoided) continue;
      hops += fmt::format(" nexthop via 172.16.{}.{} dev s{}", leaf, 2 * spine + 1, spine);
    }
    Shell(fmt::format("ip -n leaf{} route replace 10.{}.0.0/16{}", leaf, 1 - leaf, hops));
  }
}

DeadSpine::DeadSpine(int spine, Drops drops) : rule_(fmt::format("ip -n spine{} rule ", spine)) {
  std::string from;
  if (drops == Drops::kFromFirstLeaf) from = "iif l0 ";
  if (drops == Drops::kFromSecondLeaf) from = "iif l1 ";
  Shell(rule_ + "add pref 1 " + from + "ipproto udp dport 4791 blackhole");
}

DeadSpine::~DeadSpine() { Shell(rule_ + "del pref 1"); }

}  // namespace espalier::rdma
