// The DPDK datapath between a soft RoCE device and its leaf: it changes the source port of the
// device's packets and keeps their invariant CRC correct, unknown to the program and the device.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/rdma/daemons.h"
#include "tests/rdma/rdma_machine.h"
#include "tests/rdma/spines.h"

namespace espalier {
namespace {

using rdma::Await;
using rdma::Capture;
using rdma::Daemons;
using rdma::Process;
using rdma::Shell;
using rdma::Spines;

constexpr int kFrom = 0;
constexpr int kTo = 2;
constexpr int kEnough = 300;

// Runs espalier-dpdk between a host's interface and its leaf, in a separate namespace. Its
// destructor connects them directly again.
class Bump {
 public:
  explicit Bump(int host)
      : host_(host),
        leaf_(host / rdma::kHostsPerLeaf),
        node_(fmt::format("bump{}", host)),
        port_(fmt::format("h{}", host % rdma::kHostsPerLeaf)) {
    Shell(
        fmt::format("ip netns add {0} && ip -n leaf{1} link set {2} netns {0} &&"
                    " ip -n {0} link set {2} name to_host mtu 4500 up &&"
                    " ip -n {0} link add to_leaf mtu 4500 type veth peer name {2} netns leaf{1} &&"
                    " ip -n {0} link set to_leaf up",
                    node_, leaf_, port_));
    Connect();
    std::ofstream(fmt::format("/run/{}.conf", node_))
        << R"(
      eal: "--lcores=(0-1)@0" eal: "--no-huge" eal: "-m" eal: "200" eal: "--no-pci"
      eal: "--no-shconf" eal: "--no-telemetry"
      eal: "--vdev=net_af_packet0,iface=to_host,framesz=8192,blocksz=65536,framecnt=256"
      eal: "--vdev=net_af_packet1,iface=to_leaf,framesz=8192,blocksz=65536,framecnt=256"
      host_port: "net_af_packet0" fabric_port: "net_af_packet1" idle_sleep_us: 500
)"
        << fmt::format("http: \"unix:/run/{}.http\" agent_socket: \"{}\"\n", node_,
                       rdma::SocketOf(host));
    datapath_ = std::make_unique<Process>(
        node_, fmt::format("ip netns exec {0} {1}/espalier-dpdk --config /run/{0}.conf", node_,
                           ESPALIER_PROGRAMS));
    Await("the datapath is ready", [this] {
      return Shell(fmt::format("grep -sc event=ready /run/logs/{}.log; true", node_)) == "1\n";
    });
  }
  ~Bump() {
    datapath_.reset();
    Shell(
        fmt::format("ip -n {0} link del to_leaf && ip -n {0} link set to_host down &&"
                    " ip -n {0} link set to_host name {2} netns leaf{1} && ip netns del {0}",
                    node_, leaf_, port_));
    Connect();
  }
  Bump(const Bump&) = delete;
  Bump& operator=(const Bump&) = delete;

  bool Lives() { return datapath_->Lives(); }

 private:
  // Gives the leaf's new interface the settings of the old one, and flushes the host's neighbours.
  void Connect() const {
    Shell(
        fmt::format("ip -n leaf{0} addr add 10.{0}.{1}.0/31 dev {2} &&"
                    " ip -n leaf{0} addr add fd00:10:{0}:{1}::/127 dev {2} &&"
                    " ip -n leaf{0} link set {2} up mtu 4500 && ip neigh flush dev h{3}",
                    leaf_, host_ % rdma::kHostsPerLeaf, port_, host_));
    Await("the device is up", [this] {
      return Shell(fmt::format("cat /sys/class/infiniband/rxe{}/ports/1/state", host_)) ==
             "4: ACTIVE\n";
    });
  }

  const int host_;
  const int leaf_;
  const std::string node_;
  const std::string port_;  // of the leaf
  std::unique_ptr<Process> datapath_;
};

// Runs ib_write_bw, or ib_read_bw, without the shim, without end.
class Stream {
 public:
  explicit Stream(std::string program = "ib_write_bw") : program_(std::move(program)) {
    server_ = Start(kTo, "");
    Shell("until ss -Hltn sport = :18620 | grep -q .; do sleep 0.1; done");
    client_ = Start(kFrom, "127.0.0.1");
  }
  bool Lives() { return client_->Lives() && server_->Lives(); }
  // Stops it from posting; posted writes continue.
  void Pause() { client_->Signal(SIGSTOP); }

