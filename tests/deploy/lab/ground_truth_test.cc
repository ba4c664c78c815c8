#include "deploy/lab/ground_truth.h"

#include <gtest/gtest.h>

#include "common/fabric/builders.h"

namespace espalier::lab {
namespace {

FlowCount Count(const std::string& spine, const std::string& source, const std::string& destination,
                std::uint16_t port, std::int64_t packets, std::int64_t bytes) {
  return {
      spine,   6,    IpAddress::Parse(source).value(), IpAddress::Parse(destination).value(), port,
      packets, bytes};
}

TEST(FlowCounts, DifferenceKeepsOnlyWhatIsNew) {
  const std::vector<FlowCount> before = {Count("spine0", "10.0.0.1", "10.1.0.1", 50'000, 5, 500),
                                         Count("spine1", "10.0.0.1", "10.1.0.1", 50'001, 7, 700)};
  const std::vector<FlowCount> after = {Count("spine0", "10.0.0.1", "10.1.0.1", 50'000, 8, 900),
                                        Count("spine1", "10.0.0.1", "10.1.0.1", 50'001, 7, 700),
                                        Count("spine1", "10.0.0.1", "10.1.0.1", 50'000, 1, 60)};
  const std::vector<FlowCount> news = Difference(before, after);
  ASSERT_EQ(news.size(), 2U);
  EXPECT_EQ(news[0].spine, "spine0");
  EXPECT_EQ(news[0].packets, 3);
  EXPECT_EQ(news[0].bytes, 400);
  EXPECT_EQ(news[1].spine, "spine1");
  EXPECT_EQ(news[1].packets, 1);
}

TEST(FlowCounts, CountsFlowsOnBothLinksOfTheirSpine) {
  const Result<fabric::TopologySpec> spec =
      fabric::BuildLeafSpine({.spines = 2, .leaves = 3, .hosts_per_leaf = 2});
  ASSERT_TRUE(spec.has_value());
  const auto topology = fabric::Topology::Build(*spec);
  ASSERT_TRUE(topology.has_value());
  const std::vector<FlowCount> counts = {
      Count("spine0", "10.0.0.1", "10.1.0.1", 50'000, 9, 9000),
      Count("spine0", "10.0.1.1", "10.1.1.1", 50'000, 9, 9000),
      Count("spine0", "10.2.0.1", "10.1.1.1", 50'001, 9, 9000),
      Count("spine1", "10.0.0.1", "10.1.0.1", 50'002, 1, 60),      // below the limit
      Count("spine1", "192.0.2.1", "10.1.0.1", 50'002, 9, 9000)};  // not a host of the lab
  const std::map<std::string, int> flows = CountFlowsPerDirection(*topology, counts, 1000);
  EXPECT_EQ(flows, (std::map<std::string, int>{{"leaf0--spine0>spine0", 2},
                                               {"leaf2--spine0>spine0", 1},
                                               {"leaf1--spine0>leaf1", 3}}));
}

TEST(FlowCounts, CountsFlowsBetweenPodsOnAllFourLinksOfTheirPath) {
  const Result<fabric::TopologySpec> spec = fabric::BuildPods(
      {.pods = 2, .leaves_per_pod = 2, .aggs_per_pod = 2, .cores = 4, .hosts_per_leaf = 1});
  ASSERT_TRUE(spec.has_value());
  const auto topology = fabric::Topology::Build(*spec);
  ASSERT_TRUE(topology.has_value());
  const auto address = [&](const char* host) {
    return topology->node(*topology->FindNode(host)).addresses.front().ToString();
  };
  std::vector<FlowCount> counts;  // h0 to h3 over the second plane, h2 to h3 within its pod
  for (const char* node : {"agg1", "core3", "agg3"}) {
    counts.push_back(Count(node, address("h0"), address("h3"), 50'000, 9, 9000));
  }
  counts.push_back(Count("agg2", address("h2"), address("h3"), 50'000, 9, 9000));
  EXPECT_EQ(CountFlowsPerDirection(*topology, counts, 1000),
            (std::map<std::string, int>{{"leaf0--agg1>agg1", 1},
                                        {"agg1--core3>core3", 1},
                                        {"agg3--core3>agg3", 1},
                                        {"leaf3--agg3>leaf3", 1},
                                        {"leaf2--agg2>agg2", 1},
                                        {"leaf3--agg2>leaf3", 1}}));
}

}  // namespace
}  // namespace espalier::lab
