#include "deploy/lab/workload/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "deploy/lab/workload/parallel_job.h"
#include "deploy/lab/workload/traffic_report.h"

namespace espalier::traffic {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Hosts(int count) {
  std::vector<std::string> hosts;
  for (int i = 0; i < count; ++i) hosts.push_back("h" + std::to_string(i));
  return hosts;
}

TEST(Workload, SurvivesWritingAndReading) {
  Workload workload;
  workload.segment_bytes = 250'000;
  workload.flows = {{.id = "a",
                     .job = "j",
                     .source = "h0",
                     .destination = "h1",
                     .bytes = 7,
                     .paths = 4,
                     .start_seconds = 0.000'25,
                     .announced = false},
                    {.id = "b",
                     .source = "h1",
                     .destination = "h0",
                     .bytes = 9,
                     .port = 50'000,
                     .protocol = Protocol::kUdp,
                     .rate = BitsPerSecond{5'000'000}}};
  workload.jobs = {{.id = "A",
                    .epochs = 3,
                    .compute_seconds = 0.25,
                    .rings = {{.hosts = {"h0", "h1", "h2"}, .bytes = 100}}}};
  workload.phased_jobs = {
      {.id = "P",
       .job = "train",
       .iterations = 4,
       .period_seconds = 1.5,
       .jitter_percent = 5,
       .queue_pairs = 2,
       .announces_remaining = true,
       .phases = {
           {.name = "x", .compute_seconds = 0.5, .bursts = {{"h0", "h1", 77}, {"h1", "h0", 78}}}}}};
  const Result<Workload> read = ParseWorkload(FormatWorkload(workload), "w.json");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(FormatWorkload(*read), FormatWorkload(workload));
  EXPECT_EQ(read->flows[0].paths, 4);
  EXPECT_EQ(read->flows[1].paths, 1);
  EXPECT_DOUBLE_EQ(read->flows[0].start_seconds, 0.000'25);
  EXPECT_FALSE(read->flows[0].announced);
  EXPECT_EQ(read->flows[1].start_seconds, 0);
  EXPECT_TRUE(read->flows[1].announced);
  EXPECT_EQ(read->flows[1].port, 50'000);
  EXPECT_EQ(read->flows[1].protocol, Protocol::kUdp);
  EXPECT_EQ(read->flows[1].rate.value, 5'000'000);
  EXPECT_EQ(read->jobs[0].epochs, 3);
  EXPECT_DOUBLE_EQ(read->jobs[0].compute_seconds, 0.25);
  EXPECT_DOUBLE_EQ(read->phased_jobs[0].period_seconds, 1.5);
  EXPECT_EQ(read->phased_jobs[0].job, "train");
  EXPECT_EQ(read->phased_jobs[0].jitter_percent, 5);
  EXPECT_EQ(read->phased_jobs[0].queue_pairs, 2);
  EXPECT_TRUE(read->phased_jobs[0].announces_remaining);
  EXPECT_EQ(read->phased_jobs[0].phases[0].bursts[1].bytes, 78);
}

TEST(Workload, NamesThePlaceOfWhatIsWrong) {
  const auto error_of = [](const std::string& text) {
    const Result<Workload> workload = ParseWorkload(text, "w.json");
    return workload ? "accepted" : workload.error().message;
  };
  const std::string flow = R"("source": "h0", "destination": "h1", "bytes": 5)";
  EXPECT_THAT(error_of("{\"flows\": [\n {\"id\": \"f\", \"source\": \"h0\", "
                       "\"destination\": \"h0\", \"bytes\": 5}]}"),
              HasSubstr("w.json:2:"));
  EXPECT_THAT(error_of("{\"flows\": [{\"id\": \"f\", " + flow + ", \"speed\": 1}]}"),
              HasSubstr("speed"));
  EXPECT_THAT(
      error_of("{\"flows\": [{\"id\": \"f\", " + flow + "}, {\"id\": \"f\", " + flow + "}]}"),
      HasSubstr("twice"));
  EXPECT_THAT(error_of("{\"flows\": [{\"id\": \"f\", " + flow + ", \"protocol\": \"udp\"}]}"),
              HasSubstr("rate_bps"));
  EXPECT_THAT(error_of("{\"flows\": [{\"id\": \"f\", " + flow + ", \"paths\": 17}]}"),
              HasSubstr("paths"));
  EXPECT_THAT(error_of("{\"flows\": [{\"id\": \"f\", " + flow +
                       ", \"protocol\": \"udp\", \"rate_bps\": 5000, \"paths\": 2}]}"),
              HasSubstr("a UDP flow has one path"));
  EXPECT_THAT(error_of("{\"flows\": [{\"id\": \"f\", " + flow + ", \"start_seconds\": -1}]}"),
              HasSubstr("seconds"));
  EXPECT_THAT(error_of("{\"flows\": [{\"id\": \"f\", " + flow + ", \"port\": 70000}]}"),
              HasSubstr("port"));
  EXPECT_THAT(error_of(R"({"flows": [{"id": "f", "source": "a", "destination": "b"}]})"),
              HasSubstr("bytes"));
  EXPECT_THAT(error_of(R"({"jobs": [{"id": "A"}]})"), HasSubstr("ring"));
  EXPECT_THAT(error_of(R"({"jobs": [{"id": "A", "rings": [{"hosts": ["h0"], "bytes": 5}]}]})"),
              HasSubstr("two hosts"));
  EXPECT_THAT(
      error_of(R"({"jobs": [{"id": "A", "rings": [{"hosts": ["h0", "h0"], "bytes": 5}]}]})"),
      HasSubstr("different"));
  EXPECT_THAT(error_of(R"({"jobs": [{"id": "A", "compute_seconds": -1,
                            "rings": [{"hosts": ["h0", "h1"], "bytes": 5}]}]})"),
              HasSubstr("seconds"));
  const auto phased = [&](const std::string& fields) {
    return error_of(R"({"phased_jobs": [{"id": "A", )" + fields + "}]}");
  };
  const std::string burst = R"({"source": "h0", "destination": "h1", "bytes": 5})";
  EXPECT_THAT(phased(R"("iterations": 2)"), HasSubstr("at least one phase"));
  EXPECT_THAT(phased(R"("phases": [{"name": "x"}])"), HasSubstr("at least one burst"));
  EXPECT_THAT(phased(R"("phases": [{"bursts": [)" + burst + ", " + burst + "]}]"),
              HasSubstr("twice in one phase"));
  EXPECT_THAT(phased(R"("phases": [{"bursts": [{"source": "h0", "destination": "h1"}]}])"),
              HasSubstr("has no bytes"));
  EXPECT_THAT(phased(R"("jitter_percent": 101, "phases": [{"bursts": [)" + burst + "]}]"),
              HasSubstr("jitter_percent"));
  EXPECT_THAT(phased(R"("queue_pairs": 17, "phases": [{"bursts": [)" + burst + "]}]"),
              HasSubstr("queue_pairs"));
  EXPECT_THAT(error_of("{\"segment_bytes\": 2000000}"), HasSubstr("segment_bytes"));
  EXPECT_THAT(error_of("{"), HasSubstr("w.json:1:"));
}