 private:
  std::unique_ptr<Process> Start(int host, const std::string& server) const {
    const auto address = rdma::RoceAddressOf(host, false);
    return std::make_unique<Process>(
        fmt::format("unshimmed{}", host),
        fmt::format("{} -d {} -x {} -F -t 2 -s 65536 --run_infinitely -D 2 -p 18620 {}", program_,
                    address.device, address.gid_index, server));
  }

  std::string program_;
  std::unique_ptr<Process> server_;
  std::unique_ptr<Process> client_;
};

// The path and port that the controller has decided for the flow.
struct Route {
  int spine = -1;
  std::uint16_t port = 0;

  bool operator==(const Route& other) const { return spine == other.spine && port == other.port; }
};

std::optional<Route> PlannedRoute(int from = kFrom, int to = kTo) {
  const std::regex row(fmt::format("h{} +h{} +ROUTED +spine([0-9]+) +([0-9]+) ", from, to));
  const std::string flows = Daemons::Operator("flows");
  std::smatch found;
  if (!std::regex_search(flows, found, row)) return std::nullopt;
  return Route{.spine = std::stoi(found[1]),
               .port = static_cast<std::uint16_t>(std::stoi(found[2]))};
}

// Captures the flow's writes at an interface.
class Writes {
 public:
  Writes(const std::string& node, const std::string& interface) : capture_(node, interface) {}

  void Look() {
    for (const rdma::Packet& packet : capture_.Take()) {
      if (!packet.IsWrite() || packet.source != rdma::AddressOfHost(kFrom, false) ||
          packet.destination != rdma::AddressOfHost(kTo, false)) {
        continue;
      }
      ++packets_;
      ports_.insert(packet.source_port);
    }
  }
  void Clear() {
    Look();
    packets_ = 0;
    ports_.clear();
  }
  int packets() const { return packets_; }
  const std::set<std::uint16_t>& ports() const { return ports_; }

 private:
  Capture capture_;
  int packets_ = 0;
  std::set<std::uint16_t> ports_;
};

// Counts the RoCE packets that arrive at a host and those that soft RoCE accepts there. It silently
// drops packets with a wrong invariant CRC and counts the others after checking it.
class Arrivals {
 public:
  // No packets may be in flight yet.
  Arrivals(int from, int to)
      : from_(from), to_(to), capture_("", fmt::format("h{}", to)), before_(Read("rcvd_pkts")) {}

  void Look() {
    for (const rdma::Packet& packet : capture_.Take()) {
      if (packet.source == rdma::AddressOfHost(from_, false) &&
          packet.destination == rdma::AddressOfHost(to_, false)) {
        ++arrived_;
      }
    }
  }
  std::int64_t arrived() const { return arrived_; }
  std::int64_t taken() const { return Read("rcvd_pkts") - before_; }
  std::int64_t Read(const std::string& counter) const {
    return std::stoll(
        Shell(fmt::format("cat /sys/class/infiniband/rxe{}/ports/1/hw_counters/{}", to_, counter)));
  }

 private:
  int from_;
  int to_;
  Capture capture_;
  std::int64_t before_;
  std::int64_t arrived_ = 0;
};

// The captures along the flow's path, from the device on.
struct View {
  Writes before{"", "h0"};
  Writes behind{"leaf0", "h0"};
  Spines spines;
  Arrivals requests{kFrom, kTo};
  Arrivals acknowledgements{kTo, kFrom};

  void Look() {
    before.Look();
    behind.Look();
    spines.Look();
    requests.Look();
    acknowledgements.Look();
  }

