#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <string>

#include "collective/algorithms/algorithm.h"
#include "collective/algorithms/trees.h"
#include "collective/program/verifier/verifier.h"
#include "tests/collective/program/corruption.h"
#include "tests/collective/program/reference_run.h"

namespace espalier::algorithms {
namespace {

using program::Cost;
using program::MeasureCost;
using program::Program;
using program::Verdict;
using program::Verify;

Program Make(std::string_view name, const AlgorithmOptions& options) {
  auto made = MakeAlgorithm(name, options);
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return made ? *made : Program();
}

Cost CostOf(std::string_view name, const AlgorithmOptions& options) {
  return MeasureCost(Make(name, options));
}

int CeilLog(int ranks) { return std::bit_width(static_cast<unsigned>(ranks - 1)); }

bool IsPowerOfTwo(int ranks) { return std::has_single_bit(static_cast<unsigned>(ranks)); }

TEST(Algorithms, AreVerifiedWhereverTheyAreDefined) {
  int verified = 0;
  for (const Algorithm& algorithm : Algorithms()) {
    for (int ranks = 1; ranks <= 17; ++ranks) {
      for (int per_node = 1; per_node <= ranks; ++per_node) {
        const bool has_nodes = algorithm.takes.find("--ranks-per-node") != std::string_view::npos;
        if (per_node < ranks && (!has_nodes || ranks % per_node != 0)) continue;
        const AlgorithmOptions options{
            .ranks = ranks, .root = ranks / 2, .base = 4, .ranks_per_node = per_node};
        const auto made = MakeAlgorithm(algorithm.name, options);
        if (!made) {
          EXPECT_TRUE(algorithm.name == "allreduce-bcube" || algorithm.name == "pairwise-exchange")
              << algorithm.name << " of " << ranks << ": " << made.error().message;
          continue;
        }
        const Verdict verdict = Verify(*made);
        EXPECT_FALSE(verdict.violation) << algorithm.name << " of " << ranks << " by " << per_node
                                        << ": " << verdict.violation->message;
        EXPECT_TRUE(verdict.same_bits) << algorithm.name << " of " << ranks;
        EXPECT_TRUE(verdict.has_postcondition);
        ++verified;
      }
    }
  }
  EXPECT_GT(verified, 350);
}

bool RunsRight(const Program& made, int fifo_slots, int runs, std::mt19937_64& random) {
  for (const bool in_place : {true, false}) {
    if (!(in_place ? made.placement.in_place : made.placement.out_of_place)) continue;
    for (int run = 0; run < runs; ++run) {
      program::ReferenceRun reference(made, in_place, fifo_slots, random);
      if (!reference.Run() || !reference.IsRight()) return false;
    }
  }
  return true;
}

TEST(Algorithms, GiveTheRightResultsToAPlainInterpreter) {
  std::mt19937_64 random(5);
  for (const Algorithm& algorithm : Algorithms()) {
    for (const int ranks : {2, 3, 4, 6, 8}) {
      const auto made = MakeAlgorithm(
          algorithm.name, {.ranks = ranks, .root = ranks - 1, .base = 3, .ranks_per_node = 2});
      EXPECT_TRUE(!made || RunsRight(*made, 2, 2, random)) << algorithm.name << " of " << ranks;
    }
  }
}

TEST(Algorithms, AreCaughtWhereTheyAreCorrupted) {
  using program::Corruption;
  std::mt19937_64 random(6);
  for (const Algorithm& algorithm : Algorithms()) {
    const Program made = Make(algorithm.name, {.ranks = 4, .ranks_per_node = 2, .instances = 1});
    for (int i = 0; i < 20; ++i) {
      for (const Corruption corruption : {Corruption::kDroppedDependency, Corruption::kWrongPeer,
                                          Corruption::kSwappedSteps, Corruption::kWrongPlace}) {
        const auto corrupted = Corrupt(made, corruption, random);
        if (!corrupted || Verify(*corrupted).violation) continue;
        EXPECT_NE(corruption, Corruption::kDroppedDependency) << algorithm.name;
        EXPECT_NE(corruption, Corruption::kWrongPeer) << algorithm.name;
        // Accepted programs are correct all the same.
        EXPECT_TRUE(RunsRight(*corrupted, 2, 8, random)) << algorithm.name;
      }
    }
  }
}

TEST(Algorithms, RunOnOneSlotWhereAskedTo) {
  for (const Algorithm& algorithm : Algorithms()) {
    for (const int ranks : {2, 4, 8}) {
      const Program one = Make(algorithm.name, {.ranks = ranks, .fifo_slots = 1});
      const Verdict verdict = Verify(one, {.fifo_slots = 1});
      EXPECT_FALSE(verdict.violation) << algorithm.name << ": " << verdict.violation->message;
    }
  }
}

TEST(Algorithms, RunInParallelInstancesOnDisjointChannels) {
  for (const Algorithm& algorithm : Algorithms()) {
    const Program made = Make(algorithm.name, {.ranks = 8, .ranks_per_node = 4, .instances = 3});
    const Verdict verdict = Verify(made);
    EXPECT_FALSE(verdict.violation) << algorithm.name << ": " << verdict.violation->message;
    EXPECT_GE(program::CountChannels(made), 3) << algorithm.name;
    // The bytes and steps equal those of one instance.
    const Cost once = CostOf(algorithm.name, {.ranks = 8, .ranks_per_node = 4});
    const Cost cost = MeasureCost(made);
    EXPECT_EQ(cost.most_chunks_sent, 3 * once.most_chunks_sent) << algorithm.name;
    EXPECT_EQ(cost.steps, once.steps) << algorithm.name;
  }
}

TEST(Algorithms, WorkForEachPlacementAlone) {
  for (const Algorithm& algorithm : Algorithms()) {
    for (const bool in_place : {true, false}) {
      const auto made = MakeAlgorithm(
          algorithm.name, {.ranks = 4, .placement = program::BufferPlacement{in_place, !in_place}});
      if (!made && in_place) {
        EXPECT_TRUE(algorithm.name == "alltoall-two-step" || algorithm.name == "pairwise-exchange");
        continue;
      }
      ASSERT_TRUE(made.has_value()) << made.error().message;
      const Verdict verdict = Verify(*made);
      EXPECT_FALSE(verdict.violation && algorithm.name != "pairwise-exchange")
          << algorithm.name << ": " << verdict.violation->message;
    }
  }
}

// Steps and bytes on the wire as Gloo's `algorithms.md` gives them, with its P and S; bytes of the
// busiest rank.
TEST(AllReduce, RingSendsWholeBuffersInOneRound) {
  for (int ranks = 2; ranks <= 17; ++ranks) {
    const Cost cost = CostOf("allreduce-ring", {.ranks = ranks});
    EXPECT_EQ(cost.steps, ranks - 1);
    EXPECT_EQ(cost.most_chunks_sent, ranks - 1);  // x S
  }
}

TEST(AllReduce, ChunkedRingSendsTwiceTheDataInFourStepsARank) {
  for (int ranks = 2; ranks <= 17; ++ranks) {
    // Two chunks are in flight on each connection, and one slot is free to pass one on.
    const Program made = Make("allreduce-ring-chunked", {.ranks = ranks, .fifo_slots = 3});
    const Cost cost = MeasureCost(made);
    EXPECT_EQ(made.collective.chunks, 2 * ranks);
    EXPECT_EQ(cost.steps, 4 * ranks - 4);
    EXPECT_EQ(cost.most_chunks_sent * ranks, 2 * (ranks - 1) * made.collective.chunks);
    // With two slots, only one chunk is in flight half of the time.
    const Cost tight = CostOf("allreduce-ring-chunked", {.ranks = ranks});
    EXPECT_LE(tight.steps, 6 * ranks - 6);
    EXPECT_EQ(tight.most_chunks_sent, cost.most_chunks_sent);
  }
}

TEST(AllReduce, HalvingDoublingTakesTwoLogSteps) {
  for (int ranks = 2; ranks <= 17; ++ranks) {
    const Program made = Make("allreduce-halving-doubling", {.ranks = ranks});
    const Cost cost = MeasureCost(made);
    const int chunks = made.collective.chunks;
    EXPECT_EQ(cost.total_chunks_sent, 2 * (ranks - 1) * chunks);
    // Smaller binary blocks hand over while the larger ones still have steps of their own.
    EXPECT_EQ(cost.steps, 2 * (std::bit_width(static_cast<unsigned>(ranks)) - 1));
    if (IsPowerOfTwo(ranks)) {
      EXPECT_EQ(cost.most_chunks_sent * ranks, 2 * (ranks - 1) * chunks);
    } else {
      EXPECT_LE(cost.most_chunks_sent, 2 * chunks);
    }
  }
}

TEST(AllReduce, DoublingTakesLogSteps) {
  for (int ranks = 2; ranks <= 17; ++ranks) {
    const Cost cost = CostOf("allreduce-doubling", {.ranks = ranks});
    const int log = std::bit_width(static_cast<unsigned>(ranks)) - 1;
    if (IsPowerOfTwo(ranks)) {
      EXPECT_EQ(cost.steps, log);
    } else {
      EXPECT_LE(cost.steps, log + 2);
    }
    EXPECT_EQ(cost.most_chunks_sent, log + (IsPowerOfTwo(ranks) ? 0 : 1));  // x S
  }
}

TEST(AllReduce, BcubeTakesTwoStepsAGroup) {
  const struct {
    int ranks, base, groups;
  } cases[] = {{4, 2, 2}, {8, 2, 3}, {9, 3, 2}, {16, 4, 2}, {16, 2, 4}, {12, 4, 2}, {5, 5, 1}};
  for (const auto& one : cases) {
    const Cost cost = CostOf("allreduce-bcube", {.ranks = one.ranks, .base = one.base});
    EXPECT_EQ(cost.steps, 2 * one.groups);
    EXPECT_EQ(cost.most_chunks_sent, 2 * (one.ranks - 1));  // x S / P
    // Gloo's bound, which counts a rank's own part as sent.
    double bound = 0;
    for (int s = 0; s < one.groups; ++s) bound += 2 * one.ranks / std::pow(one.base, s);
    EXPECT_LE(static_cast<double>(cost.most_chunks_sent), bound * (one.base - 1));
  }
  const auto prime = MakeAlgorithm("allreduce-bcube", {.ranks = 7, .base = 4});
  ASSERT_FALSE(prime.has_value());
  EXPECT_EQ(prime.error().code, ErrorCode::kInvalidArgument);
}

TEST(AllReduce, AllPairsTakesTwoSteps) {
  for (int ranks = 2; ranks <= 17; ++ranks) {
    const Cost cost = CostOf("allreduce-all-pairs", {.ranks = ranks});
    EXPECT_EQ(cost.steps, 2);
    EXPECT_EQ(cost.most_chunks_sent, 2 * (ranks - 1));
  }
}

TEST(AllReduce, HierarchicalSendsLittleBetweenNodes) {
  for (const auto& [ranks, per_node] : {std::pair(8, 4), {12, 3}, {16, 8}, {6, 3}}) {
    const int nodes = ranks / per_node;
    const Program made =
        Make("allreduce-hierarchical", {.ranks = ranks, .ranks_per_node = per_node});
    EXPECT_EQ(MeasureCost(made).steps, 2 * (per_node - 1) + 2 * (nodes - 1));
    for (int rank = 0; rank < ranks; ++rank) {
      int between = 0;
      for (const auto& block : made.ranks[static_cast<std::size_t>(rank)].blocks) {
        if (block.send_peer == -1 || block.send_peer / per_node == rank / per_node) continue;
        for (const auto& step : block.steps) between += Sends(step.op) ? step.count : 0;
      }
      EXPECT_EQ(between, 2 * (nodes - 1));  // chunks of the ranks
    }
  }
}

TEST(AllReduce, DoubleBinaryTreeSharesTheLoad) {
  for (int ranks = 2; ranks <= 17; ++ranks) {
    const Program made = Make("allreduce-double-binary-tree", {.ranks = ranks});
    const Cost cost = MeasureCost(made);
    EXPECT_EQ(cost.total_chunks_sent, 2 * (ranks - 1) * made.collective.chunks) << ranks;
    EXPECT_LE(cost.most_chunks_sent, 2 * made.collective.chunks) << ranks;
    // Up and down, and three more pieces behind the first. Two ranks have one connection for
    // everything.
    EXPECT_LE(cost.steps, ranks == 2 ? 10 : 2 * CeilLog(ranks) + 4) << ranks;
  }
  for (int ranks = 2; ranks <= 64; ++ranks) {
    for (int rank = 1; rank < ranks; ++rank) {
      int depth = 0;
      for (int at = rank; at != 0; at = FirstTreeParent(at, ranks)) {
        ASSERT_EQ(FirstTreeParent(at, ranks) % 2, 0);
        ASSERT_LE(++depth, CeilLog(ranks));
      }
    }
  }
}

TEST(ReduceScatter, HalvingTakesLogSteps) {
  for (int ranks = 2; ranks <= 17; ++ranks) {
    const Cost cost = CostOf("reduce-scatter-halving-doubling", {.ranks = ranks});
    EXPECT_EQ(cost.steps, CeilLog(ranks));
    if (IsPowerOfTwo(ranks)) {
      EXPECT_EQ(cost.most_chunks_sent, ranks - 1);  // x S / P
    } else {
      EXPECT_LE(cost.most_chunks_sent, ranks);
    }
    const Cost ring = CostOf("reduce-scatter-ring", {.ranks = ranks});
    EXPECT_EQ(ring.steps, ranks - 1);
    EXPECT_EQ(ring.most_chunks_sent, ranks - 1);
  }
}

TEST(ReduceScatter, DistributesAsAsked) {
  for (const char* name : {"reduce-scatter-halving-doubling", "reduce-scatter-ring"}) {
    for (const std::vector<int>& counts :
         {std::vector{3, 0, 1, 4, 0}, {0, 0, 0, 1}, {5, 1, 2, 2}, {1, 1, 1, 1, 1, 9}}) {
      const Program made = Make(name, {.ranks = static_cast<int>(counts.size()), .counts = counts});
      const Verdict verdict = Verify(made);
      EXPECT_FALSE(verdict.violation) << name << ": " << verdict.violation->message;
      for (std::size_t rank = 0; rank < counts.size(); ++rank) {
        EXPECT_EQ(made.ranks[rank].output_chunks, counts[rank]);
      }
    }
    EXPECT_FALSE(MakeAlgorithm(name, {.ranks = 3, .counts = {1, 2}}).has_value());
    EXPECT_FALSE(MakeAlgorithm(name, {.ranks = 2, .counts = {1, -1}}).has_value());
    EXPECT_FALSE(MakeAlgorithm(name, {.ranks = 2, .counts = {0, 0}}).has_value());
  }
}

TEST(AllGather, RingAndBruckSendEachShareOnce) {
  for (int ranks = 2; ranks <= 17; ++ranks) {
    const Cost ring = CostOf("allgather-ring", {.ranks = ranks});
    EXPECT_EQ(ring.steps, ranks - 1);
    EXPECT_EQ(ring.most_chunks_sent, ranks - 1);
    const Cost bruck = CostOf("allgather-bruck", {.ranks = ranks});
    // The last, smaller step may arrive earlier if P is not a power of two.
    EXPECT_LE(bruck.steps, CeilLog(ranks));
    EXPECT_TRUE(!IsPowerOfTwo(ranks) || bruck.steps == CeilLog(ranks)) << bruck.steps;
    EXPECT_EQ(bruck.most_chunks_sent, ranks - 1);
  }
}

TEST(Broadcast, CostsWhatItsShapeSays) {
  for (int ranks = 2; ranks <= 17; ++ranks) {
    const Cost one_to_all = CostOf("broadcast-one-to-all", {.ranks = ranks, .root = 1});
    EXPECT_EQ(one_to_all.steps, 1);
    EXPECT_EQ(one_to_all.most_chunks_sent, ranks - 1);  // Gloo counts P S
    // A step has a message on every connection, so a path of the tree counts: from the root to the
    // rank with the most one bits, which takes lg P hops if P is a power of two.
    int hops = 0;
    for (int place = 1; place < ranks; ++place) {
      hops = std::max(hops, std::popcount(static_cast<unsigned>(place)));
    }
    const Cost binomial = CostOf("broadcast-binomial", {.ranks = ranks, .root = 1});
    EXPECT_EQ(binomial.steps, hops);
    EXPECT_EQ(binomial.total_chunks_sent, ranks - 1);
    const Cost pipelined = CostOf("broadcast-pipelined", {.ranks = ranks, .root = 1, .pieces = 5});
    EXPECT_EQ(pipelined.steps, ranks - 2 + 5);
    EXPECT_EQ(pipelined.most_chunks_sent, 5);  // S
    const Cost reduce = CostOf("reduce-binomial", {.ranks = ranks, .root = 1});
    EXPECT_EQ(reduce.steps, hops);
    EXPECT_EQ(reduce.most_chunks_sent, 1);
  }
}

TEST(AllToAll, TwoStepSendsFewMessagesBetweenNodes) {
  for (int ranks = 2; ranks <= 17; ++ranks) {
    const Cost direct = CostOf("alltoall-direct", {.ranks = ranks});
    EXPECT_EQ(direct.steps, 1);
    EXPECT_EQ(direct.most_chunks_sent, ranks - 1);
  }
  const int ranks = 12;
  const int per_node = 3;
  const Program made = Make("alltoall-two-step", {.ranks = ranks, .ranks_per_node = per_node});
  int between = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const auto& block : made.ranks[static_cast<std::size_t>(rank)].blocks) {
      if (block.send_peer == -1 || block.send_peer / per_node == rank / per_node) continue;
      for (const auto& step : block.steps) {
        if (!Sends(step.op)) continue;
        ++between;
        EXPECT_EQ(step.count, per_node);
      }
    }
  }
  EXPECT_EQ(between, ranks * (ranks / per_node - 1));
}

