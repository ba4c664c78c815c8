#include "collective/runtime/choice/algorithm_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "collective/algorithms/algorithm.h"
#include "collective/runtime/choice/cost_table.h"
#include "collective/runtime/group/communicator.h"
#include "collective/runtime/shared/area/shared_protocol_kind.h"
#include "collective/transport/stores/file_store.h"
#include "tests/temporary_folder.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;
using std::chrono::seconds;

constexpr std::size_t kSlot = 512 << 10;

ProgramWork WorkOf(std::string_view algorithm, int ranks) {
  const auto made = algorithms::MakeAlgorithm(algorithm, {.ranks = ranks});
  EXPECT_TRUE(made) << made.error().message;
  return MeasureWork(*made);
}

TEST(CostModel, CountsTheKnownCostsOfAlgorithms) {
  const ProgramWork halving = WorkOf("allreduce-halving-doubling", 8);
  EXPECT_EQ(halving.rounds, 6);
  EXPECT_EQ(halving.busiest.messages, 6);
  EXPECT_DOUBLE_EQ(halving.busiest.chunks / halving.all_chunks, 2 * 7.0 / 8);
  EXPECT_DOUBLE_EQ(halving.busiest.reduced_chunks / halving.all_chunks, 7.0 / 8);
  // Of eight parts six are reduced and sent on, which counts half, and one is stored.
  const ProgramWork ring = WorkOf("allreduce-ring-chunked", 8);
  EXPECT_DOUBLE_EQ(ring.busiest.chunks / ring.all_chunks, 2 * 7.0 / 8);
  EXPECT_DOUBLE_EQ(ring.busiest.reduced_chunks / ring.all_chunks, (6.0 / 2 + 1) / 8);
  const ProgramWork pairs = WorkOf("allreduce-all-pairs", 8);
  EXPECT_EQ(pairs.rounds, 2);
  EXPECT_EQ(pairs.busiest.messages, 14);
  const ProgramWork fan = WorkOf("broadcast-one-to-all", 8);
  EXPECT_EQ(fan.rounds, 1);
  EXPECT_EQ(fan.busiest.messages, 7);
  EXPECT_DOUBLE_EQ(fan.busiest.chunks / fan.all_chunks, 7);
  EXPECT_DOUBLE_EQ(fan.mean.chunks / fan.all_chunks, (7.0 + 7.0) / 8);
}

TEST(CostModel, CutsMessagesThatDoNotFitIntoTiles) {
  const ProgramWork work = WorkOf("allreduce-halving-doubling", 2);
  const Work small = ScaleWork(work, 1024, kSlot, 0);
  EXPECT_EQ(small.rounds, 2);
  EXPECT_EQ(small.messages, 2);
  EXPECT_EQ(small.bytes, 1024);
  const Work large = ScaleWork(work, 8 * kSlot, kSlot, 0);
  EXPECT_EQ(large.rounds, 5);
  EXPECT_EQ(large.messages, 8);
}

TEST(CostModel, RanksThatShareCoresDoAllTheWork) {
  const ProgramWork work = WorkOf("allreduce-halving-doubling", 8);
  const Work apart = ScaleWork(work, 1 << 16, kSlot, 0);
  const Work together = ScaleWork(work, 1 << 16, kSlot, 2);
  EXPECT_DOUBLE_EQ(together.bytes, 4 * apart.bytes);
  EXPECT_DOUBLE_EQ(together.messages, 4 * apart.messages);
  EXPECT_DOUBLE_EQ(together.rounds, apart.rounds);
}

std::vector<CostSample> SamplesOf(const Costs& costs, double noise, std::mt19937_64& random) {
  std::uniform_real_distribution<double> factor(1 - noise, 1 + noise);
  std::vector<CostSample> samples;
  for (const CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kBroadcast}) {
    AlgorithmChoice choice(costs, 8, 4, kSlot);
    for (std::size_t bytes = 64; bytes <= 16 << 20; bytes *= 8) {
      const auto predictions = choice.PredictAll(kind, bytes);
      EXPECT_TRUE(predictions);
      for (const Prediction& one : *predictions) {
        samples.push_back({one.work, one.seconds * factor(random)});
      }
    }
  }
  return samples;
}

