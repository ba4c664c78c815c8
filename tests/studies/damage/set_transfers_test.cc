#include "tests/studies/damage/set_transfers.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/builders.h"
#include "tests/studies/damage/damaged_fabric.h"

namespace espalier::offline {
namespace {

using fabric::LinkId;
using fabric::Topology;

// Hosts h0, h1, h2 of leaf 0 send to h3, h4, h5 of leaf 1 over three spines. All links carry 100
// bits in a nanosecond, and a flow has 100,000 bits, so that it takes 1,000 ns alone.
class SetTransfersTest : public testing::Test {
 protected:
  static constexpr double kBits = 100'000;

  explicit SetTransfersTest(Topology topology = *Topology::Build(*fabric::BuildLeafSpine(
                                {.spines = 3, .leaves = 2, .hosts_per_leaf = 3})))
      : topology_(std::move(topology)) {}

  // Flows of this many hosts, each a job of its own or all of one job.
  void Open(int flows, bool are_jobs = false) {
    std::vector<Job> jobs;
    for (int f = 0; f < flows; ++f) {
      if (f == 0 || are_jobs) {
        jobs.push_back({.id = "J" + std::to_string(f), .model = {}, .phases = {{}}});
        jobs.back().phases[0].exchanges.push_back({.flows = {}, .round_bytes = 1});
      }
      jobs.back().phases[0].exchanges[0].flows.push_back({Host(f), Host(f + 3)});
    }
    workload_ = *Workload::Build(topology_, std::move(jobs));
  }
  fabric::NodeId Host(int number) const {
    return *topology_.FindNode("h" + std::to_string(number));
  }
  // A path from leaf 0 to leaf 1 over this spine.
  SetPath Over(int spine, double share) const {
    const std::string name = "spine" + std::to_string(spine);
    const auto up = topology_.FindLink("leaf0--" + name);
    const auto down = topology_.FindLink("leaf1--" + name);
    return {.links = {static_cast<std::uint32_t>(fabric::DirectedLink{*up, true}.Index()),
                      static_cast<std::uint32_t>(fabric::DirectedLink{*down, false}.Index())},
            .share = share};
  }
  LinkId UplinkTo(int spine) const {
    return *topology_.FindLink("leaf0--spine" + std::to_string(spine));
  }

  void Begin(Dealing dealing, const std::vector<std::vector<SetPath>>& sets) {
    transfers_.emplace(topology_, *workload_, dealing);
    for (std::uint32_t f = 0; f < sets.size(); ++f) transfers_->SetPaths(f, sets[f]);
  }
  TransferOutcome Run(int rounds = 1) {
    return RunTransfers(*transfers_, *workload_, {.bits = kBits, .rounds = rounds}, changes_);
  }
  std::vector<std::int64_t> Ends(Dealing dealing, const std::vector<std::vector<SetPath>>& sets) {
    Begin(dealing, sets);
    std::vector<std::int64_t> ends;
    for (const auto& end : Run().flow_ends) ends.push_back(end.value_or(-1));
    return ends;
  }

