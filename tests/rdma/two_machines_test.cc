// Two RDMA machines replace two hosts of a lab, with unmodified programs, the shim and an agent in
// each. The lab's switches, its counters and the controller run on this machine.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/http/http_client.h"
#include "common/os/command.h"
#include "deploy/lab/ground_truth.h"
#include "deploy/lab/link_faults.h"
#include "tests/deploy/lab/lab_fixture.h"
#include "tests/temporary_folder.h"

namespace espalier {
namespace {

using lab::Lab;

constexpr const char* kStart = ESPALIER_SOURCE "/deploy/lab/rdma/start";
constexpr int kFrom = 0;  // the hosts that are machines
constexpr int kTo = 2;
constexpr std::int64_t kEnough = 200;  // packets
constexpr int kAgentPort = 9'181;      // of its metrics

void Await(const std::string& what, const std::function<bool()>& done,
           const std::function<std::string()>& why = nullptr) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(3);
  while (!done()) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << what << "\n" << (why ? why() : "");
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

ChildProcess Started(const Command& command) {
  auto child = ChildProcess::Start(command);
  if (!child) {
    ADD_FAILURE() << child.error().message;
    std::abort();
  }
  return std::move(*child);
}

// A machine that replaces a host and serves a shell on its management address.
class Machine {
 public:
  Machine(const Lab& lab, int host)
      : lab_(lab),
        host_(host),
        process_(
            Started({.argv = {fmt::format("{}/espalier", ESPALIER_PROGRAMS), "lab", "rdma",
                              "--name", lab.record().options.name, "--host",
                              fmt::format("h{}", host), "--time-limit", "850", "--", "busybox",
                              "nc", "-ll", "-p", std::to_string(kShellPort), "-e", "/bin/bash"}})) {
  }

  // Runs a shell command there and returns its output, with the exit code on the last line; empty
  // if the machine does not listen yet.
  std::string Run(const std::string& words) const {
    const auto answer =
        lab_.Run(lab::kControllerNode,
                 {"busybox", "nc", "-w", "20", lab_.layout().ManagementAddress(host_),
                  std::to_string(kShellPort)},
                 words + "\necho $?\nexit\n");
    return answer.value_or("");
  }
  // Starts a program there in the background, with its output in /run/<name>.log.
  void Start(const std::string& name, const std::string& words) const {
    const std::string done = Run(fmt::format(
        "setsid env {} >/run/{}.log 2>&1 </dev/null &\necho $! >/run/{}.pid", words, name, name));
    EXPECT_EQ(done, "0\n") << name;
  }
  void End(const std::string& name) {
    Run(fmt::format("kill -KILL $(cat /run/{0}.pid); wait", name));
    ++ended_;
  }
  int ended() const { return ended_; }  // number of killed programs
  bool IsUp() const { return Run("true") == "0\n"; }

 private:
  static constexpr int kShellPort = 7000;

  const Lab& lab_;
  int host_;
  int ended_ = 0;
  ChildProcess process_;
};

// Counts packets from one machine to the other since its construction, by source port and spine.
class Counts {
 public:
  explicit Counts(const Lab& lab) : lab_(lab), before_(Read()) {}

  using SpinesOfPort = std::map<std::uint16_t, std::map<std::string, std::int64_t>>;
  // The RoCE source ports with at least `enough` packets.
  SpinesOfPort Since(std::int64_t enough) const {
    SpinesOfPort spines;
    for (const lab::FlowCount& count : lab::Difference(before_, Read())) {
      if (count.source != AddressOf(kFrom) || count.destination != AddressOf(kTo)) continue;
      if (count.source_port < 0xC000 || count.packets < enough) continue;
      spines[count.source_port][count.spine] += count.packets;
    }
    return spines;
  }

 private:
  IpAddress AddressOf(int host) const { return *IpAddress::Parse(lab_.layout().NicAddress(host)); }
  std::vector<lab::FlowCount> Read() const {
    auto counts = lab::ReadFlowCounts(lab_);
    EXPECT_TRUE(counts.has_value());
    return counts.value_or(std::vector<lab::FlowCount>());
  }

  const Lab& lab_;
  std::vector<lab::FlowCount> before_;
};

// Runs ib_write_bw from one machine to the other through the shim, without end.
class Stream {
 public:
  static constexpr int kUnderWay =
      4 * 8192 / 1024;  // packets: posted writes divided by the path MTU

