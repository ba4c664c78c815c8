// Discovery of generated fabrics: what is found is the fabric, or the report names what is not.
#include "controller/discovery/discovery.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/builders.h"
#include "tests/controller/discovery/probe_world.h"

namespace espalier::discovery {
namespace {

using fabric::TopologySpec;

TopologySpec LeafSpine(int leaves, int spines, int hosts) {
  return fabric::BuildLeafSpine({.spines = spines, .leaves = leaves, .hosts_per_leaf = hosts})
      .value();
}
TopologySpec FatTree(int k) { return fabric::BuildFatTree({.k = k}).value(); }

// A 4 x 4 fabric in which each leaf has two links to spine0.
TopologySpec DoubledSpine() {
  TopologySpec spec = LeafSpine(4, 4, 2);
  const std::size_t count = spec.links.size();
  for (std::size_t i = 0, added = 0; i < count; ++i) {
    fabric::Link link = spec.links[i];
    if (spec.nodes[link.b.Index()].id != "spine0") continue;
    link.id = "";
    link.a_address = IpAddress::FromV4(0xAC1F0000U + 2 * static_cast<std::uint32_t>(added));
    link.b_address = IpAddress::FromV4(0xAC1F0001U + 2 * static_cast<std::uint32_t>(added++));
    spec.links.push_back(std::move(link));
  }
  return spec;
}

bool Names(const std::vector<std::string>& sentences, const std::string& text) {
  return std::ranges::any_of(
      sentences, [&](const std::string& one) { return one.find(text) != std::string::npos; });
}

std::string All(const std::vector<std::string>& sentences) {
  std::string all;
  for (const std::string& sentence : sentences) all += sentence + "\n";
  return all;
}

// Expects that the fabric is found whole, and that nothing is reported.
void ExpectFound(TopologySpec spec, Faults faults, std::uint64_t seed) {
  ProbeWorld world(std::move(spec), std::move(faults), seed);
  const Discovered found = Discover(world, {.seed = seed});
  const DiscoveredFabric& fabric = found.discovery->fabric();
  EXPECT_EQ(world.Difference(*found.discovery), "") << "seed " << seed;
  EXPECT_EQ(All(fabric.missing), "") << "seed " << seed;
  EXPECT_EQ(All(fabric.contradictions), "") << "seed " << seed;
  EXPECT_GE(fabric.confidence, 0.99) << "seed " << seed;
}

TEST(Discovery, FindsFabricsOfTwoTiers) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    ExpectFound(LeafSpine(2, 2, 2), {}, seed);
    ExpectFound(LeafSpine(4, 4, 4), {}, seed);
    ExpectFound(LeafSpine(5, 3, 1), {}, seed);
    ExpectFound(LeafSpine(3, 1, 2), {}, seed);
    ExpectFound(LeafSpine(8, 16, 3), {}, seed);
  }
}

TEST(Discovery, FindsFabricsOfThreeTiers) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    ExpectFound(FatTree(4), {}, seed);
    ExpectFound(FatTree(6), {}, seed);
    ExpectFound(
        fabric::BuildPods({.pods = 3, .leaves_per_pod = 4, .aggs_per_pod = 2, .cores = 4}).value(),
        {}, seed);
  }
}

TEST(Discovery, FindsRails) {
  ExpectFound(fabric::BuildRails({.boxes = 6, .rails = 4, .spines = 3}).value(), {}, 1);
  ExpectFound(
      fabric::BuildLeafSpine({.spines = 4, .leaves = 8, .hosts_per_leaf = 2, .rails = 4}).value(),
      {}, 2);
}

TEST(Discovery, FindsParallelLinks) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) ExpectFound(DoubledSpine(), {}, seed);
}

TEST(Discovery, FindsAFabricWhoseHostsDoNotAnswer) {
  ExpectFound(LeafSpine(4, 4, 4), {.hosts_answer = false}, 1);
  ExpectFound(LeafSpine(6, 8, 6), {.hosts_answer = false}, 2);
  ExpectFound(FatTree(4), {.hosts_answer = false}, 3);
}

TEST(Discovery, FindsAFabricThoughAThirdOfTheAnswersIsLost) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    ExpectFound(LeafSpine(4, 4, 4), {.lost = 0.3}, seed);
    ExpectFound(FatTree(4), {.lost = 0.3}, seed);
  }
}

