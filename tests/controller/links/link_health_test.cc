// Tests which links are down by the reports of agents and feeds, and what is stored.
#include "controller/links/link_health.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/controller/links/link_fixture.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr const char* kLink = "leaf1--spine2";

class Health : public LinkFixture {
 protected:
  explicit Health(LinkMonitorOptions options = {}) : LinkFixture(options) {}

  bool NicOf(const std::string& agent, const std::string& host, bool up) {
    wire::LinkEvent event;
    event.address = Address(host);
    event.up = up;
    return health_->HandleNicEvent(Agent(agent), event);
  }
  // A flow from h0 to h1 with the fields that path failure reports need.
  Flow FlowToH1() const {
    Flow flow;
    flow.source_leaf = Node("leaf0");
    flow.destination_leaf = Node("leaf1");
    flow.subflows.resize(1);
    return flow;
  }
};

TEST_F(Health, BelievesAFeedsDownReportAtOnceAndItsUpReportAfterAWhile) {
  FeedSays(kLink, false);
  EXPECT_TRUE(IsDown(kLink));
  EXPECT_EQ(changes_, 1);
  EXPECT_EQ(LastOf("link_detected_down"), "link=leaf1--spine2 why=feed");
  EXPECT_EQ(LastOf("link_reported_down"), "link=leaf1--spine2 source=\"gnmi\"");
  FeedSays(kLink, true);
  EXPECT_TRUE(IsDown(kLink));
  agents_probe_ = false;  // so nothing can prove that it carries packets
  Pass(options_.restore_after + 1ms);
  EXPECT_FALSE(IsDown(kLink));
  EXPECT_EQ(changes_, 2);
  EXPECT_EQ(LastOf("link_detected_up"), "link=leaf1--spine2 why=restored");
}

// Trains of one host under a leaf prove nothing: it could lie.
TEST_F(Health, NothingGoesOverALinkThatIsUpBeforeSeveralHostsHaveTestedIt) {
  FeedSays(kLink, false);
  FeedSays(kLink, true);
  Pass(options_.restore_after + 1ms);
  PassTrains(25);
  EXPECT_TRUE(IsDown(kLink));
  EXPECT_EQ(changes_, 1);
}

TEST_F(Health, ALinkThatAFeedReportsUpIsTriedInTheEndIfNoTrainPasses) {
  FeedSays(kLink, false);
  FeedSays(kLink, true);
  Pass(options_.restore_after + 1ms);
  Pass(options_.proof_wait - 2ms);  // one has passed already
  EXPECT_TRUE(IsDown(kLink));
  Pass(1ms);
  EXPECT_FALSE(IsDown(kLink));
  EXPECT_EQ(LastOf("link_detected_up"), "link=leaf1--spine2 why=tried");
}

TEST_F(Health, StoresAFeedsReportUntilTheNextOne) {
  FeedSays(kLink, false);
  EXPECT_EQ(disk_.reported_down, (ReportedLinks{{kLink, {"gnmi", wall_}}}));
  EXPECT_EQ(disk_.revision, 0U);  // of the intents
  const WallTime first = wall_;
  wall_ += 1h;
  FeedSays(kLink, false);  // nothing new
  EXPECT_EQ(disk_.reported_down.at(kLink).since, first);
  FeedSays(kLink, true);
  EXPECT_TRUE(disk_.reported_down.empty());
}

TEST_F(Health, RestoresStoredReportsWithoutCallbacks) {
  FeedSays(kLink, false);
  Restart();
  EXPECT_FALSE(IsDown(kLink));
  changes_ = 0;
  health_->Restore(disk_.reported_down);
  EXPECT_TRUE(IsDown(kLink));
  EXPECT_EQ(changes_, 0);
  EXPECT_EQ(LastOf("link_remembered_down"), "link=leaf1--spine2 source=\"gnmi\"");
  Pass(10min);
  EXPECT_TRUE(IsDown(kLink));
  EXPECT_EQ(disk_.reported_down.size(), 1U);
}

TEST_F(Health, ForgetsStoredLinksOutsideTheTopology) {
  disk_.reported_down = {{"leaf99--spine9", {"gnmi", wall_}}, {kLink, {"gnmi", wall_}}};
  health_->Restore(disk_.reported_down);
  Pass(1ms);
  EXPECT_EQ(disk_.reported_down, (ReportedLinks{{kLink, {"gnmi", wall_}}}));
}

TEST_F(Health, RetriesReportsThatCouldNotBeStored) {
  disk_.is_full = true;
  FeedSays(kLink, false);
  EXPECT_TRUE(IsDown(kLink));
  EXPECT_TRUE(disk_.reported_down.empty());
  Pass(1ms);
  disk_.is_full = false;
  EXPECT_TRUE(disk_.reported_down.empty());
  Pass(1ms);
  EXPECT_EQ(disk_.reported_down.size(), 1U);
}

// A report that arrives during a write is written afterwards.
TEST_F(Health, StoresReportsThatArriveDuringAWrite) {
  health_->HandleFeedReport(Link(kLink), false, "gnmi");
  health_->HandleFeedReport(Link("leaf0--spine0"), false, "gnmi");
  Settle();
  EXPECT_EQ(disk_.reported_down.size(), 2U);
}

