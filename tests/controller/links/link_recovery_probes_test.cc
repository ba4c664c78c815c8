// Tests probes of links whose restored down state may be stale.
#include "controller/links/link_recovery_probes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "tests/controller/links/link_fixture.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr const char* kLink = "leaf1--spine2";

class Recovery : public LinkFixture {
 protected:
  std::vector<LinkRecoveryProbes::AddressedProbe> Ask(const std::vector<std::string>& names = {
                                                          kLink}) {
    std::vector<fabric::LinkId> links;
    for (const std::string& name : names) links.push_back(Link(name));
    return probes_.Ask(links, loop_->Now());
  }
  // The far end of a link between switches, as it answers a probe that expires there.
  IpAddress EndOf(const std::string& link, const std::string& node) const {
    const fabric::Link& found = state_.topology.link(Link(link));
    return state_.topology.node(found.a).id == node ? found.a_address : found.b_address;
  }
  // A report on the first port, with answers of these switches at TTL 2, 3, ...
  static wire::ProbeReport Answered(const wire::ProbeOrder& order,
                                    const std::vector<IpAddress>& responders) {
    wire::ProbeReport report;
    report.order = order.order;
    std::uint8_t ttl = 2;
    for (const IpAddress& responder : responders) {
      report.answers.push_back({order.source_ports.front(), ttl++, responder, 1});
    }
    return report;
  }
  std::string LeafOf(const IpAddress& address) const {
    const auto nic = *state_.topology.FindNic(address);
    return state_.topology.node(state_.paths.FindAttachment(nic)->leaf).id;
  }
  IpAddress SpineSeenFrom(const wire::ProbeOrder& order, const std::string& spine) const {
    return EndOf(LeafOf(order.source) + "--" + spine, spine);
  }

  LinkRecoveryProbes probes_{state_, [this](fabric::NodeId nic) { return ProberOf(nic); }};
};

TEST_F(Recovery, OrdersProbesAcrossTheLinkFromAnotherHost) {
  const auto questions = Ask();
  ASSERT_EQ(questions.size(), 1U);
  const wire::ProbeOrder& order = questions[0].order;
  EXPECT_EQ(order.destination, Address("h1"));  // paths to its leaf go over the link
  EXPECT_NE(order.source, Address("h1"));
  EXPECT_EQ(questions[0].agent, ProberOf(*state_.topology.FindNic(order.source)));
  EXPECT_EQ(order.source_ports.size(), 16U);
  EXPECT_EQ(std::set(order.source_ports.begin(), order.source_ports.end()).size(), 16U);
  EXPECT_GE(order.source_ports.front(), fabric::kFirstRocePort);
}

TEST_F(Recovery, OrdersProbesAgainWithOtherPorts) {
  const auto first = Ask();
  ASSERT_EQ(first.size(), 1U);
  world_.RunFor(1s - 1ms);
  EXPECT_TRUE(Ask().empty());
  world_.RunFor(1ms);
  const auto second = Ask();
  ASSERT_EQ(second.size(), 1U);
  EXPECT_NE(second[0].order.order, first[0].order.order);
  for (const std::uint16_t port : second[0].order.source_ports) {
    EXPECT_EQ(std::ranges::count(first[0].order.source_ports, port), 0) << port;
  }
}

TEST_F(Recovery, TriesPortsThatLedOverTheLinkBefore) {
  const auto first = Ask();
  ASSERT_EQ(first.size(), 1U);
  const wire::ProbeOrder& order = first[0].order;
  const fabric::PortKey key{.source = *state_.topology.FindNic(order.source),
                            .destination = *state_.topology.FindNic(order.destination)};
  const auto paths = state_.paths.Between(state_.paths.FindAttachment(key.source)->leaf,
                                          state_.paths.FindAttachment(key.destination)->leaf);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const auto port = static_cast<std::uint16_t>(60'000 + i);
    state_.path_map.Observe(key, port, fabric::PathIndex(static_cast<std::int32_t>(i)));
  }
  const auto is_over = [&](std::size_t path) {
    return std::ranges::any_of(paths[path].hops,
                               [&](fabric::DirectedLink hop) { return hop.link == Link(kLink); });
  };
  // The agents take turns; with four of them, the fifth order is the first one's again.
  for (int turn = 0; turn < 8; ++turn) {
    world_.RunFor(1s);
    const auto again = Ask();
    ASSERT_EQ(again.size(), 1U);
    if (again[0].order.source != order.source) continue;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      const auto port = static_cast<std::uint16_t>(60'000 + i);
      const bool is_asked = std::ranges::count(again[0].order.source_ports, port) == 1;
      EXPECT_EQ(is_asked, is_over(i)) << i;
    }
    return;
  }
  FAIL() << "the first agent was not asked again";
}