  // Captures from scratch until `enough` packets have passed each place.
  void See(int enough) {
    before.Clear();
    behind.Clear();
    spines.Clear();
    Await("the program writes", [&] {
      Look();
      return before.packets() >= enough && behind.packets() >= enough &&
             spines.PacketsOf(kFrom) >= enough;
    });
  }
  // True if all captured packets follow the route.
  bool Follows(const Route& route) {
    const std::set<std::uint16_t> planned = {route.port};
    return behind.ports() == planned && spines.OnlySpineOf(kFrom) == route.spine &&
           spines.at(route.spine, kFrom).ports == planned;
  }
};

// Waits until the datapath follows the controller's decision, which must not use spine `avoided`.
Route AwaitRoute(View& view, int avoided) {
  Route route;
  Await("packets follow the plan", [&] {
    const auto planned = PlannedRoute();
    if (!planned || planned->spine == avoided) return false;
    route = *planned;
    view.See(kEnough);
    return view.Follows(route);
  });
  return route;
}

// Expects all packets after the datapath to follow the route.
void ExpectPlanned(View& view, const Route& route) {
  view.See(4 * kEnough);
  EXPECT_TRUE(view.Follows(route));
  EXPECT_EQ(PlannedRoute(), route) << Daemons::Operator("flows");
  // The device still sends from its own port.
  ASSERT_EQ(view.before.ports().size(), 1U);
  EXPECT_NE(*view.before.ports().begin(), route.port);
  fmt::print("port {} became {} over spine{} in {} packets\n", *view.before.ports().begin(),
             route.port, route.spine, view.behind.packets());
}

// Expects that every request and acknowledgement that arrived was accepted. With no packets in
// flight, both counts are equal.
void ExpectAllTaken(View& view) {
  constexpr int kQuietLooks = 50;
  std::int64_t last = -1;
  int quiet = 0;
  const auto seen = [&] { return view.requests.arrived() + view.acknowledgements.arrived(); };
  Await("nothing is on its way", [&] {
    view.Look();
    quiet = seen() == last ? quiet + 1 : 0;
    last = seen();
    return quiet >= kQuietLooks;
  });
  EXPECT_EQ(view.requests.arrived(), view.requests.taken());
  EXPECT_EQ(view.acknowledgements.arrived(), view.acknowledgements.taken());
  fmt::print("{} requests and {} acknowledgements came and were taken; {} duplicates, {} gaps\n",
             view.requests.arrived(), view.acknowledgements.arrived(),
             view.requests.Read("duplicate_request"), view.requests.Read("out_of_seq_request"));
}

TEST(RdmaDpdk, LongRewritesWhatADeviceSends) {
  Bump bump(kFrom);
  const Daemons daemons;
  Shell("busybox ping -c 1 -W 10 -I 10.0.0.1 10.1.0.1 >/dev/null");
  View view;
  Stream stream;
  const Route first = AwaitRoute(view, -1);
  ExpectPlanned(view, first);
  Shell("busybox ping -c 1 -W 10 -I 10.0.0.1 10.1.0.1 >/dev/null");
  // The far link fails: the leaf does not notice and continues to hash over all spines.
  Daemons::Operator(fmt::format("fail link leaf1--spine{}", first.spine));
  const Route second = AwaitRoute(view, first.spine);
  EXPECT_NE(second.port, first.port);
  ExpectPlanned(view, second);
  EXPECT_EQ(view.spines.at(first.spine, kFrom).packets, 0);
  EXPECT_TRUE(stream.Lives() && bump.Lives());
  stream.Pause();
  ExpectAllTaken(view);
}

// True if the acknowledgements come back over the spine of the writes alone, from the port that the
// controller has chosen for the queue pair that sends them.
bool AnswersFollow(View& view, const Route& route) {
  const auto answers = PlannedRoute(kTo, kFrom);
  if (!answers || answers->spine != route.spine) return false;
  for (int spine = 0; spine < rdma::kSpines; ++spine) {
    if (spine != route.spine && view.spines.answers_at(spine, kFrom).packets > 0) return false;
  }
  return view.spines.answers_at(route.spine, kFrom).ports == std::set{answers->port};
}

Route AwaitBothWays(View& view, int avoided) {
  Await("the controller steers both directions", [&] {
    const auto writes = PlannedRoute();
    const auto answers = PlannedRoute(kTo, kFrom);
    return writes && answers && writes->spine == answers->spine && writes->spine != avoided;
  });
  Route route;
  Await("acknowledgements come back over the spine of their data", [&] {
    route = PlannedRoute().value_or(Route{});
    view.See(kEnough);
    return view.Follows(route) && AnswersFollow(view, route);
  });
  view.See(kEnough);
  EXPECT_TRUE(view.Follows(route) && AnswersFollow(view, route)) << Daemons::Operator("flows");
  fmt::print("writes from port {}, {} acknowledgements from port {}, over spine{}\n", route.port,
             view.spines.answers_at(route.spine, kFrom).packets,
             PlannedRoute(kTo, kFrom).value_or(Route{}).port, route.spine);
  return route;
}

// A datapath at each end. The receiving queue pair of ib_write_bw is never ready to send, so that
// nothing but a datapath can change the port of what it sends.
TEST(RdmaDpdk, LongSteersAcknowledgementsWithTheirData) {
  Bump sender(kFrom);
  Bump receiver(kTo);
  const Daemons daemons;
  Shell("busybox ping -c 1 -W 10 -I 10.0.0.1 10.1.0.1 >/dev/null");
  View view;
  Stream stream;
  const Route first = AwaitBothWays(view, -1);
  static const std::regex answering("\"answering\": *true");
  EXPECT_TRUE(std::regex_search(Daemons::Operator("flows --json"), answering));
  Daemons::Operator(fmt::format("fail link leaf1--spine{}", first.spine));
  const Route second = AwaitBothWays(view, first.spine);
  EXPECT_NE(second.spine, first.spine);
  EXPECT_EQ(view.spines.answers_at(first.spine, kFrom).packets, 0);
  EXPECT_TRUE(stream.Lives() && sender.Lives() && receiver.Lives());
  stream.Pause();
  ExpectAllTaken(view);
}

// The requests of reads at the spines, and the data that come back.
class Reads {
 public:
  Reads() {
    for (int spine = 0; spine < rdma::kSpines; ++spine) {
      captures_.emplace_back(fmt::format("spine{}", spine), "l0");
    }
  }
  // Captures from scratch until enough of both have passed.
  void See() {
    Look();
    requests_.clear();
    data_.clear();
    packets_ = 0;
    Await("the program reads", [&] {
      Look();
      return packets_ >= kEnough && !requests_.empty();
    });
  }
  bool Follow(const Route& requests, const Route& data) const {
    return requests_ == std::set{std::pair(requests.spine, requests.port)} &&
           data_ == std::set{std::pair(data.spine, data.port)};
  }

