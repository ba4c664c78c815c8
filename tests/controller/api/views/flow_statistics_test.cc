// Tests the statistics over all flows.
#include "controller/api/views/flow_statistics.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/fabric/builders.h"

namespace espalier::controller {
namespace {

class FlowStatisticsTest : public testing::Test {
 protected:
  struct Shape {
    std::string job;
    FlowStatus status = FlowStatus::kRouted;
    std::vector<std::int32_t> paths;
    std::uint64_t bps = 0;
    bool is_busy = true;
  };
  // A flow from h0 to h1.
  void Open(const Shape& shape) {
    Flow flow;
    flow.agent = state_.agents.Intern("h0");
    flow.local = wire::LocalFlowId(next_);
    flow.job = state_.flows.JobIndex(shape.job, flow.agent);
    flow.source_address = Address("h0");
    flow.destination_address = Address("h1");
    flow.source_leaf = *state_.topology.FindNode("leaf0");
    flow.destination_leaf = *state_.topology.FindNode("leaf1");
    flow.subflows.resize(shape.paths.size());
    flow.status = shape.status;
    const FlowSlot slot = state_.flows.Open(std::move(flow));
    for (std::uint32_t i = 0; i < shape.paths.size(); ++i) {
      state_.decisions.Place(slot, i, shape.paths[i]);
    }
    const wire::FlowProgress progress{.id = wire::LocalFlowId(next_++),
                                      .remaining_bytes = shape.is_busy ? 1U : 0U,
                                      .achieved_bps = shape.bps};
    state_.flows.TakeProgress(AgentId(0), std::vector{progress}, TimePoint{});
  }
  IpAddress Address(const std::string& host) const {
    return state_.topology.node(*state_.topology.FindNode(host)).addresses.front();
  }
  std::size_t On(const std::string& link, bool forward = true) const {
    return fabric::DirectedLink{*state_.topology.FindLink(link), forward}.Index();
  }
  const JobStatistics& Of(const FlowStatistics& census, const std::string& job) {
    return census.StatisticsOf(state_.flows.JobIndex(job, AgentId(0)));
  }

  State state_{*fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1}))};
  std::uint64_t next_ = 1;
};

TEST_F(FlowStatisticsTest, CountsFlowsByStatusAndByJob) {
  Open({.job = "a", .paths = {0}, .bps = 5});
  Open({.job = "a", .paths = {0}, .bps = 3});
  Open({.job = "a", .paths = {1}, .bps = 0, .is_busy = false});
  Open({.job = "b", .status = FlowStatus::kUnroutable});
  const FlowStatistics census = FlowStatistics::Take(state_);
  EXPECT_EQ(census.flows(), 4);
  EXPECT_EQ(census.Of(FlowStatus::kRouted), 3);
  EXPECT_EQ(census.Of(FlowStatus::kUnroutable), 1);
  const JobStatistics& job = Of(census, "a");
  EXPECT_EQ(job.flows, 3);
  EXPECT_EQ(job.routed, 3);
  EXPECT_EQ(job.achieved_bps, 8U);
  EXPECT_EQ(job.slowest_bps, 3U);  // of those that send
  EXPECT_EQ(Of(census, "b").unroutable, 1);
  EXPECT_EQ(Of(census, "c").flows, 0);
}

