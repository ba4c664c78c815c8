// Tests maintenance windows on a whole controller.
#include "controller/intents/maintenance.h"

#include <gtest/gtest.h>

#include <string>

#include "controller/intents/intent_text.h"
#include "controller/operations/maintenance_edits.h"
#include "controller/state/fabric_health.h"
#include "tests/controller/four_flows.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using fabric::LinkState;

class Maintenance : public testing::Test {
 protected:
  Maintenance() {
    cluster_.ConnectAll();
    OpenFourFlows(cluster_);
  }
  LinkState StateOf(const char* id) {
    const fabric::Topology& topology = cluster_.state().topology;
    return topology.link(*topology.FindLink(id)).state;
  }
  // Lets wall clock and loop pass together, and two seconds more.
  void Pass(std::chrono::seconds by) {
    for (auto passed = 0s; passed < by + 2s; passed += 1s) {
      now_ += 1s;
      cluster_.Advance(1s);
    }
  }
  std::size_t CountEvents(std::string_view kind) {
    std::size_t count = 0;
    for (const auto& event : cluster_.state().history.Since(0, 1'000)) {
      count += event.kind == kind ? 1 : 0;
    }
    return count;
  }

  WallTime now_{std::chrono::hours(1'000)};
  Cluster cluster_{kFourLeaves, {.wall_clock = [this] { return now_; }}};
};

TEST_F(Maintenance, DrainsAtItsBeginningAndRestoresAtItsEnd) {
  const auto tried =
      cluster_.AddMaintenance("node", "spine0", now_ + 10s, {.until = now_ + 20s, .dry_run = true});
  ASSERT_TRUE(tried.has_value()) << tried.error().message;
  EXPECT_EQ(tried->moves.size(), 1U) << "a dry run tells what the beginning will move";
  ASSERT_TRUE(cluster_.AddMaintenance("node", "spine0", now_ + 10s,
                                      {.actor = "anna", .reason = "optics", .until = now_ + 20s}));
  EXPECT_EQ(StateOf("leaf0--spine0"), LinkState::kUp);
  EXPECT_TRUE(SpinesOfFourFlows(cluster_).contains(0));
  cluster_.RestartController();
  cluster_.ConnectAll();
  OpenFourFlows(cluster_);
  Pass(11s);
  EXPECT_EQ(StateOf("leaf0--spine0"), LinkState::kDrained);
  EXPECT_FALSE(SpinesOfFourFlows(cluster_).contains(0));
  const AuditEntry& begun = cluster_.disk.audit.back();
  EXPECT_EQ(begun.action, "begin maintenance");
  EXPECT_EQ(begun.actor, "anna");
  Pass(10s);
  EXPECT_EQ(StateOf("leaf0--spine0"), LinkState::kUp);
  EXPECT_TRUE(cluster_.state().intents.maintenance.empty());
}

TEST_F(Maintenance, OverlappingWindowsAndDrainsAddUp) {
  ASSERT_TRUE(cluster_.AddMaintenance("node", "spine0", now_, {.until = now_ + 10s}));
  ASSERT_TRUE(cluster_.AddMaintenance("link", "leaf0--spine0", now_ + 5s, {.until = now_ + 1h}));
  ASSERT_TRUE(cluster_.ChangeLink("leaf1--spine0", IntentAction::kDrain));
  EXPECT_EQ(StateOf("leaf2--spine0"), LinkState::kDrained) << "the first window has begun at once";
  const auto undrained = cluster_.ChangeNode("spine0", IntentAction::kUndrain);
  EXPECT_NE(undrained.error().message.find("espalier maintenance cancel m1"), std::string::npos)
      << undrained.error().message;
  Pass(11s);
  EXPECT_EQ(StateOf("leaf2--spine0"), LinkState::kUp);
  EXPECT_EQ(StateOf("leaf0--spine0"), LinkState::kDrained) << "by the second window";
  EXPECT_EQ(StateOf("leaf1--spine0"), LinkState::kDrained) << "by the operator";
  ASSERT_TRUE(cluster_.CancelMaintenance("m2"));
  EXPECT_EQ(StateOf("leaf0--spine0"), LinkState::kUp);
  EXPECT_EQ(cluster_.CancelMaintenance("m2").error().code, ErrorCode::kNotFound);
}

TEST_F(Maintenance, WaitsWhereItsBeginningWouldCutOffFlows) {
  for (const char* spine : {"spine1", "spine2", "spine3"}) {
    ASSERT_TRUE(cluster_.ChangeNode(spine, IntentAction::kDrain));
  }
  ASSERT_TRUE(cluster_.AddMaintenance("node", "spine0", now_ + 5s, {.until = now_ + 2h}));
  Pass(6s);
  EXPECT_EQ(StateOf("leaf0--spine0"), LinkState::kUp);
  EXPECT_EQ(CountEvents("maintenance_held"), 1U);
  const auto reasons = HealthOf(cluster_.state(), CountReach(cluster_.state()), 0, {}).Reasons();
  EXPECT_EQ(reasons,
            std::vector<std::string>{"1 maintenance window waits, as it would cut off flows"});
  ASSERT_TRUE(cluster_.ChangeNode("spine1", IntentAction::kUndrain));
  Pass(15s);
  EXPECT_EQ(StateOf("leaf0--spine0"), LinkState::kDrained) << "as soon as it can";
  EXPECT_TRUE(cluster_.state().held_windows.empty());
}

TEST_F(Maintenance, BeginsForcedWhereItCutsOffFlows) {
  for (const char* spine : {"spine1", "spine2", "spine3"}) {
    ASSERT_TRUE(cluster_.ChangeNode(spine, IntentAction::kDrain));
  }
  ASSERT_TRUE(
      cluster_.AddMaintenance("node", "spine0", now_ + 5s, {.until = now_ + 2h, .force = true}));
  Pass(6s);
  EXPECT_EQ(StateOf("leaf0--spine0"), LinkState::kDrained);
}

TEST_F(Maintenance, RefusesWindowsWithoutMeaning) {
  const auto code = [&](const char* kind, const char* id, WallTime from,
                        const OperatorRequest& request) {
    return cluster_.AddMaintenance(kind, id, from, request).error().code;
  };
  EXPECT_EQ(code("link", "nosuch", now_, {.until = now_ + 1h}), ErrorCode::kNotFound);
  EXPECT_EQ(code("node", "nosuch", now_, {.until = now_ + 1h}), ErrorCode::kNotFound);
  EXPECT_EQ(code("job", "h0", now_, {.until = now_ + 1h}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code("node", "spine0", now_, {}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code("node", "spine0", now_, {.until = now_}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code("node", "spine0", now_ + 2h, {.until = now_ + 1h}), ErrorCode::kInvalidArgument);
  ASSERT_TRUE(cluster_.AddMaintenance("node", "spine0", now_ + 1h, {.until = now_ + 2h}));
  EXPECT_EQ(code("node", "spine0", now_ + 1h, {.until = now_ + 2h}), ErrorCode::kAlreadyExists);
  Intents many;
  for (std::size_t i = 0; i < kMaxWindows; ++i) many.maintenance["m" + std::to_string(i)] = {};
  const auto one_more = AddWindow(many, cluster_.state().topology, "node", "spine0", now_,
                                  {.until = now_ + 1h}, now_);
  EXPECT_EQ(one_more.error().code, ErrorCode::kResourceExhausted);
}

TEST_F(Maintenance, KeepsItsTextForm) {
  const IntentValue window = MaintenanceWindow{
      .kind = "link", .id = "leaf 0--spine1", .from = now_, .has_begun = true, .is_forced = true};
  const std::string text = FormatIntentValue(window);
  EXPECT_EQ(ParseIntentValue(&Intents::maintenance, "m1", text), window) << text;
  for (const char* bad : {"", "x", "2026-11-21T18:00:00.000Z job begun forced a",
                          "2026-11-21T18:00:00.000Z link begun forced "}) {
    EXPECT_TRUE(
        std::holds_alternative<UnreadableValue>(ParseIntentValue(&Intents::maintenance, "m1", bad)))
        << bad;
  }
  EXPECT_EQ(NextWindowId({{"m2", {}}, {"m9", {}}, {"x", {}}}), "m10");
}

}  // namespace
}  // namespace espalier::controller