TEST_F(Health, AnAgentReportsOnlyItsOwnNics) {
  EXPECT_FALSE(NicOf("h0", "h1", false));
  EXPECT_FALSE(IsDown("h1--leaf1"));
  wire::LinkEvent unknown;
  unknown.address = IpAddress::FromV4(0x0102'0304);
  EXPECT_FALSE(health_->HandleNicEvent(Agent("h0"), unknown));
  EXPECT_EQ(changes_, 0);
}

TEST_F(Health, AReportedNicIsDownUntilItIsReportedUp) {
  EXPECT_TRUE(NicOf("h0", "h0", false));
  EXPECT_TRUE(IsDown("h0--leaf0"));
  EXPECT_TRUE(NicOf("h0", "h0", false));  // once more
  EXPECT_EQ(changes_, 1);
  EXPECT_EQ(LastOf("nic_down"), "agent=h0 link=h0--leaf0");
  EXPECT_TRUE(NicOf("h0", "h0", true));
  EXPECT_FALSE(IsDown("h0--leaf0"));
  EXPECT_EQ(changes_, 2);
  EXPECT_TRUE(disk_.reported_down.empty());
}

TEST_F(Health, APathThatAHostFoundDeadIsTestedAtOnceAndStaysInUse) {
  PassTrains(1);
  health_->HandlePathFailure(Agent("h0"), FlowToH1(), 2);
  EXPECT_TRUE(UrgentPorts().contains(50'002));
  EXPECT_GT(UrgentPorts().size(), 1U) << "and other paths between the same hosts";
  for (const char* const host : {"h2", "h3"}) {
    health_->HandlePathFailure(Agent(host), FlowToH1(), 2);
  }
  Pass(1s);
  EXPECT_EQ(changes_, 0);
}

// The path answers probes, and a timer of TCP says that what comes back is lost.
TEST_F(Health, LostAnswersHaveTheReturnPathTested) {
  PassTrains(1);
  Flow flow = FlowToH1();
  flow.protocol = flow.key.protocol = wire::kProtocolTcp;
  flow.key.source = Node("h0");
  flow.key.destination = Node("h1");
  flow.subflows[0].port = 50'000;
  flow.subflows[0].port_path = fabric::PathIndex(1);
  health_->HandleLostAnswers(Agent("h0"), flow, 1);  // the return path is not known
  return_path_ = fabric::PathIndex(2);
  health_->HandleLostAnswers(Agent("h0"), flow, 3);  // it has no port there
  EXPECT_TRUE(UrgentPorts().empty());
  health_->HandleLostAnswers(Agent("h0"), flow, 1);
  EXPECT_TRUE(UrgentPorts().contains(50'002));
  EXPECT_EQ(changes_, 0);
}

TEST_F(Health, ReportsOnUnknownPathsAreIgnored) {
  PassTrains(1);
  Flow flow = FlowToH1();
  health_->HandlePathFailure(Agent("h0"), flow, 4);
  health_->HandleRepeats(Agent("h0"), flow, 4);
  flow.subflows.clear();
  health_->HandlePathFailure(Agent("h0"), flow, 2);
  health_->HandleRepeats(Agent("h0"), flow, 2);
  EXPECT_TRUE(UrgentPorts().empty());
}

TEST_F(Health, AHostMayHaveALimitedNumberOfLinksTestedAtOnce) {
  PassTrains(1);
  std::size_t tests = 0;
  for (int second = 0; second < 60; ++second) {
    for (std::uint32_t path = 0; path < 4; ++path) {
      sent_.clear();
      health_->HandlePathFailure(Agent("h0"), FlowToH1(), path);
      tests += UrgentPorts().empty() ? 0 : 1;
    }
    Pass(1s);
  }
  // 64 at once and 4 more a second, of links; a path has two.
  EXPECT_GT(tests, 30U);
  EXPECT_LE(tests, (64U + 60 * 4) / 2 + 4);
}

class Budget : public Health {
 protected:
  Budget() : Health({.max_links = 1, .max_tier_fraction = 1}) {}
};

TEST_F(Budget, LinksBeyondItStayInUseAndAwaitTheOperator) {
  FeedSays(kLink, false);
  FeedSays("leaf0--spine0", false);
  EXPECT_TRUE(IsDown(kLink));
  EXPECT_FALSE(IsDown("leaf0--spine0"));
  EXPECT_TRUE(health_->awaiting_operator().contains(Link("leaf0--spine0")));
  EXPECT_EQ(LastOf("detection_budget_exceeded"),
            "links=leaf0--spine0 waiting=1 limit=1 remedy=\"these links stay in use; if they are "
            "dead or lossy, take them out of use with espalier fail link, espalier drain link or "
            "espalier fail node\"");
  EXPECT_EQ(changes_, 1);
}

// A stored link would be down at once after a restart.
TEST_F(Budget, LinksThatAwaitTheOperatorAreNotStored) {
  FeedSays(kLink, false);
  FeedSays("leaf0--spine0", false);
  Pass(1ms);
  EXPECT_EQ(disk_.reported_down.size(), 1U);
  EXPECT_TRUE(disk_.reported_down.contains(kLink));
}

TEST_F(Budget, DoesNotCountLinksThatTheOperatorHasFailed) {
  FeedSays(kLink, false);
  FeedSays("leaf0--spine0", false);
  state_.intents.failed_nodes = {{"spine0", {}}};
  Pass(1ms);
  EXPECT_TRUE(health_->awaiting_operator().empty());
  EXPECT_EQ(EventsOf("detection_budget_free"), 1U);
  EXPECT_EQ(EventsOf("detection_budget_exceeded"), 1U);
}

}  // namespace
}  // namespace espalier::controller
