#include "collective/runtime/program/tiles.h"

#include <algorithm>
#include <cstring>

#include "collective/reduce/reduce.h"
#include "common/base/check.h"

namespace espalier::runtime {
namespace {

using program::Buffer;
using program::CollectiveKind;

constexpr std::size_t kTileGranularity = 64;

// The bytes of each chunk in one message: messages have on average the size that the transport
// prefers, and the largest one fits a slot.
std::size_t TileBytesOf(const program::Program& program, const transport::Transport& transport) {
  const program::MessageCounts counts = program::CountMessages(program);
  const auto wanted =
      static_cast<std::size_t>(static_cast<double>(transport.message_bytes()) / counts.mean());
  const std::size_t most = transport.slot_bytes() / static_cast<std::size_t>(counts.largest);
  return std::min(std::max(wanted, kTileGranularity), most);
}

}  // namespace

std::byte* Tile::Find(program::Location location) const {
  const Layout& layout = Of(location.buffer);
  const auto index = static_cast<std::size_t>(location.index);
  if (!layout.bounds.empty()) {
    const std::size_t whole = (layout.bounds[index + 1] - layout.bounds[index]) * layout.element;
    return layout.base + (layout.bounds[index] - layout.bounds[0]) * layout.element +
           std::min(offset, whole);
  }
  return layout.base + index / layout.segment_chunks * layout.segment_bytes +
         index % layout.segment_chunks * chunk_bytes + offset;
}

std::size_t Tile::BytesOf(program::Location location) const {
  const Layout& layout = Of(location.buffer);
  if (layout.bounds.empty()) return bytes;
  const auto index = static_cast<std::size_t>(location.index);
  const std::size_t whole = (layout.bounds[index + 1] - layout.bounds[index]) * layout.element;
  return std::min(bytes, whole - std::min(whole, offset));
}

std::size_t Tile::BytesOf(const program::Step& step) const {
  program::Location location = program::WritesDestination(step.op) ? step.destination : step.source;
  std::size_t sum = 0;
  for (std::int32_t i = 0; i < step.count; ++i, ++location.index) sum += BytesOf(location);
  return sum;
}

std::byte* Tile::Whole(program::Location location, std::int32_t count) const {
  std::byte* const begin = Find(location);
  std::byte* end = begin;
  for (std::int32_t i = 0; i < count; ++i, ++location.index) {
    if (Find(location) != end) return nullptr;
    end += BytesOf(location);
  }
  return begin;
}

Tiling::Tiling(const program::Program& program, const transport::Transport& transport,
               std::pmr::memory_resource* memory)
    : program_(program),
      rank_(transport.rank()),
      tile_bytes_(TileBytesOf(program, transport)),
      tiles_(memory),
      scratch_(memory),
      tail_(memory),
      staging_(memory) {}

Operands Tiling::Cut(const Operands& operands) {
  if (operands.HasUnequalParts()) {
    CutUnequalParts(operands);
    return operands;
  }
  const Operands staged = Stage(operands);
  CutEqualParts(staged);
  return staged;
}

std::size_t Tiling::OutputElements(const Operands& operands) const {
  if (operands.HasUnequalParts()) return operands.PartOf(rank_);
  const bool has_output = ChunksOf(Buffer::kOutput) > 0 && operands.output != nullptr;
  return has_output ? SegmentsOf(Buffer::kOutput) * operands.elements : 0;
}

void Tiling::CopyOut(const Operands& cut, const Operands& operands) const {
  if (operands.HasUnequalParts()) return;
  CopyTailOut(cut);
  const std::size_t elements = OutputElements(operands);
  if (elements == 0 || cut.output == operands.output) return;
  reduce::Copy(cut.output, operands.output, elements * reduce::SizeOf(operands.type));
}

std::size_t Tiling::SegmentsOf(Buffer buffer) const {
  const CollectiveKind kind = program_.collective.kind;
  const bool is_shared = kind == CollectiveKind::kAllToAll ||
                         (kind == CollectiveKind::kAllGather && buffer == Buffer::kOutput) ||
                         (kind == CollectiveKind::kReduceScatter && buffer == Buffer::kInput);
  return is_shared ? static_cast<std::size_t>(program_.collective.ranks) : 1;
}

std::size_t Tiling::ChunksOf(Buffer buffer) const {
  switch (buffer) {
    case Buffer::kInput:
      return static_cast<std::size_t>(program_.collective.InputChunks(rank_));
    case Buffer::kOutput:
      return static_cast<std::size_t>(program_.collective.OutputChunks(rank_));
    case Buffer::kScratch:
      break;
  }
  return static_cast<std::size_t>(code().scratch_chunks);
}

// The number of chunks into which Operands::elements are cut.
std::size_t Tiling::ChunksPerShare() const {
  const program::CollectiveSpec& spec = program_.collective;
  const bool is_shared = spec.kind == CollectiveKind::kAllToAll ||
                         spec.kind == CollectiveKind::kAllGather ||
                         spec.kind == CollectiveKind::kReduceScatter;
  return static_cast<std::size_t>(is_shared ? spec.chunks / spec.ranks : spec.chunks);
}

void Tiling::CutEqualParts(const Operands& operands) {
  const std::size_t element = reduce::SizeOf(operands.type);
  const std::size_t share = ChunksPerShare();
  const std::size_t whole = operands.elements / share;  // elements of a chunk
  Tile tile;
  tile.chunk_bytes = whole * element;
  const std::size_t segment_bytes = operands.elements * element;
  // Programs write to the input only if it is also the output.
  tile.Of(Buffer::kInput) = {const_cast<std::byte*>(operands.input), share, segment_bytes};
  tile.Of(Buffer::kOutput) = {operands.output, share, segment_bytes};
  scratch_.resize(std::max(scratch_.size(), ChunksOf(Buffer::kScratch) * tile.chunk_bytes));
  tile.Of(Buffer::kScratch) = {scratch_.data(), ChunksOf(Buffer::kScratch), 0};
  CutChunks(tile, element);
  const std::size_t rest = operands.elements % share;
  if (rest != 0) AddTail(operands, whole, rest);
  if (tiles_.empty()) tiles_.push_back(tile);  // messages without data
}

void Tiling::CutChunks(Tile whole, std::size_t element) {
  std::size_t limit = tile_bytes_;
  limit -= limit % (limit > kTileGranularity ? kTileGranularity : element);
  tiles_.clear();
  for (; whole.offset < whole.chunk_bytes; whole.offset += whole.bytes) {
    whole.bytes = std::min(limit, whole.chunk_bytes - whole.offset);
    tiles_.push_back(whole);
  }
}

// The longest part determines the number of tiles.
void Tiling::CutUnequalParts(const Operands& operands) {
  const int ranks = program_.collective.ranks;
  ESPALIER_CHECK(ChunksPerShare() == 1 && program_.placement.in_place &&
                     program_.placement.out_of_place &&
                     ChunksOf(Buffer::kScratch) <= static_cast<std::size_t>(ranks),
                 "program={}", program_.name);
  const std::size_t element = reduce::SizeOf(operands.type);
  const auto own = operands.bounds.subspan(static_cast<std::size_t>(rank_), 2);
  const auto layout = [&](std::byte* base, std::span<const std::size_t> bounds) {
    return Tile::Layout{.base = base, .bounds = bounds, .element = element};
  };
  Tile tile;
  for (int rank = 0; rank < ranks; ++rank) {
    tile.chunk_bytes = std::max(tile.chunk_bytes, operands.PartOf(rank) * element);
  }
  if (ChunksOf(Buffer::kScratch) > 0) {
    scratch_.resize(std::max(scratch_.size(), operands.elements * element));
  }
  const bool gathers = program_.collective.kind == CollectiveKind::kAllGather;
  tile.Of(Buffer::kInput) =
      layout(const_cast<std::byte*>(operands.input), gathers ? own : operands.bounds);
  tile.Of(Buffer::kOutput) = layout(operands.output, gathers ? operands.bounds : own);
  tile.Of(Buffer::kScratch) = layout(scratch_.data(), operands.bounds);
  CutChunks(tile, element);
  if (tiles_.empty()) tiles_.push_back(tile);  // messages without data
}

bool Tiling::IsInPlace(const Operands& operands) const {
  const std::size_t before = operands.BeginOf(rank_) * reduce::SizeOf(operands.type);
  switch (program_.collective.kind) {
    case CollectiveKind::kAllGather:
      return operands.input == operands.output + before;
    case CollectiveKind::kReduceScatter:
      return operands.output == operands.input + before;
    default:
      return operands.input == operands.output;
  }
}

// Adds a tile of one element per chunk: the elements of each segment beyond share x whole, then
// zeros.
void Tiling::AddTail(const Operands& operands, std::size_t whole, std::size_t rest) {
  const std::size_t element = reduce::SizeOf(operands.type);
  const std::size_t share = ChunksPerShare();
  const std::size_t input = ChunksOf(Buffer::kInput) * element;
  const std::size_t output = ChunksOf(Buffer::kOutput) * element;
  tail_.assign(input + output + ChunksOf(Buffer::kScratch) * element, std::byte{0});
  std::byte* inputs = tail_.data();
  std::byte* outputs = tail_.data() + input;
  if (IsInPlace(operands)) {
    const CollectiveKind kind = program_.collective.kind;
    const std::size_t part = static_cast<std::size_t>(rank_) * share * element;
    outputs = tail_.data() + (kind == CollectiveKind::kReduceScatter ? part : 0);
    inputs = tail_.data() + (kind == CollectiveKind::kAllGather ? part : 0);
  }
  Tile tile;
  tile.chunk_bytes = element;
  tile.bytes = element;
  tile.Of(Buffer::kInput) = {inputs, share, share * element};
  tile.Of(Buffer::kOutput) = {outputs, share, share * element};
  tile.Of(Buffer::kScratch) = {tail_.data() + input + output, ChunksOf(Buffer::kScratch), 0};
  if (operands.input != nullptr) {
    for (std::size_t s = 0; s < SegmentsOf(Buffer::kInput); ++s) {
      const std::size_t first = s * operands.elements + whole * share;
      std::memcpy(inputs + s * share * element, operands.input + first * element, rest * element);
    }
  }
  tiles_.push_back(tile);
}

void Tiling::CopyTailOut(const Operands& operands) const {
  const std::size_t share = ChunksPerShare();
  const std::size_t rest = operands.elements % share;
  if (rest == 0 || operands.output == nullptr || ChunksOf(Buffer::kOutput) == 0) return;
  const std::size_t element = reduce::SizeOf(operands.type);
  const std::byte* from = tiles_.back().Of(Buffer::kOutput).base;
  for (std::size_t s = 0; s < SegmentsOf(Buffer::kOutput); ++s) {
    const std::size_t first = (s + 1) * operands.elements - rest;
    std::memcpy(operands.output + first * element, from + s * share * element, rest * element);
  }
}

// Copies the input if the program does not support the call's buffer placement.
Operands Tiling::Stage(const Operands& operands) {
  const bool in_place = IsInPlace(operands);
  const program::BufferPlacement& placement = program_.placement;
  if (in_place ? placement.in_place : placement.out_of_place) return operands;
  const std::size_t share = operands.elements * reduce::SizeOf(operands.type);
  const std::size_t input = SegmentsOf(Buffer::kInput) * share;
  const std::size_t output =
      ChunksOf(Buffer::kOutput) > 0 ? SegmentsOf(Buffer::kOutput) * share : 0;
  staging_.resize(std::max(staging_.size(), std::max(input, output)));
  Operands staged = operands;
  if (in_place) {
    staged.input = staging_.data();
  } else {
    const std::size_t part = share * static_cast<std::size_t>(rank_);
    const CollectiveKind kind = program_.collective.kind;
    staged.output = staging_.data() + (kind == CollectiveKind::kReduceScatter ? part : 0);
    staged.input = staging_.data() + (kind == CollectiveKind::kAllGather ? part : 0);
  }
  if (operands.input != nullptr && input > 0) {
    reduce::Copy(operands.input, const_cast<std::byte*>(staged.input), input);
  }
  return staged;
}

}  // namespace espalier::runtime
