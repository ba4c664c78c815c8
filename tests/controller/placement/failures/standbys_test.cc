// Standby paths: where hosts go by themselves when a path is dead.
#include "controller/placement/failures/standbys.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/fabric/ecmp/path_predictor.h"
#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

void ConnectWithStandbys(Cluster& cluster) {
  for (int host = 0; host < cluster.hosts(); ++host) {
    cluster.host(host).features.emplace_back("standby");
  }
  cluster.ConnectAll();
}

std::vector<wire::FlowPath> StandbysAt(const Cluster::Host& host, std::uint64_t flow) {
  std::vector<wire::FlowPath> standbys;
  if (!host.sets.contains(flow)) return standbys;
  std::ranges::copy_if(host.sets.at(flow).paths, std::back_inserter(standbys),
                       &wire::FlowPath::IsStandby);
  return standbys;
}

// Two leaves with four hosts each and four spines. Each host of the first leaf sends to the one of
// the same number on the other leaf.
class StandbysTest : public testing::Test {
 protected:
  void Open(std::uint8_t paths = 1) {
    for (int host = 0; host < 4; ++host) {
      cluster_.Open(host, {{.id = 1, .to = host + 4, .max_paths = paths}});
    }
    cluster_.Advance(2s);
  }
  int SpineOf(int host) const { return cluster_.AppliedSpine(host, 1, host + 4); }
  int StandbySpineOf(int host) {
    const auto standbys = StandbysAt(cluster_.host(host), 1);
    return standbys.empty() ? -1 : cluster_.SpineOf(host, host + 4, standbys[0].source_port);
  }
  // The host's agent finds its path dead and goes to its standby.
  void GoToStandby(int host) {
    Cluster::Host& own = cluster_.host(host);
    const std::uint32_t left = own.sets.at(1).paths[0].path_id;
    const std::uint16_t port = StandbysAt(own, 1).at(0).source_port;
    own.ports[1] = port;
    own.sets.at(1).paths = {{.source_port = port, .encoding = {}}};
    cluster_.Deliver(own.peer, own.instance,
                     wire::PathHealth{.flows = {{.flow = wire::LocalFlowId(1),
                                                 .path_id = left,
                                                 .source_port = port,
                                                 .verdict = wire::PathVerdict::kLocallyRerouted}}});
    cluster_.Settle();
  }

  Cluster cluster_{{.spines = 4, .leaves = 2, .hosts_per_leaf = 4}};
};

TEST_F(StandbysTest, EachPathHasOneOverAnotherSpine) {
  ConnectWithStandbys(cluster_);
  Open();
  for (int host = 0; host < 4; ++host) {
    EXPECT_THAT(StandbysAt(cluster_.host(host), 1), SizeIs(1)) << host;
    EXPECT_NE(StandbySpineOf(host), SpineOf(host)) << host;
  }
  const auto worst = cluster_.controller().standbys().WorstFailure();
  EXPECT_THAT(worst.load, DoubleNear(2, 1e-9));  // of two flows on one link, for any failure
  cluster_.state().flow_paths.CheckInvariants();
}

// Two flows of each leaf are on each spine. If it fails, they must not meet on one other link.
TEST_F(StandbysTest, FlowsOfOneLinkGoToDifferentLinks) {
  ConnectWithStandbys(cluster_);
  Open();
  for (int host = 0; host < 4; ++host) cluster_.Open(host, {{.id = 2, .to = (host + 1) % 4 + 4}});
  cluster_.Advance(3s);
  EXPECT_THAT(cluster_.controller().standbys().WorstFailure().load, DoubleNear(3, 1e-9));
}

TEST_F(StandbysTest, EachSubflowHasItsOwn) {
  ConnectWithStandbys(cluster_);
  Open(2);
  for (int host = 0; host < 4; ++host) {
    const auto standbys = StandbysAt(cluster_.host(host), 1);
    ASSERT_THAT(standbys, SizeIs(2)) << host;
    EXPECT_NE(standbys[0].source_port, standbys[1].source_port);
    const std::vector<int> spines = cluster_.AppliedSpines(host, 1, host + 4);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_NE(cluster_.SpineOf(host, host + 4, standbys[i].source_port), spines[i]) << host;
    }
  }
}

