#include "collective/runtime/program/tiles.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "collective/algorithms/algorithm.h"

namespace espalier::runtime {
namespace {

using program::Buffer;
using program::Location;
using reduce::DataType;

// A transport of which only the sizes are used.
class NoTransport : public transport::Transport {
 public:
  NoTransport(int rank, std::size_t slot_bytes, std::size_t message_bytes)
      : rank_(rank), slot_bytes_(slot_bytes), message_bytes_(message_bytes) {}
  int rank() const override { return rank_; }
  int size() const override { return 4; }
  std::size_t slot_bytes() const override { return slot_bytes_; }
  std::size_t message_bytes() const override { return message_bytes_; }
  int slots() const override { return 2; }
  Result<void> Connect(std::span<const transport::Endpoint>, transport::Deadline) override {
    return {};
  }
  transport::Outbox& outbox(transport::Endpoint) override { std::abort(); }
  transport::Inbox& inbox(transport::Endpoint) override { std::abort(); }
  Result<void> Wait(transport::Deadline) override { return {}; }
  Result<void> Flush(transport::Deadline) override { return {}; }
  void Abort(const Error&) override {}

 private:
  int rank_;
  std::size_t slot_bytes_;
  std::size_t message_bytes_;
};

program::Program Make(const char* algorithm) {
  return *algorithms::MakeAlgorithm(algorithm, {.ranks = 4, .pieces = 1, .fifo_slots = 2});
}

Tiling TilingOf(const program::Program& program, int rank, std::size_t message_bytes = 128) {
  return {program, NoTransport(rank, 4096, message_bytes), std::pmr::get_default_resource()};
}

struct Memory {
  explicit Memory(std::size_t elements) : in(elements), out(elements, -1) {
    std::iota(in.begin(), in.end(), 0);
  }
  Operands Of(std::size_t elements) {
    return {.input = reinterpret_cast<const std::byte*>(in.data()),
            .output = reinterpret_cast<std::byte*>(out.data()),
            .elements = elements,
            .type = DataType::kI32};
  }
  std::vector<std::int32_t> in;
  std::vector<std::int32_t> out;
};

// Every byte of a call is in one chunk of one tile.
TEST(Tiling, CutsChunksIntoTilesOfTheMessageSize) {
  const program::Program ring = Make("allreduce-ring-chunked");
  Tiling tiling = TilingOf(ring, 1);
  EXPECT_EQ(tiling.tile_bytes(), 128U);
  Memory memory(400);  // four chunks of 100 elements
  const Operands cut = tiling.Cut(memory.Of(400));
  EXPECT_EQ(cut.output, reinterpret_cast<std::byte*>(memory.out.data()));
  std::vector<int> covered(1600);
  for (const Tile& tile : tiling.tiles()) {
    EXPECT_LE(tile.bytes, 128U);
    for (int chunk = 0; chunk < 4; ++chunk) {
      const Location place = {Buffer::kOutput, chunk};
      const auto begin = static_cast<std::size_t>(tile.Find(place) - cut.output);
      for (std::size_t i = 0; i < tile.BytesOf(place); ++i) ++covered[begin + i];
    }
  }
  EXPECT_EQ(covered, std::vector<int>(1600, 1));
  EXPECT_EQ(tiling.tiles().size(), 4U);  // 3 x 128 and 16 bytes of each chunk
}

TEST(Tiling, HasATileForTheTailAndCopiesItBack) {
  const program::Program ring = Make("allreduce-ring-chunked");
  Tiling tiling = TilingOf(ring, 2);
  Memory memory(10);
  const Operands operands = memory.Of(10);
  const Operands cut = tiling.Cut(operands);
  ASSERT_EQ(tiling.tiles().size(), 2U);
  const Tile& tail = tiling.tiles().back();
  // Elements 8 and 9, one for each chunk, then zeros.
  for (int chunk = 0; chunk < 4; ++chunk) {
    std::int32_t element = -1;
    std::memcpy(&element, tail.Find({Buffer::kInput, chunk}), sizeof(element));
    EXPECT_EQ(element, chunk < 2 ? 8 + chunk : 0);
    element = 100 + chunk;
    std::memcpy(tail.Find({Buffer::kOutput, chunk}), &element, sizeof(element));
  }
  tiling.CopyOut(cut, operands);
  EXPECT_EQ(memory.out, (std::vector<std::int32_t>{-1, -1, -1, -1, -1, -1, -1, -1, 100, 101}));
}

TEST(Tiling, HasATileForACallWithoutData) {
  const program::Program ring = Make("allreduce-ring-chunked");
  Tiling tiling = TilingOf(ring, 0);
  tiling.Cut({.type = DataType::kI32});
  ASSERT_EQ(tiling.tiles().size(), 1U);
  EXPECT_EQ(tiling.tiles().front().bytes, 0U);
}

TEST(Tiling, HasAsManyTilesAsTheLongestPartAndLessOfShorterOnes) {
  const program::Program ring = Make("allgather-ring");
  Tiling tiling = TilingOf(ring, 1);
  Memory memory(200);
  const std::vector<std::size_t> bounds = {0, 10, 60, 60, 160};
  Operands operands = memory.Of(160);
  operands.bounds = bounds;
  tiling.Cut(operands);
  EXPECT_EQ(tiling.tiles().size(), 4U);  // rank 3 has 400 bytes
  for (std::size_t part = 0; part < 4; ++part) {
    std::size_t bytes = 0;
    for (const Tile& tile : tiling.tiles()) {
      const Location place = {Buffer::kOutput, static_cast<std::int32_t>(part)};
      EXPECT_EQ(tile.Find(place) - operands.output,
                static_cast<std::ptrdiff_t>(4 * bounds[part] + bytes));
      bytes += tile.BytesOf(place);
    }
    EXPECT_EQ(bytes, 4 * (bounds[part + 1] - bounds[part])) << part;
  }
  EXPECT_EQ(tiling.OutputElements(operands), 50U);
}

TEST(Tiling, CountsTheOutputsOfItsRank) {
  Memory memory(16);
  const Operands four = memory.Of(4);
  const program::Program gather = Make("allgather-ring");
  EXPECT_EQ(TilingOf(gather, 1).OutputElements(four), 16U);
  const program::Program scatter = Make("reduce-scatter-ring");
  EXPECT_EQ(TilingOf(scatter, 1).OutputElements(four), 4U);
  Operands none = four;
  none.output = nullptr;
  EXPECT_EQ(TilingOf(scatter, 1).OutputElements(none), 0U);
}

// A program that must not overwrite its input works on a copy if the call is in place.
TEST(Tiling, WorksOnACopyIfTheProgramCannotWorkInPlace) {
  program::Program ring = Make("allreduce-ring-chunked");
  ring.placement.in_place = false;
  Tiling tiling = TilingOf(ring, 0);
  Memory memory(8);
  Operands operands = memory.Of(8);
  operands.input = operands.output;
  const Operands cut = tiling.Cut(operands);
  EXPECT_EQ(cut.output, operands.output);
  ASSERT_NE(cut.input, operands.input);
  EXPECT_EQ(std::memcmp(cut.input, operands.output, 32), 0);

  ring.placement = {.in_place = true, .out_of_place = false};
  const Operands apart = memory.Of(8);
  const Operands copied = tiling.Cut(apart);
  EXPECT_EQ(copied.input, copied.output);
  ASSERT_NE(copied.output, apart.output);
  std::memset(copied.output, 7, 32);
  tiling.CopyOut(copied, apart);
  EXPECT_EQ(std::memcmp(apart.output, copied.output, 32), 0);
}

TEST(Tile, IsWholeIfItsChunksAreContiguous) {
  std::byte memory[64];
  Tile tile = {.chunk_bytes = 16, .bytes = 16};
  tile.Of(Buffer::kInput) = {.base = memory, .segment_chunks = 2, .segment_bytes = 40};
  EXPECT_EQ(tile.Whole({Buffer::kInput, 0}, 2), memory);
  EXPECT_EQ(tile.Whole({Buffer::kInput, 1}, 2), nullptr);  // a gap of 8 bytes after chunk 1
  EXPECT_EQ(tile.Whole({Buffer::kInput, 2}, 1), memory + 40);
  tile.bytes = 8;  // a tile covers a part of each chunk only
  EXPECT_EQ(tile.Whole({Buffer::kInput, 0}, 2), nullptr);
}

}  // namespace
}  // namespace espalier::runtime