TEST(AllToNext, SpreadsWhatLeavesANodeOverItsRanks) {
  const Program made = Make("alltonext", {.ranks = 8, .ranks_per_node = 4});
  EXPECT_EQ(MeasureCost(made).steps, 3);
  for (int rank = 0; rank < 4; ++rank) {
    int between = 0;
    for (const auto& block : made.ranks[static_cast<std::size_t>(rank)].blocks) {
      if (block.send_peer < 4) continue;
      for (const auto& step : block.steps) between += Sends(step.op) ? step.count : 0;
    }
    EXPECT_EQ(between, 1) << rank;  // four chunks each
  }
  EXPECT_EQ(CostOf("alltonext", {.ranks = 8}).steps, 1);
}

TEST(Barrier, CountsNotifications) {
  for (int ranks = 2; ranks <= 17; ++ranks) {
    const Cost all = CostOf("barrier-all-to-all", {.ranks = ranks});
    EXPECT_EQ(all.steps, 1);
    EXPECT_EQ(all.most_chunks_sent, ranks - 1);
    const Cost one = CostOf("barrier-all-to-one", {.ranks = ranks, .root = 1});
    EXPECT_EQ(one.steps, 2);
    EXPECT_EQ(one.most_chunks_sent, ranks - 1);
    EXPECT_EQ(one.total_chunks_sent, 2 * (ranks - 1));
  }
}

