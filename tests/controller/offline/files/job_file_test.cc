#include "controller/offline/files/job_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "common/fabric/builders.h"
#include "common/files/json.h"
#include "tests/temporary_folder.h"

namespace espalier::offline {
namespace {

using fabric::Topology;
using testing::StartsWith;

// Switches 0-2 are leaves, 3 and 4 spines; hosts 5-10 are h0 ... h5, two on a leaf.
Topology MakeFabric() {
  return *Topology::Build(*fabric::BuildLeafSpine({.spines = 2, .leaves = 3, .hosts_per_leaf = 2}));
}

std::string RingOf(const Topology& topology, const Ring& ring) {
  std::string text;
  for (const auto& flow : ring.flows) {
    text += topology.node(flow.source).id + ">" + topology.node(flow.destination).id + " ";
  }
  return text + std::to_string(ring.round_bytes);
}

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
  EXPECT_EQ(job->compute_ns, 2000);
  EXPECT_EQ(job->epochs, 11);
  ASSERT_EQ(job->rings.size(), 2U);  // by number of the stage
  EXPECT_EQ(RingOf(topology, job->rings[0]), "h0>h2 h2>h4 h4>h0 250");
  EXPECT_EQ(RingOf(topology, job->rings[1]), "h1>h3 h3>h1 9");
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
  EXPECT_EQ(job->rings.at(0).round_bytes, kMaxFlowBytes);
  EXPECT_FALSE(parse("9007199254740993", "1", "0").has_value());
  EXPECT_FALSE(parse("0", "1125899906842625", "0").has_value());
  EXPECT_FALSE(parse("0", "1", "2147483648").has_value());
}

TEST(JobFile, TakesValuesUpToTheirLimits) {
  const Topology topology = MakeFabric();
  const auto parse = [&](const std::string& start, const std::string& epochs,
                         const std::string& bytes) {
    return ParseJobs(R"({"jobs": [{"id": "A", "start_seconds": )" + start + R"(, "epochs": )" +
                         epochs + R"(, "rings": [{"hosts": ["h0", "h2"], "bytes": )" + bytes +
                         "}]}]}",
                     "j.json", topology);
  };
  const auto jobs = parse("8000000.999999999", "1000000", "1125899906842624");
  ASSERT_TRUE(jobs.has_value()) << jobs.error().message;
  EXPECT_EQ(jobs->at(0).start_ns, 8'000'000'999'999'999);
  EXPECT_EQ(jobs->at(0).epochs, 1'000'000);
  EXPECT_EQ(jobs->at(0).rings.at(0).round_bytes, kMaxFlowBytes / 2);
  EXPECT_FALSE(parse("8000001", "1", "1").has_value());
  EXPECT_FALSE(parse("0", "1000001", "1").has_value());
  EXPECT_FALSE(parse("0", "1", "1125899906842625").has_value());
}

TEST(JobFile, ReadsJobsWithExactTimes) {
  const Topology topology = MakeFabric();
  const auto jobs = ParseJobs(R"({"jobs": [
    {"id": "A", "model": "M", "start_seconds": 2.000000001, "compute_seconds": "0.5", "epochs": 3,
     "rings": [{"hosts": ["h0", "h2", "h4"], "bytes": 10}, {"hosts": ["h1", "h3"], "bytes": 4}]},
    {"id": "B", "rings": [{"hosts": ["h5", "h0"], "bytes": 1}]}]})",
                              "j.json", topology);
  ASSERT_TRUE(jobs.has_value()) << jobs.error().message;
  ASSERT_EQ(jobs->size(), 2U);
  const Job& a = jobs->at(0);
  EXPECT_EQ(a.start_ns, 2'000'000'001);
  EXPECT_EQ(a.compute_ns, 500'000'000);
  EXPECT_EQ(a.epochs, 3);
  ASSERT_EQ(a.rings.size(), 2U);
  EXPECT_EQ(RingOf(topology, a.rings[0]), "h0>h2 h2>h4 h4>h0 4");  // 10 / 3, rounded up
  EXPECT_EQ(RingOf(topology, a.rings[1]), "h1>h3 h3>h1 2");
  const Job& b = jobs->at(1);
  EXPECT_EQ(b.start_ns + b.compute_ns, 0);
  EXPECT_EQ(b.epochs, 1);
}