TEST_F(Recovery, ALinkCanBeProbedIfAnAgentHasAPathOverIt) {
  EXPECT_TRUE(probes_.CanProbe(Link(kLink)));
  LinkRecoveryProbes none(state_, [](fabric::NodeId) { return std::nullopt; });
  EXPECT_FALSE(none.CanProbe(Link(kLink)));
  EXPECT_FALSE(probes_.CanProbe(Link("h0--leaf0")));  // no path between leaves goes over it
}

TEST_F(Recovery, ALinkThatWasLeftOutIsNew) {
  ASSERT_EQ(Ask().size(), 1U);
  EXPECT_TRUE(Ask({}).empty());
  EXPECT_EQ(Ask().size(), 1U);
}

TEST_F(Recovery, AnAnswerFromBehindTheLinkConfirmsIt) {
  const wire::ProbeOrder order = Ask()[0].order;
  const wire::ProbeReport report =
      Answered(order, {SpineSeenFrom(order, "spine2"), EndOf(kLink, "leaf1")});
  const AgentId agent = *ProberOf(*state_.topology.FindNic(order.source));
  EXPECT_EQ(probes_.TakeAnswer(agent, report), Link(kLink));
  EXPECT_EQ(probes_.TakeAnswer(agent, report), std::nullopt);  // once
}

TEST_F(Recovery, AnswersMayComeInSeveralReports) {
  const wire::ProbeOrder order = Ask()[0].order;
  const AgentId agent = *ProberOf(*state_.topology.FindNic(order.source));
  wire::ProbeReport whole =
      Answered(order, {SpineSeenFrom(order, "spine2"), EndOf(kLink, "leaf1")});
  wire::ProbeReport part = whole;
  part.answers.pop_back();
  EXPECT_EQ(probes_.TakeAnswer(agent, part), std::nullopt);
  whole.answers.erase(whole.answers.begin());
  EXPECT_EQ(probes_.TakeAnswer(agent, whole), Link(kLink));
}

TEST_F(Recovery, AnAnswerFromBeforeTheLinkConfirmsNothing) {
  const wire::ProbeOrder order = Ask()[0].order;
  const AgentId agent = *ProberOf(*state_.topology.FindNic(order.source));
  wire::ProbeReport report = Answered(order, {SpineSeenFrom(order, "spine2")});
  report.done = true;
  EXPECT_EQ(probes_.TakeAnswer(agent, report), std::nullopt);
}

TEST_F(Recovery, APathThatAvoidsTheLinkConfirmsNothing) {
  const wire::ProbeOrder order = Ask()[0].order;
  const AgentId agent = *ProberOf(*state_.topology.FindNic(order.source));
  EXPECT_EQ(probes_.TakeAnswer(agent, Answered(order, {SpineSeenFrom(order, "spine0"),
                                                       EndOf("leaf1--spine0", "leaf1")})),
            std::nullopt);
}

TEST_F(Recovery, IgnoresOtherAgentsAndOtherAnswers) {
  const wire::ProbeOrder order = Ask()[0].order;
  const AgentId agent = *ProberOf(*state_.topology.FindNic(order.source));
  wire::ProbeReport report =
      Answered(order, {SpineSeenFrom(order, "spine2"), EndOf(kLink, "leaf1")});
  const AgentId other = agent == Agent("h1") ? Agent("h0") : Agent("h1");
  EXPECT_EQ(probes_.TakeAnswer(other, report), std::nullopt);
  wire::ProbeReport unasked = report;
  for (wire::ProbeAnswer& answer : unasked.answers) answer.source_port = 1;
  EXPECT_EQ(probes_.TakeAnswer(agent, unasked), std::nullopt);
  wire::ProbeReport unknown = report;
  unknown.order += 1'000'000;
  EXPECT_EQ(probes_.TakeAnswer(agent, unknown), std::nullopt);
  EXPECT_EQ(probes_.TakeAnswer(agent, report), Link(kLink));
}

TEST_F(Recovery, ProbesAtMostSixteenLinksAtOnce) {
  std::vector<std::string> names;
  for (int leaf = 0; leaf < 4; ++leaf) {
    for (int spine = 0; spine < 4; ++spine) {
      names.push_back("leaf" + std::to_string(leaf) + "--spine" + std::to_string(spine));
    }
  }
  EXPECT_EQ(Ask(names).size(), 16U);
  world_.RunFor(3s);
  EXPECT_TRUE(Ask(names).empty());
  world_.RunFor(200ms);  // the orders have expired
  EXPECT_EQ(Ask(names).size(), 16U);
}

TEST_F(Recovery, OrdersNothingIfNoAgentCanProbe) {
  LinkRecoveryProbes lonely(state_, [](fabric::NodeId) { return std::nullopt; });
  EXPECT_TRUE(lonely.Ask(std::array{Link(kLink)}, loop_->Now()).empty());
}

}  // namespace
}  // namespace espalier::controller