TEST_F(StandbysTest, AgentThatDoesNotKnowThemGetsNone) {
  cluster_.ConnectAll();
  Open();
  for (int host = 0; host < 4; ++host) {
    EXPECT_THAT(StandbysAt(cluster_.host(host), 1), IsEmpty());
    EXPECT_THAT(cluster_.host(host).sets.at(1).paths, SizeIs(1));
  }
}

// The links of the path that this port takes, by the numbers of the topology.
std::vector<std::uint32_t> LinksThrough(const Cluster& cluster, const State& state, int from,
                                        int to, std::uint16_t port) {
  const auto leaf_of = [](int host) { return "leaf" + std::to_string(host / 4); };
  const std::string spine = "spine" + std::to_string(cluster.SpineOf(from, to, port));
  std::vector<std::uint32_t> links;
  for (const auto& [a, b] : {std::pair(leaf_of(from), spine), std::pair(spine, leaf_of(to))}) {
    for (std::uint32_t i = 0; i < 2 * state.topology.links().size(); ++i) {
      const auto link = fabric::DirectedLink::FromIndex(i);
      const auto name = [&](fabric::NodeId node) { return state.topology.node(node).id; };
      if (name(state.topology.From(link)) == a && name(state.topology.To(link)) == b) {
        links.push_back(i);
      }
    }
  }
  return links;
}

TEST_F(StandbysTest, LinksOfPathsAreToldToAgentsThatKnowThem) {
  cluster_.host(1).features.emplace_back("path_links");
  ConnectWithStandbys(cluster_);
  Open(2);
  const auto& told = cluster_.host(1).sets.at(1).paths;
  ASSERT_THAT(told, SizeIs(4));  // two paths and their standbys
  for (const wire::FlowPath& path : told) {
    EXPECT_THAT(path.links, SizeIs(2));
    EXPECT_EQ(path.links, LinksThrough(cluster_, cluster_.state(), 1, 5, path.source_port));
  }
  for (const wire::FlowPath& path : cluster_.host(0).sets.at(1).paths) {
    EXPECT_THAT(path.links, IsEmpty());
  }
}

TEST_F(StandbysTest, OnlyTheyArePushedWhenOnlyTheyAreNew) {
  ConnectWithStandbys(cluster_);
  Open();
  const std::vector<wire::PathPush>& pushes = cluster_.host(0).pushes;
  const auto brings = [](const wire::PathPush& push) {
    return std::ranges::any_of(push.sets, [](const wire::PathSet& set) {
      return std::ranges::any_of(set.paths, &wire::FlowPath::IsStandby);
    });
  };
  const auto first = std::ranges::find_if(pushes, brings);
  ASSERT_NE(first, pushes.end());
  EXPECT_EQ(first->sets[0].reason, wire::PathReason::kStandby);
  // Nothing changes any more, so nothing is pushed any more.
  const std::size_t before = pushes.size();
  cluster_.Advance(5s);
  EXPECT_THAT(pushes, SizeIs(before));
}

TEST_F(StandbysTest, HostThatGoesToItStaysThereAndGetsAnother) {
  ConnectWithStandbys(cluster_);
  Open();
  const int standby = StandbySpineOf(0);
  const int left = SpineOf(0);
  cluster_.dark_spines = {left};
  GoToStandby(0);
  EXPECT_EQ(SpineOf(0), standby);
  EXPECT_EQ(cluster_.FlowOf(0, 1).status, FlowStatus::kRouted);
  cluster_.Advance(200ms);
  EXPECT_EQ(SpineOf(0), standby);
  cluster_.Advance(2s);
  EXPECT_THAT(StandbysAt(cluster_.host(0), 1), SizeIs(1));
  EXPECT_NE(StandbySpineOf(0), SpineOf(0));
  cluster_.state().flow_paths.CheckInvariants();
}