// As many probes as docs and facts promise, and no switch is asked too often.
TEST(Discovery, NeedsFewProbesForALargeFabric) {
  ProbeWorld world(LeafSpine(64, 32, 32), {});
  const Discovered found = Discover(world);
  EXPECT_EQ(world.Difference(*found.discovery), "");
  EXPECT_GE(found.discovery->fabric().confidence, 0.99);
  const std::uint64_t probes = found.discovery->evidence().probes();
  RecordProperty("probes", std::to_string(probes));
  RecordProperty("busiest_switch", std::to_string(world.BusiestSwitch()));
  RecordProperty("seconds", std::to_string(found.seconds));
  EXPECT_LE(probes, 65'000U);
  EXPECT_LE(world.BusiestSwitch(), 1'200U);
}

TEST(Discovery, NamesASwitchThatNeverAnswersAndFindsItsLinks) {
  ProbeWorld world(LeafSpine(4, 4, 2), {.silent = {"spine2"}});
  const Discovered found = Discover(world);
  const DiscoveredFabric& fabric = found.discovery->fabric();
  EXPECT_EQ(world.Difference(*found.discovery), "");
  EXPECT_TRUE(Names(fabric.missing, "unknown-1 is a switch that answers no probe"))
      << All(fabric.missing);
  EXPECT_EQ(std::ranges::count_if(fabric.switches, &DiscoveredSwitch::is_silent), 1);
}

TEST(Discovery, ReportsSeveralSilentSwitchesWithoutGuessingTheirLinks) {
  ProbeWorld world(LeafSpine(4, 4, 2), {.silent = {"spine1", "spine2"}});
  const Discovered found = Discover(world);
  const DiscoveredFabric& fabric = found.discovery->fabric();
  EXPECT_TRUE(Names(fabric.missing, "2 switches answer no probe")) << All(fabric.missing);
  EXPECT_EQ(fabric.switches.size(), 6U);
  EXPECT_EQ(fabric.links.size(), 8U);
  const std::string difference = world.Difference(*found.discovery);
  EXPECT_EQ(difference.find("no link"), std::string::npos) << difference;
}

TEST(Discovery, FindsSwitchesThatAnswerWithOneAddressEach) {
  for (const bool is_tall : {false, true}) {
    ProbeWorld world(is_tall ? FatTree(4) : LeafSpine(4, 4, 2), {.has_loopbacks = true});
    const Discovered found = Discover(world);
    const DiscoveredFabric& fabric = found.discovery->fabric();
    EXPECT_EQ(fabric.switches.size(), is_tall ? 20U : 8U);
    EXPECT_EQ(fabric.links.size(), is_tall ? 32U : 16U);
    EXPECT_TRUE(Names(fabric.missing, "answer with one address on all links"))
        << All(fabric.missing);
    EXPECT_EQ(All(fabric.contradictions), "");
    std::size_t leaves = 0;
    for (const DiscoveredSwitch& each : fabric.switches) {
      leaves += each.role == fabric::SwitchRole::kLeaf ? 1 : 0;
    }
    EXPECT_EQ(leaves, is_tall ? 8U : 4U);
  }
}

TEST(Discovery, JoinsNoSwitchesByAnswersThatMislead) {
  Faults faults;
  for (int i = 0; i < 4; ++i) faults.misleading.insert("leaf" + std::to_string(i));
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    ProbeWorld world(LeafSpine(4, 4, 2), faults, seed);
    const Discovered found = Discover(world, {.seed = seed});
    const DiscoveredFabric& fabric = found.discovery->fabric();
    EXPECT_TRUE(Names(fabric.missing, "answer for whichever link")) << All(fabric.missing);
    const std::string difference = world.Difference(*found.discovery);
    EXPECT_EQ(difference.find('+'), std::string::npos) << "joined: " << difference;
    EXPECT_EQ(difference.find("no link"), std::string::npos) << "invented: " << difference;
  }
}

TEST(Discovery, FindsTheOthersWhereOneLeafMisleads) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    ProbeWorld world(LeafSpine(5, 4, 2), {.misleading = {"leaf1"}}, seed);
    const Discovered found = Discover(world, {.seed = seed});
    const std::string difference = world.Difference(*found.discovery);
    EXPECT_EQ(difference, "") << "seed " << seed;
  }
}

TEST(Discovery, NamesAnAddressThatIsUsedTwiceAndJoinsNoSwitchesByIt) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const TopologySpec spec = LeafSpine(4, 4, 2);
    Faults faults;
    const IpAddress twice = IpAddress::Parse("172.16.0.1").value();  // leaf0 to spine0
    faults.addresses[{"leaf2--spine1", "spine1"}] = twice;
    ProbeWorld world(spec, faults, seed);
    const Discovered found = Discover(world, {.seed = seed});
    const DiscoveredFabric& fabric = found.discovery->fabric();
    EXPECT_TRUE(Names(fabric.contradictions, "172.16.0.1")) << All(fabric.contradictions);
    const std::string difference = world.Difference(*found.discovery);
    EXPECT_EQ(difference.find('+'), std::string::npos) << "joined: " << difference;
  }
}

TEST(Discovery, SaysSoWhereAllHostsAreBehindOneSwitch) {
  ProbeWorld world(LeafSpine(1, 1, 4), {});
  const Discovered found = Discover(world);
  const DiscoveredFabric& fabric = found.discovery->fabric();
  EXPECT_EQ(fabric.switches.size(), 1U);
  EXPECT_TRUE(Names(fabric.missing, "all hosts are behind one switch")) << All(fabric.missing);
}

