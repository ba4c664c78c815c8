#include "collective/algorithms/halving.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "collective/algorithms/parts.h"
#include "collective/algorithms/rings.h"

namespace espalier::algorithms {
namespace {

using program::Buffer;
using program::ChunkRef;
using program::CollectiveKind;
using program::CollectiveSpec;
using program::ProgramBuilder;

std::size_t At(int i) { return static_cast<std::size_t>(i); }

struct Range {
  int begin = 0;
  int end = 0;
  int count() const { return end - begin; }
};

Range Half(Range range, bool upper) {
  const int middle = range.begin + range.count() / 2;
  return upper ? Range{middle, range.end} : Range{range.begin, middle};
}

// Recursive halving and doubling on binary blocks. Each rank holds the range of chunks for which it
// is responsible and knows in which buffer they are.
class BinaryBlocks {
 public:
  // Reductions are stored in `results`.
  BinaryBlocks(ProgramBuilder& builder, int ranks, int chunks, Buffer results)
      : builder_(builder), results_(results) {
    int base = 0;
    for (int size = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))); size > 0;
         size /= 2) {
      if ((ranks & size) == 0) continue;
      blocks_.push_back({base, size});
      base += size;
    }
    held_.assign(At(ranks), {0, chunks});
    place_.assign(At(ranks), Buffer::kInput);
  }

  // Runs every block alone. `natural`: far pairs first, so that ranges are in the order of ranks.
  void ReduceScatter(bool natural) {
    for (const Block& block : blocks_) {
      const int steps = std::countr_zero(static_cast<unsigned>(block.size));
      for (int step = 0; step < steps; ++step) {
        ReduceStep(block, 1 << (natural ? steps - 1 - step : step));
      }
    }
  }

  // Reduces from the smallest block to the largest, which then has the full results.
  void ReduceBetweenBlocks() {
    for (std::size_t i = blocks_.size(); i-- > 1;) {
      ForOverlaps(blocks_[i], blocks_[i - 1], [this](int small, int large, Range range) {
        Accumulate(large, range,
                   builder_.Chunk(small, place_[At(small)], range.begin, range.count()));
      });
      MarkReduced(blocks_[i - 1]);
    }
  }

  // Copies the results back to the smaller blocks, into `results`.
  void CopyBetweenBlocks() {
    for (std::size_t i = 1; i < blocks_.size(); ++i) {
      ForOverlaps(blocks_[i], blocks_[i - 1], [this](int small, int large, Range range) {
        builder_.Chunk(large, results_, range.begin, range.count())
            .Copy(small, results_, range.begin);
      });
    }
  }

  void AllGather() {
    for (const Block& block : blocks_) {
      for (int distance = block.size / 2; distance > 0; distance /= 2) {
        GatherStep(block, distance);
      }
    }
  }

  // Visits the rank that holds each of the largest block's ranges.
  template <typename Visitor>
  void ForResults(Visitor visit) const {
    for (int rank = 0; rank < blocks_.front().size; ++rank) {
      if (held_[At(rank)].count() > 0) visit(rank, held_[At(rank)], place_[At(rank)]);
    }
  }

 private:
  struct Block {
    int base = 0;
    int size = 0;
  };

  // Adds the sent chunks to the range of `rank`, where its own part is.
  void Accumulate(int rank, Range range, const ChunkRef& sent) {
    builder_.Chunk(rank, place_[At(rank)], range.begin, range.count())
        .ReduceTo(sent, results_, range.begin);
  }

  void MarkReduced(const Block& block) {
    for (int i = 0; i < block.size; ++i) place_[At(block.base + i)] = results_;
  }

  void ReduceStep(const Block& block, int distance) {
    for (int i = 0; i < block.size; ++i) {
      const int rank = block.base + i;
      const Range kept = Half(held_[At(rank)], (i & distance) != 0);
      if (kept.count() == 0) continue;
      const int peer = block.base + (i ^ distance);
      Accumulate(rank, kept, builder_.Chunk(peer, place_[At(peer)], kept.begin, kept.count()));
    }
    for (int i = 0; i < block.size; ++i) {
      Range& held = held_[At(block.base + i)];
      held = Half(held, (i & distance) != 0);
    }
    MarkReduced(block);
  }

  // A range of the smaller block contains whole ranges of the larger one.
  template <typename Visitor>
  void ForOverlaps(const Block& small, const Block& large, Visitor visit) const {
    for (int i = 0; i < small.size; ++i) {
      const Range outer = held_[At(small.base + i)];
      for (int j = 0; j < large.size; ++j) {
        const Range inner = held_[At(large.base + j)];
        if (inner.count() == 0 || inner.begin < outer.begin || inner.end > outer.end) continue;
        visit(small.base + i, large.base + j, inner);
      }
    }
  }

  void GatherStep(const Block& block, int distance) {
    const std::vector<Range> before = held_;
    for (int i = 0; i < block.size; ++i) {
      const int rank = block.base + i;
      const Range sent = before[At(block.base + (i ^ distance))];
      Range& held = held_[At(rank)];
      held = {std::min(held.begin, sent.begin), std::max(held.end, sent.end)};
      if (sent.count() == 0) continue;
      builder_.Chunk(block.base + (i ^ distance), results_, sent.begin, sent.count())
          .Copy(rank, results_, sent.begin);
    }
  }

  ProgramBuilder& builder_;
  Buffer results_;
  std::vector<Block> blocks_;  // the largest first
  std::vector<Range> held_;
  std::vector<Buffer> place_;
};

