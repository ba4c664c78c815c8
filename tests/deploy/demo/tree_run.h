#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "deploy/lab/ground_truth.h"
#include "deploy/lab/lab.h"
#include "tests/studies/lab/tree_job.h"

namespace espalier::demo {

inline constexpr std::int64_t kTreeBytes = 2'000'000;

// Runs a few calls of a job's ranks, and compares them with its plan: every sum is right, and the
// switches have counted every edge on its path and nothing else. `dead`: the address of a NIC
// without link, to which connections that have ended may still repeat their last packets.
inline void ExpectRunAsPlanned(const lab::Lab& lab, const std::string& job,
                               const std::vector<PlannedEdge>& plan, const std::string& dead = "") {
  constexpr int kCalls = 2;
  const auto before = lab::ReadFlowCounts(lab);
  const auto run = RunRanks(lab, ESPALIER_PROGRAMS,
                            {.bytes = kTreeBytes, .calls = kCalls, .job = job, .on_running = {}});
  const auto after = lab::ReadFlowCounts(lab);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  ASSERT_TRUE(before.has_value() && after.has_value());
  EXPECT_TRUE(run->completed);
  EXPECT_EQ(run->wrong_sums, 0);
  auto counts = lab::Difference(*before, *after);
  std::erase_if(counts, [&](const lab::FlowCount& count) {
    return count.source.ToString() == dead || count.destination.ToString() == dead;
  });
  const auto compared = CompareWithCounters(plan, kTreeBytes, kCalls, counts);
  EXPECT_GT(compared.edges, 0);
  EXPECT_EQ(compared.silent_edges, 0);
  EXPECT_THAT(compared.stray_connections, testing::IsEmpty());
  EXPECT_GE(compared.least_payload, 1.0);
}

}  // namespace espalier::demo
