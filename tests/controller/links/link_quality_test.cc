// Links that carry packets, but worse than their siblings.
#include "controller/links/link_quality.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "tests/controller/four_flows.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using fabric::DirectedLink;
using fabric::LinkState;

// Each host has a flow to each other leaf, which all send all the time. Hosts measure them twice a
// second, as agents do.
class LinkQualityTest : public testing::Test {
 protected:
  void Open() {
    cluster_.ConnectAll();
    for (int from = 0; from < 16; ++from) {
      std::vector<Cluster::NewFlow> flows;
      for (int i = 1; i <= 3; ++i) {
        flows.push_back({.id = static_cast<std::uint64_t>(i), .to = (from + 4 * i) % 16});
      }
      cluster_.Open(from, flows);
      cluster_.Settle();
    }
    Live(5s);
  }

  void Live(Duration span) {
    for (Duration passed{}; passed < span; passed += 500ms) {
      cluster_.Advance(500ms);
      for (int from = 0; from < 16; ++from) Measure(from);
      cluster_.Settle();
    }
  }

  bool UsesLossyLink(const Flow& flow) {
    const auto& hops = cluster_.state().PathsOf(flow)[flow.subflows[0].port_path.Index()].hops;
    const auto nic = cluster_.state().paths.FindAttachment(flow.key.source)->uplink.link;
    return lossy_.contains(nic) ||
           std::ranges::any_of(hops, [&](DirectedLink hop) { return lossy_.contains(hop.link); });
  }

  void Measure(int from) {
    wire::PathHealth health;
    for (std::uint64_t id = 1; id <= 3; ++id) {
      const Flow& flow = cluster_.FlowOf(from, id);
      if (flow.status != FlowStatus::kRouted) continue;
      const bool is_lossy = UsesLossyLink(flow);
      std::uint32_t& retries = retries_[{from, id}];
      if (is_lossy) retries += 40;
      double part = is_lossy ? 0.3 : 1;
      if (limited_hosts_.contains(from)) part = 0.2;
      const auto nic = cluster_.state().paths.FindAttachment(flow.key.source)->uplink.link;
      const auto bps = static_cast<double>(cluster_.state().topology.link(nic).rate.value);
      health.flows.push_back({.flow = wire::LocalFlowId(id),
                              .source_port = flow.subflows[0].port,
                              .achieved_bps = static_cast<std::uint64_t>(part * bps / 3),
                              .retries = retries,
                              .rtt_us = is_lossy ? 200U : 20U});
    }
    cluster_.Deliver(cluster_.host(from).peer, cluster_.host(from).instance, health);
  }

