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

// The nodes that a rank's clocks cover: its own, or those of all ranks.
struct Scope {
  std::span<const std::int32_t> order;  // in that of the run
  std::int32_t first_node = 0;          // the least number
  bool has_messages = false;            // all ranks, and so the order that messages give
};

// Vector clocks for one rank: by node, the steps of each of the rank's blocks that are known to
// have happened before.
class RankRaces {
 public:
  RankRaces(const Program& program, const ProgramIndex& index, const Execution& run,
            const Scope& scope, std::span<const std::int32_t> own_order, std::int32_t rank)
      : program_(program),
        index_(index),
        run_(run),
        scope_(scope),
        own_order_(own_order),
        rank_(rank),
        first_block_(index.first_block[At(rank)]),
        width_(At(index.first_block[At(rank) + 1] - first_block_)),
        clocks_(scope.order.size() * width_, 0) {}

  std::optional<Violation> Run() {
    for (const std::int32_t node : scope_.order) SetClock(node);
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
    return std::span(clocks_).subspan(At(node - scope_.first_node) * width_, width_);
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
    if (scope_.has_messages && run_.received_of[At(node)] != -1)
      Join(clock, run_.received_of[At(node)]);
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
    for (const std::int32_t node : own_order_) {
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
  const Scope scope_;
  const std::span<const std::int32_t> own_order_;
  std::int32_t rank_;
  std::int32_t first_block_;
  std::size_t width_;
  std::vector<std::int32_t> clocks_;
  std::vector<Cell> cells_;
};

}  // namespace

// Problem: clocks of one rank over the nodes of all ranks take nodes x blocks, for all ranks
// together more than large programs allow. Idea: the passes order what may collide by dependencies
// within the rank, which clocks over the rank's own nodes show. They know less than the clocks over
// all nodes, so two accesses that they order are ordered, and a rank in which they find none that
// are not needs nothing else. The others, whose accesses messages order, pay the full price.
std::optional<Violation> FindRace(const Program& program, const ProgramIndex& index,
                                  const Execution& run, std::int64_t& budget) {
  std::vector<std::vector<std::int32_t>> orders(program.ranks.size());
  for (const std::int32_t node : run.order) {
    orders[At(index.blocks[At(index.BlockOf(node))].rank)].push_back(node);
  }
  const bool is_barrier = program.collective.kind == CollectiveKind::kBarrier;
  for (std::size_t i = 0; i < program.ranks.size(); ++i) {
    const std::span<const std::int32_t> own = orders[i];
    if (own.empty() && !is_barrier) continue;
    std::optional<Violation> violation;
    for (const bool has_messages : {false, true}) {
      if (!has_messages && is_barrier) continue;
      const Scope scope = {.order = has_messages ? std::span<const std::int32_t>(run.order) : own,
                           .first_node = has_messages ? 0 : *std::ranges::min_element(own),
                           .has_messages = has_messages};
      const auto blocks = index.first_block[i + 1] - index.first_block[i];
      const std::int64_t clocks = static_cast<std::int64_t>(scope.order.size()) * blocks;
      budget -= clocks;
      if (budget < 0 || clocks > kMaxClocks) {
        return MakeViolation(ViolationKind::kTooLarge, -1, -1, -1, "too much to verify");
      }
      const auto rank = static_cast<std::int32_t>(i);
      violation = RankRaces(program, index, run, scope, own, rank).Run();
      if (!violation) break;
    }
    if (violation) return violation;
  }
  return std::nullopt;
}

}  // namespace espalier::program
