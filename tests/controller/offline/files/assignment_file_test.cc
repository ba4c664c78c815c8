#include "controller/offline/files/assignment_file.h"

#include <gtest/gtest.h>

#include "common/fabric/builders.h"

namespace espalier::offline {
namespace {

class PlanFile : public testing::Test {
 protected:
  PlanFile() {
    flows_.jobs = {"J", "K"};
    flows_.flows = {{.id = "a"}, {.id = "b", .job = 1}, {.id = "c"}};
    plan_.algorithm = "optimal";
    plan_.max_load = {3, 2};
    plan_.lower_bound = {1, 1};
    plan_.proof = controller::Proof::kNotNarrower;
    plan_.tiers = {{{3, 2}, {1, 1}}, {{1, 1}, {1, 2}}};
    plan_.job_rates_bps = {33'333'333'333.4, 0};
    plan_.moved_flows = 1;
    plan_.moved_bytes = 7;
    plan_.microseconds = 2.5;
    plan_.flows.resize(3);
    plan_.flows[0] = {
        .state = AssignmentState::kRouted,
        .subflows = 4,
        .paths = {{Links({"h0--leaf0", "leaf0--spine0", "leaf1--spine0", "h1--leaf1"}),
                   3 * controller::kLoadUnit / 4},
                  {Links({"h0--leaf0", "leaf0--spine1", "leaf1--spine1", "h1--leaf1"}),
                   controller::kLoadUnit / 4}}};
    plan_.flows[1].state = AssignmentState::kLocal;
  }

  // From h0 to h1: up twice, down twice.
  std::vector<std::uint32_t> Links(const std::vector<std::string>& ids) const {
    std::vector<std::uint32_t> links;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      fabric::DirectedLink link{.link = *topology_.FindLink(ids[i])};
      // Builders write links from the lower end to the upper.
      link.forward = i < 2;
      links.push_back(static_cast<std::uint32_t>(link.Index()));
    }
    return links;
  }
  Result<PreviousAssignment> ParseShare(const std::string& share) const {
    return ParsePreviousAssignment(
        R"({"algorithm": "x", "assignments": [{"flow": "a", "state": "ROUTED",
"paths": [{"links": ["l"], "share": ")" +
            share + "\"}]}]}",
        "p.json");
  }

  fabric::Topology topology_ = *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1}));
  FlowSet flows_;
  AssignmentResult plan_;
};

TEST_F(PlanFile, WritesEveryFieldInOrder) {
  EXPECT_EQ(
      FormatAssignment(plan_, flows_, topology_),
      R"({"algorithm":"optimal","flows":3,"routed":1,"local":1,"unroutable":1,)"
      R"("max_link_load":"3/2","lower_bound":"1",)"
      R"("proof":"a folded Clos that is not narrower upwards",)"
      R"("tiers":[{"max_link_load":"3/2","lower_bound":"1"},)"
      R"({"max_link_load":"1","lower_bound":"1/2"}],)"
      R"("job_min_share_gbps":{"J":"33.333333333","K":"0"},"moved":1,"moved_bytes":7,)"
      R"("microseconds":2.5,"assignments":[{"flow":"a","state":"ROUTED","paths":[)"
      R"({"via":["spine0"],)"
      R"("links":["h0--leaf0","leaf0--spine0","leaf1--spine0","h1--leaf1"],"share":"3/4"},)"
      R"({"via":["spine1"],)"
      R"("links":["h0--leaf0","leaf0--spine1","leaf1--spine1","h1--leaf1"],"share":"1/4"}]},)"
      R"({"flow":"b","state":"LOCAL","paths":[]},{"flow":"c","state":"UNROUTABLE","paths":[]}]})");
}

TEST_F(PlanFile, ReadsItsOwnOutput) {
  const auto read = ParsePreviousAssignment(FormatAssignment(plan_, flows_, topology_), "p.json");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  ASSERT_EQ(read->size(), 3U);
  EXPECT_TRUE(read->at("b").empty());
  EXPECT_TRUE(read->at("c").empty());
  const std::vector<PreviousPath>& paths = read->at("a");
  ASSERT_EQ(paths.size(), 2U);
  EXPECT_EQ(paths[0].links,
            (std::vector<std::string>{"h0--leaf0", "leaf0--spine0", "leaf1--spine0", "h1--leaf1"}));
  EXPECT_EQ(paths[0].share, (controller::Load{3, 4}));
  EXPECT_EQ(paths[1].share, (controller::Load{1, 4}));
}

TEST_F(PlanFile, ReadsSharesOfAFlowAndNothingElse) {
  for (const char* share : {"1", "1/1", "2/2", "1/16", "1/720720"}) {
    EXPECT_TRUE(ParseShare(share).has_value()) << share;
  }
  for (const char* share : {"", "0", "2", "0/1", "1/0", "3/2", "1/", "/2", "-1/2", "1/-2", "1/2/3",
                            "1 /2", "0.5", "1/720721", "99999999999999999999"}) {
    const auto read = ParseShare(share);
    ASSERT_FALSE(read.has_value()) << share;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(read.error().message.starts_with("p.json:2:37: must be a part of a flow"))
        << read.error().message;
  }
}

TEST_F(PlanFile, WritesSharesAndRatesExactly) {
  EXPECT_EQ(ShareOf({.share = controller::kLoadUnit}), "1");
  EXPECT_EQ(ShareOf({.share = controller::kLoadUnit / 2}), "1/2");
  EXPECT_EQ(ShareOf({.share = 3 * controller::kLoadUnit / 8}), "3/8");
  EXPECT_EQ(ShareOf({.share = 1}), "1/720720");
  EXPECT_EQ(RateText(100e9), "100");
  EXPECT_EQ(RateText(0.4), "0");
  EXPECT_EQ(RateText(1.5), "0.000000002");
}

}  // namespace
}  // namespace espalier::offline
