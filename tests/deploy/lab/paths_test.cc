// The ground truth of paths: which paths packets took, and how failures change them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <tuple>

#include "tests/deploy/lab/lab_fixture.h"

namespace espalier::lab {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Paths : public testing::TestWithParam<bool> {
 protected:
  static LabOptions Shape() {
    return {.spines = 4, .leaves = 3, .hosts_per_leaf = 2, .seed = 11, .ipv6 = GetParam()};
  }
};

// Every TCP and UDP flow is counted at exactly the spine that the kernel's look-up (for IPv6: a
// datagram) named before it was sent, and the flows spread over all spines.
TEST_P(Paths, LookUpAgreesWithTheSpinesForEveryPort) {
  ESPALIER_LAB_OR_SKIP(lab, Shape());
  traffic::Workload workload;
  std::vector<RouteQuery> queries;
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"h0", "h2"}, {"h1", "h5"}, {"h2", "h0"}, {"h4", "h3"}};
  for (std::size_t i = 0; i < 80; ++i) {
    const auto& [source, destination] = pairs[i % pairs.size()];
    const auto port = static_cast<std::uint16_t>(49'152 + 199 * i);
    traffic::SingleFlow flow = OneDatagram(source, destination, port);
    if (i % 2 == 1) flow.protocol = traffic::Protocol::kTcp;
    workload.flows.push_back(flow);
    queries.push_back(QueryOf(lab, source, destination, port, i % 2 == 1 ? 6 : 17));
  }
  const std::vector<std::string> expected = Spines(lab, queries);
  const std::vector<FlowCount> before = ReadFlowCounts(lab).value();
  const TrafficResult result = Traffic(lab, workload);
  ASSERT_TRUE(result.completed);
  const Result<std::vector<FlowCount>> after = ReadFlowCounts(lab);
  ASSERT_TRUE(after.has_value()) << after.error().message;
  const std::vector<FlowCount> counts = Difference(before, *after);
  using Key = std::tuple<std::uint8_t, IpAddress, IpAddress, std::uint16_t>;
  std::map<Key, std::set<std::string>> seen;
  for (const FlowCount& count : counts) {
    seen[{count.protocol, count.source, count.destination, count.source_port}].insert(count.spine);
    EXPECT_GT(count.packets, 0);
    EXPECT_GT(count.bytes, 0);
  }
  EXPECT_EQ(seen.size(), queries.size());
  std::set<std::string> used;
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const RouteQuery& query = queries[i];
    const Key key{query.protocol, query.source, query.destination, query.source_port};
    EXPECT_THAT(seen[key], ElementsAre(expected[i])) << workload.flows[i].id;
    used.insert(expected[i]);
    EXPECT_TRUE(result.flows[i].IsWhole()) << workload.flows[i].id;
  }
  EXPECT_EQ(used.size(), 4U);
}