TEST_F(StandbysTest, FailedLinkIsNoStandbyAnyMore) {
  ConnectWithStandbys(cluster_);
  Open();
  const int standby = StandbySpineOf(0);
  ASSERT_TRUE(cluster_.ChangeNode("spine" + std::to_string(standby), IntentAction::kFail, {}));
  cluster_.Advance(2s);
  for (int host = 0; host < 4; ++host) {
    EXPECT_NE(StandbySpineOf(host), standby) << host;
    EXPECT_NE(StandbySpineOf(host), SpineOf(host)) << host;
    EXPECT_NE(StandbySpineOf(host), -1) << host;
  }
}

TEST_F(StandbysTest, OperatorsFailureTakesTheStandbysPortAlong) {
  ConnectWithStandbys(cluster_);
  Open();
  std::map<int, std::uint16_t> ports;
  std::map<int, int> spines;
  for (int host = 0; host < 4; ++host) {
    ports[host] = StandbysAt(cluster_.host(host), 1).at(0).source_port;
    spines[host] = StandbySpineOf(host);
  }
  const int failed = SpineOf(0);
  ASSERT_TRUE(cluster_.ChangeNode("spine" + std::to_string(failed), IntentAction::kFail, {}));
  cluster_.Settle();
  EXPECT_NE(SpineOf(0), failed);
  // If the controller chooses the path that was the standby, the host is told the same port.
  if (SpineOf(0) == spines[0]) {
    EXPECT_EQ(cluster_.host(0).ports.at(1), ports[0]);
  }
  cluster_.state().flow_paths.CheckInvariants();
}

TEST_F(StandbysTest, PortsAreFreeAgainWhenFlowsEnd) {
  ConnectWithStandbys(cluster_);
  Open();
  const std::uint16_t port = StandbysAt(cluster_.host(0), 1).at(0).source_port;
  const fabric::PortKey key = cluster_.FlowOf(0, 1).key;
  EXPECT_TRUE(cluster_.state().flow_paths.ports().IsTaken(key, port));
  cluster_.End(0, 1);
  EXPECT_FALSE(cluster_.state().flow_paths.ports().IsTaken(key, port));
  for (int host = 1; host < 4; ++host) cluster_.End(host, 1);
  cluster_.Advance(2s);
  EXPECT_FALSE(cluster_.controller().standbys().WorstFailure().failure);
}

TEST_F(StandbysTest, UnsteeredFlowHasNone) {
  ConnectWithStandbys(cluster_);
  Open();
  ASSERT_TRUE(cluster_.ChangeSteering({"h0"}, {}, std::nullopt, false, {.force = true}));
  cluster_.Advance(2s);
  EXPECT_EQ(cluster_.FlowOf(0, 1).subflows[0].standby_path, kNoPath);
  EXPECT_THAT(StandbysAt(cluster_.host(1), 1), SizeIs(1));
}

// The links of the paths that acknowledgements of TCP take, by a predictor of our own; none if that
// is not known.
class ReturnPathsOfTcp {
 public:
  explicit ReturnPathsOfTcp(const fabric::Topology& topology)
      : paths_(topology), predictor_(*fabric::PathPredictor::Build(topology, paths_)) {}

  std::span<const fabric::DirectedLink> Of(const Flow& flow, std::uint16_t port) {
    if (flow.protocol != wire::kProtocolTcp) return {};
    const auto path = predictor_.Predict({.source = flow.destination_address,
                                          .destination = flow.source_address,
                                          .protocol = wire::kProtocolTcp,
                                          .source_port = flow.key.destination_port,
                                          .destination_port = port},
                                         flow.key.destination, flow.key.source);
    if (!path) return {};
    return paths_.Between(flow.destination_leaf, flow.source_leaf)[path->Index()].hops;
  }

 private:
  fabric::PathTable paths_;
  fabric::PathPredictor predictor_;
};