  fabric::LinkId Link(const std::string& id) { return *cluster_.state().topology.FindLink(id); }
  int FlowsOnLossyLinks() {
    int flows = 0;
    for (int from = 0; from < 16; ++from) {
      for (std::uint64_t id = 1; id <= 3; ++id) {
        flows += UsesLossyLink(cluster_.FlowOf(from, id)) ? 1 : 0;
      }
    }
    return flows;
  }
  // Has a host leave the paths of two flows that share their first link, one of them to this leaf
  // if one is given; they recover. Returns the link. (Two hosts would make it dead.)
  std::string LeaveByHost(std::optional<int> leaf = {}) {
    const auto counts = [&](int from, std::uint64_t id) {
      return !leaf || (from / 4 + static_cast<int>(id)) % 4 == *leaf;
    };
    for (int from = 0; from < 16; ++from) {
      std::map<fabric::LinkId, std::vector<std::uint64_t>> flows;
      for (std::uint64_t id = 1; id <= 3; ++id) {
        const Flow& flow = cluster_.FlowOf(from, id);
        const auto path = flow.subflows[0].port_path.Index();
        flows[cluster_.state().PathsOf(flow)[path].hops.front().link].push_back(id);
      }
      for (const auto& [link, ids] : flows) {
        if (ids.size() < 2) continue;
        if (std::ranges::none_of(ids, [&](std::uint64_t id) { return counts(from, id); })) continue;
        for (const std::uint64_t id : ids) Leave(from, id);
        return cluster_.state().topology.link(link).id;
      }
    }
    return "";
  }
  void Leave(int from, std::uint64_t id) {
    const Flow& flow = cluster_.FlowOf(from, id);
    wire::FlowHealth report{
        .flow = wire::LocalFlowId(id),
        .path_id = static_cast<std::uint32_t>(flow.subflows[0].port_path.value()),
        .source_port = static_cast<std::uint16_t>(60'000 + 3 * from + static_cast<int>(id)),
        .verdict = wire::PathVerdict::kLocallyRerouted};
    const Cluster::Host& host = cluster_.host(from);
    cluster_.Deliver(host.peer, host.instance, wire::PathHealth{{report}});
    report.verdict = wire::PathVerdict::kGood;
    report.recovered_us = 40'000;
    cluster_.Deliver(host.peer, host.instance, wire::PathHealth{{report}});
  }
  std::vector<std::string> Events(const std::string& kind) {
    std::vector<std::string> texts;
    for (const HistoryEvent& event : cluster_.state().history.Since(0, 10'000)) {
      if (event.kind == kind) texts.push_back(event.text);
    }
    return texts;
  }
  LinkState StateOf(const std::string& id) {
    return cluster_.state().topology.link(Link(id)).state;
  }

  Cluster cluster_{kFourLeaves};
  std::set<fabric::LinkId> lossy_;
  std::set<int> limited_hosts_;  // whose programs send less than they could
  std::map<std::pair<int, std::uint64_t>, std::uint32_t> retries_;
};

TEST_F(LinkQualityTest, FlowsLeaveALossyLinkWithinTwoSeconds) {
  Open();
  lossy_ = {Link("leaf1--spine2")};
  ASSERT_GT(FlowsOnLossyLinks(), 0);
  Live(2s);
  EXPECT_EQ(FlowsOnLossyLinks(), 0);
  EXPECT_EQ(cluster_.state().slow_links.size(), 1U);
  EXPECT_TRUE(cluster_.state().slow_links.contains(Link("leaf1--spine2")));
  const auto events = Events("link_slow");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_TRUE(events[0].starts_with("link=leaf1--spine2 rate=0.3")) << events[0];
  EXPECT_NE(events[0].find("retries_per_second=80 siblings=0"), std::string::npos) << events[0];
}

TEST_F(LinkQualityTest, AHealedLinkIsUsedAgain) {
  Open();
  lossy_ = {Link("leaf1--spine2")};
  Live(10s);
  EXPECT_EQ(StateOf("leaf1--spine2"), LinkState::kDrained);
  lossy_.clear();
  Live(10min);
  EXPECT_EQ(StateOf("leaf1--spine2"), LinkState::kUp);
  EXPECT_EQ(Events("link_slow").size(), 1U);
  EXPECT_EQ(Events("link_recovered").size(), 1U);
  EXPECT_TRUE(cluster_.state().slow_links.empty());
}

// A link that stays lossy is tried again ever more rarely.
TEST_F(LinkQualityTest, ALossyLinkDoesNotFlap) {
  Open();
  lossy_ = {Link("leaf1--spine2")};
  Duration lossy{};
  for (int i = 0; i < 3'600; ++i) {
    Live(1s);
    if (FlowsOnLossyLinks() > 0) lossy += 1s;
    // New flows bring traffic back to a link that is used again.
    if (StateOf("leaf1--spine2") == LinkState::kUp && i % 5 == 0) {
      ASSERT_TRUE(cluster_.Recompute().has_value());
    }
  }
  EXPECT_LE(Events("link_slow").size(), 11U);
  EXPECT_LT(lossy, 60s);
  EXPECT_LE(cluster_.state().slow_links.size(), 1U);
}

// Programs that send less than they could make no link slow.
TEST_F(LinkQualityTest, ALimitedProgramMakesNoLinkSlow) {
  Open();
  limited_hosts_ = {0, 5, 6, 7, 11};
  Live(1min);
  for (int host = 0; host < 16; ++host) limited_hosts_.insert(host);
  Live(1min);
  EXPECT_TRUE(Events("link_slow").empty());
}

// The switches have changed their hash, and flows collide elsewhere than they are thought to be.
TEST_F(LinkQualityTest, ALinkIsInnocentIfPortsTakeOtherPaths) {
  Open();
  lossy_ = {Link("leaf1--spine2")};
  ASSERT_GT(FlowsOnLossyLinks(), 0);
  cluster_.hash = [before = cluster_.hash](int from, int to, std::uint16_t port) {
    return from / 4 == 1 || to / 4 == 1 ? 0 : before(from, to, port);
  };
  Live(3s);
  EXPECT_TRUE(Events("link_slow").empty()) << Events("link_slow").front();
  EXPECT_FALSE(Events("path_map_mismatch").empty());
}

// A host whose probes are lost is believed after a while.
TEST_F(LinkQualityTest, FlowsLeaveALossyLinkThatAnswersNoProbes) {
  Open();
  lossy_ = {Link("leaf1--spine2")};
  for (int host = 0; host < 16; ++host) cluster_.host(host).answers_probes = false;
  Live(1s);
  EXPECT_TRUE(Events("link_slow").empty());
  Live(4s);
  EXPECT_EQ(Events("link_slow").size(), 1U);
}

// Hosts save their flows by themselves before a link has been measured for long. It must not look
// free, and get other flows.
TEST_F(LinkQualityTest, ALinkThatAHostLeavesIsSlow) {
  Open();
  const std::string link = LeaveByHost();
  ASSERT_FALSE(link.empty());
  Live(1s);
  const auto events = Events("link_slow");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_TRUE(events[0].starts_with("link=" + link + " left_by_host=1")) << events[0];
}

// Acknowledgements may have been lost on it.
TEST_F(LinkQualityTest, ADeadLinkExplainsWhyAHostLeavesPaths) {
  Open();
  ASSERT_FALSE(LeaveByHost().empty());
  ASSERT_TRUE(cluster_.ChangeLink("leaf3--spine0", IntentAction::kFail).has_value());
  Live(3s);
  EXPECT_TRUE(Events("link_slow").empty()) << Events("link_slow").front();
}

// The other switches go on to send acknowledgements to it.
TEST_F(LinkQualityTest, ADeadLinkExplainsWhatHostsLeaveLater) {
  Open();
  ASSERT_TRUE(cluster_.ChangeLink("leaf1--spine0", IntentAction::kFail).has_value());
  ASSERT_TRUE(cluster_.Recompute().has_value());
  Live(3s);
  ASSERT_FALSE(LeaveByHost(1).empty());
  Live(3s);
  EXPECT_TRUE(Events("link_slow").empty()) << Events("link_slow").front();
}

// If every link loses packets, none is worse than its siblings.
TEST_F(LinkQualityTest, ACongestedFabricMakesNoLinkSlow) {
  Open();
  for (const fabric::Link& link : cluster_.state().topology.links()) lossy_.insert(Link(link.id));
  Live(1min);
  EXPECT_TRUE(Events("link_slow").empty());
}

// The link of a NIC is not a link that flows can leave.
TEST_F(LinkQualityTest, ASlowNicMakesNoLinkSlow) {
  Open();
  lossy_ = {cluster_.state().paths.FindAttachment(cluster_.FlowOf(3, 1).key.source)->uplink.link};
  Live(1min);
  EXPECT_TRUE(Events("link_slow").empty());
}

}  // namespace
}  // namespace espalier::controller
