// Tests which nodes can be ranks of a job.
#include "controller/forests/job_ranks.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "common/fabric/builders.h"

namespace espalier::controller {
namespace {

TEST(JobRanks, AreComputeNodesEachOnce) {
  const fabric::Topology topology = *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 1, .leaves = 1, .hosts_per_leaf = 3}));
  const auto ranks = [&](std::vector<std::string> names, std::string job = "train") {
    return ResolveRanks(topology, {.name = std::move(job), .ranks = std::move(names)});
  };
  EXPECT_EQ(ranks({"h2", "h0"}).value(),
            (std::vector{*topology.FindNode("h2"), *topology.FindNode("h0")}));
  const auto refusal = [&](std::vector<std::string> names, std::string job = "train") {
    const auto refused = ranks(std::move(names), std::move(job));
    return refused ? "not refused" : refused.error().message;
  };
  EXPECT_EQ(refusal({"h0"}), "a job needs at least two ranks, not 1");
  EXPECT_EQ(refusal({"h0", "h9"}),
            "there is no node \"h9\" (name compute nodes of the topology as ranks)");
  EXPECT_EQ(refusal({"h0", "leaf0"}), "leaf0 is not a compute node, so it cannot be a rank");
  EXPECT_EQ(refusal({"h0", "h1", "h0"}), "h0 is named twice among the ranks");
  for (const std::string& name : {std::string(), std::string(256, 'x'), std::string("a\nb")}) {
    EXPECT_EQ(refusal({"h0", "h1"}, name), "invalid job name (use 1 to 255 printable characters)");
  }
  EXPECT_TRUE(ranks({"h0", "h1"}, std::string(255, 'x')));
}

}  // namespace
}  // namespace espalier::controller