 private:
  void Look() {
    constexpr std::uint8_t kRequest = 0x0C;
    constexpr std::uint8_t kFirstData = 0x0D;
    constexpr std::uint8_t kLastData = 0x10;
    for (int spine = 0; spine < rdma::kSpines; ++spine) {
      for (const rdma::Packet& packet : captures_[static_cast<std::size_t>(spine)].Take()) {
        if (packet.opcode == kRequest) requests_.emplace(spine, packet.source_port);
        if (packet.opcode < kFirstData || packet.opcode > kLastData) continue;
        data_.emplace(spine, packet.source_port);
        ++packets_;
      }
    }
  }

  std::vector<Capture> captures_;
  std::set<std::pair<int, std::uint16_t>> requests_;  // spines and ports
  std::set<std::pair<int, std::uint16_t>> data_;
  int packets_ = 0;
};

// Reads: the requests answer data that the other host sends.
TEST(RdmaDpdk, LongSteersRequestsWithTheDataThatAreRead) {
  Bump reader(kFrom);
  Bump owner(kTo);
  const Daemons daemons;
  Shell("busybox ping -c 1 -W 10 -I 10.0.0.1 10.1.0.1 >/dev/null");
  Reads reads;
  Stream stream("ib_read_bw");
  int before = -1;
  for (int time = 0; time < 2; ++time) {
    Route data;
    Await("requests leave over the spine of their data", [&] {
      const auto planned = PlannedRoute(kTo, kFrom);
      const auto back = PlannedRoute(kFrom, kTo);
      if (!planned || !back || planned->spine == before || planned->spine != back->spine) {
        return false;
      }
      data = *planned;
      reads.See();
      return reads.Follow(*back, data);
    });
    fmt::print("data from port {} over spine{}\n", data.port, data.spine);
    before = data.spine;
    Daemons::Operator(fmt::format("fail link leaf0--spine{}", before));
  }
  EXPECT_TRUE(stream.Lives() && reader.Lives() && owner.Lives());
}

}  // namespace
}  // namespace espalier
