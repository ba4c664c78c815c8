#include "collective/program/program_bytes.h"

#include <gtest/gtest.h>

#include <random>

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

}  // namespace
}  // namespace espalier::program
