// Jobs as operators ask for them and as they are stored.
#include "controller/forests/job_spec.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "common/fabric/builders.h"

namespace espalier::controller {
namespace {

TEST(StoredJob, IsReadAsItWasWritten) {
  const StoredJob job{.spec = {.name = "train",
                               .ranks = {"h 0", "h1"},
                               .collective = forest::Collective::kAllreduce,
                               .bytes = 7,
                               .offload = true},
                      .listens = {4'791, 65'535}};
  EXPECT_EQ(FormatStoredJob(job), "allreduce 7 offload 4791 65535\nh 0\nh1\n");
  EXPECT_EQ(ParseStoredJob("train", FormatStoredJob(job)).value(), job);
  const auto without = ParseStoredJob("train", "allreduce 7 offload\nh 0\nh1\n");
  ASSERT_TRUE(without.has_value());
  EXPECT_EQ(*without, (StoredJob{job.spec, {}}));
  for (const char* text :
       {"", "allreduce\n", "allreduce x inline\nh0\n", "none 0 inline\nh0\n",
        "allreduce 0 inline 1\nh0\nh1\n", "allreduce 0 inline 1 2 3\nh0\nh1\n",
        "allreduce 0 inline 1 0\nh0\nh1\n", "allreduce 0 inline 1 65536\nh0\nh1\n",
        "allreduce 0 inline 1  2\nh0\nh1\n", "allreduce 0 inline 1 -2\nh0\nh1\n"}) {
    EXPECT_EQ(ParseStoredJob("train", text).error().code, ErrorCode::kInvalidArgument) << text;
  }
}

TEST(StoredJobUser, IsReadAsItWasWritten) {
  const StoredJob job{.spec = {.name = "train",
                               .ranks = {"h0", "h1"},
                               .collective = forest::Collective::kAllreduce,
                               .verbs = true,
                               .user = "alice"},
                      .listens = {4'791, 4'792}};
  EXPECT_EQ(FormatStoredJob(job), "allreduce 0 inline verbs user=alice 4791 4792\nh0\nh1\n");
  EXPECT_EQ(ParseStoredJob("train", FormatStoredJob(job)).value(), job);
  for (const char* text :
       {"allreduce 0 inline user=\nh0\nh1\n", "allreduce 0 inline user=Al\nh0\nh1\n",
        "allreduce 0 inline 1 user=alice 2\nh0\nh1\n"}) {
    EXPECT_EQ(ParseStoredJob("train", text).error().code, ErrorCode::kInvalidArgument) << text;
  }
}

TEST(JobSpec, RanksAreComputeNodesEachOnce) {
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
  EXPECT_EQ(refusal({"h0"}), "a job has two ranks or more, not 1");
  EXPECT_EQ(refusal({"h0", "h9"}), "there is no node \"h9\" to be a rank");
  EXPECT_EQ(refusal({"h0", "leaf0"}), "leaf0 does not compute: it cannot be a rank");
  EXPECT_EQ(refusal({"h0", "h1", "h0"}), "h0 is named twice as a rank");
  for (const std::string& name : {std::string(), std::string(256, 'x'), std::string("a\nb")}) {
    EXPECT_EQ(refusal({"h0", "h1"}, name), "a job's name has 1 to 255 printable characters");
  }
  EXPECT_TRUE(ranks({"h0", "h1"}, std::string(255, 'x')));
}

}  // namespace
}  // namespace espalier::controller
