#include "controller/history/sample_ring.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/controller/history/samples.h"

namespace espalier::controller {
namespace {

TEST(SampleRing, KeepsTheYoungest) {
  Samples samples;
  SampleRing ring(3, 2, 1);
  for (int second = 0; second < 8; ++second) ring.Add(samples.At(second));
  ASSERT_EQ(ring.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(ring.At(i).begin, Samples::Time(5 + static_cast<int>(i)));
    EXPECT_EQ(ring.At(i).links[0].use[1], 5 + i);
    EXPECT_EQ(ring.At(i).jobs[0].bps, 5 + static_cast<float>(i));
  }
}

TEST(SampleRing, DropsJobsBeyondItsNumber) {
  Samples samples;
  SampleRing ring(3, 2, 0);
  ring.Add(samples.At(1));
  EXPECT_TRUE(ring.At(0).jobs.empty());
}

TEST(SampleRing, KeepsTheFlowsOfEachSample) {
  Samples samples;
  SampleRing ring(2, 2, 1, 1);
  for (const int second : {1, 2, 3}) ring.Add(samples.At(second));
  ASSERT_EQ(ring.At(0).flows.size(), 1U);
  EXPECT_EQ(ring.At(0).flows[0].source, 2);
  EXPECT_EQ(ring.At(1).flows[0].source, 3);
}

TEST(SampleRing, OfNoSampleKeepsNone) {
  Samples samples;
  SampleRing ring(0, 2, 1);
  ring.Add(samples.At(1));
  EXPECT_EQ(ring.size(), 0U);
}

class SampleMergerTest : public testing::Test {
 protected:
  SampleMergerTest() : ring_(8, 2, 2) {}
  void Add(LinkRecord link, JobRecord job, const FabricRecord& fabric = {}) {
    const std::vector<LinkRecord> links = {link, LinkRecord{}};
    ring_.Add({Samples::Time(static_cast<int>(ring_.size())), fabric, links, {&job, 1}});
  }
  Sample Merge() {
    std::vector<Sample> samples;
    for (std::size_t i = 0; i < ring_.size(); ++i) samples.push_back(ring_.At(i));
    return merger_.Merge(samples, Samples::Time(0));
  }
  static JobRecord Job(std::uint32_t flows, std::uint32_t rounds, float seconds) {
    JobRecord job{};
    job.flows = flows;
    job.rounds = rounds;
    job.round_seconds = job.longest_seconds = seconds;
    job.ideal_seconds = 1;
    return job;
  }

  SampleRing ring_;
  SampleMerger merger_;
};

TEST_F(SampleMergerTest, TakesTheMeanUseTheLargestLoadAndTheWorstState) {
  Add({{4, 0}, {100, 0}, 0}, Job(1, 0, 0));
  Add({{2, 9}, {50, 1}, 3}, Job(1, 0, 0));
  Add({{0, 0}, {0, 0}, 1}, Job(1, 0, 0));
  const Sample merged = Merge();
  EXPECT_EQ(merged.links[0], (LinkRecord{{4, 9}, {50, 1}, 3}));
  EXPECT_EQ(merged.links[1], LinkRecord{});
}

TEST_F(SampleMergerTest, WeighsRoundsByTheirNumber) {
  Add({}, Job(2, 3, 1));
  Add({}, Job(5, 1, 5));
  Add({}, Job(4, 0, 0));
  const Sample merged = Merge();
  ASSERT_EQ(merged.jobs.size(), 1U);
  EXPECT_EQ(merged.jobs[0].flows, 5U);
  EXPECT_EQ(merged.jobs[0].rounds, 4U);
  EXPECT_FLOAT_EQ(merged.jobs[0].round_seconds, 2);
  EXPECT_FLOAT_EQ(merged.jobs[0].ideal_seconds, 1);
  EXPECT_FLOAT_EQ(merged.jobs[0].longest_seconds, 5);
}

TEST(SampleMerger, KeepsEachFlowAtItsSlowestAndTheSlowestOfAll) {
  const auto flow = [](std::int32_t source, float bps) {
    FlowRecord record{};
    record.source = source;
    record.bps = bps;
    return record;
  };
  const std::vector<LinkRecord> links(2);
  const std::vector<FlowRecord> first = {flow(1, 5), flow(2, 7), flow(3, 8)};
  const std::vector<FlowRecord> second = {flow(2, 3), flow(1, 6), flow(4, 9)};
  const std::vector<Sample> samples = {{Samples::Time(0), {}, links, {}, first},
                                       {Samples::Time(1), {}, links, {}, second}};
  SampleMerger merger(3);
  const Sample merged = merger.Merge(samples, Samples::Time(0));
  ASSERT_EQ(merged.flows.size(), 3U);
  EXPECT_EQ(merged.flows[0].source, 2);
  EXPECT_EQ(merged.flows[0].bps, 3);
  EXPECT_EQ(merged.flows[1].source, 1);
  EXPECT_EQ(merged.flows[1].bps, 5);
  EXPECT_EQ(merged.flows[2].source, 3);
}

TEST_F(SampleMergerTest, SumsWhatHappenedAndKeepsTheWorst) {
  FabricRecord bad;
  bad.failures = 1;
  bad.moves = 3;
  bad.max_load = 2;
  bad.most_loaded = 1;
  bad.health = 2;
  bad.flows = 9;
  FabricRecord good;
  good.moves = 1;
  good.max_load = 1;
  good.most_loaded = 0;
  good.flows = 4;
  Add({}, Job(1, 0, 0), bad);
  Add({}, Job(1, 0, 0), good);
  const FabricRecord merged = Merge().fabric;
  EXPECT_EQ(merged.failures, 1U);
  EXPECT_EQ(merged.moves, 4U);
  EXPECT_EQ(merged.max_load, 2);
  EXPECT_EQ(merged.most_loaded, 1);
  EXPECT_EQ(merged.health, 2);
  EXPECT_EQ(merged.flows, 4U);
}

}  // namespace
}  // namespace espalier::controller
