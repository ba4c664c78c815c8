#include "controller/turn_metrics.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

constexpr fabric::LeafSpineOptions kShape{.spines = 2, .leaves = 2, .hosts_per_leaf = 4};

// The value of a metric in the text that operators scrape; "" if it is not there.
std::string ValueOf(Cluster& cluster, const std::string& name) {
  cluster.controller().RefreshMetrics();
  const std::string text = "\n" + cluster.MetricsText();
  const std::size_t found = text.find("\nespalier_controller_" + name + " ");
  if (found == std::string::npos) return "";
  const std::size_t begin = text.find(' ', found) + 1;
  return text.substr(begin, text.find('\n', begin) - begin);
}

TEST(TurnMetrics, AreThereFromTheStart) {
  Metrics metrics;
  const TurnMetrics turns(metrics);
  for (const char* name :
       {"turn_seconds_count", "assignments_total", "assignment_seconds_count", "flows_placed_total",
        "flows_moved_total", "flows_open", "flows_unroutable", "max_link_load",
        "max_link_load_bound", "topology_version", "events_dropped"}) {
    EXPECT_NE(("\n" + metrics.Text()).find("\nespalier_controller_" + std::string(name) + " 0\n"),
              std::string::npos)
        << name << "\n"
        << metrics.Text();
  }
}

// Three flows over two spines, of which one fails, then the other.
TEST(TurnMetrics, TellOfTheFlowsAfterEachTurn) {
  Cluster cluster(kShape);
  cluster.ConnectAll();
  cluster.Settle();
  EXPECT_EQ(ValueOf(cluster, "flows_open"), "0");
  for (int from = 0; from < 3; ++from) cluster.Open(from, {{.to = 4 + from}});
  cluster.Settle();
  EXPECT_EQ(ValueOf(cluster, "flows_open"), "3");
  EXPECT_EQ(ValueOf(cluster, "flows_placed_total"), "3");
  EXPECT_EQ(ValueOf(cluster, "flows_unroutable"), "0");
  EXPECT_EQ(ValueOf(cluster, "max_link_load"), "2");
  EXPECT_EQ(ValueOf(cluster, "max_link_load_bound"), "2");
  const std::string version = ValueOf(cluster, "topology_version");
  ASSERT_TRUE(cluster.ChangeNode("spine0", IntentAction::kFail));
  cluster.Advance(PeriodicWork::kTick);
  EXPECT_NE(ValueOf(cluster, "topology_version"), version);
  EXPECT_EQ(ValueOf(cluster, "max_link_load"), "3");
  ASSERT_TRUE(cluster.ChangeNode("spine1", IntentAction::kFail));
  cluster.Settle();
  EXPECT_EQ(ValueOf(cluster, "flows_unroutable"), "3");
  EXPECT_EQ(ValueOf(cluster, "max_link_load"), "0");
  for (int from = 0; from < 3; ++from) cluster.End(from, 1);
  cluster.Settle();
  EXPECT_EQ(ValueOf(cluster, "flows_open"), "0");
  EXPECT_EQ(ValueOf(cluster, "flows_unroutable"), "0");
}

}  // namespace
}  // namespace espalier::controller
