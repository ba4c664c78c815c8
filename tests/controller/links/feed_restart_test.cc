// Tests that a telemetry feed's reports survive a restart of the controller.
#include <gtest/gtest.h>

#include "tests/controller/cluster.h"
#include "tests/controller/train_hosts.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr const char* kLink = "leaf1--spine2";

class FeedRestart : public testing::Test {
 protected:
  FeedRestart() : cluster_({.spines = 4, .leaves = 4, .hosts_per_leaf = 2}) {
    cluster_.ConnectAll();
  }
  fabric::LinkId Link(const std::string& id = kLink) {
    return *cluster_.state().topology.FindLink(id);
  }
  bool IsUp(const std::string& id = kLink) {
    return cluster_.state().topology.link(Link(id)).state == fabric::LinkState::kUp;
  }
  void Say(bool up, const std::string& id = kLink) {
    cluster_.controller().links().health.HandleFeedReport(Link(id), up, "gnmi");
    cluster_.Settle();
  }
  void Restart() {
    cluster_.RestartController();
    for (int i = 0; i < cluster_.hosts(); ++i) {
      cluster_.host(i).instance = 0;  // agents without flows: as new ones
      cluster_.Connect(i);
    }
  }

  Cluster cluster_;
};

TEST_F(FeedRestart, ALinkThatTheFeedReportedDownStaysDown) {
  cluster_.dead = {Link()};
  Say(false);
  ASSERT_FALSE(IsUp());
  for (int restarts = 0; restarts < 2; ++restarts) {
    Restart();
    EXPECT_FALSE(IsUp());
    cluster_.Open(0,
                  {{.id = 1, .to = 2}, {.id = 2, .to = 2}, {.id = 3, .to = 3}, {.id = 4, .to = 3}});
    cluster_.Advance(10min);
    EXPECT_FALSE(IsUp()) << "nothing was proven, nobody has said anything";
    for (std::uint64_t id = 1; id <= 4; ++id) {
      EXPECT_NE(cluster_.AppliedSpine(0, id, id <= 2 ? 2 : 3), 2);
      cluster_.End(0, id);
    }
  }
}

TEST_F(FeedRestart, ALinkThatTheFeedReportedUpIsUp) {
  Say(false);
  Say(true);
  Restart();
  EXPECT_TRUE(IsUp());
  EXPECT_TRUE(cluster_.disk.reported_down.empty());
}

TEST_F(FeedRestart, TheFeedsNextReportReplacesTheStoredOne) {
  cluster_.dead = {Link()};
  Say(false);
  Restart();
  Say(true);
  cluster_.Advance(1s);
  EXPECT_FALSE(IsUp()) << "it must stay up first";
  cluster_.Advance(5min);
  EXPECT_TRUE(IsUp());
  Restart();
  EXPECT_TRUE(IsUp());
  Say(false);
  Restart();
  Say(false);  // again: from now on it is this controller's own knowledge
  cluster_.dead.clear();
  cluster_.Advance(10min);
  EXPECT_FALSE(IsUp());
}

// The link recovered while no controller ran, and the feed reports only changes.
class TestedFeedRestart : public FeedRestart {
 protected:
  TestedFeedRestart() {
    for (int i = 0; i < cluster_.hosts(); ++i) cluster_.Connect(i);  // now they can test links
  }
  TrainHosts trains_{cluster_};
};

TEST_F(TestedFeedRestart, TrainsConfirmThatTheLinkIsAlive) {
  for (const char* link : {kLink, "leaf0--spine3"}) {
    Say(false, link);
    Restart();
    for (int i = 0; i < cluster_.hosts(); ++i) trains_.Forget(i);
    ASSERT_FALSE(IsUp(link));
    cluster_.Advance(3min);
    EXPECT_TRUE(IsUp(link));
    EXPECT_TRUE(cluster_.disk.reported_down.empty());
    Restart();
    EXPECT_TRUE(IsUp(link));
  }
}

TEST_F(FeedRestart, SilentSwitchesConfirmNothing) {
  Say(false);
  Restart();
  for (int i = 0; i < cluster_.hosts(); ++i) cluster_.host(i).answers_probes = false;
  cluster_.Advance(10min);
  EXPECT_FALSE(IsUp());
}

TEST_F(FeedRestart, RetriesAfterAFullDisk) {
  cluster_.disk.is_full = true;
  Say(false);
  EXPECT_FALSE(IsUp()) << "that it cannot be kept does not make it less true";
  EXPECT_TRUE(cluster_.disk.reported_down.empty());
  cluster_.disk.is_full = false;
  cluster_.Advance(1s);
  EXPECT_TRUE(cluster_.disk.reported_down.contains(kLink));
}

TEST_F(FeedRestart, LinksOutsideTheTopologyAreForgotten) {
  cluster_.disk.reported_down["gone--away"] = {"gnmi", {}};
  Restart();
  cluster_.Advance(1s);
  EXPECT_TRUE(cluster_.disk.reported_down.empty());
  EXPECT_TRUE(IsUp());
}

TEST_F(FeedRestart, ARollbackDoesNotTouchWhatWasReported) {
  ASSERT_TRUE(cluster_.ChangeLink("leaf3--spine0", IntentAction::kFail).has_value());
  Say(false);
  EXPECT_EQ(cluster_.disk.revision, 1U);
  ASSERT_TRUE(cluster_.RollBack(std::nullopt).has_value());
  EXPECT_TRUE(IsUp("leaf3--spine0"));
  EXPECT_FALSE(IsUp());
}

}  // namespace
}  // namespace espalier::controller