TEST(Discovery, NamesHostsOfWhichNothingIsKnown) {
  ProbeWorld world(LeafSpine(2, 2, 2), {.silent = {"leaf1"}, .hosts_answer = false});
  const Discovered found = Discover(world);
  const DiscoveredFabric& fabric = found.discovery->fabric();
  EXPECT_EQ(All(fabric.contradictions), "");
  const std::string difference = world.Difference(*found.discovery);
  EXPECT_EQ(difference.find('+'), std::string::npos) << difference;
}

TEST(Discovery, ProbesOnlyWhatIsNewWhenHostsAreAdded) {
  ProbeWorld world(LeafSpine(8, 8, 4), {});
  Discovered found{std::make_unique<Discovery>(ProbeChoice::Options{})};
  const std::vector<Endpoint> endpoints = world.Endpoints();
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    if (i % 4 != 3) found.discovery->AddEndpoint(endpoints[i]);
  }
  Continue(world, found);
  const std::uint64_t before = found.discovery->evidence().probes();
  EXPECT_EQ(world.Difference(*found.discovery), "");
  for (const Endpoint& endpoint : endpoints) found.discovery->AddEndpoint(endpoint);
  Continue(world, found);
  EXPECT_EQ(world.Difference(*found.discovery), "");
  EXPECT_EQ(found.discovery->fabric().nics.size(), endpoints.size());
  const std::uint64_t added = found.discovery->evidence().probes() - before;
  EXPECT_LE(added, 8 * 8U) << "of " << before;
  EXPECT_TRUE(found.discovery->NextBatch().empty()) << "nothing is left to probe";
}

TEST(Discovery, ReportsAnAddressOfTwoHosts) {
  ProbeWorld world(LeafSpine(2, 2, 2), {});
  Discovered found{std::make_unique<Discovery>(ProbeChoice::Options{})};
  for (const Endpoint& endpoint : world.Endpoints()) found.discovery->AddEndpoint(endpoint);
  found.discovery->AddEndpoint({"stranger", "eth0", world.Endpoints().front().address});
  Continue(world, found);
  EXPECT_EQ(world.Difference(*found.discovery), "");
  EXPECT_TRUE(Names(found.discovery->fabric().contradictions, "h0 and stranger both report"));
}

TEST(Discovery, AsksNoSwitchForMoreThanItsPace) {
  ProbeWorld world(LeafSpine(1, 1, 128), {});
  Discovered found{std::make_unique<Discovery>(ProbeChoice::Options{})};
  for (const Endpoint& endpoint : world.Endpoints()) found.discovery->AddEndpoint(endpoint);
  const std::vector<Ask> first = found.discovery->NextBatch();
  EXPECT_EQ(first.size(), static_cast<std::size_t>(AnswerPace::kFirst)) << "of 128 hosts";
  EXPECT_NEAR(found.discovery->batch_seconds(), 1.0, 0.01);
}

// Whatever agents report, inference ends and names no switch that does not exist twice.
TEST(Discovery, SurvivesAnswersThatAreInvented) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    std::mt19937_64 random(seed);
    ProbeWorld world(LeafSpine(4, 4, 4), {}, seed);
    Discovery discovery({.seed = seed});
    const std::vector<Endpoint> endpoints = world.Endpoints();
    for (const Endpoint& endpoint : endpoints) discovery.AddEndpoint(endpoint);
    int batches = 0;
    for (std::vector<Ask> batch = discovery.NextBatch(); !batch.empty();
         batch = discovery.NextBatch()) {
      ASSERT_LT(++batches, 5'000) << "seed " << seed;
      for (const Ask& ask : batch) {
        for (const std::uint8_t ttl : ask.ttls) {
          const bool is_liar = ask.source % 3 == 0;
          auto answer = world.Probe(endpoints[ask.source].address,
                                    endpoints[ask.destination].address, ask.port, ttl);
          if (is_liar && random() % 2 == 0) {
            answer = random() % 4 == 0 ? endpoints[random() % endpoints.size()].address
                                       : IpAddress::FromV4(0xAC100000U + random() % 1'024);
          }
          if (answer) {
            discovery.HandleAnswer(ask.source, ask.destination, ask.port, ttl, *answer);
          }
        }
      }
      discovery.EndBatch();
    }
    const DiscoveredFabric& fabric = discovery.fabric();
    EXPECT_FALSE(fabric.contradictions.empty() && fabric.missing.empty()) << "seed " << seed;
    std::set<std::string> names;
    for (const DiscoveredSwitch& each : fabric.switches) {
      EXPECT_TRUE(names.insert(each.name).second) << each.name << ", seed " << seed;
    }
    EXPECT_LT(discovery.evidence().probes(), 200'000U) << "seed " << seed;
  }
}

}  // namespace
}  // namespace espalier::discovery