TEST(CostModel, RecoversTheCostsOfSamplesFromTheModel) {
  std::mt19937_64 random(3);
  const Costs costs{.round = 2e-5, .message = 4e-6, .byte = 3e-10, .reduced_byte = 1e-10};
  const Costs exact = FitCosts(SamplesOf(costs, 0, random), 0);
  EXPECT_NEAR(exact.round, costs.round, 1e-3 * costs.round);
  EXPECT_NEAR(exact.message, costs.message, 1e-2 * costs.message);
  EXPECT_NEAR(exact.byte, costs.byte, 1e-2 * costs.byte);
  EXPECT_NEAR(exact.reduced_byte, costs.reduced_byte, 2e-2 * costs.reduced_byte);
  // Noise changes the single costs, but hardly their predictions.
  const Costs noisy = FitCosts(SamplesOf(costs, 0.3, random), 0);
  for (const CostSample& sample : SamplesOf(costs, 0, random)) {
    EXPECT_LT(Predict(noisy, sample.work), 1.5 * sample.seconds);
    EXPECT_GT(Predict(noisy, sample.work), sample.seconds / 1.5);
  }
}

TEST(CostModel, FitsNothingToNoSamples) {
  const Costs none = FitCosts({}, 2);
  EXPECT_EQ(none.round, 0);
  EXPECT_EQ(none.lanes, 2);
  const CostSample timeless{.work = {.rounds = 1}};
  EXPECT_EQ(FitCosts({&timeless, 1}, 0).round, 0);
  // Costs stay non-negative although a negative cost of messages would fit best.
  const std::vector<CostSample> odd = {{{.rounds = 1, .messages = 1}, 2}, {{.rounds = 1}, 3}};
  EXPECT_GE(FitCosts(odd, 0).message, 0);
}

TEST(AlgorithmChoice, TakesFewRoundsForSmallDataAndFewBytesForLarge) {
  AlgorithmChoice choice({.round = 1e-5, .message = 1e-7, .byte = 1e-9}, 9, 4, kSlot);
  EXPECT_EQ(*choice.Choose(CollectiveKind::kAllReduce, 64), "allreduce-all-pairs");
  EXPECT_EQ(*choice.Choose(CollectiveKind::kAllGather, 64), "allgather-bruck");
  EXPECT_EQ(*choice.Choose(CollectiveKind::kBroadcast, 64), "broadcast-one-to-all");
  EXPECT_EQ(*choice.Choose(CollectiveKind::kBroadcast, 64 << 20), "broadcast-pipelined");
  AlgorithmChoice busy({.round = 1e-7, .message = 1e-5, .byte = 1e-9}, 8, 4, kSlot);
  EXPECT_EQ(*busy.Choose(CollectiveKind::kAllReduce, 64), "allreduce-doubling");
  EXPECT_EQ(*busy.Choose(CollectiveKind::kAllReduce, 1 << 20), "allreduce-halving-doubling");
  EXPECT_EQ(*busy.Choose(CollectiveKind::kBroadcast, 64), "broadcast-binomial");
}

TEST(AlgorithmChoice, ChoosesTheFastestPrediction) {
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> exponent(-12, -4);
  for (int trial = 0; trial < 50; ++trial) {
    const auto draw = [&] { return std::pow(10, exponent(random)); };
    const Costs costs{.round = draw(), .message = draw(), .byte = draw() * 1e-3};
    AlgorithmChoice choice(costs, 2 + trial % 9, 4, kSlot);
    for (const std::size_t bytes : {std::size_t{4}, std::size_t{4096}, std::size_t{4} << 20}) {
      const auto chosen = choice.Choose(CollectiveKind::kAllReduce, bytes);
      const auto all = choice.PredictAll(CollectiveKind::kAllReduce, bytes);
      ASSERT_TRUE(chosen && all);
      double best = -1;
      for (const Prediction& one : *all) {
        if (one.algorithm == *chosen) best = one.seconds;
      }
      for (const Prediction& one : *all) EXPECT_LE(best, one.seconds);
    }
  }
}

TEST(CostTable, IsReadAsItWasWritten) {
  const std::vector<MeasuredCosts> table = {{Medium::kShared, 2, {1e-7 / 3, 0, 1e-10 / 7, 2e-10}},
                                            {Medium::kTcp, 8, {1e-5, 2e-6, 3e-10, 4e-11, 2}}};
  const auto read = ParseCosts(FormatCosts(table));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->size(), 2U);
  EXPECT_EQ((*read)[0].costs.round, table[0].costs.round);
  EXPECT_EQ((*read)[0].costs.byte, table[0].costs.byte);
  EXPECT_EQ((*read)[1].medium, Medium::kTcp);
  EXPECT_EQ((*read)[1].ranks, 8);
  EXPECT_EQ((*read)[1].costs.lanes, 2);
}