int FloorPowerOfTwo(int ranks) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(std::max(ranks, 1))));
}

// Returns group sizes of at most `base` whose product is `ranks`; empty if there are none.
std::vector<int> FactorGroups(int ranks, int base) {
  std::vector<int> groups;
  while (ranks > 1) {
    int size = std::min(base, ranks);
    while (size > 1 && ranks % size != 0) --size;
    if (size <= 1) return {};
    groups.push_back(size);
    ranks /= size;
  }
  return groups;
}

// One step of bcube: ranks whose numbers differ in one digit form a group.
struct CubeStep {
  int size = 1;    // members of a group
  int stride = 1;  // distance between the numbers of its members
  int Digit(int rank) const { return rank / stride % size; }
  int Peer(int rank, int digit) const { return rank + (digit - Digit(rank)) * stride; }
};

// Returns the part of a range for which the member with this digit is responsible.
Range Part(Range range, const CubeStep& step, int digit) {
  const int count = range.count() / step.size;
  return {range.begin + digit * count, range.begin + (digit + 1) * count};
}

}  // namespace

Result<CollectiveSpec> DescribeAllReduceHalvingDoubling(const AlgorithmOptions& options) {
  return CollectiveSpec{.kind = CollectiveKind::kAllReduce,
                        .ranks = options.ranks,
                        .chunks = FloorPowerOfTwo(options.ranks)};
}

void BuildAllReduceHalvingDoubling(ProgramBuilder& builder, const AlgorithmOptions& options) {
  if (options.ranks == 1) return CopyOwn(builder, 1);
  BinaryBlocks blocks(builder, options.ranks, FloorPowerOfTwo(options.ranks), Buffer::kOutput);
  blocks.ReduceScatter(false);
  blocks.ReduceBetweenBlocks();
  blocks.CopyBetweenBlocks();
  blocks.AllGather();
}

Result<CollectiveSpec> DescribeAllReduceDoubling(const AlgorithmOptions& options) {
  return CollectiveSpec{.kind = CollectiveKind::kAllReduce, .ranks = options.ranks, .chunks = 1};
}

void BuildAllReduceDoubling(ProgramBuilder& builder, const AlgorithmOptions& options) {
  if (options.ranks == 1) return CopyOwn(builder, 1);
  const int paired = FloorPowerOfTwo(options.ranks);
  std::vector<ChunkRef> sums;
  for (int rank = 0; rank < paired; ++rank) {
    sums.push_back(builder.Chunk(rank, Buffer::kInput, 0));
  }
  for (int rank = paired; rank < options.ranks; ++rank) {
    ChunkRef& sum = sums[At(rank - paired)];
    sum = sum.ReduceTo(builder.Chunk(rank, Buffer::kInput, 0), Buffer::kOutput, 0);
  }
  int step = 0;  // and its place in scratch
  for (int distance = 1; distance < paired; distance *= 2, ++step) {
    std::vector<ChunkRef> theirs;
    for (int rank = 0; rank < paired; ++rank) {
      theirs.push_back(sums[At(rank ^ distance)].Copy(rank, Buffer::kScratch, step));
    }
    for (int rank = 0; rank < paired; ++rank) {
      ChunkRef& sum = sums[At(rank)];
      const bool is_input = step == 0 && rank + paired >= options.ranks;
      sum = is_input ? sum.ReduceTo(theirs[At(rank)], Buffer::kOutput, 0)
                     : sum.Reduce(theirs[At(rank)]);
    }
  }
  for (int rank = paired; rank < options.ranks; ++rank) {
    sums[At(rank - paired)].Copy(rank, Buffer::kOutput, 0);
  }
}

