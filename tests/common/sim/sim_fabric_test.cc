#include "common/sim/sim_fabric.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "agent/sim/sim_host.h"
#include "common/fabric/builders.h"
#include "common/fabric/ecmp/path_predictor.h"
#include "common/sim/sim_world.h"

namespace espalier::sim {
namespace {

using namespace std::chrono_literals;
using fabric::LinkState;

// ---- The fabric

fabric::Topology MakeTopology(int spines, int leaves, int hosts) {
  auto spec = fabric::BuildLeafSpine({.spines = spines,
                                      .leaves = leaves,
                                      .hosts_per_leaf = hosts,
                                      .host_rate = {8'000'000'000},
                                      .fabric_rate = {8'000'000'000}})
                  .value();
  std::uint64_t seed = 1;
  for (fabric::Node& node : spec.nodes) {
    if (node.kind == fabric::NodeKind::kSwitch) node.ecmp = {"crc32", seed++};
  }
  return fabric::Topology::Build(std::move(spec)).value();
}

class SimFabricTest : public testing::Test {
 protected:
  IpAddress Address(int leaf, int host) const {
    const auto node = fabric_->topology().FindNode(fmt::format("h{}", leaf * 4 + host));
    return fabric_->topology().node(*node).addresses.front();
  }
  fabric::FlowTuple Tuple(int from_leaf, int from, int to_leaf, int to,
                          std::uint16_t port = 0xC000) const {
    return {.source = Address(from_leaf, from),
            .destination = Address(to_leaf, to),
            .source_port = port};
  }
  std::string SpineOf(const fabric::FlowTuple& tuple) {
    const SimFabric::Route route = fabric_->Trace(tuple);
    return route.hops.empty() ? "" : Name(fabric_->topology().To(route.hops.front()));
  }
  std::string Name(fabric::NodeId node) const { return fabric_->topology().node(node).id; }
  fabric::LinkId Link(const std::string& id) const {
    return fabric_->topology().FindLink(id).value();
  }
  // Returns a port with which the tuple passes this spine.
  std::uint16_t PortVia(fabric::FlowTuple tuple, const std::string& spine) {
    for (tuple.source_port = 0xC000; SpineOf(tuple) != spine;) ++tuple.source_port;
    return tuple.source_port;
  }
  Duration Elapsed() const { return world_.Now() - start_; }

  SimWorld world_{1};
  std::unique_ptr<EventLoop> loop_ = world_.MakeLoop();
  std::unique_ptr<SimFabric> fabric_ = SimFabric::Build(*loop_, MakeTopology(4, 4, 4)).value();
  TimePoint start_ = world_.Now();
};

constexpr std::uint64_t kSecondOfBytes = 1'000'000'000;  // at 8 Gbit/s
constexpr double kHalfASecondOfBytes = 5e8;
constexpr double kQuarterOfASecondOfBytes = 2.5e8;
constexpr double kFewBytes = 10;  // of the nanoseconds until a change takes effect

TEST_F(SimFabricTest, AFlowAloneTakesTheRateOfItsHost) {
  Duration ended{};
  const SimFlowId flow =
      fabric_->Start(Tuple(0, 0, 1, 0), kSecondOfBytes, [&] { ended = Elapsed(); });
  world_.RunFor(250ms);
  EXPECT_NEAR(static_cast<double>(fabric_->ProgressOf(flow).sent_bytes), kQuarterOfASecondOfBytes,
              kFewBytes);
  EXPECT_NEAR(static_cast<double>(fabric_->ProgressOf(flow).remaining_bytes),
              3 * kQuarterOfASecondOfBytes, kFewBytes);
  EXPECT_DOUBLE_EQ(fabric_->ProgressOf(flow).rate_bps, 8e9);
  world_.RunFor(10s);
  EXPECT_NEAR(std::chrono::duration<double>(ended).count(), 1.0, 1e-6);
  EXPECT_EQ(fabric_->ProgressOf(flow).remaining_bytes, 0u);
  fabric_->Stop(flow);
  EXPECT_EQ(fabric_->flow_count(), 0u);
}

TEST_F(SimFabricTest, FlowsThatCollideShareAndAreFastWhenAlone) {
  fabric::FlowTuple one = Tuple(0, 0, 1, 0);
  fabric::FlowTuple two = Tuple(0, 1, 1, 1);
  one.source_port = PortVia(one, "spine2");
  two.source_port = PortVia(two, "spine2");
  Duration one_ended{};
  Duration two_ended{};
  fabric_->Start(one, kSecondOfBytes, [&] { one_ended = Elapsed(); });
  const SimFlowId second = fabric_->Start(two, 2 * kSecondOfBytes, [&] { two_ended = Elapsed(); });
  world_.RunFor(1s);
  EXPECT_NEAR(fabric_->ProgressOf(second).rate_bps, 4e9, 1);
  EXPECT_EQ(std::ranges::max(fabric_->LinkFlows()), 2);
  world_.RunFor(10s);
  EXPECT_NEAR(std::chrono::duration<double>(one_ended).count(), 2.0, 1e-6);
  EXPECT_NEAR(std::chrono::duration<double>(two_ended).count(), 3.0, 1e-6);
}

TEST_F(SimFabricTest, ANewPortMovesAFlowAtOnce) {
  fabric::FlowTuple one = Tuple(0, 0, 1, 0);
  fabric::FlowTuple two = Tuple(0, 1, 1, 1);
  one.source_port = PortVia(one, "spine2");
  two.source_port = PortVia(two, "spine2");
  Duration ended{};
  fabric_->Start(one, 10 * kSecondOfBytes, [] {});
  const SimFlowId moved = fabric_->Start(two, kSecondOfBytes, [&] { ended = Elapsed(); });
  world_.RunFor(1s);  // half of it
  fabric_->SetSourcePort(moved, PortVia(two, "spine0"));
  world_.RunFor(5s);
  EXPECT_NEAR(std::chrono::duration<double>(ended).count(), 1.5, 1e-6);
}

TEST_F(SimFabricTest, AnotherHashSeedMovesFlowsAtOnce) {
  fabric::FlowTuple one = Tuple(0, 0, 1, 0);
  fabric::FlowTuple two = Tuple(2, 0, 1, 1);  // from a leaf whose hash stays
  one.source_port = PortVia(one, "spine2");
  two.source_port = PortVia(two, "spine2");
  const SimFlowId moved = fabric_->Start(one, 10 * kSecondOfBytes, [] {});
  fabric_->Start(two, 10 * kSecondOfBytes, [] {});
  world_.RunFor(1ms);
  EXPECT_EQ(std::ranges::max(fabric_->LinkFlows()), 2);
  EXPECT_NEAR(fabric_->ProgressOf(moved).rate_bps, 4e9, 1);
  const fabric::NodeId leaf = *fabric_->topology().FindNode("leaf0");
  for (std::uint64_t seed = 100; SpineOf(one) == "spine2"; ++seed) {
    ASSERT_LT(seed, 1000U);
    ASSERT_TRUE(fabric_->SetHashSeed(leaf, seed));
  }
  world_.RunFor(1ms);
  EXPECT_EQ(SpineOf(two), "spine2");
  EXPECT_EQ(std::ranges::max(fabric_->LinkFlows()), 1);
  EXPECT_NEAR(fabric_->ProgressOf(moved).rate_bps, 8e9, 1);
  EXPECT_EQ(fabric_->SetHashSeed(leaf, std::uint64_t{1} << 32U).error().code,
            ErrorCode::kInvalidArgument);
}

TEST_F(SimFabricTest, ASwitchAvoidsItsOwnDeadLinkButNotOneFurtherOn) {
  fabric::FlowTuple tuple = Tuple(0, 0, 1, 0);
  tuple.source_port = PortVia(tuple, "spine1");
  Duration ended{};
  const SimFlowId flow = fabric_->Start(tuple, kSecondOfBytes, [&] { ended = Elapsed(); });
  world_.RunFor(500ms);
  fabric_->SetLink(Link("leaf1--spine1"), LinkState::kDown);  // far from the source
  world_.RunFor(500ms);
  EXPECT_TRUE(fabric_->ProgressOf(flow).stands_still);
  EXPECT_EQ(fabric_->ProgressOf(flow).rate_bps, 0);
  EXPECT_NEAR(static_cast<double>(fabric_->ProgressOf(flow).sent_bytes), kHalfASecondOfBytes,
              kFewBytes);
  EXPECT_EQ(SpineOf(tuple), "spine1");

  fabric_->SetLink(Link("leaf0--spine1"), LinkState::kDown);  // the source's own
  world_.RunFor(250ms);
  EXPECT_NE(SpineOf(tuple), "spine1");
  EXPECT_FALSE(fabric_->ProgressOf(flow).stands_still);
  world_.RunFor(10s);
  EXPECT_NEAR(std::chrono::duration<double>(ended).count(), 1.5, 1e-6);

  fabric_->SetLink(Link("leaf0--spine1"), LinkState::kUp);
  fabric_->SetLink(Link("leaf1--spine1"), LinkState::kUp);
  EXPECT_EQ(SpineOf(tuple), "spine1");
}

TEST_F(SimFabricTest, AHostWithoutLinkSendsNothing) {
  fabric_->SetLink(Link("h0--leaf0"), LinkState::kDown);
  EXPECT_TRUE(fabric_->Trace(Tuple(0, 0, 1, 0)).hops.empty());
  EXPECT_FALSE(fabric_->Trace(Tuple(1, 0, 0, 0)).arrives);
  EXPECT_TRUE(fabric_->Trace(Tuple(0, 1, 0, 2)).arrives);
}

TEST_F(SimFabricTest, EmptyAndStoppedFlowsEndToo) {
  bool empty_done = false;
  fabric_->Start(Tuple(0, 0, 1, 0), 0, [&] { empty_done = true; });
  const SimFlowId stopped = fabric_->Start(Tuple(0, 0, 1, 0), 1, [] { FAIL(); });
  fabric_->Stop(stopped);
  world_.RunFor(1s);
  EXPECT_TRUE(empty_done);
}

TEST_F(SimFabricTest, RoutesAreThoseOfThePathPredictor) {
  const fabric::Topology topology = MakeTopology(4, 4, 4);
  fabric::PathTable paths(topology);
  auto predictor = fabric::PathPredictor::Build(topology, paths).value();
  Random random(3);
  for (int i = 0; i < 2000; ++i) {
    const int from = static_cast<int>(random.Below(4));
    const int to = (from + 1 + static_cast<int>(random.Below(3))) % 4;
    const fabric::FlowTuple tuple =
        Tuple(from, static_cast<int>(random.Below(4)), to, static_cast<int>(random.Below(4)),
              static_cast<std::uint16_t>(0xC000 + random.Below(16'384)));
    const auto source = *topology.FindNic(tuple.source);
    const auto destination = *topology.FindNic(tuple.destination);
    const auto path = predictor.Predict(tuple, source, destination);
    ASSERT_TRUE(path);
    const auto between =
        paths.Between(paths.FindAttachment(source)->leaf, paths.FindAttachment(destination)->leaf);
    EXPECT_TRUE(std::ranges::equal(fabric_->Trace(tuple).hops, between[path->Index()].hops));
  }
}

TEST(SimFabric, NeedsAHashForEverySwitch) {
  SimWorld world(1);
  const auto loop = world.MakeLoop();
  auto spec = fabric::BuildLeafSpine({}).value();
  const auto none = SimFabric::Build(*loop, fabric::Topology::Build(spec).value());
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kInvalidArgument);
  for (fabric::Node& node : spec.nodes) {
    if (node.kind == fabric::NodeKind::kSwitch) node.ecmp = {"no such hash", 0};
  }
  const auto unknown = SimFabric::Build(*loop, fabric::Topology::Build(spec).value());
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
}

// ---- Hosts

class SimHostTest : public SimFabricTest {
 protected:
  fabric::NodeId Nic(const std::string& id) const { return *fabric_->topology().FindNode(id); }

  SimHost host_{*fabric_, *loop_, Nic("h0")};
};

TEST_F(SimHostTest, ShowsItsFlowsAndTheirProgress) {
  int changes = 0;
  int done = 0;
  host_.OnChange([&] { ++changes; });
  const auto first = host_.Open({Address(1, 0), kSecondOfBytes, "job", 0xC001, 1, [&] { ++done; }});
  const auto second = host_.Open({Address(2, 0), kSecondOfBytes, "job", 0xC002, 1, {}});
  EXPECT_EQ(changes, 0);  // posted
  world_.RunFor(1s);
  EXPECT_GE(changes, 1);
  const auto flows = host_.Flows();
  ASSERT_EQ(flows.size(), 2u);
  EXPECT_EQ(flows[0].id, first);
  EXPECT_EQ(flows[1].id, second);
  EXPECT_EQ(flows[0].source_port, 0xC001);
  EXPECT_NEAR(static_cast<double>(flows[0].sent_bytes), kHalfASecondOfBytes, kFewBytes);
  EXPECT_NEAR(static_cast<double>(flows[0].remaining_bytes), kHalfASecondOfBytes, kFewBytes);
  EXPECT_EQ(flows[0].job, "job");
  host_.Close(second);
  changes = 0;
  world_.RunFor(10s);
  EXPECT_EQ(done, 1);
  EXPECT_GE(changes, 1);
  EXPECT_TRUE(host_.Flows().empty());
}

TEST_F(SimHostTest, AppliesAndClearsPorts) {
  const auto flow = host_.Open({Address(1, 0), kSecondOfBytes, "", 0xC001, 1, {}});
  ASSERT_TRUE(host_.Apply({.flow = flow, .paths = {{.source_port = 0xC123}}}));
  EXPECT_EQ(host_.Flows().front().source_port, 0xC123);
  ASSERT_TRUE(host_.Clear(flow));
  EXPECT_EQ(host_.Flows().front().source_port, 0xC001);
  host_.Close(flow);
  EXPECT_EQ(host_.Apply({.flow = flow, .paths = {{.source_port = 1}}}).error().code,
            ErrorCode::kNotFound);
  EXPECT_EQ(host_.Clear(flow).error().code, ErrorCode::kNotFound);
}

TEST_F(SimHostTest, ProbesAreAnsweredHopByHop) {
  std::vector<agent::ProbeReply> replies;
  host_.OnReply([&](const agent::ProbeReply& reply) { replies.push_back(reply); });
  const fabric::FlowTuple tuple = Tuple(0, 0, 2, 1, 0xC777);
  const SimFabric::Route route = fabric_->Trace(tuple);
  for (const std::uint8_t ttl : std::to_array<std::uint8_t>({4, 3, 2, 1})) {
    ASSERT_TRUE(host_.Send({.source = tuple.source,
                            .destination = tuple.destination,
                            .source_port = tuple.source_port,
                            .ttl = ttl}));
  }
  EXPECT_TRUE(replies.empty());
  world_.RunFor(1s);
  ASSERT_EQ(replies.size(), 4u);
  const auto interface_of = [&](std::size_t i) {
    return fabric_->topology().FindInterface(replies[i].responder).value();
  };
  EXPECT_EQ(Name(interface_of(0).node), "leaf0");
  EXPECT_EQ(interface_of(1).link, route.hops[0].link);
  EXPECT_EQ(interface_of(1).node, fabric_->topology().To(route.hops[0]));
  EXPECT_EQ(interface_of(2).link, route.hops[1].link);
  EXPECT_EQ(Name(interface_of(2).node), "leaf2");
  EXPECT_EQ(replies[3].responder, tuple.destination);
  EXPECT_TRUE(replies[3].from_destination);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(replies[i].ttl, i + 1);
    EXPECT_EQ(replies[i].source_port, 0xC777);
    EXPECT_EQ(replies[i].from_destination, i == 3);
  }
}

TEST_F(SimHostTest, ADroppedProbeHasNoAnswer) {
  std::vector<agent::ProbeReply> replies;
  host_.OnReply([&](const agent::ProbeReply& reply) { replies.push_back(reply); });
  fabric::FlowTuple tuple = Tuple(0, 0, 1, 0);
  tuple.source_port = PortVia(tuple, "spine3");
  fabric_->SetLink(Link("leaf1--spine3"), LinkState::kDown);
  for (const std::uint8_t ttl : std::to_array<std::uint8_t>({2, 3, 64})) {
    ASSERT_TRUE(host_.Send({.source = tuple.source,
                            .destination = tuple.destination,
                            .source_port = tuple.source_port,
                            .ttl = ttl}));
  }
  world_.RunFor(1s);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].ttl, 2);
  EXPECT_EQ(host_.Send({.source = tuple.destination}).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace espalier::sim
