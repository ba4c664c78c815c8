// One host reports a failed path, and the controller has other hosts probe its links.
#include "controller/links/link_failure_probes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

class LinkFailureProbesTest : public testing::Test {
 protected:
  static constexpr int kHostsPerLeaf = 4;

  LinkFailureProbesTest() {
    cluster_.ConnectAll();
    // Every host sends to the same position under the next leaf: each far link carries one flow.
    for (int from = 0; from < cluster_.hosts(); ++from) {
      cluster_.Open(from, {{.id = 1, .to = (from + kHostsPerLeaf) % cluster_.hosts()}});
    }
    cluster_.Settle();
  }

  // The report of an agent whose flow makes no progress and that has chosen another port.
  void Blame(int host) { Blame(host, PathOf(cluster_.FlowOf(host, 1))); }
  void Blame(int host, std::size_t path) {
    wire::FlowHealth health{.flow = wire::LocalFlowId(1),
                            .verdict = wire::PathVerdict::kLocallyRerouted};
    health.path_id = static_cast<std::uint32_t>(path);
    health.source_port = 0xFFF0;
    cluster_.Deliver(cluster_.host(host).peer, cluster_.host(host).instance,
                     wire::PathHealth{.flows = {health}});
    cluster_.Settle();
  }
  std::size_t PathOf(const Flow& flow) {
    return cluster_.state().flow_paths.PathOf(flow.subflows.front())->Index();
  }
  // The link from the spine to the leaf of a host's flow, or from the host's leaf to the spine.
  fabric::LinkId LinkOf(int host, bool far) {
    const Flow& flow = cluster_.FlowOf(host, 1);
    const auto& hops = cluster_.state().PathsOf(flow)[PathOf(flow)].hops;
    return far ? hops.back().link : hops.front().link;
  }
  bool IsDown(fabric::LinkId link) {
    return cluster_.controller().link_health().detected_down().contains(link);
  }
  // The orders to all agents but the first.
  int OthersProbes() {
    int probes = 0;
    for (int i = 1; i < cluster_.hosts(); ++i) probes += cluster_.host(i).probes;
    return probes;
  }

  Cluster cluster_{{.spines = 4, .leaves = 4, .hosts_per_leaf = kHostsPerLeaf}};
};

TEST_F(LinkFailureProbesTest, OthersConfirmThatAFarLinkIsDead) {
  const fabric::LinkId far = LinkOf(0, true);
  const fabric::LinkId near = LinkOf(0, false);
  cluster_.dead = {far};
  Blame(0);
  EXPECT_TRUE(IsDown(far));
  EXPECT_FALSE(IsDown(near));
  EXPECT_EQ(cluster_.controller().link_health().detected_down().size(), 1U);
  // No flow remains on it.
  for (int host = 0; host < cluster_.hosts(); ++host) EXPECT_NE(LinkOf(host, true), far) << host;
}

// The flow's own path answers probes, but nothing is acknowledged.
TEST(LinkFailureProbes, FindADeadLinkOnTheReturnPathOfLostAcknowledgements) {
  constexpr int kHosts = 4;  // of a leaf
  Cluster cluster({.spines = 4, .leaves = 4, .hosts_per_leaf = kHosts},
                  {.fabric_hashes_protocol = false});
  cluster.ConnectAll();
  const auto peer = [&](int host) { return (host + kHosts) % cluster.hosts(); };
  for (int from = 0; from < cluster.hosts(); ++from) {
    wire::FlowReport report = Cluster::Opening(cluster, from, {{.id = 1, .to = peer(from)}});
    report.opened.front().protocol = wire::kProtocolTcp;
    cluster.Report(from, report);
  }
  cluster.Settle();
  cluster.Advance(3s);
  const auto port = [&](int host) { return cluster.FlowOf(host, 1).subflows.front().port; };
  const auto back = [&](int host) { return cluster.SpineBack(peer(host), host, port(host)); };
  int host = 0;
  while (host < kHosts && back(host) == cluster.SpineOf(host, peer(host), port(host))) ++host;
  ASSERT_LT(host, kHosts) << "both directions of all flows take one spine";
  const auto link = *cluster.state().topology.FindLink("leaf0--spine" + std::to_string(back(host)));
  cluster.dead = {link};
  wire::FlowHealth health{.flow = wire::LocalFlowId(1),
                          .verdict = wire::PathVerdict::kLocallyRerouted};
  health.path_id =
      static_cast<std::uint32_t>(cluster.FlowOf(host, 1).subflows[0].port_path.value());
  health.source_port = 0xFFF0;
  health.answered = true;
  cluster.Deliver(cluster.host(host).peer, cluster.host(host).instance,
                  wire::PathHealth{.flows = {health}});
  cluster.Settle();
  EXPECT_TRUE(cluster.controller().link_health().detected_down().contains(link));
  EXPECT_EQ(cluster.controller().link_health().detected_down().size(), 1U);
}

