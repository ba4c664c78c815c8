#include "collective/runtime/cli/bench_run.h"

#include <gtest/gtest.h>

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