  Topology topology_;
  std::optional<Workload> workload_;
  std::optional<SetTransfers> transfers_;
  TransferRun::Changes changes_;
};

using Numbers = std::vector<std::int64_t>;

TEST_F(SetTransfersTest, FlowAloneTakesItsBitsOverItsRate) {
  Open(1);
  EXPECT_EQ(Ends(Dealing::kStatic, {{Over(0, 1)}}), Numbers{1000});
  EXPECT_EQ(Ends(Dealing::kByProgress, {{Over(0, 1)}}), Numbers{1000});
  EXPECT_EQ(Ends(Dealing::kStatic, {{Over(0, 0.5), Over(1, 0.5)}}), Numbers{1000});
  EXPECT_EQ(Ends(Dealing::kByProgress, {{Over(0, 0.5), Over(1, 0.5)}}), Numbers{1000});
}

// Flow 1 has spine 0 for itself apart from a half of flow 0. Weighted rates are 1/3 and 2/3 of the
// link, and what is left of flow 0's NIC goes to its other path.
TEST_F(SetTransfersTest, StaticFlowEndsWithItsLastPathAndPoolWithAll) {
  Open(2);
  const std::vector<std::vector<SetPath>> sets = {{Over(0, 0.5), Over(1, 0.5)}, {Over(0, 1)}};
  // Static: path 1 ends its 50,000 bits at 750 with 66.7; path 0 is at 33.3 and has sent 25,000;
  // flow 1 has sent 50,000. Both have 1/3 and 2/3 of the link on to the end: 25,000 and 50,000
  // more.
  EXPECT_EQ(Ends(Dealing::kStatic, sets), (Numbers{1500, 1500}));
  // From a pool, flow 0 is never below its NIC's rate. It ends at 1,000, when flow 1 has sent
  // 66,667 and goes on alone.
  EXPECT_EQ(Ends(Dealing::kByProgress, sets), (Numbers{1000, 1334}));
}

// By hand: two flows on spines 0 and 1, one on spine 0 only. Levels are 50 and 100: 75, 75 and 50.
TEST_F(SetTransfersTest, PoolTakesTheSumOfMaxMinFairRates) {
  Open(3);
  const std::vector<SetPath> both = {Over(0, 0.5), Over(1, 0.5)};
  // 100,000 / 75 = 1,333.3; the third has sent 66,667 by then and has the link alone afterwards.
  EXPECT_EQ(Ends(Dealing::kByProgress, {both, both, {Over(0, 1)}}), (Numbers{1334, 1334, 1667}));
}

// The three flows of the leaf over the two uplinks that it has left.
TEST_F(SetTransfersTest, PoolsEndAllFlowsOfALeafAtTheFractionalBound) {
  Open(3);
  const std::vector<SetPath> both = {Over(1, 0.5), Over(2, 0.5)};
  EXPECT_EQ(Ends(Dealing::kByProgress, {both, both, both}), (Numbers{1500, 1500, 1500}));
  const Topology dead = BuildDamaged(topology_, UplinkTo(0), Damage::kDead);
  EXPECT_DOUBLE_EQ(FractionalBound(*workload_, {dead, dead, 0}, kBits), 1500);
  // With one path each, two share one.
  EXPECT_EQ(Ends(Dealing::kByProgress, {{Over(1, 1)}, {Over(1, 1)}, {Over(2, 1)}}),
            (Numbers{2000, 2000, 1000}));
}

TEST_F(SetTransfersTest, SlowLinkHoldsUpAStaticShareOnly) {
  topology_ = BuildDamaged(topology_, UplinkTo(0), Damage::kHalfRate);
  topology_ = BuildDamaged(topology_, UplinkTo(0), Damage::kHalfRate);
  Open(1);
  const std::vector<SetPath> both = {Over(0, 0.5), Over(1, 0.5)};
  EXPECT_EQ(Ends(Dealing::kStatic, {both}), Numbers{2000});  // 50,000 bits at 25
  EXPECT_EQ(Ends(Dealing::kByProgress, {both}), Numbers{1000});
}

TEST_F(SetTransfersTest, DeadLinkStopsStaticSharesForGood) {
  Open(1);
  const std::vector<SetPath> both = {Over(0, 0.5), Over(1, 0.5)};
  for (const Dealing dealing : {Dealing::kStatic, Dealing::kByProgress}) {
    Begin(dealing, {both});
    changes_.all.clear();
    changes_.Add(400, [&] { transfers_->FailLink(UplinkTo(0)); });
    const TransferOutcome outcome = Run();
    const bool is_static = dealing == Dealing::kStatic;
    EXPECT_EQ(outcome.unfinished(), is_static ? 1 : 0);
    if (is_static) {
      // 40,000 bits before; then what was dealt out to the other path.
      EXPECT_NEAR(transfers_->SentBy(0), 40'000 + 30'000, 1);
    } else {
      EXPECT_EQ(outcome.slowest(), 1000);
    }
  }
}

TEST_F(SetTransfersTest, WhatWasDealtOutGoesOnOverTheNextPath) {
  Open(1);
  Begin(Dealing::kStatic, {{Over(0, 1)}});
  changes_.Add(400, [&] { transfers_->FailLink(UplinkTo(0)); });
  changes_.Add(650, [&] { transfers_->SetPaths(0, std::vector{Over(1, 1)}); });
  EXPECT_EQ(Run().slowest(), 1250);
}

TEST_F(SetTransfersTest, LinkThatWasDeadBeforeCarriesNothing) {
  topology_ = BuildDamaged(topology_, UplinkTo(0), Damage::kDead);
  Open(1);
  EXPECT_EQ(Ends(Dealing::kStatic, {{Over(0, 1)}}), Numbers{-1});
}

// Two flows of one job share a link, a third one of it does not, and must wait in each round.
TEST_F(SetTransfersTest, FlowsOfAJobWaitForEachOtherInEachRound) {
  Open(3);
  Begin(Dealing::kStatic, {{Over(0, 1)}, {Over(0, 1)}, {Over(1, 1)}});
  changes_.Add(600, [&] {
    EXPECT_NEAR(transfers_->SentBy(2), 35'000, 1);  // one round of 25,000, and 100 ns
    EXPECT_NEAR(transfers_->SentBy(0), 30'000, 1);
    // The second round began at 500; flow 2 ends it at 750.
  });
  const TransferOutcome outcome = Run(4);
  EXPECT_EQ(*outcome.job_ends[0], 2000);
  EXPECT_EQ(*outcome.flow_ends[2], 1750);
}

TEST_F(SetTransfersTest, JobsDoNotWaitForEachOther) {
  Open(3, true);
  Begin(Dealing::kStatic, {{Over(0, 1)}, {Over(0, 1)}, {Over(1, 1)}});
  const TransferOutcome outcome = Run(4);
  ASSERT_EQ(outcome.job_ends.size(), 3U);
  EXPECT_EQ(*outcome.job_ends[0], 2000);
  EXPECT_EQ(*outcome.job_ends[2], 1000);
}

// Whatever changes, all bits are sent once: paths change in the middle.
TEST_F(SetTransfersTest, ConservesBits) {
  Open(3);
  for (const Dealing dealing : {Dealing::kStatic, Dealing::kByProgress}) {
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
      std::mt19937_64 random(seed);
      const auto draw_set = [&] {
        return std::vector{Over(static_cast<int>(random() % 2), 0.25),
                           Over(static_cast<int>(random() % 2) + 1, 0.75)};
      };
      Begin(dealing, {draw_set(), draw_set(), draw_set()});
      changes_.all.clear();
      for (int change = 0; change < 20; ++change) {
        changes_.Add(static_cast<std::int64_t>(random() % 2000), [&, flow = random() % 3] {
          transfers_->SetPaths(static_cast<std::uint32_t>(flow), draw_set());
        });
      }
      const TransferOutcome outcome = Run(3);
      EXPECT_EQ(outcome.unfinished(), 0);
      // Ends are whole nanoseconds, so that up to 100 bits a round are counted above what was sent.
      EXPECT_NEAR(transfers_->sent_bits(), 3 * kBits, 3 * 3 * 2 * 100 + 1) << "seed " << seed;
      EXPECT_GE(outcome.slowest(), 1000);
      for (std::uint32_t f = 0; f < 3; ++f) EXPECT_NEAR(transfers_->SentBy(f), kBits, 601);
    }
  }
}

TEST_F(SetTransfersTest, EndsWhenCancelled) {
  Open(1);
  Begin(Dealing::kStatic, {{Over(0, 1)}});
  const auto outcome = RunTransfers(*transfers_, *workload_,
                                    {.bits = kBits, .is_cancelled = [] { return true; }}, changes_);
  EXPECT_EQ(outcome.unfinished(), 1);
}

}  // namespace
}  // namespace espalier::offline
