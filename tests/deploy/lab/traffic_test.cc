// Traffic in a lab with limited links: which flows collide and which do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "deploy/lab/workload/parallel_job.h"
#include "tests/deploy/lab/lab_fixture.h"

namespace espalier::lab {
namespace {

using testing::AllOf;
using testing::Each;
using testing::Pair;

LabOptions Slow() {
  return {.spines = 2, .leaves = 2, .hosts_per_leaf = 2, .link_rate = BitsPerSecond{50'000'000}};
}

traffic::SingleFlow Bulk(const std::string& source, const std::string& destination,
                         std::uint16_t port, std::int64_t bytes) {
  return {.id = source + ">" + destination,
          .source = source,
          .destination = destination,
          .bytes = bytes,
          .port = port};
}

// The spines' counts of one run.
std::map<std::string, int> LinkLoads(const Lab& lab, const std::vector<FlowCount>& before) {
  const Result<std::vector<FlowCount>> after = ReadFlowCounts(lab);
  EXPECT_TRUE(after.has_value());
  return CountFlowsPerDirection(lab.topology(), Difference(before, *after), 100'000);
}

TEST(LabTraffic, PortsDecideWhetherTwoFlowsCollide) {
  ESPALIER_LAB_OR_SKIP(lab, Slow());
  traffic::Workload together;
  together.flows = {Bulk("h0", "h2", PortOver(lab, "spine1", "h0", "h2"), 2'000'000),
                    Bulk("h1", "h3", PortOver(lab, "spine1", "h1", "h3"), 2'000'000)};
  const TrafficResult collided = Traffic(lab, together);
  EXPECT_EQ(LinkLoads(lab, {}),
            (std::map<std::string, int>{{"leaf0--spine1>spine1", 2}, {"leaf1--spine1>leaf1", 2}}));
  const std::vector<FlowCount> middle = ReadFlowCounts(lab).value();
  traffic::Workload apart = together;
  apart.flows[1].port = PortOver(lab, "spine0", "h1", "h3");
  const TrafficResult separated = Traffic(lab, apart);
  EXPECT_THAT(LinkLoads(lab, middle), AllOf(testing::SizeIs(4), Each(Pair(testing::_, 1))));
  for (const TrafficResult& result : {collided, separated}) {
    EXPECT_TRUE(result.completed);
    EXPECT_EQ(result.steered_bytes, 0);
    for (const FlowOutcome& flow : result.flows) {
      EXPECT_TRUE(flow.IsWhole()) << flow.plan.id;
      ASSERT_EQ(flow.sent.ports.size(), 1U);
      EXPECT_EQ(flow.sent.ports[0].port,
                flow.plan.port == together.flows[1].port ? together.flows[1].port : flow.plan.port);
    }
  }
  fmt::print("two flows of 2 MB over 50 Mbit/s links: together {:.2f} s, apart {:.2f} s\n",
             collided.SlowestFlowSeconds(), separated.SlowestFlowSeconds());
}

// 16 hosts, each of which sends to the host at its position under the next leaf. With the k-th host
// of every leaf on spine k, no link carries two flows.
TEST(LabTraffic, ChosenPortsPutOneFlowOfAPermutationOnEachLink) {
  ESPALIER_LAB_OR_SKIP(lab, {.link_rate = BitsPerSecond{50'000'000}});
  std::vector<std::string> hosts;
  for (int i = 0; i < 16; ++i) hosts.push_back(fmt::format("h{}", i));
  traffic::Workload workload = traffic::MakeShiftedPermutation(hosts, 4, 5'000'000).value();
  const TrafficResult random = Traffic(lab, workload, {.seed = 1});
  const std::vector<FlowCount> middle = ReadFlowCounts(lab).value();
  EXPECT_THAT(CountFlowsPerDirection(lab.topology(), middle, 100'000),
              testing::Contains(Pair(testing::_, testing::Gt(1))));
  for (std::size_t i = 0; i < workload.flows.size(); ++i) {
    traffic::SingleFlow& flow = workload.flows[i];
    flow.port = PortOver(lab, fmt::format("spine{}", i % 4), flow.source, flow.destination);
  }
  const TrafficResult chosen = Traffic(lab, workload);
  EXPECT_THAT(LinkLoads(lab, middle), AllOf(testing::SizeIs(32), Each(Pair(testing::_, 1))));
  for (const TrafficResult* result : {&random, &chosen}) {
    EXPECT_TRUE(result->completed);
    for (const FlowOutcome& flow : result->flows) EXPECT_TRUE(flow.IsWhole()) << flow.plan.id;
  }
  fmt::print(
      "16 flows of 5 MB over 50 Mbit/s links: slowest {:.2f} s with random ports, {:.2f} s "
      "with chosen ones, 0.80 s ideal\n",
      random.SlowestFlowSeconds(), chosen.SlowestFlowSeconds());
}

TEST(LabTraffic, RingJobsReduceInAllTheirEpochs) {
  ESPALIER_LAB_OR_SKIP(lab, Slow());
  traffic::Workload workload;
  workload.segment_bytes = 50'000;
  const Result<traffic::Job> job = traffic::PlaceParallelJob(
      {.id = "A", .pipeline = 2, .data = 2, .bytes_per_gpu = 200'000, .epochs = 3},
      {"h0", "h1", "h2", "h3"});
  ASSERT_TRUE(job.has_value());
  workload.jobs = {*job};
  const TrafficResult result = Traffic(lab, workload);
  EXPECT_TRUE(result.completed);
  ASSERT_EQ(result.flows.size(), 4U);
  for (const FlowOutcome& flow : result.flows) {
    EXPECT_TRUE(flow.IsWhole()) << flow.plan.id;
    EXPECT_EQ(flow.received.bytes, 3 * 2 * 100'000);
  }
  ASSERT_EQ(result.jobs.size(), 1U);
  ASSERT_EQ(result.jobs[0].epoch_seconds.size(), 3U);
  double sum = 0;
  for (const double seconds : result.jobs[0].epoch_seconds) {
    EXPECT_GT(seconds, 0);
    sum += seconds;
  }
  EXPECT_NEAR(result.jobs[0].allreduce_seconds, sum / 3, 1e-9);
}

TEST(LabTraffic, TheSeedAloneChoosesTheOwnPorts) {
  ESPALIER_LAB_OR_SKIP(lab, Slow());
  traffic::Workload workload;
  workload.flows = {Bulk("h0", "h2", 0, 10'000), Bulk("h1", "h3", 0, 10'000)};
  const auto ports = [&](std::uint64_t seed) {
    std::vector<int> used;
    for (const TrafficResult result = Traffic(lab, workload, {.seed = seed});
         const FlowOutcome& flow : result.flows) {
      EXPECT_TRUE(flow.IsWhole());
      used.push_back(flow.sent.ports.at(0).port);
    }
    return used;
  };
  const std::vector<int> first = ports(1);
  EXPECT_EQ(ports(1), first);
  EXPECT_NE(ports(2), first);
}

TEST(LabTraffic, SaysWhenTheTimeIsOverAndCleansUp) {
  ESPALIER_LAB_OR_SKIP(lab, Slow());
  traffic::Workload workload;
  workload.flows = {Bulk("h0", "h2", PortOver(lab, "spine0", "h0", "h2"), 5'000'000)};
  ASSERT_TRUE(FailLink(lab, "leaf1--spine0").value());
  int calls = 0;
  const TrafficResult result = Traffic(lab, workload,
                                       {.time_limit = std::chrono::seconds(1),
                                        .on_running = [&](std::chrono::nanoseconds) { ++calls; }});
  EXPECT_FALSE(result.completed);
  EXPECT_GT(calls, 0);
  ASSERT_EQ(result.flows.size(), 1U);
  EXPECT_FALSE(result.flows[0].IsWhole());
  // Nothing is left behind: the port is free and the workload file is removed.
  ASSERT_TRUE(RestoreLink(lab, "leaf1--spine0").value());
  workload.flows[0].bytes = 1000;
  EXPECT_TRUE(Traffic(lab, workload).flows[0].IsWhole());
  const std::filesystem::path folder = std::filesystem::path(lab.topology_file()).parent_path();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 2);
}

TEST(LabTraffic, RefusesWhatCannotRun) {
  ESPALIER_LAB_OR_SKIP(lab, Slow());
  traffic::Workload workload;
  workload.flows = {Bulk("h0", "h9", 0, 1000)};
  EXPECT_EQ(RunTraffic(lab, workload, {}).error().code, ErrorCode::kNotFound);
  workload.flows = {Bulk("h0", "h2", 0, 1000)};
  EXPECT_EQ(RunTraffic(lab, workload, {.program = "/no/such/program"}).error().code,
            ErrorCode::kInternal);
  // No agent runs here.
  EXPECT_EQ(RunTraffic(lab, workload, {.use_agents = true}).error().code, ErrorCode::kInternal);
  EXPECT_TRUE(Traffic(lab, workload).flows[0].IsWhole());
}

}  // namespace
}  // namespace espalier::lab
