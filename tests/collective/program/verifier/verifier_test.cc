#include "collective/program/verifier/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collective/program/builder.h"
#include "collective/program/passes/lower.h"
#include "tests/collective/program/corruption.h"
#include "tests/collective/program/random_program.h"
#include "tests/collective/program/reference_run.h"

namespace espalier::program {
namespace {

using testing::HasSubstr;
using enum OpCode;

constexpr Location kIn{Buffer::kInput, 0};
constexpr Location kOut{Buffer::kOutput, 0};
constexpr Location kTemporary{Buffer::kScratch, 0};

// Two ranks with one chunk and these `blocks` each.
Program Pair(CollectiveKind kind, std::vector<std::vector<ThreadBlock>> blocks,
             BufferPlacement placement = {.in_place = false, .out_of_place = true}) {
  Program program{.name = "pair",
                  .collective = {.kind = kind, .ranks = static_cast<int>(blocks.size())},
                  .placement = placement};
  for (auto& of_rank : blocks) {
    program.ranks.push_back({.scratch_chunks = 1, .blocks = std::move(of_rank)});
  }
  return program;
}

ThreadBlock Exchange(int peer, std::vector<Step> steps, int channel = 0) {
  return {.send_peer = peer, .receive_peer = peer, .channel = channel, .steps = std::move(steps)};
}

ThreadBlock Local(std::vector<Step> steps) { return {.steps = std::move(steps)}; }

Step Send(Location from, std::vector<Dependency> after = {}) {
  return {.op = kSend, .source = from, .after = std::move(after)};
}
Step Receive(Location to, std::vector<Dependency> after = {}) {
  return {.op = kReceive, .destination = to, .after = std::move(after)};
}
Step Copy(Location from, Location to, std::vector<Dependency> after = {}) {
  return {.op = kCopy, .source = from, .destination = to, .after = std::move(after)};
}
Step Add(Location from, Location to) {
  return {.op = kReceiveReduceCopy, .source = from, .destination = to};
}

Program SumOfTwo() {
  return Pair(CollectiveKind::kAllReduce, {{Exchange(1, {Send(kIn), Add(kIn, kOut)})},
                                           {Exchange(0, {Send(kIn), Add(kIn, kOut)})}});
}

void ExpectViolation(const Program& program, ViolationKind kind, const std::string& message,
                     int fifo_slots = 2) {
  const Verdict verdict = Verify(program, {.fifo_slots = fifo_slots});
  ASSERT_TRUE(verdict.violation.has_value()) << message;
  EXPECT_EQ(verdict.violation->kind, kind) << verdict.violation->message;
  EXPECT_THAT(verdict.violation->message, HasSubstr(message));
}

TEST(Verifier, AcceptsAnExchange) {
  const Verdict verdict = Verify(SumOfTwo());
  EXPECT_FALSE(verdict.violation) << verdict.violation->message;
  EXPECT_EQ(verdict.needed_slots, 1);
  EXPECT_TRUE(verdict.same_bits);
}

TEST(Verifier, RefusesWhatIsNoProgram) {
  using enum ViolationKind;
  const auto changed = [](auto change) {
    Program program = SumOfTwo();
    change(program, program.ranks[0].blocks[0]);
    return program;
  };
  using P = Program&;
  using B = ThreadBlock&;
  ExpectViolation(changed([](P p, B) { p.ranks.pop_back(); }), kStructure, "1 ranks in a");
  ExpectViolation(changed([](P p, B) { p.collective.chunks = 0; }), kStructure, "one chunk");
  ExpectViolation(changed([](P p, B) { p.placement = {false, false}; }), kStructure, "neither");
  ExpectViolation(changed([](P p, B) { p.ranks[1].input_chunks = 2; }), kStructure,
                  "rank 1: 2 input chunks (the collective has 1)");
  ExpectViolation(changed([](P p, B) { p.ranks[1].output_chunks = -1; }), kStructure, "output");
  ExpectViolation(changed([](P p, B) { p.ranks[1].scratch_chunks = -1; }), kStructure, "scratch");
  ExpectViolation(changed([](P, B b) { b.send_peer = 0; }), kStructure, "no peer 0");
  ExpectViolation(changed([](P, B b) { b.send_peer = 2; }), kStructure, "no peer 2");
  ExpectViolation(changed([](P, B b) { b.receive_peer = -2; }), kStructure, "no peer -2");
  ExpectViolation(changed([](P, B b) { b.send_peer = kNoPeer; }), kStructure,
                  "sends, but its block has no");
  ExpectViolation(changed([](P, B b) { b.receive_peer = kNoPeer; }), kStructure, "receives, but");
  ExpectViolation(changed([](P, B b) { b.channel = -1; }), kStructure, "no channel -1");
  ExpectViolation(changed([](P, B b) { b.channel = 1; }), kStructure, "where no block sends");
  ExpectViolation(changed([](P, B b) { b.steps[1].count = 0; }), kStructure,
                  "rank 0 block 0 step 1: a count of 0");
  ExpectViolation(changed([](P, B b) { b.steps[0].count = 2; }), kStructure, "2 chunks from i0");
  ExpectViolation(changed([](P, B b) { b.steps[0].source.index = -1; }), kStructure, "from i-1");
  ExpectViolation(changed([](P, B b) { b.steps[1].destination.index = 1; }), kStructure, "from o1");
  ExpectViolation(changed([](P, B b) { b.steps[0].after = {{1, 0}}; }), kStructure, "of block 1");
  ExpectViolation(changed([](P, B b) { b.steps[0].after = {{0, 2}}; }), kStructure, "step 2 of");
  ExpectViolation(changed([](P p, B b) { p.ranks[0].blocks.push_back(b); }), kStructure,
                  "shares its connection to rank 1 on channel 0 with block 0");
  ExpectViolation(changed([](P p, B) { p.ranks[1].blocks.clear(); }), kStructure, "where no block");
}

TEST(Verifier, RefusesAStepThatReadsPartsOfWhatItWrites) {
  Program program{
      .name = "shift",
      .collective = {.kind = CollectiveKind::kCustom, .ranks = 1, .chunks = 3},
      .placement = {.in_place = true, .out_of_place = false},
      .ranks = {
          {.blocks = {Local(
               {{.op = kCopy, .source = kIn, .destination = {Buffer::kOutput, 1}, .count = 2}})}}}};
  ExpectViolation(program, ViolationKind::kStructure, "reads a part of the chunks that it writes");
  program.placement = {.in_place = false, .out_of_place = true};
  EXPECT_FALSE(Verify(program).violation);
  EXPECT_FALSE(Verify(program).has_postcondition);
}

TEST(Verifier, FindsDeadlocks) {
  const auto receive_first = Exchange(1, {Receive(kTemporary), Send(kIn)});
  ExpectViolation(Pair(CollectiveKind::kCustom,
                       {{receive_first}, {Exchange(0, {Receive(kTemporary), Send(kIn)})}}),
                  ViolationKind::kDeadlock, "rank 0 block 0 waits for a message from rank 1");
  ExpectViolation(Pair(CollectiveKind::kCustom, {{Local({Copy(kIn, kOut, {{0, 0}})})}}),
                  ViolationKind::kDeadlock, "waits for step 0 of block 0");
  ExpectViolation(Pair(CollectiveKind::kCustom, {{Exchange(1, {Send(kIn), Receive(kTemporary)})},
                                                 {Exchange(0, {Send(kIn)})}}),
                  ViolationKind::kStructure, "sends to rank 1");
}

TEST(Verifier, CountsSlots) {
  // Both send three messages before they receive any.
  const auto block = [](int peer) {
    return Exchange(peer, {Send(kIn), Send(kIn), Send(kIn), Receive(kTemporary),
                           Receive(kTemporary), Receive(kTemporary)});
  };
  const Program program = Pair(CollectiveKind::kCustom, {{block(1)}, {block(0)}});
  ExpectViolation(program, ViolationKind::kDeadlock, "waits for one of 2 slots to rank 1");
  const Verdict verdict = Verify(program, {.fifo_slots = 7});
  EXPECT_FALSE(verdict.violation) << verdict.violation->message;
  EXPECT_EQ(verdict.needed_slots, 3);
}

TEST(Verifier, FindsMessagesOfTheWrongSizeOrNumber) {
  Program program = Pair(CollectiveKind::kCustom,
                         {{Exchange(1, {Send(kIn)})}, {Exchange(0, {Receive(kTemporary)})}});
  program.ranks[1].scratch_chunks = 2;
  program.ranks[1].blocks[0].steps[0].count = 2;
  ExpectViolation(program, ViolationKind::kCountMismatch, "receives 2 chunks where rank 0 sends 1");
  program.ranks[1].blocks[0].steps[0].count = 1;
  program.ranks[0].blocks[0].steps.push_back(Send(kIn));
  ExpectViolation(program, ViolationKind::kCountMismatch, "never received");
}

TEST(Verifier, FindsWrongData) {
  using enum ViolationKind;
  Program program = SumOfTwo();
  program.ranks[1].blocks[0].steps[0].source = kTemporary;
  ExpectViolation(program, kUninitialised, "rank 1 block 0 step 0: reads s0");
  program = SumOfTwo();
  program.ranks[1].blocks[0].steps[1].op = kReceive;
  ExpectViolation(program, kPostcondition, "rank 1: o0 is i0 of rank 0, not i0 of rank 0 + i0 of");
  program = SumOfTwo();
  program.ranks[0].blocks.push_back(
      Local({{.op = kReduce, .source = kIn, .destination = kOut, .after = {{0, 1}}}}));
  ExpectViolation(program, kDoubleReduction,
                  "rank 0 block 1 step 0: adds i0 of rank 0 to i0 of rank 0 + ");
  program = SumOfTwo();
  program.ranks[0].blocks[0].steps[1].destination = kIn;
  ExpectViolation(program, kWritesInput, "writes i0 out of place");
  // The same program is correct in place.
  program.placement = {.in_place = true, .out_of_place = false};
  EXPECT_FALSE(Verify(program).violation);
}

TEST(Verifier, FindsRacesEvenWhereTheRunWasLucky) {
  Program program = SumOfTwo();
  program.ranks[0].blocks.push_back(Local({Copy(kOut, kTemporary, {{0, 1}})}));
  EXPECT_FALSE(Verify(program).violation);
  program.ranks[0].blocks[1].steps[0].after.clear();
  EXPECT_TRUE(Verify(program).violation.has_value());
  // Every order gives the same values here, but writes of the same value are a race too.
  program.ranks[0].blocks[1] = Local({Copy(kIn, kTemporary), Copy(kIn, kTemporary)});
  EXPECT_FALSE(Verify(program).violation);
  program.ranks[0].blocks.push_back(Local({Copy(kIn, kTemporary)}));
  ExpectViolation(program, ViolationKind::kRace, "the two accesses are unordered");
  // An order through another rank counts.
  Program around =
      Pair(CollectiveKind::kCustom, {{{.send_peer = 1, .steps = {Copy(kIn, kTemporary), Send(kIn)}},
                                      {.receive_peer = 1, .steps = {Receive(kTemporary)}}},
                                     {Exchange(0, {Receive(kTemporary), Send(kTemporary)})}});
  EXPECT_FALSE(Verify(around).violation) << Verify(around).violation->message;
  around.ranks[1].blocks[0] = Exchange(0, {Send(kIn), Receive(kTemporary)});
  ExpectViolation(around, ViolationKind::kRace, "the two accesses are unordered");
}

TEST(Verifier, KnowsABarrier) {
  Program barrier =
      Pair(CollectiveKind::kBarrier, {{Exchange(1, {Send(kIn), Receive(kTemporary)})},
                                      {Exchange(0, {Send(kIn), Receive(kTemporary)})}});
  EXPECT_FALSE(Verify(barrier).violation);
  Program half = Pair(CollectiveKind::kBarrier,
                      {{Exchange(1, {Send(kIn)})}, {Exchange(0, {Receive(kTemporary)})}});
  ExpectViolation(half, ViolationKind::kPostcondition, "may finish before rank 1 has begun");
}

TEST(Verifier, FindsARootThatAFileDoesNotName) {
  const auto send = [](int from) {
    std::vector<std::vector<ThreadBlock>> blocks(2);
    const auto to = static_cast<std::size_t>(1 - from);
    blocks[static_cast<std::size_t>(from)] = {
        {.send_peer = 1 - from, .steps = {Send(kIn), Copy(kIn, kOut)}}};
    blocks[to] = {{.receive_peer = from, .steps = {Receive(kOut)}}};
    return Pair(CollectiveKind::kBroadcast, blocks);
  };
  EXPECT_EQ(Verify(send(0)).root, 0);
  EXPECT_EQ(Verify(send(1)).root, 1);
  Program neither = send(1);
  neither.ranks[0].blocks[0].steps[0].destination = kTemporary;
  ExpectViolation(neither, ViolationKind::kPostcondition, "o0 is nothing, not i0 of rank 0");
}

TEST(Verifier, SaysWhereBitsDiffer) {
  // Sums of three in two orders: (0 + 1) + 2 at rank 0, 0 + (1 + 2) at rank 2.
  ProgramBuilder builder("orders", {.kind = CollectiveKind::kAllReduce, .ranks = 3, .chunks = 1},
                         {.in_place = false, .out_of_place = true});
  const auto in = [&](int rank) { return builder.Chunk(rank, Buffer::kInput, 0); };
  in(0).ReduceTo(in(1), Buffer::kOutput, 0).Reduce(in(2)).Copy(1, Buffer::kOutput, 0);
  in(2).ReduceTo(in(1), Buffer::kOutput, 0).Reduce(in(0));
  const Verdict verdict = Verify(*Lower(*builder.Finish()));
  EXPECT_FALSE(verdict.violation) << verdict.violation->message;
  EXPECT_FALSE(verdict.same_bits);
}

TEST(Verifier, GivesUpWithinItsBudget) {
  const Verdict verdict = Verify(SumOfTwo(), {.budget = 100});
  ASSERT_TRUE(verdict.violation.has_value());
  EXPECT_EQ(verdict.violation->kind, ViolationKind::kTooLarge);
}

TEST(Cost, CountsWhatIsSentAndWaitedFor) {
  const Cost cost = MeasureCost(SumOfTwo());
  EXPECT_EQ(cost.steps, 1);
  EXPECT_EQ(cost.most_chunks_sent, 1);
  EXPECT_EQ(cost.total_chunks_sent, 2);
  EXPECT_EQ(cost.messages, 2);
}

bool RunsRight(const Program& program, int fifo_slots, int runs, std::mt19937_64& random) {
  for (const bool in_place : {true, false}) {
    if (!(in_place ? program.placement.in_place : program.placement.out_of_place)) continue;
    for (int run = 0; run < runs; ++run) {
      ReferenceRun reference(program, in_place, fifo_slots, random);
      if (!reference.Run() || !reference.IsRight()) return false;
    }
  }
  return true;
}

TEST(RandomPrograms, AreVerifiedAndRunRightInEveryInterleavingTried) {
  std::mt19937_64 random(2026);
  for (int i = 0; i < 200; ++i) {
    const auto program = MakeRandomProgram(random);
    ASSERT_TRUE(program.has_value()) << i << ": " << program.error().message;
    const Verdict verdict = Verify(*program, {.fifo_slots = 3});
    ASSERT_FALSE(verdict.violation) << i << ": " << verdict.violation->message;
    ASSERT_TRUE(RunsRight(*program, verdict.needed_slots, 4, random)) << i;
    ASSERT_TRUE(RunsRight(*program, 3, 4, random)) << i;
    if (verdict.needed_slots > 1) {
      const Verdict fewer = Verify(*program, {.fifo_slots = verdict.needed_slots - 1});
      ASSERT_TRUE(fewer.violation.has_value());
      EXPECT_EQ(fewer.violation->kind, ViolationKind::kDeadlock);
    }
  }
}

// Accepted programs run correctly; programs that are certainly wrong are refused.
TEST(RandomPrograms, AreCaughtWhereTheyAreCorrupted) {
  std::mt19937_64 random(41);
  std::map<Corruption, int> tried;
  std::map<Corruption, int> caught;
  for (int i = 0; i < 200; ++i) {
    const auto program = MakeRandomProgram(random);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    for (const Corruption corruption :
         {Corruption::kDroppedDependency, Corruption::kSwappedSteps, Corruption::kWrongPeer,
          Corruption::kWrongPlace, Corruption::kWrongOp}) {
      const auto corrupted = Corrupt(*program, corruption, random);
      if (!corrupted) continue;
      ++tried[corruption];
      const Verdict verdict = Verify(*corrupted, {.fifo_slots = 3});
      if (verdict.violation) {
        ++caught[corruption];
        if (verdict.violation->kind == ViolationKind::kDeadlock) {
          EXPECT_FALSE(RunsRight(*corrupted, 3, 1, random)) << verdict.violation->message;
        }
      } else {
        EXPECT_TRUE(RunsRight(*corrupted, 3, 16, random)) << i;
      }
    }
  }
  for (const auto& [corruption, count] : tried) {
    EXPECT_GT(count, 90) << static_cast<int>(corruption);
    RecordProperty("caught" + std::to_string(static_cast<int>(corruption)), caught[corruption]);
    RecordProperty("tried" + std::to_string(static_cast<int>(corruption)), count);
  }
  EXPECT_EQ(caught[Corruption::kDroppedDependency], tried[Corruption::kDroppedDependency]);
  EXPECT_EQ(caught[Corruption::kWrongPeer], tried[Corruption::kWrongPeer]);
  // Some steps may be swapped, and a chunk that is never read may hold anything.
  EXPECT_GT(caught[Corruption::kSwappedSteps], tried[Corruption::kSwappedSteps] / 4);
  EXPECT_GT(caught[Corruption::kWrongPlace], tried[Corruption::kWrongPlace] / 2);
  EXPECT_GT(caught[Corruption::kWrongOp], tried[Corruption::kWrongOp] / 2);
}

}  // namespace
}  // namespace espalier::program