TEST_P(Paths, TcpAndUdpWithTheSamePortsTakeTheSamePath) {
  ESPALIER_LAB_OR_SKIP(lab, Shape());
  traffic::Workload workload;
  for (int i = 0; i < 100; ++i) {
    traffic::SingleFlow flow = OneDatagram("h0", "h5", static_cast<std::uint16_t>(50'000 + i));
    workload.flows.push_back(flow);
    flow.id += " tcp";
    flow.protocol = traffic::Protocol::kTcp;
    workload.flows.push_back(flow);
  }
  ASSERT_TRUE(Traffic(lab, workload).completed);
  std::map<std::uint16_t, std::set<std::string>> spines;
  std::map<std::uint16_t, std::set<int>> protocols;
  const std::vector<FlowCount> counts = ReadFlowCounts(lab).value();
  for (const FlowCount& count : counts) {
    spines[count.source_port].insert(count.spine);
    protocols[count.source_port].insert(count.protocol);
  }
  EXPECT_EQ(spines.size(), 100U);
  for (const auto& [port, names] : spines) EXPECT_EQ(names.size(), 1U) << port;
  for (const auto& [port, seen] : protocols) EXPECT_THAT(seen, ElementsAre(6, 17)) << port;
}

TEST_P(Paths, FarLinkIsInvisibleToTheSourceLeafUntilItIsRestored) {
  for (const LinkEnd end : {LinkEnd::kA, LinkEnd::kB}) {
    ESPALIER_LAB_OR_SKIP(lab, Shape());
    std::vector<RouteQuery> from_leaf0;
    std::vector<RouteQuery> from_leaf1;
    for (int i = 0; i < 100; ++i) {
      const auto port = static_cast<std::uint16_t>(50'000 + i);
      from_leaf0.push_back(QueryOf(lab, "h0", "h2", port));
      from_leaf1.push_back(QueryOf(lab, "h2", "h0", port));
    }
    const std::vector<std::string> before0 = Spines(lab, from_leaf0);
    const std::vector<std::string> before1 = Spines(lab, from_leaf1);
    traffic::Workload over_spine2;
    over_spine2.flows = {OneDatagram("h0", "h2", PortOver(lab, "spine2", "h0", "h2"))};
    EXPECT_TRUE(Traffic(lab, over_spine2).flows[0].IsWhole());

    ASSERT_TRUE(FailLink(lab, "leaf1--spine2", end).value());
    EXPECT_THAT(FailedLinks(lab).value(), ElementsAre("leaf1--spine2"));
    // A second failure changes nothing.
    EXPECT_FALSE(FailLink(lab, "leaf1--spine2", end).value());
    // The source's leaf continues to send to the dead end; the leaf of the link avoids it.
    EXPECT_EQ(Spines(lab, from_leaf0), before0);
    EXPECT_THAT(Spines(lab, from_leaf1), testing::Not(testing::Contains("spine2")));
    const TrafficResult lost = Traffic(lab, over_spine2);
    EXPECT_TRUE(lost.completed);  // UDP waits for no acknowledgement
    EXPECT_EQ(lost.flows[0].received.bytes, 0);

    ASSERT_TRUE(RestoreLink(lab, "leaf1--spine2").value());
    EXPECT_FALSE(RestoreLink(lab, "leaf1--spine2").value());
    EXPECT_THAT(FailedLinks(lab).value(), IsEmpty());
    // On a busy machine it takes seconds until IPv6 has found the neighbours of the link again.
    std::vector<std::string> after1 = Spines(lab, from_leaf1);
    for (int i = 0; i < 20 && after1 != before1; ++i) after1 = Spines(lab, from_leaf1);
    EXPECT_EQ(after1, before1);
    EXPECT_TRUE(Traffic(lab, over_spine2).flows[0].IsWhole());
  }
}

// If all uplinks of a leaf are down, the kernel removes its routes completely.
TEST_P(Paths, RestoreBringsBackRoutesThatWereLost) {
  ESPALIER_LAB_OR_SKIP(lab, Shape());
  std::vector<RouteQuery> queries;
  for (int i = 0; i < 100; ++i) {
    queries.push_back(QueryOf(lab, "h0", "h5", static_cast<std::uint16_t>(50'000 + i)));
  }
  const std::vector<std::string> before = Spines(lab, queries);
  for (const char* link : {"leaf0--spine0", "leaf0--spine1", "leaf0--spine2", "leaf0--spine3"}) {
    ASSERT_TRUE(FailLink(lab, link, LinkEnd::kA).value());
  }
  EXPECT_THAT(Spines(lab, queries), testing::Each(""));
  for (const char* link : {"leaf0--spine2", "leaf0--spine0", "leaf0--spine3", "leaf0--spine1"}) {
    ASSERT_TRUE(RestoreLink(lab, link).value());
  }
  EXPECT_EQ(Spines(lab, queries), before);
  traffic::Workload workload;
  for (std::uint16_t i = 0; i < 20; ++i) {
    workload.flows.push_back(OneDatagram("h0", "h5", static_cast<std::uint16_t>(50'000 + i)));
    workload.flows.push_back(OneDatagram("h5", "h0", static_cast<std::uint16_t>(50'000 + i)));
  }
  for (const TrafficResult result = Traffic(lab, workload);
       const FlowOutcome& flow : result.flows) {
    EXPECT_TRUE(flow.IsWhole()) << flow.plan.id;
  }
}

TEST_P(Paths, HostLinkFailsAndComesBack) {
  ESPALIER_LAB_OR_SKIP(lab, Shape());
  traffic::Workload workload;
  workload.flows = {OneDatagram("h0", "h2", 50'000), OneDatagram("h2", "h0", 50'000)};
  ASSERT_TRUE(FailLink(lab, "h0--leaf0", LinkEnd::kB).value());
  EXPECT_EQ(Traffic(lab, workload).flows[1].received.bytes, 0);
  ASSERT_TRUE(RestoreLink(lab, "h0--leaf0").value());
  for (const TrafficResult result = Traffic(lab, workload); const FlowOutcome& flow : result.flows)
    EXPECT_TRUE(flow.IsWhole());
  ASSERT_TRUE(FailLink(lab, "h0--leaf0", LinkEnd::kA).value());
  ASSERT_TRUE(RestoreLink(lab, "h0--leaf0").value());
  for (const TrafficResult result = Traffic(lab, workload); const FlowOutcome& flow : result.flows)
    EXPECT_TRUE(flow.IsWhole());
}

INSTANTIATE_TEST_SUITE_P(Families, Paths, testing::Bool(),
                         [](const auto& family) { return family.param ? "Ipv6" : "Ipv4"; });

// In a fabric of three tiers, every datagram between pods is counted by the core that the look-ups
// at both stages name, and by one aggregation switch of each pod. Ports reach all four paths if
// leaves and aggregation switches hash differently, and only two if they hash alike.
TEST(PodPaths, LookUpAgreesWithTheSwitchesOfBothTiersForEveryPort) {
  for (const HashSeeds seeds : {HashSeeds::kDistinct, HashSeeds::kEqual}) {
    ESPALIER_LAB_OR_SKIP(lab, {.spines = 2,
                               .leaves = 2,
                               .hosts_per_leaf = 1,
                               .pods = 2,
                               .cores = 4,
                               .hash_seeds = seeds});
    traffic::Workload workload;
    std::vector<RouteQuery> queries;
    for (std::uint16_t i = 0; i < 64; ++i) {
      const auto port = static_cast<std::uint16_t>(49'152 + 199 * i);
      const char* const destination = i % 4 == 0 ? "h1" : i % 2 == 0 ? "h3" : "h2";
      workload.flows.push_back(OneDatagram("h0", destination, port));
      queries.push_back(QueryOf(lab, "h0", destination, port));
    }
    const std::vector<std::string> expected = Spines(lab, queries);
    const std::vector<FlowCount> before = ReadFlowCounts(lab).value();
    ASSERT_TRUE(Traffic(lab, workload).completed);
    const std::vector<FlowCount> counts = Difference(before, ReadFlowCounts(lab).value());
    std::map<std::uint16_t, std::set<std::string>> seen;
    for (const FlowCount& count : counts) seen[count.source_port].insert(count.spine);
    std::set<std::string> cores;
    for (std::size_t i = 0; i < queries.size(); ++i) {
      const std::set<std::string>& switches = seen[queries[i].source_port];
      EXPECT_TRUE(switches.contains(expected[i])) << workload.flows[i].id;
      if (expected[i].starts_with("agg")) {
        EXPECT_EQ(switches.size(), 1U) << workload.flows[i].id;
        continue;
      }
      // Cores 0 and 1 belong to aggregation switches 0 and 2, the others to 1 and 3.
      const bool is_first = expected[i] == "core0" || expected[i] == "core1";
      EXPECT_EQ(switches, (std::set<std::string>{expected[i], is_first ? "agg0" : "agg1",
                                                 is_first ? "agg2" : "agg3"}))
          << workload.flows[i].id;
      cores.insert(expected[i]);
    }
    EXPECT_EQ(cores.size(), seeds == HashSeeds::kEqual ? 2U : 4U);
  }
}

TEST(PodPaths, FarLinksLosePacketsUntilTheyAreRestored) {
  ESPALIER_LAB_OR_SKIP(lab, {.spines = 2, .leaves = 2, .hosts_per_leaf = 1, .pods = 2, .cores = 4});
  traffic::Workload workload;
  workload.flows = {OneDatagram("h0", "h2", PortOver(lab, "core3", "h0", "h2"))};
  EXPECT_TRUE(Traffic(lab, workload).flows[0].IsWhole());
  for (const char* link : {"agg3--core3", "leaf2--agg3"}) {
    ASSERT_TRUE(FailLink(lab, link).value());
    EXPECT_EQ(Traffic(lab, workload).flows[0].received.bytes, 0) << link;
    ASSERT_TRUE(RestoreLink(lab, link).value());
    EXPECT_TRUE(Traffic(lab, workload).flows[0].IsWhole()) << link;
  }
}

TEST(Judges, LookUpSaysWhereItIsOfNoUse) {
  ESPALIER_LAB_OR_SKIP(lab, {.spines = 1, .leaves = 2, .hosts_per_leaf = 1, .ipv6 = true});
  const auto spines = LookUpSpines(lab, std::vector<RouteQuery>{QueryOf(lab, "h0", "h1", 50'000)});
  ASSERT_FALSE(spines.has_value());
  EXPECT_EQ(spines.error().code, ErrorCode::kUnsupported);
}

TEST(Judges, LookUpFindsNoSpineUnderOneLeafAndNoUnknownSource) {
  ESPALIER_LAB_OR_SKIP(lab, {.spines = 2, .leaves = 2, .hosts_per_leaf = 2});
  RouteQuery unknown = QueryOf(lab, "h0", "h2", 50'000);
  EXPECT_THAT(Spines(lab, {QueryOf(lab, "h0", "h1", 50'000), unknown}),
              ElementsAre("", testing::StartsWith("spine")));
  unknown.source = IpAddress::Parse("192.0.2.1").value();
  EXPECT_EQ(LookUpSpines(lab, std::vector<RouteQuery>{unknown}).error().code, ErrorCode::kNotFound);
}

TEST(LinkFaults, KnowsNoLinkThatThereIsNot) {
  ESPALIER_LAB_OR_SKIP(lab, {.spines = 1, .leaves = 1, .hosts_per_leaf = 1});
  for (const char* link : {"leaf0--spine7", "spine0--leaf0", "mgmt-leaf0", "mgmt-h1", ""}) {
    EXPECT_EQ(FailLink(lab, link).error().code, ErrorCode::kNotFound) << link;
    EXPECT_EQ(RestoreLink(lab, link).error().code, ErrorCode::kNotFound) << link;
  }
}

TEST(LinkFaults, LimitsBothEndsOfALinkBetweenSwitches) {
  ESPALIER_LAB_OR_SKIP(
      lab, {.spines = 2, .leaves = 2, .hosts_per_leaf = 1, .link_rate = BitsPerSecond{50'000'000}});
  ASSERT_TRUE(LimitLink(lab, "leaf0--spine1", BitsPerSecond{25'000'000}).has_value());
  const auto rate_of = [&](const std::string& node, const std::string& interface) {
    const auto shown = lab.Run(node, {"tc", "qdisc", "show", "dev", interface});
    EXPECT_TRUE(shown.has_value());
    std::smatch found;
    return std::regex_search(*shown, found, std::regex(" rate (\\S+)")) ? found[1].str() : *shown;
  };
  EXPECT_EQ(rate_of("leaf0", "s1"), "25Mbit");
  EXPECT_EQ(rate_of("spine1", "l0"), "25Mbit");
  EXPECT_EQ(rate_of("leaf0", "s0"), "50Mbit");
  EXPECT_EQ(rate_of("spine1", "l1"), "50Mbit");
  EXPECT_EQ(LimitLink(lab, "h0--leaf0", BitsPerSecond{1'000'000}).error().code,
            ErrorCode::kUnsupported);
  EXPECT_EQ(LimitLink(lab, "leaf0--spine9", BitsPerSecond{1'000'000}).error().code,
            ErrorCode::kNotFound);
}

TEST(Judges, InterfaceCountersGrowWithTheTraffic) {
  ESPALIER_LAB_OR_SKIP(lab, {.spines = 1, .leaves = 2, .hosts_per_leaf = 1});
  traffic::Workload workload;
  workload.flows = {{.id = "f", .source = "h0", .destination = "h1", .bytes = 500'000}};
  ASSERT_TRUE(Traffic(lab, workload).flows[0].IsWhole());
  const Result<std::vector<InterfaceCount>> counts = ReadInterfaceCounts(lab);
  ASSERT_TRUE(counts.has_value()) << counts.error().message;
  EXPECT_EQ(counts->size(), 2U + 2U + 2U);  // both ends of two uplinks, the leaves' host ports
  for (const InterfaceCount& count : *counts) {
    const bool carries = (count.node == "leaf0" && count.interface == "s0") ||
                         (count.node == "spine0" && count.interface == "l1") ||
                         (count.node == "leaf1" && count.interface == "h0");
    EXPECT_EQ(count.out_bytes > 500'000, carries) << count.node << " " << count.link;
    EXPECT_TRUE(lab.topology().FindLink(count.link).has_value());
  }
}

}  // namespace
}  // namespace espalier::lab