TEST_F(LinkFailureProbesTest, OneHostsReportAloneTakesNoLinkDown) {
  Blame(0);
  EXPECT_TRUE(cluster_.controller().link_health().detected_down().empty());
  // Hosts whose probes passed the link do not add to the report of a second host.
  Blame(4);
  EXPECT_TRUE(cluster_.controller().link_health().detected_down().empty());
}

TEST_F(LinkFailureProbesTest, SilenceOnAllPathsMeansNothing) {
  const fabric::LinkId far = LinkOf(0, true);
  for (int i = 0; i < cluster_.hosts(); ++i) cluster_.host(i).answers_probes = false;
  cluster_.dead = {far};
  Blame(0);
  cluster_.Advance(2s);
  EXPECT_FALSE(IsDown(far));
}

// If a leaf has stopped using its own dead link, the answers did not pass the suspected link.
TEST_F(LinkFailureProbesTest, AnswersOverAnotherPathMeanNothing) {
  State& state = cluster_.state();
  LinkFailureProbes probes(state, [&](fabric::NodeId nic) {
    return state.agents.FindByName(state.topology.node(nic).host);
  });
  const fabric::LinkId far = LinkOf(0, true);
  const auto reporter = *state.agents.FindByName("h0");
  const auto questions = probes.Ask(reporter, std::vector{far}, TimePoint{});
  ASSERT_EQ(questions.size(), 2U);
  // All switches of a path answer both hosts' probes: of the probed path or of another one.
  const auto answer = [&](const LinkFailureProbes::AddressedProbe& question, bool over_suspect) {
    const Flow& flow = cluster_.FlowOf(0, 1);  // of the same leaves
    wire::ProbeReport report{.order = question.order.order, .done = true};
    for (const fabric::Path& path : state.PathsOf(flow)) {
      if ((path.hops.back().link == far) != over_suspect) continue;
      for (const std::uint16_t port : question.order.source_ports) {
        for (const std::uint8_t ttl : question.order.ttls) {
          const fabric::DirectedLink hop = path.hops[ttl - 2U];
          const fabric::Link& link = state.topology.link(hop.link);
          report.answers.push_back({port, ttl, hop.forward ? link.b_address : link.a_address, 1});
        }
      }
      break;
    }
    return probes.TakeAnswer(question.agent, report);
  };
  EXPECT_FALSE(answer(questions[0], false).has_value());
  const auto verdict = answer(questions[1], true);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_FALSE(verdict->dead);
}

TEST_F(LinkFailureProbesTest, AFlowThatItsLeafReroutedClearsNoLink) {
  const fabric::LinkId far = LinkOf(0, true);
  const std::size_t path = PathOf(cluster_.FlowOf(0, 1));
  for (int i = 0; i < cluster_.hosts(); ++i) cluster_.host(i).answers_probes = false;
  cluster_.dead = {far};
  Blame(0, path);
  cluster_.Advance(200ms);
  for (int host = kHostsPerLeaf; host < 2 * kHostsPerLeaf; ++host) {
    if (LinkOf(host, false) != far) continue;
    cluster_.Report(host, {.progress = {{.id = wire::LocalFlowId(1),
                                         .achieved_bps = 1'000'000'000,
                                         .state = wire::FlowState::kActive}}});
  }
  cluster_.Settle();
  Blame(1, path);
  EXPECT_TRUE(IsDown(far));
}

TEST_F(LinkFailureProbesTest, UnansweredProbesAreRepeatedForAWhile) {
  const fabric::LinkId far = LinkOf(0, true);
  for (int i = 0; i < cluster_.hosts(); ++i) cluster_.host(i).answers_probes = false;
  cluster_.dead = {far};
  Blame(0);
  cluster_.Advance(1500ms);
  EXPECT_FALSE(IsDown(far));
  for (int i = 0; i < cluster_.hosts(); ++i) cluster_.host(i).answers_probes = true;
  cluster_.Advance(2s);
  EXPECT_TRUE(IsDown(far));
  EXPECT_EQ(cluster_.controller().link_health().detected_down().size(), 1U);
}

TEST_F(LinkFailureProbesTest, UnansweredProbesAreNotRepeatedForEver) {
  State& state = cluster_.state();
  LinkFailureProbes probes(state, [&](fabric::NodeId nic) {
    return state.agents.FindByName(state.topology.node(nic).host);
  });
  const std::vector<fabric::LinkId> links = {LinkOf(0, true)};
  const TimePoint start{};
  EXPECT_EQ(probes.Ask(*state.agents.FindByName("h0"), links, start).size(), 2U);
  EXPECT_EQ(probes.RetryProbes(start + 900ms).size(), 0U);
  for (int second = 1; second <= 3; ++second) {
    EXPECT_EQ(probes.RetryProbes(start + second * 1s).size(), 2U) << second;
  }
  EXPECT_EQ(probes.RetryProbes(start + 4s).size(), 0U);
  EXPECT_EQ(probes.RetryProbes(start + 5s).size(), 0U);
}

