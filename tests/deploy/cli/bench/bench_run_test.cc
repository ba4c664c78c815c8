#include "deploy/cli/bench/bench_run.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "deploy/cli/bench/bench_explain.h"
#include "deploy/cli/bench/program_run.h"
#include "tests/temporary_folder.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;

TEST(Bench, MeasuresEveryCollectiveAndFindsNoErrors) {
  for (const Medium medium : {Medium::kShared, Medium::kTcp}) {
    for (const CollectiveKind kind :
         {CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kReduceScatter,
          CollectiveKind::kBroadcast, CollectiveKind::kReduce, CollectiveKind::kAllToAll,
          CollectiveKind::kBarrier}) {
      const auto rows = RunBench({.kind = kind,
                                  .ranks = 3,
                                  .medium = medium,
                                  .registered = medium == Medium::kShared,
                                  .min_bytes = 1 << 18,
                                  .max_bytes = 1 << 20,
                                  .factor = 4,
                                  .repetitions = 2});
      ASSERT_TRUE(rows) << rows.error().message;
      ASSERT_EQ(rows->size(), 2U);
      for (const BenchRow& row : *rows) {
        EXPECT_EQ(row.errors, 0);
        EXPECT_GT(row.seconds, 0);
        EXPECT_LE(row.minimum_seconds, row.seconds);
      }
    }
  }
}

TEST(Bench, ExplainsTheChoiceByPredictionsAndMeasurements) {
  for (const Medium medium : {Medium::kShared, Medium::kTcp}) {
    const auto explained = ExplainBench({.ranks = 3,
                                         .medium = medium,
                                         .min_bytes = 1 << 12,
                                         .max_bytes = 1 << 20,
                                         .factor = 16,
                                         .repetitions = 1});
    ASSERT_TRUE(explained) << explained.error().message;
    ASSERT_EQ(explained->sizes.size(), 3U);
    for (const ExplainedSize& size : explained->sizes) {
      ASSERT_LT(size.chosen, size.candidates.size());
      for (const ExplainedCandidate& one : size.candidates) {
        EXPECT_EQ(one.errors, 0) << one.algorithm;
        EXPECT_GT(one.measured_seconds, 0) << one.algorithm;
        EXPECT_GE(one.predicted_seconds, size.candidates[size.chosen].predicted_seconds);
        EXPECT_GE(one.measured_seconds, size.candidates[size.fastest].measured_seconds);
      }
    }
    // Shared memory has two protocols for small data, and one for large data.
    EXPECT_EQ(explained->sizes.back().candidates.size(), medium == Medium::kShared ? 1U : 5U);
  }
}

TEST(Bench, RefusesToExplainACollectiveWithOneAlgorithm) {
  for (const BenchRequest& request :
       {BenchRequest{.kind = CollectiveKind::kAllGather}, BenchRequest{.registered = true},
        BenchRequest{.kind = CollectiveKind::kAllToAll, .medium = Medium::kTcp}}) {
    const auto explained = ExplainBench(request);
    ASSERT_FALSE(explained);
    EXPECT_EQ(explained.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(Bench, RefusesWhatItCannotMeasure) {
  for (const BenchRequest& request :
       {BenchRequest{.ranks = 0}, BenchRequest{.ranks = 1000}, BenchRequest{.min_bytes = 2},
        BenchRequest{.min_bytes = 64, .max_bytes = 8}, BenchRequest{.factor = 1},
        BenchRequest{.repetitions = 0}}) {
    const auto rows = RunBench(request);
    ASSERT_FALSE(rows);
    EXPECT_EQ(rows.error().code, ErrorCode::kInvalidArgument);
  }
}

// Programs from files of other interpreters, with sizes that their chunks do not divide, too.
TEST(ProgramRun, RunsImportedProgramsAndFindsNoErrors) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ESPALIER_PROGRAMS)) {
    for (const Medium medium : {Medium::kShared, Medium::kTcp}) {
      for (const std::size_t bytes : {4'096, 60'004}) {
        const auto row = RunProgramFile(
            {.file = entry.path(), .medium = medium, .bytes = bytes, .repetitions = 1});
        ASSERT_TRUE(row) << entry.path() << ": " << row.error().message;
        EXPECT_EQ(row->errors, 0) << entry.path() << " of " << bytes << " bytes";
      }
    }
    ++files;
  }
  EXPECT_GE(files, 6);
}

TEST(ProgramRun, RefusesIncorrectProgramsAndThoseThatCannotBeChecked) {
  const std::string good = std::string(ESPALIER_PROGRAMS) + "/allreduce_ring.xml";
  std::ifstream file(good);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  TemporaryFolder folder;
  const auto run = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const std::size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos);
    changed.replace(at, from.size(), to);
    const std::string path = folder.path() + "/changed.xml";
    std::ofstream(path) << changed;
    const auto row = RunProgramFile({.file = path, .bytes = 4'096, .repetitions = 1});
    return row ? ErrorCode::kInternal : row.error().code;
  };
  EXPECT_EQ(run("type=\"rrs\"", "type=\"rcs\""), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(run("coll=\"allreduce\"", "coll=\"custom\""), ErrorCode::kUnsupported);
  EXPECT_EQ(run("inplace=\"1\"", "inplace=\"1\" maxBytes=\"1024\""), ErrorCode::kUnsupported);
  EXPECT_EQ(run("<algo", "<alg"), ErrorCode::kInvalidArgument);
  EXPECT_FALSE(RunProgramFile({.file = folder.path() + "/absent.xml"}));
}

}  // namespace
}  // namespace espalier::runtime
