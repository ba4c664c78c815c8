#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective/program/chunk_set.h"
#include "collective/program/memory_map.h"
#include "collective/program/mscclpp/knowledge.h"
#include "collective/program/mscclpp/plan.h"
#include "collective/program/verifier/structure.h"

namespace espalier::program {

// A part of a chunk: the unit in which accesses are followed.
struct PlanCell {
  Event written;            // none: never
  bool is_packet = false;   // it holds (half of) a packet, with the run of `written` as its flag
  ChunkSet value;           // the input chunks whose sum it is; empty: nothing was written
  std::vector<Event> read;  // since it was written, the last of each actor
  std::shared_ptr<const Knowledge> packet;  // what the packet's sender knew
};

// An access that conflicts with another one.
struct PlanConflict {
  ViolationKind kind = ViolationKind::kRace;
  std::string what;  // "i3 of rank 1"
  Event other;       // the access that it conflicts with; none for a read before any write
};

// The memory of all ranks while a plan runs on symbolic values: who wrote and read each cell last.
// An access is a race if its actor does not know the conflicting one before it.
class PlanMemory {
 public:
  // Cuts every chunk into `parts` cells. With `alternates`, scratch memory has two halves.
  PlanMemory(const ExecutionPlan& plan, int parts, bool alternates);
  // The number of cells that this takes.
  static std::int64_t CountCells(const ExecutionPlan& plan, int parts, bool alternates);

  // Cells of one place: cell i of the range is at first + i * width, with `width` cells each.
  struct Range {
    std::int32_t rank = 0;
    std::int64_t first = 0;
    std::int64_t size = 0;
    int width = 1;
  };
  Range Find(const PlanPlace& place, int count, int part, int parts, int run) const;
  bool IsInput(const Range& range) const;

  PlanCell& At(const Range& range, std::int64_t i);
  static Range Cell(const Range& range, std::int64_t i) {
    return {range.rank, range.first + i * range.width, 1, range.width};
  }
  // Whether all packets of the range carry the flag of this run; else the first cell that does not.
  std::optional<std::int64_t> FindMissingPacket(const Range& range, int run) const;

  std::optional<PlanConflict> Read(const Range& range, const Event& by, const Knowledge& known,
                                   bool waits_for_packets);
  // Checks the write; the caller then sets the values.
  std::optional<PlanConflict> Write(const Range& range, const Event& by, const Knowledge& known);

  // The caller of a rank reads results and writes new input, before the first run and after each.
  // Afterwards the rank's output holds nothing, except where it is its input.
  std::optional<PlanConflict> PrepareInput(std::int32_t rank, const Event& by,
                                           const Knowledge& known);

 private:
  struct Rank {
    MemoryMap map;  // in cells, of input and output
    std::int64_t half = 0;
    std::vector<PlanCell> cells;
  };
  std::string Describe(const Range& range, std::int64_t cell) const;

  CollectiveSpec spec_;  // in cells
  int parts_;
  bool in_place_;
  bool alternates_;
  std::vector<Rank> ranks_;
};

// The collective, with every chunk cut into parts.
CollectiveSpec Refine(const CollectiveSpec& spec, int parts);

}  // namespace espalier::program
