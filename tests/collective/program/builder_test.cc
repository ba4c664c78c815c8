#include "collective/program/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collective/program/passes/lower.h"

namespace espalier::program {
namespace {

using testing::HasSubstr;

constexpr BufferPlacement kBoth{.in_place = true, .out_of_place = true};
constexpr BufferPlacement kInPlace{.in_place = true, .out_of_place = false};
constexpr BufferPlacement kOutOfPlace{.in_place = false, .out_of_place = true};

CollectiveSpec AllReduce(int ranks, int chunks = 1) {
  return {.kind = CollectiveKind::kAllReduce, .ranks = ranks, .chunks = chunks};
}

std::string ErrorOf(ProgramBuilder& builder) {
  const auto finished = builder.Finish();
  EXPECT_FALSE(finished.has_value());
  if (finished) return "";
  EXPECT_EQ(finished.error().code, ErrorCode::kInvalidArgument);
  return finished.error().message;
}

// Returns the steps of a block as text: "s i0", "rrc o0 = m + i0", ...
std::string StepsOf(const ThreadBlock& block) {
  std::string text;
  const auto place = [](Location location) {
    return std::string(BufferName(location.buffer)) + std::to_string(location.index);
  };
  for (const Step& step : block.steps) {
    if (!text.empty()) text += "; ";
    text += OpCodeName(step.op);
    if (ReadsSource(step.op)) text += " " + place(step.source);
    if (WritesDestination(step.op)) text += " >" + place(step.destination);
  }
  return text;
}

TEST(ProgramBuilder, TracesOperationsInTheOrderOfTheText) {
  ProgramBuilder builder("two", AllReduce(2), kBoth);
  const ChunkRef sum = builder.Chunk(0, Buffer::kInput, 0)
                           .ReduceTo(builder.Chunk(1, Buffer::kInput, 0), Buffer::kOutput, 0);
  sum.Copy(1, Buffer::kOutput, 0);
  const auto dag = builder.Finish();
  ASSERT_TRUE(dag.has_value()) << dag.error().message;
  ASSERT_EQ(dag->ops.size(), 2U);
  EXPECT_TRUE(dag->ops[0].reduces);
  EXPECT_EQ(dag->ops[0].source_rank, 1);
  EXPECT_EQ(dag->ops[1].source_rank, 0);
  EXPECT_EQ(dag->ops[1].rank, 1);
}

TEST(ProgramBuilder, RefusesStaleReferences) {
  ProgramBuilder builder("stale", AllReduce(3), kInPlace);
  const ChunkRef own = builder.Chunk(0, Buffer::kInput, 0);
  own.Reduce(builder.Chunk(1, Buffer::kInput, 0));
  own.Copy(2, Buffer::kScratch, 0);
  EXPECT_THAT(ErrorOf(builder),
              HasSubstr("stale: after 1 operations: 1 chunk from i0 at rank 0: the reference is "
                        "stale, as the chunks were overwritten"));
}

TEST(ProgramBuilder, FindsThatOutputOverwritesInputInPlaceOnly) {
  for (const BufferPlacement& placement : {kInPlace, kOutOfPlace}) {
    ProgramBuilder builder("alias", AllReduce(2), placement);
    const ChunkRef own = builder.Chunk(0, Buffer::kInput, 0);
    builder.Chunk(1, Buffer::kInput, 0).Copy(0, Buffer::kOutput, 0);
    own.Copy(1, Buffer::kOutput, 0);
    EXPECT_EQ(builder.Finish().has_value(), placement == kOutOfPlace);
  }
}

TEST(ProgramBuilder, RefusesInvalidOperations) {
  const auto refusal = [](auto use) {
    ProgramBuilder builder("bad", AllReduce(2, 4), kBoth);
    use(builder);
    return ErrorOf(builder);
  };
  using B = ProgramBuilder;
  EXPECT_THAT(refusal([](B& b) { b.Chunk(2, Buffer::kInput, 0); }), HasSubstr("no rank 2"));
  EXPECT_THAT(refusal([](B& b) { b.Chunk(0, Buffer::kInput, 3, 2); }),
              HasSubstr("there are no 2 chunks from i3 at rank 0"));
  EXPECT_THAT(refusal([](B& b) { b.Chunk(0, Buffer::kInput, 0, 0); }), HasSubstr("no 0 chunks"));
  EXPECT_THAT(refusal([](B& b) { b.Chunk(0, Buffer::kScratch, 7); }),
              HasSubstr("before anything was"));
  EXPECT_THAT(refusal([](B& b) { b.Chunk(0, Buffer::kScratch, 1 << 30); }), HasSubstr("no 1 chun"));
  EXPECT_THAT(refusal([](B& b) { b.Chunk(0, Buffer::kInput, 0).Copy(-1, Buffer::kOutput, 0); }),
              HasSubstr("no rank -1"));
  EXPECT_THAT(refusal([](B& b) { b.Chunk(0, Buffer::kInput, 0).Copy(1, Buffer::kOutput, 4); }),
              HasSubstr("o4 at rank 1"));
  EXPECT_THAT(refusal([](B& b) { b.Chunk(0, Buffer::kInput, 0).Copy(1, Buffer::kInput, 0); }),
              HasSubstr("input is read-only"));
  EXPECT_THAT(refusal([](B& b) { b.Chunk(0, Buffer::kInput, 0).Copy(1, Buffer::kOutput, 0, -2); }),
              HasSubstr("no channel -2"));
  EXPECT_THAT(refusal([](B& b) {
                b.Chunk(0, Buffer::kInput, 0, 2)
                    .ReduceTo(b.Chunk(1, Buffer::kInput, 0), Buffer::kOutput, 0);
              }),
              HasSubstr("cannot reduce 1 chunks onto 2"));
  EXPECT_THAT(refusal([](B& b) { b.Chunk(0, Buffer::kInput, 0, 2).Copy(0, Buffer::kOutput, 1); }),
              HasSubstr("overlaps the chunks that it is computed from"));
  EXPECT_THAT(refusal([](B& b) { const auto scope = b.Parallelize(0); }),
              HasSubstr("cannot parallelize 0 times"));
  EXPECT_THAT(refusal([](B& b) {
                const auto outer = b.Parallelize(16);
                const auto inner = b.Parallelize(8);
              }),
              HasSubstr("cannot parallelize 8 times inside 16 parallel instances"));
  ProgramBuilder other("other", AllReduce(2), kBoth);
  const ChunkRef foreign = other.Chunk(0, Buffer::kInput, 0);
  EXPECT_THAT(
      refusal([&](B& b) { b.Chunk(0, Buffer::kInput, 0).ReduceTo(foreign, Buffer::kOutput, 0); }),
      HasSubstr("is empty or belongs to another program"));
  ProgramBuilder nowhere("nowhere", AllReduce(2), {.in_place = false, .out_of_place = false});
  EXPECT_THAT(ErrorOf(nowhere), HasSubstr("supports neither calls in place nor out of place"));
}

TEST(ProgramBuilder, KeepsTheFirstErrorAndGoesOn) {
  ProgramBuilder builder("first", AllReduce(2), kBoth);
  builder.Chunk(5, Buffer::kInput, 0).Copy(0, Buffer::kOutput, 0).Reduce(ChunkRef());
  builder.Chunk(0, Buffer::kInput, 99).Copy(1, Buffer::kOutput, 0);
  EXPECT_THAT(ErrorOf(builder), HasSubstr("no rank 5"));
}

TEST(Lower, FusesTheHopsOfAChain) {
  ProgramBuilder builder("chain", AllReduce(4), kBoth);
  ChunkRef sum = builder.Chunk(0, Buffer::kInput, 0);
  for (int rank = 1; rank < 4; ++rank) {
    sum = builder.Chunk(rank, Buffer::kInput, 0).ReduceTo(sum, Buffer::kOutput, 0);
  }
  for (int rank = 2; rank >= 0; --rank) sum = sum.Copy(rank, Buffer::kOutput, 0);
  const auto dag = builder.Finish();
  ASSERT_TRUE(dag.has_value()) << dag.error().message;
  const auto fused = Lower(*dag);
  ASSERT_TRUE(fused.has_value()) << fused.error().message;
  const auto steps = [](const Program& program, std::size_t rank) {
    std::string text;
    for (const ThreadBlock& block : program.ranks[rank].blocks) text += "[" + StepsOf(block) + "]";
    return text;
  };
  // The partial sum is not stored: only the result is read at the end.
  EXPECT_EQ(steps(*fused, 0), "[s i0][r >o0]");
  EXPECT_EQ(steps(*fused, 1), "[rrs i0][rcs >o0]");
  EXPECT_EQ(steps(*fused, 3), "[rrcs i0 >o0]");
  const auto plain = Lower(*dag, {.fuse = false});
  ASSERT_TRUE(plain.has_value()) << plain.error().message;
  EXPECT_EQ(steps(*plain, 3), "[rrc i0 >o0][s o0]");
  EXPECT_EQ(CountSteps(*plain), 12);
}

TEST(Lower, GivesInstancesChannelsAndPartsOfTheirOwn) {
  ProgramBuilder builder(
      "parts", {.kind = CollectiveKind::kBroadcast, .ranks = 2, .chunks = 2, .root = 0}, kBoth);
  builder.Chunk(0, Buffer::kInput, 0, 2).Copy(0, Buffer::kOutput, 0);
  {
    const auto scope = builder.Parallelize(3);
    builder.Chunk(0, Buffer::kInput, 0).Copy(1, Buffer::kOutput, 0);
  }
  builder.Chunk(0, Buffer::kInput, 1).Copy(1, Buffer::kOutput, 1, 3);
  const auto program = Lower(*builder.Finish());
  ASSERT_TRUE(program.has_value()) << program.error().message;
  EXPECT_EQ(program->collective.chunks, 6);
  EXPECT_EQ(CountChannels(*program), 4);
  std::vector<std::pair<int, int>> sent;  // channel, chunks
  for (const ThreadBlock& block : program->ranks[0].blocks) {
    for (const Step& step : block.steps) {
      if (Sends(step.op)) sent.emplace_back(block.channel, step.count);
    }
  }
  EXPECT_THAT(sent, testing::UnorderedElementsAre(std::pair(0, 1), std::pair(1, 1), std::pair(2, 1),
                                                  std::pair(3, 3)));
}

TEST(Lower, RefusesMoreChannelsOrChunksThanThereAre) {
  ProgramBuilder channels("channels", AllReduce(2), kOutOfPlace);
  channels.Chunk(0, Buffer::kInput, 0).Copy(1, Buffer::kOutput, 0, 32);
  const auto refused = Lower(*channels.Finish());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);

  // The least common multiple of the numbers of instances exceeds the limit for cutting chunks,
  // although the product of the first few does not.
  ProgramBuilder chunks("chunks", AllReduce(2), kOutOfPlace);
  for (const int instances : {61, 59, 53, 47, 43, 41}) {
    const auto scope = chunks.Parallelize(instances);
    chunks.Chunk(0, Buffer::kInput, 0).Copy(1, Buffer::kScratch, instances);
  }
  const auto exhausted = Lower(*chunks.Finish());
  ASSERT_FALSE(exhausted.has_value());
  EXPECT_EQ(exhausted.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace espalier::program
