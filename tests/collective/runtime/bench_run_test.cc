#include "collective/runtime/cli/bench_run.h"

#include <gtest/gtest.h>

#include "collective/runtime/cli/bench_explain.h"

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
    // Small data has two ways through shared memory, large data one.
    EXPECT_EQ(explained->sizes.back().candidates.size(), medium == Medium::kShared ? 1U : 4U);
  }
}

TEST(Bench, HasNothingToExplainWhereThereIsOneWay) {
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

}  // namespace
}  // namespace espalier::runtime
