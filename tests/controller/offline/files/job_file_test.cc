#include "controller/offline/files/job_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "common/files/file.h"
#include "tests/controller/offline/files/job_fabric.h"
#include "tests/temporary_folder.h"

namespace espalier::offline {
namespace {

using fabric::Topology;
using testing::StartsWith;

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
  EXPECT_EQ(jobs->at(0).phases[0].exchanges.at(0).round_bytes, kMaxFlowBytes / 2);
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
  EXPECT_EQ(a.phases[0].compute_ns, 500'000'000);
  EXPECT_EQ(a.epochs, 3);
  ASSERT_EQ(a.phases[0].exchanges.size(), 2U);
  EXPECT_EQ(RingOf(topology, a.phases[0].exchanges[0]),
            "h0>h2 h2>h4 h4>h0 4");  // 10 / 3, rounded up
  EXPECT_EQ(RingOf(topology, a.phases[0].exchanges[1]), "h1>h3 h3>h1 2");
  EXPECT_EQ(a.phases[0].name, "all-reduce");
  const Job& b = jobs->at(1);
  EXPECT_EQ(b.start_ns + b.phases[0].compute_ns, 0);
  EXPECT_EQ(b.epochs, 1);
}

TEST(JobFile, ReadsPhases) {
  const Topology topology = MakeFabric();
  const auto jobs = ParseJobs(R"({"jobs": [{"id": "A", "epochs": 2, "phases": [
    {"name": "forward", "compute_seconds": "0.5",
     "exchanges": [{"kind": "chain", "hosts": ["h0", "h2", "h4"], "bytes": 10}]},
    {"exchanges": [{"kind": "ring", "hosts": ["h0", "h2"], "bytes": 10},
                   {"kind": "all-to-all", "hosts": ["h1", "h3"], "bytes": 4},
                   {"kind": "reduce", "hosts": ["h1", "h3"], "bytes": 5},
                   {"kind": "broadcast", "hosts": ["h1", "h3"], "bytes": 6}]}]}]})",
                              "j.json", topology);
  ASSERT_TRUE(jobs.has_value()) << jobs.error().message;
  const Job& job = jobs->at(0);
  ASSERT_EQ(job.phases.size(), 2U);
  EXPECT_EQ(job.phases[0].name, "forward");
  EXPECT_EQ(job.phases[0].compute_ns, 500'000'000);
  EXPECT_EQ(RingOf(topology, job.phases[0].exchanges.at(0)), "h0>h2 h2>h4 10");
  EXPECT_EQ(job.phases[1].compute_ns, 0);
  const char* const expected[] = {"h0>h2 h2>h0 5", "h1>h3 h3>h1 2", "h3>h1 5", "h1>h3 6"};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(RingOf(topology, job.phases[1].exchanges.at(i)), expected[i]);
  }
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
      {job(R"("phases": [])"), "2:11: a job needs at least one phase"},
      {job(R"("phases": [{"exchanges": []}])"), "2:26: a phase needs at least one exchange"},
      {job(R"("phases": [{}])"), "2:12: field \"exchanges\" is missing"},
      {job(R"("phases": [{"exchanges": [{"kind": "mesh", "hosts": ["h0", "h1"], "bytes": 1}]}])"),
       "2:36: must be ring, chain, all-to-all, reduce or broadcast"},
      {job(R"("phases": [{"exchanges": [{"kind": "chain", "hosts": ["h0"], "bytes": 1}]}])"),
       "2:54: a chain needs at least two hosts"},
      {job(R"("phases": [{}], "rings": [])"), "2:26: a job has either rings or phases"},
      {job(R"("compute_seconds": 1, "phases": [{}])"), "2:1: unknown field"},
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
