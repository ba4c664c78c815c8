#include "collective/program/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace espalier::program {
namespace {

constexpr std::int64_t kNever = -1;
constexpr int kMaxScratch = 1 << 24;
constexpr int kMaxInstances = 64;
constexpr std::size_t kMaxOperations = 1 << 21;
constexpr std::int64_t kMaxCells = 1 << 24;

std::string Describe(int rank, Location location, int count) {
  return fmt::format("{} chunk{} from {}{} at rank {}", count, count == 1 ? "" : "s",
                     BufferName(location.buffer), location.index, rank);
}

bool Overlap(Location a, Location b, int count) {
  return a.buffer == b.buffer && a != b && a.index < b.index + count && b.index < a.index + count;
}

}  // namespace

ChunkRef ChunkRef::Copy(int rank, Buffer buffer, int index, int channel) const {
  if (builder_ == nullptr) return {};
  return builder_->Add({.source_rank = rank_,
                        .rank = rank,
                        .source = location_,
                        .destination = {buffer, index},
                        .count = count_,
                        .channel = channel},
                       *this, nullptr);
}

ChunkRef ChunkRef::Reduce(const ChunkRef& other, int channel) const {
  return ReduceTo(other, location_.buffer, location_.index, channel);
}

ChunkRef ChunkRef::ReduceTo(const ChunkRef& other, Buffer buffer, int index, int channel) const {
  if (builder_ == nullptr) return {};
  return builder_->Add({.reduces = true,
                        .source_rank = other.rank_,
                        .rank = rank_,
                        .source = other.location_,
                        .operand = location_,
                        .destination = {buffer, index},
                        .count = count_,
                        .channel = channel},
                       other, this);
}

ProgramBuilder::ParallelScope::ParallelScope(ProgramBuilder& builder, int instances)
    : builder_(builder), outer_(builder.instances_) {
  if (instances < 1 || instances > kMaxInstances / outer_) {
    builder_.AddError(
        fmt::format("cannot parallelize {} times inside {} parallel instances", instances, outer_));
    return;
  }
  builder_.instances_ *= instances;
}

ProgramBuilder::ParallelScope::~ParallelScope() { builder_.instances_ = outer_; }

ProgramBuilder::ProgramBuilder(std::string name, CollectiveSpec collective,
                               BufferPlacement placement)
    : dag_{.name = std::move(name), .collective = std::move(collective), .placement = placement} {
  if (auto checked = dag_.collective.Check(); !checked) {
    AddError(checked.error().message);
    return;
  }
  if (!placement.in_place && !placement.out_of_place) {
    AddError("the program supports neither calls in place nor out of place");
  }
  std::int64_t cells = 0;
  for (int rank = 0; rank < dag_.collective.ranks && cells <= kMaxCells; ++rank) {
    cells += dag_.collective.InputChunks(rank) + dag_.collective.OutputChunks(rank);
  }
  if (cells > kMaxCells) {
    AddError("too many chunks in all ranks' buffers", ErrorCode::kResourceExhausted);
    return;
  }
  dag_.scratch_chunks.resize(static_cast<std::size_t>(dag_.collective.ranks));
  if (placement.in_place) AddMemory(true);
  if (placement.out_of_place) AddMemory(false);
}

void ProgramBuilder::AddMemory(bool in_place) {
  Memory memory{.in_place = in_place};
  const CollectiveSpec& spec = dag_.collective;
  for (int rank = 0; rank < spec.ranks; ++rank) {
    const MemoryMap& map = memory.maps.emplace_back(spec, rank, 0, in_place);
    auto& written = memory.written.emplace_back(static_cast<std::size_t>(map.cells()), kNever);
    for (int chunk = 0; spec.HasInput(rank) && chunk < spec.InputChunks(rank); ++chunk) {
      written[static_cast<std::size_t>(map.Cell({Buffer::kInput, chunk}))] = 0;
    }
  }
  memories_.push_back(std::move(memory));
}

void ProgramBuilder::AddError(std::string message, ErrorCode code) {
  if (error_) return;
  if (!dag_.ops.empty()) message = fmt::format("after {} operations: {}", dag_.ops.size(), message);
  error_ = Error{code, fmt::format("{}: {}", dag_.name, message)};
}

// Also grows scratch memory if the location lies beyond it.
bool ProgramBuilder::IsInside(int rank, Location location, int count) {
  if (error_) return false;
  if (rank < 0 || rank >= dag_.collective.ranks) {
    AddError(fmt::format("there is no rank {}", rank));
    return false;
  }
  const auto at = static_cast<std::size_t>(rank);
  const bool grows = location.buffer == Buffer::kScratch && location.index >= 0 && count > 0 &&
                     location.index <= kMaxScratch - count;
  if (grows && location.index + count > dag_.scratch_chunks[at]) {
    dag_.scratch_chunks[at] = location.index + count;
    for (Memory& memory : memories_) {
      memory.maps[at] = MemoryMap(dag_.collective, rank, dag_.scratch_chunks[at], memory.in_place);
      memory.written[at].resize(static_cast<std::size_t>(memory.maps[at].cells()), kNever);
    }
  }
  const bool inside = count > 0 && std::ranges::all_of(memories_, [&](const Memory& memory) {
                        return memory.maps[at].Find(location, count).has_value();
                      });
  if (!inside) AddError(fmt::format("there are no {}", Describe(rank, location, count)));
  return inside;
}

