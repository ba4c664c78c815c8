#include "collective/program/mscclpp/plan_counts.h"

#include <fmt/format.h>

#include <map>
#include <utility>
#include <vector>

namespace espalier::program {
namespace {

std::size_t At(std::int64_t i) { return static_cast<std::size_t>(i); }

struct Barrier {
  std::int32_t size = 0;
  std::int32_t users = 0;
  std::int64_t last_user = -1;
};

// What the blocks of a rank do together.
struct Counts {
  std::vector<std::int64_t> signals;  // by channel
  std::vector<std::int64_t> waits;
  std::vector<std::int64_t> releases;  // by semaphore, less acquisitions
  std::map<std::int32_t, Barrier> barriers;
};

std::optional<Violation> Refuse(ViolationKind kind, std::size_t rank, const std::string& what) {
  return MakeViolation(kind, static_cast<std::int32_t>(rank), -1, -1, what);
}

std::optional<Violation> CountBlock(const std::vector<PlanOperation>& block, std::size_t rank,
                                    std::int64_t number, Counts& counts) {
  for (const PlanOperation& one : block) {
    for (const std::int32_t channel : one.channels) {
      if (one.action == PlanAction::kSignal) ++counts.signals[At(channel)];
      if (one.action == PlanAction::kWait) ++counts.waits[At(channel)];
    }
    for (const std::int32_t semaphore : one.semaphores) {
      counts.releases[At(semaphore)] += one.action == PlanAction::kRelease ? 1 : -1;
    }
    if (one.action != PlanAction::kBarrier) continue;
    Barrier& barrier = counts.barriers[one.barrier];
    if (barrier.users > 0 && barrier.size != one.barrier_blocks) {
      return Refuse(ViolationKind::kStructure, rank,
                    fmt::format("barrier {} has two sizes", one.barrier));
    }
    barrier.size = one.barrier_blocks;
    if (barrier.last_user != number) ++barrier.users;
    barrier.last_user = number;
  }
  return std::nullopt;
}

std::optional<Violation> CheckRank(const ExecutionPlan& plan, const std::vector<Counts>& counts,
                                   std::size_t rank) {
  const PlanRank& own = plan.ranks[rank];
  for (std::size_t c = 0; c < own.channels.size(); ++c) {
    const PlanChannel& channel = own.channels[c];
    const std::int64_t heard =
        channel.other_end < 0 ? 0 : counts[At(channel.peer)].waits[At(channel.other_end)];
    if (counts[rank].signals[c] <= heard) continue;
    return Refuse(
        ViolationKind::kCountMismatch, rank,
        fmt::format(
            "signals {} times on {}, which waits {} times there", counts[rank].signals[c],
            DescribeChannel(plan, static_cast<std::int32_t>(rank), static_cast<std::int32_t>(c)),
            heard));
  }
  for (std::size_t s = 0; s < own.semaphores.size(); ++s) {
    const std::int64_t end = own.semaphores[s] + counts[rank].releases[s];
    // Below 0, a block waits for ever, which the run reports with its place.
    if (end == own.semaphores[s] || end < 0) continue;
    return Refuse(
        ViolationKind::kCountMismatch, rank,
        fmt::format("semaphore {} begins at {} and ends at {}", s, own.semaphores[s], end));
  }
  for (const auto& [id, barrier] : counts[rank].barriers) {
    if (barrier.users == barrier.size) continue;
    return Refuse(
        ViolationKind::kStructure, rank,
        fmt::format("barrier {} is of {} blocks, but {} use it", id, barrier.size, barrier.users));
  }
  return std::nullopt;
}

}  // namespace

std::optional<Violation> CheckPlanCounts(const ExecutionPlan& plan) {
  std::vector<Counts> counts;
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    Counts& own = counts.emplace_back();
    own.signals.resize(plan.ranks[r].channels.size());
    own.waits.resize(plan.ranks[r].channels.size());
    own.releases.resize(plan.ranks[r].semaphores.size());
    for (std::size_t b = 0; b < plan.ranks[r].blocks.size(); ++b) {
      const auto number = static_cast<std::int64_t>(b);
      if (auto found = CountBlock(plan.ranks[r].blocks[b], r, number, own)) return found;
    }
  }
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    if (auto found = CheckRank(plan, counts, r)) return found;
  }
  return std::nullopt;
}

std::string DescribeChannel(const ExecutionPlan& plan, std::int32_t rank, std::int32_t channel) {
  const PlanChannel& one = plan.ranks[At(rank)].channels[At(channel)];
  return fmt::format("a {} channel to rank {}", one.is_port ? "port" : "memory", one.peer);
}

}  // namespace espalier::program
