#include "collective/program/passes/dependencies.h"

#include <algorithm>
#include <span>

#include "collective/program/memory_map.h"

namespace espalier::program {
namespace {

// The instruction that last wrote a chunk of memory and those that have read it since.
struct Cell {
  std::int32_t writer = kNone;
  std::vector<std::int32_t> readers;
};

class Tracker {
 public:
  explicit Tracker(InstructionDag& dag) : dag_(dag) {
    for (int rank = 0; rank < dag.collective.ranks; ++rank) {
      const MemoryMap& map = maps_.emplace_back(dag.collective, rank,
                                                dag.scratch_chunks[static_cast<std::size_t>(rank)],
                                                dag.placement.in_place);
      cells_.emplace_back(static_cast<std::size_t>(map.cells()));
    }
  }

  void Visit(std::int32_t id) {
    Instruction& instruction = dag_.instructions[static_cast<std::size_t>(id)];
    instruction.after.clear();
    instruction.source_writer = kNone;
    if (ReadsSource(instruction.op)) {
      FindSourceWriter(instruction);
      Read(id, instruction, instruction.source);
    }
    if (ReadsDestination(instruction.op)) Read(id, instruction, instruction.destination);
    if (WritesDestination(instruction.op)) Write(id, instruction);
    std::ranges::sort(instruction.after);
    instruction.after.erase(std::unique(instruction.after.begin(), instruction.after.end()),
                            instruction.after.end());
  }

 private:
  std::span<Cell> CellsAt(const Instruction& instruction, Location location) {
    const auto rank = static_cast<std::size_t>(instruction.rank);
    return std::span(cells_[rank])
        .subspan(static_cast<std::size_t>(maps_[rank].Cell(location)),
                 static_cast<std::size_t>(instruction.count));
  }

  void FindSourceWriter(Instruction& instruction) {
    const auto cells = CellsAt(instruction, instruction.source);
    const std::int32_t writer = cells.front().writer;
    if (writer == kNone ||
        !std::ranges::all_of(cells, [&](const Cell& cell) { return cell.writer == writer; })) {
      return;
    }
    const Instruction& source = dag_.instructions[static_cast<std::size_t>(writer)];
    if (source.destination == instruction.source && source.count == instruction.count) {
      instruction.source_writer = writer;
    }
  }

  void Read(std::int32_t id, Instruction& instruction, Location location) {
    for (Cell& cell : CellsAt(instruction, location)) {
      if (cell.writer != kNone) instruction.after.push_back(cell.writer);
      cell.readers.push_back(id);
    }
  }

  void Write(std::int32_t id, Instruction& instruction) {
    for (Cell& cell : CellsAt(instruction, instruction.destination)) {
      // If it was read since, the readers' edges imply the edge to the writer.
      if (cell.readers.empty() && cell.writer != kNone) instruction.after.push_back(cell.writer);
      for (const std::int32_t reader : cell.readers) {
        if (reader != id) instruction.after.push_back(reader);
      }
      cell.readers.clear();
      cell.writer = id;
    }
  }

  InstructionDag& dag_;
  std::vector<MemoryMap> maps_;
  std::vector<std::vector<Cell>> cells_;
};

}  // namespace

void FindDependencies(InstructionDag& dag) {
  Tracker tracker(dag);
  for (std::size_t i = 0; i < dag.instructions.size(); ++i) {
    tracker.Visit(static_cast<std::int32_t>(i));
  }
}

}  // namespace espalier::program