  // With announced_bytes the flow is announced, so that its port is chosen before it begins.
  Stream(Machine& from, Machine& to, const Lab& lab, int number, int announced_bytes)
      : from_(from), to_(to), name_(fmt::format("stream{}", number)), port_(18600 + number) {
    const std::string words = fmt::format(
        "LD_PRELOAD={} ESPALIER_VERBS_VERBOSE=1 ESPALIER_VERBS_ANNOUNCE_BYTES={} "
        "ESPALIER_VERBS_WAIT_MS=60000 stdbuf -oL ib_write_bw -d rxe0 -x 1 -F -m 1024 -t 4 -s 8192 "
        "--run_infinitely -D 2 -p {}",
        ESPALIER_VERBS_SHIM, announced_bytes, port_);
    to_.Start(name_, words);
    Await("it listens",
          [&] { return to_.Run(fmt::format("ss -Hltn sport = :{} | grep -q .", port_)) == "0\n"; });
    from_.Start(name_, fmt::format("{} {}", words, lab.layout().ManagementAddress(kTo)));
  }
  ~Stream() {
    from_.End(name_);
    to_.End(name_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // The port in the shim's log.
  std::uint16_t Port() const {
    const std::string words = from_.Run(
        fmt::format("sed -nE 's/.*port ([0-9]+)(: done)?$/\\1/p' /run/{}.log | tail -n 1", name_));
    return static_cast<std::uint16_t>(std::atoi(words.c_str()));
  }

 private:
  Machine& from_;
  Machine& to_;
  std::string name_;
  int port_;
};

class RdmaMachines : public testing::Test {
 protected:
  // Two of the lab's four hosts are machines.
  void SetUp() override {
    const auto fetched = RunCommand({.argv = {kStart, "--fetch"}});
    ASSERT_TRUE(fetched.has_value()) << fetched.error().message;
    if (fetched->exit_code == 77) GTEST_SKIP() << fetched->err;
    ASSERT_EQ(fetched->exit_code, 0) << fetched->err;
    if (::access("/dev/net/tun", R_OK | W_OK) != 0) GTEST_SKIP() << "there is no /dev/net/tun";
    lab_owner_ = std::make_unique<lab::TestLab>(lab::LabOptions{.leaves = 2, .hosts_per_leaf = 2});
    if (lab_owner_->IsForbidden()) GTEST_SKIP() << lab_owner_->error().message;
    ASSERT_NE(lab_owner_->get(), nullptr) << lab_owner_->error().message;
    from_ = std::make_unique<Machine>(the_lab(), kFrom);
    to_ = std::make_unique<Machine>(the_lab(), kTo);
    Await("the machines are up", [&] { return from_->IsUp() && to_->IsUp(); });
    // Programs connect over the management network, which the lab does not route between hosts.
    ASSERT_TRUE(
        the_lab().Run(lab::kControllerNode, {"sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"}));
    const auto way_to = [&](int host) {
      return fmt::format("ip route add {} via {} dev mgmt0",
                         the_lab().layout().ManagementAddress(host),
                         lab::LabLayout::ControllerAddress());
    };
    ASSERT_EQ(from_->Run(way_to(kTo)), "0\n");
    ASSERT_EQ(to_->Run(way_to(kFrom)), "0\n");
  }
  void TearDown() override {
    processes_.clear();
    to_.reset();
    from_.reset();
  }

  const Lab& the_lab() const { return *lab_owner_->get(); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(File(name)) << text;
  }
  std::string File(const std::string& name) const { return folder_.path() + "/" + name; }

  // Starts the controller, an agent in each machine and one in each other host of the lab.
  void StartDaemons() {
    Write("controller.conf",
          fmt::format("topology_file: \"{}\"\nlisten: \"tcp://{}:7400\"\nstate_file: \"{}\"\n"
                      "http: \"unix:{}\"\ninsecure_plaintext: true\n"
                      "hash_ignores_protocol: true\n",
                      the_lab().topology_file(), lab::LabLayout::ControllerAddress(),
                      File("store.db"), File("api.sock")));
    StartHere(lab::kControllerNode, "espalier-controller", "controller");
    for (int host = 0; host < the_lab().layout().HostCount(); ++host) {
      const std::string name = fmt::format("h{}", host);
      Write(name + ".conf",
            fmt::format("name: \"{0}\"\ncontroller: \"tcp://{1}:7400\"\nnic: \"eth0\"\n"
                        "local_socket: \"/run/espalier/{0}.sock\"\n"
                        "insecure_plaintext: true\n",
                        name, lab::LabLayout::ControllerAddress()));
      if (host == kFrom || host == kTo) {
        const Machine& machine = host == kFrom ? *from_ : *to_;
        // Its metrics count the datagrams of probe trains.
        std::ofstream(File(name + ".conf"), std::ios::app)
            << fmt::format("http: \"127.0.0.1:{}\"\n", kAgentPort);
        machine.Start("agent", fmt::format("{}/espalier-agent --config {}", ESPALIER_PROGRAMS,
                                           File(name + ".conf")));
      } else {
        StartHere(name, "espalier-agent", name);
      }
    }
    Await(
        "all agents are up",
        [&] { return Get("/api/v1/status").find("\"agents_connected\":4") != std::string::npos; },
        [&] { return Logs(); });
  }
  void StartHere(const std::string& node, const std::string& program, const std::string& name) {
    const auto command = the_lab().MakeCommand(
        node, {"sh", "-c", "exec \"$0\" --config \"$1\" </dev/null >\"$2\" 2>&1",
               fmt::format("{}/{}", ESPALIER_PROGRAMS, program), File(name + ".conf"),
               File(name + ".log")});
    ASSERT_TRUE(command.has_value()) << command.error().message;
    processes_.push_back(Started(*command));
  }
  // Starts traffic of the lab's other two hosts, so that their agents can check a link.
  void StartOtherTraffic() {
    Write("work.json", R"({"flows": [{"id": "other", "source": "h1", "destination": "h3",
           "bytes": 500000000, "protocol": "udp", "rate_bps": 2000000}]})");
    processes_.push_back(
        Started({.argv = {fmt::format("{}/espalier", ESPALIER_PROGRAMS), "lab", "traffic", "--name",
                          the_lab().record().options.name, "--workload", File("work.json"),
                          "--agents", "--time-limit", "2000"}}));
  }

