#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/builders.h"
#include "controller/offline/simulation/simulator.h"

namespace espalier::offline {
namespace {

using testing::HasSubstr;

class WorkloadTest : public testing::Test {
 protected:
  Ring MakeRing(const std::vector<std::string>& hosts, std::int64_t bytes) const {
    Ring ring{.flows = {}, .round_bytes = bytes};
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      ring.flows.push_back(
          {*topology_.FindNode(hosts[i]), *topology_.FindNode(hosts[(i + 1) % hosts.size()])});
    }
    return ring;
  }
  std::string ErrorOf(std::vector<Job> jobs) const {
    const auto workload = Workload::Build(topology_, std::move(jobs));
    if (workload) return "no error";
    EXPECT_EQ(workload.error().code, ErrorCode::kInvalidArgument);
    return workload.error().message;
  }

  fabric::Topology topology_ = *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2, .leaves = 3, .hosts_per_leaf = 2}));
};

TEST_F(WorkloadTest, NumbersTheFlowsOfAllRingsInOrder) {
  const std::vector<Job> jobs = {
      {.id = "A", .rings = {MakeRing({"h0", "h2", "h4"}, 7), MakeRing({"h1", "h3"}, 8)}},
      {.id = "B", .rings = {MakeRing({"h5", "h4"}, 9)}}};
  const auto workload = Workload::Build(topology_, jobs);
  ASSERT_TRUE(workload.has_value()) << workload.error().message;
  const fabric::PathTable paths(topology_);
  std::uint32_t next = 0;
  for (std::uint32_t j = 0; j < jobs.size(); ++j) {
    for (std::uint32_t r = 0; r < jobs[j].rings.size(); ++r) {
      EXPECT_EQ(workload->FirstFlow(j, r), next);
      for (const Ring::Flow& flow : jobs[j].rings[r].flows) {
        const SimulatedFlow& made = workload->flows()[next++];
        EXPECT_EQ(made.job, j);
        EXPECT_EQ(made.ring, r);
        EXPECT_EQ(made.source, flow.source);
        EXPECT_EQ(made.destination, flow.destination);
        EXPECT_EQ(made.round_bytes, jobs[j].rings[r].round_bytes);
        EXPECT_EQ(made.source_attachment.leaf, paths.FindAttachment(flow.source)->leaf);
        EXPECT_EQ(made.destination_attachment.leaf, paths.FindAttachment(flow.destination)->leaf);
      }
    }
  }
  EXPECT_EQ(workload->flows().size(), next);
  EXPECT_EQ(workload->jobs().size(), 2U);
  EXPECT_EQ(&workload->topology(), &topology_);
}

TEST_F(WorkloadTest, NamesTheJobThatCannotBeSimulated) {
  const Job good{.id = "good", .rings = {MakeRing({"h0", "h2"}, 1)}};
  EXPECT_EQ(ErrorOf({good}), "no error");
  EXPECT_THAT(ErrorOf({}), HasSubstr("no jobs"));
  const auto error = [&](const std::function<void(Job&)>& change) {
    Job bad = good;
    bad.id = "bad";
    change(bad);
    return ErrorOf({good, bad});
  };
  EXPECT_EQ(error([](Job& job) { job.rings.clear(); }), "job bad: has no rings");
  EXPECT_EQ(error([](Job& job) { job.epochs = 0; }), "job bad: has no epochs");
  EXPECT_EQ(error([](Job& job) { job.start_ns = -1; }), "job bad: its times must not be negative");
  EXPECT_EQ(error([](Job& job) { job.compute_ns = -1; }),
            "job bad: its times must not be negative");
  EXPECT_EQ(error([](Job& job) { job.rings[0].flows.pop_back(); }),
            "job bad: a ring has fewer than two flows");
  EXPECT_EQ(error([](Job& job) { job.rings[0].round_bytes = 0; }),
            "job bad: a ring sends no bytes");
  const fabric::NodeId leaf = *topology_.FindNode("leaf0");
  EXPECT_THAT(error([&](Job& job) { job.rings[0].flows[1].destination = leaf; }),
              HasSubstr("job bad: leaf0 is not attached to exactly one switch"));
}

}  // namespace
}  // namespace espalier::offline