TEST_F(LinkFailureProbesTest, ALinkIsProbedOnceASecond) {
  const std::size_t path = PathOf(cluster_.FlowOf(0, 1));
  const int before = OthersProbes();
  Blame(0, path);
  const int after = OthersProbes();
  EXPECT_GT(after, before);
  Blame(0, path);
  EXPECT_EQ(OthersProbes(), after);
}

// Another link of the same leaf is dead, too, which nobody has reported: its path shows nothing.
TEST_F(LinkFailureProbesTest, ADeadPathBesideTheLinkHidesNothing) {
  const fabric::LinkId far = LinkOf(0, true);
  const auto paths = cluster_.state().PathsOf(cluster_.FlowOf(0, 1));
  const auto other = std::ranges::find_if(
      paths, [&](const fabric::Path& path) { return path.hops.back().link != far; });
  cluster_.dead = {far, other->hops.back().link};
  Blame(0);
  cluster_.Advance(3s);
  EXPECT_TRUE(IsDown(far));
  EXPECT_FALSE(IsDown(other->hops.back().link));
}

// Two pods of two leaves, below four cores: four paths between pods. Path 0 goes over agg0, core0
// and agg2. Each host of the first pod sends to one of the second.
class ThreeTiers {
 public:
  ThreeTiers() {
    cluster.hash = [](int from, int to, std::uint16_t port) {
      return (from * 5 + to * 3 + port / 7 + port) % 4;
    };
    cluster.ConnectAll();
  }
  void OpenFrom(int first, int last) {
    for (int host = first; host < last; ++host) cluster.Open(host, {{.id = 1, .to = 8 + host}});
    for (int i = 0; i < 20; ++i) cluster.Advance(200ms);
  }
  void Kill(const char* link) { cluster.dead.insert(*cluster.state().topology.FindLink(link)); }
  // The first host reports its path 0.
  void Blame() {
    wire::FlowHealth health{.flow = wire::LocalFlowId(1),
                            .verdict = wire::PathVerdict::kLocallyRerouted};
    health.path_id = 0;
    health.source_port = 0xFFF0;
    cluster.Deliver(cluster.host(0).peer, cluster.host(0).instance,
                    wire::PathHealth{.flows = {health}});
    cluster.Settle();
  }
  std::vector<std::string> Down() {
    std::vector<std::string> down;
    for (const fabric::LinkId link : cluster.controller().link_health().detected_down()) {
      down.push_back(cluster.state().topology.link(link).id);
    }
    return down;
  }

  Cluster cluster{
      *fabric::BuildPods(
          {.pods = 2, .leaves_per_pod = 2, .aggs_per_pod = 2, .cores = 4, .hosts_per_leaf = 4}),
      {}};
};
const std::vector<std::string> kFar = {"agg2--core0"};
class FarLink : public testing::Test, protected ThreeTiers {};

// All hosts that can be asked are below the reporter's leaf, and send to the same leaf: their paths
// share the links behind the dead one, too.
TEST_F(FarLink, IsToldFromTheLinksBehindItByPathsThatWork) {
  OpenFrom(0, 4);
  Kill("agg2--core0");
  Blame();
  for (int i = 0; i < 20; ++i) cluster.Advance(200ms);
  EXPECT_EQ(Down(), kFar);
}

TEST_F(FarLink, IsFoundAlthoughAPathBesideItIsDeadToo) {
  OpenFrom(0, 8);
  Kill("agg2--core0");
  Kill("agg3--core2");
  Blame();
  for (int i = 0; i < 20; ++i) cluster.Advance(200ms);
  EXPECT_EQ(Down(), kFar);
}

// Hosts whose probes nobody answers have their turn, and then others.
TEST(FarLinkHosts, HaveTheirTurnUntilOneIsAnswered) {
  for (int answered = 1; answered < 8; ++answered) {
    ThreeTiers other;
    other.OpenFrom(0, 8);
    for (int host = 0; host < 8; ++host) {
      other.cluster.host(host).answers_probes = host == answered;
    }
    other.Kill("agg2--core0");
    other.Blame();
    for (int i = 0; i < 25; ++i) other.cluster.Advance(200ms);
    EXPECT_EQ(other.Down(), kFar) << answered;
  }
}

}  // namespace
}  // namespace espalier::controller
