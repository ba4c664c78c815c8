#include "collective/program/mscclpp/plan_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "collective/program/mscclpp/knowledge.h"
#include "collective/program/mscclpp/plan_counts.h"
#include "collective/program/mscclpp/plan_memory.h"
#include "collective/program/mscclpp/plan_sync.h"

namespace espalier::program {
namespace {

constexpr std::int64_t kMaxCells = std::int64_t{1} << 21;
constexpr std::int64_t kMaxClocks = std::int64_t{1} << 25;
constexpr std::int64_t kMaxParts = 4096;

std::size_t At(std::int64_t i) { return static_cast<std::size_t>(i); }

// The least number of parts of a chunk of which every transfer moves whole ones; more than
// kMaxParts if there is none below.
std::int64_t CountParts(const ExecutionPlan& plan) {
  std::int64_t parts = 1;
  for (const PlanRank& rank : plan.ranks) {
    for (const auto& block : rank.blocks) {
      for (const PlanOperation& one : block) {
        parts = std::min(std::lcm(parts, std::int64_t{one.parts}), kMaxParts + 1);
      }
    }
  }
  return parts;
}

class Runner {
 public:
  Runner(const ExecutionPlan& plan, int parts, std::int64_t budget)
      : plan_(plan),
        budget_(budget),
        runs_(plan.alternates_scratch ? 3 : 2),
        sync_(plan),
        memory_(plan, parts, plan.alternates_scratch),
        is_queued_(sync_.block_count(), false) {
    result_.parts = parts;
  }

  PlanRunResult Run() {
    const Knowledge start = sync_.StartFirst();
    for (std::int32_t rank = 0; rank < plan_.collective.ranks; ++rank) {
      memory_.PrepareInput(rank, sync_.Caller(rank), start);
      WakeRank(rank);
      EndRuns(rank);  // if it has no operations
    }
    while (!queue_.empty() && !result_.violation) {
      const std::int32_t block = queue_.front();
      queue_.pop_front();
      is_queued_[At(block)] = false;
      RunBlock(block);
    }
    if (!result_.violation) CheckEnd();
    if (result_.violation) result_.transfers.clear();
    return std::move(result_);
  }

 private:
  // Ranks have few blocks, so all are woken.
  void WakeRank(std::int32_t rank) {
    const std::int32_t first = sync_.first_block(rank);
    budget_ -= sync_.blocks_of(rank);
    for (std::int32_t id = first; id < first + sync_.blocks_of(rank); ++id) {
      if (is_queued_[At(id)]) continue;
      is_queued_[At(id)] = true;
      queue_.push_back(id);
    }
  }

  void RunBlock(std::int32_t id) {
    PlanBlock& block = sync_.block(id);
    bool is_able = true;
    while (is_able && !block.has_ended() && !result_.violation) {
      const PlanOperation& operation = block.next();
      is_able = operation.action == PlanAction::kTransfer ? PerformTransfers(id, operation)
                                                          : sync_.Perform(id, operation);
      if (is_able) ++block.done;
      budget_ -= 1 + sync_.FetchCost();
      for (const std::int32_t rank : sync_.FetchWoken()) WakeRank(rank);
      if (sync_.violation()) result_.violation = sync_.violation();
      if (budget_ < 0 && !result_.violation) {
        result_.violation =
            MakeViolation(ViolationKind::kTooLarge, -1, -1, -1, "too much to verify");
      }
    }
    EndRuns(block.rank);
  }

  // Ends the rank's run, and starts the next one, where all blocks have ended.
  void EndRuns(std::int32_t rank) {
    while (sync_.run_of(rank) < runs_ && !result_.violation && sync_.HasEnded(rank)) {
      Knowledge end = sync_.EndRun(rank);
      if (auto conflict = memory_.PrepareInput(rank, sync_.Caller(rank), end)) {
        result_.violation =
            MakeViolation(ViolationKind::kRace, rank, -1, -1,
                          fmt::format("ends its run while {} may still use {}",
                                      sync_.Describe(conflict->other), conflict->what));
        return;
      }
      if (sync_.run_of(rank) == runs_) return;
      sync_.StartNext(rank, std::move(end));
      WakeRank(rank);
    }
  }

