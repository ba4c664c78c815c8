#include "collective/program/collective_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/enum_names.h"

namespace espalier::program {
namespace {

constexpr EnumNames<CollectiveKind> kNames({
    {CollectiveKind::kAllReduce, "allreduce"},
    {CollectiveKind::kAllGather, "allgather"},
    {CollectiveKind::kReduceScatter, "reduce_scatter"},
    {CollectiveKind::kReduce, "reduce"},
    {CollectiveKind::kBroadcast, "broadcast"},
    {CollectiveKind::kAllToAll, "alltoall"},
    {CollectiveKind::kAllToNext, "alltonext"},
    {CollectiveKind::kBarrier, "barrier"},
    {CollectiveKind::kCustom, "custom"},
});

bool IsRooted(CollectiveKind kind) {
  return kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kReduce;
}

// Whether every rank has an equal share of the data as its input or output.
bool IsShared(const CollectiveSpec& spec) {
  return spec.kind == CollectiveKind::kAllGather || spec.kind == CollectiveKind::kAllToAll ||
         (spec.kind == CollectiveKind::kReduceScatter && spec.counts.empty());
}

tl::unexpected<Error> Refuse(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

Result<void> CheckCounts(const CollectiveSpec& spec) {
  if (spec.counts.empty()) return {};
  if (spec.kind != CollectiveKind::kReduceScatter) {
    return Refuse("only a reduce_scatter takes counts");
  }
  if (spec.counts.size() != static_cast<std::size_t>(spec.ranks)) {
    return Refuse(fmt::format("{} counts for {} ranks", spec.counts.size(), spec.ranks));
  }
  std::int64_t sum = 0;
  for (const int count : spec.counts) {
    if (count < 0) return Refuse("a count is negative");
    sum += count;
  }
  if (sum != spec.chunks) {
    return Refuse(fmt::format("the counts add up to {}, not to {} chunks", sum, spec.chunks));
  }
  return {};
}

Result<void> CheckExpected(const CollectiveSpec& spec) {
  if (spec.expected.empty()) return {};
  if (spec.kind != CollectiveKind::kCustom)
    return Refuse("only a custom collective takes `expected`");
  const auto is_outside = [&](int rank, int index) {
    return rank < 0 || rank >= spec.ranks || index < 0 || index >= spec.chunks;
  };
  std::pair previous(-1, -1);
  for (const Expectation& one : spec.expected) {
    if (is_outside(one.rank, one.index)) {
      return Refuse(fmt::format("there is no output chunk {} at rank {}", one.index, one.rank));
    }
    if (std::pair(one.rank, one.index) <= previous) {
      return Refuse(
          fmt::format("output chunk {} of rank {} is listed out of order or twice in `expected`",
                      one.index, one.rank));
    }
    previous = {one.rank, one.index};
    std::vector<InputChunk> sum = one.sum_of;
    std::ranges::sort(sum);
    if (sum.empty() || std::ranges::adjacent_find(sum) != sum.end()) {
      return Refuse(
          fmt::format("output chunk {} of rank {} is expected to be the sum of no chunks, or of "
                      "one chunk twice",
                      one.index, one.rank));
    }
    for (const InputChunk& chunk : one.sum_of) {
      if (is_outside(chunk.rank, chunk.index)) {
        return Refuse(
            fmt::format("there is no input chunk {} at rank {}", chunk.index, chunk.rank));
      }
    }
  }
  return {};
}

}  // namespace

std::string_view CollectiveKindName(CollectiveKind kind) { return kNames.NameOf(kind); }

std::optional<CollectiveKind> FindCollectiveKind(std::string_view name) {
  return kNames.Find(name);
}

Result<void> CollectiveSpec::Check() const {
  if (ranks < 1) return Refuse("a collective needs at least one rank");
  if (chunks < 1) return Refuse("a collective needs at least one chunk");
  if (root != kNoRoot && (!IsRooted(kind) || root < 0 || root >= ranks)) {
    return Refuse(
        fmt::format("{} over {} ranks cannot have root {}", CollectiveKindName(kind), ranks, root));
  }
  if (IsShared(*this) && chunks % ranks != 0) {
    return Refuse(fmt::format("{} chunks cannot be divided evenly among {} ranks", chunks, ranks));
  }
  if (auto counted = CheckCounts(*this); !counted) return counted;
  return CheckExpected(*this);
}

int CollectiveSpec::InputChunks(int) const {
  return kind == CollectiveKind::kAllGather ? chunks / ranks : chunks;
}

int CollectiveSpec::OutputChunks(int rank) const {
  if (kind == CollectiveKind::kBarrier) return 0;
  if (kind == CollectiveKind::kReduce && root != kNoRoot && rank != root) return 0;
  if (kind != CollectiveKind::kReduceScatter) return chunks;
  return counts.empty() ? chunks / ranks : counts[static_cast<std::size_t>(rank)];
}

int CollectiveSpec::FirstChunk(int rank) const {
  if (counts.empty()) return rank * (chunks / ranks);
  return std::accumulate(counts.begin(), counts.begin() + rank, 0);
}

bool CollectiveSpec::HasInput(int rank) const {
  return kind != CollectiveKind::kBroadcast || root == kNoRoot || rank == root;
}

std::optional<ChunkSet> CollectiveSpec::Expected(int rank, int index, int assumed_root) const {
  const int the_root = root == kNoRoot ? assumed_root : root;
  const auto reduction = [&](int chunk) {
    return ChunkSet::Of(Id({0, chunk}), Id({0, chunk + 1}));
  };
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return reduction(index);
    case CollectiveKind::kReduce:
      if (rank != the_root) return std::nullopt;
      return reduction(index);
    case CollectiveKind::kReduceScatter:
      return reduction(FirstChunk(rank) + index);
    case CollectiveKind::kAllGather: {
      const int share = chunks / ranks;
      return ChunkSet::Of(Id({index / share, index % share}));
    }
    case CollectiveKind::kBroadcast:
      return ChunkSet::Of(Id({the_root, index}));
    case CollectiveKind::kAllToAll: {
      const int share = chunks / ranks;
      return ChunkSet::Of(Id({index / share, rank * share + index % share}));
    }
    case CollectiveKind::kAllToNext:
      if (rank == 0) return std::nullopt;
      return ChunkSet::Of(Id({rank - 1, index}));
    case CollectiveKind::kBarrier:
      return std::nullopt;
    case CollectiveKind::kCustom:
      break;
  }
  const auto found = std::ranges::lower_bound(
      expected, std::pair(rank, index), {},
      [](const Expectation& one) { return std::pair(one.rank, one.index); });
  if (found == expected.end() || found->rank != rank || found->index != index) return std::nullopt;
  ChunkSet sum;
  for (const InputChunk& chunk : found->sum_of) {
    // An expectation that counts a chunk twice cannot be met.
    auto more = ChunkSet::DisjointUnion(sum, ChunkSet::Of(Id(chunk)));
    if (!more) return ChunkSet();
    sum = std::move(*more);
  }
  return sum;
}

}  // namespace espalier::program
