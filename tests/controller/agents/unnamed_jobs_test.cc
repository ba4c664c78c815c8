// Flows without a job name belong to the job of all NICs that such flows connect, unless they have
// rounds of their own.
#include "controller/agents/unnamed_jobs.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

// Four leaves with two hosts each.
class UnnamedJobsTest : public testing::Test {
 protected:
  UnnamedJobsTest()
      : cluster_(fabric::LeafSpineOptions{.spines = 2, .leaves = 4, .hosts_per_leaf = 2}) {
    cluster_.ConnectAll();
  }
  void Open(int from, std::uint64_t id, int to, const std::string& job = "") {
    cluster_.Open(from, {{.id = id, .to = to, .job = job}});
    cluster_.Settle();
  }
  std::string JobOf(int from, std::uint64_t id) {
    return cluster_.state().flows.JobName(cluster_.FlowOf(from, id).job);
  }

  // Flows that become busy at these times, for 50 ms each.
  void Play(const std::map<TimePoint, std::vector<std::pair<int, std::uint64_t>>>& starts) {
    for (const auto& [at, flows] : starts) {
      Advance(at - cluster_.controller().Now());
      Toggle(flows);
      Advance(50ms);
      Toggle(flows);
    }
    Advance(2s);
  }
  void Advance(Duration by) {
    if (by > Duration{}) cluster_.Advance(by);
  }
  void Toggle(const std::vector<std::pair<int, std::uint64_t>>& flows) {
    for (const auto& [host, id] : flows) {
      const std::uint32_t edges = ++edges_[{host, id}];
      wire::FlowReport report;
      report.progress = {{.id = wire::LocalFlowId(id),
                          .outstanding_bytes = edges % 2 == 1 ? 1'000'000U : 0U,
                          .edges = 2 + edges}};
      cluster_.Report(host, report);
    }
    cluster_.Settle();
  }

  Cluster cluster_;
  std::map<std::pair<int, std::uint64_t>, std::uint32_t> edges_;
};

TEST_F(UnnamedJobsTest, ConnectedNicsAreOneJob) {
  Open(6, 1, 0);
  Open(4, 1, 6);
  Open(3, 1, 5);
  cluster_.Advance(2s);
  EXPECT_EQ(JobOf(6, 1), "~h0");
  EXPECT_EQ(JobOf(4, 1), "~h0");
  EXPECT_EQ(JobOf(3, 1), "~h3");
  Open(5, 1, 0);  // joins both
  cluster_.Advance(2s);
  EXPECT_EQ(JobOf(3, 1), "~h0");
  cluster_.End(5, 1);
  cluster_.Settle();
  cluster_.Advance(2s);
  EXPECT_EQ(JobOf(3, 1), "~h3");
  EXPECT_EQ(JobOf(6, 1), "~h0");
}

TEST_F(UnnamedJobsTest, DeclaredNamesWinAndCannotPretend) {
  Open(0, 1, 2, "train");
  Open(2, 1, 4);
  Open(6, 1, 3, "~h2");  // no program can put its flow into a job that was found
  cluster_.Advance(2s);
  EXPECT_EQ(JobOf(0, 1), "train");
  EXPECT_EQ(JobOf(2, 1), "~h2");
  EXPECT_EQ(JobOf(6, 1), "~h3");
}

// One job of hosts 0, 2 and 4 and one of hosts 0, 3 and 5, each with two phases.
TEST_F(UnnamedJobsTest, JobsOnOneHostAreToldApartByTheirRounds) {
  Open(0, 1, 2);
  Open(2, 1, 4);
  Open(0, 2, 3);
  Open(3, 1, 5);
  std::map<TimePoint, std::vector<std::pair<int, std::uint64_t>>> starts;
  const TimePoint begin = cluster_.controller().Now();
  for (int round = 0; round < 130; ++round) {
    starts[begin + round * 1000ms].emplace_back(0, 1);
    starts[begin + round * 1000ms + 300ms].emplace_back(2, 1);
    starts[begin + round * 1370ms + 7ms].emplace_back(0, 2);
    starts[begin + round * 1370ms + 507ms].emplace_back(3, 1);
  }
  Play(starts);
  const std::string one = JobOf(0, 1);
  const std::string other = JobOf(0, 2);
  EXPECT_EQ(JobOf(2, 1), one);
  EXPECT_EQ(JobOf(3, 1), other);
  EXPECT_EQ(std::set<std::string>({one, other}), std::set<std::string>({"~h0", "~h0~2"}));
  // A flow without rounds of its own belongs to the job of its NICs.
  Open(4, 9, 2);
  Open(5, 9, 3);
  cluster_.Advance(2s);
  EXPECT_EQ(JobOf(4, 9), one);
  EXPECT_EQ(JobOf(5, 9), other);
  // For good: a restart of rounds, and the end of one of the jobs, change no name.
  cluster_.End(0, 1);
  cluster_.End(2, 1);
  cluster_.Settle();
  cluster_.Advance(60s);
  EXPECT_EQ(JobOf(0, 2), other);
  EXPECT_EQ(JobOf(3, 1), other);
  cluster_.state().flow_paths.CheckInvariants();
}

TEST_F(UnnamedJobsTest, PhasesOfOneJobAreOneJob) {
  Open(0, 1, 2);
  Open(2, 1, 4);
  std::map<TimePoint, std::vector<std::pair<int, std::uint64_t>>> starts;
  const TimePoint begin = cluster_.controller().Now();
  for (int round = 0; round < 130; ++round) {
    starts[begin + round * 700ms].emplace_back(0, 1);
    starts[begin + round * 700ms + 300ms].emplace_back(2, 1);
  }
  Play(starts);
  EXPECT_EQ(JobOf(0, 1), "~h0");
  EXPECT_EQ(JobOf(2, 1), "~h0");
}

TEST_F(UnnamedJobsTest, EndedJobsLeaveNothing) {
  Open(0, 1, 2);
  cluster_.Advance(2s);
  cluster_.End(0, 1);
  cluster_.Settle();
  cluster_.Advance(2s);
  EXPECT_EQ(cluster_.state().flows.size(), 0U);
  cluster_.state().flow_paths.CheckInvariants();
}

}  // namespace
}  // namespace espalier::controller