ChunkRef ProgramBuilder::Chunk(int rank, Buffer buffer, int index, int count) {
  ChunkRef ref;
  ref.rank_ = rank;
  ref.location_ = {buffer, index};
  ref.count_ = count;
  ref.made_ = static_cast<std::int64_t>(dag_.ops.size());
  if (!IsInside(rank, ref.location_, count) || !CheckReadable(ref)) return {};
  ref.builder_ = this;
  return ref;
}

bool ProgramBuilder::CheckReadable(const ChunkRef& ref) {
  for (const Memory& memory : memories_) {
    const auto at = static_cast<std::size_t>(ref.rank_);
    const auto first = static_cast<std::size_t>(memory.maps[at].Cell(ref.location_));
    for (std::size_t i = 0; i < static_cast<std::size_t>(ref.count_); ++i) {
      const std::int64_t written = memory.written[at][first + i];
      if (written != kNever && written <= ref.made_) continue;
      AddError(fmt::format("{}: {}", Describe(ref.rank_, ref.location_, ref.count_),
                           written == kNever
                               ? "read before anything was written there"
                               : "the reference is stale, as the chunks were overwritten"));
      return false;
    }
  }
  return true;
}

bool ProgramBuilder::CheckPlaces(const ChunkOp& op) {
  if (!IsInside(op.rank, op.destination, op.count)) return false;
  if (op.channel < kAnyChannel) {
    AddError(fmt::format("there is no channel {}", op.channel));
    return false;
  }
  if (dag_.placement.out_of_place && op.destination.buffer == Buffer::kInput) {
    AddError(fmt::format("{}: written, but the input is read-only out of place",
                         Describe(op.rank, op.destination, op.count)));
    return false;
  }
  for (const Memory& memory : memories_) {
    const MemoryMap& map = memory.maps[static_cast<std::size_t>(op.rank)];
    const auto place = [&](Location location) {
      return Location{Buffer::kScratch, map.Cell(location)};
    };
    const Location to = place(op.destination);
    const bool is_local = op.source_rank == op.rank;
    const bool overlaps = (is_local && Overlap(place(op.source), to, op.count)) ||
                          (op.reduces && Overlap(place(op.operand), to, op.count)) ||
                          (op.reduces && is_local &&
                           (place(op.source) == to || place(op.source) == place(op.operand) ||
                            Overlap(place(op.source), place(op.operand), op.count)));
    if (!overlaps) continue;
    AddError(fmt::format("{}: overlaps the chunks that it is computed from",
                         Describe(op.rank, op.destination, op.count)));
    return false;
  }
  return true;
}

ChunkRef ProgramBuilder::Add(ChunkOp op, const ChunkRef& from, const ChunkRef* onto) {
  if (error_) return {};
  if (from.builder_ != this) {
    AddError("a chunk reference is empty or belongs to another program");
    return {};
  }
  if (onto != nullptr && onto->count_ != from.count_) {
    AddError(fmt::format("cannot reduce {} chunks onto {}", from.count_, onto->count_));
    return {};
  }
  if (!CheckReadable(from) || (onto != nullptr && !CheckReadable(*onto)) || !CheckPlaces(op)) {
    return {};
  }
  op.instances = instances_;
  ChunkRef ref;
  ref.builder_ = this;
  ref.rank_ = op.rank;
  ref.location_ = op.destination;
  ref.count_ = op.count;
  // A copy of chunks onto themselves does nothing.
  const bool is_nothing = !op.reduces && op.source_rank == op.rank &&
                          std::ranges::all_of(memories_, [&](const Memory& memory) {
                            const MemoryMap& map = memory.maps[static_cast<std::size_t>(op.rank)];
                            return map.Cell(op.source) == map.Cell(op.destination);
                          });
  if (!is_nothing && dag_.ops.size() == kMaxOperations) {
    AddError("too many operations", ErrorCode::kResourceExhausted);
    return {};
  }
  if (!is_nothing) {
    dag_.ops.push_back(op);
    for (Memory& memory : memories_) Write(memory, op);
  }
  ref.made_ = static_cast<std::int64_t>(dag_.ops.size());
  return ref;
}

void ProgramBuilder::Write(Memory& memory, const ChunkOp& op) {
  const auto at = static_cast<std::size_t>(op.rank);
  const MemoryMap& map = memory.maps[at];
  const int first = map.Cell(op.destination);
  if (!op.reduces && op.source_rank == op.rank && map.Cell(op.source) == first) return;
  std::fill_n(memory.written[at].begin() + first, op.count,
              static_cast<std::int64_t>(dag_.ops.size()));
}

Result<ChunkDag> ProgramBuilder::Finish() {
  if (error_) return tl::unexpected<Error>(*error_);
  return dag_;
}

}  // namespace espalier::program
