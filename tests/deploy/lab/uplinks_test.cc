// Hosts with one address and two uplinks, among which the kernel chooses by a hash of the ports.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/fabric/ecmp/path_predictor.h"
#include "tests/deploy/lab/lab_fixture.h"

namespace espalier::lab {
namespace {

constexpr int kPorts = 96;

// The spines' counters name the path that the hashes of the host, the leaf and the spine predict.
TEST(Uplinks, OfTheKernelFollowTheHashInTheTopologyFile) {
  ESPALIER_LAB_OR_SKIP(
      lab,
      {.spines = 2, .leaves = 4, .hosts_per_leaf = 2, .uplinks = 2, .seed = 5, .hash_hint = true});
  const fabric::Topology& topology = lab.topology();
  fabric::PathTable paths(topology);
  auto predictor = fabric::PathPredictor::Build(topology, paths);
  ASSERT_TRUE(predictor.has_value()) << predictor.error().message;
  const fabric::NodeId source = *topology.FindNode("h0");
  const fabric::NodeId destination = *topology.FindNode("h3");
  fabric::FlowTuple tuple{.source = topology.node(source).addresses.front(),
                          .destination = topology.node(destination).addresses.front()};
  traffic::Workload workload;
  std::map<std::uint16_t, std::string> expected;  // the spine
  std::map<std::string, int> on_uplink;
  std::set<std::int32_t> taken;
  for (int i = 0; i < kPorts; ++i) {
    tuple.source_port = static_cast<std::uint16_t>(49'152 + 101 * i);
    workload.flows.push_back(OneDatagram("h0", "h3", tuple.source_port));
    const auto path = predictor->Predict(tuple, source, destination);
    ASSERT_TRUE(path);
    taken.insert(path->value());
    const auto& hops = paths.Between(source, destination)[path->Index()].hops;
    expected[tuple.source_port] = topology.node(topology.To(hops[1])).id;
    ++on_uplink[topology.link(hops[0].link).id];
  }
  EXPECT_EQ(taken.size(), 8U) << "uplink, spine, and the leaf that delivers";
  const auto counts_before = ReadInterfaceCounts(lab).value();
  ASSERT_TRUE(Traffic(lab, workload).completed);
  std::map<std::uint16_t, std::set<std::string>> seen;
  const auto counts = ReadFlowCounts(lab).value();
  for (const FlowCount& count : counts) {
    if (count.source == tuple.source) seen[count.source_port].insert(count.spine);
  }
  for (const auto& [port, spine] : expected) {
    EXPECT_EQ(seen[port], std::set<std::string>{spine}) << port;
  }
  // Each datagram came in over the uplink of its port, beside some of the kernel's own packets.
  const auto counts_after = ReadInterfaceCounts(lab).value();
  for (std::size_t i = 0; i < counts_after.size(); ++i) {
    const InterfaceCount& count = counts_after[i];
    if (!count.link.starts_with("h0--")) continue;
    const auto arrived = count.in_packets - counts_before[i].in_packets;
    EXPECT_GE(arrived, on_uplink[count.link]) << count.link;
    EXPECT_LT(arrived, on_uplink[count.link] + 20) << count.link;
  }
}

TEST(Uplinks, TakeAllPortsWhenTheOtherIsDown) {
  ESPALIER_LAB_OR_SKIP(lab, {.spines = 2, .leaves = 4, .hosts_per_leaf = 2, .uplinks = 2});
  ASSERT_TRUE(FailLink(lab, "h0--leaf0", LinkEnd::kA).value());
  EXPECT_EQ(FailedLinks(lab).value(), std::vector<std::string>{"h0--leaf0"});
  traffic::Workload workload;
  for (int i = 0; i < 16; ++i) {
    workload.flows.push_back(OneDatagram("h0", "h3", static_cast<std::uint16_t>(50'000 + i)));
  }
  EXPECT_TRUE(Traffic(lab, workload).completed);
  ASSERT_TRUE(RestoreLink(lab, "h0--leaf0").value());
  EXPECT_TRUE(FailedLinks(lab).value().empty());
  const auto before = ReadInterfaceCounts(lab).value();
  EXPECT_TRUE(Traffic(lab, workload).completed);
  const auto after = ReadInterfaceCounts(lab).value();
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (!after[i].link.starts_with("h0--")) continue;
    EXPECT_GT(after[i].in_packets, before[i].in_packets) << after[i].link << " is used again";
  }
}

}  // namespace
}  // namespace espalier::lab