TEST(PairwiseExchange, TakesTheStepsThatItIsGiven) {
  for (const auto& [ranks, steps] : {std::pair(2, 1), {8, 2}, {16, 4}, {16, 1}}) {
    const Program made = Make("pairwise-exchange", {.ranks = ranks, .steps = steps});
    const Cost cost = MeasureCost(made);
    EXPECT_EQ(cost.most_chunks_sent, made.collective.chunks);  // S
    EXPECT_EQ(cost.messages, ranks * steps);
  }
  EXPECT_FALSE(MakeAlgorithm("pairwise-exchange", {.ranks = 8, .steps = 4}).has_value());
  EXPECT_FALSE(MakeAlgorithm("pairwise-exchange", {.ranks = 6}).has_value());
}

TEST(Algorithms, RefuseWhatTheyAreNotDefinedFor) {
  EXPECT_EQ(MakeAlgorithm("allreduce-magic", {}).error().code, ErrorCode::kNotFound);
  for (const AlgorithmOptions& options : {AlgorithmOptions{.ranks = 0},
                                          {.ranks = 1 << 20},
                                          {.ranks = 4, .pieces = -1},
                                          {.ranks = 4, .instances = 0},
                                          {.ranks = 4, .instances = 1000},
                                          {.ranks = 4, .fifo_slots = 0},
                                          {.ranks = 4096, .pieces = 1 << 16}}) {
    EXPECT_FALSE(MakeAlgorithm("allreduce-ring-chunked", options).has_value());
  }
  const auto large = MakeAlgorithm("allgather-ring", {.ranks = 4096});
  ASSERT_FALSE(large.has_value());
  EXPECT_EQ(large.error().code, ErrorCode::kResourceExhausted);
  EXPECT_FALSE(
      MakeAlgorithm("reduce-scatter-ring", {.ranks = 2, .counts = std::vector(1 << 16, 1 << 20)})
          .has_value());
  EXPECT_FALSE(MakeAlgorithm("broadcast-binomial", {.ranks = 4, .root = 4}).has_value());
  EXPECT_FALSE(MakeAlgorithm("barrier-all-to-one", {.ranks = 4, .root = -2}).has_value());
  EXPECT_FALSE(
      MakeAlgorithm("allreduce-hierarchical", {.ranks = 7, .ranks_per_node = 3}).has_value());
}

}  // namespace
}  // namespace espalier::algorithms