  bool PerformTransfers(std::int32_t id, const PlanOperation& operation) {
    const std::int32_t rank = sync_.block(id).rank;
    const int run = sync_.run_of(rank);
    for (const PlanTransfer& one : operation.transfers) {
      for (const PlanPlace& source : one.sources) {
        if (!one.waits_for_packets || !source.is_packet) continue;
        const auto range = Find(source, one, operation, run);
        budget_ -= range.size;
        if (memory_.FindMissingPacket(range, run)) return false;
      }
    }
    for (const PlanTransfer& one : operation.transfers) {
      Knowledge known = sync_.block(id).known;
      const Event by = sync_.NextTransfer(id, one, known);
      if (!PerformOne(id, one, operation, by, known)) return false;
      if (run == 0) {
        result_.transfers.push_back({rank, &one, operation.part, operation.parts});
      }
    }
    return true;
  }

  PlanMemory::Range Find(const PlanPlace& place, const PlanTransfer& transfer,
                         const PlanOperation& operation, int run) const {
    return memory_.Find(place, transfer.count, operation.part, operation.parts, run);
  }

  bool PerformOne(std::int32_t id, const PlanTransfer& one, const PlanOperation& operation,
                  const Event& by, const Knowledge& known) {
    std::vector<PlanMemory::Range> sources;
    std::vector<ChunkSet> values;
    for (const PlanPlace& source : one.sources) {
      const auto range = Find(source, one, operation, by.run);
      const bool waits = one.waits_for_packets && source.is_packet;
      budget_ -= range.size * range.width;
      if (auto conflict = memory_.Read(range, by, known, waits)) {
        return ReportConflict(id, "reads", *conflict);
      }
      values.resize(At(range.size));
      for (std::int64_t i = 0; i < range.size; ++i) {
        if (!AddTo(values[At(i)], memory_.At(range, i).value)) {
          return Report(ViolationKind::kDoubleReduction, id,
                        fmt::format("adds from {}{} of rank {} what the sum has already",
                                    BufferName(source.at.buffer), source.at.index, source.rank));
        }
      }
      sources.push_back(range);
    }
    const auto packets = LearnFromPackets(id, sources, by, known);
    for (const PlanPlace& place : one.destinations) {
      const auto range = Find(place, one, operation, by.run);
      budget_ -= range.size * range.width;
      if (!CheckDestination(id, range, sources)) return false;
      for (std::int64_t i = 0; i < range.size; ++i) {
        if (auto conflict = memory_.Write(memory_.Cell(range, i), by, *packets[At(i)])) {
          return ReportConflict(id, "writes", *conflict);
        }
        PlanCell& cell = memory_.At(range, i);
        cell.value = values[At(i)];
        if (place.is_packet) cell.packet = packets[At(i)];
      }
      if (place.is_packet) WakeRank(place.rank);
    }
    return true;
  }

  // What is known where each cell of the result is written. The thread that writes a cell has read
  // the packets of this cell before, and so has whoever reads the result as a packet.
  std::vector<std::shared_ptr<const Knowledge>> LearnFromPackets(
      std::int32_t id, const std::vector<PlanMemory::Range>& sources, const Event& by,
      const Knowledge& known) {
    std::vector<std::shared_ptr<const Knowledge>> learned;
    std::vector<std::shared_ptr<const Knowledge>> last;
    for (std::int64_t i = 0; i < sources.front().size; ++i) {
      std::vector<std::shared_ptr<const Knowledge>> packets;
      for (const PlanMemory::Range& source : sources) {
        packets.push_back(memory_.At(source, i).packet);
      }
      if (i > 0 && packets == last) {
        learned.push_back(learned.back());
        continue;
      }
      Knowledge own = known;
      for (const auto& packet : packets) {
        if (!packet) continue;
        own.LearnOrder(*packet);
        sync_.block(id).received.LearnOrder(*packet);
      }
      own.LearnOrder(by);
      budget_ -= sync_.actor_count() * static_cast<std::int64_t>(1 + sources.size());
      learned.push_back(std::make_shared<const Knowledge>(std::move(own)));
      last = std::move(packets);
    }
    return learned;
  }

