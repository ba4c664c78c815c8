#include "collective/synthesis/finder.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "collective/synthesis/schedules/bfb.h"
#include "collective/synthesis/schedules/verifier.h"

namespace espalier::synthesis {
namespace {

std::vector<std::pair<std::int64_t, std::string>> Front(const FinderOptions& options) {
  std::vector<std::pair<std::int64_t, std::string>> front;
  const auto found = FindNetworks(options);
  EXPECT_TRUE(found) << found.error().message;
  for (const Candidate& one : *found) front.emplace_back(one.steps, one.t_b.ToString());
  return front;
}

using Costs = std::vector<std::pair<std::int64_t, std::string>>;

// Table A.1 with the values that are known to differ: no Diamond and DBJMod, whose links are not
// given; circulants, which the table leaves out; and BFB schedules of powers.
TEST(Finder, GivesTheFrontsOfTableA1) {
  EXPECT_EQ(Front({.nodes = 32, .degree = 4}), (Costs{{3, "1"}, {4, "31/32"}}));
  EXPECT_EQ(Front({.nodes = 64, .degree = 4}), (Costs{{3, "21/16"}, {4, "1"}, {6, "63/64"}}));
  EXPECT_EQ(Front({.nodes = 128, .degree = 4}), (Costs{{4, "33/32"}, {5, "1"}, {8, "127/128"}}));
  EXPECT_EQ(Front({.nodes = 256, .degree = 4}),
            (Costs{{4, "85/64"}, {5, "65/64"}, {7, "1"}, {10, "255/256"}}));
  EXPECT_EQ(Front({.nodes = 512, .degree = 4}),
            (Costs{{5, "133/128"}, {6, "129/128"}, {9, "1"}, {16, "511/512"}}));
}

TEST(Finder, GivesTheFrontOfTable34) {
  EXPECT_EQ(Front({.nodes = 1024, .degree = 4}),
            (Costs{{5, "341/256"}, {6, "261/256"}, {8, "257/256"}, {11, "1"}, {14, "1023/1024"}}));
}

// Table 3.5: at each size a network of both bounds, in links of both directions.
TEST(Finder, AttainsBothBoundsUpToTwelveNodes) {
  for (std::int64_t nodes = 5; nodes <= 12; ++nodes) {
    const FinderOptions options{
        .nodes = nodes, .degree = 4, .bidirectional = true, .collective = Collective::kAllreduce};
    const Bounds bounds = ComputeBounds(options);
    EXPECT_EQ(bounds.steps, nodes == 5 ? 2 : 4);
    EXPECT_EQ(Front(options), (Costs{{bounds.steps, bounds.t_b.ToString()}})) << nodes;
  }
}

// The bidirectional Moore bounds of Table A.2.
TEST(Finder, KnowsTheMooreBounds) {
  const auto bound = [](std::int64_t nodes, bool bidirectional) {
    return ComputeBounds({.nodes = nodes, .degree = 4, .bidirectional = bidirectional}).steps;
  };
  const std::vector<std::array<std::int64_t, 3>> table{
      {6, 2, 2},  {16, 2, 2}, {21, 2, 3}, {26, 3, 3},  {35, 3, 3},
      {45, 3, 3}, {70, 3, 4}, {80, 3, 4}, {189, 4, 5}, {728, 5, 6}};
  for (const auto& [nodes, one_way, both] : table) {
    EXPECT_EQ(bound(nodes, false), one_way) << nodes;
    EXPECT_EQ(bound(nodes, true), both) << nodes;
  }
  EXPECT_EQ(ComputeBounds({.nodes = 5, .degree = 1, .bidirectional = true}).steps, 4);
}

// Every candidate's schedule is made and verified, and no candidate beats the bounds or another.
void ExpectVerifiedFront(const FinderOptions& options) {
  SCOPED_TRACE(std::to_string(options.nodes) + " of degree " + std::to_string(options.degree));
  const auto front = FindNetworks(options);
  if (!front) {
    EXPECT_EQ(front.error().code, ErrorCode::kNotFound);
    return;
  }
  const Bounds bounds = ComputeBounds(options);
  const Candidate* before = nullptr;
  for (const Candidate& one : *front) {
    SCOPED_TRACE(FormatConstruction(one.construction));
    EXPECT_GE(one.steps, bounds.steps);
    EXPECT_GE(one.t_b, bounds.t_b);
    if (before != nullptr) {
      EXPECT_GT(one.steps, before->steps);
      EXPECT_LT(one.t_b, before->t_b);
    }
    before = &one;
    const auto network = BuildNetwork(one.construction);
    const auto schedule = MakeSchedule(one.construction, options.collective);
    ASSERT_TRUE(network && schedule);
    EXPECT_EQ(network->graph.node_count(), options.nodes);
    EXPECT_EQ(network->graph.degree(), options.degree);
    EXPECT_LE(options.bidirectional, network->graph.IsBidirectional());
    const auto cost = VerifySchedule(network->graph, *schedule);
    ASSERT_TRUE(cost) << cost.error().message;
    EXPECT_EQ(cost->steps, one.steps);
    EXPECT_LE(cost->t_b, one.t_b);
    if (one.prediction.is_exact) {
      EXPECT_EQ(cost->t_b, one.t_b);
    }
  }
}

TEST(Finder, FindsOnlyNetworksWhoseSchedulesAreVerified) {
  for (std::int64_t nodes = 2; nodes <= 40; ++nodes) {
    for (const std::int64_t degree : {1, 2, 3, 4, 6, 8}) {
      ExpectVerifiedFront({.nodes = nodes, .degree = degree});
      ExpectVerifiedFront({.nodes = nodes, .degree = degree, .bidirectional = true});
      ExpectVerifiedFront({.nodes = nodes,
                           .degree = degree,
                           .bidirectional = nodes % 2 == 0,
                           .collective = Collective::kAllreduce});
    }
    ExpectVerifiedFront({.nodes = nodes, .degree = 3, .collective = Collective::kReduceScatter});
  }
}

TEST(Finder, RefusesSizesOutOfRangeAndSaysWhereNoConstructionIsKnown) {
  for (const FinderOptions& options :
       {FinderOptions{.nodes = 1, .degree = 2},
        {.nodes = kMaxFinderNodes + 1, .degree = 2},
        {.nodes = 8, .degree = 0},
        {.nodes = 8, .degree = 65},
        {.nodes = 8, .degree = 2, .collective = Collective::kBroadcast}}) {
    const auto found = FindNetworks(options);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, ErrorCode::kInvalidArgument) << found.error().message;
  }
  // A network of 5 nodes with 3 links in both directions each does not exist.
  const auto odd = FindNetworks({.nodes = 5, .degree = 3, .bidirectional = true});
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().code, ErrorCode::kNotFound);
  EXPECT_NE(odd.error().message.find("without --bidirectional"), std::string::npos);
}

}  // namespace
}  // namespace espalier::synthesis