  std::string Get(const std::string& target) const {
    const auto response =
        io::HttpFetch("unix:" + File("api.sock"), "GET", target, "", std::chrono::seconds(10));
    return response ? response->body : "";
  }
  std::string Logs() const {
    std::string text = from_->Run("tail -n 5 /run/*.log") + to_->Run("tail -n 5 /run/*.log");
    const auto here = RunCommand({.argv = {"sh", "-c", "tail -n 5 " + File("*.log")}});
    return text + (here ? here->out : "") + Get("/api/v1/events") + Get("/api/v1/flows");
  }

  using Ports = std::map<std::uint16_t, std::string>;  // source port and its spine

  static void Print(const std::string& when, const Ports& ports) {
    fmt::print("{}:", when);
    for (const auto& [port, spine] : ports) fmt::print(" {} over {}", port, spine);
    fmt::print("\n");
  }

  // True if the controller's paths are those that the spines saw. (It may know only one flow.)
  bool IsPlanned(const Ports& ports) const {
    const auto flows = RunCommand({.argv = {fmt::format("{}/espalier", ESPALIER_PROGRAMS), "flows",
                                            "--controller", "unix:" + File("api.sock")}});
    return flows && std::ranges::all_of(ports, [&](const auto& port) {
             return std::regex_search(
                 flows->out, std::regex(fmt::format("h{} +h{} +ROUTED +{} +{} ", kFrom, kTo,
                                                    port.second, port.first)));
           });
  }
  Ports AwaitPlannedPorts() const {
    Ports ports;
    Await(
        "they go apart, as planned",
        [&] {
          ports = AwaitTwoPorts();
          return AreApart(ports) && IsPlanned(ports);
        },
        [&] { return Logs(); });
    return ports;
  }

