#include "tests/studies/prediction/iterations.h"

#include <gtest/gtest.h>

#include <set>

#include "common/fabric/builders.h"

namespace espalier::offline {
namespace {

// One job of two rings of two hosts, which computes for a second.
class IterationsTest : public testing::Test {
 protected:
  Workload Build(bool is_turned) const {
    const auto node = [&](const char* id) { return *topology_.FindNode(id); };
    Job job{.id = "J", .start_ns = 5, .phases = {{.compute_ns = 1'000'000'000}}};
    for (const auto& [a, b] : {std::pair("h0", "h2"), std::pair("h1", "h3")}) {
      Exchange& ring = job.phases[0].exchanges.emplace_back();
      ring.round_bytes = 1'000;
      ring.rounds = 2;
      ring.flows = {{node(a), node(b)}, {node(b), node(a)}};
      if (is_turned) std::swap(ring.flows[0], ring.flows[1]);
    }
    return *Workload::Build(topology_, {job});
  }
  // Ends all flows of the job's iteration and returns the result of the last one.
  static Iterations::End EndAll(Iterations& iterations, std::int64_t now) {
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(iterations.EndFlow(0, now).has_value());
    return iterations.EndFlow(0, now).value();
  }

  fabric::Topology topology_ = *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 2}));
  Workload workload_ = Build(false);
  Workload turned_ = Build(true);
};

TEST_F(IterationsTest, AreRegularWithoutDisturbance) {
  const ReplayOptions options{.iterations = 3, .learning = 1, .later_collective_ns = 7'000'000};
  Iterations iterations(workload_, turned_, options);
  EXPECT_GE(iterations.FirstStart(0), 5);
  EXPECT_LE(iterations.FirstStart(0), 1'000'000'005);
  std::int64_t now = 100;
  for (int iteration = 1; iteration <= 3; ++iteration) {
    const auto starts = iterations.Begin(0, now);
    ASSERT_TRUE(starts.has_value());
    ASSERT_EQ(starts->size(), 4U);
    for (std::uint32_t f = 0; f < 4; ++f) {
      EXPECT_EQ((*starts)[f].flow, f);
      const std::int64_t late = (*starts)[f].time - now - (f < 2 ? 0 : 7'000'000);
      EXPECT_GE(late, 0);
      EXPECT_LT(late, 1'000'000);
    }
    EXPECT_EQ(iterations.Counts(0), iteration > 1);
    EXPECT_TRUE(iterations.Announce(0));
    EXPECT_FALSE(iterations.Announce(0));
    const Iterations::End end = EndAll(iterations, now + 50);
    EXPECT_EQ(end.took, 50);
    EXPECT_EQ(end.counts, iteration > 1);
    EXPECT_EQ(end.next, now + 50 + 1'000'000 + 1'000'000'000);
    now = end.next;
  }
  EXPECT_FALSE(iterations.Begin(0, now).has_value());
}

TEST_F(IterationsTest, DriftAddsUpAndJitterStaysWithinItsPart) {
  const ReplayOptions drifting{.disturbance = {.drift = 0.5}, .iterations = 3};
  Iterations iterations(workload_, turned_, drifting);
  for (const std::int64_t computes : {std::int64_t{1'500'000'000}, std::int64_t{2'250'000'000}}) {
    iterations.Begin(0, 0);
    EXPECT_EQ(EndAll(iterations, 0).next, 1'000'000 + computes);
  }
  const ReplayOptions jittery{.disturbance = {.jitter = 0.2}, .iterations = 200};
  Iterations varied(workload_, turned_, jittery);
  std::set<std::int64_t> seen;
  for (int i = 0; i < 200; ++i) {
    varied.Begin(0, 0);
    seen.insert(EndAll(varied, 0).next - 1'000'000);
  }
  EXPECT_GT(seen.size(), 190U);
  EXPECT_GE(*seen.begin(), 800'000'000);
  EXPECT_LE(*seen.rbegin(), 1'200'000'000);
  EXPECT_LT(*seen.begin(), 850'000'000);
  EXPECT_GT(*seen.rbegin(), 1'150'000'000);
}

TEST_F(IterationsTest, ReverseHalfWayAndStartStragglersLate) {
  const ReplayOptions options{.disturbance = {.stragglers = 1, .changes_phase = true},
                              .iterations = 4};
  Iterations iterations(workload_, turned_, options);
  std::int64_t latest = 0;
  for (int iteration = 1; iteration <= 4; ++iteration) {
    const auto starts = iterations.Begin(0, 0);
    for (const auto& start : *starts) latest = std::max(latest, start.time);
    EXPECT_EQ(&iterations.FlowAt(1), &(iteration > 2 ? turned_ : workload_).flows()[1]);
    EndAll(iterations, 0);
  }
  EXPECT_GT(latest, 100'000'000);
  EXPECT_LE(latest, 1'000'000 + 1'000'000'000 / 3);
}

TEST_F(IterationsTest, DrawTheSamePathsBySeed) {
  ReplayOptions options;
  std::set<std::int32_t> paths;
  for (options.seed = 1; options.seed < 60; ++options.seed) {
    const Iterations one(workload_, turned_, options);
    const Iterations other(workload_, turned_, options);
    EXPECT_EQ(one.DrawPath(0, 4), other.DrawPath(0, 4));
    EXPECT_EQ(one.DrawPath(0, 0), -1);
    paths.insert(one.DrawPath(0, 4));
  }
  EXPECT_EQ(paths, (std::set<std::int32_t>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace espalier::offline
