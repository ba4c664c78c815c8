// Flows without a job name belong to the job of all NICs that such flows connect.
#include "controller/agents/unnamed_jobs.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

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

  Cluster cluster_;
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