TEST_F(FlowStatisticsTest, CountsPathsAndRatesOfEachDirectionOfALink) {
  Open({.job = "a", .paths = {0, 1}, .bps = 10});
  Open({.job = "b", .paths = {1}, .bps = 4});
  const FlowStatistics census = FlowStatistics::Take(state_);
  const LinkTraffic& traffic = census.traffic();
  EXPECT_EQ(traffic.paths[On("leaf0--spine0")], 1);
  EXPECT_EQ(traffic.paths[On("leaf0--spine1")], 2);
  EXPECT_EQ(traffic.paths[On("leaf1--spine1", false)], 2);
  EXPECT_EQ(traffic.paths[On("leaf1--spine1", true)], 0);
  EXPECT_EQ(traffic.achieved_bps[On("leaf0--spine0")], 5U);
  EXPECT_EQ(traffic.achieved_bps[On("leaf0--spine1")], 9U);
  EXPECT_EQ(traffic.achieved_bps[On("h0--leaf0")], 14U);
  EXPECT_EQ(traffic.achieved_bps[On("h1--leaf1", false)], 14U);
  EXPECT_EQ(census.max_link_flows(), 2);
  EXPECT_EQ(Of(census, "a").MaxLinkFlows(traffic), 2);
}

// A link once carried 131 % of its speed, and a job sent more than its NICs can.
TEST_F(FlowStatisticsTest, NoRateIsAboveWhatALinkCarries) {
  const std::int64_t rate = state_.topology.link(*state_.topology.FindLink("h0--leaf0")).rate.value;
  const auto most = static_cast<std::uint64_t>(rate);
  Open({.job = "a", .paths = {0}, .bps = 3 * most});
  const FlowSlot only = state_.flows.All().front();
  EXPECT_EQ(Show(state_, only).activity.achieved_bps, most);
  Open({.job = "a", .paths = {0}, .bps = most / 2});
  const FlowStatistics census = FlowStatistics::Take(state_);
  for (const char* link : {"h0--leaf0", "leaf0--spine0"}) {
    EXPECT_EQ(census.traffic().achieved_bps[On(link)], most) << link;
  }
  EXPECT_EQ(census.traffic().achieved_bps[On("h1--leaf1", false)], most);
  EXPECT_EQ(Of(census, "a").achieved_bps, most);
  EXPECT_EQ(Of(census, "a").slowest_bps, most / 2);
}

TEST_F(FlowStatisticsTest, CountsTheFlowsOnTheLinksOfAJob) {
  Open({.job = "a", .paths = {0}});
  for (int i = 0; i < 3; ++i) Open({.job = "b", .paths = {1}});
  const FlowStatistics census = FlowStatistics::Take(state_);
  EXPECT_EQ(Of(census, "a").MaxLinkFlows(census.traffic()), 1);
  EXPECT_EQ(Of(census, "b").MaxLinkFlows(census.traffic()), 3);
}

TEST_F(FlowStatisticsTest, CountsEdgesOfForestsAsRoutedFlows) {
  Open({.job = "a", .paths = {1}, .bps = 5});
  const std::uint32_t job = state_.flows.JobIndex("b", AgentId(0));
  state_.edges.Open(AgentId(0), {.job = job,
                                 .key = {.source = *state_.topology.FindNode("h0"),
                                         .destination = *state_.topology.FindNode("h1")},
                                 .source_leaf = *state_.topology.FindNode("leaf0"),
                                 .destination_leaf = *state_.topology.FindNode("leaf1"),
                                 .path = fabric::PathIndex(1),
                                 .load = 1});
  const FlowStatistics census = FlowStatistics::Take(state_);
  EXPECT_EQ(census.flows(), 2);
  EXPECT_EQ(census.Of(FlowStatus::kRouted), 2);
  EXPECT_EQ(census.unacknowledged(), 0);
  EXPECT_EQ(census.traffic().paths[On("leaf0--spine1")], 2);
  EXPECT_EQ(Of(census, "b").routed, 1);
  EXPECT_EQ(Of(census, "b").achieved_bps, 0U);
  EXPECT_EQ(Of(census, "b").slowest_bps, std::nullopt);
}

TEST_F(FlowStatisticsTest, IsZeroWithoutFlows) {
  const FlowStatistics census = FlowStatistics::Take(state_);
  EXPECT_EQ(census.flows(), 0);
  EXPECT_EQ(census.unacknowledged(), 0);
  EXPECT_EQ(census.max_link_flows(), 0);
}

}  // namespace
}  // namespace espalier::controller
