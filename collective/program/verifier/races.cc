#include "collective/program/verifier/races.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "collective/program/memory_map.h"

namespace espalier::program {
namespace {

constexpr std::int64_t kMaxClocks = std::int64_t{1} << 28;  // 1 GiB

std::size_t At(std::int32_t id) { return static_cast<std::size_t>(id); }

// Vector clocks for one rank: by node, the steps of each of the rank's blocks that are known to
// have happened before.
class RankRaces {
 public:
  RankRaces(const Program& program, const ProgramIndex& index, const Execution& run,
            std::int32_t rank)
      : program_(program),
        index_(index),
        run_(run),
        rank_(rank),
        first_block_(index.first_block[At(rank)]),
        width_(At(index.first_block[At(rank) + 1] - first_block_)),
        clocks_(index.block_of_node.size() * width_, 0) {}

  std::optional<Violation> Run() {
    for (const std::int32_t node : run_.order) SetClock(node);
    if (program_.collective.kind == CollectiveKind::kBarrier) {
      if (auto violation = CheckBarrier()) return violation;
    }
    for (const bool in_place : {true, false}) {
      if (!(in_place ? program_.placement.in_place : program_.placement.out_of_place)) continue;
      if (auto violation = CheckAccesses(in_place)) return violation;
    }
    return std::nullopt;
  }

 private:
  std::span<std::int32_t> Clock(std::int32_t node) {
    return std::span(clocks_).subspan(At(node) * width_, width_);
  }

  void Join(std::span<std::int32_t> clock, std::int32_t node) {
    const auto other = Clock(node);
    for (std::size_t i = 0; i < width_; ++i) clock[i] = std::max(clock[i], other[i]);
  }

  void SetClock(std::int32_t node) {
    const ProgramIndex::Block& block = index_.blocks[At(index_.BlockOf(node))];
    const auto clock = Clock(node);
    if (node > block.first_node) Join(clock, node - 1);
    for (const Dependency& on : index_.StepOf(node).after) {
      const std::int32_t other = index_.first_block[At(block.rank)] + on.block;
      Join(clock, index_.blocks[At(other)].first_node + on.step);
    }
    if (run_.received_of[At(node)] != -1) Join(clock, run_.received_of[At(node)]);
    if (block.rank == rank_) clock[At(block.number)] = node - block.first_node + 1;
  }

  // Checks that a step of this rank precedes a step of every other rank.
  std::optional<Violation> CheckBarrier() {
    std::vector<bool> reached(program_.ranks.size(), false);
    reached[At(rank_)] = true;
    for (std::size_t node = 0; node < index_.block_of_node.size(); ++node) {
      const auto id = static_cast<std::int32_t>(node);
      const auto clock = Clock(id);
      if (std::ranges::any_of(clock, [](std::int32_t steps) { return steps > 0; })) {
        reached[At(index_.blocks[At(index_.BlockOf(id))].rank)] = true;
      }
    }
    const auto missed = std::ranges::find(reached, false);
    if (missed == reached.end()) return std::nullopt;
    return MakeViolation(ViolationKind::kPostcondition,
                         static_cast<std::int32_t>(missed - reached.begin()), -1, -1,
                         fmt::format("may finish before rank {} has begun", rank_));
  }

  struct Cell {
    std::int32_t writer = -1;
    std::vector<std::int32_t> readers;  // nodes since that write; the last of each block
  };

  std::optional<Violation> CheckAccesses(bool in_place) {
    const MemoryMap map(program_.collective, rank_, program_.ranks[At(rank_)].scratch_chunks,
                        in_place);
    cells_.assign(At(map.cells()), {});
    for (const std::int32_t node : run_.order) {
      if (index_.blocks[At(index_.BlockOf(node))].rank != rank_) continue;
      const Step& step = index_.StepOf(node);
      std::optional<Violation> race;
      if (ReadsSource(step.op)) race = Read(node, map.Cell(step.source), step);
      if (!race && ReadsDestination(step.op)) race = Read(node, map.Cell(step.destination), step);
      if (!race && WritesDestination(step.op)) race = Write(node, map.Cell(step.destination), step);
      if (race) return race;
    }
    return std::nullopt;
  }

  bool IsBefore(std::int32_t earlier, std::int32_t later) {
    const ProgramIndex::Block& block = index_.blocks[At(index_.BlockOf(earlier))];
    return Clock(later)[At(block.number)] > earlier - block.first_node;
  }

  std::optional<Violation> Check(std::int32_t earlier, std::int32_t later, bool earlier_writes,
                                 bool later_writes) {
    if (earlier == -1 || earlier == later || IsBefore(earlier, later)) return std::nullopt;
    const ProgramIndex::Block& block = index_.blocks[At(index_.BlockOf(earlier))];
    return index_.ViolationAt(
        ViolationKind::kRace, later,
        fmt::format("{} what step {} of block {} {}, and the two accesses are unordered",
                    later_writes ? "writes" : "reads", earlier - block.first_node, block.number,
                    earlier_writes ? "writes" : "reads"));
  }

  std::optional<Violation> Read(std::int32_t node, int first, const Step& step) {
    for (std::int32_t i = 0; i < step.count; ++i) {
      Cell& cell = cells_[At(first + i)];
      if (auto race = Check(cell.writer, node, true, false)) return race;
      const auto same_block = std::ranges::find_if(cell.readers, [&](std::int32_t reader) {
        return index_.BlockOf(reader) == index_.BlockOf(node);
      });
      if (same_block != cell.readers.end()) {
        *same_block = node;
      } else {
        cell.readers.push_back(node);
      }
    }
    return std::nullopt;
  }

  std::optional<Violation> Write(std::int32_t node, int first, const Step& step) {
    for (std::int32_t i = 0; i < step.count; ++i) {
      Cell& cell = cells_[At(first + i)];
      if (auto race = Check(cell.writer, node, true, true)) return race;
      for (const std::int32_t reader : cell.readers) {
        if (auto race = Check(reader, node, false, true)) return race;
      }
      cell.readers.clear();
      cell.writer = node;
    }
    return std::nullopt;
  }

  const Program& program_;
  const ProgramIndex& index_;
  const Execution& run_;
  std::int32_t rank_;
  std::int32_t first_block_;
  std::size_t width_;
  std::vector<std::int32_t> clocks_;
  std::vector<Cell> cells_;
};

}  // namespace

std::optional<Violation> FindRace(const Program& program, const ProgramIndex& index,
                                  const Execution& run, std::int64_t& budget) {
  for (std::size_t i = 0; i < program.ranks.size(); ++i) {
    const auto blocks = index.first_block[i + 1] - index.first_block[i];
    const std::int64_t clocks = static_cast<std::int64_t>(index.block_of_node.size()) * blocks;
    budget -= clocks;
    if (budget < 0 || clocks > kMaxClocks) {
      return MakeViolation(ViolationKind::kTooLarge, -1, -1, -1, "too much to verify");
    }
    if (auto violation = RankRaces(program, index, run, static_cast<std::int32_t>(i)).Run()) {
      return violation;
    }
  }
  return std::nullopt;
}

}  // namespace espalier::program