TEST(CostTable, NamesTheLineOfAnInvalidEntry) {
  for (const char* text :
       {"", "espalier-costs 2\n", "espalier-costs 1\nudp 2 0 1 1 1 1\n",
        "espalier-costs 1\ntcp 2 0 1 1 1\n", "espalier-costs 1\ntcp 2 0 1 1 1 1 1\n",
        "espalier-costs 1\ntcp 2 0 -1 1 1 1\n", "espalier-costs 1\ntcp 2 0 nan 1 1 1\n",
        "espalier-costs 1\ntcp 0 0 1 1 1 1\n", "espalier-costs 1\ntcp 1e30 0 1 1 1 1\n",
        "espalier-costs 1\ntcp 2 0 1x 1 1 1\n"}) {
    const auto read = ParseCosts(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(read.error().message.substr(0, 2), *text == '\0' || text[15] == '2' ? "1:" : "2:");
  }
}

TEST(CostTable, FindsTheNearestNumberOfRanks) {
  const std::vector<MeasuredCosts> table = {{Medium::kTcp, 2, {.round = 2}},
                                            {Medium::kTcp, 16, {.round = 16}}};
  EXPECT_EQ(FindCosts(table, Medium::kTcp, 3).round, 2);
  EXPECT_EQ(FindCosts(table, Medium::kTcp, 9).round, 16);
  EXPECT_GT(FindCosts(table, Medium::kShared, 4).round, 0);
  EXPECT_GT(FindCosts({}, Medium::kVerbs, 4).round, 0);
}

struct Joined {
  Medium medium;
  std::string costs_file;
  std::string algorithm;
};

// The error of each rank on joining, else "" after it has checked sums of a vector.
std::vector<std::string> RunGroup(const Joined& options, int size, std::size_t count) {
  TemporaryFolder folder;
  transport::FileStore store(folder.path());
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      std::string& error = errors[static_cast<std::size_t>(rank)];
      auto group = Communicator::Join(store, "g", rank, size,
                                      {.medium = options.medium,
                                       .timeout = seconds(100),
                                       .costs_file = rank == 0 ? options.costs_file : "",
                                       .algorithm = options.algorithm});
      if (!group) {
        error = group.error().message;
        return;
      }
      const std::vector<std::int32_t> input(count, rank + 1);
      std::vector<std::int32_t> output(count);
      const auto done = (*group)->AllReduce(input.data(), output.data(), count,
                                            reduce::DataType::kI32, reduce::ReduceOp::kSum);
      if (!done) error = done.error().message;
      if (output != std::vector<std::int32_t>(count, size * (size + 1) / 2)) error += " wrong";
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

TEST(Choice, EveryCandidateGivesTheRightSums) {
  const std::vector<std::string> none(3);
  for (const std::string_view name : CandidatesOf(CollectiveKind::kAllReduce, 3)) {
    EXPECT_EQ(RunGroup({Medium::kTcp, "", std::string(name)}, 3, 50'001), none) << name;
  }
  for (const SharedProtocolKind way : {SharedProtocolKind::kSmall, SharedProtocolKind::kStaged}) {
    const std::string name(SharedProtocolName(way));
    EXPECT_EQ(RunGroup({Medium::kShared, "", name}, 3, 50'001), none) << name;
  }
}

TEST(Choice, UsesTheFileOfTheFirstRank) {
  TemporaryFolder folder;
  const std::string file = folder.path() + "/costs";
  std::ofstream(file) << FormatCosts(
      {{Medium::kShared, 3, {.round = 1}}, {Medium::kTcp, 3, {.round = 1}}});
  for (const Medium medium : {Medium::kShared, Medium::kTcp}) {
    EXPECT_EQ(RunGroup({medium, file, ""}, 3, 1000), std::vector<std::string>(3));
  }
}

TEST(Choice, TellsEveryRankOfAnInvalidFile) {
  TemporaryFolder folder;
  const std::string file = folder.path() + "/costs";
  std::ofstream(file) << "something else\n";
  for (const Medium medium : {Medium::kShared, Medium::kTcp}) {
    for (const std::string& error : RunGroup({medium, file, ""}, 3, 10)) {
      EXPECT_NE(error.find("costs:1: not"), std::string::npos) << error;
    }
    for (const std::string& error : RunGroup({medium, file + ".none", ""}, 3, 10)) {
      EXPECT_NE(error.find("cannot be read"), std::string::npos) << error;
    }
  }
}

TEST(Choice, RefusesAnAlgorithmThatIsNoCandidate) {
  for (const Medium medium : {Medium::kShared, Medium::kTcp}) {
    for (const std::string& error : RunGroup({medium, "", "magic"}, 2, 10)) {
      EXPECT_NE(error.find("algorithm \"magic\" is not available"), std::string::npos) << error;
    }
  }
}

// A fit between two ranks may attribute the whole cost of rounds to messages. Of otherwise equal
// algorithms the one with the fewest rounds must then be taken.
// Two hosts of four ranks: what crosses the link of a host, for S bytes.
TEST(AlgorithmChoice, CountsTheBytesOfAHostsLink) {
  const auto across = [](const char* name) {
    const auto program =
        algorithms::MakeAlgorithm(name, {.ranks = 8, .base = 4, .ranks_per_node = 4});
    EXPECT_TRUE(program) << program.error().message;
    const HostsWork work = MeasureWork(*program, 4);
    return work.between.busiest.chunks / work.between.all_chunks;
  };
  EXPECT_DOUBLE_EQ(across("allreduce-hierarchical"), 1);     // 2 S (H - 1) / H
  EXPECT_DOUBLE_EQ(across("allreduce-ring-chunked"), 1.75);  // 2 S (P - 1) / P
  EXPECT_DOUBLE_EQ(across("allgather-hierarchical"), 0.5);
  EXPECT_DOUBLE_EQ(across("reduce-scatter-hierarchical"), 0.5);
  EXPECT_DOUBLE_EQ(across("allreduce-halving-doubling"), 1);  // near ranks exchange most
  EXPECT_DOUBLE_EQ(across("allreduce-bcube"), 1);
}

TEST(AlgorithmChoice, TakesHierarchyWhereTheLinkBetweenHostsIsSlow) {
  const Costs within{.round = 1e-6, .message = 1e-7, .byte = 1e-10, .reduced_byte = 1e-11};
  const Costs slow{.round = 1e-5, .message = 1e-6, .byte = 1e-8};
  AlgorithmChoice choice(slow, 8, 4, kSlot, {.ranks_per_host = 4, .within = within});
  EXPECT_EQ(*choice.Choose(CollectiveKind::kAllReduce, 16 << 20), "allreduce-hierarchical");
  EXPECT_EQ(*choice.Choose(CollectiveKind::kAllGather, 16 << 20), "allgather-hierarchical");
  EXPECT_EQ(*choice.Choose(CollectiveKind::kReduceScatter, 16 << 20),
            "reduce-scatter-hierarchical");
  EXPECT_NE(*choice.Choose(CollectiveKind::kAllReduce, 64), "allreduce-hierarchical");
  // Hosts of one rank, or one host, have nothing to gain.
  EXPECT_EQ(CandidatesOf(CollectiveKind::kAllReduce, 8, 8),
            CandidatesOf(CollectiveKind::kAllReduce, 8));
  EXPECT_EQ(CandidatesOf(CollectiveKind::kAllReduce, 8, 1),
            CandidatesOf(CollectiveKind::kAllReduce, 8));
}

TEST(AlgorithmChoice, CountsStepsBetweenHosts) {
  const auto program =
      algorithms::MakeAlgorithm("allreduce-hierarchical", {.ranks = 6, .ranks_per_node = 3});
  const program::Cost cost = program::MeasureCost(*program, 3);
  EXPECT_EQ(cost.cross_steps, 2);          // 2 (H - 1)
  EXPECT_EQ(cost.steps, 2 + 2 * (3 - 1));  // and 2 (G - 1) within
  EXPECT_EQ(program::MeasureCost(*program).cross_steps, 0);
  EXPECT_EQ(program::MeasureCost(*program).steps, cost.steps);
}

TEST(AlgorithmChoice, RoundsCostAMessageAtLeast) {
  const Costs costs{
      .round = 0, .message = 17e-6, .byte = 0.23e-9, .reduced_byte = 0.26e-9, .lanes = 2};
  AlgorithmChoice choice = AlgorithmChoice::OverTcp(costs, 2);
  const auto predictions = choice.PredictAll(program::CollectiveKind::kAllReduce, 16U << 20U);
  ASSERT_TRUE(predictions);
  const auto fewest =
      std::min_element(predictions->begin(), predictions->end(),
                       [](const auto& a, const auto& b) { return a.work.rounds < b.work.rounds; });
  EXPECT_EQ(*choice.Choose(program::CollectiveKind::kAllReduce, 16U << 20U), fewest->algorithm);
}

}  // namespace
}  // namespace espalier::runtime
