#include "collective/forest/verifier/channel_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/collective/forest/random_problem.h"
#include "tests/collective/forest/reference_cases.h"
#include "tests/seeds.h"

namespace espalier::forest {
namespace {

using fabric::NodeId;
using fabric::Topology;
using testing::HasSubstr;

// Ranks of all compute nodes.
std::vector<Rank> RanksOf(const Topology& topology) {
  std::vector<Rank> ranks;
  Rank next = 0;
  for (const fabric::Node& node : topology.nodes()) {
    ranks.push_back(node.kind == fabric::NodeKind::kCompute ? next++ : kNoRank);
  }
  return ranks;
}

TEST(ComputeChannelRates, AddsUpTheLinksThatAreUp) {
  for (const std::uint64_t seed : SeedsToTry(1, 80)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    fabric::TopologySpec spec = MakeRandomGraph({.max_rate = 1'000}, random);
    for (fabric::Link& link : spec.links) {
      if (random() % 4 == 0) link.state = fabric::LinkState::kDown;
    }
    const Topology topology = BuildTopology(std::move(spec));
    std::vector<BitsPerSecond> available;
    if (seed % 2 == 0) {
      for (std::size_t i = 0; i < 2 * topology.links().size(); ++i) {
        available.push_back(BitsPerSecond{static_cast<std::int64_t>(random() % 50)});
      }
    }
    std::map<std::pair<NodeId, NodeId>, std::int64_t> expected;
    for (std::size_t i = 0; i < topology.links().size(); ++i) {
      const fabric::Link& link = topology.links()[i];
      if (link.state != fabric::LinkState::kUp) continue;
      const fabric::LinkId id(static_cast<std::int32_t>(i));
      const auto rate = [&](bool forward) {
        return available.empty() ? link.rate.value
                                 : available[fabric::DirectedLink{id, forward}.Index()].value;
      };
      expected[{link.a, link.b}] += rate(true);
      if (!link.directed) expected[{link.b, link.a}] += rate(false);
    }
    const std::vector<Rank> ranks = RanksOf(topology);
    std::vector<Channel> channels;
    std::vector<std::int64_t> rates;
    const auto nodes = static_cast<std::int32_t>(topology.nodes().size());
    for (std::int32_t from = 0; from < nodes; ++from) {
      for (std::int32_t to = 0; to < nodes; ++to) {
        const Channel channel{NodeId(from), NodeId(to)};
        const auto found = expected.find({channel.from, channel.to});
        const auto alone = ComputeChannelRates(topology, ranks, {&channel, 1}, available);
        const bool is_there = found != expected.end() && found->second > 0;
        ASSERT_EQ(alone.has_value(), is_there) << from << " to " << to;
        if (!is_there) continue;
        channels.push_back(channel);
        rates.push_back(found->second);
      }
    }
    std::shuffle(channels.begin(), channels.end(), random);
    const auto together = ComputeChannelRates(topology, ranks, channels, available);
    ASSERT_TRUE(together.has_value());
    for (std::size_t c = 0; c < channels.size(); ++c) {
      EXPECT_EQ((*together)[c], (expected[{channels[c].from, channels[c].to}]));
    }
  }
}

TEST(ComputeChannelRates, NamesAChannelThatCannotBe) {
  const Topology topology = BuildTopology(MakeReferenceTopology("clos4x3s2"));
  const std::vector<Rank> ranks = RanksOf(topology);
  const auto error = [&](const std::vector<Channel>& channels, const std::vector<Rank>& of) {
    const auto rates = ComputeChannelRates(topology, of, channels, {});
    return rates ? std::string("none") : rates.error().message;
  };
  const fabric::Link& link = topology.links()[0];
  const Channel good{link.a, link.b};
  const Channel back{link.b, link.a};
  EXPECT_EQ(error({good, back}, ranks), "none");
  EXPECT_THAT(error({good, back, good}, ranks), HasSubstr("is listed as two channels"));
  const auto unknown = static_cast<std::int32_t>(topology.nodes().size());
  EXPECT_THAT(error({{link.a, NodeId(unknown)}}, ranks), HasSubstr("unknown node"));
  EXPECT_THAT(error({{NodeId(-1), link.a}}, ranks), HasSubstr("unknown node"));
  const std::vector<Rank> none(ranks.size(), kNoRank);
  EXPECT_THAT(error({good}, none), HasSubstr("a compute node that is not a rank"));
}

TEST(ComputeChannelRates, RefusesSumsThatDoNotFit) {
  fabric::TopologySpec spec;
  for (const char* id : {"a", "b"}) spec.nodes.push_back({.id = id});
  for (int i = 0; i < 2; ++i) {
    spec.links.push_back({.id = "l" + std::to_string(i), .a = NodeId(0), .b = NodeId(1)});
    spec.links.back().rate = BitsPerSecond{1'000};
  }
  const Topology topology = BuildTopology(std::move(spec));
  const std::vector<BitsPerSecond> available(
      4, BitsPerSecond{std::numeric_limits<std::int64_t>::max() / 2 + 1});
  const Channel channel{NodeId(0), NodeId(1)};
  const auto rates = ComputeChannelRates(topology, RanksOf(topology), {&channel, 1}, available);
  ASSERT_FALSE(rates.has_value());
  EXPECT_EQ(rates.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace espalier::forest
