#include "controller/offline/evaluation/drawn_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "controller/offline/evaluation/paper_evaluation.h"
#include "controller/offline/files/job_file.h"

namespace espalier::offline {
namespace {

class DrawnJobs : public testing::Test {
 protected:
  std::vector<Job> Draw(int count, int ring_size, std::uint64_t seed) const {
    auto jobs = DrawJobs(topology_, count, ring_size, seed);
    EXPECT_TRUE(jobs.has_value()) << jobs.error().message;
    return jobs.value_or(std::vector<Job>());
  }
  static std::vector<std::string> Models(const std::vector<Job>& jobs) {
    std::vector<std::string> models;
    for (const Job& job : jobs) models.push_back(job.model);
    return models;
  }

  fabric::Topology topology_ = *BuildPaperFabric();
};

TEST_F(DrawnJobs, HaveHostsOfTheirOwnAndBeginWithinTenSeconds) {
  for (const int ring_size : {2, 4, 8}) {
    for (int count = 1; count <= 5; ++count) {
      const std::vector<Job> jobs = Draw(count, ring_size, 1);
      ASSERT_EQ(jobs.size(), static_cast<std::size_t>(count));
      EXPECT_EQ(jobs[0].model, "BLOOM");
      std::set<fabric::NodeId> senders;
      std::size_t flows = 0;
      for (const Job& job : jobs) {
        EXPECT_THAT(job.model, testing::AnyOf("BLOOM", "GPT_3", "LLaMA2_70B"));
        EXPECT_GE(job.start_ns, 0);
        EXPECT_LT(job.start_ns, 10'000'000'000);
        ASSERT_EQ(job.phases.size(), 1U);
        for (const Exchange& exchange : job.phases[0].exchanges) {
          EXPECT_EQ(exchange.rounds, 2 * (ring_size - 1));
          for (const Exchange::Flow& flow : exchange.flows) senders.insert(flow.source);
          flows += exchange.flows.size();
        }
      }
      // Each NIC sends to one other.
      EXPECT_EQ(senders.size(), flows);
    }
  }
}

// The first BLOOM of the authors: the same rings, bytes and computation on other hosts.
TEST_F(DrawnJobs, ReduceWhatPublishedJobsReduce) {
  const auto published = ReadJobs(
      std::string(ESPALIER_FLOODNS_DATA) + "/concurrent_jobs_1/ring_size_4/job_0-BLOOM.txt",
      topology_);
  ASSERT_TRUE(published.has_value()) << published.error().message;
  const Job& expected = published->front();
  const Job drawn = Draw(1, 4, 1).front();
  EXPECT_EQ(drawn.epochs, expected.epochs);
  EXPECT_EQ(drawn.phases[0].compute_ns, expected.phases[0].compute_ns);
  ASSERT_EQ(drawn.phases[0].exchanges.size(), expected.phases[0].exchanges.size());
  EXPECT_EQ(drawn.phases[0].exchanges[0].round_bytes, expected.phases[0].exchanges[0].round_bytes);
  EXPECT_EQ(drawn.phases[0].exchanges[0].rounds, expected.phases[0].exchanges[0].rounds);
}

TEST_F(DrawnJobs, AreThoseOfTheirSeed) {
  const std::vector<Job> first = Draw(4, 2, 7);
  const std::vector<Job> again = Draw(4, 2, 7);
  EXPECT_EQ(Models(first), Models(again));
  EXPECT_EQ(first[0].start_ns, again[0].start_ns);
  EXPECT_EQ(first[0].phases[0].exchanges[0].flows[0].source,
            again[0].phases[0].exchanges[0].flows[0].source);
  EXPECT_NE(first[0].start_ns, Draw(4, 2, 8)[0].start_ns);
}

TEST_F(DrawnJobs, RefuseMoreThanFit) {
  const auto many = DrawJobs(topology_, 6, 8, 1);  // 6 times 384 hosts
  ASSERT_FALSE(many.has_value());
  EXPECT_EQ(many.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(many.error().message, testing::HasSubstr("6 jobs with rings of 8 do not fit"));
}

}  // namespace
}  // namespace espalier::offline
