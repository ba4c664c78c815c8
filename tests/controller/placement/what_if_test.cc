// What would happen, before it does.
#include "controller/placement/what_if.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

// Where flows would go is where they go then, whatever is on the fabric.
TEST(WhatIfTest, DryRunsTellWhereFlowsWouldGo) {
  Cluster cluster({.spines = 4, .leaves = 6, .hosts_per_leaf = 4},
                  {.moves_per_start = 0, .plan_ahead = false});
  cluster.ConnectAll();
  std::uint64_t random = 1;
  const auto draw = [&random](std::uint64_t bound) {
    random = random * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
    return (random >> 33) % bound;
  };
  for (std::uint64_t id = 1; id <= 60; ++id) {
    const int from = static_cast<int>(draw(24));
    const int to = static_cast<int>(draw(24));
    const auto paths = static_cast<std::uint8_t>(1 + draw(2));
    if (from != to) cluster.Open(from, {{.id = id, .to = to, .max_paths = paths}});
  }
  cluster.Settle();
  std::size_t moved = 0;
  for (int round = 0; round < 12; ++round) {
    const std::string link = "leaf" + std::to_string(draw(6)) + "--spine" + std::to_string(draw(4));
    const auto action = round % 2 == 0 ? IntentAction::kFail : IntentAction::kDrain;
    const auto told = cluster.ChangeLink(link, action, {.dry_run = true});
    const auto done = cluster.ChangeLink(link, action);
    ASSERT_EQ(told.has_value(), done.has_value());
    if (!done) continue;
    ASSERT_EQ(told->moves.size(), done->moves.size()) << link;
    for (std::size_t i = 0; i < done->moves.size(); ++i) {
      EXPECT_EQ(told->moves[i].flow, done->moves[i].flow);
      EXPECT_EQ(told->moves[i].from, done->moves[i].from);
      EXPECT_EQ(told->moves[i].to, done->moves[i].to) << link << " " << done->moves[i].flow;
    }
    moved += done->moves.size();
    cluster.Settle();
  }
  EXPECT_GT(moved, 10U);
  const auto told = cluster.RollBack(0, {.dry_run = true});
  ASSERT_TRUE(told) << told.error().message;
  EXPECT_TRUE(told->moves.empty());  // all links come back: nothing has to move
}

// Nor do edges of forests move for others in a dry run.
TEST(WhatIfTest, EdgesOfForestsWeighInADryRun) {
  Cluster cluster({.spines = 4, .leaves = 3, .hosts_per_leaf = 2},
                  {.fabric_hashes_protocol = false, .moves_per_start = 0, .plan_ahead = false});
  cluster.ConnectAll();
  ASSERT_TRUE(cluster.StartJob({.name = "train", .ranks = {"h0", "h2"}}).has_value());
  cluster.Settle();
  ASSERT_FALSE(cluster.state().edges.all().empty());
  for (std::uint64_t id = 1; id <= 8; ++id) cluster.Open(1, {{.id = id, .to = 3}});
  cluster.Settle();
  std::size_t moved = 0;
  for (const char* link : {"leaf2--spine0", "leaf1--spine1", "leaf0--spine3"}) {
    const auto told = cluster.ChangeLink(link, IntentAction::kFail, {.dry_run = true});
    const auto done = cluster.ChangeLink(link, IntentAction::kFail);
    ASSERT_TRUE(told.has_value() && done.has_value());
    ASSERT_EQ(told->moves.size(), done->moves.size()) << link;
    for (std::size_t i = 0; i < done->moves.size(); ++i) {
      EXPECT_EQ(told->moves[i].to, done->moves[i].to) << link << " " << done->moves[i].flow;
    }
    moved += done->moves.size();
    cluster.Advance(std::chrono::seconds(1));
  }
  EXPECT_GE(moved, 2U);
}

}  // namespace
}  // namespace espalier::controller