void BuildReduceScatterHalvingDoubling(ProgramBuilder& builder, const AlgorithmOptions& options) {
  const CollectiveSpec spec = *DescribeReduceScatter(options);
  if (options.ranks == 1) return CopyOwn(builder, spec.chunks);
  BinaryBlocks blocks(builder, options.ranks, spec.chunks, Buffer::kScratch);
  blocks.ReduceScatter(true);
  blocks.ReduceBetweenBlocks();
  blocks.ForResults([&](int rank, Range range, Buffer place) {
    for (int owner = 0; owner < options.ranks; ++owner) {
      const int first = spec.FirstChunk(owner);
      const Range part{std::max(range.begin, first),
                       std::min(range.end, first + spec.OutputChunks(owner))};
      if (part.count() <= 0) continue;
      builder.Chunk(rank, place, part.begin, part.count())
          .Copy(owner, Buffer::kOutput, part.begin - first);
    }
  });
}

Result<CollectiveSpec> DescribeAllReduceBcube(const AlgorithmOptions& options) {
  if (options.ranks > 1 && FactorGroups(options.ranks, options.base).empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} ranks are not a product of group sizes of at most {}",
                            options.ranks, options.base));
  }
  return CollectiveSpec{
      .kind = CollectiveKind::kAllReduce, .ranks = options.ranks, .chunks = options.ranks};
}

void BuildAllReduceBcube(ProgramBuilder& builder, const AlgorithmOptions& options) {
  if (options.ranks == 1) return CopyOwn(builder, 1);
  std::vector<CubeStep> steps;
  int stride = 1;
  for (const int size : FactorGroups(options.ranks, options.base)) {
    steps.push_back({size, stride});
    stride *= size;
  }
  std::vector<Range> held(At(options.ranks), {0, options.ranks});
  Buffer place = Buffer::kInput;
  for (const CubeStep& step : steps) {
    for (int rank = 0; rank < options.ranks; ++rank) {
      const Range kept = Part(held[At(rank)], step, step.Digit(rank));
      ChunkRef sum = builder.Chunk(rank, place, kept.begin, kept.count());
      for (int i = 1; i < step.size; ++i) {
        const int peer = step.Peer(rank, (step.Digit(rank) + i) % step.size);
        sum = sum.ReduceTo(builder.Chunk(peer, place, kept.begin, kept.count()), Buffer::kOutput,
                           kept.begin);
      }
    }
    for (int rank = 0; rank < options.ranks; ++rank) {
      held[At(rank)] = Part(held[At(rank)], step, step.Digit(rank));
    }
    place = Buffer::kOutput;
  }
  std::ranges::reverse(steps);
  for (const CubeStep& step : steps) {
    const std::vector<Range> before = held;
    for (int rank = 0; rank < options.ranks; ++rank) {
      const Range own = before[At(rank)];
      for (int i = 1; i < step.size; ++i) {
        const int peer = step.Peer(rank, (step.Digit(rank) + i) % step.size);
        builder.Chunk(rank, Buffer::kOutput, own.begin, own.count())
            .Copy(peer, Buffer::kOutput, own.begin);
      }
      const int begin = own.begin - step.Digit(rank) * own.count();
      held[At(rank)] = {begin, begin + step.size * own.count()};
    }
  }
}

Result<CollectiveSpec> DescribePairwiseExchange(const AlgorithmOptions& options) {
  const auto ranks = static_cast<unsigned>(options.ranks);
  const int most = std::countr_zero(ranks);
  const int steps = options.steps == 0 ? most : options.steps;
  if (!std::has_single_bit(ranks) || ranks < 2 || steps < 1 || steps > most) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("needs a power of two of at least 2 as the number of ranks (not {}) "
                            "and from 1 to its binary logarithm as the number of steps (not {})",
                            options.ranks, steps));
  }
  CollectiveSpec spec{.kind = CollectiveKind::kCustom, .ranks = options.ranks, .chunks = steps};
  for (int rank = 0; rank < options.ranks; ++rank) {
    for (int step = 0; step < steps; ++step) {
      spec.expected.push_back(
          {.rank = rank, .index = step, .sum_of = {{.rank = rank ^ (1 << step), .index = step}}});
    }
  }
  return spec;
}

void BuildPairwiseExchange(ProgramBuilder& builder, const AlgorithmOptions& options) {
  const int steps = DescribePairwiseExchange(options)->chunks;
  for (int step = 0; step < steps; ++step) {
    for (int rank = 0; rank < options.ranks; ++rank) {
      builder.Chunk(rank, Buffer::kInput, step).Copy(rank ^ (1 << step), Buffer::kOutput, step);
    }
  }
}

}  // namespace espalier::algorithms
