#include "tests/studies/prediction/steered_flows.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/builders.h"

namespace espalier::offline {
namespace {

using namespace std::chrono_literals;
using controller::FlowSlot;

// Four flows from the hosts of leaf 0 to those of leaf 1, and one within leaf 0.
class SteeredFlowsTest : public testing::Test {
 protected:
  SteeredFlowsTest() {
    const auto node = [&](int host) { return *topology_.FindNode("h" + std::to_string(host)); };
    Job job{.id = "J", .phases = {{}}};
    for (int i = 0; i < 4; ++i) {
      job.phases[0].exchanges.push_back(
          {.flows = {{node(i), node(4 + i)}, {node(4 + i), node(i)}}, .round_bytes = 1});
    }
    job.phases[0].exchanges.push_back(
        {.flows = {{node(0), node(1)}, {node(1), node(0)}}, .round_bytes = 1});
    workload_ = *Workload::Build(topology_, {job});
  }
  // The flow of a ring in its first direction.
  const SimulatedFlow& Flow(std::uint32_t ring) const { return workload_->flows()[2 * ring]; }

  fabric::Topology topology_ = *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 4, .leaves = 2, .hosts_per_leaf = 4}));
  std::optional<Workload> workload_;
  TimePoint now_{1s};
};

TEST_F(SteeredFlowsTest, SpreadsFlowsOverThePathsAndForgetsThoseThatEnd) {
  SteeredFlows flows(topology_, false);
  std::vector<FlowSlot> open;
  std::set<std::int32_t> taken;
  for (std::uint32_t ring = 0; ring < 4; ++ring) {
    const auto opened = flows.Open(Flow(ring), "J", ring + 1, now_);
    EXPECT_TRUE(opened.has_path);
    EXPECT_EQ(opened.planned, 0U);
    open.push_back(opened.slot);
    ASSERT_TRUE(flows.PathOf(opened.slot).has_value());
    taken.insert(*flows.PathOf(opened.slot));
  }
  EXPECT_EQ(taken.size(), 4U);
  EXPECT_EQ(flows.All().size(), 4U);
  EXPECT_TRUE(flows.CompareWithFromScratch().as_good);
  const std::int32_t freed = *flows.PathOf(open[2]);
  flows.Close(open[2], now_ + 1s);
  EXPECT_EQ(flows.All().size(), 3U);
  const auto next = flows.Open(Flow(2), "J", 9, now_ + 2s);
  EXPECT_EQ(flows.PathOf(next.slot), freed);
}

TEST_F(SteeredFlowsTest, FlowsWithinALeafHaveNoPath) {
  SteeredFlows flows(topology_, false);
  const auto opened = flows.Open(Flow(4), "J", 1, now_);
  EXPECT_FALSE(opened.has_path);
  EXPECT_FALSE(flows.PathOf(opened.slot).has_value());
  const auto comparison = flows.CompareWithFromScratch();
  EXPECT_TRUE(comparison.least_load);
  EXPECT_TRUE(comparison.as_good);
}

TEST_F(SteeredFlowsTest, EstimatesTheEndFromProgress) {
  SteeredFlows flows(topology_, false);
  const FlowSlot slot = flows.Open(Flow(0), "J", 1, now_).slot;
  EXPECT_FALSE(flows.EndOf(slot).has_value());
  constexpr std::uint64_t kBytes = 10'000'000'000;
  for (int step = 0; step <= 8; ++step) {
    const std::uint64_t sent = static_cast<std::uint64_t>(step) * (kBytes / 10);
    flows.TakeProgress(slot, kBytes - sent, sent, now_ + step * 100ms);
  }
  const auto end = flows.EndOf(slot);
  ASSERT_TRUE(end.has_value());
  EXPECT_GE(*end, now_ + 900ms);
  EXPECT_LE(*end, now_ + 1'100ms);
}

// Iterations that repeat exactly: their starts are predicted, and get paths that were precomputed.
TEST_F(SteeredFlowsTest, LearnsTheStartsOfAJobAndPlansThem) {
  for (const bool plans : {true, false}) {
    SteeredFlows flows(topology_, plans);
    std::uint64_t serial = 0;
    std::size_t planned = 0;
    TimePoint start = now_;
    for (int iteration = 0; iteration < 12; ++iteration, start += 1s) {
      flows.Tick(start - 100ms);
      while (plans && flows.PlanNext(start - 100ms)) {
      }
      if (iteration == 11) {
        const auto next = flows.NextStartOf("J");
        ASSERT_TRUE(next.has_value());
        EXPECT_GE(*next, start - 20ms);
        EXPECT_LE(*next, start + 20ms);
        EXPECT_FALSE(flows.NextStartOf("K").has_value());
      }
      std::vector<FlowSlot> open;
      for (std::uint32_t ring = 0; ring < 4; ++ring) {
        const auto opened = flows.Open(Flow(ring), "J", ++serial, start);
        planned += opened.planned;
        open.push_back(opened.slot);
      }
      for (const FlowSlot slot : open) flows.Close(slot, start + 300ms);
      flows.Tick(start + 300ms);
    }
    EXPECT_EQ(planned > 0, plans);
    EXPECT_TRUE(flows.All().empty());
  }
}

}  // namespace
}  // namespace espalier::offline
