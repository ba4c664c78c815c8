#include "collective/program/mscclpp/plan_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace espalier::program {
namespace {

std::size_t Index(std::int64_t i) { return static_cast<std::size_t>(i); }

// Keeps the last event of each actor.
void AddRead(std::vector<Event>& reads, const Event& by) {
  const auto same = std::ranges::find(reads, by.actor, &Event::actor);
  if (same == reads.end()) {
    reads.push_back(by);
  } else {
    *same = by;
  }
}

}  // namespace

CollectiveSpec Refine(const CollectiveSpec& spec, int parts) {
  CollectiveSpec refined = spec;
  refined.chunks *= parts;
  for (int& count : refined.counts) count *= parts;
  return refined;
}

std::int64_t PlanMemory::CountCells(const ExecutionPlan& plan, int parts, bool alternates) {
  std::int64_t cells = 0;
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const auto number = static_cast<int>(rank);
    cells += std::int64_t{plan.collective.InputChunks(number)} +
             plan.collective.OutputChunks(number) +
             std::int64_t{plan.ranks[rank].scratch_chunks} * 2 * (alternates ? 2 : 1);
  }
  return cells * parts;
}

PlanMemory::PlanMemory(const ExecutionPlan& plan, int parts, bool alternates)
    : spec_(Refine(plan.collective, parts)),
      parts_(parts),
      in_place_(plan.in_place),
      alternates_(alternates) {
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    Rank& made = ranks_.emplace_back(
        Rank{.map = MemoryMap(spec_, static_cast<int>(rank), 0, in_place_), .cells = {}});
    made.half = std::int64_t{plan.ranks[rank].scratch_chunks} * 2 * parts;
    made.cells.resize(Index(made.map.cells() + made.half * (alternates ? 2 : 1)));
  }
}

PlanMemory::Range PlanMemory::Find(const PlanPlace& place, int count, int part, int parts,
                                   int run) const {
  const Rank& rank = ranks_[Index(place.rank)];
  const std::int64_t all = std::int64_t{count} * parts_;
  const std::int64_t skipped = all * part / parts;
  Range range{.rank = place.rank, .size = all * (part + 1) / parts - skipped};
  const std::int64_t index = std::int64_t{place.at.index} * parts_ + skipped;
  range.width = place.is_packet ? 2 : 1;
  if (place.at.buffer == Buffer::kScratch) {
    const std::int64_t half = alternates_ ? run % 2 * rank.half : 0;
    range.first = rank.map.cells() + half + index * range.width;
  } else {
    range.first = rank.map.Cell({place.at.buffer, 0}) + index;
  }
  return range;
}

bool PlanMemory::IsInput(const Range& range) const {
  const Rank& rank = ranks_[Index(range.rank)];
  const std::int64_t input = rank.map.Cell({Buffer::kInput, 0});
  return range.first >= input && range.first < input + spec_.InputChunks(range.rank);
}

PlanCell& PlanMemory::At(const Range& range, std::int64_t i) {
  return ranks_[Index(range.rank)].cells[Index(range.first + i * range.width)];
}

std::string PlanMemory::Describe(const Range& range, std::int64_t cell) const {
  const Rank& rank = ranks_[Index(range.rank)];
  const std::int64_t scratch = cell - rank.map.cells();
  if (scratch >= 0) {
    const std::int64_t index = (rank.half == 0 ? scratch : scratch % rank.half) / parts_;
    return range.width == 2 ? fmt::format("packet {} of rank {}", index / 2, range.rank)
                            : fmt::format("s{} of rank {}", index, range.rank);
  }
  for (const Buffer buffer : {Buffer::kInput, Buffer::kOutput}) {
    const int chunks =
        buffer == Buffer::kInput ? spec_.InputChunks(range.rank) : spec_.OutputChunks(range.rank);
    if (chunks == 0) continue;
    const std::int64_t index = cell - rank.map.Cell({buffer, 0});
    if (index < 0 || index >= chunks) continue;
    return fmt::format("{}{} of rank {}", BufferName(buffer), index / parts_, range.rank);
  }
  return fmt::format("memory of rank {}", range.rank);
}

std::optional<std::int64_t> PlanMemory::FindMissingPacket(const Range& range, int run) const {
  const auto& cells = ranks_[Index(range.rank)].cells;
  for (std::int64_t i = range.first; i < range.first + range.size * range.width; ++i) {
    const PlanCell& cell = cells[Index(i)];
    if (!cell.is_packet || cell.written.run != run) return i;
  }
  return std::nullopt;
}

std::optional<PlanConflict> PlanMemory::Read(const Range& range, const Event& by,
                                             const Knowledge& known, bool waits_for_packets) {
  auto& cells = ranks_[Index(range.rank)].cells;
  for (std::int64_t i = range.first; i < range.first + range.size * range.width; ++i) {
    PlanCell& cell = cells[Index(i)];
    const bool is_packet = range.width == 2;
    if (cell.value.empty() && !cell.is_packet) {
      return PlanConflict{ViolationKind::kUninitialised, Describe(range, i), {}};
    }
    if (cell.is_packet != is_packet) {
      return PlanConflict{ViolationKind::kUninitialised,
                          Describe(range, i) + (is_packet ? ", which holds data that is no packet,"
                                                          : ", which holds packets,"),
                          cell.written};
    }
    if (!waits_for_packets && !known.Sees(cell.written)) {
      return PlanConflict{ViolationKind::kRace, Describe(range, i), cell.written};
    }
    AddRead(cell.read, by);
  }
  return std::nullopt;
}

std::optional<PlanConflict> PlanMemory::Write(const Range& range, const Event& by,
                                              const Knowledge& known) {
  auto& cells = ranks_[Index(range.rank)].cells;
  for (std::int64_t i = range.first; i < range.first + range.size * range.width; ++i) {
    PlanCell& cell = cells[Index(i)];
    if (cell.written.actor >= 0 && !known.Sees(cell.written)) {
      return PlanConflict{ViolationKind::kRace, Describe(range, i), cell.written};
    }
    for (const Event& read : cell.read) {
      if (known.Follows(read)) continue;
      return PlanConflict{ViolationKind::kRace, Describe(range, i), read};
    }
    cell = {.written = by, .is_packet = range.width == 2, .value = {}, .read = {}, .packet = {}};
  }
  return std::nullopt;
}

std::optional<PlanConflict> PlanMemory::PrepareInput(std::int32_t rank, const Event& by,
                                                     const Knowledge& known) {
  Rank& own = ranks_[Index(rank)];
  const Range all{.rank = rank, .first = 0, .size = own.map.cells(), .width = 1};
  if (auto conflict = Write(all, by, known)) return conflict;
  for (int chunk = 0; chunk < spec_.InputChunks(rank) && spec_.HasInput(rank); ++chunk) {
    own.cells[Index(own.map.Cell({Buffer::kInput, chunk}))].value =
        ChunkSet::Of(spec_.Id({rank, chunk}));
  }
  return std::nullopt;
}

}  // namespace espalier::program
