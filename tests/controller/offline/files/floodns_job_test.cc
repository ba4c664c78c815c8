#include "controller/offline/files/floodns_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "controller/offline/files/limits.h"
#include "tests/controller/offline/files/job_fabric.h"

namespace espalier::offline {
namespace {

using fabric::Topology;
using testing::StartsWith;

TEST(FloodnsJob, ReadsStagesAsRings) {
  const Topology topology = MakeFabric();
  const auto job = ParseFloodnsJob(
      "\xEF\xBB\xBF# src dst src_tor dst_tor start_time flow_size compute_time stage_index\r\n"
      "6 8 0 1 1000 9 2000 7\r\n"
      "\t5   7 0 1 1000 250 2000 0\n\n"
      "8 6 1 0 1000 9 2000 7\n"
      "7 9 1 2 1000 250 2000 0\n"
      "9 5 2 0 1000 250 2000 0",
      "some/folder/job_3-LLaMA2-70B.txt", topology);
  ASSERT_TRUE(job.has_value()) << job.error().message;
  EXPECT_EQ(job->id, "job_3");
  EXPECT_EQ(job->model, "LLaMA2-70B");
  EXPECT_EQ(job->start_ns, 1000);
  EXPECT_EQ(job->phases[0].compute_ns, 2000);
  EXPECT_EQ(job->epochs, 11);
  ASSERT_EQ(job->phases[0].exchanges.size(), 2U);  // by number of the stage
  EXPECT_EQ(RingOf(topology, job->phases[0].exchanges[0]), "h0>h2 h2>h4 h4>h0 250");
  EXPECT_EQ(RingOf(topology, job->phases[0].exchanges[1]), "h1>h3 h3>h1 9");
}

TEST(FloodnsJob, NamesThePlaceOfEveryError) {
  const Topology topology = MakeFabric();
  const std::string first = "5 7 0 1 1000 250 2000 0\n";
  const std::pair<std::string, const char*> cases[] = {
      {"", "1:1: the file has no flow"},
      {"# only\n\n", "1:1: the file has no flow"},
      {"5 7 0 1 1000 250 2000\n", "1:18: the line has 7 columns (write 8: "},
      {"5 7 0 1 1000 250 2000 0 9\n", "1:23: the line has 9 columns"},
      {"4 7 0 1 1000 250 2000 0\n", "1:1: host 4 is not in the topology"},
      {"5 11 0 1 1000 250 2000 0\n", "1:3: host 11 is not in the topology (it would be node h6"},
      {"5 7 1 1 1000 250 2000 0\n", "1:5: host 5 is not on ToR 1 in the topology but on leaf0"},
      {"5 7 0 3 1000 250 2000 0\n", "1:7: host 7 is not on ToR 3"},
      {"5 5 0 0 1000 250 2000 0\n", "1:3: source and destination of the flow are the same host"},
      {"5 x 0 1 1000 250 2000 0\n", "1:3: a host is \"x\""},
      {"5 7 0 1 -1 250 2000 0\n", "1:9: start_time is \"-1\""},
      {"5 7 0 1 1000 0 2000 0\n", "1:14: flow_size is \"0\""},
      {"5 7 0 1 1000 2.5 2000 0\n", "1:14: flow_size is \"2.5\""},
      {"5 7 0 1 1000 99999999999999999999 2000 0\n", "1:14: flow_size is \"99999"},
      {"5 7 0 1 1000 250 2000 a\n", "1:23: stage_index is \"a\""},
      {first, "1:1: stage 0 has one flow (a ring needs at least two)"},
      {first + "7 5 1 0 1001 250 2000 0\n", "2:9: start_time is 1001 where earlier lines have"},
      {first + "7 5 1 0 1000 250 2001 0\n", "2:18: compute_time is 2001 where"},
      {first + "7 5 1 0 1000 251 2000 0\n", "2:14: flow_size is 251 where earlier lines of stage"},
      {first + first, "2:1: line 1 has the same flow of stage 0"},
      {first + "7 5 1 0 1000 250 2000 0\n6 8 0 1 1000 1 2000 3\n", "3:1: stage 3 has one flow"},
  };
  for (const auto& [text, expected] : cases) {
    const auto job = ParseFloodnsJob(text, "j.txt", topology);
    ASSERT_FALSE(job.has_value()) << text;
    EXPECT_EQ(job.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(job.error().message, StartsWith(std::string("j.txt:") + expected));
  }
}

TEST(FloodnsJob, TakesValuesUpToTheirLimits) {
  const Topology topology = MakeFabric();
  const auto parse = [&](const std::string& start, const std::string& size,
                         const std::string& stage) {
    const std::string end = " " + start + " " + size + " 0 " + stage + "\n";
    return ParseFloodnsJob("5 7 0 1" + end + "7 5 1 0" + end, "job", topology);
  };
  const auto job = parse("9007199254740992", "1125899906842624", "2147483647");
  ASSERT_TRUE(job.has_value()) << job.error().message;
  EXPECT_EQ(job->id, "job");
  EXPECT_EQ(job->model, "");
  EXPECT_EQ(job->start_ns, std::int64_t{1} << 53);
  EXPECT_EQ(job->phases[0].exchanges.at(0).round_bytes, kMaxFlowBytes);
  EXPECT_FALSE(parse("9007199254740993", "1", "0").has_value());
  EXPECT_FALSE(parse("0", "1125899906842625", "0").has_value());
  EXPECT_FALSE(parse("0", "1", "2147483648").has_value());
}

}  // namespace
}  // namespace espalier::offline