// The load of the most loaded of the links that carry more than before when these links have failed
// and all hosts concerned have gone to their standbys, from the paths alone.
double LoadAfter(const State& state, ReturnPathsOfTcp& returns,
                 const std::set<fabric::LinkId>& failed) {
  std::map<std::size_t, double> before;
  std::map<std::size_t, double> loads;
  for (const FlowSlot slot : state.flows.All()) {
    const Flow& flow = state.flows.At(slot);
    const auto paths = state.PathsOf(flow);
    for (const Subflow& subflow : flow.subflows) {
      const auto is_dead = [&](std::span<const fabric::DirectedLink> hops) {
        return std::ranges::any_of(
            hops, [&](fabric::DirectedLink hop) { return failed.contains(hop.link); });
      };
      const auto path = state.flow_paths.PathOf(subflow);
      if (!path) continue;
      const double share = 1.0 / static_cast<double>(flow.subflows.size());
      const auto& own = paths[path->Index()].hops;
      for (const fabric::DirectedLink hop : own) before[hop.Index()] += share;
      const bool is_hit = is_dead(own) || is_dead(returns.Of(flow, subflow.port));
      const bool has_standby = subflow.standby_path != kNoPath;
      const auto& standby =
          has_standby ? paths[static_cast<std::size_t>(subflow.standby_path)].hops : own;
      // If the standby is dead, too, the flow stays where it is.
      const auto& taken = is_hit && !is_dead(standby) ? standby : own;
      if (is_dead(taken)) continue;
      for (const fabric::DirectedLink hop : taken) loads[hop.Index()] += share;
    }
  }
  double most = 0;
  for (const auto& [link, load] : loads) {
    if (load > before[link] + 1e-9) most = std::max(most, load);
  }
  return most;
}

// Opens this flow, over TCP or RDMA.
void OpenFlow(Cluster& cluster, int from, const Cluster::NewFlow& flow, bool is_tcp) {
  wire::FlowReport report = Cluster::Opening(cluster, from, {flow});
  if (is_tcp) {
    report.opened[0].protocol = wire::kProtocolTcp;
    report.opened[0].destination_port = 5'201;
  }
  cluster.Report(from, report);
}

// The most loaded link after any single failure.
double WorstOf(const State& state) {
  ReturnPathsOfTcp returns(state.topology);
  double most = 0;
  for (const fabric::Node& node : state.topology.nodes()) {
    if (!node.id.starts_with("spine")) continue;
    std::set<fabric::LinkId> all;
    for (std::size_t i = 0; i < state.topology.links().size(); ++i) {
      const fabric::LinkId link(static_cast<std::int32_t>(i));
      const bool is_of_spine = &state.topology.node(state.topology.link(link).a) == &node ||
                               &state.topology.node(state.topology.link(link).b) == &node;
      if (!is_of_spine) continue;
      all.insert(link);
      most = std::max(most, LoadAfter(state, returns, {link}));
    }
    most = std::max(most, LoadAfter(state, returns, all));
  }
  return most;
}

TEST(StandbyBoundTest, HoldsForEverySingleFailureOfRandomFabrics) {
  std::mt19937 random(20);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  for (int fabric = 0; fabric < 500; ++fabric) {
    SCOPED_TRACE(fabric);
    const fabric::LeafSpineOptions shape{
        .spines = draw(2, 4), .leaves = draw(2, 3), .hosts_per_leaf = draw(1, 3)};
    // In two of three fabrics some flows are of TCP, whose acknowledgements take paths of their
    // own.
    const bool has_tcp = fabric % 3 != 0;
    Cluster cluster(shape, {}, fabric::EcmpSpec{.hash = "crc32", .seed = 7});
    ConnectWithStandbys(cluster);
    for (int host = 0; host < cluster.hosts(); ++host) {
      const int per_leaf = shape.hosts_per_leaf;
      const int others = cluster.hosts() - per_leaf;
      const int to =
          (host / per_leaf * per_leaf + per_leaf + draw(0, others - 1)) % cluster.hosts();
      const auto paths = static_cast<std::uint8_t>(draw(1, 3));
      OpenFlow(cluster, host, {.id = 1, .to = to, .max_paths = paths}, has_tcp && draw(0, 3) > 0);
    }
    cluster.Advance(1500ms);
    const State& state = cluster.controller().state();
    for (const FlowSlot slot : state.flows.All()) {
      for (const Subflow& subflow : state.flows.At(slot).subflows) {
        EXPECT_NE(subflow.standby_path, kNoPath);
        EXPECT_NE(subflow.standby_port, 0);
      }
    }
    EXPECT_THAT(cluster.controller().standbys().WorstFailure().load,
                DoubleNear(WorstOf(state), 1e-6));
  }
}

}  // namespace
}  // namespace espalier::controller