TEST(ListWorkloadFlows, MakesOneFlowOfEveryRingEdgeForAllEpochs) {
  Workload workload;
  workload.flows = {{.id = "f", .source = "h5", .destination = "h6", .bytes = 10, .port = 50'000}};
  workload.jobs = {{.id = "A", .epochs = 2, .rings = {{.hosts = {"h0", "h1", "h2"}, .bytes = 100}}},
                   {.id = "B", .rings = {{.hosts = {"h3", "h4"}, .bytes = 11}}}};
  const std::vector<WorkloadFlow> plans = ListWorkloadFlows(workload);
  ASSERT_EQ(plans.size(), 1U + 3U + 2U);
  for (std::size_t i = 0; i < plans.size(); ++i) EXPECT_EQ(plans[i].index, i);
  EXPECT_EQ(plans[0].port, 50'000);
  EXPECT_EQ(plans[3].id, "A/0/h2>h0");
  EXPECT_EQ(plans[3].job, "A");
  // 100 bytes over 3 hosts are chunks of 34, sent in 4 rounds.
  EXPECT_EQ(plans[3].announced_bytes, 4 * 34);
  EXPECT_EQ(plans[3].bytes, 2 * 4 * 34);
  // Two hosts: 2 rounds of 6.
  EXPECT_EQ(plans[4].bytes, 12);
}

TEST(ListWorkloadFlows, MakesOneFlowOfEveryPairOfAPhasedJobForAllPhases) {
  Workload workload;
  workload.phased_jobs = {{.id = "P",
                           .iterations = 3,
                           .queue_pairs = 4,
                           .phases = {{.bursts = {{"h0", "h1", 10}, {"h1", "h2", 20}}},
                                      {.bursts = {{"h1", "h0", 5}, {"h0", "h1", 1}}}}}};
  std::vector<WorkloadFlow> flows = ListWorkloadFlows(workload);
  ASSERT_EQ(flows.size(), 3U);
  EXPECT_EQ(flows[0].id, "P/h0>h1");
  EXPECT_EQ(flows[0].bytes, 3 * 11);
  EXPECT_EQ(flows[0].announced_bytes, 0);  // the program knows nothing of Espalier
  EXPECT_FALSE(flows[0].announces_remaining);
  EXPECT_EQ(flows[0].paths, 4);
  EXPECT_EQ(flows[0].phased_job_index, 0);
  EXPECT_EQ(flows[0].job_index, -1);
  EXPECT_EQ(flows[2].id, "P/h1>h0");
  EXPECT_EQ(flows[2].index, 2U);
  workload.phased_jobs[0].announces_remaining = true;
  EXPECT_EQ(ListWorkloadFlows(workload)[0].announced_bytes, 10);
  EXPECT_EQ(ListWorkloadFlows(workload)[0].job, "P");
  workload.phased_jobs[0].job = "train";
  EXPECT_EQ(ListWorkloadFlows(workload)[0].job, "train");
}

TEST(Placement, ShiftsEveryHostOnce) {
  const Result<Workload> workload = MakeShiftedPermutation(Hosts(16), 4, 1000);
  ASSERT_TRUE(workload.has_value());
  std::set<std::string> destinations;
  for (const SingleFlow& flow : workload->flows) {
    EXPECT_NE(flow.source, flow.destination);
    destinations.insert(flow.destination);
  }
  EXPECT_EQ(workload->flows.size(), 16U);
  EXPECT_EQ(destinations.size(), 16U);
  EXPECT_EQ(workload->flows[14].destination, "h2");
  EXPECT_EQ(MakeShiftedPermutation(Hosts(4), -1, 5)->flows[0].destination, "h3");
  EXPECT_FALSE(MakeShiftedPermutation(Hosts(4), 8, 5).has_value());
  EXPECT_FALSE(MakeShiftedPermutation(Hosts(1), 1, 5).has_value());
}

TEST(Placement, FormsRingsOverTheDataDimension) {
  const Result<Job> job = PlaceParallelJob(
      {.id = "A", .tensor = 2, .pipeline = 2, .data = 3, .bytes_per_gpu = 99}, Hosts(16));
  ASSERT_TRUE(job.has_value()) << job.error().message;
  ASSERT_EQ(job->rings.size(), 4U);
  EXPECT_THAT(job->rings[0].hosts, ElementsAre("h0", "h4", "h8"));
  EXPECT_THAT(job->rings[3].hosts, ElementsAre("h3", "h7", "h11"));
  EXPECT_EQ(job->rings[3].bytes, 99);
  for (const ParallelJob& wrong :
       {ParallelJob{.data = 1, .bytes_per_gpu = 1}, ParallelJob{.tensor = 0, .bytes_per_gpu = 1},
        ParallelJob{.tensor = 4, .pipeline = 4, .data = 2, .bytes_per_gpu = 1}, ParallelJob{}}) {
    EXPECT_FALSE(PlaceParallelJob(wrong, Hosts(16)).has_value());
  }
}

TEST(Placement, ShufflesByTheSeedAlone) {
  const std::vector<std::string> one = ShuffleHosts(Hosts(16), 1);
  EXPECT_EQ(one, ShuffleHosts(Hosts(16), 1));
  EXPECT_NE(one, ShuffleHosts(Hosts(16), 2));
  EXPECT_THAT(one, testing::UnorderedElementsAreArray(Hosts(16)));
}

TEST(HostReport, SurvivesWritingAndReading) {
  HostReport report;
  report.host = "h3";
  report.has_agent = true;
  report.sent = {{.index = 4,
                  .start_ns = 1'000,
                  .end_ns = 9'000'000'000'000,
                  .bytes = 17,
                  .segments = 2,
                  .abandoned = 1,
                  .port_conflicts = 3,
                  .done = true,
                  .ports = {{50'000, false, 10}, {50'001, true, 7}}}};
  report.received = {{.index = 5, .bytes = 8, .segments = 1, .duplicates = 2}};
  report.epochs = {{.job = 1, .ring = 2, .epoch = 3, .start_ns = 4, .end_ns = 5}};
  report.bursts = {{.flow = 1,
                    .iteration = 2,
                    .phase = 3,
                    .start_ns = 4,
                    .end_ns = 5,
                    .ports = {50'000, 65'535}}};
  const std::string text = FormatHostReport(report);
  const Result<HostReport> read = ParseHostReport(text, "h3");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(FormatHostReport(*read), text);
  EXPECT_EQ(read->sent[0].ports[1].port, 50'001);
  EXPECT_EQ(read->received[0].duplicates, 2);
  EXPECT_EQ(read->bursts[0].ports[1], 65'535);
  EXPECT_FALSE(
      ParseHostReport(R"({"host": "h", "bursts": [{"ports": [65536]}]})", "h").has_value());
  EXPECT_FALSE(ParseHostReport("{\"host\": \"h\", \"sent\": [{\"index\": -1}]}", "h").has_value());
  EXPECT_FALSE(ParseHostReport("[]", "h").has_value());
}

}  // namespace
}  // namespace espalier::traffic
