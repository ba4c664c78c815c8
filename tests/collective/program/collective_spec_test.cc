#include "collective/program/collective_spec.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "collective/program/program.h"

namespace espalier::program {
namespace {

ChunkSet Sum(const CollectiveSpec& spec, const std::vector<InputChunk>& chunks) {
  ChunkSet sum;
  for (const InputChunk& chunk : chunks) {
    auto more = ChunkSet::DisjointUnion(sum, ChunkSet::Of(spec.Id(chunk)));
    EXPECT_TRUE(more.has_value());
    if (more) sum = *more;
  }
  return sum;
}

TEST(ChunkSet, AgreesWithASetOfNumbers) {
  std::mt19937_64 random(7);
  const auto numbers_of = [](const ChunkSet& set) {
    std::set<std::int64_t> numbers;
    for (const auto& range : set.ranges()) {
      for (std::int64_t id = range.begin; id < range.end; ++id) numbers.insert(id);
    }
    return numbers;
  };
  for (int round = 0; round < 2000; ++round) {
    ChunkSet sum;
    std::set<std::int64_t> numbers;
    for (int part = 0; part < 6; ++part) {
      const auto begin = static_cast<std::int64_t>(random() % 24);
      const auto end = begin + static_cast<std::int64_t>(random() % 5);
      std::set<std::int64_t> added = numbers;
      for (std::int64_t id = begin; id < end; ++id) added.insert(id);
      const bool disjoint = added.size() == numbers.size() + static_cast<std::size_t>(end - begin);
      const auto more = ChunkSet::DisjointUnion(sum, ChunkSet::Of(begin, end));
      ASSERT_EQ(more.has_value(), disjoint);
      if (!more) continue;
      sum = *more;
      numbers = added;
      ASSERT_EQ(numbers_of(sum), numbers);
      // Each set has one form: ranges are sorted and never touch.
      for (std::size_t i = 1; i < sum.ranges().size(); ++i) {
        ASSERT_LT(sum.ranges()[i - 1].end, sum.ranges()[i].begin);
      }
    }
  }
}

TEST(CollectiveSpec, SaysWhatEachOutputChunkIs) {
  using enum CollectiveKind;
  const CollectiveSpec reduced{.kind = kAllReduce, .ranks = 3, .chunks = 2};
  EXPECT_EQ(reduced.Expected(1, 1), Sum(reduced, {{0, 1}, {1, 1}, {2, 1}}));
  const CollectiveSpec gathered{.kind = kAllGather, .ranks = 3, .chunks = 6};
  EXPECT_EQ(gathered.Expected(0, 5), Sum(gathered, {{2, 1}}));
  EXPECT_EQ(gathered.InputChunks(0), 2);
  EXPECT_EQ(gathered.OutputChunks(0), 6);
  const CollectiveSpec scattered{
      .kind = kReduceScatter, .ranks = 3, .chunks = 4, .counts = {3, 0, 1}};
  EXPECT_EQ(scattered.Expected(2, 0), Sum(scattered, {{0, 3}, {1, 3}, {2, 3}}));
  EXPECT_EQ(scattered.OutputChunks(1), 0);
  EXPECT_EQ(scattered.FirstChunk(2), 3);
  const CollectiveSpec exchanged{.kind = kAllToAll, .ranks = 3, .chunks = 6};
  EXPECT_EQ(exchanged.Expected(1, 5), Sum(exchanged, {{2, 3}}));
  const CollectiveSpec next{.kind = kAllToNext, .ranks = 3, .chunks = 1};
  EXPECT_EQ(next.Expected(0, 0), std::nullopt);
  EXPECT_EQ(next.Expected(2, 0), Sum(next, {{1, 0}}));
  const CollectiveSpec custom{
      .kind = kCustom, .ranks = 2, .chunks = 2, .expected = {{1, 0, {{0, 1}, {1, 0}}}}};
  EXPECT_EQ(custom.Expected(1, 0), Sum(custom, {{0, 1}, {1, 0}}));
  EXPECT_EQ(custom.Expected(0, 0), std::nullopt);
}

TEST(CollectiveSpec, OfARootConcernsTheRoot) {
  using enum CollectiveKind;
  const CollectiveSpec sent{.kind = kBroadcast, .ranks = 3, .chunks = 2, .root = 1};
  EXPECT_EQ(sent.Expected(2, 1), Sum(sent, {{1, 1}}));
  EXPECT_TRUE(sent.HasInput(1));
  EXPECT_FALSE(sent.HasInput(0));
  const CollectiveSpec reduced{.kind = kReduce, .ranks = 3, .chunks = 2, .root = 1};
  EXPECT_EQ(reduced.Expected(0, 0), std::nullopt);
  EXPECT_EQ(reduced.Expected(1, 0), Sum(reduced, {{0, 0}, {1, 0}, {2, 0}}));
  EXPECT_EQ(reduced.OutputChunks(0), 0);
  // Without a root, the assumed root is an argument.
  const CollectiveSpec unknown{.kind = kBroadcast, .ranks = 3, .chunks = 1};
  EXPECT_EQ(unknown.Expected(0, 0, 2), Sum(unknown, {{2, 0}}));
}

TEST(CollectiveSpec, RefusesWhatIsNoCollective) {
  using enum CollectiveKind;
  for (const CollectiveSpec& spec : std::vector<CollectiveSpec>{
           {.ranks = 0},
           {.chunks = 0},
           {.kind = kAllReduce, .ranks = 2, .root = 0},
           {.kind = kBroadcast, .ranks = 2, .root = 2},
           {.kind = kAllGather, .ranks = 2, .chunks = 3},
           {.kind = kAllToAll, .ranks = 4, .chunks = 6},
           {.kind = kReduceScatter, .ranks = 2, .chunks = 3},
           {.kind = kReduceScatter, .ranks = 2, .chunks = 3, .counts = {1, 1}},
           {.kind = kReduceScatter, .ranks = 2, .chunks = 3, .counts = {3}},
           {.kind = kReduceScatter, .ranks = 2, .chunks = 3, .counts = {4, -1}},
           {.kind = kAllGather, .ranks = 2, .chunks = 4, .counts = {3, 1}},
           {.kind = kAllReduce, .ranks = 2, .expected = {{0, 0, {{0, 0}}}}},
           {.kind = kCustom, .ranks = 2, .expected = {{2, 0, {{0, 0}}}}},
           {.kind = kCustom, .ranks = 2, .expected = {{0, 0, {{0, 1}}}}},
           {.kind = kCustom, .ranks = 2, .expected = {{0, 0, {}}}},
           {.kind = kCustom, .ranks = 2, .expected = {{0, 0, {{1, 0}, {1, 0}}}}},
           {.kind = kCustom, .ranks = 2, .expected = {{1, 0, {{0, 0}}}, {0, 0, {{0, 0}}}}}}) {
    const auto checked = spec.Check();
    ASSERT_FALSE(checked.has_value()) << CollectiveKindName(spec.kind);
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument);
    EXPECT_FALSE(checked.error().message.empty());
  }
}

TEST(Program, NamesAreFoundAgain) {
  for (int op = 0; op <= static_cast<int>(OpCode::kReduce); ++op) {
    EXPECT_EQ(FindOpCode(OpCodeName(static_cast<OpCode>(op))), static_cast<OpCode>(op));
  }
  for (int kind = 0; kind <= static_cast<int>(CollectiveKind::kCustom); ++kind) {
    EXPECT_EQ(FindCollectiveKind(CollectiveKindName(static_cast<CollectiveKind>(kind))),
              static_cast<CollectiveKind>(kind));
  }
  for (const Buffer buffer : {Buffer::kInput, Buffer::kOutput, Buffer::kScratch}) {
    EXPECT_EQ(FindBuffer(BufferName(buffer)), buffer);
  }
  EXPECT_EQ(FindOpCode("ra"), std::nullopt);
  EXPECT_EQ(FindBuffer(""), std::nullopt);
  EXPECT_EQ(FindCollectiveKind("allreducer"), std::nullopt);
}

}  // namespace
}  // namespace espalier::program