  // Soft RoCE silently drops packets with a wrong invariant CRC, and counts those that it accepts.
  // It also drops packets that are in flight to a queue pair when its program is killed. All other
  // datagrams that arrive are probes: those of trains, at most as many as the agent has counted
  // (which counts TCP, too), of which the last ones may wait in its socket.
  static void ExpectAllTaken(const Machine& machine) {
    const std::string counts = machine.Run(fmt::format(
        "exec 3<>/dev/tcp/127.0.0.1/{}; printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3; "
        "awk '/^Udp: [0-9]/ {{print $2}}' /proc/net/snmp; "
        "cat /sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts; "
        "awk '/^espalier_agent_train_packets_arrived_total/ {{print $2}}' <&3",
        kAgentPort));
    long long arrived = -1;
    long long taken = -2;
    long long of_trains = -1;
    std::istringstream(counts) >> arrived >> taken >> of_trains;
    const long long under_way = Stream::kUnderWay * machine.ended();
    EXPECT_GT(of_trains, 0) << counts;
    EXPECT_LE(taken, arrived) << counts;
    // A machine without processor time drops some, as queues fill; a wrong CRC drops all of a port.
    EXPECT_LE(arrived - taken - of_trains, under_way + arrived / 10) << counts;
    EXPECT_GE(taken, kEnough + under_way);
    fmt::print(
        "{} datagrams arrived, {} were taken; {} packets of trains; {} programs were killed\n",
        arrived, taken, of_trains, machine.ended());
  }

  // The spine of each of the programs' ports, once two ports have sent enough, each over a single
  // spine; else none.
  std::optional<Ports> TwoPorts(const Counts& counts) const {
    Ports spine_of;
    for (const auto& [port, spines] : counts.Since(kEnough)) {
      if (spines.size() != 1) return std::nullopt;
      spine_of[port] = spines.begin()->first;
    }
    if (spine_of.size() != 2) return std::nullopt;
    return spine_of;
  }
  // Waits for that, counting from now on.
  Ports AwaitTwoPorts() const {
    Ports found;
    auto counts = std::make_unique<Counts>(the_lab());
    int looks = 0;
    Await(
        "two write",
        [&] {
          if (auto ports = TwoPorts(*counts)) {
            found = std::move(*ports);
            return true;
          }
          // Restarts the count, to drop packets that were in flight before or of flows that moved.
          if (++looks % 25 == 0) counts = std::make_unique<Counts>(the_lab());
          return false;
        },
        [&] { return Logs(); });
    return found;
  }
  static bool AreApart(const Ports& spine_of) {
    return spine_of.size() == 2 && spine_of.begin()->second != spine_of.rbegin()->second;
  }

  TemporaryFolder folder_;
  std::unique_ptr<lab::TestLab> lab_owner_;
  std::unique_ptr<Machine> from_;
  std::unique_ptr<Machine> to_;
  std::vector<ChildProcess> processes_;
};

// Two programs collide by the switches' hash. Then agents and a controller start; it learns by
// probes which port takes which path, and moves one program. A far link fails without a report. It
// is detected, the program on it stops (soft RoCE cannot move it), and after a restart the program
// takes another path.
TEST_F(RdmaMachines, SteerProgramsApartAndOffADeadFarLink) {
  const auto stream = [&](int number, int announced_bytes) {
    return std::make_unique<Stream>(*from_, *to_, the_lab(), number, announced_bytes);
  };
  auto first = stream(1, 0);
  auto second = stream(2, 0);
  for (int tries = 0; AreApart(AwaitTwoPorts()); ++tries) {
    ASSERT_LT(tries, 50);
    fmt::print("apart by themselves, again\n");
    second.reset();  // a new queue pair has another number and therefore another port
    second = stream(2, 0);
  }
  StartDaemons();
  StartOtherTraffic();
  Ports ports = AwaitPlannedPorts();
  Print("steered apart", ports);

  ASSERT_TRUE(ports.contains(first->Port())) << first->Port();
  const std::string dead_spine = ports[first->Port()];
  const std::string link = "leaf1--" + dead_spine;
  ASSERT_TRUE(lab::FailLink(the_lab(), link).value_or(false));
  Await(
      "the hosts find it",
      [&] {
        return Get("/api/v1/events").find(fmt::format("link={} why=tests", link)) !=
               std::string::npos;
      },
      [&] { return Logs(); });
  first.reset();
  first = stream(1, 1 << 20);
  ports = AwaitPlannedPorts();
  Print(link + " is dead", ports);
  for (const auto& [port, spine] : ports) EXPECT_NE(spine, dead_spine) << port;

  first.reset();
  second.reset();
  for (const Machine* machine : {from_.get(), to_.get()}) ExpectAllTaken(*machine);
}

}  // namespace
}  // namespace espalier
