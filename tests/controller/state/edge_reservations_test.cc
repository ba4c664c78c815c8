// Reservations of forest edges, without the rest of the controller.
#include "controller/state/edge_reservations.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/fabric/builders.h"
#include "controller/routing/assignment.h"

namespace espalier::controller {
namespace {

constexpr std::uint16_t kEdgePort = 0xC000;
constexpr std::uint64_t kFirstNumber = std::uint64_t{1} << 63U;

class Edges : public testing::Test {
 protected:
  // From h0 to h1.
  EdgeReservation Edge(const std::string& job, std::int32_t path, std::int64_t load) {
    const fabric::PortKey key{.source = Node("h0"), .destination = Node("h1")};
    flow_paths_.TakePort(key, kEdgePort);
    return {.job = flows_.JobIndex(job, AgentId(0)),
            .key = key,
            .source_port = kEdgePort,
            .source_leaf = Node("leaf0"),
            .destination_leaf = Node("leaf1"),
            .path = fabric::PathIndex(path),
            .load = load};
  }
  fabric::NodeId Node(const std::string& name) const { return *topology_.FindNode(name); }
  std::int64_t LoadOn(const std::string& link) const {
    return flow_paths_.assigner().LoadOf(
        fabric::DirectedLink{*topology_.FindLink(link), true}.Index());
  }

  fabric::Topology topology_ = *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1}));
  fabric::PathTable paths_{topology_};
  FabricView view_{topology_, paths_};
  FlowTable flows_;
  FlowPaths flow_paths_{view_, flows_};
  EdgeReservations edges_{flow_paths_, flows_};
};

TEST_F(Edges, LoadTheirPathsUntilTheyAreClosed) {
  const std::uint64_t fingerprint = flow_paths_.fingerprint();
  const EdgeName first = edges_.Open(AgentId(0), Edge("job", 1, kLoadUnit / 3));
  const EdgeName second = edges_.Open(AgentId(0), Edge("job", 1, kLoadUnit / 4));
  EXPECT_EQ(LoadOn("leaf0--spine1"), kLoadUnit / 3 + kLoadUnit / 4);
  EXPECT_EQ(LoadOn("leaf0--spine0"), 0);
  edges_.CheckInvariants();
  flow_paths_.CheckInvariants();
  edges_.Close(first);
  EXPECT_EQ(LoadOn("leaf0--spine1"), kLoadUnit / 4);
  edges_.CheckInvariants();
  edges_.Close(second);
  EXPECT_EQ(flow_paths_.fingerprint(), fingerprint);
  flow_paths_.CheckInvariants();
}

TEST_F(Edges, AreNamedByAgentsAndNumbersThatAreNeverReused) {
  const EdgeName one = edges_.Open(AgentId(1), Edge("job", 0, 1));
  const EdgeName two = edges_.Open(AgentId(0), Edge("job", 0, 1));
  edges_.Close(one);
  const EdgeName three = edges_.Open(AgentId(1), Edge("job", 0, 1));
  const EdgeName four = edges_.Open(AgentId(0), Edge("job", 0, 1));
  EXPECT_EQ(one.number.value(), kFirstNumber);
  EXPECT_EQ(three.number.value(), kFirstNumber + 2);
  std::vector<EdgeName> names;
  for (const auto& [name, edge] : edges_.all()) names.push_back(name);
  EXPECT_EQ(names, (std::vector{two, four, three}));
  EXPECT_EQ(edges_.Find(one), nullptr);
  EXPECT_EQ(edges_.Find({AgentId(1), two.number}), nullptr);
  ASSERT_NE(edges_.Find(two), nullptr);
  EXPECT_EQ(edges_.CountOfAgent(AgentId(0)), 2U);
  EXPECT_EQ(edges_.CountOfAgent(AgentId(1)), 1U);
  EXPECT_EQ(edges_.CountOfAgent(AgentId(2)), 0U);
}

TEST_F(Edges, KeepTheNamesOfTheirJobs) {
  const EdgeName edge = edges_.Open(AgentId(0), Edge("mine", 0, 1));
  const std::uint32_t job = edges_.Find(edge)->job;
  const auto invent = [&](int from) {
    for (std::size_t i = 0; i <= JobNames::kMaxIdle; ++i) {
      flows_.JobIndex(std::to_string(from) + "-" + std::to_string(i), AgentId(0));
    }
    flows_.TakeForgottenJobs();
  };
  invent(1);
  EXPECT_EQ(flows_.JobName(job), "mine");
  edges_.Close(edge);
  invent(2);
  EXPECT_NE(flows_.JobName(job), "mine");
}

TEST_F(Edges, AreNotMovedByOthers) {
  const EdgeName edge = edges_.Open(AgentId(0), Edge("job", 0, 3 * kLoadUnit));
  for (std::uint64_t id = 1; id <= 2; ++id) {
    Flow flow;
    flow.local = wire::LocalFlowId(id);
    flow.source_leaf = Node("leaf0");
    flow.destination_leaf = Node("leaf1");
    flow.subflows.resize(1);
    const FlowSlot slot = flows_.Open(std::move(flow));
    const std::vector<SubflowId> subflows{flow_paths_.Add(slot, 0)};
    flow_paths_.PlaceArrivals(subflows, {.max_moves = 64});
    EXPECT_EQ(flow_paths_.PathOf(subflows.front()), 1);
  }
  flow_paths_.Rebalance({.max_moves = 64});
  EXPECT_EQ(flow_paths_.assigner().PathOf(edges_.Find(edge)->subflow), 0);
  edges_.CheckInvariants();
}

using EdgesDeathTest = Edges;

TEST_F(EdgesDeathTest, AnEdgeIsClosedOnce) {
  const EdgeName edge = edges_.Open(AgentId(0), Edge("job", 0, 1));
  edges_.Close(edge);
  EXPECT_DEATH(edges_.Close(edge), "is not open");
}
TEST_F(EdgesDeathTest, ChecksThatPortsAreTaken) {
  const EdgeName edge = edges_.Open(AgentId(0), Edge("job", 0, 1));
  flow_paths_.ReleasePort(edges_.Find(edge)->key, kEdgePort);
  EXPECT_DEATH(edges_.CheckInvariants(), "port 49152 is free");
}
TEST_F(EdgesDeathTest, ChecksThatOnlyEdgesReserve) {
  edges_.Open(AgentId(0), Edge("job", 0, 1));
  flow_paths_.Reserve(Node("leaf0"), Node("leaf1"), 1, 1);
  EXPECT_DEATH(edges_.CheckInvariants(), "1 edges have 2 reservations");
}

}  // namespace
}  // namespace espalier::controller
