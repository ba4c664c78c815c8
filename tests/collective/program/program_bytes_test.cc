#include "collective/program/program_bytes.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "collective/algorithms/algorithm.h"
#include "collective/program/verifier/structure.h"
#include "collective/program/verifier/verifier.h"
#include "tests/collective/program/random_program.h"

namespace espalier::program {
namespace {

TEST(ProgramBytes, KeepAllThatThereIsToSay) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 50; ++i) {
    const auto made = MakeRandomProgram(random);
    ASSERT_TRUE(made.has_value());
    Program program = *made;
    program.name = "tree \xc3\xa4";
    program.min_bytes = 17;
    program.placement.in_place = i % 2 == 0;
    const auto read = DecodeProgram(EncodeProgram(program));
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_TRUE(*read == program);
  }
}

TEST(ProgramBytes, OfAReduceScatterOfUnequalParts) {
  Program program;
  program.collective = {
      .kind = CollectiveKind::kReduceScatter, .ranks = 2, .chunks = 3, .counts = {1, 2}};
  program.ranks.resize(2);
  const auto read = DecodeProgram(EncodeProgram(program));
  ASSERT_TRUE(read.has_value());
  EXPECT_TRUE(*read == program);
}

// Any bytes give a program or an error, and the verifier handles every such program safely.
TEST(ProgramBytes, DamagedOnesAreRefusedOrVerified) {
  std::mt19937_64 random(6);
  const std::string whole = EncodeProgram(*MakeRandomProgram(random));
  int refused = 0;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(DecodeProgram(whole.substr(0, length)).has_value()) << length;
  }
  EXPECT_FALSE(DecodeProgram(whole + '\0').has_value());
  for (int i = 0; i < 3'000; ++i) {
    std::string bytes = whole;
    for (int changes = 0; changes <= i % 3; ++changes) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const auto read = DecodeProgram(bytes);
    if (!read) {
      ++refused;
      continue;
    }
    EXPECT_TRUE(*DecodeProgram(EncodeProgram(*read)) == *read);
    static_cast<void>(Verify(*read, {.fifo_slots = 2, .budget = 1 << 16}));
  }
  EXPECT_GT(refused, 0);
  const std::string huge = {1, 0, 0, '\xff', '\xff', '\xff', '\xff', '\xff', '\xff', '\xff'};
  EXPECT_FALSE(DecodeProgram(huge).has_value());
}

TEST(ProgramParts, HaveWhatTheirRankNeedsOfTheWhole) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 30; ++i) {
    const auto whole = MakeRandomProgram(random);
    ASSERT_TRUE(whole.has_value());
    const EncodedProgram encoded(*whole);
    EXPECT_EQ(encoded.Whole(), EncodeProgram(*whole));
    EXPECT_EQ(encoded.WholeBytes(), encoded.Whole().size());
    for (std::size_t rank = 0; rank < encoded.ranks(); ++rank) {
      const std::string bytes = encoded.PartOf(rank);
      const auto part = DecodeProgram(bytes);
      ASSERT_TRUE(part.has_value()) << part.error().message;
      ASSERT_TRUE(part->part.has_value());
      EXPECT_EQ(part->part->rank, static_cast<int>(rank));
      EXPECT_EQ(part->part->digest, encoded.digest());
      EXPECT_EQ(EncodeProgram(*part), bytes);
      EXPECT_EQ(CountChannels(*part), CountChannels(*whole));
      EXPECT_EQ(CountMessages(*part), CountMessages(*whole));
      Program expected = *whole;
      for (RankProgram& other : expected.ranks) {
        if (&other != &expected.ranks[rank]) other = {};
      }
      expected.part = part->part;
      EXPECT_TRUE(*part == expected);
      EXPECT_FALSE(CheckPart(*part).has_value());
      // Nobody can prove the whole from a part.
      EXPECT_TRUE(Verify(*part).violation.has_value());
    }
  }
}

TEST(ProgramParts, AreRefusedWithAnyByteChanged) {
  std::mt19937_64 random(8);
  const EncodedProgram encoded(*MakeRandomProgram(random));
  for (std::size_t rank = 0; rank < encoded.ranks(); ++rank) {
    const std::string right = encoded.PartOf(rank);
    for (std::size_t i = 0; i < right.size(); ++i) {
      std::string bytes = right;
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << random() % 8));
      EXPECT_FALSE(DecodeProgram(bytes).has_value()) << "byte " << i;
      EXPECT_FALSE(DecodeProgram(right.substr(0, i)).has_value()) << i;
    }
    EXPECT_FALSE(DecodeProgram(right + '\0').has_value());
  }
}

// What a rank would do with a part that no verifier has seen.
TEST(ProgramParts, AreRefusedIfTheyLeaveTheirBuffersOrSlots) {
  const auto whole = algorithms::MakeAlgorithm("allreduce-ring-chunked", {.ranks = 3});
  ASSERT_TRUE(whole.has_value());
  const Program right = *DecodeProgram(EncodedProgram(*whole).PartOf(1));
  ASSERT_FALSE(CheckPart(right).has_value());
  const std::vector<std::function<void(Program&, ThreadBlock&)>> changes = {
      [](Program&, ThreadBlock& block) {
        for (Step& step : block.steps) step.destination.index = 1 << 20;
      },
      [](Program&, ThreadBlock& block) { block.steps[0].source.index = -1; },
      [](Program&, ThreadBlock& block) { block.steps[0].count = 2; },
      [](Program&, ThreadBlock& block) { block.steps[1].after = {{.block = 7, .step = 0}}; },
      [](Program&, ThreadBlock& block) { block.steps[1].after = {{.block = 0, .step = 99}}; },
      [](Program&, ThreadBlock& block) { block.send_peer = 3; },
      [](Program&, ThreadBlock& block) { block.send_peer = 1; },
      [](Program&, ThreadBlock& block) { block.channel = 1; },
      [](Program& program, ThreadBlock& block) { program.ranks[1].blocks.push_back(block); },
      [](Program& program, ThreadBlock&) { program.part->messages.largest = 0; },
      [](Program& program, ThreadBlock&) { program.part->messages.chunks = -1; },
      [](Program& program, ThreadBlock&) { program.ranks.pop_back(); },
      [](Program& program, ThreadBlock&) { program.collective.kind = CollectiveKind::kBroadcast; }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Program wrong = right;
    changes[i](wrong, wrong.ranks[1].blocks[0]);
    EXPECT_TRUE(CheckPart(wrong).has_value()) << "change " << i;
  }
}

}  // namespace
}  // namespace espalier::program
