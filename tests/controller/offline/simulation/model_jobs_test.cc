#include "controller/offline/simulation/model_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "common/fabric/builders.h"
#include "common/fabric/paths.h"
#include "controller/offline/files/job_file.h"

namespace espalier::offline {
namespace {

using fabric::NodeId;
using fabric::Topology;
using testing::ElementsAre;
using testing::HasSubstr;

class ModelJobs : public testing::Test {
 protected:
  static Topology MakeFabric(int leaves) {
    return *Topology::Build(
        *fabric::BuildLeafSpine({.spines = 32, .leaves = leaves, .hosts_per_leaf = 32}));
  }
  std::vector<Job> Make(const std::vector<std::string>& names, const ModelJobOptions& options) {
    auto jobs = MakeModelJobs(topology_, names, options);
    EXPECT_TRUE(jobs.has_value()) << jobs.error().message;
    return jobs.value_or(std::vector<Job>{});
  }
  std::string ErrorOf(const std::vector<std::string>& names, const ModelJobOptions& options) {
    const auto jobs = MakeModelJobs(topology_, names, options);
    return jobs ? "no error" : jobs.error().message;
  }
  static std::vector<std::string> PhaseNames(const Job& job) {
    std::vector<std::string> names;
    for (const Phase& phase : job.phases) names.push_back(phase.name);
    return names;
  }
  static std::size_t FlowCount(const Phase& phase) {
    std::size_t count = 0;
    for (const Exchange& exchange : phase.exchanges) count += exchange.flows.size();
    return count;
  }

  Topology topology_ = MakeFabric(64);
};

// The all-reduce, its bytes and the computation are those of the files of the paper's authors.
TEST_F(ModelJobs, ModelsReduceWhatThePaperSays) {
  const std::string folder = std::string(ESPALIER_FLOODNS_DATA) + "/concurrent_jobs_";
  const std::tuple<const char*, const char*, int> cases[] = {
      {"bloom", "1/ring_size_4/job_0-BLOOM.txt", 4},
      {"llama", "2/ring_size_2/job_1-LLaMA2_70B.txt", 2},
      {"gpt3", "2/ring_size_8/job_1-GPT_3.txt", 8}};
  for (const auto& [name, file, copies] : cases) {
    SCOPED_TRACE(name);
    const auto published = ReadJobs(folder + file, topology_);
    ASSERT_TRUE(published.has_value()) << published.error().message;
    const Phase& expected = published->at(0).phases.at(0);
    const Job job = Make({name}, {.data_parallel = copies}).at(0);
    EXPECT_EQ(job.epochs, 10);
    const Phase& reduce = job.phases.back();
    EXPECT_EQ(reduce.name, "all-reduce");
    ASSERT_EQ(reduce.exchanges.size(), expected.exchanges.size());
    EXPECT_EQ(FlowCount(reduce), FlowCount(expected));
    EXPECT_EQ(reduce.exchanges[0].rounds, expected.exchanges[0].rounds);
    EXPECT_EQ(reduce.exchanges[0].round_bytes, expected.exchanges[0].round_bytes);
    std::int64_t compute = 0;
    for (const Phase& phase : job.phases) compute += phase.compute_ns;
    EXPECT_EQ(compute, expected.compute_ns);
  }
}

TEST_F(ModelJobs, WhatStaysWithinAHostIsLeftOut) {
  const Job hosts = Make({"gpt3"}, {.data_parallel = 2}).at(0);
  EXPECT_THAT(PhaseNames(hosts),
              ElementsAre("pipeline forward", "pipeline backward", "all-reduce"));
  EXPECT_EQ(FlowCount(hosts.phases[0]), 2U * 8 * 7);  // copies x tensor x between 8 stages
  EXPECT_EQ(FlowCount(hosts.phases[1]), 2U * 8 * 7);
  EXPECT_EQ(FlowCount(hosts.phases[2]), 2U * 64);
  const Job single = Make({"gpt3"}, {.data_parallel = 2, .nics_per_host = 1}).at(0);
  EXPECT_THAT(PhaseNames(single),
              ElementsAre("tensor forward", "pipeline forward", "tensor backward",
                          "pipeline backward", "all-reduce"));
  EXPECT_EQ(FlowCount(single.phases[0]), 2U * 64);
  // BLOOM's tensor groups are half a host: every second stage follows on the same host.
  EXPECT_EQ(FlowCount(Make({"bloom"}, {.data_parallel = 2}).at(0).phases[0]), 2U * 4 * 5);
  // One copy reduces no gradients.
  EXPECT_EQ(PhaseNames(Make({"gpt3"}, {.data_parallel = 1}).at(0)).back(), "pipeline backward");
}

TEST_F(ModelJobs, PlainWorkloadsHaveTheirPhases) {
  const std::vector<Job> jobs =
      Make({"all-to-all", "pipeline", "tree"}, {.ranks = 32, .nics_per_host = 8, .epochs = 3});
  EXPECT_THAT(PhaseNames(jobs[0]), ElementsAre("all-to-all"));
  EXPECT_EQ(FlowCount(jobs[0].phases[0]), 32U * 24);
  EXPECT_THAT(PhaseNames(jobs[1]), ElementsAre("forward", "backward"));
  EXPECT_EQ(FlowCount(jobs[1].phases[1]), 8U * 3);
  EXPECT_THAT(PhaseNames(jobs[2]), ElementsAre("reduce", "broadcast"));
  EXPECT_EQ(FlowCount(jobs[2].phases[0]), 8U * 3);
  EXPECT_EQ(jobs[2].epochs, 3);
}

TEST_F(ModelJobs, PlacesJobsOnHostsOfTheirOwnByTheSeed) {
  const fabric::PathTable paths(topology_);
  const auto describe = [&](std::uint64_t seed) {
    std::vector<NodeId> nics;
    std::set<NodeId> of_earlier_jobs;
    for (const Job& job : Make({"gpt3", "bloom", "gpt3"}, {.data_parallel = 2, .seed = seed})) {
      EXPECT_LT(job.start_ns, 10'000'000'000);
      std::set<NodeId> own;
      for (const Phase& phase : job.phases) {
        for (const Exchange& exchange : phase.exchanges) {
          for (const auto& [source, destination] : exchange.flows) {
            own.insert({source, destination});
            nics.push_back(source);
          }
        }
      }
      for (const NodeId nic : own) EXPECT_TRUE(of_earlier_jobs.insert(nic).second);
    }
    return nics;
  };
  EXPECT_EQ(describe(1), describe(1));
  EXPECT_NE(describe(1), describe(2));
}

TEST_F(ModelJobs, NamesWhatCannotBeMade) {
  EXPECT_THAT(ErrorOf({"gpt5"}, {}), HasSubstr("unknown workload \"gpt5\""));
  EXPECT_THAT(ErrorOf({"tree"}, {.ranks = 12}), HasSubstr("no multiple of --nics-per-host 8"));
  EXPECT_THAT(ErrorOf({"tree"}, {.ranks = 8}), HasSubstr("stays within hosts"));
  EXPECT_THAT(ErrorOf({"tree"}, {.ranks = 2000}), HasSubstr("--ranks 2000: must be 2 to 1000"));
  EXPECT_THAT(ErrorOf({"tree"}, {.epochs = 0}), HasSubstr("--epochs"));
  topology_ = MakeFabric(2);
  EXPECT_THAT(ErrorOf({"gpt3"}, {.data_parallel = 2}),
              HasSubstr("gpt3 needs 128 NICs on hosts of 8, but only 64 are left"));
}

}  // namespace
}  // namespace espalier::offline