  // Adds an input to a sum that does not have it.
  bool AddTo(ChunkSet& sum, const ChunkSet& more) {
    budget_ -= static_cast<std::int64_t>(sum.ranges().size() + more.ranges().size());
    auto both = ChunkSet::DisjointUnion(sum, more);
    if (!both) return false;
    sum = std::move(*both);
    return true;
  }

  bool CheckDestination(std::int32_t id, const PlanMemory::Range& to,
                        const std::vector<PlanMemory::Range>& sources) {
    if (!plan_.in_place && memory_.IsInput(to)) {
      return Report(ViolationKind::kWritesInput, id,
                    fmt::format("writes the input of rank {} out of place", to.rank));
    }
    for (const PlanMemory::Range& from : sources) {
      const bool overlaps = from.rank == to.rank && from.first != to.first &&
                            from.first < to.first + to.size * to.width &&
                            to.first < from.first + from.size * from.width;
      if (!overlaps) continue;
      return Report(ViolationKind::kRace, id, "reads a part of the chunks that it writes");
    }
    return true;
  }

  // Reports the next operation of a block; returns false.
  bool Report(ViolationKind kind, std::int32_t id, std::string_view what) {
    const PlanBlock& block = sync_.block(id);
    result_.violation = MakeViolation(kind, block.rank, block.number, block.next().number, what);
    return false;
  }

  bool ReportConflict(std::int32_t id, std::string_view verb, const PlanConflict& conflict) {
    if (conflict.kind == ViolationKind::kUninitialised) {
      return Report(conflict.kind, id,
                    fmt::format("{} {} before anything was written there", verb, conflict.what));
    }
    const bool is_before = conflict.other.run < sync_.run_of(sync_.block(id).rank);
    return Report(
        conflict.kind, id,
        fmt::format("{} {} while {} may use it{}", verb, conflict.what,
                    sync_.Describe(conflict.other), is_before ? " in the run before" : ""));
  }

  void CheckEnd() {
    constexpr int kShown = 4;
    std::int32_t first = -1;
    std::string text;
    int stuck = 0;
    for (std::int32_t id = 0; At(id) < sync_.block_count(); ++id) {
      const PlanBlock& block = sync_.block(id);
      if (block.has_ended()) continue;
      if (first < 0) first = id;
      if (stuck++ < kShown) text += (stuck > 1 ? ", " : "") + sync_.DescribeWait(block);
    }
    if (first < 0) return;
    if (stuck > kShown) text += fmt::format(", and {} more", stuck - kShown);
    Report(ViolationKind::kDeadlock, first, "never runs: " + text);
  }

  const ExecutionPlan& plan_;
  std::int64_t budget_;
  int runs_;
  PlanRunResult result_;
  PlanSync sync_;
  PlanMemory memory_;
  std::deque<std::int32_t> queue_;
  std::vector<bool> is_queued_;
};

}  // namespace

PlanRunResult RunPlan(const ExecutionPlan& plan, std::int64_t budget) {
  PlanRunResult refused;
  refused.violation = CheckPlanCounts(plan);
  if (refused.violation) return refused;
  const std::int64_t parts = CountParts(plan);
  const bool is_large =
      parts > kMaxParts || PlanSync::CountClocks(plan) > kMaxClocks ||
      PlanMemory::CountCells(plan, static_cast<int>(std::min(parts, kMaxParts)),
                             plan.alternates_scratch) > std::min(kMaxCells, budget);
  if (!is_large) return Runner(plan, static_cast<int>(parts), budget).Run();
  refused.violation = MakeViolation(ViolationKind::kTooLarge, -1, -1, -1, "too much to verify");
  return refused;
}

}  // namespace espalier::program
