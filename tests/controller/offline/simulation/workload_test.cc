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
  std::vector<fabric::NodeId> Nics(const std::vector<std::string>& hosts) const {
    std::vector<fabric::NodeId> nics;
    for (const std::string& host : hosts) nics.push_back(*topology_.FindNode(host));
    return nics;
  }
  Exchange Ring(const std::vector<std::string>& hosts, std::int64_t round_bytes) const {
    return MakeRing(Nics(hosts), round_bytes * static_cast<std::int64_t>(hosts.size()));
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
      {.id = "A", .phases = {{.exchanges = {Ring({"h0", "h2", "h4"}, 7), Ring({"h1", "h3"}, 8)}}}},
      {.id = "B", .phases = {{.exchanges = {Ring({"h5", "h4"}, 9)}}}}};
  const auto workload = Workload::Build(topology_, jobs);
  ASSERT_TRUE(workload.has_value()) << workload.error().message;
  const fabric::PathTable paths(topology_);
  std::uint32_t next = 0;
  for (std::uint32_t j = 0; j < jobs.size(); ++j) {
    for (std::uint32_t r = 0; r < jobs[j].phases[0].exchanges.size(); ++r) {
      const SimulatedExchange& exchange = workload->exchanges()[workload->FirstExchange(j, 0) + r];
      EXPECT_EQ(exchange.flows.front(), next);
      EXPECT_EQ(exchange.job, j);
      EXPECT_EQ(exchange.round_bytes, jobs[j].phases[0].exchanges[r].round_bytes);
      EXPECT_EQ(exchange.rounds, jobs[j].phases[0].exchanges[r].rounds);
      for (const Exchange::Flow& flow : jobs[j].phases[0].exchanges[r].flows) {
        const SimulatedFlow& made = workload->flows()[next++];
        EXPECT_EQ(made.job, j);
        EXPECT_EQ(made.exchange, r);
        EXPECT_EQ(made.source, flow.source);
        EXPECT_EQ(made.destination, flow.destination);
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
  const Job good{.id = "good", .phases = {{.exchanges = {Ring({"h0", "h2"}, 1)}}}};
  EXPECT_EQ(ErrorOf({good}), "no error");
  EXPECT_THAT(ErrorOf({}), HasSubstr("no jobs"));
  const auto error = [&](const std::function<void(Job&)>& change) {
    Job bad = good;
    bad.id = "bad";
    change(bad);
    return ErrorOf({good, bad});
  };
  EXPECT_EQ(error([](Job& job) { job.phases.clear(); }), "job bad: has no phases");
  EXPECT_EQ(error([](Job& job) { job.phases[0].exchanges.clear(); }),
            "job bad: a phase has no exchanges");
  EXPECT_EQ(error([](Job& job) { job.epochs = 0; }), "job bad: has no epochs");
  EXPECT_EQ(error([](Job& job) { job.start_ns = -1; }), "job bad: its times must not be negative");
  EXPECT_EQ(error([](Job& job) { job.phases[0].compute_ns = -1; }),
            "job bad: its times must not be negative");
  EXPECT_EQ(error([](Job& job) { job.phases[0].exchanges[0].flows.clear(); }),
            "job bad: an exchange has no flows");
  EXPECT_EQ(error([](Job& job) { job.phases[0].exchanges[0].round_bytes = 0; }),
            "job bad: an exchange sends no bytes");
  EXPECT_EQ(error([](Job& job) { job.phases[0].exchanges[0].rounds = 0; }),
            "job bad: an exchange has no rounds");
  const fabric::NodeId leaf = *topology_.FindNode("leaf0");
  EXPECT_THAT(error([&](Job& job) { job.phases[0].exchanges[0].flows[1].destination = leaf; }),
              HasSubstr("job bad: leaf0 is not a NIC on a switch"));
}

}  // namespace
}  // namespace espalier::offline
