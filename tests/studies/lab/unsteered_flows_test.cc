#include "tests/studies/lab/unsteered_flows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "deploy/lab/workload/parallel_job.h"

namespace espalier::demo {
namespace {

constexpr std::int64_t kBytes = 8'000'000;
constexpr int kHostsPerLeaf = 4;

std::vector<std::string> Hosts(int count) {
  std::vector<std::string> hosts;
  for (int i = 0; i < count; ++i) hosts.push_back(fmt::format("h{}", i));
  return hosts;
}

traffic::Workload Permutation(int hosts) {
  return traffic::MakeShiftedPermutation(Hosts(hosts), kHostsPerLeaf, kBytes).value();
}

std::set<std::string> HiddenFlows(int percent, std::uint64_t seed, int hosts = 16) {
  traffic::Workload workload = Permutation(hosts);
  const int hidden = HideFlows(workload, percent, seed);
  std::set<std::string> ids;
  for (const traffic::SingleFlow& flow : workload.flows) {
    if (!flow.announced) ids.insert(flow.id);
  }
  EXPECT_EQ(ids.size(), static_cast<std::size_t>(hidden));
  return ids;
}

TEST(HideFlows, HidesTheNearestNumberAndAtLeastOne) {
  EXPECT_EQ(HiddenFlows(0, 1).size(), 0U);
  EXPECT_EQ(HiddenFlows(2, 1).size(), 1U);   // 0.32
  EXPECT_EQ(HiddenFlows(10, 1).size(), 2U);  // 1.6
  EXPECT_EQ(HiddenFlows(15, 1).size(), 2U);  // 2.4
  EXPECT_EQ(HiddenFlows(10, 1, 128).size(), 13U);
  EXPECT_EQ(HiddenFlows(100, 1).size(), 16U);
}

TEST(HideFlows, ChoosesByTheSeedAlone) {
  std::set<std::string> of_any;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const std::set<std::string> hidden = HiddenFlows(10, seed);
    EXPECT_EQ(HiddenFlows(10, seed), hidden) << seed;
    of_any.insert(hidden.begin(), hidden.end());
  }
  EXPECT_EQ(of_any.size(), 16U) << "any flow may be hidden";
}

class MiceTest : public testing::Test {
 protected:
  traffic::Workload WithMice(std::uint64_t seed, int percent = 20) {
    traffic::Workload workload = Permutation(16);
    mice_ = AddMice(
        workload,
        {.nics = Hosts(16), .nics_per_leaf = kHostsPerLeaf, .percent = percent, .seconds = 1.28},
        seed);
    return workload;
  }
  static int LeafOf(const std::string& host) { return std::stoi(host.substr(1)) / kHostsPerLeaf; }

  int mice_ = 0;
};

TEST_F(MiceTest, TakesAFifthOfTheBytesOfEachHost) {
  const traffic::Workload workload = WithMice(1);
  EXPECT_EQ(mice_, 16 * 25);
  ASSERT_EQ(workload.flows.size(), 16U + 16 * 25);
  std::map<std::string, std::int64_t> sent;
  std::map<std::string, std::int64_t> received;
  std::map<std::string, std::int64_t> of_mice;
  for (const traffic::SingleFlow& flow : workload.flows) {
    sent[flow.source] += flow.bytes;
    received[flow.destination] += flow.bytes;
    if (flow.job != kMiceJob) continue;
    of_mice[flow.source] += flow.bytes;
    EXPECT_LT(flow.bytes, 1 << 20) << "an elephant";
  }
  for (const std::string& host : Hosts(16)) {
    EXPECT_EQ(sent[host], kBytes);
    EXPECT_EQ(received[host], kBytes);
    EXPECT_EQ(of_mice[host], kBytes / 5);
  }
}

TEST_F(MiceTest, SendsMiceToAllOtherLeavesAllTheTime) {
  const traffic::Workload workload = WithMice(1);
  std::set<std::pair<int, int>> leaves;
  std::set<int> tenths;  // of a second, in which mice begin
  std::set<std::string> ids;
  for (const traffic::SingleFlow& flow : workload.flows) {
    EXPECT_TRUE(ids.insert(flow.id).second) << flow.id;
    if (flow.job != kMiceJob) continue;
    EXPECT_NE(LeafOf(flow.source), LeafOf(flow.destination)) << flow.id;
    leaves.emplace(LeafOf(flow.source), LeafOf(flow.destination));
    EXPECT_LT(flow.start_seconds, 1.28);
    tenths.insert(static_cast<int>(10 * flow.start_seconds));
  }
  EXPECT_EQ(leaves.size(), 12U);
  EXPECT_EQ(tenths.size(), 13U);
}

TEST_F(MiceTest, ChoosesByTheSeedAlone) {
  const std::string first = traffic::FormatWorkload(WithMice(1));
  EXPECT_EQ(traffic::FormatWorkload(WithMice(1)), first);
  EXPECT_NE(traffic::FormatWorkload(WithMice(2)), first);
}

TEST_F(MiceTest, LeavesAPermutationAsItIsWithoutMice) {
  EXPECT_EQ(traffic::FormatWorkload(WithMice(1, 0)), traffic::FormatWorkload(Permutation(16)));
  EXPECT_EQ(mice_, 0);
}

}  // namespace
}  // namespace espalier::demo