TEST(JobFile, NamesThePlaceOfEveryError) {
  const Topology topology = MakeFabric();
  const auto job = [](const std::string& fields) {
    return "{\"jobs\": [{\"id\": \"A\",\n" + fields + "}]}";
  };
  const std::pair<std::string, const char*> cases[] = {
      {"", "1:1: "},
      {"[]", "1:1: expected an object"},
      {"{}", "1:1: field \"jobs\" is missing"},
      {job(R"("rings": [])"), "2:10: a job needs at least one ring"},
      {job(R"("ring": [])"), "1:11: field \"rings\" is missing"},
      {job(R"("rings": [{"hosts": ["h0"], "bytes": 1}])"), "2:21: a ring needs at least two hosts"},
      {job(R"("rings": [{"hosts": ["h0", "h1"]}])"), "2:11: field \"bytes\" is missing"},
      {job(R"("rings": [{"hosts": ["h0", "h1"], "bytes": 0}])"), "2:44: field \"bytes\" must be"},
      {job(R"("rings": [{"hosts": ["h0", "h9"], "bytes": 1}])"), "2:28: no node has the id \"h9\""},
      {job(R"("rings": [{"hosts": ["h0", "leaf0"], "bytes": 1}])"), "2:28: leaf0 is not a NIC"},
      {job(R"("rings": [{"hosts": ["h0", 1], "bytes": 1}])"), "2:28: a host must be a string"},
      {job(R"("rings": [{"hosts": ["h0", "h0"], "bytes": 1}])"),
       "2:28: h0 occurs twice in the ring"},
      {job(R"("epochs": 0, "rings": [])"), "2:11: field \"epochs\" must be"},
      {job(R"("start_seconds": -1, "rings": [])"), "2:18: must be 0 to"},
      {job(R"("start_seconds": 1e3, "rings": [])"), "2:18: must be 0 to"},
      {job(R"("start_seconds": "0.1234567891", "rings": [])"), "2:18: must be 0 to"},
      {job(R"("start_seconds": 9000000, "rings": [])"), "2:18: must be 0 to"},
      {job(R"("rings": [{"hosts": ["h0", "h1"], "bytes": 1, "gap": 2}])"), "2:47: unknown field"},
  };
  for (const auto& [text, expected] : cases) {
    const auto jobs = ParseJobs(text, "j.json", topology);
    ASSERT_FALSE(jobs.has_value()) << text;
    EXPECT_EQ(jobs.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(jobs.error().message, StartsWith(std::string("j.json:") + expected));
  }
}

TEST(JobFile, ReadsAFolderByName) {
  const Topology topology = MakeFabric();
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    ASSERT_TRUE(io::WriteFileDurably(folder.path() + "/" + name, text).has_value());
  };
  EXPECT_EQ(ReadJobs(folder.path(), topology).error().code, ErrorCode::kNotFound);
  const std::string ring = R"("rings": [{"hosts": ["h0", "h1"], "bytes": 1}]})";
  write("b-M.txt", "5 7 0 1 0 1 0 0\n7 5 1 0 0 1 0 0\n");
  write("a.json", R"({"jobs": [{"id": "Z", )" + ring + R"(, {"id": "Y", )" + ring + "]}");
  write("notes.md", "no job");
  std::filesystem::create_directory(folder.path() + "/c.json");
  const auto jobs = ReadJobs(folder.path(), topology);
  ASSERT_TRUE(jobs.has_value()) << jobs.error().message;
  ASSERT_EQ(jobs->size(), 3U);
  EXPECT_EQ((*jobs)[0].id + (*jobs)[1].id + (*jobs)[2].id, "ZYb");

  write("d.json", R"({"jobs": [{"id": "b", )" + ring + "]}");
  const auto twice = ReadJobs(folder.path(), topology);
  ASSERT_FALSE(twice.has_value());
  EXPECT_EQ(twice.error().code, ErrorCode::kAlreadyExists);
  EXPECT_THAT(twice.error().message,
              testing::HasSubstr("d.json:1:1: a second job has the id \"b\""));
  EXPECT_EQ(ReadJobs(folder.path() + "/none.txt", topology).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace espalier::offline
