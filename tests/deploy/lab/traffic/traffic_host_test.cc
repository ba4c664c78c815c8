// Whole hosts over the loopback interface.
#include "deploy/lab/traffic/traffic_host.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "deploy/lab/traffic/endpoint.h"
#include "tests/deploy/lab/traffic/fake_agent.h"
#include "tests/temporary_folder.h"

namespace espalier::traffic {
namespace {

// Loopback addresses of this process alone, so that tests can run in parallel.
IpAddress Loopback(int host) {
  const auto process = static_cast<std::uint32_t>(::getpid()) & 0xFFFF;
  return IpAddress::FromV4(0x7F000000U | process << 8 | static_cast<std::uint32_t>(host));
}

class TrafficHostTest : public testing::Test {
 protected:
  void SetUp() override { ::setenv("ESPALIER_AGENT_SOCKET", Socket().c_str(), 1); }
  std::string Socket() const { return folder_.path() + "/agent.sock"; }

  // Runs the loop until Stop; fails after half a minute.
  void Run() {
    bool late = false;
    const TimerPtr limit = loop_.After(std::chrono::seconds(30), [&] {
      late = true;
      loop_.Stop();
    });
    loop_.Run();
    EXPECT_FALSE(late);
  }

  TemporaryFolder folder_;
  IpAddress source_ = Loopback(21);
  IpAddress destination_ = Loopback(22);
  io::AsioEventLoop loop_;
};

TEST_F(TrafficHostTest, TwoHostsRunARingAndASingleFlow) {
  Workload workload;
  workload.segment_bytes = 10'000;
  workload.flows = {{.id = "f", .source = "a", .destination = "b", .bytes = 55'000}};
  workload.jobs = {{.id = "J", .epochs = 3, .rings = {{.hosts = {"a", "b"}, .bytes = 30'000}}}};
  fabric::TopologySpec spec;
  spec.nodes = {{.id = "a", .addresses = {source_}}, {.id = "b", .addresses = {destination_}}};
  const auto topology = fabric::Topology::Build(spec);
  ASSERT_TRUE(topology.has_value());
  auto a = TrafficHost::Make(loop_, {.host = "a"}, workload, *topology);
  auto b = TrafficHost::Make(loop_, {.host = "b"}, workload, *topology);
  ASSERT_TRUE(a.has_value()) << a.error().message;
  ASSERT_TRUE(b.has_value()) << b.error().message;
  int done = 0;
  const auto on_done = [&] {
    if (++done == 2) loop_.Stop();
  };
  (*a)->Start(on_done);
  (*b)->Start(on_done);
  Run();
  const HostReport from_a = (*a)->Report();
  const HostReport from_b = (*b)->Report();
  ASSERT_EQ(from_a.sent.size(), 2U);
  ASSERT_EQ(from_b.sent.size(), 1U);
  EXPECT_EQ(from_a.sent[0].bytes, 55'000);
  EXPECT_EQ(from_a.sent[1].bytes, 3 * 30'000);
  EXPECT_EQ(from_b.received[0].bytes, 55'000);
  EXPECT_EQ(from_b.received[1].bytes, 3 * 30'000);
  EXPECT_EQ(from_b.received[1].segments, from_a.sent[1].segments);
  ASSERT_EQ(from_a.epochs.size(), 3U);
  for (int epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(from_a.epochs[static_cast<std::size_t>(epoch)].epoch, epoch);
  }
  EXPECT_FALSE(from_a.has_agent);
}

TEST_F(TrafficHostTest, BeginsEachFlowAtItsTimeAndAnnouncesThoseThatAreToBe) {
  Workload workload;
  workload.segment_bytes = 10'000;
  workload.flows = {
      {.id = "now", .source = "a", .destination = "b", .bytes = 20'000},
      {.id = "later", .source = "a", .destination = "b", .bytes = 20'000, .start_seconds = 0.05},
      {.id = "udp",
       .source = "a",
       .destination = "b",
       .bytes = 20'000,
       .protocol = Protocol::kUdp,
       .rate = BitsPerSecond{40'000'000},
       .start_seconds = 0.05},
      {.id = "unknown", .source = "a", .destination = "b", .bytes = 20'000, .announced = false}};
  std::atomic<std::size_t> announced = 0;
  std::set<std::uint16_t> ports;  // of announced flows, for the agent's thread
  std::optional<FakeAgent> agent;
  agent.emplace(Socket(), [&](const agent::FlowSample& flow) -> std::optional<wire::PathSet> {
    ports.insert(flow.source_port);
    announced = ports.size();
    return std::nullopt;
  });
  fabric::TopologySpec spec;
  spec.nodes = {{.id = "a", .addresses = {source_}}, {.id = "b", .addresses = {destination_}}};
  const auto topology = fabric::Topology::Build(spec);
  ASSERT_TRUE(topology.has_value());
  auto a = TrafficHost::Make(loop_, {.host = "a", .use_agent = true}, workload, *topology);
  auto b = TrafficHost::Make(loop_, {.host = "b"}, workload, *topology);
  ASSERT_TRUE(a.has_value()) << a.error().message;
  ASSERT_TRUE(b.has_value()) << b.error().message;
  // Ends when the sender is done and the agent has looked at three flows.
  bool is_done = false;
  TimerPtr poll;
  const std::function<void()> look = [&] {
    if (is_done && announced >= 3) return loop_.Stop();
    poll = loop_.After(std::chrono::milliseconds(1), look);
  };
  (*b)->Start([] {});
  (*a)->Start([&] { is_done = true; });
  look();
  Run();
  const HostReport report = (*a)->Report();
  a->reset();
  agent.reset();
  EXPECT_EQ(ports, (std::set{DrawPort(1, 0), DrawPort(1, 1), DrawPort(1, 2)}));
  std::map<std::uint32_t, SentFlow> sent;
  for (const SentFlow& flow : report.sent) sent[flow.index] = flow;
  ASSERT_EQ(sent.size(), 4U);
  for (const auto& [index, flow] : sent) EXPECT_GE(flow.bytes, 20'000) << index;
  constexpr std::int64_t kLaterNs = 50'000'000;
  EXPECT_GE(sent[1].start_ns, sent[0].start_ns + kLaterNs);
  EXPECT_GE(sent[2].start_ns, sent[0].start_ns + kLaterNs);
  EXPECT_LT(sent[3].start_ns, sent[1].start_ns);
}

TEST_F(TrafficHostTest, RefusesWhatItCannotDo) {
  Workload workload;
  workload.flows = {{.id = "f", .source = "a", .destination = "b", .bytes = 5}};
  fabric::TopologySpec spec;
  spec.nodes = {{.id = "a", .addresses = {source_}}};
  const auto topology = fabric::Topology::Build(spec);
  ASSERT_TRUE(topology.has_value());
  const auto unknown = TrafficHost::Make(loop_, {.host = "a"}, workload, *topology);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  const auto no_agent =
      TrafficHost::Make(loop_, {.host = "a", .use_agent = true}, workload, *topology);
  ASSERT_FALSE(no_agent.has_value());
  EXPECT_EQ(no_agent.error().code, ErrorCode::kUnavailable);
  const auto without = TrafficHost::Make(
      loop_, {.host = "a", .use_agent = true, .needs_agent = false}, workload, *topology);
  EXPECT_EQ(without.error().code, ErrorCode::kNotFound) << "it goes on to the flow's destination";
}

TEST(DrawPort, DrawsDifferentPortsForAllFlowsOfAWorkload) {
  for (const std::uint64_t seed : {0U, 1U, 99U}) {
    std::set<std::uint16_t> ports;
    for (std::uint32_t index = 0; index < kSourcePortCount; ++index) {
      const std::uint16_t port = DrawPort(seed, index);
      EXPECT_GE(port, kFirstSourcePort);
      ports.insert(port);
    }
    EXPECT_EQ(ports.size(), std::size_t{kSourcePortCount});
  }
  EXPECT_NE(DrawPort(1, 0), DrawPort(2, 0));
}

}  // namespace
}  // namespace espalier::traffic
